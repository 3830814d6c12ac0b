"""One history, every way to capture: each must release, and stop, as an independent judge does.

Transactions over several tables and partitions; records sent again; ENDs that are torn, lost, late or contradict each
other; snapshots broken off, taken twice, or late; TRUNCATE; restarts with and without memory; kills between
statements; any cut of bindings. Thousands more of these histories are in the long runs.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.errors import RefusedError, UsageError
from tests.every_way import pure
from tests.every_way.compare import Case, Different
from tests.every_way.connector import PREFIX, TRANSACTIONS
from tests.every_way.database import KEYED, KEYLESS, RARE, SNAPSHOT_LSN
from tests.every_way.judge import Way
from tests.every_way.ways import ROADS, checked
from tests.every_way.world import (
    ANOTHER_NUMBER, ANOTHER_PLACE, EARLY_BEGIN, FEATURES, LATE_TABLE, MISHAPS, REPLACED_TASK, World, drawn,
)

#: Histories of each block, all of whose mishaps are drawn.
BLOCKS, SEEDS = 4, 20


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_way_says_what_happened(block: int) -> None:
    """Facts by transaction, stops by the transaction at which they stand, of any history, however it is read."""
    first, came = block * SEEDS, Counter[str]()
    for world, road, result in checked(range(first, first + SEEDS), FEATURES):
        came[road.name] += 1
        came["stopped"] += result.stop is not None
        came["gave out"] += bool(result.facts)

    assert {road.name for road in ROADS} <= came.keys() and came["stopped"] and came["gave out"]


@pytest.mark.parametrize("mishap", [mishap for mishap in FEATURES if mishap in MISHAPS])
def test_each_mishap_happens(mishap: str) -> None:
    """Or the test above would prove less than it claims: one in which it does, every way."""
    seed = next(seed for seed in range(500, 600) if mishap in drawn(seed, [mishap]).mishaps)
    ways = {road.name for _, road, _ in checked([seed], [mishap])}

    assert ways <= {road.name for road in ROADS} and ways


@pytest.mark.parametrize("feature", [ANOTHER_NUMBER, ANOTHER_PLACE])
def test_rows_that_are_numbered_otherwise_stop_every_way(feature: str) -> None:
    """A row is sent again with another number than at first, or its number at another place: none calls it a copy."""
    seeds = [seed for seed in range(2000, 2100) if feature in drawn(seed, [feature]).mishaps][:6]
    stops = [(road, came.stop) for _, road, came in checked(seeds, [feature]) if came.stop is not None]

    assert {road.name for road, _ in stops} == {road.name for road in ROADS}
    assert any("two different rows" in stop for _, stop in stops)


def test_a_transaction_of_which_only_a_begin_is_left_is_passed_by_in_no_way() -> None:
    """Its END and all its rows are lost; a later END shows it, in whatever order and however often records come."""
    seed = next(seed for seed in range(500, 600) if drawn(seed).shows_a_lost_end)
    stops = {road.name: came.stop for _, road, came in checked([seed], FEATURES)}

    assert len(stops) > 3 and all(stop and "is missing: it comes" in stop for stop in stops.values())


def test_a_begin_before_the_end_before_it_stops_every_way() -> None:
    """Its own END comes behind that, and is read with it or later, by any life."""
    seeds = [seed for seed in range(2000, 2100) if EARLY_BEGIN in drawn(seed, [EARLY_BEGIN]).mishaps][:4]
    stops = [(road.name, came.stop) for _, road, came in checked(seeds, [EARLY_BEGIN])]

    assert {road.name for road in ROADS} == {name for name, _ in stops} and len(seeds) == 4
    assert all(stop is not None and "is missing: it comes" in stop for _, stop in stops)


def test_a_replaced_task_that_sends_once_more_stops_no_way() -> None:
    """Whatever it sends, and wherever that stands behind its first copies."""
    seeds = [seed for seed in range(3000, 3200) if REPLACED_TASK in drawn(seed, [REPLACED_TASK]).mishaps][:6]
    stops = [(road.name, came.stop) for _, road, came in checked(seeds, [REPLACED_TASK])]

    assert {road.name for road in ROADS} == {name for name, _ in stops} and len(seeds) == 6
    assert not any(stop for _, stop in stops)


def test_an_old_row_may_be_missing_as_what_is_given_out_with_it_is_wrong() -> None:
    """END does not count a transaction, and the next one is whole at the same time: its old row is not there."""
    world = drawn(401957, [feature for feature in FEATURES if feature not in ("early END", "one place")])
    assert "old connector" in world.mishaps and (183, 1033) == (world.transactions[0].tx, world.transactions[0].commit)
    (road,) = [road for road in ROADS if road.name == "remap, from state"]

    assert "that is not there" in str(road.check(world).stop)


def test_a_truncate_takes_away_what_was_there_also_where_end_counts_too_few_rows() -> None:
    """The transaction is given out before the row is read that shows it: what it did is not what it really did."""
    world, (_, road, *_) = drawn(576, ["TRUNCATE", "torn END"]), ROADS

    assert ("TRUNCATE", "torn END") == world.mishaps and "but its END" in str(road.check(world).stop)


def test_without_its_memory_a_capture_knows_how_many_rows_a_snapshot_had() -> None:
    """One was sent twice, and released in place of another: it stops at the one that is too many, not at that other."""
    world, (road, *_) = drawn(205, ["one snapshot row more"]), ROADS
    came = road.check(world)

    assert came.stop is not None and "which is none of the rows that were released" in came.stop
    assert [SNAPSHOT_LSN, world.transactions[0].commit] == sorted(came.facts)


def test_what_a_killed_life_sent_and_did_not_flush_says_nothing_of_the_next_one() -> None:
    """It had read another four rows of the snapshot than the life that wrote them, and one of these is there twice."""
    world, (road, *_) = drawn(503453, FEATURES), ROADS
    came = road.check(world)

    assert ("one snapshot row more",) == world.mishaps
    assert came.facts[SNAPSHOT_LSN]["public.a"] == {(2, "y"): 1, (4, "y"): 2, (1, "x"): 1}
    assert came.stop is not None and "which is none of the rows that were released" in came.stop


def test_each_table_of_a_snapshot_is_what_was_known_when_its_log_was_stated() -> None:
    """One row is there twice and another is late: by numbers it is whole, as a killed life and the next one read it.

    Each read other rows, and the killed one had written, but not stated, a table. Stated is what the next one knew.
    """
    world = drawn(702949, FEATURES)
    world.transactions.clear()
    for sent in world.entries.values():
        sent[:] = [one for one in sent if one.what in ("read", "note")]
    keyless = f"{PREFIX}.{KEYLESS}"
    assert {0: 3, 1: 2, 2: 1} == {part: len(sent) for (topic, part), sent in world.entries.items() if topic == keyless}
    ends = ({(keyless, 1): 2, (keyless, 2): 0}, {(keyless, 1): 1, (keyless, 2): 1}, {})
    lives = [pure.Life(random.Random(0), world.whole | end, ["writer.updates-sent"]) for end in ends]
    for life in lives:
        life.step, life.nth, life.memory = None, 2, "kept"
    lives[0].step = "writer.updates-sent"
    came = pure.by_commits(world, Way(), 0, lives)
    (_, done, _), (_, stop, _) = came.lives

    assert came.facts[SNAPSHOT_LSN][KEYLESS] == {(4, "x"): 1, (2, "z"): 2, (1, "y"): 2}
    assert done is None and stop is not None and "which is none of the rows that were released" in stop
    case = Case("commit times", world, Way(), came)
    case.check()
    assert (1, 1) == tuple(came.given[KEYLESS][0].cut[keyless, part] for part in (1, 2))
    for part, why in ((1, "was not whole"), (0, f"of {KEYLESS} in 0, at {SNAPSHOT_LSN}, wanted is")):
        one = came.given[KEYLESS][0]
        # As if it had read a row less; or that one, and another one in its place.
        fewer = one.cut | ({(keyless, 1): 0} if part else {(keyless, 1): 2, (keyless, 2): 0})
        came.given[KEYLESS] = [replace(one, cut=fewer)]
        with pytest.raises(Different, match=why):
            case.check()


def test_logs_that_hold_another_release_of_a_snapshot_are_refused() -> None:
    """A row of it is there twice, and a killed life had flushed other rows than the next one reads first."""
    world, (road, *_) = drawn(612408, FEATURES), ROADS
    came = road.check(world)

    assert "one snapshot row more" in world.mishaps and came.stop is not None
    assert any(stop is not None and "another history than the log's" in stop for _, stop, _ in came.lives)


def test_a_transaction_that_may_have_been_begun_twice_stops_a_remap_where_it_did() -> None:
    """The transaction topic lost the first of two BEGINs, which was bound, and the second one stopped the capture."""
    world = drawn(604032, FEATURES)
    stops = {road.name: road.check(world).lives for road in ROADS if road.bound}

    assert ("old connector",) == world.mishaps and world.forgets
    for lives in stops.values():
        words = {stop for _, stop, _ in lives if stop is not None}
        assert any("two BEGINs, one directly after the other, cannot be known" in stop for stop in words)
        assert len({upper for _, stop, upper in lives if stop is not None}) == 1


def test_an_end_that_the_topic_lost_contradicts_nothing_when_it_comes_again() -> None:
    """As complete: what it counted was not known when the transactions before it were given out, and not nothing."""
    world, road = drawn(942578, [feature for feature in FEATURES if feature != REPLACED_TASK]), ROADS[-1]
    came = road.check(world)

    assert came.forgot and came.stop is None


def test_the_steps_that_are_drawn_are_all_that_there_are() -> None:
    """A new step of a capture is killed at, too, once it stands in the list."""
    both = {name for name in failpoints.KNOWN if name.startswith(("release.", "writer."))}
    bound = {name for name in failpoints.KNOWN if name.startswith(("shared-capture.", "coverage."))}

    assert (both - {release_order.TEMP_STATED}, {*bound, release_order.TEMP_STATED}) == (
        set(pure.PLAIN_STEPS), {*pure.BOUND_STEPS} - {*pure.PLAIN_STEPS}
    )
    assert {*pure.SPILL_STEPS} == {name for name in failpoints.KNOWN if name.startswith("spill.")}


def test_a_stop_lasts_for_what_it_names() -> None:
    """Two ENDs of what is not given out are judged again, whatever an older transaction, which is passed, has."""
    world, (road, *_) = drawn(609813, FEATURES), ROADS
    came = road.check(world)
    (cut, stop, upper), *_ = (life for life in came.lives if life[1] is not None)
    case = Case(road.name, world, road.way, came)

    assert stop is not None and "END 1112 states both that transaction 375" in stop and came.stop is None
    assert not case.is_lasting(cut, upper, stop) and case.is_lasting(cut, upper, stop.replace("375", "300"))
    came.lives[0] = cut, stop.replace("375", "77"), upper
    with pytest.raises(Different, match="the stop names none of"):
        case.check()


def test_a_stop_that_speaks_of_a_second_snapshot_is_for_no_other_cause() -> None:
    """Rows of it are there twice, and what is stated of the first one, which is empty, has nothing to do with that."""
    world, (road, *_) = drawn(800468, FEATURES), ROADS
    came = road.check(world)
    cut, stop, upper = came.lives[-1]
    case = Case(road.name, world, road.way, came)

    assert ("late snapshot row", "second snapshot") == world.mishaps and stop is not None and not came.lasting
    assert "rows of a second snapshot" in stop and not case._is_of_stated(cut, upper, stop)
    assert case._is_of_stated(cut, upper, stop.replace("rows of a second", "more rows of the"))


def test_a_row_that_the_logs_lack_of_the_snapshot_that_they_hold_is_a_stop_that_lasts() -> None:
    """It is a later one: as many of its rows as the first one has were there first, and these are equal, too."""
    world, (road, *_) = drawn(806164, FEATURES), ROADS
    came = road.check(world)

    assert ("second snapshot",) == world.mishaps and {1135} == came.facts.keys() and came.stop is not None
    assert "public.c stands at" in came.stop and {came.stop} == came.lasting
    case = Case(road.name, world, road.way, came)
    assert not case._is_of_a_later_snapshot(world.stages[0], case.released(came.upper))


def without_begin(world: World, tx: int) -> World:
    """Nothing else stands in place of it. With it, the END would be missed before a later one is given out."""
    sent = world.entries[TRANSACTIONS, 0]
    gone = [(one.what, one.tx) == ("begin", tx) for one in sent]
    sent[:] = [replace(one, what="tombstone", value=None) if left else one for one, left in zip(sent, gone)]
    return world


def test_a_table_that_was_begun_before_a_late_end_lacks_what_it_brings() -> None:
    """Its first change took away a row from before it was covered, and was not known when the table began."""
    world, (road, *_) = without_begin(drawn(800818, FEATURES), 357), ROADS
    came = road.check(world)
    cut, stop, upper = came.lives[-1]

    assert ("late END",) == world.mishaps and world.late and {(4, "z"): 1} == came.facts[1046][RARE]
    assert stop is not None and "END 1036 of transaction 357 came for the first time after" in stop
    came.lives[-1] = cut, None, upper
    with pytest.raises(Different, match="it must stop"):
        Case(road.name, world, road.way, came).check_commits()


def test_a_truncate_that_its_end_does_not_count_is_no_duplicate_behind_it() -> None:
    """The connector was restarted inside its transaction, and it is read when that was given out as an empty one."""
    world, (road, *_) = drawn(803941, FEATURES), ROADS
    came = road.check(world)

    assert ("TRUNCATE", "old connector") == world.mishaps and came.stop is not None
    assert "numbered 1, but its END 1021 counts 0; the logs are stated beyond it" in came.stop
    assert {came.stop} == came.lasting


def test_a_row_may_be_there_already_as_its_delete_is_lost_and_not_counted() -> None:
    """From state its insert stops the capture: no record shows what was given out too much."""
    world = drawn(807073, FEATURES)
    assert ("lost row", "torn END") == world.mishaps
    for road in (road for road in ROADS if road.way.state):
        stop = road.check(world).stop
        assert stop is not None and "with the key id=4 was inserted, and there is one already" in stop


def test_a_truncate_from_state_takes_away_what_the_logs_hold() -> None:
    """A row that an END does not count came when that END was older than what a capture knows, so no log has it."""
    (road,) = [road for road in ROADS if road.name == "commit times, from state"]
    world = drawn(801672, FEATURES)
    came = road.check(world)
    taken = came.facts[1108][KEYLESS]

    assert ("TRUNCATE", "torn END") == world.mishaps and came.stop is None and -2 == taken[2, "x"]
    for wrong in (-1, -4):
        taken[2, "x"] = wrong
        with pytest.raises(Different, match="were passed by"):
            Case(road.name, world, road.way, came).check_commits()


def test_a_table_that_is_covered_late_begins_stops_or_is_left_out() -> None:
    """As its first record is an insert, as a row from before is changed later, or as that is its first record."""
    came = Counter[str]()
    for world, road, result in checked(range(945, 970), [LATE_TABLE]):
        begun = any(facts[RARE] for facts in result.facts.values())
        came["begun" if begun else "left out" if road.takes(world) and world.late else "other"] += 1
        came["stopped"] += result.stop is not None and "public.c was" in result.stop

    assert came["begun"] and came["left out"] and came["stopped"]


def test_what_a_way_is_documented_to_refuse_is_refused() -> None:
    """A state without the order of commits; on a remap a snapshot without notifications."""
    world = drawn(3, ())
    assert "notified" == world.snapshot
    with pytest.raises(RefusedError, match="needs the state before each transaction"):
        pure.Timeline(world, random.Random(0)).run(world, Way("complete", state=True))
    marked = next(world for world in (drawn(seed, ()) for seed in range(99)) if world.snapshot == "marked")
    with pytest.raises(UsageError, match="--notifications"):
        pure.Timeline(marked, random.Random(0)).run(marked, Way())


#: For some mishaps a capture by commit times stops as soon as it reads them, whatever is whole before them then: the
#: next start gives out more of that (docs/operations/stops.md). For all others it stops when their turn comes.
WHEN = (("lost END", 8, "due"), ("torn END", 21, "due"), ("another row", 22, "due"), ("TRUNCATE", 11, "due"),
        ("two ENDs", 50, "at once"), ("late END", 8, "at once"))  # fmt: skip


@pytest.mark.parametrize(("mishap", "seed", "when"), WHEN)
def test_what_is_whole_before_a_stop_is_given_out_first(mishap: str, seed: int, when: str) -> None:
    """Or else it is one that is documented to stop a capture at once."""
    world, (road, *_) = drawn(seed, [mishap]), ROADS
    came = road.check(world)
    case = Case(road.name, world, road.way, came)
    (cut, stop, upper), earlier = came.lives[-1], sorted(came.facts)[-2]
    assert stop is not None and not came.lasting and earlier < upper

    # As if it had stopped before the last transaction but one that it gave out.
    came.lives[-1] = cut, stop, earlier
    if when == "at once":
        case.check()
    else:
        with pytest.raises(Different, match="are whole at .*, before the stop, and not given out"):
            case.check()


def test_on_a_remap_a_stop_is_for_what_is_new_at_its_time_or_certain() -> None:
    """Another row has the number of one whose END has not come: it stops where that is bound, or not for that."""
    world = drawn(0, ["another row"])
    (road,) = [road for road in ROADS if road.name == "remap"]
    came = road.check(world)

    assert came.stop is not None and "two different rows" in came.stop and came.upper < max(came.cuts)
    came.upper += 1
    came.lives = [(cut, stop, upper + (stop is not None)) for cut, stop, upper in came.lives]
    with pytest.raises(Different, match=f"it goes no further than {came.upper}"):
        Case(road.name, world, road.way, came, bound=True).check()


@pytest.mark.parametrize("name", ["commit times", "remap"])
def test_a_stop_that_lasts_is_kept_in_every_log(name: str) -> None:
    """With no memory, and nothing in the topics that need not be there, it is the same; and only such a stop is."""
    (road,) = [road for road in ROADS if road.name == name]
    case = next(
        case for case in (Case(name, world, road.way, road.check(world), bound=road.bound)
                          for world in (drawn(seed, ["torn END"]) for seed in range(60)) if road.takes(world))
        if case.came.lasting
    )
    (stop,) = case.came.lasting
    case.check_kept()

    for came in (
        replace(case.came, kept=case.came.kept | {KEYED: set()}), replace(case.came, afterwards=[None]),
        replace(case.came, lasting=set(), kept={}), replace(case.came, lasting={stop, "another one"}),
    ):
        case.came = came
        with pytest.raises(Different):
            case.check_kept()


def test_a_lost_end_is_kept_when_it_is_known_that_the_topics_are_those_of_the_logs() -> None:
    """Its state is lost, and a slot that was lost could explain it, as far as its topics were read."""
    world, (road, *_) = without_begin(drawn(99, FEATURES), 177), ROADS
    came = road.check(world)
    stops = {stop for _, stop, _ in came.lives if stop is not None}

    assert ("late END",) == world.mishaps and 1 == len(stops)
    assert all(kept == stops == came.lasting for kept in came.kept.values())


def test_the_judge_notices() -> None:
    """A row that is missing, one at another transaction, a stop for nothing, and what is whole and not given out."""
    world, road, came = next(
        found for found in checked(range(200), ())
        if len([time for time in found[2].facts if any(found[2].facts[time].values())]) > 2 and not found[1].bound
    )
    first, second, *_ = sorted(came.facts)
    table = next(table for table, rows in came.facts[second].items() if rows)
    row = next(iter(came.facts[second][table]))

    def check() -> None:
        Case(road.name, world, road.way, came).check()

    check()
    number = came.facts[second][table].pop(row)
    with pytest.raises(Different, match=f"at {second}, wanted"):
        check()
    came.facts[first][table][row] += number
    with pytest.raises(Different, match=f"at {first}, wanted"):
        check()
    came.facts[first][table][row] -= number
    came.facts[second][table][row] = number
    cut, _, upper = came.lives[-1]
    came.lives[-1] = cut, "it is full moon", upper
    with pytest.raises(Different, match="a false stop"):
        check()
    came.lives[-1] = cut, None, second
    with pytest.raises(Different, match="are whole .* and not given out"):
        check()
