"""Outputs of a capture on a shared remap whose rows the executors hold: decided on here, written there.

The operator of the capture without Spark decides on a database's transactions
(:class:`~cdcv2.capture.run.database.Database`). Here it gets marks instead of rows. It returns which transactions are
released, at which times, and what TEMP holds. The executors consolidate and write the rows of those. The driver writes
TEMP, and holds the rows that are in it, as without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.facts import Notification, Record
from cdcv2.capture.open_record_codec import OpenRecordCodec
from cdcv2.capture.open_records import SNAPSHOT, OpenRecord, RowRecord
from cdcv2.capture.run import on_remap
from cdcv2.capture.run.database import Database
from cdcv2.capture.run.plain_tables import PlainOutput
from cdcv2.capture.transactions_on_timeline import TransactionSummary
from cdcv2.capture.updates_then_statements import Advance, LogSet, write_release
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, UnsafeTopicError
from cdcv2.protocol.log import Log, Place
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture.release_frames import FrameLogs, ReleaseChanges
from cdcv2.spark.capture.logs import TableLogs, consolidated
from cdcv2.spark.remap_capture.classify import NO_TX, PLAIN, ROW, Reader, ShareFacts, mark
from cdcv2.spark.remap_capture.tables import BoundTables
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.ordering import COMMIT_ORDER

_ROWS = pa.schema([
    ("table", pa.int32()), ("time", pa.int64()), ("tx", pa.int64()), ("number", pa.int64()), ("minus", pa.binary()),
    ("plus", pa.binary()),
])  # fmt: skip


@dataclass
class RangeShare:
    """The part of a range for one output: the frame of all its rows, BOUND, and the facts for the driver.

    ``rows`` are ``(table, time, tx, number, place, after, of_table, renumbered, minus_mark, plus_mark)``.
    """

    frame: DataFrame
    places: Sequence[Place]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    reports: list[tuple[int, int, Any]] = field(default_factory=list)
    plain: dict[tuple[int, int], int] = field(default_factory=dict)
    old: bool = False

    def add(self, share: ShareFacts, number: int) -> None:
        """Add the facts of some records for the output of this number."""
        self.reports.extend(one[1:] for one in share.reports if one[0] == number)
        self.old |= number in share.old
        for (output, table, time), count in share.plain.items():
            if output == number:
                self.plain[table, time] = self.plain.get((table, time), 0) + count


class BoundOutput(on_remap.RemapOutput, Protocol):
    """An output whose rows the executors hold: it gets their facts."""

    def readers(self) -> Mapping[str, Reader]:
        """Who reads its topics."""

    def receive_share(self, share: RangeShare | None) -> None:
        """Take the records of a range; None: there are none. The previous range is dropped."""


class BoundPlain(PlainOutput):
    """Plain topics. ``tables`` maps a table to its topic and row type; ``number`` is that of the output."""

    def __init__(
        self, number: int, tables: Mapping[str, tuple[str, RowType]], logs: TableLogs, spark: SparkSession
    ) -> None:
        self._number, self._tables, self._logs, self._spark = number, dict(tables), logs, spark
        self._share: RangeShare | None = None

    @property
    def topics(self) -> frozenset[str]:
        """Those of the tables."""
        return frozenset(topic for topic, _ in self._tables.values())

    def readers(self) -> dict[str, Reader]:
        """By the tables' numbers."""
        numbers = {table: number for number, table in enumerate(self._logs.tables)}
        return {topic: (numbers[table], row_type) for table, (topic, row_type) in self._tables.items()}

    def log_frontiers(self) -> Iterator[tuple[str, Antichain]]:
        """How far each log is stated."""
        yield from ((table, Antichain([known])) for table, known in self._logs.known.items())

    def spans(self) -> Iterator[tuple[str, on_remap.Span]]:
        """When each log has updates."""
        yield from self._logs.spans.items()

    def take(self, record: Record, into: int) -> None:
        """The executors take them. Raises RefusedError."""
        raise by_executors(record)

    def receive_share(self, share: RangeShare | None) -> None:
        """Take the records of a stretch."""
        self._share = share

    def advance(self, frontier: Antichain) -> None:
        """Make what was taken durable, and state it."""
        write_release(FrameLogs(self._logs, self._changes(_int(frontier)), self._spark), Advance(frontier))

    def _changes(self, upper: int) -> ReleaseChanges:
        share, expected = self._share, dict[tuple[str, int], int]()
        if share is not None:
            tables = self._logs.tables
            expected = {(tables[of], time): rows for (of, time), rows in share.plain.items() if time < upper}
        if share is None or not expected:
            return ReleaseChanges(None, 0, expected)
        rows = (F.col("kind") == PLAIN) & (F.col("output") == self._number) & (F.col("time") < upper)
        frame = (
            share.frame.where(rows).groupBy("table", "time", F.col("plus").alias("data"))
            .agg(F.count("*").alias("diff"), F.count("*").alias("weight"))
        )
        return ReleaseChanges(frame, sum(expected.values()), expected)

    def close(self) -> None:
        """Release the logs."""
        self._logs.close()


class RowDigests:
    """The rows that TEMP holds, by their marks: as a row type for it, whose rows are marks."""

    def __init__(self) -> None:
        self._bytes: dict[bytes, bytes] = {}
        self._held: dict[bytes, int] = {}

    def encode(self, row: bytes) -> bytes:
        """The bytes of the row with this mark. Raises UnsafeTopicError where it is not found any more."""
        if row not in self._bytes:
            raise UnsafeTopicError(
                "a row that was read in its topic was not found there again: something removes or rewrites its "
                "records. Nothing is stated of it. Set cleanup.policy=delete and a longer retention.ms, and start again"
            )
        return self._bytes[row]

    def decode(self, data: bytes) -> bytes:
        """The mark, and from now on it is known what it stands for."""
        made = mark(data)
        self._bytes[made] = data
        return made

    def count(self, held: OpenRecord, diff: int) -> None:
        """A record comes into TEMP, or goes; what no record has is forgotten."""
        for one, _ in held.changes if isinstance(held, RowRecord) else ():
            number = self._held.get(one, 0) + diff
            if number:
                self._held[one] = number
            else:
                self._held.pop(one, None)
                self._bytes.pop(one, None)

    def learn(self, rows: Mapping[bytes, bytes]) -> None:
        """What these marks stand for."""
        self._bytes.update(rows)

    def unknown(self, marks: Iterable[bytes]) -> set[bytes]:
        """Those of which it is not known."""
        return {one for one in marks if one not in self._bytes}


class BoundDatabase(Database):
    """One connector's topics. ``number`` is that of the output, ``logs`` has the log of each table of the recipe.

    Everything else as of :class:`~cdcv2.capture.run.database.Database`. Memory, on the driver: TEMP; of the
    transactions of times in hand the marks.
    """

    def __init__(
        self, number: int, recipe: DatabaseConnector, logs: TableLogs, temp: tuple[Log, Writer], spark: SparkSession, *,
        ordering: str = COMMIT_ORDER, names: Mapping[str, str] | None = None,
    ) -> None:
        self._marks = RowDigests()
        rows = OpenRecordCodec(dict.fromkeys(recipe.tables, self._marks))
        super().__init__(recipe, BoundTables(logs), temp, ordering=ordering, names=names, rows=rows)
        self._number, self._logs, self._spark = number, logs, spark
        self._share: RangeShare | None = None

    def readers(self) -> dict[str, Reader]:
        """The recipe reads all of them."""
        return dict.fromkeys(self.topics, self._recipe)

    def take(self, record: Record, into: int) -> None:
        """The executors take them. Raises RefusedError."""
        raise by_executors(record)

    def receive_share(self, share: RangeShare | None) -> None:
        """Take the facts of the records of a range; the rows as marks."""
        self._share = share
        if share is None:
            return
        tables, places = self._logs.tables, share.places
        for table, time, tx, number, place, after, of_table, renumbered, minus, plus in share.rows:
            changes = ((minus, -1),) if plus is None else ((plus, 1),) if minus is None else ((minus, -1), (plus, 1))
            if tx == NO_TX:
                self.receive(RowRecord(tables[table], SNAPSHOT, (*places[place], number), after, changes), time)
            else:
                self.receive(RowRecord(tables[table], tx, number, after, changes, of_table, renumbered), time)
        take_facts(self, share)

    def _written(self, frontier: Antichain) -> Iterator[tuple[OpenRecord, int]]:
        for held, diff in super()._written(frontier):
            self._marks.count(held, diff)
            yield held, diff

    def _write(self, summary: TransactionSummary) -> None:
        """TEMP here, the rows of what is given out by the executors."""
        come = [held for held, _, diff in summary.temp if diff > 0 and isinstance(held, RowRecord)]
        self._marks.learn(self._fetched(self._marks.unknown(mark for held in come for mark, _ in held.changes)))
        super()._write(summary)
        # One record's row may be another's, which comes when the first one goes.
        for held, _, diff in sorted(summary.temp, key=lambda update: -update[2]):
            self._marks.count(held, diff)

    def _log_set(self, summary: TransactionSummary) -> LogSet:
        come = {held for held, _, diff in summary.temp if diff > 0 and isinstance(held, RowRecord)}
        went = [held for held, _, diff in summary.temp if diff < 0 and isinstance(held, RowRecord) and held not in come]
        earlier = [held for held in went if held.table not in self._transactions.uncovered]
        _int(summary.frontier)
        return FrameLogs(
            self._logs,
            ReleaseChanges(*self._released_changes(summary, earlier), _identities(summary), True),
            self._spark,
        )

    def _own_rows(self, share: RangeShare) -> DataFrame:
        return share.frame.where((F.col("kind") == ROW) & (F.col("output") == self._number))

    def _fetched(self, marks: set[bytes]) -> dict[bytes, bytes]:
        """What these marks stand for, from the executors."""
        if not marks or self._share is None:
            return {}
        context = self._spark.sparkContext
        wanted = context.broadcast(marks)
        try:
            rows = self._own_rows(self._share).select("minus", "plus", "minus_mark", "plus_mark")
            found = rows.mapInArrow(partial(_marked, wanted), "mark binary, data binary").toArrow()
        finally:
            wanted.destroy()
        return dict(zip(found.column("mark").to_pylist(), found.column("data").to_pylist()))

    def _released_changes(self, summary: TransactionSummary, earlier: list[RowRecord]) -> tuple[DataFrame | None, int]:
        """CHANGES of the transactions that are given out, and from about how many rows."""
        if not summary.given:
            return None, 0
        given = {NO_TX if tx == SNAPSHOT else int(tx): time for tx, time in summary.given.items()}
        share, spark = self._share, self._spark
        frames, numbers = list[DataFrame](), list[tuple[int, int]]()
        if earlier:
            frames.append(spark.createDataFrame(self._held_rows(earlier, given)))
            numbers += [
                (row.tx, row.order) for row in earlier if isinstance(row.tx, int) and isinstance(row.order, int)
            ]
        left = [at for at, table in enumerate(self._logs.tables) if table in self._transactions.uncovered]
        rows_of = () if share is None else share.rows
        fresh = [row for row in rows_of if row[1] <= given.get(row[2], -1) and row[0] not in left]
        if share is not None and fresh:
            times = {"tx": pa.array(given.keys(), pa.int64()), "given": pa.array(given.values(), pa.int64())}
            rows = self._own_rows(share).join(F.broadcast(spark.createDataFrame(pa.table(times))), "tx")
            # What comes again when its transaction was given out is nothing.
            rows = rows.where((F.col("time") <= F.col("given")) & ~F.col("table").isin(left))
            rows = rows.withColumn("time", F.col("given"))
            frames.append(rows.select(*_ROWS.names))
            numbers += [(row[2], row[3]) for row in fresh if row[2] != NO_TX]
        if not frames:
            return None, 0
        rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        if len(set(numbers)) < len(numbers):
            # Copies are equal: the operator has checked it. Offsets identify rows of the snapshot, so they have none.
            numbered = F.col("tx") != NO_TX
            once = rows.where(numbered).dropDuplicates(["tx", "number"])
            rows = once.unionByName(rows.where(~numbered))
        return consolidated(rows), len(earlier) + len(fresh)

    def _held_rows(self, rows: list[RowRecord], given: Mapping[int, int]) -> pa.Table:
        """Rows that TEMP held before this stretch, as _ROWS."""
        numbers = {table: number for number, table in enumerate(self._logs.tables)}
        columns: list[list[Any]] = [[] for _ in _ROWS]
        for table, tx, order, _, changes, *_ in rows:
            images = {diff: self._marks.encode(mark) for mark, diff in changes}
            key = NO_TX if tx == SNAPSHOT else int(tx)
            number = order if isinstance(order, int) else None
            values = (numbers[table], given[key], key, number, images.get(-1), images.get(1))
            for column, value in zip(columns, values):
                column.append(value)
        return pa.table([pa.array(column, kind.type) for column, kind in zip(columns, _ROWS)], schema=_ROWS)


def take_facts(database: Database, share: RangeShare) -> None:
    """Have a database take the facts that the driver received, each at its time."""
    database.old.seen(share.old)
    # Notifications have an order, and one partition.
    for time, _, one in sorted(share.reports, key=lambda report: report[:2]):
        if isinstance(one, Notification):
            database.notified(one, time)
        else:
            database.receive(one, time)


def _identities(summary: TransactionSummary) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = {}
    for table, updates in summary.output.items():
        for _, time, _ in updates:
            counts[table, check_int(time)] = counts.get((table, check_int(time)), 0) + 1
    return counts


def _marked(wanted: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that these marks stand for, each once in a batch."""
    for batch in batches:
        minus, plus, minus_marks, plus_marks = (column.to_pylist() for column in batch.columns)
        found = {
            mark: data for mark, data in zip([*minus_marks, *plus_marks], [*minus, *plus]) if mark in wanted.value
        }
        yield pa.RecordBatch.from_pydict({
            "mark": pa.array(found.keys(), pa.binary()), "data": pa.array(found.values(), pa.binary())
        })


def _int(frontier: Antichain) -> int:
    if not frontier:
        raise RefusedError(
            "the remap was closed, so the logs would be finished: a capture on Spark does not state that. Let cdcv2 "
            "capture do it, with the same remap and logs"
        )
    return check_int(frontier.elements[0])


def by_executors(record: Record) -> RefusedError:
    """The error for a record that the driver read."""
    return RefusedError(f"{record.position} was read on the driver: the executors read what this capture takes")
