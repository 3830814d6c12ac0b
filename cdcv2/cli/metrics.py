"""Print the metrics of a pipeline once, in Prometheus's text form.

The API of cdcv2 up (docs/operations/api.md) has the same. Without the API,
node_exporter's textfile collector reads such a file. Jobs, tables, slots,
connectors, topics, remaps, disks and external state are looked at once, some
seconds at most; a server that does not answer is a metric, and no error.

docs/operations/metrics.md has a table of all metrics, and alerts.
"""

from __future__ import annotations

import argparse
import time

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import STANDARD_OUTPUT, declare
from cdcv2.control.catalogue import DATABASE
from cdcv2.control.external_view import external_of
from cdcv2.control.metrics.measure import measure
from cdcv2.control.metrics.model import samples_of
from cdcv2.control.metrics.text import text_of
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_status import status_of
from cdcv2.exits import Exit
from cdcv2.store.file_system import is_there

EXAMPLES = (
    ("cdcv2 metrics pipeline.yaml", "now"),
    ("cdcv2 metrics pipeline.yaml --output shop.prom", "as a file that node_exporter reads, from a timer"),
)


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    declare(parser, "--output", more=STANDARD_OUTPUT)


def run(args: argparse.Namespace) -> Exit:
    """Print them."""
    pipeline = read_pipeline(args.pipeline)
    status, now = status_of(pipeline).to_plain(), time.time()
    entries = external_of(pipeline.state)["entries"] if is_there(pipeline.state / DATABASE) else []
    text = text_of(samples_of(status, now, entries, measure(pipeline)))
    with ResultOutput(args.output) as output:
        for line in text.splitlines():
            output.line(line)
    return Exit.DONE
