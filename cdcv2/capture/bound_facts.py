"""What a fact of a source is on a timeline of bindings: the same for every copy of it.

A connector that is restarted sends rows and Ends again, rows without a key perhaps into another partition. So the
position of a streamed row does not identify it. A row of the snapshot has no number: its position alone identifies it.
"""

from __future__ import annotations

from cdcv2.capture import facts
from cdcv2.capture.coverage import had_rows
from cdcv2.capture.facts import Fact
from cdcv2.capture.open_records import SNAPSHOT, BeginRecord, EndRecord, HaltRecord, RowRecord, SourceRecord
from cdcv2.capture.table_content import UNRESOLVED


def timeline_fact(fact: Fact) -> SourceRecord | BeginRecord | None:
    """The record that :class:`~cdcv2.capture.transactions_on_timeline.Transactions` takes for a fact; None: none.

    A Begin is for a caller that has the order of such records: two of them are a Restart. The End of the snapshot is
    in no record: the reader of the notifications makes it.
    """
    if isinstance(fact, facts.PartialChangeFact):
        return RowRecord(
            fact.table, fact.tx, fact.order, fact.seq, ((fact.change, UNRESOLVED),), fact.table_order, fact.renumbered
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
    op = data.op if first == UNRESOLVED else "c" if first > 0 else "u" if others else "d"
    return had_rows(op, row.number or 0)
