"""Write the history that logs hold, up to a time, into new logs.

It reads the logs as cdcv2 replay does, and writes each fact once, with the
statements that count it. The old logs stay as they are. The new ones are of
the same timeline, and are other logs.

It is for logs that hold something wrong from some time on: a contradiction,
bytes that are no message, a permanent stop. With --at only what is finished up
to that time is written. What is wrong later is left out. With --quarantine it
applies the decisions of cdcv2 resolve, so the new logs do not hold what
was in dispute.

A directory that a capture wrote is written again log by log, with the
manifest of the capture. A capture by commit times continues in it, with the
same arguments and another --into, as long as its topics have everything.

The logs of several tables go into DST each under its table's name: DST/TABLE.
DST must not be within what is read, nor around it.

DST must not hold messages. If this command is killed, remove DST and run it
again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from cdcv2.capture.updates_then_statements import Advance, WriterLogs, write_release
from cdcv2.cli.at_option import TAKES, time_at
from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.coverage import remark_logs
from cdcv2.cli.disputes import add_quarantine_argument, quarantine_of, remark_disputes
from cdcv2.cli.display import json_line
from cdcv2.cli.log_copies import capture_folder, copy_manifest, demand_free, open_copy, targets_of
from cdcv2.cli.logs import addresses, bar_of, open_logs
from cdcv2.cli.options.log_words import declare_log_words
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.times import start_of
from cdcv2.cli.options.words import declare, places
from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, less_equal
from cdcv2.errors import IncompleteError, RefusedError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.contents import demand_history, first_time
from cdcv2.logs.named_logs import CoveredLogs, NamedLog, demand_ordered, demand_whole, some_covered
from cdcv2.logs.jsonlines import plain_frontier
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.logs.stops import stop_of
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.messages import Update
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.writer import Writer

EXAMPLES = (
    ("cdcv2 rewrite logs new --at 101936016", "the logs of a capture, up to a time"),
    ("cdcv2 rewrite logs new --quarantine quarantine", "with what was decided about contradictions"),
    ("cdcv2 rewrite orders=logs/public.orders orders=copies/public.orders new", "what two copies of a log hold"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.MISSING: "the logs are not complete up to --at, or end before all that they state",
    Exit.WRONG: "without --at, something is in dispute: the new logs have what is before it",
    Exit.UNABLE: "a server is down, DST holds messages, or the logs keep a permanent stop and --at is not given",
}
#: So many updates become durable together, at least.
_TOGETHER = 10_000


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "log", nargs="+", more=", or the directory of a capture")
    parser.add_argument("to", metavar="DST", type=places,
                        help="a new directory, or kafka:TOPIC; {table} stands for the table")
    declare(parser, "--at", more=f"the last one that is written (default: the last finished one): {TAKES}")
    add_quarantine_argument(parser)
    declare_log_words(parser)
    declare(parser, "--start", "--partitions")
    declare(parser, "--json", more="what was written, one object a log")
    declare(parser, "--events")


def run(args: argparse.Namespace) -> Exit:
    """Write each log again, up to one frontier."""
    logs = open_logs(args)
    demand_whole(addresses(args), logs)
    demand_ordered(logs, "writing again")
    at = None if args.at is None else _last(args.at, logs, start_of(args.start, logs))
    _demand_no_stop(logs, at)
    folder = capture_folder(args.log[0]) if len(args.log) == 1 else None
    named = {one.table: one for one in logs}
    targets = targets_of(args.to, named, args.log, within=folder is not None)
    for target in targets.values():
        demand_free(target)
    found = some_covered(logs)
    with ExitStack() as opened, ResultOutput.standard() as output:
        quarantine = opened.enter_context(_evidence(quarantine_of(args)))
        if folder is not None and not args.to.is_topic:
            copy_manifest(folder, args.to)
        copies = _Copies(args, found, {table: (named[table], target) for table, target in targets.items()}, opened)
        ended = copies.write(at, quarantine)
        for table, target in targets.items():
            updates = copies.updates.get(table, 0)
            plain = {"table": table, "updates": updates, "frontier": plain_frontier(ended.frontier), "to": str(target)}
            output.line(json_line(plain) if args.json else f"{table}: {updates} updates in {target}")
    remark(f"cdcv2 rewrite: {through_text(ended.frontier)}")
    remark_logs("cdcv2 rewrite", found)
    if at is not None:
        return _reached(at, ended)
    for table, lacks in ended.missing.items():
        remark(f"cdcv2 rewrite: {table} is incomplete: {lacks}")
    disputed = remark_disputes("cdcv2 rewrite", ended.disputed, quarantine_of(args))
    return Exit.WRONG if disputed else Exit.MISSING if ended.missing else Exit.DONE


def _last(text: str, logs: list[NamedLog], start: list[Time]) -> int | None:
    """The last time that is written; None: the last finished one.

    Raises UsageError for what is no number, and for a time before the history: nothing is known there to be stated.
    """
    at = time_at(text, logs, "cdcv2 rewrite")
    if at is not None and not isinstance(at, int):
        raise UsageError(f"--at {text}: only logs whose times are whole numbers are cut; leave it out")
    if at is not None:
        demand_history(logs, at, start)
    return at


class _Outcome(NamedTuple):
    """How far the new logs are, and what of the old ones is missing or in dispute behind that."""

    frontier: Antichain
    missing: dict[str, MissingUpdates]
    disputed: dict[str, dict[str, str]]


def _reached(at: int, ended: _Outcome) -> Exit:
    if ended.frontier.less_equal(at):
        lacks = [f"{table}: {one}" for table, one in ended.missing.items()]
        lacks += [f"{table}: {text}" for table, cases in ended.disputed.items() for text in cases.values()]
        why = "; ".join(lacks) or "the logs end"
        raise IncompleteError(f"{at} was asked for. The new logs: {through_text(ended.frontier)}; {why}")
    return Exit.DONE


@contextmanager
def _evidence(named: Quarantine | None) -> Iterator[Quarantine]:
    """Where evidence is kept, the user's folder if one is named: contradictions hold their times, and end nothing."""
    if named is not None:
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="cdcv2-") as folder:
        yield Quarantine(folder)


def _demand_no_stop(logs: list[NamedLog], at: int | None) -> None:
    """Raise RefusedError for logs that keep a stop, if no time is given; with one, show the stop."""
    stop = stop_of(named.log for named in logs)
    if stop is None:
        return
    if at is None:
        raise RefusedError(
            f"{stop.text}. From the cause on, rows are missing in these logs: give the last time before it, with --at"
        )
    remark(f"cdcv2 rewrite: {stop.text}. The new logs do not keep this stop: {at} must be before its cause")


class _Copies:
    """The new logs; those of tables of which nothing is stated are made, too, and stay empty."""

    def __init__(
        self, args: argparse.Namespace, found: CoveredLogs, targets: dict[str, tuple[NamedLog, LogAddress]],
        opened: ExitStack,
    ) -> None:
        self._args, self._found = args, found
        self._start = start_of(args.start, found.logs)
        #: Table -> how many updates were written.
        self.updates: dict[str, int] = {}
        self._writers: dict[str, Writer] = {}
        covered = {named.table for named in found.logs}
        for table, (named, target) in targets.items():
            log = open_copy(named, target, args)
            opened.callback(log.close)
            if table in covered:
                self._writers[table] = Writer(log, start=found.of.start(table, Antichain(self._start)))

    def write(self, at: int | None, quarantine: Quarantine) -> _Outcome:
        """Write what is finished, up to ``at``. Raises what reading and writing raise."""
        frontier, waiting = Antichain(self._start), 0
        with bar_of(self._found.logs, "writing again", events=self._args.events) as bar:
            reading = LogReader(self._found, start=self._start, observer=bar, quarantine=quarantine)
            bar.follow(reading)
            for cut in reading:
                frontier = cut.upper if at is None else cut.upper.meet(Antichain([at + 1]))
                waiting += sum(self._take(table, updates, at) for table, updates in cut.updates.items())
                if waiting >= _TOGETHER:
                    self._state(frontier)
                    waiting = 0
                if at is not None and not cut.upper.less_equal(at):
                    break
        if self._is_before_all(frontier):
            # What is before the history is not known, so it is not stated either.
            frontier = Antichain(self._start)
        self._state(frontier)
        return _Outcome(frontier, dict(reading.missing()), dict(reading.disputed()))

    def _is_before_all(self, frontier: Antichain) -> bool:
        """Whether the logs have updates, and the first of these is not finished, as it is in dispute or not whole."""
        if any(self.updates.values()) or not frontier:
            return False
        first = first_time(self._found.logs, list(frontier)[0])
        return first is not None and frontier.less_equal(first)

    def _take(self, table: str, updates: Sequence[Update], at: int | None) -> int:
        wanted = [one for one in updates if at is None or less_equal(one[1], at)]
        self._writers[table].extend(wanted)
        self.updates[table] = self.updates.get(table, 0) + len(wanted)
        return len(wanted)

    def _state(self, frontier: Antichain) -> None:
        """Make all durable, and then state it: the updates of all tables come first."""
        # A table may begin later than that.
        writers = {table: one for table, one in self._writers.items() if frontier.dominates(one.known)}
        write_release(WriterLogs(writers), Advance(frontier))
