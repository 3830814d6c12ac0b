"""The reader for the usual log: whole numbers as times, each contradiction an error.

It does what :class:`Stash` and :class:`Ledger` do together, at a tenth of the cost of a small message, and decides only
the plain cases: a new update, a duplicate, a late one; a statement that waits, or agrees with what is recorded.
Any possible error raises :class:`UndecidedMessage` and has changed nothing. The caller then goes on with
:meth:`IntegerReader.halves`, which judge it by their rules and give the evidence. So no rule about contradictions
stands here a second time.

What makes it fast: an update is one look into the dict of its time, which holds the very tuple that arrived, so that a
batch makes none; times that are stated and not finished are a list in order, of which only the first is looked at, and
only when a message may have completed it; a heap has the times of updates that no statement has reached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.protocol.coverage import ReadStatement
from cdcv2.protocol.ledger import Ledger
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import Batch, Progress, Update, Updates
from cdcv2.protocol.stash import Stash

# An update, its time a whole number unless the log is wrong.
_Update: TypeAlias = tuple[Any, Any, int]
# What a statement counts; and all that it states: lower, upper, counts.
_Counts: TypeAlias = tuple[tuple[Any, int], ...]
_Key: TypeAlias = tuple[int, int, _Counts]
# Stands for the empty frontier: every time is before it.
_END = MAX_TIME + 1
# From so many finished times on, they are cut off the list of those that are stated.
_FINISHED = 1000


class UndecidedMessage(Exception):
    """The message may be an error, or is none of a log of whole numbers: the general classes judge it."""


class IntegerReader:
    """A reader from ``start`` on of a history that begins at ``begins``.

    >>> reader = IntegerReader(0, 0)
    >>> reader.absorb(Updates([("a", 3, 1)]))
    >>> reader.absorb(Progress([0], [5], {3: 1}))
    Batch(updates=[('a', 3, 1)], lower=Antichain([0]), upper=Antichain([5]))
    >>> reader.absorb(Updates([("b", 7, 1), ("b", 7, 2)]))
    Traceback (most recent call last):
    ...
    cdcv2.protocol.integer_reader.UndecidedMessage

    Cost: an update O(1) expected, O(log open) at a new time; a statement O(counts + log open); a frontier move what it
    releases. Memory: the updates of open times, the waiting statements. Source: the CDCv2 post, ``Iter``; the rules are
    those of docs/protocol.md.
    """

    def __init__(self, start: int, begins: int) -> None:
        self._start = start
        self._begins = begins
        # An update, or a count, before it is one before the history begins.
        self._floor = min(start, begins)
        # Everything before _reported has been given out, everything before _known is stated; _END: everything.
        self._reported = self._known = start
        #: The frontier of what has been given out.
        self.frontier = Antichain([start])
        # Open time -> data -> the update as it arrived first. No time has an empty dict.
        self._held: dict[int, dict[Any, _Update]] = {}
        # Open time -> data -> position, for updates that came with one: evidence in disputes.
        self._origins: dict[int, dict[Any, Any]] = {}
        # A heap of the times in _held from _known on.
        self._ahead: list[int] = []
        # Time in [_reported, _known) -> the count stated there, where it is not 0, and where that was read.
        self._expected: dict[int, int] = {}
        self._stated_at: dict[int, Any] = {}
        # The times in _expected in order, from index _first on. While _reported is before _known, it is the first one.
        self._due: list[int] = []
        self._first = 0
        # The statements from beyond _known on, by what they state, with their positions; and a heap of these keys.
        self._waiting: dict[_Key, tuple[Progress, Any]] = {}
        self._queue: list[_Key] = []
        self._updates = self._late = self._before_start = self._released = 0
        self._statements = self._repeated_statements = 0

    def absorb(self, message: object) -> Batch | None:
        """Take in one message; return the batch that it completes, if it completes one.

        Raises UndecidedMessage, and has changed nothing, for all but Updates and Progress, and for those that may be
        an error.
        """
        position = None
        if type(message) is Entry:
            position, message = message.position, message.message
        if type(message) is Updates:
            self._take(message.updates, position)
            if self._reported < self._known:
                held = self._held.get(self._reported)
                if held is not None and len(held) >= self._expected[self._reported]:
                    return self._settle()
            return None
        if type(message) is Progress:
            return self._state(message, position)
        raise UndecidedMessage

    # -- updates ------------------------------------------------------------------------------------------------

    def _take(self, updates: Sequence[_Update], position: Any) -> None:
        held, known, expected = self._held, self._known, self._expected
        late = before = 0
        new: list[_Update] = []
        try:
            for update in updates:
                data, time, diff = update
                there = held.get(time)
                if there is None:
                    if time >= known:
                        if type(time) is not int or time > MAX_TIME:
                            raise UndecidedMessage
                        heappush(self._ahead, time)
                    elif time not in expected:
                        if time >= self._reported or time < self._floor:
                            raise UndecidedMessage
                        late += 1
                        before += time < self._start
                        continue
                    held[time] = {data: update}
                    new.append(update)
                else:
                    first = there.get(data)
                    if first is None:
                        # A time that is stated and held is one with a count: none is crossed without.
                        if time < known and len(there) >= expected[time]:
                            raise UndecidedMessage
                        there[data] = update
                        new.append(update)
                    elif first[2] != diff:
                        raise UndecidedMessage
        except BaseException as error:
            self._withdraw(new)
            if isinstance(error, TypeError):
                # Times of another kind, or data that has no hash: named by those who judge.
                raise UndecidedMessage from error
            raise
        self._updates += len(updates)
        if late:
            self._late += late - before
            self._before_start += before
        if position is not None:
            for data, time, _ in new:
                self._origins.setdefault(time, {})[data] = position

    def _withdraw(self, new: list[_Update]) -> None:
        for data, time, _ in new:
            there = self._held[time]
            there.pop(data, None)
            if not there:
                del self._held[time]
        self._ahead = [time for time in self._held if time >= self._known]
        heapify(self._ahead)

    # -- statements ---------------------------------------------------------------------------------------------

    def _state(self, statement: Progress, position: Any) -> Batch | None:
        lower, upper = statement.lower.integer, statement.upper.integer
        counts: _Counts = statement.counts
        known = self._known
        if upper is None:
            # Empty, as both bounds of a statement are of one kind.
            upper = _END
        if lower is None or lower < self._floor and counts and counts[0][0] < self._floor:
            raise UndecidedMessage
        if lower == upper or upper <= self._reported:
            self._repeated_statements += 1
        elif lower > known:
            self._wait((lower, upper, counts), statement, position)
        elif lower == known and not (self._queue and self._queue[0][0] <= upper):
            if position is not None:
                self._keep(counts, position)
            self._cross(upper, dict(counts))
        else:
            self._graft((lower, upper, counts), position)
        self._statements += 1
        return self._settle() if known < self._known else None

    def _wait(self, key: _Key, statement: Progress, position: Any) -> None:
        if key in self._waiting:
            self._repeated_statements += 1
        else:
            self._waiting[key] = statement, position
            heappush(self._queue, key)

    def _graft(self, key: _Key, position: Any) -> None:
        """Take in a statement that overlaps what is known, or is followed by some that waited."""
        at = self._known
        fresh: dict[int, int] = {}
        times: list[int] = []
        reached: list[_Key] = []
        while True:
            lower, upper, counts = key
            if lower < at:
                self._compare(max(lower, self._reported), min(upper, at), counts, fresh, times)
            if upper > at:
                if lower < at:
                    counts = tuple(pair for pair in counts if pair[0] >= at)
                fresh.update(counts)
                times += [time for time, _ in counts]
                if position is not None:
                    self._keep(counts, position)
                at = upper
            if not self._queue or self._queue[0][0] > at:
                break
            key = heappop(self._queue)
            reached.append(key)
            position = self._waiting[key][1]
        self._cross(at, fresh)
        for key in reached:
            del self._waiting[key]

    def _compare(self, lower: int, upper: int, counts: _Counts, fresh: dict[int, int], times: list[int]) -> None:
        """Raise Undecided unless the counts at times from ``lower`` to before ``upper`` are those recorded.

        These are at times before ``_known``, and in ``fresh``, whose times are ``times``, from there on.
        """
        expected = self._expected
        stated = 0
        for time, count in counts:
            if lower <= time < upper:
                stated += 1
                if (expected.get(time) or fresh.get(time)) != count:
                    raise UndecidedMessage
        recorded = bisect_left(self._due, upper, self._first) - bisect_left(self._due, lower, self._first)
        if recorded + bisect_left(times, upper) - bisect_left(times, lower) != stated:
            raise UndecidedMessage

    def _keep(self, counts: _Counts, position: Any) -> None:
        self._stated_at.update((time, position) for time, _ in counts)

    def _cross(self, known: int, counts: dict[int, int]) -> None:
        """Make everything before ``known`` stated, with these counts at times from the former ``_known`` on."""
        ahead = self._ahead
        while ahead and ahead[0] < known:
            time = heappop(ahead)
            if len(self._held[time]) > counts.get(time, 0):
                raise UndecidedMessage
        self._known = known
        if counts:
            self._expected.update(counts)
            self._due += counts

    # -- settling -----------------------------------------------------------------------------------------------

    def _settle(self) -> Batch | None:
        """Give out what is complete from ``_said`` on, where that may be more than nothing."""
        due, held, expected, first = self._due, self._held, self._expected, self._first
        updates: list[Update] = []
        upper, end = self._known, len(due)
        while first < end:
            time = due[first]
            there = held.get(time)
            if there is None or len(there) < expected[time]:
                upper = time
                break
            updates += there.values()
            del held[time], expected[time]
            if self._origins:
                self._origins.pop(time, None)
            if self._stated_at:
                self._stated_at.pop(time, None)
            first += 1
        if upper == self._reported:
            return None
        if first == end or first > _FINISHED and first > end // 2:
            del due[:first]
            first = 0
        self._first, self._reported = first, upper
        self._released += len(updates)
        lower = self.frontier
        self.frontier = frontier = _frontier(upper)
        return Batch(updates, lower, frontier)

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether everything has been given out."""
        return self._reported == _END

    @property
    def known(self) -> Antichain:
        """Every time from the start on that is not beyond it is stated."""
        return _frontier(self._known)

    def counters(self) -> dict[str, int]:
        """How many updates and statements came, and what of them gave nothing. Cost: the open times."""
        held = sum(map(len, self._held.values()))
        return {
            "updates": self._updates,
            "repeats": self._updates - self._late - self._before_start - self._released - held,
            "late": self._late,
            "before_start": self._before_start,
            "statements": self._statements,
        }

    def halves(self) -> tuple[Ledger, Stash]:
        """A ledger and a stash that have taken in the same and share nothing with this reader. Cost: what is open."""
        ledger = Ledger.resumed(
            (Antichain([self._start]), Antichain([self._begins])), self.frontier, self.known,
            expected={time: (count, self._stated_at.get(time)) for time, count in self._expected.items()},
            held={time: len(there) for time, there in self._held.items()},
            waiting=[ReadStatement(statement, position) for statement, position in self._waiting.values()],
            repeated_statements=self._repeated_statements, total=True,
        )
        return ledger, self.stash_of(self._held)

    def stash_of(self, times: Collection[Any]) -> Stash:
        """A stash that has taken in the same at these times, and shares nothing with this reader. Cost: what is there.
        """
        held, came_from = self._held, self._origins
        return Stash.holding(
            {time: {data: diff for data, (_, _, diff) in held[time].items()} for time in times if time in held},
            {time: dict(came_from[time]) for time in times if time in came_from}, total=True,
        )


def _frontier(time: int) -> Antichain:
    return Antichain.of_integer(time) if time < _END else Antichain()
