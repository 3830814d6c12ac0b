"""What :func:`cdcv2.open` gives: logs that are asked from Python what their tables hold at one time.

Every question reads the logs again, so each answer is as new as they are; nothing stays in memory but the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product, Time, check_time
from cdcv2.errors import UsageError
from cdcv2.logs.contents import contents
from cdcv2.logs.named_logs import NamedLog, covered, some_covered
from cdcv2.logs.read import LogReader, logs_of
from cdcv2.logs.tables_at_time import TableAtTime, TablesAtTime, html_table, one_of
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times, check_kind, least_time


class OpenLogs:
    """Logs of one timeline; ask what their tables hold. Not for several threads at once.

    >>> import cdcv2, tempfile
    >>> folder = tempfile.mkdtemp() + "/fruit"
    >>> fruit = RowType.load({"type": "record", "name": "fruit", "fields": [{"name": "name", "type": "string"}]})
    >>> with cdcv2.Writer(cdcv2.DirectoryLog(folder, fruit, create=True)) as writer:
    ...     writer.extend([(fruit.row(["apple"]), 1, +2), (fruit.row(["apple"]), 3, -1)])
    ...     writer.advance([4])
    >>> logs = cdcv2.open(folder)
    >>> logs.as_of(2)
    TablesAtTime(at 2: fruit 2 rows)
    >>> logs.to_arrow().to_pylist()
    [{'name': 'apple'}]
    """

    def __init__(self, logs: Sequence[NamedLog], start: Iterable[Time]) -> None:
        self._logs, self._start = list(logs), list(start)

    @property
    def tables(self) -> list[str]:
        """The tables whose logs these are; several logs of one table are copies."""
        return list(dict.fromkeys(named.table for named in self._logs))

    def log(self, table: str | None = None) -> Log:
        """The log of a table, for a Writer or for ``Iter(log.read())``; of several copies the first.

        Raises UsageError where there are several tables and none is named, MissingLogError for a table that is not
        there.
        """
        return self._named(table).log

    def row_type(self, table: str | None = None) -> RowType:
        """What the rows of a table are. Raises as :meth:`log`."""
        return self._named(table).row_type

    @property
    def since(self) -> Antichain:
        """From where on the history of every table is there: earlier times cannot be asked for.

        The updates may begin later: at what is before the first one in any log, nothing is known. Cost: a look at each
        log's description.
        """
        found = some_covered(self._logs)
        start = Antichain(self._start)
        for table in {named.table for named in found.logs}:
            start = start.join(found.of.start(table, Antichain(self._start)))
        return start

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is finished, in every log, now. Cost: reads the logs. Raises what reading does."""
        reading = LogReader(some_covered(self._logs), start=self._start, content=False)
        for _ in reading:
            continue
        return reading.frontier

    def as_of(self, at: Time | None = None) -> TablesAtTime:
        """What the tables hold at one time, with everything up to and including it; None: at the last finished time.

        Raises UsageError for what is no time, and for a time before the history; IncompleteError for a time that is not
        finished in every log, and where none is; and what reading the logs raises. Cost: reads the logs up to the time.
        Memory: the rows.
        """
        if at is not None:
            _demand_time(at, self._logs)
        given = contents(some_covered(self._logs), at, self._start)
        types = {named.table: named.row_type for named in self._logs}
        held = {table: TableAtTime(table, types[table], rows) for table, rows in given.rows.items()}
        return TablesAtTime(held, at, given.frontier)

    def to_arrow(self, table: str | None = None) -> Any:
        """What a table holds at the last finished time, as a pyarrow.Table; as :meth:`TablesAtTime.to_arrow`."""
        return self._now(table).to_arrow()

    def to_pandas(self, table: str | None = None) -> Any:
        """The same as a pandas.DataFrame; as :meth:`TablesAtTime.to_pandas`."""
        return self._now(table).to_pandas()

    def close(self) -> None:
        """Close the logs."""
        for named in self._logs:
            named.log.close()

    def _now(self, table: str | None) -> TableAtTime:
        name = self._named(table).table
        return self.as_of()[name]

    def _named(self, table: str | None) -> NamedLog:
        name = one_of(table, self.tables)
        return next(named for named in self._logs if named.table == name)

    def __enter__(self) -> OpenLogs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenLogs({', '.join(self.tables)})"

    def _repr_html_(self) -> str:
        of = covered(self._logs).of
        lines = [
            (named.table, ", ".join(named.row_type.columns), str(named.log.name), of.text(named.table)
             if named.table in of.uncovered else "")
            for named in self._logs
        ]
        return html_table(["table", "columns", "log", ""], lines)


def open_logs_at(
    addresses: str | Path | LogAddress | Iterable[str | Path | LogAddress], *,
    rows: RowType | str | Path | Mapping[str, RowType | str | Path] | None = None, bootstrap: str | None = None,
    config_file: str | Path | None = None, times: Times = "int", timeline: str | None = None,
    start: Iterable[Time] | None = None,
) -> OpenLogs:
    """See :func:`cdcv2.open`."""
    logs = logs_of(addresses, rows=rows, bootstrap=bootstrap, config_file=config_file, times=times, timeline=timeline)
    return OpenLogs(logs, [least_time(logs[0].times)] if start is None else start)


def _demand_time(at: object, logs: Sequence[NamedLog]) -> None:
    """Raise UsageError unless it is a time of the logs."""
    if isinstance(at, bool) or not isinstance(at, (int, Product)):
        raise UsageError(
            f"{at!r} is no time: give a whole number (by commit times the LSN as a number: of 0/217EF70 "
            "int('217EF70', 16), and 2**32 times what stands before the stroke; on a remap milliseconds), or leave it "
            "out for the last finished time. cdcv2 as-of --at takes moments of the clock"
        )
    check_time(at)
    for named in logs:
        check_kind(named.times, at)
