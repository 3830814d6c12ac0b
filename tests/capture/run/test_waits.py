"""What a capture waits for, as data: kinds, words, and where the next record will be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.capture.release_answers import WaitReason
from cdcv2.capture.run.remap_loop import RunResult
from cdcv2.capture.run.waits import (
    bound_commit, bound_state, bound_waits, capture_waits, result_state, stated_frontier, stream_waits, unread_waits,
)
from cdcv2.capture.topics import TopicExtents
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.events import JobProgress, JobWait
from cdcv2.logs.coverage import TableCoverage
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
RECIPE = Recipe("src", {"public.t": ROWS, "public.u": ROWS}, notification_topic="notes")
POSITIONS = {
    ("src.public.t", 0): 5, ("src.public.u", 0): 7, ("src.public.u", 1): 8, ("src.transaction", 0): 9, ("notes", 3): 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("frontier", "stated"),
    [
        (None, Antichain([0])), (Antichain([1]), Antichain([0])), (Antichain([7]), Antichain([7])),
        (Antichain(), Antichain()),
    ],
)  # fmt: skip
def test_up_to_where_logs_are_stated(frontier: Antichain | None, stated: Antichain) -> None:
    """The least frontier of a capture is one behind the start of its logs."""
    assert stated == stated_frontier(frontier)


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (WaitReason("end", "x"), ()),
        (
            WaitReason("end", "x", tx=3),
            [JobWait("end", "x", {"transaction": 3, "topic": "src.transaction", "partition": 0, "offset": 9})],
        ),
        (WaitReason("snapshot", "x"), [JobWait("snapshot", "x", {"topic": "notes", "partition": 3, "offset": 2})]),
        (WaitReason("stop", "x", tx=3, lsn=70), [JobWait("stop", "x", {"transaction": 3, "lsn": 70})]),
        (
            WaitReason("rows", "x", tx=3, lsn=70, missing={"public.u": 2, "public.t": 1}),
            [
                JobWait("rows", "x", {
                    "transaction": 3, "lsn": 70, "table": "public.t", "rows": 1, "topic": "src.public.t",
                    "partition": 0, "offset": 5,
                }),
                # Two partitions: in which of them it will be is not known.
                JobWait("rows", "x", {
                    "transaction": 3, "lsn": 70, "table": "public.u", "rows": 2, "topic": "src.public.u",
                }),
            ],
        ),
        (
            WaitReason("snapshot", "x", missing={"public.t": None}),
            [JobWait("snapshot", "x", {
                "table": "public.t", "rows": None, "topic": "src.public.t", "partition": 0, "offset": 5,
            })],
        ),
    ],
)  # fmt: skip
def test_what_a_capture_by_commit_times_waits_for(reason: WaitReason, waits: list[JobWait]) -> None:
    """One for each table that lacks rows; nothing where nothing is open."""
    assert tuple(waits) == capture_waits(reason, RECIPE, POSITIONS)


def test_a_topic_that_is_not_read_yet_has_no_offset() -> None:
    """Its name all the same."""
    assert (JobWait("snapshot", "x", {"topic": "notes"}),) == capture_waits(WaitReason("snapshot", "x"), RECIPE, {})


def test_records_that_are_not_read() -> None:
    """So many."""
    assert (JobWait("records", "7 records to be read", {"records": 7}),) == unread_waits(7)


def captured(*texts: tuple[str, list[str]], carried: bool = True) -> Any:
    """A capture on a remap that waits for these, is complete up to 1,500 and holds three records."""
    return SimpleNamespace(
        waits_by_topics=lambda: list(texts), complete=Antichain([1500]), held=3, records=11, has_carried_all=carried,
    )  # fmt: skip


def test_what_a_capture_on_a_remap_waits_for() -> None:
    """Records that are not bound, by place; else what its outputs hold."""
    capture = captured(("an END", ["a", "b"]))

    assert (JobWait("transactions", "an END", {"topics": ["a", "b"]}),) == bound_waits(capture, {})
    assert (
        JobWait("records", "1 records to be bound", {"topic": "a", "partition": 0, "offset": 1, "records": 1}),
        JobWait("records", "4 records to be bound", {"topic": "b", "partition": 2, "offset": 5, "records": 4}),
    ) == bound_waits(capture, {("b", 2): (5, 9), ("a", 0): (1, 2)})


def test_how_far_a_capture_on_a_remap_is() -> None:
    """By what the binder has not bound of the topics that are seen."""
    asked: list[Any] = []

    def unbound(ends: Any) -> Any:
        asked.append(ends)
        return {("a", 0): (1, 2)}

    binder: Any = SimpleNamespace(unbound=unbound)
    capture, look = captured(), TopicExtents({("a", 0): (0, 2)})

    assert JobProgress(
        [1500], 1.499, (JobWait("records", "1 records to be bound", {
            "topic": "a", "partition": 0, "offset": 1, "records": 1}),), 3, {"records": 11},
    ) == bound_state(capture, binder, look)  # fmt: skip
    assert [{("a", 0): 2}] == asked


def test_a_capture_on_a_remap_that_has_bound_all() -> None:
    """It waits for what its outputs hold."""
    binder: Any = SimpleNamespace(unbound=lambda ends: {})

    assert (JobWait("transactions", "an END", {"topics": ["a"]}),) == bound_state(
        captured(("an END", ["a"])), binder, TopicExtents({})
    ).waits


@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize("unbound", [{}, {("a", 0): (1, 2)}])
def test_a_capture_on_a_remap_has_caught_up_when_all_is_bound_and_written(unbound: Any, carried: bool) -> None:
    """Not while a record is not bound, and not while one that is bound was not read."""
    binder: Any = SimpleNamespace(unbound=lambda ends: unbound)
    far = bound_state(captured(carried=carried), binder, TopicExtents({}))

    assert far.caught_up is (not unbound and carried)


def test_how_far_it_is_in_the_end() -> None:
    """As the run has it."""
    came = RunResult(Antichain([2000]), 7, ["an END"], TableCoverage((), {}, ()))

    assert JobProgress([2000], 1.999, [JobWait("transactions", "an END")], None, {"records": 7}) == result_state(came)


@pytest.mark.parametrize(("frontier", "at"), [([1501], 1.5), ([1], 0.0), ([0], None), ([], None), ([5, 7], None)])
def test_the_last_moment_before_a_frontier(frontier: list[int], at: float | None) -> None:
    """Where there is one."""
    assert at == bound_commit(frontier)


def test_what_streams_wait_for() -> None:
    """Each of its table and topic."""
    assert (JobWait("updates", "t: 2 of 3 at 7", {"table": "t", "topic": "a"}),) == stream_waits(
        [("t", "a", "2 of 3 at 7")]
    )
