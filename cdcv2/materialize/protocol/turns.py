"""Whose turn it is: the materialization protocol as two tables, and a checker that either side can use.

Each role is in a *phase*, and moves by the messages that it sends: that is the table of the role. Besides, a message
may be sent only while the *other* role is in one of certain phases: that is :data:`WHILE`. Only this module knows the
order.

The two tables turn at their own pace: a driver is in ``COMMIT`` until it sends Acknowledged, and the runtime may long
be in ``LOAD`` of the next transaction. That is the pipelining.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from cdcv2.errors import TurnError
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Changes, Flush, Flushed, Key, Load, Loaded, Open, Opened, StartCommit, StartedCommit,
    Store, Table,
)


class Phase(Enum):
    """Where a role is, by the message that it sent last."""

    START = "nothing was sent"
    OPEN = "opened"
    LOAD = "acknowledged: the keys of a transaction are being asked for"
    STORE = "flushed: everything that is there was loaded, rows are being stored"
    COMMIT = "the commit has begun"

    # An Enum's own hash is a function of Python's, and every message asks for two of them.
    __hash__ = object.__hash__


#: Kind of message -> the phase that its speaker is in afterwards.
Moves = dict[type[Any], Phase]

#: The messages that a runtime may send in each phase, and the phases that follow.
RUNTIME_TURNS: dict[Phase, Moves] = {
    Phase.START: {Open: Phase.OPEN},
    Phase.OPEN: {Acknowledge: Phase.LOAD},
    Phase.LOAD: {Load: Phase.LOAD, Flush: Phase.STORE},
    Phase.STORE: {Store: Phase.STORE, Changes: Phase.STORE, StartCommit: Phase.COMMIT},
    Phase.COMMIT: {Acknowledge: Phase.LOAD},
}

#: The messages that a driver may send in each phase, and the phases that follow.
DRIVER_TURNS: dict[Phase, Moves] = {
    Phase.START: {Opened: Phase.OPEN},
    Phase.OPEN: {Acknowledged: Phase.LOAD},
    Phase.LOAD: {Loaded: Phase.LOAD, Flushed: Phase.STORE},
    Phase.STORE: {StartedCommit: Phase.COMMIT},
    Phase.COMMIT: {Acknowledged: Phase.LOAD},
}

#: Kind of message -> the phases of the *other* role in which it may be sent, and why not in others.
WHILE: dict[type[Any], tuple[frozenset[Phase], str]] = {
    Open: (frozenset({Phase.START}), "after Opened"),
    Acknowledge: (frozenset({Phase.OPEN, Phase.LOAD, Phase.COMMIT}), "before the answer to what it sent last"),
    Load: (frozenset({Phase.OPEN, Phase.LOAD, Phase.COMMIT}), "before the answer to what it sent last"),
    Flush: (frozenset({Phase.LOAD}), "before Acknowledged"),
    Store: (frozenset({Phase.STORE}), "before Flushed"),
    Changes: (frozenset({Phase.STORE}), "before Flushed"),
    StartCommit: (frozenset({Phase.STORE}), "before Flushed"),
    Opened: (frozenset({Phase.OPEN}), "before receiving Open"),
    Acknowledged: (frozenset({Phase.OPEN, Phase.LOAD, Phase.COMMIT}), "before receiving what there is to acknowledge"),
    Loaded: (frozenset({Phase.LOAD, Phase.STORE}), "before receiving Load"),
    Flushed: (frozenset({Phase.STORE}), "before receiving Flush"),
    StartedCommit: (frozenset({Phase.COMMIT}), "before receiving StartCommit"),
}

TABLES: Mapping[str, dict[Phase, Moves]] = {"runtime": RUNTIME_TURNS, "driver": DRIVER_TURNS}
_OTHER = {"runtime": "driver", "driver": "runtime"}
_SIDE = {kind: side for side, table in TABLES.items() for moves in table.values() for kind in moves}
#: The phases of runtime and driver -> kind of message that may be sent then -> its sender, and the phase that follows.
_MAY: dict[tuple[Phase, Phase], dict[type[Any], tuple[str, Phase]]] = {
    (runtime, driver): {
        kind: (side, following)
        for side, own, other in (("runtime", runtime, driver), ("driver", driver, runtime))
        for kind, following in TABLES[side][own].items()
        if other in WHILE[kind][0]
    }
    for runtime in Phase
    for driver in Phase
}


class Turns:
    """One conversation as one side sees it: record every message that is sent or received, before acting on it.

    >>> turns = Turns()
    >>> turns.record(Open("totals", ()))
    >>> turns.record(Opened())
    >>> turns.record(Acknowledge())
    >>> turns.expected("runtime"), turns.expected("driver")
    (['Load'], ['Acknowledged'])

    Raises TurnError, which names the side at fault; the conversation is then where it was. Beside the tables it checks
    the messages for keys: one Load and one Store per key and transaction, none of a delta table; one Loaded at most,
    for keys that were asked for; ``exists`` must agree with whether a Loaded came; Changes once per table that takes
    it. Cost: two look-ups and one set per message.
    """

    def __init__(self) -> None:
        self.phases = {"runtime": Phase.START, "driver": Phase.START}
        # What may be sent now: of _MAY.
        self._may = _MAY[Phase.START, Phase.START]
        self._tables: Sequence[Table] = ()
        # The keys of this transaction: asked for; of those, the answered ones; stored.
        self._asked: set[tuple[int, Key]] = set()
        self._loaded: set[tuple[int, Key]] = set()
        self._stored: set[tuple[int, Key]] = set()
        # Tables of which the driver takes Changes; those of which it was sent some in this transaction.
        self._columns: frozenset[int] = frozenset()
        self._changed: set[int] = set()

    def record(self, message: Any) -> None:
        """Record a message that its side is about to send, or that has just been received."""
        kind = type(message)
        may = self._may.get(kind)
        if may is None:
            raise self._wrong(message)
        if kind is Load:
            self._check_load(message)
        elif kind is Store:
            self._check_store(message)
        elif kind is Loaded:
            self._check_loaded(message)
        elif kind is Changes:
            self._check_changes(message)
        side, following = may
        if self.phases[side] is not following:
            self.phases[side] = following
            self._may = _MAY[self.phases["runtime"], self.phases["driver"]]
        if kind is Open:
            self._tables = message.tables
        elif kind is Opened:
            self._columns = message.changes
        elif kind is StartCommit:
            self._asked, self._loaded, self._stored, self._changed = set(), set(), set(), set()

    def _wrong(self, message: Any) -> TurnError:
        """Why the message may not be sent."""
        kind = type(message)
        side = _SIDE.get(kind)
        if side is None:
            return TurnError("runtime", f"sent {message!r}, which is no message")
        if kind not in TABLES[side][self.phases[side]]:
            return TurnError(side, self._out_of_turn(side, kind))
        return TurnError(side, f"sent {kind.__name__} {WHILE[kind][1]}")

    def expected(self, side: str) -> list[str]:
        """The names of the messages that the side may send now."""
        moves = TABLES[side][self.phases[side]]
        return [kind.__name__ for kind in moves if self.phases[_OTHER[side]] in WHILE[kind][0]]

    def _out_of_turn(self, side: str, kind: type[Any]) -> str:
        name, phase = kind.__name__, self.phases[side]
        if kind is Acknowledged and phase is Phase.LOAD:
            return "sent duplicate Acknowledged"
        if kind is Flushed and phase in (Phase.OPEN, Phase.COMMIT):
            return "sent Flushed before Acknowledged"
        return f"sent {name} out of turn (expected {' or '.join(self.expected(side)) or 'nothing'}, got {name})"

    def _table(self, message: Load | Store | Changes) -> Table:
        if not 0 <= message.binding < len(self._tables):
            name = type(message).__name__
            raise TurnError("runtime", f"sent {name} for table {message.binding} of {len(self._tables)}")
        return self._tables[message.binding]

    def _check_load(self, message: Load) -> None:
        table, place = self._table(message), (message.binding, message.key)
        if table.delta:
            raise TurnError("runtime", f"sent Load for {table.name}, which takes changes and is never asked")
        if place in self._asked:
            raise TurnError("runtime", f"sent Load twice for the key {message.key!r} of {table.name}")
        self._asked.add(place)

    def _check_store(self, message: Store) -> None:
        table, place = self._table(message), (message.binding, message.key)
        if place in self._stored:
            raise TurnError("runtime", f"sent Store twice for the key {message.key!r} of {table.name}")
        if message.exists != (place in self._loaded):
            came = "came" if place in self._loaded else "did not come"
            what = f"sent Store with exists={message.exists} for the key {message.key!r} of {table.name}"
            raise TurnError("runtime", f"{what}, whose Loaded {came}")
        self._stored.add(place)

    def _check_changes(self, message: Changes) -> None:
        table, number = self._table(message), message.binding
        if number not in self._columns:
            raise TurnError("runtime", f"sent Changes of {table.name}, of which the driver takes Loads and Stores only")
        if number in self._changed:
            raise TurnError("runtime", f"sent Changes twice of {table.name} in one transaction")
        self._changed.add(number)

    def _check_loaded(self, message: Loaded) -> None:
        place = (message.binding, message.key)
        if place in self._loaded:
            raise TurnError("driver", f"sent Loaded twice for the key {message.key!r} of table {message.binding}")
        if place not in self._asked:
            raise TurnError("driver", f"sent Loaded for the key {message.key!r}, which was not asked for")
        table = self._tables[message.binding]
        if len(message.values) != len(table.values):
            what = f"{len(message.values)} values for the key {message.key!r} of {table.name}"
            raise TurnError("driver", f"sent Loaded with {what}, which has {len(table.values)} columns beside the key")
        self._loaded.add(place)
