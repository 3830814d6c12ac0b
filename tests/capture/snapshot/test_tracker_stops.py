"""What stops a capture because of a snapshot, where it stops, and whether the user can declare it away."""

from __future__ import annotations

import pytest

from cdcv2.capture.snapshot import rules, run_rules
from cdcv2.capture.snapshot.tracker import SnapshotStop, SnapshotTracker
from cdcv2.capture.transaction_contradictions import Contradiction

PLACE = ("topic-t", 0)


def notified(tracker: SnapshotTracker, *runs: dict[str, int]) -> list[SnapshotStop]:
    """Complete runs that count these rows; what stops the capture after the last one."""
    at, stops = 100 * tracker._runs.completed, list[SnapshotStop]()
    for run in runs:
        notes = [("STARTED", None, None), *(("TABLE_SCAN_COMPLETED", *one) for one in run.items()),
                 ("COMPLETED", None, None)]  # fmt: skip
        for kind, table, rows in notes:
            stops = tracker.notification(kind, table, rows, at)
            at += 1
    return stops


def released(**more: object) -> SnapshotTracker:
    """The first snapshot, at 70 and of one row of t, is released."""
    tracker = SnapshotTracker(["t"], **more)  # type: ignore[arg-type]
    notified(tracker, {"t": 1})
    tracker.rows_seen("t", 70, 1)
    tracker.row_read("t", 70, PLACE, 4)
    tracker.ends_read({PLACE: 5}, ["t"])
    tracker.consumed({PLACE: 5})
    assert tracker.whole() and 70 == tracker.release()
    return tracker


@pytest.mark.parametrize("counted, stops", [({"t": 0, "u": 0}, True), ({"t": 1, "u": 0}, False), ({"t": 0}, False)])
def test_a_resnapshot_without_a_row_has_no_place_in_the_history(counted: dict[str, int], stops: bool) -> None:
    """Nothing shows its LSN; where a table may have rows they do."""
    tracker = SnapshotTracker(["t", "u"], declared=[90])
    assert [] == notified(tracker, {"t": 0, "u": 0})
    reason = "the connector took a resnapshot without a row, so nothing shows where it belongs"

    assert [SnapshotStop(Contradiction(reason, run_rules.NO_PLACE))] * stops == notified(tracker, counted)


@pytest.mark.parametrize("through, stated", [(0, False), (1, False), (69, False), (70, True)])
def test_rows_of_a_snapshot_stop_a_capture_that_takes_none(through: int, stated: bool) -> None:
    """Before what was committed after it, however they are seen; its notifications are not judged."""
    tracker = SnapshotTracker(["t"], requested=False)
    reason = "there are rows of a snapshot, at 70, and no snapshot is wanted (--snapshot none)"
    expected = [SnapshotStop(Contradiction(reason, rules.NO_SNAPSHOT, stated), 69)]

    assert [] == tracker.notification("ABORTED", None, None, 0) and 0 == tracker.lsn
    assert expected == tracker.rows_seen("t", 70, 1, through) == tracker.row_read("t", 70, PLACE, 4, through=through)
    assert through or expected == tracker.rows_seen("t", 70, 1) == tracker.row_read("t", 70, PLACE, 4)


def test_rows_of_two_snapshots_before_the_release_stop_it() -> None:
    """Nothing is released; declared the other one would be a resnapshot."""
    tracker, declared = SnapshotTracker(["t"]), SnapshotTracker(["t"], declared=[90])
    found = Contradiction("there are rows of snapshots at [70, 90]", rules.TWO)

    assert [] == tracker.rows_seen("t", 70, 1)
    assert [SnapshotStop(found, -1, another=True)] == tracker.rows_seen("t", 90, 1) and {70, 90} == tracker.seen
    assert [] == [*declared.rows_seen("t", 70, 1), *declared.rows_seen("t", 90, 1)]
    assert {"t": 1} == tracker.rows("t") == declared.rows("t")


@pytest.mark.parametrize("lsn, through, cap", [(90, 80, 90), (90, 90, None), (60, 80, None)])
def test_a_second_snapshot_stops_what_comes_after_it(lsn: int, through: int, cap: int | None) -> None:
    """All before it is released; a user may declare it."""
    found = Contradiction(f"there are rows of a second snapshot of t, at {lsn}", rules.TWO)

    assert [SnapshotStop(found, cap, another=True)] == released().row_read("t", lsn, PLACE, 9, through=through)
    assert [] == released().row_read("t", 70, PLACE, 4, through=80)


def test_unreleased_rows_of_a_second_snapshot_stop_nothing_before_them() -> None:
    """Nothing that is released has a cap: what was committed before them is released."""
    found = Contradiction("there are rows of snapshots at [70, 90]", rules.TWO)

    assert [SnapshotStop(found, None, another=True)] == released().rows_seen("t", 90, 1)


def test_one_more_row_of_the_released_snapshot_lacks_in_the_logs() -> None:
    """A user cannot declare it."""
    (stop,) = released().row_read("t", 70, PLACE, 9, through=80)

    assert (rules.LACKED, True, None, False) == (stop.found.remedy, stop.found.stated, stop.cap, stop.another)
    assert "stands at topic-t[0]@9" in stop.found.reason


@pytest.mark.parametrize("kinds, remedy, cap, another", [
    (("STARTED", "ABORTED"), run_rules.BROKEN_OFF, -1, False),
    (("STARTED", "STARTED"), run_rules.BEGUN_TWICE, -1, False),
    (("STARTED", "COMPLETED", "STARTED"), rules.TWO, -1, True),
])
def test_runs_that_cannot_be_right_stop_the_first_snapshot(
    kinds: tuple[str, ...], remedy: str, cap: int, another: bool
) -> None:
    """With what to do about each."""
    tracker = SnapshotTracker(["t"])
    stops = [tracker.notification(kind, None, None, at) for at, kind in enumerate(kinds)][-1]

    assert [(remedy, cap, another)] == [(stop.found.remedy, stop.cap, stop.another) for stop in stops] == [
        (stop.found.remedy, stop.cap, stop.another) for stop in tracker.stops()
    ]


def test_a_resnapshot_that_is_broken_off_stops_nothing_of_the_first_snapshot() -> None:
    """That one is sound: it and the transactions before the resnapshot are released."""
    tracker = SnapshotTracker(["t"], declared=[90])
    notified(tracker, {"t": 1})
    tracker.notification("STARTED", None, None, 100)
    (stop,) = tracker.notification("ABORTED", None, None, 101)

    assert (run_rules.BROKEN_OFF, None, False) == (stop.found.remedy, stop.cap, stop.another)
    first = SnapshotTracker(["t"], declared=[90])
    first.notification("STARTED", None, None, 0)
    assert [-1] == [stop.cap for stop in first.notification("ABORTED", None, None, 1)]


def test_a_resnapshot_is_not_counted_behind_runs_that_cannot_be_right() -> None:
    """Though its own run is whole, and all of its rows are there."""
    tracker = released(declared=[90])
    notified(tracker, {"t": 1})
    tracker.rows_seen("t", 90, 1)
    tracker.ends_read({PLACE: 6}, ["t"])
    tracker.consumed({PLACE: 6})
    assert tracker.resnapshot_is_whole()
    tracker.notification("STARTED", None, None, 300)

    assert tracker.resnapshot_is_whole() is False
    assert [rules.TWO] == [stop.found.remedy for stop in tracker.stops()]


@pytest.mark.parametrize("first", ["end", "row"])
def test_a_transaction_that_was_committed_before_the_snapshot_stops_it(first: str) -> None:
    """Whichever is read first; of several it is the one that was committed first that counts."""
    tracker = SnapshotTracker(["t"])
    if first == "row":
        tracker.rows_seen("t", 70, 1)
    stops = [tracker.end(8, 70), tracker.end(7, 60), tracker.end(6, 60), tracker.end(9, 80)]
    found = Contradiction("transaction 7 was committed at 60, not after the snapshot at 70", rules.EARLY)

    assert (first == "row") == (stops[1] is not None) and stops[3] is None
    assert [SnapshotStop(found, -1, another=True)] == tracker.rows_seen("t", 70, 1) == tracker.stops()


def test_which_tables_have_a_topic_is_known_once_the_ends_were_read() -> None:
    """Or a record; only then it is known which have none."""
    tracker = SnapshotTracker(["t", "u", "v"], notified=False, empty="v")
    assert not tracker.topics_known and {"t", "u"} == tracker.without_topic()
    tracker.table_known("u")
    tracker.ends_read({}, [])
    assert tracker.topics_known and {"t"} == tracker.without_topic()
    tracker.ends_read({}, ["t"])
    assert {"t"} == tracker.without_topic()
