"""An instance alone: one process that follows logs, and is its own controller, of one replica in itself."""

from __future__ import annotations


from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.events import JobProgress, JobWait
from cdcv2.instances.commands import Command, CreateIndex
from cdcv2.instances.front import FrontTerms, InstanceFront
from cdcv2.instances.kept_times import KeptTimes
from cdcv2.instances.replicas import ReplicaSet
from cdcv2.instances.run.client_server import ClientServer
from cdcv2.instances.run.follower import LogFollower
from cdcv2.instances.run.line_loop import LineLoop
from cdcv2.instances.run.marker import MarkerWriter
from cdcv2.instances.run.place import InstancePlace
from cdcv2.logs.commit_clock import CommitClock, is_on_remap
from cdcv2.logs.named_logs import NamedLog

#: The names of its one index, and of its one replica.
_INDEX, _SELF = "main", "self"


class LoneInstance:
    """An instance over logs, with its tables by these columns. :meth:`read` first, then :meth:`serve`.

    ``history``: for how many seconds a time that was finished can be asked for; None: for ever. ``marker``: what
    commits markers for who waits. Raises UsageError for a table or column that is not there, and for a marker where
    times are no LSNs; RefusedError for a log without an identity.
    """

    def __init__(
        self, logs: Sequence[NamedLog], keys: Mapping[str, Sequence[str]], *, history: float | None = None,
        marker: MarkerWriter | None = None,
    ) -> None:
        self._follower = LogFollower(logs)
        tables = tuple(self._follower.source.table(name, key) for name, key in keys.items())
        index = CreateIndex(_INDEX, tables)
        terms = terms_of(logs, history, self._follower.clock, marker)
        self._front = InstanceFront(ReplicaSet("alone", [index]), index, terms)
        self._marker = marker
        self._loop = LineLoop()
        self._clients = ClientServer(self._loop, self._front, self._obey)
        self._clients.perform(self._front.connect(_SELF))

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is finished here."""
        return self._follower.source.instance.upper(_INDEX)

    def progress(self) -> JobProgress:
        """How far it is, for its events."""
        return progress_of(self._front, caught_up=self._follower.caught_up)

    def read(self, stopping: Callable[[], bool]) -> None:
        """Take in what the logs hold now, so that the first answer is not older than one of before a restart.

        Raises what reading the logs raises.
        """
        while not self._follower.caught_up and not stopping():
            self._look()

    def serve(self, place: InstancePlace, stopping: Callable[[], bool]) -> None:
        """Follow the logs, and answer clients at a place that listens, until it is to stop. Raises as :meth:`read`."""
        self._clients.open(place.listening)
        with closing(self._loop):
            while not stopping():
                if not self._follower.wait():
                    self._look()
                self._clients.keep_up()
                if self._marker is not None:
                    self._marker.look(self._front.awaited)
                self._loop.turn(self._follower.wait())

    def close(self) -> None:
        """Close the logs."""
        self._follower.close()

    def _look(self) -> None:
        for answer in self._follower.look():
            self._clients.perform(self._front.receive(_SELF, answer))

    def _obey(self, replica: str, command: Command) -> None:
        for answer in self._follower.source.instance.receive(command):
            self._clients.perform(self._front.receive(replica, answer))


def progress_of(front: InstanceFront, waits: Sequence[JobWait] = (), *, caught_up: bool) -> JobProgress:
    """How far what is behind a front is, for its events."""
    return JobProgress(front.upper.to_plain(), front.committed_at, waits, counts=front.waiting, caught_up=caught_up)


def terms_of(
    logs: Sequence[NamedLog], history: float | None, clock: CommitClock, marker: MarkerWriter | None
) -> FrontTerms:
    """What a front is to know of logs, and for how many seconds times are kept. Raises UsageError."""
    on_remap = any(is_on_remap(named.log) for named in logs[:1])
    if on_remap and marker is not None:
        raise UsageError(
            "the times of these logs are milliseconds, of a remap, which finish without commits: leave --marker out"
        )
    return FrontTerms(
        {named.table: named.row_type.schema for named in logs}, lambda upper: clock.at(list(upper)), on_remap,
        None if history is None else KeptTimes(history),
        marker=lambda: None if marker is None else marker.fault,
    )
