"""A multiset in a lake: files of changes of counts, which a reader adds up.

A file has the columns of the log's rows, and ``cdcv2_diff``: how many more times a row is there than before, or, below
0, how many fewer. A row may stand in several files, and several times in one. So an append is the columns as they come:
nothing is looked up, and no row gets a digest. Only where rows go is there a look, whether they are there so often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcv2.errors import MalformedError
from cdcv2.materialize.protocol.messages import Changes, ConflictError, Table
from cdcv2.materialize.targets.lake.columns import as_logged
from cdcv2.materialize.targets.lake.files import DIFF, StagedFile
from cdcv2.rows.columns import rows_at, summed


def stage(table: Table, message: Changes, staged: StagedFile, like: Callable[[Any], Any]) -> None:
    """Put the changes of counts into a new file, when what goes is there. Raises ConflictError otherwise.

    ``like`` gives what a lake has that could be some rows, in the columns of a file. Cost: of rows that come, writing
    them. Where rows go, one column of each file is read, and the rows that match in it.
    """
    goes = _going(table, message, staged)
    if len(goes):
        there = pa.concat_tables([goes, like(goes)])
        places, sums = added(table, there)
        wrong = pc.and_(pc.less(sums, 0), pc.less(places, len(goes)))
        if pc.any(wrong, min_count=0).as_py():
            place, left = (one.filter(wrong)[0].as_py() for one in (places, sums))
            raise _conflict(table, message, place, left)
    comes = staged.typed(message.come, [message.come.columns[-1]])
    staged.add_table(pa.concat_tables([goes, comes]))


def _going(table: Table, message: Changes, staged: StagedFile) -> Any:
    """The rows that go as a file has them. Raises ConflictError for one that no file can hold: it is not there."""
    gone = message.gone
    try:
        return staged.typed(gone, [gone.columns[-1]])
    except MalformedError:
        for place in range(len(gone)):
            one = gone.slice(place, 1)
            try:
                staged.typed(one, [one.columns[-1]])
            except MalformedError:
                raise _conflict(table, message, place, None) from None
        raise


def _conflict(table: Table, message: Changes, place: int, left: int | None) -> ConflictError:
    """The error of the row that goes at a place; ``left``: how often it would be there, None where it never was."""
    (row,) = message.gone.slice(place, 1).to_pylist()
    *values, diff = row.values()
    before = None if left in (None, diff) else (*values, (left or 0) - diff)
    return ConflictError(table.name, message.binding, tuple(values), before)


def added(table: Table, rows: Any, zeros: bool = False) -> tuple[Any, Any]:
    """Of equal rows of files the place of the first, and the sum of the changes; a sum of 0 only with ``zeros``."""
    columns = [
        as_logged(one, rows[one.name]) if pa.types.is_nested(rows[one.name].type) else rows[one.name]
        for one in table.stored
    ]
    return summed(columns, rows[DIFF], zeros=zeros)


def merged(table: Table, parts: Sequence[Any], zeros: bool) -> Any:
    """Several files as one. Where no row goes, they stay one behind the other: to add up would leave nothing out."""
    rows = pa.concat_tables(parts)
    least = pc.min(rows[DIFF]).as_py()
    if least is None or least > 0:
        return rows
    places, sums = added(table, rows, zeros)
    return rows_at(rows, places).drop_columns([DIFF]).append_column(rows.schema.field(DIFF), sums)


def probe(rows: Any) -> str | None:
    """The column of a file by which rows are looked for: the one with the most values; None where there is none.

    >>> probe(pa.table({"kind": ["a", "a"], "id": [1, 2], "x": [0.5, 1.5], "cdcv2_diff": [-1, -1]}))
    'id'
    """
    # Of floats, a NaN would have to be found, too.
    fit = [
        one.name for one in rows.schema
        if one.name != DIFF and not pa.types.is_nested(one.type) and not pa.types.is_floating(one.type)
    ]
    return max(fit, key=lambda name: pc.count_distinct(rows[name]).as_py(), default=None)
