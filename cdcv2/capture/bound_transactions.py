"""Which transactions are whole, and what is held of the open ones: one time of the timeline after the other.

The result of a step depends on the set of records at its time and on what was held before. It does not depend on the
order of the records: rows, Ends and duplicates are all admitted before anything is released.

The file is long because it is one decision: each record changes what is held, and that decides what is released next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from cdcv2.capture.bound_transaction import Beside, BoundTransaction, stop_of
from cdcv2.capture.coverage import UncoveredTables
from cdcv2.capture.open_records import (
    SNAPSHOT, DoubtRecord, EndRecord, HaltRecord, OpenRecord, ReleaseRecord, RestartRecord, RowRecord, SourceRecord,
    StartRecord, ThroughRecord, TransientRecord, Tx, UnendedRecord,
)
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.row_counts import RowCounts, TableEffect
from cdcv2.capture.snapshot import rules
from cdcv2.capture.source_words import ANY_SOURCE, SourceWords
from cdcv2.capture.table_content import State, UnknownChange
from cdcv2.capture.transaction_contradictions import LOST, Commit, Contradiction, uncounted_row, unknown_row
from cdcv2.capture.transactions import OpenEnd, TransactionTracker
from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import ForeignStateError, SourceStop
from cdcv2.protocol.log import Position
from cdcv2.timeline.ordering import AS_COMPLETE


@dataclass
class StepChanges:
    """What one step changes: in the open-records log (TEMP), and in each table. ``time`` is that of the step."""

    time: int = 0
    temp: list[tuple[OpenRecord, int]] = field(default_factory=list)
    output: dict[str, ChangeBatch[Any]] = field(default_factory=dict)
    #: The transactions that the step releases.
    given: list[Tx] = field(default_factory=list)
    #: The tables that are covered from this step on: a released transaction is the first with rows of them.
    begins: list[str] = field(default_factory=list)


class BoundTransactions:
    """Holds open transactions, and releases the whole ones step by step. Memory: what is open.

    ``state`` is where before-images are looked up. ``uncovered`` are the tables that the connector has not reported
    yet, and ``partial`` those that have rows which are in no record. ``had`` decides of a row of an uncovered table
    whether it shows such rows; None: no row is asked. ``counted`` has how many rows tables have, as the logs state
    (:class:`~cdcv2.capture.row_counts.RowCounts`); None: no table is judged by that. ``words`` are those of the
    database in what is kept.

    >>> whole = BoundTransactions(StartRecord("commit", ("t",), False))
    >>> changed = whole.advance([RowRecord("t", 7, 1, None, (("a", 1),)), EndRecord.of(7, 50, {"t": 1, "other": 3})])
    >>> list(changed.output["t"]), changed.temp[1:]
    ([('a', 1)], [(ThroughRecord(commit=50, base=0), 1)])

    Source: the rules of explicit commit times, for one time of the timeline after the other.
    """

    def __init__(
        self, begun: StartRecord, state: State | None = None, *, uncovered: Iterable[str] = (),
        partial: Iterable[str] = (),
        had: Callable[[RowRecord], bool] | None = None,
        counted: RowCounts | None = None,
        words: SourceWords = ANY_SOURCE,
    ) -> None:
        self._begun, self._state, self._had, self._counted, self._words = begun, state, had, counted, words
        self._uncovered = UncoveredTables(uncovered, partial)
        self._captured = frozenset(begun.tables)
        # Whether TEMP has the StartRecord.
        self._reported = False
        # H while TEMP has no ThroughRecord; None: not even the snapshot is released.
        self._start = None if begun.snapshot else ThroughRecord(0, 0)
        self._through = self._start
        self._tracker = TransactionTracker[Tx](begun.tables, self.through)
        self._open: dict[Tx, BoundTransaction] = {}
        self._done: dict[Tx, ReleaseRecord] = {}
        # Released transactions whose counts are unknown, because the topic has lost their Ends; with the Ends' commits.
        self._uncounted: dict[Tx, int] = {}
        self._records = self._halted = 0

    @property
    def tables(self) -> tuple[str, ...]:
        """Those captured; sorted."""
        return self._begun.tables

    @property
    def through(self) -> int | None:
        """The commit up to which all is released; None while not even the snapshot is."""
        return None if self._through is None else self._through.commit

    @property
    def has_released(self) -> bool:
        """Whether anything is released."""
        return self._through != self._start or bool(self._done)

    @property
    def uncovered(self) -> frozenset[str]:
        """The tables that the connector has not reported in what is released, and those that are partial."""
        return self._uncovered.tables

    @property
    def partial(self) -> frozenset[str]:
        """The uncovered tables whose records do not have all of their rows.

        The connector reports such a table, and its first row was an update or a delete: of a row that no record has.
        """
        return self._uncovered.partial

    def uncover(self, tables: Iterable[str]) -> None:
        """Add tables that the connector has not reported."""
        self._uncovered.add(tables)

    @property
    def has_started(self) -> bool:
        """Whether there is an output: a record was read, and the snapshot, if there is one, is released."""
        return self._reported and self._through is not None

    @property
    def held(self) -> int:
        """How many records are held of transactions. Cost: constant."""
        return self._records + len(self._done)

    def content(self) -> Iterator[OpenRecord]:
        """All that TEMP holds."""
        if self._reported:
            yield self._begun
        if self._through is not None and self._through != self._start:
            yield self._through
        yield from self._done.values()
        for opened in self._open.values():
            yield from opened.content()

    def restore(self, content: Iterable[OpenRecord], recalled: ReleasedEnds[Tx] | None = None) -> None:
        """Take over what another run held; ``recalled`` is what was read again of the transaction topic.

        Without ``recalled``, any later record of a released transaction stops the capture. Raises ForeignStateError if
        another capture held it.
        """
        held_before = list(content)
        self._through = next((held for held in held_before if isinstance(held, ThroughRecord)), self._through)
        base = None if self._through is None else self._through.base
        self._tracker = TransactionTracker[Tx](self.tables, self.through, whole=self.through == base)
        if recalled is not None and base is not None:
            self._tracker.recall(recalled, base)
        if recalled is not None and recalled.doubted is not None:
            self._tracker.doubt(recalled.doubted)
        counted = {} if recalled is None else {lsn: counts for _, lsn, counts in recalled.after(self.through or 0)}
        for held in sorted(held_before, key=_ends_in_order):
            if isinstance(held, StartRecord):
                self._reported = True
                if held != self._begun:
                    raise ForeignStateError(
                        f"the open-records log was begun as {held}, and this capture is {self._begun}: give it logs of "
                        "its own, or begin it alike"
                    )
            elif isinstance(held, ReleaseRecord):
                self._done[held.tx] = held
                if held.commit not in counted:
                    self._uncounted[held.tx] = held.commit
                self._tracker.end(held.tx, held.commit, counted.get(held.commit, {}))
                self._tracker.mark_released(held.tx)
            elif not isinstance(held, ThroughRecord):
                self._admit(held)
        for opened in self._open.values():
            opened.age()

    def halt(self) -> HaltRecord | None:
        """The reason why the next transaction can never be released; None: go on."""
        if not self._halted:
            return None
        turns: Iterable[Tx] = [SNAPSHOT]
        if self._through is not None:
            ends = self._tracker.ends()
            turns = (end.tx for end in (ends if self._begun.ordering == AS_COMPLETE else islice(ends, 1)))
        stuck = (self._open[tx].halts for tx in turns if tx in self._open)
        return next((min(halts, key=str) for halts in stuck if halts), None)

    # -- one step

    def advance(self, records: Iterable[SourceRecord | TransientRecord], time: int = 0) -> StepChanges:
        """Take all records of one ``time``. Cost: O(log open) each, and what is released.

        Raises SourceStop if they cannot all be right; the object must not be used after that.
        """
        changed, reported = StepChanges(time), list[SourceRecord]()
        doubted, unended = set[Tx](), list[UnendedRecord]()
        for record in records:
            if isinstance(record, DoubtRecord):
                self._tracker.doubt(record.tx)
                doubted.add(record.tx)
            elif isinstance(record, UnendedRecord):
                unended.append(record)
            else:
                reported.append(record)
        if not self._reported and reported:
            changed.temp.append((self._begun, 1))
        before, highest = self._through, self._tracker.highest
        touched: dict[Tx, BoundTransaction] = {}
        again = set[Tx]()
        contradictions = list[SourceStop]()
        # Ends first, in order: whether an End is new must not depend on the order of the records.
        for record in sorted(reported, key=_ends_in_order):
            try:
                if not self._is_repeat(record, before, highest):
                    touched[record.tx] = self._admit(record)
                elif isinstance(record, EndRecord):
                    again.add(record.tx)
            except SourceStop as stop:
                contradictions.append(stop)
        if contradictions:
            # Nor which of several stops it.
            raise min(contradictions, key=lambda stop: (not stop.lasting, str(stop)))
        for one in unended:
            self._tracker.unended(one.tx, one.after, one.end)
        self._check({*touched, *doubted})
        self._drop_restarts(again, changed)
        self._release(touched, changed)
        for tx, opened in touched.items():
            if tx in self._open:
                changed.temp.extend((held, 1) for held in opened.added())
                opened.age()
        if self._through != before:
            throughs = ((before, -1), (self._through, 1))
            changed.temp.extend((held, diff) for held, diff in throughs if held is not None and held != self._start)
        # A step that can never be released gives no output, unless there was one before.
        self._reported = self._reported or bool(reported)
        return changed

    def _is_repeat(self, record: SourceRecord, before: ThroughRecord | None, highest: int) -> bool:
        """Whether the record has no effect: its table is not captured, or its transaction was released before."""
        if isinstance(record, RestartRecord):
            return record.tx in self._done or self._tracker.released.has(record.tx)
        if record.tx == SNAPSHOT:
            return self._is_snapshot_repeat(record, before)
        if isinstance(record, EndRecord):
            return self._is_end_repeat(record, before, highest)
        if isinstance(record, RowRecord) and record.table not in self._captured:
            return True
        table, number = record.table, record.number or 0
        if record.tx in self._done:
            self._check_done(record.tx, table, number)
            return True
        if before is None:
            return False
        found = self._tracker.is_repeat(record.tx, before.base if record.after is None else record.after, table, number)
        if found:
            self._check_counted(record.tx)
        if isinstance(found, Contradiction):
            raise stop_of(found)
        return found

    def _check_done(self, tx: Tx, table: str, number: int) -> None:
        """Raise SourceStop if a released transaction, which an open one precedes, did not count this row."""
        end = self._tracker.end_of(tx)
        self._check_counted(tx)
        if end is not None:
            _stop_for(uncounted_row(tx, table, number, end.lsn, end.counts))

    def _check_counted(self, tx: Tx) -> None:
        """Raise SourceStop for a row if the topic has lost the counts of its transaction's END."""
        if tx in self._uncounted:
            raise stop_of(unknown_row(tx, self._uncounted[tx] - 1, self._tracker.released.oldest))

    def _check(self, touched: Collection[Tx]) -> None:
        """Raise SourceStop if what is held of these transactions cannot be right."""
        if SNAPSHOT in touched:
            self._check_snapshot(self._open[SNAPSHOT])
        found = [(tx, self._tracker.contradiction(tx)) for tx in touched if tx != SNAPSHOT]
        wrong = min(((str(tx), one) for tx, one in found if one is not None), default=None)
        if wrong is not None:
            raise stop_of(wrong[1])
        lost = self._tracker.lost() if self._tracker.first() is not None else None
        if lost is not None:
            raise SourceStop(self._tracker.lost_text(lost), LOST)

    def _check_snapshot(self, opened: BoundTransaction) -> None:
        """Raise SourceStop if the rows are more than the End counts, or belong to snapshots at two LSNs."""
        # All rows held before this step have one LSN: one of them stands for all.
        rows = *islice(opened.rows.values(), 1), *(held for held in opened.added() if isinstance(held, RowRecord))
        places = {row.after or 0 for row in rows} | ({opened.end.commit} if opened.end else set())
        _stop_for(rules.two_snapshots(places))
        if opened.end is not None:
            _stop_for(rules.surplus({**dict.fromkeys(self.tables, 0), **dict(opened.end.counts)}, opened.seen))

    def _drop_restarts(self, again: Iterable[Tx], changed: StepChanges) -> None:
        """Forget the restarts of transactions whose Ends are duplicates: they were restarted when already released."""
        for tx in again:
            opened = self._open.get(tx)
            if opened is not None and [*opened.content()] == [RestartRecord(tx)]:
                changed.temp.extend((held, -1) for held in opened.before())
                self._records -= 1
                self._tracker.forget(tx)
                del self._open[tx]

    def _is_snapshot_repeat(self, record: RowRecord | HaltRecord | EndRecord, before: ThroughRecord | None) -> bool:
        """Whether a record of the snapshot has no effect. After the snapshot's release, only its End is a duplicate."""
        if isinstance(record, RowRecord) and record.table not in self._captured:
            return True
        at = record.commit if isinstance(record, EndRecord) else record.after
        if not self._begun.snapshot and at is not None:
            given = max([0 if before is None else before.commit, *(done.commit for done in self._done.values())])
            raise stop_of(rules.unexpected_snapshot(at, given, begun=self._reported))
        if before is None:
            return False
        if isinstance(record, HaltRecord):
            raise SourceStop(record.reason, record.remedy)
        table = record.table if isinstance(record, RowRecord) else "all tables"
        _stop_for(rules.second_snapshot(table, at or 0, before.base, before.commit))
        if isinstance(record, RowRecord):
            # Also for a row below H: the End has counted all rows, and each record comes once.
            raise stop_of(rules.lacked_row(table, _position(record)))
        return True

    def _is_end_repeat(self, record: EndRecord, before: ThroughRecord | None, highest: int) -> bool:
        if before is not None and self._begun.snapshot:
            _stop_for(rules.early_end(record.tx, record.commit, before.base, stated=True))
        if self._uncounted.get(record.tx) == record.commit:
            return True
        found = self._tracker.end(record.tx, record.commit, dict(record.counts), highest)
        if isinstance(found, Contradiction):
            raise stop_of(found)
        return not found

    def _admit(self, record: SourceRecord) -> BoundTransaction:
        """Hold a record of a transaction, unless it is held already; returns the transaction."""
        opened = self._open.get(record.tx)
        if opened is None:
            opened = self._open[record.tx] = BoundTransaction()
        if isinstance(record, RowRecord):
            self._admit_row(record, opened)
            return opened
        one: Beside = record
        if isinstance(record, EndRecord):
            one = replace(record, counts=tuple(self._tracker.captured(dict(record.counts)).items()))
        if one in opened.beside:
            return opened
        if isinstance(one, HaltRecord):
            self._halted += not opened.halts
            if one.tx != SNAPSHOT:
                self._tracker.comes_after(one.tx, one.after)
        elif isinstance(one, RestartRecord):
            self._tracker.restarted(one.tx)
        elif one.tx != SNAPSHOT:
            self._tracker.end(one.tx, one.commit, dict(one.counts))
        elif opened.end is not None:
            _stop_for(rules.two_ends(opened.end, one))
        self._records += 1
        opened.beside[one] = None
        opened.fresh.append(one)
        return opened

    def _admit_row(self, row: RowRecord, opened: BoundTransaction) -> None:
        held = opened.rows.get(row.order)
        if held is None:
            opened.add(row)
            self._records += 1
        elif not opened.add_copy(row, held):
            return
        if row.tx == SNAPSHOT:
            return
        self._tracker.rows_seen(row.tx, row.table, *opened.counted(row.table))
        self._tracker.comes_after(row.tx, row.after)
        if row.renumbered:
            self._tracker.renumbered(row.tx)

    # -- what is released

    def _release(self, touched: dict[Tx, BoundTransaction], changed: StepChanges) -> None:
        """Release the whole transactions whose turn it is. Those that must halt on the way are added to ``touched``."""
        asked: Iterable[Tx] = touched
        if self._through is None:
            if not self._release_snapshot(touched, changed):
                return
            asked = [end.tx for end in self._tracker.ends()]
        if self._begun.ordering == AS_COMPLETE:
            self._release_complete(asked, touched, changed)
            return
        for end in list(self._tracker.ends()):
            if not self._is_whole(end.tx) or not self._move_out(end.tx, touched, changed):
                break
            self._pass(end)

    def _release_snapshot(self, touched: dict[Tx, BoundTransaction], changed: StepChanges) -> bool:
        opened = self._open.get(SNAPSHOT)
        end = opened.end if opened is not None else None
        if opened is None or end is None:
            return False
        counted = not rules.lacking(dict(end.counts), opened.seen)
        if not rules.is_first_whole(sound=not opened.halts, counted=counted):
            return False
        base, first = end.commit, self._tracker.first()
        if first is not None:
            _stop_for(rules.early_end(first.tx, first.lsn, base))
        if not self._move_out(SNAPSHOT, touched, changed):
            return False
        self._through = ThroughRecord(base, base)
        self._tracker.begin(base)
        return True

    def _is_whole(self, tx: Tx) -> bool:
        """Whether a transaction, whose End is in, has all its rows."""
        return tx in self._open and not self._open[tx].halts and not self._tracker.missing(tx)

    def _release_complete(self, asked: Iterable[Tx], touched: dict[Tx, BoundTransaction], changed: StepChanges) -> None:
        fresh: dict[Tx, ReleaseRecord] = {}
        for tx in asked:
            end = self._tracker.end_of(tx)
            if end is not None and self._is_whole(tx) and self._move_out(tx, touched, changed):
                self._done[tx] = fresh[tx] = ReleaseRecord(tx, end.lsn)
        while (end := self._tracker.first()) is not None and end.tx in self._done:
            self._pass(end)
            done = self._done.pop(end.tx)
            if fresh.pop(end.tx, None) is None:
                changed.temp.append((done, -1))
        changed.temp.extend((done, 1) for done in fresh.values())

    def _move_out(self, tx: Tx, touched: dict[Tx, BoundTransaction], changed: StepChanges) -> bool:
        """Move a transaction from what is held to the output. False: it halts, as its changes cannot be known."""
        opened = self._open[tx]
        counts = {} if opened.end is None else dict(opened.end.counts)
        had = self._with_rows_before(opened.rows.values())
        partial = {*self._uncovered.partial, *had}
        lacking = self._count(tx, opened, changed.time)
        if lacking is not None:
            touched[tx] = self._admit(HaltRecord(tx, None, lacking.reason, self._words.fill(lacking.remedy)))
            return False
        try:
            does = self._does(tx, [row for row in opened.rows.values() if row.table not in partial])
        except UnknownChange as unknown:
            touched[tx] = self._admit(HaltRecord(tx, None, unknown.reason, self._words.fill(unknown.remedy)))
            return False
        del self._open[tx]
        self._tracker.mark_released(tx)
        self._records -= len(opened)
        changed.given.append(tx)
        changed.begins += self._uncovered.begin(counts, had)
        changed.temp.extend((held, -1) for held in opened.before())
        for table, changes in does:
            changed.output.setdefault(table, ChangeBatch()).extend(changes)
        return True

    def _count(self, tx: Tx, opened: BoundTransaction, time: int) -> Contradiction | None:
        """Count the rows of the tables after a whole transaction; or why it changes rows that cannot be there."""
        if self._counted is None:
            return None
        if tx == SNAPSHOT:
            covered = (table for table in self.tables if table not in self._uncovered.tables)
            self._counted.begin({table: opened.seen.get(table, 0) for table in covered})
            return None
        more, had = dict.fromkeys(opened.seen, 0), set[str]()
        for row in opened.rows.values():
            for _, diff in row.changes:
                more[row.table] += diff
            if self._had is not None and row.table not in had and self._had(row):
                had.add(row.table)
        effects = {table: TableEffect(number, table in had) for table, number in more.items()}
        table = self._counted.take(time, effects)
        return None if table is None else rules.lacks_rows(tx, table, self._counted.rows(table))

    def _with_rows_before(self, rows: Iterable[RowRecord]) -> set[str]:
        """The uncovered tables that had rows before these, which are the first records of them."""
        tables = self._uncovered.tables
        if self._had is None or not tables:
            return set()
        return {row.table for row in rows if row.table in tables and self._had(row)}

    def _does(self, tx: Tx, rows: Collection[RowRecord]) -> Iterable[tuple[str, Iterable[tuple[Any, int]]]]:
        """The changes of a transaction, by table."""
        if self._state is not None:
            return self._state.take(tx, rows)
        return ((row.table, row.changes) for row in rows)

    def _pass(self, end: OpenEnd[Tx]) -> None:
        """Everything up to this END is released."""
        self._tracker.settle([Commit(end.tx, end.lsn)])
        self._through = ThroughRecord(end.lsn, 0 if self._through is None else self._through.base)


def _stop_for(found: Contradiction | None) -> None:
    """Raise SourceStop for a contradiction."""
    if found is not None:
        raise stop_of(found)


def _position(row: RowRecord) -> object:
    """The position of a snapshot row, which identifies it."""
    return Position(*row.order) if isinstance(row.order, tuple) else row.order


def _ends_in_order(record: OpenRecord) -> tuple[bool, int, str]:
    """Ends first, by their commits; everything else as it is."""
    return (False, record.commit, str(record)) if isinstance(record, (EndRecord, ReleaseRecord)) else (True, 0, "")
