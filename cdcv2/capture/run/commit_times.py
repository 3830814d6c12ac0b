"""Capture without Spark: the records of one source become one log per table, with explicit commit times.

The time of a row is the LSN at which its transaction was committed. A release makes all transactions up to some END
durable in all logs, and states every table, with rows in it or not, up to END + 1: in the order of
:mod:`cdcv2.capture.updates_then_statements`. Readers of the timeline see only the meet of the logs. With the memory
lost, the topics are read from their start: it costs time, never facts.

The file is long as it is one order: each method has a part in bringing facts, logs and memory from one release to the
next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace

from cdcv2.capture.before_images import Contents
from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.capture.coverage import had_rows
from cdcv2.capture.engine import CaptureEngine
from cdcv2.capture.facts import (
    Begin, End, Fact, IgnoredRecord, Notification, PartialChangeFact, Record, RowFact, SnapshotRow, Truncate, UnfitRow,
    is_renumbered,
)
from cdcv2.capture.memory import CaptureMemory, resumable, same_topics
from cdcv2.capture.memory_format import capture_identity, plain_memory, read_memory
from cdcv2.capture.open_rows import OpenRows
from cdcv2.capture.release_answers import ASSUMED, Release, WaitReason
from cdcv2.capture.row_buffers import MemoryBuffers
from cdcv2.capture.run.source_check import OldConnector, raise_stop
from cdcv2.capture.run.memory_file import MemoryStore
from cdcv2.capture.run.spilled_rows import MEMORY_ROWS, SpillingBuffers
from cdcv2.capture.run.table_writers import CoveredTableLogs, TableWriters
from cdcv2.capture.run.transaction_topic import TransactionTopic
from cdcv2.capture.topics import Ranges
from cdcv2.capture.transaction_contradictions import Contradiction, two_snapshot_rows
from cdcv2.capture.updates_then_statements import write_release
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError, RefusedError, UsageError
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.release_times import Clock, ReleaseTimes
from cdcv2.protocol.log import Log, Place, Position
from cdcv2.protocol.messages import Update
from cdcv2.protocol.sums import Sums

LOGGER = logging.getLogger(__name__)


@dataclass
class Counters:
    """What a capture has seen and done in its life, for people."""

    records: int = 0
    rows: int = 0
    repeats: int = 0
    transactions: int = 0
    releases: int = 0


@dataclass(frozen=True)
class ReleaseReport:
    """The report after each release: the release, why no more could be released, and the state as numbers."""

    release: Release
    waiting: WaitReason
    held_rows: int
    open_transactions: int
    counters: Counters


class Capture:
    """Turns records into logs. One thread.

    ``logs`` has one log for each table of the recipe; ``memory`` is where positions are kept (None: nowhere, each
    start reads the topics from their start). ``on_release`` takes a report after each release. ``times`` is where
    the clock of releases is kept, of logs that are in one directory; otherwise each log keeps it. ``memory_rows`` is
    how many rows are in memory at most; when there are more, they are in a temporary file.

    Feed it with :meth:`absorb`; call :meth:`release` now and then: it writes. Raises what opening the logs raises,
    UsageError for logs of other tables, ForeignStateError for the memory of another capture. An error while writing
    ends this object: open another.

    Memory: the rows of open transactions, or of the snapshot until it is whole, up to ``memory_rows``. With
    before-images from the state there is no such limit: these, and every row of the tables, and each start reads the
    logs from their start.
    """

    def __init__(
        self,
        recipe: DatabaseConnector,
        logs: Mapping[str, Log],
        *,
        memory: MemoryStore | None = None,
        on_release: Callable[[ReleaseReport], None] | None = None,
        times: ReleaseTimes | None = None,
        updates_per_message: int = 1000,
        memory_rows: int = MEMORY_ROWS,
    ) -> None:
        if logs.keys() != recipe.tables.keys():
            raise UsageError(f"the logs are of {sorted(logs)}, the tables are {sorted(recipe.tables)}")
        self._recipe, self._memory, self._on_release = recipe, memory, on_release
        remembered = self._restored()
        # Without a state, the log must be read from its start to find what it holds of the snapshot.
        released = remembered.commits is not None and remembered.commits["snapshot"]["released"]
        self._writers = TableWriters(logs, remembered.logs if released else {}, updates_per_message)
        looked_up = recipe.before == FROM_STATE
        self._held = OpenRows(MemoryBuffers() if looked_up else SpillingBuffers(recipe.tables, memory_rows))
        self._clock = Clock(times, logs.values())
        self._engine = CaptureEngine.opened(
            recipe, remembered.commits, self._writers.stated(), self._held, self._clock,
            looked_up=looked_up,
        )
        self._commits = self._engine.commits
        self._next: dict[Place, int] = dict(remembered.positions)
        self._topics: dict[str, str] = dict(remembered.topics)
        self._contents: Contents | None = None
        if looked_up:
            known, starts = min(self.log_frontiers().values(), default=0), self._writers.log_starts
            held = dict.fromkeys(starts.uncovered, 0) | dict.fromkeys(self.log_frontiers(), known)
            self._contents = Contents.of(recipe.tables, logs, held, recipe.resnapshots, starts.begin, recipe.words)
        # The last `sequence[0]` of each partition: rows of earlier transactions are behind it, if nothing was re-sent.
        self._reached: dict[Place, int] = {}
        # The fact that stops it, if it belongs to no open transaction: the next run must read it again.
        self._stopping: dict[Place, int] = {}
        # Whether a notification was read; and how many were read of which other connectors.
        self._notified = False
        self._strangers: dict[str, int] = {}
        self._failed = False
        self._old = OldConnector(recipe.renumbering)
        self.counters = Counters()

    def _restored(self) -> CaptureMemory:
        plain = self._memory.load() if self._memory is not None else None
        memory = read_memory(CaptureMemory, plain, capture_identity(self._recipe))
        return resumable(memory, self._recipe.resnapshots, LOGGER.info)

    def reads(self, topics: Mapping[str, str]) -> None:
        """Take the identities of topics, which a recreated topic would not have; the state keeps them.

        Raises ForeignStateError if a topic was recreated since it was captured.
        """
        self._topics = same_topics(topics, self._topics)

    def recall(self, ranges: Ranges) -> None:
        """Read again, from the transaction topic, what was released last: it shows what is a duplicate.

        Call it once, before the first record. Raises what the topic raises.
        """
        start = self._next.get((self._recipe.transaction_topic, 0), 0)
        topic = TransactionTopic(ranges, self._recipe)
        self._commits.recall(topic.around(start, self._commits.through), topic.has_end)

    # -- what it knows

    @property
    def transaction_topic(self) -> str:
        """The name of the topic that has the ENDs."""
        return self._recipe.transaction_topic

    @property
    def frontier(self) -> Antichain | None:
        """Up to where all logs are complete; None before the snapshot is released, or while no table is covered."""
        return self._engine.frontier

    @property
    def committed_at(self) -> float | None:
        """When the last release was committed, by the source's clock, in seconds since 1970; None: not known."""
        return self._clock.committed_at

    def waits(self) -> WaitReason:
        """Why nothing more can be released."""
        waiting = self._commits.waits()
        if waiting.what != "snapshot" or not self._strangers or self._notified:
            return waiting
        # The notification topic exists, and has only notifications of other connectors.
        number, others = sum(self._strangers.values()), ", ".join(sorted(self._strangers))
        return replace(waiting, text=(
            f"{waiting.text}: in the topic {self._recipe.notification_topic} are {number} notifications of {others}, "
            f"and none of a snapshot of {self._recipe.prefix}"
        ))

    def log_frontiers(self) -> dict[str, int]:
        """For each table that the connector covers, up to where its log is stated."""
        return self._writers.log_frontiers()

    @property
    def coverage(self) -> TableCoverage:
        """The tables of which nothing is stated, as the connector does not cover them, or has not all of their rows."""
        return coverage_of(self._commits)

    @property
    def open_transactions(self) -> int:
        """How many transactions have been seen in part, or wholly but behind one that is not whole."""
        return self._commits.open_transactions()

    def positions(self) -> dict[Place, int]:
        """For each partition that the capture reads, from where it must be read again: all before it is released."""
        return self._engine.positions(self._next, self._stopping)

    def next_positions(self) -> dict[Place, int]:
        """For each partition seen, the offset behind the last record absorbed (or remembered)."""
        return dict(self._next)

    @property
    def held_rows(self) -> int:
        """How many rows are held, in memory or in the temporary file."""
        return self._held.rows

    def is_ahead(self, place: Place) -> bool:
        """Whether the partition has been read past everything that the next transaction to be released can need.

        A hint, for readers that must save memory; a connector that sent rows again may have put some behind.
        """
        waiting = self._commits.waits()
        if self._recipe.table(place[0]) is None:
            return False
        return waiting.what == "end" or (waiting.lsn is not None and self._reached.get(place, -1) >= waiting.lsn)

    # -- facts

    def absorb(self, record: Record) -> None:
        """Take one record; the records of a partition come in order. Writes nothing. Raises DecodeError."""
        self.absorb_fact(self._recipe.fact(record), record.position)

    def absorb_fact(self, fact: Fact, position: Position) -> None:
        """The same for a record that has been classified already."""
        place = position.place, position.part
        self.counters.records += 1
        self._next[place] = position.offset + 1
        self._old.seen(is_renumbered(fact))
        if isinstance(fact, (RowFact, PartialChangeFact)):
            self._row(fact, place)
        elif isinstance(fact, Begin):
            self._commits.begin(fact.tx)
        elif isinstance(fact, End):
            self._engine.end(fact.tx, fact.lsn, fact.counts, fact.ts_ms, place, position.offset)
        elif isinstance(fact, SnapshotRow):
            self._snapshot_row(fact, place)
        elif isinstance(fact, Notification):
            self._notified = True
            self._engine.notification(fact.kind, fact.table, fact.rows, place, fact.offset, fact.status)
        elif isinstance(fact, (Truncate, UnfitRow)):
            lsn = fact.lsn if isinstance(fact, UnfitRow) else None
            self._engine.halt(
                fact.table, fact.tx, lsn, fact.seq, fact.table_order, place, fact.position.offset, fact.reason,
                fact.remedy,
            )
        elif isinstance(fact, IgnoredRecord) and fact.of is not None:
            self._strangers[fact.of] = self._strangers.get(fact.of, 0) + 1
            if not self._commits.snapshots.released:
                # The next start is to know of it, too.
                self._held.snapshot_record_seen(place, position.offset)
        self._engine.read_to({place: position.offset + 1})
        if self._commits.stopping and not self._stopping:
            self._stopping[place] = position.offset

    def reached(self, place: Place, following: int) -> None:
        """The partition has been read up to the offset ``following``, which may be behind its last record."""
        self._next[place] = max(following, self._next.get(place, 0))
        self._engine.read_to({place: self._next[place]})

    def ended(self) -> None:
        """The end of the topics is reached. Raises ForeignStateError if the logs have what the topics lack."""
        self._engine.ended()

    def _row(self, fact: RowFact | PartialChangeFact, place: Place) -> None:
        if fact.seq is not None:
            self._reached[place] = fact.seq
        op = fact.change.op if isinstance(fact, PartialChangeFact) else fact.op
        if not self._engine.rows(
            fact.table, fact.tx, fact.seq, place, fact.table_order, lambda: self._keep(fact),
            renumbered=fact.renumbered,
            had=had_rows(op, fact.table_order),
        ):
            self.counters.repeats += 1

    def _keep(self, fact: RowFact | PartialChangeFact) -> tuple[int, int, int] | Contradiction | None:
        new = self._held.admit(fact)
        if isinstance(new, Contradiction):
            return new
        if not new:
            self.counters.repeats += 1
            return None
        self.counters.rows += 1
        return self._held.counted(fact.tx, fact.table)

    def _snapshot_row(self, fact: SnapshotRow, place: Place) -> None:
        if not self._engine.snapshot_rows(
            fact.table, fact.lsn, place, fact.position.offset, lambda again: self._keep_of_snapshot(fact, again)
        ):
            self.counters.repeats += 1
        elif fact.lsn not in self._commits.snapshots.declared:
            self._commits.snapshot_marked(fact.marker, fact.position)

    def _keep_of_snapshot(self, fact: SnapshotRow, again: int | None) -> int | Contradiction:
        number = self._held.admit_snapshot(fact, again)
        if number is None:
            return two_snapshot_rows(fact.position)
        self.counters.rows += 1
        return number

    def will_seek(self) -> None:
        """The caller promises to read the topics to their ends if :attr:`searches_resnapshot`, before a stop.

        Without this call, a stop that an undeclared snapshot may explain is permanent at once.
        """
        self._commits.seeks = True

    @property
    def searches_resnapshot(self) -> bool:
        """Whether an undeclared snapshot may be the cause of a stop, and no row has shown its LSN."""
        return self._commits.searches_resnapshot

    def look(self, record: Record) -> None:
        """Look whether the record, behind a stop, is a row of a snapshot. Takes nothing of it.

        One that is no record is none; it is judged when it is taken.
        """
        try:
            fact = self._recipe.fact(record)
        except DecodeError:
            return
        if isinstance(fact, SnapshotRow):
            self.snapshot_found(fact.lsn)

    def snapshot_found(self, lsn: int) -> None:
        """Behind a stop there are rows of a snapshot with this LSN."""
        self._commits.snapshot_found(lsn)

    def searched(self) -> None:
        """All topics were looked through for such a row, and there was none."""
        self._commits.searched()

    @property
    def needs_ends(self) -> bool:
        """Whether the end positions of the topics should be read now, and given to :meth:`ends_read`."""
        return self._commits.needs_ends

    def ends_read(self, ends: Mapping[Place, int]) -> None:
        """Where the partitions of the topics end now, after :attr:`needs_ends` became true."""
        self._engine.ends_read(ends, self._next)

    # -- releases

    def release(self) -> Release | None:
        """Write all that is whole: updates, statements, memory. Returns what was released, or None.

        Raises RefusedError if an earlier call failed while it was writing, and SourceStop once everything before the
        stop is written. A stop that lasts is for good when it is known that the topics are those of the logs, at their
        ends at the latest.
        """
        if self._failed:
            raise RefusedError("this capture failed while it was writing: open it again, it resumes from its logs")
        release = self._engine.ready()
        if release is not None and self._contents is not None:
            release = self._contents.follow_release(release, self._held, self._commits)
        if release is not None:
            self._failed = True
            self._write(release)
            self._failed = False
        raise_stop(self._engine, self._writers.logs.values(), self.save)
        # A resnapshot may have held back transactions that are whole as well.
        return release if release is None or release.again is None else self.release() or release

    def _write(self, release: Release) -> None:
        # Added up before anything is written: a disk that is full leaves the logs as they are.
        spilled = {table: self._sums(table, release) for table in self._recipe.tables}
        logs = CoveredTableLogs(
            self._writers, lambda table: self._updates(table, release, spilled[table]),
            {table: sums.values() for table, sums in spilled.items()},
        )
        write_release(
            logs, release.advance, keep=lambda: self._engine.keep_time(release), save=lambda: self._settle(release),
        )
        self._report_release(release)

    def _settle(self, release: Release) -> None:
        """All logs are stated: forget what is released, and save how far that is."""
        self._engine.settle(release)
        if release.assumed:
            LOGGER.warning(ASSUMED)
        self.save()

    def _sums(self, table: str, release: Release) -> dict[int | None, tuple[int, Sums]]:
        """What is not all in memory: by transaction (None: the snapshot) its time, and what it does to the table."""
        if self._contents is not None:
            return {}
        found: dict[int | None, tuple[int, Sums]] = {}
        for tx, lsn in release.transactions:
            sums = self._held.sums(tx, table)
            if sums is not None:
                found[tx] = lsn, sums
        if release.snapshot is not None:
            sums = self._held.snapshot_sums(table)
            if sums is not None:
                found[None] = release.snapshot, sums
        return found

    def _updates(self, table: str, release: Release, spilled: Container[int | None]) -> Iterator[Update]:
        """All but what is ``spilled``: transactions, and the snapshot as None."""
        if self._contents is not None:
            yield from self._contents.updates(table)
            return
        if release.snapshot is not None and None not in spilled:
            for row in self._held.snapshot_rows(table):
                yield row, release.snapshot, 1
        for tx, lsn in release.transactions:
            if tx not in spilled:
                for row, diff in self._held.changes(tx, table):
                    yield row, lsn, diff

    def _report_release(self, release: Release) -> None:
        self.counters.transactions += len(release.transactions)
        self.counters.releases += 1
        if self._on_release is not None:
            self._on_release(
                ReleaseReport(release, self._commits.waits(), self._held.rows, self.open_transactions, self.counters)
            )

    def save(self) -> None:
        """Make the positions durable, so that the next start need not read what is released.

        Not while it is open whether the topics are those of the logs: who remembers does not ask that any more.
        """
        if self._memory is None or not self._engine.sure:
            return
        memory = CaptureMemory(self._commits.export(), self.positions(), self._topics, self._writers.export())
        self._memory.save(plain_memory(memory, capture_identity(self._recipe)))

    def close(self) -> None:
        """Release the logs, and the rows. States nothing."""
        self._held.close()
        self._writers.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def coverage_of(commits: CommitTransactions) -> TableCoverage:
    """The tables of which nothing is stated, as the connector does not cover them, or has not all of their rows."""
    return TableCoverage(tuple(sorted(commits.uncovered)), {}, tuple(sorted(commits.partial)))
