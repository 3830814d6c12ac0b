"""What the tracker of snapshots answers: which one is next, whether it is whole, what it lacks, and what it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cdcv2.capture.snapshot import rules
from cdcv2.capture.snapshot.tracker import SnapshotStop, SnapshotTracker

PLACE = ("topic-t", 0)


def run(tracker: SnapshotTracker, first: int, rows: Mapping[str, int | None]) -> list[SnapshotStop]:
    """The notifications of a whole run, from this offset on; what stops the capture then."""
    stops = list[SnapshotStop]()
    for offset, (kind, table, number) in enumerate(
        [("STARTED", None, None), *(("TABLE_SCAN_COMPLETED", *one) for one in rows.items()), ("COMPLETED", None, None)],
        first,
    ):
        stops = tracker.notification(kind, table, number, offset)
    return stops


def read(tracker: SnapshotTracker, tables: str = "tu") -> None:
    """All partitions to their ends."""
    tracker.ends_read({PLACE: 5}, tables)
    tracker.consumed({PLACE: 5})


def released(*declared: int, **more: Any) -> SnapshotTracker:
    """The first one, at 70 and of a row of t, is released."""
    tracker = SnapshotTracker(["t", "u"], declared=declared, **more)
    run(tracker, 0, {"t": 1, "u": 0})
    tracker.rows_seen("t", 70, 1)
    tracker.row_read("t", 70, PLACE, 4)
    assert tracker.whole() and 70 == tracker.release()
    return tracker


def test_resnapshots_are_whole_one_after_the_other() -> None:
    """Each by its own run and rows."""
    tracker = released(90, 120)
    run(tracker, 10, {"t": 1})
    run(tracker, 20, {"u": 2})
    assert {"t": 1} == tracker.missing()
    tracker.rows_seen("t", 90, 1)
    tracker.rows_seen("u", 120, 2)
    assert not tracker.resnapshot_is_whole("u"), "there may be more in what is not read"
    read(tracker)
    assert tracker.resnapshot_is_whole("u") and [True, False] == [tracker.resnapshot_names(one) for one in "tu"]
    tracker.released_through(90)
    assert 120 == tracker.pending and [False, True] == [tracker.resnapshot_names(one) for one in "tu"]
    assert tracker.resnapshot_is_whole("t")
    tracker.released_through(120)

    assert tracker.pending is None and {} == tracker._rows, "what is released is not held"


def test_several_resnapshots_may_be_in_the_logs_already() -> None:
    """Those up to where they are stated."""
    tracker = released(90, 120, 150)
    tracker.released_through(120)

    assert 150 == tracker.pending


def test_a_row_too_many_of_a_later_resnapshot_stops_it() -> None:
    """It names which one."""
    tracker = released(90, 120)
    run(tracker, 10, {"t": 1})
    tracker.rows_seen("t", 90, 1)
    tracker.released_through(90)
    run(tracker, 20, {"t": 1})
    tracker.rows_seen("t", 120, 2)
    read(tracker)
    found = rules.surplus({"t": 1}, {"t": 2})

    assert not tracker.resnapshot_is_whole("u") and found is not None
    expected = found._replace(reason=f"{found.reason}, of the snapshot at 120", remedy=rules.RESNAPSHOT)
    assert [SnapshotStop(expected)] == tracker.stops()


def test_rows_of_a_table_that_its_run_does_not_name_stop_a_resnapshot() -> None:
    """Also of one that was uncovered before: nothing states that they are all."""
    tracker = released(90)
    run(tracker, 10, {"t": 0})
    tracker.rows_seen("u", 90, 1)
    read(tracker)

    assert not tracker.resnapshot_is_whole("u")
    (reason,) = [stop.found.reason for stop in tracker.stops()]
    assert "do not state how many rows of u" in reason and reason.endswith(", of the snapshot at 90")


def test_a_streamed_row_shows_nothing_of_a_resnapshot() -> None:
    """Its rows come behind such rows, in the same partitions."""
    tracker = SnapshotTracker(["t"], declared=[90])
    run(tracker, 0, {"t": 1})
    tracker.rows_seen("t", 70, 1)
    tracker.passed(PLACE)
    tracker.release()
    run(tracker, 10, {"t": 1})
    tracker.rows_seen("t", 90, 1)
    tracker.ends_read({PLACE: 5}, "t")
    assert not tracker.resnapshot_is_whole()
    tracker.consumed({PLACE: 5})

    assert tracker.resnapshot_is_whole()


def test_a_skipped_run_leaves_out_the_tables_without_a_topic() -> None:
    """Once it is known which these are; one that may not be left out stops it."""
    tracker, needed = SnapshotTracker(["t", "u"]), SnapshotTracker(["t", "u"], may=[])
    for one in (tracker, needed):
        one.notification("SKIPPED", None, None, 0)
        assert ({"t": 0, "u": 0}, set()) == (one.counts(), one.uncovered)
        one.ends_read({}, ["t"])

    assert ({"t": 0}, {"u"}) == (tracker.counts(), tracker.uncovered)
    assert needed.counts() is None and [SnapshotStop(rules.unnamed_table("u"), -1)] == needed.stops()


def marked(may: str) -> SnapshotTracker:
    """Without notifications: the last row is read, and all partitions to their ends; u has no topic."""
    tracker = SnapshotTracker(["t", "u"], notified=False, may=may)
    tracker.rows_seen("t", 70, 1)
    tracker.marked("last", (*PLACE, 4))
    read(tracker, "t")
    return tracker


def test_without_notifications_too_a_table_is_left_out_only_if_it_may() -> None:
    """The topics show which one it is."""
    left, needed = marked("tu"), marked("t")

    assert left.whole() and {"u"} == left.uncovered
    assert needed.whole() is False and [SnapshotStop(rules.table_without_topic("u"), -1)] == needed.stops()


def test_two_rows_with_one_marker_let_nothing_out() -> None:
    """Not even a first snapshot that seems to be whole."""
    tracker = marked("tu")
    (stop,) = tracker.marked("last", (*PLACE, 2))

    assert (-1, rules.TWO) == (stop.cap, stop.found.remedy) and not tracker.whole()


def test_a_first_snapshot_behind_a_declared_one_is_none() -> None:
    """One without rows is before all of them."""
    tracker = SnapshotTracker(["t"], declared=[90])
    run(tracker, 0, {"t": 1})
    tracker.rows_seen("t", 95, 1)
    assert not tracker.whole()
    assert [(rules.WRONG_LSN, -1)] == [(stop.found.remedy, stop.cap) for stop in tracker.stops()]
    empty = SnapshotTracker(["t"], declared=[1])
    run(empty, 0, {"t": 0})

    assert empty.whole() and 0 == empty.release()


def test_a_position_may_stand_for_several_rows() -> None:
    """They are counted until the snapshot is released, and compared with what the logs hold after that."""
    first = SnapshotTracker(["t"])
    first.row_read("t", 70, PLACE, 4)
    first.row_read("t", 70, PLACE, 7, rows=3)
    assert {"t": 4} == first._positions._rows
    for rows, lacks in ((2, False), (3, True)):
        lost = SnapshotTracker(["t"], held={"t": (70, 2)})
        lost.resume(80)
        assert lacks == bool(lost.row_read("t", 70, PLACE, 5, rows=rows, through=80))


@pytest.mark.parametrize("through, stated", [(0, False), (1, True)])
def test_rows_that_nobody_wants_at_the_very_first_lsn(through: int, stated: bool) -> None:
    """Before anything is stated the logs lack nothing."""
    for more in ((), (through,)) if not through else ((through,),):
        seen = SnapshotTracker(["t"], requested=False).rows_seen("t", 1, 1, *more)
        found = SnapshotTracker(["t"], requested=False).row_read("t", 1, PLACE, 4, 1, *more)
        assert [stated] == [stop.found.stated for stop in seen] == [stop.found.stated for stop in found]


def test_what_it_waits_for_is_told_step_by_step() -> None:
    """Of the first one and of the next."""
    tracker = SnapshotTracker(["t", "u"], declared=[90])
    run(tracker, 0, {"t": 1, "u": 1})
    assert "the initial snapshot lacks 1 rows of t, 1 rows of u" == tracker.waits()
    tracker.rows_seen("t", 70, 1)
    tracker.rows_seen("u", 70, 1)
    assert "the initial snapshot lacks nothing" == tracker.waits()
    tracker.release()
    assert "the snapshot at 90 has not been begun (nothing of it is in the topics)" == tracker.waits()
    tracker.notification("STARTED", None, None, 10)
    assert "the snapshot at 90 has not been completed (no notification COMPLETED yet)" == tracker.waits()
    run(tracker, 11, {})
    assert "before the snapshot at 90 there may be more in what is still to be read: " == tracker.waits()
    read(tracker)
    begun = released(90)
    begun.rows_seen("t", 90, 1)
    assert "the snapshot at 90 has not been completed (no notification COMPLETED yet)" == begun.waits()


def test_without_notifications_it_is_told_where_the_last_row_is() -> None:
    """And what to do, if it never comes."""
    assert SnapshotTracker(["t"], notified=False).waits() == (
        "the row that is marked as the last of the initial snapshot has not been seen. It is the last one that the "
        "connector read: in the topic of another table, unless all of its tables are captured, and nowhere if they "
        "were all empty. Name the connector's notification topic (--notifications), or capture all of its tables"
    )


# -- memory


def restored(tracker: SnapshotTracker, *declared: int, through: int | None = 70, **change: Any) -> SnapshotTracker:
    """What the next run knows."""
    first, again = json.loads(json.dumps([tracker.export(), tracker.export_resnapshots()]))
    other = SnapshotTracker(["t", "u"], declared=declared)
    other.restore({**first, **change}, again if declared else None, through)
    return other


def test_a_restart_knows_the_first_snapshot() -> None:
    """Which notifications were its own, too."""
    tracker = released()
    rows = {"released": {"t": [70, 1]}, "rows": {"t": 1}, "read": {"topic-t": {"0": 5}}}
    assert {"released": True, "lsn": 70, "completed": True, "notified": 4} == {
        name: value for name, value in tracker.export().items() if name != "rows"
    }
    again = restored(tracker)
    assert tracker.export() == again.export() and rows["released"] == (again.export()["rows"] or {})["released"]
    assert [] == again.notification("STARTED", None, None, 3)
    assert [] != again.notification("STARTED", None, None, 4), "another one"


def test_a_memory_from_before_there_were_offsets_of_notifications_has_none() -> None:
    """They are read from the start."""
    tracker = released()
    plain = tracker.export()
    del plain["notified"]
    again = SnapshotTracker(["t", "u"])
    again.restore(plain, None, 70)
    assert 0 == again.export()["notified"]
    declared = SnapshotTracker(["t", "u"], declared=[90])
    declared.restore(plain, {"told": [90], "runs": 0, "notified": 0}, 70)
    assert 0 == declared.export()["notified"]
    ahead = SnapshotTracker(["t", "u"], declared=[90])
    ahead.restore({**plain, "notified": 9}, {"told": [90], "runs": 0, "notified": 4}, 70)
    assert 9 == ahead.export()["notified"]


def test_a_restart_knows_the_resnapshots() -> None:
    """How many runs there were, and that no more of them are declared."""
    tracker = released(90, 120)
    for lsn in (90, 120):
        run(tracker, lsn, {"t": 1})
        tracker.released_through(lsn)
    assert {"told": [90, 120], "runs": 2, "notified": 123} == tracker.export_resnapshots()
    again = restored(tracker, 90, 120, through=120)

    assert (tracker.export(), tracker.export_resnapshots()) == (again.export(), again.export_resnapshots())
    assert again.pending is None and [] == again.notification("STARTED", None, None, 122)
    assert [rules.TWO] == [stop.found.remedy for stop in again.notification("STARTED", None, None, 123)]


def test_a_restart_before_the_first_snapshot_knows_nothing() -> None:
    """All of it is read again."""
    tracker = SnapshotTracker(["t", "u"], declared=[90])
    run(tracker, 0, {"t": 1})
    assert {"released": False, "lsn": None, "completed": False} == tracker.export()
    again = restored(tracker, 90, through=None)

    assert (False, 90, 0) == (again.released, again.pending, again._runs.completed)


def test_without_its_notifications_a_restart_counts_no_runs() -> None:
    """The logs are stated beyond a resnapshot, and the memory is lost: the runs are read again, and count then."""
    tracker = SnapshotTracker(["t", "u"], declared=[90])
    tracker.resume(95)
    assert ({"told": [90], "runs": 0, "notified": 0}, False) == (
        tracker.export_resnapshots(), tracker.export()["completed"]
    )
    run(tracker, 0, {"t": 1})
    assert 0 == tracker.export_resnapshots()["runs"]


def test_notifications_that_are_not_to_be_read_are_not_remembered() -> None:
    """The capture was begun without them."""
    tracker = SnapshotTracker(["t"], notified=False)
    run(tracker, 0, {"t": 0})
    tracker.release()
    plain = tracker.export()

    assert (False, 0) == (plain["completed"], plain["notified"])


def test_an_end_that_an_earlier_run_made_is_of_a_complete_run() -> None:
    """On a timeline; what begins now is another snapshot."""
    tracker = SnapshotTracker(["t"])
    tracker.end_made()

    assert [rules.TWO] == [stop.found.remedy for stop in tracker.notification("STARTED", None, None, 0)]


def test_where_nothing_shows_the_snapshot_it_is_before_every_commit() -> None:
    """Rows that name no commit are those of the first transaction then, and no duplicates."""
    tracker = SnapshotTracker(["t"])

    assert (0, 0) == (tracker.begins([]), tracker.begins([90, 100]))
