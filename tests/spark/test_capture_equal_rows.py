"""Rows of a table without a key may be equal, and are several; in the snapshot only their places differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture.facts import Record
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import SourceStop
from cdcv2.rows.row_type import RowType
from tests.spark.capturing import CaptureRun, dump_into, facts_of

pytestmark = pytest.mark.spark

TABLE = "public.t"
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "note", "type": "string"}]})
RECIPE = Recipe("src", {TABLE: ROWS})


def row(op: str, note: str, *, snapshot: str = "false", lsn: int = 1030, order: int = 1) -> dict[str, Any]:
    """An envelope of the table; a streamed one is in the transaction 757, which is committed at 1040."""
    streamed = snapshot == "false"
    return {
        "op": op, "before": None, "after": {"note": note},
        "source": {"name": "src", "schema": "public", "table": "t", "txId": 757 if streamed else 700, "lsn": lsn,
                   "snapshot": snapshot, "sequence": '["1000","1030"]' if streamed else '[null,"1000"]'},
        "transaction": {"id": "757:1040", "total_order": order, "data_collection_order": order} if streamed else None,
    }  # fmt: skip


def test_equal_rows_of_a_snapshot_stay_several_beside_a_streamed_row_that_comes_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both are released at once: the repeat is one row, and the three equal ones are three."""
    rows = [
        row("r", "same", snapshot="first", lsn=1000), row("r", "same", snapshot="true", lsn=1000),
        row("r", "same", snapshot="last", lsn=1000), row("c", "new"), row("c", "new"),
    ]
    end = {"status": "END", "id": "757:1040", "event_count": 1,
           "data_collections": [{"data_collection": TABLE, "event_count": 1}]}  # fmt: skip
    records = [Record("src.public.t", 0, at, None, json.dumps(body).encode()) for at, body in enumerate(rows)]
    dump_into(tmp_path / "topics", [*records, Record("src.transaction", 0, 0, None, json.dumps(end).encode())], size=99)
    run = CaptureRun(tmp_path, RECIPE)
    run.run(spark)

    same, new = (ROWS.row((note,)) for note in ("same", "new"))
    updates, frontier = facts_of({TABLE: run.messages(TABLE)})[TABLE]
    assert ({(same, 1000, 3), (new, 1040, 1)}, [1041]) == (updates, list(frontier))


def notes(*said: tuple[str, int | None]) -> list[dict[str, Any]]:
    """Notifications of these kinds, with the rows that were scanned of the table."""
    return [
        {"type": kind, "aggregate_type": "Initial Snapshot",
         "additional_data": {"scanned_collection": None if number is None else TABLE, "total_rows_scanned": number}}
        for kind, number in said
    ]  # fmt: skip


def arranged(*topics: tuple[str, int, list[dict[str, Any]]]) -> list[Record]:
    """The records of some partitions."""
    return [
        Record(topic, part, at, None, json.dumps(body).encode())
        for topic, part, bodies in topics for at, body in enumerate(bodies)
    ]


ENDED = ("src.transaction", 0, [{"status": "END", "id": "757:1040", "event_count": 0, "data_collections": []}])


def test_of_a_snapshot_that_was_begun_twice_nothing_is_released(spark: SparkSession, tmp_path: Path) -> None:
    """As many rows as it has, at its LSN, none of them twice: the slot was there when it began again."""
    rows = [row("r", note, snapshot="true", lsn=1000) for note in ("one", "two", "three")]
    said = notes(("STARTED", None), ("STARTED", None), ("TABLE_SCAN_COMPLETED", 3), ("COMPLETED", None))
    records = arranged(("src.public.t", 0, rows), ("notes", 0, said), ENDED)
    dump_into(tmp_path / "topics", records, size=99)
    run = CaptureRun(tmp_path, Recipe("src", {TABLE: ROWS}, notification_topic="notes"))
    for _ in range(2):
        with pytest.raises(SourceStop, match="began its snapshot twice"):
            run.run(spark)

    assert [] == run.messages(TABLE)


def test_a_row_that_comes_when_the_snapshot_is_released_stops_every_later_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With the memory, without it, and when the row is not in the topics any more."""
    rows = [row("r", note, snapshot="true", lsn=1000) for note in ("one", "one")]
    said = notes(("STARTED", None), ("TABLE_SCAN_COMPLETED", 2), ("COMPLETED", None))
    there = arranged(("src.public.t", 0, rows), ("notes", 0, said), ENDED)
    late = arranged(("src.public.t", 1, [row("r", "two", snapshot="true", lsn=1000)]))
    run = CaptureRun(tmp_path, Recipe("src", {TABLE: ROWS}, notification_topic="notes"))
    dump_into(tmp_path / "topics", there, size=99)
    run.run(spark)
    dump_into(tmp_path / "topics", late, size=99)
    texts = set()
    for loses in ((), ("state",), ("state", "topics")):
        for name in loses:
            shutil.rmtree(tmp_path / name)
        if "topics" in loses:
            dump_into(tmp_path / "topics", there, size=99)
        with pytest.raises(SourceStop, match=r"stands at src.public.t\[1\]@0, which is none of the rows") as stop:
            run.run(spark)
        texts.add(str(stop.value))

    assert 1 == len(texts)
