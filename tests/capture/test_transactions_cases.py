"""Each thing that a source of transactions is known to do, once, and each that it must not do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from cdcv2.capture.open_records import (
    SNAPSHOT, EndRecord, HaltRecord, OpenRecord, ReleaseRecord, RowRecord, SourceRecord, StartRecord, ThroughRecord, Tx,
)
from cdcv2.capture.table_content import UNRESOLVED, UnknownChange
from cdcv2.capture.transactions_on_timeline import Transactions
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MalformedError, RefusedError, SourceStop, UsageError
from cdcv2.protocol.messages import Update
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER, check_ordered

BEGUN = StartRecord(COMMIT_ORDER, ("a", "b"), False)
#: Transaction 1 comes before transaction 2.
A1, A2, END1 = (
    RowRecord("a", 1, 1, None, (("x", 1),)),
    RowRecord("a", 1, 2, None, (("y", 1),)),
    EndRecord.of(1, 10, {"a": 2}),
)
B1, END2 = RowRecord("b", 2, 1, 10, (("z", 1),)), EndRecord.of(2, 20, {"b": 1})


def operator(**more: Any) -> Transactions:
    """One that captures two tables."""
    return Transactions(["b", "a"], **more)


def step(transactions: Transactions, time: int, *said: SourceRecord) -> tuple[list[Any], set[tuple[OpenRecord, int]]]:
    """What all tables get at a time, and what TEMP does, when these records come at it and no more."""
    summary = transactions.updates([(one, time, 1) for one in said], Antichain([time + 1]))
    assert {time} >= {at for updates in (*summary.output.values(), summary.temp) for _, at, _ in updates}
    output = [(data, diff) for table in ("a", "b") for data, _, diff in summary.output[table]]
    return sorted(output), {(held, diff) for held, _, diff in summary.temp}


def test_rows_before_their_end_and_an_end_before_its_rows() -> None:
    """The last record that is missing decides the time, whichever it is."""
    one, other = operator(), operator()

    assert ([], {(BEGUN, 1), (A1, 1), (A2, 1)}) == step(one, 5, A1, A2)
    assert ([("x", 1), ("y", 1)], {(A1, -1), (A2, -1), (ThroughRecord(10, 0), 1)}) == step(one, 6, END1)
    assert ([], {(BEGUN, 1), (END1, 1)}) == step(other, 5, END1)
    assert ([], {(A2, 1)}) == step(other, 6, A2)
    assert ([("x", 1), ("y", 1)], {(END1, -1), (A2, -1), (ThroughRecord(10, 0), 1)}) == step(other, 7, A1)


def test_a_transaction_larger_than_any_step() -> None:
    """Its rows are in TEMP, and out of it at once."""
    transactions, size = operator(), 1000
    rows = [RowRecord("a", 1, number, None, ((number, 1),)) for number in range(size)]
    for time, first in enumerate(range(0, size, 100)):
        assert [] == step(transactions, time, *rows[first:first + 100])[0]
    assert size == transactions.held
    output, temp = step(transactions, 20, EndRecord.of(1, 10, {"a": size}))

    assert (size, size + 1, 0) == (len(output), len(temp), transactions.held)


def test_what_comes_again_is_nothing() -> None:
    """Ends and rows, before the transaction is given out, with it, and after it."""
    transactions = operator()
    assert {(BEGUN, 1), (A1, 1), (END1, 1)} == step(transactions, 1, A1, END1)[1]
    assert ([], set()) == step(transactions, 2, A1, END1)
    assert [("x", 1), ("y", 1)] == step(transactions, 3, A2, A1, END1)[0]
    assert ([], set()) == step(transactions, 4, A1, A2, END1)
    assert [("z", 1)] == step(transactions, 5, END2, B1, END1)[0]

    assert ([], set()) == step(transactions, 6, B1, A2, END2, END1)


def test_what_is_not_captured_and_what_is_empty_moves_h() -> None:
    """Nothing waits for rows of tables that are not captured; if such rows are read all the same they are ignored."""
    transactions = operator()
    elsewhere = RowRecord("other", 1, 1, None, (("x", 1),))
    assert ([], {(BEGUN, 1), (ThroughRecord(10, 0), 1)}) == step(
        transactions, 1, EndRecord.of(1, 10, {"other": 5}), elsewhere
    )

    assert ([], {(ThroughRecord(10, 0), -1), (ThroughRecord(11, 0), 1)}) == step(
        transactions, 2, EndRecord.of(2, 11, {})
    )
    assert (11, 0) == (transactions.through, transactions.held)


def test_a_later_transaction_waits_for_an_earlier_one() -> None:
    """By the order of commits; as soon as it is complete if so asked, and then TEMP keeps that it was released."""
    ordered, eager = operator(), operator(ordering=AS_COMPLETE)
    assert [] == step(ordered, 1, END1, A1, END2, B1)[0]
    assert [("x", 1), ("y", 1), ("z", 1)] == step(ordered, 2, A2)[0]
    begun = StartRecord(AS_COMPLETE, ("a", "b"), False)

    assert ([("z", 1)], {(begun, 1), (A1, 1), (END1, 1), (ReleaseRecord(2, 20), 1)}) == step(
        eager, 1, END1, A1, END2, B1
    )
    assert ([], set()) == step(eager, 2, B1, END2)
    assert (
        [("x", 1), ("y", 1)],
        {(A1, -1), (END1, -1), (ReleaseRecord(2, 20), -1), (ThroughRecord(20, 0), 1)},
    ) == step(eager, 3, A2)
    assert ([], set()) == step(eager, 4, B1, END2, A1, A2, END1)


def test_changes_that_cancel_are_none() -> None:
    """Over all rows of the transactions of a time."""
    gone = RowRecord("b", 3, 1, 20, (("z", -1),))

    assert (
        [] == step(operator(), 1, END1, A1, EndRecord.of(2, 20, {"b": 1}), B1, gone, EndRecord.of(3, 30, {"b": 1}))[0]
    )
    transactions = operator()
    step(transactions, 1, EndRecord.of(1, 10, {}), EndRecord.of(2, 20, {"b": 1}), B1, gone)
    assert ([("z", -1)], 0) == (step(transactions, 2, EndRecord.of(3, 30, {"b": 1}))[0], transactions.held)


def test_ten_thousand_open_transactions_are_held_once_and_then_not_at_all() -> None:
    """What is held is what is open: each row and each End once, however often they come."""
    transactions, number, each = operator(), 10_000, 3
    rows = [[RowRecord("a", tx, order, 0, ((tx, 1),)) for tx in range(number)] for order in range(each)]
    ends = [EndRecord.of(tx, tx + 1, {"a": each}) for tx in range(number)]
    for time, batch in enumerate(rows[:-1] * 2):
        step(transactions, time, *batch)
    assert (each - 1) * number == transactions.held
    step(transactions, 10, *ends, *ends)
    assert each * number == transactions.held
    # The first one holds back the others; then all go at once.
    assert [] == step(transactions, 11, *rows[-1][1:])[0]
    assert (each + 1) * number - 1 == transactions.held
    output, temp = step(transactions, 12, rows[-1][0])

    assert (number, {each}) == (len(output), {diff for _, diff in output})
    assert ((each + 1) * number - 1 + 1, 0) == (len(temp), transactions.held)
    assert {BEGUN, ThroughRecord(number, 0)} == transactions.temp()


def test_many_transactions_in_turn_leave_nothing_behind() -> None:
    """Memory is bounded by what is open, not by what there was; also where the first one hangs."""
    transactions = operator(ordering=AS_COMPLETE)
    for number in range(1, 2001):
        row = RowRecord("a", number, 1, number - 1, ((number, 1),))
        step(transactions, number, row, EndRecord.of(number, number, {"a": 1}))
        assert 0 == transactions.held
    assert 2 == len(transactions.temp())


@pytest.mark.parametrize("said, reason", [
    ([A1, A1._replace(changes=())], "two different rows of a, both with total_order 1"),
    ([END1, EndRecord.of(1, 10, {"a": 3})], "END 10 states both that transaction 1 has"),
    ([END1, EndRecord.of(1, 12, {"a": 2})], "END 1[02] of transaction 1 came for the first time after"),
    ([END1, EndRecord.of(2, 10, {"a": 2})], "END 10 states both that transaction"),
    ([A1, A2, EndRecord.of(1, 10, {"a": 1, "b": 1})], "has 2 rows of a, numbered up to 2, but its END 10 counts 1"),
    ([A1, EndRecord.of(1, 10, {"b": 1})], "has 1 rows of a, numbered up to 1, but its END 10 counts 0"),
    ([A1._replace(number=2), EndRecord.of(1, 10, {"a": 1})],
     "has 1 rows of a, numbered up to 2, but its END 10 counts 1"),
    ([A1._replace(number=1), A1._replace(number=2)], "two different rows of a with total_order 1, numbered 1 and 2"),
    ([A1._replace(number=1), A2._replace(number=1)],
     "two different rows of a numbered 1, with total_order 1 and 2"),
    ([RowRecord("a", SNAPSHOT, 1, 3, ())], "snapshot, at 3, and no snapshot is wanted"),
])  # fmt: skip
@pytest.mark.parametrize("turned", (False, True))
@pytest.mark.parametrize("together", (False, True))
def test_sources_that_contradict_themselves_stop_it(
    said: list[SourceRecord], reason: str, turned: bool, together: bool
) -> None:
    """At the time of the second record, or of both, in whatever order; before it all is given out, after it nothing."""
    transactions = operator()
    if turned:
        said = said[::-1]
    steps = [said] if together else [[one] for one in said]
    updates: list[Update] = [(one, time, 1) for time, batch in enumerate(steps, 1) for one in batch]
    summary = transactions.updates(updates, Antichain([9]))
    assert transactions.stop is not None and re.search(reason, str(transactions.stop))

    at = 1 if together else len(said)
    assert Antichain([at]) == summary.frontier
    assert (summary.frontier if transactions.through else None) == transactions.stop.frontier
    assert {True} >= {time < at for _, time, _ in summary.temp}
    with pytest.raises(SourceStop):
        transactions.updates([])


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_stop_before_anything_is_given_out_states_nothing(snapshot: bool) -> None:
    """The line does not call logs complete in which there is nothing yet."""
    transactions = operator(snapshot=snapshot)
    twice, surplus = [SNAP, SNAP._replace(order=("topic", 0, 1), after=6)], [END1, A1._replace(order=9, number=9)]
    said: list[SourceRecord] = [*(twice if snapshot else surplus)]
    transactions.updates([(one, 1, 1) for one in said], Antichain([2]))

    assert transactions.stop is not None and transactions.stop.frontier is None
    assert "complete up to" not in str(transactions.stop)


def test_an_end_that_was_never_seen_cannot_come_late() -> None:
    """Ends come in the order of their commits, or the order of what was given out would be another."""
    transactions = operator()
    step(transactions, 1, END2)
    transactions.updates([(END1, 2, 1)], Antichain([3]))

    assert transactions.stop is not None and "came for the first time after END 20" in str(transactions.stop)


def test_what_no_update_can_say_stops_it_when_its_turn_comes() -> None:
    """Everything before it is given out first, and so it is after a restart."""
    halt = HaltRecord(2, 10, "the table b was truncated", "Capture it anew")
    transactions, updates = operator(), list[Update]()
    for time, said in enumerate(([halt], [END1, A1], [END2, B1], [A2]), 1):
        assert transactions.stop is None
        summary = transactions.updates([(one, time, 1) for one in said], Antichain([time + 1]))
        updates += summary.temp
    assert (10, [("x", 4, 1), ("y", 4, 1)]) == (transactions.through, summary.output["a"])
    assert transactions.stop is not None and "truncated" in transactions.stop.reason
    again = operator(temp=updates, frontier=Antichain([5]))

    assert str(transactions.stop) == str(again.stop)
    assert operator(temp=updates, frontier=Antichain([4])).stop is None


def test_without_the_order_of_commits_it_stops_as_soon_as_the_end_is_in() -> None:
    """There is no turn to wait for."""
    transactions = operator(ordering=AS_COMPLETE)
    step(transactions, 1, HaltRecord(2, 10, "truncated", "Start over"), A1)
    assert transactions.stop is None
    step(transactions, 2, END1, END2)

    assert transactions.stop is not None and transactions.stop.frontier is None


SNAP = RowRecord("a", SNAPSHOT, ("topic", 0, 0), 5, (("s", 1),))


def test_the_snapshot_comes_first() -> None:
    """Nothing is given out before it; afterwards its End is a repeat."""
    transactions = operator(snapshot=True)
    assert [] == step(transactions, 1, A1, A2, END1, SNAP)[0] and transactions.through is None
    step(transactions, 2, B1)
    output, temp = step(transactions, 3, EndRecord.of(SNAPSHOT, 5, {"a": 1}))
    assert [("s", 1), ("x", 1), ("y", 1)] == output
    assert {(SNAP, -1), (A1, -1), (A2, -1), (END1, -1), (ThroughRecord(10, 5), 1)} == temp

    assert ([], set()) == step(transactions, 4, EndRecord.of(SNAPSHOT, 5, {"a": 1}), A1, SNAP._replace(table="z"))
    assert [("z", 1)] == step(transactions, 5, END2)[0]


@pytest.mark.parametrize("said, reason", [
    ([SNAP, SNAP._replace(order=2, after=6)], "snapshots at [5, 6]"),
    ([SNAP, EndRecord.of(SNAPSHOT, 6, {"a": 1})], "snapshots at [5, 6]"),
    ([SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1}), END1, A1, A2, SNAP._replace(after=11)], "second snapshot of a, at 11"),
    ([SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1}), SNAP._replace(order=("topic", 0, 1))],
     "a row of the snapshot of a stands at topic[0]@1,"),
    ([SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1}), END1, A1, A2, SNAP._replace(after=7)], "second snapshot of a, at 7"),
    ([SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1}), END1, A1, A2, HaltRecord(SNAPSHOT, 7, "incremental", "")],
     "incremental"),
    ([SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1}), HaltRecord(SNAPSHOT, None, "of no transaction", "")],
     "of no transaction"),
    ([SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1}), EndRecord.of(SNAPSHOT, 6, {"a": 1})],
     "second snapshot of all tables, at 6"),
    ([SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1}), EndRecord.of(3, 4, {})],
     "committed at 4, not after the snapshot at 5"),
    ([EndRecord.of(3, 4, {}), SNAP, EndRecord.of(SNAPSHOT, 5, {"a": 1})],
     "committed at 4, not after the snapshot at 5"),
    ([HaltRecord(SNAPSHOT, 5, "a row without an id", "Start over")], "a row without an id"),
])  # fmt: skip
def test_a_snapshot_that_cannot_be_right_stops_it(said: list[SourceRecord], reason: str) -> None:
    """A second one, one at two places, one before which something was committed."""
    transactions = operator(snapshot=True)
    transactions.updates([(one, time, 1) for time, one in enumerate(said)], Antichain([9]))

    assert transactions.stop is not None and reason in str(transactions.stop)


def test_how_it_was_begun_is_told_for_ever() -> None:
    """TEMP of another capture is refused; so is what needs the order of commits, where there is none."""
    eager = operator(ordering=AS_COMPLETE)
    temp = eager.updates([(A1, 1, 1)], Antichain([2])).temp
    for more in ({}, {"ordering": AS_COMPLETE, "snapshot": True}):
        with pytest.raises(ForeignStateError, match="begun as"):
            operator(temp=temp, frontier=Antichain([2]), **more)
    with pytest.raises(ForeignStateError, match="2 times"):
        operator(ordering=AS_COMPLETE, temp=temp * 2, frontier=Antichain([2]))
    with pytest.raises(RefusedError, match="a view needs"):
        check_ordered(next(held.ordering for held in eager.temp() if isinstance(held, StartRecord)), "a view")
    with pytest.raises(UsageError, match="ordering"):
        operator(ordering="random")

    check_ordered(COMMIT_ORDER, "a view")


@pytest.mark.parametrize("updates, frontier", [
    ([(A1, 4, 1)], None), ([(A1, 7, -1)], None), ([], Antichain([3])), ([(A1, "x", 1)], None),
])  # fmt: skip
def test_what_is_fed_wrongly_is_named(updates: Iterable[Update], frontier: Antichain | None) -> None:
    """Records at times that were finished, ones that are taken back, frontiers that go back."""
    transactions = operator()
    transactions.updates([], Antichain([5]))
    with pytest.raises(MalformedError):
        transactions.updates(updates, frontier)


@pytest.mark.parametrize("commit", (0, -1, 1.5, None))
def test_a_commit_is_a_number(commit: Any) -> None:
    """From 1 on: H begins at 0. A snapshot may be at 0."""
    assert 0 == EndRecord.of(SNAPSHOT, 0, {}).commit
    with pytest.raises(MalformedError, match="no commit"):
        EndRecord.of(1, commit, {})


# -- old rows from the state


class Numbers:
    """A state: a partial change is a number to add, and the content is the sum; it may not be above ten."""

    def __init__(self, content: int = 0) -> None:
        self.content = content

    def take(self, tx: Tx, rows: Iterable[RowRecord]) -> list[tuple[str, list[tuple[Any, int]]]]:
        """Takes the old sum away, and gives the new one."""
        before = self.content
        self.content += sum(data for row in rows for data, _ in row.changes)
        if self.content > 10:
            raise UnknownChange(f"{self.content} is above ten", "Start over")
        return [("a", [(before, -1), (self.content, 1)])]


def told(tx: int, number: int, after: int | None = None) -> RowRecord:
    """A number to add."""
    return RowRecord("a", tx, 1, after, ((number, UNRESOLVED),))


def test_the_state_is_asked_in_the_order_of_commits() -> None:
    """Whichever is whole first."""
    transactions = operator(state=Numbers())
    two, ends = told(2, 3, 10), (EndRecord.of(1, 10, {"a": 1}), EndRecord.of(2, 20, {"a": 1}))
    held = {(one, 1) for one in (replace(BEGUN, looked_up=True), two, *ends)}
    assert ([], held) == step(transactions, 1, two, *ends)
    output, _ = step(transactions, 2, told(1, 4))

    # 0 to 4 to 7, at one time.
    assert [(0, -1), (7, 1)] == output


def test_what_the_state_cannot_know_halts_it() -> None:
    """What is before it is released at the same time; the halt stands in TEMP, and the next run finds it there."""
    transactions = operator(state=Numbers())
    ends = EndRecord.of(1, 10, {"a": 1}), EndRecord.of(2, 20, {"a": 1}), EndRecord.of(3, 30, {"a": 1})
    two, three = told(2, 7, 10), told(3, 1, 20)
    output, temp = step(transactions, 5, told(1, 4), two, three, *ends)
    halt = HaltRecord(2, None, "11 is above ten", "Start over")

    assert [(0, -1), (4, 1)] == output
    assert {two, three, *ends[1:], halt, ThroughRecord(10, 0), replace(BEGUN, looked_up=True)} == {
        one for one, _ in temp
    }
    for stopped in (transactions, operator(state=Numbers(4), temp=[(one, 5, 1) for one, _ in temp],
                                           frontier=Antichain([6]))):
        with pytest.raises(SourceStop, match="11 is above ten") as stop:
            step(stopped, 6)
        assert Antichain([6]) == stop.value.frontier


@pytest.mark.parametrize("ordering", [COMMIT_ORDER, AS_COMPLETE])
def test_the_end_of_a_transaction_that_only_truncated_is_missed(ordering: str) -> None:
    """A record that halts names the commit before its own, as a row does, so its END is lost when a later one comes."""
    transactions = operator(ordering=ordering)
    step(transactions, 5, A1, A2, END1, HaltRecord(2, 10, "public.a was truncated", "Start over"))

    assert ([], set()) == step(transactions, 6, RowRecord("b", 3, 1, 20, (("z", 1),)), EndRecord.of(3, 30, {"b": 1}))
    assert "the END of transaction 2 is missing" in str(transactions.stop)


@pytest.mark.parametrize("ordering", [COMMIT_ORDER, AS_COMPLETE])
def test_what_no_update_can_say_and_no_end_counts_stops_behind_what_is_given_out(ordering: str) -> None:
    """It is no duplicate, as a row above that count is none; one that was counted is."""
    transactions = operator(ordering=ordering)
    step(transactions, 5, A1, A2, END1)
    step(transactions, 6, HaltRecord(1, None, "public.a was truncated", "Start over", "a", 1))
    assert transactions.stop is None
    step(transactions, 7, HaltRecord(1, None, "public.a was truncated", "Start over", "a", 9))

    assert transactions.stop is not None and transactions.stop.lasting
    assert "has a row of a numbered 9, but its END" in str(transactions.stop)


def test_one_that_waited_halts_when_its_turn_comes() -> None:
    """The halt is all that is new of it in TEMP."""
    transactions = operator(state=Numbers())
    step(transactions, 5, told(2, 7, 10), EndRecord.of(1, 10, {"a": 1}), EndRecord.of(2, 20, {"a": 1}))
    output, temp = step(transactions, 6, told(1, 4))
    halt = HaltRecord(2, None, "11 is above ten", "Start over")

    assert [(0, -1), (4, 1)] == output
    assert {(EndRecord.of(1, 10, {"a": 1}), -1), (ThroughRecord(10, 0), 1), (halt, 1)} == temp
    assert halt in transactions.temp()


def test_a_state_goes_with_the_order_of_commits_alone() -> None:
    """And a capture that looks up does not go on with the TEMP of one that does not."""
    with pytest.raises(RefusedError, match="looking up before-images needs the state before each transaction"):
        operator(state=Numbers(), ordering=AS_COMPLETE)
    with pytest.raises(ForeignStateError, match="was begun as"):
        operator(state=Numbers(), temp=[(BEGUN, 1, 1)], frontier=Antichain([2]))
