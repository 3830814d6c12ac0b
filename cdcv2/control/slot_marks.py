"""Whether a replication slot is the one that was seen before: PostgreSQL knows a slot by its name alone.

A slot keeps the WAL from a position on, which only grows, and never an older one than from when it was made. So a slot
that keeps what was written before we saw ours is ours: one that others made later begins later. But a copy keeps what
the copied slot keeps: one that keeps more than ours did is no sign of ours. A copy of a slot that keeps less is seen by
its counters alone. A slot that a reader has carried past that position states nothing, unless the same session has held
it all along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from cdcv2.core.own_json import checked


#: An invalidated slot keeps the byte before what was confirmed, and that may be the first that it kept. WAL records,
#: from which slots begin, are at least 8 bytes apart.
_SLACK = 1


class Continuity(StrEnum):
    """What a second look states. ``OPEN``: it may be the same, or another."""

    SAME = "same"
    REMADE = "remade"
    OPEN = "open"


@dataclass(frozen=True)
class SlotMark:
    """What a look at a slot found that names it.

    Args:
        wal: where the WAL of the server ended, a number that grows all along.
        timeline: the server's timeline, within which it grows.
        kept: the position from which on the slot keeps WAL; None: not known.
        reader: the session that reads the slot, with when it began; empty: none.
        sent: the transactions that the server has counted for it; None: this server counts none.
        counted_since: since when it counts; where this differs, the numbers are not compared.
        flushed: up to where the WAL was safe; None: not known, as of a standby.
        confirmed: up to where its reader had confirmed it: all of that was safe; None: not known.
        ancestors: timeline -> where the server left it, of all timelines before this one; None: not asked, or not
            known. Not kept.
        captured: up to where topics or logs had it, which its reader confirms later; None: not known.
        fork: what it was on another timeline, if it was seen there, and is not known to go on there.
        parted: up to where others had what was committed when it was lost and a person accepted it; None: it never was.
            What they have from up to there may be of a timeline that the server has left.
    """

    wal: int
    timeline: int
    kept: int | None
    reader: str = ""
    sent: int | None = None
    counted_since: str = ""
    flushed: int | None = None
    confirmed: int | None = None
    ancestors: Mapping[int, int] | None = field(default=None, compare=False)
    captured: int | None = None
    fork: Fork | None = None
    parted: int | None = None

    @property
    def through(self) -> int | None:
        """Up to where it is known that others have what was committed; None: nothing is known."""
        return max((one for one in (self.confirmed, self.captured) if one is not None), default=None)

    def to_plain(self) -> dict[str, Any]:
        """As JSON, in the catalogue's format."""
        return {
            "wal": self.wal, "timeline": self.timeline, "kept": self.kept, "reader": self.reader, "sent": self.sent,
            "counted_since": self.counted_since, "flushed": self.flushed, "confirmed": self.confirmed,
            "captured": self.captured, "fork": None if self.fork is None else self.fork.to_plain(),
            "parted": self.parted,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SlotMark:
        """What :meth:`to_plain` gave. Raises TypeError, KeyError for anything else."""
        none, fork = type(None), checked(plain.get("fork"), dict, type(None))
        return cls(
            checked(plain["wal"], int), checked(plain["timeline"], int), checked(plain["kept"], int, none),
            checked(plain["reader"], str), checked(plain["sent"], int, none), checked(plain["counted_since"], str),
            # An older release wrote none of them.
            checked(plain.get("flushed"), int, none), checked(plain.get("confirmed"), int, none),
            captured=checked(plain.get("captured"), int, none),
            fork=None if fork is None else Fork.from_plain(fork), parted=checked(plain.get("parted"), int, none),
        )


@dataclass(frozen=True)
class Fork:
    """What a slot was on another timeline than that of its mark: at the first look there, and at the last.

    What its topics had at the first one counts: what came into them since is of that timeline.
    """

    first: SlotMark
    last: SlotMark

    def to_plain(self) -> dict[str, Any]:
        """As JSON, in the catalogue's format."""
        return {"first": self.first.to_plain(), "last": self.last.to_plain()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Fork:
        """What :meth:`to_plain` gave. Raises TypeError, KeyError for anything else."""
        return cls(*(SlotMark.from_plain(checked(plain[name], dict)) for name in ("first", "last")))


def continuity(before: SlotMark | None, now: SlotMark | None) -> Continuity:
    """Whether the slot of the second look is that of the first.

    >>> first = SlotMark(wal=500, timeline=1, kept=100)
    >>> continuity(first, SlotMark(wal=900, timeline=1, kept=100)).value
    'same'
    >>> continuity(first, SlotMark(wal=900, timeline=1, kept=700)).value
    'open'
    >>> continuity(first, SlotMark(wal=900, timeline=1, kept=90)).value
    'open'
    """
    if before is None or now is None:
        return Continuity.OPEN
    if before.timeline != now.timeline:
        # Also where it keeps more: a standby learns from time to time what the primary's keeps.
        known = now.ancestors is not None and _as_first_seen(before, now).kept is not None
        followed = known and not branched_off(before, now)
        return Continuity.SAME if followed else Continuity.OPEN
    if now.wal < before.wal:
        return Continuity.OPEN
    counted = before.sent is not None and now.sent is not None and before.counted_since == now.counted_since
    # A server counts up, from 0 for a slot that it makes.
    if counted and (now.sent or 0) < (before.sent or 0):
        return Continuity.REMADE
    if before.kept is not None and now.kept is not None and now.kept < before.kept - _SLACK:
        return Continuity.OPEN
    if now.kept is not None and now.kept < before.wal:
        return Continuity.SAME
    return Continuity.SAME if before.reader and before.reader == now.reader else Continuity.OPEN


def went_back(before: SlotMark | None, now: SlotMark | None) -> bool:
    """Whether the server is what it was at an earlier moment: a copy of its files was put in its place.

    What was committed in between is missing there, and may be in logs. What is committed then has positions that were
    used before, and a connector passes it by. A crash takes away at most a record that was not whole, and so not
    confirmed.

    >>> first = SlotMark(wal=500, timeline=1, kept=100, flushed=480, confirmed=470)
    >>> went_back(first, SlotMark(wal=475, timeline=1, kept=100, flushed=475))
    False
    >>> went_back(first, SlotMark(wal=460, timeline=1, kept=90, flushed=460))
    True
    """
    if before is None or now is None or before.timeline != now.timeline:
        return False
    return before.through is not None and now.flushed is not None and now.flushed < before.through


def branched_off(before: SlotMark | None, now: SlotMark | None) -> bool:
    """Whether the server is on another timeline, on which what was sent is missing, or may be.

    So it is after a standby that lacked the newest commits was promoted, and after files were recovered up to an
    earlier moment. What was confirmed behind the place where the timelines part is on the old one alone; and a slot
    that keeps no WAL of before that place may have been made since.

    >>> first = SlotMark(wal=500, timeline=1, kept=100, confirmed=470)
    >>> branched_off(first, SlotMark(wal=900, timeline=2, kept=100, ancestors={1: 490}))
    False
    >>> branched_off(first, SlotMark(wal=900, timeline=2, kept=100, ancestors={1: 460}))
    True
    >>> branched_off(first, SlotMark(wal=900, timeline=2, kept=495, ancestors={1: 490}))
    True
    """
    if before is None or now is None:
        return False
    if before.timeline == now.timeline:
        # It was on another one meanwhile.
        return before.fork is not None
    if now.ancestors is None:
        return False
    left = now.ancestors.get(before.timeline)
    if left is None or before.through is not None and left < before.through:
        return True
    kept = _as_first_seen(before, now).kept
    return kept is not None and left < kept


def is_elsewhere(before: SlotMark | None, now: SlotMark | None) -> bool:
    """Whether a second look is the first that finds its server on this timeline, or with less WAL than was safe.

    Then it has to be known what the topics have: a reader confirms later than it writes.

    >>> first = SlotMark(wal=500, timeline=1, kept=100, flushed=480)
    >>> is_elsewhere(first, SlotMark(wal=500, timeline=1, kept=100, flushed=480))
    False
    >>> is_elsewhere(first, SlotMark(wal=900, timeline=2, kept=100))
    True
    """
    if before is None or now is None:
        return False
    if before.timeline != now.timeline:
        return before.fork is None or before.fork.last.timeline != now.timeline
    return before.flushed is not None and now.flushed is not None and now.flushed < before.flushed


def with_sent(before: SlotMark, position: int | None) -> SlotMark:
    """The mark, when topics or logs have what lies before a position; None: they have nothing."""
    return before if position is None else replace(before, captured=max(position, before.captured or 0))


def sent_since(before: SlotMark) -> int:
    """The position behind which a reader may have written what the mark does not know; 0: it may have from the begin.
    """
    first = before if before.fork is None else before.fork.first
    return next((one for one in (first.confirmed, first.kept) if one is not None), 0)


def renewed(before: SlotMark | None, now: SlotMark | None) -> SlotMark | None:
    """The mark of a later look at the same slot."""
    return now if now is None or before is None else replace(now, parted=before.parted)


def accepted(before: SlotMark | None, now: SlotMark | None) -> SlotMark | None:
    """The mark, when the slot was lost and a person has accepted it as it is now."""
    through = [one for one in (before.through, before.parted) if one is not None] if before is not None else []
    return None if now is None else replace(now, parted=max(through, default=None))


def was_read(now: SlotMark, sent: int | None, parted: int | None = None) -> bool:
    """Whether topics have all that the slot has passed by. ``sent``: the highest position that they have; ``parted``:
    up to where that may be of a timeline that the server has left, and so states nothing of this one.

    So nothing is missing if a connector goes on with it. One that others made later than that begins behind it: the
    WAL of a server ends behind what was sent, and that a slot is made is WAL, too.

    >>> now = SlotMark(wal=900, timeline=1, kept=700, confirmed=800)
    >>> was_read(now, 800), was_read(now, 799), was_read(now, None)
    (True, False, False)
    >>> was_read(now, 1000, 1000), was_read(now, 1001, 1000)
    (False, True)
    """
    if sent is not None and parted is not None and sent <= parted:
        return False
    return now.confirmed is not None and sent is not None and now.confirmed <= sent


def forked(before: SlotMark, now: SlotMark) -> SlotMark:
    """The mark, when its server was seen on another timeline, and it is not known yet what that has."""
    now = replace(now, fork=None)
    if before.timeline == now.timeline:
        return before
    if before.fork is None or before.fork.last.timeline != now.timeline:
        return replace(before, fork=Fork(now, now))
    same = continuity(before.fork.last, now) is Continuity.SAME
    return replace(before, fork=replace(before.fork, last=now)) if same else before


def made_behind_fork(before: SlotMark | None, now: SlotMark | None) -> bool:
    """Whether a slot that was lost on another timeline kept nothing of before it when it was first seen there.

    >>> first = SlotMark(wal=500, timeline=1, kept=100)
    >>> there = SlotMark(wal=900, timeline=2, kept=700, ancestors={1: 600})
    >>> made_behind_fork(replace(first, fork=Fork(there, there)), there)
    True
    """
    if before is None or before.fork is None or now is None or now.ancestors is None:
        return False
    left, kept = now.ancestors.get(before.timeline), before.fork.first.kept
    return left is not None and kept is not None and left < kept


def _as_first_seen(before: SlotMark, now: SlotMark) -> SlotMark:
    """A slot that was seen on this timeline before, with what it kept then: its reader has carried it on since."""
    fork = before.fork
    if fork is None or fork.last.timeline != now.timeline or continuity(fork.last, now) is not Continuity.SAME:
        return now
    return replace(now, kept=fork.first.kept)
