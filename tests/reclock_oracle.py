"""Reclocking by definition: every from-time that matters, at every time of the timeline, looked at one by one.

How far a source is, is plain here, and differs per kind of source: a number of lines; a set of pairs, the least ones
that are not in; for each partition the next offset, or None when it is finished; for each source one of these. Each
kind defines whether a point, an update's from-time, is *in*. That is all that the definition needs:

- at the time t the collection holds the updates whose points are in the last binding at or before t;
- the frontier is the least time at which some point would appear that the source may still bring.

Only :meth:`Kind.point` and :meth:`Kind.frontier` know `cdcv2`, to build from a plain value what is to be judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, frontier_of, offsets
from tests.strategies import Chooser

Steps = list[tuple[int, Any]]


class Kind:
    """A kind of source: lines of a file, and the base of the others."""

    first: Any = 0
    most = 9

    def points(self) -> list[Any]:
        """Every point that a test uses; each place has some that are not in, unless nothing can follow there."""
        return list(range(self.most + 1))

    def isin(self, place: Any, point: Any) -> bool:
        """Whether what happens at the point is in, when the source is there."""
        return bool(point < place)

    def later(self, choose: Chooser, place: Any) -> Any:
        """A place at or after this one."""
        return max(place, choose.integer(0, self.most))

    def both(self, one: Any, other: Any) -> Any:
        """The place where everything is in that is in at either."""
        return max(one, other)

    def point(self, point: Any) -> Any:
        """The point as cdcv2 has it."""
        return point

    def frontier(self, place: Any) -> Antichain:
        """The place as cdcv2 has it."""
        return Antichain([place])

    @property
    def start(self) -> Antichain:
        """Where it begins."""
        return self.frontier(self.first)


class Grid(Kind):
    """Pairs, partly ordered; a place is the least pairs that are not in."""

    first: Any = frozenset({(0, 0)})
    most = 3

    def points(self) -> list[Any]:
        return [(x, y) for x in range(self.most + 1) for y in range(self.most + 1)]

    def isin(self, place: Any, point: Any) -> bool:
        return not any(x <= point[0] and y <= point[1] for x, y in place)

    def later(self, choose: Chooser, place: Any) -> Any:
        top = self.most
        drawn = {(choose.integer(0, top), choose.integer(0, top)) for _ in range(choose.integer(1, 2))}
        return self.both(place, frozenset(drawn)) if not choose.chance(20) else frozenset()

    def both(self, one: Any, other: Any) -> Any:
        pairs = {(max(a, c), max(b, d)) for a, b in one for c, d in other}
        return frozenset(
            (a, b) for a, b in pairs if not any((c, d) != (a, b) and c <= a and d <= b for c, d in pairs)
        )

    def point(self, point: Any) -> Any:
        return Product(*point)

    def frontier(self, place: Any) -> Antichain:
        return Antichain(Product(*pair) for pair in place)


class Topic(Kind):
    """Partitions, of which a place names those that have started; the key None is there when no more can start."""

    first: Any = {}
    most = 3

    def points(self) -> list[Any]:
        # Of the last one no place ever speaks.
        return [(part, offset) for part in range(4) for offset in range(self.most + 1)]

    def isin(self, place: Any, point: Any) -> bool:
        at = place.get(point[0], None if None in place else 0)
        return at is None or point[1] < at

    def later(self, choose: Chooser, place: Any) -> Any:
        drawn = dict(place)
        part = choose.integer(0, 2)
        if None not in place or part in place:
            drawn[part] = None if choose.chance(8) else choose.integer(0, self.most)
        if choose.chance(15):
            drawn[None] = True
        return self.both(place, drawn)

    def both(self, one: Any, other: Any) -> Any:
        done = {}
        for part in {*one, *other} - {None}:
            ats = [place.get(part, None if None in place else 0) for place in (one, other)]
            done[part] = None if None in ats else max(ats)
        return done | ({None: True} if None in one or None in other else {})

    def point(self, point: Any) -> Any:
        return Partitioned.at(*point)

    def frontier(self, place: Any) -> Antichain:
        return offsets({part: at for part, at in place.items() if part is not None}, closed=None in place)


class Several(Kind):
    """A file, a grid and a topic on one timeline."""

    kinds: Mapping[str, Kind] = {"file": Kind(), "grid": Grid(), "topic": Topic()}
    first: Any = {}

    def points(self) -> list[Any]:
        return [(name, point) for name, kind in self.kinds.items() for point in kind.points()]

    def isin(self, place: Any, point: Any) -> bool:
        kind = self.kinds[point[0]]
        return kind.isin(place.get(point[0], kind.first), point[1])

    def later(self, choose: Chooser, place: Any) -> Any:
        name = choose.pick(sorted(self.kinds))
        kind = self.kinds[name]
        return {**place, name: kind.later(choose, place.get(name, kind.first))}

    def both(self, one: Any, other: Any) -> Any:
        ats = {name: [place.get(name, kind.first) for place in (one, other)] for name, kind in self.kinds.items()}
        return {name: self.kinds[name].both(*pair) for name, pair in ats.items()}

    def point(self, point: Any) -> Any:
        return Partitioned.at(point[0], self.kinds[point[0]].point(point[1]))

    def frontier(self, place: Any) -> Antichain:
        return frontier_of({name: self.kinds[name].frontier(at) for name, at in place.items()})

    @property
    def start(self) -> Antichain:
        return NOT_STARTED


KINDS: tuple[Kind, ...] = (Kind(), Grid(), Topic(), Several())


def steps(choose: Chooser, kind: Kind, most: int = 6) -> Steps:
    """A remap: times, and where the sources are from each on; the first is 0, at the start."""
    into, place = 0, kind.first
    drawn: Steps = [(0, place)]
    for _ in range(choose.integer(0, most)):
        into += choose.integer(1, 3)
        place = kind.later(choose, place)
        drawn.append((into, place))
    return drawn


def in_at(kind: Kind, remap: Steps, time: int, point: Any) -> bool:
    """Whether the point is in at the time, by the last step at or before it."""
    return kind.isin([place for into, place in remap if into <= time][-1], point)


def happens(kind: Kind, remap: Steps, upper: int, point: Any) -> int | None:
    """The first time before ``upper`` at which the point is in."""
    for time in range(remap[0][0], upper):
        if in_at(kind, remap, time, point):
            return time
    return None


def collection(kind: Kind, remap: Steps, source: Iterable[tuple[Any, Any, int]], time: int) -> Counter[Any]:
    """What the carried collection holds at a time: the definition."""
    held: Counter[Any] = Counter()
    for data, point, diff in source:
        if in_at(kind, remap, time, point):
            held[data] += diff
    return Counter({data: total for data, total in held.items() if total})


def changes(kind: Kind, remap: Steps, source: Iterable[tuple[Any, Any, int]], upper: int) -> dict[tuple[Any, int], int]:
    """The differences of the collection from each time to the next, before ``upper``."""
    source = list(source)
    done: dict[tuple[Any, int], int] = {}
    before: Counter[Any] = Counter()
    for time in range(remap[0][0], upper):
        now = collection(kind, remap, source, time)
        for data in {*before, *now}:
            if now[data] != before[data]:
                done[data, time] = now[data] - before[data]
        before = now
    return done


def complete(kind: Kind, remap: Steps, upper: int, place: Any) -> int:
    """The first time at which something may yet appear, when the source is at ``place``; at most ``upper``."""
    open_points = [point for point in kind.points() if not kind.isin(place, point)]
    times = [happens(kind, remap, upper, point) for point in open_points]
    return min([time for time in times if time is not None], default=upper)


def advanced(update_times: Mapping[tuple[Any, int], int], since: int) -> dict[tuple[Any, int], int]:
    """The differences when everything before ``since`` is moved to it."""
    done: Counter[tuple[Any, int]] = Counter()
    for (data, time), diff in update_times.items():
        done[data, max(time, since)] += diff
    return {key: diff for key, diff in done.items() if diff}
