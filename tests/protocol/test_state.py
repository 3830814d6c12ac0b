"""A reader can be put away and taken up elsewhere, and is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import ContradictionError, ForeignStateError, MalformedError
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import Batch, GarbledMessage, Progress, Updates
from cdcv2.protocol.resolver import Resolver

P = Product


def entry(offset: int, message: Any) -> Entry:
    """A message at an offset."""
    return Entry(Position("log", 0, offset), message)


def test_everything_that_is_open_travels() -> None:
    """Updates, counts, waiting statements, counters; by way of JSON, with data made plain by the caller."""
    reader = Resolver()
    for offset, message in enumerate((
        Progress([0], [5], {1: 1, 3: 2}), Updates([(("a", None), 1, 1), (("b", 1), 3, -2), (("b", 1), 3, -2)]),
        Progress([7], [9], {8: 1}), Updates([(("x", 2), 8, 1), (("late", 0), 1, 1)]), Progress([0], [1]),
    )):
        reader.absorb(entry(offset, message))

    plain = json.loads(json.dumps(reader.export_state(list)))
    again = Resolver.restore(plain, tuple)

    assert reader.counters == again.counters
    assert reader.open_times() == again.open_times()
    assert (reader.frontier, reader.known, reader.missing()) == (again.frontier, again.known, again.missing())
    assert plain == json.loads(json.dumps(again.export_state(list)))
    for one in (reader, again):
        assert Batch([(("b", 1), 3, -2), (("c", 1), 3, 1)], Antichain([3]), Antichain([5])) == one.absorb(
            Updates([(("c", 1), 3, 1)])
        )
        assert Batch([(("x", 2), 8, 1)], Antichain([5]), Antichain([9])) == one.absorb(Progress([5], [7]))


def test_what_was_read_before_the_move_contradicts_after_it() -> None:
    """And the position of a statement is still in the evidence."""
    reader = Resolver()
    reader.absorb(entry(0, Progress([0], [5], {3: 2})))
    reader.absorb(entry(1, Updates([("a", 3, 1)])))
    again = Resolver.restore(reader.export_state())

    with pytest.raises(ContradictionError, match="diff"):
        again.absorb(Updates([("a", 3, 2)]))
    with pytest.raises(ContradictionError, match="log.0.@0"):
        again.absorb(Progress([2], [6], {3: 1}))


def test_disputes_travel_with_their_evidence() -> None:
    """Also those over diffs, whose data the caller makes plain; a resolution then works as before."""
    reader = Resolver(on_error="quarantine")
    reader.absorb(entry(0, Updates([(("a",), 3, 1)])))
    reader.absorb(entry(1, Updates([(("a",), 3, 2)])))
    reader.absorb(entry(2, GarbledMessage(b"?", "no message")))
    reader.absorb(Progress([0], [5], {3: 1}))
    reader.resolve(9, count=4)

    again = Resolver.restore(reader.export_state(list), tuple)

    assert reader.quarantine == again.quarantine
    assert reader.parked == again.parked
    assert reader.resolutions == again.resolutions
    assert Batch([(("a",), 3, 2)], Antichain([3]), Antichain([5])) == again.resolve(3, data=("a",), diff=2)
    assert {} == again.quarantine


def test_a_reader_that_keeps_all_still_does_after_the_move() -> None:
    """And quarantine is still quarantine."""
    reader = Resolver(keep_all=True)
    reader.absorb(Progress([0], [5], {3: 1}))
    assert reader.absorb(Updates([("a", 3, 1)])) is None
    again = Resolver.restore(reader.export_state())

    for one in (reader, again):
        assert Antichain([5]) == one.frontier
        assert 1 == one.held_updates()
        with pytest.raises(ContradictionError):
            one.absorb(Progress([0], [5], {3: 2}))
        with pytest.raises(ContradictionError):
            one.absorb(Updates([("a", 3, 2)]))
        with pytest.raises(ContradictionError):
            one.absorb(Updates([("b", 1, 1)]))
        assert one.absorb(Progress([5], [])) is None
        assert one.closed


def test_the_state_of_a_finished_reader_is_small() -> None:
    """Nothing of what was given out is in it."""
    reader = Resolver()
    for number in range(100):
        reader.absorb(Updates([("a", number, 1), ("b", number, 1)]))
        reader.absorb(Progress([number], [number + 1], {number: 2}))
        reader.absorb(Progress([0], [number + 1], {n: 2 for n in range(number + 1)}))
    reader.absorb(Progress([100], []))
    state = reader.export_state()

    assert {} == reader.open_times()
    assert [] == state["stash"]["updates"] == state["ledger"]["expected"] == state["ledger"]["held"]
    assert [] == state["ledger"]["waiting"]


def test_a_finished_reader_of_products_comes_back() -> None:
    """Also when no time is left that would show the kind."""
    reader = Resolver([P(0, 0)])
    reader.absorb(Progress([P(0, 0)], []))
    again = Resolver.restore(reader.export_state())

    assert again.closed
    assert again.absorb(Updates([("a", P(1, 1), 1)])) is None
    assert again.absorb(Progress([P(0, 0)], [P(4, 4)])) is None


@pytest.mark.parametrize("version", [None, 0, 99, "1"])
def test_a_state_of_another_version_is_refused(version: object) -> None:
    """A later release may mean something else by the same words."""
    state = Resolver().export_state()

    with pytest.raises(MalformedError, match="version"):
        Resolver.restore({**state, "version": version})


@pytest.mark.parametrize("name", ["ledger", "stash", "keep_all", "counters", "diffs", "parked", "resolutions"])
def test_a_damaged_state_is_named_as_what_it_is(name: str) -> None:
    """Whatever it lacks."""
    state = Resolver().export_state()
    del state[name]

    with pytest.raises(ForeignStateError, match=f"^the state of a reader is damaged [(]'{name}' is missing[)]: "):
        Resolver.restore(state)


def test_orphans_are_updates_beyond_known() -> None:
    """A statement that waits does not adopt them."""
    reader = Resolver()
    reader.absorb(Updates([("a", 1, 1), ("b", 3, 1), ("c", 7, 1), ("d", 7, 2)]))
    reader.absorb(Progress([0], [2], {1: 2}))
    reader.absorb(Progress([5], [9], {7: 2}))

    assert [("b", 3, 1), ("c", 7, 1), ("d", 7, 2)] == reader.orphans()
    assert {1: (2, 1), 3: (None, 1), 7: (None, 2)} == reader.open_times()
