"""Row types from what describes the rows: the schema inside Debezium's records, or PostgreSQL's own catalogue.

Never from values. Both give a parsed ``.avsc`` for a table, with the meaning of numbers in ``doc``; it is made once,
looked at, and committed. Types are physical (a timestamp is a long): PostgreSQL's dates and timestamps reach further
than those of Avro's readers, and have infinities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from cdcv2.errors import MalformedError
from cdcv2.rows.names import avro_name, column_name
from cdcv2.rows.source_types import ATTRIBUTE, SourceType
from cdcv2.sql_names import parts_of

#: An Avro schema, or a part of one, as parsed JSON.
Avro: TypeAlias = Any

_PRIMITIVES = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}
#: What the numbers and texts of Debezium's semantic types mean.
MEANINGS = {
    "io.debezium.time.Date": "days since 1970-01-01",
    "io.debezium.time.Time": "milliseconds since midnight",
    "io.debezium.time.MicroTime": "microseconds since midnight",
    "io.debezium.time.ZonedTime": "time of day with its zone, ISO text",
    "io.debezium.time.Timestamp": "milliseconds since 1970-01-01 00:00, no time zone",
    "io.debezium.time.MicroTimestamp": "microseconds since 1970-01-01 00:00, no time zone",
    "io.debezium.time.ZonedTimestamp": "ISO text in UTC, or infinity",
    "io.debezium.time.MicroDuration": "microseconds; a month counts as 30.4375 days",
    "io.debezium.data.Json": "JSON text",
    "io.debezium.data.Xml": "XML text",
    "io.debezium.data.Uuid": "UUID text",
    "io.debezium.data.Bits": "bits, the lowest byte first",
}
#: What the connector's statements of source types are called, before ``type``, ``length`` and ``scale``.
_STATED = "__debezium.source.column."
#: The length of what has none.
_ENDLESS = 2**31 - 1
#: Types whose scale, and whose modifier in the catalogue, is the number of digits of a second.
SECOND_TYPES = ("time", "timetz", "timestamp", "timestamptz")
#: Types that do not arrive, an array's with ``_`` before it, as in ``pg_type``. A ``name`` is NULL in the stream, and
#: no value of an array of bits is sent; the others are no columns of the records.
_NOT_SENT = ("name", "_bit", "_varbit", "_money", "_interval", "_name", "_xml")
#: Type -> the semantic type of its values by the connector's defaults: with more than three digits of a second, or not.
_UNITS = {
    "date": ("io.debezium.time.Date",) * 2,
    "time": ("io.debezium.time.MicroTime", "io.debezium.time.Time"),
    "timestamp": ("io.debezium.time.MicroTimestamp", "io.debezium.time.Timestamp"),
    "timetz": ("io.debezium.time.ZonedTime",) * 2,
    "timestamptz": ("io.debezium.time.ZonedTimestamp",) * 2,
    "interval": ("io.debezium.time.MicroDuration",) * 2,
}


def record_schema(table: str, fields: list[dict[str, Avro]], doc: str | None = None) -> dict[str, Avro]:
    """A record schema that is called like the table."""
    schema: dict[str, Avro] = {"type": "record", "name": avro_name(parts_of(table)[-1])}
    if doc:
        schema["doc"] = doc
    return {**schema, "fields": fields}


def field_schema(
    column: str, kind: Avro, *, nullable: bool, doc: str | None = None, source: SourceType | None = None
) -> dict[str, Avro]:
    """A field of a record schema."""
    field = {"name": avro_name(column), "type": ["null", kind] if nullable else kind}
    if doc:
        field["doc"] = doc
    return field if source is None else {**field, ATTRIBUTE: source.to_plain()}


def row_type_from_envelope(schema: Mapping[str, Any], table: str = "row") -> dict[str, Avro]:
    """The row type in the schema of an envelope (``schema`` of ``{"schema", "payload"}``), as parsed ``.avsc``.

    >>> value = {"type": "struct", "field": "after", "optional": True, "fields": [
    ...     {"field": "id", "type": "int64", "optional": False},
    ...     {"field": "day", "type": "int32", "optional": True, "name": "io.debezium.time.Date"}]}
    >>> row_type_from_envelope({"type": "struct", "fields": [value]}, "public.t")["fields"][1]
    {'name': 'day', 'type': ['null', 'int'], 'doc': 'days since 1970-01-01'}

    Raises MalformedError for a schema that is none of an envelope, and for a type that no row type has.
    """
    fields = schema.get("fields")
    for field in fields if isinstance(fields, list) else []:
        if isinstance(field, dict) and field.get("field") in ("after", "before") and field.get("type") == "struct":
            return record_schema(table, [_connect_field(inner, inner.get("field", "")) for inner in field["fields"]])
    raise MalformedError("the schema has no struct 'after': it is not that of a change")


def is_sent(kind: str) -> bool:
    """Whether the values of a type arrive, by its name in ``pg_type``.

    >>> is_sent("bit"), is_sent("_bit")
    (True, False)
    """
    return kind not in _NOT_SENT


def no_row_type(column: str, kind: str) -> MalformedError:
    """What a column is refused with for whose type there is no row type.

    >>> print(no_row_type("flags", "_bit"))  # doctest: +ELLIPSIS
    column 'flags' has the type 'bit[]', for which there is no row type: ...
    """
    shown = f"{kind[1:]}[]" if kind.startswith("_") else kind
    return MalformedError(
        f"column {column!r} has the type {shown!r}, for which there is no row type: leave the column out, here "
        "by --exclude-columns, and of the records by the connector's column.exclude.list, as cdcv2 init writes it"
    )


def source_table(source: Mapping[str, Any]) -> str:
    """The table of a record, as captures write it, by the record's ``source``.

    >>> source_table({"schema": "public", "table": "orders"})
    'public.orders'
    """
    return f"{source.get('schema')}.{source.get('table')}"


def numeric_scale(bits: int) -> int:
    """The scale of a ``numeric`` by PostgreSQL's 11 bits of it, of which the first is its sign.

    >>> numeric_scale(2), numeric_scale(0x7FE)
    (2, -2)
    """
    return ((bits & 0x7FF) ^ 0x400) - 0x400


def without_sources(schema: Mapping[str, Avro]) -> list[str]:
    """The columns of a row schema whose source types are not stated: each target then has what the log has.

    >>> without_sources({"fields": [{"name": "day", "type": "int"}]})
    ['day']
    """
    return [column_name(field["name"]) for field in schema["fields"] if ATTRIBUTE not in field]


def _connect_field(schema: Mapping[str, Any], path: str) -> dict[str, Avro]:
    kind = _connect_type(schema, path)
    doc = MEANINGS.get(schema.get("name", ""))
    if not is_sent(_stated_type(schema)):
        raise no_row_type(path, _stated_type(schema))
    source = _source(schema)
    return field_schema(schema["field"], kind, nullable=bool(schema.get("optional")), doc=doc, source=source)


def _source(schema: Mapping[str, Any]) -> SourceType | None:
    """What ``datatype.propagate.source.type`` states; None where that is nothing, or the value is in other units."""
    parameters, called = schema.get("parameters") or {}, _stated_type(schema)
    if not called:
        return None
    items = schema.get("items")
    name = called.removeprefix("_") if items else called
    semantic = (items or schema).get("name") or ""
    if semantic == "io.debezium.data.Enum":
        found = SourceType("enum")
    else:
        length, scale = (int(parameters.get(_STATED + one, 0)) for one in ("length", "scale"))
        found = _sized(name, length, scale)
        if name in _UNITS and semantic != _UNITS[name][found.precision is not None and found.precision <= 3]:
            return None
    return SourceType("array", items=found) if items else found


def _stated_type(schema: Mapping[str, Any]) -> str:
    """The type that is stated of a column, an array's with ``_`` before it; empty where none is."""
    return str((schema.get("parameters") or {}).get(_STATED + "type", "")).lower()


def _sized(name: str, length: int, scale: int) -> SourceType:
    if name == "numeric" and length:
        # The connector passes over its sign.
        return SourceType(name, precision=length, scale=numeric_scale(scale))
    if name in ("varchar", "bpchar", "bit", "varbit") and length < _ENDLESS:
        return SourceType(name, length=length)
    if name in SECOND_TYPES and scale < 6:
        return SourceType(name, precision=scale)
    return SourceType(name)


def _connect_type(schema: Mapping[str, Any], path: str) -> Avro:
    """The Avro type of a Connect schema; ``path`` names the column, and makes the names of inner records unique."""
    kind = schema.get("type")
    if schema.get("name") == "org.apache.kafka.connect.data.Decimal":
        return _decimal(schema.get("parameters") or {}, path)
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if kind == "array":
        return {"type": "array", "items": _optional(schema["items"], f"{path}_item")}
    if kind == "map" and schema.get("keys", {}).get("type") == "string":
        return {"type": "map", "values": _optional(schema["values"], f"{path}_value")}
    if kind == "struct":
        fields = [_connect_field(inner, f"{path}_{inner['field']}") for inner in schema["fields"]]
        return {"type": "record", "name": avro_name(path), "fields": fields}
    raise MalformedError(f"column {path!r}: there is no row type for Connect's {kind!r}")


def _optional(schema: Mapping[str, Any], path: str) -> Avro:
    kind = _connect_type(schema, path)
    return ["null", kind] if schema.get("optional") else kind


def _decimal(parameters: Mapping[str, str], path: str) -> Avro:
    try:
        precision, scale = int(parameters["connect.decimal.precision"]), int(parameters["scale"])
    except (KeyError, ValueError):
        raise MalformedError(
            f"column {path!r}: its decimals state no precision; set decimal.handling.mode=string in the connector"
        ) from None
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
