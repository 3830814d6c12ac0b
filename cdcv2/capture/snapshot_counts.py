"""The End of an initial snapshot, which no record of a connector is: made of the notifications about it.

On a timeline of bindings the snapshot is a transaction before all others. It is whole when each table has as many rows
as the notifications of its completed run say (:mod:`cdcv2.capture.snapshot`). Its commit is the LSN that its rows
carry, so the End is said at the first time at which the completion is bound and a row; if no captured table has any, at
that of the completion, as the least commit there is. So it is a function of what is bound, and all captures say it
alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cdcv2.capture.coverage import indispensable, left_out
from cdcv2.capture.facts import Notification
from cdcv2.capture.open_records import SNAPSHOT, EndRecord, HaltRecord
from cdcv2.capture.snapshot import ANEW, SnapshotRuns, check_rows, not_empty


class SnapshotCounts:
    """What the notifications come to, in the order of their topic.

    ``empty`` are tables that were empty, as the user says, where no notification names them; ``may`` are tables without
    which the others go on, where the connector never spoke of them.

    >>> scanned = SnapshotCounts(["t"])
    >>> scanned.notification(Notification("TABLE_SCAN_COMPLETED", "t", 2, 1))
    >>> scanned.notification(Notification("COMPLETED", None, None, 2))
    >>> scanned.end(None), scanned.end(70)
    (None, EndRecord(tx='snapshot', commit=70, counts=(('t', 2),)))
    """

    def __init__(self, tables: Iterable[str], empty: Iterable[str] = (), may: Collection[str] = ()) -> None:
        self._tables, self._empty, self._may = tuple(tables), frozenset(empty), frozenset(may)
        self._runs = SnapshotRuns(empty=self._empty)
        #: The tables of which the connector never spoke; known with the End.
        self.uncovered = frozenset[str]()
        #: The tables of which nothing but the user says that they were empty; known with the End.
        self.assumed_empty = frozenset[str]()

    @property
    def has_notifications(self) -> bool:
        """Whether there was any."""
        return self._runs.heard

    def ended(self) -> None:
        """The End was said before what comes now."""
        self._runs.resume(1, 0)

    def notification(self, fact: Notification) -> None:
        """Take the next one."""
        self._runs.notification(*fact)

    def halt(self) -> HaltRecord | None:
        """Why the notifications stop the capture, before the End or after it; None: they do not."""
        reason = self._runs.contradiction
        return None if reason is None else HaltRecord(SNAPSHOT, None, reason, ANEW)

    def end(
        self, lsn: int | None, rows: Mapping[str, int] | None = None, there: Collection[str] = ()
    ) -> EndRecord | HaltRecord | None:
        """The End as far as is known by now, or why there can be none.

        ``lsn`` is that of the snapshot's first rows; ``rows`` are those that are known, by table; ``there`` has the
        tables of which anything is.
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
