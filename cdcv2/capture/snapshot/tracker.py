"""Keeps what is known of snapshots, and asks ``rules``, which judges: which one is next, is it whole, what stops it.

The file is long because it is one state: a row, a notification or the end of a partition may complete the snapshot that
is next, contradict one that is released, or show another one, and each of these changes what the rules are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cdcv2.capture.coverage import unknown
from cdcv2.capture.memory_format import ResnapshotsMemory, SnapshotMemory
from cdcv2.capture.snapshot import rules, run_rules
from cdcv2.capture.snapshot.extent import SnapshotExtent
from cdcv2.capture.snapshot.positions import SnapshotRows
from cdcv2.capture.snapshot.rules import SnapshotStop
from cdcv2.capture.snapshot.runs import SnapshotRuns
from cdcv2.capture.transaction_contradictions import Commit, Contradiction
from cdcv2.protocol.log import Place, Position


class SnapshotTracker:
    """The snapshots of one connector; it has counts judged, and sees no row. Facts come in any order but notifications.

    - ``requested``: the history begins with a snapshot. ``notified``: there are notifications.
    - ``declared``: the LSNs of all snapshots that the connector took after its first one.
    - ``held``: the rows of the first snapshot in the logs, if an earlier run released it: see :class:`SnapshotRows`.
    - ``empty``: tables that were empty at the first snapshot, as the user states.
    - ``may``: tables that the others can go on without, if no run names them; None: all of them.
    - ``known``: the tables known otherwise, by their topics, records, or logs; None: :meth:`ends_read` brings them.

    >>> tracker = SnapshotTracker(["t"], declared=[90])
    >>> for at, note in enumerate([("STARTED", None, None), ("TABLE_SCAN_COMPLETED", "t", 1)]):
    ...     stops = [*tracker.notification(*note, at), *tracker.rows_seen("t", 70, 1)]
    >>> tracker.waits(), tracker.whole()
    ('the initial snapshot has not been completed (no notification COMPLETED yet)', False)
    >>> [*tracker.notification("COMPLETED", None, None, 2)], tracker.whole(), tracker.release(), tracker.waits()
    ([], True, 70, 'the snapshot at 90 has not been begun (nothing of it is in the topics)')

    Cost: constant for each fact, linear in the tables for each question. Memory: numbers for each table and partition.
    """

    def __init__(
        self, tables: Iterable[str], *, requested: bool = True, notified: bool = True, declared: Iterable[int] = (),
        held: Mapping[str, tuple[int, int]] | None = None, empty: Iterable[str] = (), may: Iterable[str] | None = None,
        known: Iterable[str] | None = None,
    ) -> None:
        self._tables, self._requested, self._notified = tuple(tables), requested, notified
        self._may = frozenset(self._tables if may is None else may)
        self._empty, self.declared = frozenset(empty), tuple(declared)
        self._runs = SnapshotRuns(declared=len(self.declared), empty=self._empty)
        #: The first snapshot is released, or the recipe has none: a known row is then a duplicate, a new one a stop.
        self.released = not requested
        #: The LSN of the first one's rows: what a row without a previous commit counts from; None while unknown.
        self.lsn: int | None = None if requested else 0
        #: The tables that the connector never reported; known once :meth:`counts` are.
        self.uncovered = frozenset[str]()
        #: The LSNs of all snapshots of which a row was seen.
        self.seen: set[int] = set()
        #: Whether it is known which tables have a topic.
        self.topics_known = known is not None
        #: Whether all topics were searched for the rows of undeclared snapshots.
        self.searched = False
        # How many declared resnapshots are released.
        self._done = 0
        self._positions = SnapshotRows(held)
        self._rows: dict[int, dict[str, int]] = {}
        # Why the first one (0), or a later one (1), can never be whole.
        self._wrong: dict[int, SnapshotStop] = {}
        # The tables that have a topic, or are known to be empty. Those with rows have one.
        self._known = {*self._empty, *(known or ())}
        self._extent = SnapshotExtent()
        # The END with the least LSN of all that were read.
        self._earliest: Commit[int] | None = None
        # Whether the LSN of the released snapshot was read from the topics, because the state of the capture is lost.
        self._lsn_is_read = False

    # -- which one is next

    @property
    def pending(self) -> int | None:
        """The LSN of the next resnapshot to be released."""
        return self.declared[self._done] if self._done < len(self.declared) else None

    @property
    def _number(self) -> int:
        """That of the next one to be released."""
        return 1 + self._done if self.released else 0

    @property
    def _ended(self) -> int:
        """How many snapshots have ended, as far as the witnesses show."""
        return rules.ended(self._runs.completed, notified=self._notified, last_seen=self._extent.last_seen)

    def _rows_of(self, number: int) -> dict[str, int]:
        lsn = self.pending if number else self.lsn
        return {} if lsn is None else self._rows.get(lsn, {})

    # -- facts

    def notification(
        self, kind: str, table: str | None, rows: int | None, offset: int, status: str | None = None
    ) -> list[SnapshotStop]:
        """The next notification, with its offset; one that was taken before is ignored.

        As every fact of a snapshot, it returns what stops the capture now.
        """
        if not self._requested:
            return []
        before = self._runs.completed
        self._runs.notification(kind, table, rows, offset, status)
        number = self._runs.completed - 1
        run = self._runs.run(number) if self._runs.completed > before else None
        if number and self.declared and run is not None:
            self._contradict(number, run_rules.without_row(run, self._tables))
        if self.known_empty:
            self._learn(0)
        self._forget_runs()
        return self.stops()

    def rows_seen(self, table: str, lsn: int, distinct: int, through: int = 0) -> list[SnapshotStop]:
        """There are ``distinct`` unreleased rows of the table at ``lsn`` now; setting it again is harmless.

        ``through`` is how far the logs are stated.
        """
        self.seen.add(lsn)
        if lsn not in self.declared:
            if not self._requested:
                return [rules.stop_for_unexpected(lsn, through)]
            self.lsn = lsn if self.lsn is None else self.lsn
            if lsn != self.lsn:
                self._contradict(0, rules.two_snapshots({self.lsn, lsn}), another=True)
        if lsn in self.declared[self._done:] or lsn == self.lsn:
            self._rows.setdefault(lsn, {})[table] = distinct
        return self.stops()

    def row_read(
        self, table: str, lsn: int, place: Place, offset: int, rows: int = 1, through: int = 0
    ) -> list[SnapshotStop]:
        """Rows of the table with this LSN stand in a partition, the last of them at ``offset``.

        Call it for all such rows: besides :meth:`rows_seen` until the snapshot is released, afterwards alone.
        """
        if not self.released:
            self._positions.read(table, place, offset, rows)
            return []
        self.seen.add(lsn)
        if lsn in self.declared:
            return []
        if not self._requested:
            return [rules.stop_for_unexpected(lsn, through)]
        found = []
        second = rules.stop_for_second(table, lsn, self.lsn, through)
        if second is not None:
            found.append(second)
        elif self._positions.lacked(table, lsn, place, offset, rows):
            found.append(SnapshotStop(rules.lacked_row(table, Position(*place, offset))))
        return [*found, *self.stops()] if lsn <= through and self._learn(lsn) else found

    def _learn(self, lsn: int) -> bool:
        """Learn the LSN of the released snapshot from the topics, if the state of the capture is lost."""
        if not self.released or self.lsn is not None:
            return False
        self.lsn, self._lsn_is_read = lsn, True
        return True

    def marked(self, marker: str, position: Sequence[object]) -> list[SnapshotStop]:
        """The unreleased row of the first snapshot at ``position`` has this marker."""
        if self.released:
            return []
        self._contradict(0, self._extent.marked(marker, position))
        return self.stops()

    def end(self, tx: int, lsn: int) -> SnapshotStop | None:
        """END of a transaction. It contradicts the first snapshot if it is not after it, whichever is read first."""
        if self._earliest is None or lsn < self._earliest.lsn:
            self._earliest = Commit(tx, lsn)
        return self._early(Commit(tx, lsn))

    def table_known(self, table: str) -> None:
        """The table has a record."""
        self._known.add(table)

    def ends_read(self, ends: Mapping[Place, int], tables: Iterable[str]) -> None:
        """Where the partitions ended at some moment after :attr:`needs_ends`; ``tables`` have a topic."""
        if not self.topics_known or self.needs_ends:
            self._known.update(tables)
            self.topics_known = True
            self._extent.ends_read(ends, self._ended)

    def consumed(self, positions: Mapping[Place, int]) -> None:
        """How far partitions have been read: their next offsets. Needed while :attr:`reading_to_ends`."""
        for place, following in positions.items():
            self._extent.consumed(place, following)

    def passed(self, place: Place) -> None:
        """The partition showed a streamed row: every row of the first snapshot in it has been read."""
        if not self.released and not self._notified:
            self._extent.passed(place)

    # -- what contradicts

    def stops(self) -> list[SnapshotStop]:
        """What stops the capture now, as far as it is known."""
        if not self._wrong and self._earliest is None and self._runs.contradiction is None:
            return []
        cap, found = None if self.released else -1, list[SnapshotStop]()
        if self._runs.contradiction is not None:
            found.append(rules.stop_for_runs(
                self._runs.contradiction, self._runs.completed, declared=bool(self.declared), released=self.released
            ))
        if 1 in self._wrong:
            found.append(self._wrong[1])
        if 0 in self._wrong:
            found.append(self._wrong[0]._replace(cap=cap))
        early = None if self._earliest is None else self._early(self._earliest)
        return found if early is None else [*found, early]

    def _early(self, end: Commit[int]) -> SnapshotStop | None:
        if self.lsn is None or not self._requested:
            return None
        sure = not self._lsn_is_read or rules.is_first(
            self.lsn, self._positions.begins, self.seen, searched=self.searched
        )
        return rules.stop_for_early(end, self.lsn, released=self.released, sure=sure)

    def _contradict(self, number: int, found: Contradiction | None, *, another: bool = False) -> bool:
        """Keep why this one can never be whole; returns whether anything shows that."""
        key = min(number, 1)
        if found is not None:
            self._wrong.setdefault(key, SnapshotStop(found, another=another))
        return key in self._wrong

    # -- whole

    def counts(self, number: int = 0, uncovered: Iterable[str] = ()) -> dict[str, int] | None:
        """How many rows each covered table has in the snapshot of this number, as its run states.

        None: the run is not complete, or contradicts itself. That of a resnapshot need not name the tables that were
        ``uncovered`` before it.
        """
        run, rows = self._runs.run(number), self._rows_of(number)
        if run is None or self._contradict(number, None):
            return None
        if number:
            counted = rules.count_resnapshot(run, rows, self._tables, uncovered, self.pending)
        else:
            known = self._known if self.topics_known else None
            counted = rules.count_first(run, rows, self._tables, empty=self._empty, may=self._may, known=known)
        if self._contradict(number, counted.wrong):
            return None
        if not number:
            self.uncovered = counted.uncovered
        return counted.counts

    def _is_counted(self, number: int, uncovered: Iterable[str] = ()) -> bool:
        """Whether there are as many rows as the run counts."""
        counts, rows = self.counts(number, uncovered), self._rows_of(number)
        if counts is None:
            return False
        found = rules.surplus(counts, rows)
        if self._contradict(number, rules.of_resnapshot(found, self.pending) if number else found):
            return False
        return not rules.lacking(counts, rows)

    def whole(self) -> bool:
        """Whether every row of the first snapshot is there; finds contradictions on the way."""
        wrong = rules.declared_too_early(self.lsn or 0, self.declared)
        sound = not self._contradict(0, wrong or rules.not_empty(self._runs.run(0), self._rows_of(0), self._empty))
        # What is not sound is not counted: its first contradiction is the one that stops the capture.
        counted = sound and (self._is_counted(0) if self._notified else self._is_all_read())
        return rules.is_first_whole(sound=sound, counted=counted)

    def _is_all_read(self) -> bool:
        """Whether the first snapshot, of which there are no notifications, is read to its end."""
        counted = rules.count_unnotified(
            self.without_topic(), self._tables, self._may, all_read=self._extent.is_read(0)
        )
        if counted is None or self._contradict(0, counted.wrong):
            return False
        self.uncovered = counted.uncovered
        return True

    def resnapshot_is_whole(self, uncovered: Iterable[str] = ()) -> bool:
        """Whether all of the next resnapshot is read, and everything before it; finds contradictions on the way.

        Its run need not name the tables that were ``uncovered`` before it.
        """
        number = 1 + self._done
        sound = self.pending is not None and self._runs.contradiction is None
        # What is not sound is not counted: its first contradiction is the one that stops the capture.
        counted = sound and self._is_counted(number, uncovered)
        return rules.is_resnapshot_whole(sound=sound, counted=counted, all_read=self._extent.is_read(number))

    def resnapshot_names(self, table: str) -> bool:
        """Whether the run of the next resnapshot covered the table."""
        run = self._runs.run(1 + self._done)
        return run is not None and run.names(table)

    def without_topic(self) -> frozenset[str]:
        """The tables of which nothing is known."""
        return unknown(self._tables, self._known)

    @property
    def needs_ends(self) -> bool:
        """Whether the caller should read the end positions now, and call :meth:`ends_read`."""
        if self._ended <= max(self._number, self._extent.ends_of):
            return False
        run = self._runs.run(0)
        return not self._notified or (self._ended > 1 and bool(self.declared)) or (run is not None and run.skipped)

    @property
    def has_notifications(self) -> bool:
        """Whether a notification was read."""
        return self._runs.received

    @property
    def reading_to_ends(self) -> bool:
        """Whether :meth:`consumed` must be called."""
        return not self.released or self.pending is not None

    @property
    def assumed(self) -> bool:
        """Whether the first one only counts as complete, because there are no notifications."""
        return not self._notified

    @property
    def assumed_empty(self) -> frozenset[str]:
        """The tables that had no rows only by the user's declaration."""
        return self._runs.assumed if self._notified else self._empty

    @property
    def known_empty(self) -> bool:
        """Whether the first run was seen to its end, and scanned no rows at all."""
        run = self._runs.run(0) if self._notified else None
        return run is not None and run_rules.is_empty(run, self._tables)

    def rows(self, tables: Iterable[str]) -> dict[str, int]:
        """How many rows of each of these tables are there of the first one, which is not released yet."""
        held = self._rows_of(0)
        return {table: held.get(table, 0) for table in tables}

    def missing(self) -> dict[str, int]:
        """How many rows each table lacks in the next one, as far as the notifications show."""
        run = self._runs.run(self._number)
        return {} if run is None else rules.lacking(run.counts(self._tables), self._rows_of(self._number))

    def waits(self) -> str:
        """What the next one waits for, as a sentence."""
        number = self._number
        name = f"the snapshot at {self.pending}" if number else "the initial snapshot"
        if self._notified and self._runs.run(number) is None:
            begun = (max(1, self._runs.completed) == number and self._runs.is_open) or self._rows_of(number)
            return f"{name} has not been " + (
                "completed (no notification COMPLETED yet)" if begun or not number
                else "begun (nothing of it is in the topics)"
            )
        lacks = ", ".join(f"{lack} rows of {table}" for table, lack in self.missing().items())
        if lacks or (self._notified and not number):
            return f"{name} lacks {lacks or 'nothing'}"
        if not number and not self._extent.ends_of:
            return (
                "the row that is marked as the last of the initial snapshot has not been seen. It is the last one that "
                "the connector read: in the topic of another table, unless all of its tables are captured, and nowhere "
                "if they were all empty. Name the connector's notification topic (--notifications), or capture all of "
                "its tables"
            )
        places = self._extent.places()
        if number:
            return f"before {name} there may be more in what is still to be read: {places}"
        return f"{name} may have more rows in what is still to be read: {places}"

    # -- what is released

    def release(self) -> int:
        """The first one's rows are durable and stated; returns its LSN (0 for an empty one)."""
        self.released, self.lsn = True, self.lsn or 0
        self._positions.release(self.lsn, self._rows.pop(self.lsn, {}))
        self._forget_runs()
        return self.lsn

    def released_through(self, through: int) -> None:
        """Every declared resnapshot up to this LSN is in the logs."""
        while self.pending is not None and self.pending <= through:
            self._rows.pop(self.pending, None)
            self._done += 1
        self._forget_runs()

    def end_made(self) -> None:
        """The first snapshot is complete, and its counts are in TEMP as the END of a transaction, by an earlier run.

        So no notification of it is read again. Only captures on a shared remap make such an END.
        """
        self._runs.resume(1, 0)

    def resume(self, through: int) -> None:
        """The logs are stated through there, and the state is of before, or lost."""
        if not self.released:
            # Only an empty snapshot is released through 0.
            self.released, self.lsn = True, 0 if through == 0 else None
        self.released_through(through)

    def _forget_runs(self) -> None:
        if self.released:
            self._runs.forget(self._done)

    @property
    def notifications_from(self) -> int | None:
        """From which offset on the notifications must be read again; None: from where they have been read to."""
        return self._runs.unreleased_from

    @property
    def read_to(self) -> dict[Place, int]:
        """For each partition the offset before which snapshot rows are duplicates so far; for reading them again."""
        return self._positions.read_to() if self.released else {}

    def begins(self, ends: Iterable[int]) -> int:
        """Up to where the first one, which is released, is all that there is; 0: that is not known, or it is empty.

        ``ends`` are the ENDs that were read again. With the state lost the logs show it: they begin with its rows, or
        with an END.
        """
        if self.lsn is not None:
            return self.lsn
        first = self._positions.begins
        return 0 if first is None or first >= min(ends, default=first + 1) else first

    # -- memory

    def export(self) -> SnapshotMemory:
        """What must survive a restart; rows and notifications of an unreleased snapshot are read again instead."""
        if not self.released:
            return {"released": False, "lsn": None, "completed": False}
        return {
            "released": True, "lsn": self.lsn, "completed": self._notified and self._runs.completed > 0,
            "notified": self._runs.forgotten_to if self._notified else 0, "rows": self._positions.export(),
        }

    def export_resnapshots(self) -> ResnapshotsMemory:
        """The same of the resnapshots."""
        runs = min(self._done, max(0, self._runs.completed - 1))
        return {"told": list(self.declared), "runs": runs, "notified": self._runs.forgotten_to}

    def restore(self, first: SnapshotMemory, again: ResnapshotsMemory | None, through: int | None) -> None:
        """Take over what :meth:`export` and :meth:`export_resnapshots` gave, of logs that are stated up to there."""
        self.released, self.lsn = first["released"], first["lsn"]
        if self.released:
            self._positions = SnapshotRows.restore(first.get("rows"))
        if self._notified and first["completed"]:
            self._runs.resume(1, first.get("notified", 0))
        if again:
            if self._runs.completed:
                self._runs.resume(1 + again["runs"], max(again["notified"], first.get("notified", 0)))
            self.released_through(-1 if through is None else through)
