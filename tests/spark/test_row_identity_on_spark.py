"""Rows that share a place or a number, on Spark: executors hold them, and the one rule decides what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture.facts import Record
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import SourceStop
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture.rows_store import CountedRows
from tests.spark.capturing import CaptureRun, dump_into, facts_of

pytestmark = pytest.mark.spark

A, B = "public.a", "public.b"
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "note", "type": "string"}]})
RECIPE = Recipe("src", {A: ROWS, B: ROWS}, snapshot="none")


def row(order: int, number: int, note: str = "same") -> dict[str, Any]:
    """An insert in the transaction 7."""
    return {
        "op": "c", "before": None, "after": {"note": note},
        "source": {"name": "src", "schema": "public", "table": "a", "txId": 7, "lsn": 90, "snapshot": "false",
                   "sequence": '[null,"90"]'},
        "transaction": {"id": "7:90", "total_order": order, "data_collection_order": number},
    }  # fmt: skip


def end(counts: dict[str, int]) -> dict[str, Any]:
    """The END of the transaction."""
    collections = [{"data_collection": table, "event_count": number} for table, number in counts.items()]
    return {"status": "END", "id": "7:100", "event_count": sum(counts.values()), "data_collections": collections}


def of_b(record: dict[str, Any]) -> dict[str, Any]:
    """The same row of the other table."""
    return {**record, "source": {**record["source"], "table": "b"}}


def records(rows: list[dict[str, Any]], ended: dict[str, Any] | None, start: int = 0) -> list[Record]:
    """Of the topics, from an offset on."""
    found, offsets = list[Record](), dict[str, int]()
    for body in rows:
        topic = f"src.public.{body['source']['table']}"
        at = offsets[topic] = offsets.get(topic, start - 1) + 1
        found.append(Record(topic, 0, at, None, json.dumps(body).encode()))
    if ended is not None:
        found.append(Record("src.transaction", 0, 0, None, json.dumps(ended).encode()))
    return found


@pytest.mark.parametrize(("rows", "counts", "words"), [
    ([row(1, 1), row(1, 2)], {A: 1}, "numbered up to 2, but its END 100 counts 1"),
    ([row(1, 1), row(1, 2)], {A: 2}, f"two different rows of {A} with total_order 1, numbered 1 and 2"),
    ([row(1, 1), row(2, 1)], {A: 2}, f"two different rows of {A} numbered 1, with total_order 1 and 2"),
    ([row(1, 1), row(2, 2), row(1, 2)], {A: 3}, f"two different rows of {A} numbered 2, with total_order 1 and 2"),
    ([row(1, 1), row(1, 1, "other")], {A: 2}, f"two different rows of {A} numbered 1, both with total_order 1"),
    ([row(1, 1), of_b(row(1, 1))], {A: 1, B: 1}, f"with total_order 1, of {A} numbered 1 and of {B} numbered 1"),
])
def test_rows_that_contradict_each_other_stop_a_capture(
    spark: SparkSession, tmp_path: Path, rows: list[dict[str, Any]], counts: dict[str, int], words: str
) -> None:
    """When their transaction is whole, and also when it waits for rows; every later run stops alike."""
    dump_into(tmp_path / "topics", records(rows, end(counts)), size=99)
    run = CaptureRun(tmp_path, RECIPE)
    for _ in range(2):
        with pytest.raises(SourceStop, match=f"transaction 7 has .*{words}"):
            run.run(spark)

    assert not run.messages(A)


def test_copies_of_rows_are_waited_with(spark: SparkSession, tmp_path: Path) -> None:
    """A transaction of which a row came twice waits for the one that lacks, and is released with it."""
    dump_into(tmp_path / "topics", records([row(1, 1), row(1, 1)], end({A: 2})), size=99)
    run = CaptureRun(tmp_path, RECIPE)
    run.run(spark)
    assert not run.messages(A)
    dump_into(tmp_path / "topics", records([row(2, 2, "other")], None, 2), size=99)
    run.run(spark)

    updates, frontier = facts_of({A: run.messages(A)})[A]
    assert ({(ROWS.row(("same",)), 100, 1), (ROWS.row(("other",)), 100, 1)}, [101]) == (updates, list(frontier))


def test_rows_that_share_a_number_are_compared_once_while_they_wait() -> None:
    """And again when another row came."""
    rows, place = CountedRows((A,)), (f"src.{A}", 0)

    def keep(offset: int, order: int, number: int) -> None:
        rows.keep(A, 7, None, place, (offset, offset), [number], [order], "c")

    keep(0, 1, 1)
    keep(1, 2, 2)
    assert rows.uncompared(7, 100) is None is rows.uncompared(8, 110)
    for at, (order, number) in enumerate([(2, 2), (3, 2), (2, 3)], 2):
        keep(at, order, number)
        reading = rows.uncompared(7, 100)
        assert reading is not None and {place: (0, at)} == reading.ranges and {7: 100} == reading.times
        rows.compared(7)
        assert rows.uncompared(7, 100) is None
