"""The reader's rules 1 to 5, one by one, each with the smallest log that would go wrong without it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import ContradictionError, MalformedError, StartError
from cdcv2.protocol.ledger import Ledger
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import Batch, Message, Progress, Updates
from cdcv2.protocol.resolver import Resolver
from tests.doubles import Lane

P = Product


def reader_of(*messages: Message, start: Any = None) -> Resolver:
    """A reader that has absorbed these."""
    reader = Resolver(start)
    for message in messages:
        reader.absorb(message)
    return reader


def batch(updates: list[Any], lower: list[Any], upper: list[Any]) -> Batch:
    """A batch, written short."""
    return Batch(updates, Antichain(lower), Antichain(upper))


# -- rule 1: an update is kept once per identity ------------------------------------------------------------------


def test_a_repeat_inside_one_message_counts_once() -> None:
    """The other update at that time is still waited for, and not lost."""
    reader = reader_of(Progress([0], [5], {3: 2}), Updates([("a", 3, 1), ("a", 3, 1)]))

    assert Antichain([3]) == reader.frontier
    assert batch([("a", 3, 1), ("b", 3, 1)], [3], [5]) == reader.absorb(Updates([("b", 3, 1)]))


def test_a_repeat_in_another_message_counts_once() -> None:
    """However often it comes, and before or after the statement."""
    told = Updates([("a", 3, 1)])
    reader = reader_of(told, told, Progress([0], [5], {3: 2}), told)

    assert Antichain([3]) == reader.frontier
    assert 2 == reader.counters["repeats"]
    assert 1 == reader.held_updates()


def test_the_same_data_at_another_time_is_another_update() -> None:
    """Identity is data and time together."""
    reader = reader_of(Updates([("a", 3, 1), ("a", 4, 1)]))

    assert batch([("a", 3, 1), ("a", 4, 1)], [0], [5]) == reader.absorb(Progress([0], [5], {3: 1, 4: 1}))


@pytest.mark.parametrize("messages", [
    [Updates([("a", 3, 1)]), Updates([("a", 3, -1)])],
    [Updates([("a", 3, 1), ("b", 3, 1), ("a", 3, -1)])],
    [Updates([("a", 3, 1), ("a", 3, 1)]), Updates([("c", 3, 1), ("a", 3, 2)])],
    [Progress([0], [5], {3: 2}), Updates([("a", 3, 1)]), Updates([("a", 3, 2)])],
])
def test_two_diffs_for_one_identity_contradict(messages: list[Message]) -> None:
    """They would use up the count of an update that is missing."""
    reader = reader_of(*messages[:-1])

    with pytest.raises(ContradictionError) as caught:
        reader.absorb(messages[-1])

    assert ("diff", 3, "a") == (caught.value.what, caught.value.time, caught.value.data)


def test_what_is_not_beyond_reported_is_late_and_dropped() -> None:
    """A finished time is forgotten: a duplicate there looks like a contradiction, and is counted."""
    reader = reader_of(Progress([0], [5], {3: 1}), Updates([("a", 3, 1)]))

    assert reader.absorb(Updates([("a", 3, 1), ("a", 3, 9), ("b", 4, 1), ("c", 5, 1)])) is None
    assert 3 == reader.counters["late"]
    assert 0 == reader.counters["repeats"]
    assert {5: (None, 1)} == reader.open_times()


def test_an_update_before_the_start_is_left_out_by_a_reader_that_has_it() -> None:
    """One that was given the content of a checkpoint at 5, which began at 0. It is not late."""
    reader = Resolver([5], begins=[0])

    assert reader.absorb(Updates([("a", 4, 1), ("b", 5, 1)])) is None
    assert (0, 1) == (reader.counters["late"], reader.counters["before_start"])
    assert batch([("b", 5, 1)], [5], [9]) == reader.absorb(Progress([0], [9], {4: 1, 5: 1}))
    assert reader.absorb(Updates([("a", 4, 1), ("b", 5, 1)])) is None
    assert (1, 2) == (reader.counters["late"], reader.counters["before_start"])


@pytest.mark.parametrize("message", [
    Entry(Position("log", 0, 7), Updates([("b", 5, 1), ("a", 4, 1), ("a", 3, 1), ("b", 3, 1)])),
    Entry(Position("log", 0, 7), Progress([0], [9], {5: 1, 4: 1, 3: 2})),
], ids=["updates", "statement"])  # fmt: skip
@pytest.mark.parametrize("on_error", ["raise", "quarantine"])
def test_an_update_before_the_start_is_an_error(message: Entry, on_error: str) -> None:
    """Whether it has come or is only stated: a reader that begins at 5 and has nothing from before would leave it out.

    Nothing has changed, and a reader that is restored still knows where the history begins.
    """
    reader = Resolver([5], on_error=on_error)
    for one in (reader, Resolver.restore(reader.export_state())):
        before = one.export_state()
        with pytest.raises(StartError, match=r"2 updates at time 3 \(log\[0\]@7\).* at \[5\]") as caught:
            one.absorb(message)
        assert (3, 2, Antichain([5]), message.position) == (
            caught.value.time, caught.value.number, caught.value.begins, caught.value.position
        )
        assert before == one.export_state()
        assert repr(caught.value) == repr(pickle.loads(pickle.dumps(caught.value)))


def test_a_statement_may_begin_before_the_start_where_it_counts_nothing() -> None:
    """A log that begins at 0 and has its first update at 5 can be read from 5 on."""
    assert batch([], [5], [9]) == Resolver([5]).absorb(Progress([0], [9], {}))


def test_a_state_that_does_not_know_its_start_counts_as_before() -> None:
    """Those that were exported before there was an origin: what is before the start is late there, as it was."""
    state = Resolver([5]).export_state()
    del state["ledger"]["origin"]
    # Put away once more it still does not.
    reader = Resolver.restore(Resolver.restore(state).export_state())

    assert reader.absorb(Updates([("a", 4, 1)])) is None
    assert (1, 0) == (reader.counters["late"], reader.counters["before_start"])
    assert batch([], [5], [9]) == reader.absorb(Progress([0], [9], {4: 1}))
    with pytest.raises(StartError):
        Ledger.restore(state["ledger"], start=Antichain([5])).left_out({4: 1})


# -- rule 2: statements wait, and are grafted exactly -------------------------------------------------------------


def test_a_statement_waits_for_the_one_before_it() -> None:
    """Then both are taken in with one message."""
    reader = reader_of(Updates([("a", 4, 1)]), Progress([3], [5], {4: 1}))

    assert Antichain([0]) == reader.known
    assert 1 == reader.waiting_statements()
    assert batch([("a", 4, 1)], [0], [5]) == reader.absorb(Progress([0], [3]))
    assert 0 == reader.waiting_statements()


def test_identical_waiting_statements_are_kept_once() -> None:
    """Memory does not grow with repetition, whether the object is the same or only equal; and repetition is counted."""
    reader = reader_of(*(Progress([3], [5], {4: 1}) for _ in range(10)))
    wide = reader_of(*(Progress([P(3, 3)], [P(5, 5)], {P(4, 4): 1}) for _ in range(10)), start=[P(0, 0)])

    assert (1, 9) == (reader.waiting_statements(), reader.export_state()["ledger"]["repeated_statements"])
    assert (1, 9) == (wide.waiting_statements(), wide.export_state()["ledger"]["repeated_statements"])


def test_a_chain_in_reverse_is_taken_in_at_once() -> None:
    """Each waits for the one before."""
    reader = reader_of(*(Progress([n], [n + 1]) for n in range(9, 0, -1)))

    assert 9 == reader.waiting_statements()
    assert batch([], [0], [10]) == reader.absorb(Progress([0], [1]))
    assert 0 == reader.waiting_statements()


def test_overlapping_statements_extend_what_is_known() -> None:
    """The interval of the one may begin inside that of the other; each time counts once."""
    reader = reader_of(Progress([0], [5], {2: 1, 4: 1}), Progress([3], [9], {4: 1, 7: 1}))

    assert Antichain([9]) == reader.known
    assert {2: (1, 0), 4: (1, 0), 7: (1, 0)} == reader.open_times()


def test_statements_that_touch_only_part_of_a_wide_frontier_are_grafted_there() -> None:
    """The published rule waits for ever here, although (0, 1), (1, 0) and (1, 1) are stated."""
    start = [P(0, 1), P(1, 0)]
    reader = reader_of(Progress([P(0, 1)], [P(0, 2)]), start=start)
    assert Antichain([P(0, 2), P(1, 0)]) == reader.known

    reader.absorb(Progress([P(1, 0)], [P(2, 0)]))

    assert Antichain([P(0, 2), P(2, 0)]) == reader.known


def test_a_statement_that_fits_in_part_goes_on_waiting_for_the_rest() -> None:
    """The part that is known counts at once, the other when it can be reached."""
    both = Progress([P(0, 1), P(1, 0)], [P(0, 3), P(3, 0)], {P(0, 1): 1, P(2, 0): 1, P(1, 1): 1})
    reader = reader_of(Updates([("a", P(0, 1), 1), ("b", P(1, 1), 1), ("c", P(2, 0), 1)]), both, start=[P(0, 0)])
    assert Antichain([P(0, 0)]) == reader.known

    given = reader.absorb(Progress([P(0, 0)], [P(0, 1), P(2, 0)]))

    assert given is not None
    assert {"a", "b", "c"} == {data for data, _, _ in given.updates}
    assert Antichain([P(0, 3), P(3, 0)]) == given.upper == reader.known
    assert 0 == reader.waiting_statements()


def test_a_statement_is_kept_while_part_of_it_cannot_be_reached() -> None:
    """What of it could be grafted is; its other half is wanted later, and its counts are not counted twice."""
    wide = Progress([P(0, 2), P(2, 0)], [P(0, 3), P(3, 0)], {P(0, 2): 1, P(2, 0): 1})
    reader = reader_of(wide, Progress([P(0, 0)], [P(0, 2), P(1, 0)]), start=[P(0, 0)])
    assert Antichain([P(0, 3), P(1, 0)]) == reader.known
    assert 1 == reader.waiting_statements()

    reader.absorb(Progress([P(1, 0)], [P(1, 1), P(2, 0)]))

    assert Antichain([P(0, 3), P(1, 1), P(3, 0)]) == reader.known
    assert {P(0, 2): (1, 0), P(2, 0): (1, 0)} == reader.open_times()


def test_the_empty_upper_is_reached_in_any_order() -> None:
    """Closed is closed, whether the end was stated first or last."""
    reader = reader_of(Progress([3], []), Progress([0], [3]))

    assert reader.closed
    assert Antichain() == reader.known


def test_times_without_a_join_need_no_bound() -> None:
    """Grafting across lanes adds nothing: above both there is no time to wait for."""
    bottom = Lane("", 0)
    reader = reader_of(start=[bottom])

    reader.absorb(Progress([bottom], [Lane("a", 0), Lane("b", 0)]))
    reader.absorb(Progress([Lane("a", 0)], [Lane("a", 2)], {Lane("a", 1): 1}))
    assert Antichain([Lane("a", 2), Lane("b", 0)]) == reader.known
    reader.absorb(Progress([Lane("b", 0)], [Lane("b", 5)]))
    assert Antichain([Lane("a", 2), Lane("b", 5)]) == reader.known
    assert Antichain([Lane("a", 1), Lane("b", 5)]) == reader.frontier

    given = reader.absorb(Updates([("x", Lane("a", 1), 1)]))

    assert given is not None and [("x", Lane("a", 1), 1)] == given.updates
    assert Antichain([Lane("a", 2), Lane("b", 5)]) == given.upper


# -- rule 3: statements must agree, and nothing may come that was not stated --------------------------------------


@pytest.mark.parametrize("first, second", [({3: 1}, {3: 2}), ({3: 2}, {3: 1}), ({3: 1}, {}), ({}, {3: 1})])
def test_two_counts_for_one_time_contradict(first: dict[int, int], second: dict[int, int]) -> None:
    """Whichever came first, also if the one has no count at the time, which is zero, and before any update came."""
    reader = reader_of(Progress([0], [5], first) if first else Progress([0], [5], {1: 1}))

    with pytest.raises(ContradictionError) as caught:
        reader.absorb(Progress([2], [6], second))

    assert ("count", 3) == (caught.value.what, caught.value.time)
    assert {first.get(3, 0), second.get(3, 0)} == {caught.value.first, caught.value.second}


def test_a_redundant_statement_is_compared_too() -> None:
    """It extends nothing, and would be dropped unread."""
    reader = reader_of(Progress([0], [9], {3: 1, 5: 1}))

    with pytest.raises(ContradictionError):
        reader.absorb(Progress([4], [6]))
    with pytest.raises(ContradictionError):
        reader.absorb(Progress([4], [6], {4: 1, 5: 1}))
    assert reader.absorb(Progress([4], [6], {5: 1})) is None


@pytest.mark.parametrize("waiting, bridge", [
    (Progress([3], [9], {4: 1}), Progress([0], [5])),
    (Progress([3], [9]), Progress([0], [5], {4: 1})),
    (Progress([3], [9], {4: 1, 8: 1}), Progress([0], [5], {4: 2})),
])
def test_a_waiting_statement_is_compared_when_known_reaches_it(waiting: Progress, bridge: Progress) -> None:
    """At the latest with the message that would make the time known, and before it is given out."""
    reader = reader_of(Updates([("a", 4, 1)]), waiting)

    with pytest.raises(ContradictionError):
        reader.absorb(bridge)
    assert Antichain([0]) == reader.known


def test_a_waiting_statement_that_no_part_of_the_frontier_reaches_is_compared_too() -> None:
    """Its interval is known by way of another statement, while its own upper is not."""
    waiting = Progress([P(1, 1)], [P(1, 9), P(9, 1)], {P(2, 2): 1})
    reader = reader_of(waiting, start=[P(0, 0)])

    with pytest.raises(ContradictionError) as caught:
        reader.absorb(Progress([P(0, 0)], [P(3, 0), P(0, 3)]))

    assert P(2, 2) == caught.value.time


def test_statements_may_differ_where_all_is_given_out() -> None:
    """What is finished is forgotten; a statement about it is not compared with anything."""
    reader = reader_of(Progress([0], [5], {3: 1}), Updates([("a", 3, 1)]))

    assert reader.absorb(Progress([0], [5], {3: 7})) is None
    assert batch([], [5], [6]) == reader.absorb(Progress([2], [6], {4: 2}))


def test_more_than_was_stated_contradicts() -> None:
    """On arrival, if the time is known; when it becomes known, if the surplus was there before."""
    reader = reader_of(Progress([0], [5], {3: 1}))
    with pytest.raises(ContradictionError) as caught:
        reader.absorb(Updates([("a", 3, 1), ("b", 3, 1)]))
    assert ("surplus", 3, 1, 2) == (
        caught.value.what, caught.value.time, caught.value.first, caught.value.second
    )

    reader = reader_of(Updates([("a", 3, 1), ("b", 3, 1)]))
    with pytest.raises(ContradictionError):
        reader.absorb(Progress([0], [5], {3: 1}))


def test_an_update_where_none_was_stated_contradicts() -> None:
    """Zero is a count; the frontier is held below by another time."""
    reader = reader_of(Progress([0], [5], {1: 1}))

    with pytest.raises(ContradictionError) as caught:
        reader.absorb(Updates([("a", 3, 1)]))

    assert ("surplus", 3, 0, 1) == (
        caught.value.what, caught.value.time, caught.value.first, caught.value.second
    )


def test_repeats_are_no_surplus() -> None:
    """Only distinct identities count."""
    reader = reader_of(Progress([0], [5], {1: 1, 3: 1}), Updates([("a", 3, 1), ("a", 3, 1)]), Updates([("a", 3, 1)]))

    assert batch([("z", 1, 1), ("a", 3, 1)], [1], [5]) == reader.absorb(Updates([("z", 1, 1)]))


# -- rule 4: batches ----------------------------------------------------------------------------------------------


def test_a_move_without_updates_gives_an_empty_batch() -> None:
    """Idle times pass, too."""
    assert batch([], [0], [3]) == Resolver().absorb(Progress([0], [3]))


def test_a_batch_comes_with_the_message_that_completes_it() -> None:
    """Not before, not after."""
    reader = Resolver()

    assert reader.absorb(Updates([("a", 1, 1)])) is None
    assert batch([("a", 1, 1)], [0], [2]) == reader.absorb(Progress([0], [5], {1: 1, 2: 1, 4: 1}))
    assert reader.absorb(Updates([("c", 4, 1)])) is None
    assert batch([("b", 2, 1), ("c", 4, 1)], [2], [5]) == reader.absorb(Updates([("b", 2, 1)]))


def test_the_updates_of_a_batch_are_sorted_by_time() -> None:
    """Earlier times first; a caller that applies them in order is always right."""
    reader = reader_of(Updates([("c", 3, 1), ("a", 1, 1), ("b", 2, 1), ("d", 1, 1)]))

    given = reader.absorb(Progress([0], [9], {1: 2, 2: 1, 3: 1}))

    assert given is not None and [1, 1, 2, 3] == [time for _, time, _ in given.updates]


def test_the_frontier_of_products_stands_at_what_lacks() -> None:
    """Two times that lack something are both in it; what is beside them is given out."""
    reader = reader_of(Updates([("a", P(0, 0), 1), ("d", P(2, 2), 1)]), start=[P(0, 0)])

    given = reader.absorb(Progress([P(0, 0)], [P(9, 9)], {P(0, 0): 1, P(0, 2): 1, P(2, 0): 1, P(2, 2): 1}))

    assert batch([("a", P(0, 0), 1)], [P(0, 0)], [P(0, 2), P(2, 0)]) == given


# -- rule 5: the end ----------------------------------------------------------------------------------------------


def test_what_comes_after_the_end_is_counted() -> None:
    """It changes nothing, and leaves a trace."""
    reader = reader_of(Progress([0], []))

    assert reader.closed
    assert reader.absorb(Updates([("a", 3, 1)])) is None
    assert reader.absorb(Progress([2], [5], {3: 1})) is None
    assert 1 == reader.counters["late"]
    assert 2 == reader.counters["statements"]
    assert {} == reader.open_times()


def test_it_is_not_closed_before_all_has_come() -> None:
    """The end is known, but an update lacks: a truncated log never looks complete."""
    reader = reader_of(Progress([0], [], {3: 1}))

    assert Antichain() == reader.known
    assert [False, ((3, 1),)] == [reader.closed, reader.missing().updates]
    reader.absorb(Updates([("a", 3, 1)]))
    assert [True, ()] == [reader.closed, reader.missing().updates]
    assert not reader.missing()


@pytest.mark.parametrize("start", [[], [True], [(0, 0)], [-1], [0.0], [1, P(1)]])
def test_a_start_that_is_no_frontier_is_refused(start: Any) -> None:
    """A reader needs a place to begin at, made of times of one kind."""
    with pytest.raises(MalformedError):
        Resolver(start)


@pytest.mark.parametrize("message", [
    Updates([("a", P(0, 0), 1)]), Progress([P(0, 0)], [P(1, 1)]), "text", None, ("a", 1, 1), 3,
])
def test_messages_of_another_kind_are_refused(message: Any) -> None:
    """Times of another kind, and what is no message at all; nothing has changed after it."""
    reader = reader_of(Progress([0], [5], {3: 1}))
    before = reader.export_state()

    with pytest.raises(MalformedError):
        reader.absorb(message)

    assert before == reader.export_state()


@pytest.mark.parametrize("times", [(5, 3), (P(2, 0), P(0, 1)), (P(1, 1), P(0, 9))])
def test_of_two_contradictions_in_a_message_that_at_the_earlier_time_is_told(times: tuple[Any, Any]) -> None:
    """Whichever stands first in it."""
    late, early = times
    reader = reader_of(start=[P(0, 0)] if isinstance(early, P) else None)

    with pytest.raises(ContradictionError) as caught:
        reader.absorb(Updates([("a", late, 1), ("a", late, 2), ("b", early, 1), ("b", early, 2)]))
    assert early == caught.value.time


def test_what_came_is_counted() -> None:
    """Updates and statements, repeats among them."""
    reader = reader_of(Updates([("a", 3, 1), ("b", 4, 1)]), Updates([("a", 3, 1)]), Progress([0], [5], {3: 1, 4: 1}))

    assert {"updates": 3, "repeats": 1, "late": 0, "before_start": 0, "statements": 1, "parked": 0} == reader.counters
