"""Whether a PostgreSQL server is as a capture of it needs it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from cdcv2.connectors.debezium.config import slot_name
from cdcv2.connectors.debezium.left_out import unsent_columns
from cdcv2.connectors.debezium.postgres_catalogue import (
    children, columns_of, deferrable_keys, generated_columns, indexed_identities, primary_key, row_type_from_postgres,
    set_full, table_identities, unidentified_tables,
)  # fmt: skip
from cdcv2.control.findings import Finding, Health, judged
from cdcv2.control.kinds.postgres import SENDS_ALL
from cdcv2.control.pipeline import SourceFields
from cdcv2.errors import MalformedError, UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.sql_names import name_list, parts_of, sql_name, sql_table
from cdcv2.store.postgres_session import guarded_tables, may_replicate, why_read_only

_SETTINGS = """
    SELECT current_setting('wal_level'), current_setting('max_replication_slots')::int,
           (SELECT count(*) FROM pg_catalog.pg_replication_slots), current_setting('max_wal_senders')::int,
           (SELECT count(*) FROM pg_catalog.pg_stat_replication), current_setting('server_version_num')::int,
           current_setting('max_slot_wal_keep_size', true), extract(epoch FROM clock_timestamp())::float8
"""
_QUOTED = "SELECT quote_ident(rolname) FROM pg_catalog.pg_roles WHERE rolname = %s"
_SELECT = "SELECT has_table_privilege(current_user, quote_ident(%s) || '.' || quote_ident(%s), 'SELECT')"
_SLOT = """
    SELECT plugin, database, wal_status, active FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""
_PUBLICATION = f"SELECT {SENDS_ALL} FROM pg_catalog.pg_publication WHERE pubname = %s"
_BESIDE = """
    SELECT DISTINCT n.nspname || '.' || c.relname
      FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace
     CROSS JOIN LATERAL pg_partition_tree(pg_partition_root(t.oid)) p
      JOIN pg_catalog.pg_class c ON c.oid = p.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE t.relispartition AND s.nspname || '.' || t.relname = ANY(%s) AND p.isleaf ORDER BY 1
"""
_VIA_ROOT = "SELECT pubviaroot FROM pg_catalog.pg_publication WHERE pubname = %s"
_OWNERS = """
    SELECT DISTINCT quote_ident(pg_get_userbyid(c.relowner)) FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname || '.' || c.relname = ANY(%s) AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1
"""
_MAY_PUBLISH = """
    SELECT current_database(), current_user, has_database_privilege(current_database(), 'CREATE'),
           quote_ident(current_database()), quote_ident(current_user)
"""
#: The tables of a publication, and whether all rows and columns of each are sent. Before PostgreSQL 15 they all are.
_PUBLISHED = """
    SELECT p.schemaname || '.' || p.tablename,
           coalesce(to_jsonb(p) -> 'rowfilter', 'null') = 'null' AND NOT EXISTS (
               SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                  AND a.attgenerated = '' AND NOT coalesce(to_jsonb(p) -> 'attnames', to_jsonb(a.attname)) ? a.attname)
      FROM pg_catalog.pg_publication_tables p JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
      JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = %s
"""
#: Columns that are declared with more than one dimension. PostgreSQL demands no dimensions of values.
_DIMENSIONS = """
    SELECT n.nspname || '.' || c.relname, a.attname FROM pg_catalog.pg_attribute a
      JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
     WHERE n.nspname || '.' || c.relname = ANY(%s) AND greatest(a.attndims, t.typndims) > 1 AND NOT a.attisdropped
     ORDER BY 1, a.attnum
"""
#: From this version of PostgreSQL on, an interval may be infinite.
_INFINITE_INTERVALS = 170000
_NEW_PARTITION = "and of each new one in the transaction that makes it (it has DEFAULT)"
#: So many seconds may two clocks differ.
_SECONDS = 5.0


def source_findings(
    source: SourceFields, connection: Any, tables: Mapping[str, RowType], *, from_state: bool,
    config: Mapping[str, Any] | None = None, marked: bool = False, known_full: Collection[str] = (),
) -> Iterator[Finding]:
    """What is found of a source's database, in the order in which it is mended. Raises as questions to it do.

    ``marked``: markers are committed there. ``known_full``: the tables that captures name in ``full-identity``.
    ``config``: that of the connector: a row type lacks the columns that it leaves out; None: it is not known.
    """
    part = f"source {source.name}"
    before = time.time()
    row = _rows_of(connection, _SETTINGS)[0]
    yield from server_findings(part, row[:7], has_slot=bool(_rows_of(connection, _SLOT, _slot(source))))
    # What the question took is no difference.
    off = max(before - row[7], row[7] - time.time(), 0.0)
    yield judged(part, off <= _SECONDS, f"its clock differs by {off:.1f} s", "let both machines use NTP",
                 otherwise=Health.WARNING)  # fmt: skip
    owned = source.publication.owned
    read_only = why_read_only(connection, standby_only=not owned) if owned or marked else None
    if read_only is not None:
        what = "the publication" if owned else "a marker"
        yield Finding(part, f"{read_only[0]}, and cdcv2 writes {what} there", Health.WRONG, read_only[1])
    role, replicates = may_replicate(connection)
    # cdcv2 up asks by its own role.
    asks = source.slot.owned or source.slot.name is not None or _has_file(source)
    yield judged(part, replicates, f"the role {role} may replicate",
                 f"ALTER ROLE {role} REPLICATION; "
                 + ("cdcv2 up needs it after a failover, to ask what the new server has" if asks else
                    "or, if the connector has another role, look at that one"),
                 lacking=f"the role {role} may not replicate",
                 otherwise=Health.WRONG if asks else Health.WARNING)  # fmt: skip
    name = source.publication.name or slot_name(source.prefix)
    # Of ours, cdcv2 up sends partitions by themselves.
    whole = any(found for (found,) in _rows_of(connection, _VIA_ROOT, name))
    for table, row_type in tables.items():
        yield from _table(part, connection, table, row_type, role=role, from_state=from_state, whole=whole,
                          config=config, known_full=known_full)
    yield from _changed(part, connection, tables, row[5])
    beside = [table for (table,) in _rows_of(connection, _BESIDE, list(tables)) if table not in tables]
    if beside:
        yield Finding(part, f"no capture reads {', '.join(beside)}: partitions beside captured ones", Health.WARNING,
                      "add them, if they should be captured: docs/operations/tables.md#add-a-table")  # fmt: skip
    yield from _publication(part, source, connection, tables)
    yield from _slot_found(part, source, connection)


def _has_file(source: SourceFields) -> bool:
    """Whether the file has the connector's own, which names the slot."""
    return source.connector is not None and source.connector.config is not None


def server_findings(part: str, row: Any, *, has_slot: bool) -> Iterator[Finding]:
    """What is found of a server's settings; ``has_slot``: the connector has its slot already."""
    level, slots, used, senders, sending, version, keep = row
    yield judged(part, version >= 130000, f"PostgreSQL {version // 10000}", "PostgreSQL 13 or later is needed")
    yield judged(part, level == "logical", f"wal_level is {level}",
                 "ALTER SYSTEM SET wal_level = 'logical'; and restart the server")  # fmt: skip
    yield judged(part, has_slot or used < slots, f"{used} of {slots} replication slots are used",
                 f"ALTER SYSTEM SET max_replication_slots = {slots + 5}; and restart the server")  # fmt: skip
    yield judged(part, has_slot or sending < senders, f"{sending} of {senders} WAL senders are used",
                 f"ALTER SYSTEM SET max_wal_senders = {senders + 5}; and restart the server")  # fmt: skip
    yield judged(
        part, keep not in (None, "-1"), f"max_slot_wal_keep_size is {keep}",
        "a connector that stands still fills the disk. ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; limits that, "
        "and a connector that is behind by more is lost", otherwise=Health.WARNING,
    )


def _table(
    part: str, connection: Any, table: str, row_type: RowType, *, role: str, from_state: bool, whole: bool,
    config: Mapping[str, Any] | None, known_full: Collection[str],
) -> Iterator[Finding]:
    """What is found of a table; ``whole``: a partitioned one is sent under its own name."""
    schema, name = parts_of(table)
    try:
        identity, key = table_identities(connection, [table])[table], primary_key(connection, table)
        columns, generated = columns_of(connection, table), generated_columns(connection, table)
        unsent = ([column for column in columns if column not in row_type.columns] if config is None
                  else unsent_columns(config, table, columns))  # fmt: skip
        unsent = [column for column in unsent if column not in (*key, *generated)]
        now = RowType(row_type_from_postgres(connection, table, unsent))
        heirs = children(connection, [table], partitions=False).get(table, ())
        parts = children(connection, [table], partitions=True).get(table, ()) if not heirs else ()
        guarded = guarded_tables(connection, [table])
        index = indexed_identities(connection, [table]).get(table)
        unidentified = bool(unidentified_tables(connection, [table]))
        deferrable = bool(deferrable_keys(connection, [table]))
    except (UsageError, MalformedError) as error:
        yield Finding(part, f"{table}: {error}", Health.WRONG, "mend tables: of the capture, or the table")
        return
    how = f"the key {', '.join(key)}" if key else "no key"
    lacking = identity.lacking(table)
    remedy = f"{set_full(lacking or [table])} before the connector's snapshot"
    if identity.leaves and lacking:
        how = f"{how}: {', '.join(lacking)} of it have not REPLICA IDENTITY FULL, and that of each partition counts"
        remedy += f", {_NEW_PARTITION}"
    if unidentified:
        how, named = f"{how}, and it has no replica identity: published, its UPDATE and DELETE fail", False
    elif set(key) & set(generated):
        how, named = f"{how}, of which a generated column is not in the changes", False
        remedy += ", and no before: from-state in the capture"
    elif index is not None:
        how, named = f"the index {index}, as REPLICA IDENTITY USING INDEX has it", False
    elif deferrable:
        how, named = f"{how}, which is DEFERRABLE: for a while two rows may have it", False
        remedy += ", and no before: from-state in the capture"
    else:
        named = bool(key)
        remedy += ", or before: from-state in the capture" if key else ""
    # From state, rows are known by the key also where the records have them whole.
    whole_rows = identity.full and not (from_state and (deferrable or set(key) & set(generated)))
    if whole_rows:
        how = "REPLICA IDENTITY FULL" + (f" of each partition, {_NEW_PARTITION}" if identity.leaves else "")
    yield judged(part, whole_rows or (from_state and named), f"{table}: before-images by {how}", remedy)
    if table in known_full and lacking:
        yield Finding(part, f"{table}: full-identity of a capture names it, and {', '.join(lacking)} "
                      f"{'have' if len(lacking) > 1 else 'has'} not REPLICA IDENTITY FULL: a DELETE there takes away a "
                      "row that never was", Health.WRONG,
                      f"leave it out of full-identity; or {set_full(lacking)} and then cdcv2 compare --source: unless "
                      "all is equal, start over (docs/operations/start-over.md)")  # fmt: skip
    yield judged(part, now == row_type, f"{table}: its row type is that of rows/",
                 "the table has changed since (docs/operations/columns.md): cdcv2 rows --source env --table "
                 f"{shlex.quote(table)}" + (f" --exclude-columns {shlex.quote(name_list(unsent))}" if unsent else ""),
                 lacking=f"{table}: its row type is not that of rows/")  # fmt: skip
    if config is None and unsent:
        yield Finding(part, f"{table}: its row type has no {', '.join(unsent)}, which is right if the connector leaves "
                      "that out; its settings are not known", Health.NOT_CHECKED,
                      "look again when Connect has the connector")  # fmt: skip
    if heirs:
        ended = " ".join(f"ALTER TABLE {sql_table(heir)} NO INHERIT {sql_table(table)};" for heir in heirs)
        yield Finding(part, f"{table}: {', '.join(heirs)} inherit from it. A SELECT of it has their rows, too, and so "
                      "has a snapshot; their changes are not among its own", Health.WRONG,
                      f"{ended} or capture its children, and not itself")  # fmt: skip
    if parts and whole:
        yield Finding(part, f"{table}: it is sent as a whole, and a TRUNCATE of one partition is not sent",
                      Health.WARNING, "delete the rows, or drop the partition: docs/operations/monitoring.md")
    elif parts:
        yield Finding(part, f"{table}: its changes are sent under the names of its partitions", Health.WRONG,
                      f"capture {', '.join(parts)}, and not {table} (docs/operations/set-up-a-source.md)")
    if guarded:
        yield _guarded_finding(part, guarded, role)
    may = _rows_of(connection, _SELECT, schema, name)[0][0]
    yield judged(part, bool(may), f"{table}: may be read", f"GRANT SELECT ON {sql_table(table)} TO {role};",
                 lacking=f"{table}: {role} may not read it", otherwise=Health.WARNING)  # fmt: skip


def _changed(part: str, connection: Any, tables: Mapping[str, RowType], version: int) -> Iterator[Finding]:
    """The columns whose values may arrive changed without a sign (``docs/types.md#values-that-arrive-changed``)."""
    sources = {
        f"{table}.{name}": source
        for table, row_type in tables.items() for name, source in zip(row_type.columns, row_type.sources)
    }
    declared = {f"{table}.{name}" for table, name in _rows_of(connection, _DIMENSIONS, list(tables))}
    infinite = version >= _INFINITE_INTERVALS
    causes = {
        "an array of more than one dimension arrives as NULLs, or stops the capture": declared & sources.keys(),
        "infinite intervals arrive as 0": {
            name for name, one in sources.items() if infinite and one is not None and one.type == "interval"
        },
        "microseconds of a time in an array arrive as 0, and so does 24:00": {
            name for name, one in sources.items() if one is not None and one.items is not None
            and one.items.type == "time" and not one.items.in_millis
        },
    }  # fmt: skip
    for cause, columns in causes.items():
        if columns:
            yield Finding(part, f"{', '.join(sorted(columns))}: {cause}", Health.WARNING,
                          "leave out columns with such values (column.exclude.list), or let compare --source show "
                          "them: docs/types.md#values-that-arrive-changed")  # fmt: skip


def reader_findings(part: str, connection: Any, user: str, tables: Iterable[str]) -> Iterator[Finding]:
    """What is found of a connector's role, where that is another than that of the session, which is looked at itself.

    ``user``: its name; a reference, which only Connect resolves, is no role of the server.
    """
    guarded = guarded_tables(connection, tables, user)
    known = _rows_of(connection, _QUOTED, user)
    if known and guarded:
        yield _guarded_finding(part, guarded, known[0][0])
    elif guarded:
        yield Finding(part, f"{', '.join(guarded)}: row-level security may hide rows from the connector's role, which "
                      f"is not known here: {user}", Health.WARNING,
                      "let that role have BYPASSRLS, or own the tables, before the connector's snapshot")  # fmt: skip


def _guarded_finding(part: str, tables: Iterable[str], role: str) -> Finding:
    return Finding(
        part, f"{', '.join(tables)}: row-level security may hide rows from {role}: a snapshot would lack them",
        Health.WRONG, f"ALTER ROLE {role} BYPASSRLS; before the connector's snapshot",
    )


def _publication(
    part: str, source: SourceFields, connection: Any, tables: Mapping[str, RowType]
) -> Iterator[Finding]:
    name = source.publication.name or slot_name(source.prefix)
    rows = _rows_of(connection, _PUBLICATION, name)
    if not rows and source.publication.owned:
        yield Finding(part, f"the publication {name} is not there yet: cdcv2 up makes it")
        database, user, may, *quoted = _rows_of(connection, _MAY_PUBLISH)[0]
        yield judged(part, may, f"{user} may make publications in {database}",
                     f"GRANT CREATE ON DATABASE {quoted[0]} TO {quoted[1]};",
                     lacking=f"{user} may not make publications in {database}")  # fmt: skip
        others = [str(owner) for (owner,) in _rows_of(connection, _OWNERS, list(tables))]
        yield judged(part, not others, f"{user} may publish the tables", f"GRANT {', '.join(others)} TO {quoted[1]};",
                     lacking=f"{user} may not publish the tables of {', '.join(others)}")  # fmt: skip
        return
    if not rows:
        made = f"CREATE PUBLICATION {sql_name(name)} FOR TABLE {', '.join(map(sql_table, tables))};"
        yield Finding(part, f"there is no publication {name}", Health.WRONG, made)
        return
    published = dict(_rows_of(connection, _PUBLISHED, name))
    partly = [table for table in tables if not published.get(table, True)]
    if partly:
        # In one transaction, so that no commit is between the two.
        again = ", ".join(map(sql_table, partly))
        yield Finding(part, f"the publication {name} sends {', '.join(partly)} in part: it has a row filter or a list "
                      "of columns", Health.WRONG, f"BEGIN; ALTER PUBLICATION {sql_name(name)} DROP TABLE {again}; "
                      f"ALTER PUBLICATION {sql_name(name)} ADD TABLE {again}; COMMIT; then start over, if something is "
                      "captured already (docs/operations/start-over.md)")  # fmt: skip
    lacking = [table for table in tables if table not in published]
    # Behind a slot that is there already, what was committed to them is in no topic. One of ours gets what is new.
    begun = _rows_of(connection, _SLOT, _slot(source))
    if lacking and source.publication.owned:
        before = [one for one in lacking if begun and _has_rows(connection, one)]
        if before:
            yield Finding(part, f"{', '.join(before)} has rows already: the connector takes no second snapshot, so "
                          "they would be in no topic, and cdcv2 up does not add it", Health.WRONG,
                          "start over with all tables (docs/operations/start-over.md); or leave it out")  # fmt: skip
        yield Finding(part, f"the publication {name} has no {', '.join(lacking)} yet: cdcv2 up adds it")
        lacking = []
    yield judged(part, not lacking, f"the publication {name} has {len(tables) - len(lacking)} of {len(tables)} tables",
                 f"what is committed to {', '.join(lacking)} never arrives, as the slot {_slot(source)} passes it: "
                 "start over with them (docs/operations/start-over.md)" if begun else
                 f"ALTER PUBLICATION {sql_name(name)} ADD TABLE {', '.join(map(sql_table, lacking))};")  # fmt: skip
    yield judged(part, bool(rows[0][0]), f"the publication {name} has inserts, updates, deletes and truncates",
                 f"ALTER PUBLICATION {sql_name(name)} SET (publish = 'insert, update, delete, truncate');",
                 lacking=f"the publication {name} lacks inserts, updates, deletes or truncates")  # fmt: skip


def _has_rows(connection: Any, table: str) -> bool:
    """Whether rows are seen in a table; one that may not be read has a finding of its own."""
    may = _rows_of(connection, _SELECT, *parts_of(table))[0][0]
    return bool(may and _rows_of(connection, f"SELECT FROM {sql_table(table)} LIMIT 1"))


def _slot(source: SourceFields) -> str:
    return source.slot.name or slot_name(source.prefix)


def _slot_found(part: str, source: SourceFields, connection: Any) -> Iterator[Finding]:
    name = _slot(source)
    rows = _rows_of(connection, _SLOT, name)
    if not rows:
        yield Finding(part, f"the slot {name} is not there yet: the connector makes it", Health.OK)
        return
    plugin, _, status, active = rows[0]
    yield judged(part, plugin == "pgoutput", f"the slot {name} is of {plugin}",
                 "the connector needs plugin.name=pgoutput, and a slot of its own")  # fmt: skip
    yield judged(part, status != "lost", f"the slot {name}: its WAL is {status}",
                 "changes are lost: docs/operations/resnapshots.md")  # fmt: skip
    yield judged(part, bool(active), f"the slot {name} is {'in use' if active else 'not in use'}",
                 "start the connector: meanwhile the server keeps all WAL", otherwise=Health.WARNING)  # fmt: skip


def _rows_of(connection: Any, sql: str, *values: object) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())
