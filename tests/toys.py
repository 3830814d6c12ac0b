"""Toy stores, one per pattern of who rules; tests/counting.py has one more, tests/defects.py those with a mistake.

A toy is as small as an honest driver of its pattern can be: it is the example to read before writing a real one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, ClassVar

from cdcv2.errors import FencedError, UsageError
from cdcv2.materialize import Checkpoint, Driver, MemoryRecoveryLog, Patch, Range, RecoveryLog, Table
from cdcv2.materialize.protocol.fence import Holding, claim, meet_of, pieces
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Flush, Flushed, Key, Load, Loaded, Open, Opened, StartCommit, StartedCommit, Store,
    Values,
)
from cdcv2.rows.postgres_values import EXACT
from cdcv2.testing import Subject
from cdcv2.views.binding import COUNT

Rows = dict[str, dict[Key, Values]]


def put(rows: Rows, tables: tuple[Table, ...], stores: Iterable[Store]) -> None:
    """Change the rows as the stores state."""
    for one in stores:
        table = rows.setdefault(tables[one.binding].name, {})
        if one.delete:
            table.pop(one.key, None)
        else:
            table[one.key] = one.values


class Toy(Driver):
    """What all toys share: they load at once, from a dictionary, and stage in a list."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.tables: tuple[Table, ...] = ()
        self.staged: list[Store] = []

    def open(self, message: Open) -> Opened:
        """Only the recovery log rules."""
        self.tables = message.tables
        return Opened()

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Nothing to do."""
        return Acknowledged()

    def load(self, message: Load) -> Iterable[Loaded]:
        """From the rows."""
        values = self.rows.get(self.tables[message.binding].name, {}).get(message.key)
        return [] if values is None else [Loaded(message.binding, message.key, values)]

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """All was answered."""
        return [Flushed()]

    def store(self, message: Store) -> None:
        """Into the list."""
        self.staged.append(message)

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Into the rows."""
        put(self.rows, self.tables, self.staged)
        self.staged = []
        return StartedCommit()


# --- the store rules


@dataclass
class Database:
    """Rows and holdings, changed together."""

    rows: Rows = field(default_factory=dict)
    holdings: list[Holding] = field(default_factory=list)


class Authoritative(Toy):
    """The store's commit counts, and is fenced."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.rows)
        self.database = database

    def served(self, message: Open) -> Range:
        """The range of keys whose holding it takes."""
        return message.range

    def open(self, message: Open) -> Opened:
        """Take over the range."""
        self.tables, self.range = message.tables, self.served(message)
        start = message.start
        before = self.database.holdings
        self.database.holdings = claim(before, self.range, value=Checkpoint(start).to_plain())
        mine = next(one for one in self.database.holdings if one.range == self.range)
        self.fence = mine.fence
        found = pieces(before, self.range, lambda value: Checkpoint.from_plain(value).frontier, start)
        own = Checkpoint.from_plain(mine.value)
        even = len(found) == 1 and found[0].frontier == own.frontier
        return Opened(own if even else Checkpoint(meet_of(found), None, own.views), found)

    def mine(self, holding: Holding) -> bool:
        """Whether it is this instance's."""
        return holding.range == self.range and holding.fence == self.fence

    def demand_fence(self) -> None:
        """Raise FencedError if another instance has taken the range over."""
        if not any(map(self.mine, self.database.holdings)):
            raise FencedError("this instance was fenced off by another")

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """What was loaded is what this instance has left there, as no other has taken over until now."""
        self.demand_fence()
        return [Flushed()]

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Rows and checkpoint, or neither."""
        self.demand_fence()
        plain, held = message.checkpoint.to_plain(), self.database.holdings
        self.database.holdings = [replace(one, value=plain) if self.mine(one) else one for one in held]
        return super().start_commit(message)


class DatabaseSubject(Subject):
    """A database in memory. ``made`` is the driver to try."""

    made: ClassVar[type[Authoritative]] = Authoritative

    def __init__(self) -> None:
        self.database = Database()

    def driver(self) -> Driver:
        """A new session."""
        return self.made(self.database)

    def log(self) -> RecoveryLog | None:
        """None: the database rules."""
        return None

    def view(self) -> Rows:
        """The rows."""
        return self.database.rows


# --- the recovery log rules, staged transactions are applied idempotently


@dataclass
class Shelf:
    """Staged transactions by name, and which of them are in the rows."""

    rows: Rows = field(default_factory=dict)
    staged: dict[str, list[Store]] = field(default_factory=dict)
    applied: set[str] = field(default_factory=set)


class Lake(Toy):
    """A transaction is staged under a name of its own, which the recovery log commits; applied it is after that."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf.rows)
        self.shelf = shelf
        self.pending: dict[str, str] = {}

    def open(self, message: Open) -> Opened:
        """What the state names is committed."""
        self.tables, self.range = message.tables, message.range
        self.pending = dict((message.state or {}).get("pending", {}))
        return Opened()

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Apply what was committed, and forget it."""
        for name in self.pending.values():
            self.apply(name)
        done = {place: None for place in self.pending}
        self.pending = {}
        return Acknowledged(Patch({"pending": done}))

    def apply(self, name: str) -> None:
        """Once."""
        if name not in self.shelf.applied:
            put(self.rows, self.tables, self.shelf.staged[name])
            self.shelf.applied.add(name)

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Stage, and report where."""
        name = f"transaction {len(self.shelf.staged)}"
        self.shelf.staged[name] = self.staged
        self.staged = []
        self.pending = {str(self.range): name}
        return StartedCommit(Patch({"pending": self.pending}))


class Appending(Lake):
    """A lake whose rows are sums over what is applied: a transaction that is applied twice shows at once."""

    def apply(self, name: str) -> None:
        """Once; by adding."""
        if name not in self.shelf.applied:
            add(self.rows, self.tables, self.shelf.staged[name])
            self.shelf.applied.add(name)


def add(rows: Rows, tables: tuple[Table, ...], changes: Iterable[Store]) -> None:
    """Add the changes to the rows, as a subscriber does."""
    for one in changes:
        table = tables[one.binding]
        held = rows.setdefault(table.name, {})
        # Of a multiset, the count; of reductions, each.
        width = len(table.values)
        numbers = range(width - 1, width) if table.values[-1].name == COUNT else range(width)
        before = held.get(one.key, ())
        values = list(one.values)
        for place in numbers if before else ():
            more: Any = values[place]
            exact = isinstance(more, Decimal)
            values[place] = EXACT.add(more, before[place]) if exact else more + before[place]
        held[one.key] = tuple(values)


class LoggedSubject(Subject):
    """A store beside a recovery log in memory."""

    def __init__(self) -> None:
        self.recovery = MemoryRecoveryLog("conformance")

    def log(self) -> RecoveryLog | None:
        """The one."""
        return self.recovery


class LakeSubject(LoggedSubject):
    """A lake in memory."""

    made: ClassVar[type[Lake]] = Lake

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()

    def driver(self) -> Driver:
        """A new one on the same shelf."""
        return self.made(self.shelf)

    def view(self) -> Rows:
        """What is applied."""
        return self.shelf.rows


class AppendingSubject(LakeSubject):
    """The same, of changes."""

    made = Appending
    delta = True
    splits = False


# --- the recovery log rules, the store takes pushes


class Push(Toy):
    """Every change carries its transaction's extent and its key."""

    def __init__(self, pushed: list[tuple[Any, ...]]) -> None:
        super().__init__({})
        self.pushed = pushed

    def open(self, message: Open) -> Opened:
        """Repeats must be the same."""
        self.tables = message.tables
        if not message.range.whole:
            raise UsageError(f"the keys {message.range} only: a push has no range, open all of it")
        return Opened(repeats=True)

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Note the extent."""
        self.extent = (message.lower, message.upper)
        return [Flushed()]

    def store(self, message: Store) -> None:
        """Pushed is pushed."""
        self.pushed.append((self.tables[message.binding], *self.extent, message))

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """All is pushed."""
        return StartedCommit()


class PushSubject(LoggedSubject):
    """A topic in memory, and a subscriber who knows a repeat by extent and key."""

    delta = True
    splits = False
    consistent = False

    def __init__(self) -> None:
        super().__init__()
        self.pushed: list[tuple[Any, ...]] = []

    def driver(self) -> Driver:
        """A new producer."""
        return Push(self.pushed)

    def view(self) -> Rows:
        """What the subscriber adds up."""
        rows: Rows = {}
        seen: dict[tuple[Any, ...], Values] = {}
        for table, lower, upper, change in self.pushed:
            identity = (table.name, lower, upper, change.key)
            if identity not in seen:
                add(rows, (table,), [change._replace(binding=0)])
            elif seen[identity] != change.values:
                raise AssertionError(f"{identity} came with {seen[identity]} and then with {change.values}")
            seen[identity] = change.values
        return rows


# --- neither rules


class AtLeastOnce(Toy):
    """What is stored is there."""

    def store(self, message: Store) -> None:
        """At once."""
        put(self.rows, self.tables, [message])


class AtLeastOnceSubject(LoggedSubject):
    """A store without transactions."""

    guarantee = "at least once"
    consistent = False

    def __init__(self) -> None:
        super().__init__()
        self.rows: Rows = {}

    def driver(self) -> Driver:
        """A new one."""
        return AtLeastOnce(self.rows)

    def view(self) -> Rows:
        """The rows."""
        return self.rows
