"""How the jobs of a pipeline stand: one row for each, made of its status and of the events that it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cdcv2.completeness import through_text
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.owner import is_owned, owner
from cdcv2.control.pipeline_file import Pipeline
from cdcv2.control.pipeline_jobs import folder_of, jobs_of
from cdcv2.control.supervision import JobState, JobStatus
from cdcv2.control.supervisor import Supervisor


class JobRow(NamedTuple):
    """A job, for people and programs.

    - ``kind``: ``capture``, ``view``, or ``left`` for one that the file does not have any more.
    - ``state``, ``since``: see :class:`~cdcv2.control.supervision.JobStatus`; ``alive``: whether a process of it runs.
    - ``frontier``: how far it is, as its newest event states; None: it has not stated anything yet.
    - ``committed_at``: when the source committed what the frontier completes last, in seconds since 1970, if known.
    - ``event_at``: when the newest event was written.
    - ``waits``: what it waits for.
    - ``output``: the file with what it prints.
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

    @property
    def through(self) -> str:
        """How far it is, in words."""
        return "nothing complete yet" if self.frontier is None else through_text(self.frontier)


class PipelineStatus(NamedTuple):
    """All jobs of a pipeline, and the process that keeps them running (None: no process does)."""

    pipeline: str
    owner: str | None
    jobs: list[JobRow]

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"pipeline": self.pipeline, "owner": self.owner, "jobs": [row._asdict() for row in self.jobs]}

    @property
    def well(self) -> bool:
        """Whether every job that should run does, or has finished, and a process keeps them running."""
        states = {row.state for row in self.jobs if row.kind != "left"}
        return self.owner is not None and states <= {JobState.RUNNING.value, JobState.FINISHED.value}


def status_of(pipeline: Pipeline) -> PipelineStatus:
    """How the jobs stand now; looks only. Raises MalformedError for damaged files."""
    supervisor = Supervisor(folder_of(pipeline))
    reports = {report.name: report for report in supervisor.look()}
    kinds = {**dict.fromkeys(pipeline.captures, "capture"), **dict.fromkeys(pipeline.views, "view")}
    planned = [plan.name for plan in jobs_of(pipeline)]
    rows = []
    for name in [*planned, *(name for name in reports if name not in planned)]:
        report, folder = reports.get(name), JobFolder(folder_of(pipeline) / name)
        if report is None:
            rows.append(_row(name, kinds[name], JobStatus(), False, {}, folder))
            continue
        if name not in planned and not report.sight.alive:
            continue
        status = report.status
        if status.state is JobState.RUNNING and not report.sight.alive:
            # No supervisor has looked since it ended.
            reason = None if report.sight.end is None else report.sight.end.reason
            status = status._replace(state=JobState.WAITING, reason=reason or "it ended, and was not started again yet")
        event = folder.last_progress() or {}
        rows.append(_row(name, kinds.get(name, "left"), status, report.sight.alive, event, folder))
    kept_by = owner(pipeline.state) if is_owned(pipeline.state) else None
    return PipelineStatus(pipeline.name, None if kept_by is None else kept_by.text(), rows)


def _row(
    name: str, kind: str, status: JobStatus, alive: bool, event: Mapping[str, Any], folder: JobFolder
) -> JobRow:
    return JobRow(
        name, kind, status.state.value, status.since, alive, status.run, event.get("frontier"),
        event.get("committed_at"), event.get("at"), list(event.get("waits") or []), status.reason, status.remedy,
        str(folder.output),
    )  # fmt: skip
