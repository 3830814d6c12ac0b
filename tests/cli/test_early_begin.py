"""A BEGIN that stands before the END of the transaction before: one verdict, however the topic is cut."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from tests.cli.conftest import Run, Said

TOPIC, TABLE = "p.transaction", "p.public.t"
STOP = (
    "the END of transaction 9 is missing: it comes after the commit 100 and before the next one, and the next END is "
    "120, of transaction 8"
)


def change(order: int, tx: int, lsn: int, before: int | None, number: int) -> tuple[str, dict[str, Any]]:
    """An insert, with its topic."""
    source = {
        "version": "3.7.0.Final", "connector": "postgresql", "name": "p", "ts_ms": 1, "snapshot": "false", "db": "d",
        "sequence": json.dumps([None if before is None else str(before), str(lsn)]), "schema": "public", "table": "t",
        "txId": tx, "lsn": lsn, "xmin": None,
    }
    place = {"id": f"{tx}:{lsn}", "total_order": order, "data_collection_order": order}
    return TABLE, {"before": None, "after": {"id": number}, "source": source, "transaction": place, "op": "c",
                   "ts_ms": 1}  # fmt: skip


def marked(status: str, tx: int, lsn: int, count: int | None = None) -> tuple[str, dict[str, Any]]:
    """A BEGIN or an END, with its topic."""
    counted = None if count is None else [{"data_collection": "public.t", "event_count": count}]
    return TOPIC, {"status": status, "id": f"{tx}:{lsn}", "event_count": count, "data_collections": counted, "ts_ms": 1}


#: BEGIN 9 and END 8 have changed places; the last record is END 9.
RECORDS = [
    marked("BEGIN", 7, 90), change(1, 7, 90, None, 1), change(2, 7, 91, None, 2), marked("END", 7, 100, 2),
    marked("BEGIN", 8, 110), change(1, 8, 110, 100, 3), change(2, 8, 111, 100, 4),
    marked("BEGIN", 9, 130), marked("END", 8, 120, 2), change(1, 9, 130, 120, 5), marked("END", 9, 140, 1),
]
#: How many of them are there when it shows.
SHOWN = 9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the dump stands, with the row type."""
    (tmp_path / "rows").mkdir()
    schema = {"type": "record", "name": "t", "namespace": "public", "fields": [{"name": "id", "type": "int"}]}
    (tmp_path / "rows" / "public.t.avsc").write_text(json.dumps(schema), "utf-8")
    return tmp_path


def captured(run: Run, folder: Path, records: int, *more: object) -> Said:
    """A capture of so many records."""
    return captured_from(run, folder, RECORDS[:records], *more)


def captured_from(
    run: Run, folder: Path, records: Sequence[tuple[str, dict[str, Any]]], *more: object
) -> Said:
    """A capture of these records, each with its topic."""
    offsets, lines = Counter[str](), []
    for topic, body in records:
        lines.append({"topic": topic, "partition": 0, "offset": offsets[topic], "key": None, "value": json.dumps(body)})
        offsets[topic] += 1
    dump = folder / "dump.jsonl"
    dump.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return run("capture", dump, "--prefix", "p", "--rows", folder / "rows", "--snapshot", "none", "--into",
               folder / "logs", *more)  # fmt: skip


def rows(folder: Path) -> set[int]:
    """What is given out."""
    batches = Iter(DirectoryLog(folder / "logs" / "public.t").read())
    return {data.id for batch in batches for data, _, _ in batch.updates}


@pytest.mark.parametrize("size", [None, *range(1, len(RECORDS) + 1)])
def test_it_stops_a_capture_by_commit_times_whatever_is_read_together(
    run: Run, folder: Path, size: int | None
) -> None:
    """Where END 9 is read with it, too; all before is given out, and each later run stops alike."""
    more = () if size is None else ("--max-records", size)
    for _ in range(2):
        said = captured(run, folder, len(RECORDS), *more)
        assert 4 == said.code and STOP in said.err and {1, 2} == rows(folder)


@pytest.mark.parametrize("first", range(4, len(RECORDS)))
def test_it_stops_a_capture_by_commit_times_wherever_a_dump_was_cut(run: Run, folder: Path, first: int) -> None:
    """And a stop is not forgotten when more of the topic is there."""
    assert (4 if first >= SHOWN else 1 if first > 5 else 0) == captured(run, folder, first).code
    said = captured(run, folder, len(RECORDS))

    assert 4 == said.code and STOP in said.err and {1, 2} == rows(folder)
    (folder / "logs" / "_memory.json").unlink()
    assert STOP in captured(run, folder, len(RECORDS)).err


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_it_stops_a_capture_on_a_remap_whatever_is_bound_together(run: Run, folder: Path, size: int) -> None:
    """At the time at which it shows; of what is bound with it nothing is given out."""
    said = captured(run, folder, len(RECORDS), "--remap", folder / "remap", "--bind-at-most", size)

    assert 4 == said.code and STOP in said.err
    assert size > 1 or {1, 2} == rows(folder)
