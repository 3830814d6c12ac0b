"""One gauge of progress into another: offsets, LSNs and lines bound to the times of one timeline. No I/O.

``partitioned`` and ``gauges`` measure how far sources are, ``remap`` binds that to times, ``reclock`` carries a stream
of updates over. With ``shared_remap`` any number of processes bind into one remap; ``minting`` has the steps of each of
them. ``remap_queries`` answers questions in both directions.
"""

from cdcv2.timeline.binding import Binding
from cdcv2.timeline.minting import RemapLog
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER, check_ordered
from cdcv2.timeline.partitioned import NOT_STARTED, Part, Partitioned, frontier_of, offsets
from cdcv2.timeline.reclock import Reclock, ReclockedUpdates
from cdcv2.timeline.remap import Hold, Remap
from cdcv2.timeline.remap_queries import TimeAnswer, known, when, where
from cdcv2.timeline.shared_remap import AcceptedBinding, LogView, SharedRemap

__all__ = [
    "AS_COMPLETE",
    "AcceptedBinding",
    "Binding",
    "COMMIT_ORDER",
    "Hold",
    "LogView",
    "NOT_STARTED",
    "Part",
    "Partitioned",
    "Reclock",
    "ReclockedUpdates",
    "Remap",
    "RemapLog",
    "SharedRemap",
    "TimeAnswer",
    "check_ordered",
    "frontier_of",
    "known",
    "offsets",
    "when",
    "where",
]
