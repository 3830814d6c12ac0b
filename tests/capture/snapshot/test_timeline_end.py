"""The End of a snapshot follows from the notifications and the first rows, and from nothing else."""

from __future__ import annotations

import pytest

from cdcv2.capture.open_records import SNAPSHOT, EndRecord, HaltRecord
from cdcv2.capture.snapshot.timeline_end import snapshot_end, snapshot_halt
from cdcv2.capture.snapshot.tracker import SnapshotTracker
from cdcv2.capture.source_words import SourceWords

STARTED, COMPLETED, SKIPPED = ("STARTED", None, None), ("COMPLETED", None, None), ("SKIPPED", None, None)
Said = tuple[str, str | None, int | None]


def counted(table: str, rows: int | None) -> Said:
    """So many rows were scanned."""
    return "TABLE_SCAN_COMPLETED", table, rows


def after(*notifications: Said, empty: str = "", may: str = "") -> SnapshotTracker:
    """These have come."""
    tracker = SnapshotTracker(["a", "b"], empty=empty, may=may, known=set("ab").difference(may))
    for offset, said in enumerate(notifications):
        tracker.notification(*said, offset)
    return tracker


def end(tracker: SnapshotTracker, lsn: int | None) -> EndRecord | HaltRecord | None:
    """The End, after a row at this LSN, of a table that is not captured."""
    if lsn is not None:
        tracker.rows_seen("other", lsn, 1)
    return snapshot_end(tracker)


B = counted("b", 0)


@pytest.mark.parametrize("notifications, lsn, expected", [
    ((), 70, None),
    ((STARTED, counted("a", 2)), 70, None),
    ((STARTED, counted("a", 2), B, COMPLETED), None, None),
    ((STARTED, counted("a", 2), B, COMPLETED), 70, EndRecord.of(SNAPSHOT, 70, {"a": 2})),
    ((STARTED, counted("a", 0), B, counted("other", 5), COMPLETED), None, EndRecord.of(SNAPSHOT, 0, {})),
    ((STARTED, counted("a", 2), B, COMPLETED, SKIPPED), 70, EndRecord.of(SNAPSHOT, 70, {"a": 2})),
    ((STARTED, counted("a", 2), B, SKIPPED), 70, EndRecord.of(SNAPSHOT, 70, {"a": 2})),
    ((SKIPPED,), None, EndRecord.of(SNAPSHOT, 0, {})),
    ((("IN_PROGRESS", "a", None),), 70, None),
])  # fmt: skip
def test_when_it_is_said(notifications: tuple[Said, ...], lsn: int | None, expected: EndRecord | None) -> None:
    """Tables that are not captured do not count; SKIPPED ends a run whose COMPLETED was lost."""
    assert expected == end(after(*notifications), lsn)


@pytest.mark.parametrize("notifications, reason", [
    ((STARTED, counted("a", 2), B, COMPLETED, STARTED), "begun a second snapshot"),
    ((STARTED, counted("b", None), COMPLETED), "do not state how many rows of a"),
    ((STARTED, counted("a", 1), counted("b", None), COMPLETED), "of b, at offset 2, does not state how many rows it"),
    ((STARTED, counted("a", 1), COMPLETED), "do not state how many rows of b"),
    ((STARTED, counted("a", 1), B, counted("a", 2), COMPLETED), "one with 1 rows and one, at offset 3, with 2"),
    ((STARTED, counted("a", 9), B, STARTED, counted("a", 2), B, COMPLETED), "began its snapshot twice"),
    ((counted("a", 9), STARTED, counted("a", 9), B, COMPLETED), "began its snapshot twice"),
    ((STARTED, ("ABORTED", None, None)), "aborted its snapshot"),
])  # fmt: skip
def test_what_can_never_be_whole_says_so(notifications: tuple[Said, ...], reason: str) -> None:
    """Before a row has come, too, and whatever comes."""
    for lsn in (None, 70):
        said = end(after(*notifications), lsn)

        assert isinstance(said, HaltRecord) and said.tx == SNAPSHOT and reason in said.reason


def test_the_reason_has_the_words_of_its_database() -> None:
    """Where it takes the place of the End, and after that."""
    scanned, words = after(STARTED, counted("a", 9), B, STARTED), SourceWords(slot="bookmark")
    halts = snapshot_end(scanned, words), snapshot_halt(scanned, words)

    for halt in halts:
        assert isinstance(halt, HaltRecord) and "its bookmark was there when it began again" in halt.reason


@pytest.mark.parametrize("said, assumed", [((), {"b"}), ((counted("b", 0),), set())])
def test_a_table_that_is_said_to_be_empty_has_no_rows(said: tuple[Said, ...], assumed: set[str]) -> None:
    """It is assumed where the connector does not count them."""
    scanned = after(STARTED, counted("a", 2), *said, COMPLETED, empty="b")

    assert EndRecord.of(SNAPSHOT, 70, {"a": 2}) == end(scanned, 70)
    assert assumed == scanned.assumed_empty


def test_a_table_that_is_said_to_be_empty_and_has_rows_stops() -> None:
    """The connector counts some."""
    said = end(after(STARTED, counted("a", 2), counted("b", 3), COMPLETED, empty="b"), 70)

    assert isinstance(said, HaltRecord) and "b was not empty at the snapshot" in said.reason


def test_tables_that_no_notification_names_are_left_out_where_they_may_be() -> None:
    """With a row of the snapshot it was scanned; all of them are not left out, but for a snapshot that was skipped."""
    found = {}
    for name, may, rows, notifications in (
        ("left out", "ab", {"a": 1}, (STARTED, counted("a", 1), COMPLETED)),
        ("may not", "a", {"a": 1}, (STARTED, counted("a", 1), COMPLETED)),
        ("with a row", "ab", {"a": 1, "b": 1}, (STARTED, counted("a", 1), COMPLETED)),
        ("all", "ab", {}, (STARTED, COMPLETED)), ("skipped", "ab", {}, (SKIPPED,)),
    ):
        scanned = after(*notifications, may=may)
        for table, number in rows.items():
            scanned.table_known(table)
            scanned.rows_seen(table, 70, number)
        found[name] = type(end(scanned, 70)), "".join(sorted(scanned.uncovered))

    assert {
        "left out": (EndRecord, "b"), "may not": (HaltRecord, ""), "with a row": (HaltRecord, ""),
        "all": (HaltRecord, ""),
        "skipped": (EndRecord, "ab"),
    } == found


def test_a_run_that_begins_after_the_end_stops() -> None:
    """A capture that resumed behind the End has not read what came before it."""
    scanned = after()
    scanned.end_made()
    scanned.notification(*SKIPPED, 7)
    assert snapshot_halt(scanned) is None
    scanned.notification(*STARTED, 8)

    halt = snapshot_halt(scanned)
    assert halt is not None and halt.remedy
    assert "begun a second snapshot" in halt.reason and "at offset 8" in halt.reason
