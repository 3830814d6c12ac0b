"""A table that was declared to have been empty, and was not: the first row that cannot be there stops every capture.

The dumps are those of the snapshot's edges: a table ``t`` with a snapshot of two rows, and a table ``u`` of which the
user or a notification states that it had none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.writer import Writer
from tests.cli.conftest import Run
from tests.cli.test_command_capture_edges import BEGUN, NOTIFIED, Captures, note, scanned
from tests.cli.test_uncovered import OnRemap, change, changed, end

COUNTED = [note(0, "STARTED"), scanned(1, 2), scanned(2, 0, "public.u"), note(3, "COMPLETED")]
UNNAMED = [note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED")]
#: What states that it was empty: notifications that are there, and options.
DECLARED = {
    "a notification": (COUNTED, NOTIFIED),
    "the user": ([], ("--empty", "public.u")),
    "the user, beside notifications": (UNNAMED, (*NOTIFIED, "--empty", "public.u")),
}
REASON = "changes or deletes a row of public.u that cannot be there: after all that came before it, the table has "
T = [change("t", 2, 10, 5, 1, 100), end(0, 5, 120, t=1)]


def insert(offset: int, number: int, tx: int, order: int, before: int, of: int = 1) -> str:
    """The row that :func:`changed` takes away, inserted into u."""
    return change("u", offset, number, tx, order, before, of).replace('\\"v\\": 0', '\\"v\\": 4')


INSERTED = [insert(0, 7, 6, 1, 120), end(1, 6, 140, u=1)]


@pytest.fixture(params=["commit times", "remap"])
def capture(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Captures:
    """Captures into a folder of the test's."""
    return OnRemap(run, tmp_path) if request.param == "remap" else Captures(run, tmp_path)


@pytest.mark.parametrize("memory", ["kept", "lost"])
@pytest.mark.parametrize("op", "ud")
@pytest.mark.parametrize("declared", DECLARED)
def test_a_change_of_an_empty_table_stops_before_its_transaction(
    capture: Captures, declared: str, op: str, memory: str
) -> None:
    """What was committed before is complete; nothing of the transaction is written, however often it is tried."""
    notes, more = DECLARED[declared]
    if isinstance(capture, OnRemap) and not notes:
        # There a snapshot needs notifications.
        return
    wrong = [change("t", 3, 11, 6, 1, 120), changed(op, change("u", 0, 7, 6, 2, 120)), end(1, 6, 140, t=1, u=1)]
    assert 0 == capture([*BEGUN, *notes], *more, tables="tu").code
    for _ in range(2):
        capture.forget(memory)
        stopped = capture([*BEGUN, *notes, *T, *wrong], *more, tables="tu")
        assert 4 == stopped.code and f"transaction 6 {REASON}0 rows" in stopped.err, stopped.err
        assert "leave it out of --empty" in stopped.err and "start over with a snapshot" in stopped.err
        assert ([1, 3, 10], []) == (capture.held(), capture.held("u"))
        assert "complete through 120" in stopped.err or isinstance(capture, OnRemap)


@pytest.mark.parametrize("memory", ["kept", "lost"])
@pytest.mark.parametrize("together", [True, False])
def test_rows_that_came_and_went_are_counted(capture: Captures, together: bool, memory: str) -> None:
    """The table is empty again after an insert and a delete, in one run or several; then there is no row to update."""
    deleted = [changed("d", insert(1, 7, 7, 1, 140)), end(2, 7, 160, u=1)]
    wrong = [changed("u", change("u", 2, 7, 8, 1, 160)), end(3, 8, 180, u=1)]
    dumps = [[*INSERTED], [*INSERTED, *deleted], [*INSERTED, *deleted, *wrong]]
    *before, last = dumps[-1:] if together else dumps
    for dump in before:
        assert 0 == capture([*BEGUN, *COUNTED, *T, *dump], *NOTIFIED, tables="tu").code
        capture.forget(memory)
    stopped = capture([*BEGUN, *COUNTED, *T, *last], *NOTIFIED, tables="tu")
    assert 4 == stopped.code and f"transaction 8 {REASON}0 rows" in stopped.err, stopped.err
    assert [] == capture.held("u")


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_more_rows_than_there_are_cannot_be_deleted(capture: Captures, memory: str) -> None:
    """A transaction inserts one row, and deletes two."""
    wrong = [
        change("u", 1, 8, 7, 1, 140), changed("d", change("u", 2, 8, 7, 2, 140, 2)),
        changed("d", change("u", 3, 7, 7, 3, 140, 3)), changed("d", change("u", 4, 9, 7, 4, 140, 4)),
        end(2, 7, 160, u=4),
    ]  # fmt: skip
    assert 0 == capture([*BEGUN, *COUNTED, *T, *INSERTED], *NOTIFIED, tables="tu").code
    capture.forget(memory)
    stopped = capture([*BEGUN, *COUNTED, *T, *INSERTED, *wrong], *NOTIFIED, tables="tu")
    assert 4 == stopped.code and f"transaction 7 {REASON}1 rows" in stopped.err, stopped.err
    assert [7] == capture.held("u")


@pytest.mark.parametrize("memory", ["kept", "lost"])
def test_what_can_be_goes_on(capture: Captures, memory: str) -> None:
    """An insert, a change of it in the same transaction, its delete; a transaction that is sent again; one more."""
    insert_and_change = [
        insert(0, 7, 6, 1, 120), changed("u", insert(1, 7, 6, 2, 120, 2)), end(1, 6, 140, u=2),
    ]  # fmt: skip
    gone = [changed("d", insert(2, 7, 7, 1, 140)), end(2, 7, 160, u=1)]
    again = [changed("d", insert(3, 7, 7, 1, 140)), end(3, 7, 160, u=1)]
    more = [change("u", 4, 9, 8, 1, 160), end(4, 8, 180, u=1)]
    dump = [*BEGUN, *COUNTED, *T]
    for part in (insert_and_change, gone, again, more):
        dump += part
        done = capture(dump, *NOTIFIED, tables="tu")
        assert 0 == done.code, done.err
        capture.forget(memory)
    assert ([1, 3, 10], [9]) == (capture.held(), capture.held("u"))


def test_a_connector_that_skipped_its_snapshot_states_that_there_is_no_row(capture: Captures) -> None:
    """With --snapshot none the history begins with nothing, as is asked for."""
    dump = [note(0, "SKIPPED"), changed("u", change("t", 0, 7, 5, 1, 120)), end(0, 5, 140, t=1)]
    stopped = capture(dump, *NOTIFIED)
    assert 4 == stopped.code and "transaction 5 changes or deletes a row of public.t" in stopped.err, stopped.err
    assert "--snapshot none" in stopped.err


def test_without_a_snapshot_a_history_may_begin_with_any_change(capture: Captures) -> None:
    """The user has asked for what is committed from there on."""
    dump = [changed("u", change("t", 0, 7, 5, 1, 120)), end(0, 5, 140, t=1)]
    done = capture(dump, "--snapshot", "none", "--empty", "public.t")
    assert 0 == done.code, done.err


def test_a_memory_that_does_not_count_rows_is_of_before_and_the_log_is_read() -> None:
    """So also a capture that was begun by an earlier release stops."""
    log = MemoryLog("t")
    with Writer(log) as writer:
        writer.extend([("a", 3, 2), ("b", 4, 1)])
        writer.advance([5])
    kept = TableWriters({"t": log}).export()
    with Writer(log) as writer:
        writer.extend([("b", 6, -1)])
        writer.advance([7])
    before = {"t": {name: value for name, value in kept["t"].items() if name != "rows"}}
    assert [{"t": (2, 7)}] * 3 == [TableWriters({"t": log}, one).rows() for one in (None, kept, before)]
