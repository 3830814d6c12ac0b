"""Keeps the runs of a connector's snapshot, as its notifications report them; ``run_rules`` judges them.

A run is ``STARTED ... COMPLETED`` in the notification topic, and states for each table how many rows it scanned. Only
the first run of a slot has an exact seam with the stream: it is read from the snapshot that the slot exported. So:

- A run that is aborted, or started a second time before it is completed, is a stop: the slot existed when the second
  run started, and transactions may be in that snapshot and in the stream.
- A run that starts after a completed one is a second snapshot: a stop, unless the user has declared it.
- A table that the completed run does not name is *unknown*. It counts as a table of 0 rows only if the user states so.
- SKIPPED is reported at each start of the connector that takes no snapshot. It ends a run whose COMPLETED was lost with
  a crash of the connector. As the very first notification it means that there is no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdcv2.capture.snapshot import run_rules
from cdcv2.capture.snapshot.completed_run import SnapshotRun
from cdcv2.capture.transaction_contradictions import Contradiction


class SnapshotRuns:
    """The runs, in the order of their topic. ``declared`` is the number of resnapshots that the user has declared.

    Tables of ``empty`` have no rows in the first one, if it does not name them.

    >>> runs = SnapshotRuns()
    >>> for offset, (kind, table, rows) in enumerate([("STARTED", None, None), ("TABLE_SCAN_COMPLETED", "t", 2)]):
    ...     runs.notification(kind, table, rows, offset)
    >>> runs.completed, runs.is_open
    (0, True)
    >>> runs.notification("STARTED", None, None, 2); runs.contradiction.reason[:57]
    'the connector began its snapshot twice (notification STAR'

    Cost: constant for each notification. Memory: the counts of the runs that are not forgotten.
    """

    def __init__(self, declared: int = 0, empty: Iterable[str] = ()) -> None:
        self._allowed, self._empty = 1 + declared, frozenset(empty)
        #: Why no row of the next run can be released, or None; what was found first counts.
        self.contradiction: Contradiction | None = None
        #: How many runs are complete.
        self.completed = 0
        #: Whether a run has started and is not complete.
        self.is_open = False
        #: Whether there was any notification.
        self.received = False
        #: Tables of ``empty`` that the first run does not name: only the user states that they had no rows.
        self.assumed = self._empty
        self._scanned: dict[str, int | None] = {}
        self._wrong: dict[str, str] = {}
        self._runs: dict[int, SnapshotRun] = {}
        self._next = 0
        # From where the notifications of the runs that are not forgotten must be read.
        self._from = 0

    def notification(
        self, kind: str, table: str | None, rows: int | None, offset: int, status: str | None = None
    ) -> None:
        """The next notification, with its offset; one that was taken before is ignored."""
        if offset < self._next:
            return
        self._next, self.received = offset + 1, True
        if kind == "STARTED":
            self._started(offset)
        elif kind == "ABORTED":
            self._contradict(run_rules.aborted_run(offset))
        elif not run_rules.expects(self.completed, is_open=self.is_open):
            return
        elif kind == "TABLE_SCAN_COMPLETED" and table is not None:
            self.is_open = True
            self._scan(table, rows, offset, status)
        else:
            run = run_rules.run_ended_by(kind, self._scanned, self._next, self._wrong, is_open=self.is_open)
            if run is not None:
                self._complete(run)

    def _scan(self, table: str, rows: int | None, offset: int, status: str | None) -> None:
        """A scan of a table was reported, with this number of rows. The same number may be reported several times."""
        wrong = run_rules.wrong_scan(table, rows, self._scanned.get(table), offset, status)
        if wrong is not None:
            self._wrong.setdefault(table, wrong)
        self._scanned[table] = None if table in self._wrong else rows

    def _started(self, offset: int) -> None:
        self._contradict(run_rules.second_run(offset, self.completed, self._allowed, is_open=self.is_open))
        self.is_open, self._scanned, self._wrong = True, {}, {}

    def _complete(self, run: SnapshotRun) -> None:
        if self.completed == 0:
            self.assumed = self._empty - run.scanned.keys()
            run = run_rules.with_empty(run, self._empty)
        self._runs[self.completed] = run
        self.completed, self.is_open, self._scanned, self._wrong = self.completed + 1, False, {}, {}

    def _contradict(self, found: Contradiction | None) -> None:
        if self.contradiction is None:
            self.contradiction = found

    def run(self, number: int) -> SnapshotRun | None:
        """The run of this number, from 0; None: it is not complete, or is forgotten."""
        return self._runs.get(number)

    def forget(self, number: int) -> None:
        """Forget this run and those before it: their snapshots are released."""
        for known in [known for known in self._runs if known <= number]:
            self._from = max(self._from, self._runs.pop(known).behind)

    @property
    def unreleased_from(self) -> int | None:
        """From which offset on the notifications must be read again; None: from where they have been read to."""
        return self._from if self._runs or self.is_open else None

    @property
    def forgotten_to(self) -> int:
        """The offset behind the last notification of the runs that are forgotten."""
        return self._from

    def resume(self, completed: int, offset: int) -> None:
        """So many runs are complete and released; their notifications end before ``offset``."""
        self.completed, self._next, self._from = completed, offset, offset
