"""Old rows from the state, by commit times, through Spark: the true tables, whatever dies and whatever is lost."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.connector import FROM_ENVELOPE, FROM_STATE
from cdcv2.capture.facts import Record
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.errors import DecodeError, ForeignStateError, SourceStop
from cdcv2.protocol.iter import Iter
from cdcv2.spark.capture.job import parser, planned
from tests.doubles import RecordingLog
from tests.keyed_connector import read
from tests.keyed_connector import recipe as keyed_recipe
from tests.lost_slots import World
from tests.recorded import CHECKPOINTS, HOME, TABLES, checkpoint_time, content, dump, recipe, truth
from tests.spark.capturing import CaptureRun, dump_into, facts_of
from tests.timelines import NOTIFICATIONS, topics

pytestmark = pytest.mark.spark

RUN = "clean_default"
#: Of a life with two slots in which the first run stops before the second snapshot.
SEED = 0
#: Recorded records, in so many micro-batches of which each releases something.
RECORDS, BATCHES = 1200, 4


def how(run: str = RUN, before: str = FROM_STATE) -> Recipe:
    """A capture that looks old rows up, or not, and knows how many rows the snapshot has."""
    return recipe(run, before=before, notification_topic=NOTIFICATIONS)


def test_the_tables_are_true_at_ten_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    """Under load and at rest, and behind the TRUNCATE, with REPLICA IDENTITY DEFAULT."""
    run = CaptureRun(tmp_path, recipe(RUN, before=FROM_STATE))
    records = list(dump(RUN).read())
    dump_into(tmp_path / "topics", records, size=len(records) // 4 + 1)
    run.run(spark)
    tags = [*CHECKPOINTS, "final"]
    times = [checkpoint_time(RUN, tag) for tag in tags]
    for table in TABLES:
        assert [truth(RUN, tag, table) for tag in tags] == content(run.messages(table), table, *times), table


@cache
def first(run: str) -> list[Record]:
    """The first records of a recorded run, behind the notifications that it would have had."""
    return [*topics(run)[NOTIFICATIONS, 0], *list(dump(run).read())[:RECORDS]]


@cache
def expected(run: str) -> dict[str, tuple[set[object], object]]:
    """What the capture without Spark makes of them."""
    logs: dict[str, RecordingLog] = {table: RecordingLog() for table in TABLES}
    with Capture(how(run), logs) as capture:
        for record in first(run):
            capture.absorb(record)
        capture.release()
    return facts_of({table: log.durable for table, log in logs.items()})


def begun(folder: Path, run: str = RUN) -> CaptureRun:
    """A capture of them that has not run."""
    dump_into(folder / "topics", first(run), size=RECORDS // BATCHES)
    return CaptureRun(folder, how(run))


def found(run: CaptureRun) -> dict[str, tuple[set[object], object]]:
    """What the logs hold."""
    return facts_of({table: run.messages(table) for table in TABLES})


#: One life after the other: where it dies, and which folder of its state is lost then.
LIVES = [
    ("release.table-written", 2, "checkpoint"), ("release.table-stated", 3, "memory"), ("release.stated", 1, None),
    ("release.remembered", 1, "."), ("release.table-stated", 3, None), ("spark-capture.counted", 2, "memory"),
]


def uppers(run: CaptureRun) -> set[Antichain]:
    """How far readers of the logs come."""
    found = set[Antichain]()
    for table in TABLES:
        reader = Iter(run.messages(table))
        list(reader)
        found.add(reader.frontier)
    return found


def test_died_anywhere_its_state_is_what_the_logs_say(spark: SparkSession, tmp_path: Path) -> None:
    """Between the writes of two tables, between statements and memory; with checkpoint, memory or both lost."""
    run, ahead = begun(tmp_path), 0
    for step, nth, lost in LIVES:
        with failpoints.placed(step, nth), pytest.raises(failpoints.PlacedCrash):
            run.run(spark)
        ahead += len(uppers(run)) > 1
        if lost is not None:
            shutil.rmtree(run.state / lost, ignore_errors=True)
    assert 3 == ahead, "some logs were ahead of others"
    run.run(spark)
    assert expected(RUN) == found(run)

    shutil.rmtree(run.logs / "public.orders")
    with pytest.raises(ForeignStateError, match="of a log that is missing"):
        run.run(spark)


def test_one_that_stopped_for_want_of_old_rows_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """In the same logs and with the same memory, with the option to look them up; and then again as before."""
    run = begun(tmp_path)
    run.recipe = how(before=FROM_ENVELOPE)
    with pytest.raises(SourceStop, match="--before from-state") as caught:
        run.run(spark)
    run.recipe = how()
    run.run(spark)
    assert expected(RUN) == found(run)
    assert "resumes from its memory" in run.said.getvalue()
    read = [int(number) for number in re.findall(r"read (\d+) records", run.said.getvalue())]
    assert 0 < read[-1] < len(first(RUN)), "what was released is not read again"
    assert uppers(run) != {caught.value.frontier}
    run.recipe = how(before=FROM_ENVELOPE)
    assert 0 == run.run(spark).transactions


def test_a_record_that_is_none_stops_it_behind_all_that_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Each time it is started; and it goes on where the record is what it should be."""
    run = CaptureRun(tmp_path, how())
    records = list(first(RUN))
    at = max(at for at, record in enumerate(records[:700]) if record.topic.endswith("public.orders"))
    good, records[at] = records[at], records[at]._replace(value=b"{]")
    dump_into(tmp_path / "topics", records, size=RECORDS // BATCHES)
    for _ in range(2):
        with pytest.raises(DecodeError, match="clean_default.public.orders") as caught:
            run.run(spark)
        assert str(good.position) in str(caught.value)
    [frontier] = uppers(run)
    assert not frontier.less_equal(0)
    records[at] = good
    shutil.rmtree(tmp_path / "topics")
    dump_into(tmp_path / "topics", records, size=RECORDS // BATCHES)
    run.run(spark)
    assert expected(RUN) == found(run)


def test_a_told_snapshot_heals_what_was_lost_with_the_slot(spark: SparkSession, tmp_path: Path) -> None:
    """Declared after a stop, and killed behind some statement of it, with the memory lost; then once more."""
    chance = random.Random(SEED)
    world = World(chance)
    run = CaptureRun(tmp_path, keyed_recipe(notification_topic=NOTIFICATIONS))
    dump_into(tmp_path / "topics", list(read(world.stages[0], chance, {})), size=999)
    run.run(spark)
    then = {place: len(records) for place, records in world.stages[0].items()}
    dump_into(tmp_path / "topics", list(read(world.topics, chance, then)), size=999)
    with pytest.raises(SourceStop, match=f"continue with --snapshot-again {world.told[0]} "):
        run.run(spark)
    run.recipe = replace(run.recipe, resnapshots=tuple(world.told))
    with failpoints.placed("release.table-stated", 2), pytest.raises(failpoints.PlacedCrash):
        run.run(spark)
    shutil.rmtree(run.state / "memory")
    for _ in range(2):
        run.run(spark)
        updates, frontier = world.wanted()
        for table, (said, reached) in facts_of({table: run.messages(table) for table in run.recipe.tables}).items():
            assert {(row, time, diff) for row, time, diff in updates[table]} == {
                (tuple(row), time, diff) for row, time, diff in said  # type: ignore[misc]
            }
            assert Antichain([frontier]) == reached
    assert "resumes from its memory" in run.said.getvalue()


def test_the_job_takes_it_without_a_remap(tmp_path: Path) -> None:
    """As the command does."""
    plan = planned(parser().parse_args([
        str(tmp_path), "--into", str(tmp_path / "logs"), "--state", str(tmp_path / "state"), "--prefix", RUN,
        "--rows", str(HOME / "rows"), "--before", FROM_STATE,
    ]))
    assert FROM_STATE == plan.recipe.before
