"""The executors' part for PostgreSQL: look keys up, and COPY rows into a staging table that the driver merges.

There is an unlogged staging table per target and fence. Each task's rows carry its *attempt*, which only a task that
has ended well brings back: rows of attempts that no receipt names are removed before the merge. Sessions of executors
are their own, so what they have staged is there for the driver's one transaction; and a fence that holds in that
transaction held when they looked keys up.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdcv2.materialize.distributed import TargetTask, TargetWorker
from cdcv2.materialize.protocol.messages import Key, Store, Table, Values
from cdcv2.materialize.targets.postgres.places import TablePlace
from cdcv2.materialize.targets.postgres.tables import SETTINGS, PostgresTable, postgres_errors

if TYPE_CHECKING:
    from psycopg import Connection

_OLD = """
SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname LIKE %s
"""


class StagingTable:
    """The staging tables of one instance, on the driver's side."""

    def __init__(self, tables: Sequence[PostgresTable], holding: Mapping[str, Any]) -> None:
        # Unlike a name, a number is short enough for an identifier, for every name of a materialization.
        self._prefix = f"cdcv2_staged_{zlib.crc32(str(holding['name']).encode('utf-8', 'surrogatepass')):08x}_"
        self.names = [f"{self._prefix}{holding['fence']}_{number}" for number in range(len(tables))]
        self.tables = [PostgresTable(one.number, one.table, one.at, name) for one, name in zip(tables, self.names)]
        #: number of the table -> attempts that count, and how many rows they have
        self.took: dict[int, list[tuple[str, int]]] = {}

    def make(self, session: Connection[Any]) -> None:
        """Make them, and remove those of instances that were fenced off, or have ended."""
        from psycopg import sql

        pattern = self._prefix.replace("_", r"\_") + "%"
        for (name,) in session.execute(_OLD, [pattern]).fetchall():
            if name not in self.names:
                session.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
        for table in self.tables:
            session.execute(table.create_staged)
        session.commit()

    def merged(self, session: Connection[Any], number: int) -> bool:
        """Merge what counts of one table, in the transaction that is open; False when other rows were hit."""
        table, took = self.tables[number], self.took[number]
        # Tasks that were given up may still be writing: they end before, or come too late.
        session.execute(table.lock_staged)
        session.execute(table.trim_staged, [[attempt for attempt, _ in took]])
        session.execute(table.analyse_rows)
        if table.merged(session, table.merge, table.rows) != sum(rows for _, rows in took):
            return False
        session.execute(table.empty_staged)
        return True


class PostgresWorker(TargetWorker):
    """Connects from an executor as the driver does. ``connect`` must be picklable."""

    def __init__(
        self, connect: Callable[[], Connection[Any]], tables: Sequence[tuple[Table, TablePlace]], names: Sequence[str]
    ) -> None:
        self._connect, self._tables, self._names = connect, tuple(tables), tuple(names)

    def work(self, number: int) -> TargetTask:
        """See :class:`TargetWorker`. Raises UnavailableError when PostgreSQL does not answer there."""
        table = PostgresTable(number, *self._tables[number], self._names[number])
        return _PostgresTask(self._connect, table)


class _PostgresTask(TargetTask):
    """One task: a session, and an attempt."""

    def __init__(self, connect: Callable[[], Connection[Any]], table: PostgresTable) -> None:
        self._table, self._attempt, self._rows = table, uuid.uuid4().hex, 0
        with postgres_errors("open", table.name):
            self._session = connect()
            self._session.execute(SETTINGS)
            self._session.execute(table.create_keys)
            self._session.commit()

    def look(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Values]]:
        with postgres_errors("read", self._table.name):
            found = self._table.look(self._session, keys)
            self._session.commit()
        return found

    def stage(self, stores: Sequence[Store]) -> None:
        with postgres_errors("write", self._table.name):
            with self._session.cursor().copy(self._table.copy_staged) as copy:
                for store in stores:
                    copy.write_row((*self._table.outward(store), self._attempt))
            self._session.commit()
        self._rows += len(stores)

    def finish(self) -> Any:
        return [self._attempt, self._rows] if self._rows else None

    def close(self) -> None:
        self._session.close()
