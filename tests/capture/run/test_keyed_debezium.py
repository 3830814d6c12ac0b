"""A real PostgreSQL whose tables are as people have them, through a real connector that is killed: the same rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdcv2.capture.facts import Fact, PartialChangeFact, Record
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.loop import run
from cdcv2.cli import main as cli
from cdcv2.connectors.debezium import postgres_catalogue
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.kafka_topics import KafkaTopics
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from cdcv2.store.kafka_client import Client
from tests.doubles import RecordingLog
from tests.capture.run.test_capture_debezium import Servers, connector, database_with, is_before

if TYPE_CHECKING:
    from cdcv2.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration

#: Large values of every kind that has a placeholder of its own, kept outside of their rows.
LARGE = ("words", "doc", "raw", "texts", "numbers", "longs", "uuids", "amount")
SHOP = """
    CREATE TABLE items (
        id int PRIMARY KEY, name text NOT NULL DEFAULT 'anonymous', open bool NOT NULL DEFAULT true, stock int,
        words text, doc jsonb, raw bytea, texts text[], numbers int[], longs bigint[], uuids uuid[], amount numeric);
    CREATE TABLE parts (item int, place text, PRIMARY KEY (place, item));
    CREATE TABLE notes (item int, text text);
    ALTER TABLE notes REPLICA IDENTITY FULL;
""" + "".join(f"ALTER TABLE items ALTER {column} SET STORAGE EXTERNAL;" for column in LARGE)
TABLES = ("public.items", "public.parts", "public.notes")
MADE = {
    "words": "repeat(md5({0}::text), 200)", "doc": "jsonb_build_object('k', repeat(md5({0}::text), 200))",
    "raw": "decode(repeat(md5({0}::text), 200), 'hex')",
    "texts": "(SELECT array_agg(md5((n + {0})::text)) FROM generate_series(1, 200) n)",
    "numbers": "(SELECT array_agg(n * {0}) FROM generate_series(1, 2000) n)",
    "longs": "(SELECT array_agg(n * {0}::bigint) FROM generate_series(1, 2000) n)",
    "uuids": "(SELECT array_agg(md5((n + {0})::text)::uuid) FROM generate_series(1, 400) n)",
    "amount": "(repeat('1234567890', 800) || {0})::numeric",
}


@pytest.fixture(scope="module")
def servers(broker: KafkaBroker) -> Iterator[Servers]:
    """A broker and a database with a shop."""
    with database_with(broker, SHOP) as found:
        large = ", ".join(made.format("n") for made in MADE.values())
        items = f"SELECT n, 'item ' || n, n % 2 = 0, n, {large} FROM generate_series(1, 9) n"
        found.connection.execute(f"INSERT INTO items {items}")
        found.connection.execute("INSERT INTO parts SELECT n, 'shelf ' || n FROM generate_series(1, 20) n")
        found.connection.execute("INSERT INTO notes SELECT n / 3, 'a note' FROM generate_series(1, 20) n")
        yield found


def trade(connection: Any, chance: random.Random, number: int) -> None:
    """Transactions of a few statements; in a database where keys run, and a table is emptied now and then."""
    for _ in range(number):
        with connection.transaction(force_rollback=chance.random() < 0.1):
            for _ in range(chance.randint(1, 4)):
                connection.execute(_statement(chance))


def _statement(chance: random.Random) -> str:
    one = f"(SELECT id FROM items ORDER BY md5(id::text || '{chance.random()}') LIMIT 1)"
    column = chance.choice(LARGE)
    what = chance.random()
    if what < 0.3:
        return f"UPDATE items SET stock = stock + 1 WHERE id = {one}"
    if what < 0.45:
        made = "NULL" if chance.random() < 0.2 else MADE[column].format(chance.randint(1, 99))
        return f"UPDATE items SET {column} = {made} WHERE id = {one}"
    if what < 0.55:
        return f"UPDATE items SET id = id + {chance.choice((1000, 10000))} WHERE id = (SELECT max(id) FROM items)"
    if what < 0.62:
        return f"DELETE FROM items WHERE id = {one} AND id > 9"
    if what < 0.75:
        return (f"INSERT INTO items (id, stock, {column}) SELECT max(id) + 1, 0, "
                f"{MADE[column].format(chance.randint(1, 99))} FROM items")
    if what < 0.85:
        return f"UPDATE parts SET place = 'shelf {chance.randint(100, 999)}' WHERE item = {chance.randint(1, 20)}"
    if what < 0.88:
        return "TRUNCATE notes"
    if what < 0.95:
        return "INSERT INTO notes VALUES (1, 'the same'), (1, 'the same')"
    return "DELETE FROM notes WHERE ctid = (SELECT min(ctid) FROM notes WHERE text = 'the same')"


def truth(connection: Any, table: str, kind: RowType) -> Counter[Any]:
    """What the table holds, as a captured row has it."""
    texts = {"doc": "doc::text", "uuids": "uuids::text[]", "amount": "amount::text"}
    columns = ", ".join(texts.get(column, column) for column in kind.columns)
    return Counter(kind.row(row) for row in connection.execute(f"SELECT {columns} FROM {table}").fetchall())


def left_out(told: list[Fact], kind: RowType) -> set[str]:
    """The columns whose untouched values some record leaves out."""
    items = [fact.change for fact in told if isinstance(fact, PartialChangeFact) and fact.table == "public.items"]
    return {column for one in items if one.new is not None for column in kind.columns if column not in one.new.columns}


def contents(logs: dict[str, Iterable[Any]]) -> dict[str, Counter[Any]]:
    """What the messages of the logs come to in the end; no row is there a negative number of times on the way."""
    held: dict[str, Counter[Any]] = {}
    for table, messages in logs.items():
        updates = sorted(((time, -diff, row) for batch in Iter(messages) for row, time, diff in batch.updates),
                         key=lambda update: update[:2])
        rows: Counter[Any] = Counter()
        for _, negative, row in updates:
            rows[row] -= negative
            assert rows[row] >= 0
        held[table] = +rows
    return held


def on_a_timeline(servers: Servers, kinds: dict[str, RowType], folder: Path) -> dict[str, Iterable[Any]]:
    """What a capture on a timeline writes of the same topics, bound in many bindings; started again it adds nothing."""
    (folder / "rows").mkdir()
    for table, kind in kinds.items():
        (folder / "rows" / f"{table}.avsc").write_text(json.dumps(kind.schema), "utf-8")
    words = [
        "capture", "kafka", "--bootstrap", servers.kafka.bootstrap, "--remap", str(folder / "remap"), "--prefix",
        "shop", "--notifications", "shop.notifications", "--rows", str(folder / "rows"), "--into", str(folder / "logs"),
        "--before", "from-state", "--full-identity", "public.notes", "--bind-at-most", "40",
    ]  # fmt: skip
    assert [0, 0] == [cli.main([*words, "--max-records", size]) for size in ("100", "1000")]
    return {table: DirectoryLog(folder / "logs" / table).read() for table in kinds}


def test_tables_as_people_have_them_arrive_whole(servers: Servers, tmp_path: Path) -> None:
    """Keys of one and of two columns, none; large values of all kinds; a capture that starts over in the middle."""
    chance = random.Random(5)
    kinds = {table: RowType(postgres_catalogue.row_type_from_postgres(servers.connection, table)) for table in TABLES}
    identity = postgres_catalogue.full_identity(servers.connection, TABLES)
    how = Recipe("shop", kinds, notification_topic="shop.notifications", full_identity=identity, before="from-state")
    logs = {table: RecordingLog() for table in TABLES}
    topics = KafkaTopics(Client(servers.kafka.bootstrap), how)
    with connector(servers, "shop", TABLES) as connect:
        connect.wait_streaming()
        for killed in (True, False):
            sent = topics.ends().get(("shop.transaction", 0), 0)
            trade(servers.connection, chance, 80)
            assert poll_until(lambda: topics.ends().get(("shop.transaction", 0), 0) > sent, 60)
            if killed:
                connect.kill9()
                trade(servers.connection, chance, 20)
                connect.restart()
                connect.wait_streaming()
            ((done,),) = servers.connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchall()
            servers.connection.execute("SELECT pg_logical_emit_message(true, 'marker', '')")
            logs = {table: log.again() for table, log in logs.items()}
            with Capture(how, dict(logs)) as capture:
                run(capture, topics, follow=True, stopping=lambda: not is_before(capture.frontier, int(done) + 1))
        told = [how.fact(item) for item in topics.read({}) if isinstance(item, Record)]
    assert {"public.notes"} == identity
    assert {"u", "d", "c", "t"} == {fact.change.op for fact in told if isinstance(fact, PartialChangeFact)}
    assert set(LARGE) == left_out(told, kinds["public.items"])
    held = {table: truth(servers.connection, table, kinds[table]) for table in TABLES}
    assert held == contents({table: log.durable for table, log in logs.items()})
    assert held == contents(on_a_timeline(servers, kinds, tmp_path))
