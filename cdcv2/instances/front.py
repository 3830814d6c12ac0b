"""What clients of an instance are answered: requests in, lines out. It has no clock and no connection.

Behind it is a :class:`~cdcv2.instances.replicas.ReplicaSet`: of one replica in the same process, or of several that are
processes. A client does not see which. Clients are known by numbers, one for each connection, which has one request.

The file is long because it is one state: each request, answer and lost replica may change what other clients are owed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import (
    LEAST, Answer, Command, CreateIndex, DroppedAt, Frontiers, Peek, PeekResponse, RowChange, Tail, TailResponse,
    is_finished, last_time,
)
from cdcv2.instances.kept_times import KeptTimes
from cdcv2.instances.replicas import Dispatch, ReplicaSet
from cdcv2.instances.requests import PeekRequest, StatusRequest, TailRequest, request_of
from cdcv2.protocol.log_identity import other_log_text

#: About so many letters of a batch are one line.
_PART = 250_000


@dataclass
class FrontOutput:
    """What is to be sent now: commands to replicas, lines to clients; ``over``: whose connections end behind them;
    ``more``: who is to be resumed as soon as it has taken them.
    """

    commands: list[tuple[str, Command]] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)
    over: list[int] = field(default_factory=list)
    more: list[int] = field(default_factory=list, repr=False)

    def add(self, other: FrontOutput) -> FrontOutput:
        """This, and then the other."""
        self.commands += other.commands
        self.lines += other.lines
        self.over += other.over
        self.more += other.more
        return self


@dataclass
class _Client:
    """A client that waits. ``time``: which one its peek is at. ``after``: up to where it was given its tail.

    ``rest``: the batch that it is given in parts, and ``given``: how many of its changes it has.
    """

    request: PeekRequest | TailRequest
    time: int | None = None
    after: Antichain = LEAST
    since: int = 0
    paused: bool = False
    rest: TailResponse | None = None
    given: int = 0


@dataclass(frozen=True)
class FrontTerms:
    """What the process around a front knows of its tables: their row types as JSON, and when times were committed.

    ``committed_at``: frontier -> seconds since 1970, or None. ``on_remap``: times are milliseconds, and no LSNs.
    ``kept``: for how long times are kept; None: for ever. ``silent``: replica -> for how many seconds it has not
    answered, of those that are connected and answer nothing; ``asked``: the same, also where it is too short to state
    that one is silent; ``faults``: replica -> why it ended its session. ``marker``: None, where no marker may be
    committed for who waits; why the last one could not be; or "".
    """

    types: Mapping[str, Any]
    committed_at: Callable[[Antichain], float | None] = lambda upper: None
    on_remap: bool = False
    kept: KeptTimes | None = None
    silent: Callable[[], Mapping[str, float]] = dict
    asked: Callable[[], Mapping[str, float]] = dict
    faults: Callable[[], Mapping[str, str]] = dict
    marker: Callable[[], str | None] = lambda: None


class InstanceFront:
    """All that is decided about clients; ``index`` is the one that they are answered from, and is in ``replicas``.

    >>> from cdcv2.instances.commands import IndexedTable
    >>> main = CreateIndex("main", (IndexedTable("orders", ("id",), "log-1"),))
    >>> front = InstanceFront(ReplicaSet("life-1", [main]), main, FrontTerms({"orders": {}}))
    >>> [type(command).__name__ for _, command in front.connect("one").commands]
    ['CreateInstance', 'CreateIndex', 'InitializationComplete']
    >>> front.request(7, PeekRequest("u1", {"orders": ((42,),)}).to_line())
    FrontOutput(commands=[], lines=[], over=[])
    >>> front.receive("one", Frontiers("main", Antichain([9]))).commands
    [('one', Peek(uuid='u1.1', id='main', keys={'orders': ((42,),)}, time=8))]
    >>> front.receive("one", PeekResponse("u1.1", {"orders": ((),)})).lines[0][1][:63]
    '{"rows": {"orders": [[]]}, "types": {"orders": {}}, "time": 8, '

    Raises ConversationError for what a replica must not send. Cost: constant per request and answer, but for those that
    wait until a first time is finished.
    """

    def __init__(self, replicas: ReplicaSet, index: CreateIndex, terms: FrontTerms) -> None:
        self._replicas, self._index, self._terms = replicas, index, terms
        self._keys = {table.name: table.key for table in index.tables}
        self._logs = {table.name: table.log for table in index.tables}
        self._identities = sorted(set(self._logs.values()))
        self._clients: dict[int, _Client] = {}
        self._numbers: dict[str, int] = {}
        # Those that wait until a first time is finished.
        self._unplaced: dict[int, None] = {}
        self._committed: tuple[Antichain, float | None] = (LEAST, None)

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is finished in the furthest replica."""
        return self._replicas.upper(self._index.id)

    @property
    def committed_at(self) -> float | None:
        """When what is finished was committed. The same frontier is looked up once."""
        if self._committed[0] != self.upper:
            found = self._terms.committed_at(self.upper)
            self._committed = self.upper, self._replicas.committed_at(self._index.id) if found is None else found
        return self._committed[1]

    @property
    def awaited(self) -> int | None:
        """The least time that a peek waits for, and that is not finished. Cost: a look at each client."""
        times = (there.time for there in self._clients.values() if isinstance(there.request, PeekRequest))
        return min((time for time in times if time is not None and not is_finished(time, self.upper)), default=None)

    @property
    def waiting(self) -> dict[str, int]:
        """How many peeks and tails live."""
        return dict(zip(("peeks", "tails"), self._replicas.waiting, strict=True))

    # -- replicas -----------------------------------------------------------------------------------------------

    def connect(self, replica: str) -> FrontOutput:
        """A replica has connected."""
        return self._passed(self._replicas.connect(replica))

    def disconnect(self, replica: str) -> None:
        """A replica is lost."""
        self._replicas.disconnect(replica)

    def receive(self, replica: str, answer: Answer) -> FrontOutput:
        """Take in a response of a replica."""
        return self._passed(self._replicas.receive(replica, answer))

    def keep_up(self, now: float) -> FrontOutput:
        """Let go of the times that are kept no longer; ``now``: seconds of any clock that does not go back."""
        if self._terms.kept is None:
            return FrontOutput()
        since = self._terms.kept.since(now, last_time(self.upper))
        allowed = self._replicas.allowed(self._index.id).integer
        if since is None or allowed is None or since <= allowed:
            return FrontOutput()
        return self._passed(self._replicas.allow(self._index.id, Antichain([since])))

    # -- clients ------------------------------------------------------------------------------------------------

    def request(self, client: int, line: bytes) -> FrontOutput:
        """A client has sent its request."""
        try:
            request = request_of(line)
            match request:
                case StatusRequest():
                    return _last(client, status=self._status())
                case PeekRequest():
                    self._check_peek(request)
                case TailRequest():
                    self._check_table(request.table)
                    if request.log is not None and request.log != self._logs[request.table]:
                        return _last(client, refused=self._other_log(request.table, request.log))
        except MalformedError as fault:
            return _last(client, fault=str(fault))
        out = self._taken_over(client, request)
        if client in self._clients:
            return out
        self._clients[client] = _Client(request)
        self._numbers[request.uuid] = client
        if isinstance(request, TailRequest):
            begun = {
                "upper": self.upper.to_plain(), "type": self._terms.types[request.table],
                "log": self._logs[request.table],
            }  # fmt: skip
            out.lines.append((client, json.dumps({"begun": begun})))
        return out.add(self._place(client))

    def leave(self, client: int) -> FrontOutput:
        """A client is not there any more: nothing is left of its request."""
        there = self._clients.get(client)
        if there is None:
            return FrontOutput()
        self._forget(client)
        uuid = there.request.uuid
        dispatch = (
            self._replicas.cancel(uuid) if isinstance(there.request, PeekRequest) else self._replicas.end_tail(uuid)
        )
        return FrontOutput(dispatch.commands)

    def pause(self, client: int) -> FrontOutput:
        """A client takes its tail slower than it comes: it goes on where it is at :meth:`resume`."""
        there = self._clients.get(client)
        if there is None or there.paused or not isinstance(there.request, TailRequest):
            return FrontOutput()
        there.paused = True
        return FrontOutput(self._replicas.end_tail(there.request.uuid).commands)

    def resume(self, client: int) -> FrontOutput:
        """A client has taken all that it was sent."""
        there = self._clients.get(client)
        if there is None or not there.paused:
            return FrontOutput()
        if there.rest is not None:
            return self._part(client, there, there.rest)
        there.paused = False
        return self._begin_tail(client, there)

    def _taken_over(self, client: int, request: PeekRequest | TailRequest) -> FrontOutput:
        """The client that has this uuid already: its connection broke, and the same request is continued here."""
        before = self._numbers.get(request.uuid)
        if before is None:
            return FrontOutput()
        there = self._clients[before]
        if isinstance(request, PeekRequest) and there.request == request and there.request.keys == request.keys:
            self._clients[client] = self._clients.pop(before)
            self._numbers[request.uuid] = client
            if before in self._unplaced:
                del self._unplaced[before]
                self._unplaced[client] = None
            out = FrontOutput()
        else:
            out = self.leave(before)
        return out.add(_last(before, refused="another connection repeats this request, and is answered"))

    def _check_peek(self, request: PeekRequest) -> None:
        for table, keys in request.keys.items():
            self._check_table(table)
            columns = self._keys[table]
            for key in keys:
                if len(key) != len(columns):
                    names = ", ".join(columns)
                    raise MalformedError(f"{table} is kept by the columns {names}, and the key has {len(key)} values")
        if request.lsn and self._terms.on_remap:
            raise MalformedError(
                "the times of these logs are milliseconds, of a remap, and no LSNs: give a time. cdcv2 when states at "
                "which time a record of a topic was"
            )

    def _check_table(self, table: str) -> None:
        if table not in self._keys:
            raise MalformedError(f"the table {table!r} is not kept here: there are {', '.join(sorted(self._keys))}")

    def _other_log(self, table: str, log: str) -> str:
        return other_log_text(
            f"the tail of {table}", log, self._logs[table], "Begin again without --after (after=)"
        )  # fmt: skip

    # -- requests -----------------------------------------------------------------------------------------------

    def _place(self, client: int) -> FrontOutput:
        """Request what a client waits for, at its time; one that needs a finished time waits for the first."""
        there = self._clients[client]
        last = MAX_TIME if not self.upper else last_time(self.upper)
        if isinstance(there.request, TailRequest):
            if there.request.since is None and there.request.after == LEAST and last is None:
                self._unplaced[client] = None
                return FrontOutput()
            return self._first_tail(client, there, last)
        time = there.request.at
        if time is None:
            least = there.request.least_over(self._identities)
            if last is None and not least:
                self._unplaced[client] = None
                return FrontOutput()
            # After a restart nothing may be reported yet, and what the client knows of may not be kept any more.
            time = max(last or 0, least, self._replicas.allowed(self._index.id).integer or 0)
        there.time = time
        refusal = self._refusal(time)
        if refusal is not None:
            self._forget(client)
            return _last(client, refused=refusal)
        return self._passed(self._replicas.peek(Peek(there.request.uuid, self._index.id, there.request.keys, time)))

    def _first_tail(self, client: int, there: _Client, last: int | None) -> FrontOutput:
        request = there.request
        allowed = self._replicas.allowed(self._index.id).integer or 0
        if not isinstance(request, TailRequest):
            return FrontOutput()
        # Of logs that have ended there is no time that is now.
        now = allowed if last in (None, MAX_TIME) else max(allowed, last or 0)
        there.since, there.after = now if request.since is None else request.since, request.after
        return self._begin_tail(client, there)

    def _begin_tail(self, client: int, there: _Client) -> FrontOutput:
        request = there.request
        if not isinstance(request, TailRequest):
            return FrontOutput()
        tail = Tail(request.uuid, self._index.id, request.table, there.after, there.since)
        refusal = self._refusal(tail.hold)
        if refusal is not None:
            self._forget(client)
            return _last(client, refused=refusal)
        return self._passed(self._replicas.tail(tail))

    def _refusal(self, time: int) -> str | None:
        """Why a time cannot be asked for; None: it can."""
        allowed = self._replicas.allowed(self._index.id).integer
        if allowed is None or time >= allowed:
            return None
        seconds = "" if self._terms.kept is None else f" for {self._terms.kept.seconds:g} seconds (--history)"
        return f"the time {time} is not kept any more: times are kept{seconds}, and by now from {allowed} on"

    # -- answers ------------------------------------------------------------------------------------------------

    def _passed(self, dispatch: Dispatch) -> FrontOutput:
        """What a dispatch comes to: its commands, and its answers as lines."""
        out = FrontOutput(list(dispatch.commands))
        for answer in dispatch.answers:
            match answer:
                case Frontiers():
                    placed, self._unplaced = self._unplaced, {}
                    for client in placed:
                        out.add(self._place(client))
                case PeekResponse():
                    out.add(self._peeked(answer))
                case TailResponse():
                    out.add(self._batch(answer))
                case DroppedAt():
                    out.add(self._dropped(answer))
        return out

    def _peeked(self, answer: PeekResponse) -> FrontOutput:
        client = self._numbers.get(answer.uuid)
        if client is None:
            return FrontOutput()
        there = self._forget(client)
        if answer.error is not None:
            return _last(client, fault=answer.error)
        return _last(
            client, rows=answer.rows, types={table: self._terms.types[table] for table in answer.rows},
            time=None if there.time == MAX_TIME else there.time, upper=self.upper.to_plain(),
            committed_at=self._committed_through(there.time), logs=self._identities,
        )

    def _committed_through(self, time: int | None) -> float | None:
        """When the last of what is at a time was committed: of an older time not that of what is finished by now."""
        last = last_time(self.upper)
        if time is None or last is None or time >= last:
            return self.committed_at
        return self._terms.committed_at(Antichain([time + 1]))

    def _batch(self, answer: TailResponse) -> FrontOutput:
        client = self._numbers.get(answer.uuid)
        if client is None:
            return FrontOutput()
        return self._part(client, self._clients[client], answer)

    def _part(self, client: int, there: _Client, answer: TailResponse) -> FrontOutput:
        """What a client is given next of a batch: all, or so much that others wait for a moment only.

        The upper is in the last part: who has lost its connection has nothing of the batch. Between two of them the
        tail is paused.
        """
        changes, end = _changes_text(answer.changes, there.given)
        if end < len(answer.changes):
            out = self.pause(client)
            there.rest, there.given = answer, end
            return out.add(FrontOutput(lines=[(client, f'{{"part": {changes}}}')], more=[client]))
        there.rest, there.given = None, 0
        there.after = answer.upper
        lower, upper = json.dumps(answer.lower.to_plain()), json.dumps(answer.upper.to_plain())
        committed_at = json.dumps(self._committed_through(last_time(answer.upper)))
        batch = f'{{"lower": {lower}, "upper": {upper}, "changes": {changes}}}'
        out = FrontOutput(lines=[(client, f'{{"batch": {batch}, "committed_at": {committed_at}}}')])
        if not answer.upper:
            self._forget(client)
            out.over.append(client)
        # If it was paused for the parts, it goes on as one does that was too slow.
        return out.add(self.resume(client))

    def _dropped(self, answer: DroppedAt) -> FrontOutput:
        client = self._numbers.get(answer.uuid)
        if client is None:
            return FrontOutput()
        self._forget(client)
        if not answer.frontier:
            return _last(client, ended=answer.reason)
        return _last(client, refused=answer.reason)

    def _status(self) -> dict[str, Any]:
        return {
            "upper": self.upper.to_plain(), "since": self._replicas.allowed(self._index.id).to_plain(),
            "tables": self._keys, "replicas": self._replicas.connected, "committed_at": self.committed_at,
            "silent": dict(self._terms.silent()), "asked": dict(self._terms.asked()), "marker": self._terms.marker(),
            "faults": dict(self._terms.faults()), **self.waiting,
        }  # fmt: skip

    def _forget(self, client: int) -> _Client:
        there = self._clients.pop(client)
        self._unplaced.pop(client, None)
        self._numbers.pop(there.request.uuid, None)
        return there


def _changes_text(changes: Sequence[RowChange], begin: int) -> tuple[str, int]:
    """Changes from one on as JSON, as many as are a part; and how many of all it is up to."""
    texts, size = list[str](), 0
    for change in islice(changes, begin, None):
        texts.append(json.dumps(change))
        size += len(texts[-1])
        if size >= _PART:
            break
    return f"[{', '.join(texts)}]", begin + len(texts)


def _last(client: int, **plain: Any) -> FrontOutput:
    """One line, which is the whole answer."""
    return FrontOutput(lines=[(client, json.dumps(plain))], over=[client])
