"""Changes of a table in PostgreSQL: one COPY of what changes, and one MERGE that checks what is there.

The MERGE affects only rows that are there as the changes need it: so as many rows as are staged are affected, or
somebody's rows are not those of the log. Nothing is looked up before. What is staged and checked is another thing for
rows by key (:mod:`.keyed_changes`) than for multisets (:mod:`.count_changes`).
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, LiteralString

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cdcv2.errors import ViewError
from cdcv2.materialize.protocol.messages import Changes, ConflictError, Field, Table
from cdcv2.materialize.targets.postgres.tables import PostgresTable, expression, type_of
from cdcv2.rows.columns import chunked
from cdcv2.views.source_columns import demand_held, is_limited, normal_of, source_column

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

_MOST_COLUMNS = 330
_TRIGGERS = "SELECT tgname::text FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND NOT tgisinternal ORDER BY 1"
#: Rows of a message of COPY.
_AT_ONCE = 65_536
_CSV = pyarrow.csv.WriteOptions(include_header=False)


def takes_changes(table: Table, kept: Table) -> bool:
    """Whether PostgreSQL can check the changes of a table, which it has as ``kept``. Others take Loads and Stores.

    Of a multiset only the digests are compared. By key, a row that goes and one that comes must fit into one row of a
    temporary table: a page holds 8,160 bytes of it, and a value takes up to 24 there (a longer one is stored beside it,
    and takes 18). And a column that is kept as the
    log has it, from before the source's type was known, may have a spelling of a value of which no comparison there
    knows that it is the same.
    """
    spelled = any(
        now.source is None and normal_of(field) is not None for field, now in zip(table.fields, kept.fields)
    )
    return table.multiset or not spelled and len(table.fields) + len(table.values) <= _MOST_COLUMNS


class PostgresChanges(ABC):
    """The statements and the temporary table for changes of one table.

    A subclass makes the statements: ``create``, ``copy`` and ``merge``; ``odd``, which selects of the first staged row
    that was in the way its key, whether the table has it, and what it has there. The temporary table has the columns of
    ``new``, and ``change``, which is greatest in rows that are to be inserted.
    """

    create: Composed
    copy: Composed
    merge: Composed
    odd: Composed

    def __init__(self, table: PostgresTable) -> None:
        from psycopg import sql

        self.of = table
        self.fields, self.width = table.table.fields, len(table.table.key)
        key, rows = table.table.key, sql.Identifier(f"cdcv2_changes_{table.number}")
        # By number, as a name twice as long might be too long.
        new = self.new = {field.name: sql.Identifier(f"new_{at}") for at, field in enumerate(self.fields)}
        self._keys = rows, [new[field.name] for field in key]
        #: what the statements are put together of
        self.names: dict[str, Composable] = {
            "t": table.identifier, "rows": rows, "same": listed("t.{c} = {into}", key, new, between=" AND "),
            "all": listed("{c}", self.fields, new), "into": listed("{into}", self.fields, new),
            "key_into": listed("s.{n}", key, new), "key_given": listed("{given}", key, new),
            "there": listed("{out}", self.fields, new),
        }  # fmt: skip
        # Otherwise the planner guesses how many rows there are. Only the key is what it asks for.
        self._analyse = sql.SQL("ANALYZE {} ({})").format(rows, listed("{n}", key, new))
        self._first = self.made("SELECT {key_given} FROM {rows} s ORDER BY s.change DESC, {key_into} LIMIT 1")
        #: how many rows are staged
        self.rows = 0

    def made(self, text: LiteralString) -> Composed:
        """A statement of ``names``."""
        from psycopg import sql

        return sql.SQL(text).format(**self.names)

    @abstractmethod
    def staged(self, message: Changes) -> Iterable[pa.Table]:
        """Rows of the temporary table, in the order of ``copy``."""

    def make(self, session: Connection[Any]) -> None:
        """Make the temporary table."""
        session.execute(self.create)

    def stage(self, session: Connection[Any], message: Changes) -> None:
        """Copy them. Raises MalformedError for a value that its column would round."""
        demand_all_held(self.of.name, self.fields, message.come)
        with session.cursor().copy(self.copy) as copy:
            for table in self.staged(message):
                for part in table.to_batches(_AT_ONCE):
                    out = io.BytesIO()
                    pyarrow.csv.write_csv(part, out, _CSV)
                    copy.write(out.getbuffer())
                    self.rows += part.num_rows

    def merged(self, session: Connection[Any]) -> bool:
        """Merge what is staged, in the transaction that is open; False, and nothing is merged, when rows differ."""
        session.execute(self._analyse)
        merged = self.of.merged(session, self.merge, *self._keys) == self.rows
        self.rows = 0
        if not merged:
            self.of.take_back(session)
        return merged

    def conflict(self, session: Connection[Any]) -> ViewError:
        """Of what is staged and was not merged: the first key where the table has another row.

        Raises RefusedError for a key that is there in another spelling.
        """
        self.of.demand_unequal_keys(session, *self._keys)
        name, binding = self.of.name, self.of.number
        row = session.execute(self.odd).fetchone()
        if row is None:
            # The table is as it should be, so something has kept PostgreSQL from writing: the first key that was to be.
            staged = session.execute(self._first).fetchone() or ()
            triggers = [one for (one,) in session.execute(_TRIGGERS, [self.of.place(session)]).fetchall()]
            by = f": its triggers are {', '.join(triggers)}" if triggers else ""
            return ViewError(name, self.of.inward_key(staged), f"PostgreSQL wrote fewer rows than it was given{by}")
        key = self.of.inward_key(row[: self.width])
        there = self.of.inward(row[self.width + 1:])[1] if row[self.width] else None
        return ConflictError(name, binding, key, there)


def demand_all_held(name: str, fields: Sequence[Field], rows: pa.Table) -> None:
    """Raise MalformedError if a column of the table would round or cut a value of these rows.

    Cost: the values of columns whose types do not hold all that the log may have, each once in a chunk.
    """
    for field, column in zip(fields, rows.columns):
        if source_column(field.source, field.kind) is not None and is_limited(field.source):
            # Arrow finds 2 GB of different values at most.
            for value in chain.from_iterable(pc.unique(chunk).to_pylist() for chunk in column.chunks):
                demand_held(field, value, name)


def listed(
    text: LiteralString, fields: Sequence[Field], new: Mapping[str, Composable],
    old: Mapping[str, Composable] | None = None, between: LiteralString = ", ",
) -> Composed:
    """The text once for each of these columns: ``{c}`` is its name in the table, and ``{loose}`` its type as staged.

    ``{n}`` is its name where what comes is staged, ``{o}`` where what goes is; ``{into}`` is what is put into the
    table, ``{given}`` what the table would give of it, and ``{out}`` what it gives.
    """
    from psycopg import sql

    return sql.SQL(between).join(
        sql.SQL(text).format(
            c=sql.Identifier(field.name), n=new[field.name], o=(old or {}).get(field.name, sql.SQL("")),
            loose=sql.SQL(type_of(replace(field, source=None))),
            into=_put(field, new[field.name]),
            # As the column would give it.
            given=expression(field, "out", sql.SQL("({})::{}").format(
                _put(field, new[field.name]), sql.SQL(type_of(field)))),
            out=expression(field, "out", sql.SQL("t.{}").format(sql.Identifier(field.name))),
        )
        for field in fields
    )  # fmt: skip


def _put(field: Field, staged: Composable) -> Composed:
    """What is put into the column, of what is staged."""
    from psycopg import sql

    return expression(field, "into", sql.SQL("s.{}").format(staged))


def texts_of(columns: Iterable[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Columns as COPY reads them from CSV, where Arrow writes them otherwise."""
    return [_text(column) for column in columns]


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    if pa.types.is_binary(column.type):
        parts = [[None if one is None else "\\x" + one.hex() for one in part.to_pylist()] for part in column.chunks]
        return pa.chunked_array([one for part in parts for one in chunked(part, pa.string()).chunks], pa.string())
    return column
