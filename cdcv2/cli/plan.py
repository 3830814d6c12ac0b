"""Show what cdcv2 up would change, and why. Nothing is done.

A line for each job that would be started, restarted or ended, and for each
thing in another system that would be made, taken over, altered or removed; and
one for what cannot be done: refused (a job: its part of the file is wrong; a
thing: another's has the name), drift (others changed it), missing,
unreachable. It compares the file with the state folder, and looks at the
servers. It shows no setting's value, and no password.

It may run beside cdcv2 up, which has read the file when it was started.
"""

from __future__ import annotations

import argparse
import time

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.control.catalogue import catalogue_entries
from cdcv2.control.entries import CatalogueEntry, Look
from cdcv2.control.other_addresses import after_looks
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_changes import PipelineChange, external_changes, job_changes, planned_entries
from cdcv2.control.pipeline_check import mistakes
from cdcv2.control.pipeline_external import external_needs
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import folder_of, jobs_of, with_needs
from cdcv2.control.refusals import refused_changes
from cdcv2.control.supervisor import Supervisor
from cdcv2.control.view_targets import demand_own_targets
from cdcv2.errors import UsageError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 plan pipeline.yaml", "a line for each change"),
    ("cdcv2 plan pipeline.yaml --json", "as one JSON object"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "nothing would change",
    Exit.MISSING: "something would change, or something is in the way",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    declare(parser, "--json", more="one object")


def run(args: argparse.Namespace) -> Exit:
    """Print what would change."""
    changes = changes_of(read_pipeline(args.pipeline))
    with ResultOutput.standard() as output:
        if args.json:
            output.line(json_line({"version": 1, "changes": [change._asdict() for change in changes]}))
        else:
            width = max((len(change.act) for change in changes), default=0)
            for change in changes:
                output.line(f"{change.act:<{width}}  {change.what}: {change.why}")
            if not changes:
                output.line("nothing would change")
    return Exit.MISSING if changes else Exit.DONE


def _shares_a_target(pipeline: Pipeline) -> bool:
    try:
        demand_own_targets(pipeline)
    except UsageError:
        return True
    return False


def changes_of(pipeline: Pipeline) -> list[PipelineChange]:
    """What cdcv2 up would change; looks only."""
    now, external = time.time(), external_needs(pipeline)
    kinds, entries = external.servers.kinds(), catalogue_entries(pipeline.state, pipeline.name)

    def look(entry: CatalogueEntry) -> Look:
        return kinds[entry.kind].look(entry)

    desired = list(external.needs.desired(entries))
    replaced = [PipelineChange("refused", one.shown, text) for one, text in refused_changes(pipeline, entries, desired)]
    refused = [PipelineChange("refused", f"job {name}", text) for name, text in mistakes(pipeline)]
    if replaced or _shares_a_target(pipeline):
        # cdcv2 up does nothing then.
        return [*refused, *replaced]
    after = after_looks(planned_entries(entries, desired, now), look, now)
    jobs = job_changes(with_needs(jobs_of(pipeline), after), Supervisor(folder_of(pipeline)).look(), now)
    return [*refused, *jobs, *external_changes(entries, after, look, now)]
