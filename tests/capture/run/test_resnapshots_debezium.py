"""A real connector that lost slot and positions takes a resnapshot, under load, and it makes the logs right again."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdcv2 import failpoints
from cdcv2.cli import main as cli
from cdcv2.connectors.debezium import postgres_catalogue
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.servers.processes import poll_until
from tests.capture.run.test_capture_debezium import Servers, connector, database_with

if TYPE_CHECKING:
    from cdcv2.servers.kafka import KafkaBroker

pytestmark = pytest.mark.integration

#: One with a key and replica identity DEFAULT, one without a key. The money in both together never changes.
BANK = """
    CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, text text);
    CREATE TABLE ledger (account int, amount bigint);
    ALTER TABLE ledger REPLICA IDENTITY FULL;
    ALTER TABLE accounts ALTER text SET STORAGE EXTERNAL;
    INSERT INTO accounts SELECT n, 100, repeat(md5(n::text), 100) FROM generate_series(1, 100) n;
"""
TABLES, MONEY = ("public.accounts", "public.ledger"), 100 * 100


@pytest.fixture(scope="module")
def servers(broker: KafkaBroker) -> Iterator[Servers]:
    """A broker and a database with a bank."""
    with database_with(broker, BANK) as found:
        yield found


def transfer(connection: Any, chance: random.Random) -> None:
    """Some money from an account to the ledger, or from there to an account; rows and accounts come and go."""
    account, amount, what = chance.randint(1, 120), chance.randint(1, 9), chance.random()
    with connection.transaction():
        if what < 0.7:
            moved = connection.execute("UPDATE accounts SET balance = balance - %s WHERE id = %s", (amount, account))
            for _ in range(moved.rowcount):
                connection.execute("INSERT INTO ledger VALUES (%s, %s)", (account, amount))
        elif what < 0.8:
            closed = connection.execute("DELETE FROM accounts WHERE id = %s RETURNING balance", (account,)).fetchall()
            for (balance,) in closed:
                connection.execute("INSERT INTO ledger VALUES (%s, %s)", (account, balance))
        else:
            text = chance.choice((None, "short", "large " * 1000))
            (back,) = connection.execute(
                "WITH gone AS (DELETE FROM ledger WHERE account = %s RETURNING amount) "
                "SELECT coalesce(sum(amount), 0)::bigint FROM gone", (account,)
            ).fetchone()
            connection.execute(
                "INSERT INTO accounts VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE "
                "SET balance = accounts.balance + EXCLUDED.balance", (account, back, text)
            )


@contextmanager
def load(servers: Servers) -> Iterator[Callable[[], int]]:
    """Within the block two sessions write transfers all the time; gives how many they have written."""
    written, done, failed = Counter[int](), threading.Event(), list[BaseException]()

    def write(number: int) -> None:
        chance = random.Random(number)
        try:
            with servers.database.connect(autocommit=True) as session:
                while not done.wait(0.004):
                    transfer(session, chance)
                    written[number] += 1
        except Exception as error:  # reported below: it must not die unseen
            failed.append(error)

    # Of other accounts each, for the most part: two that wait for one another would be a deadlock.
    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        yield written.total
    finally:
        done.set()
        for writer in writers:
            writer.join()
    assert [] == failed


def truth(connection: Any) -> dict[str, Counter[Any]]:
    """What the tables hold."""
    return {table: Counter(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in TABLES}


def contents(folder: Path) -> tuple[dict[str, Counter[Any]], list[int]]:
    """What the logs hold in the end, and their times; at each there is all the money, and no row is negative."""
    updates = sorted(
        ((time, table, tuple(row), diff) for table in TABLES
         for batch in Iter(DirectoryLog(folder / table).read()) for row, time, diff in batch.updates),
        key=lambda one: one[:2],
    )
    held: dict[str, Counter[Any]] = {table: Counter() for table in TABLES}
    money, times = 0, list[int]()
    for number, (time, table, row, diff) in enumerate(updates):
        held[table][row] += diff
        money += diff * row[1]
        if number + 1 == len(updates) or updates[number + 1][0] != time:
            times.append(time)
            assert MONEY == money, f"a torn state at {time}"
            assert all(count >= 0 for rows in held.values() for count in rows.values()), f"no rows at {time}"
    return {table: +rows for table, rows in held.items()}, times


def lose_the_slot(servers: Servers, connect: Any) -> None:
    """Kill the connector; drop its slot, and what it knows of its place."""
    connect.kill9()
    free = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'again' AND NOT active"
    assert poll_until(lambda: servers.connection.execute(free).fetchone()[0] == 1, 60)
    servers.connection.execute("SELECT pg_drop_replication_slot('again')")
    connect.positions.unlink()


def test_a_snapshot_on_a_new_slot_under_load_heals_what_was_lost(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped, declared by the LSN that the stop names, killed between two logs: each table equals the database's."""
    chance, session = random.Random(11), servers.connection
    (tmp_path / "rows").mkdir()
    for table in TABLES:
        schema = postgres_catalogue.row_type_from_postgres(session, table)
        (tmp_path / "rows" / f"{table}.avsc").write_text(json.dumps(schema), "utf-8")
    words = [
        "capture", "kafka", "--bootstrap", servers.kafka.bootstrap, "--prefix", "again",
        "--notifications", "again.notifications", "--rows", str(tmp_path / "rows"), "--into", str(tmp_path / "logs"),
        "--before", "from-state", "--full-identity", "public.ledger", "--json",
    ]  # fmt: skip

    def reached(*more: str) -> Callable[[], bool]:
        """Whether the capture, run once more, gets through all that is committed by now."""
        ((done,),) = session.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchall()
        session.execute("SELECT pg_logical_emit_message(true, 'marker', '')")

        def run() -> bool:
            capsys.readouterr()  # what the runs before this one printed
            code, said = cli.main([*words, *more]), capsys.readouterr()
            if "there is no topic 'again.transaction'" in said.err:
                return False
            assert code in (Exit.DONE, Exit.MISSING), said.err
            return bool(json.loads(said.out)["frontier"][0] > int(done))

        return run

    with connector(servers, "again", TABLES) as connect:
        connect.wait_streaming()
        for _ in range(60):
            transfer(session, chance)
        assert poll_until(reached(), 60)
        before, _ = contents(tmp_path / "logs")
        lose_the_slot(servers, connect)
        for _ in range(60):
            transfer(session, chance)
        lost = truth(session)
        with load(servers) as written:
            connect.restart()
            connect.wait_streaming()
            streaming = written()
            assert poll_until(lambda: written() > streaming + 100, 60)
        assert poll_until(lambda: cli.main(words) == Exit.UNABLE, 60)
        said = capsys.readouterr().err
        found = re.search(r"continue with --snapshot-again (\d+) and --before from-state", said)
        assert found is not None, said
        told = reached("--snapshot-again", found[1])
        # What it waits for of the snapshot may still be on its way.
        with failpoints.placed("release.table-stated"), pytest.raises(failpoints.PlacedCrash):
            poll_until(lambda: cli.main([*words, "--snapshot-again", found[1]]) not in (Exit.DONE, Exit.MISSING), 60)
        assert poll_until(told, 60)
    held, times = contents(tmp_path / "logs")
    assert truth(session) == held
    assert before != lost, "nothing was lost"
    assert int(found[1]) in times
    assert sum(time > int(found[1]) for time in times) > 100, "the load did not go on behind the snapshot"
