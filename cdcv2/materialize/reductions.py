"""Reductions: what one column of a view becomes of the rows of a key, from their diffs alone.

Each is *incremental*: the value after a transaction follows from the value before and the transaction's updates,
however the updates are spread over transactions. So there are sums of exact numbers and none of floats, and a minimum
either keeps every value that it has seen, with its count, or refuses to have one taken away.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal, Inexact
from typing import Any, ClassVar

from cdcv2.core.order import Time
from cdcv2.errors import MalformedError, RefusedError, UsageError
from cdcv2.materialize.columns import Column, column_of
from cdcv2.materialize.messages import Field, Values
from cdcv2.wire.plain import bytes_from_plain
from cdcv2.wire.rows import RowType
from cdcv2.wire.source_types import SourceType


#: Python's decimals otherwise round to 28 digits, silently.
EXACT = Context(prec=5000, traps=[Inexact])


class Reduction(ABC):
    """What a user asks for: a reduction, by the name of a column of the log's rows."""

    @abstractmethod
    def bind(self, name: str, row_type: RowType) -> Bound:
        """For the view's column ``name`` and rows of this type. Raises UsageError when the column does not fit."""


class Bound(ABC):
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
    """Internal: what would be there less than no times; the view says for which key, as ViewError."""


@dataclass(frozen=True)
class Count(Reduction):
    """How many rows the key has."""

    def bind(self, name: str, row_type: RowType) -> Bound:
        """See :class:`Reduction`; fits every row type."""
        return _Sum(Field(name, "integer"), None)


@dataclass(frozen=True)
class Sum(Reduction):
    """The sum of a column of whole or decimal numbers over the rows of the key; null counts as nothing."""

    column: str

    def bind(self, name: str, row_type: RowType) -> Bound:
        """See :class:`Reduction`. Sums of floats depend on the order of adding, so they are refused."""
        column = column_of(row_type, self.column)
        field, source = column.field, column.field.source
        if source is not None and source.type in ("numeric", "money") and field.kind in ("string", "json"):
            return _SumOfNumerics(name, column)
        if field.kind not in ("int", "long", "decimal"):
            raise UsageError(
                f"{name}: the sum of {self.column!r} cannot be kept, as its kind is {field.kind!r}: sums are of "
                "whole numbers and decimals, which come to the same in any order. Of a numeric or money of the source "
                "that the log has as text, the row schema must state that it is one (cdcv2 rows --from-postgres)"
            )
        kind = "decimal" if field.kind == "decimal" else "integer"
        return _Sum(Field(name, kind, scale=field.scale), column)


class _Sum(Bound):
    def __init__(self, field: Field, column: Column | None) -> None:
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

    def __init__(self, name: str, column: Column) -> None:
        source = column.field.source or SourceType("numeric")
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
    """What the row that was written last has in a column: of the greatest time; of several, of the greatest bytes.

    It is what was last *written*: taking that row away leaves it there for as long as the key has rows.
    """

    column: str

    def bind(self, name: str, row_type: RowType) -> Bound:
        """See :class:`Reduction`; fits every column."""
        column = column_of(row_type, self.column)
        return _Last(replace(column.field, name=name, nullable=True), column, row_type)


class _Last(Bound):
    def __init__(self, field: Field, column: Column, row_type: RowType) -> None:
        self.fields = (field,)
        self._column, self._row_type = column, row_type

    def begin(self) -> Any:
        return None

    def add(self, so_far: Any, row: Any, time: Time, diff: int) -> Any:
        if diff < 0 or (so_far is not None and so_far[0] > time):
            return so_far
        if so_far is not None and so_far[0] == time:
            return max(so_far, (time, row), key=lambda found: self._row_type.encode(found[1]))
        return (time, row)

    def after(self, so_far: Any, before: Values | None) -> Values:
        if so_far is None:
            return before if before is not None else (None,)
        return (self._column.value(so_far[1]),)


@dataclass(frozen=True)
class Min(Reduction):
    """The least value of a column over the rows of the key; nulls apart, NaN greatest.

    With ``retractions`` (the default) the table has a second column ``NAME_values``, in which every value of the key is
    kept with its count: what that costs grows with the distinct values of a key. Without, a retraction is an error.
    """

    column: str
    retractions: bool = True
    _pick: ClassVar[str] = "min"

    def bind(self, name: str, row_type: RowType) -> Bound:
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


class _Extreme(Bound):
    def __init__(self, fields: tuple[Field, ...], column: Column, greatest: bool) -> None:
        self.fields = fields
        self._column, self._greatest = column, greatest
        self._order = column.order

    def begin(self) -> Any:
        return {}

    def add(self, so_far: Any, row: Any, time: Time, diff: int) -> Any:
        if diff < 0 and len(self.fields) == 1:
            raise RefusedError(
                f"{self.fields[0].name!r} was told to expect no retractions, and the row {row!r} is retracted at time "
                f"{time}: let it keep its values (leave retractions out), and materialize it anew"
            )
        text = self._column.text(row)
        if text is not None:
            so_far[text] = so_far.get(text, 0) + diff
        return so_far

    def after(self, so_far: Any, before: Values | None) -> Values:
        if len(self.fields) == 1:
            found = [self._column.from_text(text) for text in so_far]
            if before is not None and before[0] is not None:
                found.append(before[0])
            return (self._best(found),)
        counts = dict[str, int](json.loads(before[1])) if before is not None else {}
        for text, diff in so_far.items():
            counts[text] = counts.get(text, 0) + diff
            if counts[text] < 0:
                name = self._column.field.name
                raise NegativeCount(f"the value {text} of {name!r} would be there {counts[text]} times")
        kept = {text: count for text, count in sorted(counts.items()) if count}
        best = self._best([self._column.from_text(text) for text in kept])
        return best, json.dumps(kept, ensure_ascii=False, separators=(",", ":"))

    def _best(self, values: Sequence[Any]) -> Any:
        # NaN is unequal to itself, and here greater than every other number.
        order = self._order or _itself
        ranked = sorted(values, key=lambda value: (value != value, order(value)))
        if not ranked:
            return None
        return ranked[-1] if self._greatest else ranked[0]


def _itself(value: Any) -> Any:
    return value
