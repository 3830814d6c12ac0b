"""The ends of directory logs: up to where they are stated, when they were written last, and whether a stop is kept.

Cost: the last files of each log. Of logs in topics nothing is known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cdcv2.errors import Cdcv2Error
from cdcv2.events import shown
from cdcv2.logs.coverage import coverage
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.logs.stops import Stop
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.messages import Progress
from cdcv2.store.file_system import is_there, names_in

#: So many files at the end of a log are looked at for its last statement.
_FILES = 3


def stated_frontier(into: LogAddress, tables: Iterable[str]) -> list[int] | None:
    """Up to where all of the logs of one capture are stated; None: not known, as of logs in topics."""
    found: list[int] = []
    for table in tables:
        address = into.of(table)
        if address.is_topic or not is_there(Path(address.name) / LOG_FILE):
            return None
        stated = _last_statement(Path(address.name))
        if stated is None:
            return None
        found.append(stated)
    return [min(found)] if found else None


def uncovered_tables(into: LogAddress, tables: Iterable[str]) -> dict[str, str]:
    """Those of which the logs of one capture state nothing, as the connector does not cover them, each with the reason.

    Not known of logs in topics, and of what cannot be read. Cost: a look at each log's description.
    """
    found: dict[str, str] = {}
    for table in tables:
        address = into.of(table)
        if not address.is_topic and is_there(Path(address.name) / LOG_FILE):
            with suppress(Cdcv2Error):
                stated = DirectoryLog(Path(address.name)).description()
                if not stated.covered:
                    found[table] = coverage([(table, stated)]).text(table)
    return found


class LogEnd(NamedTuple):
    """When one of the logs was written last, in seconds since 1970; a stop that is kept; why they cannot be read."""

    moved_at: float | None = None
    stop: Stop | None = None
    error: str | None = None


def log_end(into: LogAddress, tables: Iterable[str]) -> LogEnd:
    """The end of the logs of one capture; nothing of those that are not there yet."""
    moved: list[float] = []
    for table in tables:
        path = Path(into.of(table).name)
        if into.is_topic or not is_there(path):
            continue
        try:
            log = DirectoryLog(path)
            stops, names = log.stops(), names_in(path) or []
        except Cdcv2Error as error:
            return LogEnd(error=shown(str(error)))
        if stops:
            return LogEnd(max(moved, default=None), stops[0])
        files = [name for name in names if name.endswith(".avro")]
        if files:
            moved.append((path / max(files)).stat().st_mtime)
    return LogEnd(max(moved, default=None))


def _last_statement(path: Path) -> int | None:
    try:
        log = DirectoryLog(path)
        end = log.ends()[0]
        for number in range(end - 1, max(-1, end - 1 - _FILES), -1):
            uppers = [
                entry.message.upper for entry in log.read({0: number})
                if entry is not None and isinstance(entry.message, Progress)
            ]
            if uppers:
                times = uppers[-1].to_plain()
                return times[0] if len(times) == 1 and isinstance(times[0], int) else None
    except Cdcv2Error:
        # Whether a log is damaged is asked elsewhere: how far it is, is not known then.
        return None
    return None
