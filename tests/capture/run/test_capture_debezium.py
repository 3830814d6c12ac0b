"""A real PostgreSQL, through a real connector that is killed, arrives whole; a snapshot that is killed is refused."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from cdcv2.capture.run.commit_times import Capture, ReleaseReport
from cdcv2.capture.run.loop import run
from cdcv2.cli.main import main
from cdcv2.connectors.debezium import postgres_catalogue
from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.kafka_topics import KafkaTopics
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from cdcv2.store.kafka_client import Client
from tests.cli.test_command_compare_source import TYPES
from tests.doubles import RecordingLog

if TYPE_CHECKING:
    from cdcv2.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration

BANK = """
    CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL, balance numeric(12, 2), open bool DEFAULT true);
    CREATE TABLE ledger (account int, amount numeric(12, 2), note text);
    ALTER TABLE accounts REPLICA IDENTITY FULL;
    ALTER TABLE ledger REPLICA IDENTITY FULL;
    INSERT INTO accounts SELECT n, 'owner ' || n, 100 FROM generate_series(1, 200) n;
    CREATE TABLE big (id int PRIMARY KEY, text text);
    ALTER TABLE big REPLICA IDENTITY FULL;
"""
TABLES = ("public.accounts", "public.ledger")


class Servers(NamedTuple):
    """A broker and a database with a bank."""

    kafka: Any
    database: Any
    connection: Any


@contextmanager
def database_with(broker: KafkaBroker, statements: str) -> Iterator[Servers]:
    """Both real, both ours; the database has what these statements make."""
    from cdcv2.servers.postgres import Postgres

    with Postgres() as database, database.connect(autocommit=True) as connection:
        connection.execute(statements)
        yield Servers(broker, database, connection)


@pytest.fixture(scope="module")
def servers(broker: KafkaBroker) -> Iterator[Servers]:
    """With a bank."""
    with database_with(broker, BANK) as found:
        yield found


@contextmanager
def connector(servers: Servers, prefix: str, tables: tuple[str, ...]) -> Iterator[Any]:
    """Connect with the connector of these tables, running; a failure beside it is shown with the end of its log."""
    from cdcv2.servers.connect import Connect

    database = servers.database
    config = debezium_config(
        prefix, tables, host=database.host, port=database.port, database=database.database, user=database.username,
        partitions=3,
    )
    with Connect(servers.kafka.bootstrap, config, environment={"PGPASSWORD": database.password}) as connect:
        try:
            yield connect
        except BaseException as error:
            error.add_note("the end of the connector's log:\n" + connect.log.read_text("utf-8", "replace")[-8000:])
            raise


def recipe(servers: Servers, prefix: str, tables: tuple[str, ...]) -> Recipe:
    """The capture of these tables, their row types from the catalogue."""
    kinds = {table: RowType(postgres_catalogue.row_type_from_postgres(servers.connection, table)) for table in tables}
    identity = postgres_catalogue.full_identity(servers.connection, tables)
    return Recipe(prefix, kinds, notification_topic=f"{prefix}.notifications", full_identity=identity)


def transfers(connection: Any, chance: random.Random, number: int) -> None:
    """Transfers between the tables: what accounts lose, the ledger gains; some are rolled back, some rows deleted."""
    for _ in range(number):
        account, amount = chance.randint(1, 200), chance.randint(1, 900) / 100
        with connection.transaction(force_rollback=chance.random() < 0.1):
            connection.execute("UPDATE accounts SET balance = balance - %s WHERE id = %s", (amount, account))
            connection.execute("INSERT INTO ledger VALUES (%s, %s, %s)", (account, amount, chance.choice((None, "ü"))))
            if chance.random() < 0.2:
                connection.execute("DELETE FROM ledger WHERE account = %s AND amount = 0", (account,))
                connection.execute("INSERT INTO ledger VALUES (%s, 0, NULL), (%s, 0, NULL)", (account, account))


def rows_sent(topics: KafkaTopics) -> int:
    """How many rows the connector has sent, repeats included."""
    of_tables = [f"bank.{table}" for table in TABLES]
    return sum(end for (topic, _), end in topics.ends().items() if topic in of_tables)


def truth(connection: Any, table: str) -> Counter[Any]:
    """What the table holds, numbers as text."""
    columns = "id, owner, balance::text, open" if table.endswith("accounts") else "account, amount::text, note"
    return Counter(connection.execute(f"SELECT {columns} FROM {table}").fetchall())


def contents(logs: dict[str, RecordingLog]) -> dict[str, Counter[Any]]:
    """What the logs hold in the end; on the way, no row is negative and the money in both tables is the same."""
    updates = sorted(
        (time, table, tuple(row), diff)
        for table, log in logs.items() for batch in Iter(log.durable) for row, time, diff in batch.updates
    )
    held: dict[str, Counter[Any]] = {table: Counter() for table in logs}
    money, frontiers = 0, 0
    for number, (time, table, row, diff) in enumerate(updates):
        held[table][row] += diff
        money += diff * round(float(row[2] if table.endswith("accounts") else row[1]) * 100)
        if number + 1 == len(updates) or updates[number + 1][0] != time:
            frontiers += 1
            assert 200 * 100 * 100 == money, f"a torn transaction at {time}"
            assert all(count >= 0 for rows in held.values() for count in rows.values())
    assert frontiers > 200
    return {table: +rows for table, rows in held.items()}


def is_before(frontier: Antichain | None, time: int) -> bool:
    """Whether the frontier has not passed the time yet."""
    return frontier is None or frontier.less_equal(time)


def test_a_connector_killed_twice_arrives_whole(servers: Servers) -> None:
    """Snapshot by its notifications, stream with repeats: every table equal in the end, every frontier consistent."""
    chance, told = random.Random(3), list[ReleaseReport]()
    logs = {table: RecordingLog() for table in TABLES}
    how = recipe(servers, "bank", TABLES)
    topics = KafkaTopics(Client(servers.kafka.bootstrap), how)
    with connector(servers, "bank", TABLES) as connect:
        connect.wait_streaming()
        for unwritten in (True, False):
            sent, written = rows_sent(topics), connect.positions.read_bytes()
            transfers(servers.connection, chance, 60)
            assert poll_until(lambda: rows_sent(topics) > sent, 300)
            connect.kill9()
            if unwritten:  # as if it had been killed before it wrote its positions: what it sent, it sends again
                connect.positions.write_bytes(written)
            transfers(servers.connection, chance, 60)
            connect.restart()
            connect.wait_streaming()
        transfers(servers.connection, chance, 60)
        ((done,),) = servers.connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchall()
        servers.connection.execute("SELECT pg_logical_emit_message(true, 'marker', '')")
        with Capture(how, dict(logs), on_release=told.append) as capture:
            # The marker is the only transaction that was committed behind there.
            run(capture, topics, follow=True, stopping=lambda: not is_before(capture.frontier, int(done) + 1))
    assert {table: truth(servers.connection, table) for table in TABLES} == contents(logs)
    assert not told[0].release.assumed
    assert told[0].release.snapshot is not None
    assert told[-1].counters.repeats > 0


def test_a_snapshot_that_was_killed_stops_the_capture(servers: Servers) -> None:
    """The rows of the first try stay in the topic; the second snapshot cannot be joined to the stream exactly."""
    servers.connection.execute("INSERT INTO big SELECT n, repeat('x', 200) FROM generate_series(1, 60000) n")
    how = recipe(servers, "big", ("public.big",))
    topics = KafkaTopics(Client(servers.kafka.bootstrap), how)
    with connector(servers, "big", ("public.big",)) as connect:
        assert poll_until(lambda: sum(topics.ends().values()) > 1000, 300)
        connect.kill9()
        servers.connection.execute("UPDATE big SET text = 'changed' WHERE id = 7")
        connect.restart()
        connect.wait_streaming()
        servers.connection.execute("UPDATE big SET text = 'again' WHERE id = 7")
        assert poll_until(lambda: "big.transaction" not in topics.missing(), 300)
        with Capture(how, {"public.big": RecordingLog()}) as capture, pytest.raises(SourceStop) as caught:
            run(capture, topics, follow=True, stopping=lambda: capture.frontier is not None)
    assert "the connector began its snapshot twice" in caught.value.reason
    assert "drop its replication slot and its topics" in caught.value.remedy
    assert caught.value.frontier is None


def test_a_table_of_every_type_is_what_its_log_says(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values of the snapshot and of the stream are the same texts, from the database and from the log."""
    for name, value in servers.database.environment.items():
        monkeypatch.setenv(name, value)
    session = servers.connection
    session.execute("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
    session.execute(f"CREATE TABLE every (id int PRIMARY KEY, {columns}); ALTER TABLE every REPLICA IDENTITY FULL")

    def insert(first: int) -> None:
        for place in range(6):
            literals = [values[place][0] if place < len(values) else "NULL" for values, _ in TYPES.values()]
            # In a snapshot the connector loses the BC of a date: a difference, rightly found.
            literals = ["NULL" if "BC" in one and "03" not in one and first == 0 else one for one in literals]
            session.execute(f"INSERT INTO every VALUES ({first + place}, {', '.join(literals)})")

    insert(0)
    how = recipe(servers, "every", ("public.every",))
    log = DirectoryLog(tmp_path / "public.every", how.tables["public.every"], create=True)
    with connector(servers, "every", ("public.every",)) as connect:
        connect.wait_streaming()
        insert(10)
        topics = KafkaTopics(Client(servers.kafka.bootstrap), how)
        assert poll_until(lambda: "every.transaction" not in topics.missing(), 300)
        stop = threading.Event()
        with Capture(how, {"public.every": log}) as capture:
            capturing = threading.Thread(
                target=lambda: run(capture, topics, follow=True, stopping=stop.is_set), daemon=True
            )
            capturing.start()
            words = ["compare", str(tmp_path / "public.every"), "--source", "env", "--json"]
            code = main([*words, "--wait", "120", "--marker"])
            said = json.loads(capsys.readouterr().out)

            assert (0, True) == (code, said["source"]["complete"]), said

            stop.set()
            capturing.join(60)
    session.execute("UPDATE every SET c9 = 'other' WHERE id = 10")
    code, said = main(words), json.loads(capsys.readouterr().out)

    assert (1, False) == (code, said["source"]["complete"])
    assert 1 == said["source"]["tables"]["public.every"]["differing"]
