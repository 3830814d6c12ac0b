"""Values of a target's columns as texts, by which tables are compared (:mod:`cdcv2.rows.fingerprint`), and back.

One text per value, whichever system it was in: decimals without trailing zeros, floats as their IEEE bytes with one NaN
and one zero, bytes in hexadecimal, JSON without its order and spelling. What a system changes in spelling is no
difference; what it rounds is.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, LiteralString

from cdcv2.materialize.protocol.messages import Field, Table
from cdcv2.rows.fingerprint import Texts
from cdcv2.rows.plain import plain_bytes, plain_float, plain_int
from cdcv2.rows.postgres_texts import PostgresRows, TextColumn
from cdcv2.rows.postgres_values import EXACT, shown_text
from cdcv2.rows.source_types import SourceType
from cdcv2.views.source_columns import SourceColumn, source_column

_FORMS = {"float": ">f", "double": ">d"}
#: kind -> the same text, made by PostgreSQL; it cannot do that for JSON, whose numbers it keeps as they were spelled
SQL: dict[str, LiteralString] = {
    "boolean": "({x})::text",
    "int": "({x})::text",
    "long": "({x})::text",
    "integer": "trim_scale({x})::text",
    "decimal": "trim_scale({x})::text",
    "float": "CASE WHEN ({x}) = 'NaN' THEN 'NaN' WHEN ({x}) = 0 THEN '0' ELSE encode(float4send({x}), 'hex') END",
    "double": "CASE WHEN ({x}) = 'NaN' THEN 'NaN' WHEN ({x}) = 0 THEN '0' ELSE encode(float8send({x}), 'hex') END",
    "string": "({x})::text",
    "bytes": "encode(({x}), 'hex')",
}


def texts(fields: Iterable[Field], values: Iterable[Any]) -> Texts:
    """A row, or a part of one.

    >>> texts([Field("n", "decimal"), Field("j", "json")], [Decimal("1.50"), '{"b": 1.0, "a": null}'])
    ('1.5', '{"a": null, "b": 1}')
    """
    return tuple([None if value is None else _text_of(one)(value) for one, value in zip(fields, values)])


def plain(fields: Iterable[Field], row: Texts) -> dict[str, Any]:
    """Texts for people: column -> plain JSON; dates and moments of the source are written out."""
    return {one.name: None if text is None else _for_people(one, text) for one, text in zip(fields, row)}


def side(
    session: Any, table: Table, kept: Table, where: LiteralString, place: Sequence[str]
) -> PostgresRows | None:
    """A table in PostgreSQL, of which the rows count that fulfil ``where``; ``kept``: its columns, as they are there.

    ``place``: its schema and name.

    None where PostgreSQL cannot make these texts: it has JSON or arrays, or text that stands for another type.
    """
    made = [_sql(one, now) for one, now in zip(table.fields, kept.fields)]
    columns = [TextColumn(one.name, sql, str) for one, sql in zip(table.fields, made) if sql is not None]
    if len(columns) < len(made):
        return None
    return PostgresRows(session, tuple(columns), len(table.key), place, where)


def _sql(field: Field, now: Field) -> LiteralString | None:
    column, there = _source(field), _source(now)
    if column is None:
        return SQL.get(field.kind)
    return None if there is None else there.sql_text


def _source(field: Field) -> SourceColumn | None:
    return source_column(field.source, field.kind)


def _for_people(field: Field, text: str) -> Any:
    if field.source is None or _source(field) is None:
        return _plain(field.kind, text)
    if field.source.items is None:
        return _written(field.source, text)
    return [None if one is None else _written(field.source.items, str(one)) for one in json.loads(text)]


def _written(source: SourceType, text: str) -> str:
    return shown_text(source.type, text, 1000 if source.in_millis else 1)


def _text_of(field: Field) -> Callable[[Any], str]:
    """What makes the text of a value of this column."""
    column = _source(field)
    return partial(_text, field.kind) if column is None else column.text


def _text(kind: str, value: Any) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if kind in _FORMS:
        return "NaN" if math.isnan(value) else "0" if value == 0 else struct.pack(_FORMS[kind], value).hex()
    if kind == "decimal":
        return _number(str(value))
    if kind == "bytes":
        return bytes(value).hex()
    if kind == "json":
        return _json_text(json.loads(value, parse_int=Decimal, parse_float=Decimal))
    return str(value)


def _json_text(value: Any) -> str:
    """One text per JSON value, whatever the order of its keys and the spelling of its numbers."""
    if isinstance(value, Decimal):
        return _number(str(value))
    if isinstance(value, list):
        return "[" + ", ".join(map(_json_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json_text(key)}: {_json_text(value[key])}" for key in sorted(value)) + "}"
    return json.dumps(value, ensure_ascii=False)


def _number(digits: str) -> str:
    number = Decimal(digits)
    return format(number.normalize(EXACT), "f") if number else "0"


def _plain(kind: str, text: str) -> Any:
    if kind == "boolean":
        return text == "true"
    if kind in ("int", "long", "integer"):
        return plain_int(int(text))
    if kind in _FORMS:
        return plain_float(
            float(text) if text in ("NaN", "0") else struct.unpack(_FORMS[kind], bytes.fromhex(text))[0]
        )
    if kind == "bytes":
        return plain_bytes(bytes.fromhex(text))
    return json.loads(text) if kind == "json" else text
