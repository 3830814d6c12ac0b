"""What goes into the next transaction: cuts, cut to size, of the keys that this instance serves.

A transaction is made of whole times, so that it is a consistent cut whatever its size. It skips, per key, what the view
has already; it refuses a gap; and where a transaction must be repeated as it was, it ends exactly where that one ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import RefusedError, UsageError
from cdcv2.materialize.protocol.fence import Piece, Range, number_of
from cdcv2.materialize.protocol.messages import Key
from cdcv2.protocol.messages import Update
from cdcv2.protocol.timeline import Cut
from cdcv2.views.binding import View, ViewBinding

#: What a runtime is fed: cuts, each perhaps with the reader's state behind it (plain JSON); None: nothing now.
Fed: TypeAlias = Union[Cut, tuple[Cut, Any], None]


@dataclass(frozen=True)
class Portion:
    """A part of a transaction: by number of binding, updates; where that ends; the reader's state."""

    updates: tuple[tuple[int, list[Update]], ...]
    upper: Antichain
    state: Any


class KeyShare:
    """Which updates this instance has to put into the view: of keys in its range, at times the view has not there."""

    def __init__(self, wanted: Range, pieces: Sequence[Piece]) -> None:
        self._range = wanted
        self._pieces = pieces
        self._begins = [piece.range.begin for piece in pieces]
        # Everything is wanted, as far as keys go, once no piece is ahead of where the reader is.
        self._ahead = reduce(Antichain.join, (piece.frontier for piece in pieces)) if pieces else None

    def even(self, lower: Antichain) -> bool:
        """Whether every update beyond ``lower`` is wanted, whatever its key."""
        return self._range.whole and (self._ahead is None or lower.dominates(self._ahead))

    def includes(self, key: bytes, time: Time) -> bool:
        """Whether the update at this key (its canonical bytes) and time is."""
        number = number_of(key)
        if not self._range.holds(number):
            return False
        if not self._pieces:
            return True
        return self._pieces[bisect_right(self._begins, number) - 1].frontier.less_equal(time)


class Intake:
    """The cuts of a source, from ``frontier`` on.

    Raises UsageError for a part without a binding and for times that are not ints, RefusedError for a gap.
    """

    def __init__(
        self, cuts: Iterable[Fed], bindings: Sequence[ViewBinding], views: Sequence[View], share: KeyShare,
        frontier: Antichain
    ) -> None:
        self._cuts: Iterator[Fed] = iter(cuts)
        self._views, self._share = views, share
        self._by_log: dict[str, list[int]] = {}
        for number, binding in enumerate(bindings):
            self._by_log.setdefault(binding.log, []).append(number)
        #: everything not beyond it was given out, or is in the view
        self.frontier = frontier
        #: whether the source has ended
        self.ended = False
        # Taken from the source, and begins at the frontier.
        self._rest: tuple[Cut, Any] | None = None

    def pull(self, limit: Antichain | None = None) -> Portion | None:
        """The next portion, not beyond ``limit``; None when there is nothing now, or nothing any more."""
        taken = self._rest or self._next()
        if taken is None:
            return None
        cut, state = taken
        self._rest = None
        if limit is not None and not limit.dominates(cut.upper):
            cut, behind = _split(cut, limit)
            self._rest, state = (behind, state), None
        lower, self.frontier = self.frontier, cut.upper
        # Of a cut that begins where the last one ended, every update is new.
        new = cut.lower == lower
        portions = [
            (number, list(self._chosen(number, updates, lower, new)))
            for part, updates in cut.updates.items()
            for number in self._bound(part)
        ]
        return Portion(tuple((number, chosen) for number, chosen in portions if chosen), cut.upper, state)

    def _next(self) -> tuple[Cut, Any] | None:
        """The next cut that brings something new, without what the view has."""
        while True:
            try:
                fed = next(self._cuts)
            except StopIteration:
                self.ended = True
                return None
            if fed is None:
                return None
            cut, state = (fed, None) if isinstance(fed, Cut) else fed
            if any(type(time) is not int for time in (*cut.lower, *cut.upper)):
                raise UsageError(f"materialization takes int times, for now, and was given a cut up to {cut.upper}")
            if not self.frontier.dominates(cut.lower):
                raise RefusedError(
                    f"the reader gave a cut from {cut.lower} on, and the view is complete up to {self.frontier} only: "
                    "what lies between would be lost. Read from there"
                )
            if not self.frontier.dominates(cut.upper):
                return cut, state

    def _bound(self, part: str) -> list[int]:
        try:
            return self._by_log[part]
        except KeyError:
            raise UsageError(f"the log {part!r} has no binding; there are bindings of {sorted(self._by_log)}") from None

    def _chosen(self, number: int, updates: Iterable[Update], lower: Antichain, new: bool) -> Iterable[Update]:
        view, share = self._views[number], self._share
        found = updates if new else (update for update in updates if lower.less_equal(update[1]))
        if share.even(lower):
            return found
        return (update for update in found if share.includes(canonical(view.key_of(update[0])), update[1]))


#: Types whose values are themselves in the canonical bytes.
_PLAIN = frozenset({bool, int, str, bytes})


def canonical(key: Key) -> bytes:
    """The bytes by which a key gets its number, and is found in a lake: the same for equal keys, wherever it runs.

    So nothing is in them but ASCII: what ``repr`` takes for printable differs from one Python to the next.
    """
    if not _PLAIN.issuperset(map(type, key)):
        key = tuple([value if isinstance(value, (int, str, bytes)) else str(value) for value in key])
    return ascii(tuple(key)).encode("ascii")


def _split(cut: Cut, limit: Antichain) -> tuple[Cut, Cut]:
    """What of the cut lies before the limit, and what beyond it."""
    before = {part: [one for one in updates if not limit.less_equal(one[1])] for part, updates in cut.updates.items()}
    behind = {part: [one for one in updates if limit.less_equal(one[1])] for part, updates in cut.updates.items()}
    return Cut(before, cut.lower, limit), Cut(behind, limit, cut.upper)
