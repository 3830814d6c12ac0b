"""Several statements at once, as a micro-batch has them, among those that wait."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME, Product
from cdcv2.protocol.coverage import Coverage, ReadStatement
from cdcv2.protocol.messages import Progress


def test_statements_that_come_together_are_taken_in_between_those_that_wait() -> None:
    """Whichever of a chain wait, and whichever come at once: it is one chain, and nothing waits any more."""
    chain = [Progress([time], [time + 1]) for time in range(6)]
    for order in permutations(range(6)):
        for number in range(6):
            coverage = Coverage(Antichain([0]))
            for at in order[:number]:
                coverage.accept(coverage.plan([ReadStatement(chain[at])]))
            coverage.accept(coverage.plan([ReadStatement(chain[at]) for at in order[number:]]))

            assert (Antichain([6]), []) == (coverage.known, coverage.waiting())


def test_nothing_waits_once_the_history_is_complete() -> None:
    """Neither a statement of the last time there is."""
    coverage = Coverage(Antichain([0]))
    for statement in (Progress([0], []), Progress([MAX_TIME], []), Progress([MAX_TIME - 1], [MAX_TIME])):
        coverage.accept(coverage.plan([ReadStatement(statement)]))

        assert (Antichain(), []) == (coverage.known, coverage.waiting())


def test_the_last_time_there_is_can_be_left_to_come() -> None:
    """A history that is known up to it is not complete."""
    coverage = Coverage(Antichain([0]))
    coverage.accept(coverage.plan([ReadStatement(Progress([0], [MAX_TIME]))]))

    assert Antichain([MAX_TIME]) == coverage.known


def of_two(time: int) -> Product:
    """A time of two coordinates, of which the second never changes."""
    return Product(time, 0)


@pytest.mark.parametrize("time", [int, of_two])
def test_a_plan_states_what_follows_and_changes_nothing(time: Callable[[int], Any]) -> None:
    """Which statements wait, which are repeats, and which take it on, each with how far it was before."""
    def stated(lower: int, upper: int, position: int) -> ReadStatement:
        return ReadStatement(Progress([time(lower)], [time(upper)]), position)

    coverage = Coverage(Antichain([time(0)]))
    assert (time is int) == coverage.total
    waiting = coverage.plan([stated(4, 5, 1), stated(4, 5, 2), stated(7, 8, 3), stated(4, 5, 4)])
    assert (Antichain([time(0)]), [], [], 2) == (waiting.known, waiting.reached, waiting.done, waiting.repeats)
    assert [] == coverage.waiting()
    coverage.accept(waiting)
    assert [stated(4, 5, 1), stated(7, 8, 3)] == coverage.waiting()

    chain = coverage.plan([stated(4, 5, 5), stated(0, 3, 6), stated(3, 4, 7), stated(4, 5, 8)])
    assert (Antichain([time(5)]), 3, 2) == (chain.known, len(chain.done), chain.repeats)
    assert [] == chain.waiting and [stated(4, 5, 1)] == [one for one in coverage.affected(chain) if one.position == 1]
    assert [
        (stated(0, 3, 6), Antichain([time(0)])), (stated(3, 4, 7), Antichain([time(3)])),
        (stated(4, 5, 1), Antichain([time(4)])),
    ] == chain.reached  # fmt: skip
    coverage.accept(chain)
    assert (Antichain([time(5)]), [stated(7, 8, 3)]) == (coverage.known, coverage.waiting())


def test_a_complete_history_has_the_times_that_it_had() -> None:
    """Nothing shows which these are any more; who knows states it."""
    assert not Coverage(Antichain()).total and Coverage(Antichain(), total=True).total
    assert not Coverage(Antichain([0]), total=False).total
