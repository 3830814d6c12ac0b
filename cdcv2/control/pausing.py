"""One job of a pipeline is ended, and kept from being started, while the others go on: until it is resumed.

What is wanted is a file of the job's folder, which its supervisor reads: so it holds beside a ``cdcv2 up`` that runs,
through its end, and for the next one. Who only wants a job away for a moment pauses and resumes it in a block.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from cdcv2.control.job_folder import JobFolder
from cdcv2.control.kept_value import kept
from cdcv2.control.owner import is_owned, is_running
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_jobs import folder_of, jobs_of
from cdcv2.control.supervision import JobState
from cdcv2.control.supervisor import STATUS
from cdcv2.errors import RefusedError, UsageError
from cdcv2.suggestions import meant

#: Seconds between two looks.
_LOOK = 0.1
#: Of a job that the file got later.
STRANGE = "cdcv2 up that runs does not have it. It has the file as it was: end it, and start it again"
#: Seconds in which a supervisor looks at each of its jobs, which it does every half second.
_TURNS = 3.0


def job_of(pipeline: Pipeline, name: str) -> JobFolder:
    """The folder of a job of the file. Raises UsageError, with those that there are, where it has none of this name."""
    names = [plan.name for plan in jobs_of(pipeline)]
    if name not in names:
        raise UsageError(f"{pipeline.path}: there is no job {name!r}; there are {', '.join(names)}{meant(name, names)}")
    return JobFolder(folder_of(pipeline) / name)


def pause(pipeline: Pipeline, job: JobFolder, by: str, patience: float) -> bool:
    """Pause it, and wait for its end, politely; whether it has ended within so many seconds. It stays paused.

    Where no ``cdcv2 up`` runs, it is asked to end here. Raises RefusedError where it is a part of a ``cdcv2 run``,
    OutputError where that it is paused cannot be written.
    """
    _demand_alone(pipeline, job)
    job.pause(by)
    return end(pipeline, job, patience)


def _demand_alone(pipeline: Pipeline, job: JobFolder) -> None:
    if is_running(pipeline.state) and not (job.alive() or is_owned(pipeline.state)):
        raise RefusedError(
            f"{job.path.name} is a part of the cdcv2 run that is at work, which has no job that ends alone: end that "
            f"one; or use cdcv2 up {pipeline.path}"
        )


def end(pipeline: Pipeline, job: JobFolder, patience: float) -> bool:
    """Wait for its end, politely, and ask it to end where no ``cdcv2 up`` does; whether it has ended in time."""
    begun, asked = time.monotonic(), False
    while not _is_down(pipeline, job, time.monotonic() - begun):
        if time.monotonic() > begun + patience:
            return False
        if not asked and not is_owned(pipeline.state):
            job.stop()
            asked = True
        time.sleep(_LOOK)
    return True


def _is_down(pipeline: Pipeline, job: JobFolder, waited: float) -> bool:
    """Whether it has ended, and no supervisor is about to start it."""
    if job.alive():
        return False
    # A supervisor that has not seen the pause yet may start it at this moment.
    state = state_of(job)
    known = state not in (None, JobState.IDLE.value)
    return not is_owned(pipeline.state) or state == JobState.PAUSED.value or (not known and waited >= _TURNS)


def is_strange(pipeline: Pipeline, job: JobFolder) -> bool:
    """Whether a ``cdcv2 up`` runs that does not have it: the file got it later. Asked of one that does not run."""
    return is_owned(pipeline.state) and state_of(job) in (None, JobState.IDLE.value)


def state_of(job: JobFolder) -> str | None:
    """How its supervisor left it; None: none has looked at it."""
    status = kept(job.path / STATUS)
    return None if status is None else status.get("state")


@contextmanager
def paused(pipeline: Pipeline, name: str, by: str, patience: float) -> Iterator[bool]:
    """Within the block the job does not run; whether it was paused for that. One that was paused before stays so,
    and one that another pauses meanwhile.

    Raises RefusedError where it does not end in time.
    """
    job = job_of(pipeline, name)
    if job.paused() is not None or not (job.alive() or is_owned(pipeline.state)):
        yield False
        return
    try:
        if not pause(pipeline, job, by, patience):
            raise RefusedError(
                f"the job {name} does not end: see its output, {job.output}; then try again, or end it with cdcv2 "
                f"pause {pipeline.path} {name}"
            )
        yield True
    finally:
        job.resume(by)
