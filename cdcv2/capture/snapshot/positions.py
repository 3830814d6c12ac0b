"""Keeps which rows of the first snapshot are duplicates once it is released: by positions and numbers, not by rows."""

from __future__ import annotations

from collections.abc import Mapping

from cdcv2.capture.memory_format import ReleasedRowsMemory
from cdcv2.capture.snapshot.rules import among_released
from cdcv2.protocol.log import Place, places_from_plain, plain_places


class SnapshotRows:
    """Which snapshot rows are duplicates after the first snapshot's release, and which are rows that the logs lack.

    A row stands at one position. Where that was read before the row is a duplicate: each partition is read in order, so
    the last position of a row is enough to know it. Rows at other positions are counted, and there are as many as were
    released; one more was not, so the logs lack it. ``released`` is what the logs hold where an earlier run released
    the snapshot: for each table its LSN and how many rows; None: not known, no row is judged.

    >>> rows = SnapshotRows()
    >>> rows.read("t", ("t", 0), 4); rows.release(70, {"t": 1})
    >>> rows.lacked("t", 70, ("t", 0), 4), rows.lacked("t", 70, ("t", 0), 5)
    (False, True)
    >>> restarted = SnapshotRows({"t": (70, 1)})
    >>> restarted.lacked("t", 70, ("t", 0), 4), restarted.lacked("t", 70, ("t", 1), 0)
    (False, True)

    Cost: constant for each row. Memory: a number for each partition and each table.
    """

    def __init__(self, released: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._released = None if released is None else dict(released)
        # Of each partition the offset behind the last row that was read, and of each table how many rows were.
        self._read: dict[Place, int] = {}
        self._rows: dict[str, int] = {}

    def read(self, table: str, place: Place, offset: int, rows: int = 1) -> None:
        """Rows of the table were read, the last of them at ``offset``."""
        self._read[place] = max(offset + 1, self._read.get(place, 0))
        self._rows[table] = self._rows.get(table, 0) + rows

    def read_to(self) -> dict[Place, int]:
        """For each partition the offset before which every row was read."""
        return dict(self._read)

    @property
    def begins(self) -> int | None:
        """The least LSN at which any table has released rows, as far as it is known."""
        return min((lsn for lsn, _ in (self._released or {}).values()), default=None)

    def release(self, lsn: int, rows: Mapping[str, int]) -> None:
        """The snapshot at ``lsn`` is released, with so many rows of each table."""
        self._released = {table: (lsn, number) for table, number in rows.items()}

    def lacked(self, table: str, lsn: int, place: Place, offset: int, rows: int = 1) -> bool:
        """Whether one of these rows of the snapshot at ``lsn``, the last at ``offset``, was not released.

        Such a row is not counted as read: a capture that starts again must find it again.
        """
        if offset < self._read.get(place, 0) or self._released is None:
            return False
        if not among_released(lsn, self._rows.get(table, 0) + rows, self._released.get(table, (lsn, 0))):
            return True
        self.read(table, place, offset, rows)
        return False

    def export(self) -> ReleasedRowsMemory | None:
        """What must survive, as plain JSON; None: no row is judged."""
        if self._released is None:
            return None
        released = {table: list(of) for table, of in self._released.items()}
        return {"released": released, "rows": dict(self._rows), "read": plain_places(self._read)}

    @classmethod
    def restore(cls, plain: ReleasedRowsMemory | None) -> SnapshotRows:
        """As it was at :meth:`export`."""
        rows = cls(None if plain is None else {table: (lsn, n) for table, (lsn, n) in plain["released"].items()})
        if plain is not None:
            rows._rows = dict(plain["rows"])
            rows._read = places_from_plain(plain["read"])
        return rows
