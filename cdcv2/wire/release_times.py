"""When the releases of a capture by commit times were committed, by the source's clock: beside its directory logs.

::

    _times.jsonl        {"version": 1, "lsn": 101780600, "ts_ms": 1795251720505}

Times by commits are LSNs, and no row has a clock. So each release keeps the LSN of its last END and when that was
committed, before its statement. A line is a fact: any number of captures may append it, and any part of the lines
is true. A crash leaves at most a line that was broken off; the next one begins a line of its own.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from cdcv2.core.json_text import parse_json
from cdcv2.errors import OutputError, RefusedError, UnavailableError
from cdcv2.wire.put_if_absent import sync_folder

#: The name of the file.
TIMES_FILE = "_times.jsonl"
_VERSION = 1


class ReleaseTime(NamedTuple):
    """All up to the END at ``lsn`` was committed by ``ts_ms``, in milliseconds since 1970."""

    lsn: int
    ts_ms: int


class ReleaseTimes:
    """The file in the directory of a capture. Made with the first line."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / TIMES_FILE

    def keep(self, release: ReleaseTime) -> None:
        """Append it, durably. Raises OutputError."""
        line = json.dumps({"version": _VERSION, **release._asdict()})
        try:
            there = self._path.exists()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                # One write, so that lines of several captures do not mix.
                os.write(opened, f"\n{line}\n".encode())
                os.fsync(opened)
            finally:
                os.close(opened)
            if not there:
                sync_folder(self._path.parent)
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def read(self) -> list[ReleaseTime]:
        """What was kept, each once, by LSN; nothing where there is no file.

        Raises UnavailableError where it cannot be read, RefusedError for lines of a later version.
        """
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UnavailableError(f"{self._path} cannot be read: {error.strerror or error}") from error
        found = set[ReleaseTime]()
        for line in lines:
            try:
                plain = parse_json(line) if line else None
            except ValueError:
                # Broken off by a crash: what it would have said is not known.
                continue
            if isinstance(plain, dict):
                if plain.get("version") != _VERSION:
                    raise RefusedError(
                        f"{self._path} has lines of version {plain.get('version')!r}, and this release reads "
                        f"{_VERSION}: read it with the program that wrote it, or a newer one"
                    )
                found.add(ReleaseTime(plain["lsn"], plain["ts_ms"]))
        return sorted(found)


class Clock:
    """The moments of ENDs that are not released yet, for a capture; ``times`` keeps those of releases, if given."""

    def __init__(self, times: ReleaseTimes | None) -> None:
        self._times = times
        self._ends: dict[int, int] = {}
        self._through = 0

    def end(self, lsn: int, ts_ms: int | None) -> None:
        """An END was read; one that is released already is a duplicate."""
        if self._times is not None and ts_ms is not None and lsn > self._through:
            self._ends[lsn] = ts_ms

    def release(self, through: int) -> None:
        """All through this END is about to be stated. Raises OutputError."""
        if self._times is not None and through in self._ends:
            self._times.keep(ReleaseTime(through, self._ends[through]))
        self._through = max(through, self._through)
        self._ends = {lsn: ts_ms for lsn, ts_ms in self._ends.items() if lsn > through}


def committed_by(releases: list[ReleaseTime], ts_ms: int) -> ReleaseTime | None:
    """The last release before the first one that was committed later; None where that is the first of all.

    >>> committed_by([ReleaseTime(10, 100), ReleaseTime(20, 200), ReleaseTime(30, 300)], 299)
    ReleaseTime(lsn=20, ts_ms=200)
    """
    found = None
    for release in releases:
        if release.ts_ms > ts_ms:
            break
        found = release
    return found


def clock_text(ts_ms: int) -> str:
    """The moment in UTC, as ``--at`` takes it.

    >>> clock_text(1795251720505)
    '2026-11-21T09:02:00.505Z'
    """
    moment = datetime.fromtimestamp(ts_ms / 1000, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ts_ms % 1000:03d}Z"
