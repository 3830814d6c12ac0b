"""`cdcv2 doctor` finds what is not as it has to be, each with the line that mends it, and changes nothing."""

from __future__ import annotations

import errno
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdcv2.connectors.debezium.config import IDLE_SETTINGS, JSON_CONVERTERS, debezium_config
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.control.connector_findings import (
    connector_findings, rights_findings, state_findings, topic_findings, topics_findings, version_finding,
)
from cdcv2.control import disks
from cdcv2.control.examination import examine
from cdcv2.control.pipeline_check import mistakes
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_servers import host_and_port
from cdcv2.control.first_pipeline import target_names
from cdcv2.control.findings import Finding, Health, guarded
from cdcv2.control.source_findings import server_findings
from cdcv2.core.antichain import Antichain
from cdcv2.errors import OutputError, UnavailableError
from cdcv2.logs.kafka_topics import Topic
from cdcv2.materialize.protocol.messages import Field, Open, Table
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.servers.postgres import Postgres
from cdcv2.store.postgres_session import connect
from tests.cli.conftest import PRICES, Run, run  # noqa: F401 - a fixture
from tests.fake_connect import fake_connect

pytest.importorskip("yaml")

RECIPE = Recipe("shop", {"public.orders": PRICES}, notification_topic="shop.notifications")
CONFIG = debezium_config(
    "shop", ["public.orders"], host="db", port=1, database="d", user="u", publication="disabled",
    more={**JSON_CONVERTERS, **IDLE_SETTINGS},
)  # fmt: skip

OPEN = Open("copy", (Table("orders", (Field("id", "long"),), (Field("price", "int"),)),), start=Antichain([0]))


def bad(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Those that are not ok: how they are, and their text. Each has a remedy."""
    found = [one for one in findings if one.health is not Health.OK]
    assert all(one.remedy for one in found)
    return [(one.health.value, one.text) for one in found]


def of_connector(config: Mapping[str, str]) -> list[tuple[str, str]]:
    found = connector_findings("c", config, RECIPE, slot="shop", publication="shop", database="d", server="db:1")
    return bad(found)


def test_the_connector_that_we_make_is_all_right() -> None:
    """Else one of the two is wrong."""
    assert [] == of_connector(CONFIG)


@pytest.mark.parametrize(("name", "value", "health", "text"), [
    ("provide.transaction.metadata", None, "wrong", "provide.transaction.metadata=false"),
    ("skipped.operations", None, "wrong", "it has skipped.operations=t: the connector does not send truncates"),
    ("value.converter", "io.confluent.connect.avro.AvroConverter", "wrong", "value.converter=io.confluent"),
    ("key.converter", None, "warning", "key.converter is the worker's"),
    ("decimal.handling.mode", None, "wrong", "it has decimal.handling.mode=precise: values of numeric are sent in"),
    ("binary.handling.mode", "hex", "wrong", "it has binary.handling.mode=hex: values of bytea are read as other"),
    ("time.precision.mode", "connect", "wrong", "it has time.precision.mode=connect: dates and times are sent in"),
    ("unavailable.value.placeholder", "x", "wrong", "it has unavailable.value.placeholder=x: a long value that an"),
    ("value.converter.replace.null.with.default", None, "wrong",
     "it has value.converter.replace.null.with.default=true: a NULL is sent as the DEFAULT of its column"),
    ("plugin.name", None, "wrong", "it has plugin.name=decoderbufs: TRUNCATE is not sent by this plugin"),
    ("driver.options", "-c bytea_output=escape", "warning", "its sessions take the form of values from database and"),
    ("converters", "money", "wrong", "it has converters=money: a custom converter may send other values"),
    ("post.processors", "reselector", "wrong", "it has post.processors=reselector: a post processor may change rows"),
    ("snapshot.isolation.mode", "read_committed", "wrong", "it has snapshot.isolation.mode=read_committed: the rows"),
    ("snapshot.query.mode", "custom", "wrong", "it has snapshot.query.mode=custom: which rows its snapshot reads is"),
    ("event.converting.failure.handling.mode", None, "wrong",
     "it has event.converting.failure.handling.mode=warn: a value that Debezium cannot convert is sent as NULL"),
    ("column.truncate.to.5.chars", ".*price", "warning", "public.orders.price is sent as column.truncate.to.5.chars"),
    ("transforms", "unwrap", "wrong", "it has transforms=unwrap: a transform may leave out records, or change their"),
    ("snapshot.mode", "always", "wrong", "it has snapshot.mode=always: it takes a snapshot at each start"),
    ("snapshot.mode", "initial_only", "wrong", "it has snapshot.mode=initial_only: it ends after its snapshot"),
    ("snapshot.mode", "custom", "wrong", "it has snapshot.mode=custom: which rows its snapshot reads is not known"),
    ("slot.name", None, "wrong", "slot.name=debezium"),
    ("publication.name", "other", "wrong", "publication.name=other"),
    ("publication.autocreate.mode", None, "warning", "publication.autocreate.mode=all_tables"),
    ("topic.prefix", "shopp", "wrong", "topic.prefix=shopp"),
    ("lsn.flush.mode", "connector_and_driver", "wrong", "lsn.flush.mode=connector_and_driver"),
    ("flush.lsn.source", "false", "wrong", "lsn.flush.mode=manual"),
    ("heartbeat.action.query", None, "warning", "its heartbeats commit nothing"),
    ("heartbeat.interval.ms", "0", "warning", "its heartbeats commit nothing"),
    ("notification.sink.topic.name", "n", "wrong", "its notifications go to n"),
    ("notification.enabled.channels", None, "wrong", "it sends no notifications"),
    ("table.include.list", "public.order", "warning", "its filters leave out public.orders"),
    ("schema.exclude.list", "pub.*", "warning", "its filters leave out public.orders"),
    ("database.dbname", "other", "wrong", "it reads the database other"),
    ("database.hostname", "db2", "warning", "it reads the server db2:1, and conninfo names db:1"),
    ("database.port", None, "warning", "it reads the server db:5432, and conninfo names db:1"),
    ("errors.tolerance", "all", "wrong", "it has errors.tolerance=all: Connect leaves out each record"),
    ("event.processing.failure.handling.mode", "ignore", "wrong", "it has event.processing.failure.handling.mode=ign"),
    ("slot.drop.on.stop", "true", "wrong", "it has slot.drop.on.stop=true: what is committed until the next start"),
    ("slot.stream.params", "origin=none", "wrong", "it has slot.stream.params with origin=none: the server may leave"),
    ("snapshot.select.statement.overrides", "public.orders", "wrong", "it has snapshot.select.statement.overrides for"),
    ("snapshot.include.collection.list", "public.x", "wrong", "it has snapshot.include.collection.list without public"),
    ("column.exclude.list", "public.orders.PRICE", "wrong", "it has column.exclude.list without public.orders.price"),
    ("column.include.list", ".*(id|name)", "wrong", "it has column.include.list without public.orders.price"),
])  # fmt: skip
def test_a_wrong_setting_of_a_connector_is_found(name: str, value: str | None, health: str, text: str) -> None:
    """Also one that is left out, whose default is another."""
    config = {one: kept for one, kept in CONFIG.items() if one != name} | ({} if value is None else {name: value})
    ((found, shown),) = of_connector(config)

    assert (health, True) == (found, shown.startswith(text)), shown


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
def test_other_keys_than_the_primary_key_are_wrong_where_old_rows_are_looked_up(before: str) -> None:
    """By an old row that is in the record, nothing is looked up."""
    config = {**CONFIG, "message.key.columns": "public.orders:price"}
    found = connector_findings("c", config, replace(RECIPE, before=before), slot="shop", publication="shop")

    assert ["wrong"] * (before == "from-state") == [health for health, _ in bad(found)]


@pytest.mark.parametrize(("read", "conninfo", "named"), [
    ("localhost:5432", "host=127.0.0.1 dbname=d", False), ("localhost:5432", "host=127.0.0.2 dbname=d", True),
    ("db:5433", "host=db port=5432", True), ("db:5432", "host=a,b", False), ("db:5432", "host=/run/x", False),
    ("${env:PGHOST}:5432", "host=a", False), ("db:5432", "service=s", False), ("db:5432", "dbname=d", False),
])
def test_the_server_of_a_connector_is_compared_where_it_is_known(
    monkeypatch: pytest.MonkeyPatch, read: str, conninfo: str, named: bool
) -> None:
    """It is a warning alone: one server may have two names."""
    for name in ("PGHOST", "PGPORT", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    host, _, port = read.rpartition(":")
    config = {**CONFIG, "database.hostname": host, "database.port": port}
    found = connector_findings(
        "c", config, RECIPE, slot="shop", publication="shop", server=host_and_port(conninfo))

    assert named is any(health == "warning" and "and conninfo names" in text for health, text in bad(found))


def test_the_state_of_a_connector_is_found() -> None:
    """Of its task, too, without which it does nothing."""
    running = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]}

    assert [] == bad(state_findings("c", running))
    assert [("wrong", "its task is FAILED")] == bad(state_findings("c", {**running, "tasks": [{"state": "FAILED"}]}))
    assert [("wrong", "it has 0 tasks")] == bad(state_findings("c", {**running, "tasks": []}))


@pytest.mark.parametrize(("version", "wrong"), [("3.7.0.Final", 0), ("3.10.1.Final", 0), ("3.6.3.Final", 1), (None, 1)])
def test_the_version_of_debezium_is_found(version: str | None, wrong: int) -> None:
    """As numbers, not as text."""
    plugins = [{"class": "x.PostgresConnector", "version": version}] if version else [{"class": "x.Mirror"}]

    assert wrong == len(bad([version_finding("c", plugins)]))


GOOD = ("logical", 10, 9, 10, 9, 150000, "50GB")


@pytest.mark.parametrize(("place", "value", "found"), [
    (0, "replica", ("wrong", "wal_level is replica")), (2, 10, ("wrong", "10 of 10 replication slots are used")),
    (4, 10, ("wrong", "10 of 10 WAL senders are used")), (5, 120010, ("wrong", "PostgreSQL 12")),
    (6, "-1", ("warning", "max_slot_wal_keep_size is -1")), (6, None, ("warning", "max_slot_wal_keep_size is None")),
])  # fmt: skip
def test_a_wrong_setting_of_a_server_is_found(place: int, value: object, found: tuple[str, str]) -> None:
    """Slots and senders may be used up by the connector itself."""
    row = [*GOOD[:place], value, *GOOD[place + 1:]]

    assert [] == bad(server_findings("s", GOOD, has_slot=False))
    assert [found] == bad(server_findings("s", row, has_slot=False))
    assert ([] if place in (2, 4) else [found]) == bad(server_findings("s", row, has_slot=True))


def topic(spans: dict[int, tuple[int, int]], **settings: str) -> Topic:
    return Topic("t", spans, {name.replace("_", "."): value for name, value in settings.items()})


def test_what_is_wrong_with_a_topic_is_found() -> None:
    """Compaction loses records at once, retention some day; a missing first record cannot be had again."""
    good = topic({0: (0, 9)}, cleanup_policy="delete", retention_ms="-1")
    compacted = topic({0: (0, 9), 1: (3, 4)}, cleanup_policy="compact", retention_ms="1000")
    unclean = replace(good, settings={**good.settings, "unclean.leader.election.enable": "true"})

    assert [] == bad(topic_findings("k", good, single=True))
    ((health, text),) = bad(topic_findings("k", unclean, single=True))
    assert ("warning", True) == (health, "unclean.leader.election.enable=true" in text)
    assert [("wrong", "t: cleanup.policy=compact"), ("warning", "t: retention.ms=1000"),
            ("warning", "t: has lost its first records"), ("wrong", "t: 2 partitions")] == bad(
        topic_findings("k", compacted, single=True))  # fmt: skip
    unread = topic_findings("k", topic({0: (0, 0)}), single=False)
    assert [("not checked", "t: its settings may not be read")] == bad(unread)


def test_topics_that_are_not_there_yet_are_no_step_where_they_are_ours() -> None:
    """cdcv2 up makes them, before the connector; of a connector of others the first record does."""
    others = list(topics_findings("k", RECIPE, set(), lambda name: topic({0: (0, 0)})))
    ours = list(topics_findings("k", RECIPE, set(), lambda name: topic({0: (0, 0)}), owned=True))

    assert ["warning"] == [health for health, _ in bad(others)]
    assert ([], ["not there yet: 3 topics of the connector; cdcv2 up makes them"]) == (
        bad(ours), [one.text for one in ours])


@pytest.mark.parametrize(("allowed", "owned", "found"), [
    (frozenset({"READ", "DELETE", "DESCRIBE"}), True, []), (frozenset({"READ"}), False, []),
    (None, False, []), (None, True, [("wrong", "t: Kafka does not grant CREATE to it")]),
    (frozenset({"READ"}), True, [("warning", "t: Kafka does not grant DELETE to it")]),
    (frozenset({"DESCRIBE"}), False, [("wrong", "t: Kafka does not grant READ to it")]),
    (frozenset(), True, [("wrong", "t: Kafka does not grant READ and DELETE and CREATE to it")]),
])  # fmt: skip
def test_a_right_that_kafka_does_not_grant_is_found(
    allowed: frozenset[str] | None, owned: bool, found: list[tuple[str, str]]
) -> None:
    """To read, and where cdcv2 up makes them, to make and to remove. One that we may not see may be there or not."""
    rights = {"t": allowed, "u": frozenset({"READ", "DELETE"})}
    findings = list(rights_findings("k", rights, lambda _: False, owned=owned))

    assert found == bad(findings)
    command = "kafka-acls.sh --bootstrap-server KAFKA:9092 --add"
    assert all(command in one.remedy and "--topic t" in one.remedy for one in findings if one.remedy)
    assert (not found) == any(one.text.startswith("Kafka lets it") for one in findings)


def test_a_part_that_cannot_be_looked_at_is_a_finding() -> None:
    """And what was found before it is kept."""
    def looking() -> Any:
        yield Finding("a", "there")
        raise UnavailableError("no server\nat all")

    assert [("ok", "there"), ("wrong", "no server at all")] == [
        (one.health.value, one.text) for one in guarded("a", looking(), "cdcv2 doctor shop.yaml")]


TWO_VIEWS = """
pipeline: shop
views:
  copy:
    logs: {{items: items}}
    bindings: [{{log: items, target: items, key: [id]}}]
    target: {{driver: {first}}}
    recovery_log: copy-recovery
  other:
    logs: {{items: items}}
    bindings: [{{log: items, target: {target}, key: [id]}}]
    target: {{driver: {second}}}
    recovery_log: other-recovery
"""


@pytest.mark.parametrize(("first", "second", "target", "same"), [
    ("lake, folder: lake", "lake, folder: here/../lake", "others", "folder {}/lake"),
    ("lake, folder: lake", "lake, folder: link", "others", "folder {}/lake"),
    ("lake, folder: lake", "lake, folder: lake2", "items", None),
    ("lake, folder: lake", "lake, folder: copy-recovery", "items", "folder {}/copy-recovery"),
    ("postgres, conninfo: host=db dbname=a", "postgres, conninfo: 'postgresql://db:5432/a'", "public.items",
     "table public.items (PostgreSQL db/a)"),
    ("postgres, conninfo: host=db dbname=a", "postgres, conninfo: host=db dbname=a", "b.items", None),
    ("postgres, conninfo: host=db dbname=a", "postgres, conninfo: host=db dbname=b", "items", None),
    ("postgres, conninfo: host=db options='-c search_path=a'", "postgres, conninfo: host=db options='-c search_path=b'",
     "items", None),
    ("postgres, conninfo: host=db options='-c search_path=a'", "postgres, conninfo: host=db", "items", None),
    ("kafka, bootstrap: 'k:9092'", "kafka, bootstrap: 'k:9092'", "items", "topic items (Kafka k:9092)"),
    ("kafka, bootstrap: 'k:9092'", "kafka, bootstrap: 'k:9092', prefix: b-", "items", None),
])  # fmt: skip
def test_two_views_that_write_one_place_are_named(
    tmp_path: Path, first: str, second: str, target: str, same: str | None, run: Run  # noqa: F811
) -> None:
    """By doctor and by plan, before either is started: with both lines, however each spells the place."""
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    file = tmp_path / "shop.yaml"
    text = TWO_VIEWS.format(first=first, second=second, target=target)
    if "postgres" in first:
        text = re.sub(r" +recovery_log: .*\n", "", text)
    file.write_text(text, "utf-8")
    found = dict(mistakes(read_pipeline(str(file))))
    assert set(found) == (set() if same is None else {"other"})
    if same is not None:
        assert "the views copy (line " in found["other"] and "shop.yaml, line " in found["other"]
        assert f"and other write the same {same.format(tmp_path)}: give each its own" in found["other"]
    if same is not None and "lake" in first:
        looked = run("doctor", str(file)).out
        planned = run("plan", str(file)).out
        assert found["other"] in " ".join(looked.split()) and found["other"] in planned
        assert "start" not in planned and found["other"] in " ".join(run("up", str(file), "--once").err.split())


def test_a_name_that_postgres_would_cut_off_is_named_before_anything_starts(tmp_path: Path) -> None:
    """Names that cdcv2 init gives are short enough, and no two are the same."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.orders.avsc").write_text(json.dumps(
        {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}), "utf-8")
    text = PIPELINE.format(conninfo="host=db dbname=a", url="http://127.0.0.1:1")
    for target, wrong in (("o" * 64, True), ("o" * 63, False)):
        file = tmp_path / "shop.yaml"
        file.write_text(text.replace("target: orders", f"target: {target}"), "utf-8")
        found = dict(mistakes(read_pipeline(str(file))))
        assert wrong == ("is longer than the 63 bytes" in found.get("copy", "")), found

    long = [f"odd.{letter * 62}" for letter in "aä"] + [f"odd.{'a' * 62}b", "public.odd_x", "odd.x"]
    names = target_names(long)
    assert len({*names}) == len(long) and max(len(name.encode()) for name in names) <= 63


def test_a_folder_in_which_nothing_can_be_written_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is tried, also where it is not there yet: nothing is made, and nothing stays."""
    file = tmp_path / "shop.yaml"
    file.write_text(TWO_VIEWS.format(first="lake, folder: full/lake", second="lake, folder: lake", target="items"))
    (tmp_path / "full").mkdir()
    made = tempfile.NamedTemporaryFile

    def refusing(dir: Path) -> Any:
        if dir == tmp_path / "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        return made(dir=dir)

    monkeypatch.setattr(disks.tempfile, "NamedTemporaryFile", refusing)
    found = [one for one in examine(read_pipeline(str(file))) if one.part.startswith("folder ")]

    (wrong,) = [one for one in found if one.health is Health.WRONG]
    assert f"folder {tmp_path}/full/lake" == wrong.part
    assert "No space left on device" in wrong.text and str(tmp_path / "full" / "lake") in wrong.remedy
    assert len(found) == 5 and sorted(path.name for path in tmp_path.rglob("*")) == ["full", "shop.yaml"]


PIPELINE = """
pipeline: shop
kafka: {{bootstrap: "127.0.0.1:1"}}
sources:
  shop:
    postgres: {{conninfo: "{conninfo}"}}
    connector: {{url: "{url}"}}
captures: {{shop: {{}}}}
views:
  copy:
    bindings: [{{log: public.orders, target: orders, key: [id]}}]
    target: {{driver: postgres, conninfo: "{conninfo}"}}
"""


def test_a_connector_is_examined_where_connect_has_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """Its version, its settings and its state; and one that is not there is named, with the line that makes it."""
    monkeypatch.setattr("cdcv2.control.examination._PATIENCE", 0.5)
    path = tmp_path / "shop.yaml"
    with fake_connect() as worker:
        path.write_text(PIPELINE.format(conninfo="host=127.0.0.1 port=1", url=f"{worker.url}/"), "utf-8")
        missing = run("doctor", path, "--json")
        worker.configs["shop"] = {**CONFIG, "snapshot.mode": "always"}
        found = run("doctor", path, "--json")

    def of_connector(shown: str) -> list[tuple[str, str]]:
        every = [one for one in json.loads(shown)["findings"] if one["part"] == "connector of shop"]
        return [(one["text"], one["remedy"]) for one in every if one["health"] == "wrong"]

    ((text, remedy),) = of_connector(missing.out)
    assert ("Connect has no connector shop", True) == (text, remedy.endswith(f" {worker.url}/connectors/shop/config"))
    assert ["it has snapshot.mode=always: it takes a snapshot at each start", "it has 0 tasks"] == [
        text for text, _ in of_connector(found.out)
    ]


def test_a_connector_of_ours_that_is_not_there_yet_is_no_step(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """cdcv2 up makes it, and would refuse one that somebody else has made."""
    monkeypatch.setattr("cdcv2.control.examination._PATIENCE", 0.5)
    path = tmp_path / "shop.yaml"
    with fake_connect() as worker:
        text = PIPELINE.format(conninfo="host=127.0.0.1 port=1", url=worker.url)
        path.write_text(text.replace(f'"{worker.url}"', f'"{worker.url}", owned: yes, config: c.json'), "utf-8")
        (tmp_path / "rows").mkdir()
        (tmp_path / "rows" / "public.orders.avsc").write_text(json.dumps(PRICES.schema), "utf-8")

        def found(**changes: str) -> list[tuple[str, str]]:
            settings = {**CONFIG, "publication.autocreate.mode": "disabled", **changes}
            (tmp_path / "c.json").write_text(json.dumps({"name": "shop", "config": settings}), "utf-8")
            findings = json.loads(run("doctor", path, "--json").out)["findings"]
            every = [(one["health"], one["text"]) for one in findings if one["part"] == "connector of shop"]
            return [one for one in every if one[0] != "ok" or "Connect has" in one[1]]

        right = found()
        refused = [found(**{name: value}) for name, value in (
            ("connector.class", "io.other.Connector"), ("topic.prefix", "other"), ("skipped.operations", "t"),
            ("decimal.handling.mode", "precise"), ("snapshot.mode", "initial_only"), ("transforms", "mask"),
        )]  # fmt: skip

    named = ("warning", "it reads the server db:1, and conninfo names 127.0.0.1:1")
    assert [("ok", "Connect has no connector shop yet: cdcv2 up makes it"), named] == right
    assert [("wrong", True)] * 6 == [(one[0][0], "shop.yaml, line 7: " in one[0][1]) for one in refused], refused


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.integration
def test_the_files_of_init_without_a_column_are_right_before_the_connector_is_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owned: bool, answers: bool  # noqa: F811
) -> None:
    """Of ours, the file states what it leaves out. Of others nothing is known before Connect has it."""
    monkeypatch.setattr("cdcv2.control.examination._PATIENCE", 0.5)
    with fake_connect() as worker, Postgres() as server, server.connect(autocommit=True) as session:
        session.execute("CREATE TABLE users (id int PRIMARY KEY, photo bytea, name text)")
        for name, value in {**server.environment, "CDCV2_POSTGRES": "", "PGHOST": server.host, "PGPORT": server.port,
                            "PGDATABASE": server.database, "PGUSER": server.username}.items():  # fmt: skip
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("COPY_PASSWORD", "x")
        made = run("init", "--source", "env", "--exclude-columns", "public.users.photo", "--output", tmp_path / "shop",
                   "--pipeline", "shop", "--connect", worker.url if answers else "http://127.0.0.1:1",
                   *(["--owned"] if owned else []))  # fmt: skip

        def rows() -> list[tuple[str, str]]:
            found = of_source(run("doctor", tmp_path / "shop" / "pipeline.yaml", "--json").out)
            return [(one["health"], one["text"]) for one in found if "row type" in one["text"]]

        first = rows()
        worker.configs["shop"] = json.loads((tmp_path / "shop" / "connector.json").read_text("utf-8"))
        then = rows()

    well, unknown = ("ok", "public.users: its row type is that of rows/"), ("not checked", (
        "public.users: its row type has no photo, which is right if the connector leaves that out; its settings are "
        "not known"
    ))
    assert 0 == made.code, made
    assert ([well] if owned else [well, unknown]) == first
    assert ([well] if owned or answers else [well, unknown]) == then


def of_source(shown: str) -> list[dict[str, str]]:
    return [one for one in json.loads(shown)["findings"] if one["part"] == "source shop"]


@pytest.mark.integration
def test_a_server_is_looked_at_and_mended_by_the_remedies(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """Each statement that is printed takes its finding away; a part that does not answer hides no other."""
    rights = ("GRANT", "ALTER ROLE")
    # There is no Kafka and no Connect, and nothing more is learnt by waiting longer for them.
    monkeypatch.setattr("cdcv2.control.examination._PATIENCE", 1.0)
    with Postgres() as server, server.connect(autocommit=True) as session:
        session.execute("CREATE TABLE orders (id bigint PRIMARY KEY, price int, name text NOT NULL)")
        (tmp_path / "rows").mkdir()
        conninfo = f"host={server.host} port={server.port} dbname={server.database} user={server.username}"
        password = server.password
        conninfo += f" password={password}"
        path = tmp_path / "shop.yaml"
        path.write_text(PIPELINE.format(conninfo=conninfo, url="http://127.0.0.1:1"), "utf-8")
        (tmp_path / "rows" / "public.orders.avsc").write_text(json.dumps(PRICES.schema), "utf-8")
        before = run("doctor", path, "--json")
        found = of_source(before.out)
        for one in found:
            if one["remedy"].startswith(("CREATE", "ALTER TABLE")):
                session.execute(one["remedy"].partition(";")[0].encode())
        after = of_source(run("doctor", path, "--json").out)
        shown = run("doctor", path)
        session.execute("CREATE ROLE \"C\" LOGIN PASSWORD 'x'")
        ours = PIPELINE.replace("    connector:", "    publication: {{name: own, owned: yes}}\n    connector:")
        path.write_text(ours.format(conninfo=f"{conninfo} user=C password=x", url="http://127.0.0.1:1"), "utf-8")
        asked = of_source(run("doctor", path, "--json").out)
        for one in asked:
            if one["remedy"].startswith(rights):
                session.execute(one["remedy"].partition(";")[0].encode())
        allowed = of_source(run("doctor", path, "--json").out)
        session.execute("CREATE PUBLICATION own")
        added = of_source(run("doctor", path, "--json").out)
        session.execute("ALTER ROLE \"C\" NOREPLICATION")
        ours = ours.replace("    connector:", "    slot: {{name: shop}}\n    connector:")
        path.write_text(ours.format(conninfo=f"{conninfo} user=C password=x", url="http://127.0.0.1:1"), "utf-8")
        needed = of_source(run("doctor", path, "--json").out)

    def wrong(findings: list[dict[str, str]]) -> list[str]:
        return [one["text"] for one in findings if one["health"] == "wrong"]

    def lacking(findings: list[dict[str, str]]) -> list[str]:
        return [one["text"] for one in findings if one["health"] != "ok" and one["remedy"].startswith(rights)]

    assert 4 == before.code
    assert ["public.orders: before-images by the key id", "there is no publication shop"] == wrong(found)
    assert [] == wrong(after)
    # Of a publication of ours only the rights of its role are looked at, until it is there.
    assert [
        'the role "C" may not replicate', 'public.orders: "C" may not read it', "C may not make publications in bank",
        "C may not publish the tables of cdcv2",
    ] == lacking(asked)
    assert [] == wrong(allowed) == lacking(allowed)
    # Of a slot that the file has: cdcv2 up asks by this right.
    assert 'the role "C" may not replicate' in wrong(needed) and 'the role "C" may not replicate' not in wrong(asked)
    assert "the publication own is not there yet: cdcv2 up makes it" in [one["text"] for one in allowed]
    assert [] == wrong(added) and "the publication own has no public.orders yet: cdcv2 up adds it" in [
        one["text"] for one in added]
    assert "does not answer" in shown.out and "Kafka Connect at" in shown.out and "may make tables" in shown.out
    assert password not in before.out + before.err + shown.out + shown.err


@pytest.mark.integration
def test_remedies_and_targets_have_names_that_are_no_words_of_sql(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """Of each table, publication, schema and role: what is printed is what PostgreSQL takes."""
    monkeypatch.setattr("cdcv2.control.examination._PATIENCE", 0.5)
    (tmp_path / "rows").mkdir()
    path, odd = tmp_path / "shop.yaml", ("public.Ord Tab", "public.we.ird")
    for name in odd:
        (tmp_path / "rows" / f"{name}.avsc").write_text(json.dumps(PRICES.schema), "utf-8")
    with Postgres() as server, server.connect(autocommit=True) as session:
        columns = "(id bigint PRIMARY KEY, price int, name text NOT NULL)"
        for name in odd:
            session.execute(f'CREATE TABLE "{name[7:]}" {columns}'.encode())
        session.execute("CREATE ROLE \"User\" LOGIN PASSWORD 'x' REPLICATION; CREATE SCHEMA held; CREATE SCHEMA shut;"
                        "CREATE TABLE held.there (id int); REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # fmt: skip
        conninfo = f"host={server.host} port={server.port} dbname={server.database} user=User password=x"
        text = PIPELINE.format(conninfo=conninfo, url="http://127.0.0.1:1")
        text = text.replace("    connector:", "    publication: {name: order}\n    connector:")
        bound = ", ".join(
            f'{{log: "{odd[1]}", target: "{target}", key: [id]}}' for target in ("we.ird", "held.there", "shut.a.b")
        )
        text = text.replace("{log: public.orders, target: orders, key: [id]}", bound)
        path.write_text(text, "utf-8")

        def wrong() -> list[tuple[str, str]]:
            findings = json.loads(run("doctor", path, "--json").out)["findings"]
            both = [(one["text"], one["remedy"]) for one in findings if one["health"] != "ok"]
            return [(text, remedy) for text, remedy in both if remedy.startswith(("CREATE", "ALTER", "GRANT"))]

        found = wrong()
        for _, remedy in found:
            session.execute(remedy.partition(";")[0].encode())
        left = [text for text, _ in wrong()]
        session.execute('ALTER PUBLICATION "order" DROP TABLE "we.ird"')
        session.execute("ALTER PUBLICATION \"order\" SET (publish = 'insert')")
        again = [remedy for _, remedy in wrong()]
        for remedy in again:
            session.execute(remedy.partition(";")[0].encode())
        after = wrong()

    shown = dict(found)
    assert "CREATE SCHEMA we; or, if the dot is part of the table's name, another target" == shown[
        "its target has no schema we, and so no place for we.ird"], shown
    assert 'GRANT CREATE ON SCHEMA shut TO "User";' == shown["User may not make shut.a.b in the schema shut"]
    assert not any("held" in text for text in shown)
    assert 'CREATE PUBLICATION "order" FOR TABLE public."Ord Tab", public."we.ird";' in shown.values()
    assert 'GRANT SELECT ON public."we.ird" TO "User";' in shown.values()
    assert ["User may not make we.ird in the schema we"] == left
    assert [
        'GRANT CREATE ON SCHEMA we TO "User";', 'ALTER PUBLICATION "order" ADD TABLE public."we.ird";',
        "ALTER PUBLICATION \"order\" SET (publish = 'insert, update, delete, truncate');",
    ] == again
    assert [] == after


@pytest.mark.integration
def test_a_target_in_which_nothing_can_be_written_is_wrong_and_limits_of_its_role_are_none_of_ours(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """Who made sessions read-only is named, with the statement that mends it: it is not written over."""
    monkeypatch.setattr("cdcv2.control.examination._PATIENCE", 0.5)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.orders.avsc").write_text(json.dumps(PRICES.schema), "utf-8")
    path = tmp_path / "shop.yaml"
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
    with Postgres() as server, server.connect(autocommit=True) as session:
        session.execute("CREATE ROLE \"C\" LOGIN PASSWORD 'x'; GRANT CREATE ON SCHEMA public TO \"C\"")
        for limit in limits:
            session.execute(f'ALTER ROLE "C" SET {limit} = 3600000'.encode())
        address = f"host={server.host} port={server.port} dbname={server.database}"
        conninfo = f"{address} user=C password=x"
        superuser = f"{address} user={server.username} password={server.password}"
        own = "options='-c statement_timeout=7s'"

        def found(text: str = conninfo) -> list[dict[str, str]]:
            path.write_text(PIPELINE.format(conninfo=text, url="http://127.0.0.1:1"), "utf-8")
            findings = json.loads(run("doctor", path, "--json").out)["findings"]
            return [one for one in findings if one["part"] == "view copy" and "read-only" in one["text"]]

        def refused() -> str:
            with pytest.raises(OutputError) as caught:
                PostgresDriver(conninfo).open(OPEN)
            return str(caught.value)

        well, texts, errors = found(), list[str](), list[str]()
        for statement in ('ROLE "C"', f"DATABASE {server.database}", f'ROLE "C" IN DATABASE {server.database}'):
            session.execute(f"ALTER {statement} SET default_transaction_read_only = on".encode())
            (one,) = found()
            texts.append(one["text"])
            errors.append(refused())
            with connect(conninfo if "ROLE" in statement else superuser, autocommit=True) as its_own:
                # Each statement by itself, as psql sends them, and all at once.
                for part in [one["remedy"]] if "IN" in statement else one["remedy"].split(";"):
                    its_own.execute(part.encode())
            assert [] == found()
            session.execute(f"ALTER {statement} RESET default_transaction_read_only".encode())
            session.execute(f'ALTER ROLE "C" IN DATABASE {server.database} RESET ALL'.encode())
        (by_options,) = found(f"{conninfo} options='-c default_transaction_read_only=on'")

        sessions = [connect(one) for one in (conninfo, f"{conninfo} {own}")]
        # The name of a limit may be a part of another setting's.
        session.execute("GRANT SET ON PARAMETER deadlock_timeout TO \"C\"")
        sessions.append(connect(f"{conninfo} options='--deadlock-timeout=5s -cidle_session_timeout=8s'"))
        kept = [[one.execute(f"SHOW {limit}".encode()).fetchone() for limit in limits] for one in sessions]
        assert [one.autocommit for one in sessions] == [False, False, False]
        for one in sessions:
            one.close()

    said = "its sessions are read-only: default_transaction_read_only is on, by "
    assert [] == well
    assert [f"{said}the role", f"{said}the database", f"{said}the role in this database"] == texts
    assert all("read-only transaction" in one and "cdcv2 doctor names the statement" in one for one in errors)
    assert (f"{said}the connection string (options), or PGOPTIONS", "take it out there") == (
        by_options["text"], by_options["remedy"])
    # A rollback does not bring them back, and what the connection string states stays.
    assert [[("0",)] * 4, [("7s",), *[("0",)] * 3], [*[("0",)] * 3, ("8s",)]] == kept
