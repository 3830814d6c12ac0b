"""A stream of updates carried from its sources' gauge to a timeline.

By definition: with the updates S of the sources and the remap R, the carried collection holds at the time t all of
S at from-times that are not beyond R(t). As R only goes forward each update happens at exactly one time, so it can be
given out, and forgotten, as soon as a binding covers it; until then it is *deferred*. The frontier of what is given
out is what the source's own frontier comes to on the timeline, which holds it back while a source lags behind its
bindings.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch, consolidate
from cdcv2.core.order import Time, sort_key
from cdcv2.errors import MalformedError
from cdcv2.protocol.messages import Update
from cdcv2.reclock.binding import Binding, check_int
from cdcv2.reclock.partitioned import Beyond, Partitioned
from cdcv2.reclock.remap import Remap


class Carried(NamedTuple):
    """What can be said now: updates on the timeline, each once, and a frontier that all later ones are beyond."""

    updates: list[Update]
    frontier: Antichain


class Deferred:
    """Updates that no binding covers yet, so arranged that a new binding looks only at what it may cover.

    They are held in chains, in each of which the from-times are totally ordered (a partition's offsets): of a chain a
    frontier covers the first few, and none if the first is not covered. Cost: O(log n) per update; per binding one
    look at each chain, and what is taken out. From-times without chains (Products) are each looked at.
    """

    def __init__(self) -> None:
        # Chain -> heap of (sort key, ordinal, from-time), one entry per from-time held. Never an empty heap.
        self._chains: dict[Hashable, list[tuple[Any, int, Time]]] = {}
        # From-time -> the sums of its data's diffs.
        self._held: dict[Time, ChangeBatch[Any]] = {}
        self._ordinal = 0

    def add(self, update: Update) -> None:
        """Take an update; what cancels is gone."""
        data, time, diff = update
        if time not in self._held:
            self._held[time] = ChangeBatch()
            self._ordinal += 1
            heapq.heappush(self._chains.setdefault(chain_of(time), []), (sort_key(time), self._ordinal, time))
        self._held[time].update(data, diff)

    def take(self, frontier: Antichain) -> list[Update]:
        """Take out and return the updates whose from-times are not beyond ``frontier``."""
        taken: list[Update] = []
        beyond = Beyond(frontier)
        for chain in list(self._chains):
            heap = self._chains[chain]
            while heap and not beyond(heap[0][2]):
                time = heapq.heappop(heap)[2]
                taken.extend((data, time, diff) for data, diff in self._held.pop(time))
            if not heap:
                del self._chains[chain]
        return taken

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))


def chain_of(time: Time) -> Hashable:
    """The same for from-times that are totally ordered among themselves; a Product is alone with itself.

    >>> chain_of(3) == chain_of(5), chain_of(Partitioned.at(0, 3)) == chain_of(Partitioned.at(1, 3))
    (True, False)
    """
    if type(time) is int:
        return "int"
    if isinstance(time, Partitioned) and time.time is not None:
        return time.part, chain_of(time.time)
    return "alone", time


class Reclock:
    """The operator: feed it bindings, updates and the source's frontier, in any order that each has of its own.

    >>> carry = Reclock(Remap(Antichain([0])))
    >>> carry.updates([("a", 1, 1), ("b", 3, 1)], Antichain([4]))
    Carried(updates=[], frontier=Antichain([1]))
    >>> carry.bind(Binding(1, 1001, Antichain([3])))
    Carried(updates=[('a', 1000, 1)], frontier=Antichain([1001]))
    >>> carry.bind(Binding(1001, 2001, Antichain([9])))
    Carried(updates=[('b', 2000, 1)], frontier=Antichain([2000]))

    ``remap`` is where it begins; it may be ahead already. The operator follows bindings into it, holds it where it
    reads, and compacts it behind itself unless told not to. One that others follow bindings into, a shared one or that
    of another operator, is looked at with each call: ``updates([])`` gives out what it covers by now. After a restart,
    read the sources from ``remap.source_frontier_at(what the output has)``, which is then ``source``; default: from the
    gauge's start.
    Memory: the bindings that the frontier has not passed, and the deferred updates, consolidated.
    Source: the operator of Materialize's timely-util, for its definition and its laws.
    """

    def __init__(self, remap: Remap, *, source: Antichain | None = None, compacting: bool = True) -> None:
        self._remap = remap
        self._hold = remap.hold()
        self._compacting = compacting
        # Every update to come is beyond it.
        self._source = remap.start if source is None else source
        # None of them is covered by a binding of the remap.
        self._deferred = Deferred()
        self._frontier = remap.reclock_frontier(self._source)
        self._forget()

    @property
    def frontier(self) -> Antichain:
        """Every update to be given out is beyond it."""
        return self._frontier

    @property
    def source(self) -> Antichain:
        """Every update to be fed is beyond it."""
        return self._source

    @property
    def deferred(self) -> int:
        """How many updates wait for a binding."""
        return len(self._deferred)

    def bind(self, binding: Binding) -> Carried:
        """Follow a binding, and give out what it covers. A void one changes nothing: see :meth:`Remap.follow`."""
        self._remap.follow(binding)
        return self._carried([])

    def updates(self, updates: Iterable[Update], source: Antichain | None = None) -> Carried:
        """Take updates of the sources, and then the frontier that they have come to (default: as before).

        Raises MalformedError, and changes nothing, for an update that is not beyond the source's frontier, and for a
        frontier that goes back: the source broke its word. Cost: O(log bindings) lookups per from-time.
        """
        arrived = list(updates)
        to_come = Beyond(self._source)
        for update in arrived:
            if not to_come(update[1]):
                raise MalformedError(
                    f"the update {update!r} came after its source said that it was at {self._source}: the source is "
                    "at fault, or it is read twice; read it from the frontier that the operator names"
                )
        if source is not None and not source.dominates(self._source):
            raise MalformedError(f"the source was at {self._source} and says now that it is at {source}: it went back")
        memory: dict[Time, int | None] = {}
        covered: list[Update] = []
        for data, time, diff in arrived:
            if time not in memory:
                memory[time] = self._remap.into_of(time)
            into = memory[time]
            if into is not None:
                covered.append((data, into, diff))
            else:
                self._deferred.add((data, time, diff))
        if source is not None:
            self._source = source
        return self._carried(covered)

    def close(self) -> None:
        """Hold the remap no longer; the operator must not be used after."""
        self._hold.release()

    def _carried(self, covered: list[Update]) -> Carried:
        # The remap may have been followed by somebody else, too: what counts is how far it is now.
        for data, time, diff in self._deferred.take(self._remap.current):
            into = self._remap.into_of(time)
            if into is not None:
                covered.append((data, into, diff))
        if not self._remap.upper:
            # What no binding covers now, none ever will: it is not on this timeline.
            self._deferred = Deferred()
        self._frontier = self._remap.reclock_frontier(self._source)
        self._forget()
        return Carried(consolidate(covered), self._frontier)

    def _forget(self) -> None:
        # An update to come is at the frontier or after it, so the bindings before that are read no more.
        passed = min((check_int(time) for time in self._frontier), default=self._remap.last)
        passed = min(passed, self._remap.last)
        self._hold.move(passed)
        if self._compacting and passed > self._remap.since:
            self._remap.compact(passed)
