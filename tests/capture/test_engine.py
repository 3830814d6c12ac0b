"""What captures by commit times decide alike, wherever their rows are: with numbers in place of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.engine import CaptureEngine, LogsState
from cdcv2.capture.connector import FROM_STATE
from cdcv2.capture.transaction_contradictions import Contradiction, two_snapshot_rows
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import ForeignStateError
from cdcv2.logs.release_times import Clock, ReleaseTimes
from cdcv2.protocol.log import Place
from tests.recorded import TABLES

T, KIND = "public.t", next(iter(TABLES.values()))
ROWS, ENDS, NOTES = ("p.public.t", 0), ("p.transaction", 0), ("notes", 0)


@dataclass
class Noted:
    """A store that holds no rows, and notes what it is asked to do."""

    asked: list[Any] = field(default_factory=list)
    open: list[tuple[int, tuple[int | None, ...], dict[str, int]]] = field(default_factory=list)
    begun: dict[Place, int] = field(default_factory=dict)

    def record_seen(self, tx: int, place: Place, offset: int) -> None:
        """A record of a transaction."""
        self.asked.append((tx, place, offset))

    def snapshot_record_seen(self, place: Place, offset: int) -> None:
        """A record of the snapshot."""
        self.asked.append(("snapshot", place, offset))

    def doubted(self) -> list[tuple[int, tuple[int | None, ...], dict[str, int]]]:
        """As in the test."""
        return self.open

    def drop(self, tx: int) -> None:
        """A transaction."""
        self.asked.append(("dropped", tx))

    def drop_snapshot(self, again: int | None = None) -> None:
        """A snapshot."""
        self.asked.append(("dropped snapshot", again))

    def firsts(self) -> dict[Place, int]:
        """As in the test."""
        return self.begun


def begun(rows: Noted, **more: Any) -> CaptureEngine:
    """One of a table, without a snapshot by default."""
    asked = {"snapshot": "none", "notification_topic": "notes", **more}
    recipe = Recipe("p", {T: KIND}, **asked)
    return CaptureEngine.opened(recipe, None, LogsState({T: 0}, {}, {T: None}), rows, Clock(None))


def never(*_: object) -> Any:
    """To keep what is a duplicate."""
    raise AssertionError("a duplicate is kept")


def released(engine: CaptureEngine, tx: int, lsn: int, seq: int | None = None) -> None:
    """A transaction of one row, in the logs."""
    engine.rows(T, tx, seq, ROWS, 1, lambda: (1, 1))
    engine.end(tx, lsn, {T: 1}, None, ENDS, 0)
    release = engine.ready()
    assert release is not None and lsn == release.through
    engine.settle(release)


def test_rows_of_a_released_transaction_are_not_kept() -> None:
    """And what was kept of it is dropped."""
    rows = Noted()
    engine = begun(rows)
    released(engine, 7, 100)

    assert not engine.rows(T, 7, None, ROWS, 1, never)
    assert engine.rows(T, 8, 100, ROWS, 1, lambda: None)
    assert [(7, ENDS, 0), ("dropped", 7)] == rows.asked


def test_rows_that_contradict_stop_it_before_their_transaction() -> None:
    """What is whole before that is released."""
    engine = begun(Noted())
    engine.rows(T, 8, 100, ROWS, 1, lambda: Contradiction("transaction 8 has two different rows", "start over"))
    released(engine, 7, 100)
    engine.end(8, 110, {T: 1}, None, ENDS, 1)

    assert engine.ready() is None
    stop = engine.commits.stopped()
    assert stop is not None and "transaction 8 has two different rows" in stop.reason


def test_duplicates_that_are_known_only_later_are_dropped_before_a_release() -> None:
    """Every table of them is looked at: each may show what its END did not count."""
    rows = Noted()
    engine = begun(rows)
    released(engine, 7, 100)
    rows.open, rows.asked = [(7, (None,), {T: 1}), (8, (100,), {T: 1})], []

    assert engine.ready() is None and [("dropped", 7)] == rows.asked
    assert engine.commits.stopped() is None
    rows.open = [(7, (0, None), {"public.u": 0, T: 2})]
    engine.ready()
    stop = engine.commits.stopped()
    assert stop is not None and "numbered 2, but its END 100 counts 1" in stop.reason


def test_without_a_memory_a_row_that_names_no_commit_is_judged_when_its_end_comes() -> None:
    """Until then it counts as open; then nothing of it is."""
    rows = Noted()
    logs = LogsState({T: 131}, {T: (100, 1)}, {T: (100, 130)})
    engine = CaptureEngine.opened(Recipe("p", {T: KIND}), None, logs, rows, Clock(None))
    assert engine.rows(T, 7, None, ROWS, 1, lambda: (1, 1))
    rows.open = [(7, (None,), {T: 1})]
    assert engine.ready() is None and (1, []) == (engine.commits.open_transactions(), rows.asked)
    engine.end(7, 130, {T: 1}, None, ENDS, 0)

    assert engine.ready() is None and (0, [("dropped", 7)]) == (engine.commits.open_transactions(), rows.asked)


def test_the_clock_has_the_moment_of_an_end_until_that_is_released(tmp_path: Path) -> None:
    """Of each release that of its last END."""
    times = ReleaseTimes(tmp_path)
    engine = CaptureEngine(
        CommitTransactions([T], snapshot="none"), Recipe("p", {T: KIND}, snapshot="none"), Noted(), clock=Clock(times)
    )
    engine.end(7, 100, {}, 1000, ENDS, 0)
    engine.end(8, 110, {}, 2000, ENDS, 1)
    release = engine.ready()
    assert release is not None and [] == times.read()
    engine.keep_time(release)

    assert [(110, 2000)] == times.read()


def test_a_snapshot_is_counted_until_it_is_released() -> None:
    """What comes then is judged by where it stands, and not kept."""
    rows = Noted()
    engine = begun(rows, snapshot="initial")
    scanned = (("STARTED", None, None), ("TABLE_SCAN_COMPLETED", T, 1), ("COMPLETED", None, None))
    for offset, (kind, table, number) in enumerate(scanned):
        engine.notification(kind, table, number, NOTES, offset, None)
    assert engine.snapshot_rows(T, 90, ROWS, 0, lambda again: 1)
    release = engine.ready()
    assert release is not None and 90 == release.snapshot
    engine.settle(release)

    assert not engine.snapshot_rows(T, 90, ROWS, 0, never)
    assert engine.commits.stopped() is None
    assert [*(("snapshot", NOTES, offset) for offset in range(3)), ("dropped snapshot", None)] == rows.asked
    assert {NOTES: 3} == engine.positions({NOTES: 3})


def test_two_rows_at_one_position_of_a_snapshot_stop_it() -> None:
    """And neither is counted."""
    engine = begun(Noted(), snapshot="initial")
    engine.snapshot_rows(T, 90, ROWS, 0, lambda again: two_snapshot_rows("here"))
    stop = engine.commits.stopped()

    assert stop is not None and "two different rows of the snapshot at here" in stop.reason


KINDS: list[tuple[int | None, int | None, bool, bool]] = [
    (8, None, True, True), (7, None, False, False), (None, None, False, True), (None, 500, False, True),
]


@pytest.mark.parametrize("tx, lsn, noted, stops", KINDS)
def test_what_cannot_be_captured_stops_it_unless_it_was_released(
    tx: int | None, lsn: int | None, noted: bool, stops: bool
) -> None:
    """It is read again with its transaction, if it is of one."""
    rows = Noted()
    engine = begun(rows)
    released(engine, 7, 100)
    rows.asked = []
    engine.halt(T, tx, lsn, None if tx == 7 else 100, 1, ROWS, 9, "it does not fit", "mend it")
    engine.end(8, 110, {T: 0}, None, ENDS, 1)

    assert noted == ((8, ROWS, 9) in rows.asked)
    assert stops == (engine.commits.stopped() is not None)


def test_positions_are_those_of_what_is_needed_again_and_of_no_other_topic() -> None:
    """Another topic may be asked for the next time, and is then read from its start."""
    rows = Noted(begun={ROWS: 3, ENDS: 8})
    engine = begun(rows, snapshot="initial")
    engine.notification("STARTED", None, None, NOTES, 5, None)
    read = {ROWS: 9, ENDS: 7, NOTES: 6, ("other", 0): 4}

    assert {ROWS: 2, ENDS: 7, NOTES: 0} == engine.positions(read, {ROWS: 2}), "the snapshot is not released"


SPANS: list[tuple[dict[str, tuple[int, int]], int, Callable[[CaptureEngine], object]]] = [
    ({T: (100, 130)}, 131, lambda engine: engine.end(7, 140, {}, None, ENDS, 0)),
    ({T: (100, 130)}, 131, lambda engine: engine.snapshot_rows(T, 90, ROWS, 0, never)),
    ({T: (100, 130)}, 131, lambda engine: engine.ended()),
]


@pytest.mark.parametrize("spans, known, act", SPANS)
def test_without_a_memory_the_topics_must_be_those_of_the_logs(
    spans: dict[str, tuple[int, int]], known: int, act: Callable[[CaptureEngine], object]
) -> None:
    """Only then anything may be remembered."""
    recipe = Recipe("p", {T: KIND}, notification_topic="notes", before=FROM_STATE)
    logs = LogsState({T: known}, {T: (100, 1)}, spans)
    engine = CaptureEngine.opened(recipe, None, logs, Noted(), Clock(None))
    assert not engine.sure
    with pytest.raises(ForeignStateError, match="made of other topics"):
        act(engine)

    kept = LogsState({T: known}, {T: (100, 1)}, spans, stop=("a row is lacking", "start over"))
    stopped = CaptureEngine.opened(recipe, None, kept, Noted(), Clock(None))
    stop = stopped.commits.stopped()
    assert stopped.sure and stop is not None and ("a row is lacking", True) == (stop.reason, stop.lasting)
    assert CaptureEngine.opened(recipe, stopped.commits.export(), logs, Noted(), Clock(None)).sure


def test_where_no_table_is_covered_it_goes_on_from_its_memory() -> None:
    """No log shows how far it is, and nothing is complete."""
    recipe = Recipe("p", {T: KIND}, snapshot="none")
    first = CaptureEngine(CommitTransactions([T], snapshot="none"), recipe, Noted())
    first.end(7, 100, {}, None, ENDS, 0)
    release = first.ready()
    assert release is not None
    first.settle(release)
    none = LogsState({}, {}, {T: None}, frozenset({T}))
    engine = CaptureEngine.opened(recipe, first.commits.export(), none, Noted(), Clock(None))

    assert (100, None) == (engine.commits.through, engine.frontier)
