"""What a fact of a source is on a timeline of bindings: the same for every copy of it.

A connector that is started again sends rows and Ends anew, rows without a key into another partition, too. So of a
streamed row its position says nothing. A row of the snapshot has no number, and is told by its position alone.
"""

from __future__ import annotations

from cdcv2.capture import facts
from cdcv2.capture.coverage import had_rows
from cdcv2.capture.facts import Fact
from cdcv2.capture.state import TOLD
from cdcv2.capture.temp import SNAPSHOT, Begin, End, Halt, Row, Said


def said(fact: Fact) -> Said | Begin | None:
    """What :class:`~cdcv2.capture.transactions_on_timeline.Transactions` takes of a fact; None when nothing follows
    from it.

    A Begin is for whoever has the order of such records: two of them are a Restart. The End of the snapshot is in no
    record: it is made of the notifications about it, by whoever reads them.
    """
    if isinstance(fact, facts.ToldRow):
        return Row(fact.table, fact.tx, fact.order, fact.seq, ((fact.told, TOLD),), fact.table_order, fact.anew)
    if isinstance(fact, facts.RowFact):
        return Row(fact.table, fact.tx, fact.order, fact.seq, fact.changes, fact.table_order, fact.anew)
    if isinstance(fact, facts.Begin):
        return Begin(fact.tx)
    if isinstance(fact, facts.End):
        return End.of(fact.tx, fact.lsn, fact.counts)
    if isinstance(fact, facts.SnapshotRow):
        position = fact.position
        place = position.place, position.part, position.offset
        return Row(fact.table, SNAPSHOT, place, fact.lsn, ((fact.row, 1),))
    if isinstance(fact, facts.Truncate):
        return Halt(fact.tx, fact.seq, fact.reason, fact.remedy, fact.table, fact.table_order)
    if isinstance(fact, facts.Unfit):
        if fact.tx is None:
            return Halt(SNAPSHOT, fact.lsn, fact.reason, fact.remedy)
        return Halt(fact.tx, fact.seq, fact.reason, fact.remedy, fact.table, fact.table_order)
    return None


def shows_rows_before(row: Row) -> bool:
    """Whether the row, of a table that is not covered yet, shows that the table :func:`had_rows` before.

    >>> shows_rows_before(Row("t", 7, 1, None, ((("a",), -1), (("b",), 1)), number=1))
    True
    """
    (data, first), *others = row.changes
    op = data.op if first == TOLD else "c" if first > 0 else "u" if others else "d"
    return had_rows(op, row.number or 0)
