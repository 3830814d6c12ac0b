"""Keep the captures and views of a pipeline file running, each as a process.

The file is that of cdcv2 run; cdcv2 init writes one. Each capture and each
view becomes a job of its own. A job that dies is started again. What follows
an end depends on the reason that the job reports (docs/operations/pipeline.md):

  now      it is started again soon. After five such ends in a row without
           progress it is held.
  mended   it is started again too, with pauses of 5 seconds to 5 minutes:
           somebody has to mend something first.
  never    it is held: a retry can only fail again.

A held job starts again when its part of the file changes, or with --start-held.

This command ends at SIGTERM or Ctrl-C. The jobs go on without it, and the next
cdcv2 up finds them. (With --stop-jobs they end with it.) So change the file,
end this command and start it again: only the jobs that changed are restarted.
cdcv2 down ends the jobs, cdcv2 status shows them. One process at a time keeps
the jobs of a pipeline; a second one fails and names that process.

With --listen an HTTP API shows programs how the jobs stand, and starts held
ones (docs/operations/api.md).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cdcv2.cli.console import remark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.cli.up_api import configure_api, served
from cdcv2.control.catalogue import Catalogue, take_catalogue
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.owner import OwnedFolder
from cdcv2.control.pipeline_file import Pipeline, read_pipeline
from cdcv2.control.pipeline_jobs import folder_of, jobs_of
from cdcv2.control.supervision import JobAct, JobState
from cdcv2.control.supervisor import JobReport, Supervisor
from cdcv2.errors import UsageError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 up shop.yaml", "until SIGTERM or Ctrl-C"),
    ("cdcv2 up shop.yaml --start-held orders", "and start a job that is held"),
    ("cdcv2 up shop.yaml --once", "start what should run, and end"),
    ("cdcv2 up shop.yaml --listen", "with an API for programs"),
)
#: Seconds between two looks at the jobs.
PAUSE = 0.5


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "file", more=": the pipeline")
    parser.add_argument("--start-held", action="append", default=[], metavar="NAME",
                        help="let a held job start again; several: repeat the option")
    parser.add_argument("--once", action="store_true", help="start what should run, and end: for a timer")
    parser.add_argument("--stop-jobs", action="store_true", help="end the jobs when this command ends")
    configure_api(parser)


def run(args: argparse.Namespace) -> Exit:
    """Keep the jobs running until a signal ends this, or the jobs are started."""
    if args.once and args.stop_jobs:
        raise UsageError("--once and --stop-jobs: one leaves the jobs at work, the other ends them; leave one out")
    pipeline = read_pipeline(args.file)
    plans = jobs_of(pipeline)
    with owned(pipeline, "up") as catalogue, served(args, pipeline) as requests, stop_signals() as stopping:
        supervisor, shown = Supervisor(folder_of(pipeline)), dict[str, str]()
        for name in args.start_held:
            if not supervisor.release(name):
                remark(f"cdcv2 up: {name} is not held: there is nothing to start")
        while not stopping():
            catalogue.demand()
            show(pipeline, "up", supervisor.turn(plans), shown)
            if args.once:
                return Exit.DONE
            requests.take(PAUSE)
        if args.stop_jobs:
            return end_jobs(pipeline, "up", shown, patience=None)
        remark(f"cdcv2 up: ended; the jobs go on (cdcv2 down {args.file} ends them)")
    return Exit.DONE


@contextmanager
def owned(pipeline: Pipeline, command: str) -> Iterator[Catalogue]:
    """The catalogue of the pipeline, as its owner. Raises RefusedError where another process is, with which one."""
    now = time.time()
    with OwnedFolder(pipeline.state, now) as folder, take_catalogue(folder, f"cdcv2 {command}", now) as catalogue:
        yield catalogue


def end_jobs(pipeline: Pipeline, command: str, shown: dict[str, str], *, patience: float | None) -> Exit:
    """End all jobs, politely at first; after ``patience`` seconds report which are left, and leave them."""
    supervisor = Supervisor(folder_of(pipeline))
    deadline = None if patience is None else time.monotonic() + patience
    while True:
        reports = supervisor.turn([])
        show(pipeline, command, reports, shown)
        left = [report.name for report in reports if report.sight.alive]
        if not left:
            return Exit.DONE
        if deadline is not None and time.monotonic() > deadline:
            remark(f"cdcv2 {command}: still there: {', '.join(left)}; run cdcv2 down again, or kill what holds them")
            return Exit.UNABLE
        time.sleep(PAUSE)


def show(pipeline: Pipeline, command: str, reports: Iterable[JobReport], shown: dict[str, str]) -> None:
    """Print a line for each job about which there is something new; ``shown`` has what was printed before."""
    for report in reports:
        text = _text(report, folder_of(pipeline))
        if text is not None and shown.get(report.name) != text:
            remark(f"cdcv2 {command}: {report.name}: {text}")
            shown[report.name] = text


def _text(report: JobReport, folder: Path) -> str | None:
    status = report.status
    if report.act is JobAct.START:
        return f"started (run {status.run})"
    if report.act in (JobAct.STOP, JobAct.KILL):
        return "asked to end" if report.act is JobAct.STOP else "did not end in time: killed"
    if status.state is JobState.RUNNING and report.sight.alive:
        return "running"
    if status.state is JobState.WAITING and status.reason is not None:
        return f"waits for its next start: {_because(report, folder)}"
    if status.state is JobState.HELD:
        return f"held: {_because(report, folder)}"
    if status.state is JobState.FINISHED:
        return "finished: its logs are closed"
    return "ended" if status.state is JobState.IDLE and report.sight.run else None


def _because(report: JobReport, folder: Path) -> str:
    status = report.status
    remedy = f". {status.remedy}" if status.remedy else ""
    return f"{status.reason}{remedy} (output: {JobFolder(folder / report.name).output})"
