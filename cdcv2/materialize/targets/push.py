"""The common part of drivers of systems that only take pushes: the recovery log rules, and repeats are equal.

The runtime has made a transaction's extent durable before the first delta is pushed. After a crash, the next instance
pushes just that transaction again, in the same order. When all deltas have been taken, a statement per table has their
number; when that has been taken, too, the transaction may be committed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, UsageError
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.protocol.deltas import delta_of, statement_of
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Flush, Flushed, Load, Loaded, Open, Opened, StartCommit, StartedCommit, Store, Table,
)

PUSHED = failpoints.declare("push.deltas", "every delta of the transaction was taken; nothing states their number yet")
STATED = failpoints.declare("push.stated", "deltas and statements were taken; the recovery log knows nothing of it")


class PushDriver(Driver):
    """A driver is left with three questions: how to connect, how to push an object, how to know that all were taken."""

    def __init__(self) -> None:
        self._message: Open | None = None
        self._extent = (Antichain(), Antichain())
        self._counts: list[int] = []

    @abstractmethod
    def connect(self, tables: tuple[Table, ...]) -> None:
        """See that the target is there, for these tables."""

    @abstractmethod
    def push(self, table: Table, message: dict[str, Any]) -> None:
        """Push a delta or a statement; may buffer it."""

    @abstractmethod
    def settle(self) -> None:
        """Return when all that was pushed has been taken, for good; raise otherwise."""

    def open(self, message: Open) -> Opened:
        """See :class:`Driver`. Raises UsageError for tables that are no changes, and for a share of the keys."""
        views = [table.name for table in message.tables if not table.delta]
        if views:
            raise UsageError(f"{views[0]}: a view cannot be looked up in what was pushed: set delta to true")
        if not message.range.whole:
            raise UsageError(f"the keys {message.range} only: a push has no ranges, open all of it")
        self._message, self._counts = message, [0] * len(message.tables)
        self.connect(message.tables)
        return Opened(repeats=True)

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Nothing to do: what is committed was taken before."""
        return Acknowledged()

    def load(self, message: Load) -> Iterable[Loaded]:
        """Never asked: raises RefusedError."""
        raise RefusedError("nothing can be looked up in what was pushed")

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Note the extent."""
        self._extent = (message.lower, message.upper)
        return [Flushed()]

    def store(self, message: Store) -> None:
        """Push a delta."""
        opened = self._opened()
        table = opened.tables[message.binding]
        self._counts[message.binding] += 1
        self.push(table, delta_of(opened.materialization, table, *self._extent, message))

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Push what is buffered, then the statements."""
        opened = self._opened()
        self.settle()
        failpoints.reach(PUSHED)
        for table, count in zip(opened.tables, self._counts):
            self.push(table, statement_of(opened.materialization, table, *self._extent, count))
        self.settle()
        failpoints.reach(STATED)
        self._counts = [0] * len(opened.tables)
        return StartedCommit()

    def _opened(self) -> Open:
        if self._message is None:
            raise RefusedError("this driver is not open")
        return self._message
