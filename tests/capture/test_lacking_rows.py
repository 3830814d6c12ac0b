"""A capture by commit times that counts the rows of its tables stops at a transaction that changes one too many."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.release_answers import WaitReason
from cdcv2.capture.snapshot.rules import lacks_rows
from cdcv2.capture.source_words import ANY_SOURCE
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop

A, B = "public.a", "public.b"


def counting(rows: int, **more: Any) -> CommitTransactions:
    """One with a snapshot of so many rows of A, which leaves B out."""
    commits = CommitTransactions([A, B], notifications=True, counted={}, **more)
    for offset, (kind, table, number) in enumerate([("STARTED", None, None), ("TABLE_SCAN_COMPLETED", A, rows),
                                                    ("COMPLETED", None, None)]):  # fmt: skip
        commits.notification(kind, table, number, offset)
    if rows:
        commits.snapshot_rows(A, 1000, rows)
    return commits


def transaction(commits: CommitTransactions, tx: int, more: int | None, *, table: str = A, had: bool = False) -> None:
    """One of two rows of a table, whose diffs have this sum; committed at ten times its name."""
    if had:
        commits.had(tx, table)
    commits.rows_seen(tx, table, 2, 2, more)
    commits.end(tx, 10 * tx, {table: 2, "public.other": 1})


def through(commits: CommitTransactions, *, at_once: bool) -> tuple[int | None, SourceStop | None]:
    """Up to where it releases, one release after the other or all in one; and what stops it."""
    release = commits.ready()
    while release is not None:
        commits.settle(release)
        assert not at_once or commits.ready() is None
        release = commits.ready()
    return commits.through, commits.stopped()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("rows, diffs, had, lacking, left", [
    (1, [-2], False, 200, 1), (2, [-2], False, None, 0), (2, [-2, -1], False, 201, 0), (1, [1, -2, -1], False, 202, 0),
    (0, [None, -2, -1], False, 202, 0), (0, [0], True, 200, 0), (1, [0], True, None, 1), (0, [0], False, None, 0),
    (0, [1, 0], True, 200, 0), (3, [-2, 0, -2], False, 202, 1),
])  # fmt: skip
def test_a_transaction_that_changes_rows_that_are_not_there_stops_it(
    rows: int, diffs: list[int | None], had: bool, lacking: int | None, left: int, at_once: bool
) -> None:
    """The snapshot lacked some: nothing of the transaction is released, all before it is."""
    commits = counting(rows)
    commits.end(199, 1990, {"public.other": 1})
    if not at_once:
        commits.settle(commits.ready())  # type: ignore[arg-type]
    for tx, diff in enumerate(diffs, 200):
        transaction(commits, tx, diff, had=had)
        if not at_once:
            release = commits.ready()
            assert (release is None) == (lacking is not None and tx >= lacking)
            if release is not None:
                commits.settle(release)
    last, stop = through(commits, at_once=at_once)

    if lacking is None:
        assert (10 * (199 + len(diffs)), None) == (last, stop) and 0 == commits.open_transactions()
        return
    before = 10 * (lacking - 1)
    expected = lacks_rows(lacking, A, left)
    remedy = ANY_SOURCE.fill(expected.remedy)
    assert stop is not None and (expected.reason, remedy, before) == (stop.reason, stop.remedy, last)
    assert Antichain([before + 1]) == stop.frontier and not stop.lasting
    text = f"transaction {lacking} (END {10 * lacking}): {expected.reason}"
    assert WaitReason("stop", text, lacking, 10 * lacking) == commits.waits()


def test_a_table_that_the_snapshot_leaves_out_is_not_counted() -> None:
    """How many rows it has is not known."""
    commits = counting(1)
    transaction(commits, 200, -2, table=B)

    assert (2000, None) == through(commits, at_once=True)


@pytest.mark.parametrize("how", ["opened", "restored"])
def test_what_the_logs_hold_counts_where_the_snapshot_was_released_before(how: str) -> None:
    """A restart knows from its logs how many rows there are, and since when."""
    more: dict[str, Any] = {"notifications": True, "known": 2001, "counted": {A: (2, 2001)}}
    commits = CommitTransactions([A, B], **more)
    if how == "restored":
        first = counting(2)
        transaction(first, 200, 0)
        first.settle(first.ready())  # type: ignore[arg-type]
        commits = CommitTransactions.restore(first.export(), [A, B], **more)
    transaction(commits, 201, -2)
    transaction(commits, 202, -1)
    last, stop = through(commits, at_once=True)

    assert 2010 == last and stop is not None and lacks_rows(202, A, 0).reason == stop.reason


@pytest.mark.parametrize("snapshot, counted", [("none", {A: (0, 0)}), ("initial", None)])
def test_where_nothing_says_how_many_rows_there_are_none_is_missed(
    snapshot: str, counted: dict[str, tuple[int, int]] | None
) -> None:
    """A history without a snapshot begins in the middle; and old rows that are looked up show it themselves."""
    commits = CommitTransactions([A], snapshot=snapshot, known=1001, counted=counted)
    transaction(commits, 200, -2, had=True)

    assert (2000, None) == through(commits, at_once=True)


def open_ones(commits: CommitTransactions) -> dict[str, object]:
    """What it holds of single transactions."""
    held = {name: getattr(commits, name) for name in ("_more", "_had", "_halts", "_named")}
    return {name: found for name, found in held.items() if found}


def test_of_what_is_released_nothing_is_held() -> None:
    """Nor of rows that were found to be duplicates: memory is that of what is open."""
    commits = counting(1)
    commits.halt(199, "a row is lacking", "mend it")
    transaction(commits, 199, 1, had=True)
    transaction(commits, 200, 1)
    commits.had(201, A)
    commits.rows_seen(201, A, 1, 1, 1)
    commits.settle(commits.ready())  # type: ignore[arg-type]
    assert {"_more", "_had", "_halts"} == open_ones(commits).keys()
    commits.rows_seen(201, A, 0)
    commits._forget(199, ended=True)
    assert {"_more": {200: {A: 1}}} == open_ones(commits)


def test_no_table_may_be_left_out_unless_the_user_allows_it() -> None:
    """The run names A alone: B is not covered, or the capture stops."""
    assert (1000, None) == through(counting(1), at_once=True)
    last, stop = through(counting(1, leaves_out=False), at_once=True)

    assert last is None and stop is not None and B in stop.reason
