"""The catalogue of external state: its entries, in a SQLite database in a folder, which one owner at a time may change.

An owner holds the lock on the folder (:mod:`cdcv2.control.owner`). Besides, each owner has an *epoch*, a number higher
than those before, and every change states it. So a process that has lost the lock without noticing it (a network file
system, a folder that was copied back) changes nothing after another has taken over.

The format is durable: each entry is one JSON object with a digest, and the version is in a table of its own.

A catalogue is of one pipeline, by its name, and of one folder: what another one lists is never removed by it.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from cdcv2 import failpoints
from cdcv2.control.entries import CatalogueEntry
from cdcv2.control.owner import OwnedFolder
from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import reading, with_digest, without_digest
from cdcv2.errors import Cdcv2Error, FencedError, ForeignStateError, RefusedError, UsageError
from cdcv2.store.file_system import is_there
from cdcv2.store.sqlite_file import SqliteFile, rows_at_rest

#: The name of its file in the folder.
DATABASE = "catalogue.sqlite"
BEFORE_CHANGE = failpoints.declare("catalogue.before-change", "a change of the catalogue is decided, and not written")
AFTER_CHANGE = failpoints.declare("catalogue.after-change", "a change of the catalogue is written")
_FORMAT, _VERSION = "cdcv2 catalogue", 1
_TABLES = """
CREATE TABLE IF NOT EXISTS cdcv2_catalogue (key TEXT PRIMARY KEY, value TEXT NOT NULL)
"""
_HEAD, _HOME, _OWNER, _ENTRY = "head", "home", "owner", "entry:"


class Catalogue:
    """The catalogue in a folder. Made by :func:`take_catalogue` or :func:`read_catalogue`.

    Attributes:
        folder: where it is.
        epoch: the number of its owner; None for one that is only read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.epoch: int | None = None
        self._file = SqliteFile(
            folder / DATABASE, _TABLES, f"the catalogue in {folder}",
            remedy="The jobs that this process keeps run on, and a new one does not find them there: end them "
                   f"(pgrep -af cdcv2 lists them), and start again. Do not replace {folder} while it is in use",
        )

    def begin(self, owner: str, now: float, pipeline: str) -> None:
        """Become its owner, for a pipeline: what an owner before this one still writes is refused from here on.

        Raises RefusedError as :meth:`demand_home` does.
        """
        with self._file.changing():
            if not self._value(_HEAD):
                self._put(_HEAD, {"format": _FORMAT, "version": _VERSION})
            self.check_version()
            self.demand_home(pipeline)
            home = self._value(_HOME) or {"id": secrets.token_hex(16)}
            self._put(_HOME, {"id": home["id"], "pipeline": pipeline, "place": str(self.folder.resolve())})
            before = self._value(_OWNER) or {"epoch": 0}
            self.epoch = int(before["epoch"]) + 1
            self._put(_OWNER, {"epoch": self.epoch, "owner": owner, "pid": os.getpid(), "since": now})

    def demand_home(self, pipeline: str) -> None:
        """Raise RefusedError if it is another pipeline's, or a copy of one that is where it was.

        One of an older release has no name yet, and takes the first. One whose folder was moved, or was restored from
        a backup, is no copy: where it was there is no catalogue any more, or another one.
        """
        home = self._value(_HOME)
        if home is None:
            return
        demand_pipeline(self.folder, home["pipeline"], pipeline)
        place = Path(home["place"])
        if place != self.folder.resolve() and self._is_kept_in(place, home["id"]):
            raise RefusedError(
                f"{self.folder} is a copy of {place}, which is there still: it would remove what that one has made. "
                f"For a second pipeline, delete the copy, and write another 'pipeline' in its file. If the folder was "
                f"moved, and {place} is not in use any more, delete or rename that"
            )

    def _is_kept_in(self, place: Path, identity: str) -> bool:
        """Whether a folder has a catalogue of the same identity, and is not this one under another path."""
        try:
            if not is_there(place / DATABASE) or (place / DATABASE).samefile(self.folder / DATABASE):
                return False
            with read_catalogue(place) as other:
                return (other._value(_HOME) or {}).get("id") == identity
        except (OSError, Cdcv2Error) as cause:
            raise RefusedError(
                f"{self.folder} was in {place} before, and whether it is there still cannot be seen: {cause}. Mend "
                "that; or delete or rename it, if it is not in use any more"
            ) from cause

    def session(self) -> Catalogue:
        """Another one of the same owner, for a thread of its own."""
        other = Catalogue(self.folder)
        other.epoch = self.epoch
        return other

    def entries(self) -> list[CatalogueEntry]:
        """All entries, in the order in which they were made. Raises ForeignStateError for one that is damaged."""
        rows = self._file.rows(
            "SELECT key, value FROM cdcv2_catalogue WHERE key LIKE ? ORDER BY rowid", [f"{_ENTRY}%"]
        )
        return [self._entry(key, value) for key, value in rows]

    def owner(self) -> dict[str, Any] | None:
        """Who owns it, or did last: epoch, owner, pid, since; None where none ever did."""
        return self._value(_OWNER)

    def write(self, entries: Iterable[CatalogueEntry]) -> None:
        """Make these the entries of their nonces, all or none; durable on return. Raises FencedError."""
        failpoints.reach(BEFORE_CHANGE)
        with self._file.changing():
            self._demand_ours()
            for entry in entries:
                self._put(f"{_ENTRY}{entry.nonce}", entry.to_plain())
        failpoints.reach(AFTER_CHANGE)

    def remove(self, nonces: Iterable[str]) -> None:
        """Forget these entries. What they mean is not touched, and is never found again. Raises FencedError."""
        with self._file.changing():
            self._demand_ours()
            for nonce in nonces:
                self._file.rows("DELETE FROM cdcv2_catalogue WHERE key = ?", [f"{_ENTRY}{nonce}"])

    def demand(self) -> None:
        """Raise FencedError unless this is its owner still."""
        with self._file.changing():
            self._demand_ours()

    def close(self) -> None:
        """Let it go; the folder stays its owner's."""
        self._file.close()

    def __enter__(self) -> Catalogue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _demand_ours(self) -> None:
        now = self._value(_OWNER) or {}
        if self.epoch is None or now.get("epoch") != self.epoch:
            raise FencedError(
                f"the catalogue in {self.folder} was taken over by {_who(now)}: let it work; this process changes "
                "nothing any more"
            )

    def check_version(self) -> None:
        """Raise ForeignStateError unless it is a catalogue of a version that this release reads."""
        head = self._value(_HEAD) or {}
        if head.get("format") != _FORMAT or head.get("version") != _VERSION:
            raise ForeignStateError(
                f"{self.folder / DATABASE} holds no catalogue of version {_VERSION}: it is of another release, or of "
                "another program. Use the release that wrote it, or name another folder"
            )

    def _value(self, key: str) -> dict[str, Any] | None:
        rows = self._file.rows("SELECT value FROM cdcv2_catalogue WHERE key = ?", [key])
        return self._read(rows[0][0]) if rows else None

    def _put(self, key: str, plain: dict[str, Any]) -> None:
        self._file.rows(
            "INSERT INTO cdcv2_catalogue VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [key, json.dumps(with_digest(plain), separators=(",", ":"))],
        )

    def _read(self, text: str) -> dict[str, Any]:
        return _plain(text, self.folder / DATABASE)

    def _entry(self, key: str, text: str) -> CatalogueEntry:
        plain = self._read(text)
        with reading(f"{self.folder / DATABASE}, {key}"):
            return CatalogueEntry.from_plain(plain)


def take_catalogue(folder: OwnedFolder, owner: str, now: float, pipeline: str) -> Catalogue:
    """The catalogue of a pipeline in a folder that is ours, made if it is not there. ``owner``: shown to others.

    Raises OutputError where it cannot be made, ForeignStateError for one of another version, RefusedError for one of
    another pipeline, and for a copy.
    """
    catalogue = Catalogue(folder.path)
    try:
        catalogue.begin(owner, now, pipeline)
    except BaseException:
        catalogue.close()
        raise
    return catalogue


def demand_pipeline_at_rest(folder: Path, pipeline: str) -> None:
    """Raise RefusedError where the catalogue in a folder that cannot be written names another pipeline.

    One that cannot be read names none.
    """
    place = folder / DATABASE
    with suppress(sqlite3.Error, ForeignStateError):
        for (text,) in rows_at_rest(place, "SELECT value FROM cdcv2_catalogue WHERE key = ?", [_HOME]):
            demand_pipeline(folder, _plain(text, place)["pipeline"], pipeline)


def demand_pipeline(folder: Path, named: str, pipeline: str) -> None:
    """Raise RefusedError unless the pipeline that the catalogue in a folder names is this one."""
    if named != pipeline:
        raise RefusedError(
            f"{folder} is the state of the pipeline {named!r}, and the file has the pipeline {pipeline!r}: it would "
            "remove what the other one has made. Give each a folder of its own ('state'), or write pipeline: "
            f"{named} again"
        )


def read_catalogue(folder: Path) -> Catalogue:
    """The catalogue in a folder, to look at; its owner may be at work. Raises UsageError where there is none."""
    if not is_there(folder / DATABASE):
        raise UsageError(f"{folder} holds no catalogue: name the state folder of a pipeline")
    catalogue = Catalogue(folder)
    try:
        catalogue.check_version()
    except BaseException:
        catalogue.close()
        raise
    return catalogue


def catalogue_entries(folder: Path, pipeline: str) -> list[CatalogueEntry]:
    """The entries of a pipeline's catalogue, to look at; none where there is none yet.

    Raises RefusedError as :meth:`Catalogue.demand_home` does.
    """
    if not is_there(folder / DATABASE):
        return []
    with read_catalogue(folder) as catalogue:
        catalogue.demand_home(pipeline)
        return catalogue.entries()


def _plain(text: str, place: Path) -> dict[str, Any]:
    with reading(place):
        return without_digest(parse_json(text), place)


def _who(owner: dict[str, Any]) -> str:
    return f"{owner.get('owner', 'another process')} (process {owner.get('pid', 'unknown')})"
