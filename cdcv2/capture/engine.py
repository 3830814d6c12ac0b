"""The engine of a capture by commit times, without its rows: facts, state, and where reading starts again.

Without Spark the facts arrive one by one, with Spark in groups from executors. The rows are in a :class:`RowsStore`: in
memory, or with the executors. A fact with rows brings a function that keeps them there. The engine calls it if they
are no duplicates; it returns how many there are now, or a contradiction. So no decision depends on where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.connector import CaptureRecipe
from cdcv2.capture.evidence import SourceEvidence, Span
from cdcv2.capture.release_answers import Release
from cdcv2.capture.transaction_contradictions import Contradiction
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.log import Place
from cdcv2.timeline.positions import of_topics


class CaptureClock(Protocol):
    """Keeps when releases were committed."""

    def end(self, lsn: int, ts_ms: int | None) -> None:
        """An END was read."""

    def release(self, through: int) -> None:
        """Everything up to this END is about to be stated."""


class RowsStore(Protocol):
    """The rows that are not released, and which records must be read again for them after a crash."""

    def record_seen(self, tx: int, place: Place, offset: int) -> None:
        """A record that is no row must be read again with this transaction."""

    def snapshot_record_seen(self, place: Place, offset: int) -> None:
        """A record that is no row must be read again with the snapshot."""

    def doubted(self) -> Iterable[tuple[int, Iterable[int | None], Mapping[str, int]]]:
        """Transactions that may turn out later to have been released before.

        Each with the commits that its rows name, and the greatest number of its rows by table.
        """

    def drop(self, tx: int) -> None:
        """The transaction is released, or was before."""

    def drop_snapshot(self, again: int | None = None) -> None:
        """The snapshot is released; ``again`` is the LSN of a resnapshot."""

    def firsts(self) -> Mapping[Place, int]:
        """The first offset of each partition that has something unreleased."""


@dataclass(frozen=True)
class LogsState:
    """What the logs state when a capture is opened: how far, since when, and which tables are uncovered.

    ``knowns`` has for each covered table the time up to which it is stated, ``spans`` the first and the last time at
    which each log has updates. ``firsts``, ``uncovered``, ``partial`` and ``describing`` are those of
    ``CommitTransactions`` (``held`` and ``leaves_out`` there). ``stop`` is a permanent stop that they keep, reason and
    remedy; None: there is none. ``rows`` has of each log that begins with the history how many rows its table
    has, and at which time: see :class:`~cdcv2.capture.row_counts.RowCounts`.
    """

    knowns: Mapping[str, int]
    firsts: Mapping[str, tuple[int, int]]
    spans: Mapping[str, Span | None]
    uncovered: frozenset[str] = frozenset()
    partial: frozenset[str] = frozenset()
    describing: bool = True
    stop: tuple[str, str] | None = None
    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class CaptureEngine:
    """Feeds ``commits`` with facts, and has ``rows`` keep what is not released. One thread.

    ``evidence`` compares the topics with the logs, if no state shows that they belong together.

    >>> from cdcv2.capture.open_rows import OpenRows
    >>> from cdcv2.connectors.debezium.recipe import Recipe
    >>> from cdcv2.rows.row_type import RowType
    >>> kind = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
    >>> engine = CaptureEngine(
    ...     CommitTransactions(["public.t"], snapshot="none"), Recipe("p", {"public.t": kind}, snapshot="none"),
    ...     OpenRows())
    >>> engine.end(7, 100, {"public.t": 1}, None, ("p.transaction", 0), 0)
    >>> engine.rows("public.t", 7, None, ("p.public.t", 0), 1, keep=lambda: (1, 1, 1))
    True
    >>> engine.ready().transactions, engine.positions({("p.transaction", 0): 1})
    ((Commit(tx=7, lsn=100),), {('p.transaction', 0): 0})

    Cost: a fact O(log open). Memory: that of ``commits`` and ``rows``. Source: the rules of explicit commit times.
    """

    def __init__(
        self, commits: CommitTransactions, asked: CaptureRecipe, rows: RowsStore,
        evidence: SourceEvidence | None = None,
        clock: CaptureClock | None = None,
    ) -> None:
        self.commits = commits
        self._asked, self._rows, self._evidence, self._clock = asked, rows, evidence, clock
        # The partition of the notifications, once one was read.
        self._notified: Place | None = None

    @classmethod
    def opened(
        cls, asked: CaptureRecipe, remembered: Mapping[str, Any] | None, logs: LogsState, rows: RowsStore,
        clock: CaptureClock, *, looked_up: bool = False
    ) -> CaptureEngine:
        """The engine of a capture that starts or resumes; ``remembered`` is from :meth:`CommitTransactions.export`.

        ``looked_up``: before-images are looked up in the tables, which shows each row that is not there.
        Raises ForeignStateError if that state is of another capture, or is ahead of its logs.
        """
        # With no table covered, the logs do not show how far the capture is.
        known = min(logs.knowns.values(), default=((remembered or {}).get("through") or -1) + 1)
        how: dict[str, Any] = {
            "snapshot": asked.snapshot, "notifications": asked.notification_topic is not None, "known": known,
            "again": asked.resnapshots, "held": logs.firsts if known > 0 else None, "empty": asked.empty,
            "uncovered": logs.uncovered, "partial": logs.partial, "leaves_out": logs.describing,
            "counted": None if looked_up else logs.rows, "words": asked.words,
        }
        made = (
            CommitTransactions(asked.tables, **how)
            if remembered is None
            else CommitTransactions.restore(remembered, asked.tables, **how)
        )
        if logs.stop is not None:
            made.keep(*logs.stop)
        sure = remembered is not None or known == 0 or logs.stop is not None
        evidence = None if sure else SourceEvidence(logs.spans, asked.resnapshots, snapshot=asked.snapshot == "initial")
        return cls(made, asked, rows, evidence, clock)

    # -- what it knows

    @property
    def sure(self) -> bool:
        """Whether the topics are known to be those of the logs: only then may a state be saved."""
        return self._evidence is None or self._evidence.sure

    @property
    def frontier(self) -> Antichain | None:
        """Up to where the logs are complete; None if no table is covered yet: then no log has a statement."""
        return None if self.commits.uncovered.issuperset(self._asked.tables) else self.commits.frontier

    def positions(self, read: Mapping[Place, int], stopping: Mapping[Place, int] | None = None) -> dict[Place, int]:
        """From where each partition must be read again: everything before is released.

        ``read`` is how far they were read; ``stopping`` has the record that stops the capture. Topics of a dump that
        are not captured are left out: the next run may capture one of them, and must read it from its start.
        """
        positions = dict(read)
        for first in (self._rows.firsts(), stopping or {}):
            for place, offset in first.items():
                positions[place] = min(offset, positions.get(place, offset))
        notified = self.commits.snapshots.notifications_from
        if notified is not None and self._notified is not None:
            positions[self._notified] = min(notified, positions[self._notified])
        return of_topics(positions, self._asked.topics())

    def ended(self) -> None:
        """The end of the topics is reached. Raises ForeignStateError if the logs have what the topics lack."""
        if self._evidence is not None:
            self._evidence.finished()

    # -- facts

    def rows(
        self, table: str, tx: int, seq: int | None, place: Place, highest: int,
        keep: Callable[[], tuple[int, int, int] | Contradiction | None], *, renumbered: bool = False,
        had: bool = False,
    ) -> bool:
        """Take rows of a transaction that name the same commit; False: their transaction is released.

        ``highest`` is the greatest of their numbers in their table. ``keep`` keeps them, and returns how many rows of
        the table the transaction has now, the greatest number, and the sum of their diffs; None: all were kept before.
        """
        commits = self.commits
        commits.snapshots.passed(place)
        if commits.is_repeat(seq, tx, table, highest):
            return False
        commits.comes_after(tx, seq)
        if renumbered:
            commits.renumbered(tx)
        if had:
            commits.had(tx, table)
        kept = keep()
        if isinstance(kept, Contradiction):
            commits.halt(tx, kept.reason, kept.remedy)
        elif kept is not None:
            commits.rows_seen(tx, table, *kept)
        return True

    def snapshot_rows(
        self, table: str, lsn: int, place: Place, last: int, keep: Callable[[int | None], int | Contradiction],
        rows: int = 1,
    ) -> bool:
        """Take rows of a snapshot, the last of them at the offset ``last``; False: they are duplicates.

        ``keep`` keeps them, and returns how many the table has now. Its argument is the LSN of a resnapshot, None for
        the first snapshot.
        """
        commits = self.commits
        again, through = lsn in commits.snapshots.declared, commits.through or 0
        if again and lsn <= through:
            return False
        if not again and commits.snapshots.released:
            if self._evidence is not None:
                self._evidence.snapshot(table, lsn, through)
            commits.snapshot_read(table, lsn, place, last, rows)
            return False
        kept = keep(lsn if again else None)
        if isinstance(kept, Contradiction):
            commits.stop(kept.reason, kept.remedy)
            return True
        commits.snapshot_rows(table, lsn, kept)
        if not again:
            commits.snapshot_read(table, lsn, place, last, rows)
        return True

    def end(
        self, tx: int, lsn: int, counts: Mapping[str, int], ts_ms: int | None, place: Place, offset: int
    ) -> None:
        """Take an END. Raises ForeignStateError if it shows that the topics are not those of the logs."""
        if self._evidence is not None:
            self._evidence.end(lsn)
        if self._clock is not None:
            self._clock.end(lsn, ts_ms)
        if self.commits.end(tx, lsn, counts):
            self._rows.record_seen(tx, place, offset)

    def notification(
        self, kind: str, table: str | None, rows: int | None, place: Place, offset: int, status: str | None
    ) -> None:
        """Take a notification of a snapshot."""
        self.commits.notification(kind, table, rows, offset, status)
        self._notified = place
        if not self.commits.snapshots.released:
            self._rows.snapshot_record_seen(place, offset)

    def halt(
        self, table: str, tx: int | None, lsn: int | None, seq: int | None, number: int, place: Place, offset: int,
        reason: str, remedy: str,
    ) -> None:
        """Take a record that cannot be captured.

        ``tx`` is its transaction, ``lsn`` the LSN of the snapshot that it is a row of; None: it is of none.
        """
        commits = self.commits
        if tx is not None:
            if not commits.is_repeat(seq, tx, table, number):
                commits.comes_after(tx, seq)
                commits.halt(tx, reason, remedy)
                self._rows.record_seen(tx, place, offset)
        elif lsn is not None and lsn in commits.snapshots.declared:
            if lsn > (commits.through or 0):
                commits.stop(reason, remedy)
        elif lsn is not None and commits.snapshots.released:
            commits.snapshot_read(table, lsn, place, offset)
        else:
            commits.stop(reason, remedy)

    def read_to(self, positions: Mapping[Place, int]) -> None:
        """How far partitions have been read: their next offsets."""
        if self.commits.snapshots.reading_to_ends:
            self.commits.snapshots.consumed(positions)

    def ends_read(self, ends: Mapping[Place, int], read: Mapping[Place, int]) -> None:
        """The ends of the topics' partitions, as ``commits`` needs them; ``read`` is how far they have been read."""
        every = bool(self._asked.resnapshots)
        found = {place: end for place, end in ends.items() if every or self._asked.table(place[0])}
        tables = {self._asked.table(topic) for topic, _ in found}
        self.commits.ends_read(found, {table for table in tables if table is not None})
        self.commits.snapshots.consumed(read)

    # -- releases

    def ready(self) -> Release | None:
        """What may be released now; None: nothing.

        Before that it drops rows that only now are known to be duplicates, by a later END or a later release.
        """
        for tx, seqs, highest in list(self._rows.doubted()):
            counted = list(highest.items()) or [("", 0)]
            # All are judged, not only the first: each may show a row that END did not count.
            if any([self.commits.is_repeat(seq, tx, *one) for seq in seqs for one in counted]):
                self._rows.drop(tx)
                for table in highest:
                    self.commits.rows_seen(tx, table, 0)
        return self.commits.ready()

    def keep_time(self, release: Release) -> None:
        """Keep when the release was committed, before it is stated. Raises what the clock raises."""
        if self._clock is not None:
            self._clock.release(release.through)

    def settle(self, release: Release) -> None:
        """Forget the release and its rows: it is durable in every log, and stated."""
        self.commits.settle(release)
        for tx in (*(tx for tx, _ in release.transactions), *release.superseded):
            self._rows.drop(tx)
        if release.again is not None:
            self._rows.drop_snapshot(release.again)
        if release.snapshot is not None:
            self._rows.drop_snapshot()
