"""For how long a finished time can be asked for. Times are of any kind, so this is counted from when each was finished.
"""

from __future__ import annotations

from collections import deque

#: How many moments are kept of a span.
_MOMENTS = 100
#: Seconds between two moments at least.
_LEAST = 1.0


class KeptTimes:
    """The since of an index that keeps a time for some seconds after it was seen to be finished.

    >>> kept = KeptTimes(10)
    >>> [kept.since(now, last) for now, last in ((0.0, 5), (4.0, 8), (9.0, 9), (10.0, 12), (15.0, 12))]
    [None, None, None, 5, 8]

    Cost: amortised constant. Memory: about a hundred numbers.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._pause = max(_LEAST, seconds / _MOMENTS)
        # (when it was seen, the last time that was finished then), in order.
        self._moments: deque[tuple[float, int]] = deque()
        self._since: int | None = None

    def since(self, now: float, last: int | None) -> int | None:
        """The time before which none need be kept; None: not known yet. ``last`` is the last finished time now."""
        if last is not None and (not self._moments or now >= self._moments[-1][0] + self._pause):
            self._moments.append((now, last))
        while self._moments and self._moments[0][0] <= now - self.seconds:
            self._since = self._moments.popleft()[1]
        return self._since
