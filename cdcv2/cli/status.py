"""Show how far each table is behind its source, and how the jobs stand.

A line for each table, of its log and of each target:

  seconds behind  the age of the oldest commit that is missing there, by the
                  source's clock; 0: none was missing when the source was
                  asked, a second or two ago. "at most": commits may be
                  missing, and none is older. "since the last END read": the
                  source cannot be asked, so it is the age of the last commit
                  that is there.
                  "not known": it cannot be known, or nothing is complete yet.
                  No number shows that the connector no longer sends a table
                  (docs/operations/behind.md)
  complete        through which time

A line for each job: a capture, a view, a replay, a timer, a process of an
instance:

  state           running; waiting: for its next start; held: for a person;
                  paused: by cdcv2 pause; stopping; finished: its history is;
                  idle: never started
  since           how long it has been in this state
  how far         complete through which time, and how long ago the source
                  committed that; "stated N s ago": the last line of the job

This command only looks: at databases, connectors, topics and targets, for some
seconds where one does not answer. It needs no cdcv2 up that runs. cdcv2
explain names what a table waits for.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.control.age import age
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_status import JobRow, PipelineStatus, StatusWatch
from cdcv2.control.seconds_behind import Basis
from cdcv2.errors import UsageError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 status pipeline.yaml", "now"),
    ("cdcv2 status pipeline.yaml --watch", "again and again, until Ctrl-C"),
    ("cdcv2 status pipeline.yaml --json", "for a program"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "every job runs, or is finished; a timer may wait for its next start, if its last run found nothing",
    Exit.MISSING: "a job does not run, as it is held or paused, for example; or no cdcv2 up keeps the jobs running; or "
                  "something that a job uses is lost, or was changed by others",
}

#: The characters from which on a reason that several tables have is long.
_LONG = 80


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    parser.add_argument("--watch", nargs="?", type=float, const=2.0, metavar="SECONDS",
                        help="look again after so many seconds (default: 2)")
    declare(parser, "--json", more="one object")


def run(args: argparse.Namespace) -> Exit:
    """Print it, once or until a signal. Raises UsageError unless --watch is above 0."""
    if args.watch is not None and not args.watch > 0:
        raise UsageError(f"--watch {args.watch}: it takes a number of seconds above 0")
    pipeline = read_pipeline(args.pipeline)
    watch = StatusWatch(pipeline)
    with ResultOutput.standard() as output, stop_signals() as stopping:
        while True:
            status = watch.look()
            if args.json:
                output.line(json.dumps(status.to_plain()))
            else:
                if args.watch is not None and output.is_terminal:
                    # The first column of the first line, with nothing below it.
                    sys.stdout.write("\x1b[H\x1b[J")
                for line in lines(status, time.time()):
                    output.line(line)
            sys.stdout.flush()
            if args.watch is None or _paused(args.watch, stopping):
                return Exit.DONE if status.well else Exit.MISSING


def lines(status: PipelineStatus, now: float) -> Iterator[str]:
    """The table for people; ``now`` in seconds since 1970."""
    yield f"{status.pipeline}: {status.kept}"
    yield from _tables(status)
    width = max((len(row.name) for row in status.jobs), default=0)
    for row in status.jobs:
        since = age(now - row.since) if row.since else ""  # It has never run.
        yield f"  {row.name:<{width}}  {row.kind:<7}  {row.state:<8}  {since:>6}  {_far(row, now)}"
        for wait in row.awaited:
            yield f"  {'':<{width}}  waits for {wait}"
        if row.reason is not None:
            again = "" if row.due is None or row.due < now else f"; it is started again in {age(row.due - now)}"
            yield f"  {'':<{width}}  {row.reason}{f'. {row.remedy}' if row.remedy else ''}{again}"
            yield f"  {'':<{width}}  output: {row.output}"


def _tables(status: PipelineStatus) -> Iterator[str]:
    """A line for each log and target; and what servers have not answered."""
    named = [(row, row.table if row.target is None else f"  {row.job}: {row.target}") for row in status.tables]
    width = max((len(name) for _, name in named), default=0)
    behind = [row.behind for row in status.tables]
    wide = max(map(len, behind), default=0)
    reasons = [
        row.text if row.seconds_behind is None or row.basis == Basis.AT_MOST.value else "" for row in status.tables
    ]
    # A long one of several tables stands once, behind them.
    shared = [one for one, often in Counter(reasons).items() if often > 1 and len(one) > _LONG]
    for (row, name), text, reason in zip(named, behind, reasons):
        why = f" ({reason})" if reason else ""
        if reason in shared:
            why = f" (see {shared.index(reason) + 1} below)"
        yield f"  {name:<{width}}  {text:<{wide}}  {row.through}{why}"
    for number, reason in enumerate(shared, 1):
        yield f"  {number}: {reason}"
    for text in (*status.unanswered, *status.changed):
        yield f"  {text}"


def _far(row: JobRow, now: float) -> str:
    parts = [row.through]
    if row.committed_at is not None:
        parts.append(f"committed {age(now - row.committed_at)} ago")
    if row.event_at is not None:
        parts.append(f"stated {age(now - row.event_at)} ago")
    return ", ".join(parts)


def _paused(seconds: float, stopping: Callable[[], bool]) -> bool:
    """Wait; whether a signal came meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if stopping():
            return True
        time.sleep(min(0.2, seconds))
    return stopping()
