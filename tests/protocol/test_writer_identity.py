"""A writer consolidates what a reader would take for one, and goes on only from a state of its own log."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import ForeignStateError, MalformedError, UsageError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol import Iter, Progress, Updates, Writer
from cdcv2.rows.row_type import RowType
from tests.doubles import RecordingLog

FLOATS = RowType({"type": "record", "name": "r", "fields": [{"name": "x", "type": "float"}]})
MAPS = RowType({"type": "record", "name": "r", "fields": [{"name": "x", "type": {"type": "map", "values": "int"}}]})


@pytest.mark.parametrize(("row_type", "one", "other"), [
    (FLOATS, 0.1, 0.1 + 1e-12), (FLOATS, float("nan"), float("nan")), (FLOATS, 0.0, -0.0),
    (MAPS, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
])
def test_values_that_are_one_in_the_log_are_one_for_its_writer(
    row_type: RowType, one: object, other: object, tmp_path: Path
) -> None:
    """Given as plain tuples; or the log would count two where a reader finds one, for ever."""
    with Writer(DirectoryLog(tmp_path / "log", row_type, create=True)) as writer:
        writer.extend([((one,), 1, 1), ((other,), 1, 1), ((one,), 2, 1), ((other,), 2, -1)])
        writer.advance([3])
    reader = Iter(DirectoryLog(tmp_path / "log").read())

    assert [(row_type.row((one,)), 1, 2)] == [update for updates, _ in reader for update in updates]
    assert [3] == list(reader.frontier) and not reader.missing()


def test_data_that_are_no_row_of_the_log_are_refused_when_they_are_fed(tmp_path: Path) -> None:
    """Not at the next advance, when it is unknown where they came from."""
    log = DirectoryLog(tmp_path / "log", FLOATS, create=True)
    with Writer(log) as writer, pytest.raises(MalformedError, match="x"):
        writer.update(("text",), 1, 1)


def test_the_state_of_another_log_is_refused() -> None:
    """Where the log is shorter than what was read; what is no state at all is reported as none."""
    log, short = MemoryLog("one"), MemoryLog("one")
    log.send(Updates([("a", 1, 1)]))
    log.send(Progress([0], [2], {1: 1}))
    log.flush()
    state = Writer(log).export_state()

    assert [2] == list(Writer(log, state=state).known)
    with pytest.raises(ForeignStateError, match="the log two ends at 0 in part 0 and was read up to 2: the state"):
        Writer(MemoryLog("two"), state=state)
    with pytest.raises(ForeignStateError, match="read from its start"):
        Writer(short, state=state)
    with pytest.raises(MalformedError, match="no state that a writer exported"):
        Writer(log, state={})


def test_the_state_of_a_log_with_more_parts_is_refused() -> None:
    """What was read of a part that is not there was read elsewhere."""
    log = MemoryLog("one")
    log.send(Progress([0], [2]))
    log.flush()
    state = Writer(log).export_state()

    for offset in (1, 5):
        with pytest.raises(ForeignStateError, match="the log one ends at 0 in part 7 .*: give none, and the log is"):
            Writer(log, state={**state, "positions": {**state["positions"], 7: offset}})


def test_the_state_of_a_log_made_anew_is_refused_and_that_of_a_log_that_was_moved_is_not(tmp_path: Path) -> None:
    """By what stands last where it was read: the names do not matter."""
    def written(name: str, *times: int) -> DirectoryLog:
        log = DirectoryLog(tmp_path / name, FLOATS, create=True)
        with Writer(log) as writer:
            for time in times:
                writer.update((float(time),), time, 1)
                writer.advance([time + 1])
        return log

    state = Writer(written("log", 3, 9)).export_state()
    shutil.move(tmp_path / "log", tmp_path / "moved")
    assert [10] == list(Writer(DirectoryLog(tmp_path / "moved"), state=state).known)
    made_anew = written("log", 1, 2, 3)
    with pytest.raises(ForeignStateError, match="which holds something else before 4 in part 0"):
        Writer(made_anew, state=state)
    # It was read up to there; what came since is unknown.
    assert [20] == list(Writer(written("moved", 19), state=state).known)


@pytest.mark.parametrize("log", [None, [], "log"])
def test_what_is_no_log_is_refused(log: Any) -> None:
    """Before anything is read or fed."""
    with pytest.raises(UsageError, match="no log to write to"):
        Writer(log)


def test_a_writer_knows_between_which_times_its_log_has_updates() -> None:
    """As statements count them; from a state it has not read them."""
    log = RecordingLog()
    assert Writer(log).span is None
    writer = Writer(log)
    writer.extend([("a", 3, 1), ("b", 7, 1), ("c", 5, 1)])
    writer.advance([6])
    writer.advance([9])
    writer.advance([12])
    state = Writer(log.again()).export_state()
    writer.update("d", 12, 1)
    writer.advance([20])

    assert (3, 12) == Writer(log.again()).span
    resumed = Writer(log.again(), state=state)
    assert (None, None) == (resumed.span, resumed.first), "what it has read of the log is not its first"
