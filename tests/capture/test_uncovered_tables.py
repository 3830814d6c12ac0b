"""Which tables the connector never reported, and from when on it did."""

from __future__ import annotations

import pytest

from cdcv2.capture.coverage import UncoveredTables, had_rows, has_started, indispensable, left_out, unknown, unnamed
from cdcv2.capture.snapshot.runs import SnapshotRun


def test_a_run_that_names_tables_leaves_out_those_that_it_does_not_name() -> None:
    """Unless there are rows of them in the snapshot."""
    run = SnapshotRun({"a": 0, "b": None}, 4)

    assert {"d"} == unnamed(run, {"c": 1, "d": 0}, "abcd") == left_out(run, {"c": 1, "d": 0}, "abcd", {"d"})
    assert set() == unnamed(SnapshotRun({}, 1, skipped=True), {}, "ab")


def test_without_a_run_that_names_tables_the_topics_show_which_are_there() -> None:
    """Until they are known no table is left out."""
    skipped = SnapshotRun({}, 4, skipped=True)

    assert [set(), {"a"}, {"a", "b"}] == [left_out(skipped, {"a": 1}, "ab", there) for there in (None, {"b"}, set())]
    assert {"a", "c"} == unknown("abc", "b")


@pytest.mark.parametrize("left, may, skipped, needed", [
    ("", "", False, None), ("b", "abc", False, None), ("bc", "b", False, "c"), ("cb", "a", False, "b"),
    ("abc", "abc", False, "a"), ("abc", "abc", True, None), ("abc", "ab", True, "a"),
])
def test_a_table_that_the_others_cannot_go_on_without(
    left: str, may: str, skipped: bool, needed: str | None
) -> None:
    """One that the user did not allow to be left out, or the first of all, if no table would be left."""
    given = min(left) if needed is not None else None

    assert given == indispensable(set(left), "abc", set(may), skipped=skipped)
    assert skipped or given == indispensable(set(left), "abc", set(may))


@pytest.mark.parametrize("begins, known, started", [
    (0, 0, True), (0, 9, True), (None, 0, False), (None, 1, True), (140, 140, False), (140, 141, True), (1, 1, False),
])
def test_a_log_shows_whether_its_table_is_covered(begins: int | None, known: int, started: bool) -> None:
    """From its first statement on; one that begins at the start has nothing to wait for."""
    assert started == has_started(begins, known)


@pytest.mark.parametrize("op, number, had", [
    ("u", 1, True), ("d", 1, True), ("c", 1, False), ("t", 1, False), ("u", 2, False), ("d", 0, False),
])
def test_a_first_row_that_changes_another_shows_that_the_table_had_rows(op: str, number: int, had: bool) -> None:
    """A later one may change a row of its own transaction."""
    assert had == had_rows(op, number)


def test_a_table_is_covered_from_the_first_end_that_counts_rows_of_it() -> None:
    """Not one whose first row changes another: of that one only a snapshot shows all rows."""
    tables = UncoveredTables(["d", "c", "b", "a"])

    assert [] == tables.begin({"x": 1, "a": 0})
    assert ["a", "b"] == tables.begin({"b": 2, "a": 1, "c": 1}, {"c", "d"})
    assert ({"c", "d"}, {"c"}) == (tables.tables, tables.partial)
    assert [] == tables.begin({"c": 1, "a": 1})
    assert ["c"] == tables.scanned("ac")
    assert ({"d"}, set()) == (tables.tables, tables.partial)
    tables.add(["e"])
    assert ["e"] == tables.begin({"e": 1}, {"d"})


def test_a_partial_table_is_uncovered() -> None:
    """Also where a start knows it as partial only."""
    tables = UncoveredTables(["a"], ["b"])

    assert ({"a", "b"}, {"b"}) == (tables.tables, tables.partial)
    assert (set(), set()) == (UncoveredTables().tables, UncoveredTables().partial)
