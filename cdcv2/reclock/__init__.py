"""One gauge of progress into another: offsets, LSNs and lines bound to the times of one timeline. No I/O.

``partitioned`` and ``gauges`` say how far sources are, ``remap`` binds that to times, ``reclock`` carries a stream of
updates over; ``shared`` lets any number of processes bind into one remap, ``minting`` says what each of them does.
``asked`` answers questions in both directions.
"""

from cdcv2.reclock.asked import When, known, when, where
from cdcv2.reclock.binding import Binding
from cdcv2.reclock.gauges import Gauge, sources
from cdcv2.reclock.minting import RemapLog
from cdcv2.reclock.partitioned import NOT_STARTED, Part, Partitioned, frontier_of, offsets, part_of
from cdcv2.reclock.reclock import Carried, Reclock
from cdcv2.reclock.remap import Hold, Remap
from cdcv2.reclock.shared import Shared, View, Won
from cdcv2.reclock.ordering import AS_COMPLETE, COMMIT_ORDER, check_ordered

__all__ = [
    "AS_COMPLETE",
    "Binding",
    "COMMIT_ORDER",
    "Carried",
    "Gauge",
    "Hold",
    "NOT_STARTED",
    "Part",
    "Partitioned",
    "Reclock",
    "Remap",
    "RemapLog",
    "Shared",
    "View",
    "When",
    "Won",
    "check_ordered",
    "frontier_of",
    "known",
    "offsets",
    "part_of",
    "sources",
    "when",
    "where",
]
