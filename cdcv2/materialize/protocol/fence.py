"""Fences: which instance may commit for which keys, as a table of *holdings* and pure functions over it.

The keys of a materialization are spread over the numbers 0 to 2^32-1 by a hash; an instance serves a range of them. It
has a holding: the range, a *fence* (a number), and a value (its checkpoint). An instance that starts to serve a range
raises the fence of every holding that overlaps it; a commit names the fence that its instance was given, and changes
nothing if the holding has another one now. So of two instances that share a key, the later one wins, always.

A commit demands, too, that the holding has the value that its instance left there. If not, and no later instance has
been there, store or log were put back to an earlier moment: what the instance remembers goes with rows that are
missing.

Every holding states a fact: *the view has, for the keys of my range, everything not beyond my frontier*. So what
is known of a key is the *join* of all holdings that its number lies in, whatever was split or joined on the way.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import FencedError, RefusedError, RestoredError, UsageError

#: The greatest number of a key.
LAST = 2**32 - 1


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The keys with the numbers ``begin`` to ``end``, both included; by default all. Raises UsageError for none.

    >>> Range(0, 99).overlaps(Range(99, 200)), Range(0, 99).covers(Range(5, 6)), Range(0, 99).width
    (True, True, 99)
    """

    begin: int = 0
    end: int = LAST

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end <= LAST:
            raise UsageError(f"{self.begin}-{self.end} is no range of keys: one lies in 0-{LAST}, begin first")

    @property
    def whole(self) -> bool:
        """Whether every key is in it."""
        return self.begin == 0 and self.end == LAST

    @property
    def width(self) -> int:
        """How far the end is from the beginning."""
        return self.end - self.begin

    def holds(self, number: int) -> bool:
        """Whether a key's number is in it."""
        return self.begin <= number <= self.end

    def overlaps(self, other: Range) -> bool:
        """Whether some number is in both."""
        return self.begin <= other.end and other.begin <= self.end

    def covers(self, other: Range) -> bool:
        """Whether every number of the other is in this one."""
        return self.begin <= other.begin and other.end <= self.end

    def __str__(self) -> str:
        return f"{self.begin}-{self.end}"


def number_of(key: bytes) -> int:
    """The number of a key, from its canonical bytes: the same in every process and release."""
    return zlib.crc32(key)


@dataclass(frozen=True, slots=True)
class Holding:
    """What one instance has, or had, of a materialization. ``value`` is plain JSON."""

    range: Range
    fence: int
    value: Any


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a range, and the frontier that the view has there."""

    range: Range
    frontier: Antichain


def install(holdings: Iterable[Holding], wanted: Range, *, fence: int = 0, value: Any = None) -> list[Holding]:
    """The holdings after an instance has begun to serve ``wanted``.

    Each that overlaps has its fence raised. The new one inherits fence and value from the narrowest that covers it;
    where none does, it has those given.

    >>> old = [Holding(Range(0, 99), 6, "a"), Holding(Range(0, 499), 5, "b")]
    >>> [(str(new.range), new.fence, new.value) for new in install(old, Range(100, 199))]
    [('0-99', 6, 'a'), ('0-499', 6, 'b'), ('100-199', 6, 'b')]
    """
    after = [replace(old, fence=old.fence + 1) if old.range.overlaps(wanted) else old for old in holdings]
    covering = sorted((old for old in after if old.range.covers(wanted)), key=lambda old: (old.range.width, old.range))
    if covering and covering[0].range == wanted:
        return after
    return [*after, replace(covering[0], range=wanted) if covering else Holding(wanted, fence, value)]


def claim(holdings: Sequence[Holding], wanted: Range, *, value: Any = None) -> list[Holding]:
    """The holdings after an instance has begun to serve ``wanted``: :func:`install`, and the rule for
    narrower ones.

    A holding that is narrower than ``wanted`` and overlaps it may be ahead of what the new one inherited:
    then all that overlap get one new fence, above all of theirs, and the checkpoint that counts is that of
    :func:`pieces`.
    """
    after = install(holdings, wanted, value=value)
    if not any(old.range.overlaps(wanted) and old.range.width < wanted.width for old in holdings):
        return after
    fence = 1 + max(old.fence for old in holdings if old.range.overlaps(wanted))
    return [replace(one, fence=fence) if one.range.overlaps(wanted) else one for one in after]


def pieces(
    holdings: Iterable[Holding], wanted: Range, frontier: Callable[[Any], Antichain], start: Antichain
) -> tuple[Piece, ...]:
    """The parts of ``wanted`` and the frontier of each: the join over the holdings that cover it, ``start``
    for none.

    ``frontier`` reads it out of a value. Neighbours with one frontier are one piece.

    >>> old = [Holding(Range(0, 99), 1, 5), Holding(Range(50, 59), 1, 8)]
    >>> for piece in pieces(old, Range(0, 119), lambda at: Antichain([at]), Antichain([0])):
    ...     print(piece.range, piece.frontier)
    0-49 [5]
    50-59 [8]
    60-99 [5]
    100-119 [0]

    Cost: one look at each holding per piece.
    """
    near = [old for old in holdings if old.range.overlaps(wanted)]
    begins = {wanted.begin, *(old.range.begin for old in near), *(old.range.end + 1 for old in near)}
    inside = sorted(begin for begin in begins if wanted.holds(begin))
    found: list[Piece] = []
    for begin, following in zip(inside, [*inside[1:], wanted.end + 1]):
        at = start
        for old in near:
            if old.range.holds(begin):
                at = at.join(frontier(old.value))
        if found and found[-1].frontier == at:
            found[-1] = Piece(Range(found[-1].range.begin, following - 1), at)
        else:
            found.append(Piece(Range(begin, following - 1), at))
    return tuple(found)


def ahead(found: Iterable[Piece], known: Sequence[Piece]) -> tuple[Piece, Piece] | None:
    """The first of ``found`` that is further than what is known of its keys, and that; None where none is.

    >>> found = [Piece(Range(0, 49), Antichain([5])), Piece(Range(50, 99), Antichain([7]))]
    >>> [str(piece.range) for piece in ahead(found, [Piece(Range(0, 99), Antichain([6]))])]
    ['50-99', '0-99']
    """
    for one in found:
        for other in known:
            if one.range.overlaps(other.range) and not other.frontier.dominates(one.frontier):
                return one, other
    return None


def meet_of(found: Iterable[Piece]) -> Antichain:
    """The frontier that all the pieces have reached: where to begin to read."""
    return Antichain.meet_of(piece.frontier for piece in found)


def fenced(materialization: str, wanted: Range) -> FencedError:
    """The error of an instance whose fence has been raised by another."""
    keys = "" if wanted.whole else f" for the keys {wanted}"
    return FencedError(
        f"this instance of {materialization!r}{keys} was fenced off by another: nothing of this "
        "transaction was committed. If the other one is meant to run, stop this one; else stop it, and start this again"
    )


def taken(materialization: str, wanted: Range, fence: int, found: int | None) -> RefusedError:
    """The error of an instance with this fence whose holding is not as it left it: by another, or put back.

    ``found``: the fence that the holding has now; None: there is no holding.

    >>> [type(taken("shop", Range(), 5, found)).__name__ for found in (6, 5, 4, None)]
    ['FencedError', 'RestoredError', 'RestoredError', 'RestoredError']
    """
    return fenced(materialization, wanted) if found is not None and found > fence else restored(materialization)


def restored(materialization: str, there: str = "its checkpoint is not the one that this instance wrote last") -> (
    RestoredError
):
    """The error of an instance under which its target, or its recovery log, was put back to an earlier moment."""
    return RestoredError(
        f"the target or the recovery log of {materialization!r} was put back to another moment while it was worked on: "
        f"{there}. Nothing of this transaction was committed. Start it again (cdcv2 up does): it resumes from what is "
        "there now"
    )
