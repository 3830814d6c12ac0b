"""Many histories, every way to capture (``tests/every_way``); ``CDCV2_HISTORIES``, ``CDCV2_SPARK_RUNS`` for fewer.

A history that differs fails the run of those without Spark when all are done, and is in its record with its seed; with
``-s`` it is printed as soon as it is found, for a run that does not come to its end.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.every_way import on_spark
from tests.every_way.compare import Different
from tests.every_way.ways import checked
from tests.every_way.world import FEATURES, drawn
from tests.stress.summary import record

HISTORIES = int(os.environ.get("CDCV2_HISTORIES", "20000"))
#: Of each way on Spark.
RUNS = int(os.environ.get("CDCV2_SPARK_RUNS", "60"))
FIRST = int(os.environ.get("CDCV2_FIRST", "100000"))


def test_many_histories_without_spark() -> None:
    """All mishaps, and all ways."""
    counts, different = Counter[str](), dict[int, str]()
    for seed in range(FIRST, FIRST + HISTORIES):
        try:
            for _, road, came in checked([seed], FEATURES):
                counts[f"runs: {road.name}"] += 1
                counts["runs that stopped"] += came.stop is not None
                counts["lives of captures"] += len(came.lives)
        except Different as difference:
            different[seed] = str(difference)
            print(f"seed {seed} differs: {difference}", flush=True)

    found = {f"differed, with the seed {seed}": 1 for seed in different} or {"differed": 0}
    record("every way to capture", range(FIRST, FIRST + HISTORIES), {"histories": HISTORIES, **found, **counts})
    assert {} == different


@pytest.mark.spark
def test_many_histories_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Each history one way; the ways in turns."""
    counts, seed = Counter[str](), FIRST - 1
    while min(counts[f"runs on Spark: {road.name}"] for road in on_spark.ROADS) < RUNS:
        seed += 1
        world = drawn(seed, FEATURES)
        road = on_spark.ROADS[seed % len(on_spark.ROADS)]
        if on_spark.can(world) and road.takes(world):
            came = on_spark.check(road, world, spark, tmp_path / str(seed))
            counts[f"runs on Spark: {road.name}"] += 1
            counts["runs that stopped"] += came.stop is not None

    record("every way to capture, on Spark", range(FIRST, seed + 1), counts)
