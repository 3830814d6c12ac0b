"""What Debezium really sent becomes what PostgreSQL really held, at every checkpoint, in any order of arrival."""

from __future__ import annotations

import random
from functools import cache

import pytest

from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.facts import Truncate
from cdcv2.capture.run.commit_times import Capture, ReleaseReport
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Updates
from tests.connector import Place
from tests.doubles import RecordingLog
from tests.recorded import CHECKPOINTS, TABLES, checkpoint_time, content, dump, ends, facts, recipe, truth
from tests.steps import RELEASE, killed_three_times

Logs = dict[str, RecordingLog]
RUNS = ["clean_full", "crash_full"]
#: How many random interleavings of each run; together well over a hundred.
INTERLEAVINGS = {"clean_full": 8, "crash_full": 4}


def new_logs() -> Logs:
    """One empty log per table."""
    return {table: RecordingLog() for table in TABLES}


def interleaved(run: str, chance: random.Random, start: dict[Place, int]) -> list[tuple[Place, int]]:
    """An order in which a consumer may read: each partition in its order, partitions that lag and that hurry."""
    order = []
    for place, entries in facts(run).items():
        step, at = chance.choice((0.2, 1, 1, 5)) / len(entries), chance.random() * 0.1
        for index in range(len(entries)):
            at += step * chance.random()
            order.append((at, place, index))
    order.sort()
    return [(place, index) for _, place, index in order if facts(run)[place][index][0].offset >= start.get(place, 0)]


def feed(run: str, capture: Capture, chance: random.Random) -> SourceStop:
    """Read everything, releasing now and then, until it stops."""
    for place, index in interleaved(run, chance, capture.positions()):
        record, fact = facts(run)[place][index]
        capture.absorb_fact(fact, record.position)
        if capture.needs_ends:
            capture.ends_read(dump(run).ends())
        if chance.random() < 0.02:
            try:
                capture.release()
            except SourceStop as stop:
                return stop
    with pytest.raises(SourceStop) as caught:
        capture.release()
    return caught.value


def arrive(run: str, capture: Capture) -> None:
    """Give it the records in the order in which they came, releasing now and then, and in the end."""
    for number, record in enumerate(dump(run).read()):
        capture.absorb(record)
        if capture.needs_ends:
            capture.ends_read(dump(run).ends())
        if number % 100 == 0:
            capture.release()
    capture.release()


@cache
def in_order(run: str) -> tuple[Logs, SourceStop, list[ReleaseReport]]:
    """The run as it was recorded, by arrival, from the records themselves."""
    logs, told = new_logs(), list[ReleaseReport]()
    with Capture(recipe(run), logs, on_release=told.append) as capture, pytest.raises(SourceStop) as caught:
        arrive(run, capture)
    return logs, caught.value, told


def said(log: RecordingLog) -> tuple[set[object], Antichain]:
    """The updates in a log, each once, and how far a reader of it comes."""
    updates = [update for message in log.durable if isinstance(message, Updates) for update in message.updates]
    reader = Iter(log.durable)
    assert sum(len(batch.updates) for batch in reader) == len(set(updates)), "an update that no statement counts"
    assert not reader.missing()
    return set(updates), reader.frontier


def last_before_truncate(run: str) -> int:
    """The END before that of the transaction that truncates."""
    said_by_rows = (fact for entries in facts(run).values() for _, fact in entries)
    truncating = {fact.tx for fact in said_by_rows if isinstance(fact, Truncate)}
    at = min(lsn for lsn, tx in ends(run).items() if tx in truncating)
    return max(lsn for lsn in ends(run) if lsn < at)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("run", RUNS)
def test_the_logs_equal_the_truth_at_nine_checkpoints(run: str, table: str) -> None:
    """Before the snapshot, under load and at rest: whole transactions, each once."""
    logs, _, _ = in_order(run)
    times = [checkpoint_time(run, tag) for tag in CHECKPOINTS]
    assert sorted(times) == times
    expected = [truth(run, tag, table) for tag in CHECKPOINTS]
    assert expected == content(logs[table].durable, table, *times)


@pytest.mark.parametrize("run", RUNS)
def test_truncate_stops_it_and_the_logs_are_complete_through_the_end_before(run: str) -> None:
    """It names the reason, and what was committed before it is there, whole."""
    logs, stop, told = in_order(run)
    assert "was truncated in transaction" in stop.reason
    assert "Delete rows instead" in stop.remedy
    before = last_before_truncate(run)
    assert stop.frontier == Antichain([before + 1])
    assert {Antichain([before + 1])} == {said(log)[1] for log in logs.values()}
    assert told[-1].release.through == before


def test_repeats_are_told_from_facts_by_the_thousand() -> None:
    """The connector that was killed sent 2292 rows again; the one that was not sent none."""
    assert [0, 2291] == [in_order(run)[2][-1].counters.repeats for run in RUNS]


def test_memory_is_what_is_open() -> None:
    """Read about in the order of arrival, far less than a run is held at any time."""
    for run in RUNS:
        held = [captured.held_rows for captured in in_order(run)[2]]
        assert max(held) < 0.1 * in_order(run)[2][-1].counters.rows


@pytest.mark.parametrize("run", RUNS)
def test_any_interleaving_of_the_topics_gives_the_same_logs(run: str) -> None:
    """No order across partitions is promised, so none may matter: same facts, same frontier, same stop."""
    logs, stop, _ = in_order(run)
    expected = {table: said(log) for table, log in logs.items()}
    for seed in range(INTERLEAVINGS[run]):
        mine = new_logs()
        stopped = feed(run, Capture(recipe(run), mine), random.Random(seed))
        # Which of the two truncated tables is named depends on which was read first.
        assert (stop.frontier, stop.reason[-17:]) == (stopped.frontier, stopped.reason[-17:])
        assert expected == {table: said(log) for table, log in mine.items()}, f"interleaving {seed}"


@pytest.mark.parametrize("remembers", [True, False], ids=["memory kept", "memory lost"])
@pytest.mark.parametrize("step", RELEASE)
def test_a_crash_at_any_step_leaves_the_same_facts_in_the_end(step: str, remembers: bool) -> None:
    """Died, started again, three times over at each step: nothing lost, nothing twice, no other fact."""
    expected = {table: said(log) for table, log in in_order("clean_full")[0].items()}
    logs = killed_three_times(step, new_logs(), lambda logs, memory, chance: feed(
        "clean_full", Capture(recipe("clean_full"), logs, memory=memory), chance
    ), most=3, remembers=remembers)
    assert expected == {table: said(log) for table, log in logs.items()}


def test_every_step_of_a_release_is_known() -> None:
    """The crashes above are placed at what the code declares, each once."""
    assert sorted([
        release_order.TABLE_WRITTEN, release_order.UPDATES_DURABLE, release_order.TABLE_STATED,
        release_order.BEFORE_UPDATES, release_order.STATED, release_order.REMEMBERED,
    ]) == RELEASE


def test_identity_default_is_refused_with_the_remedy() -> None:
    """An update without its old row cannot be taken back from anything: the stop names it, and the remedy."""
    logs = new_logs()
    capture = Capture(recipe("clean_default"), logs)
    for record in dump("clean_default").read():
        capture.absorb(record)
        if capture.needs_ends:
            capture.ends_read(dump("clean_default").ends())
    with pytest.raises(SourceStop, match="its old values are not given, in transaction .*"
                                         "ALTER TABLE public.[a-z_]+ REPLICA IDENTITY FULL") as caught:
        capture.release()
    frontiers = {said(log)[1] for log in logs.values()}
    assert {caught.value.frontier} == frontiers, "what came before it is complete"
