"""Messages as JSON lines: nothing is lost, nothing is guessed."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core.order import Product
from cdcv2.errors import DecodeError, MalformedError
from cdcv2.logs.jsonlines import JsonLines, plain_frontier
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.rows.values import NAN
from tests.rows.drawn import schemas, values

ROW = RowType({"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "double"]}]})
SCHEMA_AND_VALUES = schemas().flatmap(lambda schema: st.tuples(st.just(schema), st.lists(values(schema), max_size=3)))
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(codec="utf-8")), st.binary(),
              st.floats(allow_nan=False), st.just(NAN)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
)


@given(SCHEMA_AND_VALUES)
def test_messages_of_any_row_type_come_back(drawn: Any) -> None:
    """NaN, bytes, big integers and odd names included."""
    schema, held = drawn
    lines, row_type = JsonLines(RowType(schema)), RowType(schema)
    message = Updates([(row_type.row(value), time, -1) for time, value in enumerate(held)])
    line = lines.encode(message)

    assert message == lines.decode(line) == lines.decode(line.encode())
    assert "\n" not in line


def kinds(data: Any) -> Any:
    """The types of data: 1, 1.0 and True are equal in Python, and are three different data."""
    return tuple(kinds(item) for item in data) if isinstance(data, tuple) else type(data)


@given(DATA)
def test_data_without_a_row_type_comes_back(data: Any) -> None:
    """Anything that is made of scalars and tuples."""
    lines = JsonLines()
    (again, _, _), = lines.decode(lines.encode(Updates([(data, 0, 1)]))).updates  # type: ignore[union-attr]

    assert (data, kinds(data)) == (again, kinds(again))


@pytest.mark.parametrize("message", [
    Progress([3], [10], {4: 1, 5: 2}), Progress([2**53], [2**63 - 1], {2**60: 2**61}), Progress([0], []),
    Progress([Product(0, 1), Product(1, 0)], [Product(2, 2**53)], {Product(1, 1): 3}),
])
def test_statements_come_back(message: Progress) -> None:
    """With times of either kind, however big."""
    assert message == JsonLines().decode(JsonLines().encode(message))


def test_a_line_is_for_people() -> None:
    """One look shows what happened."""
    line = JsonLines(ROW).encode(Updates([((1, math.inf), Product(1, 2**60), 1)]))

    assert {"updates": [{"data": {"id": 1, "price": "Infinity"}, "time": [1, "1152921504606846976"], "diff": 1}]} == (
        json.loads(line)
    )
    assert [5] == plain_frontier(Progress([0], [5]).upper)


@pytest.mark.parametrize(("line", "said"), [
    ("", "no JSON"), ("{", "no JSON"), (b"\xff", "UTF-8"), ("[" * 100_000, "deep"),
    ("[]", "no message"), ("{}", "no message"),
    ('{"updates": [], "progress": {}}', "no message"), ('{"batch": []}', "no message"), ('{"updates": {}}', "list"),
    ('{"updates": [[1, 2, 3]]}', "data, time, diff"), ('{"updates": [{"data": 1, "time": 1}]}', "data, time, diff"),
    ('{"updates": [{"data": {"id": 1, "price": null}, "time": -1, "diff": 1}]}', "no time"),
    ('{"updates": [{"data": {"id": 1, "price": null}, "time": "x", "diff": 1}]}', "no time"),
    ('{"updates": [{"data": {"id": 1, "price": null}, "time": 1.0, "diff": 1}]}', "no time"),
    ('{"updates": [{"data": {"id": 1, "price": null}, "time": [], "diff": 1}]}', "Product"),
    ('{"updates": [{"data": {"id": 1, "price": null}, "time": 1, "diff": 0}]}', "diff"),
    ('{"updates": [{"data": {"id": 1, "price": null}, "time": 1, "diff": "1.5"}]}', "diff"),
    ('{"updates": [{"data": {"id": 1, "price": NaN}, "time": 1, "diff": 1}]}', "NaN is no JSON"),
    ('{"updates": [{"data": {"id": 1, "price": null, "id": 2}, "time": 1, "diff": 1}]}', "twice"),
    ('{"updates": [{"data": {"id": true, "price": null}, "time": 1, "diff": 1}]}', "column 'id'"),
    ('{"updates": [{"data": {"id": 1.5, "price": null}, "time": 1, "diff": 1}]}', "column 'id'"),
    ('{"progress": {"lower": [0], "upper": [3]}}', "lower, upper, counts"),
    ('{"progress": {"lower": [], "upper": [3], "counts": []}}', "lower"),
    ('{"progress": {"lower": 0, "upper": [3], "counts": []}}', "list"),
    ('{"progress": {"lower": [0], "upper": [3], "counts": [{"time": 5, "count": 1}]}}', "not in the statement"),
    ('{"updates": [{"data": 1, "time": ' + "1" * 5000 + ', "diff": 1}]}', "no JSON"),
])
def test_a_line_that_is_no_message_is_refused(line: str | bytes, said: str) -> None:
    """With the reason, and only a DecodeError."""
    with pytest.raises(DecodeError, match=said):
        JsonLines(ROW).decode(line)


@pytest.mark.parametrize("data", [
    {"a": 1}, {"$int": "x"}, {"$int": 1.5}, {"$float": 5}, {"$bytes": "!"}, {"$date": "2020"}, {"$int": "1", "b": 2},
])
def test_an_object_has_a_meaning_only_with_a_row_type(data: Any) -> None:
    """Guessing a named tuple from an object would give data that equals nothing."""
    with pytest.raises(DecodeError, match="object"):
        JsonLines().decode(json.dumps({"updates": [{"data": data, "time": 1, "diff": 1}]}))


@pytest.mark.parametrize("data", [frozenset({1}), object(), (1, frozenset())])
def test_data_that_json_cannot_hold_is_refused(data: Any) -> None:
    """Rather than written as its repr."""
    with pytest.raises(MalformedError, match="row type"):
        JsonLines().encode(Updates([(data, 0, 1)]))


def test_what_is_no_message_is_not_written() -> None:
    """A list of updates is not a message."""
    with pytest.raises(MalformedError, match="no message"):
        JsonLines().encode([("a", 1, 1)])  # type: ignore[arg-type]
