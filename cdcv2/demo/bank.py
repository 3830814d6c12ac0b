"""A bank at work: money moves between tables, and none is made or lost at any commit.

Accounts and branches both hold money, so the sum over both tables is one constant at each commit, while neither
table's own sum is: a copy that tears a transaction apart, or shows the two tables at different times, shows another
sum. The ledger has no key and true duplicates, so a copy must count rows, and cannot find them by key.

What the clients do is drawn from a seed; how their transactions interleave is not, as PostgreSQL decides it. The kinds
of work are in :mod:`cdcv2.demo.business`.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib import resources
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from cdcv2.demo.business import KINDS, WEIGHTS
from cdcv2.rows.row_type import RowType

if TYPE_CHECKING:
    from psycopg import Connection

    Connected: TypeAlias = Connection[tuple[Any, ...]]

#: a row as capture sees it: numeric as text, a date as days
Row: TypeAlias = tuple[Any, ...]

#: the tables that are captured, in the form in which capture names them
TABLES = ("public.accounts", "public.branches", "public.ledger")

_SCHEMA = """
CREATE TABLE branches (
    id integer PRIMARY KEY,
    city text NOT NULL,
    balance bigint NOT NULL
);
CREATE TABLE accounts (
    id bigint PRIMARY KEY,
    branch integer NOT NULL,
    holder text NOT NULL,
    balance bigint NOT NULL CHECK (balance >= 0),
    rate numeric(6, 3),
    vip boolean NOT NULL,
    opened date NOT NULL,
    note text
);
CREATE TABLE ledger (account bigint NOT NULL, branch integer, kind text NOT NULL, amount bigint NOT NULL);
CREATE SEQUENCE account_numbers;
ALTER TABLE accounts REPLICA IDENTITY FULL;
ALTER TABLE branches REPLICA IDENTITY FULL;
ALTER TABLE ledger REPLICA IDENTITY FULL;
"""
_CITIES = ("Aarhus", "Bergen", "Córdoba", "Delft", "Évora", "Florence", "Gdańsk", "Haifa", "Izmir", "Jaipur")
# Each column as capture sees it: numeric as text, a date as days.
_AS_CAPTURED = {
    "public.accounts": "id, branch, holder, balance, rate::text, vip, opened - date '1970-01-01', note",
    "public.branches": "id, city, balance",
    "public.ledger": "account, branch, kind, amount",
}


def row_types() -> dict[str, RowType]:
    """The row types of the tables, from the ``.avsc`` files that come with the package."""
    folder = resources.files("cdcv2.demo") / "rows"
    with resources.as_file(folder) as path:
        return {table: RowType.load(path / f"{table}.avsc") for table in TABLES}


def lsn_number(text: str) -> int:
    """A PostgreSQL LSN as the number that capture takes for a time.

    >>> lsn_number("1/00000010")
    4294967312
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


@dataclass
class WorkCounts:
    """What the clients of a bank have done so far."""

    committed: Counter[str] = field(default_factory=Counter)
    rolled_back: Counter[str] = field(default_factory=Counter)
    #: deadlocks: PostgreSQL ends them by ending one of the transactions
    deadlocks: int = 0


class Bank:
    """One bank in one database. Errors of the database come as psycopg raises them.

    Args:
        connect: opens a connection, as ``Postgres.connect``. Each client has its own.
        seed: what is drawn, and by which client.
        accounts, branches: how many there are in the beginning.
    """

    def __init__(
        self, connect: Callable[[], Connected], *, seed: int = 0, accounts: int = 200, branches: int = 8
    ) -> None:
        self.connect, self.seed = connect, seed
        self._accounts, self._branches = accounts, branches
        #: the sum over all balances, in cents: the constant
        self.money = accounts * 100_000 + branches * 1_000_000

    def create(self) -> None:
        """Make the tables and their first rows, in one transaction."""
        draw = Random(f"{self.seed}/rows")
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(_SCHEMA)
            cities = itertools.cycle(_CITIES)
            cursor.executemany(
                "INSERT INTO branches VALUES (%s, %s, 1000000)",
                [(number, next(cities)) for number in range(1, self._branches + 1)],
            )
            cursor.executemany(
                "INSERT INTO accounts VALUES (nextval('account_numbers'), %s, %s, 100000, %s, %s, %s, %s)",
                [
                    (
                        draw.randint(1, self._branches),
                        f"holder {number}",
                        draw.choice([None, "0.125", "1.500", "12.000"]),
                        draw.random() < 0.1,
                        date(2010, 1, 1) + timedelta(draw.randrange(5000)),
                        draw.choice([None, "", "ünïcødé ✓", "x" * draw.randint(1, 300)]),
                    )
                    for number in range(self._accounts)
                ],
            )
            cursor.execute("INSERT INTO ledger SELECT id, branch, 'opened', balance FROM accounts")

    @contextmanager
    def at_work(
        self, *, clients: int = 4, rate: float | None = None, limit: int | None = None, first: int = 0
    ) -> Iterator[Clients]:
        """Within the block, clients work: see :class:`Clients`. Leaving it stops them, and raises what they raised."""
        working = Clients(self, clients, rate, limit, first)
        working.start()
        try:
            yield working
        finally:
            working.stop()
        working.check()

    def run(self, transactions: int, *, clients: int = 4, first: int = 0) -> WorkCounts:
        """Let clients carry out so many transactions together, and return when they have."""
        with self.at_work(clients=clients, limit=transactions, first=first) as working:
            working.wait()
        return working.done

    def marker(self, text: str = "the end") -> int:
        """Commit a transaction that changes no table, and return an LSN that separates it from all before it.

        Every transaction that committed before ends at or below that LSN, and the marker ends above it. So a capture
        has released all of them and the marker, too, exactly when its frontier is past the returned number: when the
        number is no longer beyond the frontier.
        """
        with self.connect() as connection:
            row = connection.execute("SELECT pg_logical_emit_message(true, 'cdcv2', %s)::text", (text,)).fetchone()
        return lsn_number(row[0]) if row else 0

    def cut(self) -> dict[str, list[Row]]:
        """The content of all tables at one moment, each sorted, a row as capture sees it."""
        with self.connect() as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return {table: _content(connection, table) for table in TABLES}

    def contents(self, table: str) -> list[Row]:
        """The content of one table now, sorted, a row as capture sees it."""
        with self.connect() as connection:
            return _content(connection, table)

    def total(self) -> int:
        """The sum over all balances now: ``money``, whenever it is asked."""
        with self.connect() as connection:
            row = connection.execute(
                "SELECT (SELECT sum(balance) FROM accounts) + (SELECT sum(balance) FROM branches)"
            ).fetchone()
        return int(row[0]) if row else 0


def _content(connection: Connected, table: str) -> list[Row]:
    columns = _AS_CAPTURED[table]
    return in_order(connection.execute(f"SELECT {columns} FROM {table}"))  # both from the constant above


def in_order(rows: Iterable[Sequence[Any]]) -> list[Row]:
    """The rows as tuples, in the order in which contents are compared: nulls first, else by value.

    >>> in_order([(2, "a"), (1, None), (1, "")])
    [(1, None), (1, ''), (2, 'a')]
    """
    return sorted((tuple(row) for row in rows), key=lambda row: [(value is not None, value) for value in row])


class Clients:
    """Threads that work in a bank, each with a connection and a seed of its own.

    Args:
        bank: where.
        clients: how many.
        rate: transactions a second, all together; None: as fast as they can.
        limit: they end after so many transactions, all together; None: when they are stopped.
        first: the number of the first client. A second team in one bank takes others, or it draws the same again.
    """

    def __init__(self, bank: Bank, clients: int, rate: float | None, limit: int | None, first: int) -> None:
        self._bank, self._rate = bank, rate and rate / clients
        self._turns = itertools.count() if limit is None else range(limit)
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._failures: list[Exception] = []
        self._done = WorkCounts()
        names = range(first, first + clients)
        self._threads = [threading.Thread(target=self._client, args=(name,), daemon=True) for name in names]

    @property
    def done(self) -> WorkCounts:
        """What they have done so far; a copy."""
        with self._lock:
            return WorkCounts(self._done.committed.copy(), self._done.rolled_back.copy(), self._done.deadlocks)

    def start(self) -> None:
        """Let them begin."""
        self._turn = iter(self._turns)
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait until they have reached their limit, or one has failed."""
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Let each finish its transaction, and wait for that."""
        self._stop.set()
        self.wait()

    def check(self) -> None:
        """Raise what the first of them raised that could not go on."""
        if self._failures:
            raise self._failures[0]

    def _client(self, name: int) -> None:
        try:
            with self._bank.connect() as connection:
                self._work(connection, Random(f"{self._bank.seed}/{name}"))
        except Exception as failure:  # kept for the thread that asks for it
            self._failures.append(failure)
            self._stop.set()

    def _work(self, connection: Connected, draw: Random) -> None:
        from psycopg.errors import DeadlockDetected

        while self._next():
            kind = draw.choices(KINDS, WEIGHTS)[0]
            try:
                with connection.cursor() as cursor:
                    carried = kind(cursor, draw)
                if carried:
                    connection.commit()
                else:
                    connection.rollback()
            except DeadlockDetected:
                connection.rollback()
                with self._lock:
                    self._done.deadlocks += 1
                continue
            with self._lock:
                (self._done.committed if carried else self._done.rolled_back)[kind.__name__] += 1
            if self._rate:
                # Uneven, as work is; the mean is what was asked for.
                self._stop.wait(draw.expovariate(self._rate))

    def _next(self) -> bool:
        with self._lock:
            return not self._stop.is_set() and next(self._turn, None) is not None
