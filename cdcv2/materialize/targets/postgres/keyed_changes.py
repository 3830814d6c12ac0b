"""Changes of rows by key in PostgreSQL: a staged row has a key, what goes and what comes.

The MERGE updates and deletes only where the row there is the one that goes, and inserts only where none is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from cdcv2.materialize.protocol.messages import DELETED, Changes, Field
from cdcv2.materialize.targets.postgres.changes import PostgresChanges, listed, texts_of
from cdcv2.materialize.targets.postgres.tables import PostgresTable, expression, type_of
from cdcv2.views.source_columns import source_column

if TYPE_CHECKING:
    from psycopg.sql import Composable, Composed

#: What becomes of a staged row's key.
UPDATED, DELETES, INSERTED = 0, 1, 2


class KeyedChanges(PostgresChanges):
    """Those of one table with a key."""

    def __init__(self, table: PostgresTable) -> None:
        from psycopg import sql

        super().__init__(table)
        values, new = table.table.values, self.new
        old = {field.name: sql.Identifier(f"old_{at}") for at, field in enumerate(values)}
        self.names |= {
            "staged": listed("{n} {loose}", self.fields, new), "columns": listed("{n}", self.fields, new),
            "staged_old": listed(", {o} {loose}", values, new, old, ""), "old": listed(", {o}", values, new, old, ""),
            "is_old": sql.SQL("TRUE{}").format(sql.SQL("").join(
                sql.SQL(" AND {}").format(_is_old(field, old[field.name])) for field in values
            )),
            "set": listed("{c} = {into}", values, new),
            "free": sql.SQL("FALSE") if not table.table.marked else sql.SQL("(t.{}{})").format(
                sql.Identifier(DELETED), sql.SQL("").join(
                    # Otherwise it would stay in the spelling of the one that was deleted.
                    sql.SQL(" AND {}").format(_is_old(field, new[field.name])) for field in table.table.key
                )
            ),
        }  # fmt: skip
        self.create = self.made(
            "CREATE TEMP TABLE {rows} ({staged}{staged_old}, change smallint) ON COMMIT DELETE ROWS"
        )
        self.copy = self.made("COPY {rows} ({columns}{old}, change) FROM STDIN (FORMAT csv, ENCODING 'UTF8')")
        self.merge = self.made(
            "MERGE INTO {t} t USING {rows} s ON {same} WHEN MATCHED AND s.change = 1 AND {is_old} THEN DELETE "
            + ("WHEN MATCHED AND (s.change = 0 AND {is_old} OR s.change = 2 AND {free}) THEN UPDATE SET {set} "
               if values else "")
            + "WHEN NOT MATCHED AND s.change = 2 THEN INSERT ({all}) VALUES ({into})"
        )  # fmt: skip
        self.odd = self.made(
            "SELECT {key_given}, t.ctid IS NOT NULL, {there} FROM {rows} s LEFT JOIN {t} t ON {same} WHERE CASE "
            "WHEN s.change = 2 THEN t.ctid IS NOT NULL AND NOT {free} ELSE t.ctid IS NULL OR NOT ({is_old}) END "
            "ORDER BY {key_into} LIMIT 1"
        )

    def staged(self, message: Changes) -> Iterable[pa.Table]:
        """The keys that change, those that go, and those that come."""
        gone, come, both = message.gone, message.come, message.both
        yield self._staged(gone.slice(0, both), come.slice(0, both), UPDATED)
        yield self._staged(gone.slice(both), None, DELETES)
        yield self._staged(None, come.slice(both), INSERTED)

    def _staged(self, gone: pa.Table | None, come: pa.Table | None, change: int) -> pa.Table:
        """The key, what comes, what goes, and what becomes of it."""
        given = come if come is not None else gone
        if given is None:
            raise ValueError("neither rows that go nor rows that come")
        none = [pa.nulls(len(given))] * (len(self.fields) - self.width)
        columns = [
            *texts_of(given.columns[: self.width]),
            *(none if come is None else texts_of(come.columns[self.width:])),
            *(none if gone is None else texts_of(gone.columns[self.width:])),
            pa.repeat(pa.scalar(change, pa.int16()), len(given)),
        ]
        return pa.table(columns, [str(at) for at in range(len(columns))])


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
