"""The rows of open transactions, until they may be released.

A row is kept once: by ``(tx, total_order)``, or by its position if it is of the snapshot. Which row is a copy of which
is decided in :mod:`cdcv2.capture.row_identity`. Where the rows are kept, in memory or on disk, decides nothing: see
:mod:`cdcv2.capture.row_buffers`. What is held decides from where the topics must be read again after a crash: from the
first record of each partition that is not released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdcv2.capture.facts import PartialChange, PartialChangeFact, RowFact, SnapshotRow
from cdcv2.capture.numbers import Numbers
from cdcv2.capture.row_buffers import Changes, MemoryBuffers, RowBuffer, RowBuffers, RowPlace, TransactionBuffer
from cdcv2.capture.row_identity import RowIdentity, contradiction_of
from cdcv2.capture.transaction_contradictions import Contradiction
from cdcv2.protocol.log import Place, Position
from cdcv2.protocol.sums import Sums


class OpenTransaction:
    """What has been seen of one transaction: its rows by table and ``total_order``, and where it began to be read."""

    __slots__ = ("tables", "numbers", "more", "orders", "first", "null_seq")

    def __init__(self) -> None:
        self.tables: dict[str, TransactionBuffer] = {}
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

    def contradiction(self, fact: RowFact | PartialChangeFact, does: Changes) -> Contradiction | None:
        """Why the row contradicts one that is held. Cost: the rows held of its table."""
        row = RowIdentity(fact.table, fact.order, fact.table_order, does)
        held = (
            RowIdentity(table, order, number, one)
            for table, rows in self.tables.items()
            for order, (number, one) in rows.sharing(fact.order, fact.table_order if table == fact.table else None)
        )
        found = (contradiction_of(fact.tx, one, row, f", one at {fact.position}") for one in held)
        return next(filter(None, found), None)


class OpenRows:
    """Everything that is held; ``buffers`` keeps the rows (None: in memory).

    Memory: two bits for each row that is open, and what the buffers have of it in memory.
    """

    def __init__(self, buffers: RowBuffers | None = None) -> None:
        self._buffers: RowBuffers = MemoryBuffers() if buffers is None else buffers
        self._open: dict[int, OpenTransaction] = {}
        # By the LSN of a resnapshot; None is the first snapshot.
        self._snapshots: dict[int | None, dict[str, RowBuffer[RowPlace, Any]]] = {}
        self._snapshot_firsts: dict[int | None, dict[Place, int]] = {}
        #: rows held, those of the snapshot included
        self.rows = 0

    def admit(self, fact: RowFact | PartialChangeFact) -> bool | Contradiction:
        """Keep a row. True: it is new; False: a copy is held already; or what contradicts it, and it is not kept.

        The positions of all copies count: otherwise the next run could start between two rows of one number.
        """
        transaction = self._transaction(fact.tx)
        transaction.starts_at(_place(fact.position), fact.position.offset)
        rows = transaction.tables.get(fact.table)
        if rows is None:
            rows = transaction.tables[fact.table] = self._buffers.of_transaction(fact.table)
            transaction.numbers[fact.table] = Numbers()
        does: Changes = fact.change if isinstance(fact, PartialChangeFact) else fact.changes
        numbers = transaction.numbers[fact.table]
        # Both are asked: each may be new. A row of which both are new need not be looked for.
        if not all([transaction.orders.add([fact.order]), numbers.add([fact.table_order])]):
            if rows.get(fact.order) == (fact.table_order, does):
                return False
            found = transaction.contradiction(fact, does)
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
        tables = self._snapshots.setdefault(again, {})
        rows = tables.get(fact.table)
        if rows is None:
            rows = tables[fact.table] = self._buffers.of_snapshot(fact.table)
        where = _place(fact.position), fact.position.offset
        held = rows.get(where)
        if held is None:
            rows[where] = fact.row
            self.rows += 1
        elif held != fact.row:
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
            for _, changes in transaction.tables[table].values() if table in transaction.tables else ():
                if not isinstance(changes, PartialChange):
                    yield from changes

    def sums(self, tx: int, table: str) -> Sums | None:
        """What :meth:`changes` adds up to, where the rows are not all in memory; None: they are."""
        transaction = self._open.get(tx)
        rows = transaction.tables.get(table) if transaction is not None else None
        return None if rows is None else self._buffers.sums(rows)

    def partial_changes(self, tx: int, table: str) -> list[tuple[int, PartialChange]]:
        """The partial changes of the table in the transaction, in its order, each with its number."""
        transaction = self._open.get(tx)
        rows = transaction.tables.get(table) if transaction is not None else None
        found = [] if rows is None else sorted(rows.items())
        return [(order, change) for order, (_, change) in found if isinstance(change, PartialChange)]

    def snapshot_rows(self, table: str, again: int | None = None) -> Iterator[Any]:
        """The snapshot's rows of the table."""
        rows = self._snapshots.get(again, {}).get(table)
        return iter(() if rows is None else rows.values())

    def snapshot_sums(self, table: str) -> Sums | None:
        """What the rows of the first snapshot add up to, where they are not all in memory; None: they are."""
        rows = self._snapshots.get(None, {}).get(table)
        return None if rows is None else self._buffers.sums(rows)

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
            self._end(transaction.tables)

    def drop_snapshot(self, again: int | None = None) -> None:
        """The snapshot is released."""
        self._end(self._snapshots.pop(again, {}))
        self._snapshot_firsts.pop(again, None)

    def firsts(self) -> dict[Place, int]:
        """The first offset of each partition that holds something unreleased. Cost: transactions times partitions."""
        firsts: dict[Place, int] = {}
        for found in (*self._snapshot_firsts.values(), *(transaction.first for transaction in self._open.values())):
            for place, offset in found.items():
                firsts[place] = min(offset, firsts.get(place, offset))
        return firsts

    def close(self) -> None:
        """Nothing that is held is needed any more."""
        self._buffers.close()

    def _end(self, tables: Mapping[str, TransactionBuffer] | Mapping[str, RowBuffer[RowPlace, Any]]) -> None:
        for rows in tables.values():
            self.rows -= len(rows)
            self._buffers.drop(rows)

    def _transaction(self, tx: int) -> OpenTransaction:
        transaction = self._open.get(tx)
        if transaction is None:
            transaction = self._open[tx] = OpenTransaction()
        return transaction


def _place(position: Position) -> Place:
    return position.place, position.part
