"""Values of a target as texts: PostgreSQL and Python make the same ones, so equal tables need not be moved."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.materialize.protocol.messages import Field, Table
from cdcv2.materialize.targets.postgres.tables import type_of
from cdcv2.materialize.texts import plain, side, texts
from cdcv2.rows.fingerprint import LocalRows, compare
from cdcv2.rows.postgres_values import number_text
from cdcv2.rows.source_types import SourceType
from cdcv2.views.source_columns import kind_of

VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [-(2**31), 7],
    "long": [2**63 - 1, 0],
    "integer": [10**30, 0],
    "decimal": [Decimal("1.50"), Decimal("-100")],
    "float": [float("nan"), -0.0, 1.100000023841858],
    "double": [float("nan"), -0.0, float("-inf"), 0.1],
    "string": ["", "n", "1:é\U0010ffff"],
    "bytes": [b"", b"\x00\xff"],
}
PLAIN = {
    "boolean": True, "int": -(2**31), "long": str(2**63 - 1), "integer": str(10**30), "decimal": "1.5", "float": "NaN",
    "double": "NaN", "string": "", "bytes": "",
}  # fmt: skip


@pytest.mark.integration
def test_the_database_makes_the_same_texts(connect: Callable[[], Any]) -> None:
    """Of every kind, null included; and of the rows that count only."""
    fields = (Field("id", "int"), *(Field(f"a {kind}", kind) for kind in VALUES), Field("gone", "boolean"))
    table = Table("every", fields[:1], fields[1:])
    rows = [
        (place, *(values[place] if place < len(values) else None for values in VALUES.values()), place == 4)
        for place in range(5)
    ]
    with connect() as session:
        columns = ", ".join(f'"{one.name}" {type_of(one)}' for one in fields)
        session.execute(f"CREATE TABLE every ({columns})".encode())
        for row in rows:
            session.execute(f"INSERT INTO every VALUES ({', '.join(['%s'] * len(row))})".encode(), row)
        here = LocalRows([(texts(fields, row), 1) for row in rows[:4]], 1)
        there = side(session, table, table, "NOT s.gone", [table.name])

        assert there is not None
        assert here.prints() == there.prints()

        session.execute("UPDATE every SET \"a string\" = 'other' WHERE id = 2")

        assert [("2",)] == [one.key for one in compare(here, there, 1).differing]


def test_json_is_not_left_to_the_database() -> None:
    """It keeps the spelling of its numbers."""
    table = Table("t", (Field("id", "int"),), (Field("j", "json"),))

    assert side(None, table, table, "true", [table.name]) is None


class Asked:
    """A session that keeps the statement, and finds nothing."""

    def execute(self, statement: Any) -> Asked:
        """Keep it."""
        self.statement = statement.as_string(None)
        return self

    def fetchall(self) -> list[Any]:
        """Nothing."""
        return []


def test_the_database_is_asked_for_the_columns_as_they_are_there() -> None:
    """A column that has the source's type there is made a text by what that type needs, else by what its kind does."""
    pytest.importorskip("psycopg")
    table = Table("t", (Field("a", "long"), Field("b", "bytes")), (Field("u", "string", source=SourceType("uuid")),))
    session = Asked()
    found = side(session, table, table, "NOT s.gone", [table.name])
    assert found is not None
    found.prints()

    assert (
        'SELECT (s."a")::text AS t0, encode((s."b"), \'hex\') AS t1, ((s."u")::text)::text AS t2 '
        'FROM "t" s WHERE NOT s.gone OFFSET 0'
    ) in session.statement
    # Its key is the first two columns: by these the rows are spread.
    assert "|| ',' || coalesce(length(t.t1)::text || ':' || t.t1, 'n'), 'UTF8')), 'hex'), 1, 8)" in session.statement


def test_text_that_stands_for_another_type_is_not_left_to_the_database() -> None:
    """One column is enough, though all others could be."""
    pytest.importorskip("psycopg")
    moment, text = Field("v", "string", source=SourceType("timestamptz")), Field("v", "string")
    plain_key = (Field("a", "long"),)

    assert side(Asked(), Table("t", plain_key, (moment,)), Table("t", plain_key, (text,)), "true", ["t"]) is None
    assert side(Asked(), Table("t", plain_key, (moment,)), Table("t", plain_key, (moment,)), "true", ["t"]) is not None


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("json", '{"b": 1.0, "a": [1e2]}', '{"a": [100], "b": 1}'),
        ("decimal", Decimal("0.00"), Decimal("0")),
        ("float", -0.0, 0.0),
    ],
)
def test_spellings_of_a_value_are_one_text(kind: str, one: Any, other: Any) -> None:
    """A system may spell as it likes."""
    assert texts([Field("v", kind)], [one]) == texts([Field("v", kind)], [other])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("boolean", True, "true"), ("boolean", False, "false"),
        ("int", -7, "-7"), ("long", 2**63 - 1, "9223372036854775807"), ("integer", -(10**30), str(-(10**30))),
        ("decimal", Decimal("1.50"), "1.5"), ("decimal", Decimal("-100"), "-100"), ("decimal", Decimal("1E+3"), "1000"),
        ("decimal", Decimal("-0.00"), "0"), ("decimal", Decimal("1E-9"), "0.000000001"),
        ("float", float("nan"), "NaN"), ("float", 0.0, "0"), ("float", -2.0, "c0000000"),
        ("float", float("inf"), "7f800000"),
        ("double", float("nan"), "NaN"), ("double", -0.0, "0"), ("double", -2.0, "c000000000000000"),
        ("string", "", ""), ("string", "é,1:", "é,1:"), ("bytes", b"\x00\xff", "00ff"),
        ("json", '{"b": [1.0, 2e2, "é", null], "a": {}}', '{"a": {}, "b": [1, 200, "é", null]}'),
        ("json", '[true,"a",  false]', '[true, "a", false]'),
        ("json", "123456789012345678901234567890.10", "123456789012345678901234567890.1"),
        ("json", "9" * 5000, "9" * 5000), ("decimal", Decimal("NaN"), "NaN"), ("json", "0.0", "0"),
        ("json", '{"k": "v", "a": 0}', '{"a": 0, "k": "v"}'),
    ],
)  # fmt: skip
def test_the_text_of_a_value(kind: str, value: Any, text: str) -> None:
    """What is kept for a comparison is a number over these texts: they stay as they are."""
    assert (text, None) == texts([Field("v", kind)] * 2, [value, None])


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("boolean", False, False), ("int", 7, 7), ("long", 7, 7), ("integer", 7, 7), ("integer", 2**60, str(2**60)),
        ("float", 0.0, 0), ("float", 1.5, 1.5), ("double", 0.1, 0.1), ("double", float("inf"), "Infinity"),
        ("bytes", b"\x00\xff", "AP8="), ("json", '{"b": [1.50, null]}', {"b": [1.5, None]}),
        ("string", "7", "7"), ("decimal", Decimal("7"), "7"),
    ],
)  # fmt: skip
def test_a_value_as_people_see_it(kind: str, value: Any, shown: Any) -> None:
    """Numbers are numbers where JSON tools do not bend them, and bytes are base64."""
    found = plain([Field("v", kind)], texts([Field("v", kind)], [value]))["v"]

    assert (type(shown), shown) == (type(found), found) or (0, 0) == (shown, found)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("json", '["7", "x"]', '[7, "x"]'),
        ("json", '{"a": "1"}', '{"a": 1.0}'),
        ("json", "[true]", '["true"]'),
        ("json", "[null]", '["null"]'),
        ("json", '["a, b"]', '["a", "b"]'),
    ],
)
def test_other_values_have_other_texts(kind: str, one: Any, other: Any) -> None:
    """A number is not the text that spells it."""
    assert texts([Field("v", kind)], [one]) != texts([Field("v", kind)], [other])


def test_a_number_has_as_many_digits_as_postgresql_allows() -> None:
    """131,072 before the point, and 16,383 behind it."""
    longest = "9" * 131_072 + "." + "1" * 16_383

    assert (longest,) == texts([Field("v", "decimal")], [Decimal(longest)])
    assert longest == number_text(longest)


@pytest.mark.parametrize("kind", VALUES)
def test_texts_are_shown_as_plain_values(kind: str) -> None:
    """People do not read hexadecimal floats."""
    field = Field("v", kind)

    assert {"v": PLAIN[kind]} == plain([field], texts([field], [VALUES[kind][0]]))
    assert {"v": None} == plain([field], (None,))


@pytest.mark.parametrize(
    ("source", "value", "shown"),
    [
        (SourceType("date"), 19782, "2024-02-29"),
        (SourceType("date"), 2146033979, "infinity"),
        (SourceType("date"), -719528, "0000-01-01"),
        (SourceType("time"), 45296123456, "12:34:56.123456"),
        (SourceType("time", precision=0), 45296000, "12:34:56"),
        (SourceType("timetz"), "01:00:00.5+02:00", "23:00:00.5Z"),
        (SourceType("timestamp"), 1709210096123456, "2024-02-29T12:34:56.123456"),
        (SourceType("timestamp", precision=3), 1709210096123, "2024-02-29T12:34:56.123"),
        (SourceType("timestamp"), -(2**63), "-infinity"),
        (SourceType("timestamptz"), "2024-02-29T12:34:56+02:00", "2024-02-29T10:34:56Z"),
        (SourceType("timestamptz"), "infinity", "infinity"),
        (SourceType("array", items=SourceType("date")), "[19782,null]", ["2024-02-29", None]),
        (SourceType("array", items=SourceType("timestamp")), '["9223372036854775807"]', ["infinity"]),
        (SourceType("numeric"), "1.50", "1.5"),
        (SourceType("int8"), 19782, 19782),
    ],
)
def test_what_the_source_calls_a_date_or_a_moment_is_shown_as_one(source: SourceType, value: Any, shown: Any) -> None:
    """People do not count days since 1970."""
    field = Field("v", kind_of(source) or "", source=source)

    assert {"v": shown} == plain([field], texts([field], [value]))
