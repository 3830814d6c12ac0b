"""Where the topics end, the capture job reports as the command does; and a source that is not there binds nothing."""

from __future__ import annotations

import io
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.cli.main import main
from cdcv2.errors import MissingLogError, RefusedError, SourceStop
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.spark.capture.job import CaptureJobPlan, begins, capture, outcome, parser, planned
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.remap_capture import job as bound_job

pytestmark = pytest.mark.spark

#: A name as a database may have it; the topic is called a little otherwise.
TABLE = "größe.тест"
ROW = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}


def row(tx: int, order: int, lsn: int, before: int) -> dict[str, Any]:
    """The envelope of an inserted row."""
    schema, _, table = TABLE.partition(".")
    source = {
        "name": "p", "schema": schema, "table": table, "txId": tx, "lsn": lsn, "snapshot": "false",
        "sequence": json.dumps([str(before), str(lsn)]),
    }
    place = {"id": f"{tx}:{lsn}", "total_order": order, "data_collection_order": order}
    return {"op": "c", "before": None, "after": {"id": order}, "source": source, "transaction": place}


def end(tx: int, lsn: int, rows: int) -> dict[str, Any]:
    """The END of a transaction."""
    counts = [{"data_collection": TABLE, "event_count": rows}]
    return {"status": "END", "id": f"{tx}:{lsn}", "event_count": rows, "data_collections": counts}


def arranged(folder: Path, *said: tuple[str, dict[str, Any]]) -> Path:
    """A folder with a row type and with the dumped topics, if there are any."""
    (folder / "rows").mkdir(parents=True)
    (folder / "rows" / f"{TABLE}.avsc").write_text(json.dumps(ROW))
    offsets: dict[str, int] = {}
    lines = []
    for topic, value in said:
        offset = offsets[topic] = offsets.get(topic, -1) + 1
        lines.append(json.dumps({
            "topic": f"p.{topic}", "partition": 0, "offset": offset, "timestamp": 0, "key": None,
            "value": json.dumps(value),
        }))
    if said:
        (folder / "topics").mkdir()
        (folder / "topics" / "all.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def plan(folder: Path) -> CaptureJobPlan:
    """A capture of all that there is, without a snapshot."""
    return planned(parser().parse_args([
        str(folder / "topics"), "--prefix", "p", "--rows", str(folder / "rows"), "--snapshot", "none",
        "--into", str(folder / "logs"), "--state", str(folder / "state"), "--no-follow",
    ]))


TOPIC = "gr__e.____"
WHOLE = [(TOPIC, row(7, 1, 95, 0)), (TOPIC, row(7, 2, 96, 0)), ("transaction", end(7, 100, 2))]


@pytest.mark.parametrize(("said", "code"), [(WHOLE, Exit.DONE), ([*WHOLE, (TOPIC, row(8, 1, 105, 100))], Exit.MISSING)])
def test_topics_that_end_inside_a_transaction_are_told_as_the_command_tells_them(
    said: list[tuple[str, dict[str, Any]]], code: Exit, spark: SparkSession, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the exit code, and in words."""
    folder, people = arranged(tmp_path, *said), io.StringIO()
    command = main([
        "capture", str(folder / "topics" / "all.jsonl"), "--prefix", "p", "--rows", str(folder / "rows"),
        "--snapshot", "none", "--into", str(folder / "by-command"),
    ])
    told = capsys.readouterr().err.splitlines()[-1].removeprefix("cdcv2 capture: ")

    made = capture(spark, plan(folder), CaptureReport(people=people))

    assert (code, code) == (command, outcome(made))
    assert told in people.getvalue().splitlines()[-1]
    assert [CAPTURE_FILE, TABLE] == sorted(path.name for path in (folder / "logs").iterdir())


def test_one_that_is_to_be_alone_is_refused_beside_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has read anything; and it is not refused when the other has ended."""
    monkeypatch.setattr("cdcv2.capture.run.folder_lock.WAIT", 0.1)
    folder = arranged(tmp_path, *WHOLE)
    alone = planned(parser().parse_args([
        str(folder / "topics"), "--prefix", "p", "--rows", str(folder / "rows"), "--snapshot", "none", "--sole",
        "--into", str(folder / "logs"), "--state", str(folder / "state"), "--no-follow",
    ]))
    with FolderInUse(folder / "logs"), pytest.raises(RefusedError, match="--sole"):
        capture(spark, alone, CaptureReport(people=io.StringIO()))

    assert Exit.DONE == outcome(capture(spark, alone, CaptureReport(people=io.StringIO())))


def test_one_that_was_told_to_end_is_not_at_the_end(spark: SparkSession, tmp_path: Path) -> None:
    """Then what is open may come yet."""
    folder = arranged(tmp_path, *WHOLE, (TOPIC, row(8, 1, 105, 100)))
    made = capture(spark, plan(folder), CaptureReport(people=io.StringIO()))
    assert made.finished

    made.finished = False

    assert Exit.DONE == outcome(made)


def test_a_stop_that_lasts_is_kept_in_the_logs(spark: SparkSession, tmp_path: Path) -> None:
    """A row that END did not count came when its transaction was released: also a run that cannot see it stops."""
    for rows in (WHOLE, [*WHOLE, (TOPIC, row(7, 3, 97, 0))], WHOLE):
        for old in ("rows", "topics", "state"):
            shutil.rmtree(tmp_path / old, ignore_errors=True)
        arranged(tmp_path, *rows)
        if rows is WHOLE and not (tmp_path / "logs").exists():
            capture(spark, plan(tmp_path), CaptureReport(people=io.StringIO()))
            continue
        with pytest.raises(SourceStop, match="transaction 7 has a row of .* numbered 3, but its END 100") as stop:
            capture(spark, plan(tmp_path), CaptureReport(people=io.StringIO()))
        assert stop.value.lasting and 1 == len(list((tmp_path / "logs" / TABLE).glob("_stop.*.json")))


def test_a_source_that_is_not_there_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    """So the next run may be another capture."""
    folder = arranged(tmp_path)

    with pytest.raises(MissingLogError, match="there is no directory .*topics"):
        capture(spark, plan(folder), CaptureReport(people=io.StringIO()))

    assert not (folder / "logs").exists()


@pytest.mark.parametrize(("prefix", "said"), [
    ("p", f"none of the captured tables has a topic: the row types are of other.t, and .* prefix p are of {TOPIC}."),
    ("q", f"the dump has none of the connector's topics q.*: is the prefix right. It has p.{TOPIC}, p.transaction"),
])  # fmt: skip
def test_tables_and_topics_that_do_not_meet_are_named(
    spark: SparkSession, tmp_path: Path, prefix: str, said: str
) -> None:
    """By commit times and on a remap, with what there is on both sides; nothing is written."""
    folder = arranged(tmp_path, *WHOLE)
    (folder / "rows" / f"{TABLE}.avsc").rename(folder / "rows" / "other.t.avsc")
    words = [str(folder / "topics"), "--prefix", prefix, "--rows", str(folder / "rows"),
             "--snapshot", "none", "--into", str(folder / "logs")]  # fmt: skip
    report, stopping = CaptureReport(people=io.StringIO()), threading.Event()
    with pytest.raises(MissingLogError, match=said):
        begins(spark, planned(parser().parse_args([*words, "--state", str(folder / "state"), "--no-follow"])),
               report, stopping)  # fmt: skip
    bound = bound_job.planned(parser().parse_args([*words, "--remap", str(folder / "remap"), "--no-follow"]))
    if prefix == "p":
        with pytest.raises(MissingLogError, match=said):
            bound_job.capture(spark, bound, report, stopping=stopping)
    assert ["rows", "topics"] == sorted(path.name for path in folder.iterdir())


def test_one_that_follows_reports_topics_that_do_not_meet(spark: SparkSession, tmp_path: Path) -> None:
    """The table's may come yet."""
    folder, people = arranged(tmp_path, *WHOLE), io.StringIO()
    (folder / "rows" / f"{TABLE}.avsc").rename(folder / "rows" / "other.t.avsc")
    given = parser().parse_args([str(folder / "topics"), "--prefix", "p", "--rows", str(folder / "rows"),
                                 "--into", str(folder / "logs"), "--state", str(folder / "state")])  # fmt: skip
    assert begins(spark, planned(given), CaptureReport(people=people), threading.Event())
    assert "none of the captured tables has a topic" in people.getvalue()
