"""Updates in the order of their times, which are whole numbers: what comes next goes to the end, what is done leaves
from the front.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.protocol.messages import Update

#: The time of an update.
time_of: itemgetter[int] = itemgetter(1)


class OrderedUpdates:
    """A queue of updates that can be asked from a time on.

    >>> queue = OrderedUpdates()
    >>> queue.extend([("a", 1, 1), ("b", 3, 1), ("c", 4, 1)])
    >>> queue.pop_not_beyond(Antichain([3])), queue.since(4), len(queue)
    ([('a', 1, 1)], [('c', 4, 1)], 2)

    Cost: amortised constant per update, and a search. Memory: a place in a list for each update, and at most as many
    that are free.
    """

    __slots__ = ("_updates", "_first")

    def __init__(self) -> None:
        # From _first on; those before it have left.
        self._updates: list[Update] = []
        self._first = 0

    def extend(self, updates: Sequence[Update]) -> None:
        """Add updates in order, none of which is before those that are here."""
        self._updates += updates

    def pop_not_beyond(self, frontier: Antichain) -> list[Update]:
        """Take out those that are not beyond a frontier."""
        updates, first, end = self._updates, self._first, frontier.integer
        at = len(updates) if end is None or updates and time_of(updates[-1]) < end else self._place(end)
        if not first and at == len(updates):
            self._updates = []
            return updates
        taken = updates[first:at]
        # What has left is let go at once, its place when that pays.
        updates[first:at] = _NOTHING * (at - first)
        self._first = at
        if 2 * at >= len(updates):
            del updates[:at]
            self._first = 0
        return taken

    def since(self, time: int) -> list[Update]:
        """Those at this time or later."""
        return self._updates[self._place(time):]

    def _place(self, time: Any) -> int:
        return bisect_left(self._updates, time, self._first, key=time_of)

    def __iter__(self) -> Iterator[Update]:
        return iter(self._updates[self._first:])

    def __len__(self) -> int:
        return len(self._updates) - self._first


_NOTHING: list[Any] = [None]
