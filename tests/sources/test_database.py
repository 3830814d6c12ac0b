"""What Debezium really sent, on timelines that are drawn: the true tables, and the same again from any time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from cdcv2.errors import DecodeError, ForeignStateError, RefusedError, SourceStop, UsageError
from cdcv2.sources.debezium import Recipe
from cdcv2.sources.facts import Record
from cdcv2.wire.memory import MemoryLog
from tests.recorded import TABLES, dump
from tests.timelines import (
    NOTIFICATIONS, Timeline, check_begun_again, check_true_tables, made_once, notified, recipe, topics,
    until_the_truncate,
)


@pytest.fixture
def parsed_once() -> Iterator[None]:
    """Records of the runs are not parsed and encoded over and over."""
    with made_once():
        yield


@pytest.mark.usefixtures("parsed_once")
@pytest.mark.parametrize("run, timelines", [("clean_full", 16), ("crash_full", 2), ("clean_default", 6)])
def test_any_timeline_ends_with_the_true_tables(run: str, timelines: int) -> None:
    """Partitions that come late, records twice, Ends before their rows. Many more are in the long runs."""
    for seed in range(timelines):
        check_true_tables(run, seed)


@pytest.mark.usefixtures("parsed_once")
@pytest.mark.parametrize("run, times", [("clean_full", 6), ("crash_full", 2), ("clean_default", 4)])
def test_begun_again_at_any_time_it_comes_to_the_same(run: str, times: int) -> None:
    """The summary law: remap and TEMP at a time are all that it takes to write the same after it, TEMP included."""
    check_begun_again(run, 1000, times)


# -- one thing at a time

ITEMS = "public.order_items"


def small(*notifications: Any, rows: int = 0) -> Timeline:
    """Notifications, and so many records of one table of a run, nothing else; all of it seen at once."""
    records = {(NOTIFICATIONS, 0): [notified(at, *one) for at, one in enumerate(notifications)]}
    place = f"clean_full.{ITEMS}", 0
    found = [record for record in dump("clean_full").partitions()[place]][:rows]
    return Timeline({**records, **({place: found} if found else {})}, random.Random(1))


def how(**more: Any) -> Recipe:
    """One table."""
    return Recipe("clean_full", {ITEMS: TABLES[ITEMS]}, **{"notification_topic": NOTIFICATIONS, **more})


def test_an_empty_snapshot_is_released_as_soon_as_it_is_complete() -> None:
    """And what the notifications say after that is nothing: a second snapshot is known by its rows."""
    counted = ("TABLE_SCAN_COMPLETED", ITEMS, 0)
    timeline = small(("STARTED",), counted, ("COMPLETED",), ("STARTED",), ("COMPLETED",))
    timeline.run(how(), at_most=1)
    timeline.run(how())
    held = [row for row, _ in timeline.told()["temp"][0]]

    assert [("begun", None), ("through", 0)] == sorted((row.kind, row.commit) for row in held)


def test_a_snapshot_that_begins_twice_stops_it() -> None:
    """Before the first is whole: its rows cannot be told from those of the second."""
    timeline = small(("STARTED",), ("TABLE_SCAN_COMPLETED", ITEMS, 3), ("COMPLETED",), ("STARTED",))
    for _ in range(2):
        with pytest.raises(SourceStop, match="begun a second snapshot"):
            timeline.run(how(), at_most=1)


def test_two_snapshots_at_one_place_are_no_whole_one() -> None:
    """In an idle database: rows of the first one make up the number, and those of the second come later."""
    timeline = small(("STARTED",), ("STARTED",), ("TABLE_SCAN_COMPLETED", ITEMS, 3), ("COMPLETED",), rows=3)
    place = f"clean_full.{ITEMS}", 0
    came = [timeline.records[place][number] for number in (0, 1, 0, 1, 2)]
    records = [record._replace(topic=place[0], partition=0, offset=at) for at, record in enumerate(came)]
    timeline.records[place] = records[:3]
    timeline.run(how())
    timeline.records[place], timeline.ends[place] = records, 3

    with pytest.raises(SourceStop, match="there is a second snapshot, at 101779848; .* at 101779848"):
        timeline.run(how())


def test_a_record_that_is_none_stops_it_before_its_time() -> None:
    """What comes at its time, or later, is not given out; the End of the snapshot neither."""
    timeline = small(("STARTED",), ("TABLE_SCAN_COMPLETED", ITEMS, 0), ("COMPLETED",))
    (records,) = timeline.records.values()
    garbage = Record("clean_full.transaction", 0, 0, None, b"nothing")
    timeline.records = {(NOTIFICATIONS, 0): records, ("clean_full.transaction", 0): [garbage]}
    timeline.ends = {("clean_full.transaction", 0): 1, (NOTIFICATIONS, 0): 2}
    with pytest.raises(DecodeError, match="clean_full.transaction"):
        timeline.run(how())

    assert {} == timeline.told()["temp"][0]


def test_without_temp_everything_is_written_again_from_its_start(parsed_once: None) -> None:
    """The output alone does not say what was held."""
    timeline = Timeline(topics("clean_full"), random.Random(5))
    until_the_truncate(timeline, "clean_full")
    before = timeline.told()
    timeline.temp = MemoryLog("temp")
    with pytest.raises(SourceStop, match="was truncated"):
        timeline.run(recipe("clean_full"))

    assert before == timeline.told()


def test_what_cannot_be_captured_so_is_refused() -> None:
    """A snapshot that nobody counts; TEMP of another ordering; the state, where there is none in any order."""
    timeline = small(("SKIPPED",))
    with pytest.raises(UsageError, match="--notifications"):
        timeline.opened(how(notification_topic=None))
    with pytest.raises(RefusedError, match="--before from-state needs the state before each transaction"):
        timeline.opened(how(before="from-state"), ordering="complete")
    timeline.run(how())
    for other, ordering in ((how(), "complete"), (how(before="from-state"), "commit")):
        with pytest.raises(ForeignStateError, match="was begun as"):
            timeline.run(other, ordering=ordering)
