"""What the engine of a capture makes of each fact: whom it asks, what it keeps, and what it names in a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.connector import FROM_STATE
from cdcv2.capture.engine import CaptureEngine, LogsState
from cdcv2.capture.transaction_contradictions import NEW_SOURCE, Contradiction, two_snapshot_rows
from cdcv2.connectors.debezium.source_words import POSTGRES_WORDS
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import ForeignStateError
from cdcv2.logs.release_times import Clock, ReleaseTimes
from tests.capture.test_engine import ENDS, KIND, NOTES, ROWS, Noted, T, begun, never, released

U = "public.u"


def one() -> tuple[int, int, int]:
    """The transaction has one row now."""
    return 1, 1, 1


def of(
    logs: LogsState, rows: Noted | None = None, memory: Any = None, *, tables: Any = (T,), **more: Any
) -> CaptureEngine:
    """One that goes on with these logs, with a snapshot by default."""
    looked_up = {"looked_up": more.pop("looked_up")} if "looked_up" in more else {}
    clock = more.pop("clock", Clock(None))
    recipe = Recipe("p", dict.fromkeys(tables, KIND), **more)
    return CaptureEngine.opened(recipe, memory, logs, rows or Noted(), clock, **looked_up)


NEW = LogsState({T: 0}, {}, {T: None})


def snapshot(engine: CaptureEngine, **counts: int) -> None:
    """The notifications of the first run, which counts these rows of ``public``."""
    notes = [("STARTED", None, None),
             *(("TABLE_SCAN_COMPLETED", f"public.{table}", number) for table, number in counts.items()),
             ("COMPLETED", None, None)]  # fmt: skip
    for offset, (kind, table, rows) in enumerate(notes):
        engine.notification(kind, table, rows, NOTES, offset, None)


def settled(engine: CaptureEngine) -> Any:
    """What is released."""
    release = engine.ready()
    assert release is not None
    engine.settle(release)
    return release


def reason(engine: CaptureEngine) -> str:
    """Why it stops."""
    stop = engine.commits.stopped()
    assert stop is not None
    return stop.reason


@pytest.mark.parametrize("halts", [False, True])
def test_a_row_that_a_released_end_does_not_count_is_named(halts: bool) -> None:
    """By its number in its table, whatever it is."""
    engine = begun(Noted())
    released(engine, 7, 100)
    if halts:
        engine.halt(T, 7, None, 0, 2, ROWS, 9, "truncated", "mend it")
    else:
        assert not engine.rows(T, 7, 0, ROWS, 2, never)

    assert reason(engine).startswith("transaction 7 has a row of public.t numbered 2, but its END 100 counts 1")


@pytest.mark.parametrize("renumbered", [True, None])
def test_rows_of_a_connector_that_renumbers_stop_a_transaction_with_two_begins(renumbered: bool | None) -> None:
    """Others do not."""
    engine = begun(Noted())
    for _ in range(2):
        engine.commits.begin(8)
    engine.rows(T, 8, 100, ROWS, 1, one, **({} if renumbered is None else {"renumbered": renumbered}))
    engine.end(8, 110, {T: 1}, None, ENDS, 0)

    assert (engine.ready() is None) == bool(renumbered)
    assert not renumbered or "transaction 8 (END 110) has two BEGINs" in reason(engine)


@pytest.mark.parametrize("had", [True, None])
def test_a_row_that_shows_that_its_table_had_rows_makes_it_partial(had: bool | None) -> None:
    """The snapshot left it out."""
    engine = of(NEW, tables=(T, U), notification_topic="notes")
    snapshot(engine, t=0)
    engine.rows(U, 8, None, ROWS, 1, one, **({} if had is None else {"had": had}))
    engine.end(8, 110, {U: 1}, None, ENDS, 0)
    release = settled(engine)

    assert (({U}, {}) if had else (set(), {U: 110})) == (release.partial, release.begins)


def assumed(**more: Any) -> CaptureEngine:
    """Without notifications: the last row of the snapshot is read, and more may follow in its partition."""
    engine = of(NEW, **more)
    engine.snapshot_rows(T, 90, ROWS, 4, lambda again: 1)
    engine.commits.snapshot_marked("last", (*ROWS, 4))
    return engine


def test_a_streamed_row_shows_that_its_partition_has_no_more_of_the_snapshot() -> None:
    """And so does its end, where it is read to it; the other topics do not matter, a table without one is left out."""
    for read in (False, True):
        engine = assumed(tables=(T, U))
        engine.ends_read({ROWS: 9, ENDS: 5}, {ROWS: 5})
        assert engine.ready() is None
        if read:
            engine.read_to({ROWS: 9})
        else:
            engine.rows(T, 8, None, ROWS, 1, one)
        assert (90, {U}) == (settled(engine).through, engine.commits.uncovered)
    at_once = assumed(tables=(T, U))
    at_once.ends_read({ROWS: 9, ENDS: 5}, {ROWS: 9})
    assert 90 == settled(at_once).through


def test_what_contradicts_is_reported_with_what_to_do() -> None:
    """Of a transaction, of a snapshot, and of a record that cannot be captured."""
    engine = begun(Noted())
    engine.rows(T, 8, None, ROWS, 1, lambda: Contradiction("two rows", NEW_SOURCE))
    engine.end(8, 110, {T: 1}, None, ENDS, 0)
    first = engine.commits.stopped()
    assert first is not None and POSTGRES_WORDS.fill(NEW_SOURCE) == first.remedy
    engine = begun(Noted(), snapshot="initial")
    assert engine.snapshot_rows(T, 90, ROWS, 0, lambda again: two_snapshot_rows("here")) is True
    second = engine.commits.stopped()
    assert second is not None and two_snapshot_rows("here").remedy == second.remedy
    for tx, lsn in ((8, None), (None, 90), (None, None)):
        engine = begun(Noted(), snapshot="initial" if tx is None else "none")
        engine.halt(T, tx, lsn, None, 1, ROWS, 9, "it does not fit", "mend it")
        engine.end(8, 110, {T: 0}, None, ENDS, 1)
        stop = engine.commits.stopped()
        assert stop is not None and ("it does not fit", "mend it") == (stop.reason, stop.remedy)


def test_the_end_of_a_transaction_that_only_halts_is_missed() -> None:
    """Its record names the commit before it, as a row does."""
    engine = begun(Noted())
    engine.halt(T, 8, None, 100, 1, ROWS, 9, "it does not fit", "mend it")
    engine.end(9, 120, {}, None, ENDS, 1)

    assert engine.ready() is None
    assert "the END of transaction 8 is missing: it comes after the commit 100" in reason(engine)


def test_a_scan_that_failed_is_known_by_its_status() -> None:
    """The number of its rows does not count."""
    engine = begun(Noted(), snapshot="initial")
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]):
        engine.notification(kind, T, 0, NOTES, offset, "STOPPED" if offset == 1 else None)

    assert engine.ready() is None and "STOPPED" in reason(engine)


def test_rows_of_a_snapshot_are_counted_by_where_they_stand() -> None:
    """Several at one position, too."""
    engine = begun(Noted(), snapshot="initial")
    snapshot(engine, t=4)
    asked: list[int | None] = []
    engine.snapshot_rows(T, 90, ROWS, 4, lambda again: asked.append(again) or 3, 3)
    engine.snapshot_rows(T, 90, ROWS, 5, lambda again: asked.append(again) or 4)
    settled(engine)

    assert {"released": {T: [90, 4]}, "rows": {T: 4}, "read": {"p.public.t": {"0": 6}}} == (
        engine.commits.export()["snapshot"]["rows"]
    ) and [None, None] == asked
    engine.halt(T, None, 90, None, 1, ROWS, 9, "it does not fit", "mend it")
    assert "a row of the snapshot of public.t stands at p.public.t[0]@9" in reason(engine)


@pytest.mark.parametrize("rows, lacks", [(None, False), (2, False), (3, True)])
def test_without_a_memory_rows_of_the_snapshot_are_compared_with_the_log(rows: int | None, lacks: bool) -> None:
    """As many as it has are duplicates."""
    engine = of(LogsState({T: 131}, {T: (90, 2)}, {T: (90, 130)}))
    engine.snapshot_rows(T, 90, ROWS, 4, never, *(() if rows is None else (rows,)))

    assert lacks == (engine.commits.stopped() is not None)
    assert not lacks or "a row of the snapshot of public.t stands at p.public.t[0]@4" in reason(engine)
    assert lacks or {T: rows or 1} == engine.commits.export()["snapshot"]["rows"]["rows"]


RESNAPSHOT = {"notification_topic": "notes", "before": FROM_STATE, "resnapshots": (95,)}


def test_a_resnapshot_is_kept_apart_from_the_first_one() -> None:
    """Its rows are asked for by its LSN, and dropped with it; then they are duplicates."""
    store = Noted()
    engine = of(NEW, store, **RESNAPSHOT)
    snapshot(engine, t=1)
    asked: list[int | None] = []
    engine.snapshot_rows(T, 90, ROWS, 4, lambda again: asked.append(again) or 1)
    settled(engine)
    for offset, kind in enumerate(["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"], 10):
        engine.notification(kind, T, 1, NOTES, offset, None)
    engine.snapshot_rows(T, 95, ROWS, 7, lambda again: asked.append(again) or 1)
    assert {T: 1} == engine.commits.export()["snapshot"]["rows"]["rows"], "it is no row of the first one"
    engine.ends_read({ROWS: 8, ENDS: 5}, {ROWS: 8})
    assert engine.ready() is None, "the other topics count as well"
    engine.read_to({ENDS: 5})
    release = settled(engine)

    assert ([None, 95], 95, ("dropped snapshot", 95)) == (asked, release.again, store.asked[-1])
    assert engine.snapshot_rows(T, 95, ROWS, 7, never) is False


@pytest.mark.parametrize("known, stops", [(91, True), (95, True), (96, False)])
def test_a_record_of_a_resnapshot_that_cannot_be_captured_stops_it_until_that_is_released(
    known: int, stops: bool
) -> None:
    """Then it is a duplicate, as its rows are."""
    engine = of(LogsState({T: known}, {T: (90, 1)}, {T: (90, known - 1)}), **RESNAPSHOT)
    engine.halt(T, None, 95, None, 1, ROWS, 9, "it does not fit", "mend it")
    stop = engine.commits.stopped()

    assert stops == (stop is not None)
    assert stop is None or ("it does not fit", "mend it") == (stop.reason, stop.remedy)


def test_duplicates_without_a_number_are_dropped_and_contradict_nothing() -> None:
    """Only the commits that they name are known."""
    store = Noted()
    engine = begun(store)
    released(engine, 7, 100)
    store.open, store.asked = [(7, (0,), {})], []

    assert engine.ready() is None and [("dropped", 7)] == store.asked and engine.commits.stopped() is None


def test_a_partition_of_which_nothing_was_read_now_is_read_from_what_is_held() -> None:
    """It is known from the memory."""
    assert {ROWS: 3} == begun(Noted(begun={ROWS: 3})).positions({})


# -- how it begins


def test_with_no_table_covered_and_no_memory_it_begins_at_the_start() -> None:
    """No log shows how far it is."""
    engine = of(LogsState({}, {}, {T: None}, frozenset({T})))

    assert (None, False) == (engine.commits.through, engine.commits.snapshots.released)


@pytest.mark.parametrize("looked_up", [None, True])
def test_rows_that_are_not_there_are_missed_by_counting_unless_old_rows_are_looked_up(looked_up: bool | None) -> None:
    """A look-up shows each of them."""
    logs = LogsState({T: 131}, {T: (90, 1)}, {T: (90, 130)}, rows={T: (0, 131)})
    engine = of(logs, **({} if looked_up is None else {"looked_up": looked_up}))
    engine.rows(T, 8, 130, ROWS, 1, lambda: (1, 1, -1))
    engine.end(7, 130, {}, None, ENDS, 0)
    engine.end(8, 140, {T: 1}, None, ENDS, 1)

    assert (engine.ready() is None) == (looked_up is None)


def test_a_stop_that_lasts_is_found_in_the_memory() -> None:
    """Also where the logs do not keep it yet."""
    logs = LogsState({T: 131}, {T: (90, 1)}, {T: (90, 130)})
    first = of(logs)
    first.commits.keep("a row is lacking", "start over")
    again = of(logs, None, first.commits.export())

    assert "a row is lacking" == reason(again) and again.sure


def test_a_declared_resnapshot_is_no_transaction_that_the_topics_lack() -> None:
    """The log's last time may be its own; another one is that of an END."""
    logs = LogsState({T: 96}, {T: (90, 1)}, {T: (90, 95)})
    of(logs, **RESNAPSHOT).end(7, 130, {}, None, ENDS, 0)
    with pytest.raises(ForeignStateError):
        of(logs).end(7, 130, {}, None, ENDS, 0)


def test_without_a_snapshot_rows_of_one_show_nothing_of_the_logs() -> None:
    """They are not wanted, and that is what is reported."""
    engine = of(LogsState({T: 131}, {T: (100, 1)}, {T: (100, 130)}), snapshot="none")
    engine.snapshot_rows(T, 90, ROWS, 0, never)

    assert "no snapshot is wanted" in reason(engine)


def test_the_clock_has_each_end_and_release(tmp_path: Path) -> None:
    """Of an engine that goes on with logs, too."""
    times = ReleaseTimes(tmp_path)
    engine = of(NEW, snapshot="none", clock=Clock(times))
    engine.end(7, 100, {}, 1000, ENDS, 0)
    release = engine.ready()
    assert release is not None
    engine.keep_time(release)

    assert [(100, 1000)] == times.read()
