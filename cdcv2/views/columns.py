"""Columns of rows as columns of tables: which kind each has, and its values there and back.

Physical values, as everywhere (docs/types.md): a timestamp is a long. Numbers, text and bytes are themselves, a decimal
is Python's, and what is composed (arrays, maps, records) is its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from cdcv2.errors import MalformedError, UsageError
from cdcv2.materialize.protocol.messages import Field
from cdcv2.rows.columns import chunked, column_values, whole_array
from cdcv2.rows.plain import SAFE, from_plain, to_plain
from cdcv2.rows.postgres_values import order
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import Shape
from cdcv2.rows.values import decimal_text
from cdcv2.views.source_columns import normal_of

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(), "json": pa.string(),
}  # fmt: skip
_SAME = {"boolean", "int", "long", "float", "double", "string", "bytes"}
_AS = {"enum": "string", "fixed": "bytes"}


@dataclass(frozen=True)
class ViewColumn:
    """A column of a row type, for a table: ``field`` has its kind there."""

    field: Field
    index: int
    _outward: Callable[[Any], Any] | None
    _inward: Callable[[Any], Any] | None
    _plain: Callable[[Any], Any]
    _from_plain: Callable[[Any], Any]
    _normal: Callable[[Any], Any] | None = None
    #: the table whose column it is, for errors
    table: str = ""

    def value(self, row: Any) -> Any:
        """What stands in the table for this column of the row, in the spelling that every target gives back."""
        value = row[self.index]
        if value is None:
            return None
        value = value if self._outward is None else self._outward(value)
        try:
            return value if self._normal is None else self._normal(value)
        except MalformedError as cause:
            raise self._named(cause) from None

    def _named(self, cause: MalformedError) -> MalformedError:
        return MalformedError(f"{f'{self.table}: ' if self.table else ''}in the column {self.field.name!r}, {cause}")

    def array(self, row_type: RowType, given: pa.ChunkedArray) -> pa.ChunkedArray:
        """The same of a whole column of a batch (:mod:`cdcv2.rows.columns`), in the type of :func:`arrow_of`."""
        wanted = arrow_of(self.field)
        if self._normal is None and (self._outward is None or self.field.kind == "decimal"):
            return given.cast(wanted)
        outward, normal = self._outward or _itself, self._normal or _itself
        if self.field.kind != "json":
            # Values that are there many times are converted once.
            column = whole_array(given).dictionary_encode()
            values = self._made(row_type, pa.chunked_array([column.dictionary]), outward, normal)
            return chunked(values, wanted).take(column.indices)
        return chunked(self._made(row_type, given, outward, normal), wanted)

    def _made(
        self, row_type: RowType, given: pa.ChunkedArray, outward: Callable[[Any], Any], normal: Callable[[Any], Any]
    ) -> list[Any]:
        values = column_values(row_type.shape.columns[self.index].shape, given)
        try:
            return [None if value is None else normal(outward(value)) for value in values]
        except MalformedError as cause:
            raise self._named(cause) from None

    @property
    def order(self) -> Callable[[Any], Any] | None:
        """What the column's values are ranked by, where it is not themselves: text of numbers and of moments."""
        source = self.field.source
        return order(source) if source is not None and self.field.kind == "string" else None

    @property
    def has_spellings(self) -> bool:
        """Whether two values of rows may be one value in the table."""
        return self._normal is not None

    def back(self, value: Any) -> Any:
        """What a row type takes for it."""
        return value if self._inward is None or value is None else self._inward(value)

    def text(self, row: Any) -> str | None:
        """The value, of a column that has an order, as text by which equal ones are found; None for null."""
        value = row[self.index]
        if value is None:
            return None
        if self._normal is not None:
            value = self.value(row)
        return json.dumps(self._plain(value), ensure_ascii=False)

    def from_text(self, text: str) -> Any:
        """The value of the table that :meth:`text` was made of."""
        return self._from_plain(json.loads(text))


def arrow_of(field: Field) -> pa.DataType:
    """The Arrow type in which columns of this kind cross seams.

    >>> arrow_of(Field("price", "decimal", precision=12, scale=2)), arrow_of(Field("doc", "json"))
    (Decimal128Type(decimal128(12, 2)), DataType(string))
    """
    if field.kind in ("integer", "decimal"):
        digits = field.precision or 38
        return (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, field.scale or 0)
    return _ARROW[field.kind]


def _itself(value: Any) -> Any:
    return value


def column_of(row_type: RowType, name: str, table: str = "") -> ViewColumn:
    """The column of this name, for a table. Raises UsageError when there is none, or when no table could hold it."""
    if name not in row_type.columns:
        raise UsageError(f"there is no column {name!r}: the log's rows have {', '.join(row_type.columns)}")
    index = row_type.columns.index(name)
    shape = row_type.shape.columns[index].shape
    nullable = shape.kind == "optional"
    made = _column(name, index, shape.item if nullable else shape, nullable)
    typed = replace(made.field, source=row_type.sources[index])
    return replace(made, field=typed, _normal=normal_of(typed), table=table)


def columns_of(row_type: RowType, table: str = "") -> tuple[ViewColumn, ...]:
    """All columns, in order. Raises UsageError as :func:`column_of`."""
    return tuple(column_of(row_type, name, table) for name in row_type.columns)


def _column(name: str, index: int, shape: Shape, nullable: bool) -> ViewColumn:
    plain, back = to_plain(shape), from_plain(shape, f"column {name!r}")
    if shape.decimal is not None:
        precision, scale = shape.decimal
        field = Field(name, "decimal", nullable, precision, scale)
        return ViewColumn(field, index, partial(_decimal, scale), None, plain, back)
    kind = _AS.get(shape.kind, shape.kind)
    if kind in _SAME:
        return ViewColumn(Field(name, kind, nullable), index, None, None, plain, back)
    if kind in ("array", "map", "record"):
        field = Field(name, "json", nullable)
        return ViewColumn(field, index, partial(_json, plain), partial(_from_json, back), plain, back)
    raise UsageError(f"column {name!r} is of the type {kind!r}, which no table has a column for: leave it out")


def _decimal(scale: int, raw: bytes) -> Decimal:
    return Decimal(decimal_text(raw, scale))


def _json(plain: Callable[[Any], Any], value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))


def _from_json(back: Callable[[Any], Any], text: str) -> Any:
    return back(json.loads(text, parse_int=_number))


def _number(digits: str) -> int | float:
    # Whole numbers that are not safe are strings in plain JSON (wire/plain.py): this is a float, which a system that
    # keeps JSON in a form of its own gives back with all its zeros.
    return int(digits) if len(digits) < 18 and -SAFE <= int(digits) <= SAFE else float(digits)
