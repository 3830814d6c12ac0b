"""What makes a transaction whole, and what contradicts that, rule by rule."""

from __future__ import annotations

import pytest

from cdcv2.capture.contradictions import Commit, Contradiction
from cdcv2.capture.released_ends import ReleasedEnds
from cdcv2.capture.released_transactions import ReleasedTransactions
from cdcv2.capture.transactions import TransactionTracker


def tracker(*ends: tuple[int, int, dict[str, int]]) -> TransactionTracker[int]:
    """One without a snapshot, of the table a, that has released these."""
    made = TransactionTracker[int](["a"], 0, known=3)
    for tx, lsn, counts in ends:
        made.end(tx, lsn, counts)
        made.settle([Commit(tx, lsn)])
    return made


def reason(found: Contradiction | bool | None) -> str:
    """Why it stops."""
    assert isinstance(found, Contradiction)
    return found.reason


@pytest.mark.parametrize("distinct, highest, missing, wrong", [
    (1, 1, {"a": 1}, False), (2, 2, {}, False), (2, 3, {}, True), (1, 3, {"a": 1}, True), (3, 3, {}, True),
])
def test_a_transaction_is_whole_by_the_numbers_of_its_rows(
    distinct: int, highest: int, missing: dict[str, int], wrong: bool
) -> None:
    """As many rows as END counts, and none with a higher number."""
    made = tracker()
    made.rows_seen(7, "a", distinct, highest)
    made.end(7, 100, {"a": 2, "other": 9})

    assert (missing, wrong) == (made.missing(7), made.contradiction(7) is not None)


def test_only_the_last_ones_are_known() -> None:
    """Older ones are not judged: they are duplicates; also where all there ever were are known."""
    made = tracker(*((tx, 10 * tx, {"a": tx}) for tx in range(1, 6)))

    assert 30 == made.released.since == made.released.certain == made.released.oldest
    assert made.released.row(99, 29, "a", 1) is None and made.released.end(2, 20, {}) is None
    assert "END of transaction 99 is missing" in reason(made.released.row(99, 30, "a", 1))
    assert "numbered 5, but its END 40 counts 4" in reason(made.released.row(4, 30, "a", 5))
    assert made.released.row(4, 39, "a", 4) is None


def test_a_start_judges_as_one_that_lives_on() -> None:
    """For each number of transactions before it, and each row and END that may come then."""
    for number in range(7):
        ends = [(tx, 10 * tx, {"a": tx}) for tx in range(1, number + 1)]
        alive, begun = tracker(*ends), TransactionTracker[int](["a"], 10 * number, known=3)
        begun.recall(ReleasedEnds(tuple((tx, lsn, {**counts, "other": 1}) for tx, lsn, counts in ends), True, None), 0)
        for after in range(10 * number):
            for tx in range(number + 2):
                rows = [one.released.row(tx, after, "a", tx) for one in (alive, begun)]
                assert rows[0] == rows[1], (number, after, tx)
                above = [one.released.row(tx, after, "a", tx + 1) for one in (alive, begun)]
                assert above[0] == above[1], (number, after, tx)
                was = [one.end(tx, after, {"a": tx}) for one in (alive, begun)]
                assert was[0] == was[1], (number, after, tx)


def test_with_too_few_ends_what_needs_an_older_one_is_not_judged() -> None:
    """What is known is judged as ever; enough of them, later on, are enough."""
    made = TransactionTracker[int](["a"], 50, known=3)
    made.recall(ReleasedEnds(((4, 40, {"a": 1}), (5, 50, {})), False, None), 0)

    assert None is made.released.certain
    assert "the first END that the transaction topic still holds" in reason(made.released.row(3, 30, "a", 1))
    assert made.released.row(4, 30, "a", 1) is None
    assert "numbered 2, but its END 40 counts 1" in reason(made.released.row(4, 30, "a", 2))
    assert "cannot be known" in reason(made.end(3, 30, {}))
    assert "came for the first time" in reason(made.end(9, 45, {}))
    made.end(6, 60, {})
    made.settle([Commit(6, 60)])
    assert 40 == made.released.certain
    assert "holds no END of what is released" in reason(ReleasedTransactions[int](50, whole=False).row(3, 30, "a", 1))


def test_a_connector_that_numbers_anew_and_was_restarted_inside_a_transaction() -> None:
    """Either alone is nothing: a later connector goes on with its numbers; END shows that the transaction is over."""
    made = tracker()
    made.rows_seen(7, "a", 1, 1)
    made.end(7, 100, {"a": 1})
    made.restarted(7)
    assert made.contradiction(7) is None
    made.renumbered(7)
    assert "transaction 7 (END 100) has two BEGINs" in reason(made.contradiction(7))
    made.settle([Commit(7, 100)])
    made.renumbered(8)

    assert made.contradiction(8) is None
