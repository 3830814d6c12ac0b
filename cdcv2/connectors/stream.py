"""Stream topics: each record is an update with a time of its own, or a bound: how far the topic is complete.

::

    {"id": 1, "price": 10, "time": 17}                    one more of the row (1, 10) at the time 17
    {"id": 1, "price": 10, "time": 20, "diff": -1}        one less of it at 20
    {"complete_before": 25, "rows": 2}                    the topic has 2 updates in all at times before 25
    {"complete_before": 25}                               no update at a time before 25 follows

Updates at one time may stand anywhere, and add up. The columns are those of a plain topic
(:mod:`cdcv2.connectors.plain`), with two more. A bound with ``rows`` is checked, and may be in any partition, before or
behind what it counts. One without it is about what follows, so the topic must have one partition.
"""

from __future__ import annotations

from typing import Any

from cdcv2.capture.facts import BoundRecord, Record, StreamFact, UpdateRecord
from cdcv2.connectors.plain import PlainRows, columns, no_row
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import DecodeError, UsageError
from cdcv2.rows.plain import int_from_plain
from cdcv2.rows.row_type import RowType

#: The columns of a record that states a bound.
BEFORE, ROWS = "complete_before", "rows"
#: The columns that an update has beside those of its row, unless others are named.
TIME, DIFF = "time", "diff"
_DIFFS = 2**63


class StreamRecords:
    """Reads the records of one topic. ``time`` and ``diff`` are the names of these columns.

    >>> kind = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]})
    >>> records = StreamRecords(kind)
    >>> records.fact(Record("t", 0, 17, None, b'{"id": 1, "time": 5}'))
    UpdateRecord(row=Row(id=1), time=5, diff=1)
    >>> records.fact(Record("t", 0, 18, None, b'{"complete_before": 6}'))
    BoundRecord(before=6, rows=None)

    Raises UsageError where columns of the row type have one of the names.
    """

    def __init__(self, row_type: RowType, *, time: str = TIME, diff: str = DIFF) -> None:
        #: The type of the rows.
        self.row_type = row_type
        #: The names of the two columns.
        self.names = time, diff
        self._rows = PlainRows(row_type)
        own = {column.name for column in row_type.shape.columns}
        taken = [name for name in (time, diff, BEFORE) if name in own]
        if taken or time == diff or BEFORE in self.names:
            raise UsageError(
                f"the columns of time and diff are called {time!r} and {diff!r}, and that of a bound {BEFORE!r}; the "
                f"row type has the columns {', '.join(sorted(own))}. Each name is that of one thing: name other columns"
                f" with --time-column and --diff-column{f', or rename {BEFORE}' if BEFORE in taken else ''}"
            )

    def fact(self, record: Record) -> StreamFact:
        """What the record states. Raises DecodeError with the position for a record that is neither."""
        plain = columns(record)
        if BEFORE in plain:
            return _bound(record, plain)
        time, diff = self.names
        if time not in plain:
            raise no_row(record, f"the column {time!r} is missing, which has the time of the update")
        at, by = int_from_plain(plain.pop(time)), int_from_plain(plain.pop(diff, 1))
        if type(at) is not int or not 0 <= at <= MAX_TIME:
            raise no_row(record, f"column {time!r}: {at!r:.40} is no time, a number from 0 to {MAX_TIME}")
        if type(by) is not int or not by or not -_DIFFS <= by < _DIFFS:
            raise no_row(record, f"column {diff!r}: {by!r:.40} is no diff, a number of 64 bits other than 0")
        return UpdateRecord(self._rows.row_of(record, plain), at, by)

    def several_partitions(self, record: Record) -> DecodeError:
        """The error for a bound without rows in a topic that has more than one partition."""
        return no_row(
            record, f"a bound without {ROWS!r} is about what follows, and the topic has several partitions, which have "
            "no order: state the number of rows, or make the topic with one partition"
        )


def _bound(record: Record, plain: dict[str, Any]) -> BoundRecord:
    before, rows = int_from_plain(plain[BEFORE]), int_from_plain(plain.get(ROWS))
    others = sorted(plain.keys() - {BEFORE, ROWS})
    if others:
        raise no_row(record, f"a bound has the columns {BEFORE!r} and {ROWS!r}, and no {others[0]!r}")
    if type(before) is not int or not 0 <= before <= MAX_TIME:
        raise no_row(record, f"column {BEFORE!r}: {before!r:.40} is no time, a number from 0 to {MAX_TIME}")
    if rows is not None and (type(rows) is not int or rows < 0):
        raise no_row(record, f"column {ROWS!r}: {rows!r:.40} is no number of updates, from 0 on")
    return BoundRecord(before, rows)
