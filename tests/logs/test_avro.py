"""The codec of messages: what is written is canonical, what is read is checked, whatever the bytes are."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcv2.core.order import Product
from cdcv2.errors import Cdcv2Error, DecodeError, MalformedError, UsageError
from cdcv2.logs.avro import MessageCodec
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.rows.row_type import RowType
from tests.rows.drawn import reference, schemas, values, zigzag

ROW = RowType({"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "int"]}]})
EVERYTHING = RowType({"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"},
    {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": ["null", "string"]}}},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}]},
    {"name": "mood", "type": {"type": "enum", "name": "mood", "symbols": ["GOOD", "BAD"]}},
    {"name": "rate", "type": {"type": "record", "name": "rate", "fields": [{"name": "per", "type": "double"}]}},
]})
BIG = 2**63 - 1
TIMES = st.one_of(st.integers(0, 5), st.sampled_from([63, 64, 8192, 2**40, BIG]))
DIFFS = st.one_of(st.integers(-3, 3), st.sampled_from([64, -65, BIG, -BIG - 1])).filter(bool)


@st.composite
def statements(draw: st.DrawFn) -> Progress:
    """A statement over integer times."""
    lower = draw(st.integers(0, 100))
    upper = draw(st.one_of(st.none(), st.integers(lower, lower + 100)))
    last = upper - 1 if upper is not None else lower + 200
    counts = draw(st.dictionaries(st.integers(lower, last), st.integers(1, BIG), max_size=4)) if last >= lower else {}
    return Progress([lower], [] if upper is None else [upper], counts)


@st.composite
def rows_and_updates(draw: st.DrawFn) -> tuple[Any, list[tuple[Any, int, int]]]:
    """A row schema and updates with values of it."""
    schema = draw(schemas())
    return schema, draw(st.lists(st.tuples(values(schema), TIMES, DIFFS), max_size=5))


def blocks(items: list[bytes], sizes: list[int], with_size: bool) -> bytes:
    """An Avro array cut into blocks of these sizes, and what is left in one more."""
    out, at = b"", 0
    for size in [*sizes, len(items)]:
        block = items[at:at + size]
        at += size
        if block:
            body = b"".join(block)
            out += (zigzag(-len(block)) + zigzag(len(body)) if with_size else zigzag(len(block))) + body
    return out + b"\x00"


@given(rows_and_updates(), st.lists(st.integers(1, 2), max_size=3), st.booleans())
def test_updates_of_any_row_type_come_back_however_they_were_cut(drawn: Any, sizes: list[int], sized: bool) -> None:
    """Written in one block, read from any; each row is canonical, and equal to one made from values."""
    schema, updates = drawn
    codec = MessageCodec(RowType(schema))
    items = [reference(schema, value) + zigzag(time) + zigzag(diff) for value, time, diff in updates]
    wanted = tuple((codec.row_type.row(value), time, diff) for value, time, diff in updates)

    assert b"\x00" + blocks(items, [], False) == codec.encode(Updates.trusted(tuple(updates)))
    assert wanted == codec.decode(b"\x00" + blocks(items, sizes, sized)).updates  # type: ignore[union-attr]


@given(statements())
def test_statements_come_back(statement: Progress) -> None:
    """With any bounds and counts."""
    codec = MessageCodec(ROW)

    assert statement == codec.decode(codec.encode(statement))


@given(st.lists(st.tuples(st.integers(0, 9), st.tuples(TIMES, TIMES, TIMES), DIFFS), max_size=6))
def test_updates_at_product_times_come_back(drawn: Any) -> None:
    """The extension: a time is a record of longs."""
    codec = MessageCodec(ROW, 3)
    message = Updates([((number, None), Product(*time), diff) for number, time, diff in drawn])

    assert message == codec.decode(codec.encode(message))
    assert MessageCodec.from_schema(codec.schema).decode(codec.encode(message)) == message


def test_another_library_reads_and_writes_product_times_with_the_schema() -> None:
    """The schema has all that another implementation must know."""
    codec = MessageCodec(ROW, 2)
    parsed = fastavro.parse_schema(codec.schema)
    out = io.BytesIO()
    update = {"data": {"id": 1, "price": None}, "time": {"t0": 3, "t1": 4}, "diff": 1}
    fastavro.schemaless_writer(out, parsed, [update])

    assert Updates([((1, None), Product(3, 4), 1)]) == codec.decode(out.getvalue())
    assert 2 == codec.schema[0]["items"]["fields"][1]["type"]["cdcv2.times"]


def damaged(draw: st.DrawFn, raw: bytes) -> bytes:
    """The bytes with a few of them changed, removed or added, or cut off."""
    out = bytearray(raw)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(out)))
        other = draw(st.sampled_from([b"", b"\x00", b"\x80", b"\xff" * 9, b"\x01", b"\x7f"]))
        out[at:at + draw(st.integers(0, 2))] = other
    return bytes(out[:draw(st.integers(0, len(out)))] if draw(st.booleans()) else out)


MESSAGES: list[Message] = [
    Updates([(EVERYTHING.row([5, {"a": ["x", None], "b": []}, b"\x05", "BAD", [1.5]]), 3, 1)] * 3),
    Progress([3], [10], {4: 1, 9: 300}),
]


@settings(max_examples=500)
@given(st.data())
def test_damaged_messages_are_a_decode_error_or_a_message(data: st.DataObject) -> None:
    """Nothing else: no other exception, and what is read can be written and read again."""
    codec = MessageCodec(EVERYTHING)
    raw = data.draw(st.composite(damaged)(codec.encode(data.draw(st.sampled_from(MESSAGES)))))
    try:
        message = codec.decode(raw)
    except DecodeError as error:
        assert error.raw == raw
        return
    assert message == codec.decode(codec.encode(message))


@settings(max_examples=500)
@given(st.binary(max_size=60), st.sampled_from([b"", b"\x00", b"\x02"]))
def test_random_bytes_are_a_decode_error_or_a_message(raw: bytes, head: bytes) -> None:
    """A foreign message in the topic."""
    for codec in (MessageCodec(EVERYTHING), MessageCodec(ROW, 2), MessageCodec(ROW, confluent_schema_id=1)):
        try:
            codec.decode(head + raw)
        except DecodeError:
            pass


@pytest.mark.parametrize("forged", [
    zigzag(2**62) + b"\x00" * 50, zigzag(-(2**62)) + zigzag(50) + b"\x00" * 50,
    b"\x02\x0a\x02" + zigzag(2**62) + b"\x00" * 50,
    b"\x02\x0a" + zigzag(-(2**40)) + zigzag(2**40) + b"\x00" * 50,
])
def test_a_forged_length_takes_no_memory(forged: bytes) -> None:
    """A length is believed only as far as there are bytes."""
    codec = MessageCodec(EVERYTHING)
    tracemalloc.start()
    for head in (b"\x00", b"\x02", b"\x02\x02\x00"):
        with pytest.raises(DecodeError):
            codec.decode(head + forged)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1_000_000


@pytest.mark.parametrize(("message", "said"), [
    (Updates([((1, "x"), 3, 1)]), "column 'price'"),
    (Updates([("data", 3, 1)]), "id, price"),
    (Updates([((1, 2), Product(3), 1)]), "no int"),
    (Updates([((1, 2), 3, 2**63)]), "64 bits"),
    (Updates([((1, 2), 3, -(2**63) - 1)]), "64 bits"),
    (Progress([0], [5], {1: 2**63}), "64 bits"),
    (Progress([Product(0, 0)], []), "no int"),
    ("progress", "no message"), (None, "no message"),
])
def test_what_the_format_cannot_hold_is_refused(message: Any, said: str) -> None:
    """By the writer, before any byte is sent."""
    with pytest.raises(MalformedError, match=said):
        MessageCodec(ROW).encode(message)


@pytest.mark.parametrize("time", [3, Product(3), Product(1, 2, 3)])
def test_times_of_another_kind_are_refused(time: Any) -> None:
    """A log has times of one kind."""
    with pytest.raises(MalformedError, match="Product of 2"):
        MessageCodec(ROW, 2).encode(Updates([((1, 2), time, 1)]))


def test_confluent_framing_is_written_and_wanted() -> None:
    """A zero byte and the schema's id in four bytes, big-endian."""
    framed, bare = MessageCodec(ROW, confluent_schema_id=258), MessageCodec(ROW)
    message = Updates([((5, 10), 6, -1)])

    assert bytes.fromhex("00 00000102") + bare.encode(message) == framed.encode(message)
    assert message == framed.decode(framed.encode(message))
    for raw in (bare.encode(message), MessageCodec(ROW, confluent_schema_id=7).encode(message), b"\x00\x00\x00", b""):
        with pytest.raises(DecodeError, match="schema id 258"):
            framed.decode(raw)


def test_errors_of_damaged_bytes_can_cross_a_process_border() -> None:
    """Executors send them to the driver."""
    with pytest.raises(DecodeError) as caught:
        MessageCodec(ROW).decode(b"\x00\x02\x0a")
    again = pickle.loads(pickle.dumps(caught.value))

    assert (caught.value.reason, b"\x00\x02\x0a") == (again.reason, again.raw)


def test_the_schema_has_the_published_shape() -> None:
    """Full names are load-bearing: readers look the row up by its."""
    array, progress = MessageCodec(ROW).schema
    update = array["items"]

    assert ("com.materialize.cdc", "update") == (update["namespace"], update["name"])
    assert ["data", "time", "diff"] == [field["name"] for field in update["fields"]]
    row = update["fields"][0]["type"]
    assert ("com.materialize.cdc", "data") == (row["namespace"], row["name"])
    assert ("com.materialize.cdc", "progress") == (progress["namespace"], progress["name"])
    assert ["lower", "upper", "counts"] == [field["name"] for field in progress["fields"]]


def broken(change: Any) -> Any:
    """The schema of a message after a change to it."""
    schema = json.loads(json.dumps(MessageCodec(ROW).schema))
    change(schema)
    return schema


@pytest.mark.parametrize("schema", [
    "string", [], [{}, {}], MessageCodec(ROW).schema[:1], MessageCodec(ROW).schema[::-1],
    broken(lambda s: s[0]["items"].update(name="updates")),
    broken(lambda s: s[0]["items"]["fields"].reverse()),
    broken(lambda s: s[0]["items"]["fields"].pop()),
    broken(lambda s: s[0]["items"]["fields"][1].update(type="string")),
    broken(lambda s: s[0]["items"]["fields"][2].update(type="double")),
    broken(lambda s: s[0]["items"]["fields"][0].update(type="string")),
    broken(lambda s: s[1]["fields"][2].update(type="long")),
    broken(lambda s: s[1]["fields"][2]["type"]["items"]["fields"].reverse()),
    broken(lambda s: s[0]["items"]["fields"][1].update(
        type={"type": "record", "name": "time", "fields": [{"name": "t0", "type": "long"}]})),
])
def test_a_schema_of_another_format_is_refused(schema: Any) -> None:
    """Before its bytes are misread."""
    with pytest.raises(MalformedError):
        MessageCodec.from_schema(schema)


def test_a_schema_with_int_times_has_the_same_bytes() -> None:
    """Some producers declare times as int; the bytes do not differ."""
    codec = MessageCodec.from_schema(broken(lambda s: s[0]["items"]["fields"][1].update(type={"type": "int"})))

    assert "int" == codec.times


@pytest.mark.parametrize("kwargs", [{"times": "long"}, {"times": 0}, {"times": True}, {"times": 2.0}, {"times": 101},
                                    {"confluent_schema_id": -1}, {"confluent_schema_id": 2**32}])
def test_settings_that_do_not_exist_are_usage_errors(kwargs: Any) -> None:
    """Reported when the codec is made."""
    with pytest.raises(UsageError):
        MessageCodec(ROW, **kwargs)


def test_every_refusal_is_one_of_ours() -> None:
    """So that `except Cdcv2Error` is enough around a codec."""
    assert issubclass(DecodeError, MalformedError) and issubclass(MalformedError, Cdcv2Error)
