"""The reports of a running replay, or materialization, to people and to programs.

A line on standard error, and the same as JSON on standard output; and events (:mod:`cdcv2.events`).

After each micro-batch (people get a line now and then): how far the output is finished, how many rows that brought,
which times are open and what they wait for. "At least" stands before numbers of missing updates that repeats may make
too low: rows are counted exactly only when their time may be complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import sort_key, to_plain
from cdcv2.events import JobProgress
from cdcv2.logs.commit_clock import CommitClock
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.quarantine import Case
from cdcv2.logs.reading_state import missing_waits
from cdcv2.logs.stops import Stop
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.spark.reader import BatchReport, Reader, TableReader
from cdcv2.spark.turn_report import JobLines


class ProgressLines(JobLines):
    """The lines of a replay, and of what gives its rows to a target."""

    JOB = "replay"

    def covered(self, coverage: TableCoverage) -> None:
        """Name the tables that the connector does not cover, or not from the beginning on."""
        for text in coverage.texts():
            self.write("not-covered", text, **coverage.to_plain())

    def quarantined(self, disputed: Mapping[str, Iterable[Case]]) -> None:
        """Name what is in dispute by the quarantine: it holds its table."""
        for table, cases in disputed.items():
            for case in cases:
                text = f"{table}: in quarantine as {case.name}: {case.text}"
                self.write("quarantined", text, table=table, case=case.name)

    def stopped(self, stops: Iterable[Stop]) -> None:
        """Name the stops that the logs keep: what is complete is given out, and nothing comes after it any more."""
        for stop in stops:
            self.write("stopped", stop.text, **stop._asdict())

    def batch(self, report: BatchReport) -> None:
        """Report a batch that is done."""
        facts = {"batch": report.batch, "rows": report.rows, **state(report.frontier, report.tables)}
        self.write("batch", sentence("batch", facts), often=True, **facts)

    def end(self, frontier: Antichain, tables: Mapping[str, TableReader]) -> None:
        """Report how the job ends."""
        facts = state(frontier, tables)
        self.write("end", sentence("end", facts), **facts)


def state(frontier: Antichain, tables: Mapping[str, TableReader]) -> dict[str, Any]:
    """How things stand, as JSON can hold it."""
    opened = sorted({time for table in tables.values() for time in table.ledger.open_times()}, key=sort_key)
    return {
        "frontier": frontier.to_plain(),
        "closed": not frontier,
        "open_times": len(opened),
        "oldest_open": to_plain(opened[0]) if opened else None,
        "held_rows": sum(table.stash.held for table in tables.values()),
        "late_rows": sum(table.late for table in tables.values()),
        "waiting_statements": sum(table.ledger.waiting_statements() for table in tables.values()),
        "tables": {name: table.ledger.reported.to_plain() for name, table in tables.items()},
        "waits_for": {name: str(missing) for name, missing in lacking(tables).items()},
    }


class ReaderProgress:
    """How far a reader is, for its events."""

    def __init__(self, reader: Reader, clock: CommitClock) -> None:
        self._reader, self._clock, self._before = reader, clock, _given(reader)

    def state(self) -> JobProgress:
        """How far it is: the frontier is that of what it gave out. Not within a batch."""
        reader, frontier = self._reader, self._reader.released.to_plain()
        return JobProgress(
            frontier, self._clock.at(frontier), missing_waits(lacking(reader.tables)),
            sum(table.stash.held for table in reader.tables.values()), {"rows": _given(reader) - self._before},
        )


def _given(reader: Reader) -> int:
    return sum(table.given for table in reader.tables.values())


def lacking(tables: Mapping[str, TableReader]) -> dict[str, MissingUpdates]:
    """What each table misses of what was stated; only of those that do."""
    found = {name: table.ledger.missing() for name, table in tables.items()}
    return {name: missing for name, missing in found.items() if missing}


def sentence(what: str, facts: Mapping[str, Any]) -> str:
    """The same for people.

    >>> sentence("end", {"frontier": [7], "open_times": 0, "held_rows": 0, "waits_for": {}})
    'complete through 6; nothing that was stated is missing'
    """
    parts = [f"batch {facts['batch']}"] if "batch" in facts else []
    # As the command has it, and as_of takes it back.
    parts.append(through_text(facts["frontier"]))
    if facts.get("rows"):
        parts.append(f"{facts['rows']} rows out")
    if facts["open_times"]:
        parts.append(f"{facts['open_times']} open times, {facts['held_rows']} rows held")
    if facts["waits_for"]:
        lack = "; ".join(f"{table}: {missing}" for table, missing in facts["waits_for"].items())
        parts.append(f"waits for: {lack}" if what == "batch" else f"missing: {lack}")
    elif what == "end":
        parts.append("nothing that was stated is missing")
    return "; ".join(parts)
