"""A look at the database of a source: where its WAL ends, and how far a slot is. Nothing is changed."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, LiteralString

from cdcv2.connectors.transaction_ends import TransactionEnd
from cdcv2.control.observations import AwaitedTransaction, DatabaseObservation, SlotObservation
from cdcv2.errors import UnavailableError
from cdcv2.store.postgres_session import connect

#: Milliseconds that a statement may take.
_PATIENCE = 3000
#: Seconds that the connector has to confirm what was there when we looked, and between two looks at that.
_CONFIRMING, _PAUSE = 1.5, 0.05
_POSITION = """
    SELECT extract(epoch FROM clock_timestamp())::float8, (pg_current_wal_flush_lsn() - '0/0')::bigint,
           current_setting('track_commit_timestamp') = 'on'
"""
#: Whether a session makes the slot ``s`` just now. One that is invalidated, or of a standby, is another case.
BEING_MADE: LiteralString = (
    "(s.slot_type = 'logical' AND s.active AND s.confirmed_flush_lsn IS NULL AND s.restart_lsn IS NOT NULL "
    "AND s.wal_status IS DISTINCT FROM 'lost' AND NOT pg_is_in_recovery())"
)
_SLOT = f"""
    SELECT s.active, (s.confirmed_flush_lsn - '0/0')::bigint, (r.sent_lsn - '0/0')::bigint, s.wal_status,
           (pg_current_wal_lsn() - s.restart_lsn)::bigint, s.safe_wal_size, {BEING_MADE}
      FROM pg_catalog.pg_replication_slots s LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid
     WHERE s.slot_name = %s
"""
#: The oldest transaction with a number, of any database: a slot is made when those that were open have ended. One
#: that has only read has none, and is not waited for.
_OLDEST = """
    SELECT pid, gid, "user", application, database, to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') FROM (
        SELECT pid, NULL AS gid, usename::text AS "user", application_name AS application, datname::text AS database,
               xact_start AS since, age(backend_xid) AS age
          FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL
        SELECT NULL, gid, owner::text, '', database::text, prepared, age(transaction)
          FROM pg_catalog.pg_prepared_xacts
    ) open ORDER BY age DESC LIMIT 1
"""
_LAST = "SELECT xid::text::bigint FROM pg_catalog.pg_last_committed_xact()"
#: At most so many transactions are looked at.
MOST = 20_000
#: The oldest commit since a moment, of the transactions that may have been committed behind what the slot needs: none
#: of them is older than its catalog_xmin. None is named where there are too many: one that is not
#: looked at may be older than those that are.
_FIRST = """
    WITH top AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS top),
         low AS (SELECT top - ((top - catalog_xmin::text::bigint) %% 4294967296 + 4294967296) %% 4294967296 AS low, top
                   FROM pg_catalog.pg_replication_slots, top WHERE slot_name = %s AND catalog_xmin IS NOT NULL),
         xids AS (SELECT generate_series(low, top - 1) %% 4294967296 AS xid FROM low
                   WHERE top - low <= %s)
    SELECT min(extract(epoch FROM pg_xact_commit_timestamp(xid::text::xid)))::float8 FROM xids
     WHERE xid > 2 AND xid <> %s AND extract(epoch FROM pg_xact_commit_timestamp(xid::text::xid)) >= %s
"""


def observe_database(conninfo: str, slot: str, *, origin: str) -> DatabaseObservation:
    """The database as it is now. ``origin``: where ``conninfo`` is from. Raises UsageError, UnavailableError."""
    with closing(_session(conninfo, origin)) as session:
        ((at, position, tracked),) = _rows(session, _POSITION)
        last = _rows(session, _LAST) if tracked else []
        seen = _slot(session, slot)
    return DatabaseObservation(float(at), int(position), seen, last[0][0] if last else None, slot_name=slot)


def confirmed_slot(conninfo: str, slot: str, position: int, *, origin: str) -> SlotObservation | None:
    """The slot when its connector has confirmed all WAL before a position, or as it is after a second or two.

    None: there is none. Raises as :func:`observe_database`.
    """
    deadline = time.monotonic() + _CONFIRMING
    with closing(_session(conninfo, origin)) as session:
        rows = _rows(session, _SLOT, slot)
        while rows and (rows[0][1] or 0) < position and time.monotonic() < deadline:
            time.sleep(_PAUSE)
            rows = _rows(session, _SLOT, slot)
        return _slot_observation(session, slot, rows)


def first_commit_after(conninfo: str, slot: str, last: TransactionEnd, *, origin: str) -> float | None:
    """When the oldest commit behind an END was, of any database of the server; None: none is known.

    For a server with ``track_commit_timestamp = on``. Raises as :func:`observe_database`.
    """
    with closing(_session(conninfo, origin)) as session:
        ((moment,),) = _rows(session, _FIRST, slot, MOST, last.tx, last.at)
        return None if moment is None else float(moment)


def _session(conninfo: str, origin: str) -> Any:
    session = connect(conninfo, origin=origin, autocommit=True, patience=_PATIENCE / 1000)
    session.execute(f"SET statement_timeout = {_PATIENCE}")
    return session


def _slot(session: Any, name: str) -> SlotObservation | None:
    return _slot_observation(session, name, _rows(session, _SLOT, name))


def _slot_observation(session: Any, name: str, rows: list[Any]) -> SlotObservation | None:
    """A slot as it was found; of one that is being made, also what that waits for now."""
    if not rows:
        return None
    active, confirmed, sent, status, retained, left, being_made = rows[0]
    oldest = _rows(session, _OLDEST) if being_made else []
    return SlotObservation(
        name, bool(active), confirmed, sent, status, retained, left, being_made, _open(*oldest[0]) if oldest else None
    )


def _open(process: int | None, prepared: str | None, *whose: Any) -> AwaitedTransaction:
    return AwaitedTransaction(process, prepared, *(one or "" for one in whose))


def _rows(session: Any, sql: str, *values: object) -> list[Any]:
    import psycopg

    try:
        rows: list[Any] = session.execute(sql, values or None).fetchall()
    except psycopg.Error as cause:
        raise UnavailableError(
            f"PostgreSQL does not answer a look at its slots and their WAL ({' '.join(str(cause).split())}): mend "
            "that, and look again"
        ) from None
    return rows
