"""Run a whole pipeline in one process: its captures, and its views.

The file names sources, captures and views (docs/operations/pipeline.md). A
capture works as cdcv2 capture does, a view as cdcv2 materialize --view does,
with the same logs and targets. So you may go over to these commands at any
time, and back.

Without --follow the captures run to the ends of their topics, one after the
other, and then the views. With --follow all of them work at once, until
SIGTERM or Ctrl-C, which end each between two transactions. A second Ctrl-C
ends it at once. You may kill it and run it again at any time.

A part that stops with an error ends the others between two transactions. The
exit code and the last line are those of that part. Lines begin with the name
of the part. The logs must be in folders. What the file has as owned: yes is
made by cdcv2 up alone, so it is refused here; and so is a file that cdcv2 up
keeps, or whose jobs run. Instances and replays are started by cdcv2 up alone,
too.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cdcv2.cli import capture, materialize
from cdcv2.cli.console import part_of, remark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare, declare_follow
from cdcv2.cli.stop_signals import stop_signals, stopped_by
from cdcv2.control.owner import is_owned, owner, running
from cdcv2.control.pipeline import CaptureFields, Pipeline, ViewFields
from cdcv2.control.pipeline_check import check_pipeline
from cdcv2.control.pipeline_external import owned_parts
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import first_logs, folder_of
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import RefusedError, UsageError
from cdcv2.events import JobEvents
from cdcv2.exits import Exit
from cdcv2.store.file_system import is_there

EXAMPLES = (
    ("cdcv2 run pipeline.yaml", "what is there now, and end"),
    ("cdcv2 run pipeline-from-kafka.yaml --follow", "until SIGTERM or Ctrl-C"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done; with --follow: SIGTERM ended it",
    Exit.MISSING: "as cdcv2 capture and cdcv2 materialize: topics or logs end before all that is counted has arrived",
    Exit.WRONG: "as cdcv2 capture and cdcv2 materialize: a record is no row, or logs contradict themselves",
}

#: Seconds between two looks: whether a part has ended, and whether the logs of a view are there.
_LOOK = 0.2


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")
    declare_follow(parser, default=False)


def run(args: argparse.Namespace) -> Exit:
    """Run all parts until their inputs end, or a signal stops them.

    Raises UsageError if there are none, and the error of the first that failed.
    """
    pipeline = read_pipeline(args.pipeline)
    of_views = [one.spark for one in pipeline.views.values()]
    for spark in [*(one.spark for one in pipeline.captures.values()), *of_views]:
        if spark is not None:
            spark.node.fail("cdcv2 run works without Spark: leave 'spark' out, or start it with cdcv2 up")
    for one in pipeline.captures.values():
        if one.arguments.into.is_topic:
            one.into.fail("cdcv2 run keeps logs in folders: name one, or start cdcv2 capture and cdcv2 materialize")
    for node in owned_parts(pipeline):
        node.fail(
            "cdcv2 run makes and removes nothing for 'owned: yes': start the pipeline with cdcv2 up, which does; or "
            "make it by hand, and write 'owned: no'"
        )
    if pipeline.instances:
        names = ", ".join(pipeline.instances)
        remark(f"cdcv2 run: instances are not started here ({names}): cdcv2 up does that")
    if not pipeline.captures and not pipeline.views:
        raise UsageError(
            f"{pipeline.path} has no captures and no views, and cdcv2 run starts nothing else: use cdcv2 up"
        )
    if pipeline.replays:
        remark(f"cdcv2 run: replays are not started here ({', '.join(pipeline.replays)}): cdcv2 up does that")
    _demand_no_jobs(pipeline)
    check_pipeline(pipeline)
    captures = [_capture(one, args.follow) for one in pipeline.captures.values()]
    views = [_view(pipeline, one, args.follow) for one in pipeline.views.values()]
    with running(pipeline.state), stop_signals() as signalled:
        work = _at_once if args.follow else _in_turn
        outcomes = work([*captures, *views], signalled)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return next((outcome.exit for outcome in outcomes if outcome.exit is not Exit.DONE), Exit.DONE)


def _demand_no_jobs(pipeline: Pipeline) -> None:
    """Raise RefusedError if cdcv2 up keeps the pipeline, or its jobs run on: each would fence the other off."""
    by = owner(pipeline.state)
    kept = f"cdcv2 up keeps it: {by.text()}" if is_owned(pipeline.state) and by is not None else None
    alive = [report.name for report in Supervisor(folder_of(pipeline)).look() if report.observation.alive]
    if kept or alive:
        raise RefusedError(
            f"{pipeline.path} is at work ({kept or 'its jobs run: ' + ', '.join(alive)}), and two would take each "
            f"other's targets over: leave it to cdcv2 up, or run cdcv2 down {pipeline.path} first"
        )


class _Part(NamedTuple):
    """A capture or a view. ``logs``: what has to be there before it starts."""

    name: str
    logs: list[Path]
    start: Callable[[], Exit]


class _Outcome(NamedTuple):
    """How a part has ended."""

    name: str
    exit: Exit
    error: Exception | None = None

    @property
    def failed(self) -> bool:
        """Whether the others have to end."""
        return self.error is not None or self.exit is not Exit.DONE


def _capture(fields: CaptureFields, follow: bool) -> _Part:
    arguments = fields.following(follow)
    # Events are of a job, and a part is none: they go nowhere.
    arguments.events = JobEvents(fields.name)
    return _Part(fields.name, [], lambda: capture.run(arguments))


def _view(pipeline: Pipeline, fields: ViewFields, follow: bool) -> _Part:
    parser = OptionParser("cdcv2 materialize", None)
    materialize.configure(parser)
    words = [str(pipeline.path), "--view", fields.name, *(["--follow"] if follow else [])]
    arguments = parser.parse_args(words)
    arguments.events = JobEvents(fields.name)
    return _Part(fields.name, first_logs(pipeline, fields), lambda: materialize.run(arguments))


def _in_turn(parts: list[_Part], signalled: Callable[[], bool]) -> list[_Outcome]:
    """One after the other; a part that fails leaves to the others what is there."""
    outcomes: list[_Outcome] = []
    for part in parts:
        failed = any(one.failed for one in outcomes)
        if signalled() or (failed and not all(map(is_there, part.logs))):
            continue
        outcomes.append(_worked(part, signalled))
    return outcomes


def _at_once(parts: list[_Part], signalled: Callable[[], bool]) -> list[_Outcome]:
    """Each in a thread; the first that fails ends the others. They are in the order in which they ended."""
    outcomes: list[_Outcome] = []
    failed = threading.Event()

    def stopping() -> bool:
        return failed.is_set() or signalled()

    def work(part: _Part) -> None:
        while not all(map(is_there, part.logs)):
            if stopping() or failed.wait(_LOOK):
                return
        outcome = _worked(part, stopping)
        outcomes.append(outcome)
        if outcome.failed:
            remark(f"cdcv2 run: {part.name} has stopped; the others end after what they are writing")
            failed.set()

    # A second Ctrl-C leaves them as a kill does: what they have committed is whole.
    threads = [threading.Thread(target=work, args=(part,), name=part.name, daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            # Signals arrive between two looks.
            thread.join(_LOOK)
    return outcomes


def _worked(part: _Part, stopping: Callable[[], bool]) -> _Outcome:
    try:
        with part_of(part.name), stopped_by(stopping):
            return _Outcome(part.name, part.start())
    except Exception as error:
        # It is raised again when the others have ended.
        error.add_note(f"in {part.name}")
        return _Outcome(part.name, Exit.DONE, error)
