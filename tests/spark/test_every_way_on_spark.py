"""One history, every way to capture on Spark: what the judge demands of the ways without Spark holds for these, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.cli.main import main
from tests.every_way import on_spark
from tests.every_way.judge import Way
from tests.every_way.pure import recipe
from tests.every_way.world import ANOTHER_NUMBER, ANOTHER_PLACE, EARLY_BEGIN, FEATURES, World, drawn
from tests.spark.capturing import CaptureRun

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("number", range(len(on_spark.ROADS)))
def test_every_way_says_what_happened(number: int, spark: SparkSession, tmp_path: Path) -> None:
    """Facts by transaction and the place of the stop; hundreds more are in the long runs.

    In that on a remap a table is covered late.
    """
    road = on_spark.ROADS[number]
    worlds = (drawn(seed, FEATURES) for seed in range(700 + number, 800))
    world = next(
        one for one in worlds
        if on_spark.can(one) and road.takes(one) and len(one.transactions) > 3 and (one.late or road.name != "remap")
    )
    came = on_spark.check(road, world, spark, tmp_path)

    assert came.lives


@pytest.mark.parametrize("number", range(len(on_spark.ROADS)))
def test_a_transaction_of_which_only_a_begin_is_left_is_passed_by_in_no_way(
    number: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Its END and all its rows are lost: the next END shows it."""
    road = on_spark.ROADS[number]
    worlds = (drawn(seed, FEATURES) for seed in range(700, 900))
    world = next(one for one in worlds if one.shows_a_lost_end and on_spark.can(one) and road.takes(one))
    stop = on_spark.check(road, world, spark, tmp_path).stop

    assert stop is not None and "is missing: it comes" in stop


@pytest.mark.parametrize("number", range(len(on_spark.ROADS)))
def test_a_begin_before_the_end_before_it_stops_every_way(number: int, spark: SparkSession, tmp_path: Path) -> None:
    """Its own END comes behind that, in the same micro-batch or in a later one."""
    road = on_spark.ROADS[number]
    worlds = (drawn(seed, [EARLY_BEGIN]) for seed in range(2000 + 20 * number, 2200))
    world = next(one for one in worlds if one.mishaps and on_spark.can(one) and road.takes(one))
    stop = on_spark.check(road, world, spark, tmp_path).stop

    assert stop is not None and "is missing: it comes" in stop


@pytest.mark.parametrize("state", [False, True], ids=["from the envelope", "from state"])
def test_a_capture_continues_in_logs_that_were_cut_between_two_commits(
    state: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """By commit times: it comes to what the logs had that were cut. A second start of it knows what it remembers."""
    world = next(
        one for one in (drawn(seed, ()) for seed in range(700, 900))
        if on_spark.can(one) and not one.forgets and one.snapshot == "notified" and len(one.transactions) > 3
    )
    way = Way(state=state)
    whole = on_spark.by_commits(world, way, world.seed, spark, tmp_path / "whole")
    times = sorted(whole.facts)
    at = times[2] - 1
    assert whole.stop is None and times[1] < at and not any(whole.facts.get(at, {}).values())
    cut = CaptureRun(tmp_path / "cut", recipe(world, way), topics=tmp_path / "whole" / "topics")
    logs = [f"{log.name}={log}" for log in sorted((tmp_path / "whole" / "logs").iterdir())]
    assert main(["rewrite", *logs, str(cut.logs), "--at", str(at)]) == 0
    for _ in range(2):
        cut.run(spark)

        assert (whole.facts, whole.upper) == on_spark.told(cut.logs)


@pytest.mark.parametrize("feature", [ANOTHER_NUMBER, ANOTHER_PLACE])
def test_rows_that_are_numbered_otherwise_stop_it(feature: str, spark: SparkSession, tmp_path: Path) -> None:
    """By commit times, where executors hold the rows, and the driver has their numbers."""
    (road,) = [road for road in on_spark.ROADS if not road.bound and not road.way.state]
    worlds = (drawn(seed, [feature]) for seed in range(2000, 2200))
    found = [world for world in worlds if feature in world.mishaps and on_spark.can(world) and is_counted(world)][:2]
    stops = [on_spark.check(road, world, spark, tmp_path / str(world.seed)).stop for world in found]

    assert any(stop is not None and "two different rows" in stop for stop in stops)


def is_counted(world: World) -> bool:
    """Whether no row has a number above the count of its END: that alone would stop a capture."""
    sent = [one for found in world.entries.values() for one in found]
    counts = {one.tx: dict(one.counts) for one in sent if one.what == "end"}
    return all(one.number <= counts.get(one.tx, {}).get(one.table, 0) for one in sent if one.what == "row")
