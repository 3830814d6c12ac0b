"""What Debezium really sent, on timelines that are drawn: the true tables, and the same again from any time."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from cdcv2 import failpoints
from cdcv2.capture.facts import Record
from cdcv2.capture.topics import TopicExtents
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import DecodeError, ForeignStateError, RefusedError, SourceStop, UnsafeTopicError, UsageError
from cdcv2.logs.memory import MemoryLog
from cdcv2.timeline.positions import places
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
@pytest.mark.parametrize("run, timelines", [("clean_full", 8), ("crash_full", 2), ("clean_default", 4)])
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
    """And a connector that reports at its next start that it skips the snapshot changes nothing."""
    counted = ("TABLE_SCAN_COMPLETED", ITEMS, 0)
    timeline = small(("STARTED",), counted, ("COMPLETED",), ("SKIPPED",), ("SKIPPED",))
    timeline.run(how(), at_most=1)
    timeline.run(how())
    held = [row for row, _ in timeline.told()["temp"][0]]

    assert [("begun", None), ("through", 0)] == sorted((row.kind, row.commit) for row in held)


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
@pytest.mark.parametrize("rows", [0, 3])
def test_a_snapshot_that_is_begun_when_one_is_given_out_stops_it(rows: int, before: str) -> None:
    """Also if every captured table is empty at that time, so that no row of it will come; it stays so."""
    run = [("STARTED", None, None), ("TABLE_SCAN_COMPLETED", ITEMS, rows), ("COMPLETED", None, None)]
    timeline, again = small(*run, rows=rows), [*run, ("STARTED", None, None), ("TABLE_SCAN_COMPLETED", ITEMS, 0)]
    timeline.run(how(before=before))
    told = timeline.told()
    timeline.records[NOTIFICATIONS, 0] = [notified(at, *one) for at, one in enumerate([*again, ("COMPLETED",)])]
    for _ in range(2):
        with pytest.raises(SourceStop, match="begun a second snapshot"):
            timeline.run(how(before=before))

    assert rows == len(told[ITEMS][0])
    assert {name: updates for name, (updates, _) in told.items()} == {
        name: updates for name, (updates, _) in timeline.told().items()
    }


def test_where_no_snapshot_is_wanted_what_is_said_of_one_is_nothing() -> None:
    """Its rows are not: they stop it."""
    timeline = small(("STARTED",), ("TABLE_SCAN_COMPLETED", ITEMS, 0), ("COMPLETED",), ("STARTED",))
    timeline.run(how(snapshot="none"))

    assert {} == timeline.told()["temp"][0]


@pytest.mark.usefixtures("parsed_once")
@pytest.mark.parametrize("seed", range(4))
def test_what_is_given_out_before_a_second_snapshot_is_what_it_would_be_without(seed: int) -> None:
    """Up to the time at which its beginning is bound, wherever that falls; and so again from any time before."""
    how, chance = recipe("clean_default"), random.Random(seed)
    records, first = topics("clean_default"), len(topics("clean_default")[NOTIFICATIONS, 0])
    again = [*records[NOTIFICATIONS, 0], notified(first, "STARTED")]
    timeline = LastNotificationLate({**records, (NOTIFICATIONS, 0): again}, chance)
    with pytest.raises(SourceStop, match="begun a second snapshot"):
        timeline.run(how, at_most=chance.choice((300, 5000)))
    binder, _ = timeline.opened(how)
    stop = next(
        into for into, where in binder.remap.bindings() if places(where).get((NOTIFICATIONS, 0), 0) > first
    )
    told = before(stop, timeline)
    without = timeline.back_at(-1)
    without.records = records
    without.run(how)

    assert told == before(stop, without)
    for time in chance.sample(range(stop), 2):
        other = timeline.back_at(time)
        with pytest.raises(SourceStop, match="begun a second snapshot"):
            other.run(how, at_most=chance.choice((300, 5000)))

        assert timeline.told() == other.told(), f"begun again at {time}"


class LastNotificationLate(Timeline):
    """The last one is not seen before some looks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.looks = self.chance.randrange(4, 24)

    def look(self) -> TopicExtents:
        """As the other one."""
        found, place = super().look(), (NOTIFICATIONS, 0)
        self.looks -= 1
        if self.looks > 0 and place in self.ends:
            self.ends[place] = min(self.ends[place], len(self.records[place]) - 1)
            return TopicExtents({**found.spans, place: (0, self.ends[place])})
        return found


def before(time: int, timeline: Timeline) -> dict[str, dict[Any, int]]:
    """What each log states of earlier times."""
    return {
        name: {(row, at): diff for (row, at), diff in updates.items() if at < time}
        for name, (updates, _) in timeline.told().items()
    }


def test_a_snapshot_that_begins_twice_stops_it() -> None:
    """Before the first is whole: its rows look like those of the second."""
    timeline = small(("STARTED",), ("TABLE_SCAN_COMPLETED", ITEMS, 3), ("COMPLETED",), ("STARTED",))
    for _ in range(2):
        with pytest.raises(SourceStop, match="begun a second snapshot"):
            timeline.run(how(), at_most=1)


def test_a_snapshot_of_which_nothing_is_told_is_waited_for_by_the_name_of_the_topic() -> None:
    """It may be misnamed; nothing else would show it, as a connector makes that topic at any time."""
    said = [small(*notes, rows=3).run(how()).waits() for notes in ((), (("STARTED",),))]

    text = "the initial snapshot of clean_full is not complete"
    assert [[f"{text}: the topic 'notifications' has reported nothing about it; is its name right?"], [text]] == said


def test_of_a_snapshot_that_was_begun_twice_nothing_is_given_out() -> None:
    """As many rows as it has are there, each once; a capture that begins again finds the same."""
    timeline = small(("STARTED",), ("STARTED",), ("TABLE_SCAN_COMPLETED", ITEMS, 3), ("COMPLETED",), rows=3)
    for _ in range(2):
        with pytest.raises(SourceStop, match="began its snapshot twice .notification STARTED at offset 1, before"):
            timeline.run(how(), at_most=1)

    assert {} == timeline.told()[ITEMS][0]


def test_a_row_of_the_snapshot_that_comes_when_it_is_given_out_stops_it() -> None:
    """The End counted all that there are."""
    run = ("STARTED",), ("TABLE_SCAN_COMPLETED", ITEMS, 3), ("COMPLETED",)
    timeline, later = small(*run, rows=3), small(*run, rows=4)
    timeline.run(how(), at_most=1)
    assert [1, 1, 1] == list(timeline.told()[ITEMS][0].values())
    place = f"clean_full.{ITEMS}", 0
    nothing = [*later.records[place][:3], later.records[place][3]._replace(value=None)]
    said = set()
    for records in (later.records, later.records, {**later.records, place: nothing}):
        timeline.records = records
        with pytest.raises(SourceStop, match=r"snapshot of public.order_items stands at clean_full\S*@3,") as stop:
            timeline.run(how())
        said.add(str(stop.value))
    with mock.patch.object(timeline, "look", side_effect=UnsafeTopicError("the topic is compacted")):
        _, capture = timeline.opened(how())
        for turn in (capture.look, capture.carry):
            with pytest.raises(SourceStop) as stop:
                turn()
            said.add(str(stop.value))

    assert 1 == len(said), "also where it is not in the topic any more: the logs keep it"
    assert [True] == [one.reason in str(stop.value) for one in timeline.tables[ITEMS].stops()]


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
    """The output alone does not show what was held."""
    timeline = Timeline(topics("clean_full"), random.Random(5))
    until_the_truncate(timeline, "clean_full")
    before = timeline.told()
    timeline.temp = MemoryLog("temp")
    with pytest.raises(SourceStop, match="was truncated"):
        timeline.run(recipe("clean_full"))

    assert before == timeline.told()


TRANSACTIONS = "clean_full.transaction", 0


def restarted(version: str) -> dict[tuple[str, int], list[Record]]:
    """Two BEGINs of one transaction, with nothing between, its row, and its END."""
    row = json.loads(next(one.value for one in dump("clean_full").partitions()[f"clean_full.{ITEMS}", 0]
                          if one.value and b'"op":"c"' in one.value))
    row["source"] |= {"version": version, "txId": 7, "sequence": '["100","101"]'}
    row["transaction"] = {"id": "7:101", "total_order": 1, "data_collection_order": 1}
    counted = [{"data_collection": ITEMS, "event_count": 1}]
    begin = {"status": "BEGIN", "id": "7:101", "event_count": None, "data_collections": None}
    end = {"status": "END", "id": "7:110", "event_count": 1, "data_collections": counted}
    said = [json.dumps(one).encode() for one in (begin, begin, end, row)]
    table = f"clean_full.{ITEMS}", 0
    return {TRANSACTIONS: [Record(*TRANSACTIONS, at, None, one) for at, one in enumerate(said[:3])],
            table: [Record(*table, 0, None, said[3])]}


def see(timeline: Timeline, *looks: int) -> None:
    """One life: as many records of the transaction topic are seen, one look after the other, and the row at last."""
    binder, capture = timeline.opened(how(snapshot="none", notification_topic=None, empty=frozenset({ITEMS})))
    for number in looks:
        timeline.ends = {place: number if place == TRANSACTIONS else number // 3 for place in timeline.records}
        binder.bind(timeline.seen())
        while capture.carry():
            pass


@pytest.mark.parametrize("version", ["3.7.0.Final", "3.4.1.Final"])
@pytest.mark.parametrize("step", ["release.updates-durable", "release.temp-stated"])
def test_what_temp_has_of_two_begins_counts_where_the_topic_has_lost_the_first(step: str, version: str) -> None:
    """A life is killed when TEMP has it and the tables do not state it, and the topic loses what is behind that."""
    killed, is_old = Timeline(restarted(version), random.Random(1), [ITEMS]), version < "3.7"

    def stop_of(timeline: Timeline, *looks: int) -> str:
        with pytest.raises(SourceStop) if is_old else contextlib.nullcontext() as stop:
            see(timeline, *looks)
        return str(stop and stop.value)

    with failpoints.placed(step, 2), pytest.raises(failpoints.PlacedCrash):
        see(killed, 1, 2)
    for log in (*killed.tables.values(), killed.temp):
        log.close()
    killed.heads = {TRANSACTIONS: 1}
    stop = stop_of(killed, 2, 3)
    lived = killed.back_at(-1)

    assert stop == stop_of(lived, 3) and is_old == ("two BEGINs, one directly after the other, and its rows" in stop)
    assert lived.told() == killed.told() and (0 if is_old else 1) == len(lived.told()[ITEMS][0])


def test_what_cannot_be_captured_so_is_refused() -> None:
    """A snapshot without notifications; TEMP of another ordering; the state, where there is none in any order."""
    timeline = small(("SKIPPED",))
    with pytest.raises(UsageError, match="--notifications"):
        timeline.opened(how(notification_topic=None))
    with pytest.raises(RefusedError, match="--before from-state needs the state before each transaction"):
        timeline.opened(how(before="from-state"), ordering="complete")
    timeline.run(how())
    for other, ordering in ((how(), "complete"), (how(before="from-state"), "commit")):
        with pytest.raises(ForeignStateError, match="was begun as"):
            timeline.run(other, ordering=ordering)
