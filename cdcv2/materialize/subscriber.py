"""The other end of a push: a view rebuilt from deltas, in whatever order and however often they come.

A transaction counts when all of its deltas are there, for every table, and those before it have counted: so the view is
a consistent cut at any moment. Repeats are known by extent and key: after a crash they are the same, always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.errors import ContradictionError, DecodeError, MalformedError, RefusedError, ViewError
from cdcv2.materialize.protocol.deltas import VERSION, value_from_plain
from cdcv2.materialize.protocol.messages import Field, Key, Table, Values
from cdcv2.rows.postgres_values import EXACT
from cdcv2.views.binding import COUNT, ViewBinding
from cdcv2.views.reductions import Count, Max, Min

# Of the transactions that begin at one frontier: upper -> table -> how many deltas are stated, and those that came.
_Extents = dict[Antichain, dict[str, "_TransactionDeltas"]]


class Subscriber:
    """A view that is rebuilt from deltas; ``bindings`` are those of the materialization, with ``delta=True``.

    ``start`` is the frontier at which the view has nothing. Memory: the view, and the deltas of transactions that are
    not whole.
    """

    def __init__(self, bindings: Sequence[ViewBinding], start: Antichain = Antichain([0])) -> None:
        self._tables = {binding.target: _TableRows(binding) for binding in bindings}
        #: everything not beyond it is in the view
        self.frontier = start
        #: how many deltas and statements came again
        self.repeats = 0
        self._open: dict[Antichain, _Extents] = {}
        # Whose deltas these are, by the first one.
        self._name: Any = None

    @property
    def view(self) -> dict[str, dict[Key, Values]]:
        """Table -> key -> values."""
        return {name: shown.rows for name, shown in self._tables.items()}

    def take(self, message: bytes | str | Mapping[str, Any]) -> bool:
        """Take in a delta or a statement; whether the view has moved.

        Raises DecodeError for what is neither, ContradictionError if a duplicate differs, RefusedError for messages of
        another materialization or another recovery log, ViewError if a row would be there less than no times. A message
        that raises changes nothing: the next message finds everything as it was.
        """
        plain = message if isinstance(message, Mapping) else _decoded(message)
        shown, lower, upper = self._placed(plain)
        content = _stated(plain) if "deltas" in plain else shown.change(plain)
        if upper not in self._open.get(lower, {}):
            if self.frontier.dominates(upper):
                self.repeats += 1
                return False
            self._demand_apart(lower, upper)
            self._name = plain.get("materialization")
        tables = self._open.setdefault(lower, {}).setdefault(upper, {})
        awaited = tables.setdefault(shown.table.name, _TransactionDeltas())
        self.repeats += awaited.state(upper, content) if isinstance(content, int) else awaited.add(upper, *content)
        moved = False
        while self._settle():
            moved = True
        return moved

    def _demand_apart(self, lower: Antichain, upper: Antichain) -> None:
        """Raise RefusedError unless the extents of one recovery log follow each other.

        None overlaps another, or ends behind what the view has.
        """
        others = [(one, end) for one, ends in self._open.items() for end in ends]
        met = [other for other in others if not other[0].dominates(upper) and not lower.dominates(other[1])]
        if not lower.dominates(self.frontier):
            met.append((Antichain(), self.frontier))
        if met:
            near = f"others from {met[0][0]} to {met[0][1]}" if met[0][0] else f"the view, which is at {met[0][1]}"
            raise RefusedError(
                f"deltas from {lower} to {upper} overlap {near}: they were pushed with another recovery log, or an old "
                "one (as of a backup), and would be added a second time. Push with the right one; or start over, "
                "with an empty topic or receiver, an empty recovery log and a new subscriber"
            )

    def _placed(self, plain: Mapping[str, Any]) -> tuple[_TableRows, Antichain, Antichain]:
        if plain.get("version") != VERSION or not {"table", "lower", "upper"} <= set(plain):
            raise DecodeError(f"{dict(plain)!r} is no delta of version {VERSION}")
        if not isinstance(plain["table"], str) or plain["table"] not in self._tables:
            raise RefusedError(f"a delta is of the table {plain['table']!r}, and there are {', '.join(self._tables)}")
        name = plain.get("materialization")
        if self._name not in (None, name):
            raise RefusedError(
                f"a delta is of the materialization {name!r}, and those before were of {self._name!r}: two push to one "
                "place. Give each a place of its own, and start over"
            )
        try:
            lower, upper = Antichain.from_plain(plain["lower"]), Antichain.from_plain(plain["upper"])
        except (TypeError, MalformedError) as cause:
            raise DecodeError(f"a delta from {plain['lower']!r} to {plain['upper']!r}: {cause}") from cause
        if lower.dominates(upper):
            raise DecodeError(f"a delta from {lower} to {upper}: a transaction ends beyond where it begins")
        return self._tables[plain["table"]], lower, upper

    def _settle(self) -> bool:
        """Put the next transaction into the view, if all of it is there."""
        extents = self._open.get(self.frontier, {})
        for upper, tables in extents.items():
            if len(tables) == len(self._tables) and all(awaited.whole for awaited in tables.values()):
                after = {name: self._tables[name].after(awaited.changes) for name, awaited in tables.items()}
                # Nothing is wrong with any table: now they move, all of them.
                for name, rows in after.items():
                    self._tables[name].put(rows)
                # Extents do not overlap: nothing else begins here.
                del self._open[self.frontier]
                self.frontier = upper
                return True
        return False


class _TransactionDeltas:
    """The deltas of one transaction for one table."""

    def __init__(self) -> None:
        self.stated: int | None = None
        self.changes: dict[Key, tuple[Values, bool]] = {}

    @property
    def whole(self) -> bool:
        return self.stated == len(self.changes)

    def state(self, upper: Antichain, deltas: int) -> bool:
        """How many there are; whether that was known.

        Raises ContradictionError unless it is what was stated before, and no fewer than are there.
        """
        before = self.stated
        if before not in (None, deltas):
            raise ContradictionError("count", upper, before, deltas)
        if deltas < len(self.changes):
            raise ContradictionError("count", upper, len(self.changes), deltas)
        self.stated = deltas
        return before is not None

    def add(self, upper: Antichain, key: Key, change: tuple[Values, bool]) -> bool:
        """One more; whether it was there.

        Raises ContradictionError for another one of its key, and for more than were stated.
        """
        before = self.changes.get(key)
        if before is None:
            if self.stated == len(self.changes):
                raise ContradictionError("count", upper, self.stated, self.stated + 1)
            self.changes[key] = change
            return False
        # By their text: NaN is unequal to itself.
        if repr(before) != repr(change):
            raise ContradictionError("diff", upper, before, change, data=key)
        return True


class _TableRows:
    """One table: how its changes are put into its rows."""

    def __init__(self, binding: ViewBinding) -> None:
        self.table: Table = binding.view().table
        self.rows: dict[Key, Values] = {}
        last = len(self.table.values) - 1
        # By column of the values: how a change goes with what is there. And which column counts the rows.
        self._with: list[Callable[[Any, Any], Any]] = [_replaced] * (last + 1)
        self._count: int | None = None
        if binding.reduce:
            counted = [name for name, one in binding.reduce.items() if isinstance(one, Count)]
            reductions = {**binding.reduce, **({} if counted else {COUNT: Count()})}
            self._with = [
                _greatest if isinstance(one, Max) else _least if isinstance(one, Min) else _added
                for one in reductions.values()
            ]
            self._count = list(reductions).index(counted[0] if counted else COUNT)
        elif not binding.key:
            self._with[last], self._count = _added, last

    def change(self, plain: Mapping[str, Any]) -> tuple[Key, tuple[Values, bool]]:
        """The key of a delta, its values, and whether it is deleted. Raises DecodeError."""
        try:
            values, delete = _values(self.table.values, plain["values"]), plain["delete"]
            if not isinstance(delete, bool):
                raise MalformedError(f"'delete' is true or false, and not {delete!r}: mend the sender")
            return _values(self.table.key, plain["key"]), (values, delete)
        except (KeyError, TypeError, MalformedError) as cause:
            raise DecodeError(f"a delta of {self.table.name}: {cause}") from cause

    def after(self, changes: Mapping[Key, tuple[Values, bool]]) -> dict[Key, Values | None]:
        """What a transaction's changes come to, by key; None for a row that goes. Raises ViewError."""
        found: dict[Key, Values | None] = {}
        for key, (change, delete) in changes.items():
            before = self.rows.get(key)
            after = change
            if before is not None:
                after = tuple(with_(old, new) for with_, old, new in zip(self._with, before, change))
            count = 1 if self._count is None else after[self._count]
            if count < 0:
                raise ViewError(self.table.name, key, f"it would be there {count} times")
            found[key] = None if delete or not count else after
        return found

    def put(self, rows: Mapping[Key, Values | None]) -> None:
        """These rows are there from now on, or go."""
        for key, values in rows.items():
            if values is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = values


def _decoded(raw: bytes | str) -> Mapping[str, Any]:
    try:
        plain = parse_json(raw)
    except ValueError as cause:
        raise DecodeError(f"no JSON: {cause}") from cause
    if not isinstance(plain, dict):
        raise DecodeError(f"{plain!r} is no JSON object")
    return plain


def _stated(plain: Mapping[str, Any]) -> int:
    """How many deltas a statement counts. Raises DecodeError."""
    deltas = plain["deltas"]
    if type(deltas) is not int or deltas < 0:
        raise DecodeError(f"a statement of {deltas!r} deltas: it is a whole number from 0 on")
    return deltas


def _values(fields: tuple[Field, ...], plain: Mapping[str, Any]) -> Values:
    return tuple([value_from_plain(one, plain[one.name]) for one in fields])


def _replaced(old: Any, new: Any) -> Any:
    return new


def _added(old: Any, new: Any) -> Any:
    return EXACT.add(old, new) if isinstance(new, Decimal) else old + new


def _least(old: Any, new: Any) -> Any:
    there = [one for one in (old, new) if one is not None]
    return min(there, key=lambda one: (one != one, one), default=None)


def _greatest(old: Any, new: Any) -> Any:
    there = [one for one in (old, new) if one is not None]
    return max(there, key=lambda one: (one != one, one), default=None)
