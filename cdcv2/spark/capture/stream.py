"""Stream topics on Spark: executors read, parse and keep the updates, and the driver decides by numbers.

What a record means is in :mod:`cdcv2.connectors.stream`, what is complete in :mod:`cdcv2.capture.stream_counts`, as
without Spark. Updates are kept in Parquet files beside Spark's checkpoint until they are stated. Both belong together:
with the checkpoint lost, the source is read again from its start, so the kept updates must go, too; with all lost, what
the log has already is recognized by its time, once it is found to be the same by digests that executors compute.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from cdcv2 import failpoints
from cdcv2.capture.connector import StreamConnector
from cdcv2.capture.facts import BoundRecord, Record
from cdcv2.capture.memory import tails_of
from cdcv2.capture.memory_format import FORGET, MEMORY_VERSION, BatchMemory
from cdcv2.capture.run.stream_state import StreamState, StreamTopic
from cdcv2.capture.stream_counts import update_digest
from cdcv2.capture.topics import TopicExtents
from cdcv2.capture.updates_then_statements import Advance, write_release
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError, ForeignStateError, MalformedError
from cdcv2.protocol.log import Place, Position
from cdcv2.spark.capture.batch_facts import PartitionSpan
from cdcv2.spark.capture.release_frames import FrameLogs, ReleaseChanges
from cdcv2.spark.capture.logs import TableLogs
from cdcv2.spark.capture.memory_folder import MemoryFolder
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.job import Guard, follow, triggered
from cdcv2.spark.paths import readable, writable
from cdcv2.spark.session import tune

#: Raises an error unless a micro-batch has all of a partition from an offset on, each record once.
CheckSpan: TypeAlias = Callable[[Place, int, PartitionSpan], object]

KEPT = failpoints.declare(
    "generic.kept", "the rows of a batch are kept; nothing is released, and no memory names them"
)

_ENCODED = (
    "part int, offset long, time long, data binary, diff long, frontier long, rows long, wrong string, digest long"
)
_NOTHING = TopicExtents({})
_KINDS = [
    pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.int64(),
]  # fmt: skip
# A sum of numbers of 64 bits that does not overflow.
_SUM = "decimal(38, 0)"
_ARROW = pa.schema(list(zip([column.split()[0] for column in _ENCODED.split(", ")], _KINDS)))


class StreamCapture:
    """Writes one stream topic into a log. ``guard`` is the function of its micro-batches.

    ``state`` is a folder of this capture's own. ``single``: the topic has one partition. ``look`` has what there is of
    it, as far as that is known. ``check`` is asked of each partition of a micro-batch, of a source that may lack a
    record or have it twice; what an earlier micro-batch has read is passed over. ``turn`` is called as that of the
    guard.

    Raises what opening the log and the state raises, ForeignStateError for a topic that was made again,
    UnsafeTopicError for one that lacks what was not read. The query ends with MalformedError for a record that is none,
    SourceStop for one that contradicts a bound, and ResumeError when the log holds another history.
    """

    def __init__(
        self, source: StreamTopic, log: LogSpec, state: Path, *, single: bool = True, look: TopicExtents = _NOTHING,
        check: CheckSpan | None = None, stopping: threading.Event | None = None,
        report: CaptureReport | None = None, turn: Callable[[StreamCapture], object] = lambda capture: None,
    ) -> None:
        self.query: StreamingQuery | None = None
        self.guard = Guard(self._batch, stopping, lambda: turn(self))
        self._source, self._spec, self._state, self._single, self._check = source, log, state, single, check
        self._report = report or CaptureReport()
        memory = MemoryFolder(state / "manifest")
        plain = memory.load()
        self._remembered = StreamState(
            {log.table: source}, plain and as_now(plain, source.topic, log.table), memory.save, memory.place
        )
        kept = self._remembered.kept
        self._remembered.check(look, kept.read)
        #: The log.
        self.logs = TableLogs({log.table: log}, tails_of(kept.logs))
        #: What is open.
        self.counts = self._remembered.counts(log.table, self.logs.all()[0], self.known)
        self._last = kept.batch
        #: How many records this run has read.
        self.records = 0
        #: Of each partition, up to where it was read.
        self.read: dict[int, int] = {part: at for (_, part), at in kept.read.items()}
        self._clean()

    @property
    def known(self) -> int:
        """All times below it are stated."""
        return self.logs.known[self._spec.table]

    def start(self, frame: DataFrame, *, available_now: bool = False, interval: float | None = None) -> None:
        """Start the query over ``topic, partition, offset, value``; :meth:`wait` follows it."""
        rows = frame.select("topic", "partition", "offset", "value")
        writer = rows.writeStream.foreachBatch(self.guard).queryName(f"cdcv2 capture {self._spec.table}")
        writer = writer.option("checkpointLocation", writable(self._state / "checkpoint"))
        self.query = triggered(writer, available_now=available_now, interval=interval).start()

    def wait(self) -> None:
        """Follow the query to its end; raises what ended it."""
        if self.query is not None:
            follow(self.query, self.guard)

    # -- micro-batches

    def _batch(self, frame: DataFrame, number: int) -> None:
        session = tune(frame.sparkSession)
        query = str(session.sparkContext.getLocalProperty("sql.streaming.queryId"))
        last = self._last or BatchMemory(query=query, number=-1)
        if query != last["query"] or number > last["number"] + 1:
            raise ForeignStateError(f"the memory in {self._state} is not that of this checkpoint: {FORGET}")
        if number <= last["number"]:
            return
        folder = self._state / "rows" / f"{number:020d}-{uuid.uuid4().hex}"
        how = partial(_encode, self._source.records, self._single, self.counts.compares, dict(self.read))
        encoded = frame.mapInArrow(how, _ENCODED)
        encoded.write.parquet(writable(folder))
        failpoints.reach(KEPT)
        self._take(folder.name, session.read.schema(_ENCODED).parquet(readable(folder)))
        frontier = self.counts.complete()
        batch = BatchMemory(query=query, number=number)
        save = partial(self._save, batch)
        if frontier > self.counts.released:
            logs = FrameLogs(self.logs, self._changes(session.read.schema(_ENCODED), frontier), session)
            write_release(logs, Advance(Antichain([frontier])), save=partial(save, frontier))
        else:
            save()
        self._last = batch
        self._clean()
        waits = self.counts.waits()
        self._report.write(
            "batch", f"{self._spec.table}: frontier {self.known}; {waits or 'nothing is open'}", often=True,
            table=self._spec.table, frontier=[self.known], waits=waits,
        )

    def _take(self, folder: str, frame: DataFrame) -> None:
        """Count what a folder holds. Raises MalformedError for a record that is none, SourceStop for one that is late.

        Times are grouped. A group of updates is as late as its last one; in a topic with one partition that is exact,
        and only there a bound is about what follows.
        """
        wrong = F.min(F.when(F.col("wrong").isNotNull(), F.struct("part", "offset", "wrong"))).alias("wrong")
        ends = F.min("offset").alias("low"), F.max("offset").alias("high")
        digest = F.sum(F.col("digest").cast(_SUM)).alias("digest")
        grouped = frame.groupBy("part", "time", "frontier", "rows")
        groups = grouped.agg(F.count("*").alias("count"), *ends, wrong, digest)
        found = groups.collect()
        self.records += sum(row["count"] for row in found)
        errors = [row["wrong"] for row in found if row["wrong"] is not None]
        if errors:
            raise MalformedError(str(min(errors)["wrong"]))
        self._check_spans(found, frame)
        places = [(row["high"] if row["frontier"] is None else row["low"], row) for row in found]
        # A bound that stands there more than once must not have moved back in between.
        places += [(row["high"], row) for row in found if row["frontier"] is not None and row["low"] < row["high"]]
        promised = [(at, row) for at, row in places if row["frontier"] is not None and row["rows"] is None]
        if len(self.read) > 1 and (promised or self.counts.promised):
            at, row = min(promised or places, key=lambda one: one[0])
            record = Record(self._source.topic, row["part"], at, None, None)
            raise self._source.records.several_partitions(record)
        for offset, row in sorted(places, key=lambda one: one[0]):
            place = Position(self._source.topic, row["part"], offset)
            if row["frontier"] is None:
                self.counts.update(folder, row["time"], row["count"], place=place, digest=int(row["digest"] or 0))
                continue
            self.counts.bound(row["frontier"], row["rows"], place=place)

    def _check_spans(self, found: Iterable[Row], frame: DataFrame) -> None:
        """Whether each partition goes on where it was read to; from now on it is read up to the end of the batch."""
        spans: dict[int, PartitionSpan] = {}
        for row in found:
            low, high, records, _ = spans.get(row["part"], PartitionSpan(row["low"], row["high"], 0, 0))
            spans[row["part"]] = PartitionSpan(min(low, row["low"]), max(high, row["high"]), records + row["count"], 0)
        if self._check is not None:
            for part, offsets in sorted(frame.groupBy("part").agg(F.count_distinct("offset")).collect()):
                place = self._source.topic, part
                self._check(place, self.read.get(part, 0), spans[part]._replace(offsets=offsets))
        self.read |= {part: span.high + 1 for part, span in spans.items()}

    def _save(self, batch: BatchMemory, released: int | None = None) -> None:
        """Keep what the batch did: it is stated up to there, if anything was."""
        if released is not None:
            self.counts.release(released)
        read = {(self._source.topic, part): at for part, at in self.read.items()}
        logs = {table: tail.to_plain() for table, tail in self.logs.tails().items()}
        self._remembered.keep({self._spec.table: self.counts}, read, logs, positions={}, batch=batch)

    def _changes(self, reader: Any, frontier: int) -> ReleaseChanges:
        """What is kept below the frontier."""
        folders = self.counts.parts(frontier)
        if not folders:
            return ReleaseChanges(None, 0)
        rows = reader.parquet(*[readable(self._state / "rows" / folder) for folder in folders])
        due = rows.where((F.col("time") >= self.counts.released) & (F.col("time") < frontier))
        changes = due.groupBy("time", "data").agg(F.sum("diff").alias("diff"), F.count("*").alias("weight"))
        columns = [F.lit(0).alias("table"), "time", "data", "diff", "weight"]
        return ReleaseChanges(changes.select(*columns), self.counts.waiting(frontier))

    def _clean(self) -> None:
        """Remove the files that the memory does not name."""
        for folder in (self._state / "rows").glob("*"):
            if folder.name not in self.counts.times:
                shutil.rmtree(folder)


def as_now(plain: Mapping[str, Any], topic: str, table: str) -> Mapping[str, Any]:
    """A memory as it is kept now. What was version 2 of that of streams on Spark had other names, for one table.

    Version 1 was of a function that took data in columns, and is not read.
    """
    if "source" not in plain:
        return plain
    return {
        "version": MEMORY_VERSION if plain["version"] == 2 else f"{plain['version']} of streams",
        "capture": {table: plain["source"]},
        "counts": {table: plain["counts"]}, "positions": {}, "read": {topic: plain["read"]}, "topics": {},
        "logs": {table: plain["log"]}, "batch": {"query": plain["query"], "number": plain["batch"]},
    }


# -- columns


def _encode(
    records: StreamConnector, single: bool, compares: bool, read: Mapping[int, int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Records to numbers and canonical bytes, on the executors; ``wrong`` states why one is none.

    What stands before the offset in ``read`` was encoded before. Kafka gives no such record; a directory of dumps does,
    when a later file has it, too.
    """
    for batch in batches:
        lines = zip(*(column.to_pylist() for column in batch.columns))
        taken = [
            _encoded(records, single, Record(topic, part, at, None, value)) for topic, part, at, value in lines
            if at >= read.get(part, 0)
        ]
        encoded = [(*values, _digest(values) if compares else None) for values in taken]
        columns = zip(*encoded) if encoded else [()] * len(_ARROW)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _digest(values: tuple[Any, ...]) -> int | None:
    """That of an update, as a signed number; bounds have none."""
    _, _, time, data, diff, *_ = values
    if data is None:
        return None
    digest = update_digest(data, time, diff)
    return digest - 2**64 if digest >= 2**63 else digest


def _encoded(records: StreamConnector, single: bool, record: Record) -> tuple[Any, ...]:
    place = record.partition, record.offset
    try:
        fact = records.fact(record)
        if not isinstance(fact, BoundRecord):
            return *place, fact.time, records.row_type.encode(fact.row), fact.diff, None, None, None
        if fact.rows is None and not single:
            raise records.several_partitions(record)
        return *place, None, None, None, fact.before, fact.rows, None
    except DecodeError as error:
        return *place, None, None, None, None, None, str(error)
