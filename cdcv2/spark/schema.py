"""Row types as Spark sees them: its types, and the one schema by which it reads and writes messages.

=====================================  ==========================================================
Avro                                   Spark
=====================================  ==========================================================
boolean, int, long, float, double      boolean, int, bigint, float, double
string, enum                           string
bytes, fixed                           binary
bytes or fixed as a decimal            decimal(precision, scale), up to 38 digits
array, map, record                     array, map with string keys, struct
null or T                              T; every column may be null as far as Spark knows
other logical types                    the number underneath, as in ``Iter``
=====================================  ==========================================================

Columns have their Avro names. Spark reads and writes an Avro union only inside a record; a record of one field has
the bytes of that field alone, so the envelope here changes nothing on the wire.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import types as spark

from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import NAMESPACE, SchemaColumn, Shape, emit

#: The most digits that Spark's decimals have.
MOST_DIGITS = 38

_SIMPLE: dict[str, spark.DataType] = {
    "boolean": spark.BooleanType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "enum": spark.StringType(),
    "bytes": spark.BinaryType(),
    "fixed": spark.BinaryType(),
}


def spark_type(row_type: RowType) -> spark.StructType:
    """The struct that rows are on Spark.

    Raises UsageError, naming the column, for what Spark cannot hold: a column that is always null, a record without
    columns, a decimal of more than 38 digits.
    """
    return _struct(row_type.shape, "the row")


def updates_type(row_type: RowType) -> spark.StructType:
    """The columns of updates: ``data`` (the row), ``time``, ``diff``."""
    return (
        spark.StructType()
        .add("data", spark_type(row_type))
        .add("time", spark.LongType())
        .add("diff", spark.LongType())
    )


def envelope(row_type: RowType) -> str:
    """The schema for ``from_avro`` and ``to_avro``, as JSON: a record whose one field is the message.

    Only what decides the bytes and the Spark types is in it; any other attribute of the row schema might make Spark
    choose other types.
    """
    update = _record("update", [("data", emit(row_type.shape, _decimal)), ("time", "long"), ("diff", "long")])
    count = _record("counts", [("time", "long"), ("count", "long")])
    times = {"type": "array", "items": "long"}
    progress = _record("progress", [("lower", times), ("upper", times), ("counts", {"type": "array", "items": count})])
    whole = _record("envelope", [("message", [{"type": "array", "items": update}, progress])])
    # A namespace of its own, as a type inside the row might be called like this.
    return json.dumps({**whole, "namespace": f"{NAMESPACE}.spark"})


def _type(shape: Shape, place: str) -> spark.DataType:
    if shape.kind == "optional":
        return _type(shape.item, place)
    if shape.kind == "record":
        return _struct(shape, place)
    if shape.kind == "array":
        return spark.ArrayType(_type(shape.item, place))
    if shape.kind == "map":
        return spark.MapType(spark.StringType(), _type(shape.item, place))
    if shape.decimal is not None:
        if shape.decimal[0] > MOST_DIGITS:
            raise UsageError(f"{place}: decimal{shape.decimal} has more digits than Spark's {MOST_DIGITS}")
        return spark.DecimalType(*shape.decimal)
    if shape.kind not in _SIMPLE:
        raise UsageError(f"{place}: a column of type {shape.kind} cannot be held by Spark")
    return _SIMPLE[shape.kind]


def _struct(shape: Shape, place: str) -> spark.StructType:
    if not shape.columns:
        raise UsageError(f"{place}: a record without columns cannot be held by Spark")
    struct = spark.StructType()
    for column in shape.columns:
        struct.add(column.avro, _type(column.shape, f"{place}, column {column.name!r}"))
    return struct


def _decimal(of: Shape | SchemaColumn) -> dict[str, Any]:
    if not isinstance(of, Shape) or of.decimal is None:
        return {}
    return {"logicalType": "decimal", "precision": of.decimal[0], "scale": of.decimal[1]}


def _record(name: str, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {
        "type": "record", "name": name, "namespace": NAMESPACE,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


def values_of(value: Any) -> Any:
    """What Arrow gives for structs, as tuples: names inside rows are the database's, not Avro's."""
    if isinstance(value, dict):
        return tuple(values_of(inner) for inner in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(values_of(inner) for inner in value)
    return value
