"""Where a recovery log is kept: in memory, in a folder, in SQLite; and the JSON in which all of them keep it.

They differ in how the whole table of holdings is read and replaced atomically: in a folder by putting the next number
if absent, in SQLite by a transaction. What is decided on it is in :mod:`cdcv2.materialize.recovery_log`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import checked, reading, with_digest, without_digest
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.materialize.protocol.fence import Holding, Range
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.recovery_log import RecoveryLog
from cdcv2.store.numbered import NumberedFiles, local_path
from cdcv2.store.sqlite_file import SqliteFile

T = TypeVar("T")
_FORMAT = "cdcv2 recovery log"
_VERSION = 1


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
