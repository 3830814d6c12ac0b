"""A frontier is the set of times beyond it: every operation is checked against that set, over a grid."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core import antichain
from cdcv2.core.antichain import Antichain, MutableAntichain
from cdcv2.core.order import MAX_TIME, Product, less_equal
from cdcv2.errors import MalformedError
from tests.doubles import Lane

GRIDS: dict[str, list[Any]] = {
    "int": list(range(6)),
    "two": [Product(*pair) for pair in product(range(4), repeat=2)],
    "three": [Product(*triple) for triple in product(range(3), repeat=3)],
    "lane": [Lane("", 0), *(Lane(lane, at) for lane in "ab" for at in range(3))],
}
each_kind = pytest.mark.parametrize("kind", GRIDS)


def some(kind: str) -> Any:
    """A few times of a kind, in any order, repeated or not."""
    return st.lists(st.sampled_from(GRIDS[kind]), max_size=5)


def beyond(kind: str, elements: Any) -> set[Any]:
    """By definition: the times of the grid that some element is less than or equal to."""
    return {time for time in GRIDS[kind] if any(less_equal(element, time) for element in elements)}


@each_kind
@given(st.data())
def test_an_antichain_keeps_what_is_beyond_and_no_comparable_elements(kind: str, data: st.DataObject) -> None:
    """The minimal elements mean the same as all of them."""
    drawn = data.draw(some(kind))
    frontier = Antichain(drawn)

    frontier.check()
    assert beyond(kind, drawn) == {time for time in GRIDS[kind] if frontier.less_equal(time)}
    assert set(frontier.elements) <= set(drawn)
    assert bool(drawn) == bool(frontier)
    assert list(frontier) == list(frontier.elements)
    assert len(frontier) == len(frontier.elements)


@pytest.mark.parametrize("width", [1, 2, 3])
@given(st.data())
def test_an_antichain_of_many_products_is_that_of_the_definition(width: int, data: st.DataObject) -> None:
    """Where there are many, their coordinates are searched; the answers are those of comparing each pair."""
    times = st.builds(Product, *[st.integers(0, 12)] * width)
    drawn, asked = data.draw(st.lists(times, max_size=40)), data.draw(st.lists(times, max_size=10))
    minimal = {time for time in drawn if not any(less_equal(one, time) and one != time for one in drawn)}
    frontier = Antichain(drawn)

    assert minimal == set(frontier.elements)
    assert sorted(map(tuple, minimal)) == list(map(tuple, frontier.elements))
    for time in asked:
        assert any(less_equal(one, time) for one in drawn) == frontier.less_equal(time)


def test_an_antichain_of_many_products_takes_times_of_its_kind_only() -> None:
    """With many elements as with few."""
    frontier = Antichain(Product(at, 20 - at) for at in range(20))
    for time in (3, Product(1, 2, 3)):
        with pytest.raises(MalformedError, match="different kinds"):
            frontier.less_equal(time)


@pytest.mark.parametrize("time", [Product(1, 2), True, "3", None])
def test_an_integer_frontier_takes_integers_only(time: Any) -> None:
    """Also what Python compares with them."""
    with pytest.raises(MalformedError, match="different kinds"):
        Antichain([3]).less_equal(time)


@pytest.mark.parametrize("number", [2, 20])
def test_a_product_of_the_last_time_is_beyond_itself(number: int) -> None:
    """With many elements as with few, in each coordinate."""
    times = [*(Product(at, MAX_TIME - at) for at in range(number)), Product(MAX_TIME, 0)]
    frontier = Antichain(times)

    assert set(times) == set(frontier.elements)
    assert all(frontier.less_equal(time) for time in times)
    assert not frontier.less_equal(Product(0, MAX_TIME - 1))


def test_thousands_of_products_of_two_are_not_compared_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are not trusted may state such a frontier; a few kilobytes must not take seconds."""
    compared = [0]

    def counted(one: Any, other: Any) -> bool:
        compared[0] += 1
        return bool(one <= other)

    monkeypatch.setattr(antichain, "le", counted)
    monkeypatch.setattr(antichain, "less_equal", counted)
    frontier = Antichain(Product(at, 2000 - at) for at in range(2000))

    assert 2000 == len(frontier) and frontier.dominates(frontier)
    assert 0 == compared[0]


@each_kind
@given(st.data())
def test_an_antichain_is_a_value(kind: str, data: st.DataObject) -> None:
    """Equality and hash depend on what is beyond, not on the order or repetition of what was given."""
    one, other = data.draw(some(kind)), data.draw(some(kind))
    first, second = Antichain(one), Antichain(other)

    assert (beyond(kind, one) == beyond(kind, other)) == (first == second)
    assert Antichain(reversed(one + one)) == first
    assert hash(Antichain(reversed(one + one))) == hash(first)
    assert Antichain(reversed(one)).elements == first.elements


@each_kind
@given(st.data())
def test_join_meet_and_dominates_are_those_of_the_sets(kind: str, data: st.DataObject) -> None:
    """join: beyond both; meet: beyond either; dominates: nothing beyond it that is not beyond the other."""
    one, other = Antichain(data.draw(some(kind))), Antichain(data.draw(some(kind)))
    first, second = beyond(kind, one), beyond(kind, other)

    assert first & second == beyond(kind, one.join(other))
    assert first | second == beyond(kind, one.meet(other))
    assert (first <= second) == one.dominates(other)
    one.join(other).check()
    one.meet(other).check()
    assert one.join(other) == other.join(one)
    assert one.meet(other) == other.meet(one)


@each_kind
@given(st.data())
def test_the_meet_of_any_number_is_what_is_beyond_one_of_them(kind: str, data: st.DataObject) -> None:
    """Of integers, which it compares at once, as of others."""
    frontiers = [Antichain(times) for times in data.draw(st.lists(some(kind), max_size=4))]
    found = Antichain.meet_of(iter(frontiers))
    found.check()

    assert set().union(*(beyond(kind, frontier) for frontier in frontiers)) == beyond(kind, found)
    assert found == Antichain(found.elements)


def test_the_meet_of_times_of_different_kinds_is_refused() -> None:
    """As their antichain is."""
    with pytest.raises(MalformedError, match="different kinds"):
        Antichain.meet_of([Antichain([3]), Antichain([Product(1, 2)])])


def test_the_antichain_of_an_integer_that_is_not_checked_is_like_any_other() -> None:
    """For each question that there is."""
    frontier = Antichain.of_integer(3)

    assert (Antichain([3]), 3, (3,)) == (frontier, frontier.integer, frontier.elements)
    assert [False, True] == [frontier.less_equal(time) for time in (2, 3)]
    with pytest.raises(MalformedError, match="different kinds"):
        frontier.less_equal(Product(1, 2))


@pytest.mark.parametrize("kind", ["int", "two", "three"])
@given(st.data())
def test_plain_and_back(kind: str, data: st.DataObject) -> None:
    """A frontier in a state file is the frontier that was written."""
    frontier = Antichain(data.draw(some(kind)))

    assert frontier == Antichain.from_plain(frontier.to_plain())
    assert all(isinstance(item, (int, list)) for item in frontier.to_plain())


def test_the_empty_frontier_is_the_end() -> None:
    """Nothing is beyond it, it dominates all, and it is false."""
    empty = Antichain()

    assert not empty
    assert not empty.less_equal(0)
    assert empty.dominates(Antichain([9]))
    assert empty.dominates(empty)
    assert not Antichain([9]).dominates(empty)
    assert empty == empty.join(Antichain([9]))
    assert Antichain([9]) == empty.meet(Antichain([9]))


def test_joins_that_do_not_exist_add_nothing() -> None:
    """Across lanes nothing is beyond both, so the joint frontier has nothing there."""
    assert Antichain() == Antichain([Lane("a", 1)]).join(Antichain([Lane("b", 1)]))
    assert Antichain([Lane("a", 2)]) == Antichain([Lane("a", 2), Lane("b", 0)]).join(Antichain([Lane("a", 1)]))


def test_elements_are_sorted_and_shown() -> None:
    """What a person sees does not change from run to run."""
    frontier = Antichain([Product(2, 0), Product(0, 2), Product(1, 1)])

    assert (Product(0, 2), Product(1, 1), Product(2, 0)) == frontier.elements
    assert "Antichain([Product(0, 2), Product(1, 1), Product(2, 0)])" == repr(frontier)
    assert ["[Product(0, 2), Product(1, 1), Product(2, 0)]", "[5]", "[]"] == [
        str(each) for each in (frontier, Antichain([5]), Antichain())
    ]
    assert [[0, 2], [1, 1], [2, 0]] == frontier.to_plain()


@pytest.mark.parametrize(
    "times",
    [
        [(1, 2)], [-1], [1.0], [True], [2**63], [None],
        [1, Product(1)], [Product(1), Product(1, 2)], [Lane("a", 1), 1],
    ],
)
def test_an_antichain_refuses_what_is_no_time(times: list[Any]) -> None:
    """A plain tuple above all: it would compare lexicographically; and times of two kinds."""
    with pytest.raises(MalformedError):
        Antichain(times)


def test_an_antichain_is_not_equal_to_other_things() -> None:
    """Not even to its own elements."""
    assert Antichain([1]) != [1]
    assert Antichain([1]) != (1,)
    assert Antichain() != ()


def test_an_antichain_cannot_be_changed() -> None:
    """It is passed around and kept, so no holder may change it for the others."""
    with pytest.raises(AttributeError):
        Antichain([1]).elements = (2,)  # type: ignore[misc]


def test_check_finds_comparable_elements() -> None:
    """The audit that the other tests end with can fail."""
    broken = Antichain([Product(0, 1), Product(1, 0)])
    object.__setattr__(broken, "_elements", (Product(0, 0), Product(1, 1)))

    with pytest.raises(AssertionError):
        broken.check()


@each_kind
@given(st.data())
def test_the_maintained_frontier_is_the_recomputed_one(kind: str, data: st.DataObject) -> None:
    """After every change, whether the frontier was asked for in between or not; and counts are plain sums."""
    changes = data.draw(st.lists(st.tuples(st.sampled_from(GRIDS[kind]), st.integers(-2, 2)), max_size=25))
    asked = data.draw(st.lists(st.booleans(), min_size=len(changes), max_size=len(changes)))
    bag, sums = MutableAntichain(), dict.fromkeys(GRIDS[kind], 0)
    for (time, change), ask in zip(changes, asked):
        bag.update([(time, change)])
        sums[time] += change
        if ask:
            assert Antichain(time for time, count in sums.items() if count > 0) == bag.frontier

    bag.check()
    assert sums == {time: bag.count(time) for time in sums}
    assert {time: count for time, count in sums.items() if count} == dict(bag.items())
    assert len(bag) == len(bag.items())
    assert MutableAntichain(changes).frontier == bag.frontier


def test_negative_counts_are_held_but_bound_nothing() -> None:
    """Updates may come before their statement; they are due in the negative until then."""
    bag = MutableAntichain([(3, -1), (5, 1)])

    assert Antichain([5]) == bag.frontier
    assert [(3, -1), (5, 1)] == bag.items()
    bag.update([(3, 1)])
    assert Antichain([5]) == bag.frontier
    assert [(5, 1)] == bag.items()
    bag.update([(3, 1)])
    assert Antichain([3]) == bag.frontier


def test_counts_are_listed_by_time() -> None:
    """Not by count, nor in the order in which they came."""
    assert [(1, 9), (2, 1), (5, 3)] == MutableAntichain([(5, 3), (1, 9), (2, 1)]).items()
    wide = [(Product(0, 2), 9), (Product(1, 1), 1), (Product(2, 0), 3)]
    assert wide == MutableAntichain(reversed(wide)).items()


def test_a_time_that_comes_and_goes_leaves_nothing_behind() -> None:
    """Memory is bounded by what is held, also under a time that stays."""
    bag = MutableAntichain([(0, 1)])
    for _ in range(1000):
        bag.update([(5, 1), (5, -1)])

    assert 1 == len(bag)
    assert [(0, 1)] == bag.items()
    assert len(bag._heap) < 20


@pytest.mark.parametrize("often", [1, 2])
def test_what_is_left_after_many_comings_and_goings_is_still_found(often: int) -> None:
    """What bounds the memory must not forget a time that is held, however often it is."""
    bag = MutableAntichain([(0, 1), (7, often), (9, 1)])
    for _ in range(1000):
        bag.update([(5, 1), (5, -1)])
    bag.update([(8, 2), (0, -1)])
    assert Antichain([7]) == bag.frontier

    bag.update([(7, -often)])
    assert Antichain([8]) == bag.frontier
    bag.update([(8, -1)])
    assert Antichain([8]) == bag.frontier
    bag.update([(8, -1)])
    assert Antichain([9]) == bag.frontier


@pytest.mark.parametrize("change", ["x", 1.0, True, None])
def test_a_count_changes_by_an_int(change: object) -> None:
    """What is none is named, and is not held."""
    bag = MutableAntichain([(0, 1)])
    with pytest.raises(MalformedError, match=re.escape(f"the count of 3 cannot change by {change!r}: it takes an int")):
        bag.update([(3, change)])  # type: ignore[list-item]
    assert [(0, 1)] == bag.items()


def test_the_mutable_check_finds_a_stale_frontier() -> None:
    """The audit that the property ends with can fail."""
    bag = MutableAntichain([(3, 1)])
    bag._counts[2] = 1

    with pytest.raises(AssertionError):
        bag.check()
