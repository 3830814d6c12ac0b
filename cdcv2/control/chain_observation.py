"""What was observed of the way of a table's rows, from its database to a target or an instance.

Values alone: :mod:`cdcv2.control.explanation` makes them, and :mod:`cdcv2.control.chain` decides on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from cdcv2.control.lost_state import MissingState
from cdcv2.control.parallel_requests import NOT_ASKED, Reply
from cdcv2.control.pipeline_status import JobRow


class LogObservation(NamedTuple):
    """The logs of a capture: the frontier up to which all are stated, when the last of them was written, and what is
    kept beside them that ends them for good: reason and remedy. ``error``: why they cannot be read.
    """

    name: str
    frontier: list[Any] | None = None
    moved_at: float | None = None
    stop: tuple[str, str] | None = None
    error: str | None = None


class JobActivity(NamedTuple):
    """A job: its row, when its frontier moved last, and when it has printed something last."""

    row: JobRow
    moved_at: float | None = None
    printed_at: float | None = None


class InstanceObservation(NamedTuple):
    """An instance: where clients ask it, why they cannot be answered there, its controller, and its replicas."""

    place: str
    fault: str | None
    controller: JobActivity
    replicas: tuple[JobActivity, ...] = ()


class LockWait(NamedTuple):
    """That a session of ours waits for a lock, in words; ``holder``: the process of PostgreSQL that holds it."""

    text: str
    holder: int


class ChainObservation(NamedTuple):
    """What was seen of the way to one table or target. None, and :data:`NOT_ASKED`: it is no part of the way, or the
    file does not name it.

    ``file``: the pipeline file, for commands. ``login``: the file with the login at Connect. ``blocked``: who holds a
    lock that the target's session waits for.
    ``captured``: the LSN through which the logs were complete before the database was looked at, if times are LSNs.
    ``beat_at``: when the connector wrote its last heartbeat; ``beat_every``: the seconds between two of them, as it is
    configured, 0 without them. None: that is not known. ``lost``: what the way passes in other systems, and is lost;
    ``changed``: the same, of what others have changed. ``made_by_up``: cdcv2 up makes the connector; ``owed``: what it
    could not make on the way yet; ``moved``: what the server that answers now does not have, as it is another one;
    ``of_reader``: of these three, what the reader needs. ``kept``: a cdcv2 up keeps the jobs running, so no second one
    can be started; ``hangs``: that it does nothing, in words, and what to do.
    ``disk``: why no job can state anything, as nothing can be written in the state folder.
    """

    file: str
    now: float
    source: str | None = None
    slot: str | None = None
    url: str | None = None
    database: Reply = NOT_ASKED
    connector: Reply = NOT_ASKED
    topics: Reply = NOT_ASKED
    capture: JobActivity | None = None
    log: LogObservation | None = None
    view: JobActivity | None = None
    target: Reply = NOT_ASKED
    blocked: LockWait | None = None
    connector_name: str = ""
    captured: int | None = None
    beat_at: float | None = None
    beat_every: float | None = None
    instance: InstanceObservation | None = None
    lost: tuple[MissingState, ...] = ()
    changed: tuple[MissingState, ...] = ()
    login: Path | None = None
    made_by_up: bool = False
    owed: tuple[MissingState, ...] = ()
    kept: bool = False
    moved: tuple[MissingState, ...] = ()
    of_reader: tuple[MissingState, ...] = ()
    hangs: str | None = None
    disk: str | None = None

    @property
    def without_kafka(self) -> bool:
        """Whether Kafka does not answer."""
        return self.topics.away
