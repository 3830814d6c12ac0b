"""PostgreSQL: the store rules. Rows, checkpoint and fence are one transaction of the database.

The changes of rows by key and of multisets are columns (:mod:`.changes`): they go into a temporary table by COPY, and
into the target by one MERGE, which checks the rows that are there. Nothing is looked up. Of reductions, and of tables
by key with very many columns, a transaction's keys go into a temporary table by COPY and come back joined with the
target; its rows go into another by COPY and into the target by one MERGE per table.

The fence is checked, and its row locked, before anything is merged: an instance that opens the range now waits for this
commit, and a zombie finds out before it has touched a row.

Tables that are missing are made, with the key as primary key and the types of the source where they are known; those
are there must have the columns, of these types or of those in :data:`TYPES`. Needs PostgreSQL 15 (MERGE),
and psycopg (``pip install '.[postgres]'``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cdcv2 import failpoints
from cdcv2.errors import ForeignStateError, RefusedError, UsageError, ViewError
from cdcv2.materialize.distributed import DistributedDriver, TargetWorker
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.fence import meet_of, pieces, taken
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Changes, Checkpoint, Flush, Flushed, Key, Load, Loaded, Open, Opened, StartCommit,
    StartedCommit, Store, Table,
)
from cdcv2.materialize.repair import RepairableDriver, TableRepair
from cdcv2.materialize.targets.postgres import fence as postgres_fence
from cdcv2.materialize.targets.postgres.changes import PostgresChanges, takes_changes
from cdcv2.materialize.targets.postgres.count_changes import CountChanges
from cdcv2.materialize.targets.postgres.keyed_changes import KeyedChanges
from cdcv2.materialize.targets.postgres.places import (
    TablePlace, as_named, demand_same_places, demand_started_here, demand_visible, kept_places, numbers_of, places_of,
    plain_checkpoint, to_plain,
)
from cdcv2.materialize.targets.postgres.tables import (
    SETTINGS, PostgresTable, alterations, check_names, demand_fit, lock, postgres_errors, stored_columns,
)
from cdcv2.materialize.targets.postgres.worker import PostgresWorker, StagingTable
from cdcv2.store.postgres_session import connect as connect_to
from cdcv2.views.identity import demand_known_view

if TYPE_CHECKING:
    from psycopg import Connection, Copy

BEFORE_COMMIT = failpoints.declare(
    "postgres.before-commit", "rows and checkpoint are merged; the transaction is still open"
)
AFTER_COMMIT = failpoints.declare(
    "postgres.after-commit", "the transaction is committed; the runtime does not know it"
)


class PostgresDriver(DistributedDriver, RepairableDriver):
    """One session.

    Args:
        conninfo: what libpq takes, ``host=... dbname=...`` or a URI. Leave the password to ``PGPASSWORD`` or to
            ``~/.pgpass``: what stands here may be seen.
        connect: makes the connection, in place of ``conninfo``.
        create: make the tables that are missing; without it they are an error.
    """

    def __init__(
        self, conninfo: str = "", *, connect: Callable[[], Connection[Any]] | None = None, create: bool = True
    ) -> None:
        self._connect, self._create = connect or partial(connect_to, conninfo), create
        # None before open and after close.
        self._session: Connection[Any] | None = None
        self._tables: list[PostgresTable] = []
        # Target -> the table that it is; each commit keeps them.
        self._places: dict[str, TablePlace] = {}
        # Whose commits these are: the parameters of the fence's statements.
        self._holding: dict[str, Any] = {}
        self._message: Open | None = None
        # Number of the table -> the keys that are to be loaded; the rows that have been staged.
        self._asked: dict[int, list[Key]] = {}
        self._staged: dict[int, int] = {}
        # Number of the table -> where its changes are staged, of those that take them; those that have some.
        self._changes: dict[int, PostgresChanges] = {}
        self._changed: list[int] = []
        # The COPY that is under way, and its table.
        self._copying: tuple[int, Copy] | None = None
        self._copy_end = ExitStack()
        # Whether nothing of the materialization was committed yet.
        self._new = True
        # Where executors stage rows, once they do.
        self._staging: StagingTable | None = None

    def open(self, message: Open) -> Opened:
        """See :class:`Driver`. Raises UnavailableError, UsageError for tables of changes or an old server."""
        delta = [table.name for table in message.tables if table.delta]
        if delta:
            raise UsageError(f"{delta[0]}: PostgreSQL keeps views, not changes: leave delta out")
        for table in message.tables:
            check_names(table)
        self._message = message
        with postgres_errors("open", message.materialization):
            session = self._session = self._connect()
            if session.info.server_version < 150000:
                version = session.info.server_version // 10000
                raise UsageError(f"PostgreSQL {version} has no MERGE: 15 or later is needed")
            session.execute(SETTINGS)
            session.execute(postgres_fence.LOCK, {"name": "tables"})
            # From here on by schema and name: what the search path leads to may become another table.
            places = places_of(session, [table.name for table in message.tables])
            kept = [stored_columns(session, table, places[table.name]) for table in message.tables]
            self._tables = [PostgresTable(number, table, places[table.name]) for number, table in enumerate(kept)]
            self.remarks = [one for pair in zip(message.tables, kept) for one in _remarks(*pair)]
            if places_of(session, ["cdcv2_checkpoints"])["cdcv2_checkpoints"].number is None:
                demand_started_here(session, message.materialization, places)
                session.execute(postgres_fence.CREATE)
            self._make(session, message, places)
            session.commit()
            pairs = enumerate(zip(message.tables, kept))
            taking = frozenset(number for number, pair in pairs if takes_changes(*pair))
            return replace(self._claim(session, message), changes=taking, digests=True)

    def _make(self, session: Connection[Any], message: Open, places: Mapping[str, TablePlace]) -> None:
        """The tables. Those of a view that has begun are there; those of one that has not have no rows."""
        name = message.materialization
        demand_same_places(session, name, places, self._kept(session))
        demand_visible(session, name, places.values())
        made = {table.name: table.make(session, create=self._create) for table in self._tables}
        for table, found in made.items():
            same = [other for other, one in made.items() if one.number == found.number and other != table]
            if same:
                raise UsageError(f"{table} and {same[0]} are one table in PostgreSQL: give each binding its own target")
        self._places = {
            target: place._replace(number=made[target].number) for target, place in places.items()
        }  # fmt: skip
        # Asked behind the tables: a row of ours that was seen has its checkpoint now.
        held = [Checkpoint.from_plain(as_named(plain, places)) for plain in self._kept(session)]
        last = next((one for one in held if not message.start.dominates(one.frontier)), None)
        begun = None if last is None else last.frontier
        if last is None:
            demand_started_here(session, name, places)
        self._new = begun is None
        # Before its rows are judged: to empty the table would destroy what the other one keeps.
        self._demand_alone(session)
        for table, found in made.items():
            if last is not None and found.missing:
                demand_known_view(name, table, last)
                raise RefusedError(
                    f"{name!r} is at {begun}, and its table {table} is not there: a new one would lack what came "
                    "before. Restore it; or materialize again, under another name and into other targets"
                )
            if begun is None and not found.empty:
                raise RefusedError(
                    f"{name!r} has not begun in this database (cdcv2_checkpoints has nothing of it), and the table "
                    f"{table} has rows: what the view brings would be added to them. Empty it, give the binding "
                    "another target, or connect to the place where it was begun"
                )

    def _kept(self, session: Connection[Any]) -> list[Any]:
        """The checkpoints of the view, as plain JSON."""
        name = self._opened().materialization
        rows = session.execute(postgres_fence.ALL, {"name": name}).fetchall()
        return [plain_checkpoint(text) for (text,) in rows]

    def _demand_alone(self, session: Connection[Any], *, one_by_one: bool = False) -> None:
        """Raise RefusedError if another materialization has one of the tables.

        A table without rows may be another's, too. The first of two to commit has it: its checkpoint names its views
        from then on. So an instance asks on opening, and again in its first commit, while no other's is at the table.
        """
        message = self._opened()
        own = numbers_of(session, self._places)
        for number in sorted(own.values()) if one_by_one else ():
            session.execute(postgres_fence.LOCK, {"name": f"table {number}"})
        for name, text in session.execute(postgres_fence.OTHERS, {"name": message.materialization}).fetchall():
            try:
                checkpoint = _checkpoint(text)
            except ForeignStateError:
                continue  # of a newer release, perhaps: it cannot be read, and is not ours to judge
            places = {**places_of(session, checkpoint.views or ()), **kept_places(plain_checkpoint(text))}
            theirs = set(numbers_of(session, places).values())
            shared = [target for target, number in own.items() if number in theirs]
            if shared:
                raise RefusedError(
                    f"the table {shared[0]} is kept by the materialization {name!r}, which is at "
                    f"{checkpoint.frontier}: two would add to the same rows. Give one of them another target; or, if "
                    f"{name!r} is to run no more, remove its rows from cdcv2_checkpoints, and empty the table"
                )

    def _claim(self, session: Connection[Any], message: Open) -> Opened:
        fresh = json.dumps(Checkpoint(message.start, committed=False).to_plain())
        fence, near = postgres_fence.claim(session, message.materialization, message.range, fresh)
        session.commit()
        text = next(one.value for one in near if one.range == message.range)
        self._holding = {
            "name": message.materialization, "begin": message.range.begin, "end": message.range.end, "fence": fence,
            "held": postgres_fence.held(text),
        }  # fmt: skip
        start = message.start
        found = pieces(near, message.range, lambda text: _checkpoint(text).started_at(start).frontier, start)
        own = Checkpoint.from_plain(as_named(plain_checkpoint(text), self._places)).started_at(start)
        even = len(found) == 1 and found[0].frontier == own.frontier
        return Opened(own if even else Checkpoint(meet_of(found), None, own.views), found)

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Nothing to do: what StartedCommit answered was committed."""
        return Acknowledged()

    def load(self, message: Load) -> Iterable[Loaded]:
        """Stage the key."""
        self._asked.setdefault(message.binding, []).append(message.key)
        return ()

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Look all keys up, one query per table; then check whether another instance has been here."""
        session = self._open_session()
        for number, keys in self._asked.items():
            table = self._tables[number]
            with postgres_errors("read", table.name):
                found = table.look(session, keys)
            yield from (Loaded(number, key, values) for key, values in found)
        if self._asked:
            with postgres_errors("read", "pg_attribute"):
                # What was looked up is locked until the end of the transaction: so it was these columns that were read.
                demand_fit(session, self._tables)
        self._asked = {}
        with postgres_errors("read", "cdcv2_checkpoints"):
            if session.execute(postgres_fence.HELD, self._holding).rowcount != 1:
                raise self._taken(session)
            session.commit()
        yield Flushed()

    def store(self, message: Store) -> None:
        """Into the temporary table. Raises MalformedError for text that PostgreSQL cannot hold."""
        table = self._tables[message.binding]
        with postgres_errors("write", table.name):
            if self._copying is None or self._copying[0] != message.binding:
                self._end_copy()
                copy = self._copy_end.enter_context(self._open_session().cursor().copy(table.copy_rows))
                self._copying = (message.binding, copy)
            self._copying[1].write_row(table.outward(message))
        self._staged[message.binding] = self._staged.get(message.binding, 0) + 1

    def changes(self, message: Changes) -> None:
        """Into the temporary table of changes. Raises MalformedError for text that PostgreSQL cannot hold."""
        session, number = self._open_session(), message.binding
        table = self._tables[number]
        self._end_copy()
        with postgres_errors("write", table.name):
            if number not in self._changes:
                self._changes[number] = CountChanges(table) if table.table.multiset else KeyedChanges(table)
                self._changes[number].make(session)
            self._changes[number].stage(session, message)
        self._changed.append(number)

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Fence, checkpoint and rows, in one transaction; committed on return."""
        session = self._open_session()
        text = json.dumps({**message.checkpoint.to_plain(), "tables": to_plain(self._places)})
        with postgres_errors("write", "cdcv2_checkpoints"):
            self._end_copy()
            if self._new:
                self._demand_alone(session, one_by_one=True)
            if session.execute(postgres_fence.COMMIT, {**self._holding, "checkpoint": text}).rowcount != 1:
                raise self._taken(session)
        self._lock(session)
        for number in self._changed:
            with postgres_errors("write", self._tables[number].name):
                if not self._changes[number].merged(session):
                    conflict = self._changes[number].conflict(session)
                    session.rollback()
                    raise conflict
        for number, count in self._staged.items():
            table = self._tables[number]
            with postgres_errors("write", table.name):
                session.execute(table.analyse_rows)
                if table.merged(session, table.merge, table.rows) != count:
                    self._refuse_merge(session, table)
        self._merge_staging(session)
        failpoints.reach(BEFORE_COMMIT)
        with postgres_errors("commit", self._holding["name"]):
            session.commit()
        failpoints.reach(AFTER_COMMIT)
        self._holding["held"] = postgres_fence.held(text)
        self._staged, self._changed, self._new = {}, [], False
        return StartedCommit()

    def open_damaged(self, message: Open) -> Opened:
        """See :class:`RepairableDriver`. A table that is missing is refused, as by :meth:`open`."""
        return self.open(message)

    def repair(self, tables: Sequence[TableRepair], checkpoint: Checkpoint, demand: Callable[[], None]) -> None:
        """See :class:`RepairableDriver`. The rows that differ, in one transaction that checks the fence."""
        for one in tables:
            for key in one.differing:
                self.load(Load(one.number, key))
        answers = self.flush(Flush(checkpoint.frontier, checkpoint.frontier))
        there = {(one.binding, canonical(one.key)): one.values for one in answers if isinstance(one, Loaded)}
        for one in tables:
            for key, values in one.differing.items():
                before = there.get((one.number, canonical(key)))
                if values is not None:
                    self.store(Store(one.number, key, values, before is not None))
                elif before is not None:
                    self.store(Store(one.number, key, before, exists=True, delete=True))
        self.start_commit(StartCommit(checkpoint))

    def hand(self) -> TargetWorker:
        """See :class:`DistributedDriver`. Executors connect with the same ``conninfo`` and the environment that they
        have.
        """
        if self._staging is None:
            self._staging = StagingTable(self._tables, self._holding)
            with postgres_errors("make staging tables for", self._holding["name"]):
                self._staging.make(self._open_session())
        tables = [(table.table, table.at) for table in self._tables]
        return PostgresWorker(self._connect, tables, self._staging.names)

    def took(self, number: int, receipt: Any) -> None:
        """See :class:`DistributedDriver`.

        Raises RefusedError unless executors were given a worker in this transaction.
        """
        if self._staging is None:
            raise RefusedError("no executor has been given a hand in this transaction")
        attempt, rows = receipt
        self._staging.took.setdefault(number, []).append((attempt, rows))

    def _lock(self, session: Connection[Any]) -> None:
        """From here to the commit, the tables that are written stay as they are; and that is as they should be."""
        written = {*self._staged, *self._changed, *(self._staging.took if self._staging is not None else ())}
        tables = [self._tables[number] for number in sorted(written)]
        if not tables:
            return
        with postgres_errors("lock", ", ".join(table.name for table in tables)):
            lock(session, tables)
            demand_fit(session, tables)

    def _merge_staging(self, session: Connection[Any]) -> None:
        if self._staging is None:
            return
        for number, table in enumerate(self._staging.tables):
            if number in self._staging.took:
                with postgres_errors("write", table.name):
                    if not self._staging.merged(session, number):
                        self._refuse_merge(session, table)
        self._staging.took = {}

    def close(self) -> None:
        """Close the session; PostgreSQL rolls back what is open."""
        session, self._session, self._copying = self._session, None, None
        if session is None:
            return
        from psycopg import Error

        session.close()
        # A COPY that is under way ends with an error without news: psycopg would log it, where it is not
        # ended. Behind the session, so that no answer is waited for.
        with suppress(Error):
            self._copy_end.close()

    def _open_session(self) -> Connection[Any]:
        if self._session is None:
            raise RefusedError("this session with PostgreSQL is closed: make a new driver, to resume from there")
        return self._session

    def _opened(self) -> Open:
        if self._message is None:
            raise RefusedError("this session with PostgreSQL is not open")
        return self._message

    def _end_copy(self) -> None:
        """PostgreSQL may refuse a row only now, and of the table that it was for."""
        copying, self._copying = self._copying, None
        if copying is not None:
            with postgres_errors("write", self._tables[copying[0]].name):
                self._copy_end.close()

    def _taken(self, session: Connection[Any]) -> Exception:
        """Why the checkpoint is not the one that this instance left; what it has begun is rolled back."""
        session.rollback()
        found = session.execute(postgres_fence.FENCE, self._holding).fetchone()
        session.rollback()
        message, fence = self._opened(), self._holding["fence"]
        return taken(message.materialization, message.range, fence, None if found is None else found[0])

    def _refuse_merge(self, session: Connection[Any], table: PostgresTable) -> None:
        """Fewer rows were merged than staged: a key was added, or deleted, since it was looked up."""
        table.demand_unequal_keys(session, table.rows)
        row = session.execute(table.odd).fetchone()
        session.rollback()
        key = () if row is None else tuple(row)
        raise ViewError(table.name, key, "its row was added or deleted since the transaction looked it up")


def _remarks(table: Table, kept: Table) -> Iterator[str]:
    """What may be altered of a table that has some columns as the log has them."""
    statements = alterations(table, kept)
    if statements:
        yield (
            f"the table {table.name} has columns as the log has them, and keeps them. To give them the types of the "
            f"source, stop, execute this, and start again: {' '.join(statements)}"
        )


def _checkpoint(text: str) -> Checkpoint:
    return Checkpoint.from_plain(plain_checkpoint(text))
