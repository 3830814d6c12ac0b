"""Captures of a database at once, interleaved at every request and killed: whole transactions, at their times, once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cdcv2.capture.facts import End, Notification, RowFact, SnapshotRow
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.core.changes import ChangeBatch
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Updates
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER
from cdcv2.timeline.recipe import BoundRecipe
from tests.connector import PREFIX, History, Topics, histories, sent
from tests.envelopes import value
from tests.racing_captures import Decision, Place, World, capturing, decided
from tests.strategies import Chooser, seeded

A, B = "public.a", "public.b"
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]})
Told = dict[str, set[tuple[Any, int, int]]]


def recipe(snapshot: bool) -> Recipe:
    """Tables a and b of the model."""
    kind = "initial" if snapshot else "none"
    return Recipe(PREFIX, {A: ROWS, B: ROWS}, snapshot=kind, notification_topic="notifications")


def by_definition(
    history: History, topics: Topics, decisions: list[Decision[Place]], snapshot: bool, ordered: bool
) -> Told:
    """Each transaction at the first time at which all of it is bound and, in their order, all before it is."""
    told: Told = {A: set(), B: set()}
    done, through = set[Any](), not snapshot
    for decision in decisions:
        facts = [
            fact for place, entries in topics.entries.items() for fact in entries[:decision.place.get(place, 0)]
        ]
        rows = {(fact.tx, fact.order) for fact in facts if isinstance(fact, RowFact)}
        ends = {fact.tx for fact in facts if isinstance(fact, End)}
        scanned = [fact for fact in facts if isinstance(fact, SnapshotRow)]
        completed = any(isinstance(fact, Notification) and fact.kind == "COMPLETED" for fact in facts)
        if not through and completed and len(scanned) == sum(history.snapshot.values()):
            through = True
            for row in scanned:
                told[row.table].add((row.row, decision.upper - 1, 1))
        for one in history.transactions if through else ():
            captured = {(one.tx, order) for order, table in enumerate(one.rows, 1) if table in told}
            if one.tx not in ends or not captured <= rows:
                if ordered:
                    break
                continue
            if one.tx not in done:
                done.add(one.tx)
                for order, table in enumerate(one.rows, 1):
                    if table in told:
                        told[table].add((f"{table} {one.tx}.{order}", decision.upper - 1, 1))
    return told


def race(choose: Chooser, snapshot: bool, ordering: str) -> None:
    """Draw it, run it, judge it."""
    chance = random.Random(choose.integer(0, 2**32))
    history = histories(chance, snapshot=snapshot)
    topics = sent(history, chance, notified=snapshot)
    world, how = World(choose), recipe(snapshot)
    bound = BoundRecipe({table: {"database": PREFIX, "row": ROWS.fingerprint} for table in how.tables})
    coming = [
        (place, value(fact, PREFIX)) for place, entries in sorted(topics.entries.items()) for fact in entries
    ]
    order = sorted(range(len(coming)), key=lambda at: at + chance.choice((0, 5, 50)) * chance.random())
    # Each partition in its own order, the partitions mixed.
    lanes = {place: iter([raw for at, raw in coming if at == place]) for place in topics.entries}
    places = [coming[at][0] for at in order]

    def grow() -> bool:
        for place in places[:chance.randint(1, 5)]:
            world.produce(*place, next(lanes[place]))
            places.pop(0)
        return bool(places)

    world.race(capturing(how, bound, ordering), grow, choose.integer(20, 300))
    judge(world, by_definition(history, topics, decided(world.remap), snapshot, ordering == COMMIT_ORDER))


def judge(world: World, expected: Told) -> None:
    """The logs against the definition on the final remap; TEMP is a set at each time, and little is left in it."""
    upper = Antichain([decided(world.remap)[-1].upper])
    # Nothing is stated of the tables of a database without a record.
    stated = upper if any(isinstance(one, Updates) for one in world.logs["temp"]) else Antichain([0])
    for table in (A, B):
        reader = Iter(world.logs[table])
        told = {(row.text, time, diff) for batch in reader for row, time, diff in batch.updates}

        assert expected[table] == told
        assert (stated, False) == (reader.frontier, bool(reader.missing()))
    reader = Iter(world.logs["temp"])
    held: ChangeBatch[Any] = ChangeBatch()
    for batch in reader:
        for row, _, diff in sorted(batch.updates, key=lambda update: update[1:]):
            held.update(row, diff)
        assert {1} >= {diff for _, diff in held}
    assert upper == reader.frontier
    assert {"begun", "through"} >= {row.kind for row, _ in held}, "everything was whole in the end"


@pytest.mark.parametrize("snapshot, ordering", [(True, COMMIT_ORDER), (False, COMMIT_ORDER), (True, AS_COMPLETE)])
def test_captures_of_a_database_that_race_write_one_history(snapshot: bool, ordering: str) -> None:
    """Whatever is drawn."""
    for seed in range(30):
        try:
            race(seeded(seed), snapshot, ordering)
        except BaseException:
            print(f"seed {seed}")
            raise
