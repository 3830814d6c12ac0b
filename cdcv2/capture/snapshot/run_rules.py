"""What a run of a connector's snapshot is, by its notifications: which begin and end one, and what contradicts it.

All are pure. ``runs`` keeps what they are asked about; whether a run counts, and what stops a capture, is in ``rules``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdcv2.capture.snapshot.completed_run import SnapshotRun
from cdcv2.capture.snapshot.remedies import BEGUN_TWICE, BROKEN_OFF, NO_PLACE, TWO
from cdcv2.capture.source_words import SLOT
from cdcv2.capture.transaction_contradictions import Contradiction

#: The ``status`` of a scan that went through the table; a connector may leave it out.
SCANNED = frozenset({"SUCCEEDED", "EMPTY"})


def aborted_run(offset: int) -> Contradiction:
    """The connector has broken a run off."""
    return Contradiction(f"the connector aborted its snapshot (notification ABORTED at offset {offset})", BROKEN_OFF)


def expects(completed: int, *, is_open: bool) -> bool:
    """Whether a notification may belong to a run: one is open, or the STARTED of the first one is missing.

    >>> expects(0, is_open=False), expects(1, is_open=False), expects(1, is_open=True)
    (True, False, True)
    """
    return is_open or completed == 0


def run_ended_by(
    kind: str, scanned: Mapping[str, int | None], behind: int, wrong: Mapping[str, str], *, is_open: bool
) -> SnapshotRun | None:
    """The run that a notification of this kind ends; None: it ends none. ``behind`` is the offset behind it.

    ``scanned`` and ``wrong`` are those of the run so far. A SKIPPED ends an open run, whose COMPLETED was lost. Without
    one it states that there is no snapshot.

    >>> run_ended_by("SKIPPED", {}, 3, {}, is_open=False).skipped, run_ended_by("STARTED", {}, 3, {}, is_open=True)
    (True, None)
    """
    if kind not in ("COMPLETED", "SKIPPED"):
        return None
    return SnapshotRun(scanned, behind, skipped=kind == "SKIPPED" and not is_open, wrong=wrong)


def with_empty(run: SnapshotRun, empty: Iterable[str]) -> SnapshotRun:
    """The first run, which scanned 0 rows of the tables that the user declared empty, unless it names them.

    >>> with_empty(SnapshotRun({"a": 2}, 3), ["a", "b"]).scanned
    {'a': 2, 'b': 0}
    """
    return run._replace(scanned={**dict.fromkeys(empty, 0), **run.scanned})


def is_empty(run: SnapshotRun, tables: Iterable[str]) -> bool:
    """Whether the run shows that the snapshot has no rows of these tables; one that names no table shows nothing.

    >>> [is_empty(SnapshotRun(scanned, 3), "a") for scanned in ({"a": 0}, {}, {"a": 1})]
    [True, False, False]
    """
    return (run.skipped or bool(run.scanned)) and not any(run.counts(tables).values())


def second_run(offset: int, completed: int, allowed: int, *, is_open: bool) -> Contradiction | None:
    """Why the run that starts at ``offset`` has no exact seam with the stream; None: it may have one.

    So many runs are ``completed``, and so many ``allowed``: the first, and those that are declared.

    >>> second_run(5, 0, 1, is_open=False), second_run(5, 1, 1, is_open=False).reason
    (None, 'the connector has begun a second snapshot (notification STARTED after COMPLETED, at offset 5)')
    """
    if is_open:
        reason = (
            f"the connector began its snapshot twice (notification STARTED at offset {offset}, before COMPLETED): its "
            f"{SLOT} was there when it began again, so transactions may be both in the snapshot and in the stream"
        )
        return Contradiction(reason, BEGUN_TWICE)
    if completed == allowed:
        reason = f"the connector has begun a second snapshot (notification STARTED after COMPLETED, at offset {offset})"
        return Contradiction(reason, TWO)
    return None


def wrong_scan(table: str, rows: int | None, before: int | None, offset: int, status: str | None) -> str | None:
    """Why the scan of a table states no number that can be believed; ``before``: what an earlier one stated.

    >>> wrong_scan("t", 2, None, 4, None), wrong_scan("t", 2, 1, 4, "SUCCEEDED")
    (None, 'two notifications state that t was scanned, one with 1 rows and one, at offset 4, with 2')
    """
    if status is not None and status not in SCANNED:
        return (
            f"the connector did not scan {table} to its end (the notification at offset {offset} has the status "
            f"{status})"
        )
    if rows is None:
        return (
            f"the notification of the scan of {table}, at offset {offset}, does not state how many rows it has "
            "(total_rows_scanned)"
        )
    if before is not None and before != rows:
        return (
            f"two notifications state that {table} was scanned, one with {before} rows and one, at offset {offset}, "
            f"with {rows}"
        )
    return None


def without_row(run: SnapshotRun, tables: Iterable[str]) -> Contradiction | None:
    """Why a resnapshot cannot be put into the history; None: a row shows where it belongs."""
    if any(run.rows(table) != 0 for table in tables):
        return None
    return Contradiction("the connector took a resnapshot without a row, so nothing shows where it belongs", NO_PLACE)
