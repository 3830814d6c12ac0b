"""Logs of one timeline, read together: what is given out is finished in each of them.

Times of one timeline come from one source, so a transaction over two tables has one time in two logs. The *parts*
(one log each, or several copies of one) are read by one :class:`Resolver` each, and released at the *meet* of their
frontiers: every cut that is given out holds whole transactions, across all parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, less_equal
from cdcv2.errors import UsageError
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import Batch, GarbledMessage, Message, Update
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.open_times import OpenTimes
from cdcv2.protocol.ordered_updates import OrderedUpdates
from cdcv2.protocol.resolver import NOT_GIVEN, Resolver


@dataclass(frozen=True, slots=True)
class Cut:
    """What all parts have at times beyond ``lower`` and not beyond ``upper``: part -> its updates, by time.

    A part without updates is not in ``updates``. Unpacks to ``updates, upper``, as a batch does.
    """

    updates: dict[str, list[Update]]
    lower: Antichain
    upper: Antichain

    def __iter__(self) -> Iterator[Any]:
        return iter((self.updates, self.upper))


def demand_started(at: Time, first: Time | None) -> None:
    """Raise UsageError unless ``at`` is a time of the history: not before the first one that its logs know of.

    ``first`` is the time of the earliest update in any log of the timeline; None: there is none. Logs may state that
    nothing happened before (those of a capture begin at 0, and their snapshot is later), and cannot know it.

    >>> demand_started(5, 5)
    >>> demand_started(4, 5)
    Traceback (most recent call last):
    ...
    cdcv2.errors.UsageError: nothing is known at time 4: the history begins at 5, so ask for that or a later time

    Cost: a comparison.
    """
    if first is not None and not less_equal(first, at):
        raise UsageError(
            f"nothing is known at time {at}: the history begins at {first}, so ask for that or a later time"
        )


class Timeline:
    """A reader of several parts, one message at a time.

    >>> from cdcv2.protocol.messages import Progress, Updates
    >>> reader = Timeline(["accounts", "ledger"])
    >>> reader.absorb("accounts", Updates([("alice", 1, -5)]))
    >>> reader.absorb("accounts", Progress([0], [9], {1: 1}))
    >>> reader.absorb("ledger", Progress([0], [4], {}))
    Cut(updates={'accounts': [('alice', 1, -5)]}, lower=Antichain([0]), upper=Antichain([4]))

    Copies of one log are one part: absorb the messages of all of them under its name. ``start``, ``begins`` and
    ``on_error`` and ``keep_all`` are those of :class:`Resolver`, whose instances are at hand as :attr:`readers`.
    ``starts`` has the parts that begin later than others, and where: each is read from there on, and holds nothing back
    before. With ``content=False`` cuts have no updates, and none are held: for callers that only judge.

    >>> reader = Timeline(["accounts", "young"], starts={"young": [7]})
    >>> reader.absorb("accounts", Progress([0], [4], {}))
    Cut(updates={}, lower=Antichain([0]), upper=Antichain([4]))

    Raises UsageError for no parts. Cost: that of the Resolver, a look at each part's frontier when a part's moves.
    Memory: that of the Resolvers, and what is finished in one part and not yet in another.
    """

    def __init__(
        self, parts: Iterable[str], *, start: Iterable[Time] | None = None, begins: Iterable[Time] | None = None,
        on_error: str = "raise", starts: Mapping[str, Iterable[Time]] | None = None, keep_all: bool = False,
        content: bool = True,
    ) -> None:
        begin = Antichain([0] if start is None else start)
        origin = begin if begins is None else Antichain(begins)
        #: Part -> its reader.
        self.readers: dict[str, Resolver] = {}
        for part in parts:
            own, first = begin, origin
            if starts and part in starts:
                later = Antichain(starts[part])
                own, first = begin.join(later), origin.join(later)
            self.readers[part] = Resolver(own, begins=first, on_error=on_error, keep_all=keep_all)
        self._content = content
        if not self.readers:
            raise UsageError("a timeline needs at least one log")
        total = all(type(time) is int for time in begin)
        # Released by the part's reader; each time is beyond _reported.
        self._held: dict[str, OrderedUpdates | _ScatteredUpdates] = {
            part: OrderedUpdates() if total else _ScatteredUpdates() for part in self.readers
        }
        # Everything not beyond it has been given out.
        self._reported = begin

    def absorb(self, part: str, message: Union[Message, Entry, GarbledMessage]) -> Cut | None:
        """Take in one message of a part; return the cut that it completes, if it completes one.

        Atomic, and raises, as :meth:`Resolver.absorb`; KeyError for a part that is not among them.
        """
        return self._take(part, self.readers[part].absorb(message))

    def resolve(
        self, part: str, time: Time, *, count: int | None = None, data: Any = NOT_GIVEN, diff: int | None = None
    ) -> Cut | None:
        """Settle a dispute in a part, as :meth:`Resolver.resolve`; the cut that this completes, if any."""
        return self._take(part, self.readers[part].resolve(time, count=count, data=data, diff=diff))

    def withhold(self, part: str, times: Iterable[Time]) -> Cut | None:
        """Hold a part at times, as :meth:`Resolver.withhold`; the cut that this completes, if any."""
        return self._take(part, self.readers[part].withhold(times))

    def _take(self, part: str, batch: Batch | None) -> Cut | None:
        if batch is None:
            return None
        if self._content:
            self._held[part].extend(batch.updates)
        return self._settle()

    def _settle(self) -> Cut | None:
        lower, upper = self._reported, Antichain.meet_of(reader.frontier for reader in self.readers.values())
        if upper == lower:
            return None
        updates: dict[str, list[Update]] = {}
        for part, held in self._held.items():
            if len(held) and (released := held.pop_not_beyond(upper)):
                updates[part] = released
        self._reported = upper
        return Cut(updates, lower, upper)

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is complete in each part, and has been given out."""
        return self._reported

    @property
    def closed(self) -> bool:
        """Whether the history of every part is complete, and all of it has been given out."""
        return not self._reported

    def missing(self) -> dict[str, MissingUpdates]:
        """Part -> what lacks there, for the parts in which something that was stated is missing."""
        found = {part: reader.missing() for part, reader in self.readers.items()}
        return {part: missing for part, missing in found.items() if missing}


class _ScatteredUpdates:
    """The same as :class:`OrderedUpdates`, for times of a partial order: what comes next may be of any of them."""

    def __init__(self) -> None:
        self._times: OpenTimes[list[Update]] = OpenTimes(total=False)

    def extend(self, updates: Sequence[Update]) -> None:
        for update in updates:
            there = self._times.get(update[1])
            if there is None:
                there = self._times[update[1]] = []
            there.append(update)

    def pop_not_beyond(self, frontier: Antichain) -> list[Update]:
        return [update for time in self._times.not_beyond(frontier) for update in self._times.pop(time)]

    def __len__(self) -> int:
        return len(self._times)
