"""The operator gives out what the definition demands: each update once, at its time, with an exact frontier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import MalformedError
from cdcv2.protocol.messages import Update
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.partitioned import NOT_STARTED, Partitioned, offsets
from cdcv2.timeline.reclock import Reclock, _Part, by_part
from cdcv2.timeline.remap import Remap
from tests.reclock_oracle import KINDS, Kind, Steps, advanced, changes, complete, steps
from tests.strategies import Chooser, choosers

# As many examples as in the profile: 100, or fewer while changes are tried out.
ORDINARY = settings.default.max_examples
of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
Plain = list[tuple[Any, Any, int]]


def bindings(kind: Kind, plain: Steps) -> list[Binding]:
    """Steps of the oracle as bindings, each with the times before it."""
    lowers = [1, *(into + 1 for into, _ in plain[1:])]
    return [
        Binding(lower, into + 1, kind.frontier(place)) for lower, (into, place) in zip(lowers, plain[1:])
    ]


def happened(choose: Chooser, kind: Kind) -> Plain:
    """Some updates of a source; a from-time may have several, and data may come and go at it."""
    points = kind.points()
    return [
        (choose.pick("abc"), choose.pick(points), choose.pick((1, 1, -1, 2))) for _ in range(choose.integer(0, 10))
    ]


class Run:
    """One run of an operator, with everything that it gave out, judged as it goes."""

    def __init__(self, kind: Kind, operator: Reclock) -> None:
        self.kind, self.operator = kind, operator
        self.out: Counter[tuple[Any, Any]] = Counter()

    def take(self, carried: tuple[list[Update], Antichain], before: Antichain) -> None:
        """Record what came out: nothing before the stated frontier, which never goes back."""
        updates, frontier = carried
        for data, time, diff in updates:
            assert before.less_equal(time), f"{data} at {time} after {before} was said"
            self.out[data, time] += diff
        assert frontier.dominates(before) and frontier == self.operator.frontier

    def bind(self, binding: Binding) -> None:
        """A binding comes."""
        before = self.operator.frontier
        self.take(self.operator.bind(binding), before)

    def feed(self, updates: Iterable[tuple[Any, Any, int]], place: Any = None) -> None:
        """Updates come, and the source reports where it is."""
        built = [(data, self.kind.point(point), diff) for data, point, diff in updates]
        source = None if place is None else self.kind.frontier(place)
        before = self.operator.frontier
        self.take(self.operator.updates(built, source), before)

    def content(self) -> dict[tuple[Any, Any], int]:
        """Everything that it gave out, added up."""
        return {key: diff for key, diff in self.out.items() if diff}


@of_each_kind
@settings(max_examples=2 * ORDINARY)
@given(choose=choosers())
def test_the_operator_is_the_definition(kind: Kind, choose: Chooser) -> None:
    """In whatever order bindings, updates and the source's frontier come, compacted on the way or not."""
    plain, source = steps(choose, kind), happened(choose, kind)
    coming, unfed, place, bound = bindings(kind, plain), list(source), kind.first, 1
    run = Run(kind, Reclock(Remap(kind.start), compacting=choose.chance(2)))
    for _ in range(choose.integer(0, 12)):
        if coming and choose.chance(2):
            bound += 1
            run.bind(coming.pop(0))
        else:
            place = kind.later(choose, place)
            now = [update for update in unfed if kind.isin(place, update[1]) or choose.chance(4)]
            for update in now:
                unfed.remove(update)
            run.feed(now, place)
        upper = plain[:bound][-1][0] + 1
        assert Antichain([complete(kind, plain[:bound], upper, place)]) == run.operator.frontier
        if not unfed:
            assert changes(kind, plain[:bound], source, upper) == run.content()
    run.feed(unfed)
    for binding in coming:
        run.bind(binding)

    assert changes(kind, plain, source, plain[-1][0] + 1) == run.content()


@of_each_kind
@settings(max_examples=2 * ORDINARY)
@given(choose=choosers())
def test_compacting_before_is_compacting_after(kind: Kind, choose: Chooser) -> None:
    """`compact(reclock(remap, source)) == reclock(compact(remap), source)`, also with the source ahead or behind."""
    plain, source = steps(choose, kind), happened(choose, kind)
    upper = plain[-1][0] + 1
    since = choose.integer(0, upper - 1)
    remap = Remap(kind.start)
    for binding in bindings(kind, plain):
        remap.follow(binding)
    remap.compact(since)
    run = Run(kind, Reclock(remap))
    place = kind.first
    for update in choose.shuffled(source):
        run.feed([update])
    for _ in range(choose.integer(0, 3)):
        place = kind.later(choose, place)
        run.feed([], place)

    assert advanced(changes(kind, plain, source, upper), since) == run.content()
    assert Antichain([max(since, complete(kind, plain, upper, place))]) == run.operator.frontier


@of_each_kind
@given(choose=choosers())
def test_a_run_that_is_begun_again_goes_on_as_if_it_had_not_stopped(kind: Kind, choose: Chooser) -> None:
    """With the remap, and the source read from the remap's answer for what the output has: nothing else is kept."""
    plain, source = steps(choose, kind), happened(choose, kind)
    whole = changes(kind, plain, source, plain[-1][0] + 1)
    remap = Remap(kind.start)
    for binding in bindings(kind, plain):
        remap.follow(binding)
    output = choose.integer(0, plain[-1][0] + 1)
    resumed = remap.source_frontier_at(Antichain([output]))
    left = [update for update in source if resumed.less_equal(kind.point(update[1]))]
    run = Run(kind, Reclock(remap, source=resumed))
    run.feed(choose.shuffled(left))

    assert {key: diff for key, diff in whole.items() if key[1] >= output} == {
        key: diff for key, diff in run.content().items() if key[1] >= output
    }


def test_published_basics() -> None:
    """`basic_usage` of Materialize's src/timely-util/src/reclock.rs: repeats are kept, what comes later is not late."""
    remap = Remap(NOT_STARTED)
    remap.mint(offsets({0: 4}), 1000)
    carry = Reclock(remap)
    first = carry.updates([(data, Partitioned.at(0, at), 1) for data, at in (("a", 1), ("a", 1), ("b", 3))])
    more = carry.updates([("c", Partitioned.at(0, 3), 1)])
    finished = carry.updates([], Antichain())

    assert ([("a", 1000, 2), ("b", 1000, 1)], Antichain([1000])) == first
    assert ([("c", 1000, 1)], Antichain([1000])) == more
    assert ([], Antichain([1001])) == finished


def test_what_waits_is_given_out_by_the_binding_that_covers_it() -> None:
    """And is held once, consolidated, until then."""
    carry = Reclock(Remap(NOT_STARTED))
    carry.updates([(data, Partitioned.at(part, 5), 1) for part in (0, 1) for data in "aab"])
    carry.updates([("b", Partitioned.at(0, 5), -1), ("c", Partitioned.at(2, 0), 1)])
    assert 4 == carry.deferred
    one = carry.bind(Binding(1, 11, offsets({0: 6})))
    both = carry.bind(Binding(11, 21, offsets({0: 6, 1: 9})))

    assert ([("a", 10, 2)], [("a", 20, 2), ("b", 20, 1)], 1) == (one.updates, both.updates, carry.deferred)


def test_a_closed_remap_ends_the_stream_when_its_source_has_come_far_enough() -> None:
    """What lies beyond its last binding has no time on this timeline, and does not wait for one."""
    carry = Reclock(Remap(Antichain([0])))
    carry.updates([("in", 2, 1), ("out", 7, 1)])
    closing = carry.bind(Binding(1, None, Antichain([5])))
    later = carry.updates([("in", 4, 1), ("out", 8, 1)], Antichain([5]))

    assert ([("in", 1, 1)], Antichain([1]), 0) == (*closing, carry.deferred)
    assert ([("in", 1, 1)], Antichain()) == later


def test_it_holds_the_remap_where_it_reads_and_lets_go_behind() -> None:
    """Two operators on one remap: the slower decides what is forgotten."""
    remap = Remap(Antichain([0]))
    slow, fast = Reclock(remap), Reclock(remap)
    for into in (10, 20, 30):
        fast.bind(Binding(remap.last + 1, into + 1, Antichain([into])))
    fast.updates([], Antichain([25]))
    assert (0, Antichain([30])) == (remap.since, fast.frontier)
    slow.updates([], Antichain([15]))
    assert 20 == remap.since
    slow.close()

    assert (30, 1) == (remap.since, len(remap))


def test_a_remap_that_others_follow_is_looked_at_with_each_call() -> None:
    """As when captures share one: the bindings come by reading, and the operator gets none of them."""
    remap = Remap(Antichain([0]))
    one, other = Reclock(remap), Reclock(remap)
    one.updates([("a", 1, 1)])
    other.updates([("b", 4, 1), ("c", 9, 1)], Antichain([4]))
    assert ([("a", 8, 1)], Antichain([8])) == one.bind(Binding(1, 9, Antichain([3])))
    one.bind(Binding(9, 20, Antichain([5])))

    assert ([("b", 19, 1)], Antichain([19])) == other.updates([]) and 1 == other.deferred
    one.bind(Binding(20, None, Antichain([7])))
    assert ([], Antichain([19])) == other.updates([]) and 0 == other.deferred


def test_an_operator_that_compacts_holds_no_history() -> None:
    """Memory is bounded by what is open: a thousand bindings leave one."""
    remap = Remap(Antichain([0]))
    carry = Reclock(remap)
    for now in range(10, 10_010, 10):
        carry.updates([("a", now - 10, 1)], Antichain([now]))
        carry.bind(Binding(remap.last + 1, now + 1, Antichain([now])))

    assert (1, 0) == (len(remap), carry.deferred)


@pytest.mark.parametrize("updates, source", [
    ([("a", 4, 1)], None), ([], Antichain([3])), ([("a", 6, 1), ("b", 1, 1)], None), ([("a", 6, 1)], Antichain([4])),
])  # fmt: skip
def test_a_source_that_breaks_its_word_is_named(updates: list[Update], source: Antichain | None) -> None:
    """What was stated to be over would otherwise be at a time that has been given out; nothing of it is taken."""
    carry = Reclock(Remap(Antichain([0])))
    carry.updates([], Antichain([5]))
    with pytest.raises(MalformedError, match="source"):
        carry.updates(updates, source)

    assert (0, Antichain([5])) == (carry.deferred, carry.source)


def test_a_void_binding_gives_nothing_out() -> None:
    """As for every reader of the remap."""
    carry = Reclock(Remap(Antichain([0])))
    carry.updates([("a", 1, 1)])

    assert ([], Antichain([1])) == carry.bind(Binding(2, 9, Antichain([5])))
    assert ([("a", 4, 1)], Antichain([4])) == carry.bind(Binding(1, 5, Antichain([5])))


def test_a_part_is_a_few_runs_whatever_order_its_updates_come_in() -> None:
    """Each at least twice as long as the next: looking at them costs what one list costs, nearly."""
    part = _Part(0)
    pairs = [number for first in range(98, 0, -2) for number in (first, first + 1)]
    for number in (*pairs, *range(100, 200), 50, 199, 198, 150, 150):
        part.add([number], [("a", number, 1)])
        lengths = list(map(len, part._runs))
        assert all(longer >= 2 * shorter for longer, shorter in zip(lengths, lengths[1:]))

    assert 198 == len(part)
    wanted = Counter([*pairs, *range(100, 200), 50, 199, 198, 150, 150])
    assert wanted == {number: diff for run in part._runs for _, number, diff in run.updates[run.first:]}


def test_updates_that_cancel_leave_a_part_as_if_they_had_not_come() -> None:
    """Also one that has no other update then, to which more comes."""
    carry = Reclock(Remap(Antichain([0])))
    for update in (("a", 5, 1), ("a", 5, -1), ("b", 7, 1)):
        carry.updates([update])

    assert ([("b", 9, 1)], 0) == (carry.bind(Binding(1, 10, Antichain([8]))).updates, carry.deferred)
    part = _Part(0)
    for update in (("a", 5, 1), ("a", 5, -1), ("b", 7, 1)):
        part.add([update[1]], [update])
    assert 1 == len(part)


def test_data_of_one_time_need_no_order_among_themselves() -> None:
    """A row may be None, or of columns that nothing compares."""
    carry = Reclock(Remap(Antichain([0])))
    carry.updates([(None, 5, 1), ("a", 5, 1), (None, 3, 1)])

    assert 3 == carry.deferred


def test_updates_are_sorted_by_the_parts_whose_numbers_they_have() -> None:
    """Only these need no look at each one."""
    pair, mixed = Product(1, 2), Partitioned.at("bank", Partitioned.at(2, 17))
    found, others = by_part([("a", 3, 1), ("b", mixed, 1), ("c", pair, 1), ("d", 4, 1), ("e", Partitioned.rest(), 1)])

    assert {(): [("a", 3, 1), ("d", 4, 1)], ("bank", 2): [("b", mixed, 1)]} == found
    assert [("c", pair, 1), ("e", Partitioned.rest(), 1)] == others


def test_an_operator_that_begins_where_its_source_is_takes_nothing_from_before() -> None:
    """It stands in the output already; and it forgets nothing of the remap unless it should."""
    remap = Remap(Antichain([0]))
    remap.mint(Antichain([5]), 10)
    carry = Reclock(remap, source=Antichain([5]), compacting=False)
    with pytest.raises(MalformedError, match="came after its source"):
        carry.updates([("a", 4, 1)])

    assert (Antichain([5]), Antichain([11]), 0) == (carry.source, carry.frontier, remap.since)
