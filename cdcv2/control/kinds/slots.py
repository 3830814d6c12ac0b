"""Replication slots of PostgreSQL: made and dropped at once, outside any transaction, and known by a name alone.

What a slot keeps, and who reads it, shows whether it is the one that was seen before (:mod:`cdcv2.control.slot_marks`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cdcv2.control.database_probe import BEING_MADE
from cdcv2.control.entries import CatalogueEntry, ExternalObject, NoAnswer, Reason
from cdcv2.control.kinds.postgres import PATIENCE, PostgresKind, hindrance
from cdcv2.control.slot_marks import Continuity, SlotMark, continuity
from cdcv2.control.unread_topics import awaited
from cdcv2.errors import Cdcv2Error
from cdcv2.store.postgres_session import connect, may_replicate

if TYPE_CHECKING:
    from psycopg import Connection

#: How a connector of Debezium calls its session that reads a slot.
READERS = ("Debezium Streaming",)
#: Where WAL ends, also on a standby, and on which timeline. That of the control file is older for a while: a standby
#: that receives no WAL states none.
_WAL = """
    SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END
            - '0/0')::bigint,
           CASE WHEN pg_is_in_recovery() THEN (SELECT received_tli FROM pg_stat_wal_receiver)
                ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END,
           (CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn() END - '0/0')::bigint
"""
#: A line of the history of a timeline: one before it, and where the server left that.
_ANCESTOR = re.compile(r"^\s*(\d+)\s+([0-9A-F]+)/([0-9A-F]+)", re.MULTILINE | re.IGNORECASE)
#: As JSON: which columns there are depends on the version of the server. One that is invalidated keeps nothing, but
#: has what was confirmed; that of a slot that is made is behind all WAL of before.
_SLOT = f"""
    SELECT to_jsonb(s), a.application_name, a.usename::text, a.pid || ' ' || extract(epoch FROM a.backend_start),
           coalesce(s.restart_lsn - '0/0', s.confirmed_flush_lsn - '0/0' - 1)::bigint,
           (s.confirmed_flush_lsn - '0/0')::bigint, {BEING_MADE}
      FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s
"""
#: What is counted for a slot, and since when: its own counters, and those that a crash of the server sets back.
_COUNTED = """
    SELECT c.total_txns, concat_ws(' ', c.stats_reset, (SELECT stats_reset FROM pg_stat_bgwriter))
      FROM pg_stat_replication_slots c WHERE c.slot_name = %s
"""
#: The timeline of a server that was never recovered: it has no history.
_FIRST = 1
#: The first version of PostgreSQL that counts.
_COUNTING = 140000


class SlotKind(PostgresKind):
    """Logical replication slots. Settings: ``plugin`` and ``database``; with the name they are its identity.

    ``readers``: application names of sessions that are ended when a slot of ours is removed. Any other is left alone.
    """

    def __init__(self, servers: Mapping[str, str], readers: tuple[str, ...] = READERS) -> None:
        super().__init__(servers)
        self._readers = readers

    def _found(self, session: Connection[Any], entry: CatalogueEntry) -> ExternalObject | None:
        # Asked before the slot: one that is made in place of what is seen here begins behind it.
        wal, timeline, flushed = session.execute(_WAL).fetchone() or (0, 0, None)
        row = session.execute(_SLOT, [entry.name]).fetchone()
        if row is None:
            return None
        slot, application, user, begun, kept, confirmed, being_made = row
        active = bool(slot["active"])
        reader = f"process {slot['active_pid']} of {user or 'unknown'} ({application or 'no application name'})"
        invalid = slot.get("invalidation_reason") or ("wal_removed" if slot.get("wal_status") == "lost" else "")
        there = ExternalObject(
            f"{slot['database']}/{entry.name}/{slot['plugin']}",
            settings={"plugin": slot["plugin"], "database": slot["database"]},
            holder=reader if active and application not in self._readers else "", invalid=invalid,
            place=f"read by {reader}" if active else "read by no session", being_made=being_made,
        )  # fmt: skip
        if timeline is None:
            # It is compared when that is known.
            return there
        mark = SlotMark(
            wal, timeline, kept, (begun or "") if active else "", *_counted(session, entry.name), flushed, confirmed
        )
        known = [past.slot for past in awaited(entry)] if entry.slot is None else [entry.slot]
        if all(one is None or one.timeline == timeline for one in known):
            return replace(there, slot=mark)
        ancestors = self._ancestors(session, entry, timeline)
        if isinstance(ancestors, NoAnswer):
            return replace(there, slot=mark, unjudged=ancestors)
        return replace(there, slot=replace(mark, ancestors=ancestors))

    def _ancestors(self, session: Connection[Any], entry: CatalogueEntry, timeline: int) -> dict[int, int] | NoAnswer:
        """See SlotMark; or why it cannot be asked: only a role that may replicate can."""
        import psycopg

        if timeline == _FIRST:
            return {}
        before = (
            f"the server of {entry.shown} is on another timeline, {timeline}, as after a standby was promoted. Whether "
            "that has all that was captured"
        )
        conninfo = psycopg.conninfo.make_conninfo(self._conninfo(entry) or "", replication="database")
        try:
            with closing(connect(
                conninfo, origin=f"the connection string of {entry.address}", autocommit=True, patience=PATIENCE / 1000
            )) as one:
                _, content = one.execute(f"TIMELINE_HISTORY {timeline:d}".encode()).fetchone() or ("", b"")
        except psycopg.Error as error:
            failed = hindrance(error, entry)
            return NoAnswer(failed.reason, f"{before} cannot be asked: {failed.text}")
        except Cdcv2Error as error:
            # The server has answered another session of this role a moment ago.
            role, replicates = may_replicate(session)
            if replicates:
                return NoAnswer(Reason.UNREACHABLE, f"{before} cannot be asked now: {error}")
            remedy = f"ALTER ROLE {role} REPLICATION; it is asked again then"
            return NoAnswer(Reason.DENIED, f"{before} cannot be asked, as the role {role} may not replicate: {remedy}")
        # A name in it may be in any encoding.
        text = content if isinstance(content, str) else bytes(content).decode(errors="replace")
        return {int(one): int(high, 16) << 32 | int(low, 16) for one, high, low in _ANCESTOR.findall(text)}

    def _is_same(self, there: ExternalObject, entry: CatalogueEntry) -> bool:
        """As it was at the look a moment ago."""
        return there.identity == entry.identity and continuity(entry.slot, there.slot) is Continuity.SAME

    def _make(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        session.execute(
            "SELECT pg_create_logical_replication_slot(%s, %s)", [entry.name, entry.settings["plugin"]]
        )

    def _destroy(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        # Waited for, as DROP_REPLICATION_SLOT ... WAIT does: the slot is free when its reader's session has ended.
        session.execute(
            "SELECT pg_terminate_backend(s.active_pid, %s) FROM pg_replication_slots s "
            "JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s AND a.application_name = ANY (%s)",
            [PATIENCE, entry.name, list(self._readers)],
        )
        session.execute("SELECT pg_drop_replication_slot(%s)", [entry.name])


def _counted(session: Connection[Any], slot: str) -> tuple[int | None, str]:
    """The transactions that the server has counted for a slot, and since when."""
    counts = session.info.server_version >= _COUNTING
    return (session.execute(_COUNTED, [slot]).fetchone() if counts else None) or (None, "")
