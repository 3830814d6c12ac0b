"""How much the API takes on, and what it refuses before anything else looks at a request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
#: Requests that are answered in a second, on average, and at once after a pause.
RATE, BURST = 100.0, 200.0
#: Bytes of a request: what has no use for a body gets none that is longer; all names and values of headers.
BODY, HEADERS = 4096, 16384
#: In the scope of a request: whether it has the token.
ALLOWED = "cdcv2.allowed"
#: Connections at once, and the seconds that one lasts: a request each, however slow the client is.
CONNECTIONS, LIFETIME = 64, 20.0
#: Seconds for the loop to do what is asked for. Less than a connection lasts.
PATIENCE = 10.0
#: Seconds for which an answer is given again, so that many questions cost no more than one: of what is asked of files,
#: of servers about the status, and of servers about what changes slowly.
FRESH, STATUS_FRESH, MEASURED_FRESH = 0.5, 2.0, 60.0
#: Seconds that a request waits for servers before it is answered with what was known before.
WAIT = 3.0
#: Seconds without a turn of the loop after which it counts as dead.
SILENT = 120.0


class RateLimit:
    """Allows ``rate`` requests a second, and ``burst`` at once after a pause. ``ticks``: seconds that only grow.

    >>> now = iter([0.0, 0.0, 0.0, 0.5])
    >>> limit = RateLimit(2.0, 1.0, ticks=lambda: next(now))
    >>> [limit.allows() for _ in range(3)]
    [True, False, True]
    """

    def __init__(self, rate: float, burst: float, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._ticks = rate, burst, ticks
        self._left, self._at = burst, ticks()

    def allows(self) -> bool:
        """Whether one more is allowed; if so, it counts."""
        now = self._ticks()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class BackgroundAnswer(Generic[T]):
    """What a question to servers gives, asked in a thread of its own, at most once in ``seconds``, when it is wanted.

    The question gets the last answer, and may take long: who wants it waits :data:`WAIT` seconds, and then has the last
    answer; ``first`` seconds, while there is none.
    """

    def __init__(
        self, question: Callable[[T | None], T], seconds: float, *, first: float = WAIT, wait: float = WAIT,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._question, self._seconds, self._ticks = question, seconds, ticks
        self._first, self._wait = first, wait
        self._lock = threading.Lock()
        self._ready: threading.Event | None = None
        self._at: float | None = None
        self._last: T | None = None
        self._error: Exception | None = None

    def __call__(self) -> T | None:
        """The last answer; None: there is none yet. Raises what the question raised last."""
        with self._lock:
            if self._at is None or self._ticks() - self._at >= self._seconds:
                if self._ready is None:
                    self._ready = threading.Event()
                    threading.Thread(target=self._refresh, name="cdcv2 API looks", daemon=True).start()
            ready, wait = self._ready, self._first if self._last is None else self._wait
        if ready is not None:
            ready.wait(wait)
        with self._lock:
            if self._error is not None:
                raise self._error
            return self._last

    def _refresh(self) -> None:
        answer, failed = self._last, None
        try:
            answer = self._question(answer)
        except Exception as error:  # it is raised where it is wanted
            failed = error
        with self._lock:
            self._last, self._error, self._at = answer, failed, self._ticks()
            ready, self._ready = self._ready, None
        if ready is not None:
            ready.set()


class RecentAnswer(Generic[T]):
    """What a question gives, asked at most once in ``seconds`` by all together; one thread asks at a time."""

    def __init__(
        self, question: Callable[[], T], seconds: float, *, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._question, self._seconds, self._ticks = question, seconds, ticks
        self._lock = threading.Lock()
        self._last: tuple[float, T] | None = None

    def __call__(self) -> T:
        """The answer. Raises what the question raises, which is asked again the next time."""
        with self._lock:
            if self._last is None or self._ticks() - self._last[0] >= self._seconds:
                answer = self._question()
                self._last = self._ticks(), answer
            return self._last[1]
