"""What stops a capture of transactions: reasons and remedies, the same words in every way to capture.

What a snapshot contradicts is in :mod:`cdcv2.capture.snapshot.rules`, what one row does to another in
:mod:`cdcv2.capture.row_identity`. Words that differ by database are marks in the
texts, which the connector fills (:mod:`cdcv2.capture.source_words`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from cdcv2.capture.source_words import OLD_CONNECTOR, OR_RESTARTED, RENUMBERED_WORDS, SLOT

#: What a transaction is called by its source.
T = TypeVar("T")

_REMEDY = (
    f"start over with a new snapshot (new topics, new {SLOT}, new logs, and another remap if there is one), and with "
    "cleanup.policy=delete and no retention on that topic"
)
RENUMBERED = RENUMBERED_WORDS
NEW_SOURCE = (
    f"The topics do not hold one history: was the {SLOT}, the database or a topic made again under the old names? "
    f"Capture it as a new source: other topics, other logs.{OR_RESTARTED}"
)
LOST = (
    "The transaction topic lacks a record, or has one in another place than the connector sent it to: was it compacted "
    "or trimmed, or not dumped whole, or in another order? If it can be had again as it was, "
    "remove the memory of this capture, and it is read from its start; on a remap, capture it with another remap and "
    f"other logs. If it is missing, {_REMEDY}"
)
SPOILT = f"The transaction topic lacks a record: was it compacted or trimmed? Even if it can be had again, {_REMEDY}"
UNKNOWN = (
    "A start reads the last transactions of the transaction topic again, and there are too few of them. Set "
    "retention.ms=-1 and retention.bytes=-1 on it; a dump must hold it from further back. If those records are lost, "
    f"{_REMEDY}"
)


class Commit(NamedTuple, Generic[T]):
    """A transaction and its commit time: the LSN of its END."""

    tx: T
    lsn: int


class Contradiction(NamedTuple):
    """Why records cannot all be right, and what to do.

    ``stated``: the logs are stated beyond it, and lack something. ``judged``: the records show it; False: the
    transaction topic no longer holds what would show whether they are right. ``lost``: an END is lost, so others may
    be.
    """

    reason: str
    remedy: str
    stated: bool = False
    judged: bool = True
    lost: bool = False


def lost_end(tx: object, after: int, instead: Commit[T]) -> str:
    """In words: the END of ``tx`` is lost.

    >>> lost_end(6, 70, Commit(7, 90)).partition(":")[0]
    'the END of transaction 6 is missing'
    """
    named = f"comes after the commit {after}" if after >= 0 else "comes before any other commit"
    return (
        f"the END of transaction {tx} is missing: it {named} and before the next one, "
        f"and the next END is {instead.lsn}, of transaction {instead.tx}"
    )


def lost_rows(tx: object, after: int, instead: Commit[T]) -> Contradiction:
    """A row arrived after the release of later transactions, and the END of its own transaction is lost."""
    reason = f"{lost_end(tx, after, instead)}; the logs are stated beyond it, and lack them"
    return Contradiction(reason, SPOILT, True, lost=True)


def uncounted_row(
    tx: object, table: str, number: int, end: int, counts: Mapping[str, int]
) -> Contradiction | None:
    """Why a row that arrived is none of its released transaction: its END did not count it; None: it counted it.

    ``number`` is its number among the rows of its table in the transaction, which begin at 1; 0: it has none.

    >>> uncounted_row(7, "a", 1, 90, {"a": 1}), uncounted_row(7, "a", 2, 90, {"a": 1}).reason[:74]
    (None, 'transaction 7 has a row of a numbered 2, but its END 90 counts 1; the logs')
    """
    counted = counts.get(table, 0)
    if number <= counted:
        return None
    return Contradiction(
        f"transaction {tx} has a row of {table} numbered {number}, but its END {end} counts {counted}; the logs are "
        "stated beyond it, and lack it", NEW_SOURCE, True,
    )


def surplus(tx: object, table: str, distinct: int, highest: int, end: int, counted: int) -> Contradiction:
    """There are more rows than END counts."""
    return Contradiction(
        f"transaction {tx} has {distinct} rows of {table}, numbered up to {highest}, but its END {end} counts "
        f"{counted}", NEW_SOURCE,
    )


def two_ends(end: int, one: tuple[object, object], other: tuple[object, object], *, stated: bool) -> Contradiction:
    """One END states two things; each is a transaction and its counts."""
    beyond = "; the logs are stated beyond it" if stated else ""
    return Contradiction(
        f"END {end} states both that transaction {one[0]} has {one[1]} rows, and {other[0]} has {other[1]}{beyond}",
        NEW_SOURCE, stated,
    )


def late_end(tx: object, end: int, after: str, *, stated: bool = False) -> Contradiction:
    """An END was read for the first time where it cannot be new."""
    beyond = "; the logs are stated beyond it" if stated else ""
    return Contradiction(f"END {end} of transaction {tx} came for the first time after {after}{beyond}",
                         NEW_SOURCE, stated)


def unknown_row(tx: object, after: int, oldest: int | None) -> Contradiction:
    """Whether a row is a duplicate cannot be known; ``oldest`` is the first known END."""
    return Contradiction(
        f"whether a row of transaction {tx}, which comes after the commit {after}, is a duplicate cannot be known: "
        f"{_known_from(oldest)}", UNKNOWN, judged=False,
    )


def unknown_end(tx: object, end: int, oldest: int | None) -> Contradiction:
    """Whether an END is a duplicate cannot be known."""
    return Contradiction(
        f"whether END {end} of transaction {tx} is a duplicate cannot be known: {_known_from(oldest)}", UNKNOWN,
        judged=False,
    )


def _known_from(oldest: int | None) -> str:
    if oldest is None:
        return "the transaction topic holds no END of what is released"
    return f"the first END that the transaction topic still holds of what is released is {oldest}"


def renumbered(tx: object, end: int | None) -> Contradiction:
    """A connector that renumbers was restarted inside the transaction."""
    where = f" (END {end})" if end is not None else ""
    return Contradiction(
        f"transaction {tx}{where} has two BEGINs, one directly after the other, and its rows are of {OLD_CONNECTOR}: "
        "their numbers may have begun at 1 again, so END may count only some of them", RENUMBERED,
    )


def in_doubt(tx: object, end: int | None) -> Contradiction:
    """Perhaps a connector was restarted inside the transaction: the topic no longer holds the record to show it."""
    where = f" (END {end})" if end is not None else ""
    return Contradiction(
        f"whether transaction {tx}{where} has two BEGINs, one directly after the other, cannot be known: the "
        f"transaction topic has lost what stood before the first record of it, and its rows are of {OLD_CONNECTOR}: "
        "their numbers may have begun at 1 again, so END may count only some of them", RENUMBERED, judged=False,
    )


def two_snapshot_rows(position: object) -> Contradiction:
    """One position of a snapshot has two different rows."""
    return Contradiction(
        f"there are two different rows of the snapshot at {position}",
        "The topics do not hold one history: was a topic written by two connectors? Start over with new topics",
    )
