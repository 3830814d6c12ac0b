"""Up to where a stream of updates is complete: decided by numbers alone, wherever its rows are.

No update can state that there are no more of its time. So somebody states a bound: *so many updates have times before
T*, which is checked, in whatever order they come; or *none before T follows*, which is a promise. What contradicts a
bound is a stop.

The updates of a stream may be read again from its start, into logs that have them: those before where the logs were
then count, and are no late ones. Before anything is added to such a log, what it holds is compared with what was read,
by digests that add up: it must be the same history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from cdcv2.capture.memory_format import FORGET, CountsMemory, SumsMemory
from cdcv2.capture.recent_sums import RECENT, RecentSums
from cdcv2.errors import ForeignStateError, SourceStop

VERSION = 1
_REMEDY = "Find out which is right, have the stream written again so, and capture it into new logs"
#: Digests are numbers of 64 bits, and so are their sums.
_DIGESTS = 2**64


def update_digest(data: bytes, time: int, diff: int) -> int:
    """A number for an update, from the canonical bytes of its row; numbers of updates of one identity add up.

    >>> (update_digest(b"a", 3, 2) - 2 * update_digest(b"a", 3, 1)) % 2**64
    0

    Cost: a digest of the bytes. Source: sums of digests do not depend on order, nor on what was consolidated before.
    """
    taken = hashlib.blake2b(data, digest_size=8, salt=time.to_bytes(8, "big")).digest()
    return diff * int.from_bytes(taken, "big") % _DIGESTS


class StreamCounts:
    """Which updates of one stream are open, as numbers, and which bounds were stated. One thread.

    ``name`` is for people. ``known``: the log is stated up to there. ``kept`` is what :meth:`plain` gave, of an earlier
    run. Updates are held somewhere in parts, by name: ``times`` has, for each part, how many there are at each open
    time. ``held``, where nothing was kept, has the sums of the digests (:func:`update_digest`) of what the log has, by
    time.

    >>> counts = StreamCounts(None, 0)
    >>> counts.bound(5, 2)
    >>> counts.update("a", 3), counts.complete()
    (True, 0)
    >>> counts.update("b", 4, 1), counts.update("b", 7), counts.complete()
    (True, True, 5)
    >>> counts.release(5)
    >>> counts.released, counts.times
    (5, {'b': {7: 1}})

    Raises ForeignStateError for a state of another version. Cost: an update and a bound O(1), the rest O(open times +
    bounds not reached). Memory: that, and numbers for the last times that are stated. Source: the rules of the
    frontier, "every update before it is there".
    """

    def __init__(
        self, kept: CountsMemory | None, known: int, *, name: str = "the stream", held: RecentSums | None = None
    ) -> None:
        if kept is not None and kept.get("version") != VERSION:
            raise ForeignStateError(
                f"the memory of {name} has version {kept.get('version')!r}, and this release reads {VERSION}: {FORGET}"
            )
        self._name = name
        plain = kept or CountsMemory(released=known, begun=known, times={}, stated=[], promised=0)
        #: Everything before it is stated, and counted in `_past`.
        self.released: int = plain["released"]
        # How many updates were read at each time that is stated. Of older states only the sum is known.
        older = None if kept is None else SumsMemory(since=self.released, older=plain.get("below", 0), times=[])
        self._past = RecentSums(plain.get("past", older))
        # Where the log was when the state was begun: updates before that are repeats, not late.
        self._begun: int = plain["begun"]
        #: Part -> time -> how many updates it holds there.
        self.times: dict[str, dict[int, int]] = {
            part: {time: number for time, number in times} for part, times in plain["times"].items()
        }
        # Bounds that are checked: those not reached yet, and the greatest that is.
        self._stated: dict[int, int] = dict(plain["stated"])
        #: The greatest bound that is promised: no update before it follows.
        self.promised: int = plain["promised"]
        # Whether the updates that the log had when the state was begun are still being read.
        self._again: bool = plain.get("again", 0 < self._begun == self.released)
        # Bounds before `released` that are checked when these are read.
        self._late: dict[int, int] = dict(plain.get("late", []))
        # The digests of what the log had then, less those of what was read; None: there is nothing to compare.
        unlike = plain.get("unlike")
        self._unlike = held if kept is None or unlike is None else RecentSums(unlike)

    @property
    def compares(self) -> bool:
        """Whether it needs the digests of updates, to compare them with those of the log."""
        return self._unlike is not None

    def plain(self) -> CountsMemory:
        """The numbers, to be kept."""
        return {
            "version": VERSION, "released": self.released, "begun": self._begun, "below": self._past.total,
            "past": self._past.plain(), "again": self._again, "late": sorted(self._late.items()),
            "unlike": None if self._unlike is None else self._unlike.plain(),
            "times": {part: list(times.items()) for part, times in self.times.items()},
            "stated": sorted(self._stated.items()), "promised": self.promised,
        }

    # -- what is read

    def update(self, part: str, time: int, number: int = 1, *, place: object = None, digest: int = 0) -> bool:
        """So many updates at this time are there; whether they are to be held, in ``part``: those before are repeats.

        ``place`` is where they stand, ``digest`` is the sum of theirs, if it :attr:`compares`. Raises SourceStop, and
        changes nothing, where they contradict a bound.
        """
        late = max(self.promised, self.released if time >= self._begun else 0)
        if time < late:
            raise SourceStop(
                f"an update at time {time}{_at(place)} came after {self._name} was stated to be complete before {late}",
                "State a bound only when every update before it is there. " + _REMEDY, self.released,
            )
        if time < self.released:
            self._past.add(time, number)
            if self._unlike is not None and time < self._begun:
                self._unlike.add(time, -digest)
            return False
        times = self.times.setdefault(part, {})
        times[time] = times.get(time, 0) + number
        return True

    def bound(self, before: int, rows: int | None, *, place: object = None) -> None:
        """There are ``rows`` updates in all before a time; None: no other one follows.

        Raises SourceStop, and changes nothing, where it contradicts another bound.
        """
        if rows is None:
            if before < self.promised:
                raise SourceStop(
                    f"the bound {before}{_at(place)} goes back: {self._name} was stated to be complete before "
                    f"{self.promised} already", "A bound without a number of rows may only grow. " + _REMEDY,
                    self.released,
                )
            self.promised = before
            return
        for other, number in self._stated.items():
            if (before <= other and rows > number) or (before >= other and rows < number):
                raise SourceStop(
                    f"{self._name} is stated to have {rows} rows before time {before}{_at(place)}, and {number} before "
                    f"{other}", _REMEDY, self.released,
                )
        if before >= self.released:
            self._stated.setdefault(before, rows)
            self._forget()
        elif self._again:
            self._late[before] = rows
            if len(self._late) > 2 * RECENT:
                self._late = dict(sorted(self._late.items())[-RECENT:])
        else:
            self._check_late(before, rows, place)

    def _check_late(self, before: int, rows: int, place: object = None) -> None:
        """Raise SourceStop if the updates that were read before a bound contradict it."""
        there = self._past.before(before)
        if there is None and rows > self._past.older:
            there = self._past.older
        if there is not None and there != rows:
            raise SourceStop(
                f"{self._name} is stated to have {rows} rows before time {before}{_at(place)}, and {there} have come",
                _REMEDY, self.released,
            )

    # -- what is complete

    def complete(self) -> int:
        """The greatest time before which all is there.

        Raises SourceStop for more updates than were stated, and for fewer where a later bound states that none is
        missing: an update that would be one of them would be one more before that bound.
        """
        best, lacking = self.promised, dict[int, int]()
        for before, rows in sorted(self._stated.items()):
            if before < self.released:
                continue
            there = self._past.total + self.waiting(before)
            if there > rows:
                raise SourceStop(
                    f"{self._name} was stated to have {rows} rows before time {before}, and {there} have come",
                    _REMEDY, self.released,
                )
            if there == rows:
                best = max(best, before)
            else:
                lacking[before] = there
        for before, there in lacking.items():
            if before <= best:
                raise SourceStop(
                    f"{self._name} was stated to have {self._stated[before]} rows before time {before}, and {there} "
                    f"have come, although by another bound none before {best} is missing", _REMEDY, self.released,
                )
        if self._again and best >= self._begun:
            self._compare()
        return best

    def _compare(self) -> None:
        """All that the log had when the state was begun was read again: raise SourceStop unless it is the same."""
        if self._unlike is not None:
            unlike = [time for time, digest in sorted(self._unlike.times.items()) if digest % _DIGESTS]
            if unlike or self._unlike.older % _DIGESTS:
                where = f"before time {self._unlike.since}" if self._unlike.older % _DIGESTS else f"at time {unlike[0]}"
                raise SourceStop(
                    f"{self._name} has other updates {where} than the log: it is another history", "Bring the records "
                    "back that the log was written from, or capture these into new logs", self.released,
                )
        for before, rows in sorted(self._late.items()):
            self._check_late(before, rows)
        self._again, self._unlike, self._late = False, None, {}

    def parts(self, frontier: int) -> Collection[str]:
        """The parts that hold updates before the frontier."""
        return [part for part, times in self.times.items() if any(time < frontier for time in times)]

    def waiting(self, frontier: int) -> int:
        """How many updates are held that have times before the frontier."""
        return sum(number for times in self.times.values() for time, number in times.items() if time < frontier)

    def release(self, frontier: int) -> None:
        """Everything before the frontier is stated."""
        for part in list(self.times):
            times = self.times[part]
            for time in sorted(time for time in times if time < frontier):
                self._past.add(time, times[time])
            self.times[part] = {time: number for time, number in times.items() if time >= frontier}
            if not self.times[part]:
                del self.times[part]
        self.released = max(self.released, frontier)
        self._forget()

    def _forget(self) -> None:
        """Of the bounds that are reached the greatest is kept, to be compared with later ones."""
        reached = max((before for before in self._stated if before <= self.released), default=0)
        if reached:
            self._stated = {before: rows for before, rows in self._stated.items() if before >= reached}

    @property
    def held(self) -> int:
        """How many updates wait for a bound."""
        return sum(number for held in self.times.values() for number in held.values())

    def waits(self) -> str | None:
        """What is held or stated and not complete, in words; None: nothing is."""
        for before, rows in sorted(self._stated.items()):
            lacks = rows - self._past.total - self.waiting(before)
            if before >= self.released and lacks:
                return f"{lacks} of {rows} updates before time {before} are missing"
        times = [time for held in self.times.values() for time in held]
        if times:
            return f"{self.held} updates at times from {min(times)} on wait for a bound"
        if self._unlike is not None:
            return f"the log is complete before {self._begun} already, and no bound that was read is as far"
        return None if self.released else "nothing is complete: no bound is beyond time 0"


def _at(place: object) -> str:
    return "" if place is None else f" ({place})"
