"""A column of every type, with extremes: its literals in PostgreSQL, and what the connector 3.7 makes of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Kind:
    """A column: its type in PostgreSQL, and (literal, value in the log) pairs.

    ``lost``: the connector, or the log, does not keep all of it (docs/types.md): the target has another value than the
    source. ``finite``: how many of the values, from the first on, files of Parquet and Delta tables hold.
    """

    type: str
    values: list[tuple[str, Any]]
    lost: bool = False
    finite: int = 99


COLUMNS: dict[str, Kind] = {
    "yes": Kind("boolean", [("true", True), ("false", False)]),
    "i2": Kind("smallint", [("-32768", -32768), ("32767", 32767)]),
    "i4": Kind("integer", [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]),
    "i8": Kind("bigint", [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    "number": Kind("oid", [("4294967295", 2**32 - 1)]),
    "f4": Kind("real", [("1.1", 1.1), ("'NaN'", NAN), ("'-Infinity'", -INF), ("'1e-45'", 1e-45), ("'-0'", -0.0)]),
    "f8": Kind("double precision", [
        ("0.1", 0.1), ("'NaN'", NAN), ("'Infinity'", INF), ("'5e-324'", 5e-324), ("'-0'", -0.0),
    ]),
    "price": Kind("numeric(12,2)", [
        ("1234.5", "1234.50"), ("9999999999.99", "9999999999.99"), ("-0.01", "-0.01"), ("0", "0.00"), ("'NaN'", "NAN"),
    ], finite=4),
    "round": Kind("numeric(5,-2)", [("12345", "12300." + "0" * 2046), ("-9999900", "-9999900." + "0" * 2046)]),
    "long": Kind("numeric(50,10)", [
        ("1234567890123456789012345678901234567890.0123456789", "1234567890123456789012345678901234567890.0123456789"),
    ]),
    "any": Kind("numeric", [
        ("1.50", "1.50"), ("0.000", "0.000"), ("1e-10", "0.0000000001"), ("1e30", "1" + "0" * 30),
        ("-" + "123456789" * 7 + ".5", "-" + "123456789" * 7 + ".5"),
        ("'NaN'", "NAN"), ("'Infinity'", "POSITIVE_INFINITY"), ("'-Infinity'", "NEGATIVE_INFINITY"),
    ]),
    "cash": Kind("money", [
        ("'-1234.56'", "-1234.56"), ("'92233720368547758.07'", "92233720368547758.07"),
        ("'-92233720368547758.08'", "-92233720368547758.08"),
    ]),
    "words": Kind("text", [
        ("''", ""),
        ("E'a,2:n\\t\\\\\"''{}'", "a,2:n\t\\\"'{}"), ("'é\U0001f600\U0010ffff'", "é\U0001f600\U0010ffff"),
    ]),
    "short": Kind("varchar(10)", [("'ab '", "ab "), ("'0123456789'", "0123456789")]),
    "fixed": Kind("char(5)", [("'ab'", "ab   "), ("''", "     ")]),
    "name": Kind("uuid", [("'A0EEBC999C0B4EF8BB6D6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    "doc": Kind("json", [("'{\"b\":1,  \"a\":[], \"a\":2}'", '{"b":1,  "a":[], "a":2}'), ("'null'", "null")]),
    "docb": Kind("jsonb", [("'{\"b\":1,  \"a\":1.50}'", '{"a": 1.50, "b": 1}'), ("'[1e400]'", "[1" + "0" * 400 + "]")]),
    "host": Kind("inet", [("'127.0.0.1'", "127.0.0.1"), ("'10.0.0.1/8'", "10.0.0.1/8"), ("'::1'", "::1")]),
    "net": Kind("cidr", [("'10.0.0.0/8'", "10.0.0.0/8"), ("'10.0.0.1'", "10.0.0.1/32")]),
    "mac": Kind("macaddr", [("'08:00:2b:01:02:03'", "08:00:2b:01:02:03")]),
    "ints": Kind("int4range", [("'[1,4]'", "[1,5)"), ("'empty'", "empty"), ("'(,)'", "(,)")]),
    "numbers": Kind("numrange", [("'[1.50,2)'", "[1.50,2)")]),
    "span": Kind("daterange", [("'[2024-01-01,2024-01-05]'", "[2024-01-01,2024-01-06)")]),
    "while": Kind("tsrange", [("'[2024-01-01 00:00,infinity)'", '["2024-01-01 00:00:00",infinity)')]),
    "whilez": Kind("tstzrange", [("'[2024-01-01 00:00Z,)'", '["2024-01-01 00:00:00+00",)')]),
    "found": Kind("tsvector", [("'a:1 b:2A'", "'a':1 'b':2A")]),
    "raw": Kind("bytea", [("'\\x'", b""), ("'\\x00ff'", b"\x00\xff")]),
    "bit1": Kind("bit(1)", [("B'1'", True), ("B'0'", False)]),
    "bit9": Kind("bit(9)", [("B'100000011'", b"\x03\x01"), ("B'000000000'", b"\x00\x00")]),
    "bits": Kind("bit varying(20)", [("B'10101'", b"\x15"), ("B'1000000001'", b"\x01\x02"), ("B'00101'", b"\x05"),
                                     ("B'000'", b"\x00")], lost=True),
    "day": Kind("date", [
        ("'2024-02-29'", 19782), ("'0001-01-01'", -719162), ("'9999-12-31'", 2932896), ("'10000-01-01'", 2932897),
        ("'0044-03-15 BC'", -735160), ("'5874897-12-31'", 2145042905),
        ("'infinity'", 2146033979), ("'-infinity'", -2147472691), ("'infinity'", -622191234),
        ("'-infinity'", -625821272),
    ], finite=3),
    "clock": Kind("time", [("'12:34:56.123456'", 45296123456), ("'00:00'", 0), ("'24:00'", 86400000000)]),
    "clock3": Kind("time(3)", [("'12:34:56.123'", 45296123), ("'24:00'", 86400000)]),
    "clockz": Kind("timetz", [("'10:00:00.5+00'", "10:00:00.5Z"), ("'24:00:00+00'", "24:00:00Z"),
                              ("'12:00:00+02'", "10:00:00Z")], lost=True),
    "at": Kind("timestamp", [
        ("'2024-02-29 12:34:56.123456'", 1709210096123456), ("'0001-01-01'", -62135596800000000),
        ("'9999-12-31 23:59:59.999999'", 253402300799999999), ("'0044-03-15 12:00 BC'", -63517780800000000),
        ("'294000-12-31 23:59:59.999999'", 9215608291199999999), ("'4713-01-01 BC'", -210863520000000000),
        ("'infinity'", 2**63 - 1), ("'-infinity'", -(2**63)),
    ], finite=3),
    "at3": Kind("timestamp(3)", [
        ("'2024-02-29 12:34:56.123'", 1709210096123), ("'0044-03-15 BC'", -63517824000000),
        ("'infinity'", 9223372036825200000), ("'-infinity'", -9223372036832400000),
    ], finite=1),
    "at5": Kind("timestamp(5)", [("'2024-02-29 12:34:56.12345'", 1709210096123450)]),
    "moment": Kind("timestamptz", [
        ("'2024-02-29 12:34:56.123456+02'", "2024-02-29T10:34:56.123456Z"),
        ("'0001-01-01 00:00:00+00'", "0001-01-01T00:00:00.000000Z"),
        ("'9999-12-31 23:59:59.999999+00'", "9999-12-31T23:59:59.999999Z"),
        ("'0044-03-15 12:00:00+00 BC'", "-0043-03-15T12:00:00.000000Z"),
        ("'10000-01-01 00:00:00+00'", "+10000-01-01T00:00:00.000000Z"),
        ("'294000-12-31 23:59:59.999999+00'", "+294000-12-31T23:59:59.999999Z"),
        ("'infinity'", "infinity"), ("'-infinity'", "-infinity"),
    ], finite=3),
    "moment3": Kind("timestamptz(3)", [("'2024-02-29 12:34:56.100+02'", "2024-02-29T10:34:56.100Z")]),
    "moment0": Kind("timestamptz(0)", [("'2024-02-29 12:34:56+02'", "2024-02-29T10:34:56Z")]),
    "lasts": Kind("interval", [("'1 mon 2 days'", 2802600000000), ("'-1 year 00:00:00.000001'", -31557599999999),
                               ("'100000 years'", 3155760000000000000)], lost=True),
    "a_int": Kind("integer[]", [("'{1,NULL,3}'", (1, None, 3)), ("'{}'", ())]),
    "a_long": Kind("bigint[]", [("'{9223372036854775807,-9223372036854775808,7}'", (2**63 - 1, -(2**63), 7))]),
    "a_text": Kind("text[]", [("'{\"a,b\",\"NULL\",n,NULL,\"\"}'", ("a,b", "NULL", "n", None, ""))]),
    "a_short": Kind("varchar(4)[]", [("'{ab}'", ("ab",))]),
    "a_price": Kind("numeric(10,2)[]", [("'{1.50,NULL}'", ("1.50", None))]),
    "a_any": Kind("numeric[]", [("'{1.50,7}'", ("1.50", "7"))]),
    "a_f8": Kind("double precision[]", [("'{NaN,0.1,Infinity}'", (NAN, 0.1, INF))]),
    "a_yes": Kind("boolean[]", [("'{true,NULL}'", (True, None))]),
    "a_raw": Kind("bytea[]", [("ARRAY['\\x00ff'::bytea,'']", (b"\x00\xff", b""))]),
    "a_name": Kind("uuid[]", [("'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",))]),
    "a_docb": Kind("jsonb[]", [("ARRAY['{\"a\":1}'::jsonb]", ('{"a": 1}',))]),
    "a_day": Kind("date[]", [("'{2024-02-29}'", (19782,))]),
    "a_at": Kind("timestamp[]", [("'{2024-02-29 12:34:56.123456}'", (1709210096123456,))]),
    "a_small": Kind("smallint[]", [("'{-32768,NULL}'", (-32768, None))]),
    "a_number": Kind("oid[]", [("'{4294967295}'", (2**32 - 1,))]),
    "a_f4": Kind("real[]", [("'{1.1,NaN}'", (1.1, NAN))]),
    "a_fixed": Kind("char(3)[]", [("'{ab}'", ("ab ",))]),
    "a_doc": Kind("json[]", [("ARRAY['{\"b\":1,  \"a\":2}'::json]", ('{"b":1,  "a":2}',))]),
    "a_host": Kind("inet[]", [("'{127.0.0.1,10.0.0.1/8}'", ("127.0.0.1", "10.0.0.1/8"))]),
    "a_net": Kind("cidr[]", [("'{10.0.0.0/8}'", ("10.0.0.0/8",))]),
    "a_mac": Kind("macaddr[]", [("'{08:00:2b:01:02:03}'", ("08:00:2b:01:02:03",))]),
    "a_ints": Kind("int4range[]", [("ARRAY['[1,4]'::int4range]", ("[1,5)",))]),
    "a_found": Kind("tsvector[]", [("ARRAY['a:1 b:2A'::tsvector]", ("'a':1 'b':2A",))]),
    "a_clock3": Kind("time(3)[]", [("'{12:34:56.123,00:00}'", (45296123, 0))]),
    "a_clockz": Kind("timetz[]", [("'{10:00:00.5+00,24:00:00+00}'", ("10:00:00.5Z", "24:00:00Z"))]),
    "a_at3": Kind("timestamp(3)[]", [("'{2024-02-29 12:34:56.123}'", (1709210096123,))]),
    "a_caseless": Kind("citext[]", [("'{aB}'", ("aB",))]),
    "a_path": Kind("ltree[]", [("'{a.b_c}'", ("a.b_c",))]),
    "a_moment": Kind("timestamptz[]", [("'{2024-02-29 12:34:56.1+00}'", ("2024-02-29T12:34:56.100000Z",))]),
    "mood": Kind("mood", [("'sad'", "sad"), ("'glad'", "glad")]),
    "moods": Kind("mood[]", [("'{sad,glad}'", ("sad", "glad"))]),
    "pos": Kind("positive", [("7", 7)]),
    "longs": Kind("int8range", [("'[1,4]'", "[1,5)"), ("'(,)'", "(,)")]),
    "caseless": Kind("citext", [("'aB'", "aB")]),
    "path": Kind("ltree", [("'a.b_c'", "a.b_c")]),
    "pairs": Kind("hstore", [("'a=>1, b=>NULL'", '{"a":"1","b":null}')], lost=True),
    "letter": Kind('"char"', [("'x'", "x")]),
}  # fmt: skip
#: What must be there before the table; the extensions where every schema finds them.
TYPES = "; ".join([
    "CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    *(f"CREATE EXTENSION IF NOT EXISTS {name} SCHEMA pg_catalog" for name in ("citext", "ltree", "hstore")),
])
#: Columns to which PostgreSQL as a target gives another type than the source has (docs/types.md), in their order.
OTHERS = ["cash", "whilez", "pairs", "letter"]
#: Columns that ``compare --source`` leaves out: their text depends on a zone, or on the connector.
UNCOMPARED = ["whilez", "pairs"]
#: How many rows there are: the most values of a column, and one of nulls.
ROWS = max(len(kind.values) for kind in COLUMNS.values()) + 1


def create(table: str = "every") -> str:
    """The statement that makes the table."""
    columns = ", ".join(f'"{name}" {kind.type}' for name, kind in COLUMNS.items())
    return f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})"


def defaults(table: str = "every") -> list[str]:
    """The statements that give each column a DEFAULT: its first value."""
    firsts = {name: kind.values[0][0] for name, kind in COLUMNS.items()}
    return [f'ALTER TABLE {table} ALTER "{name}" SET DEFAULT {literal}' for name, literal in firsts.items()]


def insert(number: int, table: str = "every", *, finite: bool = False) -> str:
    """The statement for a row; ``finite``: nothing that files do not hold."""
    values = [kind.values[number][0] if _has(kind, number, finite) else "NULL" for kind in COLUMNS.values()]
    return f"INSERT INTO {table} VALUES ({', '.join([str(number), *values])})"


def row(number: int, *, finite: bool = False) -> dict[str, Any]:
    """What the log has of it."""
    values = {name: kind.values[number][1] if _has(kind, number, finite) else None for name, kind in COLUMNS.items()}
    return {"id": number, **values}


def _has(kind: Kind, number: int, finite: bool) -> bool:
    return number < (min(len(kind.values), kind.finite) if finite else len(kind.values))
