"""The common part of every capture by commit times on Spark: a query over its topics, a state, and reports.

Spark's checkpoint has nothing to add to the state: each run has a fresh one, which begins at the state's positions.
"""

from __future__ import annotations

import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.memory import CaptureMemory, resumable, same_topics
from cdcv2.capture.memory_format import capture_identity, plain_memory, read_memory
from cdcv2.capture.release_answers import ASSUMED, Release, WaitReason
from cdcv2.capture.run.transaction_topic import TransactionTopic
from cdcv2.capture.run.waits import capture_waits, stated_frontier
from cdcv2.core.antichain import Antichain
from cdcv2.events import JobProgress
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.description import LogDescription
from cdcv2.logs.log_json import kept_types
from cdcv2.protocol.log import Place
from cdcv2.spark.capture.classify import snapshots
from cdcv2.spark.capture.memory_folder import MemoryFolder
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.capture.topics import SparkTopics
from cdcv2.spark.job import Guard, triggered
from cdcv2.spark.paths import nameable, writable
from cdcv2.timeline.binding import check_int


class ResnapshotSearch(Protocol):
    """Decisions that a snapshot which was not declared may explain; see
    :class:`~cdcv2.capture.commit_transactions.CommitTransactions`.
    """

    @property
    def searches_resnapshot(self) -> bool:
        """Whether such a snapshot stops it, perhaps, and its LSN is not known."""

    def snapshot_found(self, lsn: int) -> None:
        """There are rows of a snapshot with this LSN."""

    def searched(self) -> None:
        """All topics were read for such rows."""


class CaptureCounts(NamedTuple):
    """What a capture states of itself: when its last release was committed, the rows of transactions that are open,
    the next offset of each partition, and the numbers of this run.
    """

    committed_at: float | None
    held: int
    positions: Mapping[Place, int]
    counts: Mapping[str, int]


class CaptureQuery(ABC):
    """One capture: what it remembers, and its query. Made on the driver; opening its logs is left to the kinds of it.

    ``specs`` has the log of each of the recipe's tables; ``state`` is its folder (memory and checkpoint). Reads the
    memory, asks the source, and calls ``begin``, which returns what is known of the timeline and the log set of the
    logs. Raises what these raise: ForeignStateError, MissingLogError, UnsafeTopicError, UnavailableError.
    """

    def __init__(
        self, recipe: DatabaseConnector, topics: SparkTopics, specs: Mapping[str, LogSpec], state: Path,
        spark: SparkSession, report: CaptureReport | None, begin: Callable[[], LogDescription],
    ) -> None:
        nameable(spark, state)
        self.recipe, self.topics, self.state = recipe, topics, state
        self._spark = spark
        self._report = report or CaptureReport()
        self._memory, self._own_identity = MemoryFolder(state / "memory"), _identity(recipe, topics, specs)
        kept = read_memory(CaptureMemory, self._memory.load(), self._own_identity, self._memory.place)
        self._remembered = resumable(kept, recipe.resnapshots, partial(self._report.write, "declared"))
        self.start = dict(self._remembered.positions)
        # Asked before anything is written: a source that does not answer leaves nothing behind.
        self._identities = same_topics(topics.check(spark, self.start), self._remembered.topics)
        #: What is known of the timeline and the log set of the logs.
        self.stated = begin()
        self._missing: list[str] | None = None
        # What was reported of tables that are not covered.
        self._named: list[str] = []
        #: Whether the input was read to its end, and nothing more is awaited.
        self.finished = False
        self.transactions = 0

    def _keep_memory(self, memory: CaptureMemory) -> None:
        """Keep it, durably. Raises as :meth:`MemoryFolder.save` does."""
        self._memory.save(plain_memory(memory, self._own_identity))

    def _recall(self, commits: CommitTransactions) -> None:
        """Give it the ENDs of the transactions that were released last, read again from the transaction topic."""
        topic = TransactionTopic(self.topics.transactions(self._spark), self.recipe)
        start = self.start.get((self.recipe.transaction_topic, 0), 0)
        commits.recall(topic.around(start, commits.through), topic.has_end)

    def _seek(self, spark: SparkSession, seeking: ResnapshotSearch, following: Mapping[Place, int]) -> None:
        """Look for rows of the snapshot that may have stopped the capture, behind what was read of the topics."""
        ends = {place: (following.get(place, 0), end - 1) for place, end in self.topics.ends(spark).items()}
        unread = {place: (low, high) for place, (low, high) in ends.items() if low <= high}
        for lsn in snapshots(self.topics.ranges(spark, unread), self.recipe) if unread else ():
            seeking.snapshot_found(lsn)
            if not seeking.searches_resnapshot:
                return
        seeking.searched()

    # -- what a kind of it does

    @abstractmethod
    def batch(self, frame: DataFrame, number: int) -> None:
        """Take the new records, and release what is whole. Raises SourceStop once all before the stop is released."""

    @abstractmethod
    def ended(self) -> None:
        """The end of the topics is reached. Raises ForeignStateError if the logs have what the topics lack."""

    @abstractmethod
    def close(self) -> None:
        """Release the logs. States nothing."""

    @property
    @abstractmethod
    def frontier(self) -> Antichain | None:
        """Up to where all logs are complete; None before the snapshot is released, or while no table is covered."""

    @property
    @abstractmethod
    def coverage(self) -> TableCoverage:
        """The tables of which nothing is stated, as the connector does not cover them, or has not all of their rows."""

    @abstractmethod
    def waits(self) -> WaitReason:
        """Why nothing more can be released."""

    @abstractmethod
    def counted(self) -> CaptureCounts:
        """What is held, and the numbers of this run."""

    def progress(self) -> JobProgress:
        """How far it is, for its events. Not within a batch."""
        committed_at, held, positions, counts = self.counted()
        waits = capture_waits(self.waits(), self.recipe, positions)
        return JobProgress(stated_frontier(self.frontier).to_plain(), committed_at, waits, held, counts)

    # -- the query

    def query(self, guard: Guard, *, available_now: bool = False, interval: float | None = None) -> StreamingQuery:
        """Start the streaming query; ``guard`` is made of :meth:`batch`."""
        self._report_missing(self._spark)
        checkpoints = self.state / "checkpoint"
        shutil.rmtree(checkpoints, ignore_errors=True)
        writer = self.topics.stream(self._spark, self.start).writeStream.foreachBatch(guard).queryName("cdcv2 capture")
        writer = writer.option("checkpointLocation", writable(checkpoints / uuid.uuid4().hex))
        return triggered(writer, available_now=available_now, interval=interval).start()

    # -- what it reports

    def _report_start(self, specs: Mapping[str, LogSpec]) -> None:
        through = None if self.frontier is None else check_int(self.frontier.elements[0]) - 1
        where = "nothing is stated yet" if through is None else f"all through {through} is in the logs"
        memory = "the start of the topics" if self._remembered.commits is None else "its memory"
        self._report.write("start", f"{len(specs)} tables; {where}; resumes from {memory}", tables=sorted(specs),
                           through=through, remembered=self._remembered.commits is not None)
        for table, spec in sorted(specs.items()):
            self._report.write("log", f"{table} -> {spec.name}", table=table, log=spec.name)
        kept = [(Path(spec.folder), spec.row_type) for spec in specs.values() if spec.folder is not None]
        for text in kept_types(kept):
            self._report.write("kept-types", text)
        self._report_uncovered()

    def _report_release(self, release: Release, what: str, **facts: Any) -> None:
        self.transactions += len(release.transactions)
        if release.assumed:
            self._report.write("assumed", ASSUMED)
        snapshot = "" if release.snapshot is None else f"the snapshot at {release.snapshot} and "
        # With no table covered no log has a statement.
        frontier = None if self.frontier is None else release.through + 1
        stated = "nothing is stated yet" if frontier is None else f"frontier {frontier}"
        self._report.write(
            "released",
            f"{stated}: released {snapshot}{len(release.transactions)} transactions, {what}",
            often=True, frontier=frontier, snapshot=release.snapshot, transactions=len(release.transactions),
            total_transactions=self.transactions, **facts,
        )

    def _report_waiting(self, spark: SparkSession, records: int, repeats: int, rows: int, transactions: int) -> None:
        waiting = self.waits()
        self._report.write(
            "waiting",
            f"read {records} records ({repeats} repeats); {rows} rows of {transactions} open transactions; "
            f"{waiting.text}",
            often=True, records=records, repeats=repeats, rows=rows, open=transactions, waits_for=waiting.what,
            waits=waiting.text,
        )
        self._report_missing(spark)
        self._report_uncovered()

    def _report_uncovered(self) -> None:
        """Name the tables that are not covered: at the start, and when these are others."""
        texts = self.coverage.texts()
        if texts != self._named:
            for text in texts:
                self._report.write("not-covered", text, tables=self.coverage.uncovered)
        self._named = texts

    def _report_missing(self, spark: SparkSession) -> None:
        if self._missing == []:
            return
        missing = self.topics.missing(spark)
        if missing and missing != self._missing:
            self._report.write("missing", f"waits for the topics {', '.join(missing)}, which do not exist yet (the "
                               "connector makes one at the first row of its table)", topics=missing)
        self._missing = missing


def _identity(recipe: DatabaseConnector, topics: SparkTopics, specs: Mapping[str, LogSpec]) -> dict[str, Any]:
    """By what the memory is known to be of this capture: its identity, and where it reads and writes.

    Each table has entries of its own, so that an error names the one that differs.
    """
    own = capture_identity(recipe)
    rows = own.pop("tables")
    return {
        **own, "source": topics.binding(),
        "transaction topic": recipe.transaction_topic, "snapshot": recipe.snapshot,
        **{f"row type of {table}": rows[table] for table in rows},
        **{f"log of {table}": specs[table].name for table in rows},
    }
