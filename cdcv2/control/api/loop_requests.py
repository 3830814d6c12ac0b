"""What other threads ask of the loop that keeps the jobs: only the loop changes anything, between two of its turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from queue import Empty, Full, Queue
from typing import Any, TypeVar

from cdcv2.errors import UnavailableError

T = TypeVar("T")
#: So many requests wait at most.
MOST = 100


class LoopRequests:
    """The requests of one loop. Any thread may :meth:`ask`; the loop alone takes them."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._queue: Queue[tuple[Callable[[], Any], Future[Any]]] = Queue(MOST)
        self._turned = ticks()
        self._closed = False

    def ask(self, act: Callable[[], T], patience: float) -> T:
        """What ``act`` gives, done by the loop. Raises what it raises, and UnavailableError where the loop is full,
        has ended, or does not come to it within ``patience`` seconds: then it is not done later either.
        """
        future: Future[T] = Future()
        try:
            self._queue.put_nowait((act, future))
        except Full:
            raise UnavailableError(f"{MOST} requests wait for the loop of cdcv2 up already: try again later") from None
        if self._closed:
            self.close()
        try:
            return future.result(patience)
        except CancelledError:
            raise UnavailableError("cdcv2 up is ending, so it does nothing more: start it again") from None
        except TimeoutError:
            if future.cancel():
                raise UnavailableError(
                    f"the loop of cdcv2 up did not come to it within {patience:g} s, so it was not done: try again "
                    "later, and look what holds the loop"
                ) from None
            return future.result()

    def take(self, pause: float) -> None:
        """The pause of the loop between two turns: at most so many seconds, fewer when something was asked for."""
        self._turned = self._ticks()
        try:
            self._do(*self._queue.get(timeout=pause))
            while True:
                self._do(*self._queue.get_nowait())
        except Empty:
            return

    def idle(self) -> float:
        """Seconds since the loop made its last turn."""
        return self._ticks() - self._turned

    def close(self) -> None:
        """Refuse what waits, and all that comes."""
        self._closed = True
        try:
            while True:
                self._queue.get_nowait()[1].cancel()
        except Empty:
            return

    @staticmethod
    def _do(act: Callable[[], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(act())
        except Exception as error:  # it is raised where it was asked for
            future.set_exception(error)
