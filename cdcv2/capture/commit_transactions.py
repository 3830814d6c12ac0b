"""Which transactions are whole, in commit order: decided on counts alone.

The transaction topic gives, for each transaction, an END with its commit LSN and the number of rows of each table.
A transaction is *complete* when its END is in and each captured table has that many distinct rows. It is *released*
when it and every earlier END are complete. ``through`` (H) is the END up to which all is released. It separates
duplicates from new facts:

- an END with LSN <= H is a duplicate;
- a row whose ``sequence[0]`` (the END of the transaction before its own) is < H is a duplicate. A null ``sequence[0]``
  reads as the LSN of the snapshot, or 0 without one.

Logs that were cut are complete through some time between two ENDs. There H is that time for ENDs, and the last END
before it for rows: the rows of the next transaction name that one. It is read again from the transaction topic.

Some facts cannot be captured: TRUNCATE, a row of another type, a second snapshot, more rows than were counted, a lost
END. They stop the capture. Everything before such a fact is released first, and the logs are complete up to there.
A resnapshot that the user has declared is no such fact. It is released after the transactions up to its LSN and before
those above it. It supersedes the transactions below its LSN that are not whole, and what comes behind a lost END there:
that END does not stop the capture. How a snapshot is judged is in :mod:`cdcv2.capture.snapshot`.

This class sees counts, never rows. So one process that holds all rows decides as a Spark driver does whose executors
hold them. Counts are *set*, not added: a caller may count again what it reads again.

The file is long because it is one decision: each stop and each snapshot changes what may be released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from cdcv2.capture.begins import BeginRecords
from cdcv2.capture.coverage import UncoveredTables
from cdcv2.capture.memory import check_memory
from cdcv2.capture.memory_format import MEMORY_VERSION, CommitsMemory
from cdcv2.capture.release_answers import Release, WaitReason, without_end
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.row_counts import RowCounts, TableEffect
from cdcv2.capture.snapshot import declarations
from cdcv2.capture.snapshot.rules import SnapshotStop, end_of_declared, is_due, is_next, lacks_rows, makes_up_for
from cdcv2.capture.source_words import ANY_SOURCE, SourceWords
from cdcv2.capture.snapshot.tracker import SnapshotTracker
from cdcv2.capture.transaction_contradictions import LOST, Commit, Contradiction
from cdcv2.capture.transactions import OpenEnd, TransactionTracker
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop, UsageError
from cdcv2.protocol.log import Place


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
    - ``counted``: see :class:`~cdcv2.capture.row_counts.RowCounts`, as the logs state. None: no table is judged by
      its number of rows, as before-images show each row that is not there.

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
        counted: Mapping[str, tuple[int, int]] | None = None, words: SourceWords = ANY_SOURCE,
    ) -> None:
        if snapshot not in ("initial", "none"):
            raise UsageError(f"snapshot is 'initial' or 'none', not {snapshot!r}")
        self.tables = tuple(sorted(tables))
        self._mode, self._words = snapshot, words
        self._partial = frozenset(partial)
        # Without a snapshot the history begins with nothing.
        self._counted = RowCounts(counted) if counted is not None and snapshot == "initial" else None
        # By open transaction and table: how many rows more there are after it.
        self._more: dict[int, dict[str, int]] = {}
        self._uncovered, self._leaves_out = frozenset(uncovered) | self._partial, leaves_out
        # Tables of open transactions whose first row there shows that they had rows before.
        self._had: dict[int, set[str]] = {}
        #: How far the snapshots are read and released, and which are declared.
        self.snapshots = SnapshotTracker(
            self.tables, requested=snapshot == "initial", notified=notifications, declared=again, held=held,
            empty=empty, may=self.tables if leaves_out else (),
        )
        # Transactions with rows that name no commit: the first of each slot. Of several slots, only ENDs separate them.
        self._first_ones: set[int] = set()
        # With declared resnapshots: the least commit that the rows of an open transaction name.
        self._named: dict[int, int] = {}
        self._tracker = TransactionTracker[int](self.tables, 0 if self.snapshots.released else None)
        self._halts: dict[int, tuple[str, str]] = {}
        # A stop that belongs to no open transaction; nothing above `_cap` is released any more.
        self._stop: tuple[str, str] | None = None
        self._cap: int | None = None
        # Whether the stop is due to an undeclared snapshot; whether it may be.
        self._another = self._perhaps_another = False
        # Transactions whose halt may be due to one.
        self._unknown: set[int] = set()
        # Released transactions that a row without a previous commit may belong to, while the snapshot's LSN is unknown.
        self._finished: set[int] = set()
        self._begins = BeginRecords[int]()
        self._has_end: Callable[[int, int], bool] = lambda tx, through: False
        # A fact that was found after the logs were stated beyond it: no log can become right any more.
        self._spoilt: tuple[str, str] | None = None
        # Whether that fact was a row that names no commit: the first transaction of a new slot has such rows, too.
        self._spoilt_by_none = False
        # Whether it was a lost END, which may belong to a lost slot.
        self._spoilt_by_lost = False
        #: Whether the topics are read to their ends to find such a snapshot, before a stop is raised.
        self.seeks = False
        if known > 0:
            self._resume_at(known - 1)

    def _resume_at(self, through: int) -> None:
        self._tracker = TransactionTracker[int](self.tables, through)
        self.snapshots.resume(through)

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
    def certain(self) -> int | None:
        """A row whose ``sequence[0]`` is below it is a duplicate, whichever its transaction; None: no row is."""
        return self._tracker.released.certain

    @property
    def lost(self) -> bool:
        """Whether an END is lost, or was wrong. The state must keep that: another run may see the evidence too late.

        False until the topics were read to their ends for an explanation: a verdict in the state is not judged again.
        """
        seeking = self.seeks and not self.snapshots.searched and self.searches_resnapshot
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
            seq = self.null_reads
            if seq is None:
                return self._is_finished(tx, table, number)
        found = self._tracker.is_repeat(tx, seq, table, number)
        if isinstance(found, Contradiction):
            # The END may be lost with a slot, and a resnapshot that this run was not given may have made up for it.
            healed = found.lost and self.seeks and not self.snapshots.declared
            self._spoilt_by_lost |= healed and not none and self._spoilt is None
            # The END of that transaction does not count the row, whichever commit the row names.
            self._contradicted(found, None, by_none=found.lost and (none or healed))
            return True
        return found

    def _is_finished(self, tx: int, table: str, number: int) -> bool:
        known = not self.snapshots.declared and self._tracker.released.has(tx)
        if tx not in self._finished and not known:
            return False
        self._first_ones.add(tx)
        found = self._tracker.released.numbered(tx, table, number)
        if found is not None:
            self._contradicted(found, None)
        return True

    @property
    def null_reads(self) -> int | None:
        """What a null ``sequence[0]`` reads as; None: only the END of its transaction shows it."""
        return None if self.snapshots.declared else self.snapshots.lsn

    def _contradicted(
        self, found: Contradiction, cap: int | None, *, by_none: bool = False, another: bool = False
    ) -> None:
        if found.stated:
            self._spoil(found.reason, found.remedy, by_none)
        else:
            self._another = self._another or (another and self._stop is None)
            self._halt_all(found.reason, found.remedy, cap)

    def _judge(self, stops: Iterable[SnapshotStop]) -> None:
        """Take what stops the capture because of a snapshot."""
        for found, cap, another in stops:
            self._contradicted(found, cap, another=another)

    def _spoil(self, reason: str, remedy: str, by_none: bool) -> None:
        if self._spoilt is None or (self._spoilt_by_none and not by_none):
            self._spoilt, self._spoilt_by_none = self._in_words(reason, remedy), by_none
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

    def recall(
        self, recalled: ReleasedEnds[int], has_end: Callable[[int, int], bool] = lambda tx, through: False
    ) -> None:
        """Take what was read again of the transaction topic, before the first fact.

        ``has_end``: whether that topic has an END of a transaction, up to a commit.
        """
        self._has_end = has_end
        self._tracker.look_for_lost(has_end)
        self._begins.recall(
            recalled.last, gone=recalled.gone, unended=recalled.unended, highest=recalled.highest
        )
        for tx in recalled.restarted:
            self._tracker.restarted(tx)
        for tx, lsn, _ in recalled.ends:
            self._is_early(tx, lsn)
        through = self.through
        if through is not None:
            floor = self.snapshots.begins(lsn for _, lsn, _ in recalled.ends)
            floor = max((lsn for lsn in self.snapshots.declared if lsn <= through), default=floor)
            self._tracker.recall(recalled, floor)
        if recalled.doubted is not None:
            self._tracker.doubt(recalled.doubted)

    def end(self, tx: int, lsn: int, counts: Mapping[str, int]) -> bool:
        """END of a transaction: its commit LSN, and how many rows each table has in it (tables not captured, too).

        Returns False for a duplicate. The same END may come several times, with the same counts.
        """
        self._doubt(tx)
        for begun, before in self._begins.end(tx, lsn):
            if makes_up_for(before, lsn, self.snapshots.declared):
                continue
            after = self._tracker.unended(begun, before, lsn, self._has_end)
            if after is not None and self.snapshots.declared:
                self._named[begun] = after
        of_none = end_of_declared(tx, lsn, self.snapshots.declared)
        if of_none is not None:
            self._judge([of_none])
            return False
        if self._is_early(tx, lsn):
            return False
        if self.through is not None and lsn <= self.through and self.null_reads is None:
            self._finished.add(tx)
        found = self._tracker.end(tx, lsn, counts)
        if isinstance(found, Contradiction):
            self._contradicted(found, lsn - 1)
            return False
        return found

    def _is_early(self, tx: int, lsn: int) -> bool:
        """Whether an END is not after the snapshot. It stops the capture, whichever of the two is read first."""
        early = self.snapshots.end(tx, lsn)
        self._judge([] if early is None else [early])
        return early is not None

    def rows_seen(
        self, tx: int, table: str, distinct: int, highest: int | None = None, more: int | None = None
    ) -> None:
        """The transaction has ``distinct`` rows of the table so far, without duplicates (:meth:`is_repeat`).

        ``highest`` is the greatest of their order numbers (``data_collection_order``), which count from 1. With 0 rows,
        what was counted before is forgotten. ``more`` is the sum of their diffs (default: all are inserts).
        """
        if distinct:
            self._more.setdefault(tx, {})[table] = distinct if more is None else more
        else:
            self._more.pop(tx, None)
            self._had.pop(tx, None)
        self._tracker.rows_seen(tx, table, distinct, distinct if highest is None else highest)

    def had(self, tx: int, table: str) -> None:
        """The table's first new row in ``tx`` shows that the table had rows before: see ``had_rows``."""
        if self._mode == "initial":
            self._had.setdefault(tx, set()).add(table)

    def comes_after(self, tx: int, seq: int | None) -> None:
        """A new row of ``tx``, or the record that stops the capture there, has this ``sequence[0]``."""
        if seq is None and self.snapshots.declared:
            self._first_ones.add(tx)
            return
        if seq is not None and self.snapshots.declared:
            self._named[tx] = min(seq, self._named.get(tx, seq))
        self._tracker.comes_after(tx, seq)

    def halt(self, tx: int, reason: str, remedy: str, *, unknown: bool = False) -> None:
        """The transaction has a fact that cannot be captured: release all before it, then stop.

        ``unknown``: the state does not know the row that the fact changes. Perhaps something was lost before it.
        """
        self._halts.setdefault(tx, self._in_words(reason, remedy))
        if unknown:
            self._unknown.add(tx)

    def stop(self, reason: str, remedy: str) -> None:
        """Stop now: release only what is complete already. A snapshot is complete when it is released."""
        self._halt_all(reason, remedy, None if self.snapshots.released else -1)

    def _halt_all(self, reason: str, remedy: str, cap: int | None) -> None:
        if self._stop is None:
            self._stop = self._in_words(reason, remedy)
        if cap is not None:
            self._cap = cap if self._cap is None else min(self._cap, cap)

    def _in_words(self, reason: str, remedy: str) -> tuple[str, str]:
        return self._words.fill(reason), self._words.fill(remedy)

    # -- facts of the snapshot

    def snapshot_rows(self, table: str, lsn: int, distinct: int) -> None:
        """There are ``distinct`` unreleased snapshot rows of the table (by topic, partition, offset), with this LSN."""
        self._judge(self.snapshots.rows_seen(table, lsn, distinct, self.through or 0))

    def snapshot_read(self, table: str, lsn: int, place: Place, offset: int, rows: int = 1) -> None:
        """Snapshot rows of the table with this LSN stand in a partition, the last of them at ``offset``.

        Call it for all such rows: besides :meth:`snapshot_rows` until the snapshot is released, afterwards alone.
        """
        self._judge(self.snapshots.row_read(table, lsn, place, offset, rows, self.through or 0))

    def snapshot_marked(self, marker: str, position: Sequence[object]) -> None:
        """The unreleased snapshot row at ``position`` has this ``source.snapshot``."""
        self._judge(self.snapshots.marked(marker, position))

    def notification(
        self, kind: str, table: str | None, rows: int | None, offset: int, status: str | None = None
    ) -> None:
        """A notification about the initial snapshot, in the order of its topic, with its offset there."""
        self._judge(self.snapshots.notification(kind, table, rows, offset, status))

    @property
    def needs_ends(self) -> bool:
        """Whether the end positions of the tables' partitions should be read now, for :meth:`ends_read`."""
        return self.snapshots.needs_ends or self._needs_topics

    @property
    def _needs_topics(self) -> bool:
        """Whether the topics that exist decide which tables the history covers: no snapshot begins it."""
        return self._leaves_out and self._mode == "none" and not self.through and not self.snapshots.topics_known

    def ends_read(self, ends: Mapping[Place, int], tables: Iterable[str] | None = None) -> None:
        """The next offsets of all partitions, read after ``needs_ends`` became true. Then call ``consumed``.

        ``tables`` are those that have a topic (default: all of them).
        """
        begins = self._needs_topics
        self.snapshots.ends_read(ends, self.tables if tables is None else tables)
        if begins:
            self._uncovered |= self.snapshots.without_topic()

    # -- decisions

    def ready(self) -> Release | None:
        """What may be released now, or None. Only finds contradictions on the way: call it at any time."""
        snapshot, through = None, self.through
        if self._spoilt is not None or (self._another and self.searches_resnapshot and self.snapshots.pending is None):
            # Transactions committed after that snapshot must wait: something may have been lost before it.
            return None
        if not self.snapshots.released:
            snapshot = through = self.snapshots.lsn or 0
            if (self._cap is not None and self._cap < snapshot) or not self.snapshots.whole():
                self._judge(self.snapshots.stops())
                return None
        again, lost = self.snapshots.pending, self._tracker.lost()
        transactions = list[Commit[int]]()
        begins, uncovered = dict[str, int](), UncoveredTables(self._uncovered, self._partial)
        counted = None if self._counted is None else self._counted.copy()
        if snapshot is not None:
            uncovered.add(self.snapshots.uncovered)
            self._begin_counting(counted)
        for end in self._tracker.ends():
            if not is_due(end.lsn, again, lost):
                if again is None and lost is not None:
                    self._perhaps_another = self._perhaps_another or self._stop is None
                    self._halt_all(self._tracker.lost_text(lost), LOST, None)
                break
            if self._held_back(end) or self._lacks_rows(end, counted):
                break
            transactions.append(Commit(end.tx, end.lsn))
            begins.update(dict.fromkeys(uncovered.begin(end.counts, self._had.get(end.tx, ())), end.lsn))
            through = end.lsn
        assumed = snapshot is not None and self.snapshots.assumed
        first = snapshot is not None or (self._mode == "none" and not self.through)
        empty = self.snapshots.assumed_empty if first else frozenset[str]()
        if again is not None and self._resnapshot_is_whole(again, uncovered.tables):
            named = [table for table in uncovered.tables if self.snapshots.resnapshot_names(table)]
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
        """The uncovered tables whose records do not have all of their rows.

        The connector reports such a table, and its first row was an update or a delete: of a row that no record has.
        """
        return self._partial

    def _due(self) -> Iterator[OpenEnd[int]]:
        """The ENDs whose turn comes before the next resnapshot, or before an END that is lost, by commit."""
        again, lost = self.snapshots.pending, self._tracker.lost()
        return takewhile(lambda end: is_due(end.lsn, again, lost), self._tracker.ends())

    def _resnapshot_is_whole(self, again: int, uncovered: Iterable[str]) -> bool:
        whole = self.snapshots.resnapshot_is_whole(uncovered)
        self._judge(self.snapshots.stops())
        return whole and is_next(
            again, self._cap, ((bool(self._tracker.missing(end.tx)), end.tx in self._halts) for end in self._due())
        )

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

    def _begin_counting(self, counted: RowCounts | None) -> None:
        if counted is not None:
            counted.begin(self.snapshots.rows(table for table in self.tables if table not in self.snapshots.uncovered))

    def _effects(self, end: OpenEnd[int]) -> dict[str, TableEffect]:
        """What a whole transaction does to the captured tables."""
        had, more = self._had.get(end.tx, ()), self._more.get(end.tx, {})
        return {table: TableEffect(diffs, table in had) for table, diffs in more.items() if table in end.counts}

    def _lacks_rows(self, end: OpenEnd[int], counted: RowCounts | None) -> bool:
        """Whether a whole transaction, the next one to be released, changes rows that cannot be there."""
        table = None if counted is None else counted.take(end.lsn, self._effects(end))
        if counted is None or table is None:
            return False
        found = lacks_rows(end.tx, table, counted.rows(table))
        self.halt(end.tx, found.reason, found.remedy)
        return True

    def settle(self, release: Release) -> None:
        """Forget what :meth:`ready` returned: it is durable in every log, and stated."""
        self._uncovered, self._partial = release.uncovered, release.partial
        if release.snapshot is not None:
            self._begin_counting(self._counted)
            self.snapshots.release()
            self._tracker.begin(release.snapshot)
        ended = {tx for tx in release.superseded if self._tracker.end_of(tx) is not None}
        if self._counted is not None:
            for end in map(self._tracker.end_of, (tx for tx, _ in release.transactions)):
                if end is not None:
                    self._counted.take(end.lsn, self._effects(end))
        self._tracker.settle(release.transactions)
        for tx, _ in release.transactions:
            self._forget(tx, ended=True)
        if release.again is not None:
            for tx in release.superseded:
                self._tracker.forget(tx)
                self._forget(tx, ended=tx in ended)
            self._tracker.begin(release.again)
            self.snapshots.released_through(release.again)
        if self.snapshots.lsn is not None and not self.snapshots.declared:
            self._finished.clear()

    def _forget(self, tx: int, *, ended: bool) -> None:
        """Forget a transaction that is released, or superseded; ``ended``: its END was read."""
        self._halts.pop(tx, None)
        self._named.pop(tx, None)
        self._had.pop(tx, None)
        self._more.pop(tx, None)
        if ended and (tx in self._first_ones if self.snapshots.declared else self.snapshots.lsn is None):
            self._finished.add(tx)

    def stopped(self) -> SourceStop | None:
        """The stop that has been reached: raise it, once :meth:`ready` returns nothing more. None: go on."""
        reason, remedy, may_be = self._stop_reached()
        if not reason:
            return None
        known = self.snapshots.declared, self.snapshots.seen, self.through
        explained = declarations.undeclared(*known) or (self._spoilt and declarations.late(*known))
        if (self._another and not self._lasts) or (may_be and explained):
            remedy = self._words.fill(declarations.remedy(*known))
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
        another = len(self.snapshots.seen) > 1
        return not self._spoilt_by_none or (self._spoilt_by_lost and self.snapshots.searched and not another)

    def searched(self) -> None:
        """All topics were searched for the rows of an undeclared snapshot: see ``snapshot_found``."""
        self.snapshots.searched = True
        self._judge(self.snapshots.stops())

    def _stop_reached(self) -> tuple[str, str, bool]:
        """Reason and remedy, empty without a stop; and whether an undeclared snapshot is, or may be, the cause."""
        if self._spoilt is not None and self._lasts:
            return *self._spoilt, False
        if self._stop is not None:
            return *self._stop, self._another or self._perhaps_another
        first = next(self._due(), None)
        if first is not None and self.snapshots.released and first.tx in self._halts:
            return *self._halts[first.tx], first.tx in self._unknown
        return "", "", False

    @property
    def searches_resnapshot(self) -> bool:
        """Whether an undeclared snapshot may be the cause of a stop, and its LSN is unknown: see ``snapshot_found``."""
        return self._stop_reached()[2] and not self._undeclared()

    def _undeclared(self) -> list[int]:
        """The LSNs of resnapshots that can still be declared."""
        return declarations.undeclared(self.snapshots.declared, self.snapshots.seen, self.through)

    def snapshot_found(self, lsn: int) -> None:
        """A row of a snapshot with this LSN was found, in any topic."""
        self.snapshots.seen.add(lsn)
        for undeclared in self._undeclared()[:1]:
            self._halt_all(*self._stop_reached()[:2], undeclared)
            self._perhaps_another = True

    def waits(self) -> WaitReason:
        """Why nothing more can be released now."""
        if self._stop is not None:
            return WaitReason("stop", self._stop[0])
        if not self.snapshots.released:
            return WaitReason("snapshot", self.snapshots.waits(), missing=self.snapshots.missing())
        for lsn, tx, counts in self._due():
            missing = self._tracker.missing(tx)
            if tx in self._halts:
                return WaitReason("stop", f"transaction {tx} (END {lsn}): {self._halts[tx][0]}", tx, lsn)
            if missing:
                lacks = ", ".join(f"{lack} of {counts[table]} rows of {table}" for table, lack in missing.items())
                return WaitReason("rows", f"transaction {tx} (END {lsn}) lacks {lacks}", tx, lsn, missing)
        if self.snapshots.pending is not None:
            return WaitReason("snapshot", self.snapshots.waits(), missing=self.snapshots.missing())
        return without_end(self._tracker.without_end())

    def open_transactions(self) -> int:
        """How many transactions are open: seen in part, or whole but after one that is not whole."""
        return len(self._tracker.open())

    # -- memory

    def export(self) -> CommitsMemory:
        """What must survive a restart, as plain JSON. Facts of open transactions are read again from the topics."""
        plain: CommitsMemory = {
            "version": MEMORY_VERSION,
            "tables": list(self.tables),
            "mode": self._mode,
            "through": self.through,
            "snapshot": self.snapshots.export(),
            "lost": self._tracker.export_lost(),
            "spoilt": None if self._spoilt is None else [*self._spoilt, not self._lasts],
        }
        if self.snapshots.declared:
            plain["again"] = self.snapshots.export_resnapshots()
            plain["first"] = sorted(self._finished & self._first_ones)
        return plain

    @classmethod
    def restore(
        cls, plain: Mapping[str, Any], tables: Iterable[str], *, snapshot: str = "initial",
        notifications: bool = False, known: int = 0, again: Iterable[int] = (),
        held: Mapping[str, tuple[int, int]] | None = None, empty: Iterable[str] = (),
        uncovered: Iterable[str] = (), partial: Iterable[str] = (), leaves_out: bool = True,
        counted: Mapping[str, tuple[int, int]] | None = None, words: SourceWords = ANY_SOURCE,
    ) -> CommitTransactions:
        """The decisions as they stood at :meth:`export`, for logs that are stated up to ``known`` (their meet).

        The logs may be ahead of the saved state, if a crash prevented the last save. Raises ForeignStateError for the
        state of another capture, and for one ahead of the logs: its positions would skip what the logs lack.
        """
        commits = cls(
            tables, snapshot=snapshot, notifications=notifications, again=again, held=held, empty=empty,
            uncovered=uncovered, partial=partial, leaves_out=leaves_out, counted=counted, words=words,
        )
        check_memory(plain, commits.tables, snapshot, known)
        through = plain["through"]
        commits.snapshots.restore(plain["snapshot"], plain.get("again"), through)
        commits._tracker = TransactionTracker[int](commits.tables, through)
        if plain.get("again"):
            commits._finished.update(plain["first"])
            commits._first_ones.update(plain["first"])
        if plain.get("spoilt"):
            commits._spoilt = commits._stop = (plain["spoilt"][0], plain["spoilt"][1])
            commits._spoilt_by_none = commits._perhaps_another = plain["spoilt"][2:] == [True]
        if known > 0 and known - 1 != through:
            commits._resume_at(known - 1)
            return commits
        if plain.get("lost"):
            commits._tracker.restore_lost(*plain["lost"])
            if commits.snapshots.declared:
                tx, after, *_ = plain["lost"]
                commits._named[tx] = after
        return commits
