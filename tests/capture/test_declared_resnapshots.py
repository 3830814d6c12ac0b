"""What a capture by commit times does with snapshots that were taken later, and are declared, or perhaps could be."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.release_answers import Release
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.snapshot.rules import WRONG_LSN
from cdcv2.capture.source_words import ANY_SOURCE
from cdcv2.capture.transaction_contradictions import LOST, SPOILT, Commit

T, U = "public.t", "public.u"
PLACE = ("p.public.t", 0)


def scanned(commits: CommitTransactions, first: int, rows: Mapping[str, int]) -> None:
    """The notifications of a run that scanned so many rows, from this offset on."""
    notes = [("STARTED", None, None), *(("TABLE_SCAN_COMPLETED", *one) for one in rows.items()),
             ("COMPLETED", None, None)]  # fmt: skip
    for offset, (kind, table, number) in enumerate(notes, first):
        commits.notification(kind, table, number, offset)


def captured(*declared: int) -> CommitTransactions:
    """One whose first snapshot, at 10 and of one row of T, is released; U was never reported."""
    commits = CommitTransactions([T, U], notifications=True, again=declared)
    scanned(commits, 0, {T: 1})
    commits.snapshot_rows(T, 10, 1)
    settled(commits)
    return commits


def settled(commits: CommitTransactions) -> Release:
    """What is ready, and is then durable."""
    release = commits.ready()
    assert release is not None
    commits.settle(release)
    return release


def resnapshot(commits: CommitTransactions, lsn: int, rows: Mapping[str, int]) -> None:
    """All of it, as its run counts it, and everything before it is read."""
    scanned(commits, 100, rows)
    for table, number in rows.items():
        commits.snapshot_rows(table, lsn, number)
    commits.ends_read({PLACE: 1})
    commits.snapshots.consumed({PLACE: 1})


def row(commits: CommitTransactions, tx: int, named: int | None) -> None:
    """One row of T in an open transaction, which names this commit."""
    commits.comes_after(tx, named)
    commits.rows_seen(tx, T, 1)


def around() -> CommitTransactions:
    """Transactions before and behind the resnapshot at 90, whole and not."""
    commits = captured(90)
    commits.end(1, 20, {T: 1})
    row(commits, 1, None)
    commits.end(2, 30, {T: 2})
    row(commits, 2, 20)
    commits.end(3, 40, {T: 2})
    row(commits, 3, None)
    for named in (45, 89, 60):
        row(commits, 4, named)
    row(commits, 5, 95)
    row(commits, 6, None)
    commits.end(7, 95, {T: 1})
    row(commits, 7, 90)
    resnapshot(commits, 90, {T: 2, U: 1})
    return commits


def test_what_is_not_whole_before_a_resnapshot_is_superseded_by_it() -> None:
    """The slot was lost inside it; what is whole comes first, and what was committed later comes later."""
    commits = around()
    first = settled(commits)

    assert Release(None, (Commit(1, 20),), 90, False, 90, (2, 3, 4), {U: 90}) == first
    assert (3, 90, None) == (commits.open_transactions(), commits.through, commits.snapshots.pending)
    assert Release(None, (Commit(7, 95),), 95) == settled(commits)
    commits.end(6, 100, {T: 1})
    commits.end(5, 110, {T: 1})
    assert (Commit(6, 100), Commit(5, 110)) == settled(commits).transactions
    assert 0 == commits.open_transactions() and commits.stopped() is None
    assert [{}, {}, {}] == [commits._named, commits._more, commits._had], "what is released is not held"


def test_a_table_that_the_resnapshot_does_not_scan_stays_uncovered() -> None:
    """Of U nothing is known yet; a partial one stays partial."""
    commits = captured(90)
    commits.end(1, 20, {U: 1})
    commits.had(1, U)
    commits.rows_seen(1, U, 1)
    resnapshot(commits, 90, {T: 1})

    assert Release(
        None, (Commit(1, 20),), 90, False, 90, (), {}, frozenset({U}), frozenset({U})
    ) == commits.ready()


def test_both_snapshots_may_be_released_at_once() -> None:
    """The topics are read from their start: nothing was released yet."""
    commits = CommitTransactions([T, U], notifications=True, again=[90], empty=[U])
    scanned(commits, 0, {T: 1})
    commits.snapshot_rows(T, 10, 1)
    resnapshot(commits, 90, {T: 1, U: 1})
    commits.end(1, 20, {})

    assert Release(10, (Commit(1, 20),), 90, False, 90, (), {}, empty=frozenset({U})) == settled(commits)
    assert 90 == commits.through


@pytest.mark.parametrize("again", [False, True], ids=["at work", "restarted"])
def test_a_row_that_names_no_commit_is_a_repeat_only_of_what_ended_before(again: bool) -> None:
    """Each slot has one first transaction, whose rows name none; those of the new slot are no repeats."""
    commits = around()
    settled(commits)
    if again:
        plain = json.loads(json.dumps(commits.export()))
        assert ({"told": [90], "runs": 1, "notified": 104}, [1, 3]) == (plain["again"], plain["first"])
        commits = CommitTransactions.restore(plain, [T, U], notifications=True, known=91, again=[90])
        assert (None, None) == (commits.snapshots.pending, commits.snapshots.notifications_from)

    repeats = [tx for tx in range(1, 8) if commits.is_repeat(None, tx, T, 9)]
    assert [1, 3] == repeats and commits.stopped() is None


def test_a_row_of_a_released_first_transaction_is_remembered_as_such() -> None:
    """Also where its END was read before any row of it: the next run must know it as well."""
    commits = captured(90)
    commits.end(1, 20, {})
    settled(commits)
    assert not commits.is_repeat(None, 1)
    commits.end(1, 20, {})

    assert commits.is_repeat(None, 1) and [1] == commits.export()["first"]


def test_a_row_of_a_new_slot_that_its_end_does_not_count_is_no_repeat() -> None:
    """It is of the first transaction behind the resnapshot, and the logs are stated beyond it, and lack it."""
    commits = around()
    settled(commits)
    settled(commits)
    commits.end(6, 100, {T: 1})
    commits.end(5, 110, {T: 1})
    settled(commits)

    assert commits.is_repeat(None, 6, T, 1) and commits.stopped() is None
    assert commits.is_repeat(None, 6, T, 2)
    stop = commits.stopped()
    assert stop is not None and stop.lasting
    assert "transaction 6 has a row of public.t numbered 2, but its END 100 counts 1" in stop.reason


def test_a_transaction_that_halts_before_a_resnapshot_is_not_superseded() -> None:
    """Its rows are all there: what no update can express stops the capture, as it would without a resnapshot."""
    commits = captured(90)
    commits.halt(2, "a table was truncated", "start over")
    commits.end(1, 20, {})
    commits.end(2, 30, {T: 1})
    commits.rows_seen(2, T, 1)
    resnapshot(commits, 90, {T: 1})

    assert 20 == settled(commits).through and commits.ready() is None
    stop = commits.stopped()
    assert stop is not None and "a table was truncated" == stop.reason


@pytest.mark.parametrize("missing_first", [True, False])
def test_behind_missing_rows_nothing_halts_before_a_resnapshot(missing_first: bool) -> None:
    """What comes behind them is superseded, whatever it is; what comes before them is due."""
    commits = captured(90)
    commits.halt(3, "a table was truncated", "start over")
    for tx, lsn in ((2, 30), (3, 40)) if missing_first else ((3, 30), (2, 40)):
        commits.end(tx, lsn, {T: 1})
    commits.rows_seen(3, T, 1)
    resnapshot(commits, 90, {T: 1})
    release = commits.ready()

    assert (release is not None) == missing_first
    assert release is None or (2, 3) == release.superseded


def test_what_halts_behind_a_resnapshot_waits_for_it() -> None:
    """Its turn comes later."""
    commits = captured(90)
    commits.halt(3, "a table was truncated", "start over")
    commits.end(3, 95, {T: 0})
    assert commits.ready() is None and commits.stopped() is None
    assert "the snapshot at 90 has not been begun (nothing of it is in the topics)" == commits.waits().text
    resnapshot(commits, 90, {T: 1})
    assert 90 == settled(commits).through

    assert commits.ready() is None
    stop, waits = commits.stopped(), commits.waits()
    assert stop is not None and "a table was truncated" == stop.reason
    assert ("stop", "transaction 3 (END 95): a table was truncated", 3, 95) == (
        waits.what, waits.text, waits.tx, waits.lsn
    )


def test_a_stop_before_a_resnapshot_is_not_made_up_for() -> None:
    """A fact that contradicts the topics stops at its place; a resnapshot at that very place is sound."""
    for cap in (89, 90):
        commits = captured(90)
        commits.end(2, 30, {})
        resnapshot(commits, 90, {T: 1})
        commits._halt_all("two histories", "start over", cap)
        release = commits.ready()

        assert release is not None and (30 if cap < 90 else 90) == release.through


def test_the_next_resnapshot_says_how_many_rows_it_lacks() -> None:
    """As a sentence for people, and as numbers for programs."""
    commits = captured(90)
    commits.end(1, 95, {T: 1})
    scanned(commits, 100, {T: 3})
    commits.snapshot_rows(T, 90, 1)
    waits = commits.waits()

    assert ("snapshot", "the snapshot at 90 lacks 2 rows of public.t", {T: 2}) == (
        waits.what, waits.text, waits.missing
    )


@pytest.mark.parametrize("shown_by", [None, 60, 90 - 1])
@pytest.mark.parametrize("read_first", [False, True])
def test_an_end_that_is_lost_before_a_resnapshot_is_made_up_for(shown_by: int | None, read_first: bool) -> None:
    """Whether it was lost with the slot, or an END behind it shows that the topic lacks it, and whenever it is asked:
    what comes behind it waits for the resnapshot, and is superseded."""
    commits = captured(90)
    commits.end(2, 45, {})
    row(commits, 3, 50)
    if shown_by is not None:
        commits.end(4, shown_by, {T: 1})
        row(commits, 4, 50)
    commits.end(5, 95, {})
    if not read_first:
        assert 45 == settled(commits).through
        assert commits.ready() is None and commits.stopped() is None and not commits.searches_resnapshot
        assert ("snapshot", "the snapshot at 90 has not been begun (nothing of it is in the topics)") == (
            commits.waits().what, commits.waits().text
        )
    resnapshot(commits, 90, {T: 1})
    release = settled(commits)

    assert (90, (3,) if shown_by is None else (4, 3)) == (release.through, release.superseded)
    assert (Commit(5, 95),) == settled(commits).transactions
    assert commits.stopped() is None and not commits.lost and 0 == commits.open_transactions()
    assert commits.is_repeat(50, 3, T, 1) and commits.is_repeat(50, 4, T, 1) and commits.stopped() is None


def test_what_cannot_be_captured_behind_a_lost_end_is_superseded_with_it() -> None:
    """As behind rows that are missing. What comes before that END is due first."""
    commits = captured(90)
    for tx, lsn in ((2, 45), (4, 60), (5, 70)):
        commits.end(tx, lsn, {T: 1})
    row(commits, 3, 50)
    commits.halt(4, "a table was truncated", "start over")
    assert "transaction 2 (END 45) lacks 1 of 1 rows of public.t" == commits.waits().text
    row(commits, 2, 20)
    assert 45 == settled(commits).through
    assert commits.ready() is None and commits.stopped() is None and "snapshot" == commits.waits().what
    resnapshot(commits, 90, {T: 1})
    release = settled(commits)

    assert (90, (4, 5, 3)) == (release.through, release.superseded) and commits.stopped() is None


def test_what_cannot_be_captured_before_a_lost_end_stops_before_it() -> None:
    """It is all there, and a resnapshot that comes later changes nothing of it."""
    commits = captured(90)
    commits.end(2, 45, {T: 1})
    row(commits, 2, 20)
    commits.halt(2, "a table was truncated", "start over")
    row(commits, 3, 50)
    commits.end(4, 60, {})
    resnapshot(commits, 90, {T: 1})

    assert commits.ready() is None and "stop" == commits.waits().what
    stop = commits.stopped()
    assert stop is not None and "a table was truncated" == stop.reason


@pytest.mark.parametrize("after", [90, 95])
def test_an_end_that_is_lost_behind_the_last_resnapshot_stops_the_capture(after: int) -> None:
    """Once that is released: until then it is not its turn."""
    commits = captured(90)
    commits.end(5, 95, {})
    row(commits, 6, after)
    commits.end(7, 100, {T: 1})
    row(commits, 7, 100 - 1)
    assert commits.ready() is None and commits.stopped() is None
    resnapshot(commits, 90, {T: 1})
    assert 90 == settled(commits).through
    release, stop = commits.ready(), commits.stopped()

    assert after == (90 if release is None else release.through)
    assert stop is not None and "the END of transaction 6 is missing" in stop.reason
    assert ANY_SOURCE.fill(LOST) == stop.remedy


def test_an_end_that_is_lost_between_two_resnapshots_waits_for_the_second() -> None:
    """The first one makes up for nothing that is behind it."""
    commits = captured(30, 90)
    commits.end(2, 45, {})
    row(commits, 3, 45)
    commits.end(4, 60, {})
    resnapshot(commits, 30, {T: 1})
    assert 30 == settled(commits).through and 45 == settled(commits).through
    assert commits.ready() is None and commits.stopped() is None and 90 == commits.snapshots.pending


@pytest.mark.parametrize("declared, missed", [(49, True), (51, False), (59, False), (61, False)])
def test_a_begin_without_an_end_is_made_up_for_by_a_resnapshot_behind_it(declared: int, missed: bool) -> None:
    """Whether its slot was lost inside it, or a later END was still sent."""
    commits = captured(declared)
    commits.recall(ReleasedEnds((), True, None, highest=0))
    commits.begin(6)
    commits.end(6, 50, {})
    commits.begin(7)
    commits.begin(9)
    commits.end(9, 60, {})
    resnapshot(commits, declared, {T: 1})
    while commits.ready() is not None:
        settled(commits)
    stop = commits.stopped()

    assert missed == (stop is not None)


@pytest.mark.parametrize("there, superseded", [(False, (9, 7)), (True, (9,))])
def test_a_begin_without_an_end_is_superseded_by_a_later_resnapshot(there: bool, superseded: tuple[int, ...]) -> None:
    """Behind rows that are missing, too: it makes up for both. One whose END the topic has was there before."""
    commits = captured(90)
    commits.recall(ReleasedEnds((), True, None, highest=50), lambda tx, through: there)
    commits.begin(7)
    commits.begin(9)
    commits.end(9, 60, {T: 1})
    resnapshot(commits, 90, {T: 1})
    release = settled(commits)

    assert (90, superseded) == (release.through, release.superseded)


def test_what_an_earlier_run_found_lost_is_superseded_by_a_later_resnapshot() -> None:
    """Its rows are before the positions of this run."""
    commits = captured(90)
    row(commits, 3, 50)
    commits.end(4, 60, {T: 1})
    plain = json.loads(json.dumps(commits.export()))
    assert [3, 50] == plain["lost"]
    again = CommitTransactions.restore(plain, [T, U], notifications=True, known=11, again=[90], uncovered=[U])
    again.end(4, 60, {T: 1})
    resnapshot(again, 90, {T: 1})

    assert (4, 3) == settled(again).superseded


def test_one_that_begins_behind_a_resnapshot_is_not_superseded() -> None:
    """Its rows name the LSN of the snapshot, as no transaction was committed since."""
    commits = captured(90)
    row(commits, 5, 90)
    resnapshot(commits, 90, {T: 1})

    assert () == settled(commits).superseded and 1 == commits.open_transactions()


def test_the_end_of_a_transaction_at_a_declared_lsn_stops_before_it() -> None:
    """The LSN is wrong: one that is no snapshot's. All before it is released, and nothing of it."""
    commits = captured(90)
    resnapshot(commits, 90, {T: 1})
    commits.end(1, 89, {})

    assert commits.end(2, 90, {}) is False
    stop = commits.stopped()
    assert stop is not None and ANY_SOURCE.fill(WRONG_LSN) == stop.remedy
    assert stop.reason.startswith("transaction 2 was committed at 90, declared as the LSN of a snapshot")
    assert 89 == settled(commits).through and commits.ready() is None


# -- what may be an undeclared one


def released(*, through: int = 100) -> CommitTransactions:
    """All is released through the END of transaction 7, and no resnapshot is declared."""
    commits = CommitTransactions([T], snapshot="none")
    commits.end(7, through, {T: 1})
    commits.rows_seen(7, T, 1)
    settled(commits)
    return commits


@pytest.mark.parametrize("named, seeks, lasting", [(50, False, True), (50, True, False), (None, True, False),
                                                   (None, False, False)])  # fmt: skip
def test_a_row_whose_end_is_lost_may_be_of_a_slot_that_was_lost(
    named: int | None, seeks: bool, lasting: bool
) -> None:
    """Until the topics are searched for the snapshot that was taken then; one that names a commit, only by runs that
    search."""
    commits = released()
    commits.seeks = commits.seeks or seeks
    assert commits.is_repeat(named, 9, T, 1)
    commits.end(10, 110, {})
    assert commits.ready() is None
    stop = commits.stopped()

    assert stop is not None and (lasting, ANY_SOURCE.fill(SPOILT)) == (stop.lasting, stop.remedy)
    assert "the END of transaction 9 is missing" in stop.reason
    assert (not lasting) == commits.searches_resnapshot


@pytest.mark.parametrize("found, lasting", [((), True), ((40,), True), ((0, 40), False)])
def test_topics_without_another_snapshot_do_not_explain_a_lost_end(found: tuple[int, ...], lasting: bool) -> None:
    """Then it is lost for good; with one, perhaps it was declared before."""
    commits = released()
    commits.seeks = True
    commits.is_repeat(50, 9, T, 1)
    commits.is_repeat(None, 9, T, 1)
    for lsn in found:
        commits.snapshot_found(lsn)
    commits.searched()
    stop = commits.stopped()

    assert stop is not None and lasting == stop.lasting and commits.lost
    assert lasting == (stop.remedy == ANY_SOURCE.fill(SPOILT))
    assert lasting != ("If these logs were captured with --snapshot-again 40, keep giving it" in stop.remedy)


def test_a_lost_end_that_is_found_first_by_a_row_of_no_commit_is_never_for_good() -> None:
    """The first transaction of a new slot has such rows, too."""
    commits = released()
    commits.seeks = True
    commits.is_repeat(None, 9, T, 1)
    commits.is_repeat(50, 9, T, 1)
    commits.searched()
    stop = commits.stopped()

    assert stop is not None and not stop.lasting


@pytest.mark.parametrize("certain_first", [True, False])
def test_of_two_facts_behind_the_logs_the_certain_one_counts(certain_first: bool) -> None:
    """One that a resnapshot may explain is no reason for a stop that lasts, and none against one."""
    commits = released()
    facts = [(100 - 1, 7, T, 2), (None, 9, T, 1)]
    for fact in facts if certain_first else facts[::-1]:
        commits.is_repeat(*fact)
    stop = commits.stopped()

    assert stop is not None and stop.lasting
    assert "transaction 7 has a row of public.t numbered 2, but its END 100 counts 1" in stop.reason


def test_of_two_certain_facts_behind_the_logs_the_first_one_counts() -> None:
    """As of any two stops."""
    commits = released()
    commits.is_repeat(99, 7, T, 2)
    commits.end(8, 90, {})
    stop = commits.stopped()

    assert stop is not None and "numbered 2" in stop.reason


@pytest.mark.parametrize("stopped", [False, True])
def test_a_row_that_may_be_of_another_slot_explains_no_stop_that_was_there_before(stopped: bool) -> None:
    """Its remedy stays; without one the snapshot that was found is named."""
    commits = released()
    if stopped:
        commits.stop("it does not fit", "mend it")
    commits.is_repeat(None, 9, T, 1)
    commits.snapshots.seen.update((10, 40))
    stop = commits.stopped()

    assert stop is not None and stopped == (stop.remedy == "mend it")
    assert stopped != ("--snapshot-again 40, keep giving it" in stop.remedy)


@pytest.mark.parametrize("unknown", [False, True])
def test_a_row_that_the_state_does_not_know_may_have_been_lost_with_a_slot(unknown: bool) -> None:
    """Then the topics are searched for a snapshot, and all before that is released. Any other fact explains itself."""
    commits = captured()
    assert not commits.searches_resnapshot
    commits.halt(2, "it is not there", "mend it", **({"unknown": True} if unknown else {}))
    commits.end(2, 30, {})
    commits.end(3, 95, {})
    assert commits.ready() is None and unknown == commits.searches_resnapshot
    if unknown:
        commits.snapshot_found(10)
        assert commits.searches_resnapshot, "that is the first one"
        commits.snapshot_found(90)
        assert not commits.searches_resnapshot
    stop = commits.stopped()

    assert stop is not None and "it is not there" == stop.reason
    assert unknown == ("--snapshot-again 90 " in stop.remedy) != (stop.remedy == "mend it")


def test_what_was_committed_behind_a_snapshot_that_was_found_waits() -> None:
    """The run has begun, and no row of it was seen: until one is found nothing is released, and then what is before."""
    commits = captured()
    commits.notification("STARTED", None, None, 100)
    commits.end(1, 20, {})
    commits.end(2, 90, {})
    commits.end(3, 91, {})
    stop = commits.stopped()
    assert stop is not None and "--snapshot-again LSN " in stop.remedy
    assert commits.searches_resnapshot and commits.ready() is None
    commits.snapshot_found(90)

    assert 90 == settled(commits).through and commits.ready() is None
    assert not captured(80).searches_resnapshot


def test_a_snapshot_that_the_logs_are_stated_beyond_cannot_be_declared_any_more() -> None:
    """So it explains no stop, and the search goes on."""
    commits = captured()
    commits.end(1, 100, {})
    settled(commits)
    commits.halt(2, "it is not there", "mend it", unknown=True)
    commits.end(2, 110, {})
    for lsn in (10, 90):
        commits.snapshot_found(lsn)

    assert commits.searches_resnapshot
    stop = commits.stopped()
    assert stop is not None and "mend it" == stop.remedy


@pytest.mark.parametrize("stopped", [False, True])
def test_a_lost_end_may_be_that_of_a_lost_slot(stopped: bool) -> None:
    """Unless something else stopped the capture before it was found."""
    commits = captured()
    if stopped:
        commits.stop("it does not fit", "mend it")
    row(commits, 3, 50)
    commits.end(5, 95, {})

    assert commits.ready() is None and stopped is not bool(commits.searches_resnapshot)


def test_a_stop_that_a_resnapshot_may_explain_is_kept_as_such() -> None:
    """The next run searches, too."""
    commits = released()
    commits.is_repeat(None, 9, T, 1)
    again = CommitTransactions.restore(json.loads(json.dumps(commits.export())), [T], snapshot="none", known=101)
    stop = again.stopped()

    assert stop is not None and not stop.lasting and again.searches_resnapshot
    assert ("the END of transaction 9 is missing" in stop.reason) and ANY_SOURCE.fill(SPOILT) == stop.remedy


def test_rows_that_their_end_does_not_count_are_not_superseded() -> None:
    """They contradict, whatever comes behind them."""
    commits = captured(90)
    commits.end(2, 30, {T: 1})
    commits.rows_seen(2, T, 2)
    resnapshot(commits, 90, {T: 1})

    assert commits.ready() is None and "2 rows of public.t" in str(commits.stopped())
