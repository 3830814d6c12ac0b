"""What contradicts a snapshot, with the reason and the remedy of each rule."""

from __future__ import annotations

import pytest

from cdcv2.capture.snapshot import rules, run_rules
from cdcv2.capture.snapshot.runs import SnapshotRun
from cdcv2.capture.transaction_contradictions import NEW_SOURCE, Commit, Contradiction

RUN = SnapshotRun({"a": 2, "b": 0, "c": None}, 3, wrong={"c": "the scan of c was not ended"})


@pytest.mark.parametrize("run, rows, empty, shown", [
    (RUN, {}, "a", "a was not empty at the snapshot, as --empty states: its notification counts 2 rows"),
    (RUN, {"b": 3, "a": 3}, "ba", "a was not empty at the snapshot, as --empty states: its notification counts 2 rows"),
    (RUN, {"b": 3}, "b", "b was not empty at the snapshot, as --empty states: there are 3 rows of it"),
    (None, {"b": 1}, "ab", "b was not empty at the snapshot, as --empty states: there are 1 rows of it"),
    (RUN, {"a": 3}, "bcd", None), (None, {}, "ab", None), (None, {"a": 1}, "", None),
])
def test_a_table_that_was_declared_empty_has_no_rows(
    run: SnapshotRun | None, rows: dict[str, int], empty: str, shown: str | None
) -> None:
    """Neither by its notification nor in its topic."""
    expected = None if shown is None else Contradiction(shown, rules.NOT_EMPTY)

    assert expected == rules.not_empty(run, rows, empty)


def test_a_run_has_to_count_the_rows_of_each_table() -> None:
    """Why it does not is what is reported: a scan that went wrong, or none."""
    unnamed = Contradiction("the notifications do not state how many rows of d the snapshot scanned", rules.UNKNOWN)

    assert rules.uncounted(RUN, "ab") is None
    assert Contradiction("the scan of c was not ended", rules.RESCAN) == rules.uncounted(RUN, "acd")
    assert unnamed == rules.uncounted(RUN, "adc") == rules.unnamed_table("d")


def test_a_table_without_a_topic_is_named() -> None:
    """With where to look for it."""
    assert rules.table_without_topic("a") == Contradiction(
        "nothing is known of a: it has no topic, and without notifications nothing shows that the snapshot covered it",
        rules.NO_TOPIC,
    )


def test_rows_beyond_those_that_are_counted_contradict_the_snapshot_and_missing_ones_do_not() -> None:
    """They may still come."""
    more = Contradiction("there are 3 snapshot rows of b, but its notification states 2", rules.MORE)

    assert more == rules.surplus({"a": 1, "b": 2}, {"a": 1, "b": 3})
    assert rules.surplus({"a": 1, "b": 0}, {"a": 1}) is None
    assert {"a": 1, "b": 2} == rules.lacking({"a": 2, "b": 2, "c": 1, "d": 0}, {"a": 1, "c": 1})
    assert {} == rules.lacking({"a": 1}, {"a": 2})


def test_all_rows_are_of_one_snapshot() -> None:
    """By their LSNs, and by the rows that are marked as the first and the last."""
    assert rules.two_snapshots(set()) is rules.two_snapshots({70}) is None
    assert Contradiction("there are rows of snapshots at [70, 80]", rules.TWO) == rules.two_snapshots({80, 70})
    assert Contradiction("the topics hold two snapshots: both 1 and 2 are marked 'last'", rules.TWO) == (
        rules.two_marks(1, 2, "last")
    )


@pytest.mark.parametrize("stated, beyond", [(False, ""), (True, "; the logs are stated beyond it")])
def test_no_transaction_is_committed_before_the_snapshot(stated: bool, beyond: str) -> None:
    """Behind its release the logs lack it."""
    assert rules.early_end(7, 71, 70, stated=stated) is None
    reason = f"transaction 7 was committed at 70, not after the snapshot at 70{beyond}"
    assert Contradiction(reason, rules.EARLY, stated) == rules.early_end(7, 70, 70, stated=stated)
    assert rules.early_end(7, 70, 70) == rules.early_end(7, 70, 70, stated=False)


@pytest.mark.parametrize("lsn, base, is_another", [
    (70, 70, False), (80, 70, True), (80, None, False), (90, None, False), (91, None, True), (91, 91, True),
])
def test_after_its_release_a_row_at_another_lsn_is_of_a_second_snapshot(
    lsn: int, base: int | None, is_another: bool
) -> None:
    """As is one beyond what the logs state."""
    another = Contradiction(f"there are rows of a second snapshot of t, at {lsn}", rules.TWO)

    assert (another if is_another else None) == rules.second_snapshot("t", lsn, base, 90)


def test_a_row_that_the_logs_lack_is_a_stop_for_good() -> None:
    """Nothing can be put before what is stated."""
    lacked = rules.lacked_row("t", "t[0]:5")
    lacks = rules.lacks_rows(7, "t", 3)

    assert lacked == Contradiction(
        "a row of the snapshot of t stands at t[0]:5, which is none of the rows that were released: the logs are "
        "stated beyond it, and lack it", rules.LACKED, True,
    )
    assert (rules.NOT_WHOLE, False) == lacks[1:3] and lacks.reason.endswith("the table has 3 rows")
    assert lacks.reason.startswith("transaction 7 changes or deletes a row of t that cannot be there: after all that")


@pytest.mark.parametrize("through, begun, stated", [
    (0, False, False), (0, True, True), (90, True, False), (100, True, True), (101, True, True), (100, False, False),
    (1, True, False), (99, True, False),
])
def test_rows_of_a_snapshot_where_none_is_taken_lack_in_logs_that_are_stated_beyond_them(
    through: int, begun: bool, stated: bool
) -> None:
    """Or that were begun without them."""
    reason = "there are rows of a snapshot, at 100, and no snapshot is wanted (--snapshot none)"

    assert Contradiction(reason, rules.NO_SNAPSHOT, stated) == rules.unexpected_snapshot(100, through, begun=begun)


@pytest.mark.parametrize("completed, declared, released, cap", [
    (0, False, False, -1), (0, True, False, -1), (1, False, False, -1), (1, True, False, None), (1, False, True, None),
])
def test_runs_that_contradict_themselves_hold_back_what_they_may_spoil(
    completed: int, declared: bool, released: bool, cap: int | None
) -> None:
    """Nothing is released beside a first snapshot that is not sound; a resnapshot spoils nothing before it."""
    stop = rules.stop_for_runs(run_rules.aborted_run(3), completed, declared=declared, released=released)

    assert (cap, False) == (stop.cap, stop.another)


@pytest.mark.parametrize("released, sure, stated, cap", [
    (False, True, False, -1), (True, True, True, None), (True, False, False, -1), (False, False, False, -1),
])
def test_an_early_transaction_is_a_stop_for_good_only_if_the_snapshot_is_the_first(
    released: bool, sure: bool, stated: bool, cap: int | None
) -> None:
    """Else a resnapshot that can still be declared may explain it."""
    stop = rules.stop_for_early(Commit(7, 70), 70, released=released, sure=sure)

    assert stop is not None and (stated, cap, not stated) == (stop.found.stated, stop.cap, stop.another)
    assert rules.stop_for_early(Commit(7, 71), 70, released=released, sure=sure) is None


def test_a_resnapshot_need_not_name_what_was_not_covered_before_it() -> None:
    """What it lacks otherwise names it; the first one needs what the others cannot go on without."""
    run = SnapshotRun({"a": 2}, 3)
    assert ({"a": 2}, frozenset("b"), None) == rules.count_resnapshot(run, {}, ["a", "b"], ["b"], 90)
    wrong = rules.count_resnapshot(run, {}, ["a", "b"], [], 90).wrong
    assert wrong is not None and wrong.reason.endswith(" of b the snapshot scanned, of the snapshot at 90")
    needed = rules.count_first(run, {}, ["a", "b"], empty=(), may=["a"], known=None)
    assert needed.wrong is not None and frozenset("b") == needed.uncovered


@pytest.mark.parametrize("begins, seen, searched", [(70, {70}, False), (60, {70}, True), (70, {70, 90}, True)])
def test_an_lsn_that_was_read_may_be_that_of_a_resnapshot(begins: int, seen: set[int], searched: bool) -> None:
    """Until all shows that there is no other."""
    assert not rules.is_first(70, begins, seen, searched=searched)
    assert rules.is_first(70, 70, {70}, searched=True)


@pytest.mark.parametrize("kind, is_open, skipped", [
    ("COMPLETED", True, False), ("COMPLETED", False, False), ("SKIPPED", True, False), ("SKIPPED", False, True),
    ("STARTED", True, None), ("IN_PROGRESS", True, None),
])
def test_a_run_ends_with_its_completion_or_with_the_next_start_that_takes_no_snapshot(
    kind: str, is_open: bool, skipped: bool | None
) -> None:
    """The second shows that there is no snapshot only where no run has begun."""
    run = run_rules.run_ended_by(kind, {"a": 2}, 5, {"b": "not ended"}, is_open=is_open)

    expected = None if skipped is None else SnapshotRun({"a": 2}, 5, skipped, {"b": "not ended"})
    assert expected == run


def test_only_the_first_run_may_lack_its_start() -> None:
    """What else comes between two runs belongs to none."""
    assert [True, True, True, False] == [
        run_rules.expects(completed, is_open=is_open) for completed in (0, 1) for is_open in (True, False)
    ]


def test_a_run_without_tables_does_not_show_that_they_are_empty() -> None:
    """Unless it was skipped; a number that it names counts."""
    runs = SnapshotRun({}, 1), SnapshotRun({}, 1, True), SnapshotRun({"a": 0}, 1), SnapshotRun({"a": 0, "b": 1}, 1)

    assert [False, True, True, False] == [run_rules.is_empty(run, "ab") for run in runs]
    assert {"a": 2, "b": 0} == run_rules.with_empty(SnapshotRun({"a": 2}, 1), "ab").scanned


def test_without_notifications_the_marked_row_ends_a_snapshot_and_it_is_whole_once_all_is_read() -> None:
    """A table without a topic is left out, or stops it where the others cannot go on without."""
    left, wrong = frozenset("b"), rules.table_without_topic("b")

    assert [3, 3, 1, 0] == [
        rules.ended(3, notified=notified, last_seen=seen) for notified in (True, False) for seen in (True, False)
    ]
    assert rules.is_all_read(1, 2, unread=False)
    assert not rules.is_all_read(1, 2, unread=True) and not rules.is_all_read(1, 1, unread=False)
    assert rules.count_unnotified(left, "ab", "ab", all_read=False) is None
    assert rules.CountedRun({}, left, None) == rules.count_unnotified(left, "ab", "ab", all_read=True)
    assert rules.CountedRun({}, left, wrong) == rules.count_unnotified(left, "ab", "a", all_read=True)


@pytest.mark.parametrize(("sound", "counted"), [(True, True), (True, False), (False, True), (False, False)])
def test_the_first_snapshot_is_whole_only_if_nothing_speaks_against_it(sound: bool, counted: bool) -> None:
    """Neither a contradiction, nor rows that are missing."""
    assert rules.is_first_whole(sound=sound, counted=counted) is (sound and counted)


def test_a_resnapshot_is_whole_only_if_nothing_speaks_against_it() -> None:
    """Its runs, its counts, and what is still to be read."""
    asked = ("sound", "counted", "all_read")

    assert rules.is_resnapshot_whole(sound=True, counted=True, all_read=True)
    assert not any(rules.is_resnapshot_whole(**{one: one != wrong for one in asked}) for wrong in asked)


@pytest.mark.parametrize("cap, due, expected", [
    (None, [], True), (89, [], False), (90, [], True), (None, [(False, True)], False),
    (None, [(True, False), (False, True)], True), (None, [(True, True)], False),
    (None, [(False, False), (False, True)], False), (None, [(False, False)], True),
])
def test_a_stop_before_a_resnapshot_still_holds_unless_rows_lack_before_it(
    cap: int | None, due: list[tuple[bool, bool]], expected: bool
) -> None:
    """What lacks rows, and all behind it, is made up for."""
    assert expected is rules.is_next(90, cap, due)


@pytest.mark.parametrize("at", [None, 90, 60])
def test_what_comes_behind_a_lost_end_is_never_due_before_a_resnapshot(at: int | None) -> None:
    """What comes before that END is, up to the resnapshot."""
    assert rules.is_due(60, at, None) and rules.is_due(60, at, (7, 60))
    assert not rules.is_due(61, at, (7, 60))
    assert [True, True, at is None] == [rules.is_due(end, at, None) for end in (59, at or 60, (at or 60) + 1)]


def test_a_resnapshot_makes_up_for_an_end_that_was_lost_before_it() -> None:
    """It lies behind the transaction before, and no transaction has its own LSN."""
    wrong = Contradiction("transaction 7 was committed at 90, declared as the LSN of a snapshot, and is of none",
                          rules.WRONG_LSN)

    assert [False, True, True, False] == [rules.makes_up_for(70, 90, [at]) for at in (70, 71, 90, 91)]
    assert rules.SnapshotStop(wrong, 89) == rules.end_of_declared(7, 90, [80, 90])
    assert rules.end_of_declared(7, 91, [80, 90]) is None


def test_a_history_has_one_end_of_a_snapshot() -> None:
    """Two that differ are of two histories."""
    assert rules.two_ends((7, 1), (7, 1)) is None
    assert Contradiction("the Ends 1 and 2 contradict each other", NEW_SOURCE) == rules.two_ends(1, 2)


def test_a_first_snapshot_comes_before_every_declared_one() -> None:
    """At the LSN of a declared one it does not, as the two would be one; without any, it may be anywhere."""
    assert [None, None] == [rules.declared_too_early(at, declared) for at, declared in ((7, ()), (7, (9, 8)))]
    for at in (8, 9):
        wrong = rules.declared_too_early(at, (9, 8))
        assert wrong is not None and f"the first snapshot is at {at}, not before that at 8" in wrong.reason
