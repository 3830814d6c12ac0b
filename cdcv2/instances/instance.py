"""An instance, as a state machine: commands and finished cuts in, responses out. It has no clock and no connection.

The process around it reads the logs of each index, gives what is finished to :meth:`IndexInstance.apply`, and carries
messages. A connection that breaks loses responses; the next session has the whole history again, so nothing is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ConversationError, MalformedError
from cdcv2.instances.arrangement import Arrangement, TableForm
from cdcv2.instances.commands import (
    CANCELED, LEAST, AllowCompaction, Answer, CancelPeek, Command, CreateIndex, CreateInstance, DroppedAt, Frontiers,
    IndexedTable, InitializationComplete, Peek, PeekResponse, Tail, TailResponse, is_finished, least_since,
)
from cdcv2.instances.history import reduce_history
from cdcv2.instances.reconcile import IndexReconciliation, reconcile
from cdcv2.instances.stages import Session, SessionStage
from cdcv2.protocol.messages import Update


class _Index:
    """An index with what was allowed of it, and what was reported."""

    def __init__(self, command: CreateIndex, arrangement: Arrangement) -> None:
        self.command, self.arrangement = command, arrangement
        self.allowed = Antichain([command.since])
        self.reported = LEAST


class _Tail:
    """A tail, and the upper of its last batch; its command has what the client has confirmed."""

    def __init__(self, command: Tail) -> None:
        self.command, self.upper = command, command.after


class IndexInstance:
    """All that an instance decides; ``form_of`` gives the form of a table of an index.

    ``is_read``: index -> whether it has what its logs held at first. Before, nothing is responded about it: what is
    finished then is old. When that changes, call :meth:`report`.

    >>> from cdcv2.instances.commands import IndexedTable
    >>> form = TableForm(lambda row: row[0], lambda key: key[0], list)
    >>> instance = IndexInstance(lambda table: form)
    >>> main = CreateIndex("main", (IndexedTable("orders", ("id",), "log-1"),))
    >>> peek = Peek("u1", "main", {"orders": ((7,),)}, 3)
    >>> for command in (CreateInstance("a"), main, peek, InitializationComplete()):
    ...     assert instance.receive(command) == []
    >>> for answer in instance.apply("main", {"orders": [((7, "new"), 1, 1)]}, Antichain([4])):
    ...     print(answer)
    Frontiers(id='main', upper=Antichain([4]))
    PeekResponse(uuid='u1', rows={'orders': ((RowCount(row=[7, 'new'], multiplicity=1),),)}, error=None)

    Raises ConversationError for what a controller must not send; nothing was done then. Source: document 002.
    Cost: that of the arrangement; for each cut, a look at each peek and tail of its index.
    """

    def __init__(
        self, form_of: Callable[[IndexedTable], TableForm], is_read: Callable[[str], bool] = lambda name: True
    ) -> None:
        self._form_of, self._is_read = form_of, is_read
        self._session = Session()
        self._history: list[Command] = []
        self._indexes: dict[str, _Index] = {}
        # Peeks hold their times until the controller cancels them, which it does with each that it has the answer of.
        self._peeks: dict[str, Peek] = {}
        self._answered: set[str] = set()
        self._tails: dict[str, _Tail] = {}
        #: What the last session's history made of what was there; None before the first.
        self.reconciliation: IndexReconciliation | None = None

    @property
    def indexes(self) -> dict[str, CreateIndex]:
        """The indexes that there are: what the process around it has to read."""
        return {name: index.command for name, index in self._indexes.items()}

    def upper(self, name: str) -> Antichain:
        """How far an index has its logs: the process around it continues there."""
        return self._indexes[name].arrangement.upper

    def size(self, name: str) -> int:
        """How many rows and changes an index holds. Cost: a look at each key."""
        return len(self._indexes[name].arrangement)

    def connect(self) -> None:
        """A new session begins. Its history states what is to be there; until its end, everything stays as it is."""
        self._session, self._history = Session(), []

    def receive(self, command: Command) -> list[Answer]:
        """Obey a command. Returns the responses, in order."""
        before = self._session.stage
        self._session.record(command)
        if before is not SessionStage.COMPUTATION:
            self._history.append(command)
            answers = self._begin() if isinstance(command, InitializationComplete) else []
        else:
            answers = self._obey(command)
        return self._recorded(answers)

    def apply(self, name: str, updates: Mapping[str, Iterable[Update]], upper: Antichain) -> list[Answer]:
        """Take in a finished cut of an index. Returns the responses, in order; none while no session is complete.

        Raises MalformedError as :meth:`Arrangement.apply` does.
        """
        index = self._indexes[name]
        index.arrangement.apply(updates, upper)
        self._compact(name)
        return self.report(name)

    def report(self, name: str) -> list[Answer]:
        """What can be responded about an index by now, in order; none while no session is complete."""
        if self._session.stage is not SessionStage.COMPUTATION:
            return []
        return self._recorded([*self._frontiers(name), *self._peek_answers(name), *self._batches(name)])

    def _recorded(self, answers: list[Answer]) -> list[Answer]:
        for answer in answers:
            self._session.record(answer)
        return answers

    # -- a new session ------------------------------------------------------------------------------------------

    def _begin(self) -> list[Answer]:
        """Make of what is there what the history states, and report how far that is."""
        history, self._history = reduce_history(self._history), []
        requested = {one.id: one for one in history if isinstance(one, CreateIndex)}
        there = {name: (index.command, index.arrangement.since) for name, index in self._indexes.items()}
        self.reconciliation = reconcile(there, requested.values())
        self._peeks, self._answered, self._tails = {}, set(), {}
        old, self._indexes = self._indexes, {}
        for name, index in requested.items():
            is_kept = name in self.reconciliation.kept
            self._indexes[name] = _Index(index, old[name].arrangement) if is_kept else self._created(index)
        answers = [answer for name in self._indexes for answer in self._frontiers(name)]
        for command in history:
            if isinstance(command, (Peek, Tail, AllowCompaction)):
                answers += self._obey(command)
        for name in self._indexes:
            self._compact(name)
        return answers

    def _created(self, command: CreateIndex) -> _Index:
        return _Index(command, Arrangement({one.name: self._form_of(one) for one in command.tables}, command.since))

    # -- commands -----------------------------------------------------------------------------------------------

    def _obey(self, command: Command) -> list[Answer]:
        match command:
            case CreateIndex():
                self._indexes[command.id] = self._created(command)
            case Peek():
                self._peeks[command.uuid] = command
                self._answered.discard(command.uuid)
                return self._peek_answers(command.id, command)
            case Tail():
                self._tails[command.uuid] = _Tail(command)
                return self._batches(command.id, command.uuid)
            case CancelPeek():
                return self._cancel(command.uuid)
            case AllowCompaction():
                return self._allow(command)
            case CreateInstance() | InitializationComplete():
                raise ConversationError("controller", f"sent {type(command).__name__} twice in one session")
        return []

    def _cancel(self, uuid: str) -> list[Answer]:
        peek = self._peeks.pop(uuid, None)
        if peek is None:
            return []
        self._compact(peek.id)
        if uuid in self._answered:
            self._answered.discard(uuid)
            return []
        return [PeekResponse(uuid, error=CANCELED)]

    def _allow(self, command: AllowCompaction) -> list[Answer]:
        name, frontier = command.id, command.frontier
        if name in self._tails:
            tail = self._tails[name]
            if not frontier:
                del self._tails[name]
            else:
                tail.command = replace(tail.command, after=frontier)
            self._compact(tail.command.id)
            return []
        if not frontier:
            return self._drop(name)
        self._indexes[name].allowed = frontier
        self._compact(name)
        return []

    def _drop(self, name: str) -> list[Answer]:
        """Everything that was requested of it gets its one last answer; nothing about it follows."""
        del self._indexes[name]
        answers: list[Answer] = []
        for uuid in [uuid for uuid, peek in self._peeks.items() if peek.id == name]:
            del self._peeks[uuid]
            if uuid not in self._answered:
                answers.append(PeekResponse(uuid, error=f"the index {name} was dropped"))
            self._answered.discard(uuid)
        for uuid in [uuid for uuid, tail in self._tails.items() if tail.command.id == name]:
            answers.append(DroppedAt(uuid, self._tails.pop(uuid).upper, f"the index {name} was dropped"))
        return answers

    # -- responses ----------------------------------------------------------------------------------------------

    def _frontiers(self, name: str) -> Iterator[Answer]:
        """How far it is: nothing before its since is finished, so a late start never reports the least frontier."""
        index = self._indexes[name]
        upper = index.arrangement.upper
        if self._is_read(name) and is_finished(index.command.since, upper) and upper != index.reported:
            index.reported = upper
            yield Frontiers(name, upper)

    def _peek_answers(self, name: str, only: Peek | None = None) -> list[Answer]:
        if not self._is_read(name):
            return []
        arrangement = self._indexes[name].arrangement
        waiting = [peek for peek in self._peeks.values() if peek.id == name] if only is None else [only]
        answers: list[Answer] = []
        for peek in waiting:
            if peek.uuid in self._answered or not is_finished(peek.time, arrangement.upper):
                continue
            self._answered.add(peek.uuid)
            answers.append(_answer(peek, arrangement))
        return answers

    def _batches(self, name: str, only: str | None = None) -> list[Answer]:
        if not self._is_read(name):
            return []
        arrangement = self._indexes[name].arrangement
        answers: list[Answer] = []
        for uuid, tail in self._tails.items():
            command, upper = tail.command, arrangement.upper
            if command.id != name or only not in (None, uuid):
                continue
            if upper == tail.upper or not upper.dominates(tail.upper) or not is_finished(command.hold, upper):
                continue
            changes = arrangement.changes(command.table, tail.upper, command.since)
            answers.append(TailResponse(uuid, tail.upper, upper, changes))
            tail.upper = upper
        return answers

    def _compact(self, name: str) -> None:
        """As far as what was allowed, and no peek and no tail needs an earlier time."""
        index = self._indexes[name]
        holds = [peek.time for peek in self._peeks.values() if peek.id == name]
        holds += [tail.command.hold for tail in self._tails.values() if tail.command.id == name]
        allowed = index.allowed.integer
        index.arrangement.compact(least_since(holds, index.command.since if allowed is None else allowed))


def _answer(peek: Peek, arrangement: Arrangement) -> PeekResponse:
    """The rows of all keys at one time; an error where the peek has a key that is none."""
    try:
        rows = {
            table: tuple(arrangement.at(table, key, peek.time) for key in keys) for table, keys in peek.keys.items()
        }
    except MalformedError as cause:
        return PeekResponse(peek.uuid, error=str(cause))
    return PeekResponse(peek.uuid, rows)
