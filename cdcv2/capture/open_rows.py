"""The rows of open transactions, until they may be released.

A row is kept once: by ``(tx, total_order)``, or by its position if it is of the snapshot. Which row is a copy of which
is decided in :mod:`cdcv2.capture.row_identity`. What is held decides from
where the topics must be read again after a crash: from the first record of each partition that is not released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

from cdcv2.capture.facts import PartialChange, PartialChangeFact, RowFact, SnapshotRow
from cdcv2.capture.numbers import Numbers
from cdcv2.capture.row_identity import RowIdentity, contradiction_of
from cdcv2.capture.transaction_contradictions import Contradiction
from cdcv2.protocol.log import Place, Position

#: The effect of a row: pairs (row, diff); or a partial change, whose before-image must be looked up in the table.
Changes = Union[tuple[tuple[Any, int], ...], PartialChange]


class OpenTransaction:
    """What has been seen of one transaction: its rows by table and ``total_order``, and where it began to be read.

    A row is its number in its table (``data_collection_order``), and what it does.
    """

    __slots__ = ("tables", "numbers", "more", "orders", "first", "null_seq")

    def __init__(self) -> None:
        self.tables: dict[str, dict[int, tuple[int, Changes]]] = {}
        self.numbers: dict[str, Numbers] = {}
        #: the sum of the diffs of its rows, by table
        self.more: dict[str, int] = {}
        #: their ``total_order``, whichever the table
        self.orders = Numbers()
        #: partition -> the first offset that holds something of it
        self.first: dict[Place, int] = {}
        #: its rows do not name the transaction before
        self.null_seq = False

    def starts_at(self, place: Place, offset: int) -> None:
        """A record of it stands there."""
        self.first[place] = min(offset, self.first.get(place, offset))

    def contradiction(self, tx: int, row: RowIdentity, where: str) -> Contradiction | None:
        """Why a row contradicts one that is held; ``where`` is where it stands. Cost: the rows held."""
        held = (
            RowIdentity(table, order, number, does)
            for table, rows in self.tables.items() for order, (number, does) in rows.items()
        )
        return next(filter(None, (contradiction_of(tx, one, row, where) for one in held)), None)


class OpenRows:
    """Everything that is held. Memory: what is open."""

    def __init__(self) -> None:
        self._open: dict[int, OpenTransaction] = {}
        # By the LSN of a resnapshot; None is the first snapshot.
        self._snapshots: dict[int | None, dict[str, dict[tuple[Place, int], Any]]] = {}
        self._snapshot_firsts: dict[int | None, dict[Place, int]] = {}
        #: rows held, those of the snapshot included
        self.rows = 0

    def admit(self, fact: RowFact | PartialChangeFact) -> bool | Contradiction:
        """Keep a row. True: it is new; False: a copy is held already; or what contradicts it, and it is not kept.

        The positions of all copies count: otherwise the next run could start between two rows of one number.
        """
        transaction = self._transaction(fact.tx)
        transaction.starts_at(_place(fact.position), fact.position.offset)
        rows = transaction.tables.setdefault(fact.table, {})
        does: Changes = fact.change if isinstance(fact, PartialChangeFact) else fact.changes
        if rows.get(fact.order) == (fact.table_order, does):
            return False
        numbers = transaction.numbers.setdefault(fact.table, Numbers())
        if not all([transaction.orders.add([fact.order]), numbers.add([fact.table_order])]):
            row = RowIdentity(fact.table, fact.order, fact.table_order, does)
            found = transaction.contradiction(fact.tx, row, f", one at {fact.position}")
            if found is not None:
                return found
        rows[fact.order] = fact.table_order, does
        if not isinstance(does, PartialChange):
            transaction.more[fact.table] = transaction.more.get(fact.table, 0) + sum([diff for _, diff in does])
        self.rows += 1
        transaction.null_seq |= fact.seq is None
        return True

    def record_seen(self, tx: int, place: Place, offset: int) -> None:
        """A record of the transaction that is no row (its END, what stops it) must be read again with it."""
        self._transaction(tx).starts_at(place, offset)

    def counted(self, tx: int, table: str) -> tuple[int, int, int]:
        """How many rows of the table the transaction has so far, the greatest of their numbers, the sum of the diffs.

        A partial change has no diff.
        """
        transaction = self._open[tx]
        return len(transaction.tables[table]), transaction.numbers[table].highest, transaction.more.get(table, 0)

    def admit_snapshot(self, fact: SnapshotRow, again: int | None = None) -> int | None:
        """Keep a row of the snapshot; returns how many the table has so far. None: another row has its position.

        ``again`` is the LSN of a resnapshot.
        """
        rows = self._snapshots.setdefault(again, {}).setdefault(fact.table, {})
        where = _place(fact.position), fact.position.offset
        if where not in rows:
            rows[where] = fact.row
            self.rows += 1
        elif rows[where] != fact.row:
            return None
        self.snapshot_record_seen(*where, again)
        return len(rows)

    def snapshot_record_seen(self, place: Place, offset: int, again: int | None = None) -> None:
        """A record about the snapshot must be read again with its rows."""
        firsts = self._snapshot_firsts.setdefault(again, {})
        firsts[place] = min(offset, firsts.get(place, offset))

    def changes(self, tx: int, table: str) -> Iterator[tuple[Any, int]]:
        """What the transaction does to the table."""
        transaction = self._open.get(tx)
        if transaction is not None:
            for _, changes in transaction.tables.get(table, {}).values():
                if not isinstance(changes, PartialChange):
                    yield from changes

    def partial_changes(self, tx: int, table: str) -> list[tuple[int, PartialChange]]:
        """The partial changes of the table in the transaction, in its order, each with its number."""
        transaction = self._open.get(tx)
        rows = transaction.tables.get(table, {}) if transaction is not None else {}
        return [(order, change) for order, (_, change) in sorted(rows.items()) if isinstance(change, PartialChange)]

    def snapshot_rows(self, table: str, again: int | None = None) -> Iterator[Any]:
        """The snapshot's rows of the table."""
        return iter(self._snapshots.get(again, {}).get(table, {}).values())

    def doubted(self) -> list[tuple[int, tuple[None], dict[str, int]]]:
        """Transactions whose rows do not name the transaction before, with the greatest numbers of rows by table."""
        return [
            (tx, (None,), {table: numbers.highest for table, numbers in held.numbers.items()})
            for tx, held in self._open.items() if held.null_seq
        ]

    def drop(self, tx: int) -> None:
        """The transaction is released, or was before."""
        transaction = self._open.pop(tx, None)
        if transaction is not None:
            self.rows -= sum(map(len, transaction.tables.values()))

    def drop_snapshot(self, again: int | None = None) -> None:
        """The snapshot is released."""
        self.rows -= sum(map(len, self._snapshots.pop(again, {}).values()))
        self._snapshot_firsts.pop(again, None)

    def firsts(self) -> dict[Place, int]:
        """The first offset of each partition that holds something unreleased. Cost: transactions times partitions."""
        firsts: dict[Place, int] = {}
        for found in (*self._snapshot_firsts.values(), *(transaction.first for transaction in self._open.values())):
            for place, offset in found.items():
                firsts[place] = min(offset, firsts.get(place, offset))
        return firsts

    def _transaction(self, tx: int) -> OpenTransaction:
        transaction = self._open.get(tx)
        if transaction is None:
            transaction = self._open[tx] = OpenTransaction()
        return transaction


def _place(position: Position) -> Place:
    return position.place, position.part
