"""A record of a stream topic is an update or a bound, or an error with its place."""

from __future__ import annotations

import pytest

from cdcv2.capture.facts import BoundRecord, Record, UpdateRecord
from cdcv2.connectors.stream import StreamRecords
from cdcv2.errors import DecodeError, UsageError
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "double"]}]})


def record(value: bytes | None) -> Record:
    """One of the topic."""
    return Record("t", 2, 17, b"key", value)


@pytest.mark.parametrize("value, expected", [
    (b'{"id": 1, "price": 2.5, "time": 0}', UpdateRecord(ROWS.row((1, 2.5)), 0, 1)),
    (b'{"id": 1, "time": "9223372036854775807", "diff": -3}', UpdateRecord(ROWS.row((1, None)), 2**63 - 1, -3)),
    (b'{"complete_before": 5}', BoundRecord(5, None)),
    (b'{"complete_before": "5", "rows": 0}', BoundRecord(5, 0)),
    (b'{"complete_before": 5, "rows": null}', BoundRecord(5, None)),
])  # fmt: skip
def test_a_record_is_an_update_or_a_bound(value: bytes, expected: object) -> None:
    """A diff of 1 may be left out, and large numbers be written as strings."""
    assert expected == StreamRecords(ROWS).fact(record(value))


@pytest.mark.parametrize("value, text", [
    (None, "a tombstone"),
    (b"[1]", "the JSON is a list"),
    (b'{"id": 1}', "the column 'time' is missing"),
    (b'{"id": 1, "time": -1}', "column 'time': -1 is no time"),
    (b'{"id": 1, "time": 9223372036854775808}', "is no time, a number from 0 to 9223372036854775807"),
    (b'{"id": 1, "time": 1.5}', "column 'time': 1.5 is no time"),
    (b'{"id": 1, "time": true}', "column 'time': True is no time"),
    (b'{"id": 1, "time": null}', "column 'time': None is no time"),
    (b'{"id": 1, "time": 1, "diff": 0}', "column 'diff': 0 is no diff"),
    (b'{"id": 1, "time": 1, "diff": "many"}', "column 'diff': 'many' is no diff"),
    (b'{"id": 1, "time": 1, "diff": null}', "column 'diff': None is no diff"),
    (b'{"id": 1, "time": 1, "diff": 9223372036854775808}', "is no diff, a number of 64 bits other than 0"),
    (b'{"time": 1}', "the column 'id' is missing"),
    (b'{"id": 1, "time": 1, "more": 1}', "there is no column 'more'"),
    (b'{"complete_before": 5, "id": 1}', "a bound has the columns 'complete_before' and 'rows', and no 'id'"),
    (b'{"complete_before": -5}', "column 'complete_before': -5 is no time"),
    (b'{"complete_before": 5, "rows": -1}', "column 'rows': -1 is no number of updates"),
])  # fmt: skip
def test_what_is_neither_is_an_error_with_its_place(value: bytes | None, text: str) -> None:
    """Topic, partition and offset, and whose fault it is."""
    with pytest.raises(DecodeError, match=text) as caught:
        StreamRecords(ROWS).fact(record(value))

    assert "t[2]@17" in str(caught.value) and "The program that writes the topic is at fault" in str(caught.value)


def test_the_columns_may_have_other_names() -> None:
    """As the row may have a column of the name; and each name is that of one thing."""
    rows = RowType({"type": "record", "name": "t", "fields": [{"name": "time", "type": "long"}]})
    renamed = StreamRecords(rows, time="at", diff="by")

    assert UpdateRecord(rows.row((7,)), 3, 2) == renamed.fact(record(b'{"time": 7, "at": 3, "by": 2}'))
    for names in ({}, {"time": "x", "diff": "x"}, {"time": "complete_before", "diff": "time"}):
        with pytest.raises(UsageError, match="name other columns with --time-column and --diff-column"):
            StreamRecords(rows, **names)
