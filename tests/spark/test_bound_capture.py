"""Capture on a shared remap, on Spark: the facts of the capture without it, whoever wrote what."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.errors import SourceStop
from tests.recorded import HOME, dump
from tests.spark.binding import Bound, dumped
from tests.timelines import NOTIFICATIONS, topics

pytestmark = pytest.mark.spark

RUN = "crash_full"
WORDS = ["--prefix", RUN, "--notifications", NOTIFICATIONS, "--rows", str(HOME / "rows")]


def test_it_writes_what_the_capture_without_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    """x"""
    notes = topics(RUN)[NOTIFICATIONS, 0]
    dumped(tmp_path / "topics" / "a.jsonl", [*notes, *dump(RUN).read()])
    bound = Bound(tmp_path, tmp_path / "topics", WORDS)
    assert 4 == bound.pure("pure", "--bind-at-most", "1500")
    with pytest.raises(SourceStop, match="truncated"):
        bound.spark(spark, "spark", "--max-records", "4000")
    print(bound.said.getvalue())
    mine, theirs = bound.facts("spark"), bound.facts("pure")
    assert list(theirs) == list(mine)
    for log in theirs:
        print(log, len(theirs[log][0]), len(mine[log][0]), theirs[log][1], mine[log][1])
        assert theirs[log] == mine[log], log
