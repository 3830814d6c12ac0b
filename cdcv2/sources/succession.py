"""Is an END lost? What rows say of the commits before theirs, against the ENDs that came.

A row names in ``sequence[0]`` a commit: not before the END of the transaction before its own, and before its own END.
So the first END after that commit is the one of its transaction. And ENDs come in the order of commits. Two things
cannot be, then, unless an END is lost:

- a transaction is without END, and one has come that is after a commit that a row of it names;
- a row is of a transaction that is released, by the commit it names, and what was released next is another one.

Without this the rows of such a transaction would pass for repeats, and be gone without a word.
"""

from __future__ import annotations

from bisect import bisect_right

from cdcv2.sources.release import Commit, Release

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


class Succession:
    """Compares rows with ENDs; fed by ``Commits``. ``since`` is the commit through which all was released before.

    >>> succession = Succession(0)
    >>> succession.row(7, 100); succession.row(7, 103); succession.row(8, 110)
    >>> succession.lost(110), succession.lost(111)
    ((7, 100), (7, 100))
    >>> succession.ended(7); succession.lost(110), succession.lost(111)
    (None, (8, 110))

    Cost: a fact O(1), ``lost`` O(transactions that have rows and no END). Memory: those, and some commits.
    """

    def __init__(self, since: int | None = None) -> None:
        #: The ENDs after this one that were released are known; None: nothing is released.
        self.since = since
        # The least commit that the rows of a transaction without END name; -1: there was none before.
        self._after: dict[int, int] = {}
        self._lsns: list[int] = []
        self._txs: list[int] = []

    def row(self, tx: int, after: int | None) -> None:
        """A row of a transaction that is without END, and not released, names this commit."""
        after = -1 if after is None else after
        self._after[tx] = min(after, self._after.get(tx, after))

    def ended(self, tx: int) -> None:
        """Its END has come, or its rows are repeats."""
        self._after.pop(tx, None)

    def lost(self, highest: int) -> tuple[int, int] | None:
        """A transaction whose END is lost, as the END ``highest`` has come, and the commit it came after; or None."""
        after, tx = min(((after, tx) for tx, after in self._after.items()), default=(highest, 0))
        return (tx, after) if after < highest else None

    def released(self, release: Release) -> None:
        """It is durable and stated."""
        if self.since is None:
            self.since = release.snapshot
        self._txs += [tx for tx, _ in release.transactions]
        self._lsns += [lsn for _, lsn in release.transactions]
        if len(self._lsns) > 2 * KEPT:
            self.since = self._lsns[-KEPT - 1]
            self._txs, self._lsns = self._txs[-KEPT:], self._lsns[-KEPT:]

    def instead(self, tx: int, after: int) -> Commit | None:
        """What was released next after the commit that a row of ``tx`` names, if that is not ``tx`` itself."""
        if self.since is None or after < self.since:
            return None
        next_one = bisect_right(self._lsns, after)
        if next_one == len(self._lsns) or self._txs[next_one] == tx:
            return None
        return Commit(self._txs[next_one], self._lsns[next_one])


def lost_end(tx: int, after: int, instead: Commit) -> str:
    """That the END of ``tx`` is lost, in words."""
    named = f"come after the commit {after}" if after >= 0 else "come before any other commit"
    return (
        f"the END of transaction {tx} is missing: its rows {named} and before the next one, "
        f"and the next END is {instead.lsn}, of transaction {instead.tx}"
    )
