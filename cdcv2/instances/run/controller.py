"""The controller of replicas: it keeps them at work, and answers clients with what the first of them responds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.errors import ConversationError, MalformedError
from cdcv2.events import JobProgress, JobWait
from cdcv2.instances.commands import ANSWERS, Command
from cdcv2.instances.front import InstanceFront
from cdcv2.instances.replicas import ReplicaSet
from cdcv2.instances.run.alone import progress_of, terms_of
from cdcv2.instances.run.client_server import ClientServer
from cdcv2.instances.run.forms import indexed_table
from cdcv2.instances.run.index_catalogue import IndexCatalogue
from cdcv2.instances.run.line_loop import LineConnection, LineLoop
from cdcv2.instances.run.marker import MarkerWriter
from cdcv2.instances.run.place import InstancePlace
from cdcv2.instances.run.silence import silence_text
from cdcv2.instances.wire import BEAT, decode, encode
from cdcv2.logs.commit_clock import CommitClock
from cdcv2.logs.named_logs import NamedLog

#: Seconds between two tries to connect to a replica.
_PAUSE = 0.1
#: Bytes that may wait for a replica: with more, it is lost, and gets the reduced history when it is there again.
_MUCH = 64 << 20
#: Seconds that the loop waits at most.
_TURN = 0.1
#: Seconds between two beats, and those after which a replica that has not answered one is named.
_BEAT, _SILENCE = 1.0, 5.0
#: Seconds for which a beat that is not answered is of no account.
_MOMENT = 1.0
_BEAT_LINE = BEAT.encode()


class ReplicaController:
    """The replicas at some places, over the logs that they read. ``report`` is given a line for people about each.

    ``history``: for how many seconds a time that was finished can be asked for; None: for ever. ``marker``: what
    commits markers for who waits. The logs are not read;
    what they state of themselves is. Raises UsageError for a table or column that is not there, RefusedError for a log
    without an identity, and what the catalogue raises.
    """

    def __init__(
        self, logs: Sequence[NamedLog], keys: Mapping[str, Sequence[str]], places: Sequence[Path],
        catalogue: IndexCatalogue, report: Callable[[str], object], *, history: float | None,
        marker: MarkerWriter | None = None,
    ) -> None:
        self._catalogue, self._report = catalogue, report
        index = catalogue.index_of(tuple(indexed_table(logs, name, key) for name, key in keys.items()))
        self._replicas = ReplicaSet(str(catalogue.epoch), [index])
        terms = terms_of(logs, history, CommitClock([named.log for named in logs]), marker)
        self._marker = marker
        self._front = InstanceFront(self._replicas, index, replace(
            terms, silent=self._silent, asked=self._unanswered, faults=lambda: self._faults
        ))  # fmt: skip
        self._loop = LineLoop()
        self._clients = ClientServer(self._loop, self._front, self._send, self._keep)
        self._places = list(places)
        self._connections: dict[str, LineConnection] = {}
        # Those that have responded; and for the others the reasons that were reported.
        self._responding: set[str] = set()
        self._reported: dict[str, set[str]] = {}
        # Replica -> why it does not take its commands, as it stated it itself.
        self._faults: dict[str, str] = {}
        self._tried = self._beaten = 0.0
        # Replica -> since when it has not answered a beat; and those that were reported for it.
        self._asked: dict[str, float] = {}
        self._hanging: set[str] = set()

    def serve(self, place: InstancePlace, stopping: Callable[[], bool]) -> None:
        """Answer clients at a place that listens, until it is to stop. Raises FencedError, OutputError."""
        self._clients.open(place.listening)
        with closing(self._loop):
            while not stopping():
                self._connect()
                self._beat()
                self._clients.keep_up()
                if self._marker is not None:
                    self._marker.look(self._front.awaited)
                self._loop.turn(_TURN)

    def progress(self) -> JobProgress:
        """How far the furthest replica is, for its events, and which ones do not respond."""
        away = [str(place) for place in self._places if str(place) not in self._responding]
        waits = [JobWait("replica", f"the replica {name} does not respond", {"replica": name}) for name in away]
        waits += [
            JobWait("replica", f"the replica {silence_text({name: seconds})}", {"replica": name})
            for name, seconds in self._silent().items() if name not in away
        ]
        return progress_of(self._front, waits, caught_up=not waits)

    def _keep(self) -> None:
        """Before commands are sent: what they come to.

        A since that is all that was allowed stays, whatever is requested: then nothing is looked up.
        """
        if any(self._replicas.allowed(one.id) != Antichain([one.since]) for one in self._catalogue.indexes):
            self._catalogue.keep(self._replicas.indexes)

    def _beat(self) -> None:
        """Ask each replica whether it is at work; one question at a time, so nothing heaps up for one that hangs."""
        now = time.monotonic()
        if now < self._beaten + _BEAT:
            return
        self._beaten = now
        for name, connection in self._connections.items():
            if name not in self._asked:
                self._asked[name] = now
                connection.send(BEAT)
        for name, seconds in self._silent().items():
            if name not in self._hanging:
                self._hanging.add(name)
                self._report(f"{silence_text({name: seconds})}: it hangs, or is in one long step")

    def _silent(self) -> dict[str, float]:
        """The replicas that are connected and answer nothing, and for how many seconds."""
        return {name: seconds for name, seconds in self._unanswered().items() if seconds > _SILENCE}

    def _unanswered(self) -> dict[str, float]:
        """The same, also those that may answer yet; by name."""
        now = time.monotonic()
        least = min(_MOMENT, _SILENCE)
        return {name: round(now - since, 1) for name, since in sorted(self._asked.items()) if now - since > least}

    def _answered(self, name: str) -> None:
        self._asked.pop(name, None)
        if name in self._hanging:
            self._hanging.discard(name)
            self._report(f"{name} answers again")

    # -- connections --------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        now = time.monotonic()
        if now < self._tried + _PAUSE:
            return
        self._tried = now
        for path in self._places:
            name = str(path)
            if name not in self._connections:
                self._try(name, path)

    def _try(self, name: str, path: Path) -> None:
        try:
            connection = self._loop.connect(path)
        except OSError as error:
            self._lacks(name, "away", error.strerror or str(error))
            return
        self._connections[name] = connection
        connection.on_line = lambda line: self._received(name, line)
        connection.on_end = lambda: self._lost(name, "away", "it has ended its connection")
        self._clients.perform(self._front.connect(name))

    def _send(self, name: str, command: Command) -> None:
        connection = self._connections.get(name)
        if connection is not None:
            connection.send(encode(command))
            if connection.pending > _MUCH:
                self._lost(name, "slow", "it does not take its commands")

    def _received(self, name: str, line: bytes) -> None:
        self._answered(name)
        self._faults.pop(name, None)
        if line.rstrip() == _BEAT_LINE:
            return
        try:
            answer = decode(line)
            if not isinstance(answer, ANSWERS):
                raise MalformedError(f"{type(answer).__name__} is no response")
            output = self._front.receive(name, answer)
        except (MalformedError, ConversationError) as error:
            fault = _fault_in(line) or str(error)
            self._lost(name, fault, fault)
            return
        if name not in self._responding:
            self._responding.add(name)
            self._reported.pop(name, None)
            self._report(f"{name} responds")
        self._clients.perform(output)

    def _lost(self, name: str, kind: str, reason: str) -> None:
        """A replica is not there; what was requested stays with the others, or waits."""
        connection = self._connections.pop(name, None)
        if connection is not None:
            connection.end()
            self._front.disconnect(name)
        self._responding.discard(name)
        self._asked.pop(name, None)
        self._hanging.discard(name)
        self._lacks(name, kind, reason)

    def _lacks(self, name: str, kind: str, reason: str) -> None:
        """Reported once of each kind, that it is not there or its fault; then it is tried again and again."""
        if kind == reason:
            self._faults[name] = reason
        elif kind == "away":
            self._faults.pop(name, None)
        kinds = self._reported.setdefault(name, set())
        if kind not in kinds:
            kinds.add(kind)
            self._report(f"{name} does not respond ({reason}); it is tried until it does")


def _fault_in(line: bytes) -> str | None:
    """What the other side states to be wrong, where it is no message of a session."""
    try:
        return str(parse_json(line)["fault"])
    except (ValueError, LookupError, TypeError):
        return None
