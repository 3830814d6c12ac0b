"""End the jobs of a pipeline that cdcv2 up started.

Each job is asked to end, writes what is complete, and ends. One that does not
end within a minute is killed: nothing is lost by that. Logs, targets and the
states of the jobs stay as they are, so cdcv2 up continues where they were.

End cdcv2 up first: as long as it runs, it would start the jobs again, and this
command refuses.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.up import end_jobs, owned
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.errors import UsageError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 down shop.yaml", "wait until all have ended"),
    ("cdcv2 down shop.yaml --timeout 10", "at most 10 seconds"),
)


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "file", more=": the pipeline")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS",
                        help="report what is left after so many seconds, and end with code 4 (default: 120)")


def run(args: argparse.Namespace) -> Exit:
    """End all jobs."""
    if not args.timeout >= 0:
        raise UsageError(f"--timeout {args.timeout}: it takes a number of seconds from 0 on")
    pipeline = read_pipeline(args.file)
    with owned(pipeline, "down"):
        return end_jobs(pipeline, "down", {}, patience=args.timeout)
