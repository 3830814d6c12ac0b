"""An instance as one of several: it obeys the controller that connects, and keeps what it has when that one dies."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from cdcv2.errors import Cdcv2Error, ConversationError, MalformedError, UsageError
from cdcv2.events import JobProgress, JobWait
from cdcv2.instances.commands import COMMANDS, Answer, CreateIndex, Frontiers, InitializationComplete
from cdcv2.instances.run.follower import LogFollower
from cdcv2.instances.run.line_loop import LineConnection, LineLoop
from cdcv2.instances.run.place import InstancePlace
from cdcv2.instances.wire import BEAT, decode, encode
from cdcv2.logs.named_logs import NamedLog

#: Bytes that may wait for the controller: with more, nothing more is read.
_MUCH = 16 << 20
#: A beat of the controller, as it comes.
_BEAT = f"{BEAT}\n".encode()


class InstanceReplica:
    """An instance over logs whose indexes a controller states. ``report`` is given a line for people at each session.

    One controller at a time: another one is refused as long as the connection of the first lives. What a controller
    must not send ends its session, with the reason; the indexes stay. Raises what reading the logs raises.
    """

    def __init__(self, logs: Sequence[NamedLog], report: Callable[[str], object]) -> None:
        # So the first answer is not older than one of before a restart, as where an instance is alone.
        self._follower, self._report = LogFollower(logs, withhold=True), report
        self._source = self._follower.source
        self._loop = LineLoop()
        self._session: LineConnection | None = None
        # Why a session was ended, as it was reported last: its controller tries again and again.
        self._reported = ""

    def progress(self) -> JobProgress:
        """How far all of its indexes are, for its events, and whether it waits for its controller."""
        is_there, upper = bool(self._source.instance.indexes), self._follower.upper
        away = self._session is None or not self._session.is_open
        waits = [JobWait("controller", "its controller, which is not connected: start cdcv2 replicas")] if away else []
        caught_up = is_there and self._follower.caught_up
        return JobProgress(upper.to_plain() if is_there else None, waits=waits, caught_up=caught_up)

    def serve(self, place: InstancePlace, stopping: Callable[[], bool]) -> None:
        """Follow the logs and obey, at a place that listens, until it is to stop."""
        self._loop.listen(place.listening, self._arrived)
        with closing(self._loop):
            while not stopping():
                if not self._is_full() and not self._follower.wait():
                    self._send(self._follower.look())
                self._loop.turn(0.05 if self._is_full() else self._follower.wait())

    def close(self) -> None:
        """Close the logs."""
        self._follower.close()

    def _is_full(self) -> bool:
        return self._session is not None and self._session.pending > _MUCH

    def _arrived(self, stream: socket.socket) -> None:
        """It has a session from its first line on: one that sends nothing keeps no controller out."""
        connection = self._loop.add(stream)
        connection.on_line = lambda line: self._begin(connection, line)

    def _begin(self, connection: LineConnection, line: bytes) -> None:
        if self._session is not None and self._session.is_open:
            _refuse(connection, "another controller has this replica: end that one")
            return
        self._session = connection
        self._source.instance.connect()
        connection.on_line = lambda line: self._obey(connection, line)
        connection.on_end = self._left
        self._obey(connection, line)

    def _left(self) -> None:
        # Nothing is prepared for a session that is over.
        self._source.instance.connect()
        self._report("its controller has left; the indexes stay")

    def _obey(self, connection: LineConnection, line: bytes) -> None:
        if line == _BEAT:
            connection.send(BEAT)
            return
        try:
            command = decode(line)
            if not isinstance(command, COMMANDS):
                raise MalformedError(f"{type(command).__name__} is no command")
            if isinstance(command, CreateIndex):
                self._check(command)
            answers = self._source.instance.receive(command)
        except (MalformedError, ConversationError, UsageError) as error:
            self._end(connection, str(error))
            return
        if isinstance(command, InitializationComplete) and self._source.instance.reconciliation is not None:
            self._reported = ""
            self._report(f"a controller has connected: {self._source.instance.reconciliation.text}")
        self._send(answers)

    def _check(self, command: CreateIndex) -> None:
        """Raise MalformedError unless it is of the logs that are here."""
        for table in command.tables:
            try:
                there = self._source.table(table.name, table.key)
            except Cdcv2Error as cause:
                raise MalformedError(f"the index {command.id} cannot be made here: {cause}") from None
            if there != table:
                raise MalformedError(
                    f"the controller was started over the log {table.log} of {table.name}, and this replica over "
                    f"{there.log}: if the logs were made again meanwhile, start the older of the two again; otherwise "
                    "give both the same logs"
                )

    def _end(self, connection: LineConnection, reason: str) -> None:
        _refuse(connection, f"this is a replica, and obeys cdcv2 replicas alone: {reason}")
        connection.on_end = lambda: None
        self._session = None
        # What was sent of its history counts no more.
        self._source.instance.connect()
        if reason != self._reported:
            self._reported = reason
            self._report(f"a session was ended: {reason}")

    def _send(self, answers: list[Answer]) -> None:
        if self._session is not None:
            for answer in answers:
                if isinstance(answer, Frontiers):
                    answer = replace(answer, committed_at=self._follower.clock.at(list(answer.upper)))
                self._session.send(encode(answer))


def _refuse(connection: LineConnection, reason: str) -> None:
    connection.send(json.dumps({"fault": reason}))
    connection.finish()
