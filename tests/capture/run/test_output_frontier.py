"""How far the output of a database is known: what its logs state, and nothing before TEMP shows that there is any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.output_frontier import output_known
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.protocol.writer import Writer


def record(kind: str, time: int, diff: int = 1) -> tuple[Any, int, int]:
    """An update of TEMP."""
    plain: dict[str, Any] = {column: None for column in TEMP.columns} | {"changes": (), "counts": (), "tables": ()}
    return TEMP.row({**plain, "kind": kind}), time, diff


def temp(upper: int, *records: tuple[Any, int, int]) -> Writer:
    """A TEMP that is stated up to there."""
    log = MemoryLog("temp")
    log.send(Updates(list(records)))
    times = [time for _, time, _ in records]
    log.send(Progress([0], [upper], {time: times.count(time) for time in times}))
    log.flush()
    return Writer(log)


def tables(known: dict[str, int], **waiting: int) -> Any:
    """Logs that are stated so far, and some that state where they begin only."""
    return SimpleNamespace(log_frontiers=lambda: dict(known), log_starts=SimpleNamespace(waiting=waiting))


STARTED = [record("begun", 3), record("end", 3), record("through", 5), record("through", 6), record("begun", 6)]


@pytest.mark.parametrize(
    ("snapshot", "records", "upper", "begins"),
    [
        (True, STARTED, 9, 5), (False, STARTED, 9, 3),
        # What is taken back was none; and what is beyond the end of TEMP is not stated.
        (True, [record("through", 4), record("through", 5, -1), record("through", 6)], 9, 4),
        (True, [record("through", 5, -1), record("through", 6)], 9, 6),
        (True, [record("begun", 3)], 9, 9), (False, [], 9, 9), (False, [record("through", 3)], 9, 9),
    ],
)  # fmt: skip
def test_what_ends_before_the_output_begins_lacks_nothing(
    snapshot: bool, records: list[tuple[Any, int, int]], upper: int, begins: int
) -> None:
    """It begins when the snapshot is released; without one when TEMP starts; or not yet."""
    known = output_known(tables({"a": 0, "b": 8}), temp(upper, *records), snapshot=snapshot, missing=["c"])

    assert {"a": begins, "b": max(8, begins), "c": begins} == known


def test_a_log_that_waits_counts_up_to_where_it_begins() -> None:
    """Whatever TEMP has."""
    assert {"a": 5, "z": 70} == output_known(tables({"a": 0}, z=70), temp(9, *STARTED), snapshot=True)


def test_temp_is_read_only_where_a_log_is_behind_it() -> None:
    """A log that is as far needs no reading."""
    log = MemoryLog("temp")
    log.send(Progress([0], [9], {}))
    log.flush()
    writer = Writer(log)
    log.read = None  # type: ignore[method-assign,assignment]

    assert {"a": 9, "b": 10} == output_known(tables({"a": 9, "b": 10}), writer, snapshot=True)


def test_without_temp_there_is_no_output() -> None:
    """What the logs state is all."""
    assert {"a": 7, "b": 0, "c": 0} == output_known(tables({"a": 7, "b": 0}), None, snapshot=True, missing=["c"])
