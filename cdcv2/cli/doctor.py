"""Look whether everything that a pipeline needs is as it has to be.

It asks PostgreSQL, Kafka, Kafka Connect, the row types, the targets and the
disk, and changes nothing. Each line is ok, warning, wrong or not checked, and
where something is to be done the next line is what mends it: an SQL command, a
setting, a command.

Run it before the connector is started, before cdcv2 run, and when something
stands still. No password is printed.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.control.examination import examine
from cdcv2.control.findings import Health
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 doctor pipeline.yaml", "one line for each thing that is looked at"),
    ("cdcv2 doctor pipeline.yaml --json", "as one JSON object"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "nothing is wrong; there may be warnings",
    Exit.UNABLE: "something is wrong",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    declare(parser, "--json", more="the findings, one object")


def run(args: argparse.Namespace) -> Exit:
    """Examine the pipeline, and print what is found as it is found."""
    findings = []
    with ResultOutput.standard() as output:
        for one in examine(read_pipeline(args.pipeline)):
            findings.append(one)
            if not args.json:
                output.line(f"{one.health.value:<11}  {one.part}: {one.text}")
                if one.remedy:
                    output.line(f"{'':<11}  -> {one.remedy}")
        counts = {health.value: sum(one.health is health for one in findings) for health in Health}
        if args.json:
            output.line(json_line({"findings": [one.to_plain() for one in findings], "counts": counts}))
        else:
            output.line(", ".join(f"{count} {name}" for name, count in counts.items()))
    return Exit.UNABLE if counts[Health.WRONG.value] else Exit.DONE
