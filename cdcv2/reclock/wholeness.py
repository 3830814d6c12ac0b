"""Which transactions are whole, and what is held of the others: one time of the timeline after the other.

What a step comes to depends on the set of records that come at its time, and on what was held before it, not on the
order in which they came: rows, Ends and repeats are all admitted before anything is released.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sortedcontainers import SortedDict

from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import ForeignStateError, SourceStop
from cdcv2.reclock.succession import LOST, NEW_SOURCE, SPOILT, Commit, Succession, lost_end
from cdcv2.reclock.state import State, Unknown
from cdcv2.reclock.temp import AS_COMPLETE, SNAPSHOT, Begun, Done, End, Halt, Held, Row, Said, Through, Tx

_ANEW = "Begin anew: another slot, other topics, other logs"


@dataclass
class Changed:
    """What one step changes: in TEMP, and in each table."""

    temp: list[tuple[Held, int]] = field(default_factory=list)
    output: dict[str, ChangeBatch[Any]] = field(default_factory=dict)
    #: The transactions that are given out.
    given: list[Tx] = field(default_factory=list)


class Opened:
    """One transaction that is not given out."""

    __slots__ = ("rows", "halts", "seen", "end", "fresh", "fresh_rows")

    def __init__(self) -> None:
        self.rows: dict[Any, Row] = {}
        self.halts: set[Halt] = set()
        #: Table -> how many rows are held.
        self.seen: dict[str, int] = {}
        self.end: End | None = None
        #: What this step added that is no row; and how many rows: they are the last ones.
        self.fresh: list[Held] = []
        self.fresh_rows = 0

    @property
    def whole(self) -> bool:
        """Whether nothing of it is missing."""
        if self.end is None or self.halts:
            return False
        return all(self.seen.get(table, 0) == number for table, number in self.end.counts)

    def content(self) -> Iterator[Held]:
        """What is held of it."""
        yield from self.rows.values()
        yield from self._beside()

    def added(self) -> Iterator[Held]:
        """What this step added."""
        yield from islice(self.rows.values(), len(self.rows) - self.fresh_rows, None)
        yield from self.fresh

    def before(self) -> Iterator[Held]:
        """What was held before this step."""
        yield from islice(self.rows.values(), len(self.rows) - self.fresh_rows)
        yield from (held for held in self._beside() if held not in self.fresh)

    def age(self) -> None:
        """The step is over."""
        self.fresh, self.fresh_rows = [], 0

    def _beside(self) -> Iterator[Held]:
        yield from self.halts
        if self.end is not None:
            yield self.end

    def __len__(self) -> int:
        return len(self.rows) + len(self.halts) + (self.end is not None)


class Wholeness:
    """What is held, and what each step releases. Memory: what is open. ``state`` is where old rows are looked up.

    >>> whole = Wholeness(Begun("commit", ("t",), False))
    >>> changed = whole.advance([Row("t", 7, 1, None, (("a", 1),)), End.of(7, 50, {"t": 1, "other": 3})])
    >>> list(changed.output["t"]), changed.temp[1:]
    ([('a', 1)], [(Through(commit=50, base=0), 1)])

    Source: the rules of explicit commit times, for one time of the timeline after the other.
    """

    def __init__(self, begun: Begun, state: State | None = None) -> None:
        self._begun, self._state = begun, state
        self._captured = frozenset(begun.tables)
        # Whether TEMP tells how it was begun.
        self._told = False
        # H as nothing in TEMP says it; None: not even the snapshot is released.
        self._start = None if begun.snapshot else Through(0, 0)
        self._through = self._start
        self._open: dict[Tx, Opened] = {}
        # The Ends beyond H by commit, without that of the snapshot; those that are done, too.
        self._ends: SortedDict[int, Tx] = SortedDict()
        self._done: dict[Tx, Done] = {}
        # What was released in this run only: a row that comes later still may be a repeat, or of an End that is lost.
        self._succession = Succession[Tx](0)
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

    def restore(self, content: Iterable[Held]) -> None:
        """Hold what another run held. Raises ForeignStateError for what another capture held."""
        for held in content:
            if isinstance(held, Begun):
                self._told = True
                if held != self._begun:
                    raise ForeignStateError(
                        f"what is in TEMP was begun as {held}, and this capture is {self._begun}: give it logs of its "
                        "own, or begin it alike"
                    )
            elif isinstance(held, Through):
                self._through = held
            elif isinstance(held, Done):
                self._done[held.tx] = held
                self._ends[held.commit] = held.tx
            else:
                self._admit(held)
        if self._through is not None:
            self._succession.since = self._through.commit
        for opened in self._open.values():
            opened.age()

    def halt(self) -> Halt | None:
        """What can never be given out, and whose turn it is; None: go on."""
        if not self._halted:
            return None
        turns: Iterable[Tx] = [SNAPSHOT]
        if self._through is not None:
            turns = self._ends.values() if self._begun.ordering == AS_COMPLETE else islice(self._ends.values(), 1)
        stuck = (self._open[tx].halts for tx in turns if tx in self._open)
        return next((min(halts, key=str) for halts in stuck if halts), None)

    # -- one step

    def advance(self, records: Iterable[Said]) -> Changed:
        """Take all records of one time. Cost: O(log open) each, and what is released.

        Raises SourceStop when they cannot all be right; the object must not be used after that.
        """
        changed = Changed()
        if not self._told:
            self._told = True
            changed.temp.append((self._begun, 1))
        before, highest = self._through, self._highest()
        touched: dict[Tx, Opened] = {}
        for said in records:
            if not self._is_repeat(said, before, highest):
                touched[said.tx] = self._admit(said)
        for tx, opened in touched.items():
            _check_counts(tx, opened)
        self._check_ends()
        self._release(touched, changed)
        for tx, opened in touched.items():
            if tx in self._open:
                changed.temp.extend((held, 1) for held in opened.added())
                opened.age()
        if self._through != before:
            said_so = ((before, -1), (self._through, 1))
            changed.temp.extend((held, diff) for held, diff in said_so if held is not None and held != self._start)
        return changed

    def _is_repeat(self, said: Said, before: Through | None, highest: int) -> bool:
        """Whether nothing follows from it: it is of a transaction given out before this step, or of no table here."""
        if said.tx == SNAPSHOT:
            return self._is_snapshot_repeat(said, before)
        if isinstance(said, End):
            return self._is_end_repeat(said, before, highest)
        if (isinstance(said, Row) and said.table not in self._captured) or said.tx in self._done:
            return True
        if before is None:
            return False
        after = before.base if said.after is None else said.after
        if after < before.commit:
            self._check_released(said.tx, after)
        return after < before.commit

    def _check_released(self, tx: Tx, after: int) -> None:
        """Raise SourceStop if what was released after this commit was not the transaction of the row that names it."""
        instead = self._succession.instead(tx, after)
        if instead is not None:
            reason = f"{lost_end(tx, after, instead)}; the logs are stated beyond it, and lack them"
            raise SourceStop(reason, SPOILT, lasting=True)

    def _check_ends(self) -> None:
        """Raise SourceStop if an End that must have come has not: they come in the order of commits."""
        highest = self._highest()
        lost = self._succession.lost(highest) if self._ends else None
        if lost is not None:
            later = next(self._ends.irange(lost[1], inclusive=(False, True)), highest)
            raise SourceStop(lost_end(*lost, Commit(self._ends[later], later)), LOST)

    def _highest(self) -> int:
        """The latest commit of which there was an End."""
        if self._ends:
            return int(self._ends.peekitem(-1)[0])
        return 0 if self._through is None else self._through.commit

    def _is_snapshot_repeat(self, said: Said, before: Through | None) -> bool:
        """The same of what is said of the snapshot; when that is given out, nothing but its End is a repeat."""
        if not self._begun.snapshot:
            raise SourceStop("there are rows of a snapshot, and none was wanted", "Capture with the snapshot, or anew")
        if isinstance(said, Row) and said.table not in self._captured:
            return True
        if before is None:
            return False
        if isinstance(said, Halt):
            raise SourceStop(said.reason, said.remedy)
        at = said.commit if isinstance(said, End) else said.after
        if isinstance(said, End) and at == before.base:
            return True
        # Of a row, also below H or at the same commit: the End has counted all that there are, and a record comes once.
        # So this one is of another, and some of those that were given out may be, too.
        reason = f"there is a second snapshot, at {at}; the one that is given out is at {before.base}"
        raise SourceStop(reason, _ANEW, lasting=at == before.base)

    def _is_end_repeat(self, said: End, before: Through | None, highest: int) -> bool:
        if before is not None and said.commit <= before.commit:
            if self._begun.snapshot and said.commit <= before.base:
                raise _early(said.tx, said.commit, before.base)
            return True
        tx = self._ends.get(said.commit, said.tx)
        if tx != said.tx:
            raise SourceStop(f"the commit {said.commit} is said to be of transactions {tx} and {said.tx}", NEW_SOURCE)
        if said.commit in self._ends:
            # Of one that is open, it is compared when it is admitted.
            return said.tx in self._done
        if said.tx in self._done or said.commit < highest:
            reason = f"the End {said.commit} of transaction {said.tx} came for the first time after that of {highest}"
            raise SourceStop(reason, NEW_SOURCE)
        return False

    def _admit(self, said: Said) -> Opened:
        """Hold a record of a transaction, unless it is held; the transaction."""
        opened = self._open.get(said.tx)
        if opened is None:
            opened = self._open[said.tx] = Opened()
        if isinstance(said, Row):
            self._admit_row(said, opened)
        elif isinstance(said, Halt):
            if said not in opened.halts:
                self._halted += not opened.halts
                self._records += 1
                opened.halts.add(said)
                opened.fresh.append(said)
        else:
            self._admit_end(said, opened)
        return opened

    def _admit_row(self, row: Row, opened: Opened) -> None:
        held = opened.rows.get(row.order)
        if opened.end is None and row.tx != SNAPSHOT:
            self._succession.row(row.tx, row.after)
        if held is None:
            opened.rows[row.order] = row
            opened.seen[row.table] = opened.seen.get(row.table, 0) + 1
            opened.fresh_rows += 1
            self._records += 1
        elif held != row:
            raise SourceStop(f"transaction {row.tx} has two rows in the place {row.order!r}", NEW_SOURCE)

    def _admit_end(self, end: End, opened: Opened) -> None:
        mine = replace(end, counts=tuple(pair for pair in end.counts if pair[0] in self._captured))
        if opened.end is None:
            opened.end = mine
            opened.fresh.append(mine)
            self._records += 1
            if end.tx != SNAPSHOT:
                self._ends[end.commit] = end.tx
                self._succession.ended(end.tx)
        elif opened.end != mine:
            raise SourceStop(f"the Ends {opened.end} and {mine} contradict each other", NEW_SOURCE)

    # -- what is released

    def _release(self, touched: dict[Tx, Opened], changed: Changed) -> None:
        """Give out what is whole, and whose turn it is; what is halted on the way is touched, too."""
        asked: Iterable[Tx] = touched
        if self._through is None:
            if not self._release_snapshot(touched, changed):
                return
            asked = list(self._ends.values())
        if self._begun.ordering == AS_COMPLETE:
            self._release_complete(asked, touched, changed)
            return
        while self._ends:
            commit, tx = self._ends.peekitem(0)
            if not self._open[tx].whole or not self._give(tx, touched, changed):
                break
            self._pass(commit)

    def _release_snapshot(self, touched: dict[Tx, Opened], changed: Changed) -> bool:
        opened = self._open.get(SNAPSHOT)
        if opened is None or not opened.whole or opened.end is None:
            return False
        base = opened.end.commit
        if self._ends and self._ends.peekitem(0)[0] <= base:
            commit, tx = self._ends.peekitem(0)
            raise _early(tx, commit, base)
        if not self._give(SNAPSHOT, touched, changed):
            return False
        self._through = Through(base, base)
        self._succession.since = base
        return True

    def _release_complete(self, asked: Iterable[Tx], touched: dict[Tx, Opened], changed: Changed) -> None:
        fresh: dict[Tx, Done] = {}
        for tx in asked:
            opened = self._open.get(tx)
            if opened is not None and opened.whole and opened.end is not None and tx != SNAPSHOT:
                self._give(tx, touched, changed)
                self._done[tx] = fresh[tx] = Done(tx, opened.end.commit)
        while self._ends and self._ends.peekitem(0)[1] in self._done:
            commit, tx = self._ends.peekitem(0)
            self._pass(commit)
            done = self._done.pop(tx)
            if fresh.pop(tx, None) is None:
                changed.temp.append((done, -1))
        changed.temp.extend((done, 1) for done in fresh.values())

    def _give(self, tx: Tx, touched: dict[Tx, Opened], changed: Changed) -> bool:
        """Out of what is held, into the output. False where it is halted: nobody can know what it does."""
        opened = self._open[tx]
        try:
            does = self._does(tx, opened.rows.values())
        except Unknown as unknown:
            touched[tx] = self._admit(Halt(tx, None, unknown.reason, unknown.remedy))
            return False
        del self._open[tx]
        self._records -= len(opened)
        changed.given.append(tx)
        changed.temp.extend((held, -1) for held in opened.before())
        for table, changes in does:
            changed.output.setdefault(table, ChangeBatch()).extend(changes)
        return True

    def _does(self, tx: Tx, rows: Collection[Row]) -> Iterable[tuple[str, Iterable[tuple[Any, int]]]]:
        """What a transaction does, by table."""
        if self._state is not None:
            return self._state.take(tx, rows)
        return ((row.table, row.changes) for row in rows)

    def _pass(self, commit: int) -> None:
        """All through this commit is released."""
        self._succession.released([(self._ends.pop(commit), commit)], [{}])
        self._through = Through(commit, 0 if self._through is None else self._through.base)


def _check_counts(tx: Tx, opened: Opened) -> None:
    """Raise SourceStop for more rows than the End counts, and for a snapshot that was taken at two places."""
    if tx == SNAPSHOT:
        # Of those that were there before, all are at one place.
        rows = *islice(opened.rows.values(), 1), *(held for held in opened.added() if isinstance(held, Row))
        places = {row.after for row in rows} | ({opened.end.commit} if opened.end else set())
        if len(places) > 1:
            raise SourceStop(f"there are rows of snapshots at {sorted(places, key=str)}", _ANEW)
    if opened.end is None:
        return
    counted = dict(opened.end.counts)
    for table, seen in opened.seen.items():
        if seen > counted.get(table, 0):
            reason = f"transaction {tx} has {seen} rows of {table}, and its End counts {counted.get(table, 0)}"
            raise SourceStop(reason, NEW_SOURCE)


def _early(tx: Tx, commit: int, base: int) -> SourceStop:
    return SourceStop(f"transaction {tx} was committed at {commit}, not after the snapshot at {base}", _ANEW)
