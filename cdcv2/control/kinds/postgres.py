"""What lives in PostgreSQL: publications, tables of views, schemas for staging.

Every act is one transaction, in which the identity is checked again and the mark is set. The right to do
something is asked for by doing it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, LiteralString

from cdcv2 import failpoints
from cdcv2.connectors.debezium.postgres_catalogue import (
    children, indexed_identities, table_identities, unidentified_tables,
)  # fmt: skip
from cdcv2.control.entries import Answer, CatalogueEntry, EntryState, ExternalObject, Kind, Look, NoAnswer, Reason
from cdcv2.control import external_texts as texts
from cdcv2.control.kinds.marks import mark_of, read_mark
from cdcv2.control.kinds.table_checkpoints import demand_not_started, own_checkpoints
from cdcv2.errors import Cdcv2Error, UsageError
from cdcv2.sql_names import parts_of
from cdcv2.store.postgres_session import connect

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection
    from psycopg.sql import Composed, Identifier

WITHIN_MAKE = failpoints.declare("external.postgres-made", "a thing is made in PostgreSQL, and not committed")
WITHIN_DESTROY = failpoints.declare("external.postgres-dropped", "a thing is dropped in PostgreSQL, and not committed")
#: Classes and codes of SQLSTATE: no connection or a shutdown; in use, locked, needed by others, or there already.
_AWAY, _BUSY = ("08", "57P"), ("55006", "55P03", "2BP01", "42710", "42P07", "42P06", "57014", "40P01", "53400")
#: How long, in milliseconds, a lock is waited for, and a statement works.
PATIENCE = 5000
_SYSTEM = "SELECT system_identifier::text FROM pg_control_system()"


class PostgresKind(ABC):
    """What the kinds in PostgreSQL have in common. ``servers``: address -> connection string."""

    def __init__(self, servers: Mapping[str, str]) -> None:
        self._servers = servers

    def look(self, entry: CatalogueEntry) -> Look:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        found: list[Answer] = []

        def ask(session: Connection[Any]) -> None:
            (system,) = session.execute(_SYSTEM).fetchone() or ("",)
            thing = self._found(session, entry)
            remains = thing is None and entry.state is EntryState.UNWANTED and self._remains(session, entry)
            found.append(Answer(system, thing, remains))

        failed = self._do(entry, ask)
        return failed or found[0]

    def make(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""

        def make(session: Connection[Any]) -> None:
            self._make(session, entry)
            failpoints.reach(WITHIN_MAKE)

        return self._do(entry, make)

    def alter(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        return self._do(entry, lambda session: self._alter(session, entry))

    def destroy(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""

        def destroy(session: Connection[Any]) -> None:
            there = self._found(session, entry)
            if there is not None and self._is_same(there, entry):
                self._destroy(session, entry)
                there = None
            if there is None:
                self._clear(session, entry)
            failpoints.reach(WITHIN_DESTROY)

        return self._do(entry, destroy)

    def _is_same(self, there: ExternalObject, entry: CatalogueEntry) -> bool:
        """Whether what is there is what the entry means, at the moment in which it is removed."""
        return there.identity == entry.identity

    @abstractmethod
    def _found(self, session: Connection[Any], entry: CatalogueEntry) -> ExternalObject | None:
        """What is there."""

    @abstractmethod
    def _make(self, session: Connection[Any], entry: CatalogueEntry) -> None: ...

    @abstractmethod
    def _destroy(self, session: Connection[Any], entry: CatalogueEntry) -> None: ...

    def _alter(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        """Nothing: kinds that cannot be altered are not asked to be."""

    def _remains(self, session: Connection[Any], entry: CatalogueEntry) -> bool:
        """Whether something is left beside what is missing, and goes with it."""
        return False

    def _clear(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        """Remove what :meth:`_remains` asks for."""

    def _conninfo(self, entry: CatalogueEntry) -> str | None:
        """That of its database; where the file has another address by now, the one that leads to the same database."""
        database = entry.address.rpartition("/")[2]
        if entry.address in self._servers or entry.server is None:
            return self._servers.get(entry.address)
        there = (info for address, info in self._servers.items() if address.rpartition("/")[2] == database)
        return next((info for info in there if _system_of(info) == entry.server), None)

    def _do(self, entry: CatalogueEntry, work: Callable[[Connection[Any]], None]) -> NoAnswer | None:
        """Do it in one transaction; what hindered it, or None."""
        conninfo = self._conninfo(entry)
        if conninfo is None:
            text = f"no connection to {entry.address} is declared any more: declare it until {entry.shown} is removed"
            return NoAnswer(Reason.UNREACHABLE, text)
        try:
            session = connect(conninfo, origin=f"the connection string of {entry.address}")
        except Cdcv2Error as error:
            return NoAnswer(Reason.UNREACHABLE, str(error))
        import psycopg

        try:
            with session:
                session.execute(f"SET lock_timeout = {PATIENCE}; SET statement_timeout = {4 * PATIENCE}")
                work(session)
        except psycopg.Error as error:
            return hindrance(error, entry)
        except Cdcv2Error as error:
            return NoAnswer(Reason.DENIED, str(error))
        return None


def _system_of(conninfo: str) -> str | None:
    """The identity of a server; None: it does not answer."""
    import psycopg

    with suppress(Cdcv2Error, psycopg.Error), closing(connect(conninfo, autocommit=True)) as session:
        (system,) = session.execute(_SYSTEM).fetchone() or (None,)
        return system
    return None


def hindrance(error: psycopg.Error, entry: CatalogueEntry) -> NoAnswer:
    """An error of PostgreSQL, as what hindered an act. Only the first line is shown: others may hold rows."""
    import psycopg

    state = error.sqlstate or ""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if state in _BUSY:
        return NoAnswer(Reason.BUSY, f"{entry.shown}: PostgreSQL has it in use, or needs it for another ({line})")
    if state.startswith(_AWAY) or (not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)):
        return NoAnswer(Reason.UNREACHABLE, f"{entry.shown}: PostgreSQL ended the session ({line}): see to the server")
    return NoAnswer(Reason.DENIED, f"{entry.shown}: PostgreSQL refuses it ({line}): grant the right, or mend that")


def _named(text: LiteralString, entry: CatalogueEntry, **more: Any) -> Composed:
    """A statement with the name of the entry, quoted, for ``{name}``, and its mark for ``{mark}``."""
    from psycopg import sql

    # Only a table has a schema: in another name, a dot is a character as any.
    name = _table(entry.name) if entry.kind is Kind.TARGET_TABLE else sql.Identifier(entry.name)
    return sql.SQL(text).format(name=name, mark=sql.Literal(mark_of(entry)), **more)


def _table(name: str) -> Identifier:
    from psycopg import sql

    return sql.Identifier(*parts_of(name))


#: Whether a publication sends every kind of change: without a TRUNCATE, a copy keeps all the rows that it took away.
SENDS_ALL: LiteralString = "(pubinsert AND pubupdate AND pubdelete AND pubtruncate)"
#: The tables of a publication: name, number, what is another for a table that came in later or took the place of one,
#: whether all rows and columns of it are sent, and of a partition what it is sent by.
_MEMBERS = """
SELECT n.nspname || '.' || c.relname, c.oid::text, r.oid || ' of ' || c.oid,
       coalesce(to_jsonb(r) -> 'prqual', 'null') = 'null' AND coalesce(to_jsonb(r) -> 'prattrs', 'null') = 'null', NULL
FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.prpubid = %s::oid ORDER BY 1
"""
#: The same of one of others, which may also publish schemas, or all tables. ``{schema}``: the number of a schema's
#: membership. ``{above}``: see ``_ABOVE``.
_SENT = """
SELECT p.schemaname || '.' || p.tablename, c.oid::text, coalesce(r.oid || ' of ', {schema} || ' for ', '') || c.oid,
       coalesce(to_jsonb(p) -> 'rowfilter', 'null') = 'null' AND coalesce(to_jsonb(r) -> 'prattrs', 'null') = 'null',
       CASE WHEN c.relispartition AND NOT o.puballtables THEN {above} END
FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
JOIN pg_publication o ON o.pubname = p.pubname
LEFT JOIN pg_publication_rel r ON r.prpubid = o.oid AND r.prrelid = c.oid WHERE p.pubname = %s
"""
#: From PostgreSQL 15 on.
_OF_SCHEMA = "(SELECT s.oid FROM pg_publication_namespace s WHERE s.pnpubid = o.oid AND s.pnnspid = n.oid)"
#: Of a partition: the version of each link up to the first table that is a member itself, and that membership.
_ABOVE = """(
    SELECT string_agg(coalesce(u.member || ' of ', u.link || ' in ') || u.relid, ', ' ORDER BY u.place) FROM (
        SELECT a.place, b.oid AS relid, i.xmin::text AS link, m.member,
               count(m.member) OVER (ORDER BY a.place) - count(m.member) OVER (PARTITION BY a.place) AS below
        FROM pg_partition_ancestors(c.oid) WITH ORDINALITY a (relid, place)
        JOIN pg_class b ON b.oid = a.relid JOIN pg_namespace n ON n.oid = b.relnamespace
        LEFT JOIN pg_inherits i ON i.inhrelid = a.relid
        LEFT JOIN pg_publication_rel q ON q.prpubid = o.oid AND q.prrelid = a.relid
        CROSS JOIN LATERAL (SELECT coalesce(q.oid, {schema}) AS member) m
    ) u WHERE u.below = 0
)"""
#: Of each table: the version and the owner of its name (of its row type: that is altered when the table gets another
#: name or schema, and by hardly anything else); the file in which its rows are; its table of long values; of each of
#: its columns the number, the version, the type, and whether rows lack it that have its default; and of one that has
#: partitions, of each partition with rows the versions of the links to it, its file, and its table of long values.
_STORED = """
WITH RECURSIVE tree (root, relid, links) AS (
    SELECT c.oid, c.oid, '' FROM pg_class c WHERE c.oid = ANY (%(tables)s::oid[]) AND c.relkind = 'p'
    UNION ALL SELECT t.root, i.inhrelid, t.links || '/' || i.xmin
    FROM tree t JOIN pg_inherits i ON i.inhparent = t.relid
), leaves (root, parts) AS (
    SELECT t.root, jsonb_object_agg(c.oid, jsonb_build_array(t.links, c.relfilenode::text, c.reltoastrelid::text))
    FROM tree t JOIN pg_class c ON c.oid = t.relid WHERE c.relkind <> 'p' GROUP BY t.root
)
SELECT c.oid::text, jsonb_build_array(y.xmin::text, y.typowner::text), jsonb_build_array(
           c.relfilenode::text,
           (SELECT jsonb_object_agg(a.attname, jsonb_build_array(
                a.attnum, a.xmin::text, concat_ws('/', a.atttypid, a.atttypmod, a.attcollation), a.atthasmissing))
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
           c.reltoastrelid::text, coalesce(l.parts, '{}'))
FROM pg_class c JOIN pg_type y ON y.oid = c.reltype LEFT JOIN leaves l ON l.root = c.oid
WHERE c.oid = ANY (%(tables)s::oid[]) AND c.relkind IN ('r', 'p')
"""
#: Of each table the labels of the enum types of its columns, also within arrays and domains, by their numbers.
_LABELS = """
WITH RECURSIVE used (relid, type) AS (
    SELECT a.attrelid, a.atttypid FROM pg_attribute a
    WHERE a.attrelid = ANY (%(tables)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
    UNION SELECT u.relid, coalesce(nullif(y.typbasetype, 0), y.typelem)
    FROM used u JOIN pg_type y ON y.oid = u.type WHERE y.typbasetype <> 0 OR y.typelem <> 0
)
SELECT u.relid::text, jsonb_object_agg(e.oid, e.enumlabel)
FROM used u JOIN pg_enum e ON e.enumtypid = u.type GROUP BY u.relid
"""


class PublicationKind(PostgresKind):
    """Publications. Settings: ``tables``, a sorted list of ``schema.table``, of which all changes are sent.

    What a look finds also has, of each table, what shows later that not all of its changes were sent:

    - ``members``: it is another when the table left the publication and came back, or another has taken its name;
    - ``above``: the same of the table by which a partition is sent, and of what is between the two;
    - ``named``: another when the table got another name or schema, also when it has its own again;
    - ``full``: not in it, although it was before: its old rows are no longer whole in the records; of one that has
      partitions, ``leaves`` has of each by its number whether they are;
    - ``stored``: its file and its columns; ``labels``: those of its enum types.

    A table from which others inherit, or that has partitions which are sent by themselves, counts as not sent, as its
    rows are not all sent under its name: ``children`` has these. So does one whose old rows are known by another index
    than its primary key: ``indexed`` has that. Of one that is meant to have FULL, ``mixed`` has the partitions that
    have it not: one that is new has DEFAULT.

    ``version`` is another when what is published of the tables was changed, as ``publish``, also when that was changed
    back.
    """

    def _found(self, session: Connection[Any], entry: CatalogueEntry) -> ExternalObject | None:
        row = session.execute(
            "SELECT oid::text, puballtables, obj_description(oid, 'pg_publication'), "
            f"{SENDS_ALL}, xmin::text, pubviaroot FROM pg_publication WHERE pubname = %s", [entry.name],
        ).fetchone()  # fmt: skip
        if row is None:
            return None
        schema = _OF_SCHEMA if session.info.server_version >= 150000 else "NULL::oid"
        sent = _SENT.replace("{above}", _ABOVE).replace("{schema}", schema)
        statement, named = (_MEMBERS, row[0]) if entry.owned else (sent, entry.name)
        found = [one for one in session.execute(statement, [named]).fetchall() if one[3] and row[3]]
        if not entry.owned:
            # Others may publish more than we need.
            found = sorted(one for one in found if one[0] in entry.settings.get("tables", ()))
        # One of others has partitions under the names by which they are sent.
        heirs = children(session, [name for name, *_ in found], partitions=entry.owned and not row[5])
        indexed = indexed_identities(session, [name for name, *_ in found])
        found = [one for one in found if one[0] not in heirs and one[0] not in indexed]
        mark, owner = read_mark(row[2])
        tables = ["*"] if entry.owned and row[1] else [name for name, *_ in found]
        settings = {
            "tables": tables, "members": {name: member for name, _, member, *_ in found}, "version": row[4],
            "above": {name: above for name, *_, above in found if above},
            **_contents(session, {number: name for name, number, *_ in found}),
        }  # fmt: skip
        identities = table_identities(session, [name for name, *_ in found])
        settings["full"] = sorted(name for name, one in identities.items() if one.leaves is None and one.full)
        settings["leaves"] = {
            name: {number: leaf.full for number, leaf in one.leaves.items()}
            for name, one in identities.items() if one.leaves is not None
        }
        settings["mixed"] = {name: list(one.lacking(name)) for name, one in identities.items() if one.mixed}
        if heirs:
            settings["children"] = {name: list(those) for name, those in heirs.items()}
        if indexed:
            settings["indexed"] = indexed
        return ExternalObject(row[0], mark, owner, settings=settings, place=f"{len(tables)} tables")

    def _make(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        session.execute(_named("CREATE PUBLICATION {name} FOR TABLE {tables}", entry, tables=_tables(session, entry)))
        session.execute(_named("COMMENT ON PUBLICATION {name} IS {mark}", entry))

    def _alter(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        if entry.state is EntryState.IN_USE:
            there = {name for name, *_ in session.execute(_MEMBERS, [entry.identity]).fetchall()}
            _demand_empty(session, entry, [name for name in entry.settings["tables"] if name not in there])
        session.execute(_named("ALTER PUBLICATION {name} SET TABLE {tables}", entry, tables=_tables(session, entry)))

    def _destroy(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        session.execute(_named("DROP PUBLICATION {name}", entry))


def _contents(session: Connection[Any], names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """``named``, ``stored`` and ``labels`` of these tables. ``names``: of their numbers."""
    asked = {"tables": [*names]}
    stored = session.execute(_STORED, asked).fetchall()
    labels = session.execute(_LABELS, asked).fetchall()
    return {
        "named": {names[number]: version for number, version, _ in stored},
        "stored": {names[number]: rows for number, _, rows in stored},
        "labels": {names[number]: those for number, those in labels},
    }


def _demand_empty(session: Connection[Any], entry: CatalogueEntry, tables: list[str]) -> None:
    """Raise UsageError if a table that comes into a publication in use has a row: no record would have that row.

    Until the end of the transaction no other one writes to the tables.
    """
    from psycopg import sql

    # Else a table would seem empty whose rows are hidden from its owner.
    session.execute("SET LOCAL row_security = off")
    for name in tables:
        session.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(_table(name)))
        if session.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(_table(name))).fetchone() is not None:
            raise UsageError(texts.rows_before(entry, name))


def _tables(session: Connection[Any], entry: CatalogueEntry) -> Composed:
    """The tables of a publication, without any that inherit from them. Raises UsageError where such are there, and
    for a table whose old rows are known by another index than its primary key, or by nothing.
    """
    from psycopg import sql

    heirs = children(session, entry.settings["tables"], partitions=True)
    if heirs:
        raise UsageError(f"{entry.shown} is not given a table from which others inherit. {texts.inheritance(heirs)}")
    indexed = indexed_identities(session, entry.settings["tables"])
    if indexed:
        raise UsageError(f"{entry.shown} is not given a table without its primary key. {texts.identities(indexed)}")
    unidentified = unidentified_tables(session, entry.settings["tables"])
    if unidentified:
        raise UsageError(texts.unidentified(entry, unidentified))
    names = map(_table, entry.settings["tables"])
    # Without ONLY, it would get those that inherit from them in this moment.
    return sql.SQL(", ").join(sql.SQL("ONLY {}").format(name) for name in names)


class TargetTableKind(PostgresKind):
    """Tables of views. Settings: ``columns``, each its name, its type as PostgreSQL prints it, and whether it may be
    null; ``key``, the names of the columns of the primary key.

    With ``materialization``, its name, and ``tables``, all that it writes, the last of these takes along what the
    materialization has committed: so one of the same name begins from nothing.
    """

    def _found(self, session: Connection[Any], entry: CatalogueEntry) -> ExternalObject | None:
        place = _named("{name}", entry).as_string(session)
        row = session.execute(
            "SELECT oid::text, obj_description(oid, 'pg_class') FROM pg_class WHERE oid = to_regclass(%s)", [place]
        ).fetchone()
        if row is None:
            return None
        columns = session.execute(
            "SELECT attname::text, format_type(atttypid, atttypmod), NOT attnotnull FROM pg_attribute "
            "WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum", [row[0]],
        ).fetchall()  # fmt: skip
        key = session.execute(
            "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
            "AND a.attnum = ANY (i.indkey) WHERE i.indrelid = %s::oid AND i.indisprimary "
            "ORDER BY array_position(i.indkey::int2[], a.attnum)", [row[0]],
        ).fetchall()  # fmt: skip
        empty = session.execute(_named("SELECT FROM {name} LIMIT 1", entry)).fetchone() is None
        mark, owner = read_mark(row[1])
        found = {"columns": [list(column) for column in columns], "key": [name for (name,) in key]}
        # These are no settings of the table.
        found |= {name: entry.settings[name] for name in ("materialization", "tables") if name in entry.settings}
        return ExternalObject(row[0], mark, owner, empty, found, place=f"{len(columns)} columns")

    def _make(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        from psycopg import sql

        demand_not_started(session, entry)
        columns = [
            sql.SQL("{} " + type_ + ("" if nullable else " NOT NULL")).format(sql.Identifier(name))
            for name, type_, nullable in entry.settings["columns"]
        ]
        key = sql.SQL(", ").join(sql.Identifier(name) for name in entry.settings["key"])
        parts = sql.SQL(", ").join([*columns, sql.SQL("PRIMARY KEY ({})").format(key)])
        session.execute(_named("CREATE TABLE {name} ({parts})", entry, parts=parts))
        session.execute(_named("COMMENT ON TABLE {name} IS {mark}", entry))

    def _destroy(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        # Not CASCADE: what others have built on it is theirs.
        session.execute(_named("DROP TABLE {name}", entry))

    def _remains(self, session: Connection[Any], entry: CatalogueEntry) -> bool:
        """What the view has committed, when none of its tables is left."""
        if "materialization" not in entry.settings:
            return False
        asked = [_table(name).as_string(session) for name in entry.settings["tables"]]
        there = session.execute("SELECT FROM unnest(%s::text[]) p WHERE to_regclass(p) IS NOT NULL", [asked]).fetchone()
        return there is None and bool(own_checkpoints(session, entry))

    def _clear(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        if self._remains(session, entry):
            session.execute(
                "DELETE FROM cdcv2_checkpoints WHERE materialization = %s AND checkpoint = ANY (%s)",
                [entry.settings["materialization"], own_checkpoints(session, entry)],
            )


class StagingKind(PostgresKind):
    """Schemas in which executors stage rows. Tables of ours in them, ``cdcv2_...``, are dropped with them."""

    def _found(self, session: Connection[Any], entry: CatalogueEntry) -> ExternalObject | None:
        row = session.execute(
            "SELECT n.oid::text, obj_description(n.oid, 'pg_namespace'), "
            "EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid) FROM pg_namespace n WHERE n.nspname = %s",
            [entry.name],
        ).fetchone()
        if row is None:
            return None
        mark, owner = read_mark(row[1])
        return ExternalObject(row[0], mark, owner, not row[2])

    def _make(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        session.execute(_named("CREATE SCHEMA {name}", entry))
        session.execute(_named("COMMENT ON SCHEMA {name} IS {mark}", entry))

    def _destroy(self, session: Connection[Any], entry: CatalogueEntry) -> None:
        from psycopg import sql

        ours = session.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'cdcv2\\_%%'", [entry.name]
        ).fetchall()
        for (table,) in ours:
            session.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(entry.name, table)))
        # Not CASCADE: anything else in it is of others, and is named by the error.
        session.execute(_named("DROP SCHEMA {name}", entry))
