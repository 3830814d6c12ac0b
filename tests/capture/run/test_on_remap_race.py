"""Two or three captures of plain topics at once, interleaved at every request, killed and woken: one log per table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from cdcv2.capture.run.on_remap import SharedCapture, run
from cdcv2.capture.run.plain_tables import PlainTables
from cdcv2.connectors.plain import PlainRows
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.recipe import BoundRecipe
from tests.racing_captures import Process, RacingLog, World, begun, decided, times_of
from tests.strategies import Chooser, seeded

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]})
TABLES = {"a": "topic-a", "b": "topic-b"}
RECIPE = BoundRecipe({table: {"topic": topic, "row": ROWS.fingerprint} for table, topic in TABLES.items()})


def live(process: Process) -> None:
    """A capture with sizes of its own, until what the topics hold when it begins is written."""
    choose = process.world.choose
    binder, ranges = begun(process, RECIPE, frozenset(TABLES.values()), 9)
    tables = PlainTables({
        table: (topic, PlainRows(ROWS), Writer(RacingLog(process, table), updates_per_message=choose.integer(1, 3)))
        for table, topic in TABLES.items()
    })
    capture = SharedCapture(binder, ranges, [tables], at_most=choose.integer(1, 12))
    run(capture, binder)


def race(choose: Chooser) -> bool:
    """Draw it, run it, judge it; whether the remap was compacted in it."""
    world = World(choose)
    left = [choose.integer(0, 25)]

    def grow() -> bool:
        if left[0]:
            left[0] -= 1
            value = f'{{"text": "{choose.pick("xyz")}"}}'.encode()
            # Partitions come in any order, and some stay silent.
            world.produce(choose.pick(sorted(TABLES.values())), choose.integer(0, 2), value)
        return left[0] > 0

    world.race(live, grow, choose.integer(20, 400))
    judge(world)
    return world.first > 0


def judge(world: World) -> None:
    """The logs against the definition on the final remap; no reader finds a contradiction."""
    decisions = decided(world.remap)
    time_of = times_of(decisions)
    for table, topic in TABLES.items():
        told: Counter[tuple[str, int]] = Counter()
        reader = Iter(world.logs[table])
        for batch in reader:
            for row, time, diff in batch.updates:
                told[row.text, time] += diff
        expected: Counter[tuple[str, Any]] = Counter()
        for (of, _), records in world.topics.items():
            for record in records if of == topic else []:
                text = (record.value or b"").decode().split('"')[3]
                expected[text, time_of((topic, record.partition), record.offset)] += 1

        assert expected == told
        assert Antichain([decisions[-1].upper]) == reader.frontier
        assert not reader.missing()


@pytest.mark.parametrize("hundred", range(2))
def test_captures_that_race_write_one_history(hundred: int) -> None:
    """Whatever is drawn."""
    compacted = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        try:
            compacted += race(seeded(seed))
        except BaseException:
            print(f"seed {seed}")
            raise

    assert compacted > 10


def test_something_happens_in_the_races() -> None:
    """Captures are killed, and wake after others have continued; proposals are void; logs have duplicates."""
    void = repeats = 0
    for seed in range(20):
        world = World(seeded(seed))
        world.processes = [Process(world, f"c{at}", live, 4) for at in range(3)]
        left = [20]

        def grow(world: World = world, left: list[int] = left) -> bool:
            left[0] -= 1
            world.produce("topic-a", left[0] % 2, b'{"text": "x"}')
            return left[0] > 0

        try:
            world.run(grow, 200)
        finally:
            world.close()
        won = decided(world.remap)
        void += len(world.remap) - len(won)
        reader = Resolver()
        for message in world.logs.get("a", []):
            reader.absorb(message)
        repeats += reader.counters["repeats"] + reader.counters["late"]

    assert void > 5 and repeats > 20
