"""Partitions of which a consumer gives nothing more, although the broker has more: a reader that follows begins again.

A client may cease to fetch a partition, as after its broker was away. No error comes, and a reader that waits for the
next record would wait for ever. But a fetch may be slow, too, as of a large message over a slow line: one who begins
again throws away the part that has arrived. So the wait is twice as long each time, as long as nothing comes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)
#: After so many looks, one every few seconds, a partition counts as stalled: a fetch that is slow has time to end. And
#: the most looks, minutes, where it was read again already, and still nothing came.
LOOKS, MOST = 6, 96


class StalledPartitions(Generic[P]):
    """What was seen of partitions at each look.

    >>> stalled = StalledPartitions[str]()
    >>> [stalled.look({"a": 5, "b": 7}, {"a": 5, "b": 9}) for _ in range(LOOKS + 1)][-2:]
    [False, True]
    """

    def __init__(self) -> None:
        # Where a partition with more was found at the last look, and at how many looks in a row.
        self._seen: dict[P, tuple[int, int]] = {}
        # Partitions that stalled -> where, and after how many looks they count as stalled there again.
        self._longer: dict[P, tuple[int, int]] = {}

    def look(self, following: Mapping[P, int], ends: Mapping[P, int]) -> bool:
        """Whether a partition is stalled: it had more at each of the last looks, and its offset stayed.

        ``following``: the next offset of each partition that is read. ``ends``: behind the last record that can be
        read, as brokers state it now. Call it only if a wait for records ended without one since the last look; else
        :meth:`forget`. After True, it begins again, and such a partition has twice the looks until it comes further.
        """
        seen = {}
        for place, offset in following.items():
            if offset < ends.get(place, 0):
                before, looks = self._seen.get(place, (offset, 0))
                seen[place] = offset, looks + 1 if before == offset else 1
        self._seen = seen
        self._longer = {place: one for place, one in self._longer.items() if following.get(place) == one[0]}
        stalled = {place: at for place, (at, looks) in seen.items() if looks > self._limit(place)}
        if stalled:
            self._longer |= {place: (at, min(2 * self._limit(place), MOST)) for place, at in stalled.items()}
            self.forget()
        return bool(stalled)

    def _limit(self, place: P) -> int:
        return self._longer[place][1] if place in self._longer else LOOKS

    def forget(self) -> None:
        """Begin again, as records come."""
        self._seen = {}
