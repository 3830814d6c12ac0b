"""Messages to rows on the executors, judged exactly as :class:`cdcv2.logs.avro.MessageCodec` judges them.

Spark's own decoder is several times faster than a Python one, and more lenient: it overlooks bytes that are left over,
takes the last of two values for one key of a map, cuts off what does not fit an int. So a message is taken from it
only when Spark's *encoder* makes the very same bytes again. What fails that test, be it odd (an array in several
blocks, a map in another order) or wrong, goes through MessageCodec, in Python on the executors: that either writes
it again in canonical form, or reports what is wrong with it.

Text that is not UTF-8 survives Spark's decoder and encoder unchanged; it is looked for in the rows, as are zero diffs
and negative times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from pyspark.sql.avro.functions import from_avro, to_avro

from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError
from cdcv2.logs.avro import MessageCodec
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import Shape
from cdcv2.spark.schema import envelope, updates_type

#: Where a message stands (see ``protocol.Position``): the columns that every row of a log carries on Spark.
POSITION = ("place", "part", "offset", "index")

#: A log as it comes from a source: positions and bytes; ``fault`` is the reason if there are no bytes.
RAW = (
    spark.StructType()
    .add("place", spark.StringType())
    .add("part", spark.IntegerType())
    .add("offset", spark.LongType())
    .add("index", spark.IntegerType())
    .add("value", spark.BinaryType())
    .add("fault", spark.StringType())
)

#: The same for Arrow.
ARROW = pa.schema([
    ("place", pa.string()), ("part", pa.int32()), ("offset", pa.int64()), ("index", pa.int32()),
    ("value", pa.binary()), ("fault", pa.string()),
])


class RowCodec:
    """The messages of one table's log on Spark. Picklable only by parts: keep it on the driver."""

    def __init__(self, row_type: RowType) -> None:
        self.row_type = row_type
        #: The columns of updates: data, time, diff.
        self.updates_type = updates_type(row_type)
        self.codec = MessageCodec(row_type)
        self._envelope = envelope(row_type)

    def decoded(self, raw: DataFrame) -> DataFrame:
        """Position, value, ``updates`` (an array) and ``exact``: whether Spark's word can be taken for them."""
        read = raw.select(*POSITION, "value", from_avro("value", self._envelope, {"mode": "PERMISSIVE"}).alias("read"))
        updates = F.col("read.message.member0")
        again = F.when(updates.isNotNull(), to_avro("read", self._envelope))
        return read.select(
            *POSITION, "value", updates.alias("updates"),
            F.coalesce(again == F.col("value"), F.lit(False)).alias("exact"),
        )

    def rows(self, decoded: DataFrame) -> DataFrame:
        """One row per update: data, time, diff, its position, and ``wrong``: whether it cannot be an update."""
        each = decoded.select(*POSITION, F.explode("updates").alias("update"))
        flat = each.select("update.data", "update.time", "update.diff", *POSITION)
        wrong = (F.col("diff") == 0) | (F.col("time") < 0)
        for text in _texts(self.row_type.shape, F.col("data")):
            wrong = wrong | text
        return flat.withColumn("wrong", F.coalesce(wrong, F.lit(False)))

    def rewritten(self, raw: DataFrame) -> DataFrame:
        """The messages in canonical form, as RAW; ``fault`` where they are no messages."""
        columns = raw.select(*POSITION, "value", F.lit(None).cast("string").alias("fault"))
        return columns.mapInArrow(_rewriter(self.codec.schema), RAW)

    def reason(self, value: bytes) -> str:
        """Why these bytes are no message of the log, or at least none that Spark can hold."""
        try:
            self.codec.decode(value)
        except DecodeError as error:
            return error.reason
        return "Spark cannot decode it, though it is a message"


def begins_updates(value: Column) -> Column:
    """Whether bytes begin as Updates do: with the number of the union's first branch, in however many bytes."""
    return _begins(value, b"\x00", "^(80){1,9}00")


def begins_statement(value: Column) -> Column:
    """The same for statements and the second branch."""
    return _begins(value, b"\x02", "^82(80){0,8}00")


def _begins(value: Column, shortest: bytes, longer: str) -> Column:
    # Nearly all messages are decided by their first byte. An integer has up to ten.
    return (F.substring(value, 1, 1) == F.lit(shortest)) | F.hex(F.substring(value, 1, 10)).rlike(longer)


def beyond(frontier: Antichain) -> Column:
    """Whether the ``time`` of a row, an integer, is beyond the frontier."""
    return reduce(lambda a, b: a | b, (F.col("time") >= F.lit(time) for time in frontier), F.lit(False))


def _rewriter(schema: list[Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rewrite(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        codec = MessageCodec.from_schema(schema)
        for batch in batches:
            values: list[bytes | None] = []
            faults: list[str | None] = []
            for value in batch.column("value").to_pylist():
                try:
                    values.append(codec.encode(codec.decode(value)))
                    faults.append(None)
                except DecodeError as error:
                    values.append(None)
                    faults.append(error.reason)
            kept = [batch.column(name) for name in POSITION]
            columns = [*kept, pa.array(values, pa.binary()), pa.array(faults, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, schema=ARROW)

    return rewrite


def _texts(shape: Shape, value: Column) -> Iterator[Column]:
    """For each place in a value where a string may stand: whether one is not UTF-8. Null where nothing stands."""
    if shape.kind == "optional":
        yield from _texts(shape.item, value)
    elif shape.kind == "string":
        yield ~F.is_valid_utf8(value)
    elif shape.kind == "record":
        for column in shape.columns:
            yield from (F.coalesce(found, F.lit(False)) for found in _texts(column.shape, value[column.avro]))
    elif shape.kind == "array":
        yield from _inside(shape.item, value)
    elif shape.kind == "map":
        yield F.exists(F.map_keys(value), lambda key: ~F.is_valid_utf8(key))
        yield from _inside(shape.item, F.map_values(value))


def _inside(item: Shape, values: Column) -> Iterator[Column]:
    if any(part.kind == "string" for part in item.parts()) or any(part.kind == "map" for part in item.parts()):
        yield F.exists(values, lambda one: reduce(
            lambda a, b: a | b, [F.coalesce(found, F.lit(False)) for found in _texts(item, one)]
        ))
