"""A database on a timeline: the connector's topics become whole transactions, at the times that bindings give them.

The records of open transactions are in TEMP, a log beside those of the tables. At every time that is bound, a capture
needs only TEMP and the positions in the topics to resume: see :mod:`cdcv2.capture.transactions_on_timeline`. If
before-images come from the state, they are taken from the tables' logs before the time at which it resumes. Each
database has its own transactions and its own TEMP; one remap makes one cut over all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import cast

from cdcv2.capture.before_images import Contents
from cdcv2.capture.begins import BeginRecords
from cdcv2.capture.bound_facts import shows_rows_before, timeline_fact
from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.capture.facts import Notification, Record, is_renumbered
from cdcv2.capture.open_record_codec import OpenRecordCodec
from cdcv2.capture.open_records import (
    SNAPSHOT, BeginRecord, DoubtRecord, EndRecord, HaltRecord, OpenRecord, ReleaseRecord, RestartRecord, RowRecord,
    SourceRecord, StartRecord, ThroughRecord, TransientRecord, Tx, UnendedRecord,
)
from cdcv2.capture.partial_changes import PartialChangeCodec
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.row_counts import RowCounts
from cdcv2.capture.run.output_frontier import output_known
from cdcv2.capture.run.source_check import OldConnector
from cdcv2.capture.run.table_writers import CoveredTableLogs, Tables
from cdcv2.capture.run.transaction_topic import TransactionTopic
from cdcv2.capture.snapshot.timeline_end import snapshot_end, snapshot_halt
from cdcv2.capture.snapshot.tracker import SnapshotTracker
from cdcv2.capture.topics import Ranges
from cdcv2.capture.transactions_on_timeline import TransactionSummary, Transactions
from cdcv2.capture.updates_then_statements import Advance, LogSet, write_release
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Time
from cdcv2.errors import SourceStop, UsageError
from cdcv2.logs.coverage import TableCoverage
from cdcv2.logs.stops import put_stop, stop_of
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Log, Place
from cdcv2.protocol.messages import Update
from cdcv2.protocol.writer import Writer
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.ordering import COMMIT_ORDER, check_ordered


class Database:
    """The output of one connector's topics; see :class:`~cdcv2.capture.run.on_remap.RemapOutput`.

    Args:
        recipe: what is captured; a snapshot needs its notification topic, which states how many rows it has.
        tables: the writers of each table's log.
        temp: the log of TEMP, of row type :data:`~cdcv2.capture.open_record_codec.TEMP`, and its writer.
        ordering: ``COMMIT_ORDER`` or ``AS_COMPLETE``.
        names: the tables' names in the recipe of the remap, where they differ.
        rows: how TEMP's rows are written, where data have another name here.

    Raises UsageError for a recipe that cannot be captured so. Memory: TEMP, and the records of the times in hand; with
    before-images from the state, every row of the tables, too, and each start reads the tables' logs once more.
    """

    def __init__(
        self,
        recipe: DatabaseConnector,
        tables: Tables,
        temp: tuple[Log, Writer],
        *,
        ordering: str = COMMIT_ORDER,
        names: Mapping[str, str] | None = None,
        rows: OpenRecordCodec | None = None,
    ) -> None:
        check_recipe(recipe, ordering)
        self._recipe, self._ordering = recipe, ordering
        self._tables, (self._log, self._temp) = tables, temp
        # Of a log that is stated from the least time on, nothing can be left out.
        starts, known = tables.log_starts.begin, tables.log_frontiers()
        fixed = {table for table, start in starts.items() if not start and known[table]}
        may = frozenset(recipe.tables) - fixed if tables.log_starts.describing else frozenset[str]()
        self._names = {table: (names or {}).get(table, table) for table in recipe.tables}
        self._rows = rows or OpenRecordCodec(
            recipe.tables, {table: PartialChangeCodec(row_type) for table, row_type in recipe.tables.items()}
        )
        self._transactions = self._operator((), Antichain([0]), None)
        #: Sees each record.
        self.old = OldConnector(recipe.renumbering)
        # Of the transaction topic, whose records come in their order.
        self._begins = BeginRecords[Tx]()
        self._has_end: Callable[[Tx, int], bool] = lambda tx, through: False
        self._snapshot = SnapshotTracker(
            recipe.tables, requested=recipe.snapshot == "initial", empty=recipe.empty, may=may,
            known=recipe.tables.keys() - may,
        )
        # Until the End: how many rows of each table of the snapshot are known.
        self._read = Counter[str]()
        # Whether it is known which tables are uncovered: after the snapshot's End; without one, after any record.
        self._ended = False
        # The tables that were empty only by the user's declaration, once it is known which are covered.
        self._empty = frozenset[str]()
        # The stop that the logs keep, of another run.
        self._kept: SourceStop | None = None
        # What TEMP's log has of restarts beyond where it goes on, with the times; only where a transaction is in doubt.
        self._ahead: frozenset[tuple[RestartRecord, int]] = frozenset()
        # Time -> what came at it.
        self._reported: dict[int, list[SourceRecord | TransientRecord]] = {}
        self._notified: dict[int, list[Notification]] = {}

    def _operator(
        self, temp: tuple[Update, ...], frontier: Antichain, recalled: ReleasedEnds[Tx] | None
    ) -> Transactions:
        # Without a snapshot the history begins with nothing; out of order what comes first is not the first row.
        judged = self._recipe.snapshot == "initial" and self._ordering == COMMIT_ORDER
        # Before-images that are looked up show each row that is not there.
        counts = judged and self._recipe.before != FROM_STATE
        return Transactions(
            self._recipe.tables, ordering=self._ordering, snapshot=self._recipe.snapshot == "initial", temp=temp,
            frontier=frontier, state=self._state(frontier) if self._recipe.before == FROM_STATE else None,
            recalled=recalled, uncovered=self._uncovered(frontier), partial=self._tables.log_starts.partial,
            had=shows_rows_before if judged else None, counted=RowCounts(self._tables.rows()) if counts else None,
            words=self._recipe.words,
        )

    def _uncovered(self, frontier: Antichain) -> set[str]:
        """The tables that are not covered where it goes on; others may have found where they begin, beyond that."""
        starts = self._tables.log_starts
        later = {table for table, start in starts.begin.items() if start and frontier.less_equal(start)}
        return {*starts.uncovered, *later}

    def _state(self, frontier: Antichain) -> Contents:
        """The content of the tables where the capture resumes: what the logs state before that time."""
        known = {table: min(at, check_int(frontier.elements[0])) for table, at in self._tables.log_frontiers().items()}
        known |= dict.fromkeys(self._uncovered(frontier), 0)
        return Contents.of(
            self._recipe.tables, self._tables.logs, known, starts=self._tables.log_starts.begin,
            words=self._recipe.words,
        )

    @property
    def topics(self) -> frozenset[str]:
        """The connector's."""
        return frozenset(self._recipe.topics())

    @property
    def has_started(self) -> bool:
        """Whether anything is stated of its tables: the snapshot is released; without one, a record was read."""
        return self._transactions.has_started

    @property
    def coverage(self) -> TableCoverage:
        """The tables of which nothing is stated, as the connector does not cover them, or has not all of their rows."""
        if not self.has_started:
            return TableCoverage((), {})
        uncovered, partial = (
            tuple(sorted(self._names[table] for table in tables))
            for tables in (self._transactions.uncovered, self._transactions.partial)
        )
        return TableCoverage(uncovered, {}, partial)

    def waits(self) -> str | None:
        """That the snapshot is not whole, or how many records are held of transactions that are not."""
        if self._transactions.through is None:
            found = f"the initial snapshot of {self._recipe.prefix} is not complete"
            if self._ended or self._snapshot.has_notifications:
                return found
            topic = self._recipe.notification_topic
            return f"{found}: the topic {topic!r} has reported nothing about it; is its name right?"
        held = self.held
        return f"{held} records of {self._recipe.prefix} are of transactions that are not complete" if held else None

    @property
    def held(self) -> int:
        """The records of transactions that are not complete, and of a snapshot that is not."""
        return self._transactions.held

    def log_frontiers(self) -> Iterator[tuple[str, Antichain]]:
        """How far its output is known, and TEMP's log is stated. Tables that are not covered have none."""
        known = output_known(self._tables, self._temp, snapshot=self._recipe.snapshot == "initial")
        for table, at in known.items():
            yield self._names[table], Antichain([at])
        yield min(self._names.values()), self._temp.known

    def spans(self) -> Iterator[tuple[str, tuple[Time, Time] | None]]:
        """When its logs have updates, TEMP's among them."""
        for table, span in self._tables.spans().items():
            yield self._tables.logs[table].name, span
        yield self._temp.log.name, self._temp.span

    def resume(
        self, frontier: Antichain, before: Mapping[Place, int], ranges: Ranges
    ) -> Mapping[Place, tuple[int, int]]:
        """Resume with what TEMP held there, and with the END records of the transactions that were released last.

        While the snapshot is not whole, its notifications are read again. Nothing is read if the logs keep a stop.
        """
        kept = stop_of(self.logs())
        if kept is not None:
            self._kept = SourceStop(*kept, frontier, lasting=True)
            return {}
        sums: ChangeBatch[OpenRecord] = ChangeBatch(self._written(frontier))
        self._has_end = TransactionTopic(ranges, self._recipe).has_end
        # At the time before, at which all of it is there.
        at = check_int(frontier.elements[0]) - 1 if frontier else 0
        recalled = self._recalled([one for one, _ in sums], before, ranges)
        self._begins.recall(
            recalled.last, gone=recalled.gone, unended=recalled.unended, highest=recalled.highest
        )
        self._ahead = frozenset(self._restarts_beyond(frontier) if recalled.gone else ())
        self._transactions = self._operator(tuple((held, at, diff) for held, diff in sums), frontier, recalled)
        held = self._transactions.temp()
        if self._recipe.snapshot != "initial":
            self._ended = any(isinstance(one, StartRecord) for one in held)
            return {}
        self._ended = self._transactions.through is not None
        self._ended |= any(isinstance(one, EndRecord) and one.tx == SNAPSHOT for one in held)
        self._see(held)
        if self._ended:
            self._snapshot.end_made()
            return {}
        topic = self._recipe.notification_topic
        return {place: (0, end) for place, end in before.items() if place[0] == topic}

    def _recalled(self, held: Collection[OpenRecord], before: Mapping[Place, int], ranges: Ranges) -> ReleasedEnds[Tx]:
        """What stands before in the transaction topic of what is given out."""
        at = before.get((self._recipe.transaction_topic, 0), 0)
        through = next((one for one in held if isinstance(one, ThroughRecord)), None)
        if through is None and self._recipe.snapshot != "initial":
            through = ThroughRecord(0, 0)
        given = through is not None and (
            through.commit > through.base or any(isinstance(one, ReleaseRecord) for one in held)
        )
        found = TransactionTopic(ranges, self._recipe).before(at, through.commit if given and through else None)
        return cast(ReleasedEnds[Tx], found)

    def _written(self, frontier: Antichain) -> Iterator[tuple[OpenRecord, int]]:
        """The changes of TEMP at times before the frontier, in order."""
        for batch in Iter(self._log.read()):
            before = ((row, diff) for row, time, diff in batch.updates if not frontier.less_equal(time))
            yield from ((self._rows.held(row), diff) for row, diff in before)

    def _restarts_beyond(self, frontier: Antichain) -> Iterator[tuple[RestartRecord, int]]:
        """The Restarts that TEMP's log has beyond the frontier, stated or not: others saw records that are lost now."""
        temp = Iter(self._log.read())
        stated = [update for batch in temp for update in batch.updates if frontier.less_equal(update[1])]
        for row, time, diff in (*stated, *temp.reader.orphans()):
            if diff > 0 and row.kind == "restart":
                yield cast(RestartRecord, self._rows.held(row)), check_int(time)

    def restore(self, record: Record) -> None:
        """Take a notification again that was taken before."""
        fact = self._recipe.fact(record)
        if isinstance(fact, Notification):
            self._snapshot.notification(*fact)

    def take(self, record: Record, into: int) -> None:
        """Take a record at its time. Raises DecodeError for one that is none of the connector's."""
        fact = self._recipe.fact(record)
        self.old.seen(is_renumbered(fact))
        if isinstance(fact, Notification):
            self.notified(fact, into)
        one = timeline_fact(fact)
        if one is not None:
            self.receive(one, into)

    def notified(self, fact: Notification, into: int) -> None:
        """Take a notification at its time, those of one time in their order."""
        self._notified.setdefault(into, []).append(fact)

    def receive(self, one: SourceRecord | BeginRecord, into: int) -> None:
        """Take another record at its time; those of the transaction topic in their order."""
        if isinstance(one, (BeginRecord, EndRecord)) and one.tx != SNAPSHOT and self._begins.doubts():
            known = RestartRecord(one.tx)
            self._reported.setdefault(into, []).append(known if (known, into) in self._ahead else DoubtRecord(one.tx))
        if isinstance(one, BeginRecord):
            if not self._begins.begin(one.tx):
                return
            one = RestartRecord(one.tx)
        elif isinstance(one, EndRecord) and one.tx != SNAPSHOT:
            self._reported.setdefault(into, []).extend(
                UnendedRecord(tx, after, one.commit) for tx, after in self._begins.end(one.tx, one.commit)
                if not self._has_end(tx, after)
            )
        self._reported.setdefault(into, []).append(one)

    def advance(self, frontier: Antichain) -> None:
        """Give out what is whole: TEMP and tables, durable and then stated.

        Raises SourceStop, when all before is written, where nothing more can be given out.
        """
        updates = list(self._taken(frontier))
        self._write(self._transactions.updates(updates, frontier))
        stop = self.stopped()
        if stop is not None:
            put_stop(self.logs(), stop)
            raise stop

    def _write(self, summary: TransactionSummary) -> None:
        """Make durable, and state, what is finished."""
        self._temp.extend((self._rows.row(held), time, diff) for held, time, diff in summary.temp)
        advance = Advance(
            summary.frontier, summary.begins, self._transactions.uncovered, self._transactions.partial, self._empty,
            begun=self.has_started,
        )
        write_release(self._log_set(summary), advance, temp=self._temp)

    def _log_set(self, summary: TransactionSummary) -> LogSet:
        """The logs, with the updates of what is finished."""
        return CoveredTableLogs(self._tables, lambda table: summary.output[table])

    def stopped(self) -> SourceStop | None:
        """The stop: a fact of the source that cannot be captured, or a permanent stop that the logs keep."""
        return self._kept or self._transactions.stop

    def logs(self) -> Iterable[Log]:
        """Those of the tables."""
        return self._tables.logs.values()

    def _taken(self, frontier: Antichain) -> Iterator[Update]:
        """What came at the times that are finished now, and the End of the snapshot at its own."""
        for time in sorted({*self._reported, *self._notified}):
            if frontier.less_equal(time):
                return
            records = self._reported.pop(time, [])
            yield from ((one, time, 1) for one in records)
            notified = self._notified.pop(time, [])
            found = self._end(records, notified)
            if found is not None:
                yield found, time, 1

    def _end(
        self, records: Iterable[SourceRecord | TransientRecord], notified: Iterable[Notification]
    ) -> EndRecord | HaltRecord | None:
        """The End of the snapshot, if it is known, or why there is none."""
        known = [one for one in records if not isinstance(one, (DoubtRecord, UnendedRecord))]
        self._see(known)
        if self._recipe.snapshot != "initial":
            if known and not self._ended:
                self._ended = True
                self._transactions.uncover(self._snapshot.without_topic())
                self._empty = self._recipe.empty
            return None
        for fact in notified:
            self._snapshot.notification(*fact)
        if self._ended:
            return snapshot_halt(self._snapshot, self._recipe.words)
        end = snapshot_end(self._snapshot, self._recipe.words)
        self._ended = end is not None
        if isinstance(end, EndRecord):
            self._transactions.uncover(self._snapshot.uncovered)
            self._empty = self._snapshot.assumed_empty
        return end

    def _see(self, held: Iterable[OpenRecord]) -> None:
        """What is known of rows, while it is not known which tables are covered."""
        for row in () if self._ended else [one for one in held if isinstance(one, RowRecord)]:
            self._snapshot.table_known(row.table)
            if row.tx == SNAPSHOT and row.after is not None:
                self._read[row.table] += 1
                self._snapshot.rows_seen(row.table, row.after, self._read[row.table])

    def close(self) -> None:
        """Release the logs."""
        self._temp.close()
        self._tables.close()


def check_recipe(recipe: DatabaseConnector, ordering: str) -> None:
    """Raise UsageError or RefusedError unless the database can be captured on a timeline, in this ordering."""
    if recipe.before == FROM_STATE:
        check_ordered(ordering, "--before from-state")
    if recipe.snapshot == "initial" and recipe.notification_topic is None:
        raise UsageError(
            f"the snapshot of {recipe.prefix} needs the connector's notification topic (--notifications), which "
            f"states how many rows it has; or, if the connector took no snapshot ({recipe.words.no_snapshot}), "
            "--snapshot none. A snapshot without notifications cannot be captured on a remap: capture it without "
            "--remap"
        )
