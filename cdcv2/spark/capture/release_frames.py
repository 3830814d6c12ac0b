"""The logs of a capture on Spark, with the updates of one release: executors write these, and the driver states them.

In which order is not decided here, but where every capture has it, in :mod:`cdcv2.capture.updates_then_statements`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from cdcv2.capture.updates_then_statements import Advance
from cdcv2.errors import UnsafeTopicError
from cdcv2.spark.capture.logs import CHANGES, TableLogs, WriteCounts
from cdcv2.timeline.binding import check_int

#: About so many rows go into one task of a write: fewer make small messages, more make slow tasks.
ROWS_PER_TASK = 20_000


class ReleaseChanges(NamedTuple):
    """What a release changes: a frame of CHANGES (None: nothing), of about so many ``rows``.

    ``expected`` has how many records, or distinct ``updates``, there are of each table and time; None: that is not
    known before they are written.
    """

    frame: DataFrame | None
    rows: int
    expected: Mapping[tuple[str, int], int] | None = None
    updates: bool = False


class FrameLogs:
    """The :class:`~cdcv2.capture.updates_then_statements.LogSet` whose rows executors hold.

    ``written`` is what was made durable.

    Raises UnsafeTopicError where other rows are written than were expected, before anything is stated of them.
    """

    def __init__(self, logs: TableLogs, changes: ReleaseChanges, spark: SparkSession) -> None:
        self._logs, self._changes, self._spark = logs, changes, spark
        self.written: dict[tuple[str, int], WriteCounts] = {}

    @property
    def tables(self) -> Collection[str]:
        """Those that are covered."""
        return list(self._logs.known)

    def cover(self, advance: Advance) -> None:
        """By the driver."""
        self._logs.cover(advance.uncovered, advance.begins, advance.partial)
        self._logs.assume(advance.empty)

    def stage(self, advance: Advance) -> Iterator[str]:
        """All tables at once. Where nothing changes, what a log holds that no statement counts is another history."""
        changes, upper = self._changes, _int(advance)
        if changes.frame is not None or self._logs.has_orphans(upper):
            tasks = min(changes.rows // ROWS_PER_TASK, 4 * self._spark.sparkContext.defaultParallelism)
            self._spark.conf.set("spark.sql.shuffle.partitions", str(max(1, tasks)))
            frame = self._spark.createDataFrame([], CHANGES) if changes.frame is None else changes.frame
            self.written = self._logs.write(frame, upper)
        if changes.expected is not None:
            _check(self.written, changes.expected, updates=changes.updates)
        yield from self.tables

    def state(self, table: str, advance: Advance) -> bool:
        """The driver states it, with the numbers that the executors have reported."""
        counts = {time: done.identities for (of, time), done in self.written.items() if of == table}
        more = {time: done.more for (of, time), done in self.written.items() if of == table}
        return self._logs.state(table, _int(advance), counts, more)


def _check(
    written: Mapping[tuple[str, int], WriteCounts], expected: Mapping[tuple[str, int], int], *, updates: bool
) -> None:
    """Raise UnsafeTopicError unless what was written is what was counted before: records must not vanish or change."""
    what = "updates" if updates else "rows"
    for table, time in sorted(written.keys() | expected.keys()):
        done, wanted = written.get((table, time), WriteCounts(0, 0, 0)), expected.get((table, time), 0)
        found = done.identities if updates else done.records
        if found != wanted:
            raise UnsafeTopicError(
                f"{wanted} {what} of {table} at time {time} were read in its topic, and then {found} were found "
                "there: something removes or rewrites its records. Nothing is stated of them. Set "
                "cleanup.policy=delete and a longer retention.ms on the source's topics, and start again"
            )


def _int(advance: Advance) -> int:
    return check_int(advance.frontier.elements[0])
