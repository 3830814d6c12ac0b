"""Rule 5: what lacks is reported, as data and as text, and nothing is reported when nothing lacks."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.protocol.resolver import Resolver

P = Product


def missing(*messages: Message, start: Any = None) -> MissingUpdates:
    """What a reader of these lacks."""
    reader = Resolver(start, begins=[0] if start == [5] else None)
    for message in messages:
        reader.absorb(message)
    return reader.missing()


def gaps(*bounds: tuple[list[Any], list[Any]]) -> tuple[tuple[Antichain, Antichain], ...]:
    """Intervals, written short."""
    return tuple((Antichain(lower), Antichain(upper)) for lower, upper in bounds)


def test_nothing_lacks_of_nothing() -> None:
    """A log in which nothing was stated is complete so far, whatever updates it holds."""
    assert not missing()
    assert not missing(Updates([("a", 3, 1)]))
    assert MissingUpdates() == missing()
    assert "nothing that was stated is missing" == str(missing())


def test_a_finished_part_lacks_nothing() -> None:
    """Complete so far is not closed."""
    assert not missing(Progress([0], [5], {3: 1}), Updates([("a", 3, 1), ("b", 7, 1)]))


def test_updates_that_lack_are_counted_by_time() -> None:
    """Also those of a statement that cannot be reached yet."""
    found = missing(Progress([0], [5], {3: 2, 4: 1}), Progress([6], [9], {8: 3}), Updates([("a", 3, 1), ("b", 8, 1)]))

    assert ((3, 1), (4, 1), (8, 2)) == found.updates
    assert gaps(([5], [6])) == found.statements
    assert found
    assert "no statement covers the times from 5 to before 6; 1 update missing at time 3" in str(found)
    assert "2 updates missing at time 8" in str(found)
    assert {"statements": [[[5], [6]]], "updates": [[3, 1], [4, 1], [8, 2]], "contested": []} == found.to_plain()


@pytest.mark.parametrize("stated, expected", [
    ([([2], [3])], [([0], [2])]),
    ([([2], [3]), ([5], [7])], [([0], [2]), ([3], [5])]),
    ([([5], [7]), ([2], [6]), ([3], [4])], [([0], [2])]),
    ([([0], [2]), ([4], [9]), ([5], [6])], [([2], [4])]),
    ([([5], [])], [([0], [5])]),
    ([([0], [3]), ([5], []), ([6], [9])], [([3], [5])]),
    ([([7], [7])], []),
    ([([0], [])], []),
])
def test_gaps_between_statements_are_found(stated: Any, expected: Any) -> None:
    """Below the join of the stated uppers, each once, in order."""
    assert gaps(*expected) == missing(*(Progress(lower, upper) for lower, upper in stated)).statements


def test_gaps_of_products_are_where_no_statement_is() -> None:
    """Both arms of a frontier may lack something; one does here."""
    found = missing(
        Progress([P(0, 0)], [P(0, 1), P(1, 0)]), Progress([P(0, 1)], [P(0, 2), P(1, 1)]),
        Progress([P(2, 0)], [P(3, 0), P(2, 1)]), start=[P(0, 0)],
    )

    covered = [time for time in (P(1, 0), P(1, 1), P(2, 0), P(0, 2), P(0, 0))
               if any(low.less_equal(time) and not high.less_equal(time) for low, high in found.statements)]
    assert [P(1, 0), P(1, 1), P(0, 2)] == covered


def test_a_start_is_not_missed() -> None:
    """What is before it is no concern of a reader that has it."""
    assert not missing(Progress([3], [9], {4: 1}), start=[5])
    assert ((6, 1),) == missing(Progress([3], [9], {4: 1, 6: 1}), start=[5]).updates


def test_a_long_answer_is_cut() -> None:
    """A person reads ten, and how many more there are; the data has all."""
    found = missing(*(Progress([2 * n], [2 * n + 1], {2 * n: 1}) for n in range(20)))

    assert (19, 20) == (len(found.statements), len(found.updates))
    assert 10 == str(found).count("no statement covers")
    assert "and 29 more" in str(found)


def test_an_iterator_states_what_lacks_and_whether_it_is_at_the_end() -> None:
    """Complete so far is not the end."""
    for message, lacks, closed in (
        (Progress([0], [5], {3: 1}), ((3, 1),), False), (Progress([0], [5]), (), False), (Progress([0], []), (), True),
    ):
        reader = Iter([message])
        list(reader)
        assert (lacks, closed) == (reader.missing().updates, reader.closed)


def test_bounds_of_several_elements_are_told_one_by_one() -> None:
    """And an interval without an end is reported as one."""
    several = MissingUpdates(statements=gaps(([P(1, 0), P(0, 1)], [P(3, 3)])))
    assert "the times from Product(0, 1), Product(1, 0) to before Product(3, 3)" in str(several)
    assert "the times from 4 on" in str(MissingUpdates(statements=gaps(([4], []))))


@pytest.mark.parametrize("number", [9, 10, 11, 12])
def test_at_most_ten_are_told_one_by_one(number: int) -> None:
    """The rest are counted, if there is a rest."""
    told = str(MissingUpdates(updates=tuple((time, 1) for time in range(number))))
    assert min(number, 10) == told.count("missing at time")
    assert (f"and {number - 10} more" in told) == (number > 10)
    assert told.endswith("at time 9" if number == 10 else "more" if number > 10 else "at time 8")


def test_what_lacks_does_not_hang_on_the_order_of_statements_that_wait() -> None:
    """Two that differ will contradict each other once they are reached; until then the larger one is waited for."""
    one, other = (Progress([P(0, 1)], [P(1, 1)], {P(0, 1): count}) for count in (1, 3))
    for order in ((one, other), (other, one)):
        reader = Resolver([P(0, 0)])
        for statement in order:
            reader.absorb(statement)

        assert ((P(0, 1), 3),) == reader.missing().updates


def test_times_in_dispute_are_told_in_their_order() -> None:
    """Also where Python has none for them, and whichever came first."""
    reader = Resolver([P(0, 0)], on_error="quarantine")
    for diff in (1, 2):
        reader.absorb(Updates([("a", time, diff) for time in (P(2, 0), P(0, 1), P(1, 1))]))

    assert (P(0, 1), P(1, 1), P(2, 0)) == reader.missing().contested
