"""The ledger sees counts only, and asks for a fold exactly when a time may be complete."""

from __future__ import annotations

import json

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import ContradictionError, MalformedError
from cdcv2.protocol.ledger import Dispute, Ledger
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Progress

P = Product


def ledger_of(*statements: Progress, start: tuple[int, ...] = (0,)) -> Ledger:
    """A ledger with these statements, each at its number as position."""
    ledger = Ledger(start)
    ledger.state([(statement, Position("log", 0, offset)) for offset, statement in enumerate(statements)])
    return ledger


def test_statements_are_taken_all_or_none() -> None:
    """A message of several that contradict one another leaves no trace of the good ones."""
    ledger = ledger_of(Progress([0], [3], {1: 1}))
    before = ledger.export()

    with pytest.raises(ContradictionError) as caught:
        ledger.state([(Progress([3], [5], {4: 1}), None), (Progress([5], [9]), None), (Progress([4], [6]), None)])

    assert before == ledger.export()
    assert 4 == caught.value.time


def test_of_several_contradictions_the_earliest_is_told() -> None:
    """Whatever order they are found in."""
    ledger = ledger_of(Progress([0], [9], {2: 1, 5: 1, 7: 1}))

    with pytest.raises(ContradictionError) as caught:
        ledger.state([(Progress([0], [9], {5: 2, 7: 2, 2: 2}), None)])

    assert 2 == caught.value.time


def test_a_fold_is_asked_for_when_raw_rows_reach_the_count() -> None:
    """Not before: a fold costs a pass over the rows."""
    ledger = ledger_of(Progress([0], [5], {3: 2}))
    ledger.arrived({3: 1}, exact=False)
    assert [] == ledger.to_fold()
    ledger.arrived({3: 1}, exact=False)
    assert [3] == ledger.to_fold()
    assert Antichain([3]) == ledger.settle()

    ledger.folded({3: 1})
    assert [] == ledger.to_fold()
    assert Antichain([3]) == ledger.settle()

    ledger.arrived({3: 2}, exact=False)
    assert [3] == ledger.to_fold()
    ledger.folded({3: 2})
    assert Antichain([5]) == ledger.settle()


def test_a_fold_is_asked_for_when_known_reaches_the_rows() -> None:
    """Also where nothing was stated: rows at a time that has none are a contradiction."""
    ledger = ledger_of()
    ledger.arrived({3: 2, 4: 1, 7: 5}, exact=False)
    assert [] == ledger.to_fold()

    ledger.state([(Progress([0], [5], {3: 2}), None)])

    assert [3, 4] == ledger.to_fold()
    assert Antichain([3]) == ledger.settle()
    with pytest.raises(ContradictionError) as caught:
        ledger.folded({3: 2, 4: 1})
    assert ("surplus", 4, 0, 1) == (
        caught.value.what, caught.value.time, caught.value.first, caught.value.second
    )
    assert [3, 4] == ledger.to_fold()


def test_unfolded_rows_prove_nothing() -> None:
    """More raw rows than were stated may be repeats; they hold the frontier, and raise nothing, until folded."""
    ledger = ledger_of(Progress([0], [5], {3: 1}))
    ledger.arrived({3: 7}, exact=False)
    assert Antichain([3]) == ledger.settle()
    ledger.state([(Progress([0], [9], {3: 1}), None)])

    ledger.folded({3: 1})

    assert Antichain([9]) == ledger.settle()


def test_a_fold_that_finds_too_many_raises_and_changes_nothing() -> None:
    """The caller still has the rows and can show both."""
    ledger = ledger_of(Progress([0], [5], {3: 1}))
    ledger.arrived({3: 2}, exact=False)
    before = ledger.export()

    with pytest.raises(ContradictionError):
        ledger.folded({3: 2})

    assert before == ledger.export()


def test_of_several_surpluses_the_earliest_is_told() -> None:
    """The same evidence whatever order the times were folded in; also for times that `<` does not sort."""
    for first, later, beyond in ((1, 3, 5), (P(0, 1), P(1, 0), P(9, 9))):
        for times in ([later, first], [first, later]):
            ledger = Ledger([0 if first == 1 else P(0, 0)])
            ledger.state([(Progress(ledger.known, [beyond], {first: 1, later: 1}), None)])
            ledger.arrived({first: 2, later: 3}, exact=False)
            assert [first, later] == ledger.to_fold()

            with pytest.raises(ContradictionError) as caught:
                ledger.folded({time: 2 for time in times})

            assert first == caught.value.time


def test_a_fold_beyond_known_only_corrects_the_number() -> None:
    """A stash may fold when it likes, to save memory."""
    ledger = ledger_of(Progress([5], [9], {7: 3}))
    ledger.arrived({7: 4}, exact=False)

    ledger.folded({7: 2})

    assert {7: (None, 2)} == ledger.open_times()
    assert ((7, 1),) == ledger.missing().updates
    ledger.folded({7: 0})
    assert {} == ledger.open_times()


def test_exact_arrivals_that_are_too_many_raise_and_change_nothing() -> None:
    """All times of one message or none."""
    ledger = ledger_of(Progress([0], [5], {3: 1, 4: 1}))
    before = ledger.export()

    with pytest.raises(ContradictionError):
        ledger.arrived({3: 1, 4: 2})

    assert before == ledger.export()


def test_what_is_settled_is_forgotten() -> None:
    """Memory is that of the open times."""
    ledger = ledger_of(Progress([0], [5], {1: 1, 3: 1}), Progress([9], [12], {10: 1}))
    ledger.arrived({1: 1, 3: 1, 7: 1})

    assert Antichain([5]) == ledger.settle() == ledger.reported
    assert {7: (None, 1)} == ledger.open_times()
    assert [False, False, True] == [ledger.keeps(time) for time in (3, 4, 5)]
    ledger.state([(Progress([5], [9], {7: 1}), None)])
    ledger.arrived({10: 1})
    assert Antichain([12]) == ledger.settle()
    plain = ledger.export()
    assert [[], [], []] == [plain["expected"], plain["held"], plain["waiting"]]


def test_the_frontier_only_moves_when_settled() -> None:
    """`complete` states how far it could; `keeps` goes by what was given out."""
    ledger = ledger_of(Progress([0], [5]))

    assert Antichain([5]) == ledger.complete
    assert Antichain([0]) == ledger.reported
    assert ledger.keeps(3)
    ledger.settle()
    assert not ledger.keeps(3)


def test_statements_that_say_nothing_new_are_counted() -> None:
    """Empty, finished, or waiting already: nothing is dropped without a trace."""
    ledger = ledger_of(Progress([0], [5]))
    ledger.settle()
    for statement in (Progress([5], [5]), Progress([1], [4]), Progress([7], [9]), Progress([7], [9])):
        ledger.state([(statement, None)])

    assert 3 == ledger.repeated_statements
    assert 1 == ledger.waiting_statements()


def test_a_copy_is_independent() -> None:
    """A batch can be tried on it, and thrown away."""
    ledger = ledger_of(Progress([0], [5], {3: 1}), Progress([7], [9]))
    before = ledger.export()

    other = ledger.copy()
    other.arrived({3: 1})
    other.state([(Progress([5], [7]), None)])

    assert Antichain([9]) == other.settle()
    assert before == ledger.export()
    assert Antichain([3]) == ledger.settle()


def test_the_state_is_json_and_comes_back_whole() -> None:
    """Statements that wait, counts, unfolded rows, rulings, disputes and positions."""
    ledger = Ledger([P(0, 0)], on_error="quarantine")
    at = Position("log", 2, 17, 3)
    ledger.state([
        (Progress([P(0, 0)], [P(3, 3)], {P(1, 1): 2, P(0, 2): 1}), at),
        (Progress([P(4, 0)], [], {P(9, 9): 1}), None),
        (Progress([P(0, 0)], [P(3, 3)], {P(1, 1): 1, P(0, 2): 1}), at._replace(offset=18)),
    ])
    ledger.arrived({P(1, 1): 5, P(8, 8): 2}, exact=False)
    ledger.arrived({P(0, 2): 1})
    ledger.rule(P(5, 5), 4)
    ledger.settle()

    plain = json.loads(json.dumps(ledger.export()))
    again = Ledger.restore(plain)

    assert plain == json.loads(json.dumps(again.export()))
    assert (ledger.known, ledger.reported, ledger.contested) == (again.known, again.reported, again.contested)
    assert (ledger.to_fold(), ledger.open_times(), ledger.missing()) == (
        again.to_fold(), again.open_times(), again.missing()
    )
    (dispute,) = again.contested[P(1, 1)].values()
    assert (at, at._replace(offset=18)) == dispute.positions
    for one in (ledger, again):
        one.rule(P(1, 1), 2)
        one.folded({P(1, 1): 2})
        assert Antichain([P(3, 3)]) == one.settle()
        one.state([(Progress([P(0, 0)], [P(9, 6)], {P(5, 5): 7}), None)])
        assert ((P(5, 5), 4), (P(9, 9), 1)) == one.missing().updates


def test_a_closed_ledger_comes_back_closed() -> None:
    """Also of products, when no time is left that shows the kind."""
    for time, far in ((0, 5), (P(0, 0), P(5, 5))):
        ledger = Ledger([time])
        ledger.state([(Progress([time], []), None)])
        ledger.settle()

        again = Ledger.restore(ledger.export())

        assert Antichain() == again.reported == again.known
        again.state([(Progress([time], [far]), None)])
        assert not again.keeps(far)


@pytest.mark.parametrize("version", [None, 0, 99, "1"])
def test_a_state_of_another_version_is_refused(version: object) -> None:
    """It may mean something else by the same words."""
    plain = ledger_of().export()

    with pytest.raises(MalformedError, match="version"):
        Ledger.restore({**plain, "version": version})


def test_a_hold_keeps_a_time_and_can_be_lifted() -> None:
    """Two holds at one time are two."""
    ledger = Ledger([0], on_error="quarantine")
    for reason in ("one", "two"):
        ledger.hold(Dispute("diff", 3, 1, 2, (None, None), "a"), reason)
    ledger.state([(Progress([0], [5]), None)])
    assert Antichain([3]) == ledger.settle()
    assert (3,) == ledger.missing().contested

    ledger.lift(3, "one")
    assert Antichain([3]) == ledger.settle()
    ledger.lift(3, "two")
    ledger.lift(3, "two")
    assert Antichain([5]) == ledger.settle()
    assert not ledger.missing()


def test_times_that_other_readings_have_in_dispute_are_withheld() -> None:
    """Whether they are counted, not yet covered, or have nothing here; and no more once the dispute is over."""
    late = Ledger([0], on_error="quarantine")
    late.withhold([5, 7])
    late.state([(Progress([0], [10]), None)])
    assert Antichain([5]) == late.settle() and (5, 7) == late.missing().contested
    late.withhold([7])
    assert Antichain([7]) == late.settle() and (7,) == late.missing().contested
    late.withhold([])
    assert Antichain([10]) == late.settle() and not late.missing()

    early = ledger_of(Progress([0], [10], {3: 1}))
    early.withhold([5])
    early.arrived({3: 1})
    assert Antichain([5]) == early.settle()


def test_only_a_count_can_be_ruled() -> None:
    """Negative ones and other types are refused; zero is a count."""
    ledger = Ledger([0], on_error="quarantine")
    for count in (-1, 1.0, True, None):
        with pytest.raises(MalformedError):
            ledger.rule(3, count)  # type: ignore[arg-type]
    ledger.rule(3, 0)
    ledger.state([(Progress([0], [5], {3: 2}), None)])

    assert Antichain([5]) == ledger.settle()


def test_a_ledger_begins_at_times_of_one_kind() -> None:
    """Nothing else is a frontier."""
    with pytest.raises(MalformedError):
        Ledger([1, P(1)])


def test_an_open_time_that_is_stated_without_a_count_has_none() -> None:
    """Rows wait there that must not come."""
    ledger = ledger_of(Progress([0], [5], {2: 1}))
    ledger.arrived({3: 1}, exact=False)

    assert {2: (1, 0), 3: (0, 1)} == ledger.open_times()


def test_positions_of_any_kind_survive_an_export() -> None:
    """Evidence that was moved with its reader must still be found."""
    ledger = Ledger([0])
    ledger.state([(Progress([3], [5], {4: 1}), Position("log", 1, 7)), (Progress([6], [7]), "line 9")])
    moved = Ledger.restore(json.loads(json.dumps(ledger.export())))

    assert ledger.export() == moved.export()
    told = json.dumps(moved.export())
    assert '["log", 1, 7, 0]' in told and '"line 9"' in told


def test_a_time_that_was_due_and_complete_and_is_due_again_holds_the_frontier() -> None:
    """Each row that comes unfolded makes its time wait for a fold, also one that had all its updates."""
    ledger = ledger_of(Progress([0], [5], {1: 1, 3: 1}))
    ledger.arrived({3: 1})
    ledger.arrived({3: 1}, exact=False)
    ledger.arrived({1: 1})
    assert Antichain([3]) == ledger.settle()

    ledger.folded({3: 1})
    assert Antichain([5]) == ledger.settle()


def test_of_contradictions_of_two_kinds_the_earliest_is_told() -> None:
    """A surplus at 1 comes before two counts at 3."""
    ledger = Ledger(Antichain([0]))
    ledger.arrived({1: 2})

    with pytest.raises(ContradictionError) as caught:
        ledger.state([(Progress([0], [5], {1: 1, 3: 1}), None), (Progress([2], [6], {3: 2}), None)])
    assert (1, "surplus") == (caught.value.time, caught.value.what)


def test_repeats_among_statements_that_come_at_once_are_counted() -> None:
    """Each but the first, also while they wait."""
    ledger = ledger_of()
    ledger.state([(Progress([3], [5], {3: 1}), None)] * 4)

    assert 3 == ledger.repeated_statements
