"""The slow truth: what a reader must give out, computed from the definitions by looking at every time.

A time is a tuple of coordinates here ((3,) for the int 3). The times that can differ from one another are
finitely many: between two neighbouring coordinates that occur in some bound no interval begins or ends, so it
is enough to look at the product of the coordinates that occur, and the last one of each stands for everything
after it. "Known" is then not found by fitting statements together but read off: the least of the times, from
the start on, that no statement covers.

Nothing of `cdcv2` is imported, so that nothing can be wrong in both.

>>> oracle = Oracle([0], [Said((0,), (3,), {1: 1}), Told(("a", 1, 1))])
>>> oracle.absorb(Said((0,), (3,), {1: 1}))
Out(updates={}, lower=frozenset({(0,)}), upper=frozenset({(1,)}))
>>> oracle.absorb(Told(("a", 1, 1)))
Out(updates={('a', (1,)): 1}, lower=frozenset({(1,)}), upper=frozenset({(3,)}))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Time = tuple[int, ...]
Frontier = frozenset[Time]


class Contradiction(Exception):
    """Two facts about one time that cannot both be true; `.times` are the times in dispute."""

    def __init__(self, times: set[Time]) -> None:
        super().__init__(f"contradiction at {sorted(times)}")
        self.times = times


class Said:
    """A statement, when a test has no wish to build a real one."""

    def __init__(self, lower: Iterable[Any], upper: Iterable[Any], counts: Mapping[Any, int]) -> None:
        self.lower, self.upper, self.counts = tuple(lower), tuple(upper), tuple(counts.items())


class Told:
    """A message of updates, when a test has no wish to build a real one."""

    def __init__(self, *updates: tuple[Any, Any, int]) -> None:
        self.updates = updates


@dataclass(frozen=True)
class Out:
    """A batch as the oracle gives it out: {(data, time): diff} and the two frontiers."""

    updates: dict[tuple[Any, Time], int]
    lower: Frontier
    upper: Frontier


@dataclass(frozen=True)
class Lacking:
    """What is missing: the least-corner times without a statement, and how many updates each time lacks."""

    unstated: frozenset[Time]
    updates: dict[Time, int]

    def __bool__(self) -> bool:
        return bool(self.unstated or self.updates)


def coordinates(time: Any) -> Time:
    """A time as a tuple: an int alone, or whatever the time gives when iterated.

    >>> coordinates(3), coordinates((1, 2))
    ((3,), (1, 2))
    """
    return (time,) if isinstance(time, int) else tuple(time)


def frontier(times: Iterable[Any]) -> Frontier:
    """Times as a set of tuples, nothing removed."""
    return frozenset(coordinates(time) for time in times)


def at_least(big: Time, small: Time) -> bool:
    """Whether each coordinate of `big` is at least that of `small`."""
    for one, other in zip(big, small):
        if one < other:
            return False
    return True


def beyond(bounds: Iterable[Time], time: Time) -> bool:
    """Whether `time` is beyond `bounds`: at least one of them."""
    for bound in bounds:
        if at_least(time, bound):
            return True
    return False


def least(times: Iterable[Time]) -> Frontier:
    """The times that have no other of `times` below them.

    >>> sorted(least([(1, 2), (2, 1), (2, 2)]))
    [(1, 2), (2, 1)]
    """
    found: list[Time] = []
    # A time below another has the smaller sum, so it is met first.
    for time in sorted(set(times), key=sum):
        if not beyond(found, time):
            found.append(time)
    return frozenset(found)


@dataclass
class _Statement:
    lower: Frontier
    upper: Frontier
    counts: dict[Time, int]

    def covers(self, time: Time) -> bool:
        return beyond(self.lower, time) and not beyond(self.upper, time)


@dataclass
class Oracle:
    """Absorbs messages one by one, as a reader does, and judges each from all the facts again.

    `universe` is every message that will be shown, so that the grid is known. With `quarantine`, disputed times
    hold the frontier instead of raising. With `keep_all` nothing is ever given out or forgotten.
    """

    start: Iterable[Any]
    universe: Iterable[Any]
    quarantine: bool = False
    keep_all: bool = False
    reported: Frontier = field(init=False)
    known: Frontier = field(init=False)
    complete: Frontier = field(init=False)
    late: int = 0
    early: int = 0
    repeats: int = 0

    def __post_init__(self) -> None:
        self.origin = least(frontier(self.start))
        self.reported = self.origin
        self.known = self.origin
        self.complete = self.origin
        self.statements: list[_Statement] = []
        self.held: dict[tuple[Any, Time], set[int]] = {}
        self.ruled_diffs: dict[tuple[Any, Time], int] = {}
        self.ruled_counts: dict[Time, int] = {}
        self.grid = [time for time in grid(self.origin, self.universe) if beyond(self.origin, time)]
        self.uncovered = set(self.grid)

    def absorb(self, message: Any) -> Out | None:
        """The batch that `message` completes, if any; Contradiction, and nothing changed, if it cannot be true."""
        held = {key: set(diffs) for key, diffs in self.held.items()}
        before = (self.statements[:], held, set(self.uncovered), self.known, self.late, self.early, self.repeats)
        try:
            if hasattr(message, "updates"):
                self._hear(message.updates)
            else:
                self._believe(message)
            return self._settle()
        except Contradiction:
            self.statements, self.held, self.uncovered, self.known, self.late, self.early, self.repeats = before
            raise

    def _hear(self, updates: Iterable[tuple[Any, Any, int]]) -> None:
        for data, raw_time, diff in updates:
            time = coordinates(raw_time)
            if not beyond(self.reported, time):
                self.late += beyond(self.origin, time)
                self.early += not beyond(self.origin, time)
                continue
            diffs = self.held.setdefault((data, time), set())
            if diff in diffs:
                self.repeats += 1
            diffs.add(diff)
            if len(diffs) > 1 and not self.quarantine:
                raise Contradiction({time})

    def _believe(self, statement: Any) -> None:
        counts = {coordinates(time): count for time, count in statement.counts}
        said = _Statement(frontier(statement.lower), frontier(statement.upper), counts)
        self.statements.append(said)
        self.uncovered = {time for time in self.uncovered if not said.covers(time)}
        self.known = least(self.uncovered)

    def _settle(self) -> Out | None:
        disputed = self.contested()
        if disputed and not self.quarantine:
            raise Contradiction(disputed)
        lacking = {time for time in self.spoken() if self._expected(time) > self.received(time)}
        now = self.complete = least(self.known | lacking | disputed)
        if now == self.reported or self.keep_all:
            return None
        released = {key: self.ruled_diffs.get(key, min(diffs)) for key, diffs in self.held.items()
                    if not beyond(now, key[1])}
        for key in released:
            del self.held[key]
        lower, self.reported = self.reported, now
        return Out({key: diff for key, diff in released.items() if diff}, lower, now)

    def rule_diff(self, data: Any, time: Time, diff: int) -> Out | None:
        """Decide the diff of one identity for good, 0 meaning that it never happened."""
        self.ruled_diffs[data, time] = diff
        self.held.setdefault((data, time), set()).add(diff)
        return self._settle()

    def rule_count(self, time: Time, count: int) -> Out | None:
        """Decide the count of a time for good."""
        self.ruled_counts[time] = count
        return self._settle()

    def spoken(self) -> set[Time]:
        """The open times at which some statement counts something or some update is held."""
        times = {time for said in self.statements for time in said.counts} | {time for _, time in self.held}
        return {time for time in times if beyond(self.reported, time)}

    def counted(self, time: Time) -> set[int]:
        """Every count that a statement covering `time` gives it."""
        if time in self.ruled_counts:
            return {self.ruled_counts[time]}
        return {said.counts.get(time, 0) for said in self.statements if said.covers(time)}

    def _expected(self, time: Time) -> int:
        return max(self.counted(time), default=0)

    def received(self, time: Time) -> int:
        """How many distinct identities are held at `time`."""
        return sum(1 for key in self.held if key[1] == time and self.ruled_diffs.get(key, 1))

    def contested(self) -> set[Time]:
        """The open times in dispute: over a diff anywhere, over a count where `known` has passed.

        Statements that cannot be reached yet may differ too; as nothing is released there, it shows when they can.
        """
        disputed = {key[1] for key, diffs in self.held.items() if len(diffs) > 1 and key not in self.ruled_diffs}
        for time in self.spoken():
            counts = self.counted(time)
            if not beyond(self.known, time) and (len(counts) > 1 or self.received(time) > max(counts, default=0)):
                disputed.add(time)
        return disputed

    def missing(self) -> Lacking:
        """What lacks, of the times below the join of the stated uppers; [a, a) states nothing."""
        uppers = [said.upper for said in self.statements if said.lower != said.upper]
        return Lacking(
            frozenset(t for t in self.uncovered if any(not beyond(upper, t) for upper in uppers)),
            {time: self._expected(time) - self.received(time) for time in self.spoken()
             if self._expected(time) > self.received(time)},
        )


def grid(origin: Frontier, messages: Iterable[Any]) -> list[Time]:
    """Times by which all others can be distinguished: the product of the coordinates that occur in bounds."""
    bounds = set(origin)
    for message in messages:
        if hasattr(message, "lower"):
            bounds |= frontier(message.lower) | frontier(message.upper)
    if not bounds:
        return []
    return list(product(*(sorted(set(column) | {0}) for column in zip(*bounds))))


def replay(messages: Iterable[Any], start: Iterable[Any] = (0,), quarantine: bool = False) -> list[Out]:
    """The batches of a whole log, from its messages in order."""
    messages = list(messages)
    oracle = Oracle(start, messages, quarantine)
    return [out for out in map(oracle.absorb, messages) if out is not None]


def content(outs: Iterable[Out]) -> dict[tuple[Any, Time], int]:
    """Every update of several batches; an identity that comes twice is a failed test."""
    whole: dict[tuple[Any, Time], int] = {}
    for out in outs:
        twice = whole.keys() & out.updates.keys()
        if twice:
            raise AssertionError(f"given out twice: {twice}")
        whole.update(out.updates)
    return whole
