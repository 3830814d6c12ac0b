"""Columns of rows as columns of tables: one kind each, and one value, whether of a row or of a whole batch."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdcv2.errors import MalformedError, UsageError
from cdcv2.materialize.protocol.messages import Field
from cdcv2.rows.columns import UpdateBatch, whole_array
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType
from cdcv2.views import columns
from cdcv2.views.columns import ViewColumn, arrow_of, column_of, columns_of

NAN = float("nan")
SIDE = {"type": "record", "name": "side", "fields": [{"name": "b", "type": "long"}, {"name": "a", "type": "bytes"}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
#: Avro's type -> the kind in a table, Arrow's type, and pairs of what is put into a row and what stands in the table
KINDS: list[tuple[Any, str, pa.DataType, list[tuple[Any, Any]]]] = [
    ("boolean", "boolean", pa.bool_(), [(True, True), (False, False)]),
    ("int", "int", pa.int32(), [(-(2**31), -(2**31))]),
    ("long", "long", pa.int64(), [(2**63 - 1, 2**63 - 1)]),
    ("float", "float", pa.float32(), [(1.5, 1.5), (NAN, NAN)]),
    ("double", "double", pa.float64(), [(0.1, 0.1), (float("-inf"), float("-inf"))]),
    ("string", "string", pa.string(), [("é", "é"), ("", "")]),
    ("bytes", "bytes", pa.binary(), [(b"\x00\xff", b"\x00\xff")]),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "string", pa.string(), [("B", "B")]),
    ({"type": "fixed", "name": "f", "size": 2}, "bytes", pa.binary(), [(b"\x01\x02", b"\x01\x02")]),
    (DECIMAL, "decimal", pa.decimal128(9, 2), [(Decimal("-1.50"), Decimal("-1.50"))]),
    ({"type": "array", "items": ["null", "long"]}, "json", pa.string(), [
        ([2**63 - 1, None, 7], '["9223372036854775807",null,7]'), ([], "[]"),
    ]),
    ({"type": "map", "values": "string"}, "json", pa.string(), [({"k": "é"}, '{"k":"é"}')]),
    (SIDE, "json", pa.string(), [({"b": 1, "a": b"\xff"}, '{"b":1,"a":"/w=="}')]),
]


def rows_of(avro: Any, source: dict[str, Any] | None = None, *, nullable: bool = True) -> RowType:
    """Rows whose second column is of this type."""
    one: dict[str, Any] = {"name": "v", "type": ["null", avro] if nullable else avro}
    if source is not None:
        one["cdcv2.source"] = source
    return RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}, one]})


def whole_column(row_type: RowType, column: ViewColumn, rows: list[Any], parts: int = 1) -> list[Any]:
    """The column of these rows as one array, of a batch in so many parts; of the type that crosses seams."""
    batches = [UpdateBatch.of(row_type, [(row, 1, 1) for row in rows[at::parts]]) for at in range(parts)]
    batch = UpdateBatch.concat([one for one in batches if one is not None])
    made = column.array(row_type, batch.rows.column(column.index))
    assert isinstance(made, pa.ChunkedArray) and arrow_of(column.field) == made.type
    return made.to_pylist()


@pytest.mark.parametrize(("avro", "kind", "arrow", "values"), KINDS, ids=lambda one: str(one)[:20])
def test_a_column_has_a_kind_and_its_values_go_there_and_back(
    avro: Any, kind: str, arrow: pa.DataType, values: list[tuple[Any, Any]]
) -> None:
    """Also null; and of a whole batch, in one part or in several, they are the same."""
    row_type = rows_of(avro)
    column = column_of(row_type, "v")
    rows = [row_type.row([at, given]) for at, given in enumerate([*(given for given, _ in values), None])]
    wanted = [*(there for _, there in values), None]
    scale = {"decimal": (9, 2)}.get(kind, (None, None))

    assert ("v", kind, True, *scale) == (
        column.field.name, column.field.kind, column.field.nullable, column.field.precision, column.field.scale,
    )  # fmt: skip
    assert not column_of(rows_of(avro, nullable=False), "v").field.nullable
    assert arrow == arrow_of(column.field) and column.order is None and not column.has_spellings
    assert repr(wanted) == repr([column.value(row) for row in rows]) == repr(whole_column(row_type, column, rows))
    assert repr([*wanted[::2], *wanted[1::2]]) == repr(whole_column(row_type, column, rows, 2))
    assert repr(rows) == repr([row_type.row([row.id, column.back(there)]) for row, there in zip(rows, wanted)])


@pytest.mark.parametrize(("avro", "values"), [
    ("long", {'"9223372036854775807"': 2**63 - 1, "7": 7}), ("double", {'"NaN"': NAN, "0.1": 0.1}),
    ("string", {'"é"': "é"}), ("bytes", {'"AP8="': b"\x00\xff"}), ("boolean", {"true": True}),
    (DECIMAL, {'"-1.50"': Decimal("-1.50")}), ({"type": "fixed", "name": "f", "size": 1}, {'"/w=="': b"\xff"}),
], ids=str)  # fmt: skip
def test_equal_values_are_found_by_their_texts(avro: Any, values: dict[str, Any]) -> None:
    """Which a minimum keeps in its table, and reads again."""
    row_type = rows_of(avro)
    column = column_of(row_type, "v")
    rows = [row_type.row([1, value]) for value in values.values()]

    assert [*values] == [column.text(row) for row in rows]
    assert column.text(row_type.row([1, None])) is None
    assert repr([column.value(row) for row in rows]) == repr([column.from_text(text) for text in values])


def test_spellings_of_the_source_are_one_value() -> None:
    """In a row, in a batch, in arrays, and as the text by which equal ones are found."""
    row_type = rows_of("string", {"type": "numeric", "precision": 9, "scale": 2})
    column = column_of(row_type, "v")
    rows = [row_type.row([at, value]) for at, value in enumerate(["1.5", None, "1.50", "1.5", "NAN"])]
    listed = rows_of({"type": "array", "items": "string"}, {"type": "array", "items": {"type": "numeric", "scale": 2}})
    inside, lists = column_of(listed, "v"), [listed.row([1, ["1.5", "2"]]), listed.row([2, None])]

    assert column.has_spellings and inside.has_spellings and SourceType("numeric", 9, 2) == column.field.source
    assert ["1.50", None, "1.50", "1.50", "NaN"] == [column.value(row) for row in rows]
    assert ["1.50", None, "1.50", "1.50", "NaN"] == whole_column(row_type, column, rows)
    assert ['"1.50"', None, '"1.50"', '"1.50"', '"NaN"'] == [column.text(row) for row in rows]
    assert ['["1.50","2.00"]', None] == [inside.value(row) for row in lists] == whole_column(listed, inside, lists)
    assert column.order is not None and column.order("9") < column.order("10") and inside.order is None


@pytest.mark.parametrize(("table", "place"), [("", ""), ("shop", "shop: ")])
def test_what_is_none_of_its_type_is_named_by_table_and_column(table: str, place: str) -> None:
    """As a value, and of a batch."""
    row_type = rows_of("string", {"type": "numeric"})
    named = (table,) if table else ()
    for column in (column_of(row_type, "v", *named), columns_of(row_type, *named)[1]):
        row = row_type.row([1, "many"])
        for read in (column.value, lambda row, column=column: whole_column(row_type, column, [row])):
            with pytest.raises(MalformedError, match=f"^{place}in the column 'v', 'many' is no number"):
                read(row)


@pytest.mark.parametrize("avro", ["long", "string", DECIMAL], ids=["long", "string", "decimal"])
def test_of_a_column_that_arrow_has_as_it_is_no_value_is_made(avro: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of its rows, it is a few operations."""
    row_type = rows_of(avro)
    monkeypatch.setattr(columns, "column_values", None)

    assert [None] == whole_column(row_type, column_of(row_type, "v"), [row_type.row([1, None])])


@pytest.mark.parametrize(("avro", "source"), [
    ("string", {"type": "numeric"}), ("int", {"type": "date"}), ({"type": "map", "values": "int"}, {"type": "jsonb"}),
], ids=["numeric", "date", "map"])  # fmt: skip
def test_a_column_without_a_value_has_its_type(avro: Any, source: dict[str, Any]) -> None:
    """And one of few values, too, however wide Arrow would have them."""
    row_type = rows_of(avro, source)
    column, value = column_of(row_type, "v"), {"int": 2146033979, "string": "1"}.get(str(avro), {})
    null = [row_type.row([at, None]) for at in range(2)]

    assert [None, None] == whole_column(row_type, column, null)
    assert [column.value(row_type.row([1, value])), None] == whole_column(
        row_type, column, [row_type.row([1, value]), null[0]]
    )


def test_columns_are_in_the_order_of_the_rows() -> None:
    """Each with its place."""
    first, second = columns_of(rows_of("string"))
    assert (("id", 0, False), ("v", 1, True)) == tuple(
        (one.field.name, one.index, one.field.nullable) for one in (first, second)
    )


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    """And one that no table has a column for."""
    with pytest.raises(UsageError, match=r"^there is no column 'x': the log's rows have id, v$"):
        column_of(rows_of("string"), "x")
    with pytest.raises(UsageError, match="^column 'v' is of the type 'null', which no table has a column for"):
        column_of(RowType({"type": "record", "name": "t", "fields": [{"name": "v", "type": "null"}]}), "v")


def test_what_is_no_value_of_a_column_is_named_by_it() -> None:
    """As an instance reads it of a target that somebody has changed."""
    column = column_of(rows_of(SIDE), "v")
    with pytest.raises(MalformedError, match="column 'v'.*is no JSON object"):
        column.back("7")


@pytest.mark.parametrize(("text", "number"), [
    ("9007199254740991", 2**53 - 1), ("-9007199254740991", 1 - 2**53), ("9007199254740992", float(2**53)),
    ("-9007199254740992", float(-(2**53))), ("0", 0), ("1" + "0" * 40, 1e40), ("1" * 5000, float("inf")),
])  # fmt: skip
def test_a_whole_number_of_json_that_is_not_safe_is_a_float(text: str, number: float) -> None:
    """A system that keeps JSON in a form of its own gives a float back with all its zeros."""
    column = column_of(rows_of({"type": "array", "items": "double"}), "v")
    (found,) = column.back(f"[{text}]")
    assert (type(number), number) == (type(found), found)


@pytest.mark.parametrize(("field", "arrow"), [
    (Field("v", "decimal", precision=12, scale=2), pa.decimal128(12, 2)),
    (Field("v", "decimal", precision=38), pa.decimal128(38, 0)),
    (Field("v", "decimal", precision=39, scale=1), pa.decimal256(39, 1)),
    (Field("v", "decimal", scale=2), pa.decimal128(38, 2)),
    (Field("v", "integer"), pa.decimal128(38, 0)),
])  # fmt: skip
def test_numbers_of_any_size_cross_seams_as_decimals(field: Field, arrow: pa.DataType) -> None:
    """Of more than 38 digits, as the wider ones."""
    assert arrow == arrow_of(field)


def test_the_chunks_of_a_column_are_one_array() -> None:
    """Also of none, which has its type."""
    assert pa.array([1, 2, 3]) == whole_array(pa.chunked_array([[1], [2, 3]]))
    assert pa.array([], pa.int32()) == whole_array(pa.chunked_array([], pa.int32()))
