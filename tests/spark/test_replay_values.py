"""Every type of column goes through Spark as it goes through ``Iter``, and the same data are equal in both."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2.errors import UsageError
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.container import pack
from cdcv2.protocol import Iter, Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.spark.output import as_of, history
from cdcv2.spark.schema import spark_type
from tests.spark.replaying import plan, put, run

pytestmark = pytest.mark.spark

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}
EVERY = RowType({"type": "record", "name": "every", "fields": [
    {"name": "flag", "type": "boolean"},
    {"name": "small", "type": ["null", "int"]},
    {"name": "big", "type": "long"},
    {"name": "single", "type": ["null", "float"]},
    {"name": "double", "type": "double"},
    {"name": "text", "type": ["string", "null"]},
    {"name": "Text", "type": {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}},
    {"name": "raw", "type": ["null", "bytes"]},
    {"name": "key", "type": {"type": "fixed", "name": "key", "size": 3}},
    {"name": "price", "type": ["null", DECIMAL]},
    {"name": "short price", "type": {
        "type": "fixed", "name": "short", "size": 4, "logicalType": "decimal", "precision": 8, "scale": 2}},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "double"]}]},
    {"name": "attributes", "type": {"type": "map", "values": ["null", "string"]}},
    {"name": "inner", "type": ["null", {"type": "record", "name": "inner", "fields": [
        {"name": "x", "type": ["null", "double"]}, {"name": "keys", "type": {"type": "array", "items": "key"}}]}]},
]})

FULL: dict[str, Any] = {
    "flag": True, "small": -(2**31), "big": 2**63 - 1, "single": 1.5, "double": -0.0, "text": "ü\x00日", "Text": "BLUE",
    "raw": b"\xff\x00", "key": b"abc", "price": b"\x04\xd2", "short price": b"\xff\xff\xff\x85", "day": 2**31 - 1,
    "at": 2**63 - 1, "tags": [0.0, None, math.nan], "attributes": {"b": "1", "a": None},
    "inner": {"x": math.nan, "keys": [b"abc", b"\x00\x00\x00"]},
}
BARE: dict[str, Any] = {
    "flag": False, "small": None, "big": -(2**63), "single": None, "double": 0.0, "text": None, "Text": "RED",
    "raw": None, "key": b"zzz", "price": None, "short price": b"\x00\x00\x00\x01", "day": None, "at": None,
    "tags": None, "attributes": {}, "inner": None,
}

#: Pairs that are one value for the protocol, as different bytes: what is found, and what takes its place.
SAME = {
    "another NaN": (struct.pack("<d", math.nan), struct.pack("<Q", 0x7FF8000000000123)),
    "a NaN with a sign": (struct.pack("<d", math.nan), struct.pack("<Q", 0xFFF0000000000001)),
    "a padded decimal": (b"\x04\x04\xd2", b"\x08\x00\x00\x04\xd2"),
    "a map in another order": (b"\x04\x02a\x00\x02b\x02\x021\x00", b"\x04\x02b\x02\x021\x02a\x00\x00"),
}


def test_every_type_comes_out_as_iter_gives_it(spark: SparkSession, tmp_path: Path) -> None:
    """All bounds, all nulls, and each row once, though each is there in several encodings."""
    codec = MessageCodec(EVERY)
    rows = [EVERY.row(FULL), EVERY.row(BARE), EVERY.row({**FULL, "tags": []}), EVERY.row({**FULL, "big": 0})]
    canonical = [codec.encode(Updates([(row, 1, number + 1)])) for number, row in enumerate(rows)]
    values = list(canonical)
    for found, instead in SAME.values():
        assert found in canonical[0]
        values.append(canonical[0].replace(found, instead))
    negative = canonical[1].replace(b"\x01\x00" + struct.pack("<d", 0.0), b"\x01\x00" + struct.pack("<d", -0.0))
    values += [negative, codec.encode(Progress([0], [2], {1: len(rows)}))]
    assert len(set(values)) >= len(rows) + len(SAME)
    place = put(tmp_path / "every", [], row_type=EVERY)
    (tmp_path / "every" / f"{0:020d}.avro").write_bytes(pack(values))
    wanted = plan(tmp_path, [place])
    expected = [update for batch, _ in Iter([codec.decode(value) for value in values]) for update in batch]

    run(spark, wanted)

    # As for any table with columns that differ by case only.
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        history_rows = history(spark, wanted.output).collect()
        columns = as_of(spark, wanted.output).columns
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    found = [(EVERY.row(tuple(row["data"])), row["time"], row["diff"]) for row in history_rows]
    assert sorted(map(repr, expected)) == sorted(map(repr, found))
    assert set(expected) == set(found)
    assert [*EVERY.columns, "multiplicity"] == columns


@pytest.mark.parametrize(
    ("column", "words"),
    [({"name": "n", "type": "null"}, "column 'n'.*type null"),
     ({"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 39}}, "column 'd'.*38"),
     ({"name": "r", "type": {"type": "record", "name": "empty", "fields": []}}, "column 'r'.*without columns")],
)
def test_a_type_that_spark_cannot_hold_is_refused_by_column(column: dict[str, Any], words: str) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError, match=words):
        spark_type(RowType({"type": "record", "name": "row", "fields": [column]}))
