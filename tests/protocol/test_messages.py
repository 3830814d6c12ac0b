"""What can never be right is refused where it is made, and the refusal names the value."""

from __future__ import annotations

import copy
import pickle
from random import Random
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import Cdcv2Error, MalformedError
from cdcv2.protocol import messages as messages_module
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Batch, Progress, Updates, counted
from tests.doubles import Lane

P = Product
NOT_TIMES = [-1, 2**63, True, False, 1.0, "1", None, (1, 2), (), [1]]


@pytest.mark.parametrize("diff", [0, 1.0, 0.5, True, False, "1", None])
def test_updates_refuse_a_diff_that_is_no_change(diff: Any) -> None:
    """Zero is never written; bool and float are not counts of rows."""
    with pytest.raises(MalformedError) as caught:
        Updates([("a", 3, 1), ("a", 4, diff)])

    assert repr(diff) in str(caught.value)


@pytest.mark.parametrize("time", NOT_TIMES)
def test_updates_refuse_what_is_no_time(time: Any) -> None:
    """A plain tuple above all."""
    with pytest.raises(MalformedError) as caught:
        Updates([("a", time, 1)])

    assert repr(time) in str(caught.value)


@pytest.mark.parametrize("update", [("a", 1), ("a", 1, 1, 1), 3, None, ()])
def test_updates_refuse_what_is_no_triple(update: Any) -> None:
    """Not by the error of an unpacking that failed."""
    with pytest.raises(MalformedError, match="update"):
        Updates([update])


@pytest.mark.parametrize("updates", [None, 5])
def test_updates_refuse_what_cannot_be_iterated(updates: Any) -> None:
    """With what it takes, not with Python's text about an int."""
    with pytest.raises(MalformedError, match="not iterable"):
        Updates(updates)


@pytest.mark.parametrize("data", [["a"], {"a": 1}, ("a", [1]), {1}])
def test_updates_refuse_data_that_cannot_be_hashed(data: Any) -> None:
    """Identity needs it."""
    with pytest.raises(MalformedError, match="hashed"):
        Updates([(data, 1, 1)])


@pytest.mark.parametrize("data", ["a", None, (), ("a", None, (1,)), 10**40, b"", frozenset(), 1.5])
def test_updates_take_any_hashable_data(data: Any) -> None:
    """None and tuples are data as any other; diffs and data may be as large as they like."""
    assert ((data, 2**63 - 1, -(10**30)),) == Updates([(data, 2**63 - 1, -(10**30))]).updates


def test_updates_are_values() -> None:
    """Of any iterable, equal by content, hashable, not to be changed, able to travel."""
    message = Updates(("a", P(1, number), 1) for number in (1, 2))

    assert Updates([("a", P(1, 1), 1), ("a", P(1, 2), 1)]) == message
    assert hash(Updates([("a", P(1, 1), 1), ("a", P(1, 2), 1)])) == hash(message)
    assert 2 == len(message)
    assert Updates() == Updates([])
    assert Updates.trusted((("a", 1, 1),)) == Updates([("a", 1, 1)])
    assert message == pickle.loads(pickle.dumps(message)) == copy.deepcopy(message)
    with pytest.raises(AttributeError):
        message.updates = ()  # type: ignore[misc]


@pytest.mark.parametrize("count", [0, -1, True, False, 1.0, "1", None])
def test_progress_refuses_a_count_that_counts_nothing(count: Any) -> None:
    """A time without updates is left out."""
    with pytest.raises(MalformedError) as caught:
        Progress([0], [5], {3: count})

    assert repr(count) in str(caught.value) and "3" in str(caught.value)


def test_progress_refuses_a_time_twice_in_its_counts() -> None:
    """Neither the sum nor the last would be right, even when they agree."""
    for counts in ([(3, 1), (3, 2)], [(3, 1), (3, 1)]):
        with pytest.raises(MalformedError, match="twice"):
            Progress([0], [5], counts)


@pytest.mark.parametrize("lower, upper, time", [
    ([2], [5], 1), ([2], [5], 5), ([2], [5], 6), ([2], [], 1), ([2], [2], 2),
    ([P(0, 1), P(1, 0)], [P(2, 2)], P(0, 0)), ([P(0, 0)], [P(0, 2), P(2, 0)], P(2, 0)),
    ([P(0, 0)], [P(0, 2), P(2, 0)], P(1, 3)),
])
def test_progress_refuses_a_count_outside_its_interval(lower: Any, upper: Any, time: Any) -> None:
    """It would be counted twice, and stall the reader for ever."""
    with pytest.raises(MalformedError, match="interval"):
        Progress(lower, upper, {time: 1})


@pytest.mark.parametrize("upper", [[], [5]])
def test_progress_refuses_an_empty_lower(upper: list[int]) -> None:
    """It covers no time."""
    with pytest.raises(MalformedError, match="lower"):
        Progress([], upper)


@pytest.mark.parametrize("lower, upper", [
    ([5], [3]), ([P(1, 1)], [P(0, 5)]), ([P(0, 2), P(2, 0)], [P(1, 1)]), ([P(1, 1)], [P(2, 2), P(0, 9)]),
])
def test_progress_refuses_an_upper_that_is_not_beyond_its_lower(lower: Any, upper: Any) -> None:
    """Each element must be."""
    with pytest.raises(MalformedError, match="upper"):
        Progress(lower, upper)


@pytest.mark.parametrize("bound", [[3, 4], [3, 3], [P(0, 0), P(1, 1)], [P(0, 1), P(1, 0), P(1, 1)]])
def test_progress_refuses_bounds_that_are_no_antichains(bound: Any) -> None:
    """The writer's intent is unknown: the least, or the greatest."""
    last = max(bound, key=lambda time: list(time) if isinstance(time, P) else time)
    with pytest.raises(MalformedError, match="lower bound.*antichain"):
        Progress(bound, [])
    with pytest.raises(MalformedError, match="upper bound.*antichain"):
        Progress([0] if type(last) is int else [P(0, 0)], bound)


@pytest.mark.parametrize("time", NOT_TIMES)
def test_progress_refuses_what_is_no_time_anywhere(time: Any) -> None:
    """In the lower, the upper and the counts."""
    places: list[Any] = [([time], []), ([0], [time]), ([0], [5], [(time, 1)])]
    for arguments in places:
        with pytest.raises(MalformedError):
            Progress(*arguments)


@pytest.mark.parametrize("arguments", [
    (0, [5]), ([0], 5), ([0], None), ([0], [5], [3]), ([0], [5], [(3, 1, 1)]), ([0], [P(1, 1)]),
    ([0], [5], 5), ([0], [5], None), ([0], [5], {P(1, 1): 1}), ([P(0, 0)], [], {3: 1}),
    ([P(0)], [P(1, 1)]), ([0, P(1)], []),
])
def test_progress_refuses_other_shapes_and_mixed_times(arguments: Any) -> None:
    """A bare time as a bound, counts that are no pairs, times of two kinds."""
    with pytest.raises(MalformedError):
        Progress(*arguments)


def test_progress_takes_any_iterables() -> None:
    """Lists, tuples, antichains, generators; counts as a mapping or pairs; sorted."""
    plain = Progress([0], [5], [(3, 1), (1, 2)])

    assert plain == Progress((0,), Antichain([5]), {1: 2, 3: 1})
    assert plain == Progress(iter([0]), iter([5]), iter([(1, 2), (3, 1)]))
    assert hash(plain) == hash(Progress((0,), Antichain([5]), {1: 2, 3: 1}))
    assert ((1, 2), (3, 1)) == plain.counts
    assert (Antichain([0]), Antichain([5])) == (plain.lower, plain.upper)
    assert () == Progress([0], []).counts
    assert plain == pickle.loads(pickle.dumps(plain)) == copy.deepcopy(plain)
    with pytest.raises(AttributeError):
        plain.counts = ()  # type: ignore[misc]


def test_a_statement_about_nothing_is_legal() -> None:
    """Upper equal to lower: an idle writer may state it."""
    assert Progress([5], [5]).lower == Progress([5], [5]).upper
    assert not Progress([5], [5]).covers(5)


def test_a_statement_covers_its_lower_and_not_its_upper() -> None:
    """Beyond the one, not beyond the other."""
    assert [False, True, True, False] == [Progress([2], [4]).covers(time) for time in (1, 2, 3, 4)]
    assert Progress([2], []).covers(2**63 - 1)
    wide = Progress([P(0, 1), P(1, 0)], [P(0, 3), P(2, 2)])
    assert [True, True, True, False, False, False] == [
        wide.covers(P(*pair)) for pair in ((0, 1), (1, 1), (9, 1), (0, 0), (0, 3), (2, 2))
    ]


def test_errors_have_one_root_and_the_fitting_built_in() -> None:
    """A caller may catch either."""
    with pytest.raises(Cdcv2Error):
        Updates([("a", 1, 0)])
    with pytest.raises(ValueError):
        Updates([("a", 1, 0)])


def test_a_batch_unpacks_to_updates_and_frontier() -> None:
    """And has its lower bound as well."""
    batch = Batch([("a", 1, 1)], Antichain([0]), Antichain([3]))
    updates, frontier = batch

    assert ([("a", 1, 1)], Antichain([3])) == (updates, frontier)
    assert Antichain([0]) == batch.lower


def test_a_position_reads_as_people_write_it() -> None:
    """Topic, partition, offset; and the ordinal in a file that has several messages."""
    assert "orders[2]@17" == str(Position("orders", 2, 17))
    assert "log/orders[0]@3#2" == str(Position("log/orders", 0, 3, 2))


def test_statements_count_updates_between_two_times() -> None:
    """Whatever is stated without updates, in any order; times of any kind, by their sort keys."""
    late, early = Progress([9], [12], {11: 3}), Progress([5], [9], {7: 2, 8: 1})
    lanes = [Progress([Lane("", 0)], [Lane(lane, 9) for lane in "ab"], {Lane(lane, at): 1})
             for lane, at in (("b", 2), ("a", 3), ("b", 1))]  # fmt: skip
    found = []
    for messages in ([Progress([0], [5]), late, Updates([("x", 1, 1)]), early], [early], [early, late], lanes):
        span = None
        for message in messages:
            span = counted(message, span)
        found.append(span)

    assert [(7, 11), (7, 8), (7, 11), (Lane("a", 3), Lane("b", 2))] == found
    assert (None, (4, 4)) == (counted(Progress([0], [5])), counted("no message", (4, 4)))
    assert (5, 6) == counted(Progress([0], [9], {6: 1}), (5, 5))


def test_counts_that_are_in_order_are_judged_as_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way for nearly all statements gives what the rules for any counts give, or the same refusal."""
    random = Random(7)
    odd: list[Any] = [True, -1, 0, 2.0, "3", None, 2**63, 2**63 - 1, P(1, 1)]

    def made(lower: int, upper: list[int], counts: list[Any]) -> object:
        try:
            return Progress([lower], upper, counts).counts
        except MalformedError as error:
            return str(error)

    for _ in range(600):
        counts: list[Any] = [(time, random.randint(1, 3)) for time in random.sample(range(12), random.randrange(5))]
        if random.random() < 0.7:
            counts.sort()
        if counts and random.random() < 0.4:
            place = random.randrange(len(counts))
            counts[place] = random.choice((
                (random.choice(odd), 1), (3, random.choice(odd)), (3,), (3, 1, 1), [3, 1], counts[0]
            ))
        lower = random.randrange(4)
        given = lower, random.choice(([], [random.randint(lower, 13)])), counts
        short = made(*given)
        with monkeypatch.context() as patched:
            patched.setattr(messages_module, "_are_in_order", lambda *_: False)
            assert made(*given) == short
