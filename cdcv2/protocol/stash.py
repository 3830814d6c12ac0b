"""What is new: the updates that have arrived at open times, once per identity ``(data, time)``.

An update whose identity is held with the same diff is a repeat, wherever it comes from; with another diff it is
a contradiction. Planning (:meth:`Stash.plan`) changes nothing, so that a message that contradicts leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, check_time, from_plain, to_plain
from cdcv2.protocol.ledger import Dispute
from cdcv2.protocol.messages import Update
from cdcv2.protocol.open_times import OpenTimes


class Arrivals:
    """What a message would add to a stash: new identities by time, how many repeats, how many too late, disputes."""

    __slots__ = ("new", "repeats", "finished", "disputes", "position")

    def __init__(self, position: Any) -> None:
        self.new: dict[Time, dict[Any, int]] = {}
        self.repeats = 0
        # Time that is not open -> how many updates came there.
        self.finished: dict[Time, int] = {}
        self.disputes: list[Dispute] = []
        self.position = position

    def counts(self) -> dict[Time, int]:
        """Time -> how many identities are new there."""
        return {time: len(diffs) for time, diffs in self.new.items() if diffs}


class Stash:
    """The open updates of one log, folded on arrival.

    >>> stash = Stash(total=True)
    >>> arrivals = stash.plan([("a", 3, 1), ("a", 3, 1), ("b", 9, 1)], Antichain([0]), None)
    >>> arrivals.counts(), arrivals.repeats
    ({3: 1, 9: 1}, 1)
    >>> stash.admit(arrivals); stash.release(Antichain([5]))
    [('a', 3, 1)]

    Cost: O(1) expected per update, O(log open) for a new time; a release costs what it releases (for partial
    orders also the open times). Memory: the updates of open times. Source: the CDCv2 post, ``Iter``.
    """

    def __init__(self, *, total: bool) -> None:
        # Time -> data -> diff. A time without identities is not held.
        self._diffs: OpenTimes[dict[Any, int]] = OpenTimes(total=total)
        # The same shape, data -> position, only for identities that came with one: evidence in disputes.
        self._origins: dict[Time, dict[Any, Any]] = {}
        # Time -> the identities that rule() has fixed, held or not: nothing that arrives changes them.
        self._ruled: dict[Time, set[Any]] = {}

    @classmethod
    def holding(cls, diffs: dict[Time, dict[Any, int]], origins: dict[Time, dict[Any, Any]], *, total: bool) -> Stash:
        """A stash that holds what is in ``diffs``, which came from ``origins``: time -> data -> diff, or position."""
        stash = cls(total=total)
        for time, there in diffs.items():
            stash._diffs[time] = there
        stash._origins = origins
        return stash

    def plan(self, updates: Iterable[Update], reported: Antichain, position: Any) -> Arrivals:
        """What ``updates`` would add; those not beyond ``reported`` are only counted. Changes nothing."""
        arrivals = Arrivals(position)
        new = arrivals.new
        held_at = self._diffs.get
        nothing: dict[Any, int] = {}
        finished = arrivals.finished
        for data, time, diff in updates:
            fresh = new.get(time)
            if fresh is None:
                if time in finished:
                    finished[time] += 1
                    continue
                if not reported.less_equal(check_time(time)):
                    finished[time] = 1
                    continue
                fresh = new[time] = {}
            before = (held_at(time) or nothing).get(data)
            if before is None:
                before = fresh.get(data)
                if before is None and (not self._ruled or data not in self._ruled.get(time, ())):
                    fresh[data] = diff
                    continue
            if before == diff or (self._ruled and data in self._ruled.get(time, ())):
                arrivals.repeats += 1
            elif before is not None:
                where = self._origins.get(time, nothing).get(data, position if data in fresh else None)
                arrivals.disputes.append(Dispute("diff", time, before, diff, (where, position), data))
        return arrivals

    def admit(self, arrivals: Arrivals) -> None:
        """Hold the new identities of ``arrivals``, the newest plan made."""
        for time, diffs in arrivals.new.items():
            if not diffs:
                continue
            held = self._diffs.get(time)
            if held is None:
                self._diffs[time] = diffs
            else:
                held.update(diffs)
            if arrivals.position is not None:
                self._origins.setdefault(time, {}).update(dict.fromkeys(diffs, arrivals.position))

    def release(self, frontier: Antichain) -> list[Update]:
        """Give out, by time, and forget the updates that are not beyond ``frontier``."""
        released: list[Update] = []
        for time in self._diffs.not_beyond(frontier):
            diffs = self._diffs.pop(time)
            self._origins.pop(time, None)
            released.extend([(data, time, diff) for data, diff in diffs.items()])
        for time in [time for time in self._ruled if not frontier.less_equal(time)]:
            del self._ruled[time]
        return released

    def rule(self, time: Time, data: Any, diff: int) -> int:
        """Fix the diff of an identity, 0 for "it never happened"; return the change in distinct identities."""
        self._ruled.setdefault(time, set()).add(data)
        held = self._diffs.get(time)
        before = 0 if held is None else len(held)
        if diff:
            if held is None:
                self._diffs[time] = held = {}
            held[data] = diff
        elif held is not None:
            held.pop(data, None)
            self._origins.get(time, {}).pop(data, None)
            if not held:
                self._diffs.pop(time)
                self._origins.pop(time, None)
        return (0 if held is None else len(held)) - before

    def beyond(self, frontier: Antichain) -> list[Update]:
        """The held updates that are beyond ``frontier``, by time. Cost: the open times."""
        return [
            (data, time, diff) for time, diffs in self._diffs.items() if frontier.less_equal(time)
            for data, diff in diffs.items()
        ]

    def at(self, time: Time) -> list[tuple[Any, int, Any]]:
        """The updates held at a time: data, diff, and where it was read (None: not known)."""
        where = self._origins.get(time, {})
        return [(data, diff, where.get(data)) for data, diff in (self._diffs.get(time) or {}).items()]

    def __len__(self) -> int:
        return sum(len(diffs) for _, diffs in self._diffs.items())

    def export(self, to_plain_data: Callable[[Any], Any]) -> dict[str, Any]:
        """The held updates, and what was ruled, as plain values."""
        return {
            "updates": [
                [to_plain_data(data), to_plain(time), diff]
                for time, diffs in self._diffs.items() for data, diff in diffs.items()
            ],
            "ruled": [[to_plain_data(data), to_plain(time)] for time, ruled in self._ruled.items() for data in ruled],
        }

    @classmethod
    def restore(cls, plain: dict[str, Any], data_from_plain: Callable[[Any], Any], *, total: bool) -> Stash:
        """The stash that :meth:`export` made this of; positions are not kept."""
        diffs: dict[Time, dict[Any, int]] = {}
        for data, time, diff in plain["updates"]:
            diffs.setdefault(from_plain(time), {})[data_from_plain(data)] = diff
        stash = cls.holding(diffs, {}, total=total)
        for data, time in plain["ruled"]:
            stash._ruled.setdefault(from_plain(time), set()).add(data_from_plain(data))
        return stash
