"""``spark.read.format("cdcv2")`` and ``readStream``: the finished rows of logs as DataFrames, for notebooks.

A batch is what one table holds at a time, a stream is its finished changes; both have the columns of the table (under
their names in Avro), ``cdcv2_time`` and ``cdcv2_diff``. The offsets of a stream are frontiers: a micro-batch has the
updates that are beyond its first one and not beyond its last one, so a restart from a checkpoint repeats nothing. They
have the identity of the log, too: over another one a stream does not continue. One of before has none, and continues
over the log that is there; from then on it is known.

What is finished is decided by the one reader of logs, in one task for each DataFrame. A table of which all is wanted,
often or by many executors, is written once by the replay job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructType

from cdcv2.completeness import frontier_text, through_text
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, RefusedError, UsageError
from cdcv2.logs.contents import contents
from cdcv2.logs.description import description_of, identity_of_copies
from cdcv2.logs.log_names import log_address
from cdcv2.logs.named_logs import NamedLog, some_covered
from cdcv2.logs.read import LogReader, logs_of
from cdcv2.logs.tables_at_time import one_of
from cdcv2.protocol.log_identity import other_log_text
from cdcv2.protocol.messages import Update
from cdcv2.rows.columns import UpdateBatch
from cdcv2.rows.row_type import RowType
from cdcv2.spark.schema import spark_type

#: The columns beside those of the table: when a change happened, and how many rows came (above 0) or went.
TIME, DIFF = "cdcv2_time", "cdcv2_diff"
#: What ``option`` takes, besides the path.
OPTIONS = ("path", "table", "at", "rows", "bootstrap", "config_file", "timeline")
#: Updates that become one Arrow batch.
_TOGETHER = 10_000


@dataclass(frozen=True)
class LogOptions:
    """What a DataFrame is of."""

    path: str
    table: str | None
    at: int | None
    rows: str | None
    bootstrap: str | None
    config_file: str | None
    timeline: str | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> LogOptions:
        """The options of a DataFrame. Raises UsageError, naming the option."""
        found = {name.lower(): value for name, value in given.items()}
        if unknown := sorted(found.keys() - set(OPTIONS)):
            raise UsageError(f"the option {unknown[0]!r} is unknown; there are {', '.join(OPTIONS)}")
        if "path" not in found:
            raise UsageError("name the logs: .load('logs'), or .load('kafka:TOPIC') with the option rows")
        at = found.pop("at", None)
        if at is not None and not (at.isascii() and at.isdecimal()):
            raise UsageError(f"the option at is {at!r}: it takes a time as a whole number")
        # A worker elsewhere has another working directory.
        address = log_address(found.pop("path"))
        path = str(address) if address.is_topic else str(Path(address.name).absolute())
        rest = {name: found.get(name) for name in OPTIONS if name not in ("path", "at")}
        return cls(path=path, at=None if at is None else int(at), **rest)

    def logs(self) -> list[NamedLog]:
        """The logs, opened. Raises what opening does."""
        return logs_of(
            self.path, rows=self.rows, bootstrap=self.bootstrap, config_file=self.config_file, timeline=self.timeline
        )

    def chosen(self, logs: Sequence[NamedLog]) -> list[NamedLog]:
        """The logs of the table: several are copies. Raises UsageError, MissingLogError."""
        table = one_of(self.table, list(dict.fromkeys(named.table for named in logs)))
        return [named for named in logs if named.table == table]


@dataclass(frozen=True)
class ContentPartition(InputPartition):
    """A table at a time; None: where the history has ended."""

    at: int | None


@dataclass(frozen=True)
class ChangesPartition(InputPartition):
    """The changes of a table beyond one frontier and not beyond another; ``marks`` are those of the first.

    ``log``: the identity of the log in which the last one was found; None: not known."""

    start: tuple[int, ...]
    end: tuple[int, ...]
    marks: Mapping[str, Any]
    log: str | None = None


class LogDataSource(DataSource):
    """Finished rows of logs, as a data source of Spark: see :func:`register`."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "cdcv2"

    def schema(self) -> StructType:
        """The columns of the table, ``cdcv2_time`` and ``cdcv2_diff``."""
        return changes_type(self._row_type())

    def reader(self, schema: StructType) -> LogContentReader:
        """What a table holds at a time."""
        return LogContentReader(LogOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> LogChangesReader:
        """The changes of a table. Raises UsageError for a time, which only a batch is at."""
        options = LogOptions.of(self.options)
        if options.at is not None:
            raise UsageError("the option at is for spark.read: a stream has the changes of all times; leave it out")
        return LogChangesReader(options, schema)

    def _row_type(self) -> RowType:
        options = LogOptions.of(self.options)
        return options.chosen(options.logs())[0].row_type


class LogContentReader(DataSourceReader):
    """A table at one time, which is decided when the query is planned: a task that is tried again gives the same."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        """One. Raises IncompleteError where no time is finished."""
        at = self._options.at
        if at is None:
            logs = self._options.logs()
            frontier = frontier_of(LogReader(some_covered(logs), content=False))
            if frontier == Antichain([0]):
                raise IncompleteError(f"no time is finished in {self._options.path} yet", what="")
            at = next((time - 1 for time in frontier if isinstance(time, int)), None)
        return [ContentPartition(at)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows, each once, with how often it is there. Raises as :func:`~cdcv2.logs.contents.contents`."""
        logs = self._options.logs()
        named = self._options.chosen(logs)[0]
        at = partition.at if isinstance(partition, ContentPartition) else None
        given = contents(some_covered(logs), at, [0], tables=[named.table])
        updates = ((row, at or 0, count) for row, count in given.rows[named.table])
        yield from arrow_batches(named.row_type, updates, self._schema, timeless=at is None)


class LogChangesReader(DataSourceStreamReader):
    """The changes of a table. It lives with the query, and reads what is new in the logs at each micro-batch."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        # Frontier -> the resume marks of all logs at it.
        self._marks = dict[Antichain, Mapping[str, Any]]()
        # The identity of the log that they are of.
        self._log: str | None = None

    def initialOffset(self) -> dict[str, Any]:
        """The beginning of the history."""
        return {"frontier": [0]}

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """The frontier that is finished in all the logs now. Cost: reads what came since the last call.

        Raises RefusedError for another log than that of ``start``, or of the last call.
        """
        begin = start or self.initialOffset()
        logs = self._options.logs()
        self._log = self._demand_log(self._options.chosen(logs), begin.get("log") or self._log)
        known = max(self._marks, key=_progress, default=Antichain(begin["frontier"]))
        reading = LogReader(
            some_covered(logs), start=known, begins=[0], marks=self._marks.get(known, {}), content=False
        )
        with reading:
            frontier = frontier_of(reading)
            if reading.short():
                raise _went_back(self._options, known, frontier)
            self._marks[frontier] = reading.marks()
        return {"frontier": _ints(frontier)} if self._log is None else {"frontier": _ints(frontier), "log": self._log}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One, where there is something between. Raises RefusedError for a log that is behind the checkpoint."""
        lower, upper, log = Antichain(start["frontier"]), Antichain(end["frontier"]), end.get("log")
        if not upper.dominates(lower):
            raise _went_back(self._options, lower, upper)
        if lower == upper:
            return []
        return [ChangesPartition(tuple(_ints(lower)), tuple(_ints(upper)), self._marks.get(lower, {}), log)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes.

        Raises UsageError unless the partition is one of ours, RefusedError for another log, IncompleteError if the end
        is not reached any more.
        """
        if not isinstance(partition, ChangesPartition):
            raise UsageError(f"{partition!r} is no part of a stream of changes")
        named = self._options.chosen(self._options.logs())
        self._demand_log(named, partition.log)
        found, end = some_covered(named), Antichain(partition.end)
        with LogReader(found, start=partition.start, begins=[0], marks=partition.marks, whole=False) as reading:
            yield from arrow_batches(named[0].row_type, _changes(reading, end), self._schema)
            if not reading.frontier.dominates(end):
                raise IncompleteError(
                    f"{self._options.path} is {through_text(reading.frontier)} in {named[0].table}, and was finished "
                    f"up to {frontier_text(end)} before: bring the log back"
                )

    def commit(self, end: dict[str, Any]) -> None:
        """Forget what is needed for earlier micro-batches only."""
        done = Antichain(end["frontier"])
        self._marks = {frontier: marks for frontier, marks in self._marks.items() if frontier.dominates(done)}

    def stop(self) -> None:
        """Nothing is held open."""

    def _demand_log(self, named: Sequence[NamedLog], kept: str | None) -> str | None:
        """The identity of the log that is there. Raises RefusedError where that of an offset is another one."""
        there = identity_of_copies(description_of(one.log).identity for one in named)
        if kept is not None and there != kept:
            mend = "Begin again with a new checkpoint"
            raise RefusedError(other_log_text(f"the stream of {named[0].table}", kept, there, mend))
        return there


def register(spark: SparkSession) -> None:
    """Let a session know ``format("cdcv2")``.

    >>> register(spark)                                                                         # doctest: +SKIP
    >>> spark.read.format("cdcv2").option("table", "public.orders").load("logs").show()         # doctest: +SKIP
    """
    spark.dataSource.register(LogDataSource)


def changes_type(row_type: RowType) -> StructType:
    """The columns of a row type, and those of a change. Raises UsageError for what Spark cannot hold, and for a table
    that has a column of that name."""
    columns = spark_type(row_type)
    for name in (TIME, DIFF):
        if name in columns.names:
            raise UsageError(f"the table has a column {name}, as changes have one: read it with replay")
    return columns.add(TIME, LongType()).add(DIFF, LongType())


def frontier_of(reading: LogReader) -> Antichain:
    """How far logs are finished, read to their present ends."""
    for _ in reading:
        continue
    return reading.frontier


def arrow_batches(
    row_type: RowType, updates: Iterable[Update], schema: StructType, *, timeless: bool = False
) -> Iterator[pa.RecordBatch]:
    """Updates as Spark takes them. Raises UsageError where Arrow has no exact form of the rows."""
    wanted, left = to_arrow_schema(schema), iter(updates)
    while part := list(islice(left, _TOGETHER)):
        made = UpdateBatch.of(row_type, part)
        if made is None:
            raise UsageError(f"Arrow has no exact form of {row_type}: read it with replay")
        times = pa.nulls(len(part), pa.int64()) if timeless else made.times
        columns = [
            _typed(column, field.type) for column, field in zip([*made.rows.columns, times, made.diffs], wanted)
        ]
        yield from pa.Table.from_arrays(columns, schema=wanted).combine_chunks().to_batches()


def _changes(reading: LogReader, end: Antichain) -> Iterator[Update]:
    """What is not beyond the end; cuts may be greater than when the end was found."""
    for updates, frontier in reading:
        for changes in updates.values():
            yield from (change for change in changes if not end.less_equal(change[1]))
        if frontier.dominates(end):
            return


def _typed(column: Any, wanted: pa.DataType) -> Any:
    """A column in Spark's type: names inside rows are the database's, and Avro's on Spark."""
    if column.type == wanted:
        return column
    if pa.types.is_nested(wanted):
        return pa.array([_renamed(value, wanted) for value in column.to_pylist()], wanted)
    return column.cast(wanted)


def _renamed(value: Any, wanted: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(wanted):
        return {field.name: _renamed(one, field.type) for field, one in zip(wanted, value.values())}
    if pa.types.is_map(wanted):
        return [(key, _renamed(one, wanted.item_type)) for key, one in value]
    if pa.types.is_list(wanted):
        return [_renamed(one, wanted.value_type) for one in value]
    return value


def _ints(frontier: Antichain) -> list[int]:
    """The frontier as an offset has it."""
    return [time for time in frontier if isinstance(time, int)]


def _progress(frontier: Antichain) -> tuple[bool, list[int]]:
    """Sorts frontiers; the empty one is last."""
    return not frontier, _ints(frontier)


def _went_back(options: LogOptions, start: Antichain, end: Antichain) -> RefusedError:
    return RefusedError(
        f"{options.path} is finished up to {frontier_text(end)}, and the stream has given out everything up to "
        f"{frontier_text(start)}: a log lost its end, or is another one. Bring it back, or begin with a new checkpoint"
    )
