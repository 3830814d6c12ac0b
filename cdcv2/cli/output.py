"""Show what a job of a pipeline printed: its last lines.

The job is a capture, a view, a replay, a timer or a process of an instance. Its
lines are kept in the state folder of the pipeline, through its restarts: 16 MB,
and 16 MB before them. This command only reads them. It needs no server, and no
cdcv2 up that runs.

With --follow it also shows what the job prints from now on, until SIGTERM or
Ctrl-C. It continues when the job is started again.

No password is in these lines: cdcv2 prints none.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import closing

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare, declare_follow
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.control.job_output import JobOutput
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import folder_of
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import UsageError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 output pipeline.yaml shop-files", "the last 50 lines of a view"),
    ("cdcv2 output pipeline.yaml shop --lines 5", "the last 5 of a capture"),
    ("cdcv2 output pipeline.yaml shop --follow", "and what comes, until Ctrl-C"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done; with --follow: SIGTERM ended it",
}
#: Seconds between two looks.
_LOOK = 0.2


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    parser.add_argument("name", metavar="NAME", help="a job: the name of its part of the file")
    parser.add_argument("--lines", type=int, default=50, metavar="N", help="how many lines are shown (default: 50)")
    declare_follow(parser, default=False)


def run(args: argparse.Namespace) -> Exit:
    """Print them. Raises UsageError if --lines is negative."""
    if args.lines < 0:
        raise UsageError(f"--lines {args.lines}: it takes a number from 0 on")
    pipeline = read_pipeline(args.pipeline)
    job = Supervisor(folder_of(pipeline)).job(args.name)
    with closing(JobOutput(job.output)) as printed, ResultOutput.standard() as output, stop_signals() as stopping:
        for line in printed.last(args.lines):
            output.line(line)
        if args.follow:
            for line in printed.following(lambda: _paused(stopping)):
                output.line(line)
    return Exit.DONE


def _paused(stopping: Callable[[], bool]) -> bool:
    """Show what is printed so far, and wait; whether a signal came."""
    sys.stdout.flush()
    time.sleep(_LOOK)
    return stopping()
