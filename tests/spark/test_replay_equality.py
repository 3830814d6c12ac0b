"""Spark's reader and ``Iter`` give out the same history, whatever was done to the log."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.protocol import Progress, mangle
from cdcv2.materialize.targets.lake.view import open_lake
from tests.spark.replaying import PLAIN, ROWS, messages, plan, put, replayed, run, truth, updates

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", range(3))
def test_a_mangled_log_is_replayed_as_iter_replays_it(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    """Repeats, inversions and other bounds change nothing, and each update comes out once."""
    said = list(mangle(messages(updates(seed), 12, seed=seed), seed=seed, copies=2))
    wanted = plan(tmp_path, [put(tmp_path / "logs" / "things", said, per_file=6)], files=2)

    run(spark, wanted)

    assert truth({"things": said}) == replayed(spark, wanted)
    assert Antichain([12]) == open_lake(wanted.output).frontier


def test_tables_of_one_timeline_are_finished_together(spark: SparkSession, tmp_path: Path) -> None:
    """What one table lacks holds back the others: the output is a cut through all."""
    logs = {
        "things": messages(updates(1), 12, seed=1),
        "notes": messages(updates(2, row_type=PLAIN, count=30), 9, seed=2),
    }
    places = [
        put(tmp_path / "things", logs["things"], per_file=20),
        put(tmp_path / "notes", mangle(logs["notes"], seed=3), row_type=PLAIN, per_file=5),
    ]
    wanted = plan(tmp_path, places, files=2)

    run(spark, wanted)

    assert truth(logs) == replayed(spark, wanted)
    assert Antichain([9]) == open_lake(wanted.output).frontier


def test_overlapping_copies_complete_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """Two half logs of one table, that share a part, make a whole one."""
    said = messages(updates(4), 12, seed=4)
    third = len(said) // 3
    places = [
        put(tmp_path / "things", mangle(said[: 2 * third], seed=1), per_file=4),
        put(tmp_path / "things~copy", mangle(said[third:], seed=2), per_file=4),
    ]
    wanted = plan(tmp_path, places)

    run(spark, wanted)

    assert truth({"things": said}) == replayed(spark, wanted)


def test_a_fresh_checkpoint_with_other_batches_adds_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Facts may be absorbed again: over the state, over the output alone, and with what came since."""
    facts = updates(5)
    said = messages([fact for fact in facts if fact[1] < 8], 8, seed=5)
    more = messages([fact for fact in facts if fact[1] >= 8], 12, lower=8, seed=6)
    place = put(tmp_path / "things", said, per_file=5)
    wanted = plan(tmp_path, [place], files=1)
    run(spark, wanted)
    assert truth({"things": said}) == replayed(spark, wanted)

    other = replace(wanted, checkpoint=tmp_path / "second")
    other.logs.__dict__["files"] = 2
    run(spark, other)
    assert truth({"things": said}) == replayed(spark, wanted)

    shutil.rmtree(wanted.state)
    put(tmp_path / "things", more, per_file=5)
    run(spark, replace(plan(tmp_path, [place]), checkpoint=tmp_path / "third"))
    assert truth({"things": [*said, *more]}) == replayed(spark, wanted)
    assert Antichain([12]) == open_lake(wanted.output).frontier


def test_rows_that_wait_long_are_folded_and_kept_once(spark: SparkSession, tmp_path: Path, monkeypatch) -> None:
    """What is rewritten while it waits is given out like the rest, though nothing of it may be read as it came."""
    monkeypatch.setattr("cdcv2.spark.stash.SLACK", 10)
    monkeypatch.setattr("cdcv2.spark.stash.PIECES", 2)
    said = messages(updates(7, count=80), 12, seed=7)
    facts, statements = said[:-4], said[-4:]
    place = put(tmp_path / "things", [*mangle(facts, seed=7, copies=3)], per_file=9)
    wanted = plan(tmp_path, [place], files=1)

    reader = run(spark, wanted)
    assert Antichain([0]) == open_lake(wanted.output).frontier
    assert reader.tables["things"].stash.stored < 2 * 80 + 10

    put(tmp_path / "things", statements, per_file=9)
    run(spark, wanted)
    assert truth({"things": said}) == replayed(spark, wanted)


def test_a_history_that_is_complete_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """Behind the empty frontier nothing can come, so a job that would go on for ever does not."""
    said = messages(updates(8), None, seed=8)
    wanted = replace(plan(tmp_path, [put(tmp_path / "things", said, per_file=20)]), available_now=False)

    run(spark, wanted)

    assert Antichain() == open_lake(wanted.output).frontier
    assert truth({"things": said}) == replayed(spark, wanted)


def test_an_interval_without_updates_moves_the_frontier(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing happened is a fact, too."""
    wanted = plan(tmp_path, [put(tmp_path / "things", [Progress([0], [5])])])

    run(spark, wanted)

    assert Antichain([5]) == open_lake(wanted.output).frontier
    assert 0 == sum(replayed(spark, wanted)["things"].values())
    assert ROWS == wanted.tables["things"]
