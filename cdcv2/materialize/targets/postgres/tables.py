"""A table of a view in PostgreSQL: its types, its statements, and its values there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from cdcv2.errors import MalformedError, MissingLogError, OutputError, RefusedError, UnavailableError, UsageError
from cdcv2.materialize.protocol.messages import Field, Key, Store, Table, Values
from cdcv2.materialize.targets.postgres.places import TablePlace
from cdcv2.sql_names import parts_of, quoted, sql_table
from cdcv2.views.source_columns import demand_held, source_column

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

#: Bytes of a name; PostgreSQL cuts off what is longer.
LONGEST_NAME = 63
#: kind of a field -> the column's type, as PostgreSQL prints it; a decimal of known precision is numeric(p,s)
TYPES: dict[str, LiteralString] = {
    "boolean": "boolean",
    "int": "integer",
    "long": "bigint",
    "integer": "numeric",
    "decimal": "numeric",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "bytes": "bytea",
    "json": "jsonb",
}
#: Classes of SQLSTATE that are not about the transaction itself: no connection, a conflict, a lock, a shutdown; and
#: the one for too many connections.
_AWAY, _TOO_MANY, _READ_ONLY = {"08", "40", "55", "57"}, "53300", "25006"
#: kinds whose values PostgreSQL gives back as another type of Python's
_INWARD: dict[str, Callable[[Any], Any]] = {"integer": int}
#: How the texts of moments, numbers and bytes are spelled, whatever the server or the user has set; and that a query is
#: an error, rather than that a policy hides rows from it.
SETTINGS = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY'; SET extra_float_digits = 1; SET array_nulls = on; "
    "SET quote_all_identifiers = off; SET row_security = off"
)

_PLACE = "SELECT oid::bigint, relpersistence::text FROM pg_class WHERE oid = to_regclass(%s)"
# Of these columns (their tables, names, types, and names of types that may not be there, in four arrays): those that
# are not so, and how they are.
_MISFITS = """
SELECT e.number - 1, format_type(a.atttypid, a.atttypmod)
  FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS e (place, name, type, maybe, number)
  LEFT JOIN pg_attribute a
    ON a.attrelid = to_regclass(e.place) AND a.attname = e.name AND a.attnum > 0 AND NOT a.attisdropped
 WHERE format_type(a.atttypid, a.atttypmod)
       IS DISTINCT FROM CASE WHEN e.maybe IS NULL THEN e.type ELSE format_type(to_regtype(e.maybe), NULL) END
 ORDER BY e.number
"""
_THERE = "SELECT name FROM unnest(%s::text[]) name WHERE to_regtype(name) IS NOT NULL"
_UNIQUE = """
SELECT FROM pg_index i WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
   AND %s::text[] = ARRAY(SELECT a.attname::text FROM pg_attribute a
                           WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1]) ORDER BY 1)
"""


def type_of(field: Field) -> str:
    """The type of a column, as PostgreSQL prints it.

    >>> type_of(Field("price", "decimal", precision=12, scale=2)), type_of(Field("n", "long"))
    ('numeric(12,2)', 'bigint')
    """
    kept = source_column(field.source, field.kind)
    if kept is not None:
        return kept.postgres
    if field.kind == "decimal" and field.precision is not None:
        return f"numeric({field.precision},{field.scale or 0})"
    return TYPES[field.kind]


def made_columns(table: Table) -> list[list[Any]]:
    """Of each column that the table is made with: name, type as PostgreSQL prints it, whether it may be null.

    A type of the source that a server may lack (an enum) is not among them: its column is made as the log has it.
    """
    plain = [field if _maybe(field) is None else replace(field, source=None) for field in table.fields]
    keys = {field.name for field in table.key}
    return [[field.name, type_of(field), field.nullable and field.name not in keys] for field in plain]


def stored_columns(session: Connection[Any], table: Table, at: TablePlace) -> Table:
    """The table as it is, or would be made, at its place, without the source's types of columns that are not kept so.

    They are kept as the log has them where a table was made so, and where the server lacks the type (as an enum).
    """
    typed = [field for field in table.fields if source_column(field.source, field.kind) is not None]
    wanted = [_maybe(field) for field in typed]
    there = {name for (name,) in session.execute(_THERE, [wanted]).fetchall()} if any(wanted) else set()
    place = at.identifier.as_string(session)
    plain = [replace(field, source=None) for field in typed]
    # Those of which the table has a column of the log's type, rather than another or none.
    misfits = {
        number for number, _ in session.execute(_MISFITS, _expected_columns([(place, one) for one in plain])).fetchall()
    }
    as_log = {
        field.name for number, field in enumerate(typed)
        if number not in misfits or _maybe(field) not in (None, *there)
    }  # fmt: skip

    def kept(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(replace(one, source=None) if one.name in as_log else one for one in fields)

    return replace(table, key=kept(table.key), values=kept(table.values))


def alterations(table: Table, kept: Table) -> list[str]:
    """The statements that give a table, as it is kept, the types of the source."""
    found = []
    for field, now in zip(table.fields, kept.fields):
        column = source_column(field.source, field.kind)
        if column is not None and now.source is None and column.optional is None:
            found.append(column.altering(sql_table(table.name), quoted(field.name)))
    return found


def _maybe(field: Field) -> str | None:
    kept = source_column(field.source, field.kind)
    return None if kept is None else kept.optional


def _expected_columns(fields: Sequence[tuple[str, Field]]) -> list[list[str | None]]:
    """The four arrays of :data:`_MISFITS`."""
    rows = [(place, field.name, type_of(field), _maybe(field)) for place, field in fields]
    return [[row[at] for row in rows] for at in range(4)]


def line(cause: Exception) -> str:
    """The first line of PostgreSQL's message; the others may show rows."""
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def check_names(table: Table) -> None:
    """Raise UsageError if PostgreSQL would cut a name off."""
    for name in (*parts_of(table.name), *(field.name for field in table.fields)):
        if len(name.encode("utf-8")) > LONGEST_NAME:
            raise UsageError(
                f"{table.name}: {name!r} is longer than the {LONGEST_NAME} bytes that PostgreSQL keeps of a name: call "
                "the target or the reduction otherwise; a column of the log, in the source"
            )


class ExistingTable(NamedTuple):
    """What of a table was there: PostgreSQL's number of it, whether it had to be made, whether it has no rows."""

    number: int | None
    missing: bool
    empty: bool


class PostgresTable:
    """The statements for one table, made once. ``number`` is in the names of its temporary tables.

    ``place``: where the session has found it; errors have its name in the binding. ``staged``: the table in which
    executors stage rows, in place of a temporary one.
    """

    def __init__(self, number: int, table: Table, place: TablePlace, staged: str | None = None) -> None:
        from psycopg import sql

        self.number, self.name, self.table = number, table.name, table
        check_names(table)
        self.at, self.identifier = place, place.identifier
        self.rows = sql.Identifier(staged or f"cdcv2_rows_{number}")
        self._keys = sql.Identifier(f"cdcv2_keys_{number}")
        kept = [source_column(field.source, field.kind) for field in table.fields]
        self._inward = [
            _INWARD.get(field.kind) if one is None else one.inward for field, one in zip(table.fields, kept)
        ]
        # Checked before a cast would round them.
        self._typed = [(at, field) for at, (field, one) in enumerate(zip(table.fields, kept)) if one is not None]
        names = {"t": self.identifier, "rows": self.rows, "keys": self._keys, **self._lists(table)}

        def made(text: LiteralString) -> Composed:
            return sql.SQL(text).format(**names)

        self.copy_keys = made("COPY {keys} ({key}) FROM STDIN")
        self.analyse_keys = made("ANALYZE {keys}")
        self.select = made("SELECT {selected} FROM {keys} s JOIN {t} t ON {same}")
        self.select_all = made("SELECT {selected} FROM {t} t")
        self.copy_rows = made("COPY {rows} ({all}, cdcv2_exists, cdcv2_delete) FROM STDIN")
        self.analyse_rows = made("ANALYZE {rows}")
        update = "WHEN MATCHED AND s.cdcv2_exists THEN UPDATE SET {set} " if table.values else ""
        self.merge = made(
            "MERGE INTO {t} t USING {rows} s ON {same} "
            "WHEN MATCHED AND s.cdcv2_exists AND s.cdcv2_delete THEN DELETE "
            + update
            + "WHEN NOT MATCHED AND NOT s.cdcv2_exists THEN INSERT ({all}) VALUES ({staged})"
        )
        self.odd = made(
            "SELECT {staged_key} FROM {rows} s WHERE s.cdcv2_exists <> EXISTS (SELECT FROM {t} t WHERE {same}) LIMIT 1"
        )
        self._any = made("SELECT FROM {t} LIMIT 1")
        self._create = made("CREATE TABLE IF NOT EXISTS {t} ({typed}, PRIMARY KEY ({key}))")
        self.create_keys = made("CREATE TEMP TABLE {keys} ({loose_key}) ON COMMIT DELETE ROWS")
        self._create_rows = made(
            "CREATE TEMP TABLE {rows} ({loose}, cdcv2_exists boolean, cdcv2_delete boolean) ON COMMIT DELETE ROWS"
        )
        self.create_staged = made(
            "CREATE UNLOGGED TABLE IF NOT EXISTS {rows} "
            "({loose}, cdcv2_exists boolean, cdcv2_delete boolean, cdcv2_attempt text)"
        )
        self.copy_staged = made("COPY {rows} ({all}, cdcv2_exists, cdcv2_delete, cdcv2_attempt) FROM STDIN")
        # The name of a staging table has nothing in it that a placeholder beside it could be confused with.
        self.lock_staged = made("LOCK TABLE {rows} IN EXCLUSIVE MODE")
        self.trim_staged = made("DELETE FROM {rows} WHERE cdcv2_attempt <> ALL (%s)")
        self.empty_staged = made("TRUNCATE {rows}")

    @staticmethod
    def _lists(table: Table) -> dict[str, Composed]:
        """The lists of columns that the statements are put together of."""
        from psycopg import sql

        def listed(text: LiteralString, fields: tuple[Field, ...], between: LiteralString = ", ") -> Composed:
            return sql.SQL(between).join(
                sql.SQL(text).format(
                    c=sql.Identifier(field.name),
                    type=sql.SQL(type_of(field)),
                    loose=sql.SQL(type_of(replace(field, source=None))),
                    null=sql.SQL("" if field.nullable else " NOT NULL"),
                    into=expression(field, "into", sql.SQL("s.{}").format(sql.Identifier(field.name))),
                    out=expression(field, "out", sql.SQL("t.{}").format(sql.Identifier(field.name))),
                )
                for field in fields
            )

        return {
            "key": listed("{c}", table.key),
            "all": listed("{c}", table.fields),
            "staged": listed("{into}", table.fields),
            "staged_key": listed("s.{c}", table.key),
            "selected": listed("{out}", table.fields),
            "same": listed("t.{c} = {into}", table.key, " AND "),
            "set": listed("{c} = {into}", table.values),
            "typed": listed("{c} {type}{null}", table.fields),
            "loose_key": listed("{c} {loose}", table.key),
            "loose": listed("{c} {loose}", table.fields),
        }

    def make(self, session: Connection[Any], *, create: bool = True) -> ExistingTable:
        """Make the table if it is missing, and the session's temporary ones. Raises RefusedError if it does not fit.

        Without ``create`` a missing table raises MissingLogError.
        """
        place = self.place(session)
        missing = session.execute(_PLACE, [place]).fetchone() is None
        if missing and not create:
            raise MissingLogError(
                f"the table {self.name} is not there, and --no-create leaves it to others to make it: let cdcv2 up or "
                "its owner make it, or leave --no-create out"
            )
        if missing:
            # Not IF NOT EXISTS alone, for which it takes the right to make tables where none is made.
            with postgres_errors("make", self.name):
                session.execute(self._create)
        number, lasting = session.execute(_PLACE, [place]).fetchone() or (None, "p")
        if lasting != "p":
            raise RefusedError(
                f"the table {self.name} is unlogged: after a crash of the server it would be empty, and the checkpoint "
                "beside it not. ALTER TABLE ... SET LOGGED, or give the binding another target"
            )
        demand_fit(session, [self])
        key = sorted(field.name for field in self.table.key)
        if session.execute(_UNIQUE, [place, key]).rowcount == 0:
            raise RefusedError(
                f"the table {self.name} has no primary key or unique index over {', '.join(key)}: add one, or give the "
                "binding another target"
            )
        session.execute(self.create_keys)
        session.execute(self._create_rows)
        return ExistingTable(number, missing, session.execute(self._any).fetchone() is None)

    def place(self, session: Connection[Any]) -> str:
        """Its name, as SQL has it."""
        return self.identifier.as_string(session)

    def look(self, session: Connection[Any], keys: Sequence[Key]) -> list[tuple[Key, Values]]:
        """The keys of these that are there, with their values; in the transaction that is open.

        Raises RefusedError for a key that is there in another spelling.
        """
        with session.cursor().copy(self.copy_keys) as copy:
            for key in keys:
                copy.write_row(key)
        # Otherwise the planner guesses a thousand keys, and reads all of a large target for a single one.
        session.execute(self.analyse_keys)
        found = [self.inward(row) for row in session.execute(self.select).fetchall()]
        if len({key for key, _ in found}.intersection(keys)) != len(found):
            self.demand_unequal_keys(session, self._keys)
        return found

    def merged(
        self, session: Connection[Any], merge: Composed, rows: Composable, names: Sequence[Composable] | None = None
    ) -> int:
        """How many rows a MERGE of staged ones affects, in the transaction that is open; behind its savepoint.

        ``rows`` and ``names`` are as in :meth:`demand_unequal_keys`.
        """
        from psycopg.errors import UniqueViolation

        session.execute("SAVEPOINT cdcv2_merge")
        try:
            return session.execute(merge).rowcount
        except UniqueViolation:
            self.take_back(session)
            self.demand_unequal_keys(session, rows, names)
            raise

    def take_back(self, session: Connection[Any]) -> None:
        """As it was before the last MERGE."""
        session.execute("ROLLBACK TO cdcv2_merge")

    def demand_unequal_keys(
        self, session: Connection[Any], rows: Composable, names: Sequence[Composable] | None = None
    ) -> None:
        """Raise RefusedError if two keys, staged or there, are spelled in two ways and one in PostgreSQL.

        For where something did not fit: it compares each key that is staged in ``rows``, in the columns ``names`` (by
        default the key's own), with the others and with the table.
        """
        from psycopg import sql

        key, width = self.table.key, len(self.table.key)
        names = names or [sql.Identifier(field.name) for field in key]

        def each(text: LiteralString, between: LiteralString) -> Composed:
            return sql.SQL(between).join(
                sql.SQL(text).format(
                    n=name, s=expression(field, "into", sql.SQL("s.{}").format(name)),
                    o=expression(field, "into", sql.SQL("o.{}").format(name)), c=sql.Identifier(field.name),
                    t=expression(field, "out", sql.SQL("t.{}").format(sql.Identifier(field.name))),
                ) for field, name in zip(key, names)
            )  # fmt: skip

        staged = sql.SQL("SELECT {}, {} FROM {rows} s JOIN {rows} o ON {} WHERE {} LIMIT 1").format(
            each("s.{n}", ", "), each("o.{n}", ", "), each("{s} = {o}", " AND "), each("s.{n} <> o.{n}", " OR "),
            rows=rows,
        )  # fmt: skip
        there = sql.SQL("SELECT {}, {} FROM {} s JOIN {} t ON {}").format(
            each("s.{n}", ", "), each("{t}", ", "), rows, self.identifier, each("t.{c} = {s}", " AND ")
        )
        for query, inward in ((staged, tuple), (there, self.inward_key)):
            for row in session.execute(query):
                first, second = row[:width], inward(row[width:])
                if first != second:
                    session.rollback()
                    raise one_key(self.table, first, second)

    def outward(self, message: Store) -> tuple[Any, ...]:
        """A row, as COPY takes it. Raises MalformedError for a value that its column would round."""
        row = (*message.key, *message.values, message.exists, message.delete)
        for at, field in self._typed:
            demand_held(field, row[at], self.name)
        return row

    def inward(self, row: tuple[Any, ...]) -> tuple[Key, Values]:
        """A row that was selected: its key and its values."""
        values = tuple([
            value if convert is None or value is None else convert(value) for convert, value in zip(self._inward, row)
        ])
        width = len(self.table.key)
        return values[:width], values[width:]

    def inward_key(self, row: tuple[Any, ...]) -> Key:
        """A key that was selected."""
        return self.inward(row)[0]


def one_key(table: Table, first: Key, second: Key) -> RefusedError:
    """What is wrong with two different keys that are one in PostgreSQL.

    >>> str(one_key(Table("t", (Field("k", "string"),), ()), ("a",), ("A",)))[:52]
    "t: the keys ('a',) and ('A',) are one in PostgreSQL,"
    """
    different = [field for field, one, other in zip(table.key, first, second) if one != other]
    names = ", ".join(f"{field.name!r} ({type_of(field)})" for field in different)
    remedy = "give the binding a new table, whose column has a collation that does not take them for equal"
    if any(field.source is not None for field in different):
        remedy = (
            "keep that key as the log has it. Take its cdcv2.source out of the row schema, name that with types in the "
            "file, and materialize into a new table"
        )
    return RefusedError(
        f"{table.name}: the keys {first!r} and {second!r} are one in PostgreSQL, which takes values of {names} for "
        f"equal that are spelled in two ways: {remedy} (docs/types.md#keys-that-are-spelled-in-two-ways)"
    )


def expression(field: Field, way: str, column: Composable) -> Composed:
    """What is put into a column (``into``, of what is staged), or what it gives (``out``)."""
    from psycopg import sql

    kept = source_column(field.source, field.kind)
    if kept is not None:
        return sql.SQL(kept.into if way == "into" else kept.out).format(x=column)
    return sql.SQL("{x}::text" if field.kind == "json" and way == "out" else "{x}").format(x=column)


def lock(session: Connection[Any], tables: Sequence[PostgresTable]) -> None:
    """From here to the end of the transaction, rows of these tables may be written, and no session alters a column."""
    from psycopg import sql

    places = sql.SQL(", ").join(table.identifier for table in tables)
    session.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(places))


def demand_fit(session: Connection[Any], tables: Iterable[PostgresTable]) -> None:
    """Raise RefusedError unless all columns have the types that their bindings need.

    PostgreSQL itself would not: it rounds what it puts into a column that was made narrower. Cost: one query.
    """
    fields = [(table, field) for table in tables for field in table.table.fields]
    places = {table.name: table.place(session) for table, _ in fields}
    wrong = session.execute(
        _MISFITS, _expected_columns([(places[table.name], field) for table, field in fields])
    ).fetchone()
    if wrong is not None:
        (table, field), found = fields[wrong[0]], wrong[1]
        state = "is missing" if found is None else f"has the type {found}"
        raise RefusedError(
            f"the table {table.name} does not fit its binding: the column {field.name!r} {state} and should "
            f"have the type {type_of(field)}. Alter it, or start again if you have just given it the source's type: a "
            "table is looked at when it is opened. If the source's column was altered: make the row schema again "
            "(cdcv2 rows), and name its folder with types in the file; or give the binding another target"
        )


@contextmanager
def postgres_errors(what: str, place: str) -> Iterator[None]:
    """In its block, errors of psycopg are raised as ours, each with a remedy; they never show how to connect.

    ``what`` was to be done, and ``place`` is the table, both in words. Raises UnavailableError where the server does
    not answer, MalformedError for a value that it cannot hold, and else OutputError or what fits the state better.
    """
    import psycopg

    try:
        yield
    except psycopg.Error as cause:
        raise _own_columns(cause, what, place) from cause


def _own_columns(cause: psycopg.Error, what: str, place: str) -> Exception:
    import psycopg

    state = cause.sqlstate or ""
    away = isinstance(cause, psycopg.OperationalError) and (not state or state[:2] in _AWAY or state == _TOO_MANY)
    if away or isinstance(cause, psycopg.InterfaceError):
        return UnavailableError(
            f"PostgreSQL does not answer, or ends the session, when asked to {what} {place}: {line(cause)}; nothing of "
            "the transaction counts. See to the server and start again"
        )
    if isinstance(cause, psycopg.DataError):
        return MalformedError(
            f"PostgreSQL cannot hold a value of {place}: {line(cause)}. Mend the source's row, or leave the column out"
        )
    if state == _READ_ONLY:
        return OutputError(
            f"PostgreSQL refuses to {what} {place}: {line(cause)}. The address leads to a standby, or "
            "default_transaction_read_only is on for the role or the database: cdcv2 doctor names the statement that "
            "mends it. Start again then"
        )
    return OutputError(
        f"PostgreSQL refuses to {what} {place}: {line(cause)}. Nothing of the transaction counts; mend that (a right, "
        "a constraint, the room on the disk) and start again"
    )
