"""Which column a target makes of a column whose type in the source is known, and its values there and back.

Between runtime and driver, values are those of the log, as ever: a timestamp is a long. A driver whose system has the
source's type, or one that is as exact, keeps the column in it. This is the only place that decides which that is: for
PostgreSQL here, for files in :mod:`.arrow_columns`. A column that is kept as the log has it (:data:`None`) needs
neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

from cdcv2.errors import MalformedError
from cdcv2.materialize.protocol.messages import Field
from cdcv2.rows.plain import bytes_from_plain, int_from_plain, plain_bytes, plain_int
from cdcv2.rows.postgres_values import holds, iso_text, normal, number_text, zoned_text
from cdcv2.rows.source_types import SourceType
from cdcv2.sql_names import parts_of, quoted

#: From a value, not null, to another.
Convert: TypeAlias = Callable[[Any], Any]

#: source type -> the kind that its values have in the log; of others, nothing can be made here
_KINDS = {
    **dict.fromkeys(
        ("numeric", "money", "uuid", "json", "jsonb", "xml", "varchar", "bpchar", "inet", "cidr", "macaddr", "macaddr8",
         "int4range", "int8range", "numrange", "tsrange", "daterange", "tsvector", "citext", "ltree", "enum",
         "timestamptz", "timetz", "text"), "string"),
    "int2": "int", "int4": "int", "date": "int", "int8": "long", "oid": "long", "timestamp": "long", "interval": "long",
    "bool": "boolean", "float4": "float", "float8": "double", "bytea": "bytes", "bit": "bytes", "varbit": "bytes",
    "array": "json",
}  # fmt: skip
#: PostgreSQL's names of the types that it does not print as they are in ``pg_type``.
_PRINTED = {
    "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real", "float8": "double precision",
    "bool": "boolean", "varchar": "character varying", "bpchar": "character", "varbit": "bit varying",
    "timestamp": "timestamp{p} without time zone", "timestamptz": "timestamp{p} with time zone",
    "time": "time{p} without time zone", "timetz": "time{p} with time zone", "money": "numeric(19,2)",
}  # fmt: skip
_BARE = {"bit": "bit varying", "bpchar": "bpchar", "money": "numeric"}
#: Types that the log has as they are; and those that others' servers may lack, which are text there.
_SAME = {"int4", "int8", "bool", "float4", "float8", "bytea", "text"}
_EXTENSIONS = {"enum", "citext", "ltree"}

_NUMBER = (
    "(CASE {x} WHEN 'NAN' THEN 'NaN' WHEN 'POSITIVE_INFINITY' THEN 'Infinity' WHEN 'NEGATIVE_INFINITY' THEN '-Infinity'"
    " ELSE {x} END)::numeric"
)
# Of an interval times a number only this much is exact: days and the rest, each on its own.
_SPAN = "(({x}) / {day} * interval '1 day' + mod({x}, {day}) * interval '1 {unit}')"
_FAR = "timestamp '1970-01-01' + " + _SPAN
_ZONED = (
    "CASE WHEN left({x}, 1) = '+' THEN substr({x}, 2)::timestamptz WHEN left({x}, 1) = '-' AND {x} <> '-infinity' THEN "
    "(lpad((split_part({x}, '-', 2)::int + 1)::text, 4, '0') || substr({x}, length(split_part({x}, '-', 2)) + 2) "
    "|| ' BC')::timestamptz ELSE ({x})::timestamptz END"
)
_MICROS = "(extract(epoch FROM ({x})) * 1000000)::bigint"
_MILLIS = "(extract(epoch FROM ({x})) * 1000)::bigint"
# Bit k of a number whose lowest byte is the first, from the highest to the lowest; the length of a varying one is lost.
_BITS = (
    "(SELECT string_agg(CASE WHEN k < 8 * length({x}) THEN get_bit({x}, k) ELSE 0 END::text, '' ORDER BY k DESC)"
    "::varbit FROM generate_series(0::bigint, {n} - 1) k)"
)
_VARYING = (
    "CASE WHEN {x} IS NOT NULL THEN (SELECT ltrim(coalesce(string_agg(get_bit({x}, k)::text, '' ORDER BY k DESC), ''), "
    "'0')::varbit FROM generate_series(0::bigint, 8 * length({x}) - 1) k) END"
)
_BYTES = (
    "CASE WHEN {x} IS NOT NULL THEN (SELECT coalesce(decode(string_agg(lpad(to_hex(substr(p.t, length(p.t) - 8 * j - 7,"
    " 8)::bit(8)::int), 2, '0'), '' ORDER BY j), 'hex'), '') FROM (SELECT lpad(({x})::text, "
    "(length(({x})::text) + 7) / 8 * 8, '0') AS t) p, generate_series(0, length(p.t) / 8 - 1) j) END"
)
#: source type -> what makes a value of it from the log's, and back; for others a cast, and one to text
_SQL: dict[str, tuple[str, str]] = {
    "numeric": (_NUMBER, "({x})::text"),
    "money": (_NUMBER, "({x})::text"),
    "int2": ("({x})::smallint", "({x})::integer"),
    "oid": ("({x})::oid", "({x})::bigint"),
    "date": (
        "CASE WHEN {x} IN (2146033979, -622191234) THEN date 'infinity' WHEN {x} IN (-2147472691, -625821272) THEN "
        "date '-infinity' ELSE date '1970-01-01' + {x} END",
        "CASE WHEN isfinite({x}) THEN ({x}) - date '1970-01-01' WHEN {x} > date '2000-01-01' THEN 2146033979 "
        "WHEN {x} < date '2000-01-01' THEN -2147472691 END",
    ),
    "timetz": ("({x})::timetz", "replace(({x})::text, '+00', 'Z')"),
    "timestamptz": (_ZONED, "CASE WHEN isfinite({x}) THEN " + _MICROS + "::text ELSE ({x})::text END"),
    "interval": (
        _SPAN.replace("{day}", "86400000000").replace("{unit}", "microsecond"),
        "((extract(year FROM ({x})) * 12 + extract(month FROM ({x}))) * 2629800000000"
        " + extract(day FROM ({x})) * 86400000000 + extract(hour FROM ({x})) * 3600000000"
        " + extract(minute FROM ({x})) * 60000000 + extract(microseconds FROM ({x})))::bigint",
    ),
    "varbit": (_VARYING, _BYTES),
    # The types' own output, which a cast to text is not.
    **dict.fromkeys(("bpchar", "inet", "cidr"), ("({x})::{type}", "CASE WHEN ({x}) IS NOT NULL THEN concat({x}) END")),
}
#: source type -> the text by which equal values are found: of the column ({out}: as the log has it), and of the log
_TEXTS: dict[str, tuple[str, Convert]] = {
    "numeric": ("trim_scale({x})::text", number_text),
    "money": ("trim_scale({x})::text", number_text),
    "timestamptz": ("{out}", zoned_text),
    "timetz": ("(extract(epoch FROM ((({x}) AT TIME ZONE 'UTC')::time)) * 1000000)::bigint::text", zoned_text),
    "bit": ("encode(({out}), 'hex')", bytes.hex),
    "varbit": ("encode(({out}), 'hex')", bytes.hex),
}


@dataclass(frozen=True)
class SourceColumn:
    """How a column is kept in its source's type. Values are not null.

    ``postgres``: the type, as PostgreSQL prints it. ``into``, ``out``: SQL from the log's value to one of it, and back,
    with ``{x}`` for it; ``inward`` makes of what that gave the log's value. ``optional``: the name of a type that may
    not be there. ``text``, ``sql_text``: the text by which equal values are found; of a value of the log, and of the
    column; None where only the first can be had.
    """

    postgres: str
    into: str
    out: str
    inward: Convert | None = None
    optional: str | None = None
    text: Convert = str
    sql_text: str | None = None

    def altering(self, table: str, column: str) -> str:
        """The statement that makes this column of one that has what the log has; names are quoted already."""
        into = self.into.replace("{x}", column)
        if "SELECT" not in into:
            return f"ALTER TABLE {table} ALTER {column} TYPE {self.postgres} USING {into};"
        # Where a column is altered, no expression may have a query in it; a function of the session may.
        typed = f'pg_temp."to {column[1:]}'
        return (
            f"CREATE FUNCTION {typed}(x {self._physical}) RETURNS {self.postgres} LANGUAGE SQL AS "
            f"$$ SELECT {self.into.replace('{x}', 'x')} $$; "
            f"ALTER TABLE {table} ALTER {column} TYPE {self.postgres} USING {typed}({column});"
        )

    @property
    def _physical(self) -> str:
        return "bytea" if self.postgres.startswith("bit") else "jsonb"


def normal_of(field: Field) -> Convert | None:
    """What makes the table's value for this column the one that a column of the source's type gives back.

    None where nothing is to be done.
    """
    source = field.source
    if source is None or kind_of(source) != field.kind:
        return None
    if source.items is None:
        return normal(source)
    inner = normal(source.items)
    return None if inner is None else partial(_each, _plainly(source.items, inner))


def is_limited(source: SourceType | None) -> bool:
    """Whether the type would round or cut some values of the log, so that they are to be checked before.

    >>> is_limited(SourceType("varchar", length=3)), is_limited(SourceType("jsonb"))
    (True, False)
    """
    return source is not None and _holds(source) is not None


def demand_held(field: Field, value: Any, table: str) -> None:
    """Raise MalformedError if the source's type would round or cut the value, or if it is no time."""
    source = field.source
    if source is None or value is None:
        return
    check = _holds(source)
    if check is None:
        return
    values = [value] if source.items is None else json.loads(value)
    # A long in JSON may be text.
    longs = source.items is not None and kind_of(source.items) == "long"
    for one in map(int_from_plain, values) if longs else values:
        try:
            held = one is None or check(one)
        except MalformedError as cause:
            raise MalformedError(f"{table}: in the column {field.name!r}, {cause}") from None
        if not held:
            kind = printed(source)
            raise MalformedError(
                f"{table}: {one!r} of the column {field.name!r} is not held exactly by {kind}: the column was altered "
                "in the source. Make the row schema again (cdcv2 rows), name its folder with types in the file, and "
                "alter the target's column as the source's"
            )


@cache
def _holds(source: SourceType) -> Callable[[Any], bool] | None:
    return holds(source.items or source)


def printed(source: SourceType) -> str:
    """The type, as PostgreSQL prints it; an enum in quotes, in which it takes every name.

    >>> printed(SourceType("timestamptz", precision=3)), printed(SourceType("array", items=SourceType("numeric")))
    ('timestamp(3) with time zone', 'numeric[]')
    """
    if source.items is not None:
        return f"{printed(source.items)}[]"
    name = _PRINTED.get(source.type, source.type)
    if source.type == "enum":
        return ".".join(quoted(part) for part in parts_of(source.name))
    if "{p}" in name:
        # Six digits are the default, and are printed if they are given.
        return name.replace("{p}", "" if source.precision is None else f"({source.precision})")
    if source.type == "money":
        return name
    if source.type == "numeric" and source.precision is not None:
        return f"numeric({source.precision},{source.scale or 0})"
    return bare(source) if source.length is None else f"{name}({source.length})"


def bare(source: SourceType) -> str:
    """The type without digits and length: a cast to these would round and cut, where an assignment refuses."""
    if source.type in ("enum", "array"):
        return printed(source)
    return _BARE.get(source.type) or _PRINTED.get(source.type, source.type).replace("{p}", "")


@cache
def source_column(source: SourceType | None, kind: str) -> SourceColumn | None:
    """How PostgreSQL keeps a column of this kind; None: as the log has it."""
    if source is None or kind_of(source) != kind or source.type in _SAME:
        return None
    if source.items is not None:
        return _array(source, source.items)
    if source.type == "enum" and not source.name:
        return None
    into, out = _expressions(source)
    sql_text, text = _TEXTS.get(source.type, ("({out})::text", str))
    if kind == "boolean":
        sql_text, text = "({out})::text", _boolean
    digits = source.precision if source.precision is not None else 6
    inward = partial(_moment, digits) if source.type == "timestamptz" else None
    optional = printed(source) if source.type in _EXTENSIONS else None
    return SourceColumn(printed(source), into, out, inward, optional, text, sql_text.replace("{out}", out))


def _array(source: SourceType, items: SourceType) -> SourceColumn | None:
    kind = kind_of(items)
    if kind is None or items.type == "array":
        return None
    inner = source_column(items, kind)
    if inner is None and items.type not in _SAME:
        return None
    physical = {"int": "integer", "long": "bigint", "boolean": "boolean", "float": "real", "double": "double precision"}
    element = "decode(e.v, 'base64')" if kind == "bytes" else f"(e.v)::{physical[kind]}" if kind in physical else "e.v"
    into = element if inner is None else inner.into.replace("{x}", f"({element})")
    out = "u.v" if inner is None else inner.out.replace("{x}", "u.v")
    plain = {
        # Each digit that it has as a double, as the log's number.
        "float": "to_jsonb(({o})::double precision)",
        "bytes": "to_jsonb(replace(encode({o}, 'base64'), E'\\n', ''))",
        # As JSON has whole numbers that are not safe there.
        "long": "CASE WHEN abs({o}::numeric) < 9007199254740992 THEN to_jsonb({o}) ELSE to_jsonb(({o})::text) END",
    }.get(kind, "to_jsonb({o})").replace("{o}", f"({out})")
    return SourceColumn(
        printed(source),
        "CASE WHEN {x} IS NOT NULL THEN ARRAY(SELECT (" + into + f")::{bare(items)} FROM "
        "jsonb_array_elements_text({x}) WITH ORDINALITY e(v, n) ORDER BY e.n) END",
        "CASE WHEN {x} IS NOT NULL THEN to_jsonb(ARRAY(SELECT " + plain + " FROM unnest({x}) WITH ORDINALITY u(v, n) "
        "ORDER BY u.n))::text END",
        None if inner is None or inner.inward is None else partial(_each, inner.inward),
        None if inner is None or inner.optional is None else printed(source),
        partial(_each_text, None if inner is None else inner.text),
    )  # fmt: skip


def kind_of(source: SourceType) -> str | None:
    """The kind that the log's values of such a column have; None where nothing can be made of them here."""
    if source.type == "time":
        return "int" if source.in_millis else "long"
    return "boolean" if source == SourceType("bit", length=1) else _KINDS.get(source.type)


def _expressions(source: SourceType) -> tuple[str, str]:
    short = source.in_millis
    unit = "millisecond" if short else "microsecond"
    per_day = "86400000" if short else "86400000000"
    if source.type == "time":
        into = f"CASE WHEN {{x}} = {per_day} THEN time '24:00' ELSE (({{x}}) * interval '1 {unit}')::time END"
        return into, f"({_MILLIS})::integer" if short else _MICROS
    if source.type == "timestamp":
        far, least = ("9223372036825200000", "-9223372036832400000") if short else (str(2**63 - 1), f"'{-(2**63)}'")
        finite = _FAR.replace("{day}", per_day).replace("{unit}", unit)
        into = (
            f"CASE WHEN {{x}} IN ({2**63 - 1}, {far}) THEN timestamp 'infinity' WHEN {{x}} IN ('{-(2**63)}', {least}) "
            f"THEN timestamp '-infinity' ELSE {finite} END"
        )
        out = (
            f"CASE WHEN isfinite({{x}}) THEN {_MILLIS if short else _MICROS} WHEN {{x}} > timestamp '2000-01-01' THEN "
            f"{far} WHEN {{x}} < timestamp '2000-01-01' THEN {least} END"
        )
        return into, out
    if source.type == "bit":
        if source.length == 1:
            return "({x})::int::bit", "({x}) = B'1'"
        return "CASE WHEN {x} IS NOT NULL THEN " + _BITS.replace("{n}", str(source.length or 1)) + " END", _BYTES
    into, out = _SQL.get(source.type, ("({x})::{type}", "({x})::text"))
    return into.replace("{type}", bare(source)), out


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _moment(digits: int, text: str) -> str:
    return text if text in ("infinity", "-infinity") else iso_text(int(text), digits)


def _each(convert: Convert, text: str) -> str:
    values = [None if one is None else convert(one) for one in json.loads(text)]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _each_text(convert: Convert | None, text: str) -> str:
    values = [one if one is None or convert is None else convert(one) for one in json.loads(text)]
    return json.dumps(values, ensure_ascii=False)


def _plainly(items: SourceType, convert: Convert) -> Convert:
    """For a value as plain JSON has it."""
    if kind_of(items) == "bytes":
        return lambda plain: plain_bytes(convert(bytes_from_plain(plain)))
    if kind_of(items) == "long":
        return lambda plain: plain_int(convert(int_from_plain(plain)))
    return convert
