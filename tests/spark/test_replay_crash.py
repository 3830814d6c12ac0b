"""A crash at any step of a batch changes nothing that a reader of the output can see."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cdcv2.spark.replay  # noqa: F401  (declares the steps)
from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.materialize.targets.lake.view import open_lake
from tests.spark.replaying import PLAIN, plan, put, replayed, run, truth
from tests.spark.submitting import left, rolling

pytestmark = pytest.mark.spark

STEPS = (
    "reader.after-stash",
    "reader.after-fold",
    "output.after-files",
    "output.after-manifest",
    "reader.before-manifest",
    "reader.after-manifest",
    "reader.after-cleaning",
)
# Each crash costs a batch or two, as some steps are reached only after a first one.
TIMES = len(STEPS) + 3


def test_every_step_of_a_batch_is_crashed_at() -> None:
    """What happens at a step that is not tried is not known."""
    assert set(STEPS) == {name for name in failpoints.KNOWN if name.startswith(("reader.", "output."))}


def test_a_crash_at_each_step_is_recovered_from(spark: SparkSession, tmp_path: Path) -> None:
    """One life with a crash at every step: the output is right after each, and the next run goes on from there."""
    said = rolling(TIMES)
    everything = truth({"things": said})["things"]
    wanted = plan(tmp_path, [put(tmp_path / "things", said, row_type=PLAIN, per_file=2)], files=1)
    reached = [0]

    for step in STEPS:
        with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash, match=step):
            run(spark, wanted)
        (upper,) = open_lake(wanted.output).frontier.elements
        reached.append(upper)
        assert Counter(fact for fact in everything if fact[1] < upper) == left(tmp_path), step

    run(spark, wanted)
    assert {"things": everything} == replayed(spark, wanted)
    assert sorted(reached) == reached and reached[-1] < TIMES
    assert Antichain([TIMES]) == open_lake(wanted.output).frontier
    (parts,) = open_lake(wanted.output).manifest.parts.values()
    named = {wanted.output / "things" / Path(part.name).parent for part in parts}
    assert named == set((wanted.output / "things").iterdir()), "dead attempts remain"
    assert [] == list((wanted.state / "stash" / "things").iterdir()), "dead pieces remain"
