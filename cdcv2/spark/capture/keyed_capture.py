"""Capture by commit times, on Spark, whose old rows are looked up: executors read and parse, the driver looks up.

What an update of such a table does depends on every change before it, and a TRUNCATE on all rows. So transactions go
through one place, in the order of their commits, as they do without Spark: this *is* the capture without it,
:class:`cdcv2.capture.run.commit_times.Capture`, with its state, its writers and its steps. Only its records come
parsed, from the executors, and its memory is the one that captures on Spark have. So one that takes whole old rows and
one that looks them up may take turns, with one ``state`` and the same logs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, Union

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdcv2 import failpoints
from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.capture.facts import Fact, Record
from cdcv2.capture.memory import CaptureMemory, LogTail, tails_of
from cdcv2.capture.memory_format import capture_identity, plain_memory, read_memory
from cdcv2.capture.release_answers import WaitReason
from cdcv2.capture.run import commit_times as capture
from cdcv2.capture.run.commit_times import ReleaseReport
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError, SourceStop, UsageError
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.description import LogDescription
from cdcv2.logs.timeline_of_logs import describe_log_set
from cdcv2.logs.release_times import ReleaseTimes
from cdcv2.protocol.log import Log, Place, Position, Positions
from cdcv2.spark.capture.batch_facts import PartitionSpan
from cdcv2.spark.capture.classify import RECORD_COLUMNS, unpickled
from cdcv2.spark.capture.spark_capture import BEGUN, COUNTED
from cdcv2.spark.capture.query import CaptureCounts, CaptureQuery
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec, marked, opened, recognized
from cdcv2.spark.capture.topics import SparkTopics
from cdcv2.spark.session import tune

#: The fact of a record, or the error for a malformed one; with its offset.
OffsetFact: TypeAlias = tuple[int, Union[Fact, DecodeError]]
_FACTS = "topic string, partition int, facts binary"
_FACTS_ARROW = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("facts", pa.binary())])


class KeyedCapture(CaptureQuery):
    """One capture whose before-images come from the state; see :class:`~cdcv2.spark.capture.query.CaptureQuery`.

    Opening also reads the logs from their start, and raises what these raise, LogFinishedError among it; RefusedError
    if the rows of a log are no table; UsageError for a recipe with before-images in the records. Memory, on the driver:
    every row of the tables, what is open, and the facts of the records of a micro-batch.
    """

    def __init__(
        self, recipe: DatabaseConnector, topics: SparkTopics, specs: Mapping[str, LogSpec], state: Path,
        spark: SparkSession, report: CaptureReport | None = None,
        begin: Callable[[], LogDescription] = LogDescription, times: ReleaseTimes | None = None,
    ) -> None:
        if recipe.before != FROM_STATE:
            raise UsageError(f"this capture takes before-images {FROM_STATE}; with {recipe.before} it is a Capture")
        super().__init__(recipe, topics, specs, state, spark, report, begin)
        tails = tails_of(self._remembered.logs)
        with ExitStack() as failing:
            logs = opened(specs, tails)
            for log in logs.values():
                failing.callback(log.close)
            describe_log_set(logs, self.stated)
            memory = _StateAdapter(
                self._keep_memory, self._remembered, recipe, specs, logs, lambda: self._capture.log_frontiers()
            )
            self._capture = capture.Capture(recipe, logs, memory=memory, on_release=self._report_captured, times=times)
            failing.pop_all()
        self._capture.will_seek()
        self._capture.reads(self._identities)
        self._capture.recall(topics.transactions(spark))
        self._report_start(specs)

    @property
    def frontier(self) -> Antichain | None:
        """Up to where all logs are complete; None before the snapshot is released, or while no table is covered."""
        return self._capture.frontier

    def waits(self) -> WaitReason:
        """Why nothing more can be released."""
        return self._capture.waits()

    @property
    def coverage(self) -> TableCoverage:
        """The tables of which nothing is stated, as the connector does not cover them, or has not all of their rows."""
        return self._capture.coverage

    def counted(self) -> CaptureCounts:
        """As the capture without Spark has it."""
        made, of = self._capture, self._capture.counters
        counts = {"records": of.records, "rows": of.rows, "transactions": of.transactions}
        return CaptureCounts(made.committed_at, made.held_rows, made.next_positions(), counts)

    def batch(self, frame: DataFrame, number: int) -> None:
        """Take the new records, and release what is whole.

        Raises SourceStop, and DecodeError for a record that is none, once all before is released.
        """
        spark = tune(frame.sparkSession)
        failpoints.reach(BEGUN)
        wrong = self._absorb(_facts(frame, self.recipe, self._capture.next_positions()))
        if self._capture.needs_ends:
            self._capture.ends_read(self.topics.ends(spark))
        failpoints.reach(COUNTED)
        try:
            while self._capture.release() is not None:
                pass
        except SourceStop:
            self._waiting(spark)
            if not self._capture.searches_resnapshot:
                raise
            self._seek(spark, self._capture, self._capture.next_positions())
            # If the stop lasts, and whether these are the topics of the logs is not known yet, they are read on.
            self._capture.release()
        else:
            self._waiting(spark)
        if wrong is not None:
            raise wrong

    def ended(self) -> None:
        """The end of the topics is reached. Raises ForeignStateError if the logs have what the topics lack."""
        self._capture.ended()
        # A permanent stop is raised only when the topics are known to be those of the logs.
        self._capture.release()

    def close(self) -> None:
        """Release the logs. States nothing."""
        self._capture.close()

    def _absorb(self, facts: Mapping[Place, list[OffsetFact]]) -> DecodeError | None:
        """Take the facts of each partition in order; returns the error of the first malformed record.

        From such a record on, nothing of its partition is taken: it must be read again, and judged again.
        """
        seen = {
            place: PartitionSpan(found[0][0], found[-1][0], len(found), len({offset for offset, _ in found}))
            for place, found in facts.items()
        }
        self.topics.is_complete(self._capture.next_positions(), seen)
        wrong: list[DecodeError] = []
        for place, found in sorted(facts.items()):
            for offset, fact in found:
                if isinstance(fact, DecodeError):
                    wrong.append(fact)
                    break
                self._capture.absorb_fact(fact, Position(*place, offset))
        return min(wrong, key=lambda one: str(one.position), default=None)

    def _report_captured(self, captured: ReleaseReport) -> None:
        self._report_release(captured.release, f"{captured.counters.transactions} in this run")

    def _waiting(self, spark: SparkSession) -> None:
        counted = self._capture.counters
        self._report_waiting(
            spark, counted.records, counted.repeats, self._capture.held_rows, self._capture.open_transactions
        )


class _StateAdapter:
    """The memory of captures on Spark, as the capture without it asks for one.

    What it keeps of the logs are tails: that reads them from their start in any case.
    """

    def __init__(
        self, keep: Callable[[CaptureMemory], None], remembered: CaptureMemory, recipe: DatabaseConnector,
        specs: Mapping[str, LogSpec], logs: Mapping[str, Log], knowns: Callable[[], Mapping[str, int]],
    ) -> None:
        self._keep, self._remembered, self._recipe = keep, remembered, recipe
        self._specs, self._logs, self._knowns = specs, logs, knowns
        self._marks = recognized(specs, logs, tails_of(remembered.logs))

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last, without what only a reader of the logs' tails needs."""
        if self._remembered.commits is None:
            return None
        return plain_memory(replace(self._remembered, logs={}), capture_identity(self._recipe))

    def save(self, plain: Mapping[str, Any]) -> None:
        """Keep it. Raises as :meth:`MemoryFolder.save` does."""
        memory = read_memory(CaptureMemory, plain, capture_identity(self._recipe))
        tails = {table: tail.to_plain() for table, tail in self._tails(memory.logs).items()}
        self._keep(replace(memory, logs=tails))

    def _tails(self, written: Mapping[str, Any]) -> dict[str, LogTail]:
        # Asked before the logs' ends: what is stated up to there may be more than is known of, and never less.
        knowns = self._knowns()
        ends = {table: self._read_to(table, written[table]) for table in knowns}
        self._marks |= marked([self._specs[table] for table in knowns], ends, self._marks)
        return {table: LogTail(known, ends[table], self._marks[table]) for table, known in knowns.items()}

    def _read_to(self, table: str, written: Mapping[str, Any] | None) -> Positions:
        """Behind what was read of the log: a topic may have a stop of another capture behind that."""
        if self._specs[table].topic is None:
            return self._logs[table].ends()
        return {} if written is None else {int(part): offset for part, offset in written["positions"].items()}


def _facts(records: DataFrame, recipe: DatabaseConnector, start: Mapping[Place, int]) -> dict[Place, list[OffsetFact]]:
    """The facts of the records from ``start`` on, by partition, in order: read and classified by the executors."""
    function = partial(_classify, pickle.dumps(recipe), dict(start))
    facts: dict[Place, list[OffsetFact]] = {}
    found = records.select(*RECORD_COLUMNS).mapInArrow(function, _FACTS).toArrow()
    for topic, part, raw in zip(*(column.to_pylist() for column in found.columns)):
        facts.setdefault((topic, part), []).extend(pickle.loads(raw))
    for ones in facts.values():
        ones.sort(key=_offset)
    return facts


def _offset(fact: OffsetFact) -> int:
    return fact[0]


# -- on the executors

def _classify(
    how: bytes, start: Mapping[Place, int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    recipe = unpickled(how)
    for batch in batches:
        facts: dict[Place, list[OffsetFact]] = {}
        columns = [batch.column(name).to_pylist() for name in RECORD_COLUMNS]
        for record in map(Record._make, zip(*columns)):
            place = record.topic, record.partition
            if record.offset >= start.get(place, 0):
                facts.setdefault(place, []).append((record.offset, _reported(record, recipe)))
        rows = [(*place, pickle.dumps(ones)) for place, ones in facts.items()]
        arrays = [pa.array(list(column), field.type) for column, field in zip(zip(*rows), _FACTS_ARROW)]
        if arrays:
            yield pa.RecordBatch.from_arrays(arrays, schema=_FACTS_ARROW)


def _reported(record: Record, recipe: DatabaseConnector) -> Fact | DecodeError:
    try:
        return recipe.fact(record)
    except DecodeError as error:
        return error
