"""What tables come to at one time: the updates of their logs, added up. For the command, the front door and Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from cdcv2.completeness import frontier_text, through_text, time_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Time, less_equal, sort_key
from cdcv2.errors import IncompleteError, UsageError
from cdcv2.logs.coverage import SNAPSHOT_OF_IT
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.logs.named_logs import CoveredLogs, NamedLog, manifest_tables
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader, NullObserver, Observer
from cdcv2.logs.tables_at_time import NO_WHOLE_HISTORY, demand_no_less
from cdcv2.protocol.messages import Updates
from cdcv2.protocol.timeline import demand_started
from cdcv2.rows.row_type import Row
from cdcv2.rows.times import least_time
from cdcv2.store.file_system import is_there

#: What to do where nothing more is stated yet.
_WAIT = "let what writes the log continue"


class TableContents(NamedTuple):
    """The rows of tables at one time, and how far their logs are complete."""

    #: table -> each row, and how often it is there
    rows: dict[str, ChangeBatch[Row]]
    #: Everything not beyond it is complete in every log.
    frontier: Antichain
    #: as :meth:`LogReader.disputed`
    disputed: dict[str, dict[str, str]]


def contents(
    found: CoveredLogs, at: Time | None, start: Collection[Time], *, quarantine: Quarantine | None = None,
    observer: Observer = NullObserver(), tables: Collection[str] | None = None,
) -> TableContents:
    """The rows of tables at one finished time; None: the last time that is finished in all of them.

    Args:
        start: where the history begins.
        quarantine: keeps what is in dispute.
        tables: those whose rows are wanted; by default those of which something is stated at the time.

    Raises UsageError for a time before the start, or before anything is known in these logs and those that were
    captured with them, IncompleteError for a time that is not finished, and where none is, MalformedError for a row
    that is there less than zero times; and what reading logs raises. Cost: reads each log up to the time, or all of it
    where a start was given. Memory: the rows that are wanted, and what the reader holds.
    """
    reading = LogReader(found, start=start, observer=observer, quarantine=quarantine)
    begins = {table: found.of.start(table, Antichain(start)) for table in reading.parts}
    wanted = list(reading.parts if tables is None else tables)
    if at is not None:
        wanted = _started(wanted, begins, at, all_of_them=tables is not None)
    rows = {table: ChangeBatch[Row]() for table in wanted}
    # What is before a start that was given, and would be left out, may stand anywhere in the log.
    later = any(list(begin) != [least_time(found.logs[0].times)] for begin in begins.values())
    happened = False
    for updates, frontier in reading:
        for table, changes in updates.items():
            kept = [(data, diff) for data, time, diff in changes if at is None or less_equal(time, at)]
            happened |= bool(kept)
            if table in rows:
                rows[table].extend(kept)
        if at is not None and not frontier.less_equal(at) and not later:
            break
    _demand_finished(reading, begins, wanted, at)
    if at is not None and not happened:
        demand_started(at, first_time(found.logs, at))
    _demand_no_less(found, rows, at, reading.frontier)
    if tables is None and at is None:
        # Of a table that is covered from a later time on, nothing is known yet.
        rows = {table: rows[table] for table in rows if not begins[table].dominates(reading.frontier)}
    return TableContents(rows, reading.frontier, reading.disputed())


def demand_history(logs: list[NamedLog], at: Time, start: list[Time]) -> None:
    """Raise UsageError for a time before the start, or before anything is known in these logs and those beside them."""
    if not Antichain(start).less_equal(at):
        raise begins_later("these logs", at, start)
    demand_started(at, first_time(logs, at))


def begins_later(which: str, at: Time, start: Collection[Time]) -> UsageError:
    """The error of a time before the history begins."""
    return UsageError(
        f"--at {time_text(at)}: the history begins later, at {frontier_text(Antichain(start))} for {which}, as the "
        "log states or a start that was given (see --start)"
    )


def first_time(logs: Sequence[NamedLog], at: Time) -> Time | None:
    """The earliest time of an update in these logs, and in those that the same capture wrote beside them; or, as soon
    as there is one, a time that is not beyond ``at``. None: there is no update."""
    first: Time | None = None
    for log in [*(named.log for named in logs), *_beside(logs)]:
        for entry in log.read():
            for _, time, _ in entry.message.updates if entry and isinstance(entry.message, Updates) else ():
                if less_equal(time, at):
                    return time
                first = time if first is None else min(first, time, key=sort_key)
    return first


def _beside(logs: Sequence[NamedLog]) -> Iterator[DirectoryLog]:
    paths = {named.log.path.absolute() for named in logs if isinstance(named.log, DirectoryLog)}
    for folder in sorted({path.parent for path in paths}):
        for path in [folder / table for table in manifest_tables(folder)]:
            if path not in paths and is_there(path / LOG_FILE):
                yield DirectoryLog(path)


def _started(
    wanted: list[str], begins: Mapping[str, Antichain], at: Time, *, all_of_them: bool
) -> list[str]:
    """The tables of which something is stated at the time. Raises UsageError where one is wanted, or there is none."""
    started = [table for table in wanted if begins[table].less_equal(at)]
    for table in wanted:
        if table not in started and (all_of_them or not started):
            raise begins_later(table, at, list(begins[table]))
    return started


def _demand_finished(
    reading: LogReader, begins: Mapping[str, Antichain], wanted: list[str], at: Time | None
) -> None:
    """Raise IncompleteError unless the time is finished in all logs; without a time, unless one is."""
    lacks = reading.missing()
    if at is not None and reading.frontier.less_equal(at):
        table = next(part for part, reader in reading.readers.items() if reader.frontier.less_equal(at))
        frontier = reading.readers[table].frontier
        raise IncompleteError(
            f"time {time_text(at)} is not finished in {table}: {through_text(frontier)}, and "
            f"{lacks.get(table) or f'no statement covers it yet: {_WAIT}, or ask for an earlier time'}"
        )
    if at is None and all(begins[table].dominates(reading.frontier) for table in wanted):
        table = next((part for part in lacks), wanted[0])
        raise IncompleteError(
            f"no time is finished in {table} yet: {lacks.get(table) or f'no statement covers one: {_WAIT}'}"
        )


def _demand_no_less(
    found: CoveredLogs, rows: Mapping[str, ChangeBatch[Row]], at: Time | None, frontier: Antichain
) -> None:
    """Raise MalformedError for a row that is there less than zero times."""
    when = time_text(at) if at is not None else f"the end, {frontier_text(frontier)}"
    types = {named.table: named.row_type for named in found.logs}
    why = f"{'; '.join(found.of.texts())}. {SNAPSHOT_OF_IT}" if found.of.starts else f"{NO_WHOLE_HISTORY} (see --start)"
    for table, batch in rows.items():
        demand_no_less(table, types[table], batch, when, why)
