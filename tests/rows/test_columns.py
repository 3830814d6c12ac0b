"""Updates as columns: the same updates as rows, the same equality, and refusals of what no row can hold."""

from __future__ import annotations

import pickle
import re
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.errors import MalformedError
from cdcv2.rows import columns as columns_module
from cdcv2.rows.columns import UpdateBatch, arrow_schema, rows_at
from cdcv2.rows.row_type import RowType
from tests.rows.drawn import DECIMAL, reference, schemas, values

ORDER = RowType({"type": "record", "name": "o", "fields": [
    {"name": "time", "type": "long"}, {"name": "price", "type": ["null", "double"]},
]})  # fmt: skip
#: a NaN whose bits are not those of the one that rows hold
PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]


def one(kind: Any) -> RowType:
    """A row type of one column, called c."""
    return RowType({"type": "record", "name": "t", "fields": [{"name": "c", "type": kind}]})


def as_arrow(schema: Any, value: Any) -> Any:
    """A drawn value, which is not canonical, as pyarrow takes it."""
    if isinstance(schema, list):
        return None if value is None else as_arrow(next(branch for branch in schema if branch != "null"), value)
    if schema == DECIMAL:
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-2)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return {field["name"]: as_arrow(field["type"], value[field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [as_arrow(schema["items"], item) for item in value]
    if kind == "map":
        return [(key, as_arrow(schema["values"], item)) for key, item in value.items()]
    return value


@given(st.data())
def test_columns_are_the_same_updates_as_rows(data: st.DataObject) -> None:
    """Whatever the row type, the values and the diffs; tests/stress has more of them."""
    check_same_updates(data)


def check_same_updates(data: st.DataObject) -> None:
    """Made of rows or of columns that are not canonical: equal as bytes, summed, and summed at one time."""
    schema = data.draw(schemas())
    drawn = st.tuples(values(schema), st.integers(0, 3), st.sampled_from([-2, -1, 1, 2]))
    told = data.draw(st.lists(drawn, max_size=8))
    row_type = RowType(schema)
    updates = [(row_type.row(value), time, diff) for value, time, diff in told]
    batch = UpdateBatch.of(row_type, updates)
    columns = arrow_schema(row_type)

    assert batch is not None and columns is not None
    assert [(reference(schema, value), time, diff) for value, time, diff in told] == coded(row_type, batch)
    assert updates == batch.updates()
    for at in (None, 9):
        sums: dict[Any, int] = {}
        for value, time, diff in told:
            identity = (reference(schema, value), time if at is None else at)
            sums[identity] = sums.get(identity, 0) + diff
        wanted = [(raw, time, diff) for (raw, time), diff in sums.items() if diff]
        assert wanted == coded(row_type, batch.consolidated(at))

    raw = [as_arrow(schema, value) for value, _, _ in told]
    arrays = [pa.array([row[name["name"]] for row in raw], columns.field(at).type)
              for at, name in enumerate(schema["fields"])]  # fmt: skip
    times, diffs = (pa.array([one[at] for one in told], pa.int64()) for at in (1, 2))
    found = UpdateBatch.from_arrow(row_type, pa.table(arrays, schema=columns), times, diffs)

    assert batch == found
    assert coded(row_type, batch.consolidated()) == coded(row_type, found.consolidated())
    assert batch == pickle.loads(pickle.dumps(found))
    middle = len(told) // 2
    places = pa.array(range(middle, len(told)), pa.int64())
    assert updates[middle:] == found.take(places).updates()
    assert updates[middle:] == UpdateBatch(row_type, found._table.slice(middle)).updates()


def coded(row_type: RowType, batch: UpdateBatch) -> list[tuple[bytes, int, int]]:
    """The updates of a batch, each row as its bytes."""
    return [(row_type.encode(row), time, diff) for row, time, diff in batch.updates()]


@pytest.mark.parametrize(
    ("decimal", "numbers"),
    [
        ({"type": "bytes", "precision": 76, "scale": 40}, [10**76 - 1, 1 - 10**76, 0]),
        ({"type": "bytes", "precision": 38, "scale": 0}, [10**38 - 1, -(10**38) + 1, 127, 128, -128, -129]),
        ({"type": "fixed", "name": "f", "size": 9, "precision": 22, "scale": 1}, [-1, 0, 2**70]),
    ],
)
def test_decimals_of_all_widths(decimal: dict[str, Any], numbers: list[int]) -> None:
    """The extremes of each of Arrow's types; a fixed one keeps its size."""
    row_type = one([{**decimal, "logicalType": "decimal"}, "null"])
    scale = decimal["scale"]
    rows = [row_type.row([Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))]) for number in numbers]
    updates = [(row, 0, 1) for row in [*rows, row_type.row([None])]]
    batch = UpdateBatch.of(row_type, updates)

    assert batch is not None
    assert updates == batch.updates()
    assert batch == UpdateBatch.from_arrow(row_type, batch.rows, batch.times, batch.diffs)


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 77}, [b"\x00"]),
        ({"type": "array", "items": ["null", {"type": "record", "name": "r", "fields": []}]}, [(None,)]),
    ],
)
def test_what_arrow_has_no_exact_form_of_takes_the_row_path(kind: Any, row: Any) -> None:
    """The carrier returns None, instead of holding something near."""
    row_type = one(kind)

    assert arrow_schema(row_type) is None
    assert UpdateBatch.of(row_type, [(row_type.row(row), 0, 1)]) is None
    with pytest.raises(MalformedError, match="are not those of"):
        UpdateBatch.from_arrow(row_type, pa.table({"c": [1]}), pa.array([0]), pa.array([1]))


@pytest.mark.parametrize(("time", "diff"), [(0, 2**63), (0, -(2**63) - 1), ((1, 2), 1), (2**63, 1), (0, True)])
def test_times_and_diffs_of_other_kinds_take_the_row_path(time: Any, diff: int) -> None:
    """Products of times, and numbers that 64 bits do not hold."""
    assert UpdateBatch.of(ORDER, [(ORDER.row([1, None]), time, diff)]) is None


@pytest.mark.parametrize("odd", [(1,), (1, 2), (1, 2, 3, 4), 7])
def test_what_is_no_update_is_named(odd: Any) -> None:
    """Nothing of it is left out as if it were one, nor made up by what others have too much; nor may a diff be 0."""
    row = ORDER.row([1, None])
    with pytest.raises(MalformedError, match=re.escape(f"{(row, 5)!r} is no update: give")):
        UpdateBatch.of(ORDER, [(row, 5), (1, row, 6, 1)])
    with pytest.raises(MalformedError, match="is no update: give"):
        UpdateBatch.of(ORDER, [(row, 0, 1), odd])
    with pytest.raises(MalformedError, match="the diff 0"):
        UpdateBatch.of(ORDER, [(row, 0, 1), (row, 0, 0)])


def test_sums_of_diffs_do_not_run_over() -> None:
    """Numbers that only together are too large are exact where they can be, and an error where they cannot."""
    row, most = ORDER.row([1, 2.0]), 2**63 - 1
    batch = UpdateBatch.of(ORDER, [(row, 0, most), (row, 1, most), (row, 2, -most)])

    assert batch is not None
    assert [(row, 2, most)] == batch.consolidated(at=2).updates()
    with pytest.raises(MalformedError, match="more than 64 bits"):
        batch.take([0, 1]).consolidated(at=2)


def test_columns_of_the_names_of_time_and_diff() -> None:
    """A row type may call a column as it likes."""
    row_type = RowType({"type": "record", "name": "o", "fields": [
        {"name": "time", "type": "long"}, {"name": "diff", "type": "string"}, {"name": "place", "type": "null"},
    ]})  # fmt: skip
    updates = [(row_type.row([8, "x", None]), 3, 1), (row_type.row([8, "x", None]), 4, 1)]
    batch = UpdateBatch.of(row_type, updates)

    assert batch is not None
    assert updates == batch.updates()
    assert [(updates[0][0], 5, 2)] == batch.consolidated(at=5).updates()
    assert ["time", "diff", "place"] == batch.rows.column_names
    assert [3, 4] == batch.times.to_pylist()


def test_more_rows_than_a_chunk_stay_in_order() -> None:
    """Arrays are made of parts, so that strings never fill one; batches of two come behind one another."""
    updates = [(ORDER.row([number, None if number % 3 else number / 2]), number % 5, 1) for number in range(70_000)]
    batch = UpdateBatch.of(ORDER, iter(updates))

    assert batch is not None
    assert updates == batch.updates()
    assert updates == batch.consolidated().updates()
    assert 0 == len(UpdateBatch.concat([batch, batch]).filter(pa.repeat(False, 140_000)).consolidated())
    assert updates[:1] == UpdateBatch.concat([batch.take([0]), batch.take([0])]).take([1]).updates()
    with pytest.raises(MalformedError, match="of one row type"):
        UpdateBatch.concat([])


@given(st.data())
def test_rows_at_places_are_those_of_a_take(data: st.DataObject) -> None:
    """Also of columns with more text or bytes than one array holds; here that is ten bytes."""
    kinds = [pa.int64(), pa.string(), pa.binary(), pa.bool_()]
    drawn = [st.integers(0, 9), st.text("aé", max_size=4), st.binary(max_size=4), st.booleans()]
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    columns = [
        pa.chunked_array([data.draw(st.lists(st.none() | one, min_size=size, max_size=size)) for size in sizes], kind)
        for kind, one in zip(kinds, drawn)
    ]
    rows = pa.table(columns, ["i", "s", "b", "t"])
    place = st.none() | st.integers(0, sum(sizes) - 1) if sum(sizes) else st.none()
    places = pa.array(data.draw(st.lists(place, max_size=12)), pa.int64())
    split = data.draw(st.integers(0, len(places)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_MOST", 10)
        parts = pa.chunked_array([places.slice(0, split), places.slice(split)])
        found = [rows_at(rows, places), rows_at(rows, parts)]

    for one in found:
        one.validate(full=True)
        assert rows.take(places).to_pydict() == one.to_pydict() and rows.schema == one.schema


def test_large_values_side_by_side_come_in_arrays_that_hold_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside many small ones; here an array holds a thousand bytes, and each of these a tenth of that."""
    monkeypatch.setattr(columns_module, "_MOST", 1000)
    texts = ["x" * 100] * 20 + [""] * 400
    column = rows_at(pa.table({"text": texts}), pa.array(range(420), pa.int64())).column("text")
    assert texts == column.to_pylist()
    assert 1000 >= max(chunk.nbytes for chunk in column.chunks)


def test_rows_that_one_array_does_not_hold_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of rows is halved until each part fits; here an array of text holds two, of a list or a map, too."""
    of_all = columns_module.chunked

    def small(given: Any, kind: pa.DataType) -> pa.ChunkedArray:
        if len(given) <= 2 or not pa.types.is_string(kind):
            return of_all(given, kind)
        return pa.chunked_array([*small(given[:2], kind).chunks, *small(given[2:], kind).chunks], kind)

    monkeypatch.setattr(columns_module, "chunked", small)
    for kind, value in (("string", "x"), ({"type": "array", "items": "string"}, ("x",)),
                        ({"type": "map", "values": "long"}, (("x", 1),))):
        row_type = one(kind)
        updates = [(row_type.row((value,)), time, 1) for time in range(7)]
        batch = UpdateBatch.of(row_type, updates)
        assert batch is not None and updates == batch.updates()
        assert 2 >= max(map(len, batch.times.chunks))


def test_rows_that_are_no_rows_yet_are_made_so() -> None:
    """As everywhere: plain values are checked, and an error names the column."""
    batch = UpdateBatch.of(ORDER, [((1, -0.0), 0, 1), ((2, PAYLOAD), 0, 1)])

    assert batch is not None
    assert b"\x00" * 8 == batch.rows.column("price").chunk(0).buffers()[1].to_pybytes()[:8]
    assert [ORDER.row([1, 0.0]), ORDER.row([2, float("nan")])] == [row for row, _, _ in batch.updates()]
    with pytest.raises(MalformedError, match="column 'time': 'x'"):
        UpdateBatch.of(ORDER, [(("x", 1.0), 0, 1)])


@pytest.mark.parametrize("kind", ["float", "double"])
def test_numbers_that_are_one_are_one_group(kind: str) -> None:
    """Whatever bits a column brings: Arrow's ``group_by`` compares these."""
    typed = pa.float32() if kind == "float" else pa.float64()
    given = pa.array([PAYLOAD, float("nan"), -0.0, 0.0], pa.float64()).cast(typed)
    batch = UpdateBatch.from_arrow(one(kind), pa.table({"c": given.cast(typed)}, schema=arrow_schema(one(kind))),
                                   pa.array([0] * 4), pa.array([1] * 4))  # fmt: skip

    assert [2, 2] == batch.consolidated().diffs.to_pylist()


BAD_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
)
ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 3}
MAP = {"type": "map", "values": "int"}


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("long", pa.array([None], pa.int64()), "column 'c': there is a null"),
        ("long", pa.array([1], pa.int32()), "are not those of"),
        ("string", BAD_UTF8, "column 'c': .*UTF8"),
        (ENUM, pa.array(["A", "C"]), "column 'c': 'C' is not one of"),
        (FIXED, pa.array([Decimal(-129)], pa.decimal128(3)), "column 'c': .*does not fit into 1 bytes"),
        (MAP, pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), "column 'c': .*stands there twice"),
        (MAP, pa.array([[("a", None)]], pa.map_(pa.string(), pa.int32())), "column 'c': None is not an integer"),
    ],
)
def test_columns_that_no_row_can_be_are_refused(kind: Any, given: pa.Array, said: str) -> None:
    """Before they are carried anywhere, naming the column."""
    rows = pa.table([given], ["c"])
    with pytest.raises(MalformedError, match=said):
        UpdateBatch.from_arrow(one(kind), rows, pa.array([0] * len(given)), pa.array([1] * len(given)))


@pytest.mark.parametrize(
    ("times", "diffs", "said"),
    [
        ([-1], [1], "there is the time -1"),
        ([0], [0], "the diff 0"),
        ([None], [1], "the times are int64 with 1 nulls"),
        ([0.5], [1], "the times are double"),
    ],
)
def test_times_and_diffs_that_no_update_has_are_refused(times: list[Any], diffs: list[int], said: str) -> None:
    """As the constructors of messages refuse them."""
    given = pa.array(times) if times != [None] else pa.array(times, pa.int64())
    with pytest.raises(MalformedError, match=said):
        UpdateBatch.from_arrow(one("long"), pa.table({"c": [1]}), given, pa.array(diffs))
