"""Container files: any Avro tool reads them, theirs are read, and damage is found and placed."""

from __future__ import annotations

import io
import random
import re
import tracemalloc
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcv2.errors import DecodeError
from cdcv2.logs.container import ForeignFile, Origin, FILE_SCHEMA, pack, unpack

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


# Values small and large: a block ends where it has come to 1 MiB.
LARGE = st.integers(0, 255).map(lambda of: bytes([of]) * 1_100_000)
BLOCKS = st.lists(st.one_of(st.binary(max_size=50), LARGE), max_size=4)


@settings(max_examples=60)
@given(BLOCKS, st.data())
def test_damage_is_a_decode_error_or_harmless(values: list[bytes], data: st.DataObject) -> None:
    """Whichever bytes are changed, none of the values is given out otherwise than it was written."""
    raw = bytearray(pack(values))
    places = st.one_of(st.integers(0, min(400, len(raw))), st.integers(0, len(raw)))
    at = data.draw(places)
    raw[at:at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    read: list[bytes] = []
    try:
        read.extend(unpack(bytes(raw)))
        assert values == read
    except DecodeError as error:
        assert error.reason and values[:len(read)] == read


@settings(max_examples=60)
@given(BLOCKS, st.data())
def test_a_file_that_is_cut_off_never_passes_for_a_whole_one(values: list[bytes], data: st.DataObject) -> None:
    """Wherever it is cut: also at the end of a block, and behind the header."""
    raw = pack(values)
    # Behind the header, and behind each block.
    ends = [found.end() for found in re.finditer(re.escape(raw[-16:]), raw)][:-1]
    cut = data.draw(st.one_of(st.integers(0, len(raw) - 1), st.sampled_from([0, *ends])))

    with pytest.raises(DecodeError):
        list(unpack(raw[:cut]))


def test_a_changed_bit_in_a_row_is_found_and_placed() -> None:
    """The bytes around it are a file still; the blocks before it are given out."""
    values = [bytes([number]) * 600_000 for number in range(6)]
    raw = bytearray(pack(values))
    raw[raw.index(values[3]) + 77] ^= 1
    read = []
    with pytest.raises(DecodeError, match=r"the block at byte 1\d{6} was changed after it was written"):
        for value in unpack(bytes(raw)):
            read.append(value)

    assert values[:2] == read


def test_a_block_that_is_gone_is_said() -> None:
    """With how many there were."""
    raw = pack([b"a" * (1 << 20), b"b" * (1 << 20), b"c"])
    last = len(raw) - (1 + 1 + 2 + 16)

    with pytest.raises(DecodeError, match=f"the file ends at byte {last} after 2 of its 3 blocks: it was cut off"):
        list(unpack(raw[:last]))


def test_a_block_more_and_other_digests_are_damage() -> None:
    """The header's digests are those of these blocks, and nothing else."""
    raw = pack([b"a"])
    block = raw[-20:]
    digests = raw.index(b"cdcv2.digests") + 20
    for damaged in (raw + block, raw[:digests] + b"-" + raw[digests + 1:]):
        with pytest.raises(DecodeError, match="was changed after it was written"):
            list(unpack(damaged))


@pytest.mark.parametrize("origin", [None, Origin("7f", "0c", 3)])
def test_no_byte_of_the_header_can_be_changed_to_hide_damage(origin: Origin | None) -> None:
    """With any one of them changed, the file is refused, or a changed byte in a row is found as before."""
    raw = pack([b"a" * 20, b"b"], origin)
    row = raw.index(b"a" * 20) + 3
    for at in range(row - 22):
        for bit in range(8):
            damaged = bytearray(raw)
            damaged[at] ^= 1 << bit
            damaged[row] ^= 1
            with pytest.raises(DecodeError):
                list(unpack(bytes(damaged)))


@pytest.mark.parametrize(("old", "new", "said"), [
    (b"cdcv2.digests", b"cdcv2.digestt", "its digests of the blocks are not called cdcv2.digests"),
    (b"cdcv2.log", b"cdcv2.lag", "its origin is not called cdcv2.log"),
    (b'"7f"', b'"7e"', "its origin does not have the digest before it"),
    (b'"name":"value"', b'"name":"volue"', "with cdcv2.digests its schema is"),
])
def test_a_header_that_says_something_else_is_damage(old: bytes, new: bytes, said: str) -> None:
    """Another tool would read other columns; without the digests nothing would be checked."""
    with pytest.raises(DecodeError, match=f"the header was changed after it was written: {said}"):
        list(unpack(pack([b"a"], Origin("7f", "0c", 3)).replace(old, new)))


@pytest.mark.parametrize("place", [
    Origin("7e", "0c", 3), Origin("7f", "0d", 3), Origin("7f", "0c", 4), Origin(None, None, 3),
])
def test_a_file_that_stands_in_the_place_of_another_is_found_out(place: Origin) -> None:
    """Of another log, of another timeline, or another one of the same log; both are named, and nothing is given out."""
    raw, mine = pack([b"a"], Origin("7f", "0c", 3)), Origin("7f", "0c", 3)
    with pytest.raises(ForeignFile, match="it is file 3 of the log 7f, of the timeline 0c, and stands in"):
        next(unpack(raw, place))

    assert [b"a"] == list(unpack(raw, mine)) == list(unpack(raw))
    # Written before the log had a timeline; and by an earlier program.
    assert [b"a"] == list(unpack(pack([b"a"], mine._replace(timeline=None)), mine)) == list(unpack(pack([b"a"]), place))


def inflating(size: int, level: int = 9) -> bytes:
    """A container with one message of so many zeros, deflated into one block."""
    return of_another(FILE_SCHEMA, [{"value": bytes(size)}], codec="deflate", codec_compression_level=level)


def test_a_block_inflates_to_no_more_than_is_in_proportion() -> None:
    """A few bytes of deflate can stand for a thousand times as many; nothing is made of the rest."""
    bomb = inflating(40_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=r"a block of \d{5} bytes that inflates to more than 4194304: .* smaller"):
            list(unpack(bomb))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 20_000_000


def test_what_deflates_well_is_read() -> None:
    """A hundred times is in proportion, and a few megabytes are, whatever they come from."""
    text = random.Random(7).randbytes(100_000)
    for value in (bytes(4_000_000), text * 60):
        raw = of_another(FILE_SCHEMA, [{"value": value}], codec="deflate", sync_interval=1 << 30)
        assert [value] == list(unpack(raw))


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
    (of_another(FILE_SCHEMA, [])[:-16] + b"\x00" * 16 + b"\x01\x02\x00" + b"\x00" * 16, "negative count"),
    (of_another(FILE_SCHEMA, [])[:-16] + b"\x00" * 16 + b"\x02\x04\x00\x00" + b"\x00" * 16, "left over"),
    (of_another(FILE_SCHEMA, [])[:-16] + b"\x00" * 16 + b"\x08\x04\x00\x00" + b"\x00" * 16, "4 messages"),
    (of_another(FILE_SCHEMA, [], codec="deflate")[:-16] + b"\x00" * 16 + b"\x02\x04\xff\xff" + b"\x00" * 16, "deflate"),
    (of_another(FILE_SCHEMA, [], codec="deflate")[:-16] + b"\x00" * 16 + b"\x02\x00" + b"\x00" * 16, "does not end"),
    (BOMB[:-40] + b"\x00" * 24 + BOMB[-16:], "deflate"),
], ids=lambda value: value if isinstance(value, str) else "file")  # each container has a sync marker drawn by lot
def test_a_file_that_holds_no_messages_says_why(raw: bytes, said: str) -> None:
    """Someone put it there; the text helps them to see what it is."""
    with pytest.raises(DecodeError, match=said):
        list(unpack(raw))
