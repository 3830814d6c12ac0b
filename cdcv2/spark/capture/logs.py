"""The logs that a capture writes, one for each table: updates by the executors, statements by the driver.

The rules are the writer's (:mod:`cdcv2.protocol.writer`): what a release changes is consolidated, so that each
identity ``(data, time)`` is written once with its final diff; the updates of every table are durable before any
statement counts them; a log that holds updates which no statement counts (*orphans* of a crash) is only continued
if they are among what is written now; and nothing is stated of a time that differs from what the log states of it.
Nothing is written to the log of a table that the connector does not cover (:mod:`cdcv2.capture.run.log_starts`).

Rows travel as the canonical bytes of their row type, in which equal rows have equal bytes, so Spark may group by them.

The file is long as both halves of a write, the driver's and the executors', must agree on what a log holds already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdcv2.capture.engine import LogsState
from cdcv2.capture.memory import LogTail
from cdcv2.capture.run.log_starts import LogStarts
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import LogFinishedError, UsageError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.stops import Stop, in_headers, stop_of
from cdcv2.protocol.log import Log, Positions
from cdcv2.protocol.messages import Progress, Update, Updates
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.statements import check_orphans, check_stated, statements
from cdcv2.protocol.writer import read_content
from cdcv2.spark.capture.tails import LogSpec, marked, opened, recognized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What is written: the table's number, the data as bytes, and of how many records it is (for the count of records).
CHANGES = "table int, time long, data binary, diff long, weight long"
UPDATES_PER_MESSAGE = 1000
#: Well below the million bytes that a Kafka topic takes by default.
BYTES_PER_MESSAGE = 256 * 1024

_WRITTEN = "table int, time long, identities long, weight long, messages long, more long"
_WRITTEN_ARROW = pa.schema([
    ("table", pa.int32()), ("time", pa.int64()), ("identities", pa.int64()), ("weight", pa.int64()),
    ("messages", pa.int64()), ("more", pa.int64()),
])  # fmt: skip


@dataclass(frozen=True)
class WriteCounts:
    """What was written of one time of one table: distinct identities (to be stated), and the records they came from.

    ``more`` is the sum of the diffs: how many rows more the table has then.
    """

    identities: int
    records: int
    more: int


class TableLogs:
    """The logs of all tables, on the driver. They are opened, and read from their tails on, at once.

    A log is made if it is missing, unless it has a tail: a log that was removed must not come back as if it were new.
    Raises LogFinishedError for a log whose history is complete, ForeignStateError for one that is missing or shorter
    than its tail, and what reading raises. Cost: reading what is behind the tails (without them, the whole logs).
    """

    def __init__(self, specs: Mapping[str, LogSpec], tails: Mapping[str, LogTail] | None = None) -> None:
        self.tables = tuple(sorted(specs))
        self._specs = {table: specs[table] for table in self.tables}
        self._logs = opened(specs, tails or {})
        #: Which of them are of tables that are covered, and where they begin.
        self.log_starts = LogStarts(self._logs)
        #: Of each table that is covered: all times below it are stated.
        self.known: dict[str, int] = {}
        #: Of each log the first and the last time at which it has updates, as far as it was read.
        self.spans: dict[str, tuple[Time, Time] | None] = dict.fromkeys(self.tables)
        #: Of each log that has updates their first finished time, and the sum of the diffs there, as far as was read.
        self.firsts: dict[str, tuple[int, int]] = {}
        #: The stop that another capture has put into a log since it was opened; None: none was seen.
        self.stop: Stop | None = None
        # Of each covered table the sum of the diffs before its known; None: its tail does not have it.
        self._rows: dict[str, int | None] = {}
        # (table's number, time) -> data -> diff: durable, and counted by no statement.
        self._orphans: dict[tuple[int, int], dict[bytes, int]] = {}
        # Table -> statements of times beyond its known.
        self._unreached: dict[str, list[Progress]] = {}
        self._tails: dict[str, Positions] = {}
        # Table -> how many messages were sent that its tail is not behind.
        self._sent: dict[str, int] = {}
        # By which the next process knows the logs again.
        self._marks = recognized(specs, self._logs, tails or {})
        for number, table in enumerate(self.tables):
            reader = self._read(table, self.log_starts.stated(table), (tails or {}).get(table))
            if self.log_starts.opened(table, _known(reader, self._logs[table].name)):
                self._take(number, table, reader)
            else:
                self._pass_by(table)

    def _read(self, table: str, begins: int, tail: LogTail | None) -> Resolver:
        log = self._logs[table]
        if tail is not None and (tail.known <= begins or tail.rows is None):
            # Nothing was stated then: what the log holds of the snapshot is known by reading it from its start.
            tail = None
        if tail is None:
            found = read_content(log, Resolver([begins]))
        else:
            found = read_content(log, Resolver([tail.known], begins=[begins]), tail.positions, tail.rows)
        if found.first is not None:
            self.firsts[table] = _int(found.first[0], log.name), found.first[1]
        self.spans[table], self._tails[table], self._rows[table] = found.span, found.positions, found.rows
        return found.reader

    def _take(self, number: int, table: str, reader: Resolver) -> None:
        """The table is covered: go on with its log as it was read."""
        name, spec = self._logs[table].name, self._specs[table]
        self._describe(table)
        self.known[table] = _known(reader, name)
        self._unreached[table], self._sent[table] = reader.unreached(), 0
        encode = spec.row_type.encode
        for data, time, diff in reader.orphans():
            self._orphans.setdefault((number, _int(time, name)), {})[encode(data)] = diff

    def _describe(self, table: str) -> None:
        """All that is written from now on states what the log alone does."""
        spec, alone = self._specs[table], self.log_starts
        described = replace(spec.description, start=alone.text(table), empty=alone.empty(table))
        self._specs[table] = replace(spec, description=described)

    def _pass_by(self, table: str) -> None:
        """The table is not covered: of its log nothing counts."""
        for kept in (self.known, self._unreached, self._tails, self._sent, self.firsts, self._rows):
            kept.pop(table, None)
        self.spans[table] = None

    def all(self) -> list[Log]:
        """The logs."""
        return list(self._logs.values())

    def described(self, log_set: LogDescription) -> None:
        """The logs state of which timeline and log set they are, as all that is written from now on does."""
        self._specs = {table: spec.described(log_set) for table, spec in self._specs.items()}

    def rows(self) -> dict[str, tuple[int, int]]:
        """Of each log that begins with the history how many rows its table has, and at which time."""
        begun = {table: rows for table, rows in self._rows.items() if not self.log_starts.begin[table]}
        return {table: (rows, self.known[table]) for table, rows in begun.items() if rows is not None}

    def stated(self) -> LogsState:
        """What the logs state, for the decisions of a capture. Raises what reading a stop raises."""
        starts = self.log_starts
        return LogsState(
            self.known, self.firsts, self.spans, starts.uncovered, starts.partial, starts.describing,
            stop_of(self.all()), self.rows(),
        )

    def cover(self, uncovered: Collection[str], begins: Mapping[str, int], partial: Iterable[str] = ()) -> None:
        """Before a release is written: which tables are not covered; see LogStarts. Those begin at these times."""
        self.log_starts.cover(uncovered, begins, partial)
        for table in uncovered:
            self._pass_by(table)
        for table, time in sorted(begins.items()):
            self._take(self.tables.index(table), table, self._read(table, time, None))

    def assume(self, empty: Iterable[str]) -> None:
        """The logs of these tables state that they were empty at the snapshot; see LogStarts."""
        self.log_starts.assume(empty)
        for table in self.known.keys() & set(empty):
            self._describe(table)

    # -- writing

    def write(self, changes: DataFrame, frontier: int) -> dict[tuple[str, int], WriteCounts]:
        """Make the updates below ``frontier`` durable, on the executors; returns what they are by table and time.

        ``changes`` is CHANGES, consolidated (diffs may be 0). What a log has stated already is counted, and not
        written again. Raises ResumeError, before anything is written, when an orphan is not among the changes.
        """
        orphans = {key: rows for key, rows in self._orphans.items() if key[1] < frontier}
        if orphans:
            self._check_orphans(changes, orphans)
        known = [self.known.get(table, 0) for table in self.tables]
        context = changes.sparkSession.sparkContext
        held = context.broadcast(orphans)
        try:
            ordered = changes.sortWithinPartitions("table", "time")
            write = partial(_write, tuple(self._specs.values()), known, held)
            frame = ordered.mapInArrow(write, _WRITTEN).toArrow()
        finally:
            held.destroy()
        written: dict[tuple[str, int], WriteCounts] = {}
        for number, time, identities, records, messages, more in zip(*(one.to_pylist() for one in frame.columns)):
            table = self.tables[number]
            before = written.get((table, time), WriteCounts(0, 0, 0))
            written[table, time] = WriteCounts(
                before.identities + identities, before.records + records, before.more + more
            )
            self._sent[table] += messages
        return written

    def has_orphans(self, frontier: int) -> bool:
        """Whether there are updates below the frontier that no statement counts, as of when the logs were read."""
        return any(time < frontier for _, time in self._orphans)

    def _check_orphans(self, changes: DataFrame, orphans: Mapping[tuple[int, int], dict[bytes, int]]) -> None:
        context = changes.sparkSession.sparkContext
        held = context.broadcast(dict(orphans))
        try:
            found = changes.mapInArrow(partial(_match, held), _WRITTEN).toArrow()
        finally:
            held.destroy()
        matched: dict[tuple[int, int], int] = {}
        for number, time, count, *_ in zip(*(column.to_pylist() for column in found.columns)):
            matched[number, time] = matched.get((number, time), 0) + count
        for (number, time), rows in sorted(orphans.items(), key=lambda item: item[0]):
            table = self.tables[number]
            row = self._specs[table].row_type.decode(next(iter(rows)))
            check_orphans(self._logs[table].name, time, len(rows), matched.get((number, time), 0), row)

    def state(self, table: str, frontier: int, counts: Mapping[int, int], more: Mapping[int, int]) -> bool:
        """State ``[its known, frontier)`` of the table, durably. Whether there was anything to state, if it is covered.

        ``counts`` has the number of updates at each time, ``more`` the sum of their diffs.
        Raises ResumeError, and states nothing, where a statement in the log counts something else.
        """
        known = self.known.get(table)
        if known is None or frontier <= known:
            return False
        log = self._logs[table]
        stated = statements(Antichain([known]), Antichain([frontier]), counts)
        for one in stated:
            check_stated(one, self._unreached[table], log.name)
        for one in stated:
            log.send(one)
        log.flush()
        self.known[table] = frontier
        rows = self._rows[table]
        self._rows[table] = None if rows is None else rows + sum(n for time, n in more.items() if known <= time)
        number = self.tables.index(table)
        self._orphans = {key: rows for key, rows in self._orphans.items() if key[0] != number or key[1] >= frontier}
        self._sent[table] += len(stated)
        self._skip_foreign(table)
        return True

    def _skip_foreign(self, table: str) -> None:
        """Move the tail behind what we have written. What others have put there beyond our frontier is theirs to state.

        A topic keeps a stop in a message: where there are other messages than ours all are read, and a tail that would
        pass by a stop stays. A message that was sent twice counts as another one's.
        """
        log, before, sent = self._logs[table], self._tails[table], self._sent[table]
        ends = log.ends()
        if self._specs[table].topic is not None and sum(ends.values()) != sum(before.values()) + sent:
            headers = (entry.headers for entry in log.read(before) if entry is not None)
            found = min((stop for of in headers for stop in in_headers(of)), default=None)
            if found is not None:
                self.stop = min(found, self.stop or found)
                return
        self._tails[table], self._sent[table] = ends, 0

    def tails(self) -> dict[str, LogTail]:
        """From where the next process reads them."""
        self._marks |= marked([self._specs[table] for table in self.known], self._tails, self._marks)
        return {
            table: LogTail(known, dict(self._tails[table]), dict(self._marks[table]), self._rows[table])
            for table, known in sorted(self.known.items())
        }

    def close(self) -> None:
        """Release them. States nothing."""
        for log in self._logs.values():
            log.close()


def _known(reader: Resolver, name: str) -> int:
    if not reader.known:
        raise LogFinishedError(f"the history of log {name} is complete: nothing can be added to it")
    return _int(reader.known.elements[0], name)


def _int(time: Any, name: str) -> int:
    if type(time) is not int:
        raise UsageError(f"log {name} has the time {time!r}, which is no int: capture needs a log of its own")
    return time


def consolidated(rows: DataFrame) -> DataFrame:
    """CHANGES from records, each with ``table, time, minus, plus``: one row per identity, with its final diff.

    Each record has the weight 1, independent of its changes: so the number of records can be checked exactly.
    """
    from pyspark.sql import functions as F

    gone = F.struct(F.col("minus").alias("data"), F.lit(-1).alias("diff"), F.lit(1).alias("weight"))
    weight = F.when(F.col("minus").isNull(), 1).otherwise(0)
    come = F.struct(F.col("plus").alias("data"), F.lit(1).alias("diff"), weight.alias("weight"))
    changes = rows.select("table", "time", F.explode(F.array(gone, come)).alias("change"))
    return (
        changes.select("table", "time", "change.*").where(F.col("data").isNotNull())
        .groupBy("table", "time", "data")
        .agg(F.sum("diff").alias("diff"), F.sum("weight").alias("weight"))
    )


# -- on the executors

#: The Kafka logs that this worker process has open: a producer takes longer to start than a small release to write.
_OPEN: dict[LogSpec, Log] = {}


def _write(
    specs: tuple[LogSpec, ...], known: list[int], held: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    orphans: Mapping[tuple[int, int], Mapping[bytes, int]] = held.value
    written: dict[tuple[int, int], list[int]] = {}
    outlets = [_Outlet(spec) for spec in specs]
    for batch in batches:
        for number, time, data, diff, weight in zip(*(column.to_pylist() for column in batch.columns)):
            tally = written.setdefault((number, time), [0, 0, 0, 0])
            tally[1] += weight
            tally[3] += diff
            if diff:
                tally[0] += 1
                if time >= known[number] and data not in orphans.get((number, time), ()):
                    outlets[number].put(data, time, diff)
    # All are on their way before the first is waited for: a new producer needs half a second for its first message.
    for outlet in outlets:
        outlet.send()
    for outlet in outlets:
        outlet.flush()
    for (number, _), tally in written.items():
        tally[2], outlets[number].messages = outlets[number].messages, 0
    yield _summary(written)


def _match(held: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many orphans of each time are among the changes, with the same diff."""
    orphans: Mapping[tuple[int, int], Mapping[bytes, int]] = held.value
    matched: dict[tuple[int, int], list[int]] = {}
    for batch in batches:
        for number, time, data, diff, _ in zip(*(column.to_pylist() for column in batch.columns)):
            if orphans.get((number, time), {}).get(data) == diff:
                matched.setdefault((number, time), [0, 0, 0, 0])[0] += 1
    yield _summary(matched)


def _summary(numbers: Mapping[tuple[int, int], list[int]]) -> pa.RecordBatch:
    rows = [[*key, *values] for key, values in numbers.items()]
    columns = zip(*rows) if rows else [[] for _ in _WRITTEN_ARROW]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, _WRITTEN_ARROW)]
    return pa.RecordBatch.from_arrays(arrays, schema=_WRITTEN_ARROW)


class _Outlet:
    """Messages to one log, of bounded size. Nothing is durable before :meth:`flush`."""

    def __init__(self, spec: LogSpec) -> None:
        self._spec = spec
        self._updates: list[Update] = []
        self._bytes = 0
        self._log: Log | None = None
        #: How many messages were sent.
        self.messages = 0

    def put(self, data: bytes, time: int, diff: int) -> None:
        """One more update."""
        if self._updates and (len(self._updates) == UPDATES_PER_MESSAGE or self._bytes + len(data) > BYTES_PER_MESSAGE):
            self.send()
        self._updates.append((self._spec.row_type.decode(data), time, diff))
        self._bytes += len(data)

    def flush(self) -> None:
        """Return when all is durable. A log that fails is not used again."""
        self.send()
        if self._log is not None:
            try:
                self._log.flush()
            except Exception:
                _OPEN.pop(self._spec, None)
                self._log.close()
                raise

    def send(self) -> None:
        """Send what is there, and wait for nothing."""
        if not self._updates:
            return
        if self._log is None:
            self._log = _OPEN.get(self._spec) or self._spec.open()
            if self._spec.topic is not None:
                _OPEN[self._spec] = self._log
        self._log.send(Updates.trusted(tuple(self._updates)))
        self.messages += 1
        self._updates, self._bytes = [], 0
