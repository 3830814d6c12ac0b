"""Plain topics: a topic that was never a table is an append-only multiset, and each record's JSON value a row of it.

::

    {"id": 1, "price": 10, "name": "apple"}       one more of this row
    {"id": 1, "name": "apple"}                    the same with price null, if that may be null

Values are written as ``cdcv2 as-of --json`` writes them (:mod:`cdcv2.rows.plain`). A tombstone deletes by key what has
no key here, and a value with other columns than the row type's would lose some: both stop the capture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cdcv2.capture.facts import Record
from cdcv2.errors import DecodeError, MalformedError
from cdcv2.logs.formats import no_json
from cdcv2.rows.row_type import Row, RowType

FAULT = (
    "The program that writes the topic is at fault, or the row type is not the topic's: give the right one. A record "
    "that can never be a row cannot be passed over: write the good ones to another topic, and capture that"
)


class PlainRows:
    """Reads the records of one topic.

    >>> kind = RowType({"type": "record", "name": "t", "fields": [
    ...     {"name": "id", "type": "long"}, {"name": "price", "type": ["null", "int"]}]})
    >>> PlainRows(kind).row(Record("t", 0, 17, None, b'{"id": 1}'))
    Row(id=1, price=None)
    """

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        self._nulls = {column.name: None for column in row_type.shape.columns if column.shape.kind == "optional"}

    def row(self, record: Record) -> Row:
        """The row. Raises DecodeError with the position for a record that is none."""
        return self.row_of(record, columns(record))

    def row_of(self, record: Record, plain: Mapping[str, Any]) -> Row:
        """The row that has these of the record's columns. Raises DecodeError with the position where they are none."""
        try:
            return self._row_type.from_plain({**self._nulls, **plain})
        except MalformedError as error:
            raise no_row(record, str(error)) from None


def columns(record: Record) -> dict[str, Any]:
    """The columns of a record. Raises DecodeError with the position for a record that has none.

    >>> columns(Record("t", 0, 17, None, b'{"id": 1}'))
    {'id': 1}
    """
    if record.value is None:
        raise no_row(record, "a tombstone: it takes away what has its key, and rows here have none")
    try:
        plain: Any = json.loads(record.value)
    except (ValueError, RecursionError) as error:
        raise no_row(record, no_json(record.value, error)) from None
    if not isinstance(plain, dict):
        raise no_row(record, f"the JSON is a {type(plain).__name__}, not an object with columns")
    return plain


def no_row(record: Record, reason: str) -> DecodeError:
    """The error for a record that is no row."""
    text = f"no row of the topic's table: {reason}"
    return DecodeError(text, position=record.position, raw=record.value, fault=FAULT)
