"""Rows as a connector's documents, there and back, and keys as packed tuples; no connector is started."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.errors import TurnError
from cdcv2.materialize.protocol.messages import Field, Table
from cdcv2.materialize.targets.process.values import TYPES, Documents, json_types, packed

KEY = (Field("id", "int"),)


def documents(kind: str = "string") -> Documents:
    """A table with one value of this kind."""
    return Documents(Table("t", KEY, (Field("v", kind, True),)))


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("boolean", ["boolean"]), ("int", ["integer"]), ("long", ["integer"]), ("integer", ["integer", "string"]),
        ("decimal", ["string"]), ("float", ["number", "string"]), ("double", ["number", "string"]),
        ("string", ["string"]), ("bytes", ["string"]),
        ("json", ["array", "boolean", "integer", "number", "object", "string"]),
    ],
)  # fmt: skip
def test_the_json_types_of_a_column(kind: str, types: list[str]) -> None:
    """In order, with null where it may be null only."""
    assert types == json_types(Field("v", kind))
    assert sorted([*types, "null"]) == json_types(Field("v", kind, True))


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        ("boolean", False, False), ("int", -7, -7), ("long", -(2**63), -(2**63)),
        ("integer", 2**63 - 1, 2**63 - 1), ("integer", 2**63, "9223372036854775808"),
        ("integer", -(2**63) - 1, "-9223372036854775809"), ("decimal", Decimal("1E+3"), "1000"),
        ("decimal", Decimal("-1.50"), "-1.50"), ("float", 1.5, 1.5), ("float", float("inf"), "Infinity"),
        ("double", float("-inf"), "-Infinity"), ("double", 0.1, 0.1), ("string", "7", "7"),
        ("bytes", b"\x00\xff", "AP8="),
        ("json", '{"a":[1.5,"é",null]}', {"a": [1.5, "é", None]}),
    ],
)  # fmt: skip
def test_a_value_there_and_back(kind: str, value: Any, plain: Any) -> None:
    """By what stands for it in JSON; a null is null in every kind."""
    made = documents(kind)

    assert ([1], [plain], {"id": 1, "v": plain, "_meta": {"op": "u"}}) == made.row((1,), (value,), "u")
    assert ((1,), (value,)) == made.back({"id": 1, "v": plain})
    assert ([1], [None], {"id": 1, "v": None, "_meta": {"op": "c"}}) == made.row((1,), (None,), "c")
    assert ((1,), (None,)) == made.back({"id": 1})
    assert [1] == made.key((1,))


def test_every_kind_is_tried() -> None:
    """Above."""
    assert set(TYPES) == {
        "boolean", "int", "long", "integer", "decimal", "float", "double", "string", "bytes", "json"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "plain", "value"),
    [
        ("int", 7.0, 7), ("long", "7", 7), ("long", float(2**53 - 1), 2**53 - 1),
        ("integer", "-" + "9" * 30, -(10**30 - 1)),
        ("double", 7, 7.0), ("float", "NaN", None), ("decimal", 7, Decimal(7)), ("decimal", "1e3", Decimal("1E+3")),
        ("json", "7", '"7"'), ("json", False, "false"), ("json", {"b": [1, 2]}, '{"b":[1,2]}'),
    ],
)  # fmt: skip
def test_what_else_stands_for_a_value(kind: str, plain: Any, value: Any) -> None:
    """As connectors in other languages write it."""
    (found,) = documents(kind).back({"id": 1, "v": plain})[1]

    assert (type(value), value) == (type(found), found) or (value is None and found != found)


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ("boolean", 1), ("boolean", "true"), ("int", True), ("int", 2**31), ("int", -(2**31) - 1), ("int", 7.5),
        ("int", "x"), ("long", 2**63), ("long", float(2**53)),
        ("integer", [1]),
        ("decimal", 1.5), ("decimal", "1."), ("decimal", "NaN"), ("decimal", [1]), ("decimal", True), ("double", "x"),
        ("double", True),
        ("string", 7), ("string", ["a"]), ("bytes", "AP8"), ("bytes", "AP?8="), ("bytes", 7), ("float", {}),
    ],
)  # fmt: skip
def test_what_stands_for_none_is_named(kind: str, plain: Any) -> None:
    """With the column and its kind; it is the connector's mistake."""
    with pytest.raises(TurnError) as caught:
        documents(kind).back({"id": 1, "v": plain})

    text = json.dumps(plain)
    assert f"sent Loaded for t with {text} in the column 'v', which is of the kind '{kind}'" in str(caught.value)
    assert "driver" == caught.value.side


def test_a_document_that_is_none() -> None:
    """No object, or without what is never null; long ones are cut."""
    with pytest.raises(TurnError, match="a document that is no object: 7"):
        documents().back(7)
    with pytest.raises(TurnError, match="without the column 'id', which is never null"):
        documents().back({"v": "x"})
    for plain, text in (("é" * 78, f'"{"é" * 78}":'), ("é" * 79, f'"{"é" * 79}…:')):
        with pytest.raises(TurnError) as caught:
            documents().back(plain)
        assert f"a document that is no object: {text}" in str(caught.value)


def test_values_go_in_the_order_of_their_names() -> None:
    """Of those that are selected; the document has all columns, in the table's order."""
    fields = (Field("b", "int"), Field("é", "int"), Field("a", "int"), Field("Z", "int"))
    table = Table("t", KEY, fields)
    whole, some = Documents(table), Documents(table, ["é", "a"])

    assert (["Z", "a", "b", "é"], ["a", "é"]) == (whole.value_names, some.value_names)
    key, values, document = whole.row((9,), (1, 2, 3, 4), "c")
    assert ([9], [4, 3, 1, 2]) == (key, values)
    assert [("id", 9), ("b", 1), ("é", 2), ("a", 3), ("Z", 4), ("_meta", {"op": "c"})] == [*document.items()]
    assert [3, 2] == some.row((9,), (1, 2, 3, 4), "c")[1]


def test_what_is_deleted_is_marked() -> None:
    """In the document, unless the table has a column of that name."""
    made, own = documents(), Documents(Table("t", KEY, (Field("_meta", "json"),)))
    deleted = {"_meta": {"op": "d"}}

    assert [True, False, False, False, False] == [
        made.is_deleted(one) for one in (deleted, {"_meta": {"op": "u"}}, {"_meta": "d"}, {}, "d")
    ]
    assert not own.is_deleted(deleted)
    assert {"id": 1, "_meta": {"op": "d"}} == own.row((1,), ('{"op":"d"}',), "c")[2]


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (None, "00"), (False, "26"), (True, "27"),
        (0, "14"), (1, "1501"), (255, "15ff"), (256, "160100"), (-1, "13fe"), (-255, "1300"), (-256, "12feff"),
        (2**63 - 1, "1c7fffffffffffffff"), (-(2**63), "0c7fffffffffffffff"),
        (0.0, "218000000000000000"), (-0.0, "217fffffffffffffff"), (1.5, "21bff8000000000000"),
        (-1.5, "214007ffffffffffff"),
        ("", "0200"), ("a\x00é", "026100ffc3a900"), ("\ud800", "02eda08000"),
        (["a", {"b": "é\ud800"}], "015b2261222c7b2262223a22c3a9eda080227d5d00"),
    ],
)  # fmt: skip
def test_a_packed_value(value: Any, raw: str) -> None:
    """To the byte, by the layer's own rules; text that is no Unicode goes through."""
    assert raw == base64.b64decode(packed([value])).hex()
    assert 2 * raw == base64.b64decode(packed([value, value])).hex()


def test_what_is_composed_may_have_a_zero_in_it() -> None:
    """JSON escapes it, so the end is where the zero is."""
    assert b'\x01{"a":"\\u0000"}\x00' == base64.b64decode(packed([{"a": "\x00"}]))
