"""Which transactions are whole, in commit order: decided on counts alone.

The transaction topic gives, for each transaction, an END with its commit LSN and the number of rows of each table.
A transaction is *complete* when its END is in and each captured table has that many distinct rows. It is *released*
when it and every earlier END are complete. ``through`` (H) is the END up to which all is released. It separates
duplicates from new facts:

- an END with LSN <= H is a duplicate;
- a row whose ``sequence[0]`` (the END of the transaction before its own) is < H is a duplicate. A null ``sequence[0]``
  reads as the LSN of the snapshot, or 0 without one.

Some facts cannot be captured: TRUNCATE, a row of another type, a second snapshot, more rows than were counted, a lost
END. They stop the capture. Everything before such a fact is released first, and the logs are complete up to there.
A resnapshot that the user has declared (:mod:`cdcv2.capture.resnapshots`) is no such fact. It is released after the
transactions up to its LSN and before those above it. It supersedes the transactions below its LSN that are not whole.

This class sees counts, never rows. So one process that holds all rows decides as a Spark driver does whose executors
hold them. Counts are *set*, not added: a caller may count again what it reads again.

The file is long because it is one decision: each stop and each snapshot changes what may be released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdcv2.capture.begins import BeginRecords
from cdcv2.capture.contradictions import (
    LOST, Commit, Contradiction, early_end, lacked_row, second_snapshot, unexpected_snapshot,
)
from cdcv2.capture.coverage import UncoveredTables
from cdcv2.capture.initial_snapshot import Snapshot
from cdcv2.capture.release import Release, WaitReason, without_end
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.resnapshots import WRONGLY_TOLD, Resnapshots
from cdcv2.capture.snapshot import ANEW, SnapshotRuns
from cdcv2.capture.state_check import MEMORY_VERSION, check_memory
from cdcv2.capture.transactions import OpenEnd, TransactionTracker
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop, UsageError
from cdcv2.protocol.log import Place, Position


class CommitTransactions:
    """Decides what is complete. Feed it facts in any order; ask ``ready`` and ``stopped``; ``settle`` what is durable.

    - ``known``: the meet of the frontiers that the logs state. If the state is lost, everything before it counts as
      released, and facts about it are duplicates.
    - ``held``: for each log its first time and the number of its rows there. If that time is the snapshot's LSN, they
      are the rows of the snapshot. None: unknown.
    - ``empty``: tables that the user declares to have been empty at the snapshot. It matters where the connector
      reports nothing of them.
    - ``uncovered``: tables that the connector never reported, as the logs state.
    - ``partial``: tables of which the logs state that some rows are in no record.
    - ``leaves_out``: the capture goes on without such tables.

    >>> commits = CommitTransactions(["public.t"], snapshot="none")
    >>> commits.end(7, 100, {"public.t": 2})
    True
    >>> commits.rows_seen(7, "public.t", 1)
    >>> commits.waits().text
    'transaction 7 (END 100) lacks 1 of 2 rows of public.t'
    >>> commits.rows_seen(7, "public.t", 2)
    >>> release = commits.ready()
    >>> release.transactions, release.frontier
    ((Commit(tx=7, lsn=100),), Antichain([101]))
    >>> commits.settle(release)
    >>> commits.is_repeat(None, 7), commits.is_repeat(100, 8)
    (True, False)

    Cost: a fact O(log open), ``ready`` what it gives out. Memory: a few numbers per open transaction and table.
    """

    def __init__(
        self, tables: Iterable[str], *, snapshot: str = "initial", notifications: bool = False, known: int = 0,
        again: Iterable[int] = (), held: Mapping[str, tuple[int, int]] | None = None, empty: Iterable[str] = (),
        uncovered: Iterable[str] = (), partial: Iterable[str] = (), leaves_out: bool = True,
    ) -> None:
        if snapshot not in ("initial", "none"):
            raise UsageError(f"snapshot is 'initial' or 'none', not {snapshot!r}")
        self.tables = tuple(sorted(tables))
        self._mode = snapshot
        told, empty = tuple(again), frozenset(empty)
        self._runs = SnapshotRuns(declared=len(told), empty=empty)
        runs = self._runs if notifications else None
        self._partial = frozenset(partial)
        self._uncovered, self._leaves_out = frozenset(uncovered) | self._partial, leaves_out
        # Tables of open transactions whose first row there shows that they had rows before.
        self._had: dict[int, set[str]] = {}
        self._snapshot = Snapshot(
            self.tables, wanted=snapshot == "initial", runs=runs, held=held, empty=empty, leaves_out=leaves_out,
        )
        self._again = Resnapshots(self.tables, told, self._runs)
        # Transactions with rows that name no commit: the first of each slot. Of several slots, only ENDs separate them.
        self._first_ones: set[int] = set()
        # With declared resnapshots: the least commit that the rows of an open transaction name.
        self._named: dict[int, int] = {}
        # The END with the least LSN of all that were read.
        self._earliest: Commit[int] | None = None
        # Whether the LSN of the released snapshot was read from the topics, because the state of the capture is lost.
        self._base_is_read = False
        self._tracker = self._tracking(0 if self._snapshot.released else None)
        self._halts: dict[int, tuple[str, str]] = {}
        # A stop that belongs to no open transaction; nothing above `_cap` is released any more.
        self._stop: tuple[str, str] | None = None
        self._cap: int | None = None
        # Whether the stop is due to an undeclared snapshot; whether it may be.
        self._another = self._perhaps_another = False
        # Transactions whose halt may be due to one.
        self._unknown: set[int] = set()
        # The LSNs of all snapshots of which a row was seen.
        self._snapshots_seen: set[int] = set()
        # Released transactions that a row without a previous commit may belong to, while the snapshot's LSN is unknown.
        self._finished: set[int] = set()
        self._begins = BeginRecords[int]()
        # A fact that was found after the logs were stated beyond it: no log can become right any more.
        self._spoilt: tuple[str, str] | None = None
        # Whether that fact was a row that names no commit: the first transaction of a new slot has such rows, too.
        self._spoilt_by_none = False
        # Whether it was a lost END, which may belong to a lost slot; and whether all topics were read to decide that.
        self._spoilt_by_lost = self._sought = False
        #: Whether the topics are read to their ends to find such a snapshot, before a stop is raised.
        self.seeks = False
        if known > 0:
            self._resume_at(known - 1)

    def _resume_at(self, through: int) -> None:
        self._tracker = self._tracking(through)
        if not self._snapshot.released:
            self._snapshot.released = True
            # Only an empty snapshot is released through 0.
            self._snapshot.lsn = 0 if through == 0 else None
        self._again.released_through(through)

    def _tracking(self, through: int | None) -> TransactionTracker[int]:
        return TransactionTracker[int](self.tables, through)

    # -- what has been released

    @property
    def through(self) -> int | None:
        """H: the END up to which all is released; None while not even the snapshot is."""
        return self._tracker.through

    @property
    def frontier(self) -> Antichain | None:
        """Up to where the logs are complete; None when nothing is released."""
        return None if self.through is None else Antichain([self.through + 1])

    @property
    def base(self) -> int | None:
        """What a null ``sequence[0]`` reads as: the LSN of the snapshot, 0 without one; None while unknown."""
        return self._snapshot.lsn

    @property
    def snapshot_released(self) -> bool:
        """Whether snapshot rows need not be counted any more: those that still come are duplicates, or a stop."""
        return self._snapshot.released

    @property
    def certain(self) -> int | None:
        """A row whose ``sequence[0]`` is below it is a duplicate, whichever its transaction; None: no row is."""
        return self._tracker.released.certain

    @property
    def lost(self) -> bool:
        """Whether an END is lost, or was wrong. The state must keep that: another run may see the evidence too late.

        False until the topics were read to their ends for an explanation: a verdict in the state is not judged again.
        """
        seeking = self.seeks and not self._sought and self.searches_resnapshot
        return not seeking and (self._spoilt is not None or self._tracker.lost() is not None)

    @property
    def stopping(self) -> bool:
        """Whether a fact that belongs to no open transaction stops the capture: its record must be read again."""
        return self._stop is not None

    def is_repeat(self, seq: int | None, tx: int, table: str = "", number: int = 0) -> bool:
        """Whether a row of ``tx`` with this ``sequence[0]`` belongs to a transaction that is released.

        If others were released instead, its END is lost, and that stops the capture. So does a row of ``table`` whose
        ``number`` (the greatest ``data_collection_order`` of several) is above what the END of its transaction counted.
        While ``base`` is unknown (the state is lost), a row with a null ``sequence[0]`` can be judged only after the
        END of its transaction was read: ask again for such rows before ``ready``, and count them again.
        """
        if self.through is None:
            return False
        none = seq is None
        if seq is None:
            seq = self._null_reads
            if seq is None:
                return self._is_finished(tx, table, number)
        if seq >= self.through:
            return False
        found = self._tracker.released.row(tx, seq, table, number)
        if found is not None:
            # The END may be lost with a slot, and a resnapshot that this run was not given may have made up for it.
            healed = found.lost and self.seeks and not self._again.told
            self._spoilt_by_lost |= healed and not none and self._spoilt is None
            # The END of that transaction does not count the row, whichever commit the row names.
            self._contradicted(found, None, by_none=found.lost and (none or healed))
        return True

    def _is_finished(self, tx: int, table: str, number: int) -> bool:
        known = not self._again.told and self._tracker.released.has(tx)
        if tx not in self._finished and not known:
            return False
        self._first_ones.add(tx)
        found = None if self._again.told else self._tracker.released.numbered(tx, table, number)
        if found is not None:
            self._contradicted(found, None)
        return True

    @property
    def _null_reads(self) -> int | None:
        """What a null ``sequence[0]`` reads as; None: only the END of its transaction shows it."""
        return None if self._again.told else self._snapshot.lsn

    def _contradicted(self, found: Contradiction, cap: int | None, *, by_none: bool = False) -> None:
        if found.stated:
            self._spoil(found.reason, found.remedy, by_none)
        else:
            self._halt_all(found.reason, found.remedy, cap)

    def _spoil(self, reason: str, remedy: str, by_none: bool) -> None:
        if self._spoilt is None or (self._spoilt_by_none and not by_none):
            self._spoilt, self._spoilt_by_none = (reason, remedy), by_none
            self._perhaps_another = self._perhaps_another or (by_none and self._stop is None)
            self._halt_all(reason, remedy, None)

    # -- facts

    def begin(self, tx: int) -> None:
        """BEGIN of a transaction; the records of the transaction topic come in their order."""
        self._doubt(tx)
        if self._begins.begin(tx) and not self._tracker.released.has(tx):
            self._tracker.restarted(tx)

    def _doubt(self, tx: int) -> None:
        if self._begins.doubts():
            self._tracker.doubt(tx)

    def renumbered(self, tx: int) -> None:
        """A new row of ``tx`` is from a connector that, when restarted inside a transaction, renumbers its rows."""
        self._tracker.renumbered(tx)

    def recall(self, recalled: ReleasedEnds[int]) -> None:
        """Take what was read again of the transaction topic, before the first fact."""
        self._begins.recall(recalled.last, gone=recalled.gone)
        for tx in recalled.restarted:
            self._tracker.restarted(tx)
        for tx, lsn, _ in recalled.ends:
            self._is_early(Commit(tx, lsn))
        through = self.through
        if through is not None:
            floor = max((lsn for lsn in self._again.told if lsn <= through), default=self._snapshot.lsn or 0)
            self._tracker.recall(recalled, floor)
        if recalled.doubted is not None:
            self._tracker.doubt(recalled.doubted)

    def end(self, tx: int, lsn: int, counts: Mapping[str, int]) -> bool:
        """END of a transaction: its commit LSN, and how many rows each table has in it (tables not captured, too).

        Returns False for a duplicate. The same END may come several times, with the same counts.
        """
        self._doubt(tx)
        self._begins.end()
        if lsn in self._again.told:
            reason = f"transaction {tx} was committed at {lsn}, which was told as the LSN of a snapshot, and is of none"
            self._halt_all(reason, WRONGLY_TOLD, lsn - 1)
            return False
        if self._is_early(Commit(tx, lsn)):
            return False
        if self.through is not None and lsn <= self.through and self._null_reads is None:
            self._finished.add(tx)
        found = self._tracker.end(tx, lsn, counts)
        if isinstance(found, Contradiction):
            self._contradicted(found, lsn - 1)
            return False
        return found

    def _is_early(self, end: Commit[int]) -> bool:
        """Whether an END is not after the snapshot. It stops the capture, whichever of the two is read first."""
        if self._earliest is None or end.lsn < self._earliest.lsn:
            self._earliest = end
        return self._find_early(end)

    def _find_early(self, end: Commit[int] | None = None) -> bool:
        """Whether this END, or without one the earliest of all, is not after the snapshot."""
        one, base = end or self._earliest, self._snapshot.lsn
        if one is None or base is None or self._mode != "initial" or one.lsn > base:
            return False
        found = early_end(one.tx, one.lsn, base, ANEW, stated=self._snapshot.released)
        if found.stated and self._base_is_sure(base):
            self._spoil(found.reason, found.remedy, False)
        else:
            self._halt_another(found.reason, -1)
        return True

    def _base_is_sure(self, base: int) -> bool:
        """Whether ``base`` is the LSN of the logs' first snapshot.

        A ``base`` that was read from the topics may be that of a resnapshot that an earlier run declared. It is not if
        the logs begin at it and the topics show no other snapshot.
        """
        begins = self._snapshot.positions.begins == base
        return not self._base_is_read or (begins and self._sought and self._snapshots_seen == {base})

    def rows_seen(self, tx: int, table: str, distinct: int, highest: int | None = None) -> None:
        """The transaction has ``distinct`` rows of the table so far, without duplicates (:meth:`is_repeat`).

        ``highest`` is the greatest of their order numbers (``data_collection_order``), which count from 1. With 0 rows,
        what was counted before is forgotten.
        """
        self._tracker.rows_seen(tx, table, distinct, distinct if highest is None else highest)

    def had(self, tx: int, table: str) -> None:
        """The table's first new row in ``tx`` shows that the table had rows before: see ``had_rows``."""
        if self._mode == "initial" and (not self._snapshot.released or table in self._uncovered):
            self._had.setdefault(tx, set()).add(table)

    def comes_after(self, tx: int, seq: int | None) -> None:
        """A new row of ``tx``, or the record that stops the capture there, has this ``sequence[0]``."""
        if seq is None and self._again.told:
            self._first_ones.add(tx)
            return
        if seq is not None and self._again.told:
            self._named[tx] = min(seq, self._named.get(tx, seq))
        self._tracker.comes_after(tx, seq)

    def halt(self, tx: int, reason: str, remedy: str, *, unknown: bool = False) -> None:
        """The transaction has a fact that cannot be captured: release all before it, then stop.

        ``unknown``: the state does not know the row that the fact changes. Perhaps something was lost before it.
        """
        self._halts.setdefault(tx, (reason, remedy))
        if unknown:
            self._unknown.add(tx)

    def stop(self, reason: str, remedy: str) -> None:
        """Stop now: release only what is complete already. A snapshot is complete when it is released."""
        self._halt_all(reason, remedy, None if self._snapshot.released else -1)

    def _halt_all(self, reason: str, remedy: str, cap: int | None) -> None:
        if self._stop is None:
            self._stop = (reason, remedy)
        if cap is not None:
            self._cap = cap if self._cap is None else min(self._cap, cap)

    # -- facts of the snapshot

    def snapshot_rows(self, table: str, lsn: int, distinct: int) -> None:
        """There are ``distinct`` unreleased snapshot rows of the table (by topic, partition, offset), with this LSN."""
        self._snapshots_seen.add(lsn)
        if self._again.rows_seen(table, lsn, distinct):
            self._check_snapshot()
        elif self._mode == "none":
            self._unexpected_snapshot(lsn)
        else:
            self._snapshot.rows_seen(table, lsn, distinct)
            self._check_snapshot()
            self._find_early()

    def snapshot_read(self, table: str, lsn: int, place: Place, offset: int, rows: int = 1) -> None:
        """Snapshot rows of the table with this LSN stand in a partition, the last of them at ``offset``.

        Call it for all such rows: besides :meth:`snapshot_rows` until the snapshot is released, afterwards alone.
        """
        if not self._snapshot.released:
            self._snapshot.positions.read(table, place, offset, rows)
            return
        self._snapshots_seen.add(lsn)
        if self.is_declared(lsn):
            return
        if self._mode == "none":
            self._unexpected_snapshot(lsn)
            return
        through, base = self.through or 0, self._snapshot.lsn
        if lsn > through or (base is not None and lsn != base):
            # ENDs of transactions without rows may have been read before it: what the slot lost is lost all the same.
            self._halt_another(second_snapshot(table, lsn, ANEW).reason, lsn if lsn > through else None)
        elif self._snapshot.positions.lacked(table, lsn, place, offset, rows):
            found = lacked_row(table, Position(*place, offset))
            self._spoil(found.reason, found.remedy, False)
        self._learn_base(lsn <= through, lsn)

    def _unexpected_snapshot(self, lsn: int) -> None:
        """There are rows of a snapshot, and the recipe has none: stop before what was committed after it."""
        through = self.through or 0
        self._contradicted(unexpected_snapshot(lsn, through, begun=through > 0), lsn - 1)

    @property
    def snapshot_read_to(self) -> dict[Place, int]:
        """For each partition the offset before which snapshot rows are duplicates so far; for reading them again."""
        return self._snapshot.positions.read_to() if self._snapshot.released else {}

    def _learn_base(self, told: bool, lsn: int) -> None:
        """Learn the LSN of the released snapshot from the topics, if the state of the capture is lost."""
        if told and self._snapshot.released and self._snapshot.lsn is None:
            self._snapshot.lsn, self._base_is_read = lsn, True
            self._find_early()
            if not self._again.told:
                self._finished.clear()

    def snapshot_marked(self, marker: str, position: Sequence[object]) -> None:
        """The unreleased snapshot row at ``position`` has this ``source.snapshot``."""
        if not self._snapshot.released:
            self._snapshot.marked(marker, position)
            self._check_snapshot()

    def notification(
        self, kind: str, table: str | None, rows: int | None, offset: int, status: str | None = None
    ) -> None:
        """A notification about the initial snapshot, in the order of its topic, with its offset there."""
        if self._mode == "none":
            return
        self._runs.notification(kind, table, rows, offset, status)
        self._again.judge()
        self._check_snapshot()
        self._learn_base(self._snapshot.known_empty, 0)
        self._forget_runs()

    def _forget_runs(self) -> None:
        if self._snapshot.released:
            self._runs.forget(self._again.done)

    @property
    def needs_ends(self) -> bool:
        """Whether the end positions of the tables' partitions should be read now, for :meth:`ends_read`."""
        return self._snapshot.needs_ends or self._again.needs_ends or self._needs_topics

    @property
    def _needs_topics(self) -> bool:
        """Whether the topics that exist decide which tables the history covers: no snapshot begins it."""
        return self._leaves_out and self._mode == "none" and not self.through and not self._snapshot.topics_known

    def ends_read(self, ends: Mapping[Place, int], tables: Iterable[str] | None = None) -> None:
        """The next offsets of all partitions, read after ``needs_ends`` became true. Then call ``consumed``.

        ``tables`` are those that have a topic (default: all of them).
        """
        begins = self._needs_topics
        self._snapshot.ends_read(ends, self.tables if tables is None else tables)
        if begins:
            self._uncovered |= self._snapshot.uncovered
        self._again.ends_read(ends)

    @property
    def reading_to_ends(self) -> bool:
        """Whether ``consumed`` must be called."""
        return not self._snapshot.released or self._again.pending is not None

    def is_declared(self, lsn: int) -> bool:
        """Whether the user has declared a resnapshot with this LSN."""
        return lsn in self._again.told

    @property
    def notifications_from(self) -> int | None:
        """From which offset on the notifications must be read again; None: from where they have been read to."""
        return self._runs.unreleased_from

    def consumed(self, positions: Mapping[Place, int]) -> None:
        """How far the partitions have been read: their next offsets. Needed while the snapshot is not released."""
        for place, following in positions.items():
            self._snapshot.consumed(place, following)
            self._again.consumed(place, following)

    def passed(self, place: Place) -> None:
        """The partition has shown a streamed row, so it has no more rows of the snapshot."""
        if not self._snapshot.released:
            self._snapshot.passed(place)

    def _check_snapshot(self) -> None:
        cap = None if self._snapshot.released else -1
        if self._runs.contradiction is not None:
            # Declared resnapshots come after the first snapshot, which is sound.
            of_first = cap if self._runs.completed == 0 or not self._again.told else None
            if self._runs.another:
                self._halt_another(self._runs.contradiction, of_first)
            else:
                self._halt_all(self._runs.contradiction, ANEW, of_first)
        if self._again.contradiction is not None:
            self._halt_all(self._again.contradiction, ANEW, None)
        if self._snapshot.another:
            self._halt_another(str(self._snapshot.contradiction), cap)
        elif self._snapshot.contradiction is not None:
            self._halt_all(self._snapshot.contradiction, self._snapshot.remedy, cap)

    def _halt_another(self, reason: str, cap: int | None) -> None:
        self._another = self._another or self._stop is None
        self._halt_all(reason, ANEW, cap)

    # -- decisions

    def ready(self) -> Release | None:
        """What may be released now, or None. Only finds contradictions on the way: call it at any time."""
        snapshot, through = None, self.through
        if self._spoilt is not None or (self._another and self.searches_resnapshot and self._again.pending is None):
            # Transactions committed after that snapshot must wait: something may have been lost before it.
            return None
        if not self._snapshot.released:
            snapshot = through = self._snapshot.lsn or 0
            if self._again.told and snapshot >= self._again.told[0]:
                reason = f"the first snapshot is at {snapshot}, not before that at {self._again.told[0]}, as was told"
                self._halt_all(reason, WRONGLY_TOLD, -1)
            if (self._cap is not None and self._cap < snapshot) or not self._snapshot.whole():
                self._check_snapshot()
                return None
        again = self._again.pending
        transactions, lost = list[Commit[int]](), self._lost(again)
        begins, uncovered = dict[str, int](), UncoveredTables(self._uncovered, self._partial)
        if snapshot is not None:
            uncovered.add(self._snapshot.uncovered)
        for end in self._tracker.ends():
            if lost is not None and end.lsn > lost[1]:
                self._perhaps_another = self._perhaps_another or self._stop is None
                self._halt_all(self._tracker.lost_text(lost), LOST, None)
                break
            if (again is not None and end.lsn > again) or self._held_back(end):
                break
            transactions.append(Commit(end.tx, end.lsn))
            begins.update(dict.fromkeys(uncovered.begin(end.counts, self._had.get(end.tx, ())), end.lsn))
            through = end.lsn
        assumed = snapshot is not None and self._snapshot.assumed
        first = snapshot is not None or (self._mode == "none" and not self.through)
        empty = self._snapshot.assumed_empty if first else frozenset[str]()
        if again is not None and self._resnapshot_is_whole(again, uncovered.tables):
            named = [table for table in uncovered.tables if self._again.names(table)]
            begins.update(dict.fromkeys(uncovered.scanned(named), again))
            return Release(
                snapshot, tuple(transactions), again, assumed, again, self._superseded(again, transactions),
                begins, uncovered.tables, uncovered.partial, empty,
            )
        if through is None or (snapshot is None and not transactions):
            return None
        return Release(
            snapshot, tuple(transactions), through, assumed, begins=begins, uncovered=uncovered.tables,
            partial=uncovered.partial, empty=empty,
        )

    @property
    def uncovered(self) -> frozenset[str]:
        """The tables that the connector never reported, in what is released, and those that are partial."""
        return self._uncovered

    @property
    def partial(self) -> frozenset[str]:
        """Those of the uncovered tables that it did report, and of which some rows are in no record."""
        return self._partial

    def _lost(self, again: int | None) -> tuple[int, int] | None:
        """A transaction whose END is lost, if no resnapshot makes up for it."""
        lost = self._tracker.lost()
        if lost is None or again is None or self._tracker.highest <= again:
            return lost
        return lost if self._tracker.up_to(again, after=lost[1]) else None

    def _resnapshot_is_whole(self, again: int, uncovered: Iterable[str]) -> bool:
        whole = self._again.whole(uncovered)
        self._check_snapshot()
        if not whole or (self._cap is not None and self._cap < again):
            return False
        # A halt before the resnapshot still stops the capture. Missing rows or ENDs before it will never arrive.
        for end in self._tracker.ends():
            if end.lsn > again or (self._tracker.missing(end.tx) and end.tx not in self._halts):
                return True
            if end.tx in self._halts:
                return False
        return True

    def _superseded(self, again: int, transactions: list[Commit[int]]) -> tuple[int, ...]:
        """The open transactions that were committed up to ``again``, without the given ``transactions``."""
        given = {tx for tx, _ in transactions}
        ended = [end.tx for end in self._tracker.up_to(again) if end.tx not in given]
        unended = [tx for tx, seq in self._named.items() if seq < again and self._tracker.end_of(tx) is None]
        return (*ended, *unended)

    def _held_back(self, end: OpenEnd[int]) -> bool:
        if (self._cap is not None and end.lsn > self._cap) or end.tx in self._halts:
            return True
        found = self._tracker.contradiction(end.tx)
        if found is not None:
            self._halt_all(found.reason, found.remedy, end.lsn - 1)
        return found is not None or bool(self._tracker.missing(end.tx))

    def settle(self, release: Release) -> None:
        """Forget what :meth:`ready` returned: it is durable in every log, and stated."""
        self._uncovered, self._partial = release.uncovered, release.partial
        if release.snapshot is not None:
            self._snapshot.release()
            self._tracker.begin(release.snapshot)
        ended = {tx for tx in release.superseded if self._tracker.end_of(tx) is not None}
        self._tracker.settle(release.transactions)
        for tx, _ in release.transactions:
            self._forget(tx, ended=True)
        if release.again is not None:
            for tx in release.superseded:
                self._tracker.forget(tx)
                self._forget(tx, ended=tx in ended)
            self._tracker.begin(release.again)
            self._again.released_through(release.again)
        self._forget_runs()

    def _forget(self, tx: int, *, ended: bool) -> None:
        """Forget a transaction that is released, or superseded; ``ended``: its END was read."""
        self._halts.pop(tx, None)
        self._named.pop(tx, None)
        self._had.pop(tx, None)
        if ended and (tx in self._first_ones if self._again.told else self._snapshot.lsn is None):
            self._finished.add(tx)

    def stopped(self) -> SourceStop | None:
        """The stop that has been reached: raise it, once :meth:`ready` returns nothing more. None: go on."""
        reason, remedy, may_be = self._stop_reached()
        if not reason:
            return None
        seen = self._snapshots_seen
        told = self._again.undeclared(seen, self.through) or (self._spoilt and self._again.late(seen, self.through))
        if (self._another and not self._lasts) or (may_be and told):
            remedy = self._again.remedy(self._snapshots_seen, self.through)
        # Without a snapshot the logs begin at 0, and are still empty.
        nothing = self._mode == "none" and self.through == 0
        return SourceStop(reason, remedy, None if nothing else self.frontier, self._lasts)

    def keep(self, reason: str, remedy: str) -> None:
        """Take over a stop that the logs keep from an earlier run: they are stated beyond its cause."""
        self._spoil(reason, remedy, False)

    @property
    def _lasts(self) -> bool:
        """Whether the logs are wrong for ever. Not if a resnapshot that can still be declared may explain it."""
        if self._spoilt is None:
            return False
        another = len(self._snapshots_seen) > 1
        return not self._spoilt_by_none or (self._spoilt_by_lost and self._sought and not another)

    def searched(self) -> None:
        """All topics were searched for the rows of an undeclared snapshot: see ``snapshot_found``."""
        self._sought = True
        self._find_early()

    def _stop_reached(self) -> tuple[str, str, bool]:
        """Reason and remedy, empty without a stop; and whether an undeclared snapshot is, or may be, the cause."""
        if self._spoilt is not None and self._lasts:
            return *self._spoilt, False
        if self._stop is not None:
            return *self._stop, self._another or self._perhaps_another
        first = self._tracker.first()
        if first is not None and self._snapshot.released:
            behind = self._again.pending is not None and first.lsn > self._again.pending
            if first.tx in self._halts and not behind:
                return *self._halts[first.tx], first.tx in self._unknown
        return "", "", False

    @property
    def searches_resnapshot(self) -> bool:
        """Whether an undeclared snapshot may be the cause of a stop, and its LSN is unknown: see ``snapshot_found``."""
        return self._stop_reached()[2] and not self._again.undeclared(self._snapshots_seen, self.through)

    def snapshot_found(self, lsn: int) -> None:
        """A row of a snapshot with this LSN was found, in any topic."""
        self._snapshots_seen.add(lsn)
        for untold in self._again.undeclared(self._snapshots_seen, self.through)[:1]:
            self._halt_all(*self._stop_reached()[:2], untold)
            self._perhaps_another = True

    def waits(self) -> WaitReason:
        """Why nothing more can be released now."""
        if self._stop is not None:
            return WaitReason("stop", self._stop[0])
        if not self._snapshot.released:
            return WaitReason("snapshot", self._snapshot.waits(), missing=self._snapshot.missing())
        for lsn, tx, counts in self._tracker.ends():
            missing = self._tracker.missing(tx)
            if self._again.pending is not None and lsn > self._again.pending:
                break
            if tx in self._halts:
                return WaitReason("stop", f"transaction {tx} (END {lsn}): {self._halts[tx][0]}", tx, lsn)
            if missing:
                lacks = ", ".join(f"{lack} of {counts[table]} rows of {table}" for table, lack in missing.items())
                return WaitReason("rows", f"transaction {tx} (END {lsn}) lacks {lacks}", tx, lsn, missing)
        if self._again.pending is not None:
            return WaitReason("snapshot", self._again.waits(), missing=self._again.missing())
        return without_end(self._tracker.without_end())

    def open_transactions(self) -> int:
        """How many transactions are open: seen in part, or whole but after one that is not whole."""
        return len(self._tracker.open())

    def _lost_before(self, tx: int, after: int) -> None:
        """An earlier run found that the END of a transaction is lost."""
        self._tracker.comes_after(tx, after)
        if self._again.told:
            self._named[tx] = after

    # -- memory

    def export(self) -> dict[str, Any]:
        """What must survive a restart, as plain JSON. Facts of open transactions are read again from the topics."""
        return {
            "version": MEMORY_VERSION,
            "tables": list(self.tables),
            "mode": self._mode,
            "through": self.through,
            "snapshot": self._snapshot.export(),
            "lost": self._tracker.lost(),
            "spoilt": self._spoilt and [*self._spoilt, not self._lasts],
            **self._export_resnapshots(),
        }

    def _export_resnapshots(self) -> dict[str, Any]:
        if not self._again.told:
            return {}
        return {"again": self._again.export(), "first": sorted(self._finished & self._first_ones)}

    @classmethod
    def restore(
        cls, plain: Mapping[str, Any], tables: Iterable[str], *, snapshot: str = "initial",
        notifications: bool = False, known: int = 0, again: Iterable[int] = (),
        held: Mapping[str, tuple[int, int]] | None = None, empty: Iterable[str] = (),
        uncovered: Iterable[str] = (), partial: Iterable[str] = (), leaves_out: bool = True,
    ) -> CommitTransactions:
        """The decisions as they stood at :meth:`export`, for logs that are stated up to ``known`` (their meet).

        The logs may be ahead of the saved state, if a crash prevented the last save. Raises ForeignStateError for the
        state of another capture, and for one ahead of the logs: its positions would skip what the logs lack.
        """
        commits = cls(
            tables, snapshot=snapshot, notifications=notifications, again=again, held=held, empty=empty,
            uncovered=uncovered, partial=partial, leaves_out=leaves_out,
        )
        check_memory(plain, commits.tables, snapshot, known)
        through = plain["through"]
        commits._snapshot.restore(plain["snapshot"])
        commits._tracker = commits._tracking(through)
        if plain.get("again"):
            commits._again.restore(plain["again"], plain["snapshot"].get("notified", 0))
            commits._finished.update(plain["first"])
            commits._first_ones.update(plain["first"])
            commits._again.released_through(-1 if through is None else through)
        if plain.get("spoilt"):
            commits._spoilt = commits._stop = (plain["spoilt"][0], plain["spoilt"][1])
            commits._spoilt_by_none = commits._perhaps_another = plain["spoilt"][2:] == [True]
        if known > 0 and known - 1 != through:
            commits._resume_at(known - 1)
            return commits
        if plain.get("lost"):
            commits._lost_before(*plain["lost"])
        return commits
