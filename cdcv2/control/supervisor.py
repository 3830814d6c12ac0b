"""Keeps jobs running: looks at each one, decides what follows, writes that down, and does it.

Jobs do not end with the supervisor (:mod:`cdcv2.control.job_folder`). Statuses are kept beside them, so that the next
supervisor goes on where this one was: what was held is held, and pauses go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from cdcv2.control.job_folder import JobFolder
from cdcv2.control.kept_value import keep, kept
from cdcv2.control.supervision import (
    PATIENCE, JobAct, JobObservation, JobRequest, JobState, JobStatus, decide, released,
)
from cdcv2.errors import Cdcv2Error, MalformedError, OutputError, UsageError
from cdcv2.failpoints import declare, reach

#: The file beside a job that has how it stands.
STATUS = "status.json"
_KEPT = declare("supervisor.status-kept", "what follows for a job is written down, and not done")


class JobPlan(NamedTuple):
    """A job that should run.

    - ``argv``: its command line, without any secret.
    - ``period``: how often it is due, in seconds; None: it always runs.
    - ``settings``: what else it depends on, by names for people: if one is another text, it is another job.
    - ``identity``: what of its command line changes what it does; None: all of it. The interpreter and how a path is
      spelled do not, so an upgrade into another environment starts no job again, and no held one.
    """

    name: str
    argv: tuple[str, ...]
    period: float | None = None
    settings: Mapping[str, str] = MappingProxyType({})
    identity: tuple[str, ...] | None = None

    @property
    def digest(self) -> str:
        """What it is known by."""
        return _digest([*self._known, *sorted(self.settings.items())])

    @property
    def parts(self) -> dict[str, str]:
        """Digests of what it is made of, by which a later plan finds what has changed."""
        return {"command line": _digest(self._known), **{name: _digest(text) for name, text in self.settings.items()}}

    @property
    def _known(self) -> tuple[str, ...]:
        return self.argv if self.identity is None else self.identity

    @property
    def request(self) -> JobRequest:
        """What is decided on."""
        return JobRequest(self.digest, self.period)

    def waiting(self, text: str | None) -> JobRequest:
        """The same, of a job that may not start before what the text names is there; None: it may."""
        return self.request._replace(waits=text)


def _digest(value: object) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:16]


class JobReport(NamedTuple):
    """A job, how it stands, and what was done with it in this turn.

    ``damage``: why its files cannot be read or written, or its program not be started; what the rest states is then
    only whether it is alive, and the damage. Where that cannot be found out, it is taken as alive.
    """

    name: str
    act: JobAct
    status: JobStatus
    observation: JobObservation
    damage: Cdcv2Error | None = None


class Supervisor:
    """Keeps jobs running whose folders are below ``folder``. ``clock`` gives seconds since 1970.

    One supervisor works there at a time, which the caller sees to. Should there be two for a moment, no job runs twice.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        # Since when a job was asked to end where that could not be written.
        self._asked: dict[str, float] = {}

    def turn(
        self, plans: Iterable[JobPlan], environment: Mapping[str, str] | None = None,
        waits: Callable[[str], str | None] = lambda job: None,
    ) -> list[JobReport]:
        """Look at every job once, those included that should not run any more, and do what follows.

        ``waits``: job -> what has to be there before it starts, in words; None: nothing. A job whose files are damaged
        is shown as held, and left alone, until they are mended; one whose program is not there, or whose files cannot
        be written, is tried again in the next turn. One whose command is new waits until the jobs that should not run
        any more have ended: it may be one of them under another name. Raises UsageError for two jobs of one name.
        """
        planned = _by_name(plans)
        reports = {name: self._turn(name, None, environment, None) for name in self.names() if name not in planned}
        ending = [name for name, report in reports.items() if report.observation.alive and report.damage is None]
        for name, plan in planned.items():
            reports[name] = self._turn(name, plan, environment, waits(name), ending)
        return [reports[name] for name in sorted(reports)]

    def names(self) -> list[str]:
        """The jobs that have a folder."""
        return sorted(path.name for path in self._folder.iterdir() if path.is_dir()) if self._folder.exists() else []

    def look(self) -> list[JobReport]:
        """How all jobs stand, with nothing done; for a reader beside the supervisor."""
        return [_seen(name, JobFolder(self._folder / name)) for name in self.names()]

    def job(self, name: str) -> JobFolder:
        """The folder of a job. Raises UsageError where there is no such job, with those that there are."""
        if name not in self.names():
            raise UsageError(f"there is no job {name!r}; there {_are(self.names())}")
        return JobFolder(self._folder / name)

    def release(self, name: str) -> bool:
        """Let a held job start again; whether it was held. Raises UsageError where there is no such job."""
        folder = self.job(name)
        status = _status(folder)
        if status.state is JobState.HELD:
            keep(folder.path / STATUS, released(status).to_plain())
        return status.state is JobState.HELD

    def _turn(
        self, name: str, plan: JobPlan | None, environment: Mapping[str, str] | None, waits: str | None,
        ending: Sequence[str] = (),
    ) -> JobReport:
        folder = JobFolder(self._folder / name)
        seen = _seen(name, folder)
        if plan is not None or not seen.observation.alive:
            self._asked.pop(name, None)
        if seen.damage is not None:
            return self._ended(seen, folder) if plan is None and seen.observation.alive else seen
        observation, before = seen.observation, seen.status
        if waits is None and ending and plan is not None and observation.command != plan.digest:
            waits = f"{ending[0]} to end: the file does not have it any more"
        act, status = decide(None if plan is None else plan.waiting(waits), before, observation, self._clock())
        try:
            if status != before:
                folder.make()
                keep(folder.path / STATUS, status.to_plain())
            reach(_KEPT)
            if act is JobAct.START and plan is not None:
                folder.start(plan.argv, status.run, plan.digest, environment, plan.parts)
        except OutputError as damage:
            return self._failed(JobReport(name, act, status, observation, damage), folder, plan)
        return _signalled(JobReport(name, act, status, observation), folder)

    def _failed(self, report: JobReport, folder: JobFolder, plan: JobPlan | None) -> JobReport:
        """A job of which something could not be written or started: others go on, and it is tried again."""
        status = report.status._replace(state=JobState.HELD, reason=str(report.damage), remedy=None)
        if report.act is JobAct.START:
            # The run that did not start is not counted, and the next turn starts it.
            status = status._replace(state=JobState.WAITING, run=status.run - 1, due=0.0)
            with suppress(OutputError):  # The report has the first error; an older status leads to the same start.
                keep(folder.path / STATUS, status.to_plain())
        elif plan is None and report.observation.alive:
            return self._ended(report._replace(status=status), folder)
        return report._replace(act=JobAct.NOTHING, status=status)

    def _ended(self, report: JobReport, folder: JobFolder) -> JobReport:
        """End a job of which nothing can be written: ask it once, and kill it when it has had its time."""
        now = self._clock()
        act = JobAct.NOTHING if report.name in self._asked else JobAct.STOP
        if now - self._asked.setdefault(report.name, now) >= PATIENCE:
            act = JobAct.KILL
        return _signalled(report._replace(act=act), folder)


def _signalled(report: JobReport, folder: JobFolder) -> JobReport:
    """The job is asked to end or killed, if the report has that."""
    try:
        if report.act is JobAct.STOP:
            folder.stop()
        elif report.act is JobAct.KILL:
            folder.kill()
    except OutputError as refused:
        held = report.status._replace(state=JobState.HELD, reason=str(refused), remedy=None)
        return report._replace(act=JobAct.NOTHING, status=held, damage=refused)
    return report


def _seen(name: str, folder: JobFolder) -> JobReport:
    """A job as it stands, with nothing done."""
    try:
        return JobReport(name, JobAct.NOTHING, _status(folder), folder.observe())
    except (MalformedError, OutputError) as damage:
        # One job's files are no reason to leave the others alone.
        held = JobStatus(JobState.HELD, reason=str(damage))
        return JobReport(name, JobAct.NOTHING, held, JobObservation(_may_be_alive(folder)), damage)


def _may_be_alive(folder: JobFolder) -> bool:
    try:
        return folder.alive()
    except OutputError:
        return True


def _by_name(plans: Iterable[JobPlan]) -> dict[str, JobPlan]:
    planned: dict[str, JobPlan] = {}
    for plan in plans:
        if plan.name in planned:
            raise UsageError(f"two jobs have the name {plan.name!r}: give each its own")
        planned[plan.name] = plan
    return planned


def _are(names: list[str]) -> str:
    return f"are {', '.join(names)}" if names else "is none yet: start them with cdcv2 up"


def _status(folder: JobFolder) -> JobStatus:
    plain = kept(folder.path / STATUS)
    return JobStatus() if plain is None else JobStatus.from_plain(plain)
