"""The commands that a controller has sent, as a log, and its reduction: what an instance that starts now is to receive.

>>> from cdcv2.instances.commands import CancelPeek, IndexedTable
>>> index = CreateIndex("main", (IndexedTable("orders", ("id",), "log-1"),))
>>> peek, allow = Peek("u1", "main", {"orders": ((7,),)}, 6), AllowCompaction("main", Antichain([5]))
>>> reduce_history([CreateInstance("a"), index, allow, peek, CancelPeek("u1")])[1].since
5

Source: document 002, where an instance keeps the log; here the controller does, as its successors do, since it has to
bring a new instance up, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cdcv2.core.antichain import Antichain
from cdcv2.instances.commands import (
    AllowCompaction, CancelPeek, Command, CreateIndex, CreateInstance, InitializationComplete, Peek, Tail, least_since,
)


class CommandHistory:
    """The log of commands, reduced whenever it is twice as long as after its last reduction.

    >>> history = CommandHistory([CreateInstance("a")])
    >>> for number in range(1000):
    ...     history.push(CancelPeek(str(number)))
    >>> len(history) < 10
    True

    Cost: amortised constant per command. Memory: twice what lives.
    """

    _LEAST = 8

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._commands: list[Command] = []
        self._limit = self._LEAST
        for command in commands:
            self.push(command)

    def push(self, command: Command) -> None:
        """Append a command."""
        self._commands.append(command)
        if len(self._commands) > self._limit:
            self.reduce()

    def reduce(self) -> list[Command]:
        """Reduce it, and return what is left."""
        self._commands = reduce_history(self._commands)
        self._limit = max(self._LEAST, 2 * len(self._commands))
        return list(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


def reduce_history(commands: Sequence[Command]) -> list[Command]:
    """The shortest history that makes of a new instance what these commands make of one.

    - The last CreateInstance punctuates: what was before it counts no more.
    - Of an index the last AllowCompaction counts. What was allowed becomes its since, as far as no peek and no tail
      that lives needs an earlier time; the rest stays an AllowCompaction, behind the peeks, so none is refused.
    - Of a tail, what its client has confirmed becomes where it begins.
    - Peeks that were cancelled are left out, and indexes and tails that were dropped, with what was requested of them.

    Reducing it once more changes nothing. The commands must be in the order of the stages; the length is that of what
    lives: a command for each index, peek and tail, and one more for an index that is held back. Cost: linear.
    """
    lives = _Survivors()
    for command in commands:
        lives.take(command)
    return lives.commands()


class _Survivors:
    """What lives after a history."""

    def __init__(self) -> None:
        self._first: CreateInstance | None = None
        self._complete = False
        self._indexes: dict[str, CreateIndex] = {}
        self._allowed: dict[str, Antichain] = {}
        self._peeks: dict[str, Peek] = {}
        self._tails: dict[str, Tail] = {}

    def take(self, command: Command) -> None:
        match command:
            case CreateInstance():
                self.__init__()  # type: ignore[misc]
                self._first = command
            case InitializationComplete():
                self._complete = True
            case CreateIndex():
                self._indexes[command.id] = command
                self._allowed[command.id] = Antichain([command.since])
            case Peek():
                self._peeks[command.uuid] = command
            case CancelPeek():
                self._peeks.pop(command.uuid, None)
            case Tail():
                self._tails[command.uuid] = command
            case AllowCompaction():
                self._allow(command)

    def _allow(self, command: AllowCompaction) -> None:
        name = command.id
        if name in self._tails:
            self._tails[name] = replace(self._tails[name], after=command.frontier)
            if not command.frontier:
                del self._tails[name]
        elif command.frontier:
            self._allowed[name] = command.frontier
        else:
            del self._indexes[name], self._allowed[name]
            self._peeks = {uuid: peek for uuid, peek in self._peeks.items() if peek.id != name}
            self._tails = {uuid: tail for uuid, tail in self._tails.items() if tail.id != name}

    def commands(self) -> list[Command]:
        """Peeks and tails before compactions."""
        since = {name: self._since(index) for name, index in self._indexes.items()}
        allowed = [
            AllowCompaction(name, frontier) for name, frontier in self._allowed.items()
            if frontier != Antichain([since[name]])
        ]  # fmt: skip
        first: list[Command] = [] if self._first is None else [self._first]
        last: list[Command] = [InitializationComplete()] if self._complete else []
        indexes = [replace(index, since=since[name]) for name, index in self._indexes.items()]
        return [*first, *indexes, *self._peeks.values(), *self._tails.values(), *allowed, *last]

    def _since(self, index: CreateIndex) -> int:
        holds = [peek.time for peek in self._peeks.values() if peek.id == index.id]
        holds += [tail.hold for tail in self._tails.values() if tail.id == index.id]
        allowed = self._allowed[index.id].integer
        return max(index.since, least_since(holds, index.since if allowed is None else allowed))
