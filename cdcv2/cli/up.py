"""Keep the captures, views, replays and instances of a pipeline file running.

The file is that of cdcv2 run; cdcv2 init writes one. Each capture, view, replay
and timer becomes a job, a process of its own; an instance becomes several. A
job that is killed is started again. One that ends reports whether a retry
helps (docs/operations/keep-running.md):

  now      it is started again soon. After five such ends in a row without
           progress, each within ten minutes of its start, it is held.
  mended   it works once something is mended: a server, a disk, a topic. It is
           started again, after pauses of 5 seconds to 5 minutes.
  never    it is held, as a retry would end in the same way.

A held job starts again when its part of the file changes, when it is paused and
resumed, or with --start-held.

This command makes what the file states as owned: yes, before the jobs that need
it: a connector with its publication and topics, topics of logs, tables of a
target. (The connector makes its slot.) It removes all of that, the slot, too,
with its data, when no capture or view of the file needs it any more. A job
whose needs are not there yet waits, and its line names them
(docs/operations/external-state.md).

This command ends at SIGTERM or Ctrl-C. The jobs run on without it, and the next
cdcv2 up finds them. (With --stop-jobs they end with it.) So change the file,
end this command and start it again: only the jobs that changed are restarted.
cdcv2 down ends the jobs, cdcv2 pause ends one, cdcv2 status shows them. One
process at a time keeps the jobs of a pipeline; a second one fails and names
that process.

With --listen an HTTP API shows programs how the jobs stand, and starts held
ones (docs/operations/api.md); and a page shows it in a browser (cdcv2 page).
Both need the extra control.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cdcv2.cli.console import remark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import TIMEOUT, declare
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.cli.up_api import configure_api, served
from cdcv2.control.catalogue import Catalogue, take_catalogue
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind
from cdcv2.control.external_work import ExternalWork, waiting_text
from cdcv2.control.instance_jobs import make_places
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.owner import OwnedFolder, beat
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_check import demand_captured, mistakes
from cdcv2.control.pipeline_external import PipelineExternal, external_needs, new_nonce
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import FirstLogs, folder_of, jobs_of, with_needs
from cdcv2.control.pipeline_probe import sent_through
from cdcv2.control.pipeline_status import captured_through
from cdcv2.control.reconcile import Reconciliation, is_unsettled
from cdcv2.control.refusals import refused_changes
from cdcv2.control.supervision import JobAct, JobState
from cdcv2.control.supervisor import JobPlan, JobReport, Supervisor
from cdcv2.control.view_targets import demand_own_targets
from cdcv2.errors import Cdcv2Error, RefusedError, UsageError
from cdcv2.exits import Exit

EXAMPLES = (
    ("cdcv2 up pipeline.yaml", "until SIGTERM or Ctrl-C"),
    ("cdcv2 up pipeline.yaml --start-held orders", "and start a job that is held"),
    ("cdcv2 up pipeline.yaml --once", "start what should run, and end"),
    ("cdcv2 up pipeline.yaml --listen", "with an API for programs"),
    ("cdcv2 up pipeline.yaml --once --timeout 10", "wait at most 10 seconds for what has to be made or end first"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done: SIGTERM ended it; with --once, all is started",
    Exit.UNABLE: "another process keeps the pipeline; or with --once something is left after --timeout, or a job has "
                 "failed and does not run: it is named",
}
#: Seconds between two looks at the jobs.
PAUSE = 0.5


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    parser.add_argument("--start-held", action="append", default=[], metavar="NAME",
                        help="let a held job start again; several: repeat the option")
    parser.add_argument("--accept-lost", action="append", default=[], metavar="NAME",
                        help="forget that a thing is lost, and continue: a publication, a connector or a slot. Do it "
                             "only where docs/operations/start-over.md has it as a step, after cdcv2 compare --source "
                             "was equal or with a new snapshot. NAME is the entry, as cdcv2 external prints it (the "
                             "name of a thing means all things of that name); several: repeat the option")
    parser.add_argument("--once", action="store_true", help="start what should run, and end: for a timer")
    declare(parser, "--timeout", default=None, more="; with --once")
    parser.add_argument("--stop-jobs", action="store_true", help="end the jobs when this command ends")
    configure_api(parser)


def run(args: argparse.Namespace) -> Exit:
    """Keep the jobs running until a signal ends this, or the jobs are started.

    Raises UsageError if --timeout is given without --once, or --once with --stop-jobs.
    """
    if args.timeout is not None and not args.once:
        raise UsageError("--timeout goes with --once: without it cdcv2 up waits for ever, and tries again")
    if args.once and args.stop_jobs:
        raise UsageError("--once and --stop-jobs: one leaves the jobs at work, the other ends them; leave one out")
    pipeline = read_pipeline(args.pipeline)
    demand_captured(pipeline)
    demand_own_targets(pipeline)
    plans, external = jobs_of(pipeline), external_needs(pipeline)
    deadline = time.monotonic() + patience_of(args.timeout)
    with owned(pipeline, "up") as catalogue, served(args, pipeline) as requests, stop_signals() as stopping:
        make_places(pipeline)
        supervisor, shown, logs = Supervisor(folder_of(pipeline)), dict[str, str](), FirstLogs(pipeline)
        for name in args.start_held:
            if not supervisor.release(name):
                remark(f"cdcv2 up: {name} is not held: there is nothing to start")
        wrong = dict(mistakes(pipeline))
        for name, text in wrong.items():
            remark(f"cdcv2 up: {name} cannot run: {text}")
        with at_work(pipeline, catalogue, external, plans, supervisor, args.accept_lost) as (work, plans):
            while not stopping():
                beat(pipeline.state)
                catalogue.demand()
                work.look()
                # Asked before the turn: what is there now, the turn starts jobs on.
                done, stuck = work.is_done(), work.is_stuck()
                reports = supervisor.turn(plans, waits=lambda job: work.waits(job) or logs.waits(job))
                work.at_work = outdated(plans, reports)
                show(pipeline, "up", reports, shown)
                show_entries("up", work.entries, shown)
                late = unstarted(plans, reports)
                if args.once and done and not late:
                    failed = resting(plans, reports)
                    if not any(is_due(one, deadline - time.monotonic()) for one in failed):
                        return not_running(pipeline, failed, wrong) if failed or wrong else Exit.DONE
                if args.once and stuck and all(work.waits(name) for name in late):
                    return owed("up", work.left(), "")
                if args.once and time.monotonic() > deadline:
                    return owed("up", work.left(), "run cdcv2 up again", jobs=late)
                requests.take(PAUSE)
        if args.stop_jobs:
            return end_jobs(pipeline, "up", shown, patience=None)
        remark(f"cdcv2 up: ended; the jobs keep running (cdcv2 down {args.pipeline} ends them)")
    return Exit.DONE


def patience_of(timeout: float | None) -> float:
    """The seconds of --timeout. Raises UsageError for what is no number of seconds."""
    seconds = TIMEOUT if timeout is None else timeout
    if not seconds >= 0:
        raise UsageError(f"--timeout {timeout}: it takes a number of seconds from 0 on")
    return seconds


@contextmanager
def at_work(
    pipeline: Pipeline, catalogue: Catalogue, external: PipelineExternal, plans: Sequence[JobPlan],
    supervisor: Supervisor, accepted: Sequence[str] = (),
) -> Iterator[tuple[ExternalWork, list[JobPlan]]]:
    """What the file wants is in the catalogue, and is made and removed in a thread until the block is left.

    ``accepted``: names of what is lost, and goes on as it is. Gives that work, and the jobs with what is made for
    them. Raises RefusedError if the file changes what cannot be changed.
    """
    with catalogue.session() as session:
        captured, sent = partial(captured_since, pipeline, supervisor), partial(sent_through, pipeline)
        control = Reconciliation(session, external.servers.kinds(), time.time, captured, sent)
        desired = list(external.needs.desired(session.entries()))
        for _, text in refused_changes(pipeline, session.entries(), desired):
            raise RefusedError(text)
        for entry in control.accept(accepted):
            given = entry.kind is Kind.CONNECTOR and entry.owned
            how = "accepted, and given its settings; when that is done," if given else "accepted as it is now;"
            remark(f"cdcv2 up: {entry.shown}: {how} run cdcv2 compare --source")
        control.desire(desired, new_nonce)
        control.find_known()
        needing = with_needs(plans, session.entries())
        late = outdated(needing, supervisor.look())
        with ExternalWork(control, [plan.name for plan in needing], catalogue.entries, at_work=late) as work:
            yield work, needing


def captured_since(pipeline: Pipeline, supervisor: Supervisor, job: str, since: float) -> int | None:
    """The LSN through which a capture by commit times has stated all; None: it is none, or nothing of it has moved
    since a moment, in epoch seconds.
    """
    capture = pipeline.captures.get(job)
    if capture is None:
        return None
    try:
        folder = supervisor.job(job)
        moved, frontiers = folder.moved_at(), folder.frontiers()
    except Cdcv2Error:
        return None
    return captured_through(capture, frontiers[-1]) if frontiers and moved is not None and moved > since else None


def outdated(plans: Iterable[JobPlan], reports: Iterable[JobReport]) -> frozenset[str]:
    """The jobs that still run as they were before the file changed."""
    wanted = {plan.name: plan.digest for plan in plans}
    alive = [one for one in reports if one.observation.alive]
    return frozenset(one.name for one in alive if one.observation.command != wanted.get(one.name))


def unstarted(plans: Iterable[JobPlan], reports: Iterable[JobReport]) -> list[str]:
    """The jobs that still end, or were not started yet as the file has them now. Damaged ones are left."""
    wanted = {plan.name: plan.digest for plan in plans}
    return [
        one.name for one in reports
        if (one.observation.alive and one.status.state is JobState.STOPPING)
        or (one.name in wanted and one.damage is None and one.status.command != wanted[one.name])
    ]


def resting(plans: Iterable[JobPlan], reports: Iterable[JobReport]) -> list[JobReport]:
    """The jobs that should run, and do not, since they failed: they are held, or wait for their next start."""
    wanted = {plan.name for plan in plans}
    return [
        one for one in reports if one.name in wanted and not one.observation.alive and one.act is not JobAct.START
        and (one.damage is not None or one.status.state is JobState.HELD
             or (one.status.state is JobState.WAITING and one.status.attempts > 0))
    ]


def is_due(report: JobReport, seconds: float) -> bool:
    """Whether a job is started again within so many seconds."""
    return seconds > 0 and report.status.state is JobState.WAITING and report.status.due - time.time() < seconds


def not_running(pipeline: Pipeline, reports: Iterable[JobReport], wrong: Iterable[str] = ()) -> Exit:
    """Report the jobs that failed, and leave them; ``wrong``: those that cannot run as the file has them."""
    for name in wrong:
        remark(f"cdcv2 up: not done: {name} cannot run as the file has it")
    for report in reports:
        remark(f"cdcv2 up: not done: {report.name} does not run: {_text(report, folder_of(pipeline))}")
    return Exit.UNABLE


def owed(command: str, left: Iterable[CatalogueEntry], remedy: str, *, jobs: Iterable[str] = ()) -> Exit:
    """Report what is still to be made or removed, and the jobs that still end or are not started, and leave it.

    ``remedy``: what goes on with it; empty: nothing does, as all of it is lost.
    """
    for entry in left:
        remark(f"cdcv2 {command}: not done: {entry.state} {waiting_text(entry)}")
    if not remedy:
        remark(
            f"cdcv2 {command}: what is lost stays so until you have decided what to do: "
            "docs/operations/start-over.md#something-is-lost"
        )
        return Exit.UNABLE
    for name in jobs:
        remark(f"cdcv2 {command}: not done: {name} still ends, or is not started yet as the file has it")
    remark(f"cdcv2 {command}: the rest is written down and is not lost: {remedy}; cdcv2 external lists it")
    return Exit.UNABLE


def show_entries(command: str, entries: Iterable[CatalogueEntry], shown: dict[str, str]) -> None:
    """Print a line for each piece of external state about which there is something new."""
    known = list(entries)
    going_on = {entry.key: entry.nonce for entry in known if entry.is_live and entry.attempted is not None}
    for entry in known:
        text = f"{entry.shown}: {entry.state}" + (f"; {entry.debt.reason}: {entry.debt.text}" if entry.debt else "")
        if not (entry.owned or entry.is_live):
            # Its last states are of the entry alone.
            text = f"{entry.shown}: not looked at any more; it is not owned, and stays"
        if entry.state is EntryState.GONE and entry.attempted is None and entry.key in going_on:
            # It was known by another address of its server. Nothing was removed.
            text = f"{entry.shown}: it is there already, and continues as entry {going_on[entry.key]}"
        elif entry.owned and entry.state is EntryState.GONE and entry.attempted is None and entry.identity is None:
            # What may be there is another's.
            text = f"{entry.shown}: nothing owned was made there, and nothing is removed"
        before = shown.get(entry.nonce)
        shown[entry.nonce] = text
        if before != text and (before is not None or is_unsettled(entry)):
            remark(f"cdcv2 {command}: {text}")


@contextmanager
def owned(pipeline: Pipeline, command: str) -> Iterator[Catalogue]:
    """The catalogue of the pipeline, as its owner. Raises RefusedError where another process is, with which one.

    And for a state folder of another pipeline, or a copy of one.
    """
    now, who = time.time(), f"cdcv2 {command}"
    with OwnedFolder(pipeline.state, now) as folder, take_catalogue(folder, who, now, pipeline.name) as catalogue:
        yield catalogue


def end_jobs(pipeline: Pipeline, command: str, shown: dict[str, str], *, patience: float | None) -> Exit:
    """End all jobs, politely at first; after ``patience`` seconds report which are left, and leave them."""
    supervisor = Supervisor(folder_of(pipeline))
    deadline = None if patience is None else time.monotonic() + patience
    while True:
        beat(pipeline.state)
        reports = supervisor.turn([])
        show(pipeline, command, reports, shown)
        left = [report.name for report in reports if report.observation.alive]
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
    if report.damage is not None and report.observation.alive and report.act is JobAct.NOTHING:
        return f"not looked after, and its process keeps running: {report.damage}"
    if report.act is JobAct.START:
        return f"started (run {status.run})"
    if report.act in (JobAct.STOP, JobAct.KILL):
        return "asked to end" if report.act is JobAct.STOP else "did not end in time: killed"
    if status.state is JobState.RUNNING and report.observation.alive:
        return "running"
    if status.waits is not None:
        return f"waits for {status.waits}"
    if status.state is JobState.WAITING and status.reason is not None:
        return f"waits for its next start: {_because(report, folder)}"
    if status.state is JobState.HELD:
        return f"held: {_because(report, folder)}"
    if status.state is JobState.PAUSED:
        return status.reason
    if status.state is JobState.FINISHED:
        return "finished: its logs are closed"
    return "ended" if status.state is JobState.IDLE and report.observation.run else None


def _because(report: JobReport, folder: Path) -> str:
    status = report.status
    remedy = f". {status.remedy}" if status.remedy else ""
    return f"{status.reason}{remedy} (output: {JobFolder(folder / report.name).output})"
