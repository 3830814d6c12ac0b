"""A table of PostgreSQL and its log as the same texts: so that one can be compared with the other.

Each type has an expression of SQL and a function of Python that make the same text of the same value: the first of
what the table has, the second of what the capture makes of it in the log (``docs/types.md``). Values count, not
spellings, where the connector has more than one spelling for a value: numbers without trailing zeros, moments as
microseconds, floats as their bytes with one NaN and one zero. ``json`` is the text that was stored.

========================  ==================================================
type                      text
========================  ==================================================
boolean, bit(1)           true, false
integers, oid             digits
real, double precision    the IEEE bytes in hexadecimal; NaN; 0
numeric                   digits without trailing zeros; NaN (null, if precise)
bytea                     hexadecimal
bit(n), bit varying(n)    ones and zeros from the first one on
date                      days since 1970-01-01, or infinity
time, timestamp, timetz,  microseconds (of the day in UTC, since 1970-01-01
timestamptz, interval     00:00, as the connector counts months)
arrays                    row bytes (:mod:`cdcv2.rows.fingerprint`)
all others                as PostgreSQL prints them
========================  ==================================================
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, LiteralString, TypeAlias

from cdcv2.errors import UsageError
from cdcv2.rows.fingerprint import BUCKETS, DIGITS, Fingerprint, Texts, row_bytes, row_of
from cdcv2.rows.plain import plain_float
from cdcv2.rows.postgres_values import date_text, moment_text, number_text, shown_text, zoned_text
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import Shape
from cdcv2.rows.values import decimal_text
from cdcv2.sql_names import parts_of
from cdcv2.store.postgres_session import find_table

#: The form of a type: its expression, its function, and what a text of it is for people.
_TextReader: TypeAlias = tuple[LiteralString, Callable[[Any], "str | None"], Callable[[str], Any]]

_COLUMNS = """
    SELECT attname, attgenerated <> '', atttypid, atttypmod FROM pg_catalog.pg_attribute
     WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEY = """
    SELECT a.attname FROM pg_catalog.pg_index i
      JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
     WHERE i.indrelid = %s AND i.indisprimary ORDER BY array_position(i.indkey::int2[], a.attnum)
"""
_TYPE = "SELECT typname, typtype, typcategory, typelem, typbasetype, typtypmod FROM pg_catalog.pg_type WHERE oid = %s"

# {x} is the value. Each gives null for null.
_PRINTED: LiteralString = "({x})::text"
# The type's own output, which a cast to text is not: char(n) would lose its blanks, inet gain a mask.
_OUT: LiteralString = "CASE WHEN ({x}) IS NOT NULL THEN concat({x}) END"
_MICROS: LiteralString = "(extract(epoch FROM ({x})) * 1000000)::bigint::text"
_SQL: dict[str, LiteralString] = {
    **dict.fromkeys(("bool", "int2", "int4", "int8", "oid"), _PRINTED),
    **dict.fromkeys(
        ("text", "varchar", "name", "citext", "uuid", "json", "jsonb", "xml", "int4range", "int8range", "numrange",
         "tsrange", "daterange", "ltree", "tsvector", "macaddr", "macaddr8"), _PRINTED),
    **dict.fromkeys(("bpchar", "char", "inet", "cidr"), _OUT),
    "float4": "CASE WHEN ({x}) = 'NaN' THEN 'NaN' WHEN ({x}) = 0 THEN '0' ELSE encode(float4send({x}), 'hex') END",
    "float8": "CASE WHEN ({x}) = 'NaN' THEN 'NaN' WHEN ({x}) = 0 THEN '0' ELSE encode(float8send({x}), 'hex') END",
    "numeric": "trim_scale({x})::text",
    "money": "trim_scale(({x})::numeric)::text",
    "bytea": "encode(({x}), 'hex')",
    "bit": "ltrim(({x})::text, '0')",
    "varbit": "ltrim(({x})::text, '0')",
    "date": "CASE WHEN isfinite({x}) THEN (({x}) - date '1970-01-01')::text ELSE ({x})::text END",
    "time": _MICROS,
    "timestamp": "CASE WHEN isfinite({x}) THEN " + _MICROS + " ELSE ({x})::text END",
    "timestamptz": "CASE WHEN isfinite({x}) THEN " + _MICROS + " ELSE ({x})::text END",
    "timetz": (
        "CASE WHEN ({x}) = timetz '24:00:00+00' THEN '86400000000' "
        "ELSE (extract(epoch FROM ((({x}) AT TIME ZONE 'UTC')::time)) * 1000000)::bigint::text END"
    ),
    "interval": "CASE WHEN isfinite({x}) THEN"
                " ((extract(year FROM ({x})) * 12 + extract(month FROM ({x}))) * 2629800000000"
                " + extract(day FROM ({x})) * 86400000000 + extract(hour FROM ({x})) * 3600000000"
                " + extract(minute FROM ({x})) * 60000000 + extract(microseconds FROM ({x})))::bigint::text"
                " ELSE ({x})::text END",
}  # fmt: skip
# As unscaled bytes there is no NaN: the connector makes it null.
_DECIMAL: LiteralString = "trim_scale(nullif(({x}), 'NaN'))::text"
_BIT: LiteralString = "CASE ({x})::text WHEN '1' THEN 'true' WHEN '0' THEN 'false' END"
# An element may be null, and is then n, as in the bytes of a row.
_ARRAY: LiteralString = (
    "CASE WHEN ({x}) IS NOT NULL THEN (SELECT coalesce(string_agg(coalesce(length(e.t)::text || ':' || e.t, 'n'),"
    " ',' ORDER BY e.n), '') FROM (SELECT {item} AS t, u.n FROM unnest({x}) WITH ORDINALITY u(x, n) OFFSET 0) e) END"
)


@dataclass(frozen=True)
class TextColumn:
    """A column: ``sql`` is the expression of its text, with ``{x}`` for it; ``text`` makes it of a value of the log."""

    name: str
    sql: LiteralString
    text: Callable[[Any], str | None]
    #: its place in a row of the log
    index: int = 0
    #: what a text is for people
    people: Callable[[str], Any] = str

    def shown(self, text: str | None) -> Any:
        """A text for people: what stands for a float is one, dates and moments are written out, arrays are lists."""
        return None if text is None else self.people(text)


@dataclass(frozen=True)
class TextTable:
    """A table as the log has it: its columns, the key's first; what it has that the log has not; and its name."""

    name: str
    columns: tuple[TextColumn, ...]
    #: how many of the columns are the primary key; all of them where there is none
    width: int
    left_out: tuple[str, ...]

    def texts(self, row: Any) -> Texts:
        """A row of the log."""
        return tuple([column.text(row[column.index]) for column in self.columns])


def text_table(connection: Any, table: str, row_type: RowType, leave_out: Collection[str] = ()) -> TextTable:
    """The texts of a table, written ``schema.table``, and of its log, which has rows of this type.

    ``leave_out`` names columns that are not to be compared. Raises UsageError for a table that is not there, a column
    that it has not, and for a type that has no text.
    """
    oid = find_table(connection, table)[0]
    there = {
        name: (kind, modifier)
        for name, generated, kind, modifier in connection.execute(_COLUMNS, (oid,)).fetchall() if not generated
    }  # fmt: skip
    wanted = [name for name in row_type.columns if name not in leave_out]
    lost = [name for name in wanted if name not in there]
    if lost:
        raise UsageError(
            f"the table {table} has no column {lost[0]!r}, which its log has: it was altered since; begin a new log"
        )
    key = [name for (name,) in connection.execute(_KEY, (oid,)).fetchall()]
    if not key or any(name not in wanted for name in key):
        key = []
    ordered = [*key, *(name for name in wanted if name not in key)]
    columns = tuple(_column(connection, table, row_type, name, *there[name]) for name in ordered)
    left = tuple(name for name in there if name not in wanted)
    return TextTable(table, columns, len(key) or len(columns), left)


def _column(connection: Any, table: str, row_type: RowType, name: str, oid: int, modifier: int) -> TextColumn:
    index = row_type.columns.index(name)
    shape = row_type.shape.columns[index].shape
    sql, text, people = _text_of(connection, f"{table}.{name}", oid, modifier, shape)
    return TextColumn(name, sql, text, index, people)


def _text_of(connection: Any, place: str, oid: int, modifier: int, shape: Shape) -> _TextReader:
    """The form of a type."""
    found = connection.execute(_TYPE, (oid,)).fetchone()
    typname, typtype, category, element, base, base_modifier = found
    if typtype == "d":
        return _text_of(connection, place, base, base_modifier, shape)
    shape = shape.item if shape.kind == "optional" else shape
    if category == "A" and element and shape.kind == "array":
        item, text, people = _text_of(connection, place, element, modifier, shape.item)
        sql = _ARRAY.replace("{item}", item.replace("{x}", "u.x"))
        return sql, partial(_array, text), partial(_shown_array, people)
    if typtype == "e":
        return _PRINTED, partial(_text, str), str
    if shape.kind == "boolean" and typname == "bit":
        return _BIT, partial(_text, _boolean), str
    if typname == "numeric" and shape.decimal is not None:
        return _DECIMAL, partial(_text, partial(_unscaled, shape.decimal[1])), str
    if typname not in _SQL:
        raise UsageError(
            f"{place} has the type {typname!r}, whose values cannot be compared with a log's: name it with --without"
        )
    form = {"float4": ">f", "float8": ">d"}.get(typname)
    people = partial(shown_text, typname) if form is None else partial(_shown_float, form)
    return _SQL[typname], partial(_text, _function(typname, modifier)), people


def _function(typname: str, modifier: int) -> Callable[[Any], str]:
    """From a value of the log, not null, to its text."""
    if typname in ("time", "timestamp"):
        # Up to three digits the connector counts milliseconds.
        return partial(moment_text, 1000 if 0 <= modifier <= 3 else 1)
    return _FUNCTIONS.get(typname, str)


def _text(text: Callable[[Any], str], value: Any) -> str | None:
    return None if value is None else text(value)


def _array(item: Callable[[Any], str | None], values: Any) -> str | None:
    return None if values is None else row_bytes(tuple(map(item, values))).decode("utf-8")


def _shown_array(people: Callable[[str], Any], text: str) -> list[Any]:
    return [None if item is None else people(item) for item in row_of(text)]


def _shown_float(form: str, text: str) -> Any:
    return text if text in ("NaN", "0") else plain_float(struct.unpack(form, bytes.fromhex(text))[0])


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _bytes_of(form: str, value: float) -> str:
    return "NaN" if math.isnan(value) else "0" if value == 0 else struct.pack(form, value).hex()


def _unscaled(scale: int, value: bytes) -> str:
    return number_text(decimal_text(value, scale))


def _bits(value: bytes) -> str:
    number = int.from_bytes(value, "little")
    return f"{number:b}" if number else ""


_FUNCTIONS: dict[str, Callable[[Any], str]] = {
    "bool": _boolean,
    "float4": partial(_bytes_of, ">f"),
    "float8": partial(_bytes_of, ">d"),
    "numeric": number_text,
    "money": number_text,
    "bytea": bytes.hex,
    "bit": _bits,
    "varbit": _bits,
    "date": date_text,
    "timestamptz": zoned_text,
    "timetz": zoned_text,
}


class PostgresRows:
    """A table as a :class:`~cdcv2.rows.fingerprint.Side`, in the snapshot of the session's open transaction.

    ``table``: its name, or schema and name. ``where`` selects the rows that count; the table is called ``s`` there.

    The database works the fingerprints out; only rows of buckets that differ are moved. Cost: a scan of the table for
    either, and SHA-256 of each row.
    """

    def __init__(
        self, session: Any, columns: tuple[TextColumn, ...], width: int, table: str | Sequence[str],
        where: LiteralString = "true",
    ) -> None:
        from psycopg import sql

        self._session, self._columns, self._width = session, len(columns), width
        texts = sql.SQL(", ").join(
            sql.SQL(column.sql).format(x=sql.SQL("s.{c}").format(c=sql.Identifier(column.name)))
            + sql.SQL(f" AS t{number}")
            for number, column in enumerate(columns)
        )
        # Neither of the inner queries may be merged into the outer: each text is worked out once.
        self._texts = sql.SQL("SELECT {texts} FROM {table} s WHERE {where} OFFSET 0").format(
            texts=texts, where=sql.SQL(where),
            table=sql.Identifier(*(parts_of(table) if isinstance(table, str) else table)),
        )
        number = sql.SQL("('x' || substr(encode(sha256({bytes}), 'hex'), 1, 8))::bit(32)::bigint & {mask}")
        self._bucket = number.format(bytes=self._bytes(width), mask=sql.Literal(BUCKETS - 1))

    def _bytes(self, width: int) -> Any:
        from psycopg import sql

        each = (
            sql.SQL(f"coalesce(length(t.t{number})::text || ':' || t.t{number}, 'n')") for number in range(width)
        )
        return sql.SQL("convert_to({row}, 'UTF8')").format(row=sql.SQL(" || ',' || ").join(each))

    def prints(self) -> dict[int, Fingerprint]:
        """See :class:`Side`."""
        from psycopg import sql

        number = "('x' || substr(h.h, {at}, {digits}))::bit(60)::bigint"
        places = [(sql.Literal(at), sql.Literal(DIGITS)) for at in (1, 1 + DIGITS)]
        sums = (sql.SQL(f"sum({number})").format(at=at, digits=digits) for at, digits in places)
        query = sql.SQL(
            "SELECT h.b, count(*), {sums} FROM (SELECT {bucket} AS b, encode(sha256({bytes}), 'hex') AS h "
            "FROM ({texts}) t OFFSET 0) h GROUP BY h.b"
        ).format(
            sums=sql.SQL(", ").join(sums), bucket=self._bucket, bytes=self._bytes(self._columns), texts=self._texts
        )
        found = self._session.execute(query).fetchall()
        return {bucket: Fingerprint(rows, int(first), int(second)) for bucket, rows, first, second in found}

    def rows(self, buckets: Collection[int]) -> Iterator[tuple[Texts, int]]:
        """See :class:`Side`."""
        from psycopg import sql

        query = sql.SQL("SELECT t.* FROM ({texts}) t WHERE {bucket} = ANY (%s)").format(
            texts=self._texts, bucket=self._bucket
        )
        with self._session.cursor(name="cdcv2_compared") as cursor:
            for row in cursor.execute(query, [list(buckets)]):
                yield tuple(row), 1
