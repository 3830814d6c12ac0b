"""A table of a view in PostgreSQL: its types, its statements, and its values there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from cdcv2.errors import MalformedError, OutputError, RefusedError, UnavailableError, UsageError
from cdcv2.materialize.messages import Field, Key, Store, Table, Values

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection
    from psycopg.sql import Composed

#: Bytes of a name; PostgreSQL cuts off what is longer.
_LONGEST = 63
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
#: Classes of SQLSTATE that say nothing of the transaction itself: no connection, a conflict, a lock, a shutdown; and
#: the one that says that too many are connected.
_AWAY, _TOO_MANY = {"08", "40", "55", "57"}, "53300"
#: kinds whose values PostgreSQL gives back as another type of Python's
_INWARD: dict[str, Callable[[Any], Any]] = {"integer": int}

_PLACE = "SELECT oid::bigint, relpersistence::text FROM pg_class WHERE oid = to_regclass(%s)"
# Of these columns (their tables, names and types, in three arrays): those that are not so, and how they are.
_MISFITS = """
SELECT e.number - 1, format_type(a.atttypid, a.atttypmod)
  FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS e (place, name, type, number)
  LEFT JOIN pg_attribute a
    ON a.attrelid = to_regclass(e.place) AND a.attname = e.name AND a.attnum > 0 AND NOT a.attisdropped
 WHERE format_type(a.atttypid, a.atttypmod) IS DISTINCT FROM e.type
 ORDER BY e.number
"""
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
    if field.kind == "decimal" and field.precision is not None:
        return f"numeric({field.precision},{field.scale or 0})"
    return TYPES[field.kind]


def line(cause: Exception) -> str:
    """The first line of what PostgreSQL says; the others may show rows."""
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def _check_names(table: Table) -> None:
    """Raise UsageError for a name that PostgreSQL would cut off."""
    for name in (*table.name.split("."), *(field.name for field in table.fields)):
        if len(name.encode("utf-8")) > _LONGEST:
            raise UsageError(
                f"{table.name}: {name!r} is longer than the {_LONGEST} bytes that PostgreSQL keeps of a name: call the "
                "target or the reduction otherwise; a column of the log, in the source"
            )


class Found(NamedTuple):
    """What of a table was there: PostgreSQL's number of it, whether it had to be made, whether it has no rows."""

    number: int | None
    missing: bool
    empty: bool


class PostgresTable:
    """The statements for one table, made once. ``number`` tells its temporary tables from those of the others.

    ``staged``: the table in which executors stage rows, in place of a temporary one.
    """

    def __init__(self, number: int, table: Table, staged: str | None = None) -> None:
        from psycopg import sql

        self.name, self.table = table.name, table
        _check_names(table)
        self.identifier = sql.Identifier(*table.name.split("."))
        self._rows = sql.Identifier(staged or f"cdcv2_rows_{number}")
        self._keys = sql.Identifier(f"cdcv2_keys_{number}")
        self._inward = [_INWARD.get(field.kind) for field in table.fields]
        names = {"t": self.identifier, "rows": self._rows, "keys": self._keys, **self._lists(table)}

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
        self.create_keys = made("CREATE TEMP TABLE {keys} ({typed_key}) ON COMMIT DELETE ROWS")
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
                    null=sql.SQL("" if field.nullable else " NOT NULL"),
                    text=sql.SQL("::text" if field.kind == "json" else ""),
                )
                for field in fields
            )

        return {
            "key": listed("{c}", table.key),
            "all": listed("{c}", table.fields),
            "staged": listed("s.{c}", table.fields),
            "staged_key": listed("s.{c}", table.key),
            "selected": listed("t.{c}{text}", table.fields),
            "same": listed("t.{c} = s.{c}", table.key, " AND "),
            "set": listed("{c} = s.{c}", table.values),
            "typed": listed("{c} {type}{null}", table.fields),
            "typed_key": listed("{c} {type}", table.key),
            "loose": listed("{c} {type}", table.fields),
        }

    def make(self, session: Connection[Any]) -> Found:
        """Make the table if it is missing, and the session's temporary ones. Raises RefusedError if it does not fit."""
        place = self.place(session)
        missing = session.execute(_PLACE, [place]).fetchone() is None
        if missing:
            # Not IF NOT EXISTS alone, for which it takes the right to make tables where none is made.
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
        return Found(number, missing, session.execute(self._any).fetchone() is None)

    def place(self, session: Connection[Any]) -> str:
        """Its name, as SQL has it."""
        return self.identifier.as_string(session)

    def look(self, session: Connection[Any], keys: Iterable[Key]) -> list[tuple[Any, ...]]:
        """The rows at these keys, as they are selected; in the transaction that is open."""
        with session.cursor().copy(self.copy_keys) as copy:
            for key in keys:
                copy.write_row(key)
        # Otherwise the planner guesses a thousand keys, and reads all of a large target for a single one.
        session.execute(self.analyse_keys)
        return session.execute(self.select).fetchall()

    def outward(self, message: Store) -> tuple[Any, ...]:
        """A row, as COPY takes it."""
        return (*message.key, *message.values, message.exists, message.delete)

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


def lock(session: Connection[Any], tables: Sequence[PostgresTable]) -> None:
    """From here to the end of the transaction, rows of these tables may be written, and nobody alters a column."""
    from psycopg import sql

    places = sql.SQL(", ").join(table.identifier for table in tables)
    session.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(places))


def demand_fit(session: Connection[Any], tables: Iterable[PostgresTable]) -> None:
    """Raises RefusedError unless all columns have the types that their bindings need.

    PostgreSQL itself would not: it rounds what it puts into a column that was made narrower. Cost: one query.
    """
    fields = [(table, field) for table in tables for field in table.table.fields]
    places = {table.name: table.place(session) for table, _ in fields}
    wanted = [[places[table.name] for table, _ in fields], [field.name for _, field in fields],
              [type_of(field) for _, field in fields]]  # fmt: skip
    wrong = session.execute(_MISFITS, wanted).fetchone()
    if wrong is not None:
        (table, field), found = fields[wrong[0]], wrong[1]
        state = "is missing" if found is None else f"has the type {found}"
        raise RefusedError(
            f"the table {table.name} does not fit its binding: the column {field.name!r} {state} and should "
            f"have the type {type_of(field)}. Alter it, or give the binding another target"
        )


def numbers_of(session: Connection[Any], targets: Iterable[str]) -> dict[str, int]:
    """PostgreSQL's numbers of those of these targets that are there."""
    from psycopg import sql

    names = list(targets)
    places = [sql.Identifier(*name.split(".")).as_string(session) for name in names]
    rows = session.execute("SELECT to_regclass(p)::oid::bigint FROM unnest(%s::text[]) p", [places]).fetchall()
    return {name: number for name, (number,) in zip(names, rows) if number is not None}


@contextmanager
def told(what: str, place: str) -> Iterator[None]:
    """Errors of psycopg as ours; they name the table and what to do, and never show how to connect."""
    import psycopg

    try:
        yield
    except psycopg.Error as cause:
        raise _ours(cause, what, place) from cause


def _ours(cause: psycopg.Error, what: str, place: str) -> Exception:
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
    return OutputError(
        f"PostgreSQL refuses to {what} {place}: {line(cause)}. Nothing of the transaction counts; mend that (a right, "
        "a constraint, the room on the disk) and start again"
    )
