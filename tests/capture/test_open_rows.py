"""What is held of open transactions and of snapshots: each row once, and where its records begin."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.capture.facts import PartialChange, PartialChangeFact, PartialImage, RowFact, SnapshotRow
from cdcv2.capture.open_rows import OpenRows
from cdcv2.capture.row_buffers import MemoryBuffer, MemoryBuffers
from cdcv2.capture.transaction_contradictions import Contradiction
from cdcv2.core.changes import ChangeBatch
from cdcv2.protocol.log import Position

ADDED = (("new", 1),)
CHANGED = (("old", -1), ("new", 1))
DELETED = PartialChange("d", PartialImage(("id",), (7,)), None, None)


def row(tx: int, order: int, *, table: str = "a", number: int | None = None, seq: int | None = 50, offset: int = 5,
        partition: int = 0, changes: Any = ADDED) -> RowFact:
    """A row, numbered in its table like in its transaction."""
    at = Position(table, partition, offset)
    return RowFact(table, tx, order, order if number is None else number, seq, "c", changes, at)


def partial(tx: int, order: int, change: PartialChange = DELETED) -> PartialChangeFact:
    """A change whose row must be looked up."""
    return PartialChangeFact("a", tx, order, order, 50, change, Position("a", 0, 5))


def scanned(data: object, offset: int, table: str = "a", partition: int = 0) -> SnapshotRow:
    """A row of a snapshot."""
    return SnapshotRow(table, 10, "true", data, Position(table, partition, offset))


class Elsewhere(MemoryBuffers):
    """Keeps rows where the caller need not add them up, and records what it is asked."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Any]] = []
        self.dropped: list[str] = []

    def of_transaction(self, table: str) -> MemoryBuffer:
        """For one of the tables."""
        rows = super().of_transaction(table)
        self.made.append((f"transaction {table}", rows))
        return rows

    def of_snapshot(self, table: str) -> dict[Any, Any]:
        """For one of the tables."""
        rows = super().of_snapshot(table)
        self.made.append((f"snapshot {table}", rows))
        return rows

    def sums(self, buffer: Any) -> Any:
        """The name of the buffer, and how many rows it has."""
        return ChangeBatch([(name, len(buffer)) for name, rows in self.made if rows is buffer])

    def drop(self, buffer: Any) -> None:
        """One that it has made."""
        self.dropped += [name for name, rows in self.made if rows is buffer]


def test_a_row_is_held_once() -> None:
    """A copy is none, wherever it stands; another row with its number is a contradiction."""
    held = OpenRows()

    assert [True, False] == [held.admit(row(7, 1)), held.admit(row(7, 1, offset=9))] and 1 == held.rows
    other = held.admit(row(7, 1, changes=CHANGED))
    assert isinstance(other, Contradiction) and 1 == held.rows
    assert other.reason.startswith("transaction 7 has two different rows of a numbered 1, ")
    assert "both with total_order 1, one at a[0]@5" in other.reason
    assert ADDED == tuple(held.changes(7, "a"))
    assert [True, True, True] == [held.admit(row(7, 2)), held.admit(row(8, 1)), held.admit(row(7, 3, changes=CHANGED))]
    assert 4 == held.rows


@pytest.mark.parametrize("order, table, number, expected", [
    (1, "b", 1, False), (1, "a", 2, False), (2, "a", 1, False), (2, "a", 2, True), (2, "b", 1, True), (2, "b", 3, True),
])
def test_a_number_names_one_row(order: int, table: str, number: int, expected: bool) -> None:
    """Among all rows of the transaction, and among those of the table in it; whichever of two comes first."""
    rows = row(7, 1), row(7, order, table=table, number=number)
    found = []
    for first, second in (rows, rows[::-1]):
        held = OpenRows()
        held.admit(first)
        found.append(held.admit(second))
        assert (2 if expected else 1) == held.rows

    reasons = {one.reason.partition(", one at")[0] if isinstance(one, Contradiction) else one for one in found}
    assert {True} == reasons if expected else 1 == len(reasons) and True not in reasons


def test_a_row_that_contradicts_one_of_many_is_found() -> None:
    """Another number for its place, when that number is that of a third row."""
    held = OpenRows()
    for order in (1, 2, 3):
        held.admit(row(7, order))
    found = held.admit(row(7, 1, number=2, offset=9))

    assert isinstance(found, Contradiction)
    assert "two different rows of a with total_order 1, numbered 1 and 2, one at a[0]@9" in found.reason


def test_rows_are_counted_by_table() -> None:
    """How many, the greatest number, and by how many rows the table grows."""
    held = OpenRows()
    for one in (row(7, 4), row(7, 2), row(7, 3, table="b", number=9), row(7, 1, changes=CHANGED), row(8, 6)):
        assert held.admit(one)

    assert (3, 4, 2) == held.counted(7, "a") and (1, 9, 1) == held.counted(7, "b")
    assert (1, 6, 1) == held.counted(8, "a") and 5 == held.rows


def test_a_partial_change_counts_as_a_row_without_a_sum() -> None:
    """What it does is not known yet."""
    held = OpenRows()
    assert held.admit(partial(7, 3)) and (1, 3, 0) == held.counted(7, "a")
    held.admit(row(7, 2, changes=(("gone", -1),)))

    assert (2, 3, -1) == held.counted(7, "a")
    assert held.admit(partial(7, 3)) is False
    assert isinstance(held.admit(partial(7, 3, DELETED._replace(op="t"))), Contradiction)


def test_changes_are_of_one_transaction_and_table() -> None:
    """Whole rows, and partial changes in their order with their numbers."""
    held, truncated = OpenRows(), DELETED._replace(op="t")
    for one in (partial(7, 5), partial(7, 3, truncated), row(7, 4, changes=CHANGED), row(7, 6, table="b"), row(8, 7)):
        held.admit(one)

    assert CHANGED == tuple(held.changes(7, "a")) and ADDED == tuple(held.changes(7, "b"))
    assert [(3, truncated), (5, DELETED)] == held.partial_changes(7, "a") and [] == held.partial_changes(7, "b")
    assert [] == held.partial_changes(7, "c") == held.partial_changes(9, "a")
    assert [] == [*held.changes(7, "c"), *held.changes(9, "a")]


def test_what_begins_first_in_each_partition_must_be_read_again() -> None:
    """Of rows, of their copies, and of records that are no rows."""
    held = OpenRows()
    assert {} == held.firsts()
    for offset in (5, 4, 6):
        held.admit(row(7, 1, offset=offset))
    held.admit(row(8, 1, offset=9))
    held.admit(row(8, 2, offset=2, partition=1))
    held.record_seen(8, ("ends", 0), 30)
    held.record_seen(8, ("ends", 0), 20)
    held.record_seen(9, ("ends", 0), 25)

    assert {("a", 0): 4, ("a", 1): 2, ("ends", 0): 20} == held.firsts()
    held.drop(7)
    assert {("a", 0): 9, ("a", 1): 2, ("ends", 0): 20} == held.firsts()
    held.drop(8)
    assert {("ends", 0): 25} == held.firsts()


def test_what_is_released_is_held_no_more() -> None:
    """Its rows are not counted; a transaction that is not held has none."""
    held = OpenRows()
    for one in (row(7, 1), row(7, 2, table="b"), row(8, 1)):
        held.admit(one)
    held.drop(7)
    held.drop(9)

    assert 1 == held.rows and [] == list(held.changes(7, "a")) and ADDED == tuple(held.changes(8, "a"))
    assert held.admit(row(7, 1)) and 2 == held.rows


def test_a_row_of_a_snapshot_is_held_once_at_each_position() -> None:
    """Equal rows at two positions are two; another row at one is a contradiction."""
    held = OpenRows()

    assert [1, 2, 2] == [held.admit_snapshot(scanned("x", at)) for at in (5, 6, 5)] and 2 == held.rows
    assert held.admit_snapshot(scanned("y", 5)) is None and 2 == held.rows
    assert 3 == held.admit_snapshot(scanned("y", 5, partition=1)) and 1 == held.admit_snapshot(scanned("z", 5, "b"))
    assert ["x", "x", "y"] == list(held.snapshot_rows("a")) and ["z"] == list(held.snapshot_rows("b"))
    assert [] == list(held.snapshot_rows("c")) and 4 == held.rows


def test_each_snapshot_has_rows_of_its_own() -> None:
    """A resnapshot is known by its LSN; what of it is released is held no more."""
    held = OpenRows()
    held.admit_snapshot(scanned("x", 5))
    held.admit_snapshot(scanned("y", 7), 90)
    held.admit_snapshot(scanned("z", 6), 90)
    held.admit_snapshot(scanned("w", 2, partition=1), 120)
    held.snapshot_record_seen(("notes", 0), 8, 90)
    held.snapshot_record_seen(("notes", 0), 3)
    held.snapshot_record_seen(("notes", 0), 9)

    assert ["x"] == list(held.snapshot_rows("a")) and ["y", "z"] == list(held.snapshot_rows("a", 90))
    assert [] == list(held.snapshot_rows("a", 91)) and 4 == held.rows
    assert {("a", 0): 5, ("a", 1): 2, ("notes", 0): 3} == held.firsts()
    held.drop_snapshot()
    assert {("a", 0): 6, ("a", 1): 2, ("notes", 0): 8} == held.firsts() and 3 == held.rows
    held.drop_snapshot(90)
    assert {("a", 1): 2} == held.firsts() and 1 == held.rows and [] == list(held.snapshot_rows("a", 90))
    held.drop_snapshot(91)
    assert 1 == held.rows and ["w"] == list(held.snapshot_rows("a", 120))


def test_a_record_about_a_snapshot_that_is_refused_does_not_begin_it() -> None:
    """A row that contradicts another one is not held."""
    held = OpenRows()
    held.admit_snapshot(scanned("x", 5))
    held.admit_snapshot(scanned("y", 5))

    assert {("a", 0): 5} == held.firsts()


def test_rows_that_do_not_name_the_transaction_before_are_in_doubt() -> None:
    """One of them is enough, first or last; they are named by the greatest number in each table."""
    held = OpenRows()
    for one in (row(7, 1), row(8, 1, seq=None), row(8, 4, number=3), row(8, 5, table="b"), row(9, 1)):
        held.admit(one)
    assert [(8, (None,), {"a": 3, "b": 5})] == held.doubted()
    held.admit(row(9, 2, seq=None))

    assert [8, 9] == [tx for tx, _, _ in held.doubted()]
    held.drop(8)
    assert [(9, (None,), {"a": 2})] == held.doubted()


def test_a_number_of_a_row_that_contradicts_another_is_not_taken() -> None:
    """The row is not kept, so the one that the number belongs to contradicts none."""
    held = OpenRows()
    assert held.admit(row(7, 1)) and isinstance(held.admit(row(7, 1, number=2)), Contradiction)

    assert held.admit(row(7, 2)) is True and (2, 2, 2) == held.counted(7, "a")


def test_rows_are_kept_in_a_buffer_for_each_table() -> None:
    """Of each transaction, and of each snapshot; it is dropped with what it was made for."""
    buffers = Elsewhere()
    held = OpenRows(buffers)
    for one in (row(7, 1), row(7, 2), row(7, 3, table="b")):
        held.admit(one)
    for offset in (5, 6, 7):
        held.admit_snapshot(scanned("x", offset))

    kept = {"transaction a": 2, "transaction b": 1, "snapshot a": 3}
    assert kept == {name: len(rows) for name, rows in buffers.made}
    held.drop(7)
    assert ["transaction a", "transaction b"] == buffers.dropped
    held.drop_snapshot()
    assert ["transaction a", "transaction b", "snapshot a"] == buffers.dropped


def test_rows_that_are_kept_elsewhere_are_added_up_there() -> None:
    """By transaction and table, and of the first snapshot; where there is no row, nothing is asked."""
    held = OpenRows(Elsewhere())
    for sums in (held.sums(7, "a"), held.snapshot_sums("a")):
        assert sums is None
    for one in (row(7, 1), row(7, 2), row(7, 3, table="b")):
        held.admit(one)
    held.admit_snapshot(scanned("x", 5))
    for offset in (6, 7):
        held.admit_snapshot(scanned("y", offset), 90)

    found = [held.sums(7, "a"), held.sums(7, "b"), held.snapshot_sums("a")]
    assert [[("transaction a", 2)], [("transaction b", 1)], [("snapshot a", 1)]] == [[*(sums or ())] for sums in found]
    assert [None] * 3 == [held.sums(7, "c"), held.sums(8, "a"), held.snapshot_sums("b")]


def test_rows_in_memory_are_added_up_by_the_caller() -> None:
    """There are no other sums of them."""
    held = OpenRows()
    held.admit(row(7, 1))
    held.admit_snapshot(scanned("x", 5))

    assert held.sums(7, "a") is None and held.snapshot_sums("a") is None
