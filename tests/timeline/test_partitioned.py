"""Times of sources in parts: an order and nearly a lattice, and frontiers that cover parts not yet known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcv2.core.antichain import Antichain, MutableAntichain
from cdcv2.core.order import Product, Time, join, less_equal, sort_key
from cdcv2.errors import MalformedError
from cdcv2.timeline import gauges
from cdcv2.timeline.gauges import frontier_from_plain, frontier_to_plain, from_plain, to_plain
from cdcv2.timeline.partitioned import (
    NOT_STARTED, Beyond, Partitioned, frontier_of, is_least, offsets, path_of,
)
from tests.reclock_oracle import KINDS, Kind, Several, Topic
from tests.strategies import Chooser, choosers

# As many examples as in the profile: 100, or fewer while changes are tried out.
ORDINARY = settings.default.max_examples
PARTS = st.sampled_from([0, 1, 2, "a"])
SETS = st.frozensets(PARTS, max_size=3)
FLAT = st.one_of(
    st.builds(Partitioned.at, PARTS, st.integers(0, 3)),
    st.builds(Partitioned.rest, SETS),
    st.builds(Partitioned.among, SETS.filter(bool)),
)
# Within one part the times are of one kind: here part "grid" has pairs, and part "topic" parts of its own.
NESTED = st.one_of(
    FLAT,
    st.builds(Partitioned.at, st.just("grid"), st.builds(Product, st.integers(0, 2), st.integers(0, 2))),
    st.builds(Partitioned.at, st.just("topic"), FLAT),
    st.just(Partitioned.rest(["grid"])),
)


@settings(max_examples=3 * ORDINARY)
@given(NESTED, NESTED, NESTED)
def test_it_is_a_partial_order_that_sort_keys_extend(a: Time, b: Time, c: Time) -> None:
    """Or frontiers of it would depend on the order in which their elements came."""
    assert less_equal(a, a)
    assert (a == b) == (less_equal(a, b) and less_equal(b, a))
    assert less_equal(a, c) or not (less_equal(a, b) and less_equal(b, c))
    if less_equal(a, b):
        assert sort_key(a) <= sort_key(b)


@settings(max_examples=3 * ORDINARY)
@given(NESTED, NESTED, NESTED)
def test_the_join_is_the_least_bound(a: Time, b: Time, c: Time) -> None:
    """It is None exactly where nothing is beyond both."""
    upper = join(a, b)

    assert (less_equal(a, c) and less_equal(b, c)) == (upper is not None and less_equal(upper, c))
    assert (join(b, a), a) == (upper, join(a, a))
    assert less_equal(Partitioned.rest(), a) and hash(a) == hash(from_plain(to_plain(a)))


@settings(max_examples=2 * ORDINARY)
@given(st.lists(NESTED, max_size=5), st.lists(NESTED, max_size=5), NESTED)
def test_frontiers_of_it_are_a_lattice(first: list[Time], second: list[Time], time: Time) -> None:
    """Beyond the join is what is beyond both, beyond the meet what is beyond either; and counting maintains them."""
    one, other = Antichain(first), Antichain(second)
    one.check()
    counted = MutableAntichain([(element, 1) for element in [*first, *second]])
    counted.check()

    assert one.join(other).less_equal(time) == (one.less_equal(time) and other.less_equal(time))
    assert one.meet(other).less_equal(time) == (one.less_equal(time) or other.less_equal(time))
    assert one.meet(other) == counted.frontier
    assert one == Antichain(reversed(first)) == frontier_from_plain(json.loads(json.dumps(frontier_to_plain(one))))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(choose=choosers())
def test_a_frontier_says_of_each_point_whether_it_is_in(kind: Kind, choose: Any) -> None:
    """Of unknown partitions and sources, too; and as much for two places at once."""
    one = kind.later(choose, kind.later(choose, kind.first))
    other = kind.later(choose, kind.later(choose, kind.first))
    both = kind.both(one, other)
    frontiers = [kind.frontier(place) for place in (one, other, both)]
    for frontier in frontiers:
        frontier.check()

    assert [[not kind.isin(place, point) for place in (one, other, both)] for point in kind.points()] == [
        [frontier.less_equal(kind.point(point)) for frontier in frontiers] for point in kind.points()
    ]


@pytest.mark.parametrize("kind", (Topic(), Several()), ids=lambda kind: type(kind).__name__)
@given(choose=choosers())
def test_there_is_one_frontier_for_each_place(kind: Kind, choose: Any) -> None:
    """Equal progress is equal, and later progress dominates, however it is written down: minting compares by it."""
    one = kind.later(choose, kind.first)
    later = kind.later(choose, one)

    assert kind.frontier(later).dominates(kind.frontier(one))
    assert kind.frontier(one).join(kind.frontier(later)) == kind.frontier(later)
    same = all(kind.isin(one, point) == kind.isin(later, point) for point in kind.points())
    assert same or kind.frontier(one) != kind.frontier(later)


def test_not_started_and_finished_can_be_said_of_parts_that_appear_later() -> None:
    """A map from partition to offset cannot: in it a partition that is absent is the one or the other by guess."""
    begun, closed = offsets({0: 4, 2: None}), offsets({0: 4}, closed=True)

    assert [True, False] == [frontier.less_equal(Partitioned.at(99, 0)) for frontier in (begun, closed)]
    assert [False, False] == [frontier.less_equal(Partitioned.at(2, 9)) for frontier in (begun, closed)]
    assert Antichain() == offsets({}, closed=True) and NOT_STARTED == offsets({0: 0, 7: 0})
    assert Antichain([Partitioned.at(0, 0)]) == offsets({0: 0}, closed=True)


def test_parts_hold_parts() -> None:
    """Sources of one timeline, of which one is a topic; a source that is added has not started until then."""
    both = frontier_of({"bank": Antichain([7]), "orders": offsets({1: 3})})

    assert both.less_equal(Partitioned.at("orders", Partitioned.at(1, 3)))
    assert both.less_equal(Partitioned.at("added", Partitioned.rest()))
    assert both.join(frontier_of({"bank": Antichain([5]), "added": Antichain([1])})) == frontier_of(
        {"bank": Antichain([7]), "orders": offsets({1: 3}), "added": Antichain([1])}
    )
    assert (True, False, True) == tuple(map(is_least, (Product(0, 0), Partitioned.at(0, 0), Partitioned.rest())))


def test_a_time_shows_what_it_is() -> None:
    """In errors, and for debugging."""
    times = [Partitioned.rest(), Partitioned.rest([2, 0]), Partitioned.at("a", 3), Partitioned.among([1])]

    assert [
        "Partitioned.rest()", "Partitioned.rest([0, 2])", "Partitioned.at('a', 3)", "Partitioned.among([1])"
    ] == list(map(repr, times))
    assert [(None, None, ()), (None, None, (0, 2)), ("a", 3, ("a",)), (None, None, (1,))] == [
        (time.part, time.time, time.named) for time in times
    ]


@pytest.mark.parametrize("wrong", [
    lambda: Partitioned(), lambda: Partitioned.at(-1, 0), lambda: Partitioned.at(True, 0),
    lambda: Partitioned.at(0, -1), lambda: Partitioned.rest([None]), lambda: Partitioned.among([]),
    lambda: frontier_of({0: 4}),
    lambda: Partitioned.at(0, 1).less_equal(1), lambda: Partitioned.at(0, 1).join(Product(1)),
    lambda: Partitioned.at(0, 1).join(Partitioned.at(0, Product(1))),
    lambda: from_plain({"at": 0}), lambda: from_plain({"rest": 0}), lambda: from_plain({"at": 0, "time": 1, "but": 2}),
    lambda: from_plain({"among": [0], "rest": []}), lambda: frontier_from_plain("12"), lambda: gauges.lsn("0/G"),
    lambda: gauges.lsn("FFFFFFFF/0"), lambda: gauges.lsn("1/2\n"),
])  # fmt: skip
def test_what_can_never_be_right_is_refused(wrong: Any) -> None:
    """By name, where it is made."""
    with pytest.raises(MalformedError):
        wrong()


def test_an_lsn_is_read_and_written_as_postgresql_does() -> None:
    """Two hexadecimal numbers of eight digits each."""
    assert (1 << 32 | 0x2A, "1/2A", "0/0") == (gauges.lsn("1/2a"), gauges.lsn_text(1 << 32 | 0x2A), gauges.lsn_text(0))
    assert (0xFE << 32) + 0xB374D848 == gauges.lsn("fe/B374D848")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(choose=choosers())
def test_asking_many_times_is_asking_each(kind: Kind, choose: Chooser) -> None:
    """Of every kind of source, wherever it is; a time of another kind is refused by both."""
    place = kind.first
    for _ in range(choose.integer(0, 4)):
        place = kind.later(choose, place)
    frontier = kind.frontier(place)
    beyond = Beyond(frontier)
    times = [*map(kind.point, kind.points()), *kind.start, *frontier]
    assert list(map(frontier.less_equal, times)) == list(map(beyond, times))
    strange: Any = 7 if isinstance(kind.point(kind.points()[0]), Partitioned) else Partitioned.at("x", 1)
    if frontier:
        with pytest.raises(MalformedError):
            beyond(strange)


def test_a_part_with_times_of_another_kind_is_refused() -> None:
    """As the frontier itself does."""
    for frontier in (offsets({0: 4}), frontier_of({0: offsets({0: 4})})):
        wrong = Partitioned.at(0, Product(1, 2))
        for ask in (frontier.less_equal, Beyond(frontier)):
            with pytest.raises(MalformedError):
                ask(wrong)


@pytest.mark.parametrize("ask", [Partitioned.less_equal, Partitioned.join])
def test_times_of_different_kinds_are_both_named(ask: Any) -> None:
    """By the one who is asked and by the one who is asked about."""
    with pytest.raises(MalformedError, match=r"^Partitioned.at\(0, 1\) and 7 are times of different kinds"):
        ask(Partitioned.at(0, 1), 7)


def test_a_time_knows_the_number_that_it_comes_down_to() -> None:
    """And whether it comes down to none."""
    deep = Partitioned.at("bank", Partitioned.at(2, 17))

    assert [((2,), 17), (("bank", 2), 17)] == [(time.path, time.number) for time in (Partitioned.at(2, 17), deep)]
    for other in (Partitioned.rest([1]), Partitioned.at("a", Partitioned.rest()), Partitioned.at(0, Product(1, 2))):
        assert (None, 0) == (other.path, other.number) == path_of(other)
    assert (((), 7), (None, 0)) == (path_of(7), path_of(Product(1, 2)))


def test_times_of_one_part_are_sorted_even_if_they_are_of_different_kinds() -> None:
    """So that the error is the one that names both."""
    one, other, third = Partitioned.at(0, 5), Partitioned.at(0, Product(1, 2)), Partitioned.at(0, Partitioned.rest())

    assert [third, other, one] == sorted([one, other, third], key=sort_key)
    larger_first = [Partitioned.rest([0]), *map(Partitioned.among, ([0, 1], [0])), Partitioned.at(0, 0)]
    assert larger_first == sorted(reversed(larger_first), key=sort_key)
    assert 50 == len({hash(Partitioned.at(0, number)) for number in range(50)})


def test_a_join_is_without_what_either_leaves_out() -> None:
    """Of two times that are of the rest."""
    one, other = Partitioned.rest([0, 1]), Partitioned.rest([1, 2])

    assert Partitioned.rest([0, 1, 2]) == one.join(other)


def test_a_part_that_is_at_a_number_is_judged_without_its_frontier() -> None:
    """Which may have thousands of parts."""
    beyond = Beyond(frontier_of({"bank": Antichain([5]), "orders": offsets({0: 4})}))
    beyond.frontier = Antichain()
    asked = [Partitioned.at("bank", 4), Partitioned.at("bank", 5)]
    asked += [Partitioned.at("orders", Partitioned.at(0, offset)) for offset in (3, 4)]

    assert [False, True, False, True] == list(map(beyond, asked))
