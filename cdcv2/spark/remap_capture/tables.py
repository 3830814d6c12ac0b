"""The logs of a database's tables on a shared remap, on Spark: what the output without Spark asks of its writers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cdcv2.capture.run.log_starts import LogStarts
from cdcv2.core.order import Time
from cdcv2.protocol.log import Log
from cdcv2.protocol.writer import Writer
from cdcv2.spark.capture.logs import TableLogs


class BoundTables:
    """Logs that executors write: the :class:`~cdcv2.capture.run.table_writers.Tables` of a database."""

    def __init__(self, logs: TableLogs) -> None:
        self._logs = logs

    @property
    def logs(self) -> Mapping[str, Log]:
        """Those of all tables."""
        return dict(zip(self._logs.tables, self._logs.all()))

    @property
    def writers(self) -> Mapping[str, Writer]:
        """None on the driver."""
        return {}

    @property
    def log_starts(self) -> LogStarts:
        """As the logs state."""
        return self._logs.log_starts

    def log_frontiers(self) -> dict[str, int]:
        """For each table that is covered, up to where its log is stated."""
        return dict(self._logs.known)

    def spans(self) -> dict[str, tuple[Time, Time] | None]:
        """The first and the last time at which each log has updates; None: it has none."""
        return dict(self._logs.spans)

    def rows(self) -> dict[str, tuple[int, int]]:
        """Of each log that begins with the history how many rows its table has, and at which time."""
        return self._logs.rows()

    def cover(self, uncovered: Collection[str], begins: Mapping[str, int], partial: Iterable[str] = ()) -> None:
        """Have the logs state which tables are not covered, and where those begin that are from now on."""
        self._logs.cover(uncovered, begins, partial)

    def assume(self, empty: Iterable[str]) -> None:
        """Have the logs of these tables state that they were empty at the snapshot."""
        self._logs.assume(empty)

    def close(self) -> None:
        """Release the logs. States nothing."""
        self._logs.close()
