"""Readers that look at a target all along, and note what they saw: the money of all its tables, in one snapshot.

A snapshot has its frontier (the checkpoint that was committed with it), so it is judged twice: at once by the
constant sum over all tables, and in the end by the logs, which have the rows of each table at that frontier.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias

from cdcv2.demo.bank import Row
from cdcv2.demo.tables import MONEY
from cdcv2.errors import MissingLogError

if TYPE_CHECKING:
    from cdcv2.demo.bank import Connected

#: table -> how many rows it has, and their money
Sums: TypeAlias = "dict[str, tuple[int, int]]"

#: table of the bank -> how it is called in a target, and its column of money
TARGETS = {
    "public.accounts": ("accounts", "balance"),
    "public.branches": ("branches", "balance"),
    "public.ledger": ("ledger", "amount"),
}
#: table -> the place of that column in the bank's rows
_PLACES = {**MONEY, "public.ledger": 3}
_IN_POSTGRES = {
    "public.accounts": "SELECT count(*), coalesce(sum(balance), 0)::bigint FROM accounts",
    "public.branches": "SELECT count(*), coalesce(sum(balance), 0)::bigint FROM branches",
    # A table without a key is kept as rows and how often they are there.
    "public.ledger": "SELECT coalesce(sum(cdcv2_count), 0)::bigint, coalesce(sum(amount * cdcv2_count), 0)::bigint "
                     "FROM ledger",
}  # fmt: skip


class TargetSums(NamedTuple):
    """What one snapshot shows. ``upper``: everything before it is in the tables, and nothing else."""

    upper: int
    sums: Sums

    @property
    def money(self) -> int:
        """The sum over the tables between which money moves."""
        return sum(self.sums[table][1] for table in MONEY)


class UnreachableTarget(Exception):
    """The target does not answer now; it is looked at again."""


class TargetPoll(Protocol):
    """What looks at a target."""

    def __call__(self) -> TargetSums | None:
        """One snapshot; None while nothing is there. Raises Unreachable."""

    def close(self) -> None:
        """Hold nothing open any more; it may be called again."""


class PostgresPoll:
    """A repeatable-read transaction over all tables and the checkpoint; a broken session is replaced."""

    def __init__(self, connect: Callable[..., Connected], materialization: str) -> None:
        self._connect, self._name = connect, materialization
        self._session: Connected | None = None

    def __call__(self) -> TargetSums | None:
        import psycopg

        try:
            if self._session is None:
                self._session = self._connect(autocommit=True, application_name="the poller")
            with self._session.transaction():
                return self._look(self._session)
        except psycopg.OperationalError as cause:
            self.close()
            raise UnreachableTarget(str(cause)) from cause

    def _look(self, session: Connected) -> TargetSums | None:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if session.execute("SELECT to_regclass('cdcv2_checkpoints')").fetchone() == (None,):
            return None
        found = session.execute(
            "SELECT checkpoint FROM cdcv2_checkpoints WHERE materialization = %s", (self._name,)
        ).fetchone()
        if found is None:
            return None
        sums = {}
        for table, query in _IN_POSTGRES.items():
            row = session.execute(query.encode()).fetchone() or (0, 0)
            sums[table] = (int(row[0]), int(row[1]))
        return TargetSums(json.loads(found[0])["frontier"][0], sums)

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            session.close()


class DeltaPoll:
    """The versions of all Delta tables that are one cut, as ``open_delta`` gives them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self) -> TargetSums | None:
        from cdcv2.materialize.targets.delta.driver import open_delta

        try:
            view = open_delta(self._folder)
        except MissingLogError:
            return None
        frontier: Any = view.frontier.to_plain()
        sums = {table: _sums(view.read(name), column) for table, (name, column) in TARGETS.items()}
        return TargetSums(frontier[0], sums)

    def close(self) -> None:
        """Nothing is held open."""


def applying(folder: Path) -> tuple[int, int]:
    """In how many of the bank's Delta tables the transaction is that is being applied, and the money in their newest
    versions, which then need not belong together. 0 where none is being applied."""
    import deltalake

    from cdcv2.materialize.targets.delta.manifest import DeltaFolder
    from cdcv2.materialize.targets.delta.tables import app

    number, manifest = DeltaFolder(folder).last()
    tables = {table: deltalake.DeltaTable(folder / name) for table, (name, _) in TARGETS.items()}
    money = sum(_sums(tables[table].to_pyarrow_table(), TARGETS[table][1])[1] for table in MONEY)
    if manifest is None or manifest.applying is None:
        return 0, money
    name = app(manifest.materialization)
    return sum(table.transaction_version(name) == number for table in tables.values()), money


def _sums(rows: Any, column: str) -> tuple[int, int]:
    counts = rows.column("cdcv2_count").to_pylist() if "cdcv2_count" in rows.column_names else [1] * rows.num_rows
    money = zip(rows.column(column).to_pylist(), counts)
    return int(sum(counts)), sum(int(amount) * int(count) for amount, count in money)


class Poller:
    """Within the block, a thread looks at a target again and again.

    Args:
        look: one snapshot of it.
        money: what all tables together must have, whenever it is looked at.
        pause: seconds between two looks.
    """

    def __init__(self, look: TargetPoll, money: int, *, pause: float) -> None:
        self.look, self._money, self._pause = look, money, pause
        self._stop, self._failure = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._work, name="poller", daemon=True)
        #: how many snapshots had rows, and how often no server answered
        self.snapshots = self.unreachable = 0
        #: the first snapshot at each frontier that was seen, oldest first
        self.contents: list[TargetSums] = []
        #: frontiers at which nothing was there yet, before the first row
        self.empty: set[int] = set()
        #: the first few things that must not be seen
        self.wrong: list[str] = []

    @property
    def upper(self) -> int:
        """How far the target was when it was last looked at."""
        return self.contents[-1].upper if self.contents else 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._stop.set()
        self._thread.join()
        self.look.close()

    def check(self) -> None:
        """Raise what ended the thread, if something has."""
        if self._failure:
            raise self._failure[0]

    def _work(self) -> None:
        try:
            while not self._stop.wait(self._pause):
                try:
                    self.judge(self.look())
                except UnreachableTarget:
                    self.unreachable += 1
        except BaseException as failure:  # kept for the thread that asks for it
            self._failure.append(failure)

    def judge(self, content: TargetSums | None) -> None:
        """Note a snapshot, and what is wrong with it."""
        last = self.contents[-1] if self.contents else None
        if content is None or not any(rows for rows, _ in content.sums.values()):
            if last is not None:
                self._print(f"after {last}, there is {content}")
            elif content is not None:
                # Before the bank's first commit, perhaps: the logs show that, in the end.
                self.empty.add(content.upper)
            return
        self.snapshots += 1
        if content.money != self._money:
            self._print(f"at {content.upper} the tables have {content.money}: {content.sums}")
        if last is None or content.upper > last.upper:
            self.contents.append(content)
        elif content != last:
            self._print(f"after {last}, there is {content}")

    def _print(self, text: str) -> None:
        if len(self.wrong) < 5:
            self.wrong.append(text)

    def distinct(self) -> dict[str, int]:
        """Table -> how many different sums of its own were seen."""
        return {table: len({content.sums[table][1] for content in self.contents}) for table in TARGETS}


class Course:
    """The rows of each table at every commit, by the logs: ``changes`` are their updates, by table."""

    def __init__(self, changes: Mapping[str, Iterable[tuple[Row, int, int]]]) -> None:
        self._times: dict[str, list[int]] = {}
        self._sums: dict[str, list[tuple[int, int]]] = {}
        for table, updates in changes.items():
            count = money = 0
            times, sums = self._times.setdefault(table, []), self._sums.setdefault(table, [])
            for row, time, diff in sorted(updates, key=lambda update: update[1]):
                count, money = count + diff, money + diff * row[_PLACES[table]]
                if times and times[-1] == time:
                    sums[-1] = (count, money)
                else:
                    times.append(time)
                    sums.append((count, money))

    def at(self, upper: int) -> Sums:
        """The rows and the money of each table after everything before ``upper``."""
        found: Sums = {}
        for table, times in self._times.items():
            number = bisect_left(times, upper)
            found[table] = self._sums[table][number - 1] if number else (0, 0)
        return found
