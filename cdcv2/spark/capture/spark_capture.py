"""Capture on Spark: the topics of one source become one log per table, with explicit commit times.

A micro-batch is a trigger and a share of new records, nothing else. Of each:

1. The executors classify the records (one pass; the rows stay cached there) and send numbers to the driver.
2. The driver counts, and asks the engine which transactions are whole.
3. The rows of those are taken from the cache. Rows of earlier batches are read again from the topics by range. All are
   consolidated, and written by the executors.
4. The driver states them, table by table, and saves from where the topics must be read again, in the order of
   :mod:`cdcv2.capture.updates_then_statements`.

After a crash anywhere, a restart is enough: what is in the logs is found there, and the rest is written. So Spark's
checkpoint has nothing to add to the state; each run has a fresh one, which begins at the positions of the state. A
crash may leave some logs ahead of others. That does no harm: readers of the timeline, and the next run, see their meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cdcv2 import failpoints
from cdcv2.capture.connector import FROM_ENVELOPE, DatabaseConnector
from cdcv2.capture.engine import CaptureEngine
from cdcv2.capture.memory import CaptureMemory, tails_of
from cdcv2.capture.release_answers import Release, WaitReason
from cdcv2.capture.row_identity import RowIdentity, contradiction_of
from cdcv2.capture.run.commit_times import coverage_of
from cdcv2.capture.run.source_check import OldConnector, raise_stop
from cdcv2.capture.updates_then_statements import write_release
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.description import LogDescription
from cdcv2.logs.timeline_of_logs import describe_log_set
from cdcv2.logs.release_times import Clock, ReleaseTimes
from cdcv2.spark.capture.batch_facts import Screen, merged, ranges
from cdcv2.spark.capture.classify import FACTS, ROW, SNAPSHOT, classified
from cdcv2.spark.capture.release_frames import FrameLogs, ReleaseChanges
from cdcv2.spark.capture.logs import TableLogs, consolidated
from cdcv2.spark.capture.query import CaptureCounts, CaptureQuery
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.rows_store import CountedRows, ReadPlan
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.capture.tally import Tally
from cdcv2.spark.capture.topics import SparkTopics
from cdcv2.spark.session import tune

BEGUN = failpoints.declare("spark-capture.begun", "a micro-batch has come; nothing of it is counted")
COUNTED = failpoints.declare("spark-capture.counted", "a micro-batch is counted; nothing is written")


class SparkCapture(CaptureQuery):
    """One capture whose records have whole old rows: what it knows, and the function of its micro-batches.

    See :class:`~cdcv2.spark.capture.query.CaptureQuery`. Opening also reads the logs' tails, and raises what these
    raise, LogFinishedError among it; UsageError for a recipe with old rows from the state.
    """

    def __init__(
        self, recipe: DatabaseConnector, topics: SparkTopics, specs: Mapping[str, LogSpec], state: Path,
        spark: SparkSession, report: CaptureReport | None = None,
        begin: Callable[[], LogDescription] = LogDescription, times: ReleaseTimes | None = None,
    ) -> None:
        if recipe.before != FROM_ENVELOPE:
            raise UsageError(
                f"this capture takes before-images {FROM_ENVELOPE}; with {recipe.before} it is a KeyedCapture"
            )
        super().__init__(recipe, topics, specs, state, spark, report, begin)
        self.logs = TableLogs(specs, tails_of(self._remembered.logs))
        self._counted = CountedRows(self.logs.tables)
        self._clock = Clock(times, self.logs.all())
        self.engine = CaptureEngine.opened(
            recipe, self._remembered.commits, self.logs.stated(), self._counted, self._clock,
        )
        self.commits = self.engine.commits
        self.commits.seeks = True
        self.logs.described(describe_log_set({log.name: log for log in self.logs.all()}, self.stated))
        self._recall(self.commits)
        self._tally = Tally(self.engine, self._counted, recipe, self.start)
        self._old = OldConnector(recipe.renumbering)
        self.updates = 0
        self._report_start(specs)

    @property
    def frontier(self) -> Antichain | None:
        """Up to where all logs are complete; None before the snapshot is released, or while no table is covered."""
        return self.engine.frontier

    @property
    def coverage(self) -> TableCoverage:
        """The tables of which nothing is stated, as the connector does not cover them, or has not all of their rows."""
        return coverage_of(self.commits)

    def waits(self) -> WaitReason:
        """Why nothing more can be released."""
        return self.commits.waits()

    def counted(self) -> CaptureCounts:
        """The rows are those that were counted, and are in the topics."""
        counts = {"records": self._tally.records, "updates": self.updates, "transactions": self.transactions}
        return CaptureCounts(self._clock.committed_at, self._counted.waiting, self._tally.counted, counts)

    # -- micro-batches

    def batch(self, frame: DataFrame, number: int) -> None:
        """Count the new records, and release what is whole. Raises SourceStop once all before the stop is released."""
        spark = tune(frame.sparkSession)
        failpoints.reach(BEGUN)
        screen = self._tally.screen()
        records = classified(frame, self.recipe, screen).persist()
        try:
            self._count(records, spark)
            self._release_all(records, screen, spark)
            if self.commits.searches_resnapshot:
                self._seek(spark, self.commits, self._tally.counted)
                self._release_all(records, screen, spark)
        finally:
            records.unpersist()
        self._report_waiting(
            spark, self._tally.records, self._tally.repeats, self._counted.waiting, self.commits.open_transactions()
        )
        if self.logs.stop is not None:
            self.commits.keep(*self.logs.stop)
        self._raise_stop()

    def ended(self) -> None:
        """The end of the topics is reached. Raises ForeignStateError if the logs have what the topics lack."""
        self.engine.ended()
        self._raise_stop()

    def _raise_stop(self) -> None:
        """Raise what stops it, if anything does: a stop before a record that is none, as that may be mended."""
        raise_stop(self.engine, self.logs.all(), self._save)
        error = self._tally.error()
        if error is not None:
            raise error

    def _count(self, records: DataFrame, spark: SparkSession) -> None:
        parts = records.where(F.col("kind") == FACTS).select("facts").toArrow().column("facts").to_pylist()
        facts = merged(parts)
        self.topics.is_complete(self._tally.counted, ranges(facts))
        self._old.seen(facts["old"])
        self._tally.absorb(facts)
        if self.commits.needs_ends:
            self.engine.ends_read(self.topics.ends(spark), self._tally.counted)
        failpoints.reach(COUNTED)

    def _release_all(self, records: DataFrame, screen: Screen, spark: SparkSession) -> None:
        while (release := self.engine.ready()) is not None:
            self._release(release, records, screen, spark)
        self._compare_waiting(records, screen, spark)

    def _compare_waiting(self, records: DataFrame, screen: Screen, spark: SparkSession) -> None:
        """Compare the rows of the transaction that is waited for, if some share a number: it may wait for no row."""
        waits = self.commits.waits()
        if waits.what != "rows" or waits.tx is None or waits.lsn is None:
            return
        reading = self._counted.uncompared(waits.tx, waits.lsn)
        if reading is not None and not self._disputed(self._rows(reading, records, screen, spark)):
            self._counted.compared(waits.tx)

    def _release(self, release: Release, records: DataFrame, screen: Screen, spark: SparkSession) -> None:
        reading = self._counted.reading(release)
        rows = self._rows(reading, records, screen, spark)
        if reading.repeats:
            # Rows of the snapshot have no number: those that are equal are several, and none of them comes twice.
            numbered = F.col("number").isNotNull()
            once = rows.where(numbered).dropDuplicates(["table", "time", "tx", "number", "order", "minus", "plus"])
            if self._disputed(once):
                return
            rows = once.unionByName(rows.where(~numbered))
        if reading.left:
            rows = rows.where(~F.col("table").isin(*reading.left))
        changes = ReleaseChanges(consolidated(rows) if reading.rows() else None, reading.rows(), reading.expected)
        logs = FrameLogs(self.logs, changes, spark)
        write_release(
            logs, release.advance, keep=lambda: self.engine.keep_time(release),
            save=lambda: self._settle(release),
        )
        updates = sum(done.identities for done in logs.written.values())
        self.updates += updates
        self._report_release(
            release, f"{updates} updates ({self.transactions + len(release.transactions)} and {self.updates} in this "
            "run)", updates=updates, total_updates=self.updates,
        )

    def _settle(self, release: Release) -> None:
        """All logs are stated: forget what is released, and save how far that is."""
        self.engine.settle(release)
        self._save()

    def _save(self) -> None:
        if not self.engine.sure:
            # A run with a saved state no longer checks whether the topics are those of the logs.
            return
        tails = {table: tail.to_plain() for table, tail in self.logs.tails().items()}
        self._keep_memory(CaptureMemory(self.commits.export(), self._tally.positions(), self._identities, tails))

    def _rows(self, reading: ReadPlan, records: DataFrame, screen: Screen, spark: SparkSession) -> DataFrame:
        """The records of a release: ``table, time, tx, number, order, minus, plus``."""
        frames = []
        earlier = {
            place: (low, min(high, screen.start[place] - 1))
            for place, (low, high) in reading.ranges.items() if low < screen.start.get(place, 0)
        }
        if any(high >= screen.start.get(place, 0) for place, (_, high) in reading.ranges.items()) or not earlier:
            frames.append(records)
        if earlier:
            again = Screen({}, screen.through, screen.base)
            frames.append(classified(self.topics.ranges(spark, earlier), self.recipe, again, counted=False))
        rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        columns = ["table", "time", "tx", "number", "order", "minus", "plus"]
        times = spark.createDataFrame(_times(reading.times))
        changed = rows.where(F.col("kind") == ROW).join(F.broadcast(times), "tx").select(*columns)
        if reading.snapshot is None:
            return changed
        scanned = rows.where((F.col("kind") == SNAPSHOT) & (F.col("tx") == reading.snapshot))
        return changed.unionByName(scanned.withColumn("time", F.col("tx")).select(*columns))

    def _disputed(self, rows: DataFrame) -> bool:
        """Whether two rows of a transaction contradict each other: then it and what follows is not released."""
        pairs = _apart(rows, "table", "number").unionByName(_apart(rows, "order")).collect()
        found = [
            (pair["tx"], contradiction_of(pair["tx"], self._identity(pair["one"]), self._identity(pair["other"])))
            for pair in pairs
        ]
        disputed = sorted((tx, one) for tx, one in found if one is not None)
        for tx, contradiction in disputed:
            self.commits.halt(tx, contradiction.reason, contradiction.remedy)
        return bool(disputed)

    def _identity(self, row: Row) -> RowIdentity:
        return RowIdentity(self.logs.tables[row["table"]], row["order"], row["number"], (row["minus"], row["plus"]))

    def close(self) -> None:
        """Release the logs. States nothing."""
        self.logs.close()


def _apart(rows: DataFrame, *shared: str) -> DataFrame:
    """Of each transaction two rows that share these columns, and differ in others: ``tx, one, other``; or none."""
    row = F.struct("table", "order", "number", "minus", "plus")
    pairs = rows.groupBy("tx", *shared).agg(F.min(row).alias("one"), F.max(row).alias("other"))
    differ = pairs.where(F.col("one") != F.col("other"))
    first = differ.groupBy("tx").agg(F.min(F.struct("one", "other")).alias("pair"))
    return first.select("tx", "pair.one", "pair.other")


def _times(times: Mapping[int, int]) -> pa.Table:
    return pa.table({"tx": pa.array(times.keys(), pa.int64()), "time": pa.array(times.values(), pa.int64())})
