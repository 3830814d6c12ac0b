"""Codec for changes whose before-image is not known yet: how TEMP holds them.

A record of :data:`PARTIAL_CHANGE`: the kind of change, and the parts of rows that it names. A part has the names of its
columns, and their values as the canonical bytes of a row of only these columns. Equal changes are equal bytes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

from cdcv2.capture.facts import PartialChange, PartialImage
from cdcv2.errors import DecodeError
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import emit

#: The row type of a partial change, of any table.
PARTIAL_CHANGE = RowType({"type": "record", "name": "told", "fields": [
    {"name": "op", "type": "string", "doc": "c, u, d, or t: all rows go"},
    {"name": "parts", "type": {"type": "array", "items": {"type": "record", "name": "part", "fields": [
        {"name": "of", "type": "string", "doc": "key, old or new"},
        {"name": "columns", "type": {"type": "array", "items": "string"}},
        {"name": "row", "type": "bytes", "doc": "of a row type of these columns, in the order of the table's"},
    ]}}},
]})  # fmt: skip
_PARTS = ("key", "old", "new")


class PartialChangeCodec:
    """The codec of one table's partial changes; ``row_type`` is the table's.

    >>> rows = PartialChangeCodec(RowType({"type": "record", "name": "t", "fields": [
    ...     {"name": "id", "type": "int"}, {"name": "note", "type": "string"}]}))
    >>> change = PartialChange("d", PartialImage(("id",), (7,)), None, None)
    >>> rows.decode(rows.encode(change)) == change
    True
    """

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type

    def encode(self, change: PartialChange) -> bytes:
        """The bytes. Raises MalformedError for values that are not of the row type."""
        named = zip(_PARTS, (change.key, change.old, change.new))
        return PARTIAL_CHANGE.encode((change.op, [
            (name, list(part.columns), self._part_type(part.columns).encode(part.values) if part.columns else b"")
            for name, part in named if part is not None
        ]))  # fmt: skip

    def decode(self, data: bytes) -> PartialChange:
        """The change. Raises DecodeError for bytes that are none, and for columns that the table has not."""
        row = PARTIAL_CHANGE.decode(data)
        parts = {part.of: self._part(tuple(part.columns), part.row) for part in row.parts}
        return PartialChange(row.op, *(parts.get(name) for name in _PARTS))

    def _part(self, columns: tuple[str, ...], data: bytes) -> PartialImage:
        if not columns:
            return PartialImage((), ())
        unknown = sorted(set(columns).difference(self._row_type.columns))
        if unknown:
            raise DecodeError(f"it has the column {unknown[0]!r}, which the row type has not", raw=data)
        values = self._part_type(columns).decode(data)
        return PartialImage(columns, values if len(columns) == len(self._row_type.columns) else tuple(values))

    def _part_type(self, columns: tuple[str, ...]) -> RowType:
        return self._row_type if columns == self._row_type.columns else part_type(self._row_type, frozenset(columns))


@lru_cache(maxsize=1000)
def part_type(row_type: RowType, names: Collection[str]) -> RowType:
    """The row type of some of the columns, in their order. Cost: milliseconds, once for each set of them."""
    shape = row_type.shape
    columns = tuple(column for column in shape.columns if column.name in names)
    return RowType(emit(replace(shape, columns=columns)))
