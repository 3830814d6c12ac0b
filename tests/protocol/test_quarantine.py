"""Rule 6: an error changes nothing; in quarantine a dispute holds its time, with its evidence, until resolved."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ContradictionError, DecodeError, MalformedError, UsageError
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import Batch, GarbledMessage, Message, Progress, Updates
from cdcv2.protocol.resolver import Resolver


def at(offset: int) -> Position:
    """A position in a log of one part."""
    return Position("log", 0, offset)


def parked(*messages: Message) -> Resolver:
    """A reader in quarantine that has absorbed these, each at its number as position."""
    reader = Resolver(on_error="quarantine")
    for offset, message in enumerate(messages):
        reader.absorb(Entry(at(offset), message))
    return reader


CLASHES: dict[str, list[Message]] = {
    "diff": [Updates([("a", 3, 1)]), Updates([("a", 3, -1)])],
    "diff in one message": [Updates([("a", 3, 1), ("a", 3, -1)])],
    "count": [Progress([0], [5], {3: 1}), Progress([2], [6], {3: 2})],
    "count, then none": [Progress([0], [5], {3: 1}), Progress([2], [6])],
    "none, then count": [Updates([("b", 1, 1)]), Progress([0], [5], {1: 2}), Progress([2], [6], {3: 1})],
    "surplus": [Progress([0], [5], {3: 1}), Updates([("a", 3, 1), ("b", 3, 1)])],
    "surplus at a time that has none": [Updates([("a", 3, 1)]), Progress([0], [5])],
}
each_clash = pytest.mark.parametrize("messages", CLASHES.values(), ids=CLASHES)


@each_clash
def test_a_contradiction_raises_and_changes_nothing(messages: list[Message]) -> None:
    """The state after the error is the state before, and reading goes on without the message that raised."""
    reader = Resolver()
    for message in messages[:-1]:
        reader.absorb(message)
    before = reader.export_state()

    with pytest.raises(ContradictionError):
        reader.absorb(messages[-1])

    assert before == reader.export_state()
    assert reader.absorb(Updates([("z", 9, 1)])) is None


@each_clash
def test_in_quarantine_the_disputed_time_holds_the_frontier(messages: list[Message]) -> None:
    """What lies before the dispute is given out, what lies behind it waits."""
    reader = Resolver(on_error="quarantine")
    for message in [*messages, Updates([("b", 1, 1), ("c", 1, 1), ("z", 8, 1)])]:
        reader.absorb(message)
    late_half = Progress([0], [2], {1: 2}), Progress([0], [9], {1: 2, 3: 1, 8: 1})

    for statement in late_half:
        reader.absorb(statement)

    assert Antichain([1 if 1 in reader.quarantine else 3]) == reader.frontier
    assert 3 in reader.quarantine
    assert 3 in reader.missing().contested


def test_evidence_has_both_facts_and_where_they_were_read() -> None:
    """A person can go and look."""
    reader = parked(Updates([("a", 3, 1)]), Updates([("a", 3, -1)]))

    (dispute,) = reader.quarantine[3]

    assert ("diff", 3, 1, -1) == (dispute.what, dispute.time, dispute.first, dispute.second)
    assert "a" == dispute.data
    assert (at(0), at(1)) == dispute.positions
    assert "log[0]@0 and log[0]@1" in str(dispute.error())


def test_the_error_has_both_facts_and_where_they_were_read() -> None:
    """The same evidence without quarantine, also when both copies stand in one message."""
    reader = Resolver()
    reader.absorb(Entry(at(7), Progress([0], [5], {3: 1})))
    with pytest.raises(ContradictionError) as count:
        reader.absorb(Entry(at(8), Progress([3], [6], {3: 2})))
    with pytest.raises(ContradictionError) as diff:
        reader.absorb(Entry(at(9), Updates([("a", 4, 1), ("a", 4, 2)])))

    assert ("count", 3, {1, 2}) == (count.value.what, count.value.time, {count.value.first, count.value.second})
    assert {at(7), at(8)} == set(count.value.positions)
    assert ("diff", 4, "a", 1, 2) == (
        diff.value.what, diff.value.time, diff.value.data, diff.value.first, diff.value.second
    )
    assert (at(9), at(9)) == diff.value.positions


def test_a_dispute_beyond_known_holds_nothing_yet() -> None:
    """Times before it are given out as ever."""
    reader = parked(Updates([("a", 7, 1), ("a", 7, 2)]), Progress([0], [5], {3: 1}))

    assert Batch([("b", 3, 1)], Antichain([3]), Antichain([5])) == reader.absorb(Updates([("b", 3, 1)]))
    assert [7] == list(reader.quarantine)
    assert reader.absorb(Progress([5], [9], {7: 1})) == Batch([], Antichain([5]), Antichain([7]))


def test_resolving_a_diff_lets_the_time_go() -> None:
    """The diff that was decided is given out, whichever came first, against all later facts of the log."""
    reader = parked(Updates([("a", 3, 1)]), Updates([("a", 3, -1)]), Progress([0], [5], {3: 1}))

    batch = reader.resolve(3, data="a", diff=-1)

    assert Batch([("a", 3, -1)], Antichain([3]), Antichain([5])) == batch
    assert {} == reader.quarantine
    assert [(3, "a", -1)] == reader.resolutions
    assert not reader.missing()


def test_a_decision_holds_against_what_comes_later() -> None:
    """A third diff for a decided identity is no new dispute; it is counted as a repeat."""
    reader = parked(Updates([("a", 3, 1), ("a", 3, -1)]))
    reader.resolve(3, data="a", diff=-1)
    repeats = reader.counters["repeats"]

    reader.absorb(Updates([("a", 3, 7), ("a", 3, 1)]))

    assert {} == reader.quarantine
    assert repeats + 2 == reader.counters["repeats"]
    assert Batch([("a", 3, -1)], Antichain([0]), Antichain([])) == reader.absorb(Progress([0], [], {3: 1}))


def test_an_identity_that_never_happened_does_not_come_back() -> None:
    """Diff 0 takes it out of the count, also when it is read again, and also in a state that was moved."""
    reader = parked(Updates([("a", 3, 1), ("a", 3, -1)]))
    reader.resolve(3, data="a", diff=0)
    moved = Resolver.restore(reader.export_state())
    for one in (reader, moved):
        one.absorb(Updates([("a", 3, 1)]))

        assert 0 == one.held_updates()
        assert Batch([], Antichain([0]), Antichain([5])) == one.absorb(Progress([0], [5]))
        assert {} == one.quarantine


def test_two_disputes_at_one_time_are_resolved_one_by_one() -> None:
    """Also when their data print alike, and when equal data print differently."""
    class Alike:
        def __repr__(self) -> str:
            return "alike"

    one, other, first, second = Alike(), Alike(), frozenset([8, 0]), frozenset([0, 8])
    reader = parked(
        Updates([(one, 3, 1), (other, 3, 1), (first, 3, 1), (one, 3, 2), (other, 3, 2), (second, 3, 2)]),
        Progress([0], [5], {3: 3}),
    )
    assert repr(first) != repr(second) and first == second

    assert 3 == len(reader.quarantine[3])
    assert reader.resolve(3, data=one, diff=1) is None
    assert reader.resolve(3, data=second, diff=2) is None
    assert 1 == len(reader.quarantine[3])
    batch = reader.resolve(3, data=other, diff=2)
    assert batch is not None
    assert {one: 1, other: 2, first: 2} == {data: diff for data, _, diff in batch.updates}


def test_resolving_a_count_lets_the_time_go() -> None:
    """Up or down; what then lacks is waited for, and what then is too much is a dispute still."""
    statements = [Progress([0], [5], {3: 1}), Progress([2], [6], {3: 2})]
    reader = parked(*statements, Updates([("a", 3, 1)]))
    assert Batch([("a", 3, 1)], Antichain([3]), Antichain([6])) == reader.resolve(3, count=1)
    assert [(3, 1)] == reader.resolutions

    reader = parked(*statements, Updates([("a", 3, 1)]))
    assert reader.resolve(3, count=2) is None
    assert ((3, 1),) == reader.missing().updates
    assert {} == reader.quarantine
    assert Batch([("a", 3, 1), ("b", 3, 1)], Antichain([3]), Antichain([6])) == reader.absorb(Updates([("b", 3, 1)]))

    reader = parked(*statements, Updates([("a", 3, 1)]))
    assert reader.resolve(3, count=0) is None
    assert ["surplus"] == [dispute.what for dispute in reader.quarantine[3]]
    assert Batch([], Antichain([3]), Antichain([6])) == reader.resolve(3, data="a", diff=0)


def test_a_count_decided_before_it_is_stated_holds() -> None:
    """Whatever statements come later, and also in a state that was moved."""
    first = Resolver(on_error="quarantine")
    first.resolve(3, count=1)
    for reader in (first, Resolver.restore(first.export_state())):
        reader.absorb(Progress([0], [5], {3: 2}))
        reader.absorb(Progress([0], [6], {3: 7}))

        assert {} == reader.quarantine
        assert Batch([("a", 3, 1)], Antichain([3]), Antichain([6])) == reader.absorb(Updates([("a", 3, 1)]))


def test_a_surplus_is_resolved_by_count_or_by_identity() -> None:
    """Either more were meant, or one of them never happened."""
    messages: list[Message] = [Progress([0], [5], {3: 1}), Updates([("a", 3, 1), ("b", 3, 1)])]

    by_count = parked(*messages).resolve(3, count=2)
    by_identity = parked(*messages).resolve(3, data="a", diff=0)

    assert Batch([("a", 3, 1), ("b", 3, 1)], Antichain([3]), Antichain([5])) == by_count
    assert Batch([("b", 3, 1)], Antichain([3]), Antichain([5])) == by_identity


def test_an_identity_that_never_came_can_be_put_in_its_place() -> None:
    """Someone knows the update that lacks: it counts as received, also at a time that holds nothing else."""
    for others in ([], [("a", 3, 1)]):
        reader = parked(Progress([0], [5], {3: 1 + len(others)}), Updates(others))

        batch = reader.resolve(3, data="z", diff=2)

        assert Batch([*others, ("z", 3, 2)], Antichain([3]), Antichain([5])) == batch


def test_an_identity_that_never_came_can_be_ruled_out() -> None:
    """It changes nothing until it comes, and then it still does not."""
    for others in ([], [("a", 3, 1)]):
        reader = parked(Updates([*others, ("b", 4, 1)]))
        assert reader.resolve(3, data="z", diff=0) is None
        reader.absorb(Updates([("z", 3, 1)]))

        held = len(others) + 1
        assert held == reader.held_updates()
        assert held == sum(count for _, count in reader.open_times().values())


def test_a_ruling_can_be_changed_while_its_time_is_open() -> None:
    """The last word counts; all of them are kept."""
    reader = parked(Updates([("a", 3, 1), ("a", 3, 2), ("b", 3, 1)]))
    for diff in (1, 0, 0, 2, 7):
        reader.resolve(3, data="a", diff=diff)
        assert {3: (None, 1 + (diff != 0))} == reader.open_times()

    assert [(3, "a", 1), (3, "a", 0), (3, "a", 0), (3, "a", 2), (3, "a", 7)] == reader.resolutions
    batch = reader.absorb(Progress([0], [5], {3: 2}))
    assert batch is not None and {("a", 3, 7), ("b", 3, 1)} == set(batch.updates)


def test_what_was_ruled_out_leaves_nothing_behind() -> None:
    """Neither the update nor where it was read, once its time is given out."""
    reader = parked(Updates([("a", 3, 1), ("a", 3, 2)]), Updates([("b", 4, 1)]), Updates([("b", 4, 2), ("c", 4, 1)]))
    reader.resolve(3, data="a", diff=0)
    reader.resolve(4, data="b", diff=0)
    assert {4: {"c": at(2)}} == reader._stash._origins
    reader.resolve(4, count=1)
    reader.absorb(Progress([0], [5], {4: 1}))

    assert Antichain([5]) == reader.frontier
    assert [{}, {}] == [reader._stash._origins, reader._stash._ruled]
    assert [] == reader.export_state()["ledger"]["ruled"]


def test_resolve_refuses_what_it_cannot_mean() -> None:
    """Without quarantine there is nothing to resolve; neither at a finished time, nor both or neither fact."""
    with pytest.raises(UsageError, match="quarantine"):
        Resolver().resolve(3, count=1)
    reader = parked(Progress([0], [5]))
    refused: list[tuple[int, dict[str, Any], type[Exception]]] = [
        (4, {"count": 1}, UsageError),
        (7, {}, UsageError),
        (7, {"data": "a"}, UsageError),
        (7, {"count": 1, "data": "a", "diff": 1}, UsageError),
        (7, {"count": 1, "data": None}, UsageError),
        (7, {"diff": 1}, UsageError),
        (7, {"count": -1}, MalformedError),
        (7, {"count": True}, MalformedError),
        (7, {"data": "a", "diff": 1.0}, MalformedError),
        (7, {"data": "a", "diff": True}, MalformedError),
        (7, {"data": ["a"], "diff": 1}, MalformedError),
    ]
    for time, arguments, error in refused:
        before = reader.export_state()
        with pytest.raises(error):
            reader.resolve(time, **arguments)
        assert before == reader.export_state()


def test_undecodable_bytes_raise_with_their_position() -> None:
    """Bytes that are no message are the log's fault, and the error names where they lie."""
    reader = Resolver()

    with pytest.raises(DecodeError) as caught:
        reader.absorb(Entry(at(4), GarbledMessage(b"\xff", "no union branch 63")))

    assert at(4) == caught.value.position
    assert b"\xff" == caught.value.raw
    assert "no union branch 63" in str(caught.value)


def test_in_quarantine_undecodable_bytes_are_parked_without_a_hold() -> None:
    """If they carried a needed fact, the counts hold the frontier; if not, nothing waits for them."""
    reader = parked(Progress([0], [5], {3: 1}))
    bad = Entry(at(4), GarbledMessage(b"\xff", "no union branch 63"))

    assert reader.absorb(bad) is None
    assert reader.absorb(bad.message) is None
    assert [bad, bad.message] == reader.parked
    assert 2 == reader.counters["parked"]
    assert {} == reader.quarantine
    assert Batch([("a", 3, 1)], Antichain([3]), Antichain([5])) == reader.absorb(Updates([("a", 3, 1)]))
    assert [bad, bad.message] == Resolver.restore(reader.export_state()).parked


def test_only_the_two_ways_to_take_an_error_are_known() -> None:
    """A misspelt one would otherwise be the wrong one."""
    with pytest.raises(MalformedError, match="ignore"):
        Resolver(on_error="ignore")


def test_a_time_that_was_complete_and_lost_an_identity_waits_again() -> None:
    """What was ruled out was counted: another one must be there, however often that changes."""
    reader = parked(Progress([0], [5], {1: 1, 3: 1}), Updates([("a", 3, 1)]))
    reader.resolve(3, data="a", diff=0)
    reader.absorb(Updates([("b", 1, 1)]))

    assert (Antichain([3]), ((3, 1),)) == (reader.frontier, reader.missing().updates)
    batch = reader.absorb(Updates([("c", 3, 1)]))
    assert batch is not None and [("c", 3, 1)] == batch.updates


@pytest.mark.parametrize("stated", [{3: 1}, {}])
def test_a_count_decided_before_is_what_a_surplus_is_measured_by(stated: dict[int, int]) -> None:
    """Two were ruled, one or none is stated: two are no surplus, and three are one over two."""
    reader = parked(Updates([("a", 3, 1), ("b", 3, 1)]))
    reader.resolve(3, count=2)
    assert reader.absorb(Progress([0], [2])) is not None
    batch = reader.absorb(Progress([2], [5], stated))
    assert batch is not None and [2, {}] == [len(batch.updates), reader.quarantine]

    reader = parked(Updates([("a", 3, 1), ("b", 3, 1), ("c", 3, 1)]))
    reader.resolve(3, count=2)
    reader.absorb(Entry(at(7), Progress([0], [5], stated)))
    assert [(2, 3)] == [(dispute.first, dispute.second) for dispute in reader.quarantine[3]]


def test_a_surplus_names_the_statement_that_it_is_over() -> None:
    """By its position; the updates are too many to identify it."""
    reader = parked(Updates([("a", 3, 1), ("b", 3, 1)]))
    reader.absorb(Entry(at(7), Progress([0], [5], {3: 1})))

    assert [(at(7), None)] == [dispute.positions for dispute in reader.quarantine[3]]


def test_the_last_identity_ruled_out_leaves_no_time_behind() -> None:
    """Nothing is held at it any more."""
    reader = parked(Updates([("a", 7, 1)]))
    reader.resolve(7, data="a", diff=0)

    assert [0, False] == [reader.held_updates(), 7 in reader._stash._diffs]


def test_a_count_that_is_stated_and_then_denied_has_both_positions() -> None:
    """The statement that has no such time contradicts it as one with another count does."""
    reader = parked(Progress([0], [5], {3: 1}), Progress([2], [6]))

    assert [(1, 0, (at(0), at(1)))] == [
        (dispute.first, dispute.second, dispute.positions) for dispute in reader.quarantine[3]
    ]


def test_a_count_decided_before_it_is_stated_is_not_missed() -> None:
    """Nothing is stated about its time."""
    reader = parked(Progress([0], [5]))
    reader.resolve(7, count=2)
    reader.absorb(Progress([5], [6]))

    assert not reader.missing()
    reader.absorb(Progress([6], [8]))
    assert ((7, 2),) == reader.missing().updates


def test_what_was_decided_of_one_identity_says_nothing_of_another() -> None:
    """A contradiction is found beside, and after, a decision."""
    reader = parked(Updates([("a", 3, 1), ("a", 3, 2), ("b", 3, 1), ("b", 4, 1)]))
    reader.resolve(3, data="a", diff=1)
    reader.absorb(Updates([("a", 3, 5), ("b", 3, 2)]))
    reader.absorb(Updates([("b", 4, 2)]))

    assert {3: ["b"], 4: ["b"]} == {
        time: [dispute.data for dispute in disputes] for time, disputes in reader.quarantine.items()
    }


def test_a_fact_that_came_without_a_position_gets_none_by_another() -> None:
    """It is unknown where it was read."""
    reader = parked()
    reader.absorb(Updates([("a", 3, 1)]))
    reader.absorb(Entry(at(4), Updates([("a", 3, 2)])))

    assert [(None, at(4))] == [dispute.positions for dispute in reader.quarantine[3]]
