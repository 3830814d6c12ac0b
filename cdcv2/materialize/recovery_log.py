"""The recovery log: the durable pair (checkpoint, driver state) of a materialization, changed in one step, and fenced.

It is a table of holdings (:mod:`cdcv2.materialize.protocol.fence`), one per range of keys that was ever served, each
with

- ``checkpoint``: how far the view is committed;
- ``state``: the driver's own, a JSON object, changed by merge patches (RFC 7386);
- ``extent``: the upper frontier of a transaction that has started, made durable before its commit.

An instance that opens a range raises the fences of all that overlap; a commit of an instance with an older fence is
refused. All rules are here, once. The kinds of log (:mod:`cdcv2.materialize.recovery_log_stores`) differ in one step
only, how the whole table is read and replaced atomically.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from cdcv2.core.antichain import Antichain
from cdcv2.core.own_json import digest
from cdcv2.errors import RefusedError
from cdcv2.materialize.protocol.fence import Holding, Piece, Range, claim, fenced, meet_of, pieces, taken
from cdcv2.materialize.protocol.messages import Checkpoint, Patch

T = TypeVar("T")


def merge_patch(target: Any, patch: Any) -> Any:
    """``target`` changed by a JSON merge patch, as RFC 7386 has it; neither argument is touched.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}})
    {'b': {'c': 4, 'd': 3}}
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


@dataclass(frozen=True)
class RecoveredState:
    """What an instance finds when it opens a range.

    ``checkpoint``: where to go on; its reader's state only if the whole range is there. ``pieces``: each part's own
    frontier. ``state``: the driver's. ``extent``: the upper frontier that the first transaction must have, or None.
    """

    checkpoint: Checkpoint
    pieces: tuple[Piece, ...]
    state: dict[str, Any]
    extent: Antichain | None


class RangeClaim:
    """A range of a recovery log, until another instance opens one that overlaps it.

    Every method is durable on return. It raises FencedError once another instance has, and RestoredError when the
    holding is not as this instance left it (``left``, a digest of its value): nothing is changed then.
    """

    def __init__(self, log: RecoveryLog, wanted: Range, fence: int, recovered: RecoveredState, left: str) -> None:
        self.recovered = recovered
        self._log, self._range, self._fence, self._left = log, wanted, fence, left

    def demand(self) -> None:
        """Raise FencedError or RestoredError unless the range is still ours; nothing else is done."""
        self._change({}, None)

    def patch(self, patch: Patch | None) -> dict[str, Any] | None:
        """Change the driver's state, and nothing else; what it is then, or None where nothing was to be changed."""
        return None if patch is None else self._change({}, patch)

    def prepare(self, extent: Antichain, patch: Patch | None) -> None:
        """A transaction up to ``extent`` has started: after a crash, the next instance repeats exactly that."""
        self._change({"extent": extent.to_plain()}, patch)

    def commit(self, checkpoint: Checkpoint, patch: Patch | None) -> None:
        """The transaction is committed, and the driver's state with it."""
        self._change({"checkpoint": checkpoint.to_plain(), "extent": None}, patch)

    def _change(self, changes: Mapping[str, Any], patch: Patch | None) -> dict[str, Any]:
        """The state that the range has then."""
        # Another instance may build on what this one has put before this one knows that it did: it decides again then.
        own = {self._left}

        def changed(holding: Holding) -> Holding:
            if holding.range != self._range:
                return holding
            if holding.fence != self._fence or digest(holding.value) not in own:
                raise taken(self._log.materialization, self._range, self._fence, holding.fence)
            state = holding.value["state"]
            if patch is not None:
                state = merge_patch(state, patch.document) if patch.merge else dict(patch.document)
            value = {**holding.value, **changes, "state": state}
            own.add(digest(value))
            return Holding(holding.range, holding.fence, value)

        def decide(holdings: list[Holding]) -> tuple[list[Holding], dict[str, Any]]:
            after = [changed(holding) for holding in holdings]
            mine = [one for one in after if one.range == self._range]
            if not mine:
                # Not as one that was put back: a start would begin again, and what was pushed would come again.
                raise fenced(self._log.materialization, self._range)
            return after, dict(mine[0].value)

        value = self._log.change(decide)
        self._left = digest(value)
        return dict(value["state"])


class RecoveryLog(ABC):
    """The table of one materialization. Several processes may have it open; ``close`` when it is needed no more."""

    def __init__(self, materialization: str) -> None:
        self.materialization = materialization

    @abstractmethod
    def change(self, decide: Callable[[list[Holding]], tuple[list[Holding], T]]) -> T:
        """Replace the holdings by what ``decide`` makes of them, atomically and durably; return its second result.

        ``decide`` may be called again when another process was faster; what it raises changes nothing.
        """

    @abstractmethod
    def holdings(self) -> list[Holding]:
        """The present holdings; nothing is changed, and no instance fenced off."""

    def checkpoints(self) -> list[Checkpoint]:
        """What was committed last, by range of keys."""
        return [Checkpoint.from_plain(one.value["checkpoint"]) for one in self.holdings()]

    def close(self) -> None:
        """Release what is open."""

    def open(self, wanted: Range, start: Antichain) -> RangeClaim:
        """Take the range over from its instances; ``start`` is the frontier of a view that has nothing.

        Raises RefusedError for parts with extents that one transaction cannot have.
        """

        def decide(holdings: list[Holding]) -> tuple[list[Holding], RangeClaim]:
            after, fence, recovered = after_start(holdings, wanted, start)
            left = next(digest(one.value) for one in after if one.range == wanted)
            return after, RangeClaim(self, wanted, fence, recovered, left)

        return self.change(decide)


def after_start(holdings: list[Holding], wanted: Range, start: Antichain) -> tuple[list[Holding], int, RecoveredState]:
    """The holdings after an instance has started to serve ``wanted``, its fence, and the state that it resumes from.

    Raises RefusedError for parts with extents that one transaction cannot have.
    """
    after = claim(holdings, wanted, value=holding_value(Checkpoint(start, committed=False).to_plain()))
    mine = next(one for one in after if one.range == wanted)
    return after, mine.fence, _recovered(holdings, mine, start)


def holding_value(checkpoint: Any) -> dict[str, Any]:
    """The value of a holding that has only a checkpoint, given as plain JSON."""
    return {"checkpoint": checkpoint, "state": {}, "extent": None}


def _recovered(before: list[Holding], mine: Holding, start: Antichain) -> RecoveredState:
    found = pieces(before, mine.range, lambda value: _checkpoint(value, start).frontier, start)
    own = _checkpoint(mine.value, start)
    at = meet_of(found)
    near = sorted((old for old in before if old.range.overlaps(mine.range)), key=lambda old: -old.range.width)
    state: dict[str, Any] = {}
    for old in near:
        state = merge_patch(state, old.value["state"])
    checkpoint = own if len(found) == 1 and own.frontier == at else Checkpoint(at, None, own.views)
    return RecoveredState(checkpoint, found, state, _outstanding(near, found))


def _checkpoint(value: Mapping[str, Any], start: Antichain) -> Checkpoint:
    """That of a holding; RefusedError where its first transaction has begun, and would be another with this start."""
    checkpoint = Checkpoint.from_plain(value["checkpoint"])
    begun = checkpoint.started_at(start)
    if value["extent"] is not None and begun.frontier != checkpoint.frontier:
        raise RefusedError(
            f"a first transaction has begun that is from {checkpoint.frontier} on, and now the view is to begin at "
            f"{start}: the store may have it already. Begin there once more (start: in the file), or take a new name "
            "and an empty place"
        )
    return begun


def _outstanding(near: list[Holding], found: tuple[Piece, ...]) -> Antichain | None:
    """The extent that a transaction has begun with and that is not committed everywhere; RefusedError for several."""
    begun = set[Antichain]()
    for old in near:
        if old.value["extent"] is not None:
            extent = Antichain.from_plain(old.value["extent"])
            if any(old.range.overlaps(one.range) and not one.frontier.dominates(extent) for one in found):
                begun.add(extent)
    if len(begun) > 1 or (begun and len(found) > 1):
        raise RefusedError(
            f"transactions up to {sorted(begun, key=repr)} have begun in parts of this range, and a store that takes "
            "only pushes must have each repeated as it was: open the old ranges again, let them finish, then join them"
        )
    return next(iter(begun), None)
