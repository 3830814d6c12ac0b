"""How far the output of a database on a timeline is complete, and where it begins: a capture needs both to resume.

Nothing is stated of a table before the snapshot is released; without one, before the first record of the database. TEMP
shows that there is no output before that. So a log that ends before the output begins lacks nothing up to there.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdcv2.capture.run.table_writers import Tables
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Log
from cdcv2.protocol.writer import Writer
from cdcv2.timeline.binding import check_int


def output_known(
    tables: Tables, temp: Writer | None, *, snapshot: bool, missing: Iterable[str] = ()
) -> dict[str, int]:
    """Up to where the output of each table is known, but of those that are not covered; ``temp``: of TEMP, if there.

    A log that states where it begins, and nothing else yet, counts up to there. ``missing`` are tables whose logs are
    not there. Cost: a read of TEMP while a log is behind it. Raises what reading TEMP raises.
    """
    known = tables.log_frontiers() | dict.fromkeys(missing, 0)
    upper = 0 if temp is None else check_int(temp.known.elements[0])
    begins = upper
    if temp is not None and any(at < upper for at in known.values()):
        begins = _output_begins(temp.log, upper, snapshot=snapshot)
    return {table: max(at, begins) for table, at in known.items()} | tables.log_starts.waiting


def _output_begins(temp: Log, upper: int, *, snapshot: bool) -> int:
    """The first time at which there is an output, by TEMP; without one ``upper``, up to which TEMP is stated.

    With a ``snapshot`` that is when it is released, else when TEMP starts.
    """
    kind = "through" if snapshot else "begun"
    for batch in Iter(temp.read()):
        for row, time, diff in batch.updates:
            if diff > 0 and row.kind == kind and check_int(time) < upper:
                return check_int(time)
    return upper
