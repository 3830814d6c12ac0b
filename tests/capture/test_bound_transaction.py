"""One open transaction: what is held of it, what a step adds, and which of several copies of a row stays."""

from __future__ import annotations

import pytest

from cdcv2.capture.bound_transaction import BoundTransaction, stop_of
from cdcv2.capture.open_records import SNAPSHOT, EndRecord, HaltRecord, RowRecord
from cdcv2.capture.transaction_contradictions import Contradiction, two_snapshot_rows
from cdcv2.errors import SourceStop
from cdcv2.protocol.log import Position

END, HALT = EndRecord.of(7, 90, {"a": 2}), HaltRecord(7, 80, "it was truncated", "capture again", "a", 3)


def row(
    order: int, after: int | None = 80, *, table: str = "a", number: int | None = None, data: str = "r"
) -> RowRecord:
    """A row of transaction 7, which has its place in the transaction as its number if none is given."""
    return RowRecord(table, 7, order, after, ((data, 1),), order if number is None else number)


def held(*rows: RowRecord) -> BoundTransaction:
    """These rows, held since an earlier step."""
    one = BoundTransaction()
    for each in rows:
        one.add(each)
    one.age()
    return one


def test_a_step_adds_to_what_was_held() -> None:
    """Rows in their order, and what stands beside them."""
    one = held(row(1), row(2))
    one.beside[HALT] = None
    one.add(row(3))
    one.add(row(4))
    one.beside[END] = None
    one.fresh.append(END)

    assert [row(1), row(2), HALT] == [*one.before()] and [row(3), row(4), END] == [*one.added()]
    assert [row(1), row(2), row(3), row(4), HALT, END] == [*one.content()] and 6 == len(one)
    assert ([HALT], END) == (one.halts, one.end) and 2 == one.fresh_rows
    one.age()
    assert [] == [*one.added()] and [*one.content()] == [*one.before()]
    assert ([], None) == (held(row(1)).halts, held(row(1)).end)
    assert ([], 0, 0) == (BoundTransaction().fresh, BoundTransaction().fresh_rows, len(BoundTransaction()))


def test_the_error_has_all_that_the_contradiction_has() -> None:
    """Also what to do, and whether it lasts."""
    lasting, other = stop_of(Contradiction("why", "what to do", True)), stop_of(Contradiction("why", "what to do"))

    assert ("why", "what to do", True) == (lasting.reason, lasting.remedy, lasting.lasting) and other.lasting is False


def test_rows_are_counted_by_table() -> None:
    """And numbered, as far as they have numbers."""
    one = held(row(1), row(2, number=5), row(3, table="b", number=1))
    unnumbered = BoundTransaction()
    unnumbered.add(RowRecord("c", 7, 9, 80, (("r", 1),), None))

    assert ((2, 5), (1, 1), (1, 1)) == (one.counted("a"), one.counted("b"), unnumbered.counted("c"))


def test_two_rows_of_one_number_stop_it() -> None:
    """Table, transaction and number are named."""
    with pytest.raises(SourceStop, match=r"transaction 7 .*\ba\b.* 1\b"):
        held(row(1)).add(row(2, number=1))
    with pytest.raises(SourceStop, match=r"transaction 7 .*\ba\b.* 3\b"):
        held(row(1, number=3)).add_copy(row(1, number=3, data="other"), row(1, number=3))
    unnumbered = RowRecord("a", 7, 6, 80, (("r", 1),), None)
    with pytest.raises(SourceStop, match=r"transaction 7 .*\ba\b.* 6\b"):
        held(unnumbered).add_copy(unnumbered._replace(changes=(("other", 1),)), unnumbered)


def test_two_rows_at_one_position_of_a_snapshot_stop_it() -> None:
    """The position is named: there they have no place in a transaction, and no number."""
    scanned = RowRecord("a", SNAPSHOT, ("topic", 0, 4), 5, (("r", 1),))
    with pytest.raises(SourceStop) as caught:
        held(scanned).add_copy(scanned._replace(changes=(("other", 1),)), scanned)

    expected = two_snapshot_rows(Position("topic", 0, 4))
    assert (expected.reason, expected.remedy) == (caught.value.reason, caught.value.remedy)
    assert "topic[0]@4" in caught.value.reason
    assert not held(scanned).add_copy(scanned._replace(after=6), scanned)


def test_a_copy_of_what_was_held_before_the_step_changes_nothing() -> None:
    """Whatever commit it names."""
    one = held(row(1, 80))

    assert not one.add_copy(row(1, 70), row(1, 80)) and not one.add_copy(row(1, None), row(1, 80))
    assert [row(1, 80)] == [*one.content()] and not one.add_copy(row(1, 80), row(1, 80))


def test_of_the_copies_of_one_step_the_least_commit_stays() -> None:
    """One that names none is the least; wherever the row stands, also where rows come after the first copy."""
    one = held(row(1, 80))
    one.add(row(2, 80))
    assert one.add_copy(row(2, 70), row(2, 80)) and not one.add_copy(row(2, 75), row(2, 70))
    one.add(row(3, 80))

    assert one.add_copy(row(3, None), row(3, 80))
    assert not one.add_copy(row(3, 0), row(3, None)) and not one.add_copy(row(1, 60), row(1, 80))
    assert [row(2, 70), row(3, None)] == [*one.added()] and [row(1, 80)] == [*one.before()]
    one.age()
    assert not one.add_copy(row(2, 60), row(2, 70))
