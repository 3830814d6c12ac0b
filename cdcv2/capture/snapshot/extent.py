"""Keeps how far a snapshot reaches in its topics, and how far that is read: when no more rows of it can come.

The connector marks the first and the last row of each table, and of all. Once the last one is read, or the run of a
snapshot is complete, the partitions hold all of it up to where they end at any moment after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdcv2.capture.snapshot.rules import is_all_read, two_marks
from cdcv2.capture.transaction_contradictions import Contradiction
from cdcv2.protocol.log import Place

#: What the connector writes into the first and the last row of a table, and of all; a table's only row is its last.
MARKERS = {
    "first": "first", "first_in_data_collection": "first", "last": "last", "last_in_data_collection": "last",
}


class SnapshotExtent:
    """The markers, and what must still be read.

    >>> extent = SnapshotExtent()
    >>> extent.marked("last", ("t", 0, 4)); extent.ends_read({("t", 0): 5, ("t", 1): 1}, 1)
    >>> extent.consumed(("t", 0), 5); extent.is_read(0), extent.places()
    (False, 't[1] to 1')
    >>> extent.passed(("t", 1)); extent.is_read(0), extent.is_read(1)
    (True, False)

    Cost: constant for each fact. Memory: a number for each table and partition.
    """

    def __init__(self) -> None:
        #: Whether the last row of all was seen.
        self.last_seen = False
        #: How many snapshots had ended when the ends of the partitions were read.
        self.ends_of = 0
        # Of each partition where it ended, unless it was read to there.
        self._unread: dict[Place, int] = {}
        # (topic, which row of its table) -> where that is; partitions that showed a streamed row.
        self._marks: dict[tuple[object, str], object] = {}
        self._passed: set[Place] = set()

    def marked(self, marker: str, position: Sequence[object]) -> Contradiction | None:
        """A row carries one of :data:`MARKERS`. Two different rows of a table with one marker are of two snapshots.

        ``position`` begins with the topic, of which each table has its own.
        """
        which = MARKERS.get(marker)
        if which is None:
            return None
        self.last_seen |= marker == "last"
        seen = self._marks.setdefault((position[0], which), position)
        return two_marks(seen, position, marker)

    def ends_read(self, ends: Mapping[Place, int], ended: int) -> None:
        """Where the partitions ended at some moment after so many snapshots had ended."""
        self._unread = {place: end for place, end in ends.items() if end > 0 and place not in self._passed}
        self.ends_of = ended

    def consumed(self, place: Place, following: int) -> None:
        """The partition has been read up to the offset ``following``, exclusive."""
        if self._unread.get(place, following + 1) <= following:
            del self._unread[place]

    def passed(self, place: Place) -> None:
        """The partition showed a streamed row: every row of the first snapshot in it has been read."""
        self._passed.add(place)
        self._unread.pop(place, None)

    def is_read(self, number: int) -> bool:
        """Whether all was read that may be of the snapshot of this number, or before it."""
        return is_all_read(number, self.ends_of, unread=bool(self._unread))

    def places(self) -> str:
        """What must still be read, in words."""
        return ", ".join(f"{topic}[{partition}] to {end}" for (topic, partition), end in self._unread.items())
