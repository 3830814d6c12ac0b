"""How many rows a table has, and which transaction changes more than there can be."""

from __future__ import annotations

import pytest

from cdcv2.capture.row_counts import RowCounts, TableEffect


def test_each_transaction_is_counted_from_the_time_of_the_log_on() -> None:
    """What was committed before the time that the log's number is of, is counted in it already."""
    counts = RowCounts({"a": (5, 71)})

    assert counts.take(70, {"a": TableEffect(-9, True)}) is None and 5 == counts.rows("a")
    assert counts.take(71, {"a": TableEffect(-2, True)}) is None and 3 == counts.rows("a")
    assert counts.take(72, {"a": TableEffect(4, True)}) is None and 7 == counts.rows("a")
    assert counts.take(70, {"a": TableEffect(1, True)}) is None and 7 == counts.rows("a")


@pytest.mark.parametrize("rows, more, had, lacks", [
    (2, -3, True, True), (2, -3, False, True), (2, -2, True, False), (1, 0, True, False), (0, 0, True, True),
    (0, 5, True, True), (0, 5, False, False), (0, 0, False, False), (0, -1, False, True),
])
def test_a_table_lacks_rows_that_a_transaction_changes_or_takes_away(
    rows: int, more: int, had: bool, lacks: bool
) -> None:
    """More than there are, or any of a table that has none; the last one may go, and the first one may come."""
    counts = RowCounts({"a": (rows, 0)})

    assert ("a" if lacks else None) == counts.take(1, {"a": TableEffect(more, had)})
    assert (rows if lacks else rows + more) == counts.rows("a")


def test_of_a_transaction_that_cannot_be_no_table_is_counted() -> None:
    """The first one by name is reported; the others stay as they were."""
    counts = RowCounts({"a": (1, 0), "b": (0, 0), "c": (0, 0)})
    effects = {"c": TableEffect(-1, False), "b": TableEffect(0, True), "a": TableEffect(1, True)}

    assert ("b", 1) == (counts.take(1, effects), counts.rows("a"))


def test_a_table_of_which_nothing_is_known_is_not_judged() -> None:
    """A log without a number, and one that the snapshot did not cover."""
    counts = RowCounts()
    assert counts.take(0, {"a": TableEffect(-1, True)}) is None and 0 == counts.rows("a")
    counts.begin({"b": 2})

    assert counts.take(0, {"a": TableEffect(-1, True), "b": TableEffect(-1, True)}) is None
    assert (0, 1) == (counts.rows("a"), counts.rows("b"))


def test_a_copy_counts_on_its_own() -> None:
    """What is tried with it does not count."""
    counts = RowCounts({"a": (1, 0)})
    tried = counts.copy()
    tried.take(1, {"a": TableEffect(3, True)})

    assert (1, 4) == (counts.rows("a"), tried.rows("a"))
