"""A writer consolidates what a reader would take for one, and goes on only from a state of its own log."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.errors import ForeignStateError, MalformedError
from cdcv2.protocol import Iter, Progress, Updates, Writer
from cdcv2.wire.files import DirectoryLog
from cdcv2.wire.memory import MemoryLog
from cdcv2.wire.rows import RowType

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
    """Not at the next advance, when nobody knows any more where they came from."""
    log = DirectoryLog(tmp_path / "log", FLOATS, create=True)
    with Writer(log) as writer, pytest.raises(MalformedError, match="x"):
        writer.update(("text",), 1, 1)


def test_the_state_of_another_log_is_refused() -> None:
    """By its name, and where the log is shorter than what was read; what is no state at all is said to be none."""
    log, short = MemoryLog("one"), MemoryLog("one")
    log.send(Updates([("a", 1, 1)]))
    log.send(Progress([0], [2], {1: 1}))
    log.flush()
    state = Writer(log).export_state()

    assert [2] == list(Writer(log, state=state).known)
    with pytest.raises(ForeignStateError, match="of the log one, not of two"):
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
        with pytest.raises(ForeignStateError, match="not of one: give none, and the log is read from its start"):
            Writer(log, state={**state, "positions": {**state["positions"], 7: offset}})
