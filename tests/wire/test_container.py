"""Container files: any Avro tool reads them, theirs are read, and damage is found and placed."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.errors import DecodeError
from cdcv2.wire.container import FILE_SCHEMA, pack, unpack

VALUES = st.lists(st.binary(max_size=300), max_size=20)


@given(VALUES)
def test_what_is_packed_is_read_here_and_elsewhere(values: list[bytes]) -> None:
    """The file is an ordinary table of one binary column."""
    raw = pack(values)

    assert values == list(unpack(raw))
    records: Any = fastavro.reader(io.BytesIO(raw))
    assert values == [record["value"] for record in records]


@given(VALUES, st.sampled_from(["null", "deflate"]), st.sampled_from([1, 50, 16000]))
def test_files_of_another_writer_are_read(values: list[bytes], codec: str, interval: int) -> None:
    """With its own block sizes and sync marker, compressed or not."""
    out = io.BytesIO()
    fastavro.writer(out, FILE_SCHEMA, [{"value": value} for value in values], codec=codec, sync_interval=interval)

    assert values == list(unpack(out.getvalue()))


@given(VALUES, st.data())
def test_damage_is_a_decode_error_or_bytes(values: list[bytes], data: st.DataObject) -> None:
    """Nothing else is raised, whichever bytes are changed or cut off."""
    raw = bytearray(pack(values))
    at = data.draw(st.integers(0, len(raw)))
    raw[at:at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    cut = data.draw(st.integers(0, len(raw)))
    for damaged in (bytes(raw), bytes(raw[:cut])):
        try:
            list(unpack(damaged))
        except DecodeError as error:
            assert error.reason


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1), st.data())
def test_a_file_that_is_cut_off_never_passes_for_a_whole_one(values: list[bytes], data: st.DataObject) -> None:
    """Only the header alone is a file too: one without messages."""
    raw = pack(values)
    cut = data.draw(st.integers(0, len(raw) - 1))
    try:
        assert [] == list(unpack(raw[:cut])) and raw[:cut] == pack([])[:-16] + raw[cut - 16:cut]
    except DecodeError:
        pass


def test_equal_content_is_equal_bytes() -> None:
    """A file written again after a crash can be compared."""
    assert pack([b"a", b"b"]) == pack([b"a", b"b"])
    assert pack([b"a", b"b"]) != pack([b"a", b"c"])


def test_large_content_is_cut_into_blocks() -> None:
    """A reader need not hold the file twice."""
    values = [bytes([number]) * 300_000 for number in range(10)]
    blocks = list(fastavro.block_reader(io.BytesIO(pack(values))))

    assert 10 == sum(block.num_records for block in blocks) and 3 <= len(blocks) <= 5
    assert values == list(unpack(pack(values)))


def of_another(schema: Any, records: list[Any], **settings: Any) -> bytes:
    """A container of something else."""
    out = io.BytesIO()
    fastavro.writer(out, schema, records, **settings)
    return out.getvalue()


BOMB = of_another(FILE_SCHEMA, [{"value": b"\x00" * 3_000_000}], codec="deflate")
TWO = {"type": "record", "name": "m", "fields": [{"name": "a", "type": "bytes"}, {"name": "b", "type": "bytes"}]}
TEXT = {"type": "record", "name": "m", "fields": [{"name": "value", "type": "string"}]}


@pytest.mark.parametrize(("raw", "said"), [
    (b"", "no Avro container"), (b"PAR1", "no Avro container"), (b"Obj\x01", "middle"),
    (pack([b"a"])[:-1], "sync marker"), (pack([b"a"]) + b"\x00", "middle|sync|left"),
    (of_another(TWO, [{"a": b"", "b": b""}]), "one field of type bytes"),
    (of_another(TEXT, [{"value": "a"}]), "one field of type bytes"),
    (of_another("long", [1]), "one field of type bytes"),
    (of_another(FILE_SCHEMA, [{"value": b"a"}], codec="bzip2"), "bzip2"),
    (pack([])[:-16] + b"\x00" * 16 + b"\x01\x02\x00" + b"\x00" * 16, "negative count"),
    (pack([])[:-16] + b"\x00" * 16 + b"\x02\x04\x00\x00" + b"\x00" * 16, "left over"),
    (pack([])[:-16] + b"\x00" * 16 + b"\x08\x04\x00\x00" + b"\x00" * 16, "4 messages"),
    (of_another(FILE_SCHEMA, [], codec="deflate")[:-16] + b"\x00" * 16 + b"\x02\x04\xff\xff" + b"\x00" * 16, "deflate"),
    (of_another(FILE_SCHEMA, [], codec="deflate")[:-16] + b"\x00" * 16 + b"\x02\x00" + b"\x00" * 16, "does not end"),
    (BOMB[:-40] + b"\x00" * 24 + BOMB[-16:], "deflate"),
], ids=lambda value: value if isinstance(value, str) else "file")  # each container has a sync marker drawn by lot
def test_a_file_that_holds_no_messages_says_why(raw: bytes, said: str) -> None:
    """Someone put it there; the text helps them to see what it is."""
    with pytest.raises(DecodeError, match=said):
        list(unpack(raw))
