"""How far a snapshot reaches, which one is not declared, and which rows were read."""

from __future__ import annotations

import pytest

from cdcv2.capture.snapshot.declarations import late, remedy, undeclared
from cdcv2.capture.snapshot.extent import SnapshotExtent
from cdcv2.capture.snapshot.positions import SnapshotRows
from cdcv2.capture.snapshot.rules import TWO
from cdcv2.connectors.debezium.source_words import POSTGRES_WORDS


def test_only_the_last_row_of_all_ends_it() -> None:
    """Once seen, it stays so."""
    extent = SnapshotExtent()
    assert extent.marked("true", ("t", 0, 1)) is extent.marked("last_in_data_collection", ("t", 0, 2)) is None
    assert not extent.last_seen
    extent.marked("last", ("u", 0, 3))
    extent.marked("first", ("v", 0, 1))

    assert extent.last_seen


def test_two_rows_of_a_table_with_one_mark_are_of_two_snapshots() -> None:
    """Both positions and the mark are named; the same row may come again."""
    extent = SnapshotExtent()
    extent.marked("first", ("t", 0, 4))
    assert extent.marked("first_in_data_collection", ("t", 0, 4)) is None
    found = extent.marked("first_in_data_collection", ("t", 1, 9))

    assert found is not None and extent.marked("last", ("t", 1, 9)) is None
    assert all(word in found.reason for word in ("4", "9", "first_in_data_collection", "t"))


def test_all_partitions_must_be_read_to_where_they_ended() -> None:
    """Those that had a record then, and showed no streamed row; and of this snapshot, or a later one."""
    extent = SnapshotExtent()
    assert not extent.is_read(0) and "" == extent.places()
    extent.passed(("p", 0))
    extent.ends_read({("p", 0): 9, ("t", 0): 1, ("t", 1): 0, ("t", 2): 7, ("u", 0): 5}, 1)
    extent.passed(("u", 0))
    assert "t[0] to 1, t[2] to 7" == extent.places() and not extent.is_read(0)
    extent.consumed(("t", 0), 1)
    extent.consumed(("t", 2), 6)
    extent.consumed(("u", 0), 100)
    assert "t[2] to 7" == extent.places()
    extent.consumed(("t", 2), 7)

    assert "" == extent.places() and (extent.is_read(0), extent.is_read(1)) == (True, False)


def test_what_is_not_declared_and_still_can_be_lies_above_what_is_stated() -> None:
    """The least LSN is the first snapshot's."""
    assert [20, 30] == undeclared([25], [10, 20, 30], None) and [20, 30] == undeclared([], [10, 20, 30], 15)
    assert [30] == undeclared([], [10, 20, 30], 20) and [20] == undeclared([30], [10, 20, 30], 10)
    assert [] == undeclared([1], [], None) and [1] == undeclared([], [1], 0) and [1] == undeclared([], [0, 1], None)


def test_what_is_stated_can_be_declared_no_more() -> None:
    """Up to and including the time, but for the first snapshot."""
    assert [20] == late([], [10, 20, 30], 20) and [] == late([20], [10, 20, 30], 20) and [] == late([], [10, 20], None)
    assert [] == late([], [0, 1], 0) and [1] == late([], [0, 1], 1) and [] == late([], [0, 1], None)


AGAIN = "If these logs were captured with --snapshot-again {}, keep giving it"
FIRST = "continue with --snapshot-again {} and --before"


@pytest.mark.parametrize("declared, seen, through, words", [
    ([], [10, 20], 20, AGAIN.format("20")),
    ([15], [10, 20], 20, AGAIN.format("15,20")),
    ([], [10, 20, 30], 20, FIRST.format("30")),
    ([90], [10, 90, 120], 95, FIRST.format("90,120")),
    ([90], [10, 120], 95, FIRST.format("90,120")),
    ([95], [10, 120], 95, FIRST.format("95,120")),
    ([96], [10, 120], 95, FIRST.format("120")),
    ([120], [10, 120, 130], None, FIRST.format("120,130")),
    ([1], [10, 130], None, FIRST.format("130")),
    ([], [10], None, FIRST.format("LSN")),
])  # fmt: skip
def test_what_to_do_names_the_snapshots(declared: list[int], seen: list[int], through: int | None, words: str) -> None:
    """Those that are declared and known, and those that can be; else where their LSN is found."""
    text = POSTGRES_WORDS.fill(remedy(declared, seen, through))

    assert words in text and text.endswith(f". Otherwise: {POSTGRES_WORDS.fill(TWO[0].lower() + TWO[1:])}")
    assert ("from-state. " in text) == ("continue with" in text and "LSN and" not in text)
    assert ("source.lsn of its rows, of which none was seen yet" in text) == ("LSN and" in text)


def test_a_row_counts_once_unless_it_is_stated_otherwise() -> None:
    """And of each partition how far it was read."""
    rows = SnapshotRows({"a": (50, 2)})
    assert not rows.lacked("a", 50, ("t", 0), 0) and not rows.lacked("a", 50, ("t", 1), 4)
    assert {("t", 0): 1, ("t", 1): 5} == rows.read_to() and not rows.lacked("a", 50, ("t", 1), 4)
    assert rows.lacked("a", 50, ("t", 1), 5) and rows.lacked("a", 51, ("t", 0), 7)
    other = SnapshotRows({"a": (50, 3)})
    other.read("a", ("t", 0), 3)
    other.read("a", ("t", 0), 1)

    assert {("t", 0): 4} == other.read_to() and not other.lacked("a", 50, ("t", 0), 4)
    assert other.lacked("a", 50, ("t", 0), 5) and {} == SnapshotRows().read_to()
    assert not SnapshotRows({"a": (50, 1)}).lacked("a", 50, ("t", 0), 0)
    assert SnapshotRows({"a": (50, 1)}).lacked("b", 50, ("u", 0), 0)


def test_several_rows_may_be_read_at_once() -> None:
    """Each counts; nothing is judged where nothing was released, and what is kept is taken up again."""
    rows = SnapshotRows({"a": (50, 3)})
    assert not rows.lacked("a", 50, ("t", 0), 1, rows=2)
    again = SnapshotRows.restore(rows.export())

    for one in (rows, again):
        assert one.lacked("a", 50, ("t", 0), 3, rows=2) and {("t", 0): 2} == one.read_to()
    assert SnapshotRows.restore(None).export() is None
