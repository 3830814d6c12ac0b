"""What stops a capture, in words: what the user reads, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from cdcv2.capture.transaction_contradictions import (
    LOST, NEW_SOURCE, RENUMBERED, SPOILT, UNKNOWN, Commit, Contradiction, in_doubt, late_end, lost_end, lost_rows,
    renumbered, surplus, two_ends, two_snapshot_rows, uncounted_row, unknown_end, unknown_row,
)
from cdcv2.connectors.debezium.source_words import POSTGRES_WORDS

BEYOND = "; the logs are stated beyond it"
OLD_CONNECTOR = (
    "its rows are of a connector before 3.7.0: their numbers may have begun at 1 again, so END may count only some of "
    "them"
)
TWO_BEGINS = "has two BEGINs, one directly after the other,"
LOST_BEFORE = (
    f"cannot be known: the transaction topic has lost what stood before the first record of it, and {OLD_CONNECTOR}"
)


class Case(NamedTuple):
    """What is found, and what is written of it; ``flags``: stated, judged, lost."""

    found: Callable[[], Contradiction | None]
    reason: str
    remedy: str
    flags: tuple[bool, bool, bool]


STOPS, STATED, NOT_JUDGED = (False, True, False), (True, True, False), (False, False, False)
CASES = {
    "lost rows": Case(
        lambda: lost_rows(6, 70, Commit(7, 90)),
        "the END of transaction 6 is missing: it comes after the commit 70 and before the next one, and the next END "
        f"is 90, of transaction 7{BEYOND}, and lack them", SPOILT, (True, True, True),
    ),
    "a row that its END did not count": Case(
        lambda: uncounted_row(7, "a", 2, 90, {"a": 1}),
        f"transaction 7 has a row of a numbered 2, but its END 90 counts 1{BEYOND}, and lack it", NEW_SOURCE, STATED,
    ),
    "more rows than its END counts": Case(
        lambda: surplus(7, "a", 3, 4, 90, 2),
        "transaction 7 has 3 rows of a, numbered up to 4, but its END 90 counts 2",
        NEW_SOURCE, STOPS,
    ),
    "one END of two transactions": Case(
        lambda: two_ends(90, (7, {"a": 1}), (8, {}), stated=False),
        "END 90 states both that transaction 7 has {'a': 1} rows, and 8 has {}", NEW_SOURCE, STOPS,
    ),
    "one END of two transactions, released": Case(
        lambda: two_ends(90, (7, {"a": 1}), (8, {}), stated=True),
        "END 90 states both that transaction 7 has {'a': 1} rows, and 8 has {}" + BEYOND, NEW_SOURCE, STATED,
    ),
    "an END that comes late": Case(
        lambda: late_end(7, 90, "END 95"),
        "END 90 of transaction 7 came for the first time after END 95", NEW_SOURCE, STOPS,
    ),
    "an END that comes late, released": Case(
        lambda: late_end(7, 90, "END 95", stated=True),
        f"END 90 of transaction 7 came for the first time after END 95{BEYOND}",
        NEW_SOURCE, STATED,
    ),
    "a row of which nothing is known": Case(
        lambda: unknown_row(7, 70, None),
        "whether a row of transaction 7, which comes after the commit 70, is a duplicate cannot be known: the "
        "transaction topic holds no END of what is released", UNKNOWN, NOT_JUDGED,
    ),
    "a row of which too little is known": Case(
        lambda: unknown_row(7, 70, 80),
        "whether a row of transaction 7, which comes after the commit 70, is a duplicate cannot be known: the first "
        "END that the transaction topic still holds of what is released is 80", UNKNOWN, NOT_JUDGED,
    ),
    "an END of which too little is known": Case(
        lambda: unknown_end(7, 75, 0),
        "whether END 75 of transaction 7 is a duplicate cannot be known: the first END that the transaction topic "
        "still holds of what is released is 0", UNKNOWN, NOT_JUDGED,
    ),
    "a transaction that was sent in two parts": Case(
        lambda: renumbered(7, None), f"transaction 7 {TWO_BEGINS} and {OLD_CONNECTOR}", RENUMBERED, STOPS,
    ),
    "a whole transaction that was sent in two parts": Case(
        lambda: renumbered(7, 0), f"transaction 7 (END 0) {TWO_BEGINS} and {OLD_CONNECTOR}", RENUMBERED, STOPS,
    ),
    "one that was perhaps sent in two parts": Case(
        lambda: in_doubt(7, None), f"whether transaction 7 {TWO_BEGINS} {LOST_BEFORE}", RENUMBERED, NOT_JUDGED,
    ),
    "a whole one that was perhaps sent in two parts": Case(
        lambda: in_doubt(7, 0), f"whether transaction 7 (END 0) {TWO_BEGINS} {LOST_BEFORE}", RENUMBERED, NOT_JUDGED,
    ),
    "two rows at one position": Case(
        lambda: two_snapshot_rows("a[0]@5"), "there are two different rows of the snapshot at a[0]@5",
        "The topics do not hold one history: was a topic written by two connectors? Start over with new topics", STOPS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_found_is_named_with_its_remedy(case: Case) -> None:
    """Whether the logs lack something, whether the records show it, and whether others may be lost, too."""
    found = case.found()

    assert found is not None
    assert (case.reason, case.remedy) == (POSTGRES_WORDS.fill(found.reason), found.remedy)
    assert case.flags == (found.stated, found.judged, found.lost)
    assert all(type(flag) is bool for flag in (found.stated, found.judged, found.lost))


@pytest.mark.parametrize("after, named", [
    (-1, "comes before any other commit"), (0, "comes after the commit 0"), (1, "comes after the commit 1"),
])
def test_an_end_is_lost_between_two_others(after: int, named: str) -> None:
    """Or before all of them."""
    text = f"the END of transaction 6 is missing: it {named} and before the next one, and the next END is 90, of "

    assert f"{text}transaction 7" == lost_end(6, after, Commit(7, 90))


def test_each_remedy_says_where_to_begin() -> None:
    """They are different ones."""
    assert 5 == len({LOST, SPOILT, UNKNOWN, NEW_SOURCE, RENUMBERED})
    filled = map(POSTGRES_WORDS.fill, (LOST, SPOILT, UNKNOWN, NEW_SOURCE, RENUMBERED))
    assert all("new snapshot" in remedy for remedy in filled)
