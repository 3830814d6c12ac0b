"""The runtime: takes finished cuts, asks a driver for the present rows, sends the new ones, and commits both sides.

One transaction after the other, each in the order of :mod:`cdcv2.materialize.protocol.turns`::

    runtime                              driver
    Acknowledge ───────────────────────▶ applies the last transaction
    Load Load … (the next transaction)   reads them when it has applied
                ◀─────────────────────── Acknowledged
    Flush ─────────────────────────────▶
                ◀─────────────────────── Loaded … Flushed
    (extent and state durable)
    Store Changes … StartCommit ───────▶
                ◀─────────────────────── StartedCommit
    (checkpoint and state committed)

It is a generator of its own messages, so a test can stop it before any of them, run another one, and let it go on; and
``run`` is the plain loop without stops. Everything that it knows it can find again: it may crash at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias, TypeVar, Union

from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, UsageError, ViewError
from cdcv2.materialize.commit_sequence import CommitSequence
from cdcv2.materialize.connection import Connection, InlineConnection
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.intake import Fed, Intake, KeyShare, Portion
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Changes, Checkpoint, ConflictError, Flush, Flushed, Key, Load, Loaded, Open, Opened,
    Request, Response, StartCommit, StartedCommit, Store,
)
from cdcv2.materialize.recovery_log import RecoveryLog
from cdcv2.protocol.messages import Update
from cdcv2.views.binding import ViewBinding
from cdcv2.views.combined_updates import CombinedUpdates
from cdcv2.views.identity import demand_same, marks

R = TypeVar("R")


class Pause(Enum):
    """Why a runtime sends nothing."""

    DRIVER = "it waits for an answer of the driver"
    INPUT = "the source has nothing now"


#: A step: the kind of message that is about to be sent, or to be recorded; or why there is none.
Step: TypeAlias = Union[type[Any], Pause]


class Runtime:
    """One materialization, or one range of its keys, from opening to the end of its source.

    Args:
        materialization: its name, in the recovery log and in the store.
        bindings: which logs are kept in which tables.
        driver: a driver, which is then called inline, or a connection to one.
        source: given the checkpoint, the cuts from its frontier on (earlier ones are skipped), each perhaps with the
            reader's state behind it, which comes back in the checkpoint; None for "nothing now".
        log: the recovery log; may be None when the store's own checkpoint rules.
        range: the share of the keys. Ranges commit on their own: each is a consistent cut, at a frontier of its own.
        start: the frontier of a view that has nothing yet.
        rows: a transaction takes no further cut when it has as many updates.

    Raises what the source and the driver raise; TurnError when a side spoke out of turn; FencedError when another
    instance has taken over; ViewError and MalformedError for rows that the view cannot have. After any of them nothing
    of the transaction counts; a new runtime goes on from the checkpoint.
    """

    def __init__(
        self,
        materialization: str,
        bindings: Sequence[ViewBinding],
        driver: Driver | Connection,
        source: Callable[[Checkpoint], Iterable[Fed]],
        *,
        log: RecoveryLog | None = None,
        range: Range = Range(),
        start: Iterable[int] = (0,),
        rows: int = 100_000,
    ) -> None:
        if not bindings:
            raise UsageError(f"the materialization {materialization!r} has no bindings: name a log and a table")
        self._name, self._bindings, self._range = materialization, tuple(bindings), range
        self._views, self._marks = tuple(binding.view() for binding in bindings), marks(bindings)
        self._connection: Connection = InlineConnection(driver) if isinstance(driver, Driver) else driver
        self._source, self._start, self._rows = source, Antichain(start), rows
        self._sequence = CommitSequence(materialization, log, self._start)
        self._repeats = False
        self._acknowledged = False
        # Numbers of the bindings whose changes the driver takes as columns.
        self._columns: frozenset[int] = frozenset()
        self._digests = False

    @property
    def checkpoint(self) -> Checkpoint:
        """What was committed last, by whomever."""
        return self._sequence.checkpoint

    @property
    def transactions(self) -> int:
        """How many transactions this instance has committed."""
        return self._sequence.transactions

    def run(self) -> Checkpoint:
        """Work to the end of the source; return what was committed last. Closes the connection, also after an error."""
        try:
            for step in self.steps():
                if step is Pause.DRIVER:
                    self.wait()
        finally:
            self.close()
        return self.checkpoint

    def wait(self) -> None:
        """After :attr:`Pause.DRIVER`: return when the driver has answered, or failed."""
        self._connection.wait()

    def settle(self) -> None:
        """For who stops between two transactions: return when what was committed is in the store. Raises as ``run``."""
        while not self._acknowledged:
            for step in self._receive():
                if step is Pause.DRIVER:
                    self.wait()

    def demand(self) -> None:
        """Raise FencedError if another instance has taken over; nothing else is done."""
        self._sequence.demand()

    def close(self) -> None:
        """Let go of the driver, wherever things are; nothing that was not committed is."""
        self._connection.close()

    def steps(self) -> Generator[Step, None, None]:
        """The same, step by step; each is given out *before* it happens. Does not close."""
        try:
            yield from self._work()
        except (ViewError, RefusedError):
            # A zombie adds its updates to what its successor has left there: then that is what is wrong.
            self._sequence.demand()
            raise

    def _work(self) -> Generator[Step, None, None]:
        intake = yield from self._open()
        yield from self._send(Acknowledge())
        while True:
            combined = CombinedUpdates(self._views, digests=self._digests)
            last = yield from self._collect(intake, combined)
            if last is None:
                break
            yield from self._transact(combined, last)
        while not self._acknowledged:
            yield from self._receive()

    # --- opening

    def _open(self) -> Generator[Step, None, Intake]:
        tables = tuple(view.table for view in self._views)
        message = self._sequence.claim(Open(self._name, tables, self._range, start=self._start))
        while (patch := self._connection.prepare(message)) is not None:
            message = replace(message, state=self._sequence.patch(patch))
        yield from self._send(message)
        opened = yield from self._expect(Opened)
        pieces = self._sequence.adopt(opened)
        self._columns = frozenset(number for number in opened.changes if self._views[number].changes is not None)
        self._digests = opened.digests
        demand_same(self._name, self._bindings, self.checkpoint)
        self._repeats = opened.repeats or any(table.delta for table in tables)
        cuts = self._source(self.checkpoint)
        return Intake(cuts, self._bindings, self._views, KeyShare(self._range, pieces), self.checkpoint.frontier)

    # --- a transaction

    def _collect(self, intake: Intake, combined: CombinedUpdates) -> Generator[Step, None, Portion | None]:
        """Put cuts into the transaction until it is large enough, or nothing more is there; ask for each new key.

        Meanwhile the driver may still be busy with the last transaction: that is what is gained.
        """
        last: Portion | None = None
        while True:
            portion = intake.pull(self._sequence.extent)
            if portion is None:
                if self._sequence.extent is None and (last is not None or intake.ended):
                    return last
                if intake.ended:
                    raise RefusedError(
                        f"a transaction up to {self._sequence.extent} has begun before a crash, and the reader ends at "
                        f"{intake.frontier}: let it read the same logs, on to there"
                    )
                yield from self._listen(combined)
                yield Pause.INPUT
                continue
            last = portion
            for number, updates in portion.updates:
                if number in self._columns:
                    combined.hold(number, updates)
                    continue
                key_of = self._views[number].key_of
                yield from self._load(combined, number, ((key_of(update[0]), update) for update in updates))
            yield from self._listen(combined)
            if self._sequence.extent is None and combined.size >= self._rows or portion.upper == self._sequence.extent:
                return last

    def _load(
        self, combined: CombinedUpdates, number: int, keyed: Iterable[tuple[Key, Update]]
    ) -> Generator[Step, None, None]:
        for key in combined.add(number, keyed):
            yield Load
            self._connection.send(Load(number, key))

    def _changes(self, combined: CombinedUpdates) -> Generator[Step, None, list[Changes]]:
        """Rows that go and come, as columns; keys without such a form are asked for."""
        found: list[Changes] = []
        for number in sorted(self._columns):
            worked = combined.net(number)
            if worked is None:
                continue
            net, odd = worked
            yield from self._load(combined, number, odd)
            if len(net.gone) or len(net.come):
                found.append(Changes(number, net.gone, net.come, net.both))
        return found

    def _transact(self, combined: CombinedUpdates, last: Portion) -> Generator[Step, None, None]:
        changes = yield from self._changes(combined)
        while not self._acknowledged:
            yield from self._receive(combined)
        yield from self._send(Flush(self.checkpoint.frontier, last.upper))
        flushed = yield from self._expect(Flushed, combined)
        self._sequence.prepare(last.upper, flushed.state, repeats=self._repeats)
        for store in combined.stores():
            yield Store
            self._connection.send(store)
        checkpoint = Checkpoint(last.upper, last.state, self._marks)
        try:
            for message in changes:
                yield from self._send(message)
            yield from self._send(StartCommit(checkpoint))
            started = yield from self._expect(StartedCommit)
        except ConflictError as cause:
            raise combined.judged(cause) from None
        self._sequence.commit(checkpoint, started.state)
        self._acknowledged = False
        yield from self._send(Acknowledge())

    # --- talking

    def _send(self, message: Request) -> Generator[Step, None, None]:
        yield type(message)
        self._connection.send(message)

    def _listen(self, combined: CombinedUpdates) -> Generator[Step, None, None]:
        """Take note of the answers that are there, and wait for none."""
        while (response := self._connection.poll()) is not None:
            yield type(response)
            self._keep(response, combined)

    def _receive(self, combined: CombinedUpdates | None = None) -> Generator[Step, None, Response]:
        """Take note of the next answer, when it is there; it is the value."""
        while (response := self._connection.poll()) is None:
            yield Pause.DRIVER
        yield type(response)
        self._keep(response, combined)
        return response

    def _expect(self, kind: type[R], combined: CombinedUpdates | None = None) -> Generator[Step, None, R]:
        """Take note of answers until one is of this kind."""
        while True:
            response = yield from self._receive(combined)
            if isinstance(response, kind):
                return response

    def _keep(self, response: Response, combined: CombinedUpdates | None) -> None:
        if isinstance(response, Loaded) and combined is not None:
            combined.loaded(response)
        elif isinstance(response, Acknowledged):
            self._acknowledged = True
            self._sequence.patch(response.state)
