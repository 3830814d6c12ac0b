"""Row types: one canonical form, equality that is its equality, and refusals that name the column."""

from __future__ import annotations

import copy
import io
import json
import math
import pickle
import struct
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.errors import DecodeError, MalformedError, UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType
from cdcv2.rows.values import NAN
from tests.rows.drawn import reference, schemas, values

FLAT = {"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "balance", "type": ["null", "double"]},
]}


def one(kind: Any) -> RowType:
    """A row type of one column, called c."""
    return RowType({"type": "record", "name": "t", "fields": [{"name": "c", "type": kind}]})


def fastavro_schema(row_type: RowType) -> Any:
    """The schema without logical types, so that fastavro carries the bytes underneath."""
    return fastavro.parse_schema(json.loads(json.dumps(row_type.schema).replace("logicalType", "was")))


def for_fastavro(schema: Any, value: Any) -> Any:
    """A drawn value with the keys that the normal schema has: Avro names for columns."""
    if isinstance(schema, list):
        return None if value is None else for_fastavro(next(b for b in schema if b != "null"), value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        names = [column.avro for column in RowType(schema).shape.columns]
        return {
            name: for_fastavro(field["type"], value[field["name"]]) for name, field in zip(names, schema["fields"])
        }
    if kind == "array":
        return [for_fastavro(schema["items"], item) for item in value]
    if kind == "map":
        return {key: for_fastavro(schema["values"], item) for key, item in value.items()}
    return value


SCHEMA_AND_VALUE = schemas().flatmap(lambda schema: st.tuples(st.just(schema), values(schema)))
SCHEMA_AND_TWO = schemas().flatmap(lambda schema: st.tuples(st.just(schema), values(schema), values(schema)))


@given(SCHEMA_AND_VALUE)
def test_rows_are_encoded_as_an_independent_encoder_does(drawn: Any) -> None:
    """The canonical form is a rule for every implementation, not what this one happens to write."""
    schema, value = drawn

    assert reference(schema, value) == RowType(schema).encode(value)


@given(SCHEMA_AND_TWO)
def test_rows_are_equal_exactly_when_their_encodings_are(drawn: Any) -> None:
    """Readers distinguish repeats from new facts by ==, hash or bytes, each where it is cheapest."""
    schema, first, second = drawn
    row_type = RowType(schema)
    one_row, other_row = row_type.row(first), row_type.row(second)

    assert (reference(schema, first) == reference(schema, second)) == (one_row == other_row)
    assert one_row == row_type.row(first) and hash(one_row) == hash(row_type.row(first))


@given(SCHEMA_AND_VALUE)
def test_a_row_comes_back_from_its_bytes_a_pickle_a_copy_and_json(drawn: Any) -> None:
    """Whatever way a row takes between two processes, it is equal to the one that stayed, NaN included."""
    schema, value = drawn
    row_type = RowType(schema)
    row = row_type.row(value)
    ways = [
        row_type.decode(row_type.encode(row)),
        pickle.loads(pickle.dumps(row)),
        copy.copy(row),
        row_type.from_plain(json.loads(json.dumps(row_type.to_plain(row), allow_nan=False))),
        pickle.loads(pickle.dumps(row_type)).row(tuple(row)),
        row_type.row_class(*row),
        row._replace(),
    ]

    assert [row] * len(ways) == ways
    assert {hash(row)} == {hash(way) for way in ways}
    assert {type(row)} == {type(way) for way in ways}


@given(SCHEMA_AND_VALUE)
def test_other_writers_bytes_give_the_canonical_row(drawn: Any) -> None:
    """Another producer writes maps in its own order, -0.0, any NaN and padded decimals: the row is the same."""
    schema, value = drawn
    row_type, out = RowType(schema), io.BytesIO()
    parsed = fastavro_schema(row_type)
    fastavro.schemaless_writer(out, parsed, for_fastavro(schema, value))

    assert row_type.row(value) == row_type.decode(out.getvalue())


@given(SCHEMA_AND_VALUE)
def test_another_reader_understands_the_bytes(drawn: Any) -> None:
    """The canonical form is plain Avro of the schema."""
    schema, value = drawn
    row_type = RowType(schema)
    parsed, again = fastavro_schema(row_type), io.BytesIO()
    fastavro.schemaless_writer(
        again, parsed, fastavro.schemaless_reader(io.BytesIO(row_type.encode(value)), parsed, None)
    )

    assert row_type.row(value) == row_type.decode(again.getvalue())


@given(schemas())
def test_the_normal_schema_is_its_own_normal_form(schema: Any) -> None:
    """A log's schema can be read back any number of times and stays the same row type."""
    row_type = RowType(schema)

    assert row_type.schema == RowType(row_type.schema).schema
    assert row_type == RowType(json.loads(json.dumps(row_type.schema)))
    assert row_type.columns == tuple(field["name"] for field in schema["fields"])


@given(SCHEMA_AND_VALUE, st.data())
def test_damaged_bytes_are_a_decode_error_or_a_row(drawn: Any, data: st.DataObject) -> None:
    """No byte string does anything else: no other exception, no memory taken on its word."""
    schema, value = drawn
    row_type = RowType(schema)
    raw = bytearray(row_type.encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at:at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        row = row_type.decode(bytes(raw))
    except DecodeError:
        return
    assert row == row_type.decode(row_type.encode(row))


def test_pickled_rows_are_equal_in_another_process() -> None:
    """Executors get rows as pickles, and have never seen their class."""
    row_type = RowType(FLAT)
    rows = [row_type.row([1, "a", math.nan]), row_type.row([2, "b", -0.0])]
    script = (
        "import pickle, sys; rows, row_type = pickle.load(sys.stdin.buffer)\n"
        "fresh = [row_type.row([1, 'a', float('nan')]), row_type.row([2, 'b', 0.0])]\n"
        "print(rows == fresh, len(set(rows + fresh)), type(rows[0]) is row_type.row_class)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps((rows, row_type)), capture_output=True, check=True, cwd=root
    )

    assert b"True 2 True\n" == done.stdout


def test_every_nan_is_the_one_nan_and_zero_has_no_sign() -> None:
    """Python compares NaN by identity inside tuples, so rows hold one object; -0.0 would print as another row."""
    nested = one({"type": "array", "items": ["null", "float"]})
    quiet = struct.unpack("<f", struct.pack("<I", 0x7FC00123))[0]
    row = nested.row([[quiet, -0.0, None]])

    assert row.c[0] is NAN and nested.decode(nested.encode(row)).c[0] is NAN
    assert pickle.loads(pickle.dumps(row)).c[0] is NAN
    assert "0.0" == str(row.c[1])


def test_floats_are_rounded_to_what_the_column_holds() -> None:
    """0.1 in single precision is one number, however it arrived."""
    single = struct.unpack("<f", struct.pack("<f", 0.1))[0]

    assert single == one("float").row([0.1]).c
    assert one("float").row([0.1]) == one("float").row([single])
    assert 0.0 == one("float").row([1e-60]).c


def test_a_decimal_is_taken_shown_and_never_padded() -> None:
    """Identity is by the bytes underneath, people see digits."""
    price = one({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    row = price.row([Decimal("-12.3")])

    assert {"c": "-12.30"} == price.to_plain(row)
    assert row == price.row([b"\xff\xff\xfb\x32"]) == price.from_plain({"c": "-12.30"})
    assert {"c": "0.05"} == price.to_plain(price.row([b"\x05"]))


@pytest.mark.parametrize(("value", "text"), [
    ("0", "0.00"), ("1.28", "1.28"), ("-1.28", "-1.28"), ("1.29", "1.29"), ("-1.29", "-1.29"),
    ("9999999.99", "9999999.99"),
    ("1E+3", "1000.00"), ("0E-30", "0.00"), ("1.2300000", "1.23"),
    ("00012.5", "12.50"), ("1." + "0" * 5000, "1.00"), ("-0.00", "0.00"), ("0E+999999", "0.00"),
])
def test_decimals_at_the_edges_of_their_bytes(value: str, text: str) -> None:
    """One byte more or less at each sign's edge, and the ways in which Decimal writes one number."""
    price = one({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})

    assert {"c": text} == price.to_plain(price.decode(price.encode([Decimal(value)])))


def test_a_decimal_of_fixed_size_keeps_its_size() -> None:
    """Its sign is extended to the size, so there is one form only."""
    price = one({"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2})

    assert b"\xff\xff\xff\xfe" == price.encode([Decimal("-0.02")])
    assert {"c": "-0.02"} == price.to_plain(price.decode(b"\xff\xff\xff\xfe"))


def test_names_that_python_does_not_have_are_still_attributes() -> None:
    """Columns keep their names; attributes are near to them."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": name, "type": "int"} for name in ("class", "_id", "unit price", "count", "index")]})
    row = row_type.row({"class": 1, "_id": 2, "unit price": 3, "count": 4, "index": 5})

    assert ("class", "_id", "unit price", "count", "index") == row_type.columns
    assert (1, 2, 3, 4, 5) == (row.class_, row.column_id, row.unit_x0020_price, row.count, row.index)
    assert {"class": 1, "_id": 2, "unit price": 3, "count": 4, "index": 5} == row_type.to_plain(row)


NAMED = {"type": "record", "name": "t", "fields": [
    {"name": "from", "type": {"type": "record", "name": "point", "fields": [{"name": "x", "type": "double"}]}},
    {"name": "to", "type": ["null", "point"]},
    {"name": "kind", "type": {"type": "enum", "name": "data", "namespace": "com.materialize.cdc", "symbols": ["A"]}},
]}


def test_a_record_may_be_called_what_python_keeps_for_itself() -> None:
    """A column's own record type, named by a word of Python's."""
    row_type = one({"type": "record", "name": "in", "fields": [{"name": "x", "type": "int"}]})
    row = row_type.row({"c": {"x": 1}})

    assert row == row_type.decode(row_type.encode(row)) == pickle.loads(pickle.dumps(row))
    assert {"c": {"x": 1}} == row_type.to_plain(row)


def test_types_inside_are_renamed_out_of_the_formats_way_and_used_again() -> None:
    """`com.materialize.cdc.data` is the row, and nothing else may be called so."""
    row_type = RowType(NAMED)
    fields = row_type.schema["fields"]

    assert "com.materialize.cdc.data" == f"{row_type.schema['namespace']}.{row_type.schema['name']}"
    assert ("point", "com.materialize.cdc.data") == (fields[0]["type"]["name"], fields[0]["type"]["namespace"])
    assert ["null", "com.materialize.cdc.data.point"] == fields[1]["type"]
    assert ("data", "com.materialize.cdc.data") == (fields[2]["type"]["name"], fields[2]["type"]["namespace"])
    assert row_type.row([[1.0], [1.0], "A"]) == row_type.decode(row_type.encode([{"x": 1.0}, {"x": 1.0}, "A"]))
    fastavro.parse_schema(row_type.schema)


def test_documentation_defaults_and_aliases_do_not_make_another_row_type() -> None:
    """They do not change bytes or values; a logical type does."""
    said = json.loads(json.dumps(FLAT))
    said.update(doc="Accounts.", aliases=["old"], namespace="shop", name="account")
    said["fields"][0].update(doc="The key.", default=7)
    timed = json.loads(json.dumps(FLAT))
    timed["fields"][0]["type"] = {"type": "long", "logicalType": "timestamp-micros"}

    assert RowType(FLAT) == RowType(said) and RowType(FLAT).fingerprint == RowType(said).fingerprint
    assert hash(RowType(FLAT)) == hash(RowType(said)) and RowType(FLAT).row_class is RowType(said).row_class
    assert RowType(FLAT) != RowType(timed)
    assert "Accounts." == RowType(said).schema["doc"] and "default" not in RowType(said).schema["fields"][0]
    assert "timestamp-micros" == RowType(timed).schema["fields"][0]["type"]["logicalType"]


MOOD = {"type": "enum", "name": "e", "symbols": ["GOOD", "BAD"]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
PAIR = {"type": "record", "name": "pair", "fields": [{"name": "left", "type": "int"}, {"name": "right", "type": "int"}]}

WRONG_VALUES: list[tuple[Any, Any, str]] = [
    ("null", 0, "null"),
    ("boolean", 1, "boolean"), ("boolean", "t", "boolean"), ("boolean", None, "boolean"),
    ("int", True, "int"), ("int", 1.0, "int"), ("int", 2**31, "int"), ("int", -(2**31) - 1, "int"), ("int", "1", "int"),
    ("long", False, "long"), ("long", 2**63, "long"), ("long", -(2**63) - 1, "long"), ("long", None, "long"),
    ("float", True, "number"), ("float", 1e39, "range of float"), ("float", 2**24 + 1, "exactly"),
    ("float", "1", "number"),
    ("double", False, "number"), ("double", 2**53 + 1, "exactly"), ("double", 10**400, "exactly"),
    ("string", b"a", "string"), ("string", "\ud800", "surrogate"), ("string", 5, "string"), ("string", None, "string"),
    ("bytes", "a", "bytes"), ("bytes", [1], "bytes"),
    ({"type": "fixed", "name": "f", "size": 2}, b"a", "2 bytes"),
    (MOOD, "UGLY", "BAD"), (MOOD, 0, "BAD"),
    (PRICE, b"", "no bytes"), (PRICE, b"\x7f\xff", "more digits"), (PRICE, Decimal("100.00"), "decimal(4, 2)"),
    (PRICE, Decimal("0.001"), "exactly"), (PRICE, Decimal("NaN"), "NaN"), (PRICE, Decimal("1E+99999"), "more digits"),
    (PRICE, Decimal("9" * 5000), "more digits"), (PRICE, Decimal("0." + "3" * 5000), "exactly"),
    ({**PRICE, "type": "fixed", "name": "f", "size": 1}, Decimal("1.28"), "1 bytes"),
    ({**PRICE, "type": "fixed", "name": "f", "size": 1}, b"\x00\x01", "1 bytes"),
    (PRICE, 5, "bytes"), (PRICE, "1.00", "bytes"),
    ({"type": "array", "items": "int"}, "ab", "list"), ({"type": "array", "items": "int"}, [1, None], "int"),
    ({"type": "map", "values": "int"}, [("a", 1), ("a", 2)], "twice"),
    ({"type": "map", "values": "int"}, {1: 1}, "string"),
    ({"type": "map", "values": "int"}, [("a",)], "pair"), ({"type": "map", "values": "int"}, 5, "mapping"),
    (PAIR, {"left": 1}, "'right'"), (PAIR, [1], "left, right"), (PAIR, {"left": 1, "right": "x"}, ".right"),
    (["null", "int"], "x", "int"),
]


@pytest.mark.parametrize(("kind", "value", "said"), WRONG_VALUES)
def test_a_wrong_value_is_refused_by_column(kind: Any, value: Any, said: str) -> None:
    """The person who reads the error has a table with a hundred columns before them."""
    with pytest.raises(MalformedError, match="column 'c'") as caught:
        one(kind).row({"c": value})

    assert said in str(caught.value)
    for made in (lambda: one(kind).row_class(value), lambda: one(kind).encode([value])):
        with pytest.raises(MalformedError):
            made()


@pytest.mark.parametrize(("values", "said"), [
    ({"id": 1, "name": "a"}, "'balance' is missing"),
    ({"id": 1, "name": "a", "balance": None, "extra": 2}, "no column 'extra'"),
    ([1, "a"], "3 values of id, name, balance"), (5, "3 values"), ("abc", "3 values"), (None, "3 values"),
    (RowType(NAMED).row([[1.0], None, "A"]), "another type"),
])
def test_values_that_are_no_row_are_refused(values: Any, said: str) -> None:
    """Too few, too many, or another table's."""
    with pytest.raises(MalformedError, match=said):
        RowType(FLAT).row(values)


@pytest.mark.parametrize(("plain", "said"), [
    ({"id": "x", "name": "a", "balance": None}, "column 'id'"), ([1, "a", None], "JSON object"),
    ({"id": 1, "name": "a", "balance": "nan"}, "column 'balance'"), ({"id": 1, "name": "a"}, "'balance' is missing"),
    ({"id": 1, "name": "a", "balance": None, "b": 1}, "no column 'b'"),
])
def test_json_that_is_no_row_is_refused(plain: Any, said: str) -> None:
    """As strictly as values from elsewhere."""
    with pytest.raises(MalformedError, match=said):
        RowType(FLAT).from_plain(plain)


@pytest.mark.parametrize("plain", ["12,5", "", 5, None, "NaN", "AP8="])
def test_json_that_is_no_decimal_is_refused(plain: Any) -> None:
    """A decimal is a string of digits; a JSON number might have been rounded on its way."""
    with pytest.raises(MalformedError, match="column 'c'"):
        one(PRICE).from_plain({"c": plain})


def test_a_schema_with_attributes_that_are_no_json_is_refused() -> None:
    """It could not be written down again."""
    with pytest.raises(MalformedError, match="no JSON"):
        one({"type": "int", "since": object()})


def test_json_carries_what_json_tools_would_bend() -> None:
    """Big integers, NaN and bytes go as strings, and come back as they were."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": "a", "type": "long"}, {"name": "b", "type": "long"}, {"name": "c", "type": "double"},
        {"name": "d", "type": "bytes"}, {"name": "e", "type": {"type": "map", "values": "double"}}]})
    row = row_type.row([2**53 - 1, -(2**53), -math.inf, b"\x00\xff", {"x": math.nan}])
    plain = row_type.to_plain(row)

    assert {"a": 9007199254740991, "b": "-9007199254740992", "c": "-Infinity", "d": "AP8=", "e": {"x": "NaN"}} == plain
    assert row == row_type.from_plain(plain)


RECURSIVE = {"type": "record", "name": "t", "fields": [{"name": "next", "type": ["null", "t"]}]}
EMPTY = {"type": "record", "name": "e", "fields": []}


def deep(levels: int) -> Any:
    """Arrays in arrays."""
    return {"type": "array", "items": deep(levels - 1)} if levels else "int"


WRONG_TYPES: list[tuple[Any, str]] = [
    (["null", "int", "string"], "null and one other"), (["int", "string"], "null and one other"),
    (["null"], "null and one"),
    (["null", "null"], "null and one other"), (["null", ["null", "int"]], "null and one other"),
    ([], "null and one other"),
    ({"type": "array", "items": "null"}, "takes no bytes"), ({"type": "array", "items": EMPTY}, "takes no bytes"),
    ({"type": "array"}, "no Avro type"), ({"type": "map"}, "no Avro type"), ("uuid", "not defined"),
    (5, "no Avro type"),
    ({"type": "decimal"}, "not defined"), ({"items": "int"}, "no Avro type"), (deep(40), "deep"),
    ({"type": "enum", "name": "e", "symbols": ["A", "A"]}, "twice"),
    ({"type": "enum", "name": "e", "symbols": []}, "symbols"),
    ({"type": "enum", "name": "e", "symbols": ["a b"]}, "no symbol"), ({"type": "enum", "symbols": ["A"]}, "name"),
    ({"type": "fixed", "name": "f", "size": -1}, "size"), ({"type": "fixed", "name": "f", "size": True}, "size"),
    ({"type": "fixed", "name": "f g", "size": 1}, "no name"), ({"type": "record", "name": "r"}, "fields"),
    ({"type": "record", "name": "r", "fields": [5]}, "no field"),
    ({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}] * 2}, "two columns"),
    ({"type": "bytes", "logicalType": "decimal"}, "precision"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "scale"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 1001}, "precision"), ({"type": 5}, "no Avro type"),
    ({"type": {"type": "array", "items": ["null", "uuid"]}}, "not defined"),
]


@pytest.mark.parametrize(("kind", "said"), WRONG_TYPES)
def test_a_type_that_rows_cannot_have_is_refused_by_column(kind: Any, said: str) -> None:
    """Refused when the row type is made, not when the first row arrives."""
    with pytest.raises(MalformedError, match="column 'c'") as caught:
        one(kind)

    assert said in str(caught.value)


@pytest.mark.parametrize(("schema", "said"), [
    (RECURSIVE, "recursive"), (EMPTY, "no columns"), ("long", "record"), ([FLAT], "record"), (None, "record"),
    ({"type": "record", "fields": []}, "name"), ({"type": "record", "name": "", "fields": []}, "no name"),
    ({"type": "record", "name": "t", "fields": [{"name": "", "type": "int"}]}, "empty name"),
    ({"type": "record", "name": "t", "fields": [
        {"name": "a", "type": {"type": "fixed", "name": "f", "size": 1}},
        {"name": "b", "type": {"type": "fixed", "name": "f", "size": 2}}]}, "twice"),
])
def test_a_schema_that_is_no_row_type_is_refused(schema: Any, said: str) -> None:
    """A row is a record, not empty, and finite."""
    with pytest.raises(MalformedError, match=said):
        RowType(schema)


def test_a_row_type_is_loaded_from_a_file_and_errors_name_it(tmp_path: Path) -> None:
    """One committed `.avsc` per table is where row types come from."""
    good, broken, other = tmp_path / "flat.avsc", tmp_path / "broken.avsc", tmp_path / "long.avsc"
    good.write_text(json.dumps(FLAT))
    broken.write_text("{")
    other.write_text('"long"')

    assert RowType(FLAT) == RowType.load(good) == RowType.load(str(good)) == RowType.load(FLAT)
    assert RowType.load(RowType(FLAT)) == RowType(FLAT)
    for path in [broken, other, tmp_path / "none.avsc"]:
        # The file is at fault, and no log.
        with pytest.raises(UsageError, match=path.name):
            RowType.load(path)


def test_columns_are_given_by_name_and_shown_in_the_repr() -> None:
    """Rows are read by people, in errors and notebooks."""
    row_type = RowType(FLAT)

    assert "RowType(id, name, balance)" == repr(row_type)
    assert "Row(id=1, name='a', balance=None)" == repr(row_type.row({"name": "a", "balance": None, "id": 1}))
    assert row_type.row([1, "a", None]) == row_type.row_class(1, "a", balance=None)
    with pytest.raises(MalformedError, match="column 'id'"):
        row_type.row([1, "a", None])._replace(id=True)


# --- source types

TYPED = {"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "int"},
    {"name": "total", "type": ["null", "string"], "cdcv2.source": {"type": "numeric", "precision": 12, "scale": 2}},
]}  # fmt: skip
UNTYPED = {**TYPED, "fields": [{"name": "id", "type": "int"}, {"name": "total", "type": ["null", "string"]}]}


def test_source_types_are_no_part_of_a_row_type_that_counts() -> None:
    """Equality, hash, fingerprint, bytes, the class of rows and pickled rows are the same; the schema keeps them."""
    typed, untyped = RowType(TYPED), RowType(UNTYPED)

    assert typed == untyped and hash(typed) == hash(untyped)
    assert typed.fingerprint == untyped.fingerprint
    assert typed.row([1, "1.50"]) == untyped.row([1, "1.50"])
    assert type(typed.row([1, "1.50"])) is type(untyped.row([1, "1.50"]))
    assert typed.encode([1, "1.50"]) == untyped.encode([1, "1.50"])
    numeric = SourceType("numeric", precision=12, scale=2)
    assert (None, numeric) == typed.sources == RowType(typed.schema).sources
    assert typed.sources == pickle.loads(pickle.dumps(typed)).sources
    assert (None, None) == untyped.sources


def test_a_source_type_that_is_none_is_named_with_its_column() -> None:
    """The attribute may be written by hand."""
    for wrong in ("numeric", {"precision": 3}, {"type": "numeric", "scale": "2"}, {"type": "array"}):
        schema = {**TYPED, "fields": [{"name": "total", "type": "string", "cdcv2.source": wrong}]}
        with pytest.raises(MalformedError, match="column 'total'.*no source type"):
            RowType(schema)
