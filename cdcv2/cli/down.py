"""End the jobs of a pipeline that cdcv2 up started.

Each job is asked to end, writes what is complete, and ends. One that does not
end within a minute is killed: nothing is lost by that. Logs, targets and the
states of the jobs stay as they are, so cdcv2 up continues where they were.
What was made in other systems stays, too: topics, slots, connectors, tables.
The connector and its slot keep running (docs/operations/stop.md).

With --remove-external they are removed when the jobs have ended: all that cdcv2
up made for the pipeline, with the data in it, and nothing of others. What the
file does not state as owned: yes now stays. A file that cannot be judged is
refused, and nothing is removed. cdcv2 external lists before what there is. If
a server is away, the rest is written down, and the next cdcv2 down
--remove-external removes it.

A slot that may be of others (doubtful) is left alone and named. Drop
it, or state with --leave-doubtful that it is of others.

End cdcv2 up first: as long as it runs, it would start the jobs again, and this
command refuses.
"""

from __future__ import annotations

import argparse
import time

from cdcv2.cli.console import remark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.up import PAUSE, end_jobs, owed, patience_of, show_entries
from cdcv2.control.catalogue import demand_pipeline_at_rest, take_catalogue
from cdcv2.control.external_state import left_alone
from cdcv2.control.pipeline_external import PipelineExternal, external_needs, new_nonce
from cdcv2.control.owner import OwnedFolder
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.reconcile import Reconciliation
from cdcv2.errors import ForeignStateError, OutputError, UsageError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 down pipeline.yaml", "wait until all have ended"),
    ("cdcv2 down pipeline.yaml --timeout 10", "at most 10 seconds"),
    ("cdcv2 down pipeline.yaml --remove-external", "and remove what cdcv2 up has made in other systems"),
    ("cdcv2 down pipeline.yaml --remove-external --leave-doubtful", "a slot that is in doubt is of others"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: no job runs; with --remove-external, nothing owned is left",
    Exit.UNABLE: "another process keeps the pipeline, or something is left after --timeout: it is named",
}


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    declare(parser, "--timeout")
    parser.add_argument("--remove-external", action="store_true",
                        help="also remove what is owned in other systems, with the data in it")
    parser.add_argument("--leave-doubtful", action="store_true",
                        help="with --remove-external: leave what may be of others, and forget it")


def run(args: argparse.Namespace) -> Exit:
    """End all jobs, and remove what is owned in other systems if that is asked for.

    Raises UsageError if --leave-doubtful is given without --remove-external.
    """
    if args.leave_doubtful and not args.remove_external:
        raise UsageError("--leave-doubtful goes with --remove-external: without it all external state stays")
    patience, pipeline = patience_of(args.timeout), read_pipeline(args.pipeline)
    deadline = time.monotonic() + patience
    external = external_needs(pipeline) if args.remove_external else None
    now = time.time()
    with OwnedFolder(pipeline.state, now) as folder:
        try:
            catalogue = take_catalogue(folder, "cdcv2 down", now, pipeline.name)
        except (OutputError, ForeignStateError):
            end_unwritten(pipeline, patience)
            raise
        with catalogue:
            ended = end_jobs(pipeline, "down", {}, patience=patience)
            if external is None or ended is not Exit.DONE:
                return ended
            control = Reconciliation(catalogue, external.servers.kinds(), time.time)
            return remove_all(control, external, deadline, leave=args.leave_doubtful)


def end_unwritten(pipeline: Pipeline, patience: float) -> None:
    """End all jobs where the catalogue cannot be read or written: that needs none.

    Raises RefusedError for the state folder of another pipeline.
    """
    demand_pipeline_at_rest(pipeline.state, pipeline.name)
    if end_jobs(pipeline, "down", {}, patience=patience) is Exit.DONE:
        remark("cdcv2 down: no job runs. But the catalogue cannot be used:")


def remove_all(control: Reconciliation, external: PipelineExternal, deadline: float, *, leave: bool = False) -> Exit:
    """Remove what is ours, now that no job uses it; at the deadline (of the monotonic clock) report what is left.

    ``leave``: what is in doubt is of others.
    """
    # What the file let go since the last cdcv2 up is not ours any more.
    control.desire(external.needs.desired(control.catalogue.entries()), new_nonce)
    # Only the addresses of the file can be reached.
    control.find_known()
    control.desire([], new_nonce)
    shown = dict[str, str]()
    while True:
        show_entries("down", control.catalogue.entries(), shown)
        left = control.round()
        if leave and (others := left_alone(left, control.now())):
            control.catalogue.write(others)
            left = control.round()
        show_entries("down", control.catalogue.entries(), shown)
        if not left:
            return Exit.DONE
        if time.monotonic() > deadline:
            return owed("down", left, "run cdcv2 down --remove-external again")
        time.sleep(PAUSE)
