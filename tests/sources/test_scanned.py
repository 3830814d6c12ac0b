"""The End of a snapshot follows from the notifications and the first rows, and from nothing else."""

from __future__ import annotations

import pytest

from cdcv2.reclock.temp import SNAPSHOT, End, Halt, Row
from cdcv2.sources.facts import Notification
from cdcv2.sources.scanned import Scanned, mixed

STARTED, COMPLETED, SKIPPED = ("STARTED", None, None), ("COMPLETED", None, None), ("SKIPPED", None, None)
Said = tuple[str, str | None, int | None]


def counted(table: str, rows: int | None) -> Said:
    """So many rows were scanned."""
    return "TABLE_SCAN_COMPLETED", table, rows


def after(*notifications: Said) -> Scanned:
    """These have come."""
    scanned = Scanned(["a", "b"])
    for offset, said in enumerate(notifications):
        scanned.notification(Notification(*said, offset))
    return scanned


@pytest.mark.parametrize("notifications, lsn, expected", [
    ((), 70, None),
    ((STARTED, counted("a", 2)), 70, None),
    ((STARTED, counted("a", 2), COMPLETED), None, None),
    ((STARTED, counted("a", 2), COMPLETED), 70, End.of(SNAPSHOT, 70, {"a": 2})),
    ((STARTED, counted("a", 9), counted("b", 1), STARTED, counted("a", 2), COMPLETED), 70,
     End.of(SNAPSHOT, 70, {"a": 2})),
    ((STARTED, counted("a", 0), counted("other", 5), COMPLETED), None, End.of(SNAPSHOT, 0, {})),
    ((STARTED, counted("a", 2), COMPLETED, SKIPPED), 70, End.of(SNAPSHOT, 70, {"a": 2})),
    ((SKIPPED,), None, End.of(SNAPSHOT, 0, {})),
    ((("ABORTED", None, None), ("IN_PROGRESS", "a", None)), 70, None),
])  # fmt: skip
def test_when_it_is_said(notifications: tuple[Said, ...], lsn: int | None, expected: End | None) -> None:
    """A run that was broken off counts nothing; tables that are not captured count for nobody."""
    assert expected == after(*notifications).end(lsn)


@pytest.mark.parametrize("notifications, reason", [
    ((STARTED, COMPLETED, STARTED), "begun a second snapshot"),
    ((STARTED, counted("b", None), COMPLETED), "do not say how many rows of b"),
])
def test_what_can_never_be_whole_says_so(notifications: tuple[Said, ...], reason: str) -> None:
    """Before a row has come, too."""
    said = after(*notifications).end(None)

    assert isinstance(said, Halt) and said.tx == SNAPSHOT and reason in said.reason


@pytest.mark.parametrize("notifications, broken_off", [
    ((STARTED, counted("a", 2), COMPLETED, SKIPPED), False), ((SKIPPED,), False), ((STARTED, STARTED), True),
    ((STARTED, counted("a", 2), STARTED, counted("a", 2), COMPLETED), True),
])  # fmt: skip
def test_a_run_that_was_broken_off_is_known(notifications: tuple[Said, ...], broken_off: bool) -> None:
    """By the next one."""
    assert broken_off == after(*notifications).broken_off


def test_when_there_may_be_enough_rows() -> None:
    """As the completed run says; more are another matter."""
    scanned = after(STARTED, counted("a", 9), STARTED, counted("a", 2))
    assert not scanned.are_enough({"a": 2})
    scanned.notification(Notification(*COMPLETED, 4))

    assert [False, True, True] == [scanned.are_enough({"a": number, "c": 1}) for number in (1, 2, 3)]


def test_rows_of_two_runs_are_those_of_one_if_none_is_twice() -> None:
    """Rows of two tables may be alike."""
    rows = [Row(table, SNAPSHOT, (table, 0, at), 70, ((at, 1),)) for table in "ba" for at in range(2)]
    said = mixed([*rows, *(Row(row.table, SNAPSHOT, 9, 70, row.changes) for row in rows)])

    assert mixed(rows) is None and said is not None and "rows of a are there twice" in said.reason
