"""The End of an initial snapshot, made of the notifications about it: no record of a connector is one.

On a timeline of bindings the snapshot is a transaction before all others. It is whole when each table has as many rows
as the notifications of its completed run state (:mod:`cdcv2.capture.snapshot`). Its commit is the LSN of its rows. So
its time is the first one at which both the completion and a row are bound. If no captured table has a row, it is the
time of the completion, and the commit is the least one there is. The End is thus a function of what is bound, and all
captures make the same one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cdcv2.capture.coverage import indispensable, left_out
from cdcv2.capture.facts import Notification
from cdcv2.capture.open_records import SNAPSHOT, EndRecord, HaltRecord
from cdcv2.capture.snapshot import ANEW, SnapshotRuns, check_rows, not_empty


class SnapshotCounts:
    """Collects the notifications, in the order of their topic, and makes the End of them.

    ``empty`` are tables that were empty by the user's declaration, if no notification names them. ``may`` are tables
    that the others can go on without, if the connector never reports them.

    >>> scanned = SnapshotCounts(["t"])
    >>> scanned.notification(Notification("TABLE_SCAN_COMPLETED", "t", 2, 1))
    >>> scanned.notification(Notification("COMPLETED", None, None, 2))
    >>> scanned.end(None), scanned.end(70)
    (None, EndRecord(tx='snapshot', commit=70, counts=(('t', 2),)))
    """

    def __init__(self, tables: Iterable[str], empty: Iterable[str] = (), may: Collection[str] = ()) -> None:
        self._tables, self._empty, self._may = tuple(tables), frozenset(empty), frozenset(may)
        self._runs = SnapshotRuns(empty=self._empty)
        #: The tables that the connector never reported; known with the End.
        self.uncovered = frozenset[str]()
        #: The tables that were empty only by the user's declaration; known with the End.
        self.assumed_empty = frozenset[str]()

    @property
    def has_notifications(self) -> bool:
        """Whether a notification was read."""
        return self._runs.heard

    def ended(self) -> None:
        """The End was made before, by an earlier run."""
        self._runs.resume(1, 0)

    def notification(self, fact: Notification) -> None:
        """Take the next one."""
        self._runs.notification(*fact)

    def halt(self) -> HaltRecord | None:
        """The reason why the notifications stop the capture, before the End or after it; None: they do not."""
        reason = self._runs.contradiction
        return None if reason is None else HaltRecord(SNAPSHOT, None, reason, ANEW)

    def end(
        self, lsn: int | None, rows: Mapping[str, int] | None = None, there: Collection[str] = ()
    ) -> EndRecord | HaltRecord | None:
        """The End, as soon as it is known, or the reason why there can be none.

        ``lsn`` is that of the snapshot's first rows; ``rows`` are the numbers of known rows, by table; ``there`` are
        the tables that have any record.
        """
        run = self._runs.run(0)
        if self.halt() is not None or run is None:
            return self.halt()
        fixed = {table for table in self._tables if table not in self._may}
        left = left_out(run, rows or {}, self._tables, {*there, *self._empty, *fixed})
        needed = indispensable(left, self._tables, self._may, skipped=run.skipped)
        covered = [table for table in self._tables if table not in left or table == needed]
        wrong = not_empty(run, rows or {}, self._empty) or check_rows(run, {}, covered)
        if wrong is not None:
            return HaltRecord(SNAPSHOT, None, *wrong)
        counts = {table: run.rows(table) or 0 for table in covered}
        if lsn is None and any(counts.values()):
            return None
        self.uncovered, self.assumed_empty = left, self._runs.assumed
        return EndRecord.of(SNAPSHOT, lsn or 0, counts)
