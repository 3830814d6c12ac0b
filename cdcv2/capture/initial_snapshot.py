"""When is the initial snapshot whole?

A snapshot is a set of rows with one LSN, spread over the topics of the tables. No row has their number. Two witnesses
can show that all of them are read:

- Debezium's notification topic: the run ``STARTED ... COMPLETED`` states for each table how many rows it scanned
  (:mod:`cdcv2.capture.snapshot`). The snapshot is whole when each table has exactly that many.
- Without it: the row marked ``last`` has been read, and then each partition of the tables up to where it ended at
  some moment after that, or up to its first streamed row. (A partition holds records in the order in which they were
  sent.) Such a snapshot is *assumed* whole, and its release states so.

A second snapshot has no exact seam with the stream: rows may be in both. So it is a clean stop, and is never merged.
The exception is a resnapshot on a new slot, which the user declares (:mod:`cdcv2.capture.resnapshots`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdcv2.capture.coverage import indispensable, left_out, unknown
from cdcv2.capture.snapshot import ANEW, UNKNOWN, SnapshotRows, SnapshotRuns, check_rows, lacking, not_empty
from cdcv2.protocol.log import Place

#: What to do about a table that has no topic: a dump may lack the topic.
NO_TOPIC = f"If a dump is captured, and its topic was not dumped: dump that whole, too. {UNKNOWN}"


#: What the connector writes into the first and the last row of a table, and of all; a table's only row is its last.
MARKERS = {
    "first": "first", "first_in_data_collection": "first", "last": "last", "last_in_data_collection": "last",
}


class Snapshot:
    """The state of the initial snapshot; fed by ``CommitTransactions``, judges counts and never sees a row.

    ``runs`` are those of the connector's notifications; None: there is no topic of notifications. ``contradiction`` is
    the reason why the snapshot can never be whole, or None.
    """

    def __init__(
        self, tables: Iterable[str], *, wanted: bool, runs: SnapshotRuns | None,
        held: Mapping[str, tuple[int, int]] | None = None, empty: Iterable[str] = (), leaves_out: bool = True,
    ) -> None:
        self._tables, self._leaves_out = tuple(tables), leaves_out
        # Where no run names them: the tables that have a topic, or are known to be empty. Those with rows have one.
        self._empty = frozenset(empty)
        self._known = set(self._empty)
        self._runs = runs
        #: its rows by their positions; ``held`` are those in the logs, if an earlier run released them
        self.positions = SnapshotRows(held)
        #: its rows are released, or the recipe has no snapshot: a known row is then a duplicate, a new one a stop
        self.released = not wanted
        #: the LSN of its rows: what a row without a previous commit counts from; None while unknown
        self.lsn: int | None = None if wanted else 0
        self.contradiction: str | None = None
        #: what to do about it
        self.remedy = ANEW
        #: the tables that the connector never reported; known once it is whole
        self.uncovered = frozenset[str]()
        #: whether the contradiction is that there are two snapshots
        self.another = False
        self._rows: dict[str, int] = {}
        # (topic, which row of its table) -> where that is.
        self._marks: dict[tuple[object, str], object] = {}
        self._last_seen = False
        self._unread: dict[Place, int] | None = None
        self._passed: set[Place] = set()

    # -- facts

    def rows_seen(self, table: str, lsn: int, distinct: int) -> None:
        """There are ``distinct`` unreleased snapshot rows of the table now; setting it again is harmless."""
        if self.lsn is None:
            self.lsn = lsn
        elif self.lsn != lsn:
            self.another = self.contradiction is None
            self._contradict(f"the topics hold rows of two snapshots, with the LSNs {self.lsn} and {lsn}")
            return
        self._rows[table] = distinct

    def marked(self, marker: str, position: Sequence[object]) -> None:
        """A row carries one of :data:`MARKERS`. Two different rows of a table with one marker are of two snapshots.

        ``position`` begins with the topic, of which each table has its own.
        """
        which = MARKERS.get(marker)
        if which is None:
            return
        self._last_seen |= marker == "last"
        seen = self._marks.setdefault((position[0], which), position)
        if seen != position:
            self._contradict(f"the topics hold two snapshots: both {seen} and {position} are marked {marker!r}")

    def ends_read(self, ends: Mapping[Place, int], tables: Iterable[str]) -> None:
        """Where the partitions of the tables ended at some moment after ``last`` was read; ``tables`` have a topic."""
        if self._unread is None:
            self._known.update(tables)
            self._unread = {place: end for place, end in ends.items() if end > 0 and place not in self._passed}
            if self.released:
                self.uncovered = self._without_topic()

    def consumed(self, place: Place, following: int) -> None:
        """The partition has been read up to the offset ``following``, exclusive."""
        if self._unread and self._unread.get(place, following + 1) <= following:
            del self._unread[place]

    def passed(self, place: Place) -> None:
        """The partition showed a streamed row: every snapshot row in it has been read."""
        self._passed.add(place)
        if self._unread:
            self._unread.pop(place, None)

    # -- decisions

    @property
    def needs_ends(self) -> bool:
        """Whether the caller should read the end positions now, and call ``ends_read``."""
        if self.released or self._unread is not None:
            return False
        run = self._runs.run(0) if self._runs is not None else None
        return self._last_seen if self._runs is None else run is not None and run.skipped

    @property
    def topics_known(self) -> bool:
        """Whether ``ends_read`` was called."""
        return self._unread is not None

    @property
    def assumed(self) -> bool:
        """Whether it only counts as complete, because there are no notifications."""
        return self._runs is None

    @property
    def assumed_empty(self) -> frozenset[str]:
        """The tables that had no rows only by the user's declaration."""
        return self._empty if self._runs is None else self._runs.assumed

    @property
    def known_empty(self) -> bool:
        """Whether a run was seen to its end that scanned no rows at all."""
        run = self._runs.run(0) if self._runs is not None else None
        said = run is not None and (run.skipped or bool(run.scanned))
        return said and run is not None and not any(run.rows(table) for table in self._tables)

    def whole(self) -> bool:
        """Whether every row of it is there; finds contradictions on the way."""
        if self.contradiction is not None:
            return False
        run = None if self._runs is None else self._runs.run(0)
        wrong = not_empty(run, self._rows, self._empty)
        if wrong is not None:
            self._contradict(*wrong)
            return False
        if self._runs is None:
            said = (
                "nothing is known of {}: it has no topic, and without notifications nothing says that the snapshot "
                "covered it"
            )
            return self._unread == {} and self._covers(self._without_topic(), said, NO_TOPIC)
        if run is None:
            return False
        left = left_out(run, self._rows, self._tables, self._known if self.topics_known else None)
        wrong = check_rows(run, self._rows, [table for table in self._tables if table not in left])
        if wrong is not None:
            self._contradict(*wrong)
        said = "the notifications do not say how many rows of {} the snapshot scanned"
        return wrong is None and self._covers(left, said, UNKNOWN, skipped=run.skipped) and not self.missing()

    def _without_topic(self) -> frozenset[str]:
        return unknown(self._tables, self._known)

    def _covers(self, left: frozenset[str], said: str, remedy: str, *, skipped: bool = False) -> bool:
        """Whether the others can go on without these tables."""
        needed = indispensable(left, self._tables, self._tables if self._leaves_out else (), skipped=skipped)
        if needed is not None:
            self._contradict(said.format(needed), remedy)
            return False
        self.uncovered = left
        return True

    def missing(self) -> dict[str, int]:
        """How many rows each table lacks, as far as the notifications show."""
        run = self._runs.run(0) if self._runs is not None else None
        return {} if run is None else lacking(run, self._rows, self._tables)

    def waits(self) -> str:
        """What it waits for, as a sentence."""
        if self.contradiction is not None:
            return self.contradiction
        if self._runs is not None:
            if self._runs.run(0) is None:
                return "the initial snapshot has not been completed (no notification COMPLETED yet)"
            lacks = ", ".join(f"{number} rows of {table}" for table, number in self.missing().items())
            return f"the initial snapshot lacks {lacks or 'nothing'}"
        if self._unread is None:
            return (
                "the row that is marked as the last of the initial snapshot has not been seen. It is the last one that "
                "the connector read: in the topic of another table, unless all of its tables are captured, and nowhere "
                "if they were all empty. Name the connector's notification topic (--notifications), or capture all of "
                "its tables"
            )
        places = ", ".join(f"{topic}[{partition}] to {end}" for (topic, partition), end in self._unread.items())
        return f"the initial snapshot may have more rows in what is still to be read: {places}"

    def release(self) -> int:
        """Its rows are durable and stated; returns its LSN (0 for an empty one)."""
        self.released = True
        self.lsn = self.lsn or 0
        self.positions.release(self.lsn, self._rows)
        self._rows, self._unread = {}, None
        return self.lsn

    def _contradict(self, reason: str, remedy: str = ANEW) -> None:
        if self.contradiction is None:
            self.contradiction, self.remedy = reason, remedy

    # -- memory

    def export(self) -> dict[str, Any]:
        """What must be remembered: not the rows nor the notifications of an unreleased one, which are read again."""
        if not self.released:
            return {"released": False, "lsn": None, "completed": False}
        seen = self._runs is not None and self._runs.completed > 0
        notified = self._runs.forgotten_to if self._runs is not None else 0
        return {"released": True, "lsn": self.lsn, "completed": seen, "notified": notified,
                "rows": self.positions.export()}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Take over what :meth:`export` gave."""
        self.released, self.lsn = plain["released"], plain["lsn"]
        if self.released:
            self.positions = SnapshotRows.restore(plain.get("rows"))
        if self._runs is not None and plain["completed"]:
            self._runs.resume(1, plain.get("notified", 0))
