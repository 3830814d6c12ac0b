"""The stage on which faults happen: instances of a materialization that are stopped, killed, frozen and thawed.

An instance is run step by step, so "before the third Flushed is taken note of" is a place where it can be stopped. What
is stopped may be killed (its connection is dropped), or be a *zombie*: frozen while another takes its place, and thawed
later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, ClassVar, TypeVar

from cdcv2 import failpoints
from cdcv2.errors import FencedError
from cdcv2.materialize.connection import Connection, InlineConnection
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.intake import Fed
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import RESPONSES, Checkpoint, Open, Patch, Request, Response
from cdcv2.materialize.recovery_log import RecoveryLog
from cdcv2.materialize.runtime import Pause, Runtime
from cdcv2.testing.workload import Seen, Workload


T = TypeVar("T")


class _InstanceCrash(failpoints.PlacedCrash):
    """The crash of an instance that was to die behind a change of its recovery log; others go to who placed them."""


class ConformanceError(AssertionError):
    """What a scenario found wrong with a driver; the text has what was expected and what was there."""


class Subject(ABC):
    """A driver under test, and the store behind it. Each scenario has one of its own, on an empty store."""

    #: what it claims: ``"exactly once"`` or ``"at least once"``
    guarantee: ClassVar[str] = "exactly once"
    #: whether its tables take changes only
    delta: ClassVar[bool] = False
    #: whether its driver takes Changes
    columns: ClassVar[bool] = False
    #: whether several instances may share the keys, by ranges
    splits: ClassVar[bool] = True
    #: whether readers of the store see whole transactions only
    consistent: ClassVar[bool] = True

    @abstractmethod
    def driver(self) -> Driver:
        """A new instance on the same store, as another process would make it."""

    @abstractmethod
    def log(self) -> RecoveryLog | None:
        """The recovery log, opened again at the same place; None when the store rules."""

    @abstractmethod
    def view(self) -> Seen:
        """What a reader of the store sees now: table -> key -> values. Of changes, what a subscriber makes of them."""

    def close(self) -> None:
        """Remove the store."""


class StallingConnection:
    """A connection on which one message stands still for a while, and all behind it."""

    def __init__(self, inner: Connection, kind: type[Any], nth: int, polls: int = 3) -> None:
        self._inner, self._kind, self._left, self._polls = inner, kind, nth, polls
        self._held: deque[Request] = deque()
        self._answer: Response | None = None

    def prepare(self, message: Open) -> Patch | None:
        """At once: nothing was sent yet."""
        return self._inner.prepare(message)

    def send(self, message: Request) -> None:
        """Hold it, if it is the one, or behind it."""
        self._count(message)
        if self._left == 0 and self._polls and self._kind not in RESPONSES:
            self._held.append(message)
        else:
            self._inner.send(message)

    def poll(self) -> Response | None:
        """The next answer, if it is not the one, or has been held long enough."""
        if self._left == 0 and self._polls:
            return None
        if self._answer is not None:
            answer, self._answer = self._answer, None
            return answer
        response = self._inner.poll()
        if response is not None:
            self._count(response)
            if self._left == 0 and self._polls:
                self._answer = response
                return None
        return response

    def wait(self) -> None:
        """Let a while pass."""
        if self._left or not self._polls:
            return self._inner.wait()
        self._polls -= 1
        while not self._polls and self._held:
            self._inner.send(self._held.popleft())

    def close(self) -> None:
        """Close the one underneath."""
        self._inner.close()

    def _count(self, message: object) -> None:
        if self._left and type(message) is self._kind:
            self._left -= 1


class Instance:
    """A runtime that is run step by step."""

    def __init__(self, runtime: Runtime, connection: Connection, log: RecoveryLog | None) -> None:
        self.runtime = runtime
        self._connection, self._log = connection, log
        self._steps = runtime.steps()
        self._begun = Counter[Any]()
        #: how it ended: "done", "fenced", "killed", "failed"; "" while it has not
        self.outcome = ""

    def step(self) -> bool:
        """Take the next step; False when there is none, as it has ended."""
        if self.outcome:
            return False
        try:
            step = next(self._steps)
        except StopIteration:
            self._end("done")
        except FencedError:
            self._end("fenced")
        except _InstanceCrash:
            self._end("killed")
        else:
            self._begun[step] += 1
            if step is Pause.DRIVER:
                self._connection.wait()
        return not self.outcome

    def until(self, kind: type[Any], nth: int) -> bool:
        """Run until the ``nth`` message of the kind is about to happen; False when it ended before."""
        while self._begun[kind] < nth:
            if not self.step():
                return False
        return True

    def commit(self, transactions: int) -> None:
        """Run until it has committed so many more transactions, or ended."""
        wanted = self.runtime.transactions + transactions
        while self.runtime.transactions < wanted and self.step():
            continue

    def finish(self) -> str:
        """Run to its end; how it ended."""
        while self.step():
            continue
        return self.outcome

    def thaw(self) -> str:
        """As :meth:`finish`, of one that others have taken the place of: it may end with any error ("failed")."""
        try:
            return self.finish()
        except Exception:  # a zombie may find anything; what counts is that it commits nothing
            self._end("failed")
            return self.outcome

    def kill(self) -> None:
        """It ends without a farewell, and its connection with it."""
        self._steps.close()
        self._end("killed")

    def _end(self, outcome: str) -> None:
        self.outcome = outcome
        self.runtime.close()
        if self._log is not None:
            self._log.close()


def _dying(log: RecoveryLog, changes: int) -> RecoveryLog:
    """The log, for one that dies as soon as so many changes are durable."""
    left = iter(range(changes - 1, -1, -1))

    def change(decide: Callable[[Any], tuple[Any, T]]) -> T:
        result = log.change(decide)
        if next(left, 0) == 0:
            raise _InstanceCrash("one more change of the recovery log is durable")
        return result

    other = copy(log)
    vars(other)["change"] = change
    return other


def _with_states(work: Workload) -> Callable[[Checkpoint], Iterator[Fed]]:
    """The workload's cuts, each with a state of the reader's, which must come back as it was."""
    return lambda checkpoint: ((cut, {"read": cut.upper.to_plain()}) for cut in work.source(checkpoint))


class Stage:
    """A subject, a workload, and what a scenario may do with them."""

    def __init__(self, subject: Subject, workload: Workload) -> None:
        self.subject, self.workload = subject, workload
        self._instances: list[Instance] = []

    def instance(
        self, keys: Range = Range(), *, stall: tuple[type[Any], int] | None = None, changes: int | None = None
    ) -> Instance:
        """A new instance, which has done nothing yet. Each cut becomes a transaction.

        ``stall``: where it stands still for a while; ``changes``: behind how many changes of the recovery log it dies.
        """
        log, connection = self.subject.log(), InlineConnection(self.subject.driver())
        if log is not None and changes is not None:
            log = _dying(log, changes)
        wire: Connection = StallingConnection(connection, *stall) if stall else connection
        work = self.workload
        runtime = Runtime("conformance", work.bindings, wire, _with_states(work), log=log, range=keys, rows=1)
        one = Instance(runtime, wire, log)
        self._instances.append(one)
        return one

    def demand_whole(self) -> None:
        """Raise ConformanceError unless the history is in the view, as often as the driver claims."""
        truth, shown = self.workload.truth(), self.workload.shown(self.subject.view())
        if self.subject.guarantee == "exactly once" and shown != truth:
            raise ConformanceError(f"in the end the store should show\n{truth}\nand shows\n{shown}")
        for table, rows in truth.items():
            counted = {row[:-1] for row in shown[table]}
            if self.subject.guarantee != "exactly once" and any(row[:-1] not in counted for row in rows):
                if table != "account_total":
                    raise ConformanceError(f"in the end {table} should have\n{rows}\nand has\n{shown[table]}")

    def demand_cut(self, least: int = 0) -> int:
        """What a reader sees is a consistent cut: of the ``least`` upper or a later one. Its number is returned.

        Raises ConformanceError unless it is.
        """
        shown = self.workload.shown(self.subject.view())
        begun = [None if not upper else upper[0] for upper in ([0], *self.workload.uppers)]
        for number, upper in list(enumerate(begun))[least:]:
            if shown == self.workload.truth(upper):
                return number
        raise ConformanceError(
            f"a reader sees what was so at no frontier (or goes back before {begun[least]}):\n{shown}"
        )

    def close(self) -> None:
        """Kill what still runs, and remove the store."""
        for one in self._instances:
            if not one.outcome:
                one.kill()
        self.subject.close()
