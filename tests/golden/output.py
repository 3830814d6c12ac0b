"""Write an output of replay: ``python -m tests.golden.output FOLDER``, once per version of its manifests.

The folder ``output`` was written with manifests of version 1, of which each third one lists all files, so that some
build on others. Rows have every kind of column that Spark holds, and names that Avro cannot have.
"""

from __future__ import annotations

import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from cdcv2.rows.row_type import RowType

GOLDEN = Path(__file__).resolve().parent / "output"
_POINT = {"type": "record", "name": "point", "fields": [{"name": "x at", "type": "int"}, {"name": "y", "type": "int"}]}
_FIELDS: list[tuple[str, Any]] = [
    ("id", "long"), ("unit price", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("size", "double"), ("on", "boolean"), ("note", ["null", "string"]), ("raw", "bytes"), ("n", "int"), ("f", "float"),
    ("kind", {"type": "enum", "name": "kind", "symbols": ["red", "blue"]}),
    ("mark", {"type": "fixed", "name": "mark", "size": 2}),
    ("tags", {"type": "array", "items": ["null", "string"]}), ("attributes", {"type": "map", "values": "double"}),
    ("place", ["null", _POINT]), ("way", {"type": "array", "items": "point"}),
]  # fmt: skip
WIDE = RowType({"type": "record", "name": "wide", "fields": [{"name": name, "type": kind} for name, kind in _FIELDS]})
PLAIN = RowType({"type": "record", "name": "plain", "fields": [{"name": "id", "type": "int"}]})
TABLES = {"wide": WIDE, "plain": PLAIN, "late": PLAIN, "uncovered": PLAIN}


def wide(number: int, size: float = 0.0) -> tuple[Any, ...]:
    """A row."""
    return (
        number, Decimal("12.50"), size, True, None if number % 2 else "é", b"\0\xff", -1, 0.5, "blue", b"ab",
        ("a", None), {"b": size, "a": 1.0}, None if number % 2 else (number, 2), ((1, 2), (3, 4)),
    )  # fmt: skip


def late(number: int) -> tuple[int]:
    """A row of a table that the connector covers from 3 on."""
    return (number,)


#: The updates of the batches up to the times 1, 2 and so on.
BATCHES: list[dict[str, list[tuple[Any, int, int]]]] = [
    {},
    {"wide": [(wide(1), 1, 1), (wide(2), 1, 2)], "plain": [((7,), 1, 1)]},
    {"wide": [(wide(1, -0.0), 2, 1), (wide(3, float("nan")), 2, 1)]},
    {"late": [(late(5), 3, 1)]},
    {"wide": [(wide(3, float("nan")), 4, -1), (wide(2), 4, -1)]},
]


def main() -> None:
    """Write it with a Spark of our own."""
    from pyspark.sql import SparkSession

    from cdcv2.core.antichain import Antichain
    from cdcv2.logs.coverage import TableCoverage
    from cdcv2.servers.jars import comma_list
    from cdcv2.spark import output
    from cdcv2.spark.schema import updates_type

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.jars", comma_list("spark"))
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    with builder.getOrCreate() as spark:
        output.FULL = 3
        made = output.OutputFolder(sys.argv[1], TABLES, Antichain([0]), TableCoverage(("uncovered",), {"late": 3}))
        for number, batch in enumerate(BATCHES):
            frames = {
                table: spark.createDataFrame(updates, updates_type(TABLES[table])).coalesce(1)
                for table, updates in batch.items()
            }
            made.apply(frames, Antichain([number]), Antichain([number + 1]))
    for path in Path(sys.argv[1]).rglob(".*.crc"):
        path.unlink()


if __name__ == "__main__":
    main()
