"""Keep views of logs in another system, as a YAML file describes them; no Spark.

The systems: PostgreSQL, a lake of Parquet files, Delta tables, Kafka, a
webhook, or a third-party connector. In this file, a comment is about the
lines below it:

  materialization: shop
  # What a capture wrote: a directory, kafka:cdc.{table}, or each log by
  # itself: {items: kafka:items}, {items: {kafka: items, row: FILE.avsc}}
  logs: logs
  # Where logs and the driver kafka find Kafka; config: a file of settings
  kafka: {bootstrap: localhost:9092}
  bindings:
    - {log: public.orders, target: orders, key: [id]}
    - log: public.order_items
      target: totals
      key: [order_id]
      reduce: {n: count, sum: {sum: amount}}
    # no key: rows and how often they are there
    - {log: public.audit, target: audit}
  target:
    driver: postgres
    conninfo: "host=db port=5432 dbname=copy password=${COPY_PASSWORD}"
  # Other targets:
  #   {driver: lake, folder: lake}
  #   {driver: delta, folder: tables}    a Delta table per target
  #   with delta: true in the bindings:
  #   {driver: kafka, prefix: shop.}
  #   {driver: webhook, url: "https://...",
  #    headers: {Authorization: "Bearer ${TOKEN}"}}
  #   with deletes: hard or soft in the bindings:
  #   {driver: process, command: [./connector, --fast],
  #    config: {path: shop.db}}
  # Where the checkpoint is, for all drivers but postgres: a folder, or
  # {sqlite: FILE}
  recovery_log: shop-recovery
  # A target transaction takes whole cuts until it has this many updates
  # (a cut is never split). This is not the folder of row types: see types
  rows: 100000
  # The time at which the logs begin
  start: 0
  # LOG.avsc there is the row type of a topic, and states the source's types
  types: rows
  # The timeline of logs which do not state it
  timeline: shop
  # The folder of decisions about contradictions in the logs
  quarantine: quarantine

Bindings may also have deletes: soft and delta: true. Reductions are count,
and sum, min, max, last of a column. ({min: price, retractions: false} keeps
no values for retractions.) More settings of drivers, with their defaults:

  lake       files: 8
  kafka      prefix, bootstrap, config (default: those of kafka: above),
             partitions: 1, create: true
  webhook    batch: 500 (messages), batch_bytes: 1000000, attempts: 8,
             timeout: 30 (seconds, for a whole request)
  process    resource (of each table), patience: 600 (seconds for an answer),
             acknowledge_patience: any (seconds until it is applied)

${NAME} is the environment's, $${ is ${. Paths are relative to the file's
folder.

A commit to the target never has half of a source transaction. You may kill
this command and run it again at any time. It ends where the logs end. With
--follow it continues until SIGTERM or Ctrl-C, which end it between two
commits. A second Ctrl-C ends it at once. Of several logs, none is read further
than the slowest of them needs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.coverage import StopRemarks, remark_coverage
from cdcv2.cli.display import json_line
from cdcv2.cli.disputes import OF_FILE, add_quarantine_argument, quarantine_of, remark_disputes
from cdcv2.cli.options.calm_lines import UNCHANGED
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare, declare_follow
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.completeness import committed_text, through_text
from cdcv2.control.materialization_file import read_plan
from cdcv2.control.plan import MaterializationPlan
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.events import JobEvents, JobProgress
from cdcv2.exits import Exit
from cdcv2.logs.jsonlines import plain_frontier
from cdcv2.logs.named_logs import NamedLog, some_covered
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader, NullObserver
from cdcv2.logs.reading_state import ReadingState
from cdcv2.materialize import Checkpoint, Driver, Runtime, ThreadConnection
from cdcv2.materialize.runtime import Pause
from cdcv2.protocol.log import Entry
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.timeline import Cut
from cdcv2.views.identity import Provenance, demand_provenance

#: How many of the things that it waits for a line names.
_SHOWN = 3

EXAMPLES = (
    ("cdcv2 materialize shop-lake.yaml", "to the ends of the logs"),
    ("cdcv2 materialize shop-lake.yaml --json", "the result as one JSON object"),
    ("cdcv2 materialize shop-from-kafka.yaml --follow --events shop.events",
     "until SIGTERM or Ctrl-C; how far it is, for programs"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done; with --follow: SIGTERM ended it",
    Exit.MISSING: "a log lacks updates that its statements count (what is complete is in the target); or a log ends "
                  "before the place where the target is: it lost its end, or is an old copy",
    Exit.WRONG: "the logs contradict themselves, or hold bytes that are no message; or a value does not fit the target",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "file", more=": what to keep where")
    declare(parser, "--view")
    declare_follow(parser, default=False)
    add_quarantine_argument(parser, OF_FILE)
    parser.add_argument("--report-every", type=float, default=5.0, metavar="SECONDS",
                        help="report how far it is after so many seconds, when it has moved (default: 5)")
    declare(parser, "--no-create", more=" (drivers postgres and kafka)")
    declare(parser, "--json", more="the result, one object")
    declare(parser, "--events")
    parser.formerly("--every", "--report-every")


def run(args: argparse.Namespace) -> Exit:
    """Materialize until the logs end, or a signal stops it. Raises UsageError unless --report-every is 0 or more."""
    if not args.report_every >= 0:
        raise UsageError(f"--report-every {args.report_every}: it takes a number of seconds from 0 on")
    plan = read_plan(args.file, args.view, create=not args.no_create)
    with stop_signals() as stopping:
        reading = _Source(
            plan, follow=args.follow, stopping=stopping, quarantine=quarantine_of(args, plan.quarantine),
            events=args.events,
        )
        # Before anything is taken over: one who is refused leaves the one who runs alone.
        plan.demand_continued()
        log = plan.recovery()
        driver = plan.driver()
        runtime = Runtime(
            plan.name, plan.bindings, ThreadConnection(driver), reading.cuts,
            log=log, start=[plan.start], rows=plan.rows,
        )  # fmt: skip
        reading.watch(runtime)
        try:
            with plan.errors_at_line():
                for _ in _moves(runtime, driver, reading, args.report_every, follow=args.follow):
                    remark(f"cdcv2 materialize: {_far(plan, runtime, reading)}{reading.line()}")
            reading.ended()
        finally:
            runtime.close()
            if log is not None:
                log.close()
            for named in plan.logs:
                named.log.close()
        _report(plan, runtime, reading, as_json=args.json)
    if not stopping():
        reading.demand_reached()
    if reading.disputed() and not stopping():
        return Exit.WRONG
    return Exit.MISSING if reading.incomplete() and not stopping() else Exit.DONE


class _StopRequest(Exception):
    """A signal was received, and no transaction is under way that would have to be ended first."""


class _Source(NullObserver):
    """The source of the runtime: the logs as one timeline, and the observer of their reading."""

    def __init__(
        self, plan: MaterializationPlan, *, follow: bool, stopping: Callable[[], bool],
        quarantine: Quarantine | None = None, events: JobEvents,
    ) -> None:
        self._events = events
        self._runtime: Runtime | None = None
        self._plan, self._follow, self._stopping = plan, follow, stopping
        self._found = some_covered(plan.logs)
        # A run that follows for ever has to report it at its start.
        self._stops = StopRemarks("cdcv2 materialize", plan.logs)
        self._stops.look()
        self._quarantine = quarantine
        self._named: dict[str, dict[str, str]] = {}
        self._of = Provenance()
        self._demanded = False
        self._reading: LogReader | None = None
        #: how many updates were read that the view did not have
        self.updates = 0
        self._far = ReadingState([named.log for named in plan.logs])

    def watch(self, runtime: Runtime) -> None:
        """State how far its target is as the logs are read, and as it writes."""
        self._runtime = runtime

    def turn(self) -> None:
        """Something was read, or written, or there was nothing to read."""
        self._events.progress(self._state)

    def ended(self) -> None:
        """State how far it is in the end."""
        self._events.progress(self._state, at_once=True)

    def _state(self) -> JobProgress:
        """How far the target is, and what it waits for."""
        if self._runtime is None:
            return JobProgress()
        frontier = self._runtime.checkpoint.frontier.to_plain()
        return self._far.state(frontier, transactions=self._runtime.transactions, updates=self.updates)

    def line(self) -> str:
        """What it waits for, and how long ago what is in the target was committed, behind how far it is."""
        state = self._state()
        waits = "".join(f"; {wait.place['table']}: {wait.text}" for wait in state.waits[:_SHOWN])
        return f"{waits}{committed_text(state.committed_at, time.time())}"

    def cuts(self, checkpoint: Checkpoint) -> Iterator[tuple[Cut, Any] | None]:
        """From the checkpoint on, with bookmarks for the next time: what the view has is left out or read over."""
        self._plan.demand_made_of([checkpoint])
        reading = self._reading = LogReader(
            self._found, start=checkpoint.frontier, begins=[self._plan.start], marks=_bookmarks(checkpoint.state),
            follow=self._follow, whole=False, observer=self, quarantine=self._quarantine,
        )
        self._far.follow(reading)
        for cut in reading.cuts():
            if cut is None:
                self._remark_disputes(reading)
                yield None
                continue
            self._demand(checkpoint)
            self.updates += sum(map(len, cut.updates.values()))
            yield cut, {"bookmarks": reading.marks(), **self._of.to_plain()}

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        """Name a stop that came, and end the reading if it was asked for: cuts are asked for between transactions."""
        if self._follow:
            self._stops.after_message(entry)
        if entry is not None:
            self._far.seen(entry)
        self.turn()
        if self._stopping():
            raise _StopRequest

    def _demand(self, checkpoint: Checkpoint) -> None:
        """Before the first cut, when every log has messages to state it."""
        if not self._demanded:
            self._of = self._plan.provenance()
            demand_provenance(self._plan.name, self._of, checkpoint)
        self._demanded = True

    def _remark_disputes(self, reading: LogReader) -> None:
        """Name what is in dispute now, once, while logs are followed: only decisions lead on from there."""
        disputed = reading.disputed()
        if disputed != self._named:
            self._named = disputed
            remark_disputes("cdcv2 materialize", disputed, self._quarantine)

    def disputed(self) -> bool:
        """Name what is in dispute; whether anything is."""
        disputed = {} if self._reading is None else self._reading.disputed()
        return remark_disputes("cdcv2 materialize", disputed, self._quarantine)

    def incomplete(self) -> dict[str, MissingUpdates]:
        """Log -> what lacks there, of those that hold the view up; and what those lack that end before the view does.
        """
        return {} if self._reading is None else self._reading.incomplete()

    def demand_reached(self) -> None:
        """Raise IncompleteError if a log that was read to its end ends before the view does."""
        if self._reading is not None:
            at = self._reading.frontier
            reached = reduce(Antichain.meet, self._reading.short().values(), at)
            self._plan.demand_reached(at, reached)

    def remark(self) -> None:
        """Name the tables that are not covered."""
        remark_coverage("cdcv2 materialize", self._found)


def _bookmarks(state: Any) -> dict[str, Any]:
    """The bookmarks that the last run has left in the logs, if it has."""
    laid = state.get("bookmarks") if isinstance(state, dict) else None
    return laid if isinstance(laid, dict) else {}


def _moves(runtime: Runtime, driver: Driver, reading: _Source, every: float, *, follow: bool) -> Iterator[None]:
    """Run it; yields each time that its progress should be reported. Remarks of the driver are reported at once.

    One that follows reports now and then, too, that nothing moves.
    """
    reported, at, remarks = 0, time.monotonic(), 0
    try:
        for step in runtime.steps():
            if step is Pause.DRIVER:
                runtime.wait()
            for one in driver.remarks[remarks:]:
                remark(f"cdcv2 materialize: {one}")
            remarks = len(driver.remarks)
            reading.turn()
            now = time.monotonic()
            if (runtime.transactions > reported and now >= at + every) or (follow and now >= at + UNCHANGED):
                reported, at = runtime.transactions, now
                yield
    except _StopRequest:
        # What is reported as complete now is in the target then.
        runtime.settle()


def _far(plan: MaterializationPlan, runtime: Runtime, reading: _Source) -> str:
    return (
        f"{plan.name}: {through_text(runtime.checkpoint.frontier)}; {runtime.transactions} transactions, "
        f"{reading.updates} updates read"
    )


def _report(plan: MaterializationPlan, runtime: Runtime, reading: _Source, *, as_json: bool) -> None:
    frontier = runtime.checkpoint.frontier
    with ResultOutput.standard() as output:
        if as_json:
            output.line(json_line({
                "materialization": plan.name, "frontier": plain_frontier(frontier), "closed": not frontier,
                "transactions": runtime.transactions, "updates": reading.updates,
                "incomplete": {table: missing.to_plain() for table, missing in reading.incomplete().items()},
            }))
        else:
            output.line(_far(plan, runtime, reading))
    reading.remark()
    for table, missing in reading.incomplete().items():
        remark(f"cdcv2 materialize: {table} is incomplete: {missing}")
