"""The wire between a runtime and a driver in one process: each side's messages are checked on both ends of it.

:class:`InlineConnection` calls the driver at once, on the caller's thread: everything happens in one order, for tests
and for stores that are quick. :class:`ThreadConnection` gives the driver a thread of its own, so that the runtime
works on the next transaction while the driver commits this one.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from cdcv2.errors import TurnError
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Changes, Flush, Load, Open, Patch, Request, Response, StartCommit, Store,
)
from cdcv2.materialize.protocol.turns import Turns


class Connection(Protocol):
    """What a runtime needs to talk to a driver. One thread calls it."""

    def prepare(self, message: Open) -> Patch | None:
        """What the driver must have durable before the message is sent; None when nothing (more) is."""

    def send(self, message: Request) -> None:
        """Send it. Returns when it is on its way, not when it is answered. Raises TurnError if it is not its turn."""

    def poll(self) -> Response | None:
        """The next answer, or None while there is none. Raises what ended the driver, TurnError for a wrong answer."""

    def wait(self) -> None:
        """Return when :meth:`poll` would give something else than None."""

    def close(self) -> None:
        """End the conversation, wherever it is; commits nothing."""


class _ServedDriver:
    """A driver with the checks on its side: a request in, its answers out."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._turns = Turns()

    def answers(self, message: Request) -> Iterable[Response]:
        """Let the driver work on it. Most messages are Loads and Stores that have no answer: these cost little."""
        self._turns.record(message)
        kind = type(message)
        if kind is Store:
            self.driver.store(message)  # type: ignore[arg-type]
            return ()
        if kind is Changes:
            self.driver.changes(message)  # type: ignore[arg-type]
            return ()
        if kind is Load:
            found = self.driver.load(message)  # type: ignore[arg-type]
            return self._answered(found, message) if found else ()
        return self._answered(self._called(message), message)

    def _answered(self, found: Iterable[Response], message: Request) -> Iterator[Response]:
        for response in found:
            self._turns.record(response)
            yield response
        if type(message) is Flush and "Flushed" in self._turns.expected("driver"):
            raise TurnError("driver", "did not end its answer to Flush with Flushed")

    def _called(self, message: Request) -> Iterator[Response]:
        if isinstance(message, Flush):
            yield from self.driver.flush(message)
        elif isinstance(message, StartCommit):
            yield self.driver.start_commit(message)
        elif isinstance(message, Acknowledge):
            yield self.driver.acknowledge(message)
        elif isinstance(message, Open):
            yield self.driver.open(message)


class InlineConnection:
    """A driver on the runtime's own thread: ``send`` returns when the driver has done its part."""

    def __init__(self, driver: Driver) -> None:
        self._served = _ServedDriver(driver)
        self._turns = Turns()
        self._answers: deque[Response] = deque()

    def prepare(self, message: Open) -> Patch | None:
        """Ask the driver."""
        return self._served.driver.prepare(message)

    def send(self, message: Request) -> None:
        """Send it, and let the driver work on it. Raises what the driver raises."""
        self._turns.record(message)
        self._answers.extend(self._served.answers(message))

    def poll(self) -> Response | None:
        """The next answer, or None."""
        if not self._answers:
            return None
        response = self._answers.popleft()
        self._turns.record(response)
        return response

    def wait(self) -> None:
        """Raise TurnError unless there is an answer: only this thread could give one."""
        if not self._answers:
            raise TurnError("driver", "owes an answer, and has returned without it")

    def close(self) -> None:
        """Close the driver."""
        self._served.driver.close()


#: How many Loads or Stores go to a driver's thread together: a queue's lock costs more than the message.
_TOGETHER = 200
#: So often one that cannot hand over looks whether the driver is still alive, in seconds.
_LOOK = 0.5


class ThreadConnection:
    """A driver on a thread of its own. ``ahead``: how many messages may be on their way to it, at least.

    Loads and Stores are handed over some at a time, at the latest with the message that follows them, or when
    the runtime waits.
    """

    def __init__(self, driver: Driver, *, ahead: int = 10_000) -> None:
        self._served = _ServedDriver(driver)
        self._turns = Turns()
        self._requests: queue.Queue[list[Request] | None] = queue.Queue(max(1, ahead // _TOGETHER))
        # Sent, and not handed over yet.
        self._held: list[Request] = []
        self._answers: deque[Response] = deque()
        # What ended the driver; set once, after its last answer.
        self._failure: BaseException | None = None
        self._news = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="cdcv2 driver", daemon=True)
        self._thread.start()

    def prepare(self, message: Open) -> Patch | None:
        """Ask the driver, on the caller's thread: its own has nothing to do yet."""
        return self._served.driver.prepare(message)

    def send(self, message: Request) -> None:
        """Send it; blocks while too much is on its way. Raises what ended the driver."""
        self._turns.record(message)
        self._held.append(message)
        if type(message) not in (Load, Store) or len(self._held) >= _TOGETHER:
            self._hand_over()

    def _hand_over(self) -> None:
        held, self._held = self._held, []
        while held:
            self._demand_alive()
            try:
                return self._requests.put(held, timeout=_LOOK)
            except queue.Full:
                continue

    def poll(self) -> Response | None:
        """The next answer, or None. What ended the driver is raised behind its last answer."""
        if not self._answers:
            self._demand_alive()
            return None
        response = self._answers.popleft()
        self._turns.record(response)
        return response

    def wait(self) -> None:
        """Return when there is an answer, or the driver has failed."""
        self._hand_over()
        with self._news:
            self._news.wait_for(lambda: bool(self._answers) or self._failure is not None)

    def close(self) -> None:
        """Let the driver end what it is doing, do nothing else that was asked of it, and close it."""
        self._closing = True
        self._served.driver.interrupt()
        try:
            self._requests.put_nowait(None)
        except queue.Full:  # then it sees _closing at the next message
            pass
        self._thread.join()

    def _demand_alive(self) -> None:
        if self._failure is not None and not self._answers:
            raise self._failure

    def _serve(self) -> None:
        try:
            for message in self._received():
                for response in self._served.answers(message):
                    self._pass_on(response)
        except BaseException as failure:  # handed to the runtime's thread, which raises it
            self._failure = failure
        try:
            self._served.driver.close()
        except BaseException as failure:  # the first failure is the cause
            self._failure = self._failure or failure
        with self._news:
            self._news.notify_all()

    def _received(self) -> Iterator[Request]:
        """The messages that are handed over, until the connection is closed."""
        while (messages := self._requests.get()) is not None:
            for message in messages:
                if self._closing:
                    return
                yield message

    def _pass_on(self, response: Response) -> None:
        with self._news:
            self._answers.append(response)
            self._news.notify()
