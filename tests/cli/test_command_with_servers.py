"""The command on real servers: logs in Kafka, Debezium's topics, and a table of PostgreSQL."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError
from cdcv2.logs.kafka import KafkaLog
from cdcv2.logs.remap_kafka import KafkaRemap
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from tests.children import CDCV2, started
from tests.cli.conftest import APPLE, HISTORY, MARKET, PRICES, Run, Said, bind, bound, encoded
from tests.cli.test_command_capture_edges import BEGUN, NOTIFIED
from tests.cli.test_uncovered import FIRST_OF_T, NAMED, SAID, WHOLE, OnRemap, change, end
from tests.topics import make_topics

pytestmark = pytest.mark.integration


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """The row type of prices, in a file."""
    path = tmp_path / "prices.avsc"
    path.write_text(json.dumps(PRICES.schema), "utf-8")
    return path


def written(broker: KafkaBroker, topic: str, *messages: Any) -> str:
    """A log of prices in a topic of two partitions; its name on the command line."""
    log = KafkaLog(topic, broker.bootstrap, PRICES, create=True, partitions=2, description=MARKET)
    for message in messages:
        log.send(message)
    log.flush()
    log.close()
    return f"kafka:{topic}"


def produce(broker: KafkaBroker, records: list[tuple[str, int, bytes | None, bytes | None]]) -> None:
    """Put records where they belong: topic, partition, key, value."""
    from confluent_kafka import Producer

    # Idempotent: otherwise a batch that must be sent again, as to a topic just made, comes after its successors.
    producer = Producer({
        "bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 1_000_000, "enable.idempotence": True,
    })  # fmt: skip
    for topic, partition, key, value in records:
        producer.produce(topic, partition=partition, key=key, value=value)
    assert 0 == producer.flush(240)


def test_a_log_in_kafka_is_read_as_one_in_files(
    run: Run, broker: KafkaBroker, schema: Path, prices: Path, tmp_path: Path
) -> None:
    """Verified, replayed, added up, and mangled into another topic and into a directory."""
    log, where = written(broker, "prices", *HISTORY), ["--bootstrap", broker.bootstrap, "--row", schema]

    said = run("verify", log, *where)
    assert (0, "complete through 9") == (said.code, said.out.splitlines()[-1])
    assert run("as-of", prices).out == run("as-of", log, *where).out
    assert run("replay", "--json", prices).code == run("replay", "--json", log, *where).code == 0
    assert "prices[" in run("inspect", "--brief", log, *where).out
    assert 0 == run("mangle", log, "kafka:{table}-copy", "--partitions", 3, *where).code
    assert 0 == run("mangle", log, tmp_path / "copy", *where).code
    for copy in (["kafka:prices-copy", *where], [tmp_path / "copy"]):
        assert 0 == run("verify", "--full", *copy).code
        assert run("as-of", prices).out == run("as-of", *copy).out
    together = run("verify", "prices=kafka:prices-copy", f"prices={prices}", *where)
    assert (0, "complete through 9") == (together.code, together.out.splitlines()[-1])
    assert 2 == run("mangle", log, "kafka:prices-copy", *where).code


def test_wrong_bytes_are_named_with_topic_partition_and_offset(run: Run, broker: KafkaBroker, schema: Path) -> None:
    """A foreign message, bytes left over, and another schema than the log's."""
    log, where = written(broker, "foreign", *HISTORY), ["--bootstrap", broker.bootstrap, "--row", schema]
    produce(broker, [("foreign", 0, None, b'{"op": "c"}'), ("foreign", 1, None, encoded(HISTORY[0]) + b"\x00")])
    said = run("verify", log, *where)

    assert (3, 2) == (said.code, said.out.count("not a message of this log at foreign["))
    assert 3 == run("replay", log, *where).code
    other = schema.with_name("other.avsc")
    other.write_text(json.dumps({"type": "record", "name": "r", "fields": [{"name": "x", "type": "boolean"}]}), "utf-8")
    wrong = run("verify", written(broker, "wrong-schema", *HISTORY), "--bootstrap", broker.bootstrap, "--row", other)
    assert (3, True) == (wrong.code, "at wrong-schema[" in wrong.out)


def test_contradictions_across_partitions_are_found(run: Run, broker: KafkaBroker, schema: Path) -> None:
    """With both positions; which is read first is not known, so nothing may be forgotten."""
    lies = Updates([(APPLE, 3, 1)]), Updates([(APPLE, 3, 2)]), Progress([0], [5], {3: 1})
    log = written(broker, "contradictory", *lies)
    said = run("verify", "--full", log, "--bootstrap", broker.bootstrap, "--row", schema)

    assert (3, 2) == (said.code, said.out.count("contradictory["))


def test_a_remap_in_kafka_is_asked_as_one_in_files(run: Run, broker: KafkaBroker, tmp_path: Path) -> None:
    """In both directions, and as it stands there."""
    log, files, where = KafkaRemap("remap", broker.bootstrap, create=True), bound(tmp_path / "remap"), "kafka:remap"
    bind(log)
    log.close()
    broker_words = ["--bootstrap", broker.bootstrap]

    for words in (["when", "orders=0@17", "bank=0/1B00"], ["where", "--at", 1999], ["inspect", "--bindings", "--json"]):
        expected, found = run(words[0], files, *words[1:]), run(words[0], where, *words[1:], *broker_words)
        assert (expected.code, expected.out) == (found.code, found.out)
    assert 2 == run("where", "kafka:nowhere", *broker_words).code


def test_topics_that_are_missing_or_unsafe_are_said(run: Run, broker: KafkaBroker, schema: Path) -> None:
    """A name that is wrong: 2. One that loses statements: 4, with the remedy."""
    where = ["--bootstrap", broker.bootstrap, "--row", schema]
    make_topics(broker.bootstrap, {"compacted": 1}, {"cleanup.policy": "compact"})
    missing, compacted = run("verify", "kafka:nowhere", *where), run("verify", "kafka:compacted", *where)

    assert (2, True) == (missing.code, "nowhere" in missing.err)
    assert (4, True) == (compacted.code, "compact" in compacted.err)


@pytest.fixture(scope="module")
def recorded(broker: KafkaBroker) -> list[dict[str, Any]]:
    """The recorded topics, in Kafka, as the connector left them; here under the prefix that they have."""
    path = Path(__file__).resolve().parents[2] / "cdcv2" / "demo" / "recorded" / "topics.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as dump:
        records = [json.loads(line) for line in dump]
    parts: dict[str, int] = {}
    for record in records:
        parts[record["topic"]] = max(parts.get(record["topic"], 0), record["partition"] + 1)
    make_topics(broker.bootstrap, parts)

    def raw(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    produce(broker, [(rec["topic"], rec["partition"], raw(rec["key"]), raw(rec["value"])) for rec in records])
    return records


def test_debeziums_topics_are_captured_from_kafka(
    run: Run, broker: KafkaBroker, recorded: list[dict[str, Any]], captured: Path, tmp_path: Path
) -> None:
    """The logs hold what those made of the dump hold."""
    into = tmp_path / "logs"
    said = run("capture", "kafka", "--bootstrap", broker.bootstrap, "--prefix", "clean_full", "--rows",
               captured / "rows", "--into", into)  # fmt: skip

    assert (0, True) == (said.code, said.out.startswith("complete through 102462312: 816 transactions")), said.err
    assert 0 == run("verify", "--full", into).code
    for table in ("public.orders", "public.order_items"):
        assert run("as-of", captured / "logs", "--table", table).out == run("as-of", into, "--table", table).out
    missing = run("capture", "kafka", "--bootstrap", broker.bootstrap, "--prefix", "nobody", "--rows",
                  captured / "rows", "--into", tmp_path / "none")  # fmt: skip
    assert (2, True) == (missing.code, "nobody.transaction" in missing.err)


def test_topics_whose_transactions_are_in_no_order_tell_it(
    run: Run, broker: KafkaBroker, recorded: list[dict[str, Any]], captured: Path, tmp_path: Path
) -> None:
    """Of a topic alone: no view of it, none of its copy, and inspect shows it."""
    kafka, row = ["--bootstrap", broker.bootstrap], captured / "rows" / "public.orders.avsc"
    # No record in it states that the snapshot is whole: the log's description shows it before it has anything.
    make_topics(broker.bootstrap, {"clean_full.notes": 1})
    said = run("capture", "kafka", *kafka, "--remap", tmp_path / "remap", "--prefix", "clean_full", "--rows",
               captured / "rows", "--into", "kafka:eager.{table}", "--ordering", "complete",
               "--notifications", "clean_full.notes")  # fmt: skip
    copied = run("mangle", "kafka:eager.public.orders", "kafka:eager.copy", "--row", row, *kafka)

    assert (1, 0) == (said.code, copied.code), said.err + copied.err
    for topic in ("eager.public.orders", "eager.copy"):
        (tmp_path / "view.yaml").write_text(
            f"materialization: m\nkafka: {{bootstrap: '{broker.bootstrap}'}}\n"
            f"logs: {{orders: {{kafka: {topic}, row: {row}}}}}\nbindings: {{log: orders, target: o, key: id}}\n"
            "target: {driver: lake, folder: lake}\nrecovery_log: r\n", "utf-8",
        )
        view = run("materialize", tmp_path / "view.yaml")
        assert (4, True) == (view.code, "a view of orders needs the state before each" in view.err), view.err
        assert "ordering  complete" in run("inspect", f"kafka:{topic}", "--row", row, "--limit", 1, *kafka).out
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_following_ends_when_it_is_told_to(
    run: Run, broker: KafkaBroker, recorded: list[Any], captured: Path, tmp_path: Path, sent: int, code: int
) -> None:
    """SIGTERM, and Ctrl-C: the logs are whole, and it can go on from there."""
    from tests.logs.polling import until

    into = tmp_path / "logs"
    call = (*CDCV2, "capture", "kafka", "--bootstrap", broker.bootstrap, "--prefix", "clean_full", "--rows",
            str(captured / "rows"), "--into", str(into), "--follow")  # fmt: skip
    with started(*call) as process:
        until(lambda: run("verify", into).out.endswith("complete through 102462312\n"), "all is captured")
        process.send_signal(sent)
        _, said = process.communicate(timeout=300)

    assert (code, False) == (process.returncode, "Traceback" in said), said
    assert 0 == run("verify", "--full", into).code


PIPELINE = """
pipeline: shop
kafka: {bootstrap: 'BROKER'}
sources:
  assumed: {prefix: clean_full}
  stated: {prefix: clean_full, notifications: clean_full.scans}
captures:
  all: {source: assumed, into: all, max-records: 700}
  some: {source: stated, into: some, max-records: 700, tables: [public.orders, public.order_items]}
views:
  copy:
    capture: all
    rows: 500
    bindings:
      - {log: public.orders, target: orders, key: [id]}
      - {log: public.pgbench_tellers, target: tellers, key: [tid]}
    target: {driver: lake, folder: copy}
    recovery_log: copy-recovery
  items:
    capture: some
    rows: 500
    bindings: [{log: public.order_items, target: items}]
    target: {driver: lake, folder: items}
    recovery_log: items-recovery
"""


def test_a_pipeline_that_is_killed_while_it_works_is_right_in_the_end(
    run: Run, broker: KafkaBroker, recorded: list[dict[str, Any]], captured: Path, tmp_path: Path
) -> None:
    """Killed in the middle of a capture's release, then in that of a view's transaction; with and without a stated
    snapshot."""
    from tests.logs.polling import until

    rows = Counter(rec["topic"] for rec in recorded if rec["value"] and '"op":"r"' in rec["value"])
    tables = {table: rows[f"clean_full.{table}"] for table in ("public.orders", "public.order_items")}
    make_topics(broker.bootstrap, {"clean_full.scans": 1})
    produce(broker, [("clean_full.scans", 0, None, value) for value in scans("clean_full", tables)])
    (tmp_path / "rows").symlink_to(captured / "rows")
    file = tmp_path / "shop.yaml"
    file.write_text(PIPELINE.replace("BROKER", broker.bootstrap), "utf-8")
    call = (*CDCV2, "run", str(file), "--follow")
    for crash in ("release.table-stated:3", "lake.staged"):
        with started(*call, env={**os.environ, "CDCV2_CRASH": crash, "CDCV2_CRASH_HOW": "kill"}) as process:
            text = remarks(process)
            assert -signal.SIGKILL == process.returncode, f"{crash}: {text}"
    with started(*call) as process:
        until(lambda: process.poll() is not None or all(
            reached(tmp_path / lake) == Antichain([102462313]) for lake in ("copy", "items")
        ), "both lakes have everything")  # fmt: skip
        process.send_signal(signal.SIGTERM)
        text = remarks(process)

    assert 0 == process.returncode, text
    assert [0, 0] == [run("compare", file, "--view", view).code for view in ("copy", "items")]
    read = (("all", "public.orders"), ("all", "public.pgbench_tellers"), ("some", "public.order_items"))
    for logs, table in read:
        expected, found = (run("as-of", one, "--table", table) for one in (captured / "logs", tmp_path / logs))
        assert (0, expected.out) == (found.code, found.out)


def remarks(process: subprocess.Popen[str]) -> str:
    """What it printed until it ended; if it does not end, it is killed, and this shows how far it was."""
    try:
        return process.communicate(timeout=240)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(process.communicate()[1])


def scans(connector: str, tables: dict[str, int]) -> list[bytes]:
    """The notifications of a snapshot that has so many rows of each table."""
    kinds: list[tuple[str, dict[str, object]]] = [("STARTED", {})]
    for table, rows in tables.items():
        scanned = {"scanned_collection": table, "total_rows_scanned": str(rows), "status": "SUCCEEDED"}
        kinds.append(("TABLE_SCAN_COMPLETED", scanned))
    return [
        json.dumps({
            "aggregate_type": "Initial Snapshot", "type": kind, "additional_data": {"connector_name": connector, **more}
        }).encode()
        for kind, more in (*kinds, ("COMPLETED", {}))
    ]


def reached(lake: Path) -> Antichain | None:
    """Up to where the lake is; None while there is none."""
    try:
        return open_lake(lake).frontier
    except MissingLogError:
        return None


def test_logs_in_kafka_are_kept_in_postgresql_and_pushed_to_kafka(
    run: Run, broker: KafkaBroker, schema: Path, prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a topic and a directory of one timeline into tables; and from the directory into a topic of changes."""
    written(broker, "kept", *HISTORY[:2], *PAIR)
    (tmp_path / "kafka.properties").write_text(f"bootstrap.servers={broker.bootstrap}\n", "utf-8")
    text = TABLES.replace("DIRECTORY", str(prices)).replace("SCHEMA", str(schema))
    (tmp_path / "tables.yaml").write_text(text, "utf-8")
    (tmp_path / "changes.yaml").write_text(CHANGES.replace("DIRECTORY", str(prices)), "utf-8")
    with Postgres() as postgres:
        for name, value in postgres.environment.items():
            monkeypatch.setenv(name, value)
        kept, again = run("materialize", tmp_path / "tables.yaml"), run("materialize", tmp_path / "tables.yaml")
        # Once the source's types are known, tables go on as they are, and the statement that alters them is printed.
        typed = json.loads(schema.read_text("utf-8"))
        for field in typed["fields"]:
            if field["name"] == "price":
                field["cdcv2.source"] = {"type": "date"}
        (tmp_path / "rows").mkdir()
        (tmp_path / "rows" / "kept.avsc").write_text(json.dumps(typed), "utf-8")
        # Its topic is named as commands name it, once the folder of row schemas is given.
        named = text.replace(f"{{kafka: kept, row: {schema}}}", "kafka:kept")
        assert named != text
        (tmp_path / "tables.yaml").write_text(f"{named}types: rows\n", "utf-8")
        altered = run("materialize", tmp_path / "tables.yaml")
        with postgres.connect() as connection:
            rows = connection.execute("SELECT id, price, name, cdcv2_count FROM kept ORDER BY id").fetchall()
            sums = connection.execute("SELECT name, total FROM sums ORDER BY total").fetchall()
    pushed = run("materialize", tmp_path / "changes.yaml")

    assert (0, 0, "") == (kept.code, again.code, again.err), kept.err
    remark = 'cdcv2 materialize: the table kept has columns as the log has them, and keeps them. To give them the types'
    assert (0, True) == (altered.code, remark in altered.err), altered.err
    assert 'ALTER TABLE kept ALTER "price" TYPE date USING ' in altered.err
    assert [(1, 10, "apple", 1), (2, None, "", 2)] == rows
    assert [("", 0), ('pl"um, ripe', 7), ("apple", 12)] == sums
    assert (0, "changes: complete through 9") == (pushed.code, pushed.out.partition(";")[0]), pushed.err


PAIR = [Progress([5], [10], {})]
TABLES = """
materialization: tables
kafka: {config: kafka.properties}
logs:
  kept: {kafka: kept, row: SCHEMA}
  prices: DIRECTORY
bindings:
  - {log: kept, target: kept}
  - {log: prices, target: sums, key: name, reduce: {total: {sum: price}}}
target: {driver: postgres, conninfo: "dbname=${PGDATABASE}"}
"""
CHANGES = """
materialization: changes
kafka: {config: kafka.properties}
logs: {prices: DIRECTORY}
bindings: {log: prices, target: prices, delta: true}
target: {driver: kafka, prefix: changes.}
recovery_log: recovery
"""


def test_a_row_type_is_made_of_a_table(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the catalogue; the database is found by the environment, or by a file."""
    with Postgres() as postgres:
        with postgres.connect(autocommit=True) as connection:
            connection.execute(
                "create table shop (id bigint primary key, price numeric(8, 2), day date not null, tags text[], "
                "twice bigint generated always as (id * 2) stored)"
            )
        for name, value in postgres.environment.items():
            monkeypatch.setenv(name, value)
        said = run("rows", "--source", "env", "--table", "public.shop")
        unknown = run("rows", "--source", "env", "--table", "public.nothing")
        dsn = tmp_path / "dsn"
        dsn.write_text(" ".join(f"{key}={value}" for key, value in {
            "host": postgres.host, "port": postgres.port, "user": postgres.username, "password": postgres.password,
            "dbname": postgres.database}.items()), "utf-8")  # fmt: skip
        for name in postgres.environment:
            monkeypatch.delenv(name)
        from_file = run("rows", "--source", dsn, "--table", "public.shop")
    dsn.write_text("host=127.0.0.1 port=1 user=u password=secret", "utf-8")
    down = run("rows", "--source", dsn, "--table", "public.shop")
    service = run("rows", "--source", "service:nowhere", "--table", "public.shop")

    assert (0, True) == (said.code, said.err.startswith("cdcv2 rows: public.shop has not REPLICA IDENTITY FULL"))
    assert ("id", "price", "day", "tags") == RowType(json.loads(said.out)).columns
    assert ["long", ["null", "string"], "int"] == [field["type"] for field in json.loads(said.out)["fields"][:3]]
    assert said.out == from_file.out
    assert (2, True) == (unknown.code, "'public.nothing'" in unknown.err)
    assert (4, True, False) == (down.code, "port 1 failed" in down.err, "secret" in down.err)
    assert (2, True) == (service.code, '"nowhere" not found' in service.err)
    assert os.environ.get("PGPASSWORD") is None


class InTopics(OnRemap):
    """Captures into topics."""

    def __init__(self, run: Run, folder: Path, broker: KafkaBroker) -> None:
        super().__init__(run, folder)
        self._broker = broker

    def __call__(self, dump: list[str], *more: str, tables: str = "t") -> Said:
        into = ("--into", "kafka:edge.{table}", "--bootstrap", self._broker.bootstrap)
        return super().__call__(dump, *more, *into, tables=tables)


def test_tables_that_are_not_covered_and_such_as_were_empty_in_topics(
    run: Run, broker: KafkaBroker, tmp_path: Path
) -> None:
    """On a remap, into Kafka: headers state what beside directories ``_log.json`` does, in each life of a capture."""
    capture = InTopics(run, tmp_path, broker)
    logs = [f"public.{table}=kafka:edge.public.{table}" for table in "tuv"]
    kafka = ["--bootstrap", broker.bootstrap, "--rows", tmp_path / "rows"]
    more = (*NOTIFIED, "--empty", "public.v")
    for dump in ([*BEGUN, *SAID], [*BEGUN, *SAID, *FIRST_OF_T]):
        done = capture(dump, *more, tables="tuv")
        assert 0 == done.code and NAMED in done.err, done.err
    shown = run("verify", *logs, *kafka)
    assert 0 == shown.code and NAMED in shown.out and "public.v: assumed to have been empty" in shown.out, shown
    for dump in (WHOLE, [*WHOLE, change("u", 2, 9, 8, 1, 160), end(3, 8, 180, u=1)]):
        assert 0 == capture(dump, *more, tables="tuv").code
        shown = run("verify", *logs, *kafka)
        assert 0 == shown.code and "public.u is covered by the connector from" in shown.out, shown
    asked = run("as-of", logs[1], *kafka)
    assert (0, "id,v\n7,0\n8,0\n9,0\n") == (asked.code, asked.out), asked
