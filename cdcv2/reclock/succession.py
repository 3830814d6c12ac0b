"""Is an END lost? What rows say of the commits before theirs, against the ENDs that came.

A row names a commit (Debezium's ``sequence[0]``): not before the END of the transaction before its own, and before
its own END. So the first END after that commit is the one of its transaction. And ENDs come in the order of commits.
Two things cannot be, then, unless an END is lost:

- a transaction is without END, and one has come that is after a commit that a row of it names;
- a row is of a transaction that is released, by the commit it names, and what was released next is another one.

And a row that repeats one of a released transaction is not numbered above what its END counted, unless that END was
wrong. Without this such rows would pass for repeats, and be gone without a word.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

#: What a transaction is called by its source.
T = TypeVar("T")

#: So many commits are remembered, at least; of rows that come later still nothing is known.
KEPT = 65_536

NEW_SOURCE = (
    "The topics do not hold one history: was the slot, the database or a topic made anew under the old names? "
    "Capture it as a new source: other topics, other logs"
)
_ANEW = (
    "begin anew with a new snapshot (new topics, new slot, new logs), and with cleanup.policy=delete and no retention "
    "on that topic"
)
LOST = (
    "The transaction topic lacks a record: was it compacted or trimmed, or not dumped whole? If it can be had again, "
    f"remove the memory of this capture, and it is read from its start. If it is gone, {_ANEW}"
)
SPOILT = f"The transaction topic lacks a record: was it compacted or trimmed? Even if it can be had again, {_ANEW}"


class Commit(NamedTuple, Generic[T]):
    """A transaction and its commit time: the LSN of its END."""

    tx: T
    lsn: int


class Succession(Generic[T]):
    """Compares rows with ENDs; fed by who counts them. ``since`` is the commit through which all was released before.

    >>> succession = Succession[int](0)
    >>> succession.row(7, 100); succession.row(7, 103); succession.row(8, 110)
    >>> succession.lost(110), succession.lost(111)
    ((7, 100), (7, 100))
    >>> succession.ended(7); succession.lost(110), succession.lost(111)
    (None, (8, 110))

    Cost: a fact O(1), ``lost`` O(transactions that have rows and no END). Memory: those, and some commits. Source: what
    Debezium takes ``sequence[0]`` from, PostgreSQL's log, has transactions in the order of their commits.
    """

    def __init__(self, since: int | None = None) -> None:
        #: The ENDs after this one that were released are known; None: nothing is released.
        self.since = since
        # The least commit that the rows of a transaction without END name; -1: there was none before.
        self._after: dict[T, int] = {}
        self._lsns: list[int] = []
        self._txs: list[T] = []
        # What their ENDs counted; most transactions of a source are alike, so equal ones are one object.
        self._counts: list[_Counts] = []
        self._alike: dict[_Counts, _Counts] = {}

    def row(self, tx: T, after: int | None) -> None:
        """A row of a transaction that is without END, and not released, names this commit."""
        after = -1 if after is None else after
        self._after[tx] = min(after, self._after.get(tx, after))

    def ended(self, tx: T) -> None:
        """Its END has come, or its rows are repeats."""
        self._after.pop(tx, None)

    def lost(self, highest: int) -> tuple[T, int] | None:
        """A transaction whose END is lost, as the END ``highest`` has come, and the commit it came after; or None."""
        after = min(self._after.values(), default=highest)
        if after >= highest:
            return None
        return min((tx for tx, named in self._after.items() if named == after), key=str), after

    def released(self, commits: Iterable[tuple[T, int]], counts: Iterable[Mapping[str, int]]) -> None:
        """These transactions are durable and stated; they had so many rows of each table."""
        for tx, lsn in commits:
            self._txs.append(tx)
            self._lsns.append(lsn)
        for counted in map(_counts, counts):
            self._counts.append(self._alike.setdefault(counted, counted))
        if len(self._lsns) > 2 * KEPT:
            self.since = self._lsns[-KEPT - 1]
            self._txs, self._lsns, self._counts = self._txs[-KEPT:], self._lsns[-KEPT:], self._counts[-KEPT:]
            self._alike = {counted: counted for counted in self._counts}

    def tail(self, most: int) -> tuple[int | None, list[tuple[T, int, dict[str, int]]]]:
        """The last ``most`` releases as (transaction, END, rows by table), and the END before them.

        >>> succession = Succession[int](0)
        >>> succession.released([(7, 100), (8, 110)], [{"a": 1}, {}]); succession.tail(1)
        (100, [(8, 110, {})])
        """
        kept = list(zip(self._txs, self._lsns, map(dict, self._counts)))[-most:]
        return (self._lsns[-most - 1] if len(self._lsns) > most else self.since), kept

    def instead(self, tx: T, after: int) -> Commit[T] | None:
        """What was released next after the commit that a row of ``tx`` names, if that is not ``tx`` itself."""
        next_one = self._next(after)
        if next_one is None or self._txs[next_one] == tx:
            return None
        return Commit(self._txs[next_one], self._lsns[next_one])

    def uncounted(self, tx: T, after: int, table: str, number: int) -> tuple[int, int] | None:
        """The END of ``tx``, released after the commit that a row names, and its count, if ``number`` is above that."""
        next_one = self._next(after)
        if next_one is None or self._txs[next_one] != tx:
            return None
        counted = dict(self._counts[next_one]).get(table, 0)
        return (self._lsns[next_one], counted) if number > counted else None

    def _next(self, after: int) -> int | None:
        """Which of the known releases is the first after this commit; None: that is not known."""
        if self.since is None or after < self.since:
            return None
        next_one = bisect_right(self._lsns, after)
        return None if next_one == len(self._lsns) else next_one


_Counts = tuple[tuple[str, int], ...]


def _counts(counts: Mapping[str, int]) -> _Counts:
    return tuple(sorted(counts.items()))


def lost_end(tx: T, after: int, instead: Commit[T]) -> str:
    """That the END of ``tx`` is lost, in words."""
    named = f"come after the commit {after}" if after >= 0 else "come before any other commit"
    return (
        f"the END of transaction {tx} is missing: its rows {named} and before the next one, "
        f"and the next END is {instead.lsn}, of transaction {instead.tx}"
    )


def uncounted_row(tx: T, table: str, number: int, end: int, counted: int) -> str:
    """That the END of ``tx`` counted too few rows, in words."""
    return f"transaction {tx} has a row of {table} numbered {number}, but its END {end} counts {counted}"
