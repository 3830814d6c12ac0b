"""Keep views of logs in a database, a lake, Delta, Kafka, a webhook or a connector, as a YAML file says; no Spark.

  materialization: shop
  logs: logs                          # what a capture wrote: a directory, or kafka:cdc.{table}; or a log each:
                                      #   {items: kafka:items}, or {items: {kafka: items, row: FILE.avsc}}
  kafka: {bootstrap: localhost:9092}  # where logs and the driver kafka find it; config: a file of settings
  bindings:
    - {log: public.orders, target: orders, key: [id]}
    - {log: public.order_items, target: totals, key: [order_id], reduce: {n: count, sum: {sum: amount}}}
    - {log: public.audit, target: audit}                   # no key: rows and how often they are there
  target: {driver: postgres, conninfo: "host=db port=5432 dbname=copy password=${COPY_PASSWORD}"}
          # or {driver: lake, folder: lake}, or {driver: delta, folder: tables}: a Delta table per target
          # or, with delta: true in the bindings, {driver: kafka, prefix: shop.}
          # or {driver: webhook, url: "https://...", headers: {Authorization: "Bearer ${TOKEN}"}}
          # or, with deletes: hard or soft in the bindings,
          # {driver: process, command: [./connector, --fast], config: {path: shop.db}}
  recovery_log: shop-recovery         # where the checkpoint is; for all drivers but postgres
  rows: 100000                        # a transaction takes no further cut when it has as many updates
  start: 0                            # the time at which the logs begin
  types: rows                         # LOG.avsc there is the row type of a topic, and states the source's types
  timeline: shop                      # that of logs which do not state it, as those of a program of yours

Bindings may also have deletes: soft and delta: true; reductions are count, and sum, min, max, last of a column ({min:
price, retractions: false} keeps no values to go back to). What drivers may also be told, with defaults: lake files: 8;
kafka bootstrap, config, partitions: 1, create: true; webhook batch: 500 (messages), batch_bytes: 1000000, attempts: 8,
timeout: 30 (seconds, for all of a request); process resource (of each table), patience: 600 (seconds for an answer),
acknowledge_patience: any (seconds until what is committed is applied). recovery_log: {sqlite: FILE} keeps it in a
database. ${NAME} is the environment's, $${ is ${. Paths are from the file's folder.

What is committed is never half of a source transaction, and it may be killed and run again at any time. Ends where the
logs end, or goes on with --follow until it is told to stop: SIGTERM or Ctrl-C end it between two transactions, a second
Ctrl-C at once. Exit code 1: a log ends before all has arrived that it states; what is complete is in the target. Or it
ends before the target does: it lost its end, or is an old one. Of several logs, none is read further than the slowest
of them needs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

from cdcv2.commands.bookmark import Bookmark, covering
from cdcv2.commands.console import Output, remark
from cdcv2.commands.coverage import StopRemarks, some_covered
from cdcv2.commands.logs import Named
from cdcv2.commands.materialization_file import read_plan
from cdcv2.commands.plan import Plan
from cdcv2.commands.shown import json_line, through_text
from cdcv2.commands.stopping import told_to_stop
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.materialize import Checkpoint, Driver, Runtime, Threaded
from cdcv2.materialize.kept import Provenance, demand_provenance
from cdcv2.materialize.runtime import Pause
from cdcv2.protocol.log import Entry
from cdcv2.protocol.missing import Missing
from cdcv2.protocol.timeline import Cut, Timeline
from cdcv2.wire.jsonlines import plain_frontier

EXAMPLES = (
    ("cdcv2 materialize shop-lake.yaml", "to the ends of the logs"),
    ("cdcv2 materialize shop-lake.yaml --json", "what came of it as one JSON object"),
    ("cdcv2 materialize shop-from-kafka.yaml --follow", "until it is told to stop"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE.yaml", help="what to keep where")
    parser.add_argument("--follow", action="store_true", help="go on when the logs end")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS",
                        help="say how far it is after so many seconds, when it has moved (default: 5)")
    parser.add_argument("--json", action="store_true", help="what came of it as one JSON object")


def run(args: argparse.Namespace) -> Exit:
    """Materialize until the logs end, or it is told to stop."""
    if not args.every >= 0:
        raise UsageError(f"--every {args.every}: it takes a number of seconds from 0 on")
    plan = read_plan(args.file)
    with told_to_stop() as told:
        reading = _Reading(plan, follow=args.follow, told=told)
        # Before anything is taken over: one who is refused leaves the one who runs alone.
        plan.demand_continued()
        log = plan.recovery()
        driver = plan.driver()
        runtime = Runtime(
            plan.name, plan.bindings, Threaded(driver), reading.cuts,
            log=log, start=[plan.start], rows=plan.rows,
        )  # fmt: skip
        try:
            with plan.told():
                for _ in _moves(runtime, driver, args.every):
                    remark(f"cdcv2 materialize: {_far(plan, runtime, reading)}")
        finally:
            runtime.close()
            if log is not None:
                log.close()
            for named in plan.logs:
                named.log.close()
        _report(plan, runtime, reading, as_json=args.json)
    if not told():
        reading.demand_reached()
    return Exit.MISSING if reading.incomplete() and not told() else Exit.DONE


class _Stopped(Exception):
    """It was told to stop, and no transaction is under way that would have to be ended first."""


class _Reading:
    """The source of the runtime: the logs as one timeline."""

    def __init__(self, plan: Plan, *, follow: bool, told: Callable[[], bool]) -> None:
        self._plan, self._follow, self._told = plan, follow, told
        self._covered = some_covered(plan.logs)
        # One that goes on for ever has to say it when it begins.
        self._stops = StopRemarks("cdcv2 materialize", plan.logs)
        self._stops.look()
        self._logs = self._covered.logs
        self._of = Provenance()
        self._demanded = False
        self._parts = list(dict.fromkeys(named.table for named in self._logs))
        self._timeline: Timeline | None = None
        # Of each log, in their order; those that were read to their ends.
        self._bookmarks: list[Bookmark] = []
        self._ended: set[Bookmark] = set()
        #: how many updates were read that the view did not have
        self.updates = 0

    def cuts(self, checkpoint: Checkpoint) -> Iterator[tuple[Cut, Any] | None]:
        """From the checkpoint on, with bookmarks for the next time: what the view has is left out or read over."""
        self._plan.demand_made_of([checkpoint])
        bookmarks = self._bookmarks = [
            Bookmark(named.log, _laid(checkpoint.state, named), checkpoint.frontier, self._begins(named.table))
            for named in self._logs
        ]
        if not checkpoint.frontier:
            # The history is finished, and in the view: whether it is still in the logs is all that can be asked.
            for mark in bookmarks:
                for _ in mark.read(follow=False):
                    continue
            self._ended.update(bookmarks)
            return
        timeline = self._timeline = Timeline(
            self._parts, start=checkpoint.frontier, begins=[self._plan.start], starts=self._covered.starts,
        )
        for named, entry in self._turns(timeline, bookmarks):
            if self._follow:
                self._stops.heard(entry)
            if self._told():
                # Asked for cuts, so between transactions.
                raise _Stopped
            if timeline.closed:
                return
            cut = None if entry is None else timeline.absorb(named.table, entry)
            if cut is not None:
                self._demand(checkpoint)
                self._covered.demand_still()
                self.updates += sum(map(len, cut.updates.values()))
                marks = [bookmark.plain(cut.upper) for bookmark in bookmarks]
                laid = {named.log.name: mark for named, mark in zip(self._logs, marks)}
                yield cut, {"bookmarks": laid, **self._of.to_plain()}
            elif entry is None:
                yield None

    def _demand(self, checkpoint: Checkpoint) -> None:
        """Before the first cut, when every log has messages to state it."""
        if not self._demanded:
            self._of = self._plan.provenance()
            demand_provenance(self._plan.name, self._of, checkpoint)
        self._demanded = True

    def _turns(self, timeline: Timeline, bookmarks: list[Bookmark]) -> Iterator[tuple[Named, Entry | None]]:
        """An entry of each log in turn that is behind; None when a log has nothing now. Ends where the slowest ends.

        Those that are ahead wait, as what is read of them would, in memory, for those that are behind.
        """
        turns = [(named, mark, mark.read(follow=self._follow)) for named, mark in zip(self._logs, bookmarks)]
        while behind := [turn for turn in turns if turn[0].table in self._slowest(timeline)]:
            for turn in behind:
                try:
                    yield turn[0], next(turn[2])
                except StopIteration:
                    turns.remove(turn)
                    self._ended.add(turn[1])

    @staticmethod
    def _slowest(timeline: Timeline) -> set[str]:
        # Where all parts begin later than the timeline, none of them is where that is until one has a statement.
        least = reduce(Antichain.meet, (reader.frontier for reader in timeline.readers.values()))
        return {part for part, reader in timeline.readers.items() if reader.frontier == least}

    @property
    def _at(self) -> Antichain:
        """Up to where the view has everything."""
        return Antichain() if self._timeline is None else self._timeline.frontier

    def incomplete(self) -> dict[str, Missing]:
        """Log -> what lacks there, of those that hold the view up: what others lack may stand where nobody has read.

        And what those lack that end before the view does.
        """
        found: dict[str, Missing] = {}
        if self._timeline is not None:
            slowest = self._slowest(self._timeline)
            found = {part: missing for part, missing in self._timeline.missing().items() if part in slowest}
        for part, known in self._short().items():
            there = found.get(part, Missing())
            found[part] = replace(there, statements=((known, self._at), *there.statements))
        return found

    def demand_reached(self) -> None:
        """Raise IncompleteError if a log that was read to its end ends before the view does."""
        reached = self._at
        for known in self._short().values():
            reached = reached.meet(known)
        self._plan.demand_reached(self._at, reached)

    def _short(self) -> dict[str, Antichain]:
        """Log -> up to where all is stated, of those that were read to their ends and end before the view does."""
        found: dict[str, Antichain] = {}
        for part in self._parts:
            copies = [mark for named, mark in zip(self._logs, self._bookmarks) if named.table == part]
            if copies and self._ended.issuperset(copies):
                stated = (one for mark in copies for one in mark.statements())
                known = covering(self._begins(part), stated).known
                if not known.dominates(self._at):
                    found[part] = known
        return found

    def _begins(self, part: str) -> Antichain:
        return Antichain([self._plan.start]).join(Antichain(self._covered.starts.get(part, [0])))

    def remark(self) -> None:
        """Name the tables that are not covered."""
        self._covered.remark_coverage("cdcv2 materialize")


def _laid(state: Any, named: Named) -> Any:
    """The bookmark that the last run has left in a log, if it has."""
    laid = state.get("bookmarks") if isinstance(state, dict) else None
    return laid.get(named.log.name) if isinstance(laid, dict) else None


def _moves(runtime: Runtime, driver: Driver, every: float) -> Iterator[None]:
    """Run it; a turn for each time that it should be said how far it is. What the driver remarks is said at once."""
    said, at, remarks = 0, time.monotonic(), 0
    try:
        for step in runtime.steps():
            if step is Pause.DRIVER:
                runtime.wait()
            for one in driver.remarks[remarks:]:
                remark(f"cdcv2 materialize: {one}")
            remarks = len(driver.remarks)
            if runtime.transactions > said and time.monotonic() >= at + every:
                said, at = runtime.transactions, time.monotonic()
                yield
    except _Stopped:
        # What is said now to be complete is in the target by then.
        runtime.settle()


def _far(plan: Plan, runtime: Runtime, reading: _Reading) -> str:
    return (
        f"{plan.name}: {through_text(runtime.checkpoint.frontier)}; {runtime.transactions} transactions, "
        f"{reading.updates} updates read"
    )


def _report(plan: Plan, runtime: Runtime, reading: _Reading, *, as_json: bool) -> None:
    frontier = runtime.checkpoint.frontier
    with Output(None) as output:
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
