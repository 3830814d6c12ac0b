"""`format("cdcv2")` gives what `as_of` gives, of recorded runs, as a batch and as a stream."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import cdcv2
from cdcv2.capture.run.commit_times import Capture
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, RefusedError, SourceStop, UsageError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.spark.data_source import DIFF, TIME, LogChangesReader, LogDataSource, LogOptions, changes_type, register
from tests.capture.run.test_keyed_recorded import MANY, capture_rare
from tests.recorded import TABLES, checkpoint_time
from tests.timelines import recipe, topics

pytestmark = pytest.mark.spark
ROW = RowType.load({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})


def logs_in(folder: Path, tables: dict[str, RowType]) -> dict[str, Any]:
    of = LogDescription(timeline=folder.name)
    return {table: DirectoryLog(folder / table, row, create=True, description=of) for table, row in tables.items()}


def logs_of_runs(folder: Path, *runs: str) -> None:
    """Logs of whole recorded runs, by their names."""
    for run in runs:
        # A TRUNCATE ends the capture, where rows are not taken from the state.
        with Capture(recipe(run), logs_in(folder / run, TABLES)) as capture, suppress(SourceStop):
            for half in (0, 1):
                for partition in topics(run).values():
                    middle = len(partition) // 2
                    for record in partition[middle:] if half else partition[:middle]:
                        capture.absorb(record)
                capture.release()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Logs of a run that comes in parts, and of all types; the stress test has those of all that was recorded."""
    folder = tmp_path_factory.mktemp("sets")
    logs_of_runs(folder, "crash_full")
    capture_rare({"public.types_t": MANY}, logs_in(folder / "types", {"public.types_t": MANY}))
    return {path.name: path for path in folder.iterdir()}


def source(spark: SparkSession, table: str, **options: Any) -> Any:
    register(spark)
    return spark.read.format("cdcv2").options(table=table, **options)


def summed(changes: pa.Table) -> Counter[str]:
    """Each row, as text, and how often it is there by its changes."""
    rows = Counter[str]()
    for row in changes.to_pylist():
        count = row.pop(DIFF)
        del row[TIME]
        rows[repr(row)] += count
    return rows


def greatest(folder: Path) -> list[str]:
    """The tables, those with most rows first."""
    state = cdcv2.open(str(folder)).as_of()
    return sorted(state.tables, key=lambda table: -len(state[table]))


def added(given: list[pa.Table]) -> Counter[str]:
    rows = Counter[str]()
    for changes in given:
        rows.update(summed(changes))
    return Counter({row: count for row, count in rows.items() if count})


def held(folder: Path, table: str, at: int | None = None) -> Counter[str]:
    return Counter(map(repr, cdcv2.open(str(folder)).as_of(at).to_arrow(table).to_pylist()))


def test_a_batch_is_what_as_of_gives(spark: SparkSession, recorded: dict[str, Path]) -> None:
    """Of a table of each recorded set; and at a time in the middle, which all its rows carry."""
    for folder in recorded.values():
        table = greatest(folder)[0]
        assert held(folder, table) == summed(source(spark, table).load(str(folder)).toArrow()), (folder.name, table)
    at = checkpoint_time("crash_full", "02_live")
    frame = source(spark, "public.orders", at=at).load(str(recorded["crash_full"]))

    assert held(recorded["crash_full"], "public.orders", at) == summed(frame.toArrow())
    assert {at} == {row[0] for row in frame.select(TIME).distinct().collect()}


def test_a_stream_adds_up_to_what_as_of_gives(
    spark: SparkSession, recorded: dict[str, Path], tmp_path: Path
) -> None:
    """Of a table of each recorded set; of one it ends before the last part of the log is there, and is restarted."""
    for name, folder in recorded.items():
        table = greatest(folder)[0]
        last = sorted((folder / table).glob("*.avro"))[-2:]
        kept, given = [path.read_bytes() for path in last], list[pa.Table]()
        if name == "crash_full":
            for path in last:
                path.unlink()
            run_stream(spark, folder, table, tmp_path / name, given)
            for path, content in zip(last, kept):
                path.write_bytes(content)
        run_stream(spark, folder, table, tmp_path / name, given)
        frontiers = [
            Antichain(json.loads((tmp_path / name / "offsets" / str(batch)).read_text().splitlines()[-1])["frontier"])
            for batch in range(len(given))
        ]

        assert held(folder, table) == added(given), name
        assert cdcv2.open(str(folder)).frontier == frontiers[-1]
        assert 2 == len(given) or name != "crash_full"
        for lower, upper, changes in zip([Antichain([0]), *frontiers], frontiers, given):
            assert all(lower.less_equal(time) and not upper.less_equal(time) for time in changes[TIME].to_pylist())


def run_stream(spark: SparkSession, folder: Path, table: str, checkpoint: Path, given: list[pa.Table]) -> None:
    register(spark)
    changes = spark.readStream.format("cdcv2").option("table", table).load(str(folder))
    query = changes.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).foreachBatch(
        lambda frame, _: given.append(frame.toArrow())
    ).start()
    query.awaitTermination()


def test_offsets_are_frontiers_and_parts_fit_together(tmp_path: Path) -> None:
    """Changes of adjoining offsets, each read on its own, are all changes, once; marks or none; and nothing is later.
    """
    same = LogDescription(identity="r")
    log = DirectoryLog(tmp_path / "r", ROW, create=True, description=same)
    stream, schema = reader(tmp_path / "r")
    updates = [(ROW.row((number,)), time, 1) for time in range(1, 8) for number in range(time)]
    offsets = [stream.initialOffset()]
    for end in (3, 5, 8):
        log.send(Updates([one for one in updates if end - 3 <= one[1] < end]))
        log.send(Progress([offsets[-1]["frontier"][0]], [end], Counter(
            one[1] for one in updates if offsets[-1]["frontier"][0] <= one[1] < end)))
        log.flush()
        offsets.append(stream.latestOffset(offsets[-1], None))
    other, _ = reader(tmp_path / "r")
    # A copy that states all in one: its one cut is greater than every part.
    copy = DirectoryLog(tmp_path / "copy" / "r", ROW, create=True, description=same)
    copy.send(Updates(updates))
    copy.send(Progress([0], [8], Counter(time for _, time, _ in updates)))
    copy.flush()
    coarse, _ = reader(tmp_path / "copy" / "r")

    assert [[0], [3], [5], [8]] == [offset["frontier"] for offset in offsets]
    assert offsets[-1] == stream.latestOffset() == other.latestOffset(offsets[1])
    for one in (stream, other, coarse):
        for first in range(4):
            for last in range(first, 4):
                parts = one.partitions(offsets[first], offsets[last])
                given = [row for part in parts for batch in one.read(part) for row in batch.to_pylist()]
                wanted = [(row[0], time) for row, time, _ in updates
                          if offsets[first]["frontier"][0] <= time < offsets[last]["frontier"][0]]
                assert sorted(wanted) == sorted((row["id"], row[TIME]) for row in given)
                assert len(parts) == (first < last)
    stream.commit(offsets[-1])
    assert 1 == len(stream._marks)


def test_what_does_not_reach_the_checkpoint_is_refused(tmp_path: Path) -> None:
    """A log that lost its end, or another one; and what an option does not take."""
    log = DirectoryLog(tmp_path / "r", ROW, create=True)
    log.send(Progress([0], [5], {}))
    log.flush()
    stream, _ = reader(tmp_path / "r")
    with pytest.raises(RefusedError, match="finished up to .5., and the stream has given out everything up to .7."):
        stream.partitions({"frontier": [7]}, {"frontier": [5]})
    with pytest.raises(RefusedError, match="begin with a new checkpoint"):
        stream.latestOffset({"frontier": [7]})
    [part] = stream.partitions({"frontier": [0]}, {"frontier": [9]})
    with pytest.raises(IncompleteError, match="is complete through 4 in r, and was finished up to .9. before"):
        list(stream.read(part))
    for options, text in [
        ({}, "name the logs"), ({"path": "r", "when": "1"}, "the option 'when' is unknown"),
        ({"path": "r", "at": "now"}, "it takes a time as a whole number"),
    ]:
        with pytest.raises(UsageError, match=text):
            LogOptions.of(options)
    with pytest.raises(UsageError, match="the table has a column cdcv2_time"):
        changes_type(RowType.load({"type": "record", "name": "r", "fields": [{"name": TIME, "type": "long"}]}))


def test_a_stream_does_not_continue_over_another_log(spark: SparkSession, tmp_path: Path) -> None:
    """Which has come further: after a restart, in a query that runs, and in a task that was planned before."""
    given = list[pa.Table]()
    log_of(tmp_path / "r", "first", 4)
    run_stream(spark, tmp_path / "r", "r", tmp_path / "kept", given)
    stream, _ = reader(tmp_path / "r")
    offset = stream.latestOffset()
    [part] = stream.partitions(stream.initialOffset(), offset)
    assert {"frontier": [4], "log": "first"} == offset == stream.latestOffset(offset)
    log_of(tmp_path / "r", "second", 9)
    other, _ = reader(tmp_path / "r")

    for refused in (
        lambda: run_stream(spark, tmp_path / "r", "r", tmp_path / "kept", given), lambda: other.latestOffset(offset),
        lambda: stream.latestOffset(offset), lambda: stream.latestOffset({"frontier": [4]}),
        lambda: list(other.read(part)),
    ):
        with pytest.raises(Exception, match="the stream of r is of the log first, and second is here now.* checkpoint"):
            refused()
    assert [[1]] == [changes["id"].to_pylist() for changes in given]
    # An offset of before continues, and is of this log from then on.
    assert {"frontier": [9], "log": "second"} == other.latestOffset({"frontier": [4]})
    with pytest.raises(UsageError, match="the option at is for spark.read"):
        LogDataSource({"path": str(tmp_path / "r"), "at": "3"}).streamReader(StructType())


def log_of(folder: Path, identity: str, upper: int) -> None:
    """The log, made again with this identity."""
    shutil.rmtree(folder, ignore_errors=True)
    log = DirectoryLog(folder, ROW, create=True, description=LogDescription(timeline="m", identity=identity))
    writer = cdcv2.Writer(log)
    writer.extend([(ROW.row((1,)), 1, 1)])
    writer.advance([upper])
    log.flush()


def reader(path: Path) -> tuple[LogChangesReader, StructType]:
    schema = LogDataSource({"path": str(path)}).schema()
    return LogChangesReader(LogOptions.of({"path": str(path)}), schema), schema
