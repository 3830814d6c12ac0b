"""Columns that were altered in the source while their log goes on: what the log's own schema still calls them.

A log keeps the row schema that it began with. One that differs from it in ``cdcv2.source`` alone is the same to the
log, and not always to those who read it: a ``timestamp`` is a number of microseconds there, a ``timestamp(3)`` one of
milliseconds. Where the same number, or the same bytes, would mean another value, nothing may be added to the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from cdcv2.errors import ForeignStateError
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType

#: Source types whose values are in the log as they are, so that each is the same value for all of them.
_WHOLE = ("int2", "int4", "int8", "oid")
#: Those whose values are numbers or bytes that stand for something else.
_CODED = ("date", "time", "timestamp", "interval", "varbit", "bytea")


def meaning(source: SourceType) -> str:
    """What numbers and bytes of the log mean in such a column; nothing for text, which means itself.

    >>> [meaning(SourceType("timestamp", precision=one)) for one in (None, 6, 3)]
    ['timestamp in microseconds', 'timestamp in microseconds', 'timestamp in milliseconds']
    >>> meaning(SourceType("int2")), meaning(SourceType("date")), meaning(SourceType("numeric", precision=12))
    ('whole number', 'date', '')
    """
    if source.items is not None:
        return f"{meaning(source.items)}[]"
    if source.type in ("time", "timestamp"):
        return f"{source.type} in {'milliseconds' if source.in_millis else 'microseconds'}"
    if source.type == "bit" and source.length != 1:
        return f"bit({source.length})"
    return "whole number" if source.type in _WHOLE else source.type if source.type in _CODED else ""


def demand_same_meaning(log: Path, held: RowType, given: RowType) -> None:
    """Raise ForeignStateError if values of a column would mean something else than those that the log has.

    ``held`` is what the log states, ``given`` an equal row type. Where one of both states nothing, it is believed.
    """
    for column, was, now in _altered(held, given):
        if meaning(was) != meaning(now):
            raise ForeignStateError(
                f"the log {log} has the column {column!r} as {_shown(was)}, and the row schema that was given as "
                f"{_shown(now)}: the same value would mean something else in rows that come now. If the column was "
                "altered in the source, capture into new logs, from a new snapshot; otherwise mend the row schema"
            )


def altered_text(log: Path, held: RowType, given: RowType) -> str | None:
    """For people: which types the log keeps of columns that were altered since it began; None where there are none."""
    columns = [f"{column} is {_shown(was)} there, and {_shown(now)} now" for column, was, now in _altered(held, given)]
    if not columns:
        return None
    return (
        f"the log {log} keeps the types of the source that it began with: {'; '.join(columns)}. Targets take those, "
        "unless the folder of the new row schemas is named with types in the file of the materialization; what was "
        "made before keeps the types that it has"
    )


def _altered(held: RowType, given: RowType) -> Iterator[tuple[str, SourceType, SourceType]]:
    for column, was, now in zip(held.columns, held.sources, given.sources):
        if was is not None and now is not None and was != now:
            yield column, was, now


def _shown(source: SourceType) -> str:
    return json.dumps(source.to_plain())
