"""The published six-step scenario, and each known weakness of the reference reader as a test that it is not ours.

The scenario is the one by which the published encoding was accepted: after each step, what is visible. The
weaknesses are those of a line-by-line model of the reference implementation's iterator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from cdcv2 import Antichain, Iter, Product, Progress, Resolver, Updates
from cdcv2.errors import ContradictionError, MalformedError

P = Product

FIRST = [Updates([((5, 10), 5, 1)]), Updates([((5, 12), 4, 1)]), Updates([((5, 12), 5, -1)])]
STEPS: list[tuple[list[Any], dict[Any, int], int]] = [
    (FIRST, {}, 0),
    ([Progress([0], [3]), Progress([3], [10], {4: 1, 5: 2, 6: 1})], {(5, 10): 1}, 6),
    ([Updates([((5, 10), 6, -1)])], {}, 10),
    ([*FIRST, Progress([3], [6], {4: 1, 5: 2})], {}, 10),
    ([Updates([((6, 10), 10, 1)]), Progress([10], [15], {10: 1})], {(6, 10): 1}, 15),
    ([Progress([15], [20])], {(6, 10): 1}, 20),
]


def visible(messages: Iterable[Any]) -> tuple[dict[Any, int], Iter]:
    """The collection that a reader of these sees, and the reader."""
    reader = Iter(messages)
    rows: Counter[Any] = Counter()
    for updates, _ in reader:
        for data, _, diff in updates:
            rows[data] += diff
    return {data: count for data, count in rows.items() if count}, reader


@pytest.mark.parametrize("steps", range(1, len(STEPS) + 1))
def test_the_published_scenario_shows_the_same_after_each_step(steps: int) -> None:
    """Also the replay by a restarted producer, whose intervals have other bounds."""
    messages = [message for told, _, _ in STEPS[:steps] for message in told]
    _, rows, upper = STEPS[steps - 1]

    seen, reader = visible(messages)

    assert rows == seen
    assert Antichain([upper]) == reader.frontier
    assert not reader.closed


def test_the_published_scenario_can_be_followed_live() -> None:
    """One reader, fed step by step, each batch once."""
    reader, rows = Resolver(), Counter[Any]()
    for messages, expected, upper in STEPS:
        for message in messages:
            batch = reader.absorb(message)
            for data, _, diff in batch.updates if batch else ():
                rows[data] += diff

        assert expected == {data: count for data, count in rows.items() if count}
        assert Antichain([upper]) == reader.frontier
    assert ({}, 0, 0) == (reader.open_times(), reader.held_updates(), reader.waiting_statements())


def test_weakness_0_unrelated_chains_of_statements_are_not_waited_for_for_ever() -> None:
    """(0, 1), (1, 0) and (1, 1) are stated by two statements neither of which covers the other's lower."""
    reader = Iter(
        [Progress([P(0, 1)], [P(0, 2)], {P(1, 1): 1}), Progress([P(1, 0)], [P(2, 0)], {P(1, 1): 1}),
         Updates([("a", P(1, 1), 1)])],
        start=[P(0, 1), P(1, 0)],
    )

    given = [update for updates, _ in reader for update in updates]

    assert [("a", P(1, 1), 1)] == given
    assert Antichain([P(0, 2), P(2, 0)]) == reader.frontier


@pytest.mark.parametrize("statement_first", [True, False])
def test_weakness_1_a_repeat_inside_a_batch_does_not_count_twice(statement_first: bool) -> None:
    """b was lost: two copies of a used up the count of both."""
    told = [Updates([("a", 3, 1), ("a", 3, 1)]), Updates([("b", 3, 1)])]
    statement = Progress([0], [5], {3: 2})
    rows, reader = visible([statement, *told] if statement_first else [*told, statement])

    assert {"a": 1, "b": 1} == rows
    assert Antichain([5]) == reader.frontier


def test_weakness_2_two_diffs_do_not_pass_as_two_updates() -> None:
    """They used up the count of a missing b."""
    with pytest.raises(ContradictionError, match="'a' at time 3"):
        visible([Progress([0], [5], {3: 2}), Updates([("a", 3, 1)]), Updates([("a", 3, -1)]), Updates([("b", 3, 1)])])


@pytest.mark.parametrize("surplus_first", [True, False])
def test_weakness_3_more_than_was_announced_is_not_silent(surplus_first: bool) -> None:
    """If the surplus came first, what was announced was lost."""
    log: list[Any] = [Progress([0], [5], {3: 1, 1: 1}), Updates([("a", 3, 1), ("b", 3, 1)])]
    with pytest.raises(ContradictionError, match="time 3"):
        visible(log[::-1] if surplus_first else log)


def test_weakness_4_conflicting_statements_do_not_pass() -> None:
    """The first won, silently, and b was lost."""
    with pytest.raises(ContradictionError, match="1 updates at time 3 and also 2"):
        visible([Progress([0], [5], {3: 1}), Progress([0], [5], {3: 2}), Updates([("a", 3, 1), ("b", 3, 1)])])


def test_weakness_5_a_count_outside_its_interval_is_refused() -> None:
    """It was counted twice, and the reader stood still for ever."""
    with pytest.raises(MalformedError, match="4"):
        Progress([0], [3], {4: 1})


@pytest.mark.parametrize("make", [
    lambda: Progress([5], [3]),
    lambda: Progress([3, 5], [9]),
    lambda: Progress([0], [P(1, 1)]),
    lambda: Progress([], [3]),
    lambda: Progress([0], [5], {3: 0}),
    lambda: Progress([0], [5], {3: -1}),
    lambda: Progress([0], [5], [(3, 2.0)]),  # type: ignore[list-item]
    lambda: Progress([0], [5], [(3, 1), (3, 1)]),
    lambda: Updates([("a", 3, 0)]),
])
def test_weakness_6_what_cannot_be_right_is_not_absorbed(make: Any) -> None:
    """Bounds the wrong way round, no antichains, no lower, counts and diffs that count nothing."""
    with pytest.raises(MalformedError):
        make()


def test_weakness_7_the_end_is_noticed_and_an_early_end_is_told() -> None:
    """After the empty upper nothing more is asked for; a truncated log does not look complete."""
    messages = iter([Progress([0], [], {3: 1}), Updates([("a", 3, 1)]), Updates([("never asked for", 4, 1)])])
    rows, reader = visible(messages)
    assert ({"a": 1}, True) == (rows, reader.closed)
    assert 1 == len(list(messages))

    _, truncated = visible([Progress([0], [], {3: 2}), Updates([("a", 3, 1)])])
    assert not truncated.closed
    assert ((3, 1),) == truncated.missing().updates


def test_weakness_8_a_reader_starts_anywhere_and_can_be_moved() -> None:
    """A log can be compacted and resumed, by a reader that has the content of a checkpoint."""
    reader = Resolver([4], begins=[0])
    reader.absorb(Updates([("old", 3, 1), ("a", 4, 1)]))
    moved = Resolver.restore(reader.export_state())

    batch = moved.absorb(Progress([2], [6], {3: 1, 4: 1}))

    assert batch is not None and [("a", 4, 1)] == batch.updates


def test_weakness_15_statements_in_reverse_are_not_searched_through() -> None:
    """So many that a reader which searches its queue for each would not come back; repeats are kept once."""
    size = 30_000
    reader = Resolver()
    for number in range(size - 1, 0, -1):
        reader.absorb(Progress([number], [number + 1], {number: 1}))
    for number in range(1, 1000):
        reader.absorb(Progress([number], [number + 1], {number: 1}))
    assert size - 1 == reader.waiting_statements()

    reader.absorb(Progress([0], [1]))

    assert Antichain([size]) == reader.known
    assert 0 == reader.waiting_statements()
    assert Antichain([1]) == reader.frontier


def test_weakness_16_a_move_costs_what_it_releases() -> None:
    """Much is held at later times while the frontier moves often; a scan of all at each move would not come back."""
    size = 10_000
    reader = Resolver()
    reader.absorb(Updates([("later", 10**6 + number, 1) for number in range(size)]))
    given = 0
    for number in range(size):
        reader.absorb(Updates([("now", number, 1)]))
        batch = reader.absorb(Progress([number], [number + 1], {number: 1}))
        given += len(batch.updates) if batch else 0

    assert size == given
    assert size == reader.held_updates()


def test_weakness_18_batches_come_by_time_and_always_alike() -> None:
    """In the order of times, and in the same order in every process."""
    told = Updates([(name, at, 1) for name in "xyz" for at in (3, 1, 2)])
    (batch,) = Iter([told, Progress([0], [5], {1: 3, 2: 3, 3: 3})])

    assert [1, 1, 1, 2, 2, 2, 3, 3, 3] == [at for _, at, _ in batch.updates]
    assert [*"xyzxyzxyz"] == [name for name, _, _ in batch.updates]
