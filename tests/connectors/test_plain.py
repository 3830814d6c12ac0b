"""A record of a plain topic is a row of its table, or an error with its place."""

from __future__ import annotations

import pytest

from cdcv2.capture.facts import Record
from cdcv2.connectors.plain import PlainRows
from cdcv2.errors import DecodeError
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "double"]}, {"name": "raw", "type": "bytes"}]})


@pytest.mark.parametrize("value, expected", [
    (b'{"id": 1, "price": 2.5, "raw": "AQ=="}', (1, 2.5, b"\x01")),
    (b'{"raw": "", "id": "9007199254740993"}', (2**53 + 1, None, b"")),
    (b'{"id": -1, "price": "Infinity", "raw": ""}', (-1, float("inf"), b"")),
])  # fmt: skip
def test_values_are_written_as_the_command_writes_them(value: bytes, expected: tuple[object, ...]) -> None:
    """A column that may be null may be left out."""
    assert expected == tuple(PlainRows(ROWS).row(Record("t", 2, 17, b"key", value)))


@pytest.mark.parametrize("value, said", [
    (None, "a tombstone"),
    (b"", "no JSON"),
    (b"\x00\x00\x00\x00\x05\x02a", r"these are Confluent Avro records \(schema id 5\), .* no JSON"),
    (b"\xff", "no JSON"),
    (b"[" * 100_000, "no JSON"),
    (b"[1]", "the JSON is a list"),
    (b'{"price": 1, "raw": ""}', "the column 'id' is missing"),
    (b'{"id": 1, "raw": "", "more": 1}', "there is no column 'more'"),
    (b'{"id": 1.5, "raw": ""}', "column 'id'"),
    (b'{"id": null, "raw": ""}', "column 'id'"),
])  # fmt: skip
def test_what_is_no_row_is_an_error_with_its_place(value: bytes | None, said: str) -> None:
    """Topic, partition and offset, and whose fault it is."""
    with pytest.raises(DecodeError, match=said) as caught:
        PlainRows(ROWS).row(Record("t", 2, 17, None, value))

    assert "t[2]@17" in str(caught.value) and "The program that writes the topic is at fault" in str(caught.value)
