"""Print the path of the file with which spark-submit starts a job.

The jobs are capture, replay and materialize. They are part of the package:
nothing else has to be installed for their files. A job shows its own arguments
with --help. What it needs of Spark, and how it is started, is in
docs/operations/on-spark.md.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.options.parser import OptionParser
from cdcv2.exits import Exit
from cdcv2.spark_files import SPARK_JOBS, job_file

EXAMPLES = (
    ("cdcv2 job-path capture", "for spark-submit ... $(cdcv2 job-path capture) ..."),
    ("cdcv2 job-path materialize", "the job that keeps views"),
)


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    parser.add_argument("job", metavar="JOB", choices=list(SPARK_JOBS), help=f"one of {', '.join(SPARK_JOBS)}")


def run(args: argparse.Namespace) -> Exit:
    """Print it."""
    with ResultOutput.standard() as output:
        output.line(str(job_file(args.job)))
    return Exit.DONE
