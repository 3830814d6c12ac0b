"""The controller's side: several instances of one thing, which answer as one. It has no clock and no connection.

All commands go to all replicas, and into the history. Replicas are *copies*, so their frontiers join: the one that is
furthest counts. Of a peek the first answer is given, and no other; of a tail what the client has not got yet. A replica
that is new, or was lost, gets the reduced history.

Source: document 002, and active replication, which it names as the next step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError
from cdcv2.instances.commands import (
    CANCELED, LEAST, AllowCompaction, Answer, CancelPeek, Command, CreateIndex, CreateInstance, DroppedAt, Frontiers,
    InitializationComplete, Peek, PeekResponse, Tail, TailResponse,
)
from cdcv2.instances.history import CommandHistory
from cdcv2.instances.stages import Session


@dataclass
class Dispatch:
    """What is to be sent now: commands to replicas by name, and responses to the clients, each in order."""

    commands: list[tuple[str, Command]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)


class ReplicaSet:
    """The replicas of one instance, as their controller sees them.

    ``nonce`` is that of this life of the controller; ``indexes`` are those of its catalogue, with their sinces.
    Peeks and tails are not in it: their clients request them again, with the same uuid.

    >>> from cdcv2.instances.commands import IndexedTable
    >>> main = CreateIndex("main", (IndexedTable("orders", ("id",), "log-1"),))
    >>> replicas = ReplicaSet("life-1", [main])
    >>> [type(command).__name__ for _, command in replicas.connect("one").commands]
    ['CreateInstance', 'CreateIndex', 'InitializationComplete']
    >>> peek = Peek("u1", "main", {"orders": ((7,),)}, 3)
    >>> replicas.peek(peek).commands[0][1].uuid
    'u1.1'
    >>> sent = replicas.receive("one", PeekResponse("u1.1", {"orders": ((),)}))
    >>> sent.answers, sent.commands
    ([PeekResponse(uuid='u1', rows={'orders': ((),)}, error=None)], [('one', CancelPeek(uuid='u1.1'))])

    Raises ConversationError for what a replica must not send: end its connection, which loses nothing.
    Cost: constant per message and replica.
    """

    def __init__(self, nonce: str, indexes: Iterable[CreateIndex] = ()) -> None:
        self._history = CommandHistory([CreateInstance(nonce)])
        # All replicas as the one that clients see: what it responds, they are given.
        self._own = Session()
        for command in (CreateInstance(nonce), InitializationComplete()):
            self._own.record(command)
        self._replicas: dict[str, Session] = {}
        self._uppers: dict[str, Antichain] = {}
        self._allowed: dict[str, Antichain] = {}
        # When what is finished was committed, as the replica stated that reported it.
        self._committed: dict[str, float | None] = {}
        # By names of this set's own: a uuid may be requested again while answers to it are on their way.
        self._peeks: dict[str, Peek] = {}
        # ``after`` of each is the upper of what the client was given.
        self._tails: dict[str, Tail] = {}
        # Own name -> uuid of the client, and back.
        self._uuids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._requests = 0
        for index in indexes:
            self.create(index)

    @property
    def indexes(self) -> list[CreateIndex]:
        """The indexes, each with the since that it may have by now: what a catalogue keeps, before commands are sent.

        A since is no further than what lives needs: a peek that is requested again after a restart can be answered.
        Cost: linear in what lives.
        """
        return [command for command in self._history.reduce() if isinstance(command, CreateIndex)]

    def upper(self, name: str) -> Antichain:
        """How far the furthest replica has an index, by what this life of the controller was reported."""
        return self._uppers[name]

    def committed_at(self, name: str) -> float | None:
        """When the last of what is not beyond :meth:`upper` was committed, as a replica has read it; None: not known.
        """
        return self._committed.get(name)

    def allowed(self, name: str) -> Antichain:
        """Up to where an index may be compacted: no time before it can be requested any more."""
        return self._allowed[name]

    @property
    def connected(self) -> list[str]:
        """The replicas that are connected."""
        return list(self._replicas)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many peeks and tails live."""
        return len(self._peeks), len(self._tails)

    # -- replicas -----------------------------------------------------------------------------------------------

    def connect(self, replica: str) -> Dispatch:
        """A replica has connected: it is sent the reduced history, and an end mark. What it reported before is void."""
        session = self._replicas[replica] = Session()
        commands = [*self._history.reduce(), InitializationComplete()]
        for command in commands:
            session.record(command)
        return Dispatch([(replica, command) for command in commands])

    def disconnect(self, replica: str) -> None:
        """A replica is lost. What was requested stays with the others, and waits for one where there is none."""
        self._replicas.pop(replica, None)

    def receive(self, replica: str, answer: Answer) -> Dispatch:
        """Take in a response of a replica that is connected. Returns what it comes to for the clients."""
        if replica not in self._replicas:
            return Dispatch()
        self._replicas[replica].record(answer)
        match answer:
            case Frontiers():
                return self._advance(answer)
            case PeekResponse():
                return self._give(answer)
            case TailResponse():
                return self._pass_on(answer)
            case DroppedAt():
                return Dispatch()

    def _advance(self, answer: Frontiers) -> Dispatch:
        """Copies join: one that is behind changes nothing."""
        if answer.id not in self._uppers:
            return Dispatch()
        upper = self._uppers[answer.id].join(answer.upper)
        if upper == self._uppers[answer.id]:
            return Dispatch()
        self._uppers[answer.id] = upper
        self._committed[answer.id] = answer.committed_at
        joined = Frontiers(answer.id, upper)
        self._own.record(joined)
        return Dispatch(answers=[joined])

    def _give(self, answer: PeekResponse) -> Dispatch:
        """The first answer; with the CancelPeek, the replicas need not hold its time any longer."""
        if answer.uuid not in self._peeks:
            return Dispatch()
        del self._peeks[answer.uuid]
        self._own.record(answer)
        sent = self._send(CancelPeek(answer.uuid))
        sent.answers.append(replace(answer, uuid=self._released(answer.uuid)))
        return sent

    def _pass_on(self, answer: TailResponse) -> Dispatch:
        """What the client has not got: it begins where the batch before ended, whichever replica that came from."""
        tail = self._tails.get(answer.uuid)
        if tail is None or tail.after.dominates(answer.upper) or not tail.after.dominates(answer.lower):
            return Dispatch()
        changes = tuple(change for change in answer.changes if tail.after.less_equal(change.time))
        given = TailResponse(answer.uuid, tail.after, answer.upper, changes)
        self._own.record(given)
        sent = self._send(AllowCompaction(answer.uuid, answer.upper))
        sent.answers.append(replace(given, uuid=self._uuids[answer.uuid]))
        if answer.upper:
            self._tails[answer.uuid] = replace(tail, after=answer.upper)
        else:
            del self._tails[answer.uuid]
            self._released(answer.uuid)
        return sent

    # -- requests -----------------------------------------------------------------------------------------------

    def create(self, index: CreateIndex) -> Dispatch:
        """Have an index on all replicas. Raises ConversationError for an id that exists."""
        sent = self._send(index)
        self._uppers[index.id], self._allowed[index.id] = LEAST, Antichain([index.since])
        return sent

    def allow(self, name: str, frontier: Antichain) -> Dispatch:
        """Let an index be compacted up to a frontier; empty: drop it, which ends what was requested of it.

        Raises ConversationError for an id that is unknown, and for a frontier that goes back.
        """
        if name not in self._uppers:
            raise ConversationError("controller", f"was to allow compaction of {name!r}, which is no index")
        sent = self._send(AllowCompaction(name, frontier))
        self._allowed[name] = frontier
        if frontier:
            return sent
        del self._uppers[name], self._allowed[name]
        self._committed.pop(name, None)
        reason = f"the index {name} was dropped"
        for own in [own for own, peek in self._peeks.items() if peek.id == name]:
            del self._peeks[own]
            self._own.record(PeekResponse(own, error=reason))
            sent.answers.append(PeekResponse(self._released(own), error=reason))
        for own in [own for own, tail in self._tails.items() if tail.id == name]:
            after = self._tails.pop(own).after
            self._own.record(DroppedAt(own, after, reason))
            sent.answers.append(DroppedAt(self._released(own), after, reason))
        return sent

    def peek(self, peek: Peek) -> Dispatch:
        """Request a peek. One that waits is not requested twice; one that cannot be is answered with the reason."""
        if self._names.get(peek.uuid) in self._peeks:
            return Dispatch()
        if peek.uuid in self._names:
            return Dispatch(answers=[PeekResponse(peek.uuid, error="the uuid is that of a tail: take another one")])
        number = self._number()
        command = replace(peek, uuid=f"{peek.uuid}.{number}")
        try:
            sent = self._send(command)
        except ConversationError as error:
            return Dispatch(answers=[PeekResponse(peek.uuid, error=f"the peek {error.reason}")])
        self._peeks[command.uuid] = command
        self._keep(command.uuid, peek.uuid)
        return sent

    def cancel(self, uuid: str) -> Dispatch:
        """Cancel a peek: its client gets its one answer at once. An unknown one is no fault: it may be answered."""
        own = self._names.get(uuid)
        if own is None or self._peeks.pop(own, None) is None:
            return Dispatch()
        sent = self._send(CancelPeek(own))
        self._own.record(PeekResponse(own, error=CANCELED))
        sent.answers.append(PeekResponse(self._released(own), error=CANCELED))
        return sent

    def tail(self, tail: Tail) -> Dispatch:
        """Begin a tail, or continue it where its client has it: a tail of this uuid that lives is replaced.

        One that cannot begin there is answered with DroppedAt and the reason.
        """
        sent = self.end_tail(tail.uuid)
        if tail.uuid in self._names:
            return Dispatch(answers=[DroppedAt(tail.uuid, tail.after, "the uuid is that of a peek: take another one")])
        if not tail.after:
            sent.answers.append(DroppedAt(tail.uuid, tail.after, "its history is complete"))
            return sent
        number = self._number()
        command = replace(tail, uuid=f"{tail.uuid}.{number}")
        try:
            begun = self._send(command)
        except ConversationError as error:
            sent.answers.append(DroppedAt(tail.uuid, tail.after, f"the tail {error.reason}"))
            return sent
        self._tails[command.uuid] = command
        self._keep(command.uuid, tail.uuid)
        sent.commands += begun.commands
        return sent

    def end_tail(self, uuid: str) -> Dispatch:
        """End a tail without a word to its client, who is the one that ends it. An unknown one is no fault."""
        own = self._names.get(uuid)
        if own is None or self._tails.pop(own, None) is None:
            return Dispatch()
        self._released(own)
        return self._send(AllowCompaction(own, Antichain()))

    def _number(self) -> int:
        self._requests += 1
        return self._requests

    def _keep(self, own: str, uuid: str) -> None:
        self._uuids[own], self._names[uuid] = uuid, own

    def _released(self, own: str) -> str:
        """Forget a request; returns the uuid of its client."""
        uuid = self._uuids.pop(own)
        del self._names[uuid]
        return uuid

    def _send(self, command: Command) -> Dispatch:
        """Keep a command in the history, and send it to all."""
        self._own.record(command)
        self._history.push(command)
        for session in self._replicas.values():
            session.record(command)
        return Dispatch([(replica, command) for replica in self._replicas])
