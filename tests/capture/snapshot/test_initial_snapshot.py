"""When the initial snapshot is whole, and what else in the topics stops a capture."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.release_answers import Release
from cdcv2.capture.snapshot import rules
from cdcv2.capture.transaction_contradictions import Contradiction

A, B = "public.a", "public.b"


def notified(commits: CommitTransactions, *notes: tuple[str, str | None, int | None], first: int = 0) -> None:
    """Feed notifications with consecutive offsets."""
    for offset, (kind, table, rows) in enumerate(notes, first):
        commits.notification(kind, table, rows, offset)


def run(a: int, b: int) -> list[tuple[str, str | None, int | None]]:
    """The notifications of one whole run."""
    return [
        ("STARTED", None, None), ("IN_PROGRESS", None, None), ("TABLE_SCAN_COMPLETED", A, a),
        ("TABLE_SCAN_COMPLETED", B, b), ("COMPLETED", None, None),
    ]


def released(commits: CommitTransactions) -> Release:
    """Release what is ready."""
    release = commits.ready()
    assert release is not None
    commits.settle(release)
    return release


def reason(commits: CommitTransactions) -> str:
    """Why it stops."""
    stop = commits.stopped()
    assert stop is not None
    return stop.reason


def test_it_is_whole_when_each_table_has_the_rows_that_were_scanned() -> None:
    """Counts, not markers: the rows may come before or after the notifications."""
    commits = CommitTransactions([A, B], notifications=True)
    commits.snapshot_rows(A, 1000, 2)
    notified(commits, *run(2, 1))
    assert commits.ready() is None
    assert "the initial snapshot lacks 1 rows of public.b" == commits.waits().text
    assert {B: 1} == commits.waits().missing
    commits.snapshot_rows(B, 1000, 1)
    release = released(commits)
    assert (1000, (), 1000, False) == (release.snapshot, release.transactions, release.through, release.assumed)


def test_it_is_released_with_the_transactions_behind_it() -> None:
    """Its time is the LSN of its rows, which is before every commit."""
    commits = CommitTransactions([A], notifications=True)
    commits.end(5, 1050, {A: 1})
    commits.rows_seen(5, A, 1)
    commits.snapshot_rows(A, 1000, 1)
    assert commits.ready() is None
    notified(commits, ("STARTED", None, None), ("TABLE_SCAN_COMPLETED", A, 1), ("COMPLETED", None, None))
    release = released(commits)
    assert (1000, 1050) == (release.snapshot, release.through)


@pytest.mark.parametrize(
    "notes", [run(0, 0), [("SKIPPED", None, None)]]
)
def test_an_empty_snapshot_is_whole(notes: list[tuple[str, str | None, int | None]]) -> None:
    """No rows, or no snapshot at all: the logs then begin at 0."""
    commits = CommitTransactions([A, B], notifications=True)
    notified(commits, *notes)
    release = released(commits)
    assert (0, 0) == (release.snapshot, release.through)
    assert commits.snapshots.released
    assert 0 == commits.snapshots.lsn


def test_a_skipped_snapshot_after_a_completed_one_says_nothing() -> None:
    """The connector reports it at each later start."""
    commits = CommitTransactions([A, B], notifications=True)
    notified(commits, *run(1, 0), ("SKIPPED", None, None))
    assert commits.ready() is None
    commits.snapshot_rows(A, 1000, 1)
    assert 1000 == released(commits).through


SCANS = [("TABLE_SCAN_COMPLETED", A, 1), ("TABLE_SCAN_COMPLETED", B, 0)]
BEGUN = ("STARTED", None, None)


@pytest.mark.parametrize("notes, text", [
    ([BEGUN, *run(1, 0)], "began its snapshot twice (notification STARTED at offset 1, before COMPLETED)"),
    ([BEGUN, *SCANS, *run(1, 0)], "began its snapshot twice (notification STARTED at offset 3, before COMPLETED)"),
    ([*SCANS, *run(1, 0)], "began its snapshot twice"),
    ([BEGUN, *SCANS, ("ABORTED", None, None)], "aborted its snapshot (notification ABORTED at offset 3)"),
])  # fmt: skip
@pytest.mark.parametrize("rows_first", [True, False])
def test_a_snapshot_that_was_begun_twice_stops_the_capture(
    notes: list[tuple[str, str | None, int | None]], text: str, rows_first: bool
) -> None:
    """The slot was there when it began again: its rows may be of transactions that the stream has, too."""
    commits = CommitTransactions([A, B], notifications=True)
    if rows_first:
        commits.snapshot_rows(A, 1000, 1)
    notified(commits, *notes)
    if not rows_first:
        commits.snapshot_rows(A, 1000, 1)
    commits.end(5, 1050, {})
    assert commits.ready() is None
    stop = commits.stopped()
    assert stop is not None and text in stop.reason and "drop its place in the source" in stop.remedy


@pytest.mark.parametrize("found, said", [
    (rules.surplus({A: 1}, {A: 2}), "a snapshot that was broken off, too, or the producer sent a row twice"),
    (rules.two_snapshots({70, 80}), "The rows of two snapshots"),
    (rules.two_marks("one", "another", "last"), "The rows of two snapshots"),
    (rules.second_snapshot(A, 80, 70, 90), "The rows of two snapshots"),
    (rules.early_end(7, 70, 80), "was there before the snapshot, so the two cannot be joined"),
])  # fmt: skip
def test_what_contradicts_a_snapshot_is_told_with_a_remedy_of_its_own(found: Contradiction, said: str) -> None:
    """None of these shows that the connector began it twice; on a remap, other logs alone are not enough."""
    assert said in found.remedy and "begun twice" not in found.remedy
    assert "(on a remap, take another remap and other logs)" in found.remedy


@pytest.mark.parametrize("notes, said", [
    ([BEGUN, ("ABORTED", None, None), BEGUN], "broken off"),
    ([BEGUN, BEGUN, ("ABORTED", None, None)], "begun twice"),
    ([*run(1, 0), BEGUN], "two snapshots"),
])  # fmt: skip
def test_the_first_notification_that_is_wrong_has_the_remedy(
    notes: list[tuple[str, str | None, int | None]], said: str
) -> None:
    """What follows it is of the same trouble."""
    commits = CommitTransactions([A, B], notifications=True)
    notified(commits, *notes)
    (stop, *_) = commits.snapshots.stops()

    assert said in stop.found.remedy


def test_a_run_whose_completion_was_lost_with_a_crash_is_ended_by_the_next_start() -> None:
    """SKIPPED means that the connector knows its snapshot to be complete; the counts judge whether the rows are."""
    commits = CommitTransactions([A, B], notifications=True)
    notified(commits, BEGUN, *SCANS, ("SKIPPED", None, None))
    assert commits.ready() is None
    commits.snapshot_rows(A, 1000, 1)
    assert 1000 == released(commits).through


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_that_the_completed_run_does_not_name_is_no_table_of_no_rows(rows: int) -> None:
    """Nothing states what it holds: it is not covered, and with rows nothing states that these are all."""
    commits = CommitTransactions([A, B], notifications=True)
    commits.snapshot_rows(A, 1000, 1)
    if rows:
        commits.snapshot_rows(B, 1000, rows)
    notified(commits, BEGUN, ("TABLE_SCAN_COMPLETED", A, 1), ("COMPLETED", None, None))
    release = commits.ready()
    if rows:
        assert release is None and "do not state how many rows of public.b" in reason(commits)
    else:
        assert release is not None and ({B}, {}) == (release.uncovered, release.begins)


def test_a_table_that_is_not_covered_begins_with_the_first_end_that_counts_it() -> None:
    """In the order of commits, whatever came first."""
    commits = CommitTransactions([A, B], notifications=True)
    commits.snapshot_rows(A, 1000, 1)
    notified(commits, BEGUN, ("TABLE_SCAN_COMPLETED", A, 1), ("COMPLETED", None, None))
    for tx, lsn in ((5, 1050), (6, 1060), (7, 1070)):
        commits.end(tx, lsn, {A: 1, B: int(tx > 5)})
        commits.rows_seen(tx, A, 1)
    commits.rows_seen(7, B, 1)
    first = released(commits)
    assert (1050, {B}, {}) == (first.through, first.uncovered, first.begins)
    commits.rows_seen(6, B, 1)
    second = released(commits)
    assert (1070, set(), {B: 1060}) == (second.through, second.uncovered, second.begins)
    assert frozenset() == commits.uncovered


@pytest.mark.parametrize("had", [True, False])
def test_a_table_whose_first_row_is_changed_does_not_begin(had: bool) -> None:
    """It had a row that is in no record; what comes later does not begin it, and the others go on."""
    commits = CommitTransactions([A, B], notifications=True)
    commits.snapshot_rows(A, 1000, 1)
    notified(commits, BEGUN, ("TABLE_SCAN_COMPLETED", A, 1), ("COMPLETED", None, None))
    commits.end(5, 1050, {B: 2})
    if had:
        commits.had(5, B)
    commits.rows_seen(5, B, 2)
    first = released(commits)
    assert (1050, {B} if had else set(), {B} if had else set()) == (first.through, first.uncovered, first.partial)
    assert ({} if had else {B: 1050}) == first.begins == first.begins
    commits.end(6, 1060, {B: 1})
    commits.rows_seen(6, B, 1)
    second = released(commits)
    assert (1060, {}, first.partial) == (second.through, second.begins, second.partial)
    assert first.partial == commits.partial


def test_without_a_snapshot_a_table_begins_with_whatever_it_begins() -> None:
    """The user has declared that the history begins with nothing."""
    commits = CommitTransactions([A, B], snapshot="none")
    assert commits.needs_ends
    commits.ends_read({("a", 0): 1}, [A])
    commits.end(5, 1050, {B: 1})
    commits.had(5, B)
    commits.rows_seen(5, B, 1)
    assert {B: 1050} == released(commits).begins


def test_a_notification_that_is_fed_again_is_ignored() -> None:
    """A caller that reads a range again feeds it again; by its offset it is known."""
    commits = CommitTransactions([A, B], notifications=True)
    for _ in range(2):
        notified(commits, *run(0, 0))
    assert 0 == released(commits).through


def test_more_rows_than_were_scanned_stop_the_capture() -> None:
    """Two runs with one LSN, or a producer that is not idempotent: it is unknown which row is too many."""
    commits = CommitTransactions([A, B], notifications=True)
    notified(commits, *run(1, 0))
    commits.snapshot_rows(A, 1000, 2)
    assert commits.ready() is None
    assert "there are 2 snapshot rows of public.a, but its notification states 1" == reason(commits)


def test_a_scan_without_a_number_stops_the_capture() -> None:
    """A scan that failed has none; a snapshot that is completed all the same cannot be checked."""
    commits = CommitTransactions([A], notifications=True)
    notified(commits, ("STARTED", None, None), ("TABLE_SCAN_COMPLETED", A, None), ("COMPLETED", None, None))
    assert commits.ready() is None
    assert "the scan of public.a, at offset 1, does not state how many rows it has" in reason(commits)


def test_a_scan_that_did_not_go_through_its_table_stops_the_capture() -> None:
    """Its status is that of a failure, whatever its number is."""
    commits = CommitTransactions([A], notifications=True)
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        commits.notification(kind, A, 1, offset, "SQL_EXCEPTION" if offset == 1 else None)
    commits.snapshot_rows(A, 1000, 1)
    assert commits.ready() is None
    assert "SQL_EXCEPTION" in reason(commits)


def test_two_lsns_before_a_release_stop_the_capture() -> None:
    """The rows of a snapshot that was broken off stay in the topics, with stale values."""
    commits = CommitTransactions([A, B], notifications=True)
    commits.snapshot_rows(A, 1000, 1)
    commits.snapshot_rows(B, 1010, 1)
    assert "there are rows of snapshots at [1000, 1010]" in reason(commits)
    assert commits.ready() is None
    assert commits.frontier is None
    stop = commits.stopped()
    assert stop is not None and "drop its place in the source and its topics" in stop.remedy


@pytest.mark.parametrize("marker", ["first", "first_in_data_collection", "last", "last_in_data_collection"])
def test_two_rows_with_one_marker_stop_the_capture(marker: str) -> None:
    """Two snapshots at one LSN show themselves only so; the first and the last row of all may be of other tables."""
    commits = CommitTransactions([A])
    commits.snapshot_rows(A, 1000, 2)
    commits.snapshot_marked(marker, ("t", 0, 0))
    commits.snapshot_marked(marker, ("t", 0, 0))
    commits.snapshot_marked(marker, ("other", 0, 5))
    commits.snapshot_marked("true", ("t", 0, 5))
    assert commits.stopped() is None
    commits.snapshot_marked(marker, ("t", 0, 5))
    assert "two snapshots" in reason(commits)


def test_rows_of_a_second_snapshot_stop_after_a_release() -> None:
    """An old row is a repeat; a new one is a second snapshot, whose seam with the stream is inexact."""
    commits = CommitTransactions([A], notifications=True)
    commits.snapshot_rows(A, 1000, 1)
    notified(commits, ("STARTED", None, None), ("TABLE_SCAN_COMPLETED", A, 1), ("COMPLETED", None, None))
    released(commits)
    commits.snapshot_read(A, 1000, ("a", 0), 0)
    assert commits.stopped() is None
    commits.end(5, 1100, {})
    commits.end(6, 1150, {})
    commits.snapshot_read(A, 1100, ("a", 0), 1)
    assert "rows of a second snapshot of public.a, at 1100" in reason(commits)
    assert 1100 == released(commits).through, "what was committed before the second snapshot is sound"
    assert commits.ready() is None


def test_a_second_start_stops_after_a_completed_run() -> None:
    """The notifications show it before the first row does."""
    commits = CommitTransactions([A, B], notifications=True)
    notified(commits, *run(0, 0))
    released(commits)
    notified(commits, ("STARTED", None, None), first=5)
    assert "STARTED after COMPLETED" in reason(commits)


@pytest.mark.parametrize("end_first", [True, False])
def test_a_commit_not_after_the_snapshot_stops_the_capture(end_first: bool) -> None:
    """A transaction that may be in both: the sign of a snapshot that was begun twice."""
    commits = CommitTransactions([A])
    if end_first:
        commits.end(5, 1000, {})
    commits.snapshot_rows(A, 1000, 1)
    if not end_first:
        commits.end(5, 1000, {})
    assert "transaction 5 was committed at 1000, not after the snapshot at 1000" == reason(commits)
    assert commits.ready() is None


@pytest.mark.parametrize("memory", ["kept", "lost"])
@pytest.mark.parametrize("end_first", [True, False])
def test_a_commit_not_after_the_released_snapshot_is_a_stop_for_good(memory: str, end_first: bool) -> None:
    """The logs are stated beyond it. Without the memory it is known again when both are read, in whatever order."""
    commits = CommitTransactions([A])
    commits.snapshot_rows(A, 1000, 1)
    commits.snapshot_marked("last", (A, 0, 0))
    commits.ends_read({(A, 0): 1}, [A])
    commits.snapshots.consumed({(A, 0): 1})
    released(commits)
    if memory == "lost":
        commits = CommitTransactions([A], known=1001, held={A: (1000, 1)})
    facts: list[Callable[[], object]] = [
        lambda: commits.snapshot_read(A, 1000, (A, 0), 0), lambda: commits.end(5, 997, {}),
    ]
    for fact in facts[::-1] if end_first else facts:
        fact()

    stop = commits.stopped()
    assert stop is not None and "transaction 5 was committed at 997, not after the snapshot at 1000" in stop.reason
    # A snapshot in the topics may be another one, which was declared: so they are read to their ends first.
    assert stop.lasting is (memory == "kept")
    commits.seeks = True
    assert commits.searches_resnapshot is (memory == "lost")
    commits.searched()
    stop = commits.stopped()
    assert stop is not None and stop.lasting and stop.reason.endswith("; the logs are stated beyond it")


@pytest.mark.parametrize(("begins", "found"), [(1000, [1000]), (1000, []), (1040, [1000])])
def test_a_commit_before_a_snapshot_that_may_have_been_declared_is_judged_again(begins: int, found: list[int]) -> None:
    """The option was left out by mistake: the logs begin with another snapshot, or the topics have two."""
    commits = CommitTransactions([A, B], known=1061, held={A: (begins, 1), B: (1040, 1)})
    commits.seeks = True
    commits.end(5, 1030, {})
    commits.snapshot_read(B, 1040, (B, 0), 0)
    for lsn in found:
        commits.snapshot_found(lsn)
    commits.searched()
    stop = commits.stopped()

    assert stop is not None and "transaction 5 was committed at 1030, not after the snapshot at 1040" in stop.reason
    assert not stop.lasting


def test_snapshot_rows_where_none_are_wanted_stop_the_capture() -> None:
    """A history that begins in the middle of nothing has no contents."""
    commits = CommitTransactions([A], snapshot="none")
    commits.snapshot_read(A, 1000, ("a", 0), 0)
    assert "no snapshot is wanted" in reason(commits)


# -- without notifications


def test_without_notifications_the_ends_after_the_last_row_are_awaited() -> None:
    """The last row was sent last; what was sent before it may still be behind in other partitions."""
    commits = CommitTransactions([A, B])
    commits.snapshot_rows(A, 1000, 1)
    assert "marked as the last" in commits.waits().text
    wanted = [commits.needs_ends]
    commits.snapshot_marked("last", ("a", 0, 3))
    wanted.append(commits.needs_ends)
    commits.ends_read({("a", 0): 4, ("b", 0): 2, ("b", 1): 0})
    wanted.append(commits.needs_ends)
    assert [False, True, False] == wanted
    commits.snapshots.consumed({("a", 0): 4, ("b", 0): 1})
    assert commits.ready() is None
    assert "may have more rows in what is still to be read: b[0] to 2" in commits.waits().text
    commits.snapshots.consumed({("b", 0): 2})
    release = released(commits)
    assert (1000, True) == (release.snapshot, release.assumed)


def test_a_partition_with_a_streamed_row_has_no_more_of_the_snapshot() -> None:
    """Each partition is in the order in which it was sent, so a long topic need not be read to its end first."""
    commits = CommitTransactions([A, B])
    commits.snapshot_rows(A, 1000, 1)
    commits.snapshots.passed(("b", 0))
    commits.snapshot_marked("last", ("a", 0, 3))
    commits.ends_read({("a", 0): 900, ("b", 0): 900})
    assert commits.ready() is None
    commits.snapshots.passed(("a", 0))
    assert 1000 == released(commits).through


def test_markers_do_not_count_where_there_are_notifications() -> None:
    """A marker is not a number."""
    commits = CommitTransactions([A], notifications=True)
    commits.snapshot_rows(A, 1000, 1)
    commits.snapshot_marked("last", ("a", 0, 0))
    assert not commits.needs_ends
    assert commits.ready() is None
    assert "no notification COMPLETED yet" in commits.waits().text


# -- rows that come when it is released


def counted(**more: Any) -> CommitTransactions:
    """Three rows of A are read, of which one was sent twice and another not at all: the counts agree."""
    commits = CommitTransactions([A, B], notifications=True, **more)
    for offset in range(3):
        commits.snapshot_rows(A, 1000, offset + 1)
        commits.snapshot_read(A, 1000, ("a", 0), offset)
    notified(commits, *run(3, 0))
    return commits


def assumed(**more: Any) -> CommitTransactions:
    """The row marked last is read, and every partition to where it ended; one had nothing yet."""
    commits = CommitTransactions([A, B], **more)
    for offset in range(3):
        commits.snapshot_rows(A, 1000, offset + 1)
        commits.snapshot_read(A, 1000, ("a", 0), offset)
    commits.snapshot_marked("last", ("a", 0, 2))
    commits.ends_read({("a", 0): 3, ("a", 1): 0})
    commits.snapshots.consumed({("a", 0): 3})
    return commits


@pytest.mark.parametrize("made", [counted, assumed])
@pytest.mark.parametrize("table, place, offset", [(A, ("a", 1), 0), (A, ("a", 0), 3), (B, ("b", 0), 0)])
@pytest.mark.parametrize("remembered", [True, False])
def test_a_row_at_a_position_that_was_never_read_stops_it_when_it_is_released(
    made: Any, table: str, place: tuple[str, int], offset: int, remembered: bool
) -> None:
    """The logs lack it. So it is in the next run that remembers this one, which reads the row again."""
    commits = made()
    released(commits)
    if remembered:
        plain = json.loads(json.dumps(commits.export()))
        commits = CommitTransactions.restore(plain, [A, B], notifications=made is counted, known=1001)
    commits.snapshot_read(A, 1000, ("a", 0), 1)
    assert commits.stopped() is None, "this one was read before"
    before = json.loads(json.dumps(commits.export()))
    for _ in range(2):
        commits.snapshot_read(table, 1000, place, offset)
        assert f"a row of the snapshot of {table} stands at {place[0]}[{place[1]}]@{offset}" in reason(commits)
        stop = CommitTransactions.restore(commits.export(), [A, B], notifications=made is counted, known=1001).stopped()
        assert stop is not None and (reason(commits), True) == (stop.reason, stop.lasting)
        commits = CommitTransactions.restore(before, [A, B], notifications=made is counted, known=1001)
        assert commits.stopped() is None


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_without_a_memory_there_are_as_many_rows_as_the_logs_hold(order: tuple[int, ...]) -> None:
    """Each position is read once, so one more than they hold was not released, whichever it is."""
    commits = CommitTransactions([A, B], known=1051, held={A: (1000, 3), B: (1050, 7)})
    places = [("a", 0), ("a", 1), ("a", 2), ("a", 3)]
    for number in order[:3]:
        commits.snapshot_read(A, 1000, places[number], 0)
    assert commits.stopped() is None
    other = CommitTransactions.restore(commits.export(), [A, B], known=1051)
    other.snapshot_read(A, 1000, places[order[0]], 0)
    assert other.stopped() is None, "a run that remembers this one goes on counting"
    for one in (commits, other):
        one.snapshot_read(A, 1000, places[order[3]], 0)
        assert "none of the rows that were released" in reason(one)


def test_without_a_memory_a_table_that_has_no_row_of_the_snapshot_in_its_log_may_have_none() -> None:
    """What its log begins with is of a transaction, or there is nothing in it."""
    for held in ({B: (1050, 7)}, {}):
        commits = CommitTransactions([A, B], known=1051, held={A: (1000, 3), **held})
        commits.snapshot_read(B, 1000, ("b", 0), 0)
        assert "a row of the snapshot of public.b stands at b[0]@0" in reason(commits)


def test_rows_are_not_judged_where_nobody_knows_how_many_there_were() -> None:
    """The state of an earlier release does not have it; what it forgot is no reason to stop."""
    commits = counted()
    released(commits)
    plain = commits.export()
    del plain["snapshot"]["rows"]
    again = CommitTransactions.restore(plain, [A, B], notifications=True, known=1001)
    again.snapshot_read(A, 1000, ("a", 1), 0)
    assert again.stopped() is None
