"""Several statements at once, as a micro-batch has them, among those that wait."""

from __future__ import annotations

from itertools import permutations

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
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
