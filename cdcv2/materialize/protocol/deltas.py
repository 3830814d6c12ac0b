"""Messages for systems that only take pushes: deltas and statements, as JSON objects.

A *delta* is the change of one key by one transaction. It carries the transaction's extent, so a receiver recognizes a
duplicate: ``(lower, upper, key)`` is its identity. A *statement* has the number of deltas of the transaction for a
table, so a receiver that has that many has all of them, in any order::

    {"version": 1, "materialization": "shop", "table": "totals", "lower": [17], "upper": [21],
     "key": {"shop": "north"}, "values": {"total": 5, "cdcv2_count": 1}, "delete": false}
    {"version": 1, "materialization": "shop", "table": "totals", "lower": [17], "upper": [21], "deltas": 3}

Extents follow each other without a gap, ``lower`` is the ``upper`` before. Values are as in all plain JSON here: whole
numbers beyond 2**53 - 1, decimals, NaN and the infinities are strings, bytes are base64.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.materialize.protocol.messages import Field, Store, Table
from cdcv2.rows.plain import bytes_from_plain, float_from_plain, int_from_plain, plain_bytes, plain_float, plain_int

VERSION = 1
_WHOLE, _BROKEN = ("int", "long", "integer"), ("float", "double")


def delta_of(materialization: str, table: Table, lower: Antichain, upper: Antichain, change: Store) -> dict[str, Any]:
    """A change as a delta."""
    return {
        **_extent(materialization, table, lower, upper),
        "key": _object(table.key, change.key),
        "values": _object(table.values, change.values),
        "delete": change.delete,
    }


def statement_of(materialization: str, table: Table, lower: Antichain, upper: Antichain, deltas: int) -> dict[str, Any]:
    """The statement that the transaction has so many deltas for the table."""
    return {**_extent(materialization, table, lower, upper), "deltas": deltas}


def _extent(materialization: str, table: Table, lower: Antichain, upper: Antichain) -> dict[str, Any]:
    return {
        "version": VERSION, "materialization": materialization, "table": table.name,
        "lower": lower.to_plain(), "upper": upper.to_plain(),
    }  # fmt: skip


def _object(fields: tuple[Field, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    return {one.name: plain_value(one, value) for one, value in zip(fields, values)}


def plain_value(column: Field, value: Any) -> Any:
    """A column's value as plain JSON.

    >>> plain_value(Field("n", "long"), 2**60), plain_value(Field("n", "decimal", scale=2), Decimal("1.50"))
    ('1152921504606846976', '1.50')
    """
    if value is None:
        return None
    if column.kind in _WHOLE:
        return plain_int(value)
    if column.kind in _BROKEN:
        return plain_float(value)
    if column.kind == "decimal":
        return format(value, "f")
    return plain_bytes(value) if column.kind == "bytes" else value


def value_from_plain(column: Field, plain: Any) -> Any:
    """The value again. Raises MalformedError for what is none of this column."""
    if plain is None and column.nullable:
        return None
    value: Any = plain
    if column.kind in _WHOLE:
        value = int_from_plain(plain)
    elif column.kind in _BROKEN:
        value = float_from_plain(plain)
        value = float(value) if type(value) is int else value
    elif column.kind == "decimal":
        try:
            value = Decimal(plain) if isinstance(plain, str) else None
        except InvalidOperation:
            value = None
    elif column.kind == "bytes":
        value = bytes_from_plain(plain)
    if type(value) is not _PYTHON.get(column.kind, str):
        raise MalformedError(f"column {column.name!r} of the kind {column.kind!r} cannot be {plain!r}: mend the sender")
    return value


_PYTHON: Mapping[str, type] = {
    "boolean": bool, "int": int, "long": int, "integer": int, "float": float, "double": float, "decimal": Decimal,
    "bytes": bytes,
}  # fmt: skip
