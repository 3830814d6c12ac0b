"""How a target that was damaged gets again what its logs come to, at the frontier that it has.

A repair takes the materialization over as an instance does, so no other one commits meanwhile; it applies what was
committed; it writes the rows that belong there, atomically, and leaves frontier and checkpoint as they are. A driver
that can do so is a :class:`RepairableDriver`. Which rows belong there is the caller's to know.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.materialize.commit_sequence import CommitSequence
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.protocol.fence import Range, fenced
from cdcv2.materialize.protocol.messages import Acknowledge, Checkpoint, Key, Open, Opened, Table, Values
from cdcv2.materialize.recovery_log import RecoveryLog


class TableRepair(NamedTuple):
    """A table that differs from its logs.

    ``rows``: all that belongs there. ``differing``: what belongs at the keys that differ; None: nothing does.
    """

    number: int
    rows: Mapping[Key, Values]
    differing: Mapping[Key, Values | None]


class RepairableDriver(Driver):
    """A driver whose target can be repaired."""

    @abstractmethod
    def open_damaged(self, message: Open) -> Opened:
        """As ``open``, but what is damaged is no reason to refuse, where ``repair`` can mend it."""

    @abstractmethod
    def repair(self, tables: Sequence[TableRepair], checkpoint: Checkpoint, demand: Callable[[], None]) -> None:
        """Write what belongs into these tables, atomically and durably; the target stays at the checkpoint.

        Called after ``open_damaged`` and ``acknowledge``, in place of a transaction. ``demand`` raises FencedError if
        another instance has taken over in the recovery log. Raises FencedError, and what the target raises: nothing is
        changed then.
        """


class TargetRepair:
    """A target that was taken over to be repaired. Raises what opening a driver and a recovery log raises."""

    def __init__(
        self, materialization: str, tables: Sequence[Table], driver: RepairableDriver, log: RecoveryLog | None,
        start: Antichain,
    ) -> None:
        self._name, self._driver = materialization, driver
        self._sequence = CommitSequence(materialization, log, start)
        message = self._sequence.claim(Open(materialization, tuple(tables), start=start))
        self._sequence.adopt(driver.open_damaged(message))
        #: what was committed last; it stays
        self.checkpoint = self._sequence.checkpoint
        self._sequence.patch(driver.acknowledge(Acknowledge()).state)

    def demand_at(self, frontier: Antichain) -> None:
        """Raise FencedError unless the target, as it is seen, is where it was taken over."""
        if frontier != self.checkpoint.frontier:
            raise fenced(self._name, Range())

    def write(self, tables: Sequence[TableRepair]) -> None:
        """See :meth:`RepairableDriver.repair`."""
        self._driver.repair(tables, self.checkpoint, self._sequence.demand)

    def close(self) -> None:
        """Release the driver."""
        self._driver.close()
