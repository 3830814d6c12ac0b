"""A stream of updates carried from its sources' gauge to a timeline.

By definition: with the updates S of the sources and the remap R, the carried collection holds at the time t all of
S at from-times that are not beyond R(t). As R only goes forward each update happens at exactly one time, so it can be
given out, and forgotten, as soon as a binding covers it; until then it is *deferred*. The frontier of what is given
out is what the source's own frontier comes to on the timeline, which holds it back while a source lags behind its
bindings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import lt
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch, consolidate
from cdcv2.core.order import Time
from cdcv2.errors import MalformedError
from cdcv2.protocol.messages import Update
from cdcv2.timeline.binding import Binding, check_int
from cdcv2.timeline.lookup import Lookup, Steps
from cdcv2.timeline.partitioned import Beyond, Partitioned, Path
from cdcv2.timeline.remap import Remap


class ReclockedUpdates(NamedTuple):
    """What is known now: updates on the timeline, each once, and a frontier that all later ones are beyond."""

    updates: list[Update]
    frontier: Antichain


class DeferredUpdates:
    """Updates that no binding covers yet, so arranged that a new binding looks only at what it may cover.

    Those of a part whose times are numbers are in ascending order: a binding covers the first few. From-times without
    a number are each looked up.
    Cost: amortised O(1) per update that comes in the order of its part, O(log n) for others; per binding one look at
    each part, and what is taken out.
    """

    def __init__(self) -> None:
        # Never one of them without an update.
        self._parts: dict[Path, _Part] = {}
        # From-time without a number -> the sums of its data's diffs.
        self._others: dict[Time, ChangeBatch[Any]] = {}

    def add(self, path: Path, numbers: list[int], updates: list[Update]) -> None:
        """Take updates of the part to which ``path`` leads, at least one, with the numbers of their times."""
        if path not in self._parts:
            self._parts[path] = _Part(updates[0][1])
        self._parts[path].add(numbers, updates)

    def add_other(self, update: Update) -> None:
        """Take an update whose time has no number."""
        data, time, diff = update
        self._others.setdefault(time, ChangeBatch()).update(data, diff)

    def take(self, lookup: Lookup) -> list[Update]:
        """Take out the updates that a binding covers, each at the time of the first one that does."""
        taken: list[Update] = []
        for path, part in list(self._parts.items()):
            if not part.take(lookup.steps(path, part.time), taken):
                del self._parts[path]
        for time, held in list(self._others.items()):
            into = lookup.into(time)
            if into is not None:
                taken += [(data, into, diff) for data, diff in held]
                del self._others[time]
        return taken

    def __len__(self) -> int:
        return sum(map(len, self._parts.values())) + sum(map(len, self._others.values()))


@dataclass
class _Run:
    """Updates by their numbers, ascending; those from ``first`` on are still there."""

    numbers: list[int]
    updates: list[Update]
    first: int = 0

    def __len__(self) -> int:
        return len(self.numbers) - self.first

    def take(self, steps: Steps, taken: list[Update]) -> None:
        """Move what is covered into ``taken``."""
        numbers, at, step = self.numbers, self.first, 0
        while at < len(numbers):
            step = bisect_right(steps.ends, numbers[at], step)
            if step == len(steps.ends):
                break
            end, into = bisect_left(numbers, steps.ends[step], at), steps.intos[step]
            taken += [(data, into, diff) for data, _, diff in self.updates[at:end]]
            at = end
        self.first = at
        if 2 * at > len(numbers):
            del self.numbers[:at], self.updates[:at]
            self.first = 0


class _Part:
    """The updates of one part as a few runs, each at least twice as long as the next: one, if they come in order."""

    def __init__(self, time: Time) -> None:
        #: A from-time of the part.
        self.time = time
        self._runs: list[_Run] = []

    def add(self, numbers: list[int], updates: list[Update]) -> None:
        """Take updates with these numbers, at least one."""
        if not all(map(lt, numbers, numbers[1:])):
            numbers, updates = _consolidated(numbers, updates)
        if numbers and self._runs and self._runs[-1].numbers[-1] < numbers[0]:
            self._runs[-1].numbers += numbers
            self._runs[-1].updates += updates
        elif numbers:
            self._runs.append(_Run(numbers, updates))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._merge()

    def take(self, steps: Steps, taken: list[Update]) -> bool:
        """Move what is covered into ``taken``; whether something is left."""
        for run in self._runs:
            run.take(steps, taken)
        self._runs = [run for run in self._runs if run]
        return bool(self._runs)

    def __len__(self) -> int:
        while len(self._runs) > 1:
            self._merge()
        return sum(map(len, self._runs))

    def _merge(self) -> None:
        two = self._runs[-2:]
        numbers = [number for run in two for number in run.numbers[run.first:]]
        updates = [update for run in two for update in run.updates[run.first:]]
        merged = _Run(*_consolidated(numbers, updates))
        self._runs[-2:] = [merged] if merged else []


def _consolidated(numbers: list[int], updates: list[Update]) -> tuple[list[int], list[Update]]:
    """One update for each number and data, ascending."""
    sums = ChangeBatch(((number, update[0]), update[2]) for number, update in zip(numbers, updates))
    kept = sorted(sums, key=lambda one: one[0][0])
    return [number for (number, _), _ in kept], [(data, number, diff) for (number, data), diff in kept]


def by_part(updates: Iterable[Update]) -> tuple[dict[Path, list[Update]], list[Update]]:
    """The updates of each part whose times are numbers, in their order; and those whose times are not.

    >>> by_part([("a", 3, 1), ("b", Partitioned.at(0, 3), 1), ("c", Partitioned.rest(), 1)])
    ({(): [('a', 3, 1)], (0,): [('b', Partitioned.at(0, 3), 1)]}, [('c', Partitioned.rest(), 1)])
    """
    found: dict[Path | None, list[Update]] = {None: []}
    for update in updates:
        time = update[1]
        path = time.path if type(time) is Partitioned else () if type(time) is int else None
        if path in found:
            found[path].append(update)
        else:
            found[path] = [update]
    others = found.pop(None)
    return {path: of_part for path, of_part in found.items() if path is not None}, others


def numbers_of(path: Path, updates: Iterable[Update]) -> list[int]:
    """The numbers that the times of these updates, all of the part to which ``path`` leads, come down to."""
    times: list[Any] = [update[1] for update in updates]
    return [time.number for time in times] if path else times


class Reclock:
    """The operator: feed it bindings, updates and the source's frontier, in any order that each has of its own.

    >>> carry = Reclock(Remap(Antichain([0])))
    >>> carry.updates([("a", 1, 1), ("b", 3, 1)], Antichain([4]))
    ReclockedUpdates(updates=[], frontier=Antichain([1]))
    >>> carry.bind(Binding(1, 1001, Antichain([3])))
    ReclockedUpdates(updates=[('a', 1000, 1)], frontier=Antichain([1001]))
    >>> carry.bind(Binding(1001, 2001, Antichain([9])))
    ReclockedUpdates(updates=[('b', 2000, 1)], frontier=Antichain([2000]))

    ``remap`` is where it begins; it may be ahead already. The operator follows bindings into it, holds it where it
    reads, and compacts it behind itself (unless ``compacting`` is False). A remap that others follow bindings into, a
    shared one or that of another operator, is read with each call: ``updates([])`` returns what it covers now. After a
    restart, read the sources from ``remap.source_frontier_at(what the output has)``, which is then ``source``; default:
    from the gauge's start.
    Memory: the bindings that the frontier has not passed, and the deferred updates, consolidated.
    Source: the operator of Materialize's timely-util, for its definition and its laws.
    """

    def __init__(self, remap: Remap, *, source: Antichain | None = None, compacting: bool = True) -> None:
        self._remap = remap
        self._hold = remap.hold()
        self._compacting = compacting
        # Every update to come is beyond it.
        self._to_come = Beyond(remap.start if source is None else source)
        # None of them is covered by a binding of the remap.
        self._deferred = DeferredUpdates()
        self._frontier = remap.reclock_frontier(self.source)
        self._forget()

    @property
    def frontier(self) -> Antichain:
        """Every update to be given out is beyond it."""
        return self._frontier

    @property
    def source(self) -> Antichain:
        """Every update to be fed is beyond it."""
        return self._to_come.frontier

    @property
    def deferred(self) -> int:
        """How many updates wait for a binding."""
        return len(self._deferred)

    def bind(self, binding: Binding) -> ReclockedUpdates:
        """Follow a binding, and give out what it covers. A void one changes nothing: see :meth:`Remap.follow`."""
        self._remap.follow(binding)
        return self._carried()

    def updates(self, updates: Iterable[Update], source: Antichain | None = None) -> ReclockedUpdates:
        """Take updates of the sources, and then the frontier that they have come to (default: as before).

        Raises MalformedError, and changes nothing, for an update that is not beyond the source's frontier, and for a
        frontier that goes back: the source broke its word. Cost: amortised O(1) per update that comes in the order of
        its part, O(log n) for others; per call one look at each part.
        """
        parts, others = by_part(updates)
        numbers = {path: numbers_of(path, found) for path, found in parts.items()}
        for path, found in parts.items():
            self._check(path, numbers[path], found)
        self._check_each(others)
        if source is not None and not all(map(self._to_come, source)):
            raise MalformedError(f"the source was at {self.source} and reports now {source}: it went back")
        for path, found in parts.items():
            self._deferred.add(path, numbers[path], found)
        for update in others:
            self._deferred.add_other(update)
        if source is not None:
            self._to_come = Beyond(source)
        return self._carried()

    def close(self) -> None:
        """Hold the remap no longer; the operator must not be used after."""
        self._hold.release()

    def _check(self, path: Path, numbers: list[int], updates: list[Update]) -> None:
        """Raise MalformedError unless these updates of one part are still to come, and of the gauge."""
        # What the first is beyond the others are beyond, too, and no binding is of another gauge for one of them only.
        first = updates[numbers.index(min(numbers))]
        if self._to_come(first[1]):
            self._remap.lookup.steps(path, first[1])
        else:
            self._check_each(updates)

    def _check_each(self, updates: list[Update]) -> None:
        for update in updates:
            if not self._to_come(update[1]):
                raise MalformedError(
                    f"the update {update!r} came after its source reported that it was at {self.source}: the source is "
                    "at fault, or it is read twice; read it from the frontier that the operator names"
                )
            self._remap.into_of(update[1])

    def _carried(self) -> ReclockedUpdates:
        # Others may have followed bindings into the remap, too: what counts is how far it is now.
        covered = self._deferred.take(self._remap.lookup)
        if not self._remap.upper:
            # What no binding covers now, none ever will: it is not on this timeline.
            self._deferred = DeferredUpdates()
        self._frontier = self._remap.reclock_frontier(self.source)
        self._forget()
        return ReclockedUpdates(consolidate(covered), self._frontier)

    def _forget(self) -> None:
        # An update to come is at the frontier or after it, so the bindings before that are read no more.
        passed = min((check_int(time) for time in self._frontier), default=self._remap.last)
        passed = min(passed, self._remap.last)
        self._hold.move(passed)
        if self._compacting and passed > self._remap.since:
            self._remap.compact(passed)
