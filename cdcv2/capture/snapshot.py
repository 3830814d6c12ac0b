"""The runs of a connector's snapshot, as its notifications report them: one set of rules for every way to capture.

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

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from cdcv2.protocol.log import Place

#: What to do about a snapshot whose seam with the stream is not exact.
ANEW = (
    "A snapshot that was begun twice cannot be joined to the stream exactly: stop the connector, drop its replication "
    "slot and its topics, remove the output and the memory of this capture, and begin anew"
)
#: What to do about a table that the connector never reported.
UNKNOWN = (
    "If the connector does not capture this table, leave it out (--tables). If it was empty when the snapshot was "
    "taken, or did not exist yet, say so (--empty), which stays marked beside the logs. On a remap, do either with "
    "another remap and other logs. Otherwise begin anew with a snapshot of it: the connector's table.include.list, its "
    "publication, a new slot and new topics"
)

#: What to do about a scan of a table that states no number of rows that can be believed.
RESCAN = (
    "So nothing shows whether the snapshot is whole: stop the connector, mend what its log names, drop its replication "
    "slot and its topics, remove the output and the memory of this capture, and begin anew with a new snapshot"
)
#: The ``status`` of a scan that went through the table; a connector may leave it out.
SCANNED = frozenset({"SUCCEEDED", "EMPTY"})

#: What to do about a table that was declared to be empty, and was not.
NOT_EMPTY = (
    "Leave it out of --empty, and capture into empty logs; on a remap, with another remap, too"
)


class SnapshotRun(NamedTuple):
    """A completed run: the rows of each table that it scanned (None: see ``wrong``).

    ``behind`` is the offset behind its last notification. ``skipped``: there was no snapshot, so no table has rows.
    ``wrong`` has, of a table without a number that can be believed, what is wrong with its scan.
    """

    scanned: Mapping[str, int | None]
    behind: int
    skipped: bool = False
    wrong: Mapping[str, str] = MappingProxyType({})

    def names(self, table: str) -> bool:
        """Whether the run covered the table."""
        return self.skipped or table in self.scanned

    def rows(self, table: str) -> int | None:
        """How many rows of the table there are; None: unknown.

        >>> run = SnapshotRun({"a": 2, "b": None}, 4)
        >>> run.rows("a"), run.rows("b"), run.rows("c"), SnapshotRun({}, 1, skipped=True).rows("c")
        (2, None, None, 0)
        """
        return 0 if self.skipped else self.scanned.get(table)


class SnapshotRuns:
    """The runs, in the order of their topic. ``declared`` is the number of resnapshots that the user has declared.

    Tables of ``empty`` have no rows in the first one, if it does not name them.

    >>> runs = SnapshotRuns()
    >>> for offset, (kind, table, rows) in enumerate([("STARTED", None, None), ("TABLE_SCAN_COMPLETED", "t", 2)]):
    ...     runs.notification(kind, table, rows, offset)
    >>> runs.completed, runs.is_open
    (0, True)
    >>> runs.notification("STARTED", None, None, 2); runs.contradiction[:57]
    'the connector began its snapshot twice (notification STAR'

    Cost: constant for each notification. Memory: the counts of the runs that are not forgotten.
    """

    def __init__(self, declared: int = 0, empty: Iterable[str] = ()) -> None:
        self._allowed, self._empty = 1 + declared, frozenset(empty)
        #: Why no row of the next run can be released, or None.
        self.contradiction: str | None = None
        #: Whether the reason is a snapshot that was not declared.
        self.another = False
        #: How many runs are complete.
        self.completed = 0
        #: Whether a run has started and is not complete.
        self.is_open = False
        #: Whether there was any notification.
        self.heard = False
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
        self._next, self.heard = offset + 1, True
        if kind == "STARTED":
            self._started(offset)
        elif kind == "ABORTED":
            self._contradict(f"the connector aborted its snapshot (notification ABORTED at offset {offset})")
        elif kind == "TABLE_SCAN_COMPLETED" and table is not None and self._expects:
            self.is_open = True
            self._scan(table, rows, offset, status)
        elif kind == "COMPLETED" and self._expects:
            self._complete(SnapshotRun(self._scanned, self._next, wrong=self._wrong))
        elif kind == "SKIPPED" and self._expects:
            self._complete(SnapshotRun(self._scanned, self._next, skipped=not self.is_open, wrong=self._wrong))

    def _scan(self, table: str, rows: int | None, offset: int, status: str | None) -> None:
        """A scan of a table was reported, with this number of rows. The same number may be reported several times."""
        wrong, before = None, self._scanned.get(table)
        if status is not None and status not in SCANNED:
            wrong = f"the connector did not scan {table} to its end (the notification at offset {offset} has the " \
                    f"status {status})"
        elif rows is None:
            wrong = f"the notification of the scan of {table}, at offset {offset}, does not say how many rows it has " \
                    "(total_rows_scanned)"
        elif before is not None and before != rows:
            wrong = f"two notifications say that {table} was scanned, one with {before} rows and one, at offset " \
                    f"{offset}, with {rows}"
        if wrong is not None:
            self._wrong.setdefault(table, wrong)
        self._scanned[table] = None if table in self._wrong else rows

    @property
    def _expects(self) -> bool:
        """Whether a notification may belong to a run; the STARTED of the first run may be missing."""
        return self.is_open or self.completed == 0

    def _started(self, offset: int) -> None:
        if self.is_open:
            self._contradict(
                f"the connector began its snapshot twice (notification STARTED at offset {offset}, before COMPLETED): "
                "its slot was there when it began again, so transactions may be both in the snapshot and in the stream"
            )
        elif self.completed == self._allowed:
            self.another = self.contradiction is None
            self._contradict(
                f"the connector has begun a second snapshot (notification STARTED after COMPLETED, at offset {offset})"
            )
        self.is_open, self._scanned, self._wrong = True, {}, {}

    def _complete(self, run: SnapshotRun) -> None:
        if self.completed == 0:
            self.assumed = self._empty - run.scanned.keys()
            run = run._replace(scanned={**dict.fromkeys(self._empty, 0), **run.scanned})
        self._runs[self.completed] = run
        self.completed, self.is_open, self._scanned, self._wrong = self.completed + 1, False, {}, {}

    def _contradict(self, reason: str) -> None:
        if self.contradiction is None:
            self.contradiction = reason

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


def check_rows(run: SnapshotRun, rows: Mapping[str, int], tables: Iterable[str]) -> tuple[str, str] | None:
    """Why these rows, by table, can never be those of the run, and what to do; None: they are, or some are missing.

    >>> run = SnapshotRun({"a": 1}, 3)
    >>> check_rows(run, {"a": 1}, ["a"]), check_rows(run, {"a": 2}, ["a"])[0]
    (None, 'there are 2 snapshot rows of a, but its notification says 1')

    Source: a notification counts all rows of its table, and no record has two offsets.
    """
    for table in tables:
        said, held = run.rows(table), rows.get(table, 0)
        if said is None:
            unknown = f"the notifications do not say how many rows of {table} the snapshot scanned"
            return (run.wrong[table], RESCAN) if table in run.wrong else (unknown, UNKNOWN)
        if held > said:
            return too_many(table, held, said)
    return None


def too_many(table: str, held: int, said: int) -> tuple[str, str]:
    """Reason and remedy: the snapshot has more rows of a table than its notification states.

    >>> too_many("a", 2, 1)[0]
    'there are 2 snapshot rows of a, but its notification says 1'
    """
    return f"there are {held} snapshot rows of {table}, but its notification says {said}", ANEW


def not_empty(run: SnapshotRun | None, rows: Mapping[str, int], empty: Iterable[str]) -> tuple[str, str] | None:
    """Why a table that the user declared empty was not, and what to do; None: nothing contradicts the user.

    >>> not_empty(SnapshotRun({"a": 2}, 3), {}, ["a"])[0]
    'a was not empty at the snapshot, as --empty states: its notification counts 2 rows'
    >>> not_empty(None, {"a": 1}, ["a", "b"])[0], not_empty(None, {}, ["b"])
    ('a was not empty at the snapshot, as --empty states: there are 1 rows of it', None)

    Source: a notification counts all rows of its table.
    """
    for table in sorted(empty):
        counted, held = 0 if run is None else run.rows(table), rows.get(table, 0)
        if counted or held:
            shown = f"its notification counts {counted} rows" if counted else f"there are {held} rows of it"
            return f"{table} was not empty at the snapshot, as --empty states: {shown}", NOT_EMPTY
    return None


def lacking(run: SnapshotRun, rows: Mapping[str, int], tables: Iterable[str]) -> dict[str, int]:
    """How many rows of the run each of these tables still lacks.

    >>> lacking(SnapshotRun({"a": 3, "b": 1}, 4), {"a": 1, "b": 1}, ["a", "b"])
    {'a': 2}
    """
    lacks = {table: (run.rows(table) or 0) - rows.get(table, 0) for table in tables}
    return {table: number for table, number in lacks.items() if number > 0}


class SnapshotRows:
    """Which snapshot rows are duplicates after the first snapshot's release, and which are rows that the logs lack.

    A row stands at one position. Where that was read before the row is a duplicate: each partition is read in order, so
    the last position of a row is enough to know it. Rows at other positions are counted, and there are as many as were
    released; one more was not, so the logs lack it. ``released_transactions`` is what the logs hold where an earlier
    run released it: for each table the snapshot's LSN and how many rows; None: that is not known, and no row is judged.

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
        at, number = self._released.get(table, (lsn, 0))
        if at != lsn or self._rows.get(table, 0) + rows > number:
            return True
        self.read(table, place, offset, rows)
        return False

    def export(self) -> dict[str, Any] | None:
        """What must survive, as plain JSON; None: no row is judged."""
        if self._released is None:
            return None
        read: dict[str, dict[str, int]] = {}
        for (topic, part), offset in sorted(self._read.items()):
            read.setdefault(topic, {})[str(part)] = offset
        released = {table: list(of) for table, of in self._released.items()}
        return {"released": released, "rows": dict(self._rows), "read": read}

    @classmethod
    def restore(cls, plain: Mapping[str, Any] | None) -> SnapshotRows:
        """As it was at :meth:`export`."""
        rows = cls(None if plain is None else {table: (lsn, n) for table, (lsn, n) in plain["released"].items()})
        if plain is not None:
            rows._rows = dict(plain["rows"])
            rows._read = {(topic, int(at)): offset for topic, of in plain["read"].items() for at, offset in of.items()}
        return rows
