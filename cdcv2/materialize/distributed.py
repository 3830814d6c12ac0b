"""Transactions whose rows executors move: they look keys up, and stage the rows to store.

A driver that can be *spread* gives out a *hand*: a picklable value that goes to where the rows are, and does Loads and
Stores there, for keys that no other hand has. What it has staged counts when its *receipt* is brought back and named in
the commit. So work that executors do twice, or only half before they die, has no effect. The rest of the protocol is as
ever, between :class:`DistributedRuntime` and the driver, in one process::

    Open  Acknowledge  ( Flush  [hands: look, reduce, stage -> receipts]  StartCommit  Acknowledge )*

Flush asks for no key here; the driver checks its fence in it. The same views as in
:class:`~cdcv2.materialize.runtime.Runtime` work out the new row of a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import Cdcv2Error, FencedError, RefusedError, RestoredError, UsageError
from cdcv2.materialize.commit_sequence import CommitSequence
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Changes, Checkpoint, ConflictError, Flush, Flushed, Key, Loaded, Open, StartCommit, Store,
    Values,
)
from cdcv2.materialize.protocol.turns import Turns
from cdcv2.materialize.recovery_log import RecoveryLog
from cdcv2.protocol.messages import Update
from cdcv2.views.binding import View, ViewBinding
from cdcv2.views.combined_updates import CombinedUpdates
from cdcv2.views.identity import demand_same, marks

#: How many keys a hand looks up and stages at once.
AT_ONCE = 50_000

CARRIED = failpoints.declare(
    "materialize.carried", "executors have staged the rows of a transaction; no commit names them"
)


class TargetTask(ABC):
    """The part of one task for one table, on an executor. Used by one thread; no other task has its keys."""

    #: whether it takes Changes, in place of looking and staging
    columns: bool = False

    @abstractmethod
    def look(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Values]]:
        """What is at these keys; nothing for those that are not there."""

    @abstractmethod
    def stage(self, stores: Sequence[Store]) -> None:
        """Stage the new rows of these keys. No reader may see them yet."""

    def changes(self, message: Changes) -> None:
        """Take rows that go and come, and stage them.

        Raises ConflictError as a driver does; UsageError unless the target takes rows so.
        """
        raise UsageError(f"{type(self).__name__} takes one row after the other, and no Changes")

    @abstractmethod
    def finish(self) -> Any:
        """Make it durable; the receipt (plain JSON), or None when nothing was staged."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held; also after errors."""


class TargetWorker(ABC):
    """A part of a driver, for one transaction, that can be pickled and sent to executors."""

    @abstractmethod
    def work(self, number: int) -> TargetTask:
        """Begin a task for the table with this number."""


class DistributedDriver(Driver):
    """A driver of which executors can do the work in between."""

    @abstractmethod
    def hand(self) -> TargetWorker:
        """For the transaction that Flush has begun."""

    @abstractmethod
    def took(self, number: int, receipt: Any) -> None:
        """Make what a task for a table has staged part of the transaction. Raises OutputError if it is not there."""


def carry(view: View, number: int, hand: TargetWorker, groups: Iterable[tuple[Key, Iterable[Update]]]) -> Any:
    """On an executor: what becomes of these keys, each with all its updates, staged; the receipt, or None.

    Raises what the view and the hand do. Memory: the updates of :data:`AT_ONCE` keys, reduced.
    """
    groups = iter(groups)
    first = next(groups, None)
    if first is None:
        # A task without keys needs no session and no file.
        return None
    work = hand.work(number)
    try:
        if work.columns:
            _carry_columns(work, view, chain([first], groups))
        else:
            _carry_rows(work, view, number, chain([first], groups))
        return work.finish()
    finally:
        work.close()


def _carry_rows(work: TargetTask, view: View, number: int, groups: Iterable[tuple[Key, Iterable[Update]]]) -> None:
    combined, keys = CombinedUpdates([view]), list[Key]()
    for key, updates in groups:
        keys += combined.add(0, ((key, update) for update in updates))
        if len(keys) >= AT_ONCE:
            _stage(work, number, combined, keys)
            combined, keys = CombinedUpdates([view]), []
    if keys:
        _stage(work, number, combined, keys)


def _carry_columns(work: TargetTask, view: View, groups: Iterable[tuple[Key, Iterable[Update]]]) -> None:
    combined = CombinedUpdates([view])
    for _, updates in groups:
        combined.hold(0, [*updates])
        if combined.size >= AT_ONCE:
            _stage_columns(work, combined)
            combined = CombinedUpdates([view])
    _stage_columns(work, combined)


def _stage_columns(work: TargetTask, combined: CombinedUpdates) -> None:
    worked = combined.net(0)
    if worked is None:
        return
    net, _ = worked
    try:
        work.changes(Changes(0, net.gone, net.come, net.both))
    except ConflictError as cause:
        raise combined.judged(cause) from None


def _stage(work: TargetTask, number: int, combined: CombinedUpdates, keys: Sequence[Key]) -> None:
    for key, values in work.look(keys):
        combined.loaded(Loaded(0, key, values))
    stores = [store._replace(binding=number) for store in combined.stores()]
    if stores:
        work.stage(stores)


class DistributedRuntime:
    """A materialization whose transactions are carried out by executors. ``open`` it first; then ``transact``.

    Raises UsageError for a driver that cannot be spread, and what the driver and the recovery log raise: FencedError
    when another instance has taken over. After an error make a new one: it goes on from the checkpoint.
    """

    def __init__(
        self,
        materialization: str,
        bindings: Sequence[ViewBinding],
        driver: Driver,
        *,
        log: RecoveryLog | None = None,
        start: Iterable[int] = (0,),
    ) -> None:
        if not isinstance(driver, DistributedDriver):
            raise UsageError(
                f"{type(driver).__name__} takes its rows from one process, one after the other, not from executors: "
                "use cdcv2 materialize, which needs no Spark"
            )
        self.name, self.bindings = materialization, tuple(bindings)
        self.views, self._marks = tuple(binding.view() for binding in bindings), marks(bindings)
        self._driver: DistributedDriver = driver
        self._log, self._start = log, Antichain(start)
        self._turns = Turns()
        self._sequence = CommitSequence(materialization, log, self._start)

    @property
    def checkpoint(self) -> Checkpoint:
        """What was committed last, by whomever."""
        return self._sequence.checkpoint

    @property
    def transactions(self) -> int:
        """How many transactions this instance has committed."""
        return self._sequence.transactions

    @property
    def remarks(self) -> Sequence[str]:
        """Remarks of the driver for the user, since it was opened."""
        return self._driver.remarks

    def open(self) -> None:
        """Take the materialization over from an earlier instance, and apply what was committed last.

        Raises RefusedError if the driver does, or if ranges of the keys are at different frontiers.
        """
        tables = tuple(view.table for view in self.views)
        message = self._sequence.claim(Open(self.name, tables, start=self._start))
        try:
            opened = self._exchange(self._driver.open, message)
        except RefusedError:
            # A successor may have brought the store further than our recovery log states.
            self._sequence.demand()
            raise
        pieces = self._sequence.adopt(opened)
        demand_same(self.name, self.bindings, self.checkpoint)
        if len(pieces) > 1:
            raise RefusedError(
                f"ranges of the keys of {self.name!r} are at different frontiers "
                f"({', '.join(f'{piece.range}: {piece.frontier}' for piece in pieces)}): executors take all keys. Let "
                "cdcv2 materialize bring them to one first"
            )
        self._acknowledge()

    def transact(
        self, upper: Antichain, carried: Callable[[TargetWorker], Iterable[tuple[int, Any]]], state: Any = None
    ) -> None:
        """Commit the transaction of the times beyond the checkpoint and not beyond ``upper``.

        ``state`` is the reader's own, for the checkpoint. ``carried`` sends the hand to where the rows are, and gives
        out (number of the binding, receipt) of each task.
        """
        for answer in self._flush(upper):
            if isinstance(answer, Flushed):
                self._sequence.prepare(upper, answer.state, repeats=False)
        try:
            for number, receipt in carried(self._driver.hand()):
                if receipt is not None:
                    self._driver.took(number, receipt)
        except Exception:
            # A zombie adds its updates to what its successor has left there: then that is what is wrong.
            self._demand(upper)
            raise
        failpoints.reach(CARRIED)
        checkpoint = Checkpoint(upper, state, self._marks)
        started = self._exchange(self._driver.start_commit, StartCommit(checkpoint))
        self._sequence.commit(checkpoint, started.state)
        self._acknowledge()

    def close(self) -> None:
        """Let go of the driver and the recovery log."""
        self._driver.close()
        if self._log is not None:
            self._log.close()

    def _acknowledge(self) -> None:
        self._sequence.patch(self._exchange(self._driver.acknowledge, Acknowledge()).state)

    def _flush(self, upper: Antichain) -> Iterator[Any]:
        message = Flush(self.checkpoint.frontier, upper)
        self._turns.record(message)
        for answer in self._driver.flush(message):
            self._turns.record(answer)
            yield answer

    def _demand(self, upper: Antichain) -> None:
        """Raises FencedError if another instance has taken over, RestoredError if the target was put back; no other
        error, as one is on its way already.
        """
        try:
            self._sequence.demand()
            list(self._driver.flush(Flush(self.checkpoint.frontier, upper)))
        except (FencedError, RestoredError):
            raise
        except Cdcv2Error:
            return

    def _exchange(self, method: Callable[[Any], Any], message: Any) -> Any:
        """Send it, and receive the answer; both in turn."""
        self._turns.record(message)
        answer = method(message)
        self._turns.record(answer)
        return answer
