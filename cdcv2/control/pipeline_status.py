"""How a pipeline stands: a row for each table and each of its targets, and one for each job.

A row of a job is made of its status and of the events that it wrote; a row of a table of these, and of what servers
answer (:mod:`cdcv2.control.pipeline_probe`). :mod:`cdcv2.control.seconds_behind` decides how far a table is behind; of
one that is lost or not covered that is not known, which is decided here.

The file is long because it is one answer: the rows of tables and of jobs are made of the same observations.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from cdcv2.completeness import through_text
from cdcv2.control.disks import unwritable
from cdcv2.control.entries import Kind
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.log_tail import stated_frontier, uncovered_tables
from cdcv2.control.lost_state import LostState, MissingState, lost_state
from cdcv2.control.metrics.measure import forgotten
from cdcv2.control.observations import UNANSWERED, ConnectorObservation, CopyObservation
from cdcv2.control.owner import is_owned, owner, silent_for
from cdcv2.control.parallel_requests import NOT_ASKED, Reply, ask_all
from cdcv2.control.pipeline import CaptureFields, Pipeline, ViewFields
from cdcv2.control.pipeline_check import row_types
from cdcv2.control.pipeline_jobs import folder_of, jobs_of
from cdcv2.control.pipeline_probe import ROUND, PipelineObservation, SourceObservation, look
from cdcv2.control.replay_fields import ReplayFields
from cdcv2.control.seconds_behind import Basis, Lag, lag_of
from cdcv2.control.supervision import JobState, JobStatus, judged
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import UsageError


class JobRow(NamedTuple):
    """A job, for people and programs.

    - ``kind``: ``capture``, ``view``, ``replay``, ``timer``, ``instance``, or ``left``: the file has it no more.
    - ``state``, ``since``: see :class:`~cdcv2.control.supervision.JobStatus`; ``alive``: whether a process of it runs.
    - ``frontier``: how far it is, as its newest event states; None: it has not stated anything yet.
    - ``committed_at``: when the source committed what the frontier completes last, in seconds since 1970, if known.
    - ``event_at``: when the newest event was written; ``rows_held``: rows in its memory that are not complete.
    - ``deaths``: the ends in a row, without progress, that were tried again at once.
    - ``waits``: what it waits for.
    - ``reason``, ``remedy``: why it does not run; of one that runs: why it ended last, as long as that counts
      (:func:`~cdcv2.control.supervision.judged`).
    - ``output``: the file with what it prints.
    - ``last_exit``: the exit code of its last run that reported its end; None: none has.
    - ``due``: when it is started again, of one that waits for that; None: of any other.
    """

    name: str
    kind: str
    state: str
    since: float
    alive: bool
    run: int
    frontier: list[Any] | None
    committed_at: float | None
    event_at: float | None
    waits: list[Any]
    reason: str | None
    remedy: str | None
    output: str
    deaths: int = 0
    rows_held: int | None = None
    last_exit: int | None = None
    due: float | None = None

    @property
    def through(self) -> str:
        """How far it is, in words."""
        return _through(self.frontier)

    @property
    def well(self) -> bool:
        """Whether it runs, and has got over its last end; or has finished. A timer may rest, if it found nothing."""
        works = self.kind == "timer" or self.state in (JobState.RUNNING.value, JobState.FINISHED.value)
        return works and self.reason is None

    @property
    def awaited(self) -> list[str]:
        """What it waits for, in words."""
        return [
            str(wait.get("text") or wait.get("what") or json.dumps(wait)) if isinstance(wait, dict) else str(wait)
            for wait in self.waits
        ]


class TableRow(NamedTuple):
    """A table in a log, or in a target, for people and programs. Moments are in seconds since 1970.

    - ``table``: the table, as its log is called; ``kind``: ``log`` or ``target``; ``job``: the capture, view or
      replay that keeps it; ``target``: its name there, None of a log.
    - ``frontier``: everything before it is there; None: not known.
    - ``committed_at``: when the source committed the last of that, if known.
    - ``seconds_behind``: the age of the oldest commit that is missing, 0 where none is; None: not known.
    - ``basis``: ``exact``, ``at most``, ``since the last END read``, ``not known``; ``text``: why, in words.
    - ``all_there_at``: the last moment, by the source's clock, at which it is known that nothing was missing.
    """

    table: str
    kind: str
    job: str
    target: str | None
    frontier: list[Any] | None
    committed_at: float | None
    seconds_behind: float | None
    basis: str
    text: str
    all_there_at: float | None

    @property
    def through(self) -> str:
        """How far it is, in words."""
        return _through(self.frontier)

    @property
    def is_known(self) -> bool:
        """Whether the seconds are measured at the source, and not only since what was read of it."""
        return self.basis in (Basis.EXACT.value, Basis.AT_MOST.value)

    @property
    def behind(self) -> str:
        """How far behind it is, in words."""
        if self.seconds_behind is None:
            return "not known"
        whole = not self.seconds_behind or self.seconds_behind >= 10
        seconds = f"{self.seconds_behind:.{0 if whole else 1}f} s"
        if self.basis == Basis.LAST_END.value:
            return f"{seconds} {self.basis}"
        return f"{'at most ' if self.basis == Basis.AT_MOST.value else ''}{seconds} behind"


class PipelineStatus(NamedTuple):
    """All tables and jobs of a pipeline, and the process that keeps the jobs running (None: no process does).

    ``observation`` is what its servers have answered; ``lost`` what its jobs used in other systems, and is lost.
    ``owner_silent``: for how many seconds that process has done nothing; None: it works, as far as is known.
    ``disk``: why nothing can be written in the state folder; None: it can be, as far as is known.
    """

    pipeline: str
    owner: str | None
    tables: list[TableRow]
    jobs: list[JobRow]
    observation: PipelineObservation
    lost: LostState = LostState({})
    owner_silent: float | None = None
    disk: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "pipeline": self.pipeline, "owner": self.owner, "owner_silent": self.owner_silent,
            "disk": self.disk,
            "tables": [row._asdict() for row in self.tables],
            "jobs": [row._asdict() for row in self.jobs],
            "sources": [_source(name, view) for name, view in self.observation.sources.items()],
            "topics": [_topic(name, answer) for name, answer in self.observation.topics.items()],
            "lost": _by_job(self.lost.of), "changed": _by_job(self.lost.changed),
            "moved": _by_job(self.lost.moved),
        }

    @property
    def kept(self) -> str:
        """Who keeps the jobs running, in words."""
        if self.owner is None:
            return "no cdcv2 up keeps its jobs running"
        if self.owner_silent is None:
            return f"kept running by {self.owner}"
        return (
            f"{self.owner}, which is to keep its jobs running, has done nothing for {self.owner_silent:.0f} s: it "
            "hangs. End that process (kill -9), and start cdcv2 up again: the jobs stay; or let it run (kill -CONT), "
            "if it was stopped"
        )

    @property
    def well(self) -> bool:
        """Whether every job of the file is well, and a process keeps them running, and nothing is lost, changed or on
        another server.
        """
        works = self.owner is not None and self.owner_silent is None and self.disk is None
        kept = works and not (self.lost.of or self.lost.changed or self.lost.moved)
        return kept and all(row.well for row in self.jobs if row.kind != "left")

    @property
    def changed(self) -> list[str]:
        """What others have changed in other systems, each once; before it, which server is another one now, and a disk
        on which nothing can be written.
        """
        first = [*([] if self.disk is None else [self.disk]), *self.lost.servers]
        changed = (one.text for things in self.lost.changed.values() for one in things)
        return list(dict.fromkeys([*first, *changed]))

    @property
    def unanswered(self) -> list[str]:
        """Which servers have not answered, and why."""
        asked: list[tuple[str, Reply]] = [("the catalogue", Reply(error=self.lost.error))]
        for name, view in self.observation.sources.items():
            asked += [(f"the database of {name}", view.database), (f"the connector of {name}", view.connector)]
        for what, answers in (("the target of", self.observation.targets), ("the topics of", self.observation.topics)):
            asked += [(f"{what} {name}", answer) for name, answer in answers.items()]
        return [f"{name}: {answer.error}" for name, answer in asked if answer.error is not None]

    def job(self, name: str) -> JobRow | None:
        """The row of a job."""
        return next((row for row in self.jobs if row.name == name), None)


def _by_job(things: Mapping[str, list[MissingState]]) -> list[dict[str, Any]]:
    return [
        {"job": job, **one._asdict(), "kind": one.kind.value} for job, found in things.items() for one in found
    ]


def status_of(pipeline: Pipeline, before: PipelineStatus | None = None) -> PipelineStatus:
    """How the pipeline stands now. It only looks, and some seconds at most where servers do not answer.

    ``before`` is an earlier status, if there is one: what was known then makes "at most" closer. Raises MalformedError
    for damaged files of jobs.
    """
    now = time.time()
    jobs = job_rows(pipeline)
    lost = lost_state(pipeline)
    copies = _Copies(pipeline, jobs, before, lost)
    observation = look(pipeline, copies.of_interest)
    _add_forgotten(pipeline, jobs, observation, lost)
    jobs = [copies.as_far(_with_its_slot(pipeline, row, observation), observation.targets) for row in jobs]
    kept_by = owner(pipeline.state) if is_owned(pipeline.state) else None
    tables = list(copies.rows(observation, now))
    by, silent = None if kept_by is None else kept_by.text(), silent_for(pipeline.state, time.time())
    return PipelineStatus(pipeline.name, by, tables, jobs, observation, lost, silent, unwritable(pipeline.state))


class StatusWatch:
    """Looks again and again, and has each look know of the one before. One thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._last: PipelineStatus | None = None

    def look(self) -> PipelineStatus:
        """How the pipeline stands now, as :func:`status_of`."""
        self._last = status_of(self._pipeline, self._last)
        return self._last


def job_rows(pipeline: Pipeline) -> list[JobRow]:
    """How its jobs stand, by their files alone. Raises MalformedError for damaged ones."""
    supervisor, now = Supervisor(folder_of(pipeline)), time.time()
    reports = {report.name: report for report in supervisor.look()}
    kinds = {
        **dict.fromkeys(pipeline.captures, "capture"), **dict.fromkeys(pipeline.views, "view"),
        **dict.fromkeys(pipeline.replays, "replay"), **dict.fromkeys(pipeline.timers, "timer"),
        **{job: "instance" for part in pipeline.instances.values() for job in part.jobs},
    }
    planned = [plan.name for plan in jobs_of(pipeline)]
    rows = []
    for name in [*planned, *(name for name in reports if name not in planned)]:
        report, folder = reports.get(name), JobFolder(folder_of(pipeline) / name)
        if report is None:
            rows.append(_row(name, kinds[name], JobStatus(), False, {}, folder))
            continue
        if name not in planned and not report.observation.alive:
            continue
        status = report.status
        if status.state is JobState.RUNNING and report.observation.alive:
            # Also where no supervisor looks any more.
            status = judged(status, report.observation, now, timer=kinds.get(name) == "timer")
        if status.state is JobState.RUNNING and not report.observation.alive:
            # No supervisor has looked since it ended.
            reason = None if report.observation.end is None else report.observation.end.reason
            status = status._replace(state=JobState.WAITING, reason=reason or "it ended, and was not started again yet")
        paused = None if report.observation.alive else report.observation.paused
        if paused is not None and status.state is not JobState.PAUSED:
            status = status._replace(state=JobState.PAUSED, reason=paused)
        event = {} if report.damage else folder.last_progress() or {}
        row = _row(name, kinds.get(name, "left"), status, report.observation.alive, event, folder)
        rows.append(row if report.damage else row._replace(last_exit=folder.last_exit()))
    held = {row.name: row for row in rows if row.state == JobState.HELD.value}
    controllers = {job: part.name for part in pipeline.instances.values() for job in part.jobs[1:]}
    return [_behind(row, held.get(controllers.get(row.name, ""))) for row in rows]


def _behind(row: JobRow, held: JobRow | None) -> JobRow:
    """The row of a replica whose controller is held: it sees none, and cannot know why."""
    if held is None:
        return row
    text = f"its controller {held.name}, which is held: {held.reason}"
    waits = [
        {**wait, "text": text} if isinstance(wait, dict) and wait.get("what") == "controller" else wait
        for wait in row.waits
    ]
    return row._replace(waits=waits)


def _add_forgotten(pipeline: Pipeline, jobs: list[JobRow], observation: PipelineObservation, lost: LostState) -> None:
    """Add what topics have removed before it was captured, of captures that do not run: one that runs ends for it.

    Kafka is asked where it has answered a moment ago.
    """
    resting = [
        pipeline.captures[row.name] for row in jobs
        if row.name in pipeline.captures and not row.alive
        and observation.topics.get(row.name, NOT_ASKED).value is not None
    ]
    questions: dict[str, Callable[[], dict[str, int]]] = {
        one.name: partial(forgotten, pipeline, one) for one in resting
    }
    for name, answer in ask_all(questions, ROUND).items():
        for topic, number in (answer.value or {}).items():
            text = (
                f"the topic {topic!r} has removed {number} records before they were captured, as its retention has "
                "passed: they cannot be captured any more, also when the capture runs again"
            )
            lost.of.setdefault(name, []).append(MissingState(Kind.TOPIC, topic, text))


def _with_its_slot(pipeline: Pipeline, row: JobRow, observation: PipelineObservation) -> JobRow:
    """The row of a capture whose slot is being made: it sees no record, and cannot know why."""
    source = pipeline.captures[row.name].source if row.name in pipeline.captures else None
    database = None if source is None else observation.sources[source.name].database.value
    awaits = None if database is None or database.slot is None else database.slot.awaits
    if awaits is None or row.state == JobState.FINISHED.value:
        return row
    return row._replace(waits=[{"what": "slot", "text": f"its slot: {awaits}"}, *row.waits])


def _row(
    name: str, kind: str, status: JobStatus, alive: bool, event: Mapping[str, Any], folder: JobFolder
) -> JobRow:
    return JobRow(
        name, kind, status.state.value, status.since, alive, status.run, event.get("frontier"),
        event.get("committed_at"), event.get("at"), list(event.get("waits") or []),
        status.reason if status.waits is None else f"it waits for {status.waits}", status.remedy,
        str(folder.output), status.deaths, event.get("rows_held"), None,
        status.due if status.state is JobState.WAITING and status.due and status.waits is None else None,
    )  # fmt: skip


_COVERED = "docs/operations/covered.md#tables-that-the-connector-does-not-cover"


class _Copies:
    """The logs and targets of a pipeline, and up to where each is complete."""

    def __init__(
        self, pipeline: Pipeline, jobs: list[JobRow], before: PipelineStatus | None, lost: LostState
    ) -> None:
        self._lost = lost
        self._pipeline, self._jobs = pipeline, {row.name: row for row in jobs}
        self._before = {(row.job, row.table, row.target): row.all_there_at for row in before.tables} if before else {}
        self._tables = {name: _tables(capture) for name, capture in pipeline.captures.items()}
        self._logs = {name: self._log(capture) for name, capture in pipeline.captures.items()}
        self._uncovered = {
            name: uncovered_tables(capture.arguments.into, self._tables[name])
            for name, capture in pipeline.captures.items()
        }

    def of_interest(self, targets: Mapping[str, Reply]) -> dict[str, list[int]]:
        """Capture -> the frontiers of its logs and of the targets that are made of them."""
        found: dict[str, list[int]] = {name: [] for name in self._logs}
        copies = [(name, copy) for name, copy in self._logs.items()]
        copies += [
            (view.capture, self._target(view, targets)) for view in self._pipeline.readers.values()
            if view.capture is not None
        ]
        for name, copy in copies:
            if copy.of_commits and copy.frontier and isinstance(copy.frontier[0], int):
                found[name].append(copy.frontier[0])
        return found

    def as_far(self, row: JobRow, targets: Mapping[str, Reply]) -> JobRow:
        """The row of a job that does not run, as far as its logs or its target are: its run may have stated less."""
        if row.alive:
            return row
        copy = self._logs.get(row.name)
        if copy is None and row.name in self._pipeline.readers:
            copy = self._target(self._pipeline.readers[row.name], targets)
        if copy is None or copy.frontier is None:
            return row
        return row._replace(frontier=list(copy.frontier), committed_at=copy.committed_at)

    def rows(self, observation: PipelineObservation, now: float) -> Iterator[TableRow]:
        """A row for each log and each target, a table's together."""
        for name, tables in self._tables.items():
            for table in tables:
                yield self._lagging(table, "log", name, None, self._logs[name], name, observation, now)
                for view in self._pipeline.readers.values():
                    if view.capture == name:
                        yield from self._targets(view, observation, now, table)
        for view in self._pipeline.readers.values():
            if view.capture is None:
                yield from self._targets(view, observation, now)

    def _targets(
        self, view: ViewFields | ReplayFields, observation: PipelineObservation, now: float, table: str | None = None
    ) -> Iterator[TableRow]:
        copy = self._target(view, observation.targets)
        for log, target in bound_logs(view):
            if table in (None, log):
                yield self._lagging(log, "target", view.name, target, copy, view.capture, observation, now)

    def _lagging(
        self, table: str, kind: str, job: str, target: str | None, copy: CopyObservation, capture: str | None,
        observation: PipelineObservation, now: float,
    ) -> TableRow:
        seen = copy._replace(all_there_at=self._before.get((job, table, target)))
        lost = self._lost.text(capture) or self._lost.text(job)
        uncovered = self._uncovered.get(capture or "", {}).get(table)
        if uncovered is not None:
            lost = f"{uncovered}: {_COVERED}"
        lag = self._lag(seen, capture, observation, now) if lost is None else Lag(None, Basis.NOT_KNOWN, lost)
        frontier = None if copy.frontier is None else list(copy.frontier)
        return TableRow(
            table, kind, job, target, frontier, copy.committed_at, lag.seconds, lag.basis.value, lag.text,
            lag.all_there_at,
        )

    def _lag(self, copy: CopyObservation, capture: str | None, observation: PipelineObservation, now: float) -> Lag:
        of = None if capture is None else self._pipeline.captures[capture]
        source = of.source if of is not None else None
        view = SourceObservation() if source is None else observation.sources[source.name]
        ends = None if capture is None else observation.topics.get(capture, NOT_ASKED).value
        first = copy.frontier[0] if copy.frontier else None
        topic = None if ends is None or not isinstance(first, int) else ends.observation(first)
        connector = view.connector.value
        if view.connector.error is not None:
            connector = ConnectorObservation("" if source is None else source.name, UNANSWERED)
        # Of the logs: they were looked at before the source, and a target may be further by now.
        captured = None if of is None else captured_through(of, self._logs[of.name].frontier)
        return lag_of(copy._replace(captured=captured), view.database.value, connector, topic, now)

    def _log(self, capture: CaptureFields) -> CopyObservation:
        """As its job states it; of one that does not run, what the logs state themselves may be more."""
        job = self._jobs[capture.name]
        of_commits = capture.arguments.remap is None and not capture.arguments.stream
        stated = None if job.alive or not of_commits else stated_frontier(
            capture.arguments.into, self._tables[capture.name]
        )
        if stated is not None and stated != job.frontier:
            return CopyObservation(stated, _committed(job, stated), of_commits=of_commits)
        return CopyObservation(job.frontier, job.committed_at, of_commits=of_commits)

    def _target(self, view: ViewFields | ReplayFields, targets: Mapping[str, Reply]) -> CopyObservation:
        """As the target itself states it; where it does not answer, as its job does."""
        job, answer = self._jobs[view.name], targets.get(view.name, NOT_ASKED)
        frontier = job.frontier if answer.value is None else answer.value
        if answer.value is None and answer.error is None:
            frontier = None
        of = None if view.capture is None else self._pipeline.captures[view.capture].arguments
        of_commits = of is None or (of.remap is None and not of.stream)
        return CopyObservation(frontier, _committed(job, frontier), of_commits=of_commits)


def captured_through(capture: CaptureFields, frontier: Sequence[Any] | None) -> int | None:
    """The LSN through which the logs of a capture are complete; None: their times are none, or that is not known."""
    of_commits = capture.arguments.remap is None and not capture.arguments.stream
    known = of_commits and frontier is not None and len(frontier) == 1 and isinstance(frontier[0], int)
    return frontier[0] - 1 if frontier is not None and known else None


def _committed(job: JobRow, frontier: list[Any] | None) -> float | None:
    """When a frontier's last commit was, as a job knows it: its own, and what is further was committed later."""
    if frontier == job.frontier:
        return job.committed_at
    known = [one[0] for one in (job.frontier, frontier) if one and len(one) == 1 and isinstance(one[0], int)]
    return job.committed_at if len(known) == 2 and known[0] <= known[1] else None


def bound_logs(view: ViewFields | ReplayFields) -> list[tuple[str, str]]:
    """The log and the target of each binding of a view, and each table of a replay.

    Raises UsageError with the line of a binding that has not both.
    """
    if isinstance(view, ReplayFields):
        return [(table, table) for table in view.tables]
    bound = [dict(part.entries()) for part in view.fields["bindings"].items()]
    return [(one["log"].text(), one["target"].text()) for one in bound if "log" in one and "target" in one]


def _tables(capture: CaptureFields) -> list[str]:
    """The tables of a capture; none where the row types cannot be read, which doctor names."""
    try:
        return sorted(row_types(capture))
    except UsageError:
        return []


def _through(frontier: list[Any] | None) -> str:
    return "nothing complete yet" if frontier is None else through_text(frontier)


def _source(name: str, view: SourceObservation) -> dict[str, Any]:
    database, connector = view.database.value, view.connector.value
    plain: dict[str, Any] = {"source": name, "database": None, "connector": None}
    if database is not None:
        slot = None if database.slot is None else database.slot._asdict()
        if slot is not None and slot["oldest"] is not None:
            slot["oldest"] = slot["oldest"]._asdict()
        plain["database"] = {**database._asdict(), "slot": slot}
    if connector is not None:
        plain["connector"] = {**connector._asdict(), "tasks": list(connector.tasks), "runs": connector.runs}
    return {**plain, "database_error": view.database.error, "connector_error": view.connector.error}


def _topic(capture: str, answer: Reply) -> dict[str, Any]:
    ends = answer.value
    last = None if ends is None or ends.last is None else ends.last._asdict()
    return {
        "capture": capture, "topic": None if ends is None else ends.name, "end": None if ends is None else ends.end,
        "last_end": last, "error": answer.error,
    }
