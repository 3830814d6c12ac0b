"""Progress in one gauge asked for in the other: when it happened on a timeline, and where the sources were then."""

from __future__ import annotations

from typing import NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, less_equal
from cdcv2.errors import IncompleteError, UsageError
from cdcv2.timeline.minting import RemapLog, follow, run
from cdcv2.timeline.remap import Remap
from cdcv2.timeline.shared_remap import SharedRemap


class TimeAnswer(NamedTuple):
    """The time of the timeline at which something happened; ``earlier``: or before it, as that is forgotten."""

    time: int
    earlier: bool


def known(log: RemapLog) -> Remap:
    """What a shared remap has decided so far.

    Raises MissingLogError if it has not started, and what reading raises. Cost: the whole log.
    """
    shared = SharedRemap()
    run(log, follow(shared))
    return shared.remap


def when(remap: Remap, position: Time) -> TimeAnswer | None:
    """When that which is at a position of the sources happened on the timeline; None when no binding covers it yet.

    >>> remap = Remap(Antichain([0]))
    >>> _ = remap.mint(Antichain([3]), now=1000), remap.mint(Antichain([5]), now=2000)
    >>> when(remap, 2), when(remap, 3), when(remap, 5)
    (TimeAnswer(time=1000, earlier=False), TimeAnswer(time=2000, earlier=False), None)

    Raises UsageError for a position of another kind than the sources of this remap have. Cost: O(log bindings).
    """
    try:
        fits = any(less_equal(least, position) for least in remap.start)
        into = remap.into_of(position)
    except ValueError as cause:
        raise UsageError(f"{position!r} is no position in sources that begin at {remap.start}: {cause}") from cause
    if not fits:
        raise UsageError(f"{position!r} is before where the sources of this remap begin: {remap.start}")
    return None if into is None else TimeAnswer(into, into == remap.since)


def where(remap: Remap, time: int | None = None) -> Antichain:
    """How far the sources are at a time of the timeline (default: the last one that is decided).

    Exactly what is before the answer has happened at that time.

    >>> remap = Remap(Antichain([0]))
    >>> _ = remap.mint(Antichain([3]), now=1000)
    >>> where(remap, 999), where(remap)
    (Antichain([0]), Antichain([3]))

    Raises IncompleteError for a time that is not decided, RefusedError for one that is forgotten. Cost: as ``when``.
    """
    if time is None:
        return remap.current
    if remap.upper.less_equal(time):
        raise IncompleteError(f"the time {time} is not decided, the remap has come to {remap.last}; ask again later")
    return remap.at(time)
