"""Resume a job of a pipeline that was paused.

cdcv2 up starts it within a second, where it was; without it, the next cdcv2 up
does.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.control.owner import is_owned
from cdcv2.control.pausing import STRANGE, is_strange, job_of, state_of
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.supervision import JobState
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 resume pipeline.yaml shop-files", "the job of a view"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: it is not paused",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    parser.add_argument("name", metavar="NAME", help="a job: the name of its part of the file")


def run(args: argparse.Namespace) -> Exit:
    """Resume it."""
    pipeline = read_pipeline(args.pipeline)
    job = job_of(pipeline, args.name)
    strange = is_strange(pipeline, job)
    if not job.resume():
        text = f"{args.name} was not paused"
        if state_of(job) == JobState.HELD.value:
            text += f", but it is held: cdcv2 pause and then cdcv2 resume let it start, or cdcv2 up {args.pipeline} " \
                    f"--start-held {args.name}"
    elif strange:
        text = f"{args.name} is not paused any more; the {STRANGE}"
    elif is_owned(pipeline.state):
        text = f"{args.name} continues"
    else:
        text = f"{args.name} is not paused any more, and no cdcv2 up runs: cdcv2 up {args.pipeline} starts it"
    with ResultOutput(None) as output:
        output.line(text)
    return Exit.DONE
