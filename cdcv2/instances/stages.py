"""What may be sent when, between a controller and an instance: two tables, and a checker that either side can use.

A session is in a *stage*, which the commands move: that is :data:`COMMANDS_IN`. An instance responds in one stage only:
:data:`ANSWERS_IN`. Besides, each message has rules about what it names: :data:`RULES` states them in words, and
:class:`Session` holds them. Source: the stages and rules of the compute protocol of which document 002 is the design.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError
from cdcv2.instances.commands import (
    LEAST, AllowCompaction, CancelPeek, CreateIndex, CreateInstance, DroppedAt, Frontiers, InitializationComplete, Peek,
    PeekResponse, Tail, TailResponse,
)


class SessionStage(Enum):
    """Where a session is."""

    CREATION = "nothing was sent"
    INITIALIZATION = "the history is being sent: a description of what the instance should have"
    COMPUTATION = "each command is obeyed as it comes"


#: How many names of what was dropped a session keeps: a message about an older one ends its connection.
_DROPPED = 10_000
#: SessionStage -> kind of command that may be sent in it -> the stage that follows.
COMMANDS_IN: Mapping[SessionStage, Mapping[type[Any], SessionStage]] = {
    SessionStage.CREATION: {CreateInstance: SessionStage.INITIALIZATION},
    SessionStage.INITIALIZATION: {
        **dict.fromkeys((CreateIndex, Peek, Tail, CancelPeek, AllowCompaction), SessionStage.INITIALIZATION),
        InitializationComplete: SessionStage.COMPUTATION,
    },
    SessionStage.COMPUTATION: dict.fromkeys(
        (CreateIndex, Peek, Tail, CancelPeek, AllowCompaction), SessionStage.COMPUTATION
    ),
}
#: SessionStage -> kinds of response that may be sent in it.
ANSWERS_IN: Mapping[SessionStage, frozenset[type[Any]]] = {
    SessionStage.CREATION: frozenset(),
    SessionStage.INITIALIZATION: frozenset(),
    SessionStage.COMPUTATION: frozenset({Frontiers, PeekResponse, TailResponse, DroppedAt}),
}
#: Kind of message -> what it must and must not do.
RULES: Mapping[type[Any], tuple[str, ...]] = {
    CreateInstance: ("must be the first command, and the only one of its kind",),
    CreateIndex: ("must not name what exists or was dropped",),
    AllowCompaction: ("must name an index or a tail that exists", "must not go back"),
    Peek: (
        "must name an index that exists, and tables of it", "must not repeat a uuid that waits",
        "must not be at a time before the compaction that was allowed",
    ),
    CancelPeek: ("may name a peek that is not known",),
    Tail: (
        "must name an index that exists, and a table of it", "must not name what exists or was dropped",
        "must not need a time before the compaction that was allowed",
    ),
    InitializationComplete: ("must be sent once",),
    Frontiers: ("must name an index that exists", "must not go back", "must be beyond the since"),
    PeekResponse: ("must answer a peek that waits, once",),
    TailResponse: (
        "must name a tail that exists", "must begin where the one before ended",
        "must not be empty of times",
    ),
    DroppedAt: ("must name a tail that exists, of an index that was dropped", "must be where the last batch ended"),
}


class Session:
    """One connection as one side sees it: record every message that is sent or received, before acting on it.

    >>> session = Session()
    >>> session.record(CancelPeek("u1"))
    Traceback (most recent call last):
    cdcv2.errors.ConversationError: the controller sent CancelPeek in the stage CREATION: mend the controller

    Raises ConversationError, which names the side at fault; the session is then as it was. What a side names that was
    dropped in the meantime is no fault of it: a response may be on its way. Cost: constant per message. Memory: what
    lives, and the names of the last 10,000 that were dropped in this session.
    """

    def __init__(self) -> None:
        self.stage = SessionStage.CREATION
        # Index -> it, the compaction that was allowed, and the frontier that was reported.
        self.indexes: dict[str, CreateIndex] = {}
        self._since: dict[str, Antichain] = {}
        self._upper: dict[str, Antichain] = {}
        # Peeks that were not answered; those that were cancelled and may be answered still; tails, and where they are.
        self._peeks: set[str] = set()
        self._canceled: set[str] = set()
        self._tails: dict[str, Antichain] = {}
        self._index_of: dict[str, str] = {}
        self._confirmed: dict[str, Antichain] = {}
        # What was dropped: messages about it may be on their way.
        self._dropped: dict[str, None] = {}

    def record(self, message: Any) -> None:
        """Record a message that is about to be sent, or that has just been received."""
        kind = type(message)
        following = COMMANDS_IN[self.stage].get(kind)
        if following is None and kind not in ANSWERS_IN[self.stage]:
            raise self._out_of_stage(kind)
        _CHECKS.get(kind, _pass)(self, message)
        if following is not None:
            self.stage = following

    def _out_of_stage(self, kind: type[Any]) -> ConversationError:
        side = "controller" if any(kind in moves for moves in COMMANDS_IN.values()) else "instance"
        return ConversationError(side, f"sent {kind.__name__} in the stage {self.stage.name}")

    def _create_index(self, command: CreateIndex) -> None:
        self._demand_new(command.id, command)
        self.indexes[command.id] = command
        self._since[command.id], self._upper[command.id] = Antichain([command.since]), LEAST

    def _demand_new(self, name: str, command: CreateIndex | Tail) -> None:
        known = name in self.indexes or name in self._tails or name in self._dropped
        _demand(not known, command, f"names {name!r}, which exists, or was dropped: a name is of one thing for ever")

    def _allow(self, command: AllowCompaction) -> None:
        """Of an index that was allowed, of a tail that was confirmed: both only grow."""
        kept = self._since if command.id in self.indexes else self._confirmed
        _demand(command.id in kept, command, f"names {command.id!r}, which is neither an index nor a tail")
        _demand(command.frontier.dominates(kept[command.id]), command, f"goes back from {kept[command.id]}")
        kept[command.id] = command.frontier
        if not command.frontier:
            self._drop(command.id)

    def _drop(self, name: str) -> None:
        self._dropped[name] = None
        if len(self._dropped) > _DROPPED:
            del self._dropped[next(iter(self._dropped))]
        for kept in (self._since, self._upper, self.indexes, self._tails, self._index_of, self._confirmed):
            kept.pop(name, None)

    def _peek(self, command: Peek) -> None:
        index = self._index(command)
        tables = {table.name: len(table.key) for table in index.tables}
        for table, keys in command.keys.items():
            _demand(table in tables, command, f"names the table {table!r}, which the index has not")
            whole = all(len(key) == tables[table] for key in keys)
            _demand(whole, command, f"has a key of {table!r} that has not {tables[table]} values")
        _demand(command.uuid not in self._peeks, command, "repeats a uuid that waits")
        since = self._since[command.id]
        _demand(since.less_equal(command.time), command, f"is at {command.time}, before what was allowed, {since}")
        self._peeks.add(command.uuid)

    def _cancel(self, command: CancelPeek) -> None:
        if command.uuid in self._peeks:
            self._peeks.discard(command.uuid)
            self._canceled.add(command.uuid)

    def _tail(self, command: Tail) -> None:
        index = self._index(command)
        _demand(command.table in {table.name for table in index.tables}, command, "names a table the index has not")
        self._demand_new(command.uuid, command)
        since = self._since[command.id]
        needs = f"needs the time {command.hold}, before what was allowed, {since}"
        _demand(since.less_equal(command.hold), command, needs)
        self._tails[command.uuid] = self._confirmed[command.uuid] = command.after
        self._index_of[command.uuid] = command.id

    def _index(self, command: Peek | Tail) -> CreateIndex:
        _demand(command.id in self.indexes, command, f"names the index {command.id!r}, which is not known")
        return self.indexes[command.id]

    def _frontiers(self, answer: Frontiers) -> None:
        if answer.id in self._dropped:
            return
        _demand(answer.id in self.indexes, answer, f"names the index {answer.id!r}, which is not known")
        _demand(answer.upper.dominates(self._upper[answer.id]), answer, f"goes back from {self._upper[answer.id]}")
        since = self.indexes[answer.id].since
        _demand(not answer.upper.less_equal(since), answer, f"reports {answer.upper}, which is not beyond {since}")
        self._upper[answer.id] = answer.upper

    def _answered(self, answer: PeekResponse) -> None:
        waits = answer.uuid in self._peeks or answer.uuid in self._canceled
        _demand(waits, answer, f"answers {answer.uuid!r}, which does not wait")
        self._peeks.discard(answer.uuid)
        self._canceled.discard(answer.uuid)

    def _batch(self, answer: TailResponse) -> None:
        if answer.uuid in self._dropped:
            return
        _demand(answer.uuid in self._tails, answer, f"names the tail {answer.uuid!r}, which is not known")
        at = self._tails[answer.uuid]
        _demand(answer.lower == at, answer, f"begins at {answer.lower}, and the one before ended at {at}")
        _demand(answer.upper.dominates(at) and answer.upper != at, answer, "has no time")
        inside = all(at.less_equal(one.time) and not answer.upper.less_equal(one.time) for one in answer.changes)
        _demand(inside, answer, f"has a change that is not in [{at}, {answer.upper})")
        self._tails[answer.uuid] = answer.upper

    def _dropped_at(self, answer: DroppedAt) -> None:
        if answer.uuid in self._dropped:
            return
        _demand(answer.uuid in self._tails, answer, f"names the tail {answer.uuid!r}, which is not known")
        index = self._index_of[answer.uuid]
        _demand(index not in self.indexes, answer, f"ends a tail of the index {index!r}, which was not dropped")
        at = self._tails[answer.uuid]
        _demand(answer.frontier == at, answer, f"is at {answer.frontier}, and the last batch ended at {at}")
        self._drop(answer.uuid)


def _demand(holds: bool, message: Any, what: str) -> None:
    if not holds:
        side = "instance" if type(message) in ANSWERS_IN[SessionStage.COMPUTATION] else "controller"
        raise ConversationError(side, f"sent {type(message).__name__} that {what}")


def _pass(session: Session, message: Any) -> None:
    """Kinds whose stage is their only rule."""


_CHECKS: dict[type[Any], Any] = {
    CreateIndex: Session._create_index, AllowCompaction: Session._allow, Peek: Session._peek,
    CancelPeek: Session._cancel, Tail: Session._tail, Frontiers: Session._frontiers, PeekResponse: Session._answered,
    TailResponse: Session._batch, DroppedAt: Session._dropped_at,
}  # fmt: skip
