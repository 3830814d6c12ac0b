"""The digests of what a log holds are those of the updates, whichever messages brought them."""

from __future__ import annotations

from cdcv2.capture.run.log_digests import log_digests
from cdcv2.capture.stream_counts import update_digest
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})


def log(*messages: Updates | Progress) -> MemoryLog:
    """A log with these."""
    made = MemoryLog("t")
    for one in messages:
        made.send(one)
    made.flush()
    return made


def digest(number: int, time: int, diff: int) -> int:
    """Of one update."""
    return update_digest(ROWS.encode(ROWS.row([number])), time, diff)


def test_updates_before_a_time_add_up() -> None:
    """By their times, once each; what is at the time or later, or not stated, does not count."""
    rows = [(ROWS.row([number]), time, diff) for number, time, diff in ((1, 0, 1), (2, 0, 2), (1, 5, -1), (3, 7, 1))]
    made = log(Updates(rows[:2]), Progress([0], [4], {0: 2}), Updates(rows[1:]), Progress([4], [8], {5: 1, 7: 1}),
               Updates([(ROWS.row([9]), 6, 1), (ROWS.row([9]), 8, 1)]))  # fmt: skip
    found = log_digests(made, ROWS, 7)

    assert found is not None
    assert {0: digest(1, 0, 1) + digest(2, 0, 2), 5: digest(1, 5, -1)} == found.times


def test_nothing_is_asked_for_of_a_log_that_states_nothing() -> None:
    """It is not read."""
    assert log_digests(log(), ROWS, 0) is None
    assert 0 == getattr(log_digests(log(), ROWS, 1), "total")
