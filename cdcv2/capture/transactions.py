"""Which transactions are whole, and what contradicts that: the one tracker that every way to capture calls.

It sees no rows, only numbers. A transaction is *whole* when its END is in, each captured table has as many distinct
rows as the END counts, and the highest of their numbers, which begin at 1, is that count. Then no row is missing, and
none is there that the END does not count. When a whole transaction is *released* is the caller's decision: by commit
times when all before it are whole, on a timeline at the time at which that was bound.

Counts are *set*, not added, so that a caller may count again what it reads again. What cannot be right is returned as a
:class:`~cdcv2.capture.transaction_contradictions.Contradiction`; the caller stops with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from sortedcontainers import SortedDict

from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.released_transactions import KNOWN, ReleasedTransactions
from cdcv2.capture.transaction_contradictions import (
    Commit, Contradiction, in_doubt, late_end, lost_end, renumbered, surplus, two_ends,
)
from cdcv2.errors import MalformedError

#: What a transaction is called by its source.
T = TypeVar("T")


class OpenEnd(NamedTuple, Generic[T]):
    """An END that is in, of a transaction that is not released; ``counts`` are the rows of each captured table."""

    lsn: int
    tx: T
    counts: dict[str, int]


class TransactionTracker(Generic[T]):
    """Open transactions and those released last; feed it facts, in any order but that of the ENDs.

    ``through`` is the END up to which all is released, or a later time before the next END, in logs that were cut;
    None: not even the snapshot is released. ENDs come in the order of their commits, again and again if the connector
    likes. ``whole`` is that of :class:`ReleasedTransactions`.

    >>> tracker = TransactionTracker[int](["t"], 0)
    >>> tracker.rows_seen(7, "t", 1, 1); tracker.end(7, 100, {"t": 2, "other": 5})
    True
    >>> tracker.missing(7), tracker.rows_seen(7, "t", 2, 2), tracker.missing(7)
    ({'t': 1}, None, {})
    >>> tracker.settle([Commit(7, 100)]); tracker.through, tracker.end(7, 100, {"t": 2})
    (100, False)

    Cost: a fact O(log open), ``lost`` O(transactions that have rows and no END). Memory: some numbers for each open
    transaction and table, and the ENDs released last. Source: the rules of explicit commit times.
    """

    def __init__(
        self, tables: Iterable[str], through: int | None = None, *, whole: bool = True, known: int = KNOWN
    ) -> None:
        self._captured = frozenset(tables)
        self.released = ReleasedTransactions[T](through, whole=whole, known=known)
        self._ends: SortedDict[int, OpenEnd[T]] = SortedDict()
        self._end_of: dict[T, int] = {}
        self._highest = 0
        # Of these some that are given out before an earlier one is.
        self._given: set[T] = set()
        self._rows: dict[T, dict[str, tuple[int, int]]] = {}
        # The least commit that the rows of a transaction without END name; -1: there was none before.
        self._after: dict[T, int] = {}
        # Those of which a BEGIN stands before another's END that their own had to be before: the commit that they come
        # after, and that END. Their own END, if it comes, is in the wrong place.
        self._unended: dict[T, tuple[int, int]] = {}
        self._restarted: set[T] = set()
        self._doubted: set[T] = set()
        self._renumbering: set[T] = set()

    # -- what is known

    @property
    def through(self) -> int | None:
        """H: the END up to which all is released."""
        return self.released.through

    @property
    def highest(self) -> int:
        """The latest END that is in, or up to which all is released; 0: there is none."""
        return max(self._highest, self.through or 0)

    def ends(self) -> Iterator[OpenEnd[T]]:
        """The ENDs that are in, of transactions that are not released, in the order of commits."""
        yield from self._ends.values()

    def end_of(self, tx: T) -> OpenEnd[T] | None:
        """The END of an open transaction, if it is in."""
        lsn = self._end_of.get(tx)
        return None if lsn is None else self._ends[lsn]

    def first(self) -> OpenEnd[T] | None:
        """The first END that is in and not released."""
        return self._ends.peekitem(0)[1] if self._ends else None

    def up_to(self, lsn: int) -> list[OpenEnd[T]]:
        """The ENDs that are in and not released, up to this one."""
        return [self._ends[at] for at in self._ends.irange(maximum=lsn)]

    def open(self) -> set[T]:
        """The transactions of which something is in, and that are not released."""
        return {*self._rows, *self._end_of}

    def without_end(self) -> list[T]:
        """Those that have rows, and no END is in."""
        return [tx for tx in self._rows if tx not in self._end_of]

    def rows(self, tx: T) -> Mapping[str, tuple[int, int]]:
        """How many distinct rows each table has, and the highest of their numbers."""
        return self._rows.get(tx, {})

    # -- facts

    def recall(self, recalled: ReleasedEnds[T], floor: int) -> None:
        """What was released before this start, read again; nothing was released up to ``floor`` but in one piece."""
        through = self.through or 0
        ends = [(tx, lsn, self.captured(counts)) for tx, lsn, counts in recalled.up_to(through) if lsn > floor]
        self.released.recall(ends, floor, whole=recalled.whole or floor == through)

    def captured(self, counts: Mapping[str, int]) -> dict[str, int]:
        """What an END counts of tables that are captured."""
        return {table: number for table, number in counts.items() if number and table in self._captured}

    def end(self, tx: T, lsn: int, counts: Mapping[str, int], highest: int | None = None) -> bool | Contradiction:
        """END of a transaction: its commit LSN, and how many rows each table has in it (tables not captured, too).

        True: it is new; False: a duplicate. ``highest`` is the latest END that came before it (default: that came at
        all), for callers that take several at once in any order.
        """
        highest = self.highest if highest is None else highest
        mine = self.captured(counts)
        if self.through is not None and lsn <= self.through:
            self._ended(tx)
            return self.released.end(tx, lsn, mine) or False
        held = self._ends.get(lsn)
        if held is not None:
            same = (held.tx, held.counts) == (tx, mine)
            stated = held.tx in self._given
            return False if same else two_ends(lsn, (held.tx, held.counts), (tx, mine), stated=stated)
        if lsn < highest or tx in self._end_of:
            return late_end(tx, lsn, f"END {highest}" if lsn < highest else f"its END {self._end_of[tx]}")
        self._ends[lsn], self._end_of[tx] = OpenEnd(lsn, tx, mine), lsn
        self._highest = max(self._highest, lsn)
        self._after.pop(tx, None)
        return True

    def is_repeat(self, tx: T, after: int, table: str = "", number: int = 0) -> bool | Contradiction:
        """Whether a row that names the commit ``after`` belongs to a released transaction; or why it cannot be right.

        ``number`` is the row's in its table, or the greatest of several rows'.
        """
        last = self.released.last
        if last is None or after >= last:
            return False
        return self.released.row(tx, after, table, number) or True

    def rows_seen(self, tx: T, table: str, distinct: int, highest: int) -> None:
        """There are ``distinct`` rows of the table in the transaction by now, duplicates left out.

        ``highest`` is the highest of their numbers, which begin at 1. No rows forgets those that were counted before.
        Raises MalformedError for more rows than numbers.
        """
        if not 0 <= distinct <= highest:
            raise MalformedError(f"{distinct} distinct rows cannot have order numbers from 1 to {highest}")
        if distinct:
            self._rows.setdefault(tx, {})[table] = (distinct, highest)
        elif table in self._rows.get(tx, {}):
            del self._rows[tx][table]
            if not self._rows[tx]:
                del self._rows[tx]
                self._ended(tx)

    def comes_after(self, tx: T, after: int | None) -> None:
        """A row of an open transaction names this commit; None: there was none before."""
        if tx not in self._end_of:
            after = -1 if after is None else after
            self._after[tx] = min(after, self._after.get(tx, after))

    def restarted(self, tx: T) -> None:
        """The connector was restarted inside this open transaction, or at its start: see :class:`BeginRecords`."""
        self._restarted.add(tx)

    def doubt(self, tx: T) -> None:
        """It is unknown whether this open transaction was restarted."""
        if not self.released.has(tx):
            self._doubted.add(tx)

    def renumbered(self, tx: T) -> None:
        """A row of this open transaction is of a connector that, when restarted inside one, renumbers its rows."""
        self._renumbering.add(tx)

    def _ended(self, tx: T) -> None:
        """Forget what belongs to an open transaction: this one is not open any more."""
        self._after.pop(tx, None)
        self._unended.pop(tx, None)
        self._restarted.discard(tx)
        self._doubted.discard(tx)
        self._renumbering.discard(tx)

    # -- what follows

    def missing(self, tx: T) -> dict[str, int]:
        """How many rows of each table its END counts that are not in; of a transaction whose END is in."""
        counts, rows = self._ends[self._end_of[tx]].counts, self.rows(tx)
        lacks = {table: number - rows.get(table, (0, 0))[0] for table, number in counts.items()}
        return {table: number for table, number in lacks.items() if number > 0}

    def contradiction(self, tx: T) -> Contradiction | None:
        """What shows that an open transaction can never be whole."""
        end = self.end_of(tx)
        if tx in self._restarted and tx in self._renumbering:
            return renumbered(tx, end.lsn if end is not None else None)
        if tx in self._doubted and tx in self._renumbering:
            return in_doubt(tx, end.lsn if end is not None else None)
        if end is None:
            return None
        for table, (distinct, highest) in sorted(self.rows(tx).items()):
            if highest > end.counts.get(table, 0):
                return surplus(tx, table, distinct, highest, end.lsn, end.counts.get(table, 0))
        return None

    def lost(self) -> tuple[T, int] | None:
        """A transaction whose END is lost, with the commit that it comes after; None: no END is lost.

        Its END would be the first one after that commit. ENDs come in order, and a later one was read.
        """
        # One behind which all is released, by a resnapshot, lacks no more.
        unended = ((tx, after) for tx, (after, lsn) in self._unended.items() if lsn > (self.through or 0))
        named = [*self._after.items(), *unended]
        after = min((after for _, after in named), default=self._highest)
        if after >= self._highest:
            return None
        return min((tx for tx, other in named if other == after), key=str), after

    def unended(
        self, tx: T, after: int, lsn: int, has_end: Callable[[T, int], bool] = lambda tx, through: False
    ) -> int | None:
        """Note that the END of ``tx`` is lost, for :meth:`lost`: its BEGIN came, and then the END of a later commit.

        ``lsn`` is the LSN of that END, the first behind the BEGIN that is later than all ENDs before it; it is of
        another transaction. ``after`` is the latest END before it, 0: there is none. ``has_end(tx, after)``: whether
        the topic has an END of ``tx`` at an LSN up to ``after``; asked only where that is not known here.

        Returns the LSN that ``tx`` was committed after, -1: of none; or None, and notes nothing, if its END is not
        lost: it came before the BEGIN, or ``tx`` or all up to ``lsn`` is released. An END of ``tx`` behind ``lsn`` is
        too late and changes nothing, so it does not matter what is read together. Raises what ``has_end`` raises.
        """
        through, end = self.through or 0, self._end_of.get(tx)
        # One that was there before is no later than the latest before `lsn`.
        if lsn <= through or (end is not None and end <= after) or self.released.has(tx):
            return None
        if has_end(tx, after):
            return None
        after = max(after, self.released.last or 0) or -1
        _, found = self._unended.get(tx, (after, 0))
        if found <= through or lsn < found:
            # A connector that is started again sends its BEGIN again: the first END that it was to be before counts.
            self._unended[tx] = after, lsn
        return after

    def export_lost(self) -> list[object] | None:
        """What :meth:`lost` found, for :meth:`restore_lost`; None: nothing is lost."""
        unended = [[tx, after, lsn] for tx, (after, lsn) in self._unended.items()]
        lost = self.lost()
        return unended[0] if unended else None if lost is None else [*lost]

    def restore_lost(self, tx: T, after: int, lsn: int | None = None) -> None:
        """An earlier run found that the END of the transaction is lost; ``lsn``: by :meth:`unended`, at that END."""
        if lsn is None:
            self.comes_after(tx, after)
        else:
            self._unended[tx] = after, lsn

    def look_for_lost(self, has_end: Callable[[T, int], bool]) -> None:
        """Forget what an earlier run found by :meth:`unended`, and that has an END in the topic."""
        for tx, (after, _) in list(self._unended.items()):
            if has_end(tx, after):
                del self._unended[tx]

    def lost_text(self, lost: tuple[T, int]) -> str:
        """What :meth:`lost` found, in words."""
        tx, after = lost
        later = next(self._ends.irange(after, inclusive=(False, True)), None)
        _, shown = self._unended.get(tx, (after, 0))
        # Its own END may be the next one, and be late.
        later = shown if shown in self._ends else later
        instead = Commit(self._ends[later].tx, later) if later is not None else None
        return lost_end(tx, after, instead) if instead is not None else f"the END of transaction {tx} is missing"

    # -- what is released

    def begin(self, through: int) -> None:
        """All through there is released: by a snapshot, or without one."""
        self.released.begin(through)

    def settle(self, commits: Iterable[Commit[T]]) -> None:
        """These transactions are released, in this order."""
        done = []
        for tx, lsn in commits:
            done.append((tx, lsn, self._ends[lsn].counts))
            self.forget(tx)
        self.released.add(done)

    def mark_released(self, tx: T) -> None:
        """It is given out, perhaps before an earlier one: its END stays until that is, too."""
        self._given |= {tx} & self._end_of.keys()
        self._rows.pop(tx, None)
        self._ended(tx)

    def forget(self, tx: T) -> None:
        """It is no longer open."""
        lsn = self._end_of.pop(tx, None)
        self._given.discard(tx)
        if lsn is not None:
            del self._ends[lsn]
        self._rows.pop(tx, None)
        self._ended(tx)
