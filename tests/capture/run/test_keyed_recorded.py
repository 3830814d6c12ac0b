"""Real tables with REPLICA IDENTITY DEFAULT: what Debezium sent of them becomes what they held, TRUNCATE included."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from cdcv2.capture.facts import Fact, Notification, Record
from cdcv2.capture.run.commit_times import Capture
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.rows.row_type import RowType
from tests.capture.run.test_capture_recorded import arrive, said
from tests.connector import Place
from tests.doubles import KeptMemory, RecordingLog
from tests.recorded import CHECKPOINTS, TABLES, checkpoint_time, content, dump, recipe, truth
from tests.steps import RELEASE, killed_three_times

Logs = dict[str, RecordingLog]
ALL = [*CHECKPOINTS, "final"]
#: How many random interleavings of each run.
INTERLEAVINGS = {"clean_default": 10, "clean_full": 2}


def keyed(run: str, **more: Any) -> Recipe:
    """The capture of a recorded run, with old rows from the state."""
    return recipe(run, before="from-state", **more)


@cache
def told(run: str) -> dict[Place, list[tuple[Record, Fact]]]:
    """Each partition's records with their facts."""
    how = keyed(run)
    return {
        place: [(record, how.fact(record)) for record in records]
        for place, records in dump(run).partitions().items()
    }


def interleaved(run: str, chance: random.Random, start: dict[Place, int]) -> list[tuple[Record, Fact]]:
    """An order in which a consumer may read: each partition in its order, partitions that lag and that hurry."""
    order = []
    for place, entries in told(run).items():
        step, at = chance.choice((0.2, 1, 1, 5)) / len(entries), chance.random() * 0.1
        for index, (record, _) in enumerate(entries):
            at += step * chance.random()
            if record.offset >= start.get(place, 0):
                order.append((at, place, index))
    return [told(run)[place][index] for _, place, index in sorted(order)]


def feed(run: str, capture: Capture, chance: random.Random, often: float = 0.02) -> None:
    """Read everything, releasing now and then."""
    for record, fact in interleaved(run, chance, capture.positions()):
        capture.absorb_fact(fact, record.position)
        if capture.needs_ends:
            capture.ends_read(dump(run).ends())
        if chance.random() < often:
            capture.release()
    capture.release()


def written(log: RecordingLog) -> tuple[set[object], Antichain]:
    """The updates in a log and the upper of its last statement: quicker than a reader."""
    updates = [update for message in log.durable if isinstance(message, Updates) for update in message.updates]
    last = log.durable[-1]
    assert isinstance(last, Progress)
    return set(updates), last.upper


def new_logs() -> Logs:
    """One empty log per table."""
    return {table: RecordingLog() for table in TABLES}


@cache
def in_order(run: str) -> Logs:
    """The run as it was recorded, by arrival, from the records themselves."""
    logs = new_logs()
    with Capture(keyed(run), logs) as capture:
        arrive(run, capture)
        assert "nothing is open" == capture.waits().text
    return logs


@cache
def expected(run: str) -> dict[str, tuple[set[object], Antichain]]:
    """The updates and the frontier of each log, as of the run in order."""
    return {table: said(log) for table, log in in_order(run).items()}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("run", ["clean_default", "clean_full", "crash_full"])
def test_the_logs_equal_the_truth_at_ten_checkpoints(run: str, table: str) -> None:
    """Before the snapshot, under load, at rest, and behind the TRUNCATE and the COPY with equal rows at the end."""
    times = [checkpoint_time(run, tag) for tag in ALL]

    assert sorted(times) == times
    assert [truth(run, tag, table) for tag in ALL] == content(in_order(run)[table].durable, table, *times)


@pytest.mark.parametrize("run", INTERLEAVINGS)
def test_any_interleaving_of_the_topics_gives_the_same_logs(run: str) -> None:
    """Old rows are looked up in commit order, whatever the order of arrival."""
    for seed in range(INTERLEAVINGS[run]):
        logs = new_logs()
        feed(run, Capture(keyed(run), logs), random.Random(seed))
        hear = said if seed % 10 == 0 else written
        assert expected(run) == {table: hear(log) for table, log in logs.items()}, f"interleaving {seed}"


@pytest.mark.parametrize("remembers", [True, False], ids=["memory kept", "memory lost"])
@pytest.mark.parametrize("step", RELEASE)
def test_a_crash_at_any_step_leaves_the_same_facts_in_the_end(step: str, remembers: bool) -> None:
    """Died, started again, three times over at each step; the state is rebuilt from logs that a crash left apart."""
    logs = killed_three_times(step, new_logs(), lambda logs, memory, chance: feed(
        "clean_default", Capture(keyed("clean_default"), logs, memory=memory), chance, often=0.05
    ), most=5, remembers=remembers)
    assert expected("clean_default") == {table: said(log) for table, log in logs.items()}


@pytest.mark.parametrize("run", ["clean_default", "clean_full"])
def test_a_capture_that_stopped_goes_on_with_old_rows_from_the_state(run: str) -> None:
    """At the first update without its before-image, or at the TRUNCATE: the logs have what is needed."""
    logs, memory = new_logs(), KeptMemory()
    capture = Capture(recipe(run), logs, memory=memory)
    for record in dump(run).read():
        capture.absorb(record)
        if capture.needs_ends:
            capture.ends_read(dump(run).ends())
    with pytest.raises(SourceStop, match="--before from-state"):
        capture.release()
    feed(run, Capture(keyed(run), logs, memory=memory), random.Random(5))

    assert expected(run) == {table: said(log) for table, log in logs.items()}


def test_full_tables_that_are_named_are_told_by_their_values() -> None:
    """The same logs, whether rows are found by key or by all that they were."""
    logs = new_logs()
    feed("clean_full", Capture(keyed("clean_full", full_identity=frozenset(TABLES)), logs), random.Random(3))

    assert expected("clean_full") == {table: said(log) for table, log in logs.items()}


def test_a_default_table_that_is_named_as_full_stops_it() -> None:
    """Its deletes would take away rows that never were."""
    wrong = keyed("clean_default", full_identity=frozenset(TABLES))
    capture = Capture(wrong, new_logs())
    with pytest.raises(SourceStop, match="the old values of a row of public.orders do not fit .* None is not a "
                                         "string, in transaction 2985; .* Name a table with --full-identity only"):
        for record in dump("clean_default").read():
            capture.absorb(record)
            if capture.needs_ends:
                capture.ends_read(dump("clean_default").ends())
            capture.release()


# -- the run with everything that is rare


def columns(**kinds: Any) -> RowType:
    """A row type of these columns, all of which may be null."""
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
    return RowType({"type": "record", "name": "t", "fields": fields})


def capture_rare(tables: dict[str, RowType], logs: Logs) -> SourceStop | None:
    """Capture these tables of the run; its rows stand for the notifications, which it has not."""
    records = list(dump("edge", "topics_edge").read())
    rows = Counter(record.topic for record in records if b'"op":"r"' in (record.value or b""))
    how = Recipe("edge", tables, before="from-state", notification_topic="notes")
    capture = Capture(how, logs)
    done = [Notification("TABLE_SCAN_COMPLETED", table, rows[how.topic(table)], at) for at, table in enumerate(tables)]
    for notification in [*done, Notification("COMPLETED", None, None, len(done))]:
        capture.absorb_fact(notification, Position("notes", 0, notification.offset))
    for record in records:
        capture.absorb(record)
    try:
        capture.release()
    except SourceStop as stop:
        return stop
    return None


def held(messages: Iterable[Message]) -> Counter[Any]:
    """The table that the messages of a log state."""
    rows: Counter[Any] = Counter()
    for batch in Iter(messages):
        for row, _, diff in batch.updates:
            rows[tuple(row)] += diff
    return Counter({row: number for row, number in rows.items() if number})


SMALL = {
    "public.parent": columns(id="int", v="int"), "public.child": columns(id="int", pid="int"),
    "public.nopk": columns(a="int", b="string"),
    "public.part_a": columns(k="int", v="int"), "public.part_b": columns(k="int", v="int"),
}
NUMERIC = {"type": "record", "name": "numeric", "fields": [
    {"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]}
MANY = columns(
    id="int", s="string", big="string", n="bytes", nbare=NUMERIC, f="double", b="boolean", d="int", t="long", ts="long",
    tz="string", iv="long", j="string", arr={"type": "array", "items": ["null", "int"]}, bin="bytes", u="string",
    e="string", big8="long", c="string",
)


def test_cascades_partitions_and_truncates_come_to_the_truth() -> None:
    """A cascaded delete, a row that moves to another partition, tables truncated, rows before and after it."""
    logs = {table: RecordingLog() for table in SMALL}

    assert capture_rare(SMALL, logs) is None
    assert {
        "public.parent": {}, "public.child": {}, "public.nopk": {(71, "after trunc"): 1},
        "public.part_a": {}, "public.part_b": {(120, 1): 1, (150, 2): 1},
    } == {table: dict(held(log.durable)) for table, log in logs.items()}


def test_all_types_large_values_and_a_switch_to_full_up_to_an_added_column() -> None:
    """A key that is changed twice, with 3000 bytes that no record has; then FULL; then there is another column."""
    logs = {"public.types_t": RecordingLog()}
    stop = capture_rare({"public.types_t": MANY}, logs)
    rows = {row[0]: row for row in held(logs["public.types_t"].durable)}
    large = [row.big for batch in Iter(logs["public.types_t"].durable) for row, _, diff in batch.updates if diff > 0]

    assert stop is not None and "'added' is new, in transaction 793" in stop.reason
    assert ({1: "a3", 3: "again"}, "x" * 3000) == ({key: row[1] for key, row in rows.items()}, rows[1][2])
    assert {"x" * 3000, "y" * 3000, None} == set(large)


def test_a_column_that_only_the_snapshot_has_is_refused_by_name() -> None:
    """A generated one."""
    logs = {"public.gencol": RecordingLog()}
    stop = capture_rare({"public.gencol": columns(id="int", gen="int")}, logs)

    assert stop is not None and "public.gencol changed: 'gen' is missing, in transaction 776" in stop.reason
    assert {(1, 2): 1} == held(logs["public.gencol"].durable)
