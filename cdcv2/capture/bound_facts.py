"""What a fact of a source is on a timeline of bindings: the same for every copy of it.

A connector that is started again sends rows and Ends anew, rows without a key into another partition, too. So of a
streamed row its position says nothing. A row of the snapshot has no number, and is told by its position alone.
"""

from __future__ import annotations

from cdcv2.capture import facts
from cdcv2.capture.coverage import had_rows
from cdcv2.capture.facts import Fact
from cdcv2.capture.open_records import SNAPSHOT, BeginRecord, EndRecord, HaltRecord, RowRecord, Said
from cdcv2.capture.state import TOLD


def timeline_fact(fact: Fact) -> Said | BeginRecord | None:
    """What :class:`~cdcv2.capture.transactions_on_timeline.Transactions` takes of a fact; None when nothing follows
    from it.

    A Begin is for whoever has the order of such records: two of them are a Restart. The End of the snapshot is in no
    record: it is made of the notifications about it, by whoever reads them.
    """
    if isinstance(fact, facts.PartialChangeFact):
        return RowRecord(
            fact.table, fact.tx, fact.order, fact.seq, ((fact.told, TOLD),), fact.table_order, fact.renumbered
        )
    if isinstance(fact, facts.RowFact):
        return RowRecord(fact.table, fact.tx, fact.order, fact.seq, fact.changes, fact.table_order, fact.renumbered)
    if isinstance(fact, facts.Begin):
        return BeginRecord(fact.tx)
    if isinstance(fact, facts.End):
        return EndRecord.of(fact.tx, fact.lsn, fact.counts)
    if isinstance(fact, facts.SnapshotRow):
        position = fact.position
        place = position.place, position.part, position.offset
        return RowRecord(fact.table, SNAPSHOT, place, fact.lsn, ((fact.row, 1),))
    if isinstance(fact, facts.Truncate):
        return HaltRecord(fact.tx, fact.seq, fact.reason, fact.remedy, fact.table, fact.table_order)
    if isinstance(fact, facts.UnfitRow):
        if fact.tx is None:
            return HaltRecord(SNAPSHOT, fact.lsn, fact.reason, fact.remedy)
        return HaltRecord(fact.tx, fact.seq, fact.reason, fact.remedy, fact.table, fact.table_order)
    return None


def shows_rows_before(row: RowRecord) -> bool:
    """Whether the row, of a table that is not covered yet, shows that the table :func:`had_rows` before.

    >>> shows_rows_before(RowRecord("t", 7, 1, None, ((("a",), -1), (("b",), 1)), number=1))
    True
    """
    (data, first), *others = row.changes
    op = data.op if first == TOLD else "c" if first > 0 else "u" if others else "d"
    return had_rows(op, row.number or 0)
