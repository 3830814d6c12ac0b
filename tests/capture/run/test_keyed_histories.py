"""Old rows from the state: whatever a database does and however its topics are read, the logs hold what it held."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given, settings, strategies as st

from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.facts import Record
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.iter import Iter
from tests.doubles import Crash, KeptMemory, RecordingLog
from tests.keyed_connector import FULL, KEYLESS, PREFIX, TABLES, Database, Place, delivered, lived, read, recipe
from tests.steps import killed_anywhere

Logs = dict[str, RecordingLog]
Topics = dict[Place, list[Record]]


def feed(
    capture: Capture, topics: Topics, chance: random.Random, often: float = 0.3, *, elsewhere: Recipe | None = None
) -> None:
    """Read all topics from the capture's positions on, releasing now and then, and in the end.

    With ``elsewhere``, its recipe, other processes find out what the records mean, one for each record.
    """
    for record in read(topics, chance, capture.positions()):
        if elsewhere is None:
            capture.absorb(record)
        else:
            capture.absorb_fact(pickle.loads(pickle.dumps(elsewhere.fact(record))), record.position)
        if capture.needs_ends:
            # The connector captures all tables, so they have topics, be there rows or not.
            there = {(f"{PREFIX}.{table}", 0): 0 for table in TABLES}
            capture.ends_read(there | {place: len(records) for place, records in topics.items()})
        if chance.random() < often:
            capture.release()
    capture.release()


def check(database: Database, logs: Logs) -> None:
    """The logs hold the differences from commit to commit, each once, stated up to the last."""
    said, frontiers = {}, set()
    for table, log in logs.items():
        reader = Iter(log.durable)
        updates = [(tuple(row), time, diff) for batch in reader for row, time, diff in batch.updates]
        assert len(updates) == len(set(updates))
        assert not reader.missing()
        said[table] = set(updates)
        frontiers.add(reader.frontier)
    assert database.truth() == said
    assert {Antichain([database.commits[-1][0] + 1])} == frontiers


def new_logs() -> Logs:
    """One empty log per table."""
    return {table: RecordingLog() for table in TABLES}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_any_life_of_a_database_arrives_whole(seed: int, named: bool) -> None:
    """Keyed, keyless and FULL tables, changed keys, untouched large values, TRUNCATE, records sent again."""
    chance = random.Random(seed)
    database = lived(chance)
    logs = new_logs()
    how = recipe(full_identity=frozenset({FULL, KEYLESS}) if named else frozenset())
    feed(Capture(how, logs), delivered(database, chance), chance)
    check(database, logs)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_facts_may_come_from_other_processes(seed: int) -> None:
    """As Spark's executors send them: a NaN in what a record has of a row is the NaN of every other one."""
    chance = random.Random(seed)
    database = lived(chance)
    logs = new_logs()
    how = recipe(full_identity=frozenset({FULL, KEYLESS}))
    feed(Capture(how, logs), delivered(database, chance), chance, elsewhere=how)
    check(database, logs)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["kept", "lost", "older"]))
def test_crashes_anywhere_change_nothing(seed: int, memory: str) -> None:
    """At any step, any number of times, with the memory kept, lost or set back: the state is in the logs."""
    chance = random.Random(seed)
    database = lived(chance)
    topics = delivered(database, chance)
    kept = KeptMemory()
    logs = killed_anywhere(chance, memory, new_logs(), kept, lambda logs: feed(
        Capture(recipe(), logs, memory=kept, updates_per_message=2), topics, chance
    ))
    check(database, logs)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_log_that_fails_in_the_middle_is_healed(seed: int) -> None:
    """Updates that no statement counts are no part of the state; they come again, the same."""
    chance = random.Random(seed)
    database = lived(chance)
    topics = delivered(database, chance)
    logs, kept = new_logs(), KeptMemory()
    for _ in range(6):
        for table, log in logs.items():
            call = f"{chance.choice(('send', 'flush'))} {chance.randint(1, 6)}"
            logs[table] = RecordingLog(log.durable, crash_at={call}, keep=chance.randint(0, 3))
        try:
            feed(Capture(recipe(), logs, memory=kept, updates_per_message=1), topics, chance)
        except Crash:
            continue
    logs = {table: log.again() for table, log in logs.items()}
    feed(Capture(recipe(), logs, memory=kept), topics, chance)
    check(database, logs)


@pytest.mark.parametrize("seed", range(20))
def test_a_table_that_begins_empty_needs_no_snapshot(seed: int) -> None:
    """All that it ever held is in its topic."""
    chance = random.Random(seed)
    database = lived(chance, snapshot=False)
    logs = new_logs()
    feed(Capture(recipe(snapshot="none"), logs), delivered(database, chance), chance)
    updates = {tuple(update) for log in logs.values() for batch in Iter(log.durable) for update in batch.updates}
    assert {update for said in database.truth().values() for update in said} == updates
