"""Which rows are one row on Spark: a column that ``groupBy`` compares as the canonical encodings are compared.

Spark's ``groupBy`` on a struct has that equality (one NaN, -0.0 is 0.0, NULLs in records and arrays), but for maps.
Of those it makes sorted ones before it compares them, and the code that it generates for that, in releases up to 4.2 at
least, reads the place of a NULL number or boolean as if a value stood there: whatever lies there. So equal rows fall
apart, rows that differ become one, and the NULL comes out as a number (``docs/decisions/0065``). Therefore no map is
ever grouped by here: in its place stands its *key form*, the array of its entries, sorted by key, which is compared
rightly; and behind the aggregation the map is made again from it. A row type without maps is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import Shape


def grouped(rows: DataFrame, row_type: RowType, *others: str) -> GroupedData:
    """The rows by ``data``, in its key form, and by other columns: of one group are the rows that are one row."""
    if _has_map(row_type.shape):
        rows = rows.withColumn("data", _rebuilt(row_type.shape, F.col("data"), _entries))
    return rows.groupBy(*others, "data")


def as_rows(rows: DataFrame, row_type: RowType) -> DataFrame:
    """What was aggregated from :func:`grouped`, with ``data`` as rows again."""
    if not _has_map(row_type.shape):
        return rows
    return rows.withColumn("data", _rebuilt(row_type.shape, F.col("data"), _map))


def _has_map(shape: Shape) -> bool:
    return any(part.kind == "map" for part in shape.parts())


def _rebuilt(shape: Shape, value: Column, of_map: Callable[[Shape, Column], Column]) -> Column:
    """The value with every map in it replaced."""
    if not _has_map(shape):
        return value
    if shape.kind == "optional":
        return _rebuilt(shape.item, value, of_map)
    if shape.kind == "map":
        return of_map(shape.item, value)
    if shape.kind == "array":
        return F.transform(value, lambda item: _rebuilt(shape.item, item, of_map))
    columns = [_rebuilt(each.shape, value[each.avro], of_map).alias(each.avro) for each in shape.columns]
    # A struct of NULLs is not the NULL that a struct may be.
    return F.when(value.isNotNull(), F.struct(*columns))


def _entries(item: Shape, value: Column) -> Column:
    """The key form of a map. No key is there twice, so values are never compared for the order."""
    entries = F.map_entries(value)
    if _has_map(item):
        # Before they are sorted, as Spark sorts nothing with a map in it.
        entries = F.transform(entries, lambda one: _entry(one, _rebuilt(item, one["value"], _entries)))
    return F.sort_array(entries)


def _map(item: Shape, value: Column) -> Column:
    if _has_map(item):
        value = F.transform(value, lambda one: _entry(one, _rebuilt(item, one["value"], _map)))
    return F.map_from_entries(value)


def _entry(one: Column, value: Column) -> Column:
    return F.struct(one["key"].alias("key"), value.alias("value"))
