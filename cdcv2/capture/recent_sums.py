"""A number for each time, in bounded memory: of the last times each by itself, of those before them one sum."""

from __future__ import annotations

from cdcv2.capture.memory_format import SumsMemory

#: Of so many times at least the numbers are kept apart.
RECENT = 1000


class RecentSums:
    """Adds up numbers by time. ``plain`` is what :meth:`plain` gave. One thread.

    >>> sums = RecentSums(recent=2)
    >>> for time in range(5):
    ...     sums.add(time, 10)
    >>> sums.total, sums.since, sums.older, sums.times
    (50, 3, 30, {3: 10, 4: 10})
    >>> sums.before(4), sums.before(2)
    (40, None)

    Cost: O(1) amortized to add, O(times kept) to ask. Memory: twice the times that are kept apart. Source: the sums are
    those of a counting reader, which needs none of finished times.
    """

    def __init__(self, plain: SumsMemory | None = None, *, recent: int = RECENT) -> None:
        self._recent = recent
        #: From this time on each has a number of its own.
        self.since: int = plain["since"] if plain else 0
        #: The sum of all times before that.
        self.older: int = plain["older"] if plain else 0
        #: Time -> its number.
        self.times: dict[int, int] = dict(plain["times"]) if plain else {}
        #: The sum of all.
        self.total: int = self.older + sum(self.times.values())

    def plain(self) -> SumsMemory:
        """The numbers, to be kept."""
        return {"since": self.since, "older": self.older, "times": sorted(self.times.items())}

    def add(self, time: int, number: int) -> None:
        """So many more at a time."""
        self.total += number
        if time < self.since:
            self.older += number
            return
        self.times[time] = self.times.get(time, 0) + number
        if len(self.times) > 2 * self._recent:
            self._fold()

    def before(self, time: int) -> int | None:
        """The sum of all before a time; None: not known, as it is among those that have no number of their own."""
        if time < self.since:
            return None
        return self.older + sum(number for at, number in self.times.items() if at < time)

    def _fold(self) -> None:
        kept = sorted(self.times)[-self._recent:]
        self.since = kept[0]
        self.older += sum(number for time, number in self.times.items() if time < self.since)
        self.times = {time: self.times[time] for time in kept}
