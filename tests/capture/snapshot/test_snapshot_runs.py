"""What the notifications of a connector show of its snapshots."""

from __future__ import annotations

import pytest

from cdcv2.capture.snapshot import remedies
from cdcv2.capture.snapshot.runs import SnapshotRuns
from cdcv2.connectors.debezium.source_words import POSTGRES_WORDS

Note = tuple[str, str | None, int | None, str | None]

START: Note = ("STARTED", None, None, None)
DONE: Note = ("COMPLETED", None, None, None)
SKIPPED: Note = ("SKIPPED", None, None, None)
ABORTED: Note = ("ABORTED", None, None, None)


def scan(table: str | None, rows: int | None, status: str | None = None) -> Note:
    """A table was scanned."""
    return "TABLE_SCAN_COMPLETED", table, rows, status


def after(*notes: Note, declared: int = 0, empty: str = "", start: int = 0) -> SnapshotRuns:
    """These notifications were read, from an offset on."""
    runs = SnapshotRuns(declared, empty)
    for offset, (kind, table, rows, status) in enumerate(notes, start):
        runs.notification(kind, table, rows, offset, status)
    return runs


def test_a_run_counts_the_tables_that_it_names() -> None:
    """It ends behind its last notification; one of unknown rows counts as none, where a number is needed."""
    runs = after(START, scan("a", 2), scan("b", None), DONE, start=5)
    run = runs.run(0)

    assert run is not None
    assert ({"a": 2, "b": None}, 9, False, {"b"}) == (run.scanned, run.behind, run.skipped, set(run.wrong))
    assert {"a": 2, "b": 0, "c": 0} == run.counts("abc")
    assert [True, True, False] == [run.names(table) for table in "abc"]
    assert [2, None, None] == [run.rows(table) for table in "abc"]
    assert (1, False, True, None) == (runs.completed, runs.is_open, runs.received, runs.contradiction)


def test_a_run_that_was_skipped_says_of_each_table_that_it_has_no_rows() -> None:
    """As the very first notification. Later, and behind a scan, it ends a run whose COMPLETED was lost."""
    skipped, ended = after(SKIPPED).run(0), after(START, scan("a", 2), SKIPPED).run(0)

    assert skipped is not None and (True, 0, {"a": 0}) == (skipped.names("a"), skipped.rows("a"), skipped.counts("a"))
    assert ended is not None and (False, 2) == (ended.skipped, ended.rows("a"))
    assert [1, 1] == [after(*notes).completed for notes in ((SKIPPED, SKIPPED), (START, DONE, SKIPPED))]


@pytest.mark.parametrize("notes, completed, is_open", [
    ((), 0, False), ((START,), 0, True), ((scan("a", 1),), 0, True), ((scan("a", 1), DONE), 1, False),
    ((DONE,), 1, False), ((START, DONE, DONE), 1, False), ((START, DONE, scan("a", 1)), 1, False),
    ((scan(None, 1),), 0, False), ((("IN_PROGRESS", "a", None, None),), 0, False),
    ((START, DONE, START, DONE), 2, False), ((START, DONE, START), 1, True),
])
def test_which_runs_are_complete(notes: tuple[Note, ...], completed: int, is_open: bool) -> None:
    """The STARTED of the first one may be missing; what follows a run, and begins no other, is of none."""
    runs = after(*notes, declared=1)

    assert (completed, is_open, None, bool(notes)) == (runs.completed, runs.is_open, runs.contradiction, runs.received)


@pytest.mark.parametrize("notes, declared, contradiction, another, aborted", [
    ((START, ABORTED), 0, "the connector aborted its snapshot (notification ABORTED at offset 1)", False, True),
    ((START, START), 0, "the connector began its snapshot twice (notification STARTED at offset 1, before COMPLETED): "
     "its slot was there when it began again, so transactions may be both in the snapshot and in the stream", False,
     False),
    ((ABORTED, ABORTED), 0, "the connector aborted its snapshot (notification ABORTED at offset 0)", False, True),
    ((START, DONE, START), 0, "the connector has begun a second snapshot (notification STARTED after COMPLETED, at "
     "offset 2)", True, False),
    ((START, DONE, START, DONE, START), 1, "the connector has begun a second snapshot (notification STARTED after "
     "COMPLETED, at offset 4)", True, False),
    ((START, START, DONE, START, ABORTED), 0, "the connector began its snapshot twice", False, False),
    ((ABORTED, START, DONE, START), 0, "the connector aborted its snapshot", False, True),
])
def test_only_runs_from_start_to_end_as_many_as_are_declared_are_right(
    notes: tuple[Note, ...], declared: int, contradiction: str, another: bool, aborted: bool
) -> None:
    """The first thing that is wrong is what counts."""
    runs = after(*notes, declared=declared)

    assert runs.contradiction is not None and POSTGRES_WORDS.fill(runs.contradiction.reason).startswith(contradiction)
    remedy = runs.contradiction.remedy
    assert (another, aborted) == (remedy == remedies.TWO, remedy == remedies.BROKEN_OFF)


def test_without_a_declaration_a_second_run_is_one_too_many() -> None:
    """As most captures are begun."""
    runs = SnapshotRuns()
    for offset, kind in enumerate(("STARTED", "COMPLETED", "STARTED")):
        runs.notification(kind, None, None, offset)

    assert runs.contradiction is not None and remedies.TWO == runs.contradiction.remedy


@pytest.mark.parametrize("notes, rows, wrong", [
    ((scan("a", 1), scan("a", 1)), 1, None),
    ((scan("a", 1, "SUCCEEDED"),), 1, None), ((scan("a", 0, "EMPTY"),), 0, None),
    ((scan("a", 1, "STOPPED"),), None, "the connector did not scan a to its end (the notification at offset 1 has the "
     "status STOPPED)"),
    ((scan("a", None),), None, "the notification of the scan of a, at offset 1, does not state how many rows it has "
     "(total_rows_scanned)"),
    ((scan("a", 1), scan("a", 2)), None, "two notifications state that a was scanned, one with 1 rows and one, at "
     "offset 2, with 2"),
    ((scan("a", None), scan("a", 2), scan("a", 3)), None, "the notification of the scan of a, at offset 1, does not "
     "state how many rows it has (total_rows_scanned)"),
])
def test_a_number_of_rows_can_be_believed_or_not(notes: tuple[Note, ...], rows: int | None, wrong: str | None) -> None:
    """Two that differ are none; the first thing that is wrong is what is reported."""
    run = after(START, *notes, DONE).run(0)

    assert run is not None and (rows, wrong) == (run.rows("a"), run.wrong.get("a"))
    assert run._replace(behind=0) == after(START, *notes, SKIPPED).run(0)._replace(behind=0)  # type: ignore[union-attr]


def test_each_run_counts_on_its_own() -> None:
    """What one scanned, and what was wrong with it, is not of the next."""
    runs = after(START, scan("a", None), DONE, START, scan("b", 1), DONE, declared=1)
    first, second = runs.run(0), runs.run(1)

    assert first is not None and second is not None and runs.run(2) is None
    assert ({"a": None}, {"a"}, 3) == (first.scanned, set(first.wrong), first.behind)
    assert ({"b": 1}, set(), 6) == (second.scanned, set(second.wrong), second.behind)


def test_a_table_without_rows_by_the_user_is_one_that_the_first_run_does_not_name() -> None:
    """What the connector states of it counts; of a later run the user states nothing."""
    before = after(START, empty="ab")
    runs = after(START, scan("a", 2), DONE, START, DONE, declared=1, empty="ab")
    first, second = runs.run(0), runs.run(1)

    assert ({"a", "b"}, {"b"}) == (before.assumed, runs.assumed)
    assert first is not None and second is not None and ({"a": 2, "b": 0}, {}) == (first.scanned, second.scanned)


def test_what_was_read_is_not_read_again() -> None:
    """The topic may be read from further back; the same offset is the same notification."""
    runs = SnapshotRuns()
    for offset, (kind, *_) in ((3, START), (3, START), (2, START), (4, DONE), (4, START)):
        runs.notification(kind, None, None, offset)

    assert (None, 1, False) == (runs.contradiction, runs.completed, runs.is_open)


def test_notifications_are_read_again_from_the_first_run_that_is_not_released() -> None:
    """All through the ones that are forgotten is needed no more."""
    runs = after(START, DONE, START, DONE, START, declared=2)
    seen = [(runs.unreleased_from, runs.forgotten_to)]
    for number in (0, 1, 1):
        runs.forget(number)
        seen.append((runs.unreleased_from, runs.forgotten_to))

    assert [(0, 0), (2, 2), (4, 4), (4, 4)] == seen
    assert [None, None] == [runs.run(number) for number in (0, 1)]
    runs.notification("COMPLETED", None, None, 5)
    assert (4, 4) == (runs.unreleased_from, runs.forgotten_to)
    runs.forget(2)
    assert (None, 6) == (runs.unreleased_from, runs.forgotten_to)


def test_a_start_goes_on_behind_the_runs_that_are_released() -> None:
    """Their notifications are not judged again, wherever the topic is read from."""
    runs = SnapshotRuns(declared=1)
    runs.resume(1, 4)
    for offset, (kind, *_) in ((0, START), (3, START), (4, START), (5, DONE)):
        runs.notification(kind, None, None, offset)

    assert (2, None, 4, 4) == (runs.completed, runs.contradiction, runs.forgotten_to, runs.unreleased_from)
    assert runs.run(1) is not None and runs.run(0) is None
    assert (None, False) == (SnapshotRuns().unreleased_from, SnapshotRuns().received)
    assert (frozenset(), 0) == (SnapshotRuns().assumed, SnapshotRuns().completed)
