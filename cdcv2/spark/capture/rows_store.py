"""The rows that are not released, on Spark: executors hold them, and the driver has their numbers and where they are.

The numbers of a transaction's rows are kept as bits, and where its rows were first seen as one range per partition. So
a transaction of a million rows costs the driver a few hundred kilobytes, is counted once, and is read a second time
only when it is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdcv2.capture.numbers import Numbers
from cdcv2.capture.release_answers import Release
from cdcv2.capture.transaction_contradictions import Commit
from cdcv2.protocol.log import Place


@dataclass
class TransactionTally:
    """What was counted of a transaction that is not released."""

    numbers: dict[str, Numbers] = field(default_factory=dict)
    #: the numbers of those that are inserts, and deletes
    inserted: dict[str, Numbers] = field(default_factory=dict)
    deleted: dict[str, Numbers] = field(default_factory=dict)
    #: their numbers among all of its rows
    places: Numbers = field(default_factory=Numbers)
    #: partition -> the least and the greatest offset of the rows that were new when they were counted
    ranges: dict[Place, tuple[int, int]] = field(default_factory=dict)
    #: partition -> the first record of it, of any kind
    first: dict[Place, int] = field(default_factory=dict)
    #: rows seen, repeats of each other included
    raw: int = 0
    #: how many of these were compared with each other, and do not contradict each other
    compared: int = 0
    #: the values of `sequence[0]` in its rows
    seqs: set[int | None] = field(default_factory=set)

    @property
    def repeats(self) -> bool:
        """Whether rows share a number in their table, or among all: copies, or some that contradict each other."""
        return self.raw > min(len(self.places), sum(map(len, self.numbers.values())))

    def extend(self, place: Place, low: int, high: int) -> None:
        """New rows of it are there."""
        before = self.ranges.get(place, (low, high))
        self.ranges[place] = min(low, before[0]), max(high, before[1])
        self.starts_at(place, low)

    def more(self, table: str, orders: list[int], ops: str) -> int:
        """How many rows more the table has after it, with these new ones, of which some may have been there."""
        kinds = (("c", self.inserted), ("d", self.deleted))
        for op, numbers in kinds:
            numbers.setdefault(table, Numbers()).add(order for order, of in zip(orders, ops) if of == op)
        return len(self.inserted[table]) - len(self.deleted[table])

    def starts_at(self, place: Place, offset: int) -> None:
        """Something of it is there."""
        self.first[place] = min(offset, self.first.get(place, offset))


@dataclass(frozen=True)
class ReadPlan:
    """What a release must read, and what it must find there.

    ``times`` has the commit time of each transaction, ``snapshot`` the time of the snapshot's rows (None: not part
    of it); ``ranges`` the offsets, both included, of each partition that has rows of them; ``expected`` the number
    of distinct rows by (table, time). ``repeats``: rows may be there more than once. Rows of the tables
    with the numbers ``left`` are no part of it, as nothing is stated of these.
    """

    times: Mapping[int, int]
    snapshot: int | None
    ranges: Mapping[Place, tuple[int, int]]
    expected: Mapping[tuple[str, int], int]
    repeats: bool
    left: tuple[int, ...] = ()

    def rows(self) -> int:
        """How many distinct rows there are."""
        return sum(self.expected.values())


class CountedRows:
    """The :class:`~cdcv2.capture.engine.RowsStore` of numbers. ``tables`` are in the order that executors use.

    Memory: a bit for each row that is not released, and a range for each partition of a transaction.
    """

    def __init__(self, tables: tuple[str, ...]) -> None:
        self.tables = tables
        self._open: dict[int, TransactionTally] = {}
        self._snapshot_rows: dict[tuple[str, int], int] = {}
        self._snapshot_ranges: dict[Place, tuple[int, int]] = {}
        self._snapshot_first: dict[Place, int] = {}
        #: how many rows came that were there
        self.repeats = 0

    # -- what is kept

    def keep(
        self, table: str, tx: int, seq: int | None, place: Place, between: tuple[int, int], orders: list[int],
        places: list[int], ops: str,
    ) -> tuple[int, int, int] | None:
        """Rows of a transaction; see :meth:`~cdcv2.capture.engine.CaptureEngine.rows`.

        ``orders`` are their numbers in their table, ``places`` those in the transaction (none: the same), ``ops`` what
        they are, a letter for each: c, u or d. What they do is with the executors: whether those with one number are
        copies is asked when they are released (:meth:`reading`), or waited for (:meth:`uncompared`).
        """
        held = self._transaction(tx)
        numbers = held.numbers.setdefault(table, Numbers())
        new = numbers.add(orders)
        held.places.add(places or orders)
        held.raw += len(orders)
        held.seqs.add(seq)
        self.repeats += len(orders) - new
        # Also where nothing of it is new: a row that comes again may be another one.
        held.extend(place, *between)
        return (len(numbers), numbers.highest, held.more(table, orders, ops)) if new else None

    def keep_of_snapshot(
        self, key: tuple[str, int], place: Place, low: int, high: int, count: int, again: int | None
    ) -> int:
        """Rows of the snapshot, by table and LSN; how many there are by now."""
        rows = self._snapshot_rows[key] = self._snapshot_rows.get(key, 0) + count
        before = self._snapshot_ranges.get(place, (low, high))
        self._snapshot_ranges[place] = min(low, before[0]), max(high, before[1])
        self.snapshot_record_seen(place, low)
        return rows

    def record_seen(self, tx: int, place: Place, offset: int) -> None:
        """A record that is no row must be read again with this transaction."""
        self._transaction(tx).starts_at(place, offset)

    def snapshot_record_seen(self, place: Place, offset: int) -> None:
        """A record must be read again with the snapshot."""
        self._snapshot_first[place] = min(offset, self._snapshot_first.get(place, offset))

    def doubted(self) -> list[tuple[int, set[int | None], dict[str, int]]]:
        """All open transactions: what they name was judged by what was known when they came."""
        return [
            (tx, held.seqs, {table: numbers.highest for table, numbers in held.numbers.items()})
            for tx, held in self._open.items()
        ]

    def drop(self, tx: int) -> None:
        """The transaction is released, or was before."""
        self._open.pop(tx, None)

    def drop_snapshot(self, again: int | None = None) -> None:
        """The snapshot is released."""
        self._snapshot_rows, self._snapshot_ranges, self._snapshot_first = {}, {}, {}

    def firsts(self) -> dict[Place, int]:
        """The first offset of each partition that has something unreleased. Cost: transactions times partitions."""
        firsts = dict(self._snapshot_first)
        for held in self._open.values():
            for place, offset in held.first.items():
                firsts[place] = min(offset, firsts.get(place, offset))
        return firsts

    @property
    def waiting(self) -> int:
        """How many rows were counted and are not released."""
        return sum(held.raw for held in self._open.values()) + sum(self._snapshot_rows.values())

    def _transaction(self, tx: int) -> TransactionTally:
        held = self._open.get(tx)
        if held is None:
            held = self._open[tx] = TransactionTally()
        return held

    # -- what a release reads

    def uncompared(self, tx: int, lsn: int) -> ReadPlan | None:
        """Where the rows of an open transaction are, if some share a number and were not compared; None: none does."""
        held = self._open.get(tx)
        if held is None or not held.repeats or held.compared == held.raw:
            return None
        return self.reading(Release(None, (Commit(tx, lsn),), lsn))

    def compared(self, tx: int) -> None:
        """What was read of an open transaction was compared: those that share a number are copies."""
        held = self._open[tx]
        held.compared = held.raw

    def reading(self, release: Release) -> ReadPlan:
        """Where the rows of a release are, and how many."""
        ranges: dict[Place, tuple[int, int]] = {}
        expected: dict[tuple[str, int], int] = {}
        repeats = False
        if release.snapshot is not None:
            ranges.update(self._snapshot_ranges)
            for (table, lsn), rows in self._snapshot_rows.items():
                expected[table, lsn] = expected.get((table, lsn), 0) + rows
        for tx, lsn in release.transactions:
            held = self._open.get(tx)
            if held is None:
                continue
            repeats |= held.repeats
            for table, numbers in held.numbers.items():
                if table not in release.uncovered:
                    expected[table, lsn] = expected.get((table, lsn), 0) + len(numbers)
            for place, (low, high) in held.ranges.items():
                before = ranges.get(place, (low, high))
                ranges[place] = min(low, before[0]), max(high, before[1])
        left = tuple(number for number, table in enumerate(self.tables) if table in release.uncovered)
        return ReadPlan(dict(release.transactions), release.snapshot, ranges, expected, repeats, left)
