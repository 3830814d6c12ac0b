"""Any stream becomes a log: what it says is stated when it is complete, not before, whatever dies on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdcv2 import failpoints
from cdcv2.capture import log_set
from cdcv2.core.antichain import Antichain
from cdcv2.errors import Cdcv2Error, ForeignStateError, MalformedError, ResumeError, SourceStop, UsageError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture import stream as generic
from cdcv2.spark.capture.stream import StreamCapture, capture_stream
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.paths import streamable
from tests.spark.capturing import log_messages

pytestmark = pytest.mark.spark

ROWS = RowType({"type": "record", "name": "thing", "fields": [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"]},
    {"name": "size", "type": "double"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
]})
SCHEMA = "id long, note string, size double, tags array<string>, time long, diff long"
STATEMENTS = "complete_through long, rows long"
STEPS = [
    generic.KEPT, log_set.BEFORE_UPDATES, log_set.TABLE_WRITTEN, log_set.UPDATES_DURABLE, log_set.TABLE_STATED,
    log_set.STATED, log_set.REMEMBERED,
]
Row = tuple[int, str | None, int, int]


def history(seed: int, rows: int = 60) -> list[Row]:
    """Changes of a few things at a few times, several of which cancel or add up."""
    chance = random.Random(seed)
    return [
        (chance.randint(1, 4), chance.choice([None, "a"]), chance.randint(0, 9), chance.choice([-1, 1, 2]))
        for _ in range(rows)
    ]


def truth(rows: list[Row]) -> dict[tuple[int, str | None, int], int]:
    """What each identity comes to."""
    sums: Counter[tuple[int, str | None, int]] = Counter()
    for number, note, time, diff in rows:
        sums[number, note, time] += diff
    return {identity: diff for identity, diff in sums.items() if diff}


class Stream:
    """A source in files, one of which is a micro-batch, its log, and the state of its capture."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.state = folder / "state"
        self.log = LogSpec("things", ROWS, folder=str(folder / "log"))
        for kind in ("rows", "said"):
            (folder / kind).mkdir()

    def put(self, kind: str, lines: list[dict[str, Any]]) -> None:
        """One more file."""
        number = len(list((self.folder / kind).iterdir()))
        path = self.folder / kind / f"{number:03d}.json"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def rows(self, rows: list[Row]) -> None:
        """One more file of rows."""
        self.put("rows", [
            {"id": number, "note": note, "size": -0.0, "tags": ["x"], "time": time, "diff": diff}
            for number, note, time, diff in rows
        ])

    def said(self, frontier: int, rows: int) -> None:
        """One more file with a statement."""
        self.put("said", [{"complete_through": frontier, "rows": rows}])

    def read(self, kind: str, schema: str) -> DataFrame:
        """A stream of the files."""
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").option("maxFileAge", "36500d")
        return reader.json(streamable(self.folder / kind))

    def capture(self, complete_through: Any = None, frame: DataFrame | None = None) -> StreamCapture:
        """Run it to the end of the files."""
        capture = capture_stream(
            self.read("rows", SCHEMA) if frame is None else frame, self.log,
            complete_through=self.read("said", STATEMENTS) if complete_through is None else complete_through,
            state=self.state, available_now=True,
        )
        capture.wait()
        return capture

    def found(self) -> tuple[dict[tuple[int, str | None, int], int], Antichain]:
        """What a reader of the log has, and how far."""
        reader = Iter(log_messages(self.folder / "log", ROWS))
        updates = [update for batch in reader for update in batch.updates]
        assert not reader.missing()
        assert all((row.size, row.tags) == (0.0, ("x",)) for row, _, _ in updates)
        return {(row.id, row.note, time): diff for row, time, diff in updates}, reader.frontier


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """A source without files."""
    return Stream(spark, tmp_path)


def below(rows: list[Row], frontier: int) -> int:
    """How many rows have times below it."""
    return sum(time < frontier for _, _, time, _ in rows)


def test_a_second_stream_says_how_far_the_first_is_complete(stream: Stream) -> None:
    """Read before or after the rows that it counts: nothing is stated until they are there."""
    rows = history(1)
    for first in range(0, len(rows), 20):
        stream.rows(rows[first:first + 20])
    stream.said(10, len(rows))
    stream.said(4, below(rows, 4))
    assert 10 == stream.capture().known
    assert (truth(rows), Antichain([10])) == stream.found()


def test_its_state_may_be_called_as_anybody_likes(stream: Stream) -> None:
    """What is kept there is read again, also by the next run."""
    stream.state = stream.folder / "sp ace é%20 [1] {a}?*"
    rows = sorted(history(11), key=lambda row: row[2])
    for first, frontier in ((0, 4), (30, 10)):
        stream.rows(rows[first:first + 30])
        stream.said(frontier, below(rows, frontier))
        stream.capture()
    assert (truth(rows), Antichain([10])) == stream.found()


def test_what_is_not_complete_is_not_stated(stream: Stream) -> None:
    """Rows of a later file are missing: the log ends before the first time of which one is."""
    rows = sorted(history(2), key=lambda row: row[2])
    stream.rows(rows[20:])
    stream.said(10, len(rows))
    assert 0 == stream.capture().known
    stream.rows(rows[:20])
    assert 10 == stream.capture().known
    assert (truth(rows), Antichain([10])) == stream.found()


def test_a_promise_is_taken_at_its_word(stream: Stream) -> None:
    """A function of the micro-batch: here, rows come by time, so all before the newest is complete."""
    rows = sorted(history(3), key=lambda row: row[2])
    for first in range(0, len(rows), 20):
        stream.rows(rows[first:first + 20])

    def complete(batch: DataFrame) -> int | None:
        newest: int | None = batch.agg(F.max("time")).collect()[0][0]
        return newest

    assert rows[-1][2] == stream.capture(complete).known
    before = [row for row in rows if row[2] < rows[-1][2]]
    assert (truth(before), Antichain([rows[-1][2]])) == stream.found()


@pytest.mark.parametrize("lost", [False, True], ids=["state kept", "state lost"])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_the_same_facts(step: str, lost: bool, stream: Stream) -> None:
    """With all that was kept lost as well, the source is read again, and the log knows what it has."""
    rows = history(4)
    for first, frontier in ((0, 3), (20, 7), (40, 10)):
        stream.rows(rows[first:first + 20])
        stream.said(frontier, below(rows, frontier))
    with failpoints.placed(step, 2 if step == generic.KEPT else 1), pytest.raises(failpoints.PlacedCrash):
        stream.capture()
    if lost:
        shutil.rmtree(stream.folder / "state")
    assert 10 == stream.capture().known
    assert (truth(rows), Antichain([10])) == stream.found()


def stops(stream: Stream, kind: type[Cdcv2Error], text: str, **more: Any) -> None:
    """The capture ends with this."""
    with pytest.raises(kind, match=text):
        stream.capture(**more)


def test_what_contradicts_a_statement_stops_it(stream: Stream) -> None:
    """More rows than were said to be; and a row at a time that was said to be complete."""
    stream.rows([(1, "a", 2, 1), (1, "b", 3, 1)])
    stream.said(5, 1)
    stops(stream, SourceStop, "said to have 1 rows before time 5, and 2 have come")
    shutil.rmtree(stream.folder / "state")
    shutil.rmtree(stream.folder / "said")
    (stream.folder / "said").mkdir()
    stream.said(5, 2)
    stream.capture()
    stream.rows([(9, "late", 4, 1)])
    stops(stream, SourceStop, "a row at time 4 came after the stream was said to be complete through 5")
    assert {(1, "a", 2): 1, (1, "b", 3): 1} == stream.found()[0]


def test_values_that_are_none_stop_it(stream: Stream) -> None:
    """It says what is wrong."""
    stream.rows([(1, "a", 2, 0)])
    stream.said(5, 1)
    stops(stream, MalformedError, "time is 2 and diff is 0")


def test_other_columns_are_refused(stream: Stream, spark: SparkSession) -> None:
    """Before anything is read, by name, with the remedy."""
    frame = stream.read("rows", SCHEMA)
    stops(stream, UsageError, "column 'note' is missing", frame=frame.drop("note"))
    stops(stream, UsageError, "column 'time' is string.*cast it", frame=frame.withColumn("time", F.lit("x")))
    stops(stream, UsageError, "readStream", frame=spark.createDataFrame([], SCHEMA))
    stops(stream, UsageError, "no column 'rows'", complete_through=frame.withColumnRenamed("time", "complete_through"))


def test_a_state_without_its_checkpoint_is_refused(stream: Stream) -> None:
    """The source would be read again, on top of what is kept."""
    stream.rows(history(5))
    stream.said(5, 10**6)
    stream.capture()
    shutil.rmtree(stream.folder / "state" / "checkpoint")
    stops(stream, ForeignStateError, "not that of this checkpoint")


def test_updates_that_the_stream_does_not_have_are_refused_where_nothing_is_released(stream: Stream) -> None:
    """Stated as none they would contradict the log for ever."""
    log = DirectoryLog(stream.folder / "log", ROWS, create=True)
    log.send(Updates([((1, "a", 0.0, ("x",)), 2, 1)]))
    log.flush()
    stream.rows([(1, "a", 7, 1)])
    stream.said(5, 0)

    stops(stream, ResumeError, "another history")
    assert not [message for message in log_messages(stream.folder / "log", ROWS) if isinstance(message, Progress)]
