"""Logs with the tables that they are of: which logs addresses name, and what must be true before they are read as one.

An address is a directory log, a directory in which a capture wrote a log per table, or a topic, perhaps with the table
that it is (a copy) of. A topic does not know its row type: the caller that opens one gives it (:data:`OpenTopic`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cdcv2.core.order import Time
from cdcv2.errors import IncompleteError, MissingLogError, UsageError
from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.coverage import TableCoverage, coverage
from cdcv2.logs.description import description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_json import LOG_FILE, demand_not_lost
from cdcv2.logs.log_names import named_after
from cdcv2.logs.timeline_of_logs import OPTION, LogPart, UndescribedLog, one_timeline
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times
from cdcv2.store.file_system import is_there, names_in
from cdcv2.timeline.ordering import check_ordered


@dataclass(frozen=True)
class NamedLog:
    """A log, the table that it is (a copy) of, and the type of its rows."""

    table: str
    log: Log
    row_type: RowType
    times: Times = "int"


#: Opens a topic as the log of a table: (topic, table) -> the log.
OpenTopic: TypeAlias = Callable[[str, str], NamedLog]


def logs_at(address: LogAddress, open_topic: OpenTopic) -> Iterator[NamedLog]:
    """The logs at an address: one, or those that a capture wrote into a directory.

    Raises UsageError for one table's name over several logs, what :func:`directory_logs` raises, and what opening does.
    """
    table = address.table
    if address.is_topic:
        yield open_topic(address.name, table or address.name)
        return
    found = directory_logs(Path(address.name))
    if table is not None and len(found) > 1:
        raise UsageError(f"{address} holds the logs of {len(found)} tables, they cannot all be {table}")
    for path in found:
        log = DirectoryLog(path)
        yield NamedLog(table or named_after(path), log, log.row_type, log.times)


def logs_at_each(addresses: Iterable[LogAddress], open_topic: OpenTopic) -> list[NamedLog]:
    """The logs at all the addresses. Raises UsageError for logs of one table with different row types, and as
    :func:`logs_at`."""
    named = [log for address in addresses for log in logs_at(address, open_topic)]
    kinds: dict[str, RowType] = {}
    for log in named:
        if kinds.setdefault(log.table, log.row_type) != log.row_type:
            raise UsageError(
                f"the logs given for table {log.table} have different row types, so they are no copies of one: "
                "name them TABLE=LOG, each by its table"
            )
    return named


def check_timeline(logs: Sequence[NamedLog], named: str | None, *, naming: str = OPTION) -> str | None:
    """The timeline of logs that are read as one; ``log_names``, ``naming`` and what it raises: as :func:`one_timeline`.

    A topic without a message states nothing yet: what it is of is compared with the first message.
    """
    parts = []
    for one in logs:
        stated = description_of(one.log).timeline
        if stated is not None or not _is_empty_topic(one.log):
            parts.append(LogPart(f"the log {one.log.name}", stated))
    timeline = one_timeline(parts, named, naming=naming)
    for one in logs:
        if timeline is not None and isinstance(one.log, UndescribedLog):
            one.log.expect(timeline)
    return timeline


def _is_empty_topic(log: Log) -> bool:
    return isinstance(log, UndescribedLog) and not any(log.ends().values())


def directory_logs(folder: Path) -> list[Path]:
    """The directory logs in what a capture wrote; the directory itself when it is a log.

    Raises MissingLogError where there is neither, IncompleteError where a capture wrote some and all are missing,
    UnavailableError for what cannot be looked into, RefusedError for a log that lost its description: a log that is
    left out would not be missed.
    """
    if is_there(folder / LOG_FILE):
        return [folder]
    names = names_in(folder)
    if names is None:
        raise MissingLogError(f"there is no directory {folder}: is the path right, and has the writer started?")
    for directory in (folder, *(folder / name for name in names)):
        demand_not_lost(directory)
    inside = [folder / name for name in names if is_there(folder / name / LOG_FILE)]
    if not inside:
        for table in manifest_tables(folder):
            raise missing_log(folder / table)
        raise MissingLogError(f"{folder} is no log, and there is none in it ({LOG_FILE} is missing)")
    return inside


def manifest_tables(folder: Path) -> list[str]:
    """The tables whose logs a capture has written in a directory, as it noted there; none where there is no note."""
    return list(manifest_of(folder).get("tables", ()))


def missing_logs(addresses: Iterable[LogAddress]) -> list[Path]:
    """The logs that a capture notes beside its logs in these directories, and that are not there any more."""
    folders = [Path(address.name) for address in addresses if not address.is_topic]
    written = [folder / str(table) for folder in folders for table in manifest_tables(folder)]
    return sorted(log for log in written if not is_there(log / LOG_FILE))


def demand_whole(addresses: Iterable[LogAddress], logs: Sequence[NamedLog]) -> None:
    """Raise IncompleteError unless all logs are there that a capture wrote into these directories, or copies of them.
    """
    for log in missing_logs(addresses):
        if log.name not in {named.table for named in logs}:
            raise missing_log(log)


def missing_log(log: Path) -> IncompleteError:
    """What is raised for a log that a capture wrote, and that is not there any more."""
    return IncompleteError(
        f"the whole log {log}, which the capture wrote, is missing; bring it back, or capture again elsewhere"
    )


@dataclass(frozen=True)
class CoveredLogs:
    """The logs that are to be read, and what all that were opened state of their tables."""

    logs: list[NamedLog]
    opened: Sequence[NamedLog]
    of: TableCoverage

    @property
    def starts(self) -> dict[str, list[Time]]:
        """Where the logs begin that begin later than others, as a Timeline takes it."""
        return {table: [time] for table, time in self.of.starts.items()}

    def demand_still(self) -> None:
        """Raise LateTableError if a table is covered by now that was not when the logs were opened."""
        self.of.demand_still(lambda: covered(self.opened).of)


def covered(logs: Sequence[NamedLog]) -> CoveredLogs:
    """Those of them that are. Raises what reading a description raises. Cost: a look at each log's description."""
    described = [(named, description_of(named.log)) for named in logs]
    return CoveredLogs(
        [named for named, stated in described if stated.covered], logs,
        coverage((named.table, stated) for named, stated in described),
    )


def some_covered(logs: Sequence[NamedLog]) -> CoveredLogs:
    """The same; raises IncompleteError where none of them is."""
    found = covered(logs)
    if not found.logs:
        found.of.demand(found.of.uncovered)
    return found


def demand_ordered(logs: Iterable[NamedLog], purpose: str) -> None:
    """Raise RefusedError unless all have transactions in commit order, for a purpose that needs it (``a view of``).

    The error names purpose and table. Raises also what reading the logs raises.
    """
    for named in logs:
        check_ordered(description_of(named.log).ordering, f"{purpose} {named.table}")
