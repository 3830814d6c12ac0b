"""The reports of a running replay, or materialization, to people and to programs.

A line on standard error, and the same as JSON on standard output; and events (:mod:`cdcv2.events`).

After each micro-batch (people get a line now and then): how far the output is finished, how many rows that brought,
which times are open and what they wait for. "At least" stands before numbers of missing updates that repeats may make
too low: rows are counted exactly only when their time may be complete.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import sort_key, to_plain
from cdcv2.events import JobEvents, JobProgress
from cdcv2.logs.commit_clock import CommitClock
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.quarantine import Case
from cdcv2.logs.reading_state import missing_waits
from cdcv2.logs.stops import Stop
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.spark.reader import BatchReport, Reader, TableReader
from cdcv2.spark.turn_report import TurnReport


class ProgressLines:
    """Writes the lines. ``people`` and ``machines`` may each be None: then nothing is written there.

    ``events`` are those of the job. ``calm``: people get a line now and then, instead of those of every micro-batch.
    """

    def __init__(
        self, people: TextIO | None = None, machines: TextIO | None = None, *, job: str = "replay",
        events: JobEvents | None = None, calm: bool = False,
    ) -> None:
        self._people, self._machines, self._job, self._calm = people, machines, job, calm
        self._turns = TurnReport(events or JobEvents(f"{job}.py"), self._print if calm else None)

    @classmethod
    def standard(cls, job: str = "replay", events: JobEvents | None = None) -> ProgressLines:
        """To standard error and standard output."""
        return cls(sys.stderr, sys.stdout, job=job, events=events, calm=True)

    def turn(self, made: Callable[[], JobProgress], *, last: bool = False) -> None:
        """A turn is done; see :meth:`~cdcv2.spark.turn_report.TurnReport.turn`."""
        self._turns.turn(made, last=last)

    def covered(self, coverage: TableCoverage) -> None:
        """Name the tables that the connector does not cover, or not from the beginning on."""
        for text in coverage.texts():
            self._line("not-covered", text, **coverage.to_plain())

    def quarantined(self, disputed: Mapping[str, Iterable[Case]]) -> None:
        """Name what is in dispute by the quarantine: it holds its table."""
        for table, cases in disputed.items():
            for case in cases:
                text = f"{table}: in quarantine as {case.name}: {case.text}"
                self._line("quarantined", text, table=table, case=case.name)

    def stopped(self, stops: Iterable[Stop]) -> None:
        """Name the stops that the logs keep: what is complete is given out, and nothing comes after it any more."""
        for stop in stops:
            self._line("stopped", stop.text, **stop._asdict())

    def batch(self, report: BatchReport) -> None:
        """Report a batch that is done."""
        self._write("batch", batch=report.batch, rows=report.rows, **state(report.frontier, report.tables))

    def end(self, frontier: Antichain, tables: Mapping[str, TableReader]) -> None:
        """Report how the job ends."""
        self._write("end", **state(frontier, tables))

    def _write(self, what: str, **facts: Any) -> None:
        self._line(what, sentence(what, facts), **facts)

    def _line(self, what: str, text: str, **facts: Any) -> None:
        if self._machines is not None:
            line = {"job": self._job, "at": round(time.time(), 3), "what": what, **facts}
            print(json.dumps(line, ensure_ascii=False), file=self._machines, flush=True)
        if not (self._calm and what == "batch"):
            self._print(text)

    def _print(self, text: str) -> None:
        if self._people is not None:
            print(f"{self._job}: {text}", file=self._people, flush=True)


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
