"""End one job of a pipeline, and keep it from being started; the others run on.

The job is a capture, a view, a replay, a timer or a process of an instance. It
is asked to end, and ends between two transactions. It stays down, also when
cdcv2 up is ended and started again, until cdcv2 resume. cdcv2 status shows it
as paused.

This command works beside cdcv2 up and without it. It waits until the job has
ended. While a capture is paused, its connector keeps running, and topics keep
what comes for as long as their retention is.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.console import ResultOutput, remark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.up import patience_of
from cdcv2.control.owner import is_owned
from cdcv2.control.pausing import STRANGE, end, is_strange, job_of, pause
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.errors import OutputError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 pause pipeline.yaml shop-files", "end the job of a view"),
    ("cdcv2 pause pipeline.yaml shop --timeout 10", "and wait for its end at most 10 seconds"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: the job has ended, and stays so",
    Exit.UNABLE: "it has not ended after --timeout; it is paused all the same",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    parser.add_argument("name", metavar="NAME", help="a job: the name of its part of the file")
    declare(parser, "--timeout")


def run(args: argparse.Namespace) -> Exit:
    """Pause it."""
    patience, pipeline = patience_of(args.timeout), read_pipeline(args.pipeline)
    job = job_of(pipeline, args.name)
    try:
        ended = pause(pipeline, job, "cdcv2 pause", patience)
    except OutputError:
        # A cdcv2 up would start it again.
        if not is_owned(pipeline.state) and end(pipeline, job, patience):
            remark(f"cdcv2 pause: {args.name} has ended. But the next cdcv2 up starts it again:")
        raise
    if ended:
        what = f"does not run: the {STRANGE}" if is_strange(pipeline, job) else "has ended"
        with ResultOutput(None) as output:
            output.line(f"{args.name} {what}; cdcv2 resume {args.pipeline} {args.name} resumes it")
        return Exit.DONE
    remark(f"cdcv2 pause: {args.name} still ends; it is not started again before cdcv2 resume")
    return Exit.UNABLE
