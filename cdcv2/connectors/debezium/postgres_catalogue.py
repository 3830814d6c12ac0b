"""A table by PostgreSQL's catalogue: the row type of its records, and whether its before-images are whole.

The mapping is the connector's with ``decimal.handling.mode=string`` and its other defaults (adaptive times, intervals
as microseconds, bytea as bytes, hstore as JSON).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from cdcv2.connectors.debezium.row_types import (
    MEANINGS, SECOND_TYPES, Avro, field_schema, is_sent, no_row_type, numeric_scale, record_schema,
)  # fmt: skip
from cdcv2.errors import UsageError
from cdcv2.rows.source_types import SourceType
from cdcv2.sql_names import sql_table
from cdcv2.store.postgres_session import find_table
from cdcv2.suggestions import meant

_COLUMNS = """
    SELECT a.attname, a.attnotnull, a.attgenerated <> '', a.atttypid, a.atttypmod
      FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TABLES = """
    SELECT n.nspname, n.nspname || '.' || c.relname FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
     ORDER BY 2
"""
_KEY = """
    SELECT a.attname FROM pg_catalog.pg_index i
      CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
      JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
     WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place
"""
_CHILDREN = """
    SELECT pn.nspname || '.' || p.relname, array_agg(cn.nspname || '.' || c.relname ORDER BY cn.nspname, c.relname)
      FROM pg_catalog.pg_inherits i
      JOIN pg_catalog.pg_class p ON p.oid = i.inhparent JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
      JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
     WHERE p.relkind = ANY(%s) AND pn.nspname || '.' || p.relname = ANY(%s) GROUP BY 1
"""
#: Each table, and below one that has partitions all of these; ``name``: that of the table itself. It locks none.
_TREE = """
    WITH RECURSIVE tree (name, root, relid) AS (
        SELECT n.nspname || '.' || c.relname, c.oid, c.oid
          FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname || '.' || c.relname = ANY(%s)
        UNION ALL SELECT t.name, t.root, i.inhrelid
          FROM tree t JOIN pg_catalog.pg_class p ON p.oid = t.relid AND p.relkind = 'p'
          JOIN pg_catalog.pg_inherits i ON i.inhparent = t.relid
    )
"""
_IDENTITIES = f"""{_TREE}
    SELECT t.name, t.relid = t.root, c.oid::text, n.nspname || '.' || c.relname, c.relkind = 'r', c.relreplident = 'f'
      FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.relid AND c.relkind IN ('r', 'p')
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 4
"""
_INDEXED = f"""{_TREE}
    SELECT t.name, x.relname || CASE WHEN t.relid = t.root THEN ''
                                ELSE ' of its partition ' || n.nspname || '.' || c.relname END
      FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.relid AND c.relkind = 'r'
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisreplident AND NOT i.indisprimary
      JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
     WHERE c.relreplident = 'i' ORDER BY 1, 2
"""
_UNIDENTIFIED = f"""{_TREE}
    SELECT DISTINCT t.name
      FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.relid AND c.relkind = 'r'
     WHERE c.relreplident <> 'f' AND NOT EXISTS (
               SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
                  AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)
     ORDER BY 1
"""
_DEFERRABLE = """
    SELECT n.nspname || '.' || c.relname
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary AND NOT i.indimmediate
     WHERE n.nspname || '.' || c.relname = ANY(%s) ORDER BY 1
"""
_TYPE = """
    SELECT t.typname, t.typtype, t.typcategory, t.typelem, t.typbasetype, t.typtypmod, n.nspname
      FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = %s
"""

#: PostgreSQL's name -> Avro type, and the semantic type where a number needs explaining.
_TYPES: dict[str, tuple[str, str | None]] = {
    "bool": ("boolean", None),
    "int2": ("int", None),
    "int4": ("int", None),
    "int8": ("long", None),
    "oid": ("long", None),
    "float4": ("float", None),
    "float8": ("double", None),
    "bytea": ("bytes", None),
    "date": ("int", "io.debezium.time.Date"),
    "timetz": ("string", "io.debezium.time.ZonedTime"),
    "timestamptz": ("string", "io.debezium.time.ZonedTimestamp"),
    "interval": ("long", "io.debezium.time.MicroDuration"),
    "json": ("string", "io.debezium.data.Json"),
    "jsonb": ("string", "io.debezium.data.Json"),
    "xml": ("string", "io.debezium.data.Xml"),
    "uuid": ("string", "io.debezium.data.Uuid"),
    **{name: ("string", None) for name in (
        "text", "varchar", "bpchar", "char", "citext", "numeric", "money", "inet", "cidr", "macaddr",
        "macaddr8", "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "ltree", "hstore",
        "tsvector",
    )},
}


def row_type_from_postgres(connection: Any, table: str, excluded: Collection[str] = ()) -> dict[str, Avro]:
    """The row type of a table's records, as parsed ``.avsc``; ``table`` is written ``schema.table``.

    ``excluded``: columns that the records lack, as the connector leaves them out.

    Generated columns are left out: the connector has them in its snapshot and not in its stream, so they should be
    on its ``column.exclude.list``. Raises UsageError for a table or a column that is not there, and for a
    column of the primary key that is left out; MalformedError for a type that has no row type, naming the column.
    """
    oid, _ = find_table(connection, table)
    if excluded:
        _demand_columns(connection, table, excluded)
    fields, generated = [], []
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, (oid,))
        for column, not_null, is_generated, kind, modifier in cursor.fetchall():
            if column in excluded:
                continue
            if is_generated:
                generated.append(column)
                continue
            avro, meaning, source = _types(connection, kind, modifier, column)
            doc = MEANINGS.get(meaning) if meaning else None
            fields.append(field_schema(column, avro, nullable=not not_null, doc=doc, source=source))
    left_out = [
        f"without the {what} {', '.join(names)}: see column.exclude.list"
        for what, names in (("generated columns", generated), ("columns", excluded)) if names
    ]
    return record_schema(table, fields, "; ".join(left_out) or None)


def columns_of(connection: Any, table: str) -> tuple[str, ...]:
    """The columns of a table, in order, generated ones among them. Raises UsageError."""
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, (find_table(connection, table)[0],))
        return tuple(str(column) for column, _, _, _, _ in cursor.fetchall())


def _demand_columns(connection: Any, table: str, excluded: Collection[str]) -> None:
    there = columns_of(connection, table)
    for column in excluded:
        if column not in there:
            raise UsageError(f"{table} has no column {column!r} to leave out: it has {', '.join(there)}")
    keyed = [column for column in primary_key(connection, table) if column in excluded]
    if keyed:
        raise UsageError(
            f"{table}: {keyed[0]!r} is of the primary key, and cannot be left out: the connector sends the key in any "
            "case. Leave the table out, or capture the column"
        )


def tables_like(connection: Any, patterns: Iterable[str]) -> list[str]:
    """The tables whose names, ``schema.table``, fit a pattern of shells (``public.*``), in order.

    Of a partitioned table these are the partitions, as the connector has topics of these. Raises UsageError for a
    pattern without a schema, for one that fits none, and for a schema with a dot in its name.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        both = [(str(schema), str(name)) for schema, name in cursor.fetchall()]
    there = [name for _, name in both]
    found: set[str] = set()
    for pattern in patterns:
        if "." not in pattern:
            raise UsageError(f"the table {pattern!r} lacks its schema: write public.{pattern}")
        fitting = fnmatch.filter(there, pattern)
        if not fitting:
            raise UsageError(
                f"the database has no table {pattern!r}: it has {', '.join(there[:10]) or 'none'}"
                f"{', ...' if len(there) > 10 else ''}{meant(pattern, there)}"
            )
        found.update(fitting)
    dotted = sorted(schema for schema, name in both if name in found and "." in schema)
    if dotted:
        raise UsageError(
            f"the schema {dotted[0]!r} has a dot in its name: of SCHEMA.TABLE, the schema ends at the first dot. "
            "Rename it, or leave its tables out"
        )
    return sorted(found)


def primary_key(connection: Any, table: str) -> tuple[str, ...]:
    """The columns of a table's primary key, in its order; none where it has no such key. Raises UsageError."""
    with connection.cursor() as cursor:
        cursor.execute(_KEY, (find_table(connection, table)[0],))
        return tuple(str(name) for (name,) in cursor.fetchall())


def generated_columns(connection: Any, table: str) -> tuple[str, ...]:
    """The generated columns of a table, which the stream does not have. Raises UsageError."""
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, (find_table(connection, table)[0],))
        return tuple(str(column) for column, _, is_generated, _, _ in cursor.fetchall() if is_generated)


class Leaf(NamedTuple):
    """A partition that has rows itself: its name, and whether it has REPLICA IDENTITY FULL."""

    name: str
    full: bool


class TableIdentity(NamedTuple):
    """Whether a table has REPLICA IDENTITY FULL itself; and its leaves by their numbers, None of one that has rows
    itself, as it is not partitioned.
    """

    own: bool
    leaves: dict[str, Leaf] | None

    @property
    def full(self) -> bool:
        """Whether old rows are whole in the records. One that has no partition yet has no rows."""
        return all(leaf.full for leaf in self.leaves.values()) if self.leaves else self.own

    def lacking(self, table: str) -> tuple[str, ...]:
        """The tables to be altered for that, in order: of a partitioned one, its leaves that have not FULL."""
        if self.full:
            return ()
        return tuple(leaf.name for leaf in self.leaves.values() if not leaf.full) if self.leaves else (table,)

    @property
    def mixed(self) -> bool:
        """Whether FULL is meant, as the table or a leaf has it, and another leaf has it not."""
        leaves = (self.leaves or {}).values()
        return bool(leaves) and not self.full and (self.own or any(leaf.full for leaf in leaves))


def table_identities(connection: Any, tables: Iterable[str]) -> dict[str, TableIdentity]:
    """Table -> by which REPLICA IDENTITY its old rows are in the records. Raises UsageError for one that is not there.

    A server takes that of the table in which a row is. So of a partitioned table that of each leaf counts, and its own
    never, also where ``publish_via_partition_root`` sends the row under its name. A new partition has DEFAULT.
    """
    names = list(tables)
    found: dict[str, TableIdentity] = {}
    with connection.cursor() as cursor:
        cursor.execute(_IDENTITIES, (names,))
        rows = cursor.fetchall()
    for table, is_root, _, _, has_rows, full in rows:
        if is_root:
            found[table] = TableIdentity(full, None if has_rows else {})
    for table, is_root, number, name, has_rows, full in rows:
        leaves = found[table].leaves
        if leaves is not None and has_rows and not is_root:
            leaves[number] = Leaf(name, full)
    for table in names:
        if table not in found:
            find_table(connection, table)
    return found


def full_identity(connection: Any, tables: Iterable[str]) -> frozenset[str]:
    """Those of the tables whose old rows are whole in the records: REPLICA IDENTITY FULL. Raises UsageError."""
    return frozenset(table for table, one in table_identities(connection, tables).items() if one.full)


def set_full(tables: Iterable[str]) -> str:
    """The SQL that gives these FULL.

    >>> set_full(["public.a", "public.b"])
    'ALTER TABLE public.a REPLICA IDENTITY FULL; ALTER TABLE public.b REPLICA IDENTITY FULL;'
    """
    return " ".join(f"ALTER TABLE {sql_table(table)} REPLICA IDENTITY FULL;" for table in tables)


def indexed_identities(connection: Any, tables: Iterable[str]) -> dict[str, str]:
    """Table -> the index of its REPLICA IDENTITY USING INDEX, if that is not the primary key's; of a partitioned one,
    also that of which partition.

    The records of such a table have the columns of the index of an old row, and no others: what they have as its
    primary key means nothing, or another row.
    """
    with connection.cursor() as cursor:
        cursor.execute(_INDEXED, (list(tables),))
        return {str(table): str(index) for table, index in cursor.fetchall()}


def unidentified_tables(connection: Any, tables: Iterable[str]) -> tuple[str, ...]:
    """Those of the tables without a replica identity, also if only a partition lacks it: in a publication, an UPDATE
    or DELETE of it fails.
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNIDENTIFIED, (list(tables),))
        return tuple(str(table) for (table,) in cursor.fetchall())


def deferrable_keys(connection: Any, tables: Iterable[str]) -> tuple[str, ...]:
    """Those of the tables whose primary key may be checked at the end of a transaction: within it, two rows may have
    one.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DEFERRABLE, (list(tables),))
        return tuple(str(table) for (table,) in cursor.fetchall())


def children(connection: Any, tables: Iterable[str], *, partitions: bool) -> dict[str, tuple[str, ...]]:
    """Table -> the tables that inherit from it (``INHERITS``), in order, for those of the tables that have such.

    A SELECT of such a table has the rows of its children, too, so a snapshot has them. Their changes are sent under
    their own names alone. With ``partitions``, those of a partitioned table are its children, too: so it is unless the
    publication has ``publish_via_partition_root``.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CHILDREN, (["r", "p"] if partitions else ["r"], list(tables)))
        return {str(table): tuple(map(str, those)) for table, those in cursor.fetchall()}


def _types(
    connection: Any, oid: int, modifier: int, column: str, *, inside: bool = False
) -> tuple[Avro, str | None, SourceType]:
    """The Avro type of a PostgreSQL type, its semantic type, and what it is called there; ``inside``: of an array."""
    with connection.cursor() as cursor:
        cursor.execute(_TYPE, (oid,))
        name, kind, category, element, base, base_modifier, schema = cursor.fetchone()
    # An array of a domain is no column of the records.
    if not is_sent(name) or inside and kind == "d":
        raise no_row_type(column, f"_{name}" if inside else name)
    if kind == "d":
        return _types(connection, base, base_modifier, column)
    if kind == "e":
        return "string", None, SourceType("enum", name=f"{schema}.{name}")
    if category == "A" and element:
        inner, meaning, items = _types(connection, element, modifier, column, inside=True)
        return {"type": "array", "items": ["null", inner]}, meaning, SourceType("array", items=items)
    source = source_type(name, modifier)
    if name in ("time", "timestamp"):
        return *_moment(name, modifier), source
    if name in ("bit", "varbit"):
        avro = ("boolean", None) if (name, modifier) == ("bit", 1) else ("bytes", "io.debezium.data.Bits")
        return *avro, source
    if name in _TYPES:
        return *_TYPES[name], source
    raise no_row_type(column, f"_{name}" if inside else name)


def source_type(name: str, modifier: int) -> SourceType:
    """A type by its name in ``pg_type`` and its modifier, as PostgreSQL keeps it (-1: none).

    >>> source_type("numeric", (12 << 16) + 2 + 4), source_type("bpchar", 9).length
    (SourceType(type='numeric', precision=12, scale=2, length=None, name='', items=None), 5)
    """
    if modifier < 0:
        return SourceType(name)
    if name == "numeric":
        both = modifier - 4
        return SourceType(name, precision=both >> 16, scale=numeric_scale(both))
    if name in ("varchar", "bpchar"):
        return SourceType(name, length=modifier - 4)
    if name in ("bit", "varbit"):
        return SourceType(name, length=modifier)
    return SourceType(name, precision=modifier) if name in SECOND_TYPES else SourceType(name)


def _moment(name: str, modifier: int) -> tuple[Avro, str | None]:
    """Times and timestamps of at most three digits are milliseconds, others microseconds."""
    millis = 0 <= modifier <= 3
    if name == "time":
        return ("int", "io.debezium.time.Time") if millis else ("long", "io.debezium.time.MicroTime")
    return "long", "io.debezium.time.Timestamp" if millis else "io.debezium.time.MicroTimestamp"
