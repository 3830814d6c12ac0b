"""One bisect finds what the definition states: of every part, at every edge of a binding, also after forgetting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import MalformedError
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.lookup import Lookup, Steps
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, frontier_of, offsets
from cdcv2.timeline.reclock import Reclock
from cdcv2.timeline.remap import Remap
from tests.reclock_oracle import KINDS, Kind, happens, steps
from tests.strategies import Chooser, choosers

of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)


@of_each_kind
@given(choose=choosers())
def test_every_point_is_found_where_the_definition_has_it(kind: Kind, choose: Chooser) -> None:
    """Bindings that move one part, several or none, some of them twice to one place; some forgotten on the way."""
    plain = steps(choose, kind, most=9)
    lookup, since = Lookup([(0, kind.start)]), 0
    for number, (into, place) in enumerate(plain[1:], 2):
        lookup.append(into, kind.frontier(place))
        if choose.chance(3):
            since = choose.integer(since, into)
            lookup.forget(since)
        times = [happens(kind, plain[:number], into + 1, point) for point in kind.points()]
        assert [time and max(time, since) for time in times] == [
            lookup.into(kind.point(point)) for point in kind.points()
        ]


@given(choose=choosers())
def test_steps_are_what_a_walk_over_the_bindings_finds(choose: Chooser) -> None:
    """Ends that do not move add nothing; a number at an end is behind it; what is forgotten happens at since."""
    found, bindings, since = Steps(), list[tuple[int, int]](), 0
    end = into = 0
    for _ in range(choose.integer(0, 12)):
        end, into = end + choose.integer(0, 3), into + choose.integer(1, 3)
        bindings.append((end, into))
        found.add(end, into)
        if choose.chance(4):
            since = choose.integer(since, into)
            found.forget(since)

    def walked(number: int) -> int | None:
        return next((max(into, since) for end, into in bindings if number < end), None)

    assert list(map(walked, range(end + 3))) == list(map(found.into, range(end + 3)))
    assert len(set(found.ends)) == len(found.ends) and len(set(found.intos)) == len(found.intos)


@of_each_kind
@given(choose=choosers())
def test_what_waits_is_counted_once_in_whatever_order_it_came(kind: Kind, choose: Chooser) -> None:
    """Many updates in a few parts, in pieces that are in order or not, with duplicates and changes that cancel."""
    remap, place, fed = Remap(kind.start), kind.first, Counter[tuple[Any, Any]]()
    operator, out = Reclock(remap), Counter[Any]()
    coming = [
        (choose.pick("ab"), choose.pick(kind.points()), choose.pick((1, -1, 2))) for _ in range(choose.integer(9, 60))
    ]
    if choose.chance(2):
        coming.sort(key=lambda update: str(update[1]))
    while coming:
        if choose.chance(3):
            place = kind.later(choose, place)
            carried = operator.bind(Binding(remap.last + 1, remap.last + 3, kind.frontier(place)))
        else:
            piece, coming = coming[:8], coming[8:]
            for data, point, diff in piece:
                fed[data, point] += diff
            carried = operator.updates([(data, kind.point(point), diff) for data, point, diff in piece])
        for data, _, diff in carried.updates:
            out[data] += diff
        waiting = [key for key, diff in fed.items() if diff and not kind.isin(place, key[1])]
        held = Counter[Any]()
        for (data, point), diff in fed.items():
            held[data] += diff if kind.isin(place, point) else 0

        # Asking merges what is held, so it is not always asked.
        assert choose.chance(2) or len(waiting) == operator.deferred
        assert {data: diff for data, diff in held.items() if diff} == {data: diff for data, diff in out.items() if diff}


@pytest.mark.parametrize("start, good, foreign", [
    (Antichain([0]), 3, Partitioned.at(0, 1)), (NOT_STARTED, Partitioned.at(0, 3), 7),
    (Antichain([Product(0, 0)]), Product(1, 2), 7),
])  # fmt: skip
def test_times_of_another_gauge_are_refused_and_change_nothing(start: Antichain, good: Any, foreign: Any) -> None:
    """Whichever part of the updates was judged first."""
    operator = Reclock(Remap(start))
    with pytest.raises(MalformedError, match="different kinds"):
        operator.updates([("a", good, 1), ("b", foreign, 1)])

    assert 0 == operator.deferred and [] == operator.updates([("a", good, 1)]).updates


@pytest.mark.parametrize("foreign", [Partitioned.at(0, 3), Product(1, 2)], ids=str)
def test_a_part_that_the_source_has_not_started_is_judged_by_the_bindings(foreign: Any) -> None:
    """Of such a part the source's own frontier does not know the gauge."""
    operator = Reclock(Remap(NOT_STARTED))
    operator.bind(Binding(1, 10, frontier_of({"bank": Antichain([5])})))
    with pytest.raises(MalformedError, match="different kinds"):
        operator.updates([("a", Partitioned.at("bank", 7), 1), ("b", Partitioned.at("bank", foreign), 1)])

    assert 0 == operator.deferred


def test_parts_that_no_binding_names_finish_when_no_more_can_start() -> None:
    """Of them no binding has a number: they have not started, and then all of them are covered."""
    lookup = Lookup([(0, NOT_STARTED), (10, offsets({0: 4})), (20, offsets({0: None}, closed=True))])

    assert [20, 20, 20] == [lookup.into(Partitioned.at(*at)) for at in ((7, 0), (7, 99), (0, 4))]
    assert 10 == lookup.into(Partitioned.at(0, 3))


def test_a_number_is_found_without_a_look_at_the_frontiers() -> None:
    """One bisect in the ends of its part, however many parts there are."""
    lookup = Lookup([(0, NOT_STARTED), (10, offsets({0: 4})), (20, offsets({0: 6}))])
    lookup.frontiers.clear()

    assert [10, 20, None] == [lookup.into(Partitioned.at(0, number)) for number in (3, 4, 6)]
