"""Snapshots that the connector took anew, of which the user has told: each becomes the difference to the state.

A connector that has lost its slot takes a snapshot again. What was committed between the loss and the new slot is in
no record; but it is in that snapshot, so the difference between what the logs hold and what the snapshot says, at the
snapshot's LSN, heals them. Two things nothing in the records says, so they are told:

- *which LSN it has*. Partitions come in any order, so a transaction from behind the snapshot may be whole before
  anything of the snapshot is read, and would be released on a state that lacks what was lost. Once the LSN is told,
  nothing above it is released before it;
- *that its slot was new*. On a slot that was there, the snapshot is taken some time after its LSN is: transactions
  are both in it and in the stream, and those times would be no cut.

It is *whole* when its run of notifications is complete, each table has as many rows as that says, and every partition
was read to where it ended at some moment after that. Then all that there ever will be of what was committed up to its
LSN is read, so what is not whole of it never will be: it is superseded, by a rule that no order of reading changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cdcv2.sources.snapshot import ANEW, Place

WRONGLY_TOLD = "Give --snapshot-again the LSN of a snapshot: source.lsn of its rows, which stops of the capture name"
_INSIDE = "took a snapshot anew and did not complete it, so its slot was there when it took the next"


class Again:
    """What is known of the told snapshots; fed by ``Commits``, judges counts and never sees a row.

    ``told`` are their LSNs, of all that the connector took after its first one, in the order of their runs.
    ``contradiction`` is the reason for which the next one can never be whole, or None.

    >>> again = Again(["t"], [90])
    >>> for at, (kind, table, rows) in enumerate([("STARTED", None, None), ("TABLE_SCAN_COMPLETED", "t", 1)]):
    ...     again.notified(kind, table, rows, at)
    >>> again.rows_seen("t", 90, 1), again.waits()
    (True, 'the snapshot at 90 has not been completed (no notification COMPLETED yet)')
    >>> again.notified("COMPLETED", None, None, 2); again.ends_read({("t", 0): 1}); again.whole()
    False
    >>> again.consumed(("t", 0), 1); again.whole()
    True
    """

    def __init__(self, tables: Iterable[str], told: Iterable[int]) -> None:
        self._tables, self.told = tuple(tables), tuple(told)
        self.contradiction: str | None = None
        #: whether it is that of a snapshot nobody has told of
        self.another = False
        # How many of the told are released.
        self._done = 0
        # Runs that are complete, by their number among the told.
        self._runs: dict[int, dict[str, int | None]] = {}
        self._next_run = 0
        self._behind: dict[int, int] = {}
        self._run: dict[str, int | None] | None = None
        self._next_notification = self._from = 0
        self._rows: dict[int, dict[str, int]] = {}
        # What is to be read yet up to the ends that were read when so many runs were complete.
        self._unread: dict[Place, int] = {}
        self._ends_of = 0

    @property
    def pending(self) -> int | None:
        """The LSN of the next one to be released."""
        return self.told[self._done] if self._done < len(self.told) else None

    def released_through(self, through: int) -> None:
        """All that was told up to this LSN is in the logs."""
        while self.pending is not None and self.pending <= through:
            self._rows.pop(self.pending, None)
            self._done += 1
        self._forget()

    def _forget(self) -> None:
        for number in [number for number in self._runs if number < self._done]:
            del self._runs[number]
            self._from = max(self._from, self._behind.pop(number))

    @property
    def unreleased_from(self) -> int | None:
        """From which offset on the notifications must be read again; None: they need not."""
        return self._from if self._run is not None or self._runs else None

    # -- facts

    def notified(self, kind: str, table: str | None, rows: int | None, offset: int) -> None:
        """A notification behind those of the first snapshot, in the order of its topic."""
        if offset < self._next_notification:
            return
        self._next_notification = offset + 1
        self._from = self._from or offset
        if kind in ("STARTED", "SKIPPED", "ABORTED") and self._run is not None:
            self._contradict(f"the connector {_INSIDE} (notification {kind} after STARTED)")
        elif kind == "STARTED":
            if self._next_run == len(self.told):
                self.another = self.contradiction is None
                self._contradict("the connector has begun another snapshot (notification STARTED after COMPLETED)")
            self._run = {}
        elif kind == "TABLE_SCAN_COMPLETED" and table is not None and self._run is not None:
            self._run[table] = rows
        elif kind == "COMPLETED" and self._run is not None:
            if all(self._run.get(table) == 0 for table in self._tables):
                self._contradict("the connector took a snapshot anew without a row, so nothing says where it belongs")
            self._runs[self._next_run], self._behind[self._next_run] = self._run, offset + 1
            self._next_run, self._run = self._next_run + 1, None
            self._forget()

    def rows_seen(self, table: str, lsn: int, distinct: int) -> bool:
        """There are ``distinct`` rows of the table in the snapshot at ``lsn``. False: nobody has told of that one."""
        if lsn not in self.told[self._done:]:
            return lsn in self.told
        self._rows.setdefault(lsn, {})[table] = distinct
        return True

    def ends_read(self, ends: Mapping[Place, int]) -> None:
        """Where all partitions ended at some moment after its run was complete."""
        if self.wants_ends:
            self._unread = {place: end for place, end in ends.items() if end > 0}
            self._ends_of = self._next_run

    def consumed(self, place: Place, following: int) -> None:
        """The partition has been read up to the offset ``following``, exclusive."""
        if self._unread.get(place, following + 1) <= following:
            del self._unread[place]

    # -- decisions

    @property
    def wants_ends(self) -> bool:
        """Whether somebody should read the end positions now, and call ``ends_read``."""
        return self._next_run > max(self._done, self._ends_of)

    def whole(self) -> bool:
        """Whether all of the next one is there, and all before it; finds contradictions on the way."""
        run = self._runs.get(self._done)
        if run is None or self.pending is None or self.contradiction is not None:
            return False
        full = [self._table_is_whole(table, run) for table in self._tables]
        return all(full) and self._done < self._ends_of and not self._unread and self.contradiction is None

    def _table_is_whole(self, table: str, run: Mapping[str, int | None]) -> bool:
        said, held = run.get(table), self._held().get(table, 0)
        if said is None:
            self._contradict(f"no notification says how many rows of {table} the snapshot at {self.pending} has")
            return False
        if held > said:
            self._contradict(
                f"there are {held} rows of {table} of the snapshot at {self.pending}, but its notification says {said}"
            )
        return held == said

    def _held(self) -> dict[str, int]:
        return self._rows.get(self.pending, {}) if self.pending is not None else {}

    def missing(self) -> dict[str, int]:
        """How many rows each table lacks, as far as the notifications tell."""
        run = self._runs.get(self._done, {})
        lacks = {table: (run.get(table) or 0) - self._held().get(table, 0) for table in self._tables}
        return {table: number for table, number in lacks.items() if number > 0}

    def waits(self) -> str:
        """What the next one waits for, as a sentence."""
        if self.contradiction is not None:
            return self.contradiction
        if self._done not in self._runs:
            begun = self._run is not None or self._held()
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

    def untold(self, found: Iterable[int], through: int | None) -> list[int]:
        """Which of these LSNs of snapshots are of some that nobody has told of, and may be.

        The logs are stated up to ``through``: what is not above it is too late. The least one is the first snapshot's.
        """
        seen = {*found}
        least = min(seen, default=0) if through is None else through
        return sorted(lsn for lsn in seen.difference(self.told) if lsn > least)

    def remedy(self, found: Iterable[int], through: int | None) -> str:
        """What to do about a snapshot nobody has told of; ``found`` are the LSNs of all whose rows were seen.

        >>> "go on with --snapshot-again 90,120 and" in Again(["t"], [90]).remedy([10, 90, 120], 95)
        True
        """
        seen, anew = {*found}, f"Otherwise: {ANEW[0].lower()}{ANEW[1:]}"
        untold = self.untold(seen, through)
        late = [lsn for lsn in seen.difference(self.told) if min(seen) < lsn <= (through or 0)]
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
        """What must be remembered: not the rows nor the notifications of an unreleased one, which are read again."""
        return {"told": list(self.told), "runs": min(self._done, self._next_run), "notified": self._from}

    def remember(self, plain: Mapping[str, Any], behind_first: int) -> None:
        """Take over what :meth:`export` gave; the first snapshot's notifications end before ``behind_first``."""
        self._next_run = plain["runs"]
        self._from = self._next_notification = max(plain["notified"], behind_first)
