"""Every fact becomes what transactions on a timeline are made of, and copies of a fact become equals."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.capture import facts
from cdcv2.capture.bound_facts import shows_rows_before, timeline_fact
from cdcv2.capture.facts import Fact
from cdcv2.capture.open_records import SNAPSHOT, BeginRecord, EndRecord, HaltRecord, RowRecord, SourceRecord
from cdcv2.capture.table_content import UNRESOLVED
from cdcv2.protocol.log import Position

ONE, OTHER = Position("topic", 1, 17), Position("topic", 2, 9)
CHANGES = (("old", -1), ("new", 1))
PARTIAL = facts.PartialChange("d", facts.PartialImage(("id",), (7,)), None, None)
UNFIT = facts.UnfitRow("t", 7, None, 90, ONE, "a column", "anew")._replace(table_order=2)


@pytest.mark.parametrize("fact, expected", [
    (facts.RowFact("t", 7, 3, 2, 90, "u", CHANGES, ONE), RowRecord("t", 7, 3, 90, CHANGES, 2)),
    (facts.RowFact("t", 7, 3, 2, 90, "u", CHANGES, ONE, True), RowRecord("t", 7, 3, 90, CHANGES, 2, True)),
    (facts.PartialChangeFact("t", 7, 3, 2, 90, PARTIAL, ONE, True),
     RowRecord("t", 7, 3, 90, ((PARTIAL, UNRESOLVED),), 2, True)),
    (facts.SnapshotRow("t", 50, "first", "row", ONE), RowRecord("t", SNAPSHOT, ("topic", 1, 17), 50, (("row", 1),))),
    (facts.End(7, 100, {"t": 3, "other": 0}), EndRecord.of(7, 100, {"t": 3})),
    (facts.Truncate("t", 7, 3, 2, 90, ONE, "truncated", "delete"), HaltRecord(7, 90, "truncated", "delete", "t", 2)),
    (UNFIT, HaltRecord(7, 90, "a column", "anew", "t", 2)),
    (facts.UnfitRow("t", None, 50, None, ONE, "a column", "anew"), HaltRecord(SNAPSHOT, 50, "a column", "anew")),
    (facts.Begin(7, 95), BeginRecord(7)),
    (facts.IgnoredRecord("heartbeat"), None),
    (facts.Notification("STARTED", None, None, 0), None),
])  # fmt: skip
def test_each_kind_of_fact(fact: Fact, expected: SourceRecord | BeginRecord | None) -> None:
    """What nothing follows from is nothing."""
    # Not by ==: of what stops a capture, table and number are not compared.
    assert repr(expected) == repr(timeline_fact(fact))


def test_a_row_sent_again_is_the_same_wherever_it_stands() -> None:
    """But a row of the snapshot has its position only."""
    row = facts.RowFact("t", 7, 3, 2, 90, "u", CHANGES, ONE)
    scanned = facts.SnapshotRow("t", 50, "true", "row", ONE)

    assert timeline_fact(row) == timeline_fact(row._replace(position=OTHER))
    assert timeline_fact(scanned) != timeline_fact(scanned._replace(position=OTHER))


@pytest.mark.parametrize("changes, number, shown", [
    ((("a", 1),), 1, False),
    ((("a", -1),), 1, True),
    ((("a", -1), ("b", 1)), 1, True),
    ((("a", -1), ("b", 1)), 2, False),
    ((("a", -1),), None, False),
    (((PARTIAL, UNRESOLVED),), 1, True),
    (((PARTIAL._replace(op="u"), UNRESOLVED),), 1, True),
    (((PARTIAL._replace(op="c"), UNRESOLVED),), 1, False),
    (((PARTIAL._replace(op="t"), UNRESOLVED),), 1, False),
    (((PARTIAL, UNRESOLVED),), 2, False),
])  # fmt: skip
def test_a_first_row_that_changes_another_shows_that_it_was_there(changes: Any, number: int, shown: bool) -> None:
    """An insert, and all that comes after the first one, shows nothing."""
    assert shown == shows_rows_before(RowRecord("t", 7, 1, None, changes, number))
