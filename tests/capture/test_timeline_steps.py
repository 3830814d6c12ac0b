"""Transactions at the times of a timeline, step by step: what a step gives out, where it stops, and how it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from cdcv2.capture.open_records import (
    SNAPSHOT, EndRecord, HaltRecord, RowRecord, SourceRecord, StartRecord, ThroughRecord, Tx, UnendedRecord,
)
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.row_counts import RowCounts
from cdcv2.capture.source_words import ANY_SOURCE, SourceWords
from cdcv2.capture.table_content import UNRESOLVED
from cdcv2.capture.transaction_contradictions import NEW_SOURCE
from cdcv2.capture.transactions_on_timeline import TransactionSummary, Transactions, resume
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MalformedError, RefusedError, SourceStop, UsageError
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER
from cdcv2.timeline.remap import Remap

HALT = HaltRecord(8, 70, "it was truncated", "capture again", "a", 1)
FIRST = [EndRecord.of(7, 70, {"a": 1})]


def row(tx: Tx, number: int, after: int | None = 0, table: str = "a", diff: int = 1) -> RowRecord:
    """A row of a table, called by its transaction and its number."""
    return RowRecord(table, tx, (table, number), after, ((f"{tx}.{number}", diff),), number)


def at(time: int, *records: Any) -> list[Any]:
    """These records at a time."""
    return [(record, time, 1) for record in records]


def until(time: int) -> Antichain:
    """All times before this one are complete."""
    return Antichain([time])


def step(one: Transactions, time: int, *records: SourceRecord | UnendedRecord) -> TransactionSummary:
    """These records at a time, which is then complete."""
    return one.updates(at(time, *records), until(time + 1))


class Table:
    """A table of which every change is called by what it was before."""

    def take(self, tx: Tx, rows: Iterable[RowRecord]) -> list[tuple[str, list[tuple[Any, int]]]]:
        """The number of the transaction goes with each."""
        return [(one.table, [(f"{tx} {data}", 1) for data, _ in one.changes]) for one in rows]


# -- how it begins


def test_it_begins_at_the_first_time() -> None:
    """Nothing is out then, and nothing is known to be there."""
    one = Transactions(["a"])
    summary = one.updates([], until(0))

    assert until(0) == one.frontier == summary.frontier and not one.has_started and one.stop is None
    assert ({"a": []}, [], {}, {}) == (summary.output, summary.temp, summary.given, summary.begins)
    assert [("7.1", 0, 1)] == step(one, 0, row(7, 1), *FIRST).output["a"] and 70 == one.through


@pytest.mark.parametrize("state", [None, Table()])
@pytest.mark.parametrize("snapshot", [False, True])
def test_how_it_began_is_in_temp(snapshot: bool, state: Table | None) -> None:
    """The tables sorted, each once; and whether there is a snapshot, and old rows are looked up."""
    one = Transactions(["b", "a", "b"], snapshot=snapshot, state=state)
    start = StartRecord(COMMIT_ORDER, ("a", "b"), snapshot, state is not None)

    assert [(start, 3, 1), (row(7, 1), 3, 1)] == step(one, 3, row(7, 1)).temp
    assert {start, row(7, 1)} == one.temp() and 1 == one.held and snapshot != one.has_started


def test_an_ordering_is_one_of_two() -> None:
    """And old rows are looked up in the order of commits only."""
    with pytest.raises(UsageError, match="the ordering is 'commit' or .*, not 'other'"):
        Transactions(["a"], ordering="other")
    with pytest.raises(RefusedError, match="looking up before-images"):
        Transactions(["a"], ordering=AS_COMPLETE, state=Table())


def test_old_rows_are_looked_up_in_the_state() -> None:
    """Of each transaction."""
    change = RowRecord("a", 7, 1, 0, (("deleted", UNRESOLVED),), 1)

    assert [("7 deleted", 3, 1)] == step(Transactions(["a"], state=Table()), 3, change, *FIRST).output["a"]


def test_tables_that_the_connector_did_not_report_begin_with_their_first_rows() -> None:
    """At the time of these; of which some are in no record stays so."""
    one = Transactions(["a", "b", "c"], uncovered=["a", "b"], partial=["b"])
    one.uncover(["c"])
    assert ({"a", "b", "c"}, {"b"}) == (one.uncovered, one.partial)
    summary = step(one, 3, row(7, 1), EndRecord.of(7, 70, {"a": 1}))

    assert {"a": 3} == summary.begins and {"b", "c"} == one.uncovered
    assert {"c": 4} == step(one, 4, row(8, 1, 70, "c"), EndRecord.of(8, 80, {"c": 1})).begins


def test_a_row_may_show_that_its_table_had_others() -> None:
    """Then the table is partial, and none of its rows is given out."""
    one = Transactions(["a"], uncovered=["a"], had=lambda record: True)
    summary = step(one, 3, row(7, 1), *FIRST)

    assert [] == summary.output["a"] and {"a"} == one.partial and {7: 3} == summary.given


def test_what_stops_it_has_the_words_of_its_database() -> None:
    """In TEMP, too: what reads it there knows no other words."""
    one = Transactions(["a"], counted=RowCounts({"a": (0, 0)}), words=SourceWords(slot="bookmark"))
    step(one, 1, EndRecord.of(1, 10, {"a": 1}), row(1, 1, diff=-1))

    assert one.stop is not None and "a new bookmark, new topics" in one.stop.remedy
    assert [one.stop.remedy] == [held.remedy for held in one.temp() if isinstance(held, HaltRecord)]


def test_a_table_has_no_more_rows_than_were_counted() -> None:
    """From the time on of which the number is."""
    one = Transactions(["a"], counted=RowCounts({"a": (0, 4)}))
    assert [("7.1", 3, -1)] == step(one, 3, row(7, 1, diff=-1), *FIRST).output["a"]
    summary = step(one, 4, row(8, 1, 70, diff=-1), EndRecord.of(8, 80, {"a": 1}))

    assert [] == summary.output["a"] and one.stop is not None and "transaction 8 changes or deletes" in str(one.stop)


# -- steps


def test_records_wait_for_their_time() -> None:
    """Each once, as often as it comes; times are finished in order."""
    one = Transactions(["a"])
    early, late = at(3, row(7, 1), row(7, 1)), at(5, *FIRST)
    summary = one.updates([*late, *early, *early])

    assert ({"a": []}, [], until(0)) == (summary.output, summary.temp, summary.frontier)
    assert 2 == one.held and set() == one.temp() and until(0) == one.frontier
    summary = one.updates([], until(4))
    assert [3, 3] == [time for _, time, _ in summary.temp] and until(4) == summary.frontier == one.frontier
    assert 2 == one.held and not one.updates([], until(5)).temp
    summary = one.updates([], until(6))
    assert [("7.1", 5, 1)] == summary.output["a"] and {7: 5} == summary.given and 0 == one.held
    assert [(row(7, 1), 5, -1), (ThroughRecord(70, 0), 5, 1)] == summary.temp


def test_each_table_has_its_own_updates() -> None:
    """Of several times in one call."""
    one = Transactions(["a", "b"])
    summary = one.updates([
        *at(3, row(7, 1), row(7, 1, table="b"), EndRecord.of(7, 70, {"a": 1, "b": 1})),
        *at(4, row(8, 1, 70), EndRecord.of(8, 80, {"a": 1})),
    ], until(5))  # fmt: skip

    assert {"a": [("7.1", 3, 1), ("8.1", 4, 1)], "b": [("7.1", 3, 1)]} == summary.output
    assert {7: 3, 8: 4} == summary.given
    assert until(5) == one.frontier and one.has_started


def test_all_times_may_be_complete() -> None:
    """Then nothing is to come."""
    one = Transactions(["a"])
    summary = one.updates(at(3, row(7, 1), *FIRST), Antichain())

    assert [("7.1", 3, 1)] == summary.output["a"] and Antichain() == one.frontier


def test_sources_only_add() -> None:
    """A record that is taken back, or that has no effect, is none of theirs."""
    for diff in (-1, 0):
        with pytest.raises(MalformedError, match="was taken back at 3"):
            Transactions(["a"]).updates([(row(7, 1), 3, diff)])
    summary = Transactions(["a"]).updates([(row(7, 1), 3, 5), *at(3, *FIRST)], until(4))
    assert [("7.1", 3, 1)] == summary.output["a"]


def test_what_is_finished_does_not_change() -> None:
    """A record at such a time was not there when it was stated to be."""
    one = Transactions(["a"])
    one.updates(at(3, row(7, 1)), until(4))
    with pytest.raises(MalformedError, match="came at 3, and all before"):
        one.updates(at(3, row(7, 2)))
    one.updates(at(4, *FIRST))

    assert 2 == one.held


def test_what_is_complete_stays_so() -> None:
    """The same may be stated again, and not less."""
    one = Transactions(["a"])
    one.updates([], until(4))
    one.updates([], until(4))
    with pytest.raises(MalformedError, match="complete up to .*4.*, and now up to .*3.* only"):
        one.updates([], until(3))


# -- stops


def test_a_contradiction_stops_it_at_its_time() -> None:
    """What was before it is given out, and where the output is complete is known; nothing comes after it."""
    one = Transactions(["a"])
    summary = one.updates([
        *at(3, row(7, 1), *FIRST), *at(5, row(8, 1, 70), row(8, 2, 70), EndRecord.of(8, 80, {"a": 1})),
        *at(6, row(9, 1, 80)),
    ], until(9))  # fmt: skip
    stop = one.stop

    assert [("7.1", 3, 1)] == summary.output["a"] and until(5) == summary.frontier == one.frontier
    assert stop is not None and until(5) == stop.frontier and not stop.lasting
    assert ANY_SOURCE.fill(NEW_SOURCE) == stop.remedy
    assert "transaction 8 has 2 rows of a, numbered up to 2, but its END 80 counts 1" == stop.reason
    with pytest.raises(SourceStop) as again:
        one.updates([])
    assert again.value is stop


def test_a_contradiction_before_anything_is_given_out_states_nothing() -> None:
    """No output is complete up to anywhere."""
    one = Transactions(["a"])
    step(one, 5, row(8, 1), row(8, 2), EndRecord.of(8, 80, {"a": 1}))

    assert until(5) == one.frontier and one.stop is not None and one.stop.frontier is None


def test_a_contradiction_of_what_is_given_out_lasts() -> None:
    """It is of what is stated, also if nothing was given out after all."""
    one = Transactions(["a"], temp=[(StartRecord(COMMIT_ORDER, ("a",), True), 1, 1)], snapshot=True, frontier=until(2))
    step(one, 3, RowRecord("a", SNAPSHOT, ("a", 0, 1), 50, (("s", 1),)), EndRecord.of(SNAPSHOT, 50, {"a": 1}))
    step(one, 5, EndRecord.of(8, 40, {}))

    assert one.stop is not None and one.stop.lasting and until(5) == one.stop.frontier == one.frontier


def test_a_lasting_contradiction_is_of_what_is_stated() -> None:
    """An END that comes late: the logs are stated up to there, whether they have an update or not."""
    temp = [(StartRecord(COMMIT_ORDER, ("a",), False), 1, 1)]
    one = Transactions(["a"], temp=temp, frontier=until(2), recalled=None)
    step(one, 3, EndRecord.of(7, 70, {}))
    step(one, 4, EndRecord.of(8, 60, {}))

    assert one.stop is not None and one.stop.lasting and until(4) == one.stop.frontier


def test_what_no_update_can_express_stops_it_when_its_turn_comes() -> None:
    """What is before it is given out first, and the time of the last release is complete."""
    one = Transactions(["a"])
    assert step(one, 3, HALT).temp and one.stop is None and until(4) == one.frontier
    one.updates(at(6, row(9, 1, 80)))
    summary = one.updates(at(5, row(7, 1), *FIRST, EndRecord.of(8, 80, {})), until(9))
    stop = one.stop

    assert [("7.1", 5, 1)] == summary.output["a"] and {7: 5} == summary.given
    assert stop is not None and ("it was truncated", "capture again") == (stop.reason, stop.remedy)
    assert until(6) == summary.frontier == one.frontier == stop.frontier and not stop.lasting


def test_before_anything_is_given_out_nothing_is_complete() -> None:
    """The halt is the first transaction."""
    one = Transactions(["a"])
    step(one, 3, HALT, EndRecord.of(8, 80, {}))

    assert one.stop is not None and one.stop.frontier is None and until(4) == one.frontier


def test_one_that_goes_on_with_a_halt_stops_at_once() -> None:
    """The TEMP of a stopped run has it."""
    first = Transactions(["a"])
    temp = step(first, 3, row(7, 1), *FIRST).temp + step(first, 4, HALT, EndRecord.of(8, 80, {})).temp
    again = Transactions(["a"], temp=temp, frontier=until(5))

    assert first.stop is not None and again.stop is not None and first.temp() == again.temp()
    assert (first.stop.reason, first.stop.remedy) == (again.stop.reason, again.stop.remedy)
    assert until(5) == again.stop.frontier


def test_a_begin_without_an_end_is_judged_at_its_time() -> None:
    """And is never held."""
    one = Transactions(["a"])
    step(one, 3, EndRecord.of(7, 70, {}))
    step(one, 4, UnendedRecord(8, 70, 90), EndRecord.of(9, 90, {}))

    assert one.stop is not None and "the END of transaction 8 is missing" in one.stop.reason


# -- going on


def test_what_comes_again_after_a_restart_is_left_out() -> None:
    """At times that another run has finished; those of this one are finished, too."""
    first = Transactions(["a"])
    temp = step(first, 3, row(7, 1)).temp + step(first, 4, row(7, 2)).temp + step(first, 5, row(7, 3)).temp
    again = Transactions(["a"], temp=temp, frontier=until(5))

    assert {held for held, time, _ in temp if time < 5} == again.temp()
    again.updates([], until(2))
    again.updates(at(3, row(7, 1)) + at(4, row(7, 9)), until(4))
    assert until(5) == again.frontier and 2 == again.held
    again.updates(at(5, row(7, 3)), until(6))
    assert first.temp() == again.temp() and 3 == again.held
    with pytest.raises(MalformedError, match="came at 5"):
        again.updates(at(5, row(7, 4)))


def test_what_was_given_out_may_come_again_where_its_ends_were_read_again() -> None:
    """A duplicate is known by them; where none were read, it stops the capture."""
    temp = at(1, StartRecord(COMMIT_ORDER, ("a",), False), ThroughRecord(70, 0))
    known = Transactions(["a"], temp=temp, frontier=until(2), recalled=ReleasedEnds(((7, 70, {"a": 1}),), True, None))
    unknown = Transactions(["a"], temp=temp, frontier=until(2))

    assert [] == step(known, 3, row(7, 1), *FIRST).output["a"] and known.stop is None and 70 == known.through
    assert [] == step(unknown, 3, row(7, 1), *FIRST).output["a"] and unknown.stop is not None


@pytest.mark.parametrize("diffs", [(2,), (1, 1), (-1,), (1, 1, -3)])
def test_a_temp_that_is_no_set_is_of_no_capture(diffs: tuple[int, ...]) -> None:
    """Each record is held once."""
    temp = [(StartRecord(COMMIT_ORDER, ("a",), False), 1, 1), *((row(7, 1), 1, diff) for diff in diffs)]
    with pytest.raises(ForeignStateError, match=f"the open-records log holds .* {sum(diffs)} times: it is no set"):
        Transactions(["a"], temp=temp, frontier=until(2))
    assert {StartRecord(COMMIT_ORDER, ("a",), False)} == Transactions(
        ["a"], temp=[*temp, (row(7, 1), 1, -sum(diffs))], frontier=until(2)
    ).temp()


def test_the_run_goes_on_where_all_logs_have_come_to() -> None:
    """Where that is forgotten, it cannot; a remap that was never compacted knows it from the start."""
    remap = Remap(Antichain([0]))
    remap.mint(Antichain([3]), now=10)
    remap.mint(Antichain([5]), now=20)

    assert (until(11), Antichain([3])) == resume(remap, [until(21), until(11)])
    assert (until(0), Antichain([0])) == resume(remap, [until(0), Antichain()])
    assert (Antichain(), Antichain()) == resume(remap, [Antichain(), Antichain()])
    remap.compact(10)
    assert (until(11), Antichain([3])) == resume(remap, [until(11)])
    for early in (10, 0):
        with pytest.raises(RefusedError, match="the remap was compacted to 10, and the output is behind that .*"):
            resume(remap, [until(21), until(early)])
    assert (Antichain(), Antichain()) == resume(remap, [Antichain()])
