"""Drivers with one mistake each, of the kinds that real ones have had; the conformance kit must catch every one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from cdcv2.core import Antichain
from cdcv2.materialize import MemoryRecoveryLog
from cdcv2.materialize.protocol.fence import Holding, Range
from cdcv2.materialize.protocol.messages import (
    Checkpoint, Load, Loaded, Open, Opened, Patch, StartCommit, StartedCommit, Store,
)
from cdcv2.materialize.recovery_log import RangeClaim
from tests.counting import Counting
from tests.toys import Appending, Authoritative, add, put


class SkipFenceCheck(Authoritative):
    """Planted defect: a commit does not ask whose turn it is."""

    def mine(self, holding: Holding) -> bool:
        """Any fence will do."""
        return holding.range == self.range


class IgnoreKeyRange(Authoritative):
    """Planted defect: there is one holding, whichever range is served."""

    def served(self, message: Open) -> Range:
        """All keys."""
        return Range()


class ForgetState(Authoritative):
    """Planted defect: of a checkpoint, the frontier is kept, and neither the reader's state nor the views' marks."""

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """How far it is, and no more."""
        return super().start_commit(StartCommit(Checkpoint(message.checkpoint.frontier)))


class CommitDuringStore(Authoritative):
    """Planted defect: rows are there before their checkpoint is."""

    def store(self, message: Store) -> None:
        """At once, into the rows."""
        put(self.rows, self.tables, [message])


class DropDocuments(Authoritative):
    """Planted defect: now and then one row is not stored."""

    def store(self, message: Store) -> None:
        """Most of them."""
        self.dropped = getattr(self, "dropped", 0) + 1
        if self.dropped % 13:
            super().store(message)


class FloatNumbers(Authoritative):
    """Planted defect: whole numbers are stored as floats, as what has no other numbers does."""

    def store(self, message: Store) -> None:
        """The nearest."""
        values = tuple(float(one) if type(one) is int else one for one in message.values)
        super().store(message._replace(values=values))


class FloatDecimals(Authoritative):
    """Planted defect: what is loaded of decimals has been a float."""

    def load(self, message: Load) -> Iterable[Loaded]:
        """The nearest."""
        for found in super().load(message):
            values = tuple(Decimal(repr(float(one))) if isinstance(one, Decimal) else one for one in found.values)
            yield found._replace(values=values)


class NullForNaN(Authoritative):
    """Planted defect: what JSON has no number for is stored as null."""

    def store(self, message: Store) -> None:
        """None for NaN."""
        super().store(message._replace(values=tuple(None if one != one else one for one in message.values)))


class NonIdempotentAcknowledge(Appending):
    """Planted defect: what was applied before is applied again."""

    def apply(self, name: str) -> None:
        """Whatever was before."""
        add(self.rows, self.tables, self.shelf.staged[name])


class DropDocumentCounter(Counting):
    """Planted defect: the destination's count is not looked at."""

    def open(self, message: Open) -> Opened:
        """As if nothing was there."""
        self.tables, self.skip, self.at = message.tables, 0, 0
        return Opened(repeats=True)

    def store(self, message: Store) -> None:
        """Push, whatever is there."""
        self.destination.take(self.destination.count, self.tables, message)


class ResetCounterOnOpen(Counting):
    """Planted defect: the count begins where the destination is."""

    def known(self, state: Mapping[str, Any]) -> int:
        """The count of the destination."""
        return self.destination.count


class _StateFirst(RangeClaim):
    def commit(self, checkpoint: Checkpoint, patch: Patch | None) -> None:
        """The driver's state, and then the checkpoint."""
        super().patch(patch)
        super().commit(checkpoint, None)


class _CheckpointFirst(RangeClaim):
    def commit(self, checkpoint: Checkpoint, patch: Patch | None) -> None:
        """The checkpoint, and then the driver's state."""
        super().commit(checkpoint, None)
        super().patch(patch)


class TornPair(MemoryRecoveryLog):
    """Planted defect: a recovery log that writes checkpoint and state in two changes, the state first."""

    claimed: type[RangeClaim] = _StateFirst

    def open(self, wanted: Range, start: Antichain) -> RangeClaim:
        """One whose commit is torn."""
        found = super().open(wanted, start)
        return self.claimed(self, wanted, found._fence, found.recovered, found._left)


class TornPairCheckpointFirst(TornPair):
    """Planted defect: the same, the checkpoint first."""

    claimed = _CheckpointFirst
