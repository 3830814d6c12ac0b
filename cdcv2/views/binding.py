"""Bindings: which view of which log is kept in which table, and what works each of the three views out.

A view is one of three:

- **rows by key** (``key``): the table has the log's columns; a key has one row at most. Two current rows, or one that
  is there less than no times, are a :class:`~cdcv2.errors.ViewError`;
- **a multiset** (no ``key``): for logs whose rows have none. The table has the log's columns, the column ``cdcv2_row``
  (SHA-256 of the row's canonical bytes, its key) and ``cdcv2_count``, how many times the row is there;
- **reductions** (``key`` and ``reduce``): the table has the key and a column per reduction, and how many rows there are
  (``cdcv2_count``, unless a Count is asked for by name).

``deletes="soft"`` keeps deleted rows: rows by key and reductions get the column ``cdcv2_deleted``, a multiset keeps the
row with the count 0. ``delta=True`` makes the table one that is only pushed to: what is stored are the changes that a
transaction makes, and nothing is ever loaded.

The three views stand side by side: they share one form, and differ in how a key's changes are combined.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cdcv2.core.order import Time
from cdcv2.errors import MalformedError, UsageError, ViewError
from cdcv2.materialize.protocol.messages import DELETED, Field, Key, Store, Table, Values
from cdcv2.rows.columns import arrow_schema
from cdcv2.rows.row_type import RowType
from cdcv2.views.changes import NetChanges, NetCounts
from cdcv2.views.columns import ViewColumn, column_of, columns_of
from cdcv2.views.reductions import BoundReduction, Count, Last, Min, NegativeCount, Reduction

COUNT, IDENTITY = "cdcv2_count", "cdcv2_row"
#: How many of the rows that one key would have are named.
_SHOWN = 2
_NO_KEYS = {"float", "double", "json"}
#: types of the source of which no two values are equal or different
_NO_EQUALITY = {"json", "xml"}


@dataclass(frozen=True)
class ViewBinding:
    """One log's rows, as a view in one table; see the module for which views there are.

    Args:
        log: the part of the timeline that the log is.
        row_type: its rows.
        target: the table's name in the foreign system.
        key: the columns of which no two current rows share the values; none for a multiset.
        reduce: column of the view -> reduction.
        deletes: ``"hard"`` or ``"soft"``.
        delta: whether the table takes changes.

    Raises UsageError, naming what does not fit.
    """

    log: str
    row_type: RowType
    target: str
    key: tuple[str, ...] = ()
    reduce: Mapping[str, Reduction] = field(default_factory=dict)
    deletes: str = "hard"
    delta: bool = False

    @property
    def marked(self) -> bool:
        """Whether deleted rows stay, marked by ``cdcv2_deleted``. A column of that name may also be the log's own."""
        return bool(self.key) and self.deletes == "soft" and not self.delta

    def __post_init__(self) -> None:
        if self.deletes not in ("hard", "soft"):
            raise UsageError(f"{self.target}: deletes={self.deletes!r} is neither 'hard' nor 'soft'")
        for name in self.key:
            if self.key.count(name) > 1:
                raise UsageError(f"{self.target}: the key names the column {name!r} twice: name it once")
        if self.reduce and not self.key:
            raise UsageError(f"{self.target}: reductions need the key columns that they are grouped by")
        if self.delta and any(isinstance(one, Min) and one.retractions for one in self.reduce.values()):
            raise UsageError(f"{self.target}: no change can take a least value away: set retractions to false")
        if self.delta and any(isinstance(one, Last) for one in self.reduce.values()):
            raise UsageError(f"{self.target}: no change can state that the last value stays: push rows by key instead")
        names = [one.name for one in self.view().table.fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            what = "the reduction and another: name it otherwise"
            if twice[0] not in self.reduce:
                what = "the log's and the view's own: delete hard, or call it otherwise in the source"
            raise UsageError(f"{self.target}: two columns would be called {twice[0]!r}, {what}")

    def view(self) -> View:
        """What works the view out."""
        return _ReductionView(self) if self.reduce else _Rows(self) if self.key else _Multiset(self)


class View(Protocol):
    """How one binding's rows become values. An accumulator holds the updates of one key of one transaction."""

    table: Table

    @property
    def changes(self) -> NetChanges | NetCounts | None:
        """What works its transactions out as columns; None: it has to know what is there, or has no exact columns."""

    def key_of(self, row: Any) -> Key:
        """The key that a row belongs to. Raises MalformedError for a null in it."""

    def place(self, row: Any) -> Key:
        """By what a ConflictError names the row: its key, or of a multiset without digests its columns' values."""

    def begin(self) -> Any:
        """The accumulator of no updates."""

    def add(self, so_far: Any, row: Any, time: Time, diff: int) -> Any:
        """With one more update."""

    def after(self, key: Key, so_far: Any, before: Values | None) -> Store | None:
        """What to store (its binding is still to be set); None when nothing changes. Raises ViewError."""


def _key_columns(binding: ViewBinding) -> tuple[ViewColumn, ...]:
    columns = tuple(column_of(binding.row_type, name, binding.target) for name in binding.key)
    for column in columns:
        reason = no_key_reason(column.field)
        if reason is not None:
            raise UsageError(f"{binding.target}: {column.field.name!r} is {reason}")
    return columns


def no_key_reason(column: Field) -> str | None:
    """Why a column cannot be part of a view's key; None: it can.

    >>> no_key_reason(Field("id", "long")), no_key_reason(Field("id", "double"))[:38]
    (None, "of the kind 'double' and cannot be a k")
    """
    if column.kind in _NO_KEYS:
        return (
            f"of the kind {column.kind!r} and cannot be a key: two equal values may look different in another system"
        )
    if column.source is not None and column.source.type in _NO_EQUALITY:
        return f"{column.source.type} in the source, which has no equality there, and cannot be a key"
    return None


def _key(target: str, columns: Sequence[ViewColumn], row: Any) -> Key:
    key = tuple([column.value(row) for column in columns])
    if None in key:
        names = [column.field.name for column, value in zip(columns, key) if value is None]
        raise MalformedError(
            f"{target}: the key column {names[0]!r} is null in {row!r}: name key columns that never are, or none, "
            "which makes the view a multiset"
        )
    return key


def _never_null(one: Field) -> Field:
    return replace(one, nullable=False)


class _Rows:
    """Rows by key: the accumulator is row -> sum of its diffs."""

    def __init__(self, binding: ViewBinding) -> None:
        self._binding, self._row_type = binding, binding.row_type
        self._key_columns = _key_columns(binding)
        self._columns = columns_of(binding.row_type, binding.target)
        self._others = tuple(one for one in self._columns if one.field.name not in binding.key)
        self._spelled = any(one.has_spellings for one in self._columns)
        self._soft = binding.marked
        mark = (Field(DELETED, "boolean"),) if self._soft else ()
        key, soft = tuple(_never_null(one.field) for one in self._key_columns), binding.deletes == "soft"
        self.changes: NetChanges | None = None
        if not binding.delta and arrow_schema(binding.row_type) is not None:
            self.changes = NetChanges(
                binding.row_type, binding.target, self._key_columns, self._others, self.key_of, marked=self._soft
            )
        self.table = Table(binding.target, key, (*(one.field for one in self._others), *mark), binding.delta, soft)

    def key_of(self, row: Any) -> Key:
        return _key(self._binding.target, self._key_columns, row)

    def place(self, row: Any) -> Key:
        return self.key_of(row)

    def begin(self) -> dict[Any, int]:
        return {}

    def add(self, so_far: dict[Any, int], row: Any, time: Time, diff: int) -> dict[Any, int]:
        so_far[row] = so_far.get(row, 0) + diff
        return so_far

    def after(self, key: Key, so_far: dict[Any, int], before: Values | None) -> Store | None:
        current = self._row(key, before)
        counts = dict(so_far)
        if self._spelled:
            current, counts = self._by_value(current, so_far)
        if current is not None:
            counts[current] = counts.get(current, 0) + 1
        there = [row for row, count in counts.items() if count > 0]
        self._demand_one(key, counts, there)
        if there:
            return None if there[0] == current else Store(0, key, self._values(there[0], False), before is not None)
        gone = current
        if self._binding.delta:
            gone = next((row for row, count in sorted(counts.items(), key=repr) if count < 0), None)
        if gone is None:
            return None
        return Store(0, key, self._values(gone, True), before is not None, delete=not self._soft)

    def _by_value(self, current: Any, so_far: dict[Any, int]) -> tuple[Any, dict[Any, int]]:
        """The current row and the counts, where rows that are one in the table are one."""
        same: dict[Values, Any] = {}

        def found(row: Any) -> Any:
            return same.setdefault(tuple([column.value(row) for column in self._columns]), row)

        counts: dict[Any, int] = {}
        for row, count in so_far.items():
            counts[found(row)] = counts.get(found(row), 0) + count
        return None if current is None else found(current), counts

    def _demand_one(self, key: Key, counts: dict[Any, int], there: list[Any]) -> None:
        least = -1 if self._binding.delta else 0
        for row, count in counts.items():
            if count < least:
                raise ViewError(self._binding.target, key, f"the row {row!r} would be there {count} times")
        if len(there) > 1 or any(counts[row] > 1 for row in there):
            raise self._several(key, counts, there)

    def _several(self, key: Key, counts: dict[Any, int], there: list[Any]) -> ViewError:
        """Two of the rows: all of them may be a table."""
        number = sum(counts[row] for row in there)
        rows = [f"{row!r}{f', {counts[row]} times' if counts[row] > 1 else ''}" for row in sorted(there, key=repr)]
        more = f"; and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        reason = f"it would have {number} current rows"
        return ViewError(self._binding.target, key, reason, f"{'; '.join(rows[:_SHOWN])}{more}")

    def _values(self, row: Any, deleted: bool) -> Values:
        values = tuple([column.value(row) for column in self._others])
        return (*values, deleted) if self._soft else values

    def _row(self, key: Key, before: Values | None) -> Any:
        """The current row, of what was loaded."""
        if before is None or (self._soft and before[-1]):
            return None
        known = dict(zip(self._binding.key, zip(self._key_columns, key)))
        known.update((one.field.name, (one, value)) for one, value in zip(self._others, before))
        found = [known[name] for name in self._row_type.columns]
        return self._row_type.row([column.back(value) for column, value in found])


class _Multiset:
    """All rows with their counts: the accumulator is [row, sum of its diffs]."""

    def __init__(self, binding: ViewBinding) -> None:
        self._binding = binding
        self._columns = columns_of(binding.row_type, binding.target)
        key, count, soft = Field(IDENTITY, "string"), Field(COUNT, "long"), binding.deletes == "soft"
        fields = (*(column.field for column in self._columns), count)
        self.changes: NetCounts | None = None
        if not binding.delta and arrow_schema(binding.row_type) is not None:
            self.changes = NetCounts(binding.row_type, binding.target, key, self._columns, count, self._digest_of)
        counted = self.changes is not None
        self.table = Table(binding.target, (key,), fields, binding.delta, soft, counted)

    def key_of(self, row: Any) -> Key:
        return (self._digest_of(row),)

    def _digest_of(self, row: Any) -> str:
        return hashlib.sha256(self._binding.row_type.encode(row)).hexdigest()

    def place(self, row: Any) -> Key:
        return tuple([column.value(row) for column in self._columns])

    def begin(self) -> list[Any]:
        return [None, 0]

    def add(self, so_far: list[Any], row: Any, time: Time, diff: int) -> list[Any]:
        return [row, so_far[1] + diff]

    def after(self, key: Key, so_far: list[Any], before: Values | None) -> Store | None:
        row, diff = so_far
        if not diff:
            return None
        count = diff + (before[-1] if before is not None else 0)
        if count < 0 and not self._binding.delta:
            raise ViewError(self._binding.target, key, f"the row {row!r} would be there {count} times")
        gone = not count and self._binding.deletes == "hard" and not self._binding.delta
        values = (*[column.value(row) for column in self._columns], count)
        return Store(0, key, values, before is not None, gone)


class _ReductionView:
    """Reductions by key: the accumulator is a list, one of each reduction."""

    changes: NetChanges | NetCounts | None = None

    def __init__(self, binding: ViewBinding) -> None:
        self._binding = binding
        self._key_columns = _key_columns(binding)
        wanted = dict(binding.reduce)
        counted = [name for name, one in wanted.items() if isinstance(one, Count)]
        if not counted:
            wanted[COUNT] = Count()
        self._bounds: list[BoundReduction] = [one.bind(name, binding.row_type) for name, one in wanted.items()]
        fields = [one for bound in self._bounds for one in bound.fields]
        self._at_count = [one.name for one in fields].index(counted[0] if counted else COUNT)
        self._soft = binding.marked
        if self._soft:
            fields.append(Field(DELETED, "boolean"))
        key = tuple(_never_null(column.field) for column in self._key_columns)
        self.table = Table(binding.target, key, tuple(fields), binding.delta, binding.deletes == "soft")

    def key_of(self, row: Any) -> Key:
        return _key(self._binding.target, self._key_columns, row)

    def place(self, row: Any) -> Key:
        return self.key_of(row)

    def begin(self) -> list[Any]:
        return [bound.begin() for bound in self._bounds]

    def add(self, so_far: list[Any], row: Any, time: Time, diff: int) -> list[Any]:
        return [bound.add(one, row, time, diff) for bound, one in zip(self._bounds, so_far)]

    def after(self, key: Key, so_far: list[Any], before: Values | None) -> Store | None:
        values: list[Any] = []
        try:
            for bound, one in zip(self._bounds, so_far):
                width, at = len(bound.fields), len(values)
                values += bound.after(one, None if before is None else before[at: at + width])
        except NegativeCount as cause:
            raise ViewError(self._binding.target, key, str(cause)) from None
        count = values[self._at_count]
        if self._binding.delta:
            return None if so_far == self.begin() else Store(0, key, tuple(values))
        if count < 0:
            raise ViewError(self._binding.target, key, f"it would have {count} rows")
        if self._soft:
            values.append(not count)
        after = tuple(values)
        if after == before or (before is None and not count):
            return None
        return Store(0, key, after, before is not None, not count and not self._soft)
