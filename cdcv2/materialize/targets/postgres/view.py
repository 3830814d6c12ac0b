"""What a reader sees of a materialization in PostgreSQL: its tables and its checkpoint, in one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, RefusedError
from cdcv2.materialize.protocol.fence import Holding, Range, pieces
from cdcv2.materialize.protocol.messages import Checkpoint, Key, Table, Values
from cdcv2.materialize.recovery_log import holding_value
from cdcv2.materialize.targets.postgres.places import (
    TablePlace, as_named, demand_same_places, demand_started_here, demand_visible, places_of, plain_checkpoint,
)
from cdcv2.materialize.targets.postgres.tables import SETTINGS, PostgresTable, postgres_errors, stored_columns
from cdcv2.materialize.texts import side
from cdcv2.rows.fingerprint import Side
from cdcv2.store.postgres_session import connect

if TYPE_CHECKING:
    from psycopg import Connection

_HOLDINGS = "SELECT key_begin, key_end, fence, checkpoint FROM cdcv2_checkpoints WHERE materialization = %(name)s"


class PostgresView:
    """The tables of a materialization as they are now, until ``close``.

    Raises MissingLogError when nothing of this name was ever opened there, RefusedError when ranges of its keys are at
    different frontiers, UnavailableError and OutputError as the driver does.
    """

    def __init__(
        self,
        conninfo: str,
        materialization: str,
        tables: Iterable[Table],
        start: Antichain,
        *,
        connect: Callable[[str], Connection[Any]] = connect,
    ) -> None:
        with postgres_errors("open", materialization):
            self._session = connect(conninfo)
        try:
            self._look(materialization, list(tables), start)
        except BaseException:
            # What it has locked is not kept for as long as somebody looks at the error.
            self._session.close()
            raise

    def _look(self, materialization: str, tables: list[Table], start: Antichain) -> None:
        with postgres_errors("open", materialization):
            self._session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._session.execute(SETTINGS)
        holdings, places = _holdings(self._session, materialization, [table.name for table in tables])
        if not holdings:
            raise MissingLogError(
                f"nothing called {materialization!r} was materialized there: the name is wrong, or the database, or "
                "nothing was materialized yet"
            )
        found = pieces(holdings, Range(), lambda plain: Checkpoint.from_plain(plain).frontier, start)
        if len(found) > 1:
            raise RefusedError(
                f"ranges of the keys of {materialization!r} are at different frontiers "
                f"({', '.join(f'{piece.range}: {piece.frontier}' for piece in found)}): let them come to one"
            )
        #: everything not beyond it is in the tables
        self.frontier = found[0].frontier
        with postgres_errors("read", "pg_attribute"):
            kept = [stored_columns(self._session, table, places[table.name]) for table in tables]
        self._tables = {one.name: PostgresTable(number, one, places[one.name]) for number, one in enumerate(kept)}

    def rows(self, table: str) -> Iterator[tuple[Key, Values]]:
        """Keys and values, a part of them in memory at a time."""
        found = self._tables[table]
        with postgres_errors("read", table), self._session.cursor(name="cdcv2_view") as cursor:
            for row in cursor.execute(found.select_all):
                yield found.inward(row)

    def side(self, table: Table, where: LiteralString) -> Side | None:
        """The table, whose fingerprints the database works out itself; None where it cannot."""
        found = self._tables[table.name]
        return side(self._session, table, found.table, where, found.at.parts)

    def stored_table(self, table: Table) -> Table:
        """The table as it is asked for: nothing is materialized into columns of other types. A row has its digest."""
        return replace(table, multiset=False)

    def close(self) -> None:
        """Leave."""
        self._session.close()


def committed(
    conninfo: str,
    materialization: str,
    targets: Iterable[str],
    *,
    connect: Callable[[str], Connection[Any]] = connect,
) -> list[Holding]:
    """What a materialization has committed, by range of keys, as a recovery log holds it; none where it never began.

    Nothing is changed, and no instance fenced off. Raises UnavailableError and OutputError as the driver does, and
    RefusedError where the names of its targets lead to other tables than it was begun with.
    """
    with postgres_errors("open", materialization):
        session = connect(conninfo)
    try:
        held, _ = _holdings(session, materialization, list(targets))
    finally:
        session.close()
    return [replace(one, value=holding_value(one.value)) for one in held]


def _holdings(
    session: Connection[Any], materialization: str, targets: list[str]
) -> tuple[list[Holding], dict[str, TablePlace]]:
    """Its checkpoints, as plain JSON with the targets' names of now; and where the targets are."""
    with postgres_errors("read", "cdcv2_checkpoints"):
        place = places_of(session, ["cdcv2_checkpoints"])["cdcv2_checkpoints"]
        held = [] if place.number is None else session.execute(_HOLDINGS, {"name": materialization}).fetchall()
        if not held:
            demand_started_here(session, materialization, targets)
        places = places_of(session, targets)
        plains = [plain_checkpoint(text) for *_, text in held]
        demand_same_places(session, materialization, places, plains)
        demand_visible(session, materialization, places.values())
    found = [
        Holding(Range(begin, end), fence, as_named(plain, places))
        for (begin, end, fence, _), plain in zip(held, plains)
    ]
    return found, places
