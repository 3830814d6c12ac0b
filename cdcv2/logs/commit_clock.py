"""When what is complete was committed, for one who reads logs: by the clock of their source, at a frontier.

By commit times releases keep it (:mod:`cdcv2.logs.release_times`); on a remap the times are milliseconds themselves; of
a stream nothing is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cdcv2.errors import Cdcv2Error, RefusedError
from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.description import LogDescription, description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.release_times import TIMES_FILE, ReleaseTime, in_headers
from cdcv2.protocol.log import Entry, Log

#: How many releases are kept that were passed.
_PASSED = 1000


def is_on_remap(log: Log) -> bool:
    """Whether the log's times are those of a remap: one that is by commit times has its moments kept beside it.

    So has a manifest that names its connector; and in Kafka its log set stands for the timeline.
    """
    if isinstance(log, DirectoryLog):
        note = manifest_of(log.path.absolute().parent)
        if log.release_times():
            return False
        if note:
            return "prefix" not in note and "timeline" in note
    return states_remap(description_of(log))


def states_remap(stated: LogDescription) -> bool:
    """Whether a log that states this is of a remap's timeline: one that is by commit times has its log set's."""
    return stated.timeline is not None and stated.timeline != stated.log_set


def is_of_stream(log: Log) -> bool:
    """Whether a capture of streams wrote it, as the manifest beside it states; a topic has none."""
    return isinstance(log, DirectoryLog) and "stream" in manifest_of(log.path.absolute().parent)


class CommitClock:
    """The moments of the releases of some logs, read as they grow. One thread.

    Of topics it knows what :meth:`seen` was given. What cannot be read is not known. ``on_remap`` states whether the
    times are those of a remap (None: not known yet; by default the first log is asked).
    Memory: the releases beyond the frontier that was asked for last, and a thousand before it: so a frontier that is a
    little older can be asked for, too.
    """

    def __init__(self, logs: Collection[Log], on_remap: Callable[[], bool | None] | None = None) -> None:
        paths = [log.path.absolute() for log in logs if isinstance(log, DirectoryLog)]
        folders = {folder for path in paths for folder in (path, path.parent)}
        self._files = {folder / TIMES_FILE: 0 for folder in sorted(folders)}
        self._logs, self._ahead = list(logs), set[ReleaseTime]()
        self._last: ReleaseTime | None = None
        self._passed = deque[ReleaseTime](maxlen=_PASSED)
        self._remap: bool | None = None
        self._look = on_remap or self._first_on_remap

    def seen(self, entry: Entry) -> None:
        """A message was read, which may keep a release time."""
        if entry.headers:
            with suppress(RefusedError):
                self._ahead.update(in_headers(entry.headers, str(entry.position)))

    def at(self, frontier: Sequence[Any]) -> float | None:
        """When the last of what is before the frontier was committed, in seconds since 1970; None: not known.

        Cost: what was appended since the last call.
        """
        if len(frontier) != 1 or not isinstance(frontier[0], int) or not frontier[0]:
            return self._seconds() if not frontier else None
        for path in self._files:
            self._read(path)
        before = sorted(release for release in self._ahead if release.lsn < frontier[0])
        self._ahead.difference_update(before)
        for release in before:
            if self._last is None or release > self._last:
                self._last = release
                self._passed.append(release)
        if self._last is None and self._on_remap():
            return (frontier[0] - 1) / 1000
        if self._last is not None and self._last.lsn >= frontier[0]:
            return next((one.ts_ms / 1000 for one in reversed(self._passed) if one.lsn < frontier[0]), None)
        return self._seconds()

    def _seconds(self) -> float | None:
        return None if self._last is None else self._last.ts_ms / 1000

    def _on_remap(self) -> bool:
        if self._remap is None:
            try:
                self._remap = self._look()
            except Cdcv2Error:
                return False
        return bool(self._remap)

    def _first_on_remap(self) -> bool:
        return bool(self._logs) and is_on_remap(self._logs[0]) and not is_of_stream(self._logs[0])

    def _read(self, path: Path) -> None:
        """What was appended to the file, by whole lines."""
        try:
            with path.open("rb") as file:
                file.seek(self._files[path])
                whole, _, _ = file.read().rpartition(b"\n")
                found = [ReleaseTime.from_text(line, str(path)) for line in whole.splitlines() if line]
        except (OSError, RefusedError):
            return
        self._files[path] += len(whole)
        self._ahead.update(release for release in found if release is not None)
