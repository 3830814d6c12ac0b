"""Whether a job is started, stopped, tried again or held: decided on what is seen of it, with no process and no clock.

A job is a program that should run: a capture, a materialization, or something that is due from time to time. What is
seen of it is whether it is alive, how far it is, and what it reported when it ended
(:mod:`cdcv2.retries` states which ends are tried again):

============================== ====================================================================================
how it ended                   what follows
============================== ====================================================================================
``never``                      it is held: a retry can only fail again, or do damage
``mended``                     it is tried again, more and more seldom: somebody has to mend something first
``now``, or without a report   it is tried again soon; after :data:`DEATHS` such ends without progress it is held,
                               each within :data:`SETTLED` seconds from its start
it had nothing left to do      it is finished
it is due from time to time    with a result, whatever that is, it runs again when it is due; else as above
a person paused it             it is ended, and starts again when it is resumed
============================== ====================================================================================

A held job starts again when its command is another one, or when it is released by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.exits import Exit
from cdcv2.retries import Retry

#: So many ends in a row without progress, each of which may be tried again at once, and a job is held.
DEATHS = 5
#: A run that lives for so many seconds is as good as progress: a job of an idle source makes none, and dies some day.
SETTLED = 600.0
#: Seconds until the first retry, and the most: of what may be tried again now, and of what has to be mended first.
SOON, SOON_AT_MOST = 1.0, 60.0
MENDED, MENDED_AT_MOST = 5.0, 300.0
#: Types of the fields of a status that are no texts.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "since": (int, float), "due": (int, float), "run": (int,), "deaths": (int,), "attempts": (int,),
}  # fmt: skip
#: Exit codes that are a result, of one that is due from time to time: it did its work, and this is what it found.
RESULTS = (Exit.DONE, Exit.MISSING, Exit.WRONG)
#: Seconds from the polite request to end until SIGKILL. A kill loses nothing, but working time.
PATIENCE = 60.0


class JobState(StrEnum):
    """How a job stands."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING = "waiting"
    HELD = "held"
    FINISHED = "finished"
    PAUSED = "paused"


class JobAct(StrEnum):
    """What the supervisor does next with a job."""

    NOTHING = "nothing"
    START = "start"
    STOP = "stop"
    KILL = "kill"


class JobRequest(NamedTuple):
    """A job that should run.

    - ``command``: a digest of its command line; another one is another job under the same name.
    - ``period``: None for a job that always runs; else it is due again so many seconds after its last end.
    - ``waits``: what has to be there before it starts, in words; None: nothing. One that runs waits for nothing.
    """

    command: str
    period: float | None = None
    waits: str | None = None


class JobEnd(NamedTuple):
    """How a run ended, as it reported: see the ``end`` event of ``--events``.

    ``finished``: it ended since nothing can ever come any more.
    """

    exit: int
    retry: Retry
    reason: str | None = None
    remedy: str | None = None
    finished: bool = False


class JobObservation(NamedTuple):
    """What is seen of a job.

    - ``run``, ``command``: the number of its last run, and the digest of that run's command; 0 and None: it never ran.
    - ``end``: how its last run ended; None: it runs, or it was killed and could not report.
    - ``progress``: its frontier, as JSON; None: not known.
    - ``parts``: digests of the parts of the file of which that run's command was made, by their names.
    - ``paused``: who paused it, in words; None: it is not paused.
    - ``caught_up``: its last run has stated that it had done all that there was to do.
    """

    alive: bool
    run: int = 0
    command: str | None = None
    end: JobEnd | None = None
    progress: str | None = None
    parts: Mapping[str, str] = MappingProxyType({})
    paused: str | None = None
    caught_up: bool = False


class JobStatus(NamedTuple):
    """How a job stands, as it is kept over restarts of the supervisor.

    - ``since``: from when on it has been in this state, in seconds since 1970.
    - ``run``, ``command``: the number of the run that was started last, and the digest of its command.
    - ``deaths``: the ends without progress, in a row, that were tried again at once.
    - ``attempts``: the retries in a row, for the time until the next one.
    - ``due``: when it is started again.
    - ``progress``: how far it was at most, since its work was begun.
    - ``least``, ``least_before``: the least that its last run stated, but for nothing, and the run before.
    - ``reason``, ``remedy``: why it waits or is held, and what to do; of one that runs: why it ended last, as long as
      that counts (see :func:`judged`).
    - ``waits``: what has to be there before its next start; None: nothing.
    """

    state: JobState = JobState.IDLE
    since: float = 0.0
    run: int = 0
    command: str | None = None
    deaths: int = 0
    attempts: int = 0
    due: float = 0.0
    progress: str | None = None
    reason: str | None = None
    remedy: str | None = None
    waits: str | None = None
    least: str | None = None
    least_before: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**self._asdict(), "state": self.state.value}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> JobStatus:
        """The status that :meth:`to_plain` gave. Raises MalformedError for anything else."""
        try:
            status = cls(**{**plain, "state": JobState(plain["state"])})
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedError(f"{plain!r} is no status of a job: {error}") from error
        for name, value in status._asdict().items():
            if name != "state" and type(value) not in _TYPES.get(name, (str, type(None))):
                raise MalformedError(f"{plain!r} is no status of a job: {name} is {value!r}")
        return status


def decide(request: JobRequest | None, status: JobStatus, seen: JobObservation, now: float) -> tuple[JobAct, JobStatus]:
    """What to do with a job, and how it stands then. ``request`` None: it should not run (any more).

    The act is done *after* the status is kept. A supervisor that dies between the two has kept a start that did not
    happen. The next one sees it by the number of the run, and starts that run.

    >>> decide(JobRequest("c1"), JobStatus(), JobObservation(alive=False), now=10.0)[0].value
    'start'
    >>> held = JobEnd(4, Retry.NEVER, "a second snapshot")
    >>> act, status = decide(
    ...     JobRequest("c1"), JobStatus(JobState.RUNNING, run=1, command="c1"),
    ...     JobObservation(False, 1, "c1", held), now=11.0,
    ... )
    >>> act.value, status.state.value, status.reason
    ('nothing', 'held', 'a second snapshot')
    """
    status = _set_back(status, request, now)
    act, after = _decided(request, status._replace(waits=None), seen, now)
    if act is JobAct.START and request is not None and request.waits is not None:
        # What follows the end of a run is kept, and a command that changed is seen again by the old one.
        ended = status.state in (JobState.RUNNING, JobState.STOPPING) and seen.run >= status.run
        rest = _ended(request, status, seen, now) if ended else status
        return JobAct.NOTHING, _entered(rest._replace(state=JobState.WAITING, waits=request.waits), status, now)
    return act, after


def _set_back(status: JobStatus, request: JobRequest | None, now: float) -> JobStatus:
    """The status without times that only a clock that went wrong can have given it."""
    longest = max(MENDED_AT_MOST, 0.0 if request is None or request.period is None else request.period)
    since = min(status.since, now) if status.state is JobState.STOPPING else status.since
    return status._replace(due=min(status.due, now + longest), since=since)


def _decided(
    request: JobRequest | None, status: JobStatus, seen: JobObservation, now: float
) -> tuple[JobAct, JobStatus]:
    """What to do with a job that may start at any time."""
    if seen.alive:
        return _alive(request if seen.paused is None else None, status, seen, now)
    if request is not None and seen.paused is not None:
        # Which command it is does not matter any more: it starts with that of the file when it is resumed.
        paused = JobStatus(JobState.PAUSED, run=status.run, command=request.command, reason=seen.paused)
        return JobAct.NOTHING, _entered(paused, status, now)
    if request is None:
        return JobAct.NOTHING, _entered(JobStatus(run=status.run, command=status.command), status, now)
    if status.state is JobState.RUNNING and seen.run < status.run:
        return JobAct.START, status._replace(command=request.command)
    if status.state in (JobState.RUNNING, JobState.STOPPING):
        status = _ended(request, status, seen, now)
    changed = status.command is not None and status.command != request.command
    resting = status.state in (JobState.HELD, JobState.FINISHED)
    if changed or status.state is JobState.IDLE or (not resting and now >= status.due):
        base = JobStatus(run=status.run) if changed or status.state is JobState.PAUSED else status
        return JobAct.START, _started(request, base, seen, now)
    return JobAct.NOTHING, status


def released(status: JobStatus) -> JobStatus:
    """The status of a job that a person released: it starts, as if nothing had happened to it."""
    return JobStatus(run=status.run, command=status.command)


def _alive(
    request: JobRequest | None, status: JobStatus, seen: JobObservation, now: float
) -> tuple[JobAct, JobStatus]:
    if request is not None and seen.command == request.command and status.state is not JobState.STOPPING:
        running = judged(status, seen, now, timer=request.period is not None)
        running = running._replace(state=JobState.RUNNING, run=seen.run, command=seen.command)
        return JobAct.NOTHING, _entered(running, status, now)
    if status.state is not JobState.STOPPING:
        return JobAct.STOP, status._replace(
            state=JobState.STOPPING, since=now, run=seen.run, command=seen.command
        )
    return (JobAct.KILL if now - status.since >= PATIENCE else JobAct.NOTHING), status


def _ended(request: JobRequest, status: JobStatus, seen: JobObservation, now: float) -> JobStatus:
    """How a job stands whose run has ended."""
    end = seen.end
    if status.state is JobState.STOPPING:
        return JobStatus(since=now, run=status.run, command=status.command, progress=_furthest(seen, status))
    quiet = _measured(status, seen)._replace(since=now, reason=None, remedy=None)
    if now - status.since >= SETTLED:
        quiet = quiet._replace(deaths=0, attempts=0)
    if request.period is not None and end is not None and end.exit in RESULTS:
        found = (None, None) if end.exit == Exit.DONE else (_reason(end), end.remedy)
        return quiet._replace(
            state=JobState.WAITING, deaths=0, attempts=0, due=now + request.period, reason=found[0], remedy=found[1],
        )
    if end is not None and end.exit == Exit.DONE and end.finished:
        return quiet._replace(state=JobState.FINISHED, deaths=0, attempts=0)
    quiet = quiet._replace(
        reason=_reason(end), remedy=None if end is None else end.remedy, attempts=quiet.attempts + 1
    )
    if end is not None and end.retry is Retry.NEVER:
        return quiet._replace(state=JobState.HELD)
    if end is not None and end.retry is Retry.MENDED:
        pause = min(MENDED * 2 ** min(quiet.attempts - 1, 30), MENDED_AT_MOST)
        return quiet._replace(state=JobState.WAITING, due=now + pause)
    deaths = quiet.deaths + 1
    if deaths >= DEATHS:
        text = f"it ended {deaths} times without progress; the last time: {quiet.reason}"
        return quiet._replace(state=JobState.HELD, deaths=deaths, reason=text)
    pause = min(SOON * 2 ** min(quiet.attempts - 1, 30), SOON_AT_MOST)
    return quiet._replace(state=JobState.WAITING, deaths=deaths, due=now + pause)


def _reason(end: JobEnd | None) -> str:
    if end is None:
        return "it was killed, or could not report how it ended"
    return end.reason or f"it ended with exit code {end.exit}"


def _started(request: JobRequest, status: JobStatus, seen: JobObservation, now: float) -> JobStatus:
    if request.period is None and status.deaths == status.attempts == 1:
        # One end that may be tried again at once, as a kill: nothing has to be mended, unless it comes again.
        status = status._replace(reason=None, remedy=None)
    return status._replace(
        state=JobState.RUNNING, since=now, run=status.run + 1, command=request.command, due=0.0,
        progress=_furthest(seen, status), least=None, least_before=status.least or status.least_before,
    )


def judged(status: JobStatus, seen: JobObservation, now: float, *, timer: bool) -> JobStatus:
    """How a job stands that runs, by what is seen of it.

    The reason of its last end counts until it has come further, or has done all that there was to do, or has lived for
    :data:`SETTLED` seconds: not every job can state that it has done all, and its source may be idle. What a timer has
    found counts until its next run has ended: only that finds it again, or not.
    """
    before, status = status, _measured(status, seen)
    if timer:
        return status._replace(reason=before.reason, remedy=before.remedy)
    settled = status.state is JobState.RUNNING and now - status.since >= SETTLED
    return status._replace(reason=None, remedy=None) if seen.caught_up or settled else status


def moved_at(events: Iterable[Mapping[str, Any]]) -> float | None:
    """When a job came further last, in seconds since 1970, by its events, oldest first; None: not known.

    What a new run states until it is where the last one was is no move.
    """
    moved, before, status = None, None, JobStatus()
    for event in events:
        if event.get("event") == "start":
            status = status._replace(least=None, least_before=status.least or status.least_before)
        if event.get("frontier") is not None:
            # As if it had ended once: where no end counts any more, it came further.
            after = _measured(status._replace(deaths=1), JobObservation(True, progress=json.dumps(event["frontier"])))
            if not after.deaths and event["frontier"] != before:
                moved = event.get("at")
            before, status = event["frontier"], after
    return moved


def _furthest(seen: JobObservation, status: JobStatus) -> str | None:
    return seen.progress if _is_further(seen.progress, status.progress) else status.progress


def _measured(status: JobStatus, seen: JobObservation) -> JobStatus:
    """The status with how far the job is now. Where it has come further, its ends until now count no more.

    Its work may have been begun again, far below of where it was: so what is further than the least of this run counts,
    too. But a run that begins where the last one began does the same once more.
    """
    new, least = seen.progress, status.least
    if new is None:
        return status
    began_elsewhere = least is not None and least != status.least_before
    if _is_further(new, status.progress) or (began_elsewhere and _is_further(new, least)):
        status = status._replace(progress=new, deaths=0, attempts=0, reason=None, remedy=None)
    lower = least is None or _is_further(least, new)
    return status._replace(least=new) if lower and not _is_nothing(new) else status


def _is_nothing(progress: str) -> bool:
    """Whether nothing is done up to this frontier: a job states it while it starts."""
    times = json.loads(progress)
    return bool(times) and not any(any(time) if isinstance(time, list) else time for time in times)


def _is_further(new: str | None, old: str | None) -> bool:
    """Whether a frontier is further than another: a job that starts states less than it has already.

    Frontiers of other kinds of times cannot be compared: then it is another work, and counts.
    """
    if new is None or old is None or new == old:
        return new is not None and new != old
    before, after = (Antichain.from_plain(json.loads(one)) for one in (old, new))
    try:
        return not before.dominates(after)
    except MalformedError:
        return True


def _entered(new: JobStatus, old: JobStatus, now: float) -> JobStatus:
    """The new status, in its state since now unless it was in it before."""
    return new._replace(since=old.since if new.state is old.state else now)
