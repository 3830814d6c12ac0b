"""Antichains: sets of times none of which is beyond another. Read as a boundary, one is a *frontier*.

A time is *beyond* a frontier if some element is less than or equal to it. The frontier ``{0}`` has every integer
beyond it: nothing is finished; the empty frontier has nothing beyond it: everything is finished. Frontiers form
a lattice of their own: the ``join`` of two has beyond it what is beyond both, the ``meet`` what is beyond either.

:class:`Antichain` is an immutable value. :class:`MutableAntichain` counts times, and maintains the frontier of
those with a positive count.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import le

from cdcv2.core.order import (
    MAX_TIME, Product, Time, check_time, from_plain, is_total, join, less_equal, sort_key, to_plain,
)
from cdcv2.errors import MalformedError


# From so many elements on, their coordinates are kept at hand.
_MANY = 8


class Antichain:
    """The minimal elements of ``times``, as a value: equality and hash do not depend on any order.

    >>> frontier = Antichain([5, 3, 4])
    >>> frontier, frontier.less_equal(3), frontier.less_equal(2)
    (Antichain([3]), True, False)

    Raises MalformedError for a value that is no time, or times of different kinds.
    Cost: linear in ``times`` for integers, a sort for Products of two, else one comparison per pair of a time and an
    element kept: about a second for 2000 elements of three coordinates.
    Source: the frontiers of the CDCv2 post, where they are called antichains.
    """

    __slots__ = ("_elements", "integer", "_bare")

    def __init__(self, times: Iterable[Time] = ()) -> None:
        # Invariant: no element is beyond another; sorted by sort_key, so equal sets have equal tuples.
        self._elements: tuple[Time, ...]
        #: The element of an antichain of integers, which has one at most; None for other times, and for none. Asked for
        #: every update, so kept at hand.
        self.integer: int | None
        # The coordinates of an antichain of many Products, in order: the times of a forged statement may be thousands.
        self._bare: list[tuple[int, ...]] | None
        if type(times) is list and len(times) == 1 and type(times[0]) is int and 0 <= times[0] <= MAX_TIME:
            # As the bounds of nearly all statements are.
            self._elements, self.integer, self._bare = (times[0],), times[0], None
            return
        try:
            given = iter(times)
        except TypeError:
            raise MalformedError(f"the frontier {times!r} is no iterable of times: write [{times!r}]") from None
        self._elements = _minimal([check_time(time) for time in given])
        self.integer = self._elements[0] if self._elements and type(self._elements[0]) is int else None
        self._bare = _coordinates(self._elements) if len(self._elements) >= _MANY else None

    @classmethod
    def of_integer(cls, time: int) -> Antichain:
        """The antichain of one integer that is known to be a time: it is not checked. Cost: constant.

        >>> Antichain.of_integer(3) == Antichain([3])
        True
        """
        antichain = cls.__new__(cls)
        antichain._elements = (time,)
        antichain.integer = time
        antichain._bare = None
        return antichain

    @property
    def elements(self) -> tuple[Time, ...]:
        """The elements, in the order of their sort keys."""
        return self._elements

    def less_equal(self, time: Time) -> bool:
        """Whether ``time`` is beyond this frontier. Cost: one comparison per element; for Products of two, a search.

        >>> from cdcv2.core.order import Product
        >>> frontier = Antichain([Product(2, 0), Product(0, 2)])
        >>> frontier.less_equal(Product(3, 0)), frontier.less_equal(Product(1, 1))
        (True, False)
        """
        if self.integer is not None and type(time) is int:
            return self.integer <= time
        if self._bare is not None and isinstance(time, Product) and len(time) == len(self._bare[0]):
            return _is_beyond(self._bare, time.sort_key())
        for element in self._elements:
            if less_equal(element, time):
                return True
        return False

    def dominates(self, other: Antichain) -> bool:
        """Whether every element of this frontier is beyond ``other``: it is at least as far on.

        >>> Antichain([5]).dominates(Antichain([3])), Antichain().dominates(Antichain([3]))
        (True, True)

        Cost: one comparison per pair of elements.
        """
        return all(other.less_equal(element) for element in self._elements)

    def join(self, other: Antichain) -> Antichain:
        """The frontier that has beyond it what is beyond both. Pairs without a common upper bound add nothing.

        >>> Antichain([3]).join(Antichain([5]))
        Antichain([5])

        Cost: one join per pair of elements, and the antichain of the results.
        """
        joins = (join(mine, theirs) for mine in self._elements for theirs in other._elements)
        return Antichain(time for time in joins if time is not None)

    def meet(self, other: Antichain) -> Antichain:
        """The frontier that has beyond it what is beyond either.

        >>> Antichain([3]).meet(Antichain([5])), Antichain().meet(Antichain([5]))
        (Antichain([3]), Antichain([5]))

        Cost: as of the constructor, over the elements of both.
        """
        return Antichain(self._elements + other._elements)

    @classmethod
    def meet_of(cls, frontiers: Iterable[Antichain]) -> Antichain:
        """The meet of any number: how far all are that are each as far as theirs. Of none it is the empty one.

        >>> Antichain.meet_of([Antichain([5]), Antichain([3]), Antichain()]), Antichain.meet_of([])
        (Antichain([3]), Antichain([]))

        Cost: as of the constructor, over the elements of all.
        """
        given = [frontier for frontier in frontiers if frontier._elements]
        integers = [frontier.integer for frontier in given if frontier.integer is not None]
        if integers and len(integers) == len(given):
            return cls.of_integer(min(integers))
        return cls(time for frontier in given for time in frontier)

    def to_plain(self) -> list[int | list[int]]:
        """The elements as JSON can hold them. Raises MalformedError where one has no plain form."""
        return [to_plain(time) for time in self._elements]

    @classmethod
    def from_plain(cls, plain: Iterable[object]) -> Antichain:
        """The antichain that :meth:`to_plain` made this of. Raises MalformedError for anything else."""
        return cls(from_plain(item) for item in plain)

    def check(self) -> None:
        """Audit the invariant; for tests. Quadratic. Raises AssertionError."""
        for number, one in enumerate(self._elements):
            for other in self._elements[number + 1:]:
                if less_equal(one, other) or less_equal(other, one):
                    raise AssertionError(f"{one!r} and {other!r} are comparable")

    def __iter__(self) -> Iterator[Time]:
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Antichain) and self._elements == other._elements

    def __hash__(self) -> int:
        return hash(("Antichain", self._elements))

    def __repr__(self) -> str:
        return f"Antichain([{', '.join(map(repr, self._elements))}])"

    def __str__(self) -> str:
        # Messages name frontiers to people who write times, not Python.
        return f"[{', '.join(map(str, self._elements))}]"


def _minimal(times: list[Time]) -> tuple[Time, ...]:
    if len(times) < 2:
        return tuple(times)
    if all(is_total(time) for time in times):
        return (min(times, key=sort_key),)
    if _coordinates(times) is not None:
        return _minimal_products(times)
    kept: list[Time] = []
    # Sorted by a key that extends the order, a time can only be beyond one that came before it.
    for time in sorted(times, key=_mixed_key):
        if not any(less_equal(element, time) for element in kept):
            kept.append(time)
    return tuple(kept)


def _minimal_products(times: list[Time]) -> tuple[Time, ...]:
    """The same for Products that all have as many coordinates."""
    kept: list[Time] = []
    low: list[tuple[int, ...]] = []
    for time in sorted(times, key=sort_key):
        coordinates = sort_key(time)
        if not _is_beyond(low, coordinates):
            kept.append(time)
            low.append(coordinates)
    return tuple(kept)


def _coordinates(times: Sequence[Time]) -> list[tuple[int, ...]] | None:
    """The coordinates of Products that all have as many; None for other times."""
    width = len(times[0]) if isinstance(times[0], Product) else 0
    if not width or not all(isinstance(time, Product) and len(time) == width for time in times):
        return None
    return [sort_key(time) for time in times]


def _is_beyond(low: list[tuple[int, ...]], coordinates: tuple[int, ...]) -> bool:
    """Whether one of ``low`` is less than or equal; it is sorted, and none of it is beyond another."""
    # Those whose first coordinate is not greater; what follows does not matter.
    end = bisect_right(low, (coordinates[0], MAX_TIME + 1))
    if len(coordinates) == 2:
        # Where the first coordinate rises the second falls: the last has the least.
        return end > 0 and low[end - 1][1] <= coordinates[1]
    return any(all(map(le, low[number], coordinates)) for number in range(end))


def _mixed_key(time: Time) -> tuple[str, object]:
    # Times of different kinds must reach less_equal, which names them, and not fail in the sort.
    return type(time).__name__, sort_key(time)


class MutableAntichain:
    """Times with counts, and the frontier of those whose count is positive, maintained as counts change.

    >>> due = MutableAntichain()
    >>> due.update([(5, 1), (3, 1)])
    >>> due.frontier
    Antichain([3])
    >>> due.update([(3, -1)])
    >>> due.frontier
    Antichain([5])

    Counts may be negative in between; such times are not in the frontier. Cost: for integers O(log n) per change,
    amortised; else one comparison per element of the frontier for a time that appears, and a pass over the held
    times when an element of the frontier disappears.
    """

    __slots__ = ("_counts", "_heap", "_frontier")

    def __init__(self, changes: Iterable[tuple[Time, int]] = ()) -> None:
        # Time -> its count; a count of zero is not held.
        self._counts: dict[Time, int] = {}
        # Integers only: every time with a positive count is in it, and perhaps some that have none any more, or
        # that are in it twice: never more than about twice the times held.
        self._heap: list[int] = []
        # Always the frontier of the times with a positive count; None while it must be worked out again.
        self._frontier: Antichain | None = Antichain()
        self.update(changes)

    def update(self, changes: Iterable[tuple[Time, int]]) -> None:
        """Add each change to its time's count. Raises MalformedError for a change that is no int."""
        for time, change in changes:
            if type(change) is not int:
                raise MalformedError(f"the count of {time!r} cannot change by {change!r}: it takes an int")
            before = self._counts.get(time, 0)
            after = before + change
            if after:
                self._counts[time] = after
            else:
                self._counts.pop(time, None)
            if before <= 0 < after:
                self._appeared(time)
            elif after <= 0 < before:
                self._disappeared(time)

    def count(self, time: Time) -> int:
        """The count of ``time``; 0 when it is not held."""
        return self._counts.get(time, 0)

    @property
    def frontier(self) -> Antichain:
        """The minimal times with a positive count."""
        if self._frontier is None:
            self._frontier = self._recomputed()
        return self._frontier

    def items(self) -> list[tuple[Time, int]]:
        """The times held and their counts, sorted."""
        return sorted(self._counts.items(), key=lambda item: sort_key(item[0]))

    def check(self) -> None:
        """Audit that the maintained frontier is the recomputed one; for tests. Raises AssertionError."""
        fresh = Antichain(time for time, count in self._counts.items() if count > 0)
        if self.frontier != fresh:
            raise AssertionError(f"maintained {self.frontier}, recomputed {fresh}")

    def __len__(self) -> int:
        return len(self._counts)

    def _appeared(self, time: Time) -> None:
        if type(time) is int:
            heapq.heappush(self._heap, time)
            if len(self._heap) > 2 * len(self._counts) + 8:
                self._heap = [held for held, count in self._counts.items() if type(held) is int and count > 0]
                heapq.heapify(self._heap)
        if self._frontier is not None and not self._frontier.less_equal(time):
            self._frontier = self._frontier.meet(Antichain([time]))

    def _disappeared(self, time: Time) -> None:
        if self._frontier is not None and time in self._frontier.elements:
            self._frontier = None

    def _recomputed(self) -> Antichain:
        while self._heap and self._counts.get(self._heap[0], 0) <= 0:
            heapq.heappop(self._heap)
        if self._heap:
            return Antichain(self._heap[:1])
        return Antichain(time for time, count in self._counts.items() if count > 0)
