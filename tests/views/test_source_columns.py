"""What PostgreSQL keeps a column in, by the column's type in the source, and what goes in and comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import MalformedError
from cdcv2.materialize.protocol.messages import Field
from cdcv2.rows.source_types import SourceType
from cdcv2.views.source_columns import (
    SourceColumn, bare, demand_held, kind_of, normal_of, printed, source_column,
)  # fmt: skip

EXPRESSIONS = json.loads((Path(__file__).parent / "postgres_expressions.json").read_text("utf-8"))


def array(items: str | SourceType, precision: int | None = None) -> SourceType:
    """An array of these."""
    return SourceType("array", items=SourceType(items, precision) if isinstance(items, str) else items)


def kept(source: SourceType) -> SourceColumn:
    """The column, of a field of the kind that its log has."""
    column = source_column(source, kind_of(source) or "json")
    assert column is not None
    return column


MOOD = SourceType("enum", name='Order.my "mood')
TYPES = [
    SourceType("time"), SourceType("time", 3), SourceType("timestamp"), SourceType("timestamp", 3),
    SourceType("timestamptz", 3), SourceType("bit", length=1), SourceType("bit", length=9),
    SourceType("bpchar", length=5), SourceType("uuid"), SourceType("numeric", 12, 2), MOOD,
    *map(array, ("int4", "int8", "bool", "float4", "float8", "text", "bytea", "time", "uuid", "timestamptz")),
    array(SourceType("numeric", 10, 2)), array(SourceType("bit", length=1)), array(MOOD),
]  # fmt: skip


@pytest.mark.parametrize("source", TYPES, ids=printed)
def test_the_expressions_are_those_that_a_server_was_tried_with(source: SourceType) -> None:
    """Every value of every type was put in and read back by them (tests/materialize/test_source_columns.py).

    If that test holds with a new expression, what this one shows belongs into the file.
    """
    column = kept(source)
    assert EXPRESSIONS[printed(source)] == {
        "into": column.into, "out": column.out, "text": column.sql_text, "optional": column.optional,
    }  # fmt: skip
    assert printed(source) == column.postgres


def test_bits_without_a_number_are_one() -> None:
    """As PostgreSQL has it; others are as many as are stated."""
    (one, nine) = (kept(SourceType("bit", length=length)) for length in (None, 9))
    assert "0::bigint, 9 - 1)" in nine.into and one.into == nine.into.replace("9 - 1)", "1 - 1)")


@pytest.mark.parametrize(("source", "whole", "without"), [
    (SourceType("int4"), "integer", "integer"), (SourceType("uuid"), "uuid", "uuid"),
    (SourceType("numeric"), "numeric", "numeric"), (SourceType("numeric", 12), "numeric(12,0)", "numeric"),
    (SourceType("numeric", 5, -2), "numeric(5,-2)", "numeric"), (SourceType("money"), "numeric(19,2)", "numeric"),
    (SourceType("varchar"), "character varying", "character varying"),
    (SourceType("varchar", length=10), "character varying(10)", "character varying"),
    (SourceType("bpchar"), "bpchar", "bpchar"), (SourceType("bpchar", length=5), "character(5)", "bpchar"),
    (SourceType("bit", length=9), "bit(9)", "bit varying"),
    (SourceType("varbit", length=20), "bit varying(20)", "bit varying"),
    (SourceType("timestamp"), "timestamp without time zone", "timestamp without time zone"),
    (SourceType("timestamp", 6), "timestamp(6) without time zone", "timestamp without time zone"),
    (SourceType("timetz", 0), "time(0) with time zone", "time with time zone"),
    (array("int8"), "bigint[]", "bigint[]"),
    (array(SourceType("varchar", length=3)), "character varying(3)[]", "character varying(3)[]"),
    (SourceType("enum", name="public.mood"), '"public"."mood"', '"public"."mood"'),
    # Words of SQL, capitals and quotes are names like others; a dot in the name of the type is its own.
    (SourceType("enum", name='user.A "b".c'), '"user"."A ""b"".c"', '"user"."A ""b"".c"'),
    (array(SourceType("enum", name="mood")), '"mood"[]', '"mood"[]'),
], ids=str)  # fmt: skip
def test_a_type_is_called_as_postgresql_calls_it(source: SourceType, whole: str, without: str) -> None:
    """And for a cast without digits and length, which would round and cut."""
    assert (whole, without) == (printed(source), bare(source))


@pytest.mark.parametrize(("source", "kind"), [
    (SourceType("time"), "long"), (SourceType("time", 3), "int"), (SourceType("time", 4), "long"),
    (SourceType("timestamp", 3), "long"), (SourceType("bit", length=1), "boolean"), (SourceType("bit"), "bytes"),
    (SourceType("bit", length=2), "bytes"), (SourceType("numeric", 12, 2), "string"), (SourceType("int2"), "int"),
    (array("int2"), "json"), (SourceType("hstore"), None),
], ids=str)  # fmt: skip
def test_the_log_has_one_kind_of_values_of_a_type(source: SourceType, kind: str | None) -> None:
    """None of a type that is not known."""
    assert kind == kind_of(source)


@pytest.mark.parametrize(("source", "kind"), [
    (None, "string"), (SourceType("numeric"), "json"), (SourceType("text"), "string"), (SourceType("int4"), "int"),
    (SourceType("enum"), "string"), (SourceType("hstore"), "string"), (array("hstore"), "json"),
    (array(array("int4")), "json"), (array(SourceType("enum")), "json"), (array("uuid"), "string"),
], ids=str)  # fmt: skip
def test_other_columns_are_as_the_log_has_them(source: SourceType | None, kind: str) -> None:
    """Where nothing is known, where the log has it otherwise, and where both are the same."""
    assert source_column(source, kind) is None


@pytest.mark.parametrize(("source", "value", "text"), [
    (SourceType("numeric"), "1.50", "1.5"), (SourceType("money"), "-2.00", "-2"), (SourceType("uuid"), "0a", "0a"),
    (SourceType("timestamptz"), "1970-01-01T00:00:01Z", "1000000"), (SourceType("timetz"), "01:00:00+01:00", "0"),
    (SourceType("bit", length=9), b"\x03\x01", "0301"), (SourceType("varbit"), b"\xff", "ff"),
    (SourceType("bit", length=1), True, "true"), (SourceType("bit", length=1), False, "false"),
    (SourceType("date"), 7, "7"), (array("text"), '["é",null]', '["é", null]'), (array("int4"), "[1,2]", "[1, 2]"),
    (array("numeric"), '["1.50",null]', '["1.5", null]'),
], ids=str)  # fmt: skip
def test_equal_values_have_one_text(source: SourceType, value: Any, text: str) -> None:
    """In whatever spelling the log has them."""
    assert text == kept(source).text(value)


@pytest.mark.parametrize(("source", "given", "value"), [
    (SourceType("timestamptz"), "1709202896123456", "2024-02-29T10:34:56.123456Z"),
    (SourceType("timestamptz", 3), "1709202896123000", "2024-02-29T10:34:56.123Z"),
    (SourceType("timestamptz"), "infinity", "infinity"), (SourceType("timestamptz"), "-infinity", "-infinity"),
    (array("timestamptz", 0), '["1709202896000000", null, "-infinity"]', '["2024-02-29T10:34:56Z",null,"-infinity"]'),
], ids=str)  # fmt: skip
def test_moments_come_back_as_the_log_has_them(source: SourceType, given: str, value: str) -> None:
    """From what the expression gives. Others need no more."""
    inward = kept(source).inward
    assert inward is not None and value == inward(given)
    assert kept(SourceType("date")).inward is None and kept(array("date")).inward is kept(array("int4")).inward is None


@pytest.mark.parametrize(("source", "statement"), [
    (SourceType("uuid"), 'ALTER TABLE t ALTER "c" TYPE uuid USING ("c")::uuid;'),
    (SourceType("int2"), 'ALTER TABLE t ALTER "c" TYPE smallint USING ("c")::smallint;'),
], ids=str)  # fmt: skip
def test_a_column_is_altered_by_its_expression(source: SourceType, statement: str) -> None:
    """Of the column's name, which is in quotes."""
    assert statement == kept(source).altering("t", '"c"')


@pytest.mark.parametrize(("source", "physical"), [
    (SourceType("bit", length=9), "bytea"), (SourceType("varbit"), "bytea"), (array("int4"), "jsonb"),
], ids=str)  # fmt: skip
def test_where_the_expression_asks_a_query_a_function_of_the_session_does_it(source: SourceType, physical: str) -> None:
    """PostgreSQL takes no query where a column is altered."""
    column = kept(source)
    assert column.altering("t", '"c"') == (
        f'CREATE FUNCTION pg_temp."to c"(x {physical}) RETURNS {column.postgres} LANGUAGE SQL AS '
        f"$$ SELECT {column.into.replace('{x}', 'x')} $$; "
        f'ALTER TABLE t ALTER "c" TYPE {column.postgres} USING pg_temp."to c"("c");'
    )


@pytest.mark.parametrize(("kind", "source", "value", "normal"), [
    ("string", SourceType("numeric", 9, 2), "1.5", "1.50"), ("int", SourceType("date"), -622191234, 2146033979),
    ("json", array(SourceType("numeric", 9, 2)), '["1.5", null]', '["1.50",null]'),
    ("json", array("date"), "[-622191234,7]", "[2146033979,7]"), ("json", array("uuid"), '["É"]', '["é"]'),
    # As plain JSON has them: bytes in base64, and whole numbers that are not safe as text.
    ("json", array(SourceType("bit", length=9)), '["Aw=="]', '["AwA="]'),
    ("json", array("timestamp", 3), f'["{2**63 - 1}",7]', '["9223372036825200000",7]'),
], ids=str)  # fmt: skip
def test_a_value_is_spelled_as_its_column_gives_it_back(kind: str, source: SourceType, value: Any, normal: Any) -> None:
    """Also each of an array."""
    convert = normal_of(Field("v", kind, source=source))
    assert convert is not None and normal == convert(value)


@pytest.mark.parametrize(("kind", "source"), [
    ("string", None), ("json", SourceType("numeric")), ("string", array("numeric")), ("string", SourceType("text")),
    ("json", array("text")), ("json", array("timestamp")),
], ids=str)  # fmt: skip
def test_other_values_are_spelled_in_one_way(kind: str, source: SourceType | None) -> None:
    """Of a column whose type is not known, or that the log has otherwise, nothing is."""
    assert normal_of(Field("v", kind, source=source)) is None


REFUSED: list[tuple[str, SourceType, Any, Any, str]] = [
    ("string", SourceType("numeric", 12, 2), "1.50", "1.505", "'1.505'"),
    ("string", SourceType("varchar", length=3), "abc", "abc ", "'abc '"),
    ("long", SourceType("time", 4), 45296123400, 45296123401, "45296123401"),
    ("json", array(SourceType("numeric", 12, 2)), '["1.50",null]', '[null,"1.505"]', "'1.505'"),
    ("json", array("timestamp", 4), f'["{2**63 - 1}",null,1709210096123400]', "[1709210096123401]", "1709210096123401"),
    ("json", array(SourceType("varchar", length=3)), '["7","12"]', '["1234"]', "'1234'"),
]


@pytest.mark.parametrize(("kind", "source", "good", "bad", "shown"), REFUSED, ids=str)
def test_what_a_column_would_round_or_cut_is_refused(
    kind: str, source: SourceType, good: Any, bad: Any, shown: str
) -> None:
    """With the table, the column, the value and what to do."""
    field = Field("v", kind, source=source)
    for held in (good, None):
        demand_held(field, held, "shop")
    with pytest.raises(MalformedError) as caught:
        demand_held(field, bad, "shop")
    assert str(caught.value).startswith(
        f"shop: {shown} of the column 'v' is not held exactly by {printed(source)}: the column was altered in the "
        "source. Make the row schema again"
    )


@pytest.mark.parametrize("source", [None, SourceType("text"), SourceType("varchar"), array("text")], ids=str)
def test_a_column_that_holds_everything_refuses_nothing(source: SourceType | None) -> None:
    """Nor is it read."""
    demand_held(Field("v", "string", source=source), "no JSON", "shop")


def test_what_is_none_of_the_type_is_named_with_its_column() -> None:
    """A time beyond the day; also in an array, where it may be text."""
    for kind, source, value in (("long", SourceType("time"), -(2**62)), ("json", array("time"), f'["{-(2**62)}"]')):
        with pytest.raises(MalformedError, match=f"^shop: in the column 'v', {-(2**62)} is no time: a day begins"):
            demand_held(Field("v", kind, source=source), value, "shop")
