"""A task of Kafka Connect that was replaced sends old transactions once more, and ends inside one.

Its last BEGIN has no END behind it. The END that it had stands in the topic, far before what a capture knows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.capture.released_transactions import KNOWN
from tests.cli.conftest import Run
from tests.cli.test_early_begin import captured_from, change, folder, marked, rows  # noqa: F401

#: So many transactions were sent by the new task; the old one is at OLD.
SENT, OLD = KNOWN + 60, 20
Records = list[tuple[str, dict[str, object]]]


def begin(tx: int) -> Records:
    """Its BEGIN."""
    return [marked("BEGIN", tx, 100 * tx)]


def end(tx: int, count: int = 0) -> Records:
    """Its END, with so many rows."""
    return [marked("END", tx, 100 * tx + 50, count)]


def whole(tx: int) -> Records:
    """A transaction without rows."""
    return begin(tx) + end(tx)


def with_row(tx: int) -> Records:
    """A transaction with one row."""
    return begin(tx) + [change(1, tx, 100 * tx, 100 * (tx - 1) + 50, tx)] + end(tx, 1)


FIRST = [record for tx in range(1, SENT + 1) for record in (with_row(tx) if tx in (OLD, OLD + 1) else whole(tx))]
NEXT = with_row(SENT + 1)
WAYS = pytest.mark.parametrize("remap", [False, True], ids=["commit times", "remap"])


@WAYS
@pytest.mark.parametrize("sent", [
    whole(OLD - 1) + begin(OLD), begin(OLD), end(OLD - 1) + whole(SENT + 1) + begin(OLD),
], ids=["behind a whole one", "at once", "both tasks in turns"])
@pytest.mark.parametrize("again", [True, False], ids=["started again", "in one life"])
def test_its_begin_shows_no_lost_end(
    run: Run, folder: Path, sent: Records, remap: bool, again: bool  # noqa: F811
) -> None:
    """Whatever the new task has sent meanwhile."""
    more = ["--remap", folder / "remap"] if remap else ["--max-records", 500]
    rest = with_row(SENT + 2) if SENT + 1 in {int(body["id"].split(":")[0]) for _, body in sent} else NEXT
    if again:
        assert 0 == captured_from(run, folder, FIRST, *more).code
        assert 0 == captured_from(run, folder, [*FIRST, *sent], *more).code
    said = captured_from(run, folder, [*FIRST, *sent, *rest], *more)

    assert (0, {OLD, OLD + 1, max(rows(folder))}) == (said.code, rows(folder)) and max(rows(folder)) > SENT


@WAYS
def test_a_lost_end_is_found_where_the_old_task_sends_between(
    run: Run, folder: Path, remap: bool  # noqa: F811
) -> None:
    """An END of the old task stands before the BEGIN of which the END is lost."""
    more = ["--remap", folder / "remap"] if remap else []
    assert 0 == captured_from(run, folder, FIRST, *more).code
    records = [*FIRST, *end(OLD - 1), *begin(SENT + 1), *with_row(SENT + 2)]
    for _ in range(2):
        said = captured_from(run, folder, records, *more)
        assert 4 == said.code and f"the END of transaction {SENT + 1} is missing" in said.err
        assert {OLD, OLD + 1} == rows(folder)
