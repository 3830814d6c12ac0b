"""Offsets and frontiers are two ways to say one thing, and a binding takes in a part of what there is."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, frontier_of
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


@pytest.mark.parametrize("where", [
    Antichain([7]), frontier_of({"bank": Antichain([7])}), Antichain([Partitioned.at(0, 4)]),
])  # fmt: skip
def test_a_remap_of_other_sources_is_named(where: Antichain) -> None:
    """LSNs, lines, one topic without its name."""
    with pytest.raises(ForeignStateError, match="which is no offset in a topic"):
        places(where)


def test_topics_that_are_not_ours_are_left_alone() -> None:
    """As others may be bound on the same timeline; before anything has started there is nothing."""
    assert {("a", 0): 3} == of_topics({("a", 0): 3, ("b", 0): 4}, ["a"])
    assert {} == places(NOT_STARTED)
