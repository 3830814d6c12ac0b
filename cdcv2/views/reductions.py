"""Reductions: what one column of a view becomes of the rows of a key, from their diffs alone.

Each is *incremental*: the value after a transaction follows from the value before and the transaction's updates,
however the updates are spread over transactions. So there are sums of exact numbers and none of floats; and a minimum
keeps every value of the key with its count, the value written last every row with its time, or they refuse to have
one taken away.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple, cast

from cdcv2.core.order import Time
from cdcv2.errors import MalformedError, RefusedError, UsageError
from cdcv2.materialize.protocol.deltas import plain_value, value_from_plain
from cdcv2.materialize.protocol.messages import Field, Values
from cdcv2.rows.plain import bytes_from_plain, int_from_plain, plain_int
from cdcv2.rows.postgres_values import EXACT
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType
from cdcv2.views.columns import ViewColumn, column_of


class Reduction(ABC):
    """What a user asks for: a reduction, by the name of a column of the log's rows."""

    @abstractmethod
    def bind(self, name: str, row_type: RowType) -> BoundReduction:
        """For the view's column ``name`` and rows of this type. Raises UsageError when the column does not fit."""


class BoundReduction(ABC):
    """A reduction of one column of a view. An accumulator is whatever :meth:`begin` gives and :meth:`add` returns."""

    #: the columns that it needs in the table: the visible one, then what it must remember
    fields: tuple[Field, ...]

    @abstractmethod
    def begin(self) -> Any:
        """The accumulator of no updates."""

    @abstractmethod
    def add(self, so_far: Any, row: Any, time: Time, diff: int) -> Any:
        """With one more update. Raises RefusedError for a retraction that it cannot follow."""

    @abstractmethod
    def after(self, so_far: Any, before: Values | None) -> Values:
        """The values of :attr:`fields` after the updates; ``before``: what they were, None for a new key.

        Raises NegativeCount when something would be there less than no times.
        """


class NegativeCount(Exception):
    """Internal: a row would be there less than no times; the view names its key, in a ViewError."""


@dataclass(frozen=True)
class Count(Reduction):
    """How many rows the key has."""

    def bind(self, name: str, row_type: RowType) -> BoundReduction:
        """See :class:`Reduction`; fits every row type."""
        return _Sum(Field(name, "integer"), None)


@dataclass(frozen=True)
class Sum(Reduction):
    """The sum of a column of whole or decimal numbers over the rows of the key; null counts as nothing."""

    column: str

    def bind(self, name: str, row_type: RowType) -> BoundReduction:
        """See :class:`Reduction`. Raises UsageError unless the sum is of numbers, and the same in any order."""
        column = column_of(row_type, self.column)
        field, source = column.field, column.field.source
        if source is not None and source.type in ("numeric", "money") and field.kind in ("string", "json"):
            return _SumOfNumerics(name, column, source)
        if field.kind not in ("int", "long", "decimal"):
            raise UsageError(
                f"{name}: the sum of {self.column!r} cannot be kept, as its kind is {field.kind!r}: sums are of "
                "whole numbers and decimals, which come to the same in any order. Of a numeric or money of the source "
                "that the log has as text, the row schema must state that it is one (cdcv2 rows --source env)"
            )
        kind = "decimal" if field.kind == "decimal" else "integer"
        return _Sum(Field(name, kind, scale=field.scale), column)


class _Sum(BoundReduction):
    def __init__(self, field: Field, column: ViewColumn | None) -> None:
        self.fields = (field,)
        self._column = column

    def begin(self) -> Any:
        return Decimal(0) if self.fields[0].kind == "decimal" else 0

    def value(self, row: Any) -> Any:
        """What a row adds; None: nothing."""
        return 1 if self._column is None else self._column.value(row)

    def add(self, so_far: Any, row: Any, time: Time, diff: int) -> Any:
        value = self.value(row)
        if value is None:
            return so_far
        if isinstance(value, Decimal):
            return EXACT.add(so_far, EXACT.multiply(value, Decimal(diff)))
        return so_far + value * diff

    def after(self, so_far: Any, before: Values | None) -> Values:
        if before is None:
            return (so_far,)
        return (EXACT.add(so_far, before[0]) if isinstance(so_far, Decimal) else so_far + before[0],)


class _SumOfNumerics(_Sum):
    """Of numbers that the log has as text, or as records of unscaled bytes and a scale.

    With a scale, the sum is a decimal of it. Without, it is text where a system has no numbers of any scale.
    """

    def __init__(self, name: str, column: ViewColumn, source: SourceType) -> None:
        scale = 2 if source.type == "money" else None if source.scale is None else max(source.scale, 0)
        field = Field(name, "string", source=SourceType("numeric")) if scale is None else Field(
            name, "decimal", scale=scale
        )
        super().__init__(field, column)
        self._named = column

    def begin(self) -> Any:
        return Decimal(0)

    def value(self, row: Any) -> Any:
        value = self._named.value(row)
        if value is None:
            return None
        if self._named.field.kind == "json":
            plain = json.loads(value)
            unscaled = int.from_bytes(bytes_from_plain(plain["value"]), "big", signed=True)
            return EXACT.scaleb(Decimal(unscaled), -plain["scale"])
        number = EXACT.create_decimal(value)
        if not number.is_finite():
            raise MalformedError(
                f"{self.fields[0].name}: a row has {value} in the column {self._named.field.name!r}, which no sum can "
                f"give up again: {row!r}. Mend the source's row, or leave the sum out"
            )
        return number

    def after(self, so_far: Any, before: Values | None) -> Values:
        text = self.fields[0].kind == "string"
        (found,) = super().after(so_far, (Decimal(before[0]),) if before is not None and text else before)
        return (format(found, "f"),) if text else (found,)


@dataclass(frozen=True)
class Last(Reduction):
    """What the row that was written last has in a column, of the rows that the key has now.

    A row counts as written at the greatest time at which it was added; of several that were written at one time, the
    greatest value counts, as :class:`Max` has it. With ``retractions`` (the default) the table has a second column
    ``NAME_rows``, in which each row of the key is kept, as its SHA-256, with its count, its time and its value: what
    that costs grows with the rows of a key. Without, a retraction is an error.
    """

    column: str
    retractions: bool = True

    def bind(self, name: str, row_type: RowType) -> BoundReduction:
        """See :class:`Reduction`; fits every column."""
        column = column_of(row_type, self.column)
        visible = replace(column.field, name=name, nullable=True)
        kept = last_rows(name) if self.retractions else ()
        return _Last((visible, *kept), column, row_type)


def last_rows(name: str) -> tuple[Field, ...]:
    """What a view with a :class:`Last` of this name has beside what it shows."""
    return (Field(f"{name}_rows", "json"),)


class _WrittenRow(NamedTuple):
    """A row of a key: how many times it is there, since when (it was added last then), and what it shows."""

    times: int
    since: int
    value: Any


class _Last(BoundReduction):
    """The accumulator is row's SHA-256 -> what was added to it."""

    def __init__(self, fields: tuple[Field, ...], column: ViewColumn, row_type: RowType) -> None:
        self.fields = fields
        self._column, self._row_type = column, row_type

    def begin(self) -> Any:
        return {}

    def add(self, so_far: Any, row: Any, time: Time, diff: int) -> Any:
        if diff < 0 and len(self.fields) == 1:
            raise _retracted(self.fields[0].name, row, time)
        identity = hashlib.sha256(self._row_type.encode(row)).hexdigest()
        # A materialization is of integer times.
        since = cast(int, time) if diff > 0 else _NEVER
        _join(so_far, identity, _WrittenRow(diff, since, self._column.value(row)))
        return so_far

    def after(self, so_far: Any, before: Values | None) -> Values:
        if len(self.fields) == 1:
            return (self._last(so_far.values()),)
        rows = self._kept(before)
        for identity, one in so_far.items():
            _join(rows, identity, one)
            if rows[identity].times < 0:
                name = self._column.field.name
                raise NegativeCount(f"a row with {one.value!r} as {name!r} would be there {rows[identity].times} times")
        there = {identity: one for identity, one in sorted(rows.items()) if one.times}
        kept = {
            identity: [one.times, plain_int(one.since), plain_value(self.fields[0], one.value)]
            for identity, one in there.items()
        }
        return self._last(there.values()), json.dumps(kept, ensure_ascii=False, separators=(",", ":"))

    def _kept(self, before: Values | None) -> dict[str, _WrittenRow]:
        plain = json.loads(before[1]) if before is not None else {}
        return {
            identity: _WrittenRow(times, int_from_plain(since), value_from_plain(self.fields[0], value))
            for identity, (times, since, value) in plain.items()
        }

    def _last(self, rows: Iterable[_WrittenRow]) -> Any:
        found = list(rows)
        latest = max((one.since for one in found), default=_NEVER)
        return _greatest([one.value for one in found if one.since == latest and one.value is not None], self._column)


#: Less than every time: when a row that is only taken away was added.
_NEVER = -1


def _join(rows: dict[str, _WrittenRow], identity: str, one: _WrittenRow) -> None:
    held = rows.get(identity)
    rows[identity] = one if held is None else _WrittenRow(held.times + one.times, max(held.since, one.since), one.value)


@dataclass(frozen=True)
class Min(Reduction):
    """The least value of a column over the rows of the key; nulls apart, NaN greatest.

    With ``retractions`` (the default) the table has a second column ``NAME_values``, in which every value of the key is
    kept with its count: what that costs grows with the distinct values of a key. Without, a retraction is an error.
    """

    column: str
    retractions: bool = True
    _pick: ClassVar[str] = "min"

    def bind(self, name: str, row_type: RowType) -> BoundReduction:
        """See :class:`Reduction`. Raises UsageError for columns of which none is least."""
        column = column_of(row_type, self.column)
        field = column.field
        if field.kind == "json":
            raise UsageError(f"{name}: the values of {self.column!r} have no order: name a column of numbers or text")
        visible = replace(field, name=name, nullable=True)
        kept = (Field(f"{name}_values", "json"),) if self.retractions else ()
        return _Extreme((visible, *kept), column, self._pick == "max")


class Max(Min):
    """The greatest value of a column over the rows of the key; otherwise as :class:`Min`."""

    _pick: ClassVar[str] = "max"


class _Extreme(BoundReduction):
    def __init__(self, fields: tuple[Field, ...], column: ViewColumn, greatest: bool) -> None:
        self.fields = fields
        self._column, self._pick = column, _greatest if greatest else _least

    def begin(self) -> Any:
        return {}

    def add(self, so_far: Any, row: Any, time: Time, diff: int) -> Any:
        if diff < 0 and len(self.fields) == 1:
            raise _retracted(self.fields[0].name, row, time)
        text = self._column.text(row)
        if text is not None:
            so_far[text] = so_far.get(text, 0) + diff
        return so_far

    def after(self, so_far: Any, before: Values | None) -> Values:
        if len(self.fields) == 1:
            found = [self._column.from_text(text) for text in so_far]
            if before is not None and before[0] is not None:
                found.append(before[0])
            return (self._pick(found, self._column),)
        counts = dict[str, int](json.loads(before[1])) if before is not None else {}
        for text, diff in so_far.items():
            counts[text] = counts.get(text, 0) + diff
            if counts[text] < 0:
                name = self._column.field.name
                raise NegativeCount(f"the value {text} of {name!r} would be there {counts[text]} times")
        kept = {text: count for text, count in sorted(counts.items()) if count}
        best = self._pick([self._column.from_text(text) for text in kept], self._column)
        return best, json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _retracted(name: str, row: Any, time: Time) -> RefusedError:
    return RefusedError(
        f"{name!r} was declared to have no retractions, and the row {row!r} is retracted at time {time}: let it keep "
        "what it needs (leave retractions out), and materialize it again"
    )


def _least(values: Iterable[Any], column: ViewColumn) -> Any:
    """Of a column's values in the table the least; None where there is none."""
    return next(iter(_ranked(values, column)), None)


def _greatest(values: Iterable[Any], column: ViewColumn) -> Any:
    """Of a column's values in the table the greatest; None where there is none."""
    return next(reversed(_ranked(values, column)), None)


def _ranked(values: Iterable[Any], column: ViewColumn) -> list[Any]:
    # NaN is unequal to itself, and here greater than every other number.
    order = column.order or _itself
    return sorted(values, key=lambda value: (value != value, order(value)))


def _itself(value: Any) -> Any:
    return value
