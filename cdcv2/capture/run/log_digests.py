"""What a log holds, as digests by time: to be compared with a source that is read again from its start."""

from __future__ import annotations

from cdcv2.capture.recent_sums import RecentSums
from cdcv2.capture.stream_counts import update_digest
from cdcv2.protocol.log import Log
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.binding import check_int


def log_digests(log: Log, row_type: RowType, known: int) -> RecentSums | None:
    """The digests of all updates before ``known``, up to where the log is stated; None: there are none to be asked for.

    Raises what reading the log raises. Cost: reads the log from its start. Memory: what is open in it.
    """
    if not known:
        return None
    sums, reader = RecentSums(), Resolver([0])
    for entry in log.read():
        batch = reader.absorb(entry) if entry is not None else None
        for row, at, diff in batch.updates if batch is not None else ():
            time = check_int(at)
            if time < known:
                sums.add(time, update_digest(row_type.encode(row), time, diff))
    return sums
