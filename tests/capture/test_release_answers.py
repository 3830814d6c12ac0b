"""What may be released, and why nothing may: the answers as programs and people read them."""

from __future__ import annotations

import pytest

from cdcv2.capture.transaction_contradictions import Commit
from cdcv2.capture.updates_then_statements import Advance
from cdcv2.capture.release_answers import Release, WaitReason, without_end
from cdcv2.core.antichain import Antichain


def test_a_release_brings_the_logs_beyond_its_last_transaction() -> None:
    """With all that is known of the tables."""
    release = Release(
        None, (Commit(7, 100),), 100, begins={"a": 90}, uncovered=frozenset("bc"), partial=frozenset("c"),
        empty=frozenset("d"),
    )

    assert Antichain([101]) == release.frontier
    expected = Advance(Antichain([101]), {"a": 90}, frozenset("bc"), frozenset("c"), frozenset("d"))
    assert expected == release.advance and release.advance.begun


@pytest.mark.parametrize("what, tx, inside", [
    ("snapshot", None, True), ("rows", 7, True), ("end", 7, True), ("end", 0, True), ("end", None, False),
    ("stop", None, False), ("stop", 7, False),
])
def test_topics_end_inside_what_is_not_whole(what: str, tx: int | None, inside: bool) -> None:
    """Where nothing waits for the next END, they end between two transactions."""
    assert inside == WaitReason(what, "", tx).inside


@pytest.mark.parametrize("open_ones, text", [
    ([], "nothing is open"),
    ([7], "transaction 7: rows are in, and no END yet"),
    ([8, 7], "transactions 8, 7: rows are in, and no END yet"),
    ([7, 8, 9], "transactions 7, 8, 9: rows are in, and no END yet"),
    ([7, 8, 9, 10], "transactions 7, 8, 9 and 1 more: rows are in, and no END yet"),
    ([7, 8, 9, 10, 11], "transactions 7, 8, 9 and 2 more: rows are in, and no END yet"),
])
def test_transactions_without_an_end_are_named(open_ones: list[int], text: str) -> None:
    """Three of them, and how many more there are."""
    assert WaitReason("end", text, open_ones[0] if open_ones else None) == without_end(open_ones)
