"""The recovery log: the durable pair (checkpoint, driver state) of a materialization, changed in one step, and fenced.

It is a table of holdings (:mod:`cdcv2.materialize.protocol.fence`), one per range of keys that was ever served, each
with

- ``checkpoint``: how far the view is committed;
- ``state``: the driver's own, a JSON object, changed by merge patches (RFC 7386);
- ``extent``: the upper frontier of a transaction that has started, made durable before its commit.

An instance that opens a range raises the fences of all that overlap; a commit of an instance with an older fence is
refused. All rules are here, once. The kinds of log differ in one step only, how the whole table is read and replaced
atomically: in a folder by putting the next number if absent, in SQLite by a transaction.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import checked, digest, reading, with_digest, without_digest
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize.protocol.fence import Holding, Piece, Range, claim, fenced, meet_of, pieces, taken
from cdcv2.materialize.protocol.messages import Checkpoint, Patch
from cdcv2.store.numbered import NumberedFiles, local_path
from cdcv2.store.sqlite_file import SqliteFile

T = TypeVar("T")
_FORMAT = "cdcv2 recovery log"
_VERSION = 1


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


def _to_plain(materialization: str, holdings: list[Holding]) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "materialization": materialization,
        "holdings": [
            {"begin": one.range.begin, "end": one.range.end, "fence": one.fence, **one.value} for one in holdings
        ],
    }


def _from_plain(materialization: str, plain: Any, place: object) -> list[Holding]:
    if not isinstance(plain, Mapping) or plain.get("format") != _FORMAT or plain.get("version") != _VERSION:
        raise ForeignStateError(f"{place} holds no recovery log of version {_VERSION}: name another place for it")
    with reading(place):
        if plain["materialization"] != materialization:
            raise ForeignStateError(
                f"{place} holds the recovery log of {plain['materialization']!r}, not of {materialization!r}: "
                "each needs a place of its own"
            )
        return [_holding(one) for one in plain["holdings"]]


def _holding(plain: Mapping[str, Any]) -> Holding:
    """A holding; its value stays plain, and is known to be what it is read as later."""
    value = {name: plain[name] for name in ("checkpoint", "state", "extent")}
    Checkpoint.from_plain(value["checkpoint"])
    checked(value["state"], dict)
    if value["extent"] is not None:
        Antichain.from_plain(value["extent"])
    return Holding(Range(checked(plain["begin"], int), checked(plain["end"], int)), checked(plain["fence"], int), value)


class MemoryRecoveryLog(RecoveryLog):
    """As durable as the process: for tests and notebooks. Goes through JSON, so what the others refuse it refuses."""

    def __init__(self, materialization: str) -> None:
        super().__init__(materialization)
        self._text = json.dumps(_to_plain(materialization, []))

    def change(self, decide: Callable[[list[Holding]], tuple[list[Holding], T]]) -> T:
        """See :class:`RecoveryLog`."""
        after, result = decide(self.holdings())
        self._text = json.dumps(_to_plain(self.materialization, after))
        return result

    def holdings(self) -> list[Holding]:
        """See :class:`RecoveryLog`."""
        return _from_plain(self.materialization, json.loads(self._text), "memory")


class FileRecoveryLog(RecoveryLog):
    """In a folder of its own, as numbered files of which the greatest counts. Raises OutputError, ForeignStateError."""

    #: how many numbers are kept for people to look at
    KEPT = 8

    def __init__(self, materialization: str, folder: str | Path) -> None:
        super().__init__(materialization)
        self._files = NumberedFiles(local_path(folder), f"the recovery log of {materialization!r}")

    def change(self, decide: Callable[[list[Holding]], tuple[list[Holding], T]]) -> T:
        """See :class:`RecoveryLog`. Cost: one file, flushed to disk."""
        while True:
            last, holdings = self._last()
            after, result = decide(holdings)
            try:
                self._files.put(last + 1, _to_plain(self.materialization, after))
            except RefusedError:
                continue  # another instance was faster: decide again on what it has left
            self._files.prune(last + 2 - self.KEPT)
            return result

    def holdings(self) -> list[Holding]:
        """See :class:`RecoveryLog`."""
        return self._last()[1]

    def _last(self) -> tuple[int, list[Holding]]:
        number, plain = self._files.last()
        if plain is None:
            return number, []
        return number, _from_plain(self.materialization, plain, self._files.folder)


class SqliteRecoveryLog(RecoveryLog):
    """In a SQLite database, which several materializations may share. Raises OutputError, ForeignStateError.

    ``patience``: how many seconds to wait for others that write the same database.
    """

    def __init__(self, materialization: str, path: str | Path, *, patience: float = 30.0) -> None:
        super().__init__(materialization)
        # A runtime may be made on one thread and run on another; it uses the log from one at a time.
        self._path = path
        self._file = SqliteFile(
            path, "CREATE TABLE IF NOT EXISTS cdcv2_recovery_log (materialization TEXT PRIMARY KEY, log TEXT NOT NULL)",
            f"the recovery log of {materialization!r} in {path}", patience=patience,
        )  # fmt: skip

    def change(self, decide: Callable[[list[Holding]], tuple[list[Holding], T]]) -> T:
        """See :class:`RecoveryLog`. Cost: one transaction."""
        with self._file.changing():
            return self._changed(decide)

    def holdings(self) -> list[Holding]:
        """See :class:`RecoveryLog`."""
        return self._read()

    def close(self) -> None:
        """Close the database."""
        self._file.close()

    def _read(self) -> list[Holding]:
        rows = self._file.rows("SELECT log FROM cdcv2_recovery_log WHERE materialization = ?", [self.materialization])
        if not rows:
            return []
        with reading(self._path):
            plain = without_digest(parse_json(rows[0][0]), self._path)
        return _from_plain(self.materialization, plain, self._path)

    def _changed(self, decide: Callable[[list[Holding]], tuple[list[Holding], T]]) -> T:
        after, result = decide(self._read())
        self._file.rows(
            "INSERT INTO cdcv2_recovery_log VALUES (?, ?) "
            "ON CONFLICT (materialization) DO UPDATE SET log = excluded.log",
            [self.materialization, json.dumps(with_digest(_to_plain(self.materialization, after)))],
        )
        return result
