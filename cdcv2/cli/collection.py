"""What a log comes to: the collection at one of its times."""

from __future__ import annotations

from collections.abc import Iterator

from cdcv2.cli.display import row_text
from cdcv2.cli.logs import LOG_FILE, bar_of
from cdcv2.cli.options.times import start_of
from cdcv2.completeness import frontier_text, through_text, time_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Time, less_equal, sort_key
from cdcv2.errors import IncompleteError, MalformedError, UsageError
from cdcv2.logs.coverage import SNAPSHOT_OF_IT
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.opening import CoveredLogs, NamedLog, covered, manifest_tables
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.protocol.messages import Updates
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.timeline import demand_started
from cdcv2.rows.row_type import Row
from cdcv2.store.file_system import is_there


def collection(
    found: CoveredLogs, at: Time | None, start: list[Time], quarantine: Quarantine | None = None
) -> tuple[ChangeBatch[Row], Antichain, dict[str, dict[str, str]]]:
    """The rows of a table, or of its copies, at a finished time (None: the last one), how far the log is complete, and
    what is in dispute there.

    ``start`` is where the history begins, ``quarantine`` keeps what is in dispute. Raises UsageError for a time before
    the start, or before anything is known in these logs and those that were captured with them, IncompleteError for a
    time that is not finished, and where none is, MalformedError for a row that is there less than no times.
    """
    logs, rows, happened = found.logs, ChangeBatch[Row](), False
    begin = found.of.start(logs[0].table, Antichain(start))
    if at is not None:
        _demand_start(logs[0].table, at, list(begin))
    # What is before a start that was given, and would be left out, may stand anywhere in the log.
    later = list(begin) != start_of(None, logs)
    with bar_of(logs, "adding up") as bar:
        reading = LogReader(found, start=start, observer=bar, quarantine=quarantine)
        for updates, frontier in reading:
            of_table = updates.get(logs[0].table, [])
            wanted = [(data, diff) for data, time, diff in of_table if at is None or less_equal(time, at)]
            rows.extend(wanted)
            happened |= bool(wanted)
            if at is not None and not frontier.less_equal(at) and not later:
                break
    frontier = reading.readers[logs[0].table].frontier
    missing = reading.missing().get(logs[0].table, MissingUpdates())
    if at is not None and frontier.less_equal(at):
        raise IncompleteError(
            f"time {time_text(at)} is not finished in {logs[0].table}: {through_text(frontier)}, and {missing}"
        )
    if at is None and frontier == begin:
        raise IncompleteError(f"no time is finished in {logs[0].table} yet: {missing}")
    if at is not None and not happened:
        demand_started(at, _first(logs, at))
    for data, count in rows:
        if count < 0:
            when = time_text(at) if at is not None else f"the end, {frontier_text(frontier)}"
            raise MalformedError(
                f"at {when}, {row_text(logs[0].row_type, data)} is in {logs[0].table} {count} times: {_why_less(logs)}"
            )
    return rows, frontier, reading.disputed()


def _why_less(logs: list[NamedLog]) -> str:
    """Why a row goes that was never there."""
    later = covered(logs).of
    if later.starts:
        return f"{'; '.join(later.texts())}. {SNAPSHOT_OF_IT}"
    return "the log does not hold the whole history (see --start), or its writer was wrong"


def demand_history(logs: list[NamedLog], at: Time, start: list[Time]) -> None:
    """Raise UsageError for a time before the start, or before anything is known in these logs and those beside them."""
    _demand_start("these logs", at, start)
    demand_started(at, _first(logs, at))


def _demand_start(which: str, at: Time, start: list[Time]) -> None:
    if not Antichain(start).less_equal(at):
        raise UsageError(
            f"--at {time_text(at)}: the history begins later, at {frontier_text(Antichain(start))} for {which}, as the "
            "log states or a start that was given (see --start)"
        )


def _first(logs: list[NamedLog], at: Time) -> Time | None:
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


def _beside(logs: list[NamedLog]) -> Iterator[DirectoryLog]:
    paths = {named.log.path.absolute() for named in logs if isinstance(named.log, DirectoryLog)}
    for folder in sorted({path.parent for path in paths}):
        for path in [folder / table for table in manifest_tables(folder)]:
            if path not in paths and is_there(path / LOG_FILE):
                yield DirectoryLog(path)
