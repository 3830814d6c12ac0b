"""Sums that forget zeroes: what remains when changes to the same thing are added up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar

from cdcv2.core.order import Time, sort_key

K = TypeVar("K", bound=Hashable)


class ChangeBatch(Generic[K]):
    """Keys and the sums of their changes; a key whose sum is zero is not there.

    >>> changes = ChangeBatch([("a", 1), ("b", 2), ("a", -1)])
    >>> list(changes)
    [('b', 2)]

    Cost: O(1) expected per change. Source: timely dataflow's structure of the same name.
    """

    __slots__ = ("_sums",)

    def __init__(self, changes: Iterable[tuple[K, int]] = ()) -> None:
        # Key -> the sum of its changes, never zero.
        self._sums: dict[K, int] = {}
        self.extend(changes)

    def update(self, key: K, change: int) -> None:
        """Add ``change`` to the sum of ``key``."""
        total = self._sums.get(key, 0) + change
        if total:
            self._sums[key] = total
        else:
            self._sums.pop(key, None)

    def extend(self, changes: Iterable[tuple[K, int]]) -> None:
        """Add each change to the sum of its key."""
        for key, change in changes:
            self.update(key, change)

    def get(self, key: K) -> int:
        """The sum of ``key``; 0 when it is not there."""
        return self._sums.get(key, 0)

    def pop(self, key: K) -> int:
        """Forget ``key`` and return its sum."""
        return self._sums.pop(key, 0)

    def __iter__(self) -> Iterator[tuple[K, int]]:
        return iter(self._sums.items())

    def __len__(self) -> int:
        return len(self._sums)

    def __repr__(self) -> str:
        return f"ChangeBatch({list(self._sums.items())!r})"


def consolidate(updates: Iterable[tuple[Any, Time, int]]) -> list[tuple[Any, Time, int]]:
    """One update for each ``(data, time)``, with the sum of its diffs, never zero; sorted by time.

    >>> consolidate([("a", 1, 1), ("b", 0, 1), ("a", 1, 1), ("b", 0, -1)])
    [('a', 1, 2)]

    Data must be hashable. Updates of one time stay in the order in which their data came first.
    Cost: O(n) expected, and a sort of the results by time.
    """
    given = list(updates)
    times = set(map(_TIME, given))
    distinct = set(map(_DATA if len(times) == 1 else _IDENTITY, given))
    if len(distinct) < len(given) or not all(map(_DIFF, given)):
        sums = ChangeBatch(((data, time), diff) for data, time, diff in given)
        given = [(data, time, diff) for (data, time), diff in sums]
    if len(times) > 1:
        given.sort(key=_sort_key)
    return given


def _sort_key(update: tuple[Any, Time, int]) -> Any:
    return sort_key(update[1])


_DATA, _IDENTITY, _TIME, _DIFF = itemgetter(0), itemgetter(0, 1), itemgetter(1), itemgetter(2)
