"""Stream topics become logs: whatever their order and their partitions are, and wherever the capture dies."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from cdcv2 import failpoints
from cdcv2.capture.facts import Record
from cdcv2.capture.recent_sums import RecentSums
from cdcv2.capture.run.stream_state import StreamTopic
from cdcv2.capture.run.stream_tables import StreamTables, run
from cdcv2.capture.stream_counts import StreamCounts
from cdcv2.connectors.stream import StreamRecords
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError, ForeignStateError, MissingLogError, SourceStop, UnavailableError, UnsafeTopicError
from cdcv2.protocol.iter import Iter
from cdcv2.rows.row_type import RowType
from tests.doubles import GivenRanges, KeptMemory, RecordingLog
from tests.steps import RELEASE
from tests.streams import LAST, TOPIC, StreamHistory, histories

ROWS = RowType({"type": "record", "name": "thing", "fields": [{"name": "id", "type": "long"}]})
TABLES = {"things": StreamTopic(TOPIC, StreamRecords(ROWS))}


def capture(
    records: list[Record], log: RecordingLog, memory: KeptMemory | None = None, every: int = 3
) -> StreamTables:
    """Run it to the end of the records, on a log as the next process finds it."""
    tables = StreamTables(TABLES, {"things": log}, memory)
    run(tables, GivenRanges(records), release_every=every)
    tables.save()
    return tables


def found(log: RecordingLog) -> tuple[dict[tuple[int, int], int], Antichain]:
    """What a reader of the log has, each update once, and how far."""
    reader = Iter(log.durable)
    updates = [update for batch in reader for update in batch.updates]
    assert not reader.missing() and len(updates) == len({(row, time) for row, time, _ in updates})
    return {(row.id, time): diff for row, time, diff in updates}, reader.frontier


@given(histories(), st.lists(st.tuples(st.sampled_from(RELEASE), st.integers(1, 3)), max_size=3), st.integers(0, 2**32))
@example(StreamHistory([[(1, 3, 1), (4, None), (1, 4, 1)]]), [("release.table-stated", 1)], 0)
@example(StreamHistory([[(1, 3, 1), (4, 1), (1, 5, 1), (6, None), (1, 7, 1)]]), [], 0)
def test_any_order_any_crash_and_any_memory_give_the_same_log(
    history: StreamHistory, crashes: list[tuple[str, int]], seed: int
) -> None:
    """The topic grows between the runs, which die at steps of a release; their memory is kept, set back or lost."""
    chance, log, memory = random.Random(seed), RecordingLog(), KeptMemory()
    for step, nth in crashes:
        ends = [chance.randint(0, len(part)) for part in history.partitions]
        there = [record for record in history.records() if record.offset < ends[record.partition]]
        with failpoints.placed(step, nth):
            try:
                capture(there, log, memory, chance.randint(1, 5))
            except (failpoints.PlacedCrash, MissingLogError, UnsafeTopicError):
                # Topics that are shorter than they were are refused; and one without a record is not there yet.
                pass
        log = log.again()
        memory.plain = chance.choice([memory.plain, memory.plain, chance.choice(memory.older)])
    if not history.records():
        return
    tables = capture(history.records(), log, memory, chance.randint(1, 5))

    assert (history.truth(), Antichain([history.frontier])) == found(log)
    assert bool(tables.waits()) == any(time >= history.frontier for _, time, _ in history.updates)


@pytest.mark.parametrize("lost", [False, True], ids=["memory kept", "memory lost"])
@pytest.mark.parametrize("step", RELEASE)
def test_a_crash_at_any_step_of_a_release_gives_each_update_once(step: str, lost: bool) -> None:
    """The second release dies; what was read is read again as far as it is not stated."""
    history = StreamHistory([[(1, 0, 1), (2, 5, 1), (2, None), (1, 3, -1), (2, 5, 1), (6, None), (3, 7, 1)]])
    log, memory = RecordingLog(), KeptMemory()
    with failpoints.placed(step, 2), pytest.raises(failpoints.PlacedCrash):
        capture(history.records(), log, memory)
    log = log.again()
    capture(history.records(), log, None if lost else memory)

    assert ({(1, 0): 1, (1, 3): -1, (2, 5): 2}, Antichain([6])) == found(log)


def test_what_is_stated_is_not_read_again() -> None:
    """The memory has the first record that is not stated, of each partition."""
    records = [[(1, 0, 1), (1, 8, 1), (2, 1, 1)], [(2, 4), (1, 1, 1), (1, 9, 1)]]
    log, memory = RecordingLog(), KeptMemory()
    tables = capture(StreamHistory(records).records(), log, memory)
    assert ["things: 1 of 4 updates before time 2 are missing"] == tables.waits()
    assert {(TOPIC, 0): 0, (TOPIC, 1): 1} == tables.positions()
    records[1].append((3, 1, 1))
    tables = capture(StreamHistory(records).records(), log, memory)
    assert ["things: 2 updates at times from 8 on wait for a bound"] == tables.waits()
    assert ({(TOPIC, 0): 1, (TOPIC, 1): 2}, 6) == (tables.positions(), tables.records)
    assert 4 == capture(StreamHistory(records).records(), log, memory).records


def test_nothing_is_stated_before_all_that_was_counted_is_read_again() -> None:
    """Two tables: that of the first died while it was stated, and the memory has bound and counts of the second."""
    other = "web.others"
    tables = {**TABLES, "zoo": StreamTopic(other, StreamRecords(ROWS))}
    records = StreamHistory([[(1, 3, 1), (2, 3, 1), (3, 3, 1), (4, None)]]).records()
    records += [record._replace(topic=other) for record in records]
    logs, memory = {"things": RecordingLog(), "zoo": RecordingLog()}, KeptMemory()
    with failpoints.placed("release.remembered"), pytest.raises(failpoints.PlacedCrash):
        run(StreamTables(tables, logs, memory), GivenRanges(records))
    with failpoints.placed("release.before-updates", 2):
        run(StreamTables(tables, logs, memory), GivenRanges(records), release_every=1)

    assert ({(1, 3): 1, (2, 3): 1, (3, 3): 1}, Antichain([4])) == found(logs["things"]) == found(logs["zoo"])


def test_of_the_bounds_that_are_reached_one_is_kept() -> None:
    """To compare later ones with; a topic has one a minute, for years."""
    tables = capture(StreamHistory([[(1, 0, 1), *((before, 1) for before in range(1, 9)), (20, 5)]]).records(),
                     RecordingLog(), memory := KeptMemory())  # fmt: skip

    assert [[8, 1], [20, 5]] == memory.plain["counts"]["things"]["stated"]
    assert ["things: 4 of 5 updates before time 20 are missing"] == tables.waits()


LATE = "an update at time 2 (web.things[0]@3) came after the topic web.things was stated to be complete before 4"
BACK = "the bound 3 (web.things[0]@2) goes back: the topic web.things was stated to be complete before 4 already"
FEWER = "the topic web.things is stated to have 1 rows before time 5 (web.things[0]@2), and 2 before 4"


@pytest.mark.parametrize("lost", [False, True], ids=["memory kept", "memory lost"])
@pytest.mark.parametrize(("records", "text"), [
    ([(1, 3, 1), (4, None), (1, 8, 1), (1, 2, 1)], LATE),
    ([(1, 3, 1), (4, None), (3, None)], BACK),
    ([(1, 3, 1), (4, 2), (5, 1)], FEWER),
    ([(1, 3, 1), (5, 1), (4, 2)], "is stated to have 2 rows before time 4 (web.things[0]@2), and 1 before 5"),
    ([(1, 3, 1), (4, 1), (1, 2, 1), (4, 1), (1, 5, 1), (6, 2)], "came after"),
    ([(1, 3, 1), (1, 2, 1), (4, 1)], "stated to have 1 rows before time 4, and 2 have come"),
    ([(1, 3, 1), (5, 2), (1, 7, 1), (9, 2)], "2 rows before time 5, and 1 have come, although by another bound none"),
    ([(1, 3, 1), (5, 2), (9, None)], "2 rows before time 5, and 1 have come, although by another bound none before 9"),
], ids=[
    "late", "back", "fewer", "more before", "late for a count", "more", "fewer than counted", "fewer than promised",
])  # fmt: skip
def test_what_contradicts_a_bound_stops_it_at_its_place(records: list[Any], text: str, lost: bool) -> None:
    """In every run: what stands before it is written, and nothing of it."""
    history, log, memory = StreamHistory([records]), RecordingLog(), KeptMemory()
    for _ in range(2):
        with pytest.raises(SourceStop) as caught:
            capture(history.records(), log, None if lost else memory, every=1)
        first = str(caught.value)
        assert (text in first) or (lost and "have come" in first), first
        log = log.again()
        assert found(log)[0] in [{}, {(1, 3): 1}]
        assert found(log)[1] == caught.value.frontier


def test_a_stop_names_the_frontier_up_to_which_all_tables_are_written() -> None:
    """What stands before it in the same part of the topic is written after it is found, and then so far."""
    late = StreamHistory([[(1, 3, 1), (5, None), (3, 7, 1), (9, None), (4, 6, 1)]]).records()
    others = [record._replace(topic="web.others") for record in StreamHistory([[(1, 3, 1), (6, None)]]).records()]
    for records, through in ((late, 8), (late + others, 5)):
        tables = {one.topic: StreamTopic(one.topic, StreamRecords(ROWS)) for one in records}
        logs = {table: RecordingLog() for table in tables}
        with pytest.raises(SourceStop, match=f"complete before 9; the logs are complete through {through}. "):
            run(StreamTables(tables, logs), GivenRanges(records))
        assert Antichain([9]) == found(logs[TOPIC])[1]


OTHERS = "the topic web.things has other updates at time"


@pytest.mark.parametrize(("other", "text"), [
    ([(2, 3, 1), (5, None), (9, 7, 1), (9, None)], f"{OTHERS} 3 than the log: it is another history"),
    ([(1, 3, 2), (5, None), (9, 7, 1), (9, None)], f"{OTHERS} 3 than the log"),
    ([(1, 2, 1), (5, None), (9, 7, 1), (9, None)], f"{OTHERS} 2 than the log"),
    ([(1, 3, 1), (2, 4, 1), (5, 2), (9, 7, 1), (9, 3)], f"{OTHERS} 4 than the log"),
    ([(1, 3, 1), (1, 3, 1), (1, 3, -1), (4, 4, 1), (4, 4, -1), (5, None), (9, 7, 1), (9, None)], None),
], ids=["another row", "another diff", "another time", "one more", "the same, not added up"])  # fmt: skip
@pytest.mark.parametrize("every", [1, 100])
def test_without_memory_nothing_is_added_to_a_log_of_another_history(
    other: list[Any], text: str | None, every: int
) -> None:
    """What the log has is compared with what is read again, also by a run that is killed on its way."""
    log, memory = RecordingLog(), KeptMemory()
    capture(StreamHistory([[(1, 3, 1), (5, None)]]).records(), log)
    tables = capture(StreamHistory([other[:1]]).records(), log := log.again(), memory)
    assert ["things: the log is complete before 5 already, and no bound that was read is as far"] == tables.waits()
    if text is None:
        capture(StreamHistory([other]).records(), log := log.again(), memory, every)
        assert ({(1, 3): 1, (9, 7): 1}, Antichain([9])) == found(log)
        return
    for _ in range(2):
        with pytest.raises(SourceStop) as caught:
            capture(StreamHistory([other]).records(), log := log.again(), memory, every)
        assert text in str(caught.value)
        assert ({(1, 3): 1}, Antichain([5])) == found(log)


@pytest.mark.parametrize(("rows", "lost"), [(2, False), (2, True), (0, False), (0, True)])
def test_a_late_bound_is_compared_with_the_updates_before_it(rows: int, lost: bool) -> None:
    """Also if the log was stated by a promise, and no bound is kept that it could contradict."""
    records = [(1, 3, 1), (2, 5, 1), (6, None)]
    log, memory = RecordingLog(), KeptMemory()
    capture(StreamHistory([[*records, (4, 1), (5, 1), (6, 2), (3, 0)]]).records(), log, memory)
    memory.plain = None if lost else memory.plain
    with pytest.raises(SourceStop, match=rf"is stated to have {rows} rows before time 4( \(.*@7\))?, and 1 have come"):
        capture(StreamHistory([[*records, (4, 1), (5, 1), (6, 2), (3, 0), (4, rows)]]).records(), log.again(), memory)


def test_a_late_bound_waits_until_all_before_it_is_read_again() -> None:
    """A run that has lost its memory does not know before that which is true."""
    log = RecordingLog()
    capture(StreamHistory([[(1, 3, 1), (2, 5, 1), (6, None)]]).records(), log)
    capture(StreamHistory([[(4, 1), (1, 3, 1), (2, 5, 1), (6, None)]]).records(), log := log.again(), every=1)
    with pytest.raises(SourceStop, match="is stated to have 2 rows before time 4, and 1 have come"):
        capture(StreamHistory([[(4, 2), (1, 3, 1), (2, 5, 1), (6, None)]]).records(), log.again(), every=1)


def test_only_the_last_times_of_a_log_are_told_apart() -> None:
    """Of those before them it is found that they differ."""
    for first in (7, 8):
        held = RecentSums(recent=1)
        counts = StreamCounts(None, 9, held=held)
        for time in range(6):
            held.add(time, 7)
        for time in range(6):
            counts.update("", time, digest=7 if time else first)
        counts.bound(9, None)
        if first == 7:
            assert 9 == counts.complete()
            continue
        with pytest.raises(SourceStop, match=rf"has other updates before time {held.since} than the log"):
            counts.complete()


def test_a_state_of_before_knows_the_sum_alone() -> None:
    """A late bound must not count more than that."""
    counts = StreamCounts(
        {"version": 1, "released": 9, "begun": 0, "below": 4, "times": {}, "stated": [], "promised": 9}, 9
    )
    counts.bound(7, 4)
    with pytest.raises(SourceStop, match="is stated to have 5 rows before time 7, and 4 have come"):
        counts.bound(7, 5)


def test_a_promise_needs_a_topic_with_one_partition() -> None:
    """Of several it is not known what follows."""
    records = StreamHistory([[(4, None)], [(1, 5, 1)]]).records()
    with pytest.raises(DecodeError, match=r"web.things\[0\]@0: .* several partitions.*state the number of rows"):
        capture(records, RecordingLog())


def test_a_partition_that_is_not_there_any_more_counts_for_a_promise() -> None:
    """A dump may lack it, and then what its updates are before is not known."""
    log, memory = RecordingLog(), KeptMemory()
    capture(StreamHistory([[(1, 3, 1), (6, 2)], [(1, 4, 1)]]).records(), log, memory)
    with pytest.raises(DecodeError, match="several partitions"):
        capture(StreamHistory([[(1, 3, 1), (6, 2), (9, None)]]).records(), log.again(), memory)


def test_a_record_that_is_none_stops_it_once_all_before_is_written() -> None:
    """And again in the next run."""
    records = [*StreamHistory([[(1, 3, 1), (4, None)]]).records(), Record(TOPIC, 0, 2, None, b'{"id": 1}')]
    log, memory = RecordingLog(), KeptMemory()
    for _ in range(2):
        with pytest.raises(DecodeError, match=r"@2: .*the column 'time' is missing"):
            capture(records, log, memory)
        assert ({(1, 3): 1}, Antichain([4])) == found(log)
        log = log.again()


def test_a_memory_that_is_not_that_of_the_logs_is_refused() -> None:
    """It would skip what they lack; and so would that of other columns."""
    records, memory = StreamHistory([[(1, 3, 1), (4, None)]]).records(), KeptMemory()
    capture(records, RecordingLog(), memory)
    memory.plain["logs"] = {}
    with pytest.raises(ForeignStateError, match="by the memory the log of things is complete before 4"):
        StreamTables(TABLES, {"things": RecordingLog()}, memory)
    other = {"things": StreamTopic(TOPIC, StreamRecords(ROWS, time="at"))}
    with pytest.raises(ForeignStateError, match="logs of its own"):
        StreamTables(other, {"things": RecordingLog()}, memory)


def test_a_topic_that_lost_records_is_refused() -> None:
    """At its beginning, and at its end."""
    records, log, memory = StreamHistory([[(1, 3, 1), (4, None), (1, 5, 1)]]).records(), RecordingLog(), KeptMemory()
    with pytest.raises(UnsafeTopicError, match="begins at 1, and 0 is wanted in partition 0"):
        capture(records[1:], log)
    capture(records, log, memory)
    with pytest.raises(UnsafeTopicError, match="ends at 2, and 3 is wanted in partition 0"):
        capture(records[:2], log.again(), memory)


class NamedRanges(GivenRanges):
    """Topics that the cluster gave this name."""

    def __init__(self, records: list[Record], name: str) -> None:
        super().__init__(records)
        self._name = name

    def look(self) -> Any:
        """With the name."""
        return replace(super().look(), ids={TOPIC: self._name})


def test_a_topic_that_was_made_again_is_refused() -> None:
    """Also where it is longer than what was read of it, and when it happens while it is read."""
    more = StreamHistory([[(1, 3, 1), (4, None), (1, 5, 1), (6, None)]]).records()
    first, log, memory = more[:2], RecordingLog(), KeptMemory()
    with StreamTables(TABLES, {"things": log}, memory) as tables:
        run(tables, NamedRanges(first, "7f"))
        run(tables, NamedRanges(first, "7f"))
        with pytest.raises(ForeignStateError, match=f"the topic {TOPIC} is another one.*it was made again"):
            run(tables, NamedRanges(more, "80"))
    with pytest.raises(ForeignStateError, match=f"the topic {TOPIC} is another one.*it was made again"):
        run(StreamTables(TABLES, {"things": log.again()}, memory), NamedRanges(more, "80"))
    assert ({(1, 3): 1}, Antichain([4])) == found(log)


class GrowingRanges(GivenRanges):
    """A topic that is missing, then does not answer, and then grows record by record."""

    def __init__(self, records: list[Record]) -> None:
        super().__init__()
        self.looks, self._all = 0, records

    def look(self) -> Any:
        """One record more with each look."""
        self.looks += 1
        if self.looks == 2:
            raise UnavailableError("no broker answers")
        self.__dict__.update(GivenRanges(self._all[:max(0, self.looks - 2)]).__dict__)
        return super().look()


def test_one_that_follows_waits_for_topics_and_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports each once, and ends when it must stop."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    ranges = GrowingRanges(StreamHistory([[(1, 3, 1), (4, None), (1, 5, 1), (LAST, 2)]]).records())
    log, lines = RecordingLog(), list[str]()
    stopping: Callable[[], bool] = lambda: ranges.looks > 8
    tables = StreamTables(TABLES, {"things": log})
    run(tables, ranges, follow=True, stopping=stopping, remark=lines.append)

    assert ({(1, 3): 1, (1, 5): 1}, Antichain([LAST])) == found(log)
    assert ["there is no topic 'web.things'", "no broker answers"] == [
        next(text for text in ("there is no topic 'web.things'", "no broker answers") if text in line) for line in lines
    ]


@pytest.mark.parametrize("other", ["web.a", "web.z"])
def test_a_table_that_stops_at_its_release_does_not_keep_others_from_theirs(other: str) -> None:
    """Whichever comes first: what is complete of the other table is stated, and each start ends with the stop."""
    records = [
        *StreamHistory([[(1, 3, 1), (1, 2, 1), (4, 1)]]).records(),
        *(record._replace(topic=other) for record in StreamHistory([[(7, 1, 1), (6, None)]]).records()),
    ]
    topics = {topic: StreamTopic(topic, StreamRecords(ROWS)) for topic in sorted((TOPIC, other))}
    logs = {topic: RecordingLog() for topic in topics}
    for _ in range(2):
        with pytest.raises(SourceStop, match="web.things"):
            run(StreamTables(topics, logs), GivenRanges(records), release_every=100)
        logs = {topic: log.again() for topic, log in logs.items()}

    assert ({(7, 1): 1}, Antichain([6])) == found(logs[other])
    assert ({}, Antichain([0])) == found(logs[TOPIC])
