"""What tables hold at one time, as an answer: rows, Arrow tables, pandas frames, and how a notebook shows it."""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cdcv2.completeness import committed_text, through_text, time_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.core.order import Time
from cdcv2.errors import MalformedError, MissingExtraError, MissingLogError, UsageError
from cdcv2.rows.row_type import Row, RowType

#: Why a row goes that was never there, where a log states no more.
NO_WHOLE_HISTORY = "the log does not hold the whole history, or its writer was wrong"
#: Rows and letters of a value that a notebook shows.
SHOWN_ROWS, _SHOWN_LETTERS = 10, 40


class TablesAtTime:
    """What tables hold at one time. ``state["orders"]`` is one of them; iterate for their names."""

    def __init__(
        self, tables: Mapping[str, TableAtTime], at: Time | None, frontier: Antichain,
        committed_at: float | None = None,
    ) -> None:
        self._tables = dict(tables)
        #: the time that was asked for; None: the last one that was finished
        self.at = at
        #: Everything not beyond it was finished when it was asked.
        self.frontier = frontier
        #: When the last of what the tables hold was committed, in seconds since 1970; None where that is not known.
        self.committed_at = committed_at

    @property
    def age(self) -> float | None:
        """How many seconds ago the last of it was committed, by the clocks of its source and of this machine."""
        return None if self.committed_at is None else max(0.0, time.time() - self.committed_at)

    @property
    def tables(self) -> list[str]:
        """The tables of which something is stated at the time."""
        return list(self._tables)

    def __getitem__(self, table: str) -> TableAtTime:
        return self._tables[one_of(table, self.tables)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def to_arrow(self, table: str | None = None) -> Any:
        """A table as a pyarrow.Table; see :meth:`TableAtTime.to_arrow`. ``table`` may be None if there is one."""
        return self._tables[one_of(table, self.tables)].to_arrow()

    def to_pandas(self, table: str | None = None) -> Any:
        """A table as a pandas.DataFrame; see :meth:`TableAtTime.to_pandas`."""
        return self._tables[one_of(table, self.tables)].to_pandas()

    def when(self) -> str:
        """The time, for people."""
        return through_text(self.frontier) if self.at is None else f"at {time_text(self.at)}"

    def __repr__(self) -> str:
        held = ", ".join(f"{name} {len(table)} rows" for name, table in self._tables.items())
        return f"TablesAtTime({self.when()}: {held}{committed_text(self.committed_at, time.time())})"

    def _repr_html_(self) -> str:
        lines = [(name, f"{len(held):,}") for name, held in self._tables.items()]
        ago = committed_text(self.committed_at, time.time())
        return f"<p>{html.escape(self.when())}{ago}</p>{html_table(['table', 'rows'], lines)}"


class TableAtTime:
    """What one table holds at one time: as long as there are rows; iterate for each row, as often as it is there.
    """

    def __init__(self, table: str, row_type: RowType, rows: ChangeBatch[Row]) -> None:
        #: the table, and what its rows are
        self.table, self.row_type = table, row_type
        self._rows = rows

    def counts(self) -> Iterator[tuple[Row, int]]:
        """Each row once, and how often it is there."""
        return iter(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return (row for row, count in self._rows for _ in range(count))

    def __len__(self) -> int:
        return sum(count for _, count in self._rows)

    def to_arrow(self) -> Any:
        """The rows as a pyarrow.Table with the columns of the table; a row that is there n times is n rows.

        Raises UsageError where Arrow has no exact form of the rows. Cost: about a microsecond a row.
        """
        import pyarrow as pa

        from cdcv2.rows.columns import UpdateBatch

        made = UpdateBatch.of(self.row_type, [(row, 0, count) for row, count in self._rows])
        if made is None:
            raise UsageError(
                f"Arrow has no exact form of the rows of {self.table}, {self.row_type}: iterate over this, or counts()"
            )
        if len(self) == len(made):
            return made.rows
        places = [place for place, (_, count) in enumerate(self._rows) for _ in range(count)]
        return made.rows.take(pa.array(places, pa.int64()))

    def to_pandas(self) -> Any:
        """The same as a pandas.DataFrame, as pyarrow makes it. Raises MissingExtraError without pandas."""
        try:
            import pandas  # noqa: F401
        except ImportError as cause:
            raise MissingExtraError("to_pandas() needs pandas", "spark") from cause
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        return f"TableAtTime({self.table}: {len(self)} rows)"

    def _repr_html_(self) -> str:
        columns = list(self.row_type.columns)
        shown = [self.row_type.to_plain(row).values() for row in islice(self, SHOWN_ROWS)]
        lines = [[short_value(value) for value in row] for row in shown]
        more = len(self) - len(lines)
        under = f"<p>and {more:,} more rows</p>" if more > 0 else ""
        return f"<p>{html.escape(self.table)}: {len(self):,} rows</p>{html_table(columns, lines)}{under}"


def demand_no_less(table: str, row_type: RowType, rows: Iterable[tuple[Row, int]], when: str, why: str) -> None:
    """Raise MalformedError if a row is there less than zero times; ``when`` and ``why`` are for people."""
    for row, count in rows:
        if count < 0:
            raise MalformedError(f"at {when}, {row_type.text(row)} is in {table} {count} times: {why}")


def one_of(table: str | None, tables: Sequence[str]) -> str:
    """The table, or the only one. Raises UsageError where one is to be named, MissingLogError for an unknown one.

    >>> one_of(None, ["orders"])
    'orders'
    """
    if table is None and len(tables) == 1:
        return tables[0]
    there = ", ".join(tables) or "none"
    if table is None:
        raise UsageError(f"name one of the tables {there}: there are several")
    if table not in tables:
        raise MissingLogError(f"there is no table {table!r} here; there are {there}")
    return table


def html_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table for a notebook.

    >>> html_table(["a"], [["<1>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{html.escape(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(one)}</td>' for one in line)}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def short_value(value: Any) -> str:
    """A value as a cell of a notebook's table has it."""
    text = "NULL" if value is None else str(value)
    return text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS - 1]}…"
