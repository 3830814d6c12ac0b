"""``cdcv2 replay --lake``: the history goes into a lake, as the job on Spark writes it, and each run resumes there."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.coverage import StopRemarks, remark_coverage
from cdcv2.cli.disputes import quarantine_of, remark_disputes
from cdcv2.cli.logs import addresses, open_logs
from cdcv2.cli.options.calm_lines import Lines
from cdcv2.cli.options.times import start_of
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.completeness import committed_text, through_text
from cdcv2.control.plan import provenance_of
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.events import JobEvents, JobProgress
from cdcv2.exits import Exit
from cdcv2.logs.named_logs import CoveredLogs, NamedLog, check_timeline, demand_whole, some_covered
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader, NullObserver
from cdcv2.logs.reading_state import ReadingState
from cdcv2.materialize.targets.lake.history_output import HistoryFolder
from cdcv2.protocol.log import Entry
from cdcv2.protocol.messages import Update
from cdcv2.protocol.timeline import Cut
from cdcv2.views.identity import Provenance

#: A batch takes whole cuts until it has this many updates (a cut is never split).
ROWS = 100_000
#: Seconds between two batches, where less than that has come.
PAUSE = 1.0
#: How many of the things that it waits for a line names.
_SHOWN = 3


def write_lake(args: argparse.Namespace) -> Exit:
    """Bring the lake to where the logs are; with --follow, keep it there until a signal ends it.

    Raises UsageError if the folder has no name, or the times have several coordinates.
    """
    if not args.lake.strip():
        raise UsageError("--lake '': a folder is wanted there: name one")
    logs = open_logs(args)
    demand_whole(addresses(args), logs)
    found = some_covered(logs)
    start = Antichain(start_of(args.start, logs))
    if any(named.times != "int" for named in logs):
        raise UsageError("a lake has one whole number as a time, and these logs have several coordinates: print them")

    def made_of() -> Provenance:
        return provenance_of(found.logs, check_timeline(found.logs, args.timeline))

    # With the tables that are not covered, as the manifest states which these are.
    output = HistoryFolder(args.lake, {named.table: named.row_type for named in logs}, start, found.of, made_of)
    if any(any(named.log.ends().values()) for named in found.logs):
        # Before that, a topic states nothing yet: the output asks when rows come.
        output.demand_made_of(made_of())
    with stop_signals() as stopping:
        replay = _LakeReplay(args, found, output, stopping)
        replay.run(start)
        remark_coverage("cdcv2 replay", found)
        return replay.verdict(stopping())


class _StopRequest(Exception):
    """A signal was received."""


class _LakeReplay(NullObserver):
    """Writes what the logs complete; the observer of their reading."""

    def __init__(
        self, args: argparse.Namespace, found: CoveredLogs, output: HistoryFolder, stopping: Callable[[], bool]
    ) -> None:
        self._found, self._output, self._stopping = found, output, stopping
        self._follow: bool = args.follow
        self._quarantine: Quarantine | None = quarantine_of(args)
        self._events: JobEvents = args.events
        self._stops = StopRemarks("cdcv2 replay", found.logs)
        self._far = ReadingState([named.log for named in found.logs])
        self._reading: LogReader | None = None
        self._batch = _Batch()
        self._updates = 0
        self._lines = Lines(remark)

    def run(self, start: Antichain) -> None:
        """Read to the end of the logs, or until a signal comes; what is finished until then is in the lake."""
        if self._output.is_there:
            self._output.begin()
        self._stops.look()
        kept = self._output.reader.get("bookmarks")
        reading = self._reading = LogReader(
            self._found, start=self._output.upper, begins=start, marks=kept if isinstance(kept, dict) else {},
            follow=self._follow, whole=False, observer=self, quarantine=self._quarantine,
        )
        self._far.follow(reading)
        try:
            for cut in self._cuts(reading):
                # Not before something was read: who is refused there has made no lake.
                self._output.begin()
                if cut is not None:
                    self._batch.add(cut)
                if self._batch.is_full(waits=cut is None):
                    self._write(reading)
            self._output.begin()
        except _StopRequest:
            pass
        self._write(reading)
        self._events.progress(self._state, at_once=True)
        with ResultOutput(None) as output:
            output.line(self._far_text())

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        """Name a stop that came, state how far it is, and end the reading if it was asked for."""
        if self._follow:
            self._stops.after_message(entry)
        if entry is not None:
            self._far.seen(entry)
        self._events.progress(self._state)
        if self._follow:
            self._lines.turn(self._line, lambda: committed_text(self._state().committed_at, time.time()))
        if self._stopping():
            raise _StopRequest

    def verdict(self, stopped: bool) -> Exit:
        """The exit code, with what lacks or is in dispute named."""
        reading = self._reading
        disputed = {} if reading is None else reading.disputed()
        if remark_disputes("cdcv2 replay", disputed, self._quarantine) and not stopped:
            return Exit.WRONG
        missing = {} if reading is None else reading.incomplete()
        for table, lacks in missing.items():
            remark(f"cdcv2 replay: {table} is incomplete: {lacks}")
        return Exit.MISSING if missing and not stopped else Exit.DONE

    # -- inside ---------------------------------------------------------------------------------------------------

    def _cuts(self, reading: LogReader) -> Iterator[Cut | None]:
        """None where a log has nothing now; none at all where the history is finished, and was written."""
        return reading.cuts() if self._output.upper else iter(())

    def _write(self, reading: LogReader) -> None:
        """Write the batch, and keep beside it where the logs are to be read on."""
        batch, self._batch = self._batch, _Batch()
        if batch.upper is None:
            return
        kept = {"bookmarks": reading.marks()}
        written = self._output.apply(batch.updates, self._output.upper, batch.upper, kept)
        self._updates += sum(written.values())

    def _state(self) -> JobProgress:
        """How far the lake is, and what it waits for."""
        return self._far.state(self._output.upper.to_plain(), updates=self._updates)

    def _far_text(self) -> str:
        return f"{through_text(self._output.upper)}; {self._updates} updates written"

    def _line(self) -> str:
        """How far it is, and what it waits for."""
        waits = self._state().waits[:_SHOWN]
        return f"cdcv2 replay: {self._far_text()}" + "".join(f"; {wait.place['table']}: {wait.text}" for wait in waits)


class _Batch:
    """Whole cuts that are written together."""

    def __init__(self) -> None:
        self.updates: dict[str, list[Update]] = {}
        #: Everything not beyond it is here, or in the lake; None: nothing came.
        self.upper: Antichain | None = None
        self._size, self._begun = 0, time.monotonic()

    def add(self, cut: Cut) -> None:
        """Take a cut."""
        for table, updates in cut.updates.items():
            self.updates.setdefault(table, []).extend(updates)
            self._size += len(updates)
        self.upper = cut.upper

    def is_full(self, *, waits: bool) -> bool:
        """Whether it is to be written now; ``waits``: a log has nothing more at the moment."""
        return self._size >= ROWS or (waits and time.monotonic() >= self._begun + PAUSE)
