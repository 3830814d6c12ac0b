"""Sums that forget zeroes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core.changes import ChangeBatch, consolidate
from cdcv2.core.order import Product

changes = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 2)))
updates = st.lists(st.tuples(st.sampled_from(["a", None, (1, "b")]), st.integers(0, 3), st.integers(-2, 2)))


@given(changes)
def test_a_change_batch_holds_the_sums_that_are_not_zero(drawn: list[tuple[str, int]]) -> None:
    """Key by key it is the plain sum; what cancels is not there."""
    batch = ChangeBatch(drawn)
    sums = {key: sum(change for other, change in drawn if other == key) for key in "abc"}

    assert {key: total for key, total in sums.items() if total} == dict(batch)
    assert sums == {key: batch.get(key) for key in "abc"}
    assert len(dict(batch)) == len(batch)


def test_pop_forgets() -> None:
    """It gives the sum and removes the key; what was not there gives 0."""
    batch = ChangeBatch([("a", 2)])

    assert "ChangeBatch([('a', 2)])" == repr(batch)
    assert 2 == batch.pop("a")
    assert 0 == batch.pop("a")
    assert 0 == len(batch)
    batch.extend([("b", 1), ("c", 1), ("b", -1)])
    batch.update("c", 2)
    assert [("c", 3)] == list(batch)


@given(updates)
def test_consolidated_updates_are_the_sums_by_time(drawn: list[tuple[Any, int, int]]) -> None:
    """One per identity, never zero, sorted by time; among equal times in the order of first appearance."""
    done = consolidate(drawn)
    sums: dict[tuple[Any, int], int] = {}
    for data, time, diff in drawn:
        sums[data, time] = sums.get((data, time), 0) + diff

    assert {key: total for key, total in sums.items() if total} == {(data, time): diff for data, time, diff in done}
    assert len({(data, time) for data, time, _ in done}) == len(done)
    assert sorted(times(done)) == times(done)
    assert 0 not in [diff for _, _, diff in done]


def test_two_times_are_sorted_although_nothing_is_summed() -> None:
    """Updates that are given in falling order of two times, each once."""
    assert [("b", 1, 1), ("a", 2, 1)] == consolidate([("a", 2, 1), ("b", 1, 1)])


def times(updates: list[tuple[Any, Any, int]]) -> list[Any]:
    """The time of each update."""
    return [time for _, time, _ in updates]


def test_consolidate_keeps_the_order_in_which_data_came() -> None:
    """Two writers that are fed alike write alike."""
    assert [("b", 1, 1), ("a", 1, 2)] == consolidate([("b", 1, 1), ("a", 1, 1), ("a", 1, 1)])


def test_consolidate_sorts_products() -> None:
    """By their sort key; any total order that extends the partial one will do."""
    done = consolidate([("a", Product(1, 1), 1), ("a", Product(0, 1), 1), ("a", Product(1, 0), 1)])

    assert [Product(0, 1), Product(1, 0), Product(1, 1)] == times(done)
