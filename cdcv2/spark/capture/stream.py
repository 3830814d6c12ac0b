"""Any stream of changes becomes a log, if somebody says how far it is complete.

The rows of a streaming DataFrame have data columns, a ``time`` and a ``diff``: each says that the multiplicity of its
data changes at that time; rows of one (data, time) add up. They may come in any order. What no row can say is that
there are no more, so that must be stated, in one of two ways:

- a function, asked once in each micro-batch, after its rows: it returns a frontier F and thereby *promises* that every
  row at a time below F is in this batch or an earlier one;
- a second stream, of ``complete_through`` and ``rows``: so many rows in all have times below ``complete_through``. It
  is *checked*: nothing is stated before exactly so many have come, in whatever order the two streams are read.

Rows are kept in Parquet files beside Spark's checkpoint until they are stated. Both belong together: with the
checkpoint lost, the source is read again from its start, so the kept rows must go, too; with all lost, what the log
has already is recognized by its time, provided that the source gives the same rows again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Union

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from pyspark.sql.streaming.query import StreamingQuery

from cdcv2 import failpoints
from cdcv2.capture import log_set
from cdcv2.capture.log_set import Advance
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import ForeignStateError, MalformedError, SourceStop, UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture.log_set import FrameLogs, ReleaseChanges
from cdcv2.spark.capture.logs import TableLogs
from cdcv2.spark.capture.state_file import LogTail
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.job import Guard, follow
from cdcv2.spark.paths import readable, writable
from cdcv2.spark.schema import spark_type
from cdcv2.spark.session import tune
from cdcv2.store.numbered import NumberedFiles

#: Given a micro-batch, the frontier that is promised; None: nothing new.
Promise: TypeAlias = Callable[[DataFrame], Union[int, None]]

KEPT = failpoints.declare(
    "generic.kept", "the rows of a batch are kept; nothing is released, and no manifest names them"
)

VERSION = 1
_ENCODED = "time long, data binary, diff long, frontier long, rows long, wrong string"
_ARROW = pa.schema([
    ("time", pa.int64()), ("data", pa.binary()), ("diff", pa.int64()), ("frontier", pa.int64()), ("rows", pa.int64()),
    ("wrong", pa.string()),
])
_TOGETHER = "remove it with its checkpoint: the source is then read from its start, and what the log has is recognized"


def capture_stream(
    frame: DataFrame,
    log: LogSpec,
    *,
    complete_through: Union[Promise, DataFrame],
    state: Path,
    time: str = "time",
    diff: str = "diff",
    available_now: bool = False,
    interval: str | None = None,
) -> StreamCapture:
    """Start writing a stream into a log; :meth:`StreamCapture.wait` follows it.

    ``frame`` is streaming; its columns are those of ``log.row_type`` by their Avro names, with the types of
    :func:`~cdcv2.spark.schema.spark_type`, and ``time`` and ``diff`` (longs). ``complete_through`` is a promise or a
    second stream, as the module says. ``state`` is a folder of this capture's own.

    Raises UsageError for other columns, and what opening the log and the state raises. The query ends with
    MalformedError for a value that its column does not hold, SourceStop for rows that come after they were said to
    be complete, and ResumeError when the log holds another history.
    """
    capture = StreamCapture(log, state, None if isinstance(complete_through, DataFrame) else complete_through)
    rows = _selected(frame, log.row_type, time, diff)
    if isinstance(complete_through, DataFrame):
        rows = rows.unionByName(_statements(complete_through, log.row_type))
    writer = rows.writeStream.foreachBatch(capture.guard).queryName(f"cdcv2 capture {log.table}")
    writer = writer.option("checkpointLocation", writable(state / "checkpoint"))
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif interval is not None:
        writer = writer.trigger(processingTime=interval)
    capture.query = writer.start()
    return capture


class StreamCapture:
    """A running capture of one stream. ``guard`` is the function of its micro-batches."""

    def __init__(self, log: LogSpec, state: Path, promise: Promise | None) -> None:
        self.query: StreamingQuery | None = None
        self.guard = Guard(self._batch)
        self._spec, self._state, self._promise = log, state, promise
        self._manifest = NumberedFiles(state / "manifest", "the state of the capture")
        numbers = self._manifest.numbers()
        self._number = numbers[-1] if numbers else 0
        plain = self._manifest.read(self._number) if numbers else None
        tails = None if plain is None else {log.table: LogTail.from_plain(plain["log"])}
        self._logs = TableLogs({log.table: log}, tails)
        self._kept = _OpenCounts(plain, self._logs.known[log.table], state)
        self._clean()

    @property
    def known(self) -> int:
        """All times below it are stated."""
        return self._logs.known[self._spec.table]

    def wait(self) -> None:
        """Follow the query to its end; raises what ended it."""
        if self.query is not None:
            follow(self.query, self.guard)

    def stop(self) -> None:
        """End the query between two micro-batches."""
        self.guard.stopping.set()
        self.wait()

    # -- micro-batches

    def _batch(self, frame: DataFrame, number: int) -> None:
        session = tune(frame.sparkSession)
        query = str(session.sparkContext.getLocalProperty("sql.streaming.queryId"))
        if not self._kept.expects(query, number):
            return
        folder = self._state / "rows" / f"{number:020d}-{uuid.uuid4().hex}"
        encoded = frame.mapInArrow(partial(_encode, self._spec.row_type), _ENCODED)
        encoded.write.parquet(writable(folder))
        failpoints.reach(KEPT)
        kept = session.read.schema(_ENCODED).parquet(readable(folder))
        self._kept.take(folder.name, kept)
        frontier = self._kept.complete() if self._promise is None else self._promised(frame)
        remember = partial(self._save, query, number)
        if frontier > self._kept.released:
            logs = FrameLogs(self._logs, self._changes(session.read.schema(_ENCODED), frontier), session)
            log_set.write(logs, Advance(Antichain([frontier])), remember=partial(remember, frontier))
        else:
            remember()
        self._kept.batch, self._kept.query = number, query
        self._clean()

    def _save(self, query: str, number: int, released: int | None = None) -> None:
        """Keep what the batch did: it is stated up to there, if anything was."""
        if released is not None:
            self._kept.release(released)
        self._number += 1
        self._manifest.put(self._number, {
            "version": VERSION, "query": query, "batch": number, **self._kept.plain(),
            "log": self._logs.tails()[self._spec.table].to_plain(),
        })

    def _promised(self, frame: DataFrame) -> int:
        frontier = self._promise(frame.where(F.col("time").isNotNull())) if self._promise is not None else None
        if frontier is None:
            return 0
        if type(frontier) is not int or not 0 <= frontier <= MAX_TIME:
            raise UsageError(f"complete_through returned {frontier!r}: it takes a time, or None for nothing new")
        return frontier

    def _changes(self, reader: Any, frontier: int) -> ReleaseChanges:
        """What is kept below the frontier."""
        folders = self._kept.folders(frontier)
        if not folders:
            return ReleaseChanges(None, 0)
        rows = reader.parquet(*[readable(self._state / "rows" / folder) for folder in folders])
        due = rows.where((F.col("time") >= self._kept.released) & (F.col("time") < frontier))
        changes = due.groupBy("time", "data").agg(F.sum("diff").alias("diff"), F.count("*").alias("weight"))
        columns = [F.lit(0).alias("table"), "time", "data", "diff", "weight"]
        return ReleaseChanges(changes.select(*columns), self._kept.waiting(frontier))

    def _clean(self) -> None:
        """Remove the files that the manifest does not name, and manifests that nobody needs."""
        self._manifest.prune(self._number - 2)
        for folder in (self._state / "rows").glob("*"):
            if folder.name not in self._kept.times:
                shutil.rmtree(folder)


class _OpenCounts:
    """What is kept of a stream and not stated: numbers only. ``times`` has the rows at each time, by folder."""

    def __init__(self, plain: Mapping[str, Any] | None, known: int, state: Path) -> None:
        if plain is not None and plain.get("version") != VERSION:
            raise ForeignStateError(
                f"the state in {state} has version {plain.get('version')!r}, not {VERSION}: {_TOGETHER}"
            )
        said = plain or {
            "query": None, "batch": -1, "released": known, "begun": known, "below": 0, "times": {}, "stated": [],
        }
        self._state = state
        self.query: str | None = said["query"]
        self.batch: int = said["batch"]
        #: everything below it is stated, and has been counted into `_below`
        self.released: int = said["released"]
        # What the log had when this state was begun: rows below it are repeats, not late.
        self._begun: int = said["begun"]
        self._below: int = said["below"]
        self.times: dict[str, dict[int, int]] = {
            folder: {time: rows for time, rows in times} for folder, times in said["times"].items()
        }
        self._stated: list[tuple[int, int]] = [(frontier, rows) for frontier, rows in said["stated"]]

    def plain(self) -> dict[str, Any]:
        """The numbers, for the manifest."""
        return {
            "released": self.released, "begun": self._begun, "below": self._below,
            "times": {folder: list(times.items()) for folder, times in self.times.items()}, "stated": self._stated,
        }

    def expects(self, query: str, number: int) -> bool:
        """Whether the batch is the next one; False: it was done before. Raises ForeignStateError."""
        if (self.query is not None and query != self.query) or number > self.batch + 1:
            raise ForeignStateError(f"the state in {self._state} is not that of this checkpoint: {_TOGETHER}")
        return number > self.batch

    def take(self, folder: str, frame: DataFrame) -> None:
        """Count what a folder holds. Raises MalformedError for a row that is none, SourceStop for one that is late."""
        found = frame.groupBy("time", "frontier", "rows")
        times: dict[int, int] = {}
        for row in found.agg(F.count("*").alias("count"), F.max("wrong").alias("wrong")).collect():
            if row["wrong"] is not None:
                raise MalformedError(f"the stream holds what is no update of its log: {row['wrong']}")
            if row["frontier"] is not None:
                self._stated.append((row["frontier"], row["rows"]))
            elif row["time"] >= self.released:
                times[row["time"]] = row["count"]
            elif row["time"] < self._begun:
                self._below += row["count"]
            else:
                raise SourceStop(
                    f"a row at time {row['time']} came after the stream was said to be complete through "
                    f"{self.released}", "Say so only when every row below is there, and begin a new log", self.released,
                )
        if times:
            self.times[folder] = times

    def complete(self) -> int:
        """The greatest frontier that was stated and is complete. Raises SourceStop for more rows than were stated."""
        best = 0
        for frontier, rows in sorted(set(self._stated)):
            if frontier < self.released:
                continue
            held = self._below + self.waiting(frontier)
            if held > rows:
                raise SourceStop(
                    f"the stream was said to have {rows} rows before time {frontier}, and {held} have come",
                    "Find out which is right, and begin a new log", self.released,
                )
            best = frontier if held == rows else best
        return best

    def folders(self, frontier: int) -> list[str]:
        """Those with rows below the frontier."""
        return [folder for folder, times in self.times.items() if any(time < frontier for time in times)]

    def waiting(self, frontier: int) -> int:
        """How many rows have times below the frontier."""
        return sum(count for times in self.times.values() for time, count in times.items() if time < frontier)

    def release(self, frontier: int) -> None:
        """Everything below the frontier is stated."""
        for folder in list(self.times):
            times = self.times[folder]
            self._below += sum(count for time, count in times.items() if time < frontier)
            self.times[folder] = {time: count for time, count in times.items() if time >= frontier}
            if not self.times[folder]:
                del self.times[folder]
        self.released = frontier
        self._stated = [(stated, rows) for stated, rows in self._stated if stated > frontier]


# -- columns


def _selected(frame: DataFrame, row_type: RowType, time: str, diff: str) -> DataFrame:
    """``data`` (a struct), ``time``, ``diff``, ``frontier``, ``rows``. Raises UsageError for other columns."""
    wanted = spark_type(row_type)
    found = {field.name: field.dataType.simpleString() for field in frame.schema}
    needed = {field.name: field.dataType.simpleString() for field in wanted} | {time: "bigint", diff: "bigint"}
    if not frame.isStreaming:
        raise UsageError("capture_stream takes a streaming DataFrame: read it with spark.readStream")
    if len(needed) != len(wanted.fields) + 2:
        raise UsageError(f"{time!r} and {diff!r} are also columns of the data: rename them, and pass time= and diff=")
    for name, kind in needed.items():
        if found.get(name) != kind:
            is_now = found.get(name, "missing")
            raise UsageError(f"the stream's column {name!r} is {is_now}, and must be {kind}: cast it")
    data = F.struct(*[F.col(f"`{field.name}`") for field in wanted.fields]).alias("data")
    null = F.lit(None).cast("long")
    return frame.select(
        data, F.col(f"`{time}`").alias("time"), F.col(f"`{diff}`").alias("diff"), null.alias("frontier"),
        null.alias("rows"),
    )


def _statements(frame: DataFrame, row_type: RowType) -> DataFrame:
    found = {field.name: field.dataType.simpleString() for field in frame.schema}
    for name in ("complete_through", "rows"):
        if found.get(name) not in ("bigint", "int"):
            raise UsageError(f"the stream of statements has no column {name!r} of bigint: it is {found.get(name)}")
    data = F.lit(None).cast(_nullable(spark_type(row_type))).alias("data")
    null = F.lit(None).cast("long")
    return frame.select(
        data, null.alias("time"), null.alias("diff"), F.col("complete_through").cast("long").alias("frontier"),
        F.col("rows").cast("long").alias("rows"),
    )


def _nullable(kind: spark.StructType) -> spark.StructType:
    return spark.StructType([spark.StructField(field.name, field.dataType, True) for field in kind.fields])


def _encode(row_type: RowType, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows to their canonical bytes, on the executors; ``wrong`` says why one cannot be an update."""
    for batch in batches:
        columns: list[list[Any]] = [[], [], [], [], [], []]
        for row in zip(*(column.to_pylist() for column in batch.columns)):
            for column, value in zip(columns, _encoded(row_type, *row)):
                column.append(value)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _encoded(row_type: RowType, data: Any, time: Any, diff: Any, frontier: Any, rows: Any) -> tuple[Any, ...]:
    if frontier is not None or rows is not None:
        wrong = None
        if frontier is None or rows is None or not 0 <= frontier <= MAX_TIME or rows < 0:
            wrong = f"complete_through is {frontier} and rows is {rows}: a time and a number from 0 on"
        return None, None, None, frontier, rows, wrong
    if time is None or time < 0 or not diff:
        return None, None, None, None, None, f"time is {time} and diff is {diff}: a time and a number other than 0"
    try:
        return time, row_type.encode(values_of(data)), diff, None, None, None
    except MalformedError as error:
        return None, None, None, None, None, str(error)


def values_of(value: Any) -> Any:
    """What Arrow gives for structs, as tuples: names inside rows are the database's, not Avro's."""
    if isinstance(value, dict):
        return tuple(values_of(inner) for inner in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(values_of(inner) for inner in value)
    return value
