"""A toy store more: a destination that counts what it has taken, so that what it has already is not pushed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cdcv2.errors import FencedError, RefusedError, UsageError
from cdcv2.materialize import Driver, Patch, Table
from cdcv2.materialize.protocol.messages import Open, Opened, StartCommit, StartedCommit, Store
from tests.toys import LoggedSubject, Rows, Toy, add


@dataclass
class Counted:
    """Adds up what comes, and counts it; it takes a change only from one who knows the count."""

    rows: Rows = field(default_factory=dict)
    count: int = 0

    def take(self, expected: int, tables: tuple[Table, ...], change: Store) -> None:
        """Add a change, if the count is what the pusher thinks."""
        if expected != self.count:
            raise FencedError(f"the destination has {self.count} changes and not {expected}: another instance pushes")
        add(self.rows, tables, [change])
        self.count += 1


class Counting(Toy):
    """After a crash, what the destination has beyond the checkpoint is skipped."""

    def __init__(self, destination: Counted) -> None:
        super().__init__({})
        self.destination = destination

    def open(self, message: Open) -> Opened:
        """Compare the counts."""
        self.tables = message.tables
        if not message.range.whole:
            raise UsageError(f"the keys {message.range} only: one count has no ranges, open all of it")
        self.at = self.known(message.state or {})
        if self.at > self.destination.count:
            raise RefusedError(f"the destination lost changes: it has {self.destination.count} of {self.at}")
        self.skip = self.destination.count - self.at
        return Opened(repeats=True)

    def known(self, state: Mapping[str, Any]) -> int:
        """The count at the checkpoint."""
        return int(state.get("count", 0))

    def store(self, message: Store) -> None:
        """Push what is not there."""
        if self.skip:
            self.skip -= 1
        else:
            self.destination.take(self.at, self.tables, message)
        self.at += 1

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """The count goes with the checkpoint."""
        return StartedCommit(Patch({"count": self.at}))


class CounterSubject(LoggedSubject):
    """A destination that counts."""

    made: ClassVar[type[Counting]] = Counting
    delta = True
    splits = False
    consistent = False

    def __init__(self) -> None:
        super().__init__()
        self.destination = Counted()

    def driver(self) -> Driver:
        """A new one."""
        return self.made(self.destination)

    def view(self) -> Rows:
        """The sums."""
        return self.destination.rows
