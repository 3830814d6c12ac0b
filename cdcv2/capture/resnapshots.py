"""Resnapshots that the user has declared: each is released as the difference between its rows and the state.

A connector that has lost its slot takes a snapshot again. What was committed between the loss and the new slot is in
no record, but the new snapshot contains it. So the difference between the logs and that snapshot, at the snapshot's
LSN, makes the logs right again. The user must declare two things, because no record shows them:

- *which LSN it has*. Partitions are read in any order, so a transaction from behind the snapshot may be whole before
  anything of the snapshot is read. It would be released on a state that lacks what was lost. Once the LSN is declared,
  nothing above it is released before it;
- *that its slot was new*. On an existing slot, the snapshot is taken some time after its LSN: transactions are both in
  the snapshot and in the stream, and those times would be no cut.

It is *whole* when its run of notifications is complete, each table has as many rows as the run states, and every
partition was read up to where it ended at some moment after that. Then everything that was committed up to its LSN,
and that ever will be in the topics, is read. So a transaction that is still not whole never will be: it is superseded.
This rule does not depend on the order of reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cdcv2.capture.coverage import unnamed
from cdcv2.capture.snapshot import ANEW, SnapshotRun, SnapshotRuns, check_rows, lacking
from cdcv2.protocol.log import Place

WRONGLY_TOLD = "Give --snapshot-again the LSN of a snapshot: source.lsn of its rows, which stops of the capture name"


class Resnapshots:
    """The state of the declared resnapshots; fed by ``CommitTransactions``, judges counts and never sees a row.

    ``told`` are the LSNs of all that the connector took after its first snapshot, in the order of their runs in
    ``runs``. ``contradiction`` is the reason why the next one can never be whole, or None.

    >>> runs = SnapshotRuns(declared=1)
    >>> again = Resnapshots(["t"], [90], runs)
    >>> kinds = [("SKIPPED", None, None), ("STARTED", None, None), ("TABLE_SCAN_COMPLETED", "t", 1)]
    >>> for at, timeline_fact in enumerate(kinds): runs.notification(*timeline_fact, at)
    >>> again.rows_seen("t", 90, 1), again.waits()
    (True, 'the snapshot at 90 has not been completed (no notification COMPLETED yet)')
    >>> runs.notification("COMPLETED", None, None, 3); again.ends_read({("t", 0): 1}); again.whole()
    False
    >>> again.consumed(("t", 0), 1); again.whole()
    True
    """

    def __init__(self, tables: Iterable[str], told: Iterable[int], runs: SnapshotRuns) -> None:
        self._tables, self.told, self._runs = tuple(tables), tuple(told), runs
        self.contradiction: str | None = None
        #: How many of them are released.
        self.done = 0
        # How many of their runs were judged, each as soon as it was complete.
        self._judged = 0
        self._rows: dict[int, dict[str, int]] = {}
        # What must still be read, up to the ends that the partitions had when this many runs were complete.
        self._unread: dict[Place, int] = {}
        self._ends_of = 0

    @property
    def pending(self) -> int | None:
        """The LSN of the next one to be released."""
        return self.told[self.done] if self.done < len(self.told) else None

    @property
    def _completed(self) -> int:
        """How many of their runs are complete; the very first run is that of the first snapshot."""
        return max(0, self._runs.completed - 1)

    @property
    def _run(self) -> SnapshotRun | None:
        """The run of the next one, if it is complete."""
        return self._runs.run(self.done + 1)

    def released_through(self, through: int) -> None:
        """Every declared resnapshot up to this LSN is in the logs."""
        while self.pending is not None and self.pending <= through:
            self._rows.pop(self.pending, None)
            self.done += 1

    # -- facts

    def judge(self) -> None:
        """Judge the runs that are complete now."""
        for number in range(self._judged, self._completed if self.told else 0):
            run = self._runs.run(number + 1)
            if run is not None and all(run.rows(table) == 0 for table in self._tables):
                self._contradict("the connector took a snapshot anew without a row, so nothing says where it belongs")
            self._judged = number + 1

    def rows_seen(self, table: str, lsn: int, distinct: int) -> bool:
        """The table has ``distinct`` rows in the snapshot at ``lsn``. False: that snapshot is not declared."""
        if lsn not in self.told[self.done:]:
            return lsn in self.told
        self._rows.setdefault(lsn, {})[table] = distinct
        return True

    def ends_read(self, ends: Mapping[Place, int]) -> None:
        """Where all partitions ended at some moment after its run was complete."""
        if self.needs_ends:
            self._unread = {place: end for place, end in ends.items() if end > 0}
            self._ends_of = self._completed

    def consumed(self, place: Place, following: int) -> None:
        """The partition has been read up to the offset ``following``, exclusive."""
        if self._unread.get(place, following + 1) <= following:
            del self._unread[place]

    # -- decisions

    @property
    def needs_ends(self) -> bool:
        """Whether the caller should read the end positions now, and call ``ends_read``."""
        return bool(self.told) and self._completed > max(self.done, self._ends_of)

    def whole(self, uncovered: Iterable[str] = ()) -> bool:
        """Whether all of the next one is read, and everything before it; finds contradictions on the way.

        Its run need not name the tables that were ``uncovered`` before it.
        """
        run = self._run
        if run is None or self.pending is None or self.contradiction or self._runs.contradiction:
            return False
        left = unnamed(run, self._held(), uncovered)
        wrong = check_rows(run, self._held(), [table for table in self._tables if table not in left])
        if wrong is not None:
            self._contradict(f"{wrong[0]}, of the snapshot at {self.pending}")
        return wrong is None and not self.missing() and self.done < self._ends_of and not self._unread

    def _held(self) -> dict[str, int]:
        return self._rows.get(self.pending, {}) if self.pending is not None else {}

    def names(self, table: str) -> bool:
        """Whether the run of the next one covered the table."""
        return self._run is not None and self._run.names(table)

    def missing(self) -> dict[str, int]:
        """How many rows each table lacks, as far as the notifications show."""
        run = self._run
        return {} if run is None else lacking(run, self._held(), self._tables)

    def waits(self) -> str:
        """What the next one waits for, as a sentence."""
        if self.contradiction is not None:
            return self.contradiction
        if self._run is None:
            begun = (self._completed == self.done and self._runs.is_open) or self._held()
            return f"the snapshot at {self.pending} has not been " + (
                "completed (no notification COMPLETED yet)" if begun else "begun (nothing of it is in the topics)"
            )
        if self.missing():
            lacks = ", ".join(f"{number} rows of {table}" for table, number in self.missing().items())
            return f"the snapshot at {self.pending} lacks {lacks}"
        places = ", ".join(f"{topic}[{partition}] to {end}" for (topic, partition), end in self._unread.items())
        return f"before the snapshot at {self.pending} there may be more in what is still to be read: {places}"

    def _contradict(self, reason: str) -> None:
        if self.contradiction is None:
            self.contradiction = reason

    def undeclared(self, found: Iterable[int], through: int | None) -> list[int]:
        """The LSNs in ``found`` of snapshots that are not declared, and still can be.

        The logs are stated up to ``through``: for an LSN up to there it is too late. The least LSN of all is the first
        snapshot's.
        """
        seen = {*found}
        least = min(seen, default=0) if through is None else through
        return sorted(lsn for lsn in seen.difference(self.told) if lsn > least)

    def late(self, found: Iterable[int], through: int | None) -> list[int]:
        """The LSNs in ``found`` of undeclared resnapshots that the logs are already stated beyond."""
        seen = {*found}
        return sorted(lsn for lsn in seen.difference(self.told) if min(seen) < lsn <= (through or 0))

    def remedy(self, found: Iterable[int], through: int | None) -> str:
        """What to do about an undeclared snapshot; ``found`` are the LSNs of all snapshots of which a row was seen.

        >>> remedy = Resnapshots(["t"], [90], SnapshotRuns(1)).remedy([10, 90, 120], 95)
        >>> "go on with --snapshot-again 90,120 and" in remedy
        True
        """
        seen, anew = {*found}, f"Otherwise: {ANEW[0].lower()}{ANEW[1:]}"
        untold = self.undeclared(seen, through)
        late = self.late(seen, through)
        if late and not untold:
            said = ",".join(map(str, sorted({*late, *self.told})))
            return f"If these logs were captured with --snapshot-again {said}, go on giving it. {anew}"
        known = [lsn for lsn in self.told if lsn <= (through or 0) or lsn in seen]
        said, where = ",".join(map(str, sorted({*known, *untold}))), ""
        if not untold:
            said, where = "LSN", (
                " (source.lsn of its rows, of which none was seen yet: once it is complete, start this again, and it "
                "is named here)"
            )
        return (
            "If the connector's slot was lost, and it made a new one and took this snapshot on it first of all, and "
            f"was not interrupted: go on with --snapshot-again {said} and --before from-state{where}. {anew}"
        )

    # -- memory

    def export(self) -> dict[str, Any]:
        """What must survive a restart. Rows and notifications of an unreleased resnapshot are read again instead."""
        runs = min(self.done, self._completed)
        return {"told": list(self.told), "runs": runs, "notified": self._runs.forgotten_to}

    def restore(self, plain: Mapping[str, Any], behind_first: int) -> None:
        """Take over what :meth:`export` gave; the first snapshot's notifications end before ``behind_first``."""
        if self._runs.completed:
            self._runs.resume(1 + plain["runs"], max(plain["notified"], behind_first))
        self._judged = plain["runs"]
