"""A capture on Spark that dies at every step, twice over, whatever it has lost then: the same facts in the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture import updates_then_statements as release_order
from tests.spark.capturing import CaptureRun, dump_into
from tests.spark.test_capture_crashes import BATCH, LOSSES, STEPS, crashed, expected, found, how, records
from tests.stress.summary import record

pytestmark = pytest.mark.spark


def test_every_step_with_every_loss(spark: SparkSession, tmp_path: Path) -> None:
    """In the second release, if it can be, and then in the first that follows; something else is lost each time."""
    crashes = 0
    for step in STEPS:
        # After the second release is stated there is nothing left to die in.
        last = step in (release_order.STATED, release_order.REMEMBERED)
        for number in range(len(LOSSES)):
            folder = tmp_path / step / str(number)
            dump_into(folder / "topics", records(), size=BATCH)
            run = CaptureRun(folder, how())
            for life, nth in enumerate((1, 1) if last else (2, 1)):
                crashed(run, spark, step, nth, LOSSES[(number + life) % len(LOSSES)])
                crashes += 1
            run.run(spark)
            assert expected() == found(run), (step, number)
    record("captures on Spark that die at every step", [0], {"crashes": crashes, "captures": len(STEPS) * len(LOSSES)})
