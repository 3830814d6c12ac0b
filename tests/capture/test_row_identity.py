"""Which row is a copy of which: the rule, and that no way to capture has one of its own."""

from __future__ import annotations

import pytest

from cdcv2.capture.bound_transactions import BoundTransactions
from cdcv2.capture.facts import End, RowFact
from cdcv2.capture.open_records import SNAPSHOT, EndRecord, RowRecord, StartRecord
from cdcv2.capture.row_identity import REMEDY, RowIdentity, contradiction_of
from cdcv2.capture.run.commit_times import Capture
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import SourceStop
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.log import Position
from cdcv2.rows.row_type import RowType

ROW = RowIdentity("a", 3, 2, "tea")
A = "public.a"
KIND = RowType({"type": "record", "name": "a", "fields": [{"name": "id", "type": "int"}]})
#: What a row does, and what another one does.
TEA, JAM = (((KIND.row((number,)), 1),) for number in (1, 2))


@pytest.mark.parametrize("other, words", [
    (ROW._replace(number=1), "of a with total_order 3, numbered 1 and 2"),
    (ROW._replace(order=10), "of a numbered 2, with total_order 3 and 10"),
    (ROW._replace(change="jam"), "of a numbered 2, both with total_order 3"),
    (ROW._replace(change="jam", number=None), "of a, both with total_order 3"),
    (ROW._replace(change="jam", number=1), "of a with total_order 3, numbered 1 and 2"),
    (ROW._replace(table="b"), "with total_order 3, of a numbered 2 and of b numbered 2"),
    (ROW._replace(table="b", number=None), "with total_order 3, of a numbered 2 and of b"),
])
def test_rows_that_share_a_place_or_a_number_are_one_row(other: RowIdentity, words: str) -> None:
    """Or both are named, whichever came first, with who is at fault and what to do."""
    for one, two in ((ROW, other), (other, ROW)):
        found = contradiction_of(7, one, two, ", one at here")
        assert found is not None and not one.is_copy(two)
        assert (f"transaction 7 has two different rows {words}, one at here", REMEDY) == (found.reason, found.remedy)
        assert not found.stated


@pytest.mark.parametrize("other", [
    ROW, ROW._replace(number=None), ROW._replace(order=4, number=1), ROW._replace(order=4, table="b"),
    ROW._replace(order=4, number=None),
])
def test_copies_and_other_rows_contradict_nothing(other: RowIdentity) -> None:
    """A number that is not known, as in what an earlier version kept, contradicts no other."""
    assert contradiction_of(7, ROW, other) is None is contradiction_of(7, other, ROW)
    unknown = ROW._replace(number=None)
    assert contradiction_of(7, unknown, other) is None is contradiction_of(7, other, unknown)
    assert ROW.is_copy(other) == (other.order == 3)


#: (order, number, what it does) of two records, and in words why they cannot both be right.
RECORDS = {
    "one place, two numbers": ((1, 1, TEA), (1, 2, TEA), "with total_order 1, numbered 1 and 2"),
    "one number, two places": ((1, 1, TEA), (2, 1, TEA), "numbered 1, with total_order 1 and 2"),
    "one number, two changes": ((1, 1, TEA), (1, 1, JAM), "numbered 1, both with total_order 1"),
}


@pytest.mark.parametrize("counts", (1, 2))
@pytest.mark.parametrize("turned", (False, True))
@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_by_commit_times_and_on_a_remap_they_stop_a_capture(
    records: tuple[tuple[int, int, object], tuple[int, int, object], str], turned: bool, counts: int
) -> None:
    """Whichever comes first, and whatever END counts: nothing of the transaction is given out."""
    *rows, words = records
    rows = rows[::-1] if turned else rows
    logs = {A: MemoryLog(A)}
    capture = Capture(Recipe("src", {A: KIND}, snapshot="none"), logs)
    for offset, (order, number, does) in enumerate(rows):
        at = Position(f"src.{A}", 0, offset)
        capture.absorb_fact(RowFact(A, 7, order, number, None, "c", does, at), at)
    capture.absorb_fact(End(7, 100, {A: counts}), Position("src.transaction", 0, 0))
    with pytest.raises(SourceStop, match=f"transaction 7 has two different rows of {A} {words}, one at"):
        capture.release()
    assert not [*logs[A].messages]

    bound = BoundTransactions(StartRecord("commit", (A,), False))
    with pytest.raises(SourceStop, match=f"transaction 7 has two different rows of {A} {words}"):
        bound.advance([RowRecord(A, 7, order, None, does, number) for order, number, does in rows])
    assert bound.through == 0


def test_copies_are_one_row_on_a_remap_also_of_what_an_earlier_version_held() -> None:
    """Version 1 of the open-records log has no numbers: what it holds is the same row, and is released."""
    bound = BoundTransactions(StartRecord("commit", (A,), False))
    bound.restore([StartRecord("commit", (A,), False), RowRecord(A, 7, 1, None, TEA)])
    changed = bound.advance([RowRecord(A, 7, 1, 3, TEA, 1), EndRecord.of(7, 100, {A: 1})])

    assert [7] == changed.given and [*TEA] == [*changed.output[A]]


def test_two_rows_of_a_snapshot_at_one_position_are_named_by_it() -> None:
    """They have no number, and their place is where they stand."""
    bound = BoundTransactions(StartRecord("commit", (A,), True))
    rows = [RowRecord(A, SNAPSHOT, (f"src.{A}", 0, 5), 3, does) for does in (TEA, JAM)]

    with pytest.raises(SourceStop, match=rf"two different rows of the snapshot at src.{A}\[0\]@5"):
        bound.advance(rows)


def test_the_commit_that_a_row_names_is_no_part_of_it() -> None:
    """Each copy may name another one."""
    one = RowRecord(A, 7, 1, 90, TEA, 1)

    assert one.identity == one._replace(after=100).identity != one._replace(number=2).identity
