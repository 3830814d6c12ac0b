"""Old rows from the state, on a timeline: what is rare, captures at work together, and what cannot be known."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from cdcv2.errors import SourceStop
from tests import keyed_connector
from tests.keyed_connector import DEFAULT, delivered
from tests.capture.run.test_keyed_recorded import MANY, SMALL, columns, held
from tests.timelines import Timeline, edge, made_once, recipe, topics


@pytest.fixture
def parsed_once() -> Iterator[None]:
    """Records of the runs are not parsed and encoded over and over."""
    with made_once():
        yield


@pytest.mark.parametrize("seed", range(10))
def test_cascades_partitions_and_truncates_come_to_the_truth(seed: int) -> None:
    """A cascaded delete, a row that moves to another partition, tables truncated, rows before and after it."""
    how, records = edge(SMALL)
    timeline = Timeline(records, random.Random(seed), SMALL)
    timeline.run(how, at_most=timeline.chance.choice((3, 50)))

    assert {
        "public.parent": {}, "public.child": {}, "public.nopk": {(71, "after trunc"): 1},
        "public.part_a": {}, "public.part_b": {(120, 1): 1, (150, 2): 1},
    } == {table: dict(held(timeline.tables[table].messages)) for table in SMALL}


@pytest.mark.parametrize("seed", range(5))
def test_large_values_and_a_switch_to_full_up_to_an_added_column(seed: int) -> None:
    """A key that is changed twice, with 3000 bytes that no record has; then there is another column: a named stop."""
    table = "public.types_t"
    how, records = edge({table: MANY})
    timeline = Timeline(records, random.Random(seed), [table])
    for _ in range(2):
        with pytest.raises(SourceStop, match="'added' is new, in transaction 793"):
            timeline.run(how, at_most=timeline.chance.choice((3, 50)))
    rows = {row[0]: row for row in held(timeline.tables[table].messages)}

    assert ({1: "a3", 3: "again"}, "x" * 3000) == ({key: row[1] for key, row in rows.items()}, rows[1][2])


def test_a_column_that_only_the_snapshot_has_is_refused_by_name() -> None:
    """A generated one."""
    how, records = edge({"public.gencol": columns(id="int", gen="int")})
    timeline = Timeline(records, random.Random(1), how.tables)
    with pytest.raises(SourceStop, match="'gen' is missing, in transaction 776"):
        timeline.run(how)

    assert {(1, 2): 1} == held(timeline.tables["public.gencol"].messages)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("parsed_once")
def test_two_at_once_write_what_one_alone_writes(seed: int) -> None:
    """Into the same logs, in turns of other sizes; a third one, alone and later, into logs of its own."""
    run = "clean_default"
    both = Timeline(topics(run), random.Random(seed))
    captures = [both.opened(recipe(run), at_most=at_most) for at_most in (300, 2000)]
    idle = 0
    while idle < 20 or not both.all_seen:
        binder, capture = both.chance.choice(captures)
        moved = binder.bind(both.look())
        idle = 0 if capture.carry() or moved else idle + 1
    alone = Timeline(topics(run), random.Random(seed))
    alone.raws, alone.clock, alone.ends = both.raws, both.clock, both.ends
    alone.run(recipe(run))

    assert alone.told() == both.told()
    assert 1 < max(Counter(row for batch in both.temp.messages for row in getattr(batch, "updates", ())).values())


def test_what_cannot_be_known_stops_before_its_transaction() -> None:
    """All before it is written, also what was bound with it; the stop is the same for all, whenever they begin."""
    source = keyed_connector.Database()
    for tx, number in ((7, 1), (8, 2), (9, 3)):
        source.tx, source.orders, source.lsn = tx, Counter(), source.lsn + 10
        source.insert(DEFAULT, (number, "new", None, None, 0.0))
        if tx == 8:
            # A row whose insert is not in the topics.
            source.tables[DEFAULT].append((5, "old", None, None, 0.0))
            source.update(DEFAULT, (5, "old", None, None, 0.0), (5, "newer", None, None, 0.0))
        source.commit()
    how = keyed_connector.recipe(snapshot="none")
    records = delivered(source, random.Random(1), crashes=0)
    timeline = Timeline(records, random.Random(1), how.tables)
    timeline.ends = {place: len(found) for place, found in records.items()}
    stop = "a row of public.d was updated that is not there, the key id=5, in transaction 8"
    for _ in range(2):
        with pytest.raises(SourceStop, match=stop):
            timeline.run(how)
    told = timeline.told()
    other = Timeline(records, random.Random(2), how.tables)
    other.raws, other.clock, other.ends = timeline.raws, timeline.clock, timeline.ends
    with pytest.raises(SourceStop, match=stop):
        other.run(how)

    assert told == other.told()
    assert {(1, "new", None, None, 0.0): 1} == held(timeline.tables[DEFAULT].messages)
    left = Counter({row: diff for (row, _), diff in told["temp"][0].items()})
    assert {"halt": 1, "row": 3, "end": 2, "begun": 1, "through": 1} == Counter(row.kind for row in left)
    # What has not sent anything yet is not covered: nothing is stated of it.
    covered = [name for name in told if name == "temp" or timeline.tables[name].description().covered]
    assert DEFAULT in covered and 1 == len({str(told[name][1]) for name in covered})
