"""Rows beyond a limit are on disk: every answer is the same as in memory, and memory is bounded."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcv2 import failpoints
from cdcv2.capture.facts import PartialChange, PartialChangeFact, RowFact, SnapshotRow
from cdcv2.capture.open_rows import OpenRows
from cdcv2.capture.run import spill_file
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.spilled_rows import READ, SPILLED, SpillingBuffers
from cdcv2.capture.transaction_contradictions import Contradiction
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.errors import Cdcv2Error, OutputError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from tests.strategies import Chooser, choosers

ROWS = RowType({"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "int"}, {"name": "text", "type": "string"}, {"name": "number", "type": ["null", "double"]},
]})  # fmt: skip
A, B = "public.a", "public.b"
TABLES = {A: ROWS, B: ROWS}
VALUES = [ROWS.row(values) for values in ((1, "", None), (2, "x", 0.5), (3, "y", float("nan")), (1, "", -0.0))]


def place(table: str, partition: int, offset: int) -> Position:
    """A position in the topic of a table."""
    return Position(f"p.{table}", partition, offset)


def drawn_row(chooser: Chooser) -> RowFact:
    """A row of one of few transactions, places and numbers, so that copies and contradictions come."""
    table, order = chooser.pick([A, A, B]), chooser.pick([1, 2, 3, 4, 1 << 70])
    number = order if chooser.chance(2) else chooser.integer(1, 4)
    old, new = chooser.pick(VALUES), chooser.pick(VALUES)
    changes = chooser.pick([((new, 1),), ((old, -1),), ((old, -1), (new, 1))])
    at = place(table, chooser.integer(0, 1), chooser.integer(0, 9))
    return RowFact(table, chooser.integer(7, 9), order, number, chooser.pick([50, None]), "u", changes, at)


def drawn_scan(chooser: Chooser) -> tuple[SnapshotRow, int | None]:
    """A row of the snapshot, or of a second one."""
    table = chooser.pick([A, B])
    at = place(table, chooser.integer(0, 1), chooser.integer(0, 5))
    return SnapshotRow(table, 10, "true", chooser.pick(VALUES), at), chooser.pick([None, None, 90])


def text(answer: bool | Contradiction) -> object:
    """An answer that compares."""
    return (answer.reason, answer.remedy) if isinstance(answer, Contradiction) else answer


def all_of(held: OpenRows) -> dict[str, Any]:
    """All that it answers; rows as multisets, with their sums."""
    found: dict[str, Any] = {"rows": held.rows, "firsts": held.firsts(), "doubted": held.doubted()}
    for table in TABLES:
        for tx in (7, 8, 9):
            changes = [*held.changes(tx, table)]
            found[f"{tx} {table}"] = sorted(map(repr, changes))
            sums = held.sums(tx, table)
            found[f"sums {tx} {table}"] = summed(ChangeBatch(changes) if sums is None else sums)
            try:
                found[f"counted {tx} {table}"] = held.counted(tx, table)
            except KeyError:
                found[f"counted {tx} {table}"] = None
        for again in (None, 90):
            found[f"{again} {table}"] = sorted(map(repr, held.snapshot_rows(table, again)))
        sums = held.snapshot_sums(table)
        rows = ChangeBatch((row, 1) for row in held.snapshot_rows(table))
        found[f"snapshot sums {table}"] = summed(rows if sums is None else sums)
    return found


def summed(sums: Any) -> tuple[int, list[str]]:
    """Sums, as text: NaN equals itself there. Each is what is given for its row."""
    found = [*sums]
    assert len(found) == len(sums) and all(diff and sums.get(row) == diff for row, diff in found)
    assert all(sums.get(row) in (0, *dict(found).values()) for row in VALUES)
    return len(sums), sorted(map(repr, found))


@given(choosers(), st.sampled_from([0, 1, 3]))
@settings(max_examples=150, deadline=None)
def test_on_disk_or_in_memory_the_answers_are_the_same(chooser: Chooser, limit: int) -> None:
    """Rows, copies, contradictions, rows of snapshots, and what is dropped, in any order."""
    buffers = SpillingBuffers(TABLES, limit)
    both = OpenRows(), OpenRows(buffers)

    def asked(ask: Callable[[OpenRows], object]) -> None:
        one, other = map(ask, both)
        assert one == other

    for _ in range(chooser.integer(1, 25)):
        what = chooser.integer(0, 9)
        if what < 6:
            fact = drawn_row(chooser)
            asked(lambda held: text(held.admit(fact)))
        elif what < 8:
            scan, again = drawn_scan(chooser)
            asked(lambda held: held.admit_snapshot(scan, again))
        elif what == 8:
            tx = chooser.integer(7, 9)
            asked(lambda held: held.drop(tx))
        else:
            of = chooser.pick([None, 90])
            asked(lambda held: held.drop_snapshot(of))
        if chooser.chance(4):
            asked(all_of)
    asked(all_of)
    both[1].close()


def row(order: int, changes: Any, tx: int = 7, table: str = A) -> RowFact:
    """A row of a transaction."""
    return RowFact(table, tx, order, order, None, "u", changes, place(table, 0, order))


def test_a_copy_and_a_contradiction_are_found_on_disk() -> None:
    """By the place and by the number of a row; of a snapshot by its position."""
    held, (one, two, *_) = OpenRows(SpillingBuffers(TABLES, 0)), VALUES
    first, changes = row(3, ((one, 1),)), ((two, 1),)
    scans = [SnapshotRow(A, 10, "true", of, place(A, 1, 5)) for of in (one, one, two)]

    assert held.admit(first) is True and held.admit(first) is False and 1 == held.rows
    for other in (first._replace(changes=changes), first._replace(order=4), first._replace(table=B)):
        assert isinstance(held.admit(other), Contradiction)
    assert [1, 1, None] == [held.admit_snapshot(scan) for scan in scans] and 2 == held.rows
    assert [1, 2] == [held.admit_snapshot(scan._replace(table=B, position=place(B, 0, at)))
                      for at, scan in enumerate(scans[:2])]  # fmt: skip
    held.close()


def test_sums_take_more_changes() -> None:
    """As those in memory do: a row comes, goes, or gets another sum."""
    held = OpenRows(SpillingBuffers(TABLES, 0))
    one, two, three = VALUES[:3]
    for order, changes in enumerate([((one, 1),), ((one, -1), (two, 1)), ((two, 1),)], 1):
        held.admit(row(order, changes))
    sums, same = held.sums(7, A), ChangeBatch([(two, 2)])
    assert sums is not None

    for data, diff in ((two, 1), (three, -1), (two, -3), (three, 1), (one, 5)):
        sums.update(data, diff)
        same.update(data, diff)
        assert dict(same) == dict(sums) and len(same) == len(sums)
    held.close()


def test_small_data_never_touches_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the limit, no database is opened; it is closed when nothing is in it any more, and opened again."""
    opened = []
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *words, **more: opened.append(words) or connect(*words, **more))
    buffers = SpillingBuffers(TABLES, 3)
    held = OpenRows(buffers)
    for order in (1, 2, 3):
        held.admit(row(order, ((VALUES[0], 1),)))
    held.drop(7)
    for order in (1, 2, 3):
        held.admit(row(order, ((VALUES[0], 1),), 8))
    assert [] == opened and held.sums(8, A) is None

    for tx in (9, 10):
        held.admit(row(1, ((VALUES[0], 1),), tx))
        held.drop(tx)
        assert held.sums(8, A) is not None and [("",)] == opened
    held.drop(8)
    assert 0 == held.rows and buffers._file._opened is None
    for order in range(1, 5):
        held.admit(row(order, ((VALUES[0], 1),), 11))
    assert [("",)] * 2 == opened
    held.close()
    assert buffers._file._opened is None


def test_a_change_without_its_before_image_is_not_spilled() -> None:
    """Every row of the tables is in memory then."""
    held = OpenRows(SpillingBuffers(TABLES, 0))
    with pytest.raises(Cdcv2Error, match="needs its before-image"):
        held.admit(PartialChangeFact(A, 7, 1, 1, None, PartialChange("t", None, None, None), place(A, 0, 1)))


# -- a capture


def capture(logs: dict[str, Any], limit: int, **more: Any) -> Capture:
    """Of two tables, without a snapshot."""
    return Capture(Recipe("p", TABLES, snapshot="none"), logs, memory_rows=limit, **more)


def fed(made: Capture, rows: int) -> None:
    """A transaction in which each second row comes back as it was."""
    for order in range(1, rows + 1):
        of = ROWS.row([order // 2, "x" * 100, None])
        made.absorb_fact(row(order, ((of, 1 if order % 4 else -1),)), place(A, 0, order))
    made._engine.end(7, 100, {A: rows}, None, ("p.transaction", 0), 0)


def content(log: MemoryLog | DirectoryLog) -> tuple[dict[Any, int], Any]:
    """The content of a log, and how far it is complete."""
    reader = Iter(log.read())
    return {data: diff for batch in reader for data, _, diff in batch.updates}, reader.frontier


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_spilled_transaction_is_released_as_one_in_memory(size: int) -> None:
    """What cancels out is not written, and not counted; messages have as many updates as was asked for."""
    logs = [{table: MemoryLog(table) for table in TABLES} for _ in range(2)]
    for limit, of in zip((10**6, 3), logs):
        with capture(of, limit, updates_per_message=size) as made:
            fed(made, 22)
            assert made.release() is not None and 0 == made.held_rows
    memory, disk = (of[A].messages for of in logs)

    assert content(logs[0][A]) == content(logs[1][A]) and len(content(logs[1][A])[0]) == 7
    assert [len(one.updates) for one in memory if isinstance(one, Updates)] == [
        len(one.updates) for one in disk if isinstance(one, Updates)
    ]
    assert [one for one in memory if isinstance(one, Progress)] == [one for one in disk if isinstance(one, Progress)]
    assert logs[0][B].messages == logs[1][B].messages


@pytest.mark.parametrize(("step", "nth"), [
    (SPILLED, 2), (READ, 1), (READ, 5), ("writer.updates-sent", 1), ("writer.updates-durable", 1),
    ("release.updates-durable", 1), ("writer.statement-durable", 1),
])  # fmt: skip
def test_a_crash_inside_a_release_of_spilled_rows_does_no_harm(tmp_path: Path, step: str, nth: int) -> None:
    """Some updates are durable, and no statement counts them: the next run writes the others, and counts all."""

    def opened() -> dict[str, Any]:
        return {table: DirectoryLog(tmp_path / table, ROWS, create=True, file_bytes=1) for table in TABLES}

    with failpoints.placed(step, nth), capture(opened(), 3, updates_per_message=2) as made:
        with pytest.raises(failpoints.PlacedCrash):
            fed(made, 22)
            made.release()
    before = [entry for entry in opened()[A].read()]
    with capture(opened(), 3, updates_per_message=2) as made:
        fed(made, 22)
        made.release()
    again = MemoryLog(A)
    with capture({A: again, B: MemoryLog(B)}, 10**6) as made:
        fed(made, 22)
        made.release()

    written = [one for entry in opened()[A].read() if entry and isinstance(entry.message, Updates)
               for one in entry.message.updates]  # fmt: skip
    assert content(again) == content(opened()[A]) and len({*written}) == len(written) == 7
    assert (len(before) == 2) == ((step, nth) == (READ, 5))


def test_another_history_than_the_logs_is_refused_of_spilled_rows_too() -> None:
    """What no statement counts yet must be among them, with its sum."""
    logs = {table: MemoryLog(table) for table in TABLES}
    with failpoints.placed("writer.updates-durable"), capture(logs, 3) as made:
        with pytest.raises(failpoints.PlacedCrash):
            fed(made, 22)
            made.release()
    with capture(logs, 3) as made:
        fed(made, 18)
        with pytest.raises(Cdcv2Error, match="it is fed another history than the log's"):
            made.release()


def peak(limit: int, rows: int, folder: Path) -> int:
    """The most memory of Python that a transaction takes, absorbed and released, in bytes."""
    logs = {table: DirectoryLog(folder / f"{limit}" / table, ROWS, create=True, file_bytes=1 << 16) for table in TABLES}
    with capture(logs, limit) as made:
        gc.collect()
        tracemalloc.start()
        try:
            fed(made, rows)
            made.release()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_memory_is_bounded(tmp_path: Path) -> None:
    """By the limit, not by the rows of the transaction. (SQLite's own memory has a fixed bound.)"""
    few, many, memory = peak(500, 3000, tmp_path), peak(501, 12_000, tmp_path), peak(10**6, 12_000, tmp_path)

    assert many < memory / 3 and many < 2 * few


# -- the file


LARGE = """
import os, resource, sys
from cdcv2.capture.run import spill_file
spill_file.CACHE = 1
if sys.argv[1] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
spill_file.SpillFile().put(1, ((0, number, 1, None, b"x" * 1000) for number in range(3000)))
for fd in range(3, 20):
    if os.path.lexists(f"/proc/self/fd/{fd}"):
        print(os.readlink(f"/proc/self/fd/{fd}"))
print(os.listdir(spill_file.temporary_folder()))
"""


def spilled(folder: Path, disk: str) -> subprocess.CompletedProcess[str]:
    """A process whose rows go to the disk, below this folder. SQLite asks for the folder once."""
    return subprocess.run(
        [sys.executable, "-c", LARGE, disk], env={**os.environ, "SQLITE_TMPDIR": str(folder)}, text=True, check=False,
        capture_output=True, cwd=Path(__file__).parents[3],
    )


def test_no_file_is_left(tmp_path: Path) -> None:
    """It has no name from the moment on in which it is made: a process that is killed leaves none."""
    *opened, left = spilled(tmp_path, "empty").stdout.splitlines()

    assert any(name.startswith(f"{tmp_path}/") and name.endswith("(deleted)") for name in opened) and "[]" == left


def test_a_disk_that_is_full_is_named_with_what_to_do(tmp_path: Path) -> None:
    """The folder, who is at fault, and what helps."""
    done = spilled(tmp_path, "full")
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("cdcv2.errors.OutputError: ")]

    assert f"cannot be kept in a temporary file in {tmp_path}: " in said
    assert "The disk or the folder is at fault" in said and "TMPDIR" in said and "--memory-rows" in said


@pytest.mark.parametrize("fails", ["put", "add_up"])
def test_what_cannot_be_spilled_is_in_no_log(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """Whether rows are written to the file, or added up: nothing of them was sent."""
    def full(*_: object) -> int:
        with spill_file._errors():
            raise sqlite3.OperationalError("database or disk is full")

    logs = {table: MemoryLog(table) for table in TABLES}
    with capture(logs, 3) as made:
        if fails == "put":
            monkeypatch.setattr(spill_file.SpillFile, fails, full)
        with pytest.raises(OutputError, match="in a temporary file in .*: database or disk is full"):
            fed(made, 22)
            monkeypatch.setattr(spill_file.SpillFile, fails, full)
            made.release()

    assert [] == [*logs[A].messages, *logs[B].messages]


def test_rows_that_cannot_be_dropped_from_the_file_are_stated_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error does not state the contrary; and the next run goes on behind them."""
    def damaged(*_: object) -> None:
        with spill_file._errors():
            raise sqlite3.OperationalError("disk I/O error")

    logs = {table: MemoryLog(table) for table in TABLES}
    with capture(logs, 3) as made, monkeypatch.context() as patched:
        fed(made, 22)
        patched.setattr(spill_file.SpillFile, "drop", damaged)
        with pytest.raises(OutputError, match="start again: what the logs state is whole, and what .* is read again"):
            made.release()
    stated = content(logs[A])
    with capture(logs, 3) as made:
        fed(made, 22)
        assert made.release() is None

    assert Antichain([101]) == stated[1] and 7 == len(stated[0])
    assert stated == content(logs[A])


def test_the_folder_is_the_first_that_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the order of SQLite."""
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert str(tmp_path) == spill_file.temporary_folder()

    monkeypatch.delenv("TMPDIR")
    assert spill_file.temporary_folder() in ("/var/tmp", "/usr/tmp", "/tmp")
    monkeypatch.setattr(os.path, "isdir", lambda _: False)
    assert "the current folder" == spill_file.temporary_folder()
    monkeypatch.setattr(os, "name", "nt")
    assert tempfile.gettempdir() == spill_file.temporary_folder()
