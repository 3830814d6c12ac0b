"""The transactions that were released last, with what their ENDs counted: they show which rows are duplicates.

A row names a commit (Debezium's ``sequence[0]``): not before the END of the transaction before its own, and before its
own END. So the first END after that commit is the one of its transaction. If that END is released, the row must be a
duplicate of a row that was counted. Otherwise its own END is lost, or was wrong. Without this check such a row would
pass for a duplicate and be lost silently.

How many transactions are known is a constant, and they are read again from the transaction topic at every start. So a
capture that was restarted at any moment judges like one that was not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from cdcv2.capture.transaction_contradictions import (
    Commit, Contradiction, late_end, lost_rows, two_ends, uncounted_row, unknown_end, unknown_row,
)

#: What a transaction is called by its source.
T = TypeVar("T")
#: So many released transactions are known: a part of the mapping from records to rows.
KNOWN = 1024

_Counts = tuple[tuple[str, int], ...]


class ReleasedTransactions(Generic[T]):
    """The last :data:`KNOWN` released transactions; ``through`` is the END up to which all is released, None: nothing.

    With ``whole`` everything older than what is known is a duplicate; without it there are ENDs between ``through`` and
    what is known that the transaction topic does not hold any more.

    >>> released = ReleasedTransactions[int](0)
    >>> released.add([(7, 100, {"a": 1}), (8, 110, {})])
    >>> released.row(7, 90, "a", 1), released.row(7, 90, "a", 2).reason.partition(";")[0]
    (None, 'transaction 7 has a row of a numbered 2, but its END 100 counts 1')
    >>> released.row(9, 105, "a", 1).reason.partition(":")[0]
    'the END of transaction 9 is missing'

    Cost: a row O(log KNOWN). Memory: twice :data:`KNOWN` ENDs. Source: what Debezium takes ``sequence[0]`` from,
    PostgreSQL's log, has transactions in the order of their commits.
    """

    def __init__(self, through: int | None = None, *, whole: bool = True, known: int = KNOWN) -> None:
        #: The END through which all is released; None: nothing is.
        self.through = through
        self._floor, self._whole, self._most = through, whole, known
        self._lsns: list[int] = []
        self._txs: list[T] = []
        self._known_txs: set[T] = set()
        # What their ENDs counted; most transactions of a source are alike, so equal ones are one object.
        self._counts: list[_Counts] = []
        self._alike: dict[_Counts, _Counts] = {}

    def add(self, ends: Iterable[tuple[T, int, Mapping[str, int]]]) -> None:
        """These transactions are released, in this order: each with its END and its rows of each captured table."""
        for tx, lsn, counts in ends:
            counted = tuple(sorted(counts.items()))
            self._txs.append(tx)
            self._known_txs.add(tx)
            self._lsns.append(lsn)
            self._counts.append(self._alike.setdefault(counted, counted))
            self.through = lsn
            # Not more are known than a start reads again: it must find the same.
            if self._first:
                self._known_txs.discard(self._txs[self._first - 1])
        if len(self._lsns) > 2 * self._most:
            self._txs, self._lsns = self._txs[-self._most:], self._lsns[-self._most:]
            self._counts = self._counts[-self._most:]
            self._alike = {counted: counted for counted in self._counts}
            self._known_txs = set(self._txs)

    def recall(
        self, ends: Iterable[tuple[T, int, Mapping[str, int]]], floor: int | None, *, whole: bool
    ) -> None:
        """Take what was released before this start and read again; it has all ENDs after ``floor``.

        Without ``whole`` there were earlier ones that are lost.
        """
        through = self.through
        self._txs, self._lsns, self._counts, self._known_txs = [], [], [], set()
        self._floor, self._whole = floor, whole
        self.add(ends)
        self.through = through

    def begin(self, through: int) -> None:
        """All through there is released, in one piece: a snapshot."""
        self.through = self._floor = through
        self._whole = True
        self._txs, self._lsns, self._counts, self._known_txs = [], [], [], set()

    @property
    def since(self) -> int | None:
        """A row that names a commit before this one is older than what is known; None: nothing is released."""
        if len(self._lsns) >= self._most:
            return self._lsns[-self._most]
        if self._whole or self._floor is None:
            return self._floor
        return self._lsns[0] if self._lsns else self.through

    @property
    def last(self) -> int | None:
        """The last END that is released, or the snapshot: a row that names an earlier commit is a duplicate.

        ``through`` is later in logs that were cut between two ENDs: the next transaction's rows name commits from this
        one on. Where this one is not known, it is ``through``. None: nothing is released.
        """
        if self._lsns:
            return self._lsns[-1]
        return self._floor if self._whole else self.through

    @property
    def certain(self) -> int | None:
        """A row that names a commit before this one is a duplicate, whichever its transaction; None: none is."""
        return self.since if self._whole or len(self._lsns) >= self._most else None

    @property
    def oldest(self) -> int | None:
        """The first END that is known; None: none is."""
        return self._lsns[self._first] if self._lsns else None

    def has(self, tx: T) -> bool:
        """Whether the transaction is among those that are known. Cost: O(1)."""
        return tx in self._known_txs

    def numbered(self, tx: T, table: str, number: int) -> Contradiction | None:
        """The same of a row of a transaction that is released, where it is not known which commit it names."""
        for known, lsn, counts in zip(reversed(self._txs), reversed(self._lsns), reversed(self._counts)):
            if known == tx and tx in self._known_txs:
                return uncounted_row(tx, table, number, lsn, dict(counts))
        return None

    def row(self, tx: T, after: int, table: str, number: int) -> Contradiction | None:
        """What contradicts that a row, which names the commit ``after`` before ``through``, is a duplicate.

        ``number`` is its number among the rows of its table in the transaction (the greatest of several); 0: it has
        none.
        """
        at = bisect_right(self._lsns, after, lo=self._first)
        if self.since is None or after < self.since:
            if self.certain is not None:
                return None
            at = self._first
            if at == len(self._txs) or self._txs[at] != tx:
                return unknown_row(tx, after, self.oldest)
        if at == len(self._lsns):
            return None
        if self._txs[at] != tx:
            return lost_rows(tx, after, Commit(self._txs[at], self._lsns[at]))
        return uncounted_row(tx, table, number, self._lsns[at], dict(self._counts[at]))

    def end(self, tx: T, lsn: int, counts: Mapping[str, int]) -> Contradiction | None:
        """What contradicts that an END, not after ``through``, is a duplicate."""
        at = bisect_left(self._lsns, lsn, lo=self._first)
        if at < len(self._lsns) and self._lsns[at] == lsn:
            if (self._txs[at], self._counts[at]) == (tx, tuple(sorted(counts.items()))):
                return None
            return two_ends(lsn, (self._txs[at], dict(self._counts[at])), (tx, dict(counts)), stated=True)
        if self.since is not None and lsn > self.since:
            return late_end(tx, lsn, f"END {self.through}", stated=True)
        return None if self.certain is not None else unknown_end(tx, lsn, self.oldest)

    @property
    def _first(self) -> int:
        return max(0, len(self._lsns) - self._most)
