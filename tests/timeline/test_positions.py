"""Offsets and frontiers are two ways to state one thing, and a binding takes in a part of what there is."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product, Time
from cdcv2.errors import ForeignStateError
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, frontier_of, offsets
from cdcv2.timeline.positions import frontier, limited, of_topics, places, position

PLACES = st.dictionaries(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), st.integers(0, 20))


@given(PLACES)
def test_a_frontier_says_the_offsets_that_have_started(where: dict[tuple[str, int], int]) -> None:
    """And a record is in if it stands before them."""
    there = frontier(where)

    assert {place: offset for place, offset in where.items() if offset} == places(there)
    assert all(not there.less_equal(position(place, offset - 1)) for place, offset in where.items() if offset)
    assert all(there.less_equal(position(place, offset)) for place, offset in where.items())


@given(PLACES, PLACES, st.integers(1, 30))
def test_a_part_of_what_is_new_is_neither_more_nor_nothing(
    current: dict[tuple[str, int], int], ends: dict[tuple[str, int], int], most: int
) -> None:
    """Nothing goes back or past the end; each partition that is behind moves; all of it where that is little."""
    target = limited(current, ends, most)
    behind = {place for place, end in ends.items() if end > current.get(place, 0)}
    moved = sum(target[place] - current.get(place, 0) for place in target)
    lacking = sum(ends[place] - current.get(place, 0) for place in behind)

    assert behind == set(target)
    assert all(current.get(place, 0) < offset <= ends[place] for place, offset in target.items())
    assert min(most, lacking) <= moved <= max(most, len(behind))


def test_what_is_left_over_goes_to_the_first_that_have_more() -> None:
    """Whole records."""
    assert {("a", 0): 9, ("b", 0): 3, ("b", 1): 1} == limited(
        {("a", 0): 2}, {("a", 0): 99, ("b", 0): 99, ("b", 1): 1, ("c", 0): 0}, 11
    )


@pytest.mark.parametrize("element", [
    7, Partitioned.at("bank", 7), Partitioned.at(0, 4), Partitioned.at("a", Partitioned.at("left", 4)),
    Partitioned.at("a", Partitioned.at(0, Product(1, 2))), Partitioned.at(0, Partitioned.at(0, 4)),
], ids=str)  # fmt: skip
def test_a_remap_of_other_sources_is_named(element: Time) -> None:
    """LSNs, lines, one topic without its name; a topic in parts that are no partitions, or at what is no offset."""
    with pytest.raises(ForeignStateError, match="which is no offset in a topic") as refused:
        places(Antichain([element]))

    assert f"the remap binds {element!r}," in str(refused.value)


def test_topics_that_are_finished_or_have_no_start_have_no_offsets() -> None:
    """Nothing of them is to be read."""
    where = frontier_of({"a": offsets({0: 4, 1: None}), "b": Antichain(), "c": NOT_STARTED})

    assert {("a", 0): 4} == places(where)


def test_topics_that_are_not_ours_are_left_alone() -> None:
    """As others may be bound on the same timeline; before anything has started there is nothing."""
    assert {("a", 0): 3} == of_topics({("a", 0): 3, ("b", 0): 4}, ["a"])
    assert {} == places(NOT_STARTED)
