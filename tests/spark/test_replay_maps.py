"""Rows with maps, and with NULLs in them, are the same rows for Spark as for ``Iter``, however they are laid out."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ContradictionError
from cdcv2.protocol import Update, Updates, mangle
from cdcv2.rows.row_type import RowType
from cdcv2.spark.codec import RowCodec
from cdcv2.spark.equality import as_rows, grouped
from cdcv2.spark.output import as_of
from cdcv2.spark.session import tune
from cdcv2.spark.sources import read_files
from cdcv2.spark.stash import ParquetStash
from tests.spark.replaying import messages, plan, put, replayed, run, truth

pytestmark = pytest.mark.spark

NAN = float("nan")
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
#: Two types whose values are numbers in Spark's memory, a boolean, and two whose values are not: few values of each, so
#: that many collide.
POOLS: dict[str, tuple[Any, list[Any]]] = {
    "long": ("long", [0, 1, 2**63 - 1]),
    "boolean": ("boolean", [False, True]),
    "double": ("double", [0.0, -0.0, 1.5, NAN]),
    "string": ("string", ["", "a"]),
    "decimal": (DECIMAL, [b"\x00", b"\x01"]),
}


def maps_of(value: Any) -> dict[str, Any]:
    """The Avro map of a type or NULL."""
    return {"type": "map", "values": ["null", value]}


def shapes(value: Any) -> dict[str, Any]:
    """Where a map can stand, with values of one type: each as a column's type."""
    record = {"type": "record", "name": "of_map", "fields": [{"name": "m", "type": ["null", maps_of(value)]}]}
    leaf = {"type": "record", "name": "of_value", "fields": [{"name": "x", "type": ["null", value]}]}
    array = {"type": "array", "items": ["null", value]}
    return {
        "map": maps_of(value),
        "array": array,
        "array of maps": {"type": "array", "items": ["null", maps_of(value)]},
        "record of map": ["null", record],
        "map of maps": maps_of(maps_of(value)),
        "map of records": maps_of(leaf),
        "map of arrays": maps_of(array),
        "record in arrays in map": maps_of({"type": "array", "items": {**record, "name": "deep"}}),
    }


def filled(schema: Any, pool: list[Any], choice: random.Random) -> Any:
    """A random value of a type that :func:`shapes` made, with small containers and many NULLs."""
    if isinstance(schema, list):
        return None if choice.random() < 0.4 else filled(schema[1], pool, choice)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "map":
        keys = choice.sample(["a", "b", "ü"], choice.choice([0, 1, 1, 2, 3]))
        return {key: filled(schema["values"], pool, choice) for key in keys}
    if kind == "array":
        return [filled(schema["items"], pool, choice) for _ in range(choice.randrange(3))]
    if kind == "record":
        return {field["name"]: filled(field["type"], pool, choice) for field in schema["fields"]}
    return choice.choice(pool)


def row_of(columns: list[Any]) -> RowType:
    """The row type with columns of these types: ``c0``, ``c1``, …"""
    fields = [{"name": f"c{number}", "type": column} for number, column in enumerate(columns)]
    return RowType({"type": "record", "name": "row", "fields": fields})


def drawn(columns: list[Any], pool: list[Any], count: int, choice: random.Random) -> list[list[Any]]:
    """Random rows."""
    return [[filled(column, pool, choice) for column in columns] for _ in range(count)]


@pytest.mark.parametrize("value", POOLS)
def test_rows_of_a_group_are_equal_and_others_are_not(value: str, spark: SparkSession, tmp_path: Path) -> None:
    """And what stands for a group is its row, with its NULLs."""
    kind, pool = POOLS[value]
    columns = shapes(kind)
    wide, rows = row_of(list(columns.values())), drawn(list(columns.values()), pool, 150, random.Random(value))
    put(tmp_path / "log", [Updates([(wide.row(row), 1, 1)]) for row in rows], row_type=wide, per_file=len(rows))
    codec = RowCodec(wide)
    session = tune(spark.newSession())
    read = codec.rows(codec.decoded(read_files(session, str(tmp_path / "log"), [0]))).select("data")
    read.repartition(3).write.parquet(str(tmp_path / "parquet"))
    stored = session.read.schema(read.schema).parquet(str(tmp_path / "parquet"))

    for number, (shape, column) in enumerate(columns.items()):
        # One column at a time: Spark generates no code for what is very wide, and interprets it, without mistakes.
        narrow = row_of([column])
        frame = stored.select(F.struct(F.col("data")[f"c{number}"].alias("c0")).alias("data"))
        groups = as_rows(grouped(frame, narrow).count(), narrow).collect()

        found = [(narrow.row(tuple(group["data"])), group["count"]) for group in groups]
        assert Counter(narrow.row([row[number]]) for row in rows) == dict(found), shape
        assert len(dict(found)) == len(found), shape


@pytest.mark.parametrize("layout", [(3, 1), (2, 2)])
def test_repeats_are_found_in_any_layout_of_the_stash(
    layout: tuple[int, ...], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folded, rewritten or given out, and named when they contradict each other."""
    monkeypatch.setattr("cdcv2.spark.stash.SLACK", 0)
    row_type = row_of(["long", maps_of("float")])
    row, codec, session = row_type.row([1, {"a": 1.5, "b": None}]), RowCodec(row_type), tune(spark.newSession())
    put(tmp_path / "log", [Updates([(row, 1, 1)])] * 4 + [Updates([(row, 1, 2)])], row_type=row_type, per_file=1)
    stash = ParquetStash(tmp_path / "stash", codec)
    files = iter(range(5))

    def append(count: int) -> None:
        raw = read_files(session, str(tmp_path / "log"), [next(files) for _ in range(count)])
        stash.append(codec.rows(codec.decoded(raw)))

    def given() -> list[Any]:
        found = stash.distinct(session, Antichain([0]), Antichain([2])).collect()
        return [(row_type.row(tuple(data)), time, diff) for data, time, diff in found]

    for count in layout:
        append(count)

    assert {1: 1} == stash.fold(session, [1])
    assert [(row, 1, 1)] == given()
    assert {1: 1} == stash.tidy(session)
    assert (1, [(row, 1, 1)]) == (stash.stored, given())
    append(1)
    with pytest.raises(ContradictionError) as caught:
        stash.fold(session, [1])
    assert row == caught.value.data


def test_a_log_of_rows_with_maps_is_replayed_as_iter_replays_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeats in other files and batches, and the sums of it all."""
    monkeypatch.setattr("cdcv2.spark.stash.SLACK", 50)
    kind, pool = POOLS["double"]
    columns, choice = [maps_of(kind), shapes(kind)["record of map"]], random.Random(1)
    row_type, made = row_of(columns), {}
    for row in drawn(columns, pool, 150, choice):
        made[row_type.row(row), choice.randrange(4)] = choice.choice([1, 1, 7])
    facts: list[Update] = [(data, time, diff) for (data, time), diff in made.items()]
    said = list(mangle(messages(facts, 4), seed=1, copies=3))
    place = put(tmp_path / "rows", said, row_type=row_type, per_file=len(said) // 3)
    wanted = plan(tmp_path, [place], files=2)

    run(spark, wanted)

    assert truth({"rows": said}) == replayed(spark, wanted)
    sums: Counter[Any] = Counter()
    for data, _, diff in facts:
        sums[data] += diff
    found = [(row_type.row(tuple(row)[:-1]), row["multiplicity"]) for row in as_of(spark, wanted.output).collect()]
    assert sums == dict(found)
    assert len(sums) == len(found)
