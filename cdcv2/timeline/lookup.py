"""When each from-time happens, looked up: one bisect in the bindings of its part.

Within a part whose times are numbers (a partition's offsets, an LSN, lines) each binding that moves the part has an
*end*: the first number that it does not cover. Ends and into-times both rise, so the time of a number is found by one
bisect in the ends of its part, independent of the other parts. From-times without a number, and parts that no binding
has named, are looked up by a bisect over the frontiers themselves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME, Time
from cdcv2.timeline.partitioned import Beyond, Path, path_of

#: The end of a part that is finished: all of its numbers are covered.
FINISHED = MAX_TIME + 1


class Steps:
    """The ends of one part and the into-times at which the part comes to them; both rise.

    >>> steps = Steps()
    >>> steps.add(3, 1000); steps.add(5, 2000)
    >>> [steps.into(number) for number in (0, 2, 3, 5)]
    [1000, 1000, 2000, None]

    Cost: O(log steps) to ask, O(1) to add.
    """

    __slots__ = ("ends", "intos")

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.intos: list[int] = []

    def add(self, end: int, into: int) -> None:
        """At ``into`` the part has come to ``end``; an end that is no further than the last one adds nothing."""
        if end > (self.ends[-1] if self.ends else 0):
            self.ends.append(end)
            self.intos.append(into)

    def into(self, number: int) -> int | None:
        """When the number happens; None while no binding covers it."""
        found = bisect_right(self.ends, number)
        return self.intos[found] if found < len(self.intos) else None

    def forget(self, since: int) -> None:
        """What happened before ``since`` happens at it."""
        kept = bisect_right(self.intos, since) - 1
        if kept >= 0:
            del self.ends[:kept], self.intos[:kept]
            self.intos[0] = since


class Lookup:
    """Bindings in their order, and when each from-time happens by them.

    >>> from cdcv2.timeline.partitioned import Partitioned, offsets
    >>> lookup = Lookup([(0, offsets({})), (1000, offsets({0: 4})), (2000, offsets({0: 4, 1: 9}))])
    >>> [lookup.into(Partitioned.at(*at)) for at in ((0, 3), (0, 4), (1, 8), (2, 0))]
    [1000, None, 2000, None]

    Cost: linear in the elements of a frontier to append it; see :meth:`into`. Memory: the bindings, and per part one
    pair of numbers for each binding that moved it.
    """

    def __init__(self, bindings: Iterable[tuple[int, Antichain]]) -> None:
        #: The times at which the frontier changes, and the frontiers from there on; both rise, strictly.
        self.intos: list[int] = []
        self.frontiers: list[Antichain] = []
        # Every part that a frontier had at a number.
        self._steps: dict[Path, Steps] = {}
        for into, frontier in bindings:
            self.append(into, frontier)

    def append(self, into: int, frontier: Antichain) -> None:
        """The frontier from ``into`` on; it is beyond the one before."""
        self.intos.append(into)
        self.frontiers.append(frontier)
        #: The last frontier, prepared for being asked.
        self.reached = Beyond(frontier)
        ends = self.reached.ends
        for path, end in ends.items():
            if path not in self._steps:
                self._steps[path] = Steps()
            self._steps[path].add(end, into)
        if len(ends) < len(self._steps):
            # Frontiers do not go back, so a part that was at a number and is at none is finished.
            for path, steps in self._steps.items():
                if path not in ends:
                    steps.add(FINISHED, into)

    def into(self, time: Time) -> int | None:
        """When an update at this from-time happens; None while no binding covers it.

        Raises MalformedError for a time of another gauge. Cost: one bisect in the steps of its part; for a time
        without a number, O(log bindings) questions to frontiers.
        """
        path, number = path_of(time)
        return self._searched(time) if path is None else self.steps(path, time).into(number)

    def steps(self, path: Path, time: Time) -> Steps:
        """The steps of a part that has ``time``, which is any of its times. Raises MalformedError as :meth:`into`."""
        found = self._steps.get(path)
        if found is None:
            # No binding had the part at a number: it has not started, and then it is finished.
            found, into = Steps(), self._searched(time)
            if into is not None:
                found.add(FINISHED, into)
        return found

    def forget(self, since: int) -> None:
        """What happened before ``since`` happens at it."""
        kept = bisect_right(self.intos, since) - 1
        del self.intos[:kept], self.frontiers[:kept]
        self.intos[0] = since
        for steps in self._steps.values():
            steps.forget(since)

    def _searched(self, time: Time) -> int | None:
        if self.frontiers[-1].less_equal(time):
            return None
        # As frontiers only grow, those that the time is beyond come first.
        found = bisect_left(range(len(self.intos)), True, key=lambda index: not self.frontiers[index].less_equal(time))
        return self.intos[found]
