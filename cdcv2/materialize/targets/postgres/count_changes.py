"""Changes of a multiset in PostgreSQL: a staged row has its digest, and by how much its count changes.

The MERGE adds that to the count, removes a row whose count is 0 (of a table that keeps such rows, it does not), and
inserts a row that is not there. It leaves out a row that goes and is not there as often. Of a row that is there only
the count is written: its columns are those of its digest.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from cdcv2.materialize.protocol.messages import Changes
from cdcv2.materialize.targets.postgres.changes import PostgresChanges, listed, texts_of
from cdcv2.materialize.targets.postgres.tables import PostgresTable


class CountChanges(PostgresChanges):
    """Those of one multiset."""

    def __init__(self, table: PostgresTable) -> None:
        from psycopg import sql

        super().__init__(table)
        *rows, count = self.fields
        counted = sql.SQL("t.{}").format(sql.Identifier(count.name))
        self.names |= {
            "staged": listed("{n} {loose}", rows, self.new), "columns": listed("{n}", rows, self.new),
            "row": listed("{into}", rows, self.new), "count": sql.Identifier(count.name),
            "then": sql.SQL("{} + s.change").format(counted), "before": counted,
            "least": sql.SQL("1" if table.table.erased else "0"),
        }  # fmt: skip
        self.create = self.made("CREATE TEMP TABLE {rows} ({staged}, change bigint) ON COMMIT DELETE ROWS")
        self.copy = self.made("COPY {rows} ({columns}, change) FROM STDIN (FORMAT csv, ENCODING 'UTF8')")
        self.merge = self.made(
            "MERGE INTO {t} t USING {rows} s ON {same} "
            "WHEN MATCHED AND {then} >= {least} THEN UPDATE SET {count} = {then} "
            + ("WHEN MATCHED AND {then} = 0 THEN DELETE " if table.table.erased else "")
            + "WHEN NOT MATCHED AND s.change > 0 THEN INSERT ({all}) VALUES ({row}, s.change)"
        )
        self.odd = self.made(
            "SELECT {key_given}, t.ctid IS NOT NULL, {there} FROM {rows} s LEFT JOIN {t} t ON {same} "
            "WHERE s.change + coalesce({before}, 0) < 0 ORDER BY {key_into} LIMIT 1"
        )

    def staged(self, message: Changes) -> Iterable[pa.Table]:
        """Of a row that goes, only its digest: the row is there, or it is an error."""
        digests, *columns, changes = message.gone.columns
        yield pa.table([digests, *([pa.nulls(len(digests))] * len(columns)), changes], message.gone.column_names)
        yield pa.table(texts_of(message.come.columns), message.come.column_names)
