"""What is durable of a materialization's transactions, and in which order: the same for every runtime.

A transaction has three steps that last. *Prepared*: the driver's state of Flushed, and for a driver that must repeat
what it began, how far the transaction goes; nothing is stored yet. *Committed*: the driver has started its commit; then
the recovery log has the checkpoint, if it is the one that rules, and the driver's state. *Acknowledged*: the driver
knows. A crash between any two of them leaves the transaction done, or not begun.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.materialize.protocol.fence import Piece, meet_of
from cdcv2.materialize.protocol.messages import Checkpoint, Open, Opened, Patch
from cdcv2.materialize.recovery_log import RangeClaim, RecoveryLog

BEFORE_COMMIT = failpoints.declare(
    "materialize.before-commit", "the driver has started its commit; the recovery log knows nothing of it"
)
AFTER_COMMIT = failpoints.declare(
    "materialize.after-commit", "the recovery log has the transaction; the driver does not know that it has"
)
AFTER_PREPARE = failpoints.declare(
    "materialize.after-prepare", "the driver's state of Flushed, and the extent, are durable; nothing was stored"
)


class CommitSequence:
    """One materialization, or one range of its keys: what was committed last, and what was begun. One thread.

    ``log`` may be None when the store's own checkpoint rules. The methods raise what the recovery log raises:
    FencedError when another instance has taken over.
    """

    def __init__(self, name: str, log: RecoveryLog | None, start: Antichain) -> None:
        self._name, self._log, self._start = name, log, start
        # What the recovery log gave us, and whether its checkpoint is the one that rules.
        self._claimed: RangeClaim | None = None
        self._log_rules = False
        #: What was committed last, by whomever.
        self.checkpoint = Checkpoint(start)
        #: How far a transaction goes that has begun before a crash, and must be repeated so; None: none has.
        self.extent: Antichain | None = None
        #: How many transactions this instance has committed.
        self.transactions = 0

    def claim(self, message: Open) -> Open:
        """Take its range over from an earlier instance; the message with what a recovery log has of it."""
        if self._log is None:
            return message
        self._claimed = self._log.open(message.range, self._start)
        found = self._claimed.recovered
        return replace(message, state=found.state, pieces=found.pieces, extent=found.extent)

    def adopt(self, opened: Opened) -> tuple[Piece, ...]:
        """Take over the checkpoint that rules; how far each part of the range is.

        Raises UsageError for a driver that leaves it to the recovery log where there is none.
        """
        if opened.checkpoint is not None:
            self.checkpoint = opened.checkpoint
            if opened.pieces and meet_of(opened.pieces) != opened.checkpoint.frontier:
                self.checkpoint = Checkpoint(meet_of(opened.pieces), None, opened.checkpoint.views)
            return opened.pieces
        if self._claimed is None:
            raise UsageError(
                f"the driver of {self._name!r} leaves the checkpoint to the recovery log, and there is none: name one"
            )
        recovered = self._claimed.recovered
        self._log_rules, self.checkpoint, self.extent = True, recovered.checkpoint, recovered.extent
        return recovered.pieces

    def demand(self) -> None:
        """Raise FencedError if another instance has taken over; nothing else is done."""
        if self._claimed is not None:
            self._claimed.demand()

    def patch(self, patch: Patch | None) -> dict[str, Any] | None:
        """Change the driver's state, and nothing else; what it is then, None where nothing was to be changed."""
        return None if self._claimed is None else self._claimed.patch(patch)

    def prepare(self, upper: Antichain, patch: Patch | None, *, repeats: bool) -> None:
        """What must be durable before anything is stored; ``repeats``: and how far the transaction goes."""
        if self._claimed is not None:
            if repeats and self._log_rules and upper != self.extent:
                self._claimed.prepare(upper, patch)
            else:
                self._claimed.patch(patch)
        failpoints.reach(AFTER_PREPARE)

    def commit(self, checkpoint: Checkpoint, patch: Patch | None) -> None:
        """The driver has started its commit: the transaction is durable, or will never be."""
        failpoints.reach(BEFORE_COMMIT)
        if self._claimed is not None:
            if self._log_rules:
                self._claimed.commit(checkpoint, patch)
            else:
                self._claimed.patch(patch)
        failpoints.reach(AFTER_COMMIT)
        self.checkpoint, self.extent = checkpoint, None
        self.transactions += 1
