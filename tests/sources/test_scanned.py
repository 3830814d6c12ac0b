"""The End of a snapshot follows from the notifications and the first rows, and from nothing else."""

from __future__ import annotations

import pytest

from cdcv2.reclock.temp import SNAPSHOT, End, Halt
from cdcv2.sources.facts import Notification
from cdcv2.sources.scanned import Scanned

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


B = counted("b", 0)


@pytest.mark.parametrize("notifications, lsn, expected", [
    ((), 70, None),
    ((STARTED, counted("a", 2)), 70, None),
    ((STARTED, counted("a", 2), B, COMPLETED), None, None),
    ((STARTED, counted("a", 2), B, COMPLETED), 70, End.of(SNAPSHOT, 70, {"a": 2})),
    ((STARTED, counted("a", 0), B, counted("other", 5), COMPLETED), None, End.of(SNAPSHOT, 0, {})),
    ((STARTED, counted("a", 2), B, COMPLETED, SKIPPED), 70, End.of(SNAPSHOT, 70, {"a": 2})),
    ((STARTED, counted("a", 2), B, SKIPPED), 70, End.of(SNAPSHOT, 70, {"a": 2})),
    ((SKIPPED,), None, End.of(SNAPSHOT, 0, {})),
    ((("IN_PROGRESS", "a", None),), 70, None),
])  # fmt: skip
def test_when_it_is_said(notifications: tuple[Said, ...], lsn: int | None, expected: End | None) -> None:
    """Tables that are not captured count for nobody; SKIPPED ends a run whose COMPLETED was lost."""
    assert expected == after(*notifications).end(lsn)


@pytest.mark.parametrize("notifications, reason", [
    ((STARTED, counted("a", 2), B, COMPLETED, STARTED), "begun a second snapshot"),
    ((STARTED, counted("b", None), COMPLETED), "do not say how many rows of a"),
    ((STARTED, counted("a", 1), counted("b", None), COMPLETED), "do not say how many rows of b"),
    ((STARTED, counted("a", 1), COMPLETED), "do not say how many rows of b"),
    ((STARTED, counted("a", 9), B, STARTED, counted("a", 2), B, COMPLETED), "began its snapshot twice"),
    ((counted("a", 9), STARTED, counted("a", 9), B, COMPLETED), "began its snapshot twice"),
    ((STARTED, ("ABORTED", None, None)), "aborted its snapshot"),
])  # fmt: skip
def test_what_can_never_be_whole_says_so(notifications: tuple[Said, ...], reason: str) -> None:
    """Before a row has come, too, and whatever comes."""
    for lsn in (None, 70):
        said = after(*notifications).end(lsn)

        assert isinstance(said, Halt) and said.tx == SNAPSHOT and reason in said.reason


def test_a_table_that_is_said_to_be_empty_has_no_rows_unless_the_connector_counts_some() -> None:
    """What the connector says stands."""
    for said, counts in (((), {"a": 2}), ((counted("b", 3),), {"a": 2, "b": 3})):
        scanned = Scanned(["a", "b"], ["b"])
        for offset, one in enumerate((STARTED, counted("a", 2), *said, COMPLETED)):
            scanned.notification(Notification(*one, offset))

        assert End.of(SNAPSHOT, 70, counts) == scanned.end(70)


def test_a_run_that_begins_after_the_end_stops() -> None:
    """A capture that resumed behind the End has not read what came before it."""
    scanned = Scanned(["a"])
    scanned.ended()
    scanned.notification(Notification(*SKIPPED, 7))
    assert scanned.halt() is None
    scanned.notification(Notification(*STARTED, 8))

    halt = scanned.halt()
    assert halt is not None and "begun a second snapshot" in halt.reason and "at offset 8" in halt.reason
