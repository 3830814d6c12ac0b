"""Bindings as ranges to be read: what each moves, how many are taken at once, and which time each record has."""

from __future__ import annotations

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.protocol.log import Place
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.positions import frontier
from cdcv2.timeline.ranges import BoundRanges, next_stretch
from cdcv2.timeline.records import RecipeEpoch
from cdcv2.timeline.shared_remap import AcceptedBinding

A, B, OTHER = ("a", 0), ("b", 3), ("other", 0)


def won(lower: int, upper: int | None, places: dict[Place, int], recipe: str = "v1") -> AcceptedBinding:
    """A binding that holds."""
    return AcceptedBinding(0, Binding(lower, upper, frontier(places)), Antichain(), RecipeEpoch(0, 0, recipe))


def is_ours(recipe: str) -> bool:
    """Whether it is bound under our recipe."""
    return recipe == "v1"


PENDING = [
    won(1, 11, {A: 4, OTHER: 9}), won(11, 21, {A: 4, B: 2, OTHER: 99}), won(21, 31, {A: 7, B: 2}),
    won(31, None, {A: 9, B: 5}), won(41, 51, {A: 20}, "v2"), won(51, 61, {A: 30}),
]  # fmt: skip


def test_a_stretch_is_the_ranges_of_its_bindings_and_their_end() -> None:
    """Of our topics alone; up to the first binding that is not ours."""
    stretch = next_stretch(PENDING, {A: 1, B: 1}, ["a", "b"], 99, is_ours)

    assert stretch is not None
    assert ({A: (1, 9), B: (1, 5)}, 12, 4) == (stretch.ranges, stretch.records, stretch.bindings)
    assert (Antichain(), {A: 9, B: 5}) == (stretch.upper, stretch.end)


@pytest.mark.parametrize("at_most, bindings, records, upper", [
    (0, 1, 3, 11), (3, 1, 3, 11), (4, 2, 4, 21), (6, 2, 4, 21), (7, 3, 7, 31), (11, 3, 7, 31),
])  # fmt: skip
def test_a_stretch_has_at_least_one_binding_and_no_more_records_than_asked_for(
    at_most: int, bindings: int, records: int, upper: int
) -> None:
    """Whole bindings: a part of one has no time at which all is complete."""
    stretch = next_stretch(PENDING, {A: 1, B: 1}, ["a", "b"], at_most, is_ours)

    assert stretch is not None
    assert (bindings, records, Antichain([upper])) == (stretch.bindings, stretch.records, stretch.upper)


def test_bindings_that_move_nothing_of_ours_are_taken_with_the_others() -> None:
    """They cost no record, and time goes on."""
    pending = [won(1, 11, {OTHER: 4}), won(11, 21, {A: 1}), won(21, 31, {A: 1}), won(31, 41, {A: 3})]
    stretch = next_stretch(pending, {}, ["a"], 2, is_ours)

    assert stretch is not None and ({A: (0, 1)}, 3) == (stretch.ranges, stretch.bindings)
    idle = next_stretch(pending[:1], {A: 4}, ["a"], 2, is_ours)
    assert idle is not None and ({}, 0, Antichain([11])) == (idle.ranges, idle.records, idle.upper)
    beside = next_stretch([won(1, 11, {A: 4}), won(11, 21, {A: 4, B: 2})], {A: 1}, ["a", "b"], 4, is_ours)
    assert beside is not None and {A: (1, 4)} == beside.ranges
    behind = next_stretch(pending[1:], {A: 3}, ["a"], 2, is_ours)
    assert behind is not None and ({}, 3) == (behind.ranges, behind.bindings)


def test_there_is_no_stretch_where_the_next_binding_is_not_ours() -> None:
    """Nor where none has come."""
    assert next_stretch(PENDING[4:], {}, ["a"], 99, is_ours) is None is next_stretch([], {}, ["a"], 99, is_ours)


def test_each_record_is_at_the_time_of_the_binding_that_moves_its_partition_past_it() -> None:
    """And one behind all of them is a fault of its source, with the place and the end named."""
    stretch = next_stretch(PENDING, {A: 1, B: 1}, ["a", "b"], 99, is_ours)

    assert stretch is not None
    assert [10, 10, 30, 30, 31, 31] == [stretch.into(A, offset) for offset in (1, 3, 4, 6, 7, 8)]
    assert [20, 31, 31] == [stretch.into(B, offset) for offset in (1, 2, 4)]
    with pytest.raises(MalformedError, match="topic b, partition 3: .* offset 5 .* ends before 5"):
        stretch.into(B, 5)


def test_ranges_begin_with_nothing_to_read() -> None:
    """And nothing is complete."""
    none = BoundRanges({A: 4})

    assert ({}, 0, 0, Antichain([0])) == (none.ranges, none.records, none.bindings, none.upper)
