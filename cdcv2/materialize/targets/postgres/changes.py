"""Changes of a table in PostgreSQL: one COPY of the rows that go and come, and one MERGE that checks what is there.

A staged row has a key, what goes and what comes. The MERGE updates and deletes only where the row there is the one that
goes, and inserts only where none is: so as many rows as are staged are affected, or somebody's rows are not those of
the log. Nothing is looked up before.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cdcv2.errors import ViewError
from cdcv2.materialize.protocol.messages import DELETED, Changes, ConflictError, Field, Table
from cdcv2.materialize.targets.postgres.tables import PostgresTable, expression, type_of
from cdcv2.views.source_columns import demand_held, normal_of, source_column

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

#: What becomes of a staged row's key.
UPDATED, DELETES, INSERTED = 0, 1, 2
_MOST_COLUMNS = 400
_TRIGGERS = "SELECT tgname::text FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND NOT tgisinternal ORDER BY 1"
#: Rows of a message of COPY.
_AT_ONCE = 65_536
_CSV = pyarrow.csv.WriteOptions(include_header=False)


def takes_changes(table: Table, kept: Table) -> bool:
    """Whether PostgreSQL can check the changes of a table, which it has as ``kept``. Others take Loads and Stores.

    A row that goes and one that comes must fit into one row of a temporary table: a page holds 8,160 bytes of it, and a
    long value takes 18 there. And a column that is kept as the log has it, from before the source's type was known, may
    have a spelling of a value of which no comparison there knows that it is the same.
    """
    spelled = any(
        now.source is None and normal_of(field) is not None for field, now in zip(table.fields, kept.fields)
    )
    return not table.multiset and not spelled and len(table.fields) + len(table.values) <= _MOST_COLUMNS


class PostgresChanges:
    """The statements and the temporary table for changes of one table."""

    def __init__(self, table: PostgresTable) -> None:
        from psycopg import sql

        self._of = table
        fields, key = table.table.fields, table.table.key
        self._fields, self._width = fields, len(key)
        # By number, as a name twice as long might be too long.
        old = {field.name: sql.Identifier(f"old_{at}") for at, field in enumerate(table.table.values)}
        new = {field.name: sql.Identifier(f"new_{at}") for at, field in enumerate(fields)}
        names = {
            "t": table.identifier, "rows": sql.Identifier(f"cdcv2_changes_{table.number}"),
            "key": _listed("{n}", key, new), "staged": _listed("{n} {loose}", fields, new),
            "staged_old": _listed(", {o} {loose}", table.table.values, new, old, ""),
            "columns": _listed("{n}", fields, new), "old": _listed(", {o}", table.table.values, new, old, ""),
            "same": _listed("t.{c} = {into}", key, new, between=" AND "),
            "is_old": sql.SQL("TRUE{}").format(sql.SQL("").join(
                sql.SQL(" AND {}").format(_is_old(field, old[field.name])) for field in table.table.values
            )),
            "all": _listed("{c}", fields, new), "into": _listed("{into}", fields, new),
            "set": _listed("{c} = {into}", table.table.values, new),
            "free": sql.SQL("t.{}").format(sql.Identifier(DELETED)) if table.table.marked else sql.SQL("FALSE"),
            "key_into": _listed("s.{n}", key, new), "key_given": _listed("{given}", key, new),
            "there": _listed("{out}", fields, new),
        }  # fmt: skip

        def made(text: LiteralString) -> Composed:
            return sql.SQL(text).format(**names)

        self._create = made("CREATE TEMP TABLE {rows} ({staged}{staged_old}, change smallint) ON COMMIT DELETE ROWS")
        self._copy = made("COPY {rows} ({columns}{old}, change) FROM STDIN (FORMAT csv, ENCODING 'UTF8')")
        # Otherwise the planner guesses how many rows there are. Only the key is what it asks for.
        self._analyse = made("ANALYZE {rows} ({key})")
        self._merge = made(
            "MERGE INTO {t} t USING {rows} s ON {same} WHEN MATCHED AND s.change = 1 AND {is_old} THEN DELETE "
            + ("WHEN MATCHED AND (s.change = 0 AND {is_old} OR s.change = 2 AND {free}) THEN UPDATE SET {set} "
               if table.table.values else "")
            + "WHEN NOT MATCHED AND s.change = 2 THEN INSERT ({all}) VALUES ({into})"
        )  # fmt: skip
        self._odd = made(
            "SELECT {key_given}, t.ctid IS NOT NULL, {there} FROM {rows} s LEFT JOIN {t} t ON {same} WHERE CASE "
            "WHEN s.change = 2 THEN t.ctid IS NOT NULL AND NOT {free} ELSE t.ctid IS NULL OR NOT ({is_old}) END "
            "ORDER BY {key_into} LIMIT 1"
        )
        self._first = made("SELECT {key_given} FROM {rows} s ORDER BY s.change DESC, {key_into} LIMIT 1")
        #: how many rows are staged
        self.rows = 0

    def make(self, session: Connection[Any]) -> None:
        """Make the temporary table."""
        session.execute(self._create)

    def stage(self, session: Connection[Any], message: Changes) -> None:
        """Copy them. Raises MalformedError for a value that its column would round."""
        self._demand_held(message.come)
        gone, come, both = message.gone, message.come, message.both
        staged = [
            self._staged(gone.slice(0, both), come.slice(0, both), UPDATED),
            self._staged(gone.slice(both), None, DELETES),
            self._staged(None, come.slice(both), INSERTED),
        ]
        with session.cursor().copy(self._copy) as copy:
            for table in staged:
                for part in table.to_batches(_AT_ONCE):
                    out = io.BytesIO()
                    pyarrow.csv.write_csv(part, out, _CSV)
                    copy.write(out.getbuffer())
                    self.rows += part.num_rows

    def merge(self, session: Connection[Any]) -> bool:
        """Merge what is staged, in the transaction that is open; False, and nothing is merged, when rows differ."""
        session.execute(self._analyse)
        session.execute("SAVEPOINT cdcv2_changes")
        merged: bool = session.execute(self._merge).rowcount == self.rows
        self.rows = 0
        if not merged:
            session.execute("ROLLBACK TO cdcv2_changes")
        return merged

    def conflict(self, session: Connection[Any]) -> ViewError:
        """Of what is staged and was not merged: the first key where the table has another row."""
        name, binding = self._of.name, self._of.number
        row = session.execute(self._odd).fetchone()
        if row is None:
            # The table is as it should be, so something has kept PostgreSQL from writing: the first key that was to be.
            staged = session.execute(self._first).fetchone() or ()
            triggers = [one for (one,) in session.execute(_TRIGGERS, [self._of.place(session)]).fetchall()]
            by = f": its triggers are {', '.join(triggers)}" if triggers else ""
            return ViewError(name, self._of.inward_key(staged), f"PostgreSQL wrote fewer rows than it was given{by}")
        width = self._width
        key = self._of.inward_key(row[:width])
        there = self._of.inward(row[width + 1:])[1] if row[width] else None
        return ConflictError(name, binding, key, there)

    def _demand_held(self, rows: pa.Table) -> None:
        for field, column in zip(self._fields, rows.columns):
            if source_column(field.source, field.kind) is not None:
                for value in pc.unique(column).to_pylist():
                    demand_held(field, value, self._of.name)

    def _staged(self, gone: pa.Table | None, come: pa.Table | None, change: int) -> pa.Table:
        """Rows of the temporary table: the key, what comes, what goes, and what becomes of it."""
        given = come if come is not None else gone
        if given is None:
            raise ValueError("neither rows that go nor rows that come")
        keys, values = given.columns[: self._width], range(self._width, len(self._fields))
        columns = [
            *(_text(column) for column in keys),
            *(_text(come.column(at)) if come is not None else pa.nulls(len(given)) for at in values),
            *(_text(gone.column(at)) if gone is not None else pa.nulls(len(given)) for at in values),
            pa.repeat(pa.scalar(change, pa.int16()), len(given)),
        ]
        return pa.table(columns, [str(at) for at in range(len(columns))])


def _listed(
    text: LiteralString, fields: Sequence[Field], new: dict[str, Any], old: dict[str, Any] | None = None,
    between: LiteralString = ", ",
) -> Composed:
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


def _is_old(field: Field, old: Composable) -> Composed:
    """Whether the column is what goes. Types of the source may have no equality, or one that is wider: their text has.

    Text is compared by its bytes, whatever the column's collation.
    """
    from psycopg import sql

    there, staged = sql.SQL("t.{}").format(sql.Identifier(field.name)), sql.SQL("s.{}").format(old)
    if source_column(field.source, field.kind) is not None:
        typed = sql.SQL("({})::{}").format(expression(field, "into", staged), sql.SQL(type_of(field)))
        there, staged = sql.SQL("({})::text").format(there), sql.SQL("({})::text").format(typed)
    elif field.kind != "string":
        return sql.SQL("{} IS NOT DISTINCT FROM {}").format(there, staged)
    return sql.SQL('{} COLLATE "C" IS NOT DISTINCT FROM {} COLLATE "C"').format(there, staged)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as COPY reads it from CSV, where Arrow writes it otherwise."""
    if pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    if pa.types.is_binary(column.type):
        values = [None if one is None else "\\x" + one.hex() for one in column.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.string())])
    return column
