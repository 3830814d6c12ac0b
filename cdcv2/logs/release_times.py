"""When the releases of a capture by commit times were committed, by the source's clock: beside the logs, in no row.

::

    _times.jsonl        {"version": 1, "lsn": 101780600, "ts_ms": 1795251720505, "digest": "..."}

Times by commits are LSNs, and no row has a clock. So each release keeps the LSN of its last END and when that was
committed. Beside directory logs it is a line of a file, appended before the release's statement; the file is in the
directory that has all the logs, or, where they have none together, in that of each log. In a topic it is a header,
``cdcv2-release``, of the statement up to this END, with the text of such a line. The digest is of what else it states;
a line without one is older.

Each is a fact: any number of captures may keep it, and any part of them is true. A crash leaves at most a line that was
broken off; the next one begins a line of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from cdcv2.core.json_text import parse_json
from cdcv2.core.order import check_time
from cdcv2.core.own_json import checked, reading, with_digest, without_digest
from cdcv2.errors import OutputError, RefusedError, UnavailableError
from cdcv2.protocol.log import Headers, Log
from cdcv2.store.put_if_absent import sync_folder

#: The name of the file.
TIMES_FILE = "_times.jsonl"
#: The header of a statement in a topic.
HEADER = "cdcv2-release"
_VERSION = 1
_REMEDY = "restore it, or ask for a time instead of a moment"


class ReleaseTime(NamedTuple):
    """All up to the END at ``lsn`` was committed by ``ts_ms``, in milliseconds since 1970."""

    lsn: int
    ts_ms: int

    def to_text(self) -> str:
        """As it is kept.

        >>> ReleaseTime(10, 100).to_text()
        '{"version": 1, "lsn": 10, "ts_ms": 100, "digest": "36bbc0e7497db767dfdfe4d9546a327a"}'
        """
        return json.dumps(with_digest({"version": _VERSION, **self._asdict()}))

    @classmethod
    def from_text(cls, text: bytes, place: str) -> ReleaseTime | None:
        """What is kept so; None for what is broken off.

        Raises RefusedError for a later version and for what is damaged, with the place.
        """
        try:
            plain = parse_json(text)
        except ValueError:
            return None
        with reading(place, _REMEDY):
            if checked(plain, dict).get("version") != _VERSION:
                raise RefusedError(
                    f"{place} has release times of version {plain.get('version')!r}, and this release reads "
                    f"{_VERSION}: read it with the program that wrote it, or a newer one"
                )
            plain = without_digest(plain, place, _REMEDY)
            found = cls(checked(plain["lsn"], int), checked(plain["ts_ms"], int))
            # A time that a log can have, and a moment that there is.
            check_time(found.lsn)
            clock_text(found.ts_ms)
            return found


@runtime_checkable
class ReleaseTimeLog(Log, Protocol):
    """A log that keeps release times with it."""

    def keep_release(self, release: ReleaseTime) -> None:
        """Keep it: it is durable at the latest with the statement up to its END. Raises what writing raises."""

    def release_times(self) -> list[ReleaseTime]:
        """What is kept with the log or beside it, each once, by LSN. Raises what reading the log raises."""


class ReleaseTimes:
    """The file in a directory, of a capture or of a log. Made with the first line."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / TIMES_FILE

    def keep(self, release: ReleaseTime) -> None:
        """Append it, durably. Raises OutputError."""
        try:
            there = self._path.exists()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                # One write, so that lines of several captures do not mix.
                os.write(opened, f"\n{release.to_text()}\n".encode())
                os.fsync(opened)
            finally:
                os.close(opened)
            if not there:
                sync_folder(self._path.parent)
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def read(self) -> list[ReleaseTime]:
        """What was kept, each once, by LSN; nothing where there is no file.

        Raises UnavailableError where it cannot be read, RefusedError for lines of a later version or that are damaged.
        """
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UnavailableError(f"{self._path} cannot be read: {error.strerror or error}") from error
        found = {ReleaseTime.from_text(line, str(self._path)) for line in lines}
        return sorted(release for release in found if release is not None)

    def last(self) -> int | None:
        """The last moment that was kept; None: there is none, or it cannot be read, which others report who need it."""
        try:
            kept = self.read()
        except (RefusedError, UnavailableError):
            return None
        return kept[-1].ts_ms if kept else None


def in_headers(headers: Headers, place: str) -> list[ReleaseTime]:
    """The release times in the headers of a message. Raises RefusedError for a later version."""
    found = [ReleaseTime.from_text(value, place) for name, value in headers if name == HEADER]
    return [release for release in found if release is not None]


class Clock:
    """The moments of ENDs that are not released yet, for a capture; those of releases are kept.

    Where there is a directory of all the ``logs``, ``times`` is its file; otherwise each log keeps them that can.
    """

    def __init__(self, times: ReleaseTimes | None, logs: Iterable[Log] = ()) -> None:
        self._keep = [times.keep] if times is not None else [
            log.keep_release for log in logs if isinstance(log, ReleaseTimeLog)
        ]
        self._ends: dict[int, int] = {}
        self._through = 0
        self._earlier = times
        self._last: int | None = None

    @property
    def committed_at(self) -> float | None:
        """When the last release was committed, in seconds since 1970; None: not known.

        Until there is one of this run it is that of an earlier one, where a file keeps it.
        """
        earlier, self._earlier = self._earlier, None
        if self._last is None and earlier is not None:
            self._last = earlier.last()
        return None if self._last is None else self._last / 1000

    def end(self, lsn: int, ts_ms: int | None) -> None:
        """An END was read; one that is released already is a duplicate."""
        if self._keep and ts_ms is not None and lsn > self._through:
            self._ends[lsn] = ts_ms

    def release(self, through: int) -> None:
        """All through this END is about to be stated. Raises OutputError, and what writing a log raises."""
        if through in self._ends:
            for keep in self._keep:
                keep(ReleaseTime(through, self._ends[through]))
            self._last = self._ends[through]
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
