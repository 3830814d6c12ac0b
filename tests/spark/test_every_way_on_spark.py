"""One history, every way to capture on Spark: what the judge demands of the ways without Spark holds for these, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.every_way import on_spark
from tests.every_way.world import FEATURES, drawn

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
