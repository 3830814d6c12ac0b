"""Logs of one timeline are read together, and given out at the meet of their frontiers."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import ContradictionError, StartError, UsageError
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.protocol.timeline import Cut, Timeline, demand_started
from tests import oracle
from tests.oracle import beyond
from tests.strategies import History, beginning, build, histories, lift, mangled, seeded


def test_what_one_part_has_finished_waits_for_the_other() -> None:
    """A transaction over two tables comes out whole, or not at all."""
    reader = Timeline(["accounts", "ledger"])
    first = reader.absorb("accounts", Updates([("alice", 3, -5), ("alice", 7, 1)]))
    second = reader.absorb("accounts", Progress([0], [8], {3: 1, 7: 1}))
    third = reader.absorb("ledger", Progress([0], [5], {3: 1}))
    fourth = reader.absorb("ledger", Updates([("paid", 3, 1)]))

    assert (None, None) == (first, second)
    assert Cut({}, Antichain([0]), Antichain([3])) == third
    both: dict[str, list[Any]] = {"accounts": [("alice", 3, -5)], "ledger": [("paid", 3, 1)]}
    assert Cut(both, Antichain([3]), Antichain([5])) == fourth
    assert (Antichain([5]), False) == (reader.frontier, reader.closed)


def test_a_part_that_begins_later_holds_nothing_back_before() -> None:
    """From there on what is finished needs both; an update before is an error of its log, held if that is asked for."""
    reader = Timeline(["old", "young"], starts={"young": [7]})
    reader.absorb("old", Updates([("a", 3, 1), ("b", 8, 1)]))
    before = reader.absorb("old", Progress([0], [9], {3: 1, 8: 1}))
    with pytest.raises(StartError):
        reader.absorb("young", Updates([("z", 3, 1)]))
    reader.absorb("young", Updates([("y", 8, 1)]))
    behind = reader.absorb("young", Progress([7], [10], {8: 1}))

    assert Cut({"old": [("a", 3, 1)]}, Antichain([0]), Antichain([7])) == before
    assert Cut({"old": [("b", 8, 1)], "young": [("y", 8, 1)]}, Antichain([7]), Antichain([9])) == behind


def test_a_reader_that_starts_behind_a_late_part_leaves_out_what_it_has_before() -> None:
    """But not what is before that part's own beginning; and quarantine is that of every part."""
    reader = Timeline(["old", "young"], start=[9], begins=[0], starts={"young": [7]}, on_error="quarantine")
    reader.absorb("young", Updates([("y", 8, 1)]))
    assert 1 == reader.readers["young"].counters["before_start"]
    with pytest.raises(StartError):
        reader.absorb("young", Updates([("z", 3, 1)]))
    for diff in (1, 2):
        reader.absorb("young", Updates([("y", 12, diff)]))
    assert {12} == set(reader.readers["young"].quarantine)
    assert Antichain([9]) == reader.frontier


def test_a_cut_unpacks_to_updates_and_frontier() -> None:
    """As a batch does."""
    updates, frontier = Cut({"t": [("a", 1, 1)]}, Antichain([0]), Antichain([2]))

    assert ({"t": [("a", 1, 1)]}, Antichain([2])) == (updates, frontier)


def test_copies_of_a_log_are_one_part() -> None:
    """What one copy lacks, the other may have."""
    reader = Timeline(["t"])
    assert reader.absorb("t", Progress([0], [2], {1: 1})) == Cut({}, Antichain([0]), Antichain([1]))
    assert reader.absorb("t", Updates([("a", 1, 1)])) == Cut({"t": [("a", 1, 1)]}, Antichain([1]), Antichain([2]))
    assert reader.absorb("t", Updates([("a", 1, 1)])) is None
    assert reader.absorb("t", Progress([0], [])) == Cut({}, Antichain([2]), Antichain())
    assert reader.closed


def test_what_is_missing_is_told_by_part() -> None:
    """Only the parts that lack something are named."""
    reader = Timeline(["a", "b"])
    reader.absorb("a", Progress([0], [5], {2: 3}))
    reader.absorb("b", Progress([0], [5], {}))

    assert {"a": "3 updates missing at time 2"} == {part: str(lacks) for part, lacks in reader.missing().items()}


def test_an_error_changes_nothing() -> None:
    """As in each part's own reader; with quarantine it is held there instead."""
    messages: list[Any] = [Updates([("a", 1, 1)]), Updates([("a", 1, 2)]), Progress([0], [2], {1: 1})]
    entries = [Entry(Position("t", 0, number), message) for number, message in enumerate(messages)]
    reader = Timeline(["t"])
    reader.absorb("t", entries[0])
    with pytest.raises(ContradictionError) as caught:
        reader.absorb("t", entries[1])
    assert ("t[0]@0", "t[0]@1") == tuple(map(str, caught.value.positions))
    cut = reader.absorb("t", entries[2])
    assert cut is not None and {"t": [("a", 1, 1)]} == cut.updates

    held = Timeline(["t"], on_error="quarantine")
    for entry in entries:
        held.absorb("t", entry)
    assert Antichain([1]) == held.frontier


def test_a_timeline_has_parts() -> None:
    """Without parts, everything would be complete in every part."""
    with pytest.raises(UsageError):
        Timeline([])


def test_product_times_start_where_they_are_told_to() -> None:
    """Frontiers of parts may be incomparable; what lies before both is given out."""
    reader = Timeline(["a", "b"], start=[Product(0, 0)])
    reader.absorb("a", Updates([("x", Product(0, 0), 1), ("y", Product(1, 0), 1)]))
    assert reader.absorb("a", Progress([Product(0, 0)], [Product(2, 0)], {Product(0, 0): 1, Product(1, 0): 1})) is None
    cut = reader.absorb("b", Progress([Product(0, 0)], [Product(1, 0), Product(0, 1)]))

    assert cut == Cut(
        {"a": [("x", Product(0, 0), 1)]}, Antichain([Product(0, 0)]), Antichain([Product(1, 0), Product(0, 1)])
    )


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("seed", range(150))
def test_parts_of_any_histories_come_out_at_the_meet_of_what_each_may_give(seed: int, dims: int) -> None:
    """Cuts follow one another, and hold exactly what happened between their frontiers, in every part."""
    choose = seeded(seed)
    drawn = {part: histories(choose, dims) for part in ("a", "b", "c")[: choose.integer(1, 3)]}
    start = next(iter(drawn.values())).start
    parts = {part: History(dims, start, history.truth, history.log) for part, history in drawn.items()}
    todo = choose.shuffled([(part, message) for part in parts for message in mangled(choose, parts[part].log)])
    judges = {
        part: oracle.Oracle(start, [message for whose, message in todo if whose == part]) for part in parts
    }
    reader = Timeline(parts, start=map(lift, start), begins=iter(beginning(start)))
    frontier = oracle.least(start)
    for part, message in todo:
        cut = reader.absorb(part, build(message))
        judges[part].absorb(message)
        met = oracle.least(time for judge in judges.values() for time in judge.reported)
        if met == frontier:
            assert cut is None
            continue
        assert cut is not None and (frontier, met) == (oracle.frontier(cut.lower), oracle.frontier(cut.upper))
        expected = {
            whose: {
                (data, time): diff for time, rows in history.truth.items() for data, diff in rows.items()
                if beyond(frontier, time) and not beyond(met, time)
            }
            for whose, history in parts.items()
        }
        given = {
            whose: {(data, oracle.coordinates(time)): diff for data, time, diff in updates}
            for whose, updates in cut.updates.items()
        }
        assert {whose: rows for whose, rows in expected.items() if rows} == given
        frontier = met
    assert frontier == oracle.frontier(reader.frontier)
    assert set(reader.missing()) == {whose for whose, judge in judges.items() if judge.missing()}


def test_a_time_before_the_first_that_is_known_is_refused() -> None:
    """Where nothing is known there is no first one."""
    demand_started(0, None)
    demand_started(5, 5)
    demand_started(6, 5)
    with pytest.raises(UsageError, match="nothing is known at time 4: the history begins at 5"):
        demand_started(4, 5)


def test_a_dispute_in_one_part_is_settled_through_the_timeline() -> None:
    """The cut that it held back comes with it, of this part and at this time alone."""
    reader = Timeline("ab", on_error="quarantine")
    for message in (Updates([("x", 1, 1), ("y", 2, 1)]), Updates([("x", 1, 2)]), Progress([0], [3], {1: 1, 2: 1})):
        assert reader.absorb("a", message) is None
    assert Cut({}, Antichain([0]), Antichain([1])) == reader.absorb("b", Progress([0], [3]))

    assert reader.readers["a"].keeps(1) and not reader.readers["a"].keeps(0)
    assert Cut({"a": [("x", 1, 2), ("y", 2, 1)]}, Antichain([1]), Antichain([3])) == reader.resolve(
        "a", 1, data="x", diff=2
    )
    assert reader.absorb("a", Updates([("z", 5, 1)])) is None
    assert reader.absorb("a", Entry(Position("a", 0, 4), Progress([3], [6], {5: 2}))) is None
    assert Cut({}, Antichain([3]), Antichain([5])) == reader.absorb("b", Progress([3], [6]))
    assert reader.absorb("a", Entry(Position("a", 0, 5), Progress([3], [6], {5: 1}))) is None
    assert Cut({"a": [("z", 5, 1)]}, Antichain([5]), Antichain([6])) == reader.resolve("a", 5, count=1)


def test_a_part_is_held_at_times_that_another_reading_found_in_dispute() -> None:
    """Until they are no more among them; only a reader with a quarantine may be held so."""
    reader = Timeline(["a", "b"], on_error="quarantine")
    assert reader.withhold("a", [3]) is None
    for part in ("a", "b"):
        reader.absorb(part, Updates([("x", 3, 1)]))
        reader.absorb(part, Progress([0], [5], {3: 1}))
    assert Antichain([3]) == reader.frontier

    both: dict[str, list[Any]] = {"a": [("x", 3, 1)], "b": [("x", 3, 1)]}
    assert Cut(both, Antichain([3]), Antichain([5])) == reader.withhold("a", [])
    with pytest.raises(UsageError, match="on_error='quarantine'"):
        Timeline(["a"]).withhold("a", [3])


def test_what_is_held_at_an_open_time_is_at_hand_with_where_it_was_read() -> None:
    """For who has to decide a dispute; a time with nothing has nothing."""
    reader = Timeline(["a"], on_error="quarantine")
    first, second = Position("a", 0, 0), Position("a", 0, 1)
    reader.absorb("a", Entry(first, Updates([("x", 1, 1)])))
    reader.absorb("a", Entry(second, Updates([("y", 1, 2), ("x", 2, 1)])))
    reader.absorb("a", Updates([("z", 3, 1)]))

    assert [("x", 1, first), ("y", 2, second)] == reader.readers["a"].held_at(1)
    assert [("x", 1, second)] == reader.readers["a"].held_at(2)
    assert [("z", 1, None)] == reader.readers["a"].held_at(3)
    assert [] == reader.readers["a"].held_at(4)


def test_who_keeps_everything_finds_what_comes_too_late() -> None:
    """A reader that forgets what it gave out takes it for a repeat."""
    messages = (Updates([("x", 1, 1)]), Progress([0], [2], {1: 1}))
    forgets, keeps = Timeline(["a"]), Timeline(["a"], keep_all=True)
    for message in messages:
        forgets.absorb("a", message)
        keeps.absorb("a", message)

    assert forgets.absorb("a", Updates([("x", 1, 2)])) is None
    with pytest.raises(ContradictionError):
        keeps.absorb("a", Updates([("x", 1, 2)]))


def test_without_content_a_cut_is_two_frontiers() -> None:
    """Who only asks how far the logs are complete need not hold their updates."""
    reader = Timeline(["a"], content=False)
    reader.absorb("a", Updates([("x", 1, 1)]))
    assert Cut({}, Antichain([0]), Antichain([2])) == reader.absorb("a", Progress([0], [2], {1: 1}))
