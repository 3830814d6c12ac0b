"""Row types from what describes the rows: the schema inside Debezium's records, or PostgreSQL's own catalogue.

Never from values. Both give a parsed ``.avsc`` for a table, with the meaning of numbers in ``doc``; it is made once,
looked at, and committed. Types are physical (a timestamp is a long): PostgreSQL's dates and timestamps reach further
than those of Avro's readers, and have infinities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from cdcv2.core.json_text import parse_json
from cdcv2.errors import MalformedError
from cdcv2.sources.facts import Record
from cdcv2.wire.names import avro_name

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


def record_schema(table: str, fields: list[dict[str, Avro]], doc: str | None = None) -> dict[str, Avro]:
    """A record schema that is called like the table."""
    schema: dict[str, Avro] = {"type": "record", "name": avro_name(table.rpartition(".")[2])}
    if doc:
        schema["doc"] = doc
    return {**schema, "fields": fields}


def field_schema(column: str, kind: Avro, *, nullable: bool, doc: str | None = None) -> dict[str, Avro]:
    """A field of a record schema."""
    field = {"name": avro_name(column), "type": ["null", kind] if nullable else kind}
    return {**field, "doc": doc} if doc else field


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


def row_types_in(records: Iterable[Record], prefix: str) -> dict[str, dict[str, Avro]]:
    """The row type of each table of the connector whose records carry schemas (``schemas.enable=true``), by table.

    Where they changed on the way, the first: a log begins with it. Records without a schema are passed over.
    """
    found: dict[str, dict[str, Avro]] = {}
    for record in records:
        if record.value is None or not record.topic.startswith(f"{prefix}.") or b'"schema"' not in record.value:
            continue
        try:
            body = parse_json(record.value)
        except ValueError:
            continue
        source = body.get("payload", {}).get("source") if isinstance(body, dict) and "payload" in body else None
        if isinstance(source, dict) and source.get("table"):
            table = f"{source.get('schema')}.{source['table']}"
            if table not in found:
                found[table] = row_type_from_envelope(body["schema"], table)
    return found


def _connect_field(schema: Mapping[str, Any], path: str) -> dict[str, Avro]:
    kind = _connect_type(schema, path)
    doc = MEANINGS.get(schema.get("name", ""))
    return field_schema(schema["field"], kind, nullable=bool(schema.get("optional")), doc=doc)


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
            f"column {path!r}: its decimals say no precision; set decimal.handling.mode=string in the connector"
        ) from None
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
