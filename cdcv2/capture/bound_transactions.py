"""Which transactions are whole, and what is held of the others: one time of the timeline after the other.

What a step comes to depends on the set of records that come at its time, and on what was held before it, not on the
order in which they came: rows, Ends and repeats are all admitted before anything is released.

The file is long as it is one decision: each record changes what is held, and that decides what is released next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from cdcv2.capture.bound_transaction import Beside, BoundTransaction, stop_of
from cdcv2.capture.contradictions import (
    LOST, NEW_SOURCE, Commit, Contradiction, early_end, lacked_row, second_snapshot, uncounted_row, unexpected_snapshot,
    unknown_row,
)
from cdcv2.capture.coverage import UncoveredTables
from cdcv2.capture.open_records import (
    SNAPSHOT, DoubtRecord, EndRecord, HaltRecord, Held, ReleaseRecord, RestartRecord, RowRecord, Said, StartRecord,
    ThroughRecord, Tx,
)
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.snapshot import too_many
from cdcv2.capture.state import State, UnknownChange
from cdcv2.capture.transactions import OpenEnd, TransactionTracker
from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import ForeignStateError, SourceStop
from cdcv2.protocol.log import Position
from cdcv2.timeline.ordering import AS_COMPLETE

_ANEW = "Begin anew: another slot, other topics, other logs"


@dataclass
class StepChanges:
    """What one step changes: in TEMP, and in each table."""

    temp: list[tuple[Held, int]] = field(default_factory=list)
    output: dict[str, ChangeBatch[Any]] = field(default_factory=dict)
    #: The transactions that are given out.
    given: list[Tx] = field(default_factory=list)
    #: The tables that are covered from now on, as one of these is the first that has rows of them.
    begins: list[str] = field(default_factory=list)


class BoundTransactions:
    """What is held, and what each step releases. Memory: what is open. ``state`` is where old rows are looked up.

    ``uncovered`` are the tables of which the connector has not spoken yet, and ``partial`` those that have rows which
    are in no record. ``had`` says of the row of an uncovered table whether it shows that; None: it is not asked.

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
    ) -> None:
        self._begun, self._state, self._had = begun, state, had
        self._uncovered = UncoveredTables(uncovered, partial)
        self._captured = frozenset(begun.tables)
        # Whether TEMP tells how it was begun.
        self._told = False
        # H as nothing in TEMP says it; None: not even the snapshot is released.
        self._start = None if begun.snapshot else ThroughRecord(0, 0)
        self._through = self._start
        self._tracker = TransactionTracker[Tx](begun.tables, self.through)
        self._open: dict[Tx, BoundTransaction] = {}
        self._done: dict[Tx, ReleaseRecord] = {}
        # Given out: what their Ends counted is not known, as the topic has lost these. With the places of the Ends.
        self._uncounted: dict[Tx, int] = {}
        self._records = self._halted = 0

    @property
    def tables(self) -> tuple[str, ...]:
        """Those captured; sorted."""
        return self._begun.tables

    @property
    def through(self) -> int | None:
        """The commit through which all is released; None while not even the snapshot is."""
        return None if self._through is None else self._through.commit

    @property
    def has_released(self) -> bool:
        """Whether anything is given out."""
        return self._through != self._start or bool(self._done)

    @property
    def uncovered(self) -> frozenset[str]:
        """The tables of which the connector has not spoken, in what is given out, and those that are partial."""
        return self._uncovered.tables

    @property
    def partial(self) -> frozenset[str]:
        """Those of them of which it spoke, and which have rows that are in no record."""
        return self._uncovered.partial

    def uncover(self, tables: Iterable[str]) -> None:
        """The connector has not spoken of these, either."""
        self._uncovered.add(tables)

    @property
    def has_started(self) -> bool:
        """Whether there is an output: something was said, and the snapshot, if there is one, is given out."""
        return self._told and self._through is not None

    @property
    def held(self) -> int:
        """How many records are held of transactions. Cost: constant."""
        return self._records + len(self._done)

    def content(self) -> Iterator[Held]:
        """All that TEMP holds."""
        if self._told:
            yield self._begun
        if self._through is not None and self._through != self._start:
            yield self._through
        yield from self._done.values()
        for opened in self._open.values():
            yield from opened.content()

    def restore(self, content: Iterable[Held], recalled: ReleasedEnds[Tx] | None = None) -> None:
        """Hold what another run held; ``released_ends`` is what was read again of the transaction topic.

        Without that, whatever is of transactions that were given out before stops it. Raises ForeignStateError for what
        another capture held.
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
                self._told = True
                if held != self._begun:
                    raise ForeignStateError(
                        f"what is in TEMP was begun as {held}, and this capture is {self._begun}: give it logs of its "
                        "own, or begin it alike"
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
        """What can never be given out, and whose turn it is; None: go on."""
        if not self._halted:
            return None
        turns: Iterable[Tx] = [SNAPSHOT]
        if self._through is not None:
            ends = self._tracker.ends()
            turns = (end.tx for end in (ends if self._begun.ordering == AS_COMPLETE else islice(ends, 1)))
        stuck = (self._open[tx].halts for tx in turns if tx in self._open)
        return next((min(halts, key=str) for halts in stuck if halts), None)

    # -- one step

    def advance(self, records: Iterable[Said | DoubtRecord]) -> StepChanges:
        """Take all records of one time. Cost: O(log open) each, and what is released.

        Raises SourceStop when they cannot all be right; the object must not be used after that.
        """
        changed, all_said = StepChanges(), list[Said]()
        doubted = set[Tx]()
        for record in records:
            if isinstance(record, DoubtRecord):
                self._tracker.doubt(record.tx)
                doubted.add(record.tx)
            else:
                all_said.append(record)
        if not self._told and all_said:
            changed.temp.append((self._begun, 1))
        before, highest = self._through, self._tracker.highest
        touched: dict[Tx, BoundTransaction] = {}
        again = set[Tx]()
        # Whether an End is new does not depend on which came first, and what is found first is to be the same.
        for said in sorted(all_said, key=_ends_in_order):
            if not self._is_repeat(said, before, highest):
                touched[said.tx] = self._admit(said)
            elif isinstance(said, EndRecord):
                again.add(said.tx)
        self._check({*touched, *doubted})
        self._drop_restarts(again, touched, changed)
        self._release(touched, changed)
        for tx, opened in touched.items():
            if tx in self._open:
                changed.temp.extend((held, 1) for held in opened.added())
                opened.age()
        if self._through != before:
            said_so = ((before, -1), (self._through, 1))
            changed.temp.extend((held, diff) for held, diff in said_so if held is not None and held != self._start)
        # Where this step can never be taken there is no output, unless there was one before.
        self._told = self._told or bool(all_said)
        return changed

    def _is_repeat(self, said: Said, before: ThroughRecord | None, highest: int) -> bool:
        """Whether nothing follows from it: it is of a transaction given out before this step, or of no table here."""
        if isinstance(said, RestartRecord):
            return said.tx in self._done or self._tracker.released.has(said.tx)
        if said.tx == SNAPSHOT:
            return self._is_snapshot_repeat(said, before)
        if isinstance(said, EndRecord):
            return self._is_end_repeat(said, before, highest)
        if isinstance(said, RowRecord) and said.table not in self._captured:
            return True
        table, number = ("", 0) if isinstance(said, EndRecord) else (said.table, said.number or 0)
        if said.tx in self._done:
            self._check_done(said.tx, table, number)
            return True
        if before is None:
            return False
        after = before.base if said.after is None else said.after
        if after >= before.commit:
            return False
        self._check_counted(said.tx)
        found = self._tracker.released.row(said.tx, after, table, number)
        if found is not None:
            raise stop_of(found)
        return True

    def _check_done(self, tx: Tx, table: str, number: int) -> None:
        """Raise SourceStop if a row of a transaction that is given out, before an earlier one, is not counted."""
        end = self._tracker.end_of(tx)
        self._check_counted(tx)
        if end is not None and number > end.counts.get(table, 0):
            raise stop_of(uncounted_row(tx, table, number, end.lsn, end.counts.get(table, 0)))

    def _check_counted(self, tx: Tx) -> None:
        """Raise SourceStop of a row if the topic has lost what the END of its transaction counted."""
        if tx in self._uncounted:
            raise stop_of(unknown_row(tx, self._uncounted[tx] - 1, self._tracker.released.oldest))

    def _check(self, touched: Collection[Tx]) -> None:
        """Raise SourceStop if what is held now of these transactions cannot be right."""
        if SNAPSHOT in touched:
            _check_snapshot(self._open[SNAPSHOT])
        found = [(tx, self._tracker.contradiction(tx)) for tx in touched if tx != SNAPSHOT]
        wrong = min(((str(tx), one) for tx, one in found if one is not None), default=None)
        if wrong is not None:
            raise stop_of(wrong[1])
        lost = self._tracker.lost() if self._tracker.first() is not None else None
        if lost is not None:
            raise SourceStop(self._tracker.lost_text(lost), LOST)

    def _drop_restarts(self, again: Iterable[Tx], touched: dict[Tx, BoundTransaction], changed: StepChanges) -> None:
        """What is held of these, whose Ends came again, is that they were begun again when they were given out."""
        for tx in again:
            opened = self._open.get(tx)
            if opened is not None and [*opened.content()] == [RestartRecord(tx)]:
                changed.temp.extend((held, -1) for held in opened.before())
                self._records -= 1
                self._tracker.forget(tx)
                del self._open[tx]
                touched.pop(tx, None)

    def _is_snapshot_repeat(self, said: RowRecord | HaltRecord | EndRecord, before: ThroughRecord | None) -> bool:
        """The same of what is said of the snapshot; when that is given out, nothing but its End is a repeat."""
        if isinstance(said, RowRecord) and said.table not in self._captured:
            return True
        at = said.commit if isinstance(said, EndRecord) else said.after
        if not self._begun.snapshot and at is not None:
            given = max([0 if before is None else before.commit, *(done.commit for done in self._done.values())])
            raise stop_of(unexpected_snapshot(at, given, begun=self._told))
        if before is None:
            return False
        if isinstance(said, HaltRecord):
            raise SourceStop(said.reason, said.remedy)
        if isinstance(said, EndRecord) and at == before.base:
            return True
        # Of a row, also below H: the End has counted all that there are, and a record comes once.
        if isinstance(said, RowRecord) and at == before.base:
            raise stop_of(lacked_row(said.table, _position(said)))
        raise stop_of(second_snapshot(said.table if isinstance(said, RowRecord) else "all tables", at or 0, _ANEW))

    def _is_end_repeat(self, said: EndRecord, before: ThroughRecord | None, highest: int) -> bool:
        if before is not None and self._begun.snapshot and said.commit <= before.base:
            raise stop_of(early_end(said.tx, said.commit, before.base, _ANEW, stated=True))
        if self._uncounted.get(said.tx) == said.commit:
            return True
        found = self._tracker.end(said.tx, said.commit, dict(said.counts), highest)
        if isinstance(found, Contradiction):
            raise stop_of(found)
        return not found

    def _admit(self, said: Said) -> BoundTransaction:
        """Hold a record of a transaction, unless it is held; the transaction."""
        opened = self._open.get(said.tx)
        if opened is None:
            opened = self._open[said.tx] = BoundTransaction()
        if isinstance(said, RowRecord):
            self._admit_row(said, opened)
            return opened
        one: Beside = said
        if isinstance(said, EndRecord):
            one = replace(said, counts=tuple(self._tracker.captured(dict(said.counts)).items()))
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
            raise SourceStop(f"the Ends {opened.end} and {one} contradict each other", NEW_SOURCE)
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
        """Give out what is whole, and whose turn it is; what is halted on the way is touched, too."""
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
        if opened is None or end is None or opened.halts:
            return False
        if any(opened.seen.get(table, 0) != number for table, number in end.counts):
            return False
        base, first = end.commit, self._tracker.first()
        if first is not None and first.lsn <= base:
            raise stop_of(early_end(first.tx, first.lsn, base, _ANEW))
        if not self._move_out(SNAPSHOT, touched, changed):
            return False
        self._through = ThroughRecord(base, base)
        self._tracker.begin(base)
        return True

    def _is_whole(self, tx: Tx) -> bool:
        """Whether nothing is missing of a transaction, whose End is in."""
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
        """Out of what is held, into the output. False where it is halted: nobody can know what it does."""
        opened = self._open[tx]
        counts = {} if opened.end is None else dict(opened.end.counts)
        had = self._with_rows_before(opened.rows.values())
        partial = {*self._uncovered.partial, *had}
        try:
            does = self._does(tx, [row for row in opened.rows.values() if row.table not in partial])
        except UnknownChange as unknown:
            touched[tx] = self._admit(HaltRecord(tx, None, unknown.reason, unknown.remedy))
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

    def _with_rows_before(self, rows: Iterable[RowRecord]) -> set[str]:
        """The tables that are not covered yet and had rows before these, which are the first ones of them."""
        tables = self._uncovered.tables
        if self._had is None or not tables:
            return set()
        return {row.table for row in rows if row.table in tables and self._had(row)}

    def _does(self, tx: Tx, rows: Collection[RowRecord]) -> Iterable[tuple[str, Iterable[tuple[Any, int]]]]:
        """What a transaction does, by table."""
        if self._state is not None:
            return self._state.take(tx, rows)
        return ((row.table, row.changes) for row in rows)

    def _pass(self, end: OpenEnd[Tx]) -> None:
        """All through this END is released."""
        self._tracker.settle([Commit(end.tx, end.lsn)])
        self._through = ThroughRecord(end.lsn, 0 if self._through is None else self._through.base)


def _check_snapshot(opened: BoundTransaction) -> None:
    """Raise SourceStop for more rows than the End counts, and for a snapshot that was taken at two places."""
    # Of those that were there before, all are at one place.
    rows = *islice(opened.rows.values(), 1), *(held for held in opened.added() if isinstance(held, RowRecord))
    places = {row.after for row in rows} | ({opened.end.commit} if opened.end else set())
    if len(places) > 1:
        raise SourceStop(f"there are rows of snapshots at {sorted(places, key=str)}", _ANEW)
    if opened.end is None:
        return
    counted = dict(opened.end.counts)
    for table, seen in opened.seen.items():
        if seen > counted.get(table, 0):
            raise SourceStop(*too_many(table, seen, counted.get(table, 0)))


def _position(row: RowRecord) -> object:
    """Where a row of the snapshot stands, which tells it from the others."""
    return Position(*row.order) if isinstance(row.order, tuple) else row.order


def _ends_in_order(said: Held) -> tuple[bool, int, str]:
    """Ends first, by their commits; everything else as it is."""
    return (False, said.commit, str(said)) if isinstance(said, (EndRecord, ReleaseRecord)) else (True, 0, "")
