"""What is held of open transactions on a timeline, and what stops them: step by step, without a timeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from cdcv2.capture.bound_transactions import BoundTransactions, StepChanges
from cdcv2.capture.open_records import (
    SNAPSHOT, DoubtRecord, EndRecord, HaltRecord, OpenRecord, ReleaseRecord, RestartRecord, RowRecord, StartRecord,
    ThroughRecord, Tx, UnendedRecord,
)
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.row_counts import RowCounts
from cdcv2.capture.snapshot import rules
from cdcv2.capture.source_words import ANY_SOURCE
from cdcv2.capture.transaction_contradictions import LOST, NEW_SOURCE, uncounted_row, unknown_row
from cdcv2.errors import SourceStop
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER

SNAP = RowRecord("a", SNAPSHOT, ("topic", 0, 0), 5, (("s", 1),))
SNAP_END = EndRecord.of(SNAPSHOT, 5, {"a": 1})


def opened(ordering: str = COMMIT_ORDER, *, snapshot: bool = False, **more: Any) -> BoundTransactions:
    """One that captures a and b."""
    return BoundTransactions(StartRecord(ordering, ("a", "b"), snapshot), **more)


def row(tx: int, number: int | None, after: int | None, table: str = "a", diff: int = 1, **more: Any) -> RowRecord:
    """A row, of which the number and the table are the place."""
    return RowRecord(table, tx, (table, number), after, ((f"{tx}.{number}", diff),), number, **more)


def end(tx: int, **counts: int) -> EndRecord:
    """Committed at ten times its name."""
    return EndRecord.of(tx, 10 * tx, counts)


def stop_of(whole: BoundTransactions, *records: Any) -> SourceStop:
    """What a step with these records stops with."""
    with pytest.raises(SourceStop) as caught:
        whole.advance(records)
    return caught.value


def resumed(
    whole: BoundTransactions, recalled: ReleasedEnds[Tx] | None, ordering: str = COMMIT_ORDER, **more: Any
) -> BoundTransactions:
    """The next run, with what TEMP holds."""
    other = opened(ordering, **more)
    other.restore([*whole.content()], recalled)
    return other


def ends(*commits: int, whole: bool = True, **more: Any) -> ReleasedEnds[Tx]:
    """These ENDs are read again, each of a transaction without rows."""
    return ReleasedEnds(tuple((commit // 10, commit, {}) for commit in commits), whole, None, **more)


# -- what a step changes


def test_a_step_is_at_its_time() -> None:
    """At 0, if none is given."""
    assert [0, 7] == [opened().advance([]).time, opened().advance([], 7).time]


def test_nothing_is_held_before_the_first_record() -> None:
    """Neither how it was begun, nor H; afterwards both are, and H alone moves."""
    whole = opened()
    assert StepChanges() == whole.advance([]) and [] == [*whole.content()] and not whole.has_started
    begun = StartRecord(COMMIT_ORDER, ("a", "b"), False)
    assert [(begun, 1)] == whole.advance([row(1, 1, None)]).temp[:1]
    assert [begun, row(1, 1, None)] == [*whole.content()] and whole.has_started
    assert [] == [pair for pair in resumed(whole, ends()).advance([row(2, 1, 0)]).temp if pair[0] == begun]
    waiting = opened(snapshot=True)
    waiting.advance([row(1, 1, None)])
    assert [StartRecord(COMMIT_ORDER, ("a", "b"), True), row(1, 1, None)] == [*waiting.content()]


def test_tables_begin_in_the_order_in_which_ends_count_them() -> None:
    """All those of a step; partial ones do not."""
    whole = opened(uncovered=["b"], partial=["a"])
    assert ({"a", "b"}, {"a"}) == (whole.uncovered, whole.partial)
    assert [] == whole.advance([end(1), end(2, a=1), row(2, 1, 10)]).begins
    assert ["b"] == whole.advance([end(3, b=1), row(3, 1, 20, "b"), end(4)]).begins
    assert ({"a"}, {"a"}) == (whole.uncovered, whole.partial)
    whole.uncover(["b"])
    assert {"a", "b"} == whole.uncovered
    both = opened(uncovered=["a", "b"])
    changed = both.advance([end(1, b=1), row(1, 1, 0, "b"), end(2, a=1), row(2, 1, 10)])
    assert (["b", "a"], [1, 2]) == (changed.begins, changed.given)


def test_the_first_row_of_a_table_may_show_that_it_had_rows() -> None:
    """Then it is partial, and nothing of it is given out; a later row of the other table is no such row."""
    whole = opened(uncovered=["a"], had=lambda one: one.changes[0][1] < 0)
    changed = whole.advance([end(1, a=1, b=1), row(1, 1, 0, diff=-1), row(1, 1, 0, "b", diff=-1)])

    assert ({"b"}, [], {"a"}) == (changed.output.keys(), changed.begins, whole.partial)
    covered = opened(had=lambda one: True)
    assert {"a"} == covered.advance([end(1, a=1), row(1, 1, 0)]).output.keys() and set() == covered.partial
    unasked = opened(uncovered=["a"])
    assert ["a"] == unasked.advance([end(1, a=1), row(1, 1, 0, diff=-1)]).begins


# -- rows that cannot be there


def test_the_rows_of_the_snapshot_are_counted_and_every_transaction_from_then_on() -> None:
    """One that takes away more than there are halts; what is before it is given out, and it stays in TEMP."""
    whole = opened(snapshot=True, uncovered=["b"], counted=RowCounts())
    one, two = [end(1, a=2), row(1, 1, 5), row(1, 2, 5)], [end(2, b=1), row(2, 1, 10, "b", -1)]
    first = whole.advance([SNAP, SNAP_END, *one, *two])
    assert ([SNAPSHOT, 1, 2], None) == (first.given, whole.halt())
    rows = [row(3, number, 20, diff=-1) for number in (1, 2, 3)]
    assert [3] == whole.advance([end(3, a=3), *rows]).given
    unknown = opened(snapshot=True, uncovered=["b"], counted=RowCounts())
    unknown.advance([SNAP_END, SNAP, end(1, a=2), row(1, 1, 5), row(1, 2, 5)])
    unknown.advance([end(2, a=1), row(2, 1, 10), end(3, a=6), *(row(3, number, 20, diff=-1) for number in range(1, 7))])
    too_many = unknown.halt()
    assert too_many is not None and rules.lacks_rows(3, "a", 4).reason == too_many.reason
    none = opened(snapshot=True, counted=RowCounts())
    none.advance([EndRecord.of(SNAPSHOT, 5, {}), end(1, a=1), row(1, 1, 5, diff=-1)])
    eager = opened(AS_COMPLETE, counted=RowCounts({"a": (0, 0)}))
    eager.advance([end(1, a=1), row(1, 1, 0, diff=-1)])
    nothing = none.halt()
    assert nothing == eager.halt()
    assert nothing is not None and rules.lacks_rows(1, "a", 0).reason == nothing.reason
    lacks = rules.lacks_rows(4, "a", 0)
    halt = HaltRecord(4, None, lacks.reason, ANY_SOURCE.fill(lacks.remedy))
    changed = whole.advance([end(4, a=2), row(4, 1, 30, diff=0), row(4, 2, 30, diff=-1)], 9)

    assert ([], halt) == (changed.given, whole.halt()) and (halt, 1) in changed.temp
    assert {} == whole.advance([end(5)]).output and 30 == whole.through
    assert halt == resumed(whole, ends(30), snapshot=True).halt()


@pytest.mark.parametrize("rows, had, time, halts", [
    (0, True, 5, True), (0, False, 5, False), (1, True, 5, False), (0, True, 4, False),
])
def test_a_table_without_rows_has_none_that_could_be_changed(rows: int, had: bool, time: int, halts: bool) -> None:
    """As its log has it at its time; what was before that is in it already."""
    asked = list[RowRecord]()

    def shows(one: RowRecord) -> bool:
        asked.append(one)
        return had

    whole = opened(counted=RowCounts({"a": (rows, 5)}), had=shows)
    whole.advance([end(1, a=2, b=1), row(1, 1, 0, diff=0), row(1, 2, 0, diff=0), row(1, 1, 0, "b", 0)], time)

    assert halts == (whole.halt() is not None)
    assert (2 if had else 3) == len(asked), "each table is asked until a row shows it"
    assert {"a", "b"} == {one.table for one in asked}
    assert opened(counted=RowCounts({"a": (0, 0)})).advance([end(1, a=1), row(1, 1, 0, diff=0)]).given == [1]


# -- duplicates and contradictions


def test_a_row_numbered_above_what_a_released_end_counts_is_none_before_an_open_one_either() -> None:
    """The transaction was released before an earlier one; its rows without a number, or with one it counts, repeat."""
    records = [row(2, 1, 10), end(1, a=1), end(2, a=1)]
    for again in (False, True):
        whole = opened(AS_COMPLETE)
        whole.advance(records)
        if again:
            counted = ReleasedEnds[Tx](((1, 10, {"a": 1}), (2, 20, {"a": 1})), True, None)
            whole = resumed(whole, counted, AS_COMPLETE)
        assert [] == whole.advance([row(2, 1, 10), row(2, None, 10), row(2, None, 10, "b"), end(2, a=1)]).temp
        for table, counted_there in (("a", 1), ("b", 0)):
            number = counted_there + 1
            found = uncounted_row(2, table, number, 20, {"a": 1})
            stop = stop_of(whole, row(2, number, 10, table))
            assert found is not None
            assert (found.reason, found.remedy, True) == (stop.reason, stop.remedy, stop.lasting)


@pytest.mark.parametrize("behind", [False, True])
def test_without_the_counts_of_a_released_end_no_row_of_it_is_judged(behind: bool) -> None:
    """The topic has lost them; its END, which comes again, changes nothing, and shows nothing."""
    whole = opened(AS_COMPLETE)
    whole.advance([row(2, 1, 10), end(1, a=1), end(2, a=1)])
    again = resumed(whole, None, AS_COMPLETE)
    assert [] == again.advance([end(2, a=1)]).temp
    if behind:
        again.advance([row(1, 1, 0)])
        assert 20 == again.through
    found = unknown_row(2, 19, None)
    first = ReleasedEnds[Tx](((3, 5, {}),), True, None)
    after_one = opened(AS_COMPLETE)
    after_one.advance([EndRecord.of(3, 5, {}), row(2, 1, 10), end(1, a=1), end(2, a=1)])
    known = stop_of(resumed(after_one, first, AS_COMPLETE), row(2, 1, 10))
    assert unknown_row(2, 19, 5).reason == known.reason
    stop = stop_of(again, row(2, 1, 10))

    assert found.remedy == stop.remedy and not stop.lasting
    assert behind or found.reason == stop.reason


def test_a_row_without_a_number_is_judged_by_its_transaction_alone() -> None:
    """END counts none of its table, and nothing shows that it is not one of those that it counts."""
    whole = opened()
    whole.advance([end(1)])

    assert [] == whole.advance([row(1, None, 0), HaltRecord(1, 0, "truncated", "start over"), end(1)]).temp
    assert "numbered 1, but its END 10 counts 0" in str(stop_of(whole, row(1, 1, 0)))


def test_of_several_contradictions_the_first_transaction_by_name_is_reported() -> None:
    """By its name as a text, whatever order they come in."""
    records = [row(2, 2, 0), end(2, a=1), row(12, 2, 20), end(12, a=1)]

    for one in (records, [*records[2:], *records[:2]]):
        stop = stop_of(opened(), *one)
        assert stop.reason.startswith("transaction 12 has 1 rows of a") and NEW_SOURCE == stop.remedy
    doubted = [row(2, 2, 0), end(2, a=1), row(12, 1, 20, renumbered=True), DoubtRecord(12)]
    assert stop_of(opened(), *doubted).reason.startswith("whether transaction 12 ")


@pytest.mark.parametrize("turned", [False, True])
def test_which_contradiction_of_a_step_is_found_first_does_not_depend_on_order(turned: bool) -> None:
    """Ends come first, in the order of their commits, and then by their words."""
    both = [EndRecord.of(tx, 20, {}) for tx in (2, 12)]
    stop = stop_of(opened(), *(both[::-1] if turned else both))
    assert "END 20 states both that transaction 12 has {} rows, and 2 has {}" == stop.reason
    snapshots = [EndRecord.of(SNAPSHOT, 5, {"a": number}) for number in (1, 2)]
    second = stop_of(opened(snapshot=True), *(snapshots[::-1] if turned else snapshots))
    assert f"the Ends {snapshots[0]} and {snapshots[1]} contradict each other" == second.reason
    whole = opened()
    whole.advance([end(1)])
    wrong = [row(1, 1, 0), EndRecord.of(1, 10, {"a": 3})]
    assert "END 10 states both" in stop_of(whole, *(wrong[::-1] if turned else wrong)).reason
    copies = [one for tx in (2, 12) for one in (row(tx, 1, 0), row(tx, 1, 0)._replace(changes=()))]
    stop = stop_of(opened(), *(copies[::-1] if turned else copies))
    assert stop.reason.startswith("transaction 12 has two different rows of a numbered 1")


@pytest.mark.parametrize("turned", [False, True])
def test_an_end_that_comes_again_is_not_that_of_a_later_row(turned: bool) -> None:
    """The row names a later commit than that END: its transaction waits for another one, in whatever order they come.

    Once an END of a later commit is in, that other one is lost.
    """
    whole, records = opened(), [end(1), row(1, 1, 25)]
    whole.advance([end(1), end(2)])
    whole.advance(records[::-1] if turned else records)

    assert "END of transaction 1 is missing" in stop_of(whole, end(3)).reason


def test_a_row_from_before_all_that_was_given_out_is_lost() -> None:
    """All ENDs since the start are known."""
    whole = opened()
    whole.advance([end(1)])

    assert "the END of transaction 9 is missing" in str(stop_of(whole, row(9, 1, 0)))


def test_ends_of_one_step_may_come_in_any_order() -> None:
    """And those of a later step behind them: one that is before these was lost."""
    whole = opened()
    assert [1, 2, 3] == whole.advance([end(3), end(1), end(2)]).given
    waiting = opened()
    waiting.advance([end(2, a=1), end(4)])
    stop = stop_of(waiting, end(5), end(3))
    assert "END 30 of transaction 3 came for the first time after END 40" == stop.reason


def test_of_several_halts_of_a_transaction_the_first_by_its_words_is_reported() -> None:
    """Without their order: the sources may bring them in another one."""
    halts = [HaltRecord(1, None, reason, "start over") for reason in ("b", "a")]
    for one in (halts, halts[::-1]):
        whole = opened()
        whole.advance([*one, end(1)])
        assert halts[1] == whole.halt()
    mixed = [HaltRecord(1, after, "a", "start over") for after in (None, 5)]
    whole = opened()
    whole.advance([*mixed, end(1)])
    assert whole.halt() in mixed


def test_a_halt_of_a_transaction_that_has_one_already_counts_once() -> None:
    """And one after the other is found, too."""
    whole = opened()
    whole.advance([HaltRecord(1, 0, "truncated", "")])
    whole.advance([HaltRecord(2, 10, "truncated", "")])
    whole.advance([HaltRecord(2, 10, "and more", ""), end(1), end(2)])
    assert HaltRecord(1, 0, "truncated", "") == whole.halt()


def test_halts_of_several_transactions_are_found_in_turn() -> None:
    """As many as there are."""
    whole = opened()
    whole.advance([HaltRecord(tx, 10 * tx - 10, f"truncated by {tx}", "") for tx in (1, 2, 3)])
    assert whole.halt() is None
    whole.advance([end(1)])
    found = whole.halt()
    assert found is not None and "truncated by 1" == found.reason


def test_an_early_end_stops_a_snapshot_for_good() -> None:
    """Once the snapshot is given out the tables have what it may have had, too; before, nothing is given out."""
    late = opened(snapshot=True)
    late.advance([SNAP, SNAP_END])
    stop = stop_of(late, EndRecord.of(7, 4, {}))
    assert stop.lasting and "transaction 7 was committed at 4, not after the snapshot at 5" in stop.reason
    stop = stop_of(opened(snapshot=True), EndRecord.of(7, 4, {}), SNAP, SNAP_END)
    assert not stop.lasting and "transaction 7 was committed at 4" in stop.reason


def test_what_was_given_out_first_is_known_however_it_began() -> None:
    """A start from nothing, and one behind the very first commit."""
    whole = opened(AS_COMPLETE)
    whole.advance([EndRecord.of(1, 1, {"a": 1}), EndRecord.of(2, 2, {"a": 1}), row(2, 1, 1)])
    for commit, lost in ((1, False), (2, True)):
        recalled = ReleasedEnds[Tx](((commit, commit, {"a": 1}),), True, None)
        again = resumed(whole, recalled, AS_COMPLETE)
        assert lost == ("numbered 2, but its END 2 counts 1" in str(stop_of(again, row(2, 2, 1))))


def test_behind_a_snapshot_a_row_that_names_no_commit_comes_after_it() -> None:
    """It is a duplicate once more than the snapshot is given out."""
    whole = opened(snapshot=True)
    whole.advance([SNAP, SNAP_END])
    assert [1] == whole.advance([row(1, 1, None), end(1, a=1)]).given
    assert [] == whole.advance([row(1, 1, None), end(1, a=1)]).temp
    assert [*whole.content()][1:] == [ThroughRecord(10, 5)]
    again = resumed(whole, ReleasedEnds(((1, 10, {"a": 1}),), True, None), snapshot=True)
    assert [] == again.advance([row(1, 1, None), row(1, 1, 4), end(1, a=1)]).temp
    assert [ThroughRecord(5, 5)] == [*resumed(late_only_snapshot(), ends(), snapshot=True).content()][1:]


def late_only_snapshot() -> BoundTransactions:
    """All that is given out is the snapshot."""
    whole = opened(snapshot=True)
    whole.advance([SNAP, SNAP_END])
    return whole


def test_right_behind_a_snapshot_a_start_needs_no_end() -> None:
    """What names a commit before it is a duplicate, though no END is known."""
    again = resumed(late_only_snapshot(), ends(whole=False), snapshot=True)

    assert [] == again.advance([row(7, 1, 3)]).temp == late_only_snapshot().advance([row(7, 1, 3)]).temp
    assert [] == resumed(late_only_snapshot(), None, snapshot=True).advance([row(7, 1, 3)]).temp
    beyond = late_only_snapshot()
    beyond.advance([end(1), end(2)])
    stop = stop_of(resumed(beyond, ends(20, whole=False), snapshot=True), row(7, 1, 7))
    assert "is a duplicate cannot be known" in stop.reason


@pytest.mark.parametrize("records, reason", [
    ([SNAP, SNAP_END, SNAP._replace(order=("topic", 0, 1))],
     "there are 2 snapshot rows of a, but its notification states 1"),
    ([SNAP._replace(table="b"), SNAP_END], "there are 1 snapshot rows of b, but its notification states 0"),
    ([SNAP_END, EndRecord.of(SNAPSHOT, 5, {"a": 2})],
     "the Ends EndRecord(tx='snapshot', commit=5, counts=(('a', 1),)) and"),
])  # fmt: skip
@pytest.mark.parametrize("together", [False, True])
def test_a_snapshot_has_the_rows_that_its_end_counts(records: list[Any], reason: str, together: bool) -> None:
    """One more of any table, or another End, stops it."""
    whole = opened(snapshot=True)
    if not together:
        whole.advance(records[:1])
        records = records[1:]
        if len(records) > 1:
            return
    stop = stop_of(whole, *records)

    assert stop.reason.startswith(reason)
    assert NEW_SOURCE == stop.remedy or "snapshot rows" in reason


def test_counts_of_tables_that_are_not_captured_are_not_held() -> None:
    """They are another name in each process of a connector."""
    whole = opened()
    held, other = EndRecord.of(1, 10, {"a": 1}), EndRecord.of(1, 10, {"a": 1, "other@1b2c": 5})

    assert [(held, 1)] == whole.advance([other]).temp[1:] and [] == whole.advance([held]).temp


def test_a_snapshot_that_lacks_rows_lets_nothing_out() -> None:
    """As one that halts, and one whose transactions are whole already."""
    for ordering in (COMMIT_ORDER, AS_COMPLETE):
        whole = opened(ordering, snapshot=True)
        changed = whole.advance([EndRecord.of(SNAPSHOT, 5, {"a": 2}), SNAP, end(1)])
        assert ([], None) == (changed.given, whole.through)
        assert [SNAPSHOT, 1] == whole.advance([SNAP._replace(order=("topic", 0, 1))]).given
        halted = opened(ordering, snapshot=True)
        changed = halted.advance([HaltRecord(SNAPSHOT, 5, "a row without an id", ""), SNAP_END, SNAP, end(1)])
        assert ([], None) == (changed.given, halted.through) and halted.halt() is not None


def test_rows_of_a_snapshot_without_an_lsn_are_at_the_start() -> None:
    """All of them."""
    whole = opened(snapshot=True)
    first = SNAP._replace(after=None)
    whole.advance([first, first._replace(order=("topic", 0, 1), after=0)])

    assert [SNAPSHOT] == whole.advance([EndRecord.of(SNAPSHOT, 0, {"a": 2})]).given and 0 == whole.through


@pytest.mark.parametrize("known, at, lasting", [((), 5, False), ((1,), 15, False), ((1,), 10, True), ((1,), 5, True)])
def test_rows_of_a_snapshot_that_is_not_wanted(known: tuple[int, ...], at: int, lasting: bool) -> None:
    """For good, where what was committed after it is given out, in whatever order."""
    for ordering in (COMMIT_ORDER, AS_COMPLETE):
        whole = opened(ordering)
        whole.advance([end(tx) for tx in known])
        stop = stop_of(whole, SNAP._replace(after=at))
        assert lasting == stop.lasting and rules.NO_SNAPSHOT == stop.remedy
    ahead = opened(AS_COMPLETE)
    ahead.advance([end(1, a=1), end(2)])
    assert stop_of(ahead, SNAP._replace(after=20)).lasting
    assert not stop_of(opened(), SNAP._replace(after=1)).lasting


def test_behind_the_snapshot_all_of_its_kind_stops_it() -> None:
    """A row at no position that is known, a halt, a second snapshot."""
    halt = stop_of(late_only_snapshot(), HaltRecord(SNAPSHOT, 7, "an incremental snapshot", "start over"))
    assert ("an incremental snapshot", "start over") == (halt.reason, halt.remedy)
    assert "a row of the snapshot of a stands at 17," in str(stop_of(late_only_snapshot(), SNAP._replace(order=17)))
    zero = opened(snapshot=True)
    zero.advance([EndRecord.of(SNAPSHOT, 0, {})])
    assert rules.LACKED == stop_of(zero, SNAP._replace(after=None)).remedy


# -- restarts of a connector, and lost ENDs


def test_a_connector_that_renumbers_and_was_restarted_stops_the_transaction() -> None:
    """It stops one that was restarted, and one of which that is unknown; no other, and none that is given out."""
    for record in (RestartRecord(1), DoubtRecord(1)):
        assert "two BEGINs" in str(stop_of(opened(), record, row(1, 1, 0, renumbered=True)))
        whole = opened()
        whole.advance([row(1, 1, 0, renumbered=True)])
        assert "two BEGINs" in str(stop_of(whole, record))
        other = opened()
        assert [1] == other.advance([record, row(1, 1, 0), end(1, a=1), row(2, 1, 10, renumbered=True)]).given
        assert [] == other.advance([record, row(1, 1, 0, renumbered=True)]).temp


def test_a_start_may_not_know_whether_a_transaction_was_restarted() -> None:
    """The topic has lost the record before its BEGIN."""
    again = resumed(opened(), ReleasedEnds((), False, None, doubted=1))
    assert "cannot be known" in str(stop_of(again, row(1, 1, 0, renumbered=True)))


@pytest.mark.parametrize("ordering", [COMMIT_ORDER, AS_COMPLETE])
def test_a_restart_of_what_is_given_out_is_nothing(ordering: str) -> None:
    """Behind H, before an open one, and before its END comes again in the same step, or in a later one."""
    whole = opened(ordering)
    whole.advance([end(1), end(2, a=1), end(3)])
    assert [] == whole.advance([RestartRecord(1)]).temp
    if ordering == AS_COMPLETE:
        assert [] == whole.advance([RestartRecord(3)]).temp
    started, both = RestartRecord(9), end(9, a=1)
    held = whole.held
    assert [(started, 1)] == whole.advance([started]).temp and held + 1 == whole.held
    assert [(both, 1)] == whole.advance([both]).temp and held + 2 == whole.held


def unknown_restart(*, known: int) -> BoundTransactions:
    """So many transactions are given out, without rows; of the first one nothing is known any more."""
    whole = opened()
    whole.advance([end(tx) for tx in range(1, known + 1)])
    return whole


def test_a_restart_of_a_transaction_that_is_long_given_out_is_dropped_with_its_end() -> None:
    """It is held until that END comes again, and then of nothing is left."""
    whole = unknown_restart(known=2100)
    held, started = whole.held, RestartRecord(1)
    assert [(started, 1)] == whole.advance([started]).temp
    assert [(started, -1)] == whole.advance([end(1)]).temp and held == whole.held
    assert [] == whole.advance([started, end(1)]).temp and held == whole.held
    whole.advance([RestartRecord(2), RestartRecord(3)])
    assert [(RestartRecord(2), -1)] == whole.advance([end(2)]).temp and held + 1 == whole.held
    assert started not in [*whole.content()] and RestartRecord(3) in [*whole.content()]
    assert [] == whole._tracker.without_end() and {3} == whole._tracker._restarted


@pytest.mark.parametrize("open_end", [True, False])
def test_a_begin_without_an_end_stops_it_at_the_next_end(open_end: bool) -> None:
    """If an END is in that is not given out: the first behind the last that was before the BEGIN."""
    whole = opened()
    whole.advance([end(1)])
    last = end(4, a=1) if open_end else end(4)
    stop = stop_of(whole, UnendedRecord(3, 10, 40), last)

    assert LOST == stop.remedy
    assert "the END of transaction 3 is missing: it comes after the commit 10 and before the next one" in stop.reason
    assert [4] == whole_but(UnendedRecord(1, 10, 40))
    late = stop_of(opened(), UnendedRecord(3, 10, 40), end(1), end(4), EndRecord.of(3, 30, {}))
    assert stop.reason == late.reason


def whole_but(unended: UnendedRecord) -> list[Tx]:
    """What is given out though there was such a BEGIN: its END is there, or was."""
    whole = opened()
    whole.advance([end(1)])
    return whole.advance([unended, end(4)]).given


def test_the_end_of_a_step_names_a_lost_one_with_its_remedy() -> None:
    """A row shows it."""
    stop = stop_of(opened(), row(3, 1, 20), end(4, a=1))

    assert LOST == stop.remedy


# -- copies


def test_of_copies_the_first_step_counts() -> None:
    """Later ones change nothing, whatever they name."""
    whole = opened()
    whole.advance([row(7, 1, 50), end(5, a=1)])
    assert [] == whole.advance([row(7, 1, 40, renumbered=True)]).temp
    assert 2 == whole.held
    assert "two BEGINs" not in str(whole.advance([RestartRecord(7)]))


class Content:
    """A state that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Tx] = []

    def take(self, tx: Tx, rows: Iterable[RowRecord]) -> list[tuple[str, list[tuple[Any, int]]]]:
        """As the rows have it."""
        self.asked.append(tx)
        return [(one.table, list(one.changes)) for one in rows]


def test_the_state_is_asked_by_transaction() -> None:
    """Which one it is decides what it names in a stop."""
    state = Content()
    whole = BoundTransactions(StartRecord(COMMIT_ORDER, ("a",), False, True), state)
    whole.advance([row(2, 1, 10), end(1, a=1), end(2, a=1), row(1, 1, 0)])

    assert [1, 2] == state.asked


def test_what_is_held_is_found_again_by_the_next_run() -> None:
    """A transaction that was given out before an earlier one, as such."""
    whole = opened(AS_COMPLETE)
    whole.advance([row(2, 1, 10), end(1, a=1), end(2, a=1)])
    again = resumed(whole, ends(), AS_COMPLETE)
    held: list[OpenRecord] = [StartRecord(AS_COMPLETE, ("a", "b"), False), ReleaseRecord(2, 20), end(1, a=1)]
    assert held == [*again.content()] and again.has_released and 2 == again.held
    assert ([1], 20) == (again.advance([row(1, 1, 0)]).given, again.through)


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_of_several_contradictions_at_one_time_the_same_one_stops_every_capture(order: tuple[int, ...]) -> None:
    """One that lasts: each capture reads the records of a time in an order of its own."""
    whole = opened()
    whole.advance([row(1, 1, None), end(1, a=1)])
    late, one, other = row(1, 2, None), row(2, 1, 10), RowRecord("a", 2, ("a", 1), 10, (("other", 1),), 1)
    stop = stop_of(whole, *([late, one, other][at] for at in order))

    assert stop.lasting and "transaction 1 has a row of a numbered 2, but its END 10 counts 1" in stop.reason
