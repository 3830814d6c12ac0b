"""Captures that look old rows up, interleaved at every request and killed: what the tables held, at its times, once."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import accumulate
from typing import Any

from cdcv2.capture.facts import Record
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Updates
from cdcv2.timeline.recipe import BoundRecipe
from tests.keyed_connector import PREFIX, TABLES, Database, delivered, lived, recipe
from tests.racing_captures import Decision, World, capturing, decided
from tests.strategies import Chooser, seeded
from tests.timelines import NOTIFICATIONS, notified

Place = tuple[str, int]
Topics = dict[Place, list[Record]]
Told = dict[str, set[tuple[Any, int, int]]]


def topics_of(lived_through: Database, chance: random.Random, snapshot: bool) -> Topics:
    """What the connector leaves, notifications about the snapshot among it."""
    topics = delivered(lived_through, chance)
    if snapshot:
        scanned = Counter(topic for topic, _, value in lived_through.sent if value and value.get("op") == "r")
        counted = [("TABLE_SCAN_COMPLETED", table, scanned[f"{PREFIX}.{table}"]) for table in TABLES]
        said: list[Any] = [("STARTED", None, None), *counted, ("COMPLETED", None, None)]
        topics[NOTIFICATIONS, 0] = [notified(at, *one) for at, one in enumerate(said)]
    return topics


def called(record: Record) -> Any:
    """What must have come before a commit is given out: rows by their place, Ends; of the snapshot everything."""
    body = None if record.value is None else json.loads(record.value)
    if body is None or body.get("status") == "BEGIN":
        return None
    if record.topic == NOTIFICATIONS or body.get("op") == "r":
        return "snapshot", record.topic, record.partition, record.offset
    if body.get("status") == "END":
        return "end", int(body["id"].split(":")[0])
    return "row", body["source"]["txId"], body["transaction"]["total_order"]


def by_definition(history: Database, topics: Topics, decisions: list[Decision[Place]]) -> Told:
    """At each time what the tables held after the last commit that is released, less what they held before.

    A commit is given out when all of it is bound and, in their order, all before it are.
    """
    names = {place: [called(record) for record in records] for place, records in topics.items()}
    everything = {name for of_place in names.values() for name in of_place if name is not None}
    ends = [value["id"] for topic, _, value in history.sent if topic.endswith(".transaction")]
    needed = [{name for name in everything if name[0] == "snapshot"}]
    for tx in (int(end.split(":")[0]) for end in ends):
        needed.append({name for name in everything if name[0] != "snapshot" and name[1] == tx})
    needed = list(accumulate(needed, set.union))
    told: Told = {table: set() for table in TABLES}
    before: dict[str, Counter[Any]] = {table: Counter() for table in TABLES}
    for decision in decisions:
        bound = {name for place, of_place in names.items() for name in of_place[:decision.place.get(place, 0)]}
        given = sum(needs <= bound for needs in needed)
        now = history.commits[given - 1][1] if given else {table: Counter() for table in TABLES}
        for table in TABLES:
            for row in before[table].keys() | now[table].keys():
                if now[table][row] != before[table][row]:
                    told[table].add((row, decision.upper - 1, now[table][row] - before[table][row]))
        before = now
    return told


def race(choose: Chooser, snapshot: bool) -> None:
    """Draw it, run it, judge it."""
    chance = random.Random(choose.integer(0, 2**32))
    history = lived(chance, snapshot=snapshot)
    topics = topics_of(history, chance, snapshot)
    world, how = World(choose), recipe(snapshot="initial" if snapshot else "none", notification_topic=NOTIFICATIONS)
    lanes = {place: iter(records) for place, records in topics.items()}
    order = [place for place, records in sorted(topics.items()) for _ in records]
    coming = [order[at] for at in sorted(range(len(order)), key=lambda at: at + chance.choice((0, 5, 50)) * at % 97)]

    def grow() -> bool:
        for place in coming[:chance.randint(1, 5)]:
            record = next(lanes[place])
            world.topics.setdefault(place, []).append(record)
            coming.pop(0)
        return bool(coming)

    bound = BoundRecipe({table: {"database": PREFIX} for table in how.tables})
    world.race(capturing(how, bound), grow, choose.integer(20, 300))
    judge(world, by_definition(history, topics, decided(world.remap)))


def judge(world: World, expected: Told) -> None:
    """The logs against the definition on the final remap; nothing is left in TEMP."""
    upper = Antichain([decided(world.remap)[-1].upper])
    # Nothing is stated of the tables of a database without a record.
    stated = upper if any(isinstance(one, Updates) for one in world.logs["temp"]) else Antichain([0])
    for table in TABLES:
        reader = Iter(world.logs[table])
        told = {(tuple(row), time, diff) for batch in reader for row, time, diff in batch.updates}

        assert expected[table] == told, table
        assert (stated, False) == (reader.frontier, bool(reader.missing()))
    held: Counter[Any] = Counter()
    for batch in Iter(world.logs["temp"]):
        for row, _, diff in batch.updates:
            held[row] += diff
    assert {"begun", "through"} >= {row.kind for row, number in held.items() if number}


def test_captures_that_look_rows_up_write_one_history() -> None:
    """Whatever is drawn: the state of each is what all of them wrote, up to exactly where it goes on."""
    for seed in range(60):
        try:
            race(seeded(seed), snapshot=seed % 3 > 0)
        except BaseException:
            print(f"seed {seed}")
            raise
