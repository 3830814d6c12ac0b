"""What Debezium really sent, on a timeline, through Spark: the true tables at each checkpoint, or a named refusal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.timeline.binding import check_int
from tests.recorded import CHECKPOINTS, HOME, TABLES, checkpoint_time, content, truth
from tests.spark.binding import Bound, dumped
from tests.spark.capturing import log_messages
from tests.stress.summary import record
from tests.timelines import NOTIFICATIONS, records_through, topics

pytestmark = pytest.mark.spark


def words(run: str) -> list[str]:
    """The capture of a run."""
    return ["--prefix", run, "--notifications", NOTIFICATIONS, "--rows", str(HOME / "rows")]


def test_the_recorded_topics_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """At nine checkpoints of two runs, in one of which rows came twice; then the TRUNCATE stops it, behind all else.

    Of the run without whole old rows at ten: behind the TRUNCATE, too.
    """
    counts: Counter[str] = Counter()
    for run in ("clean_full", "crash_full"):
        folder = tmp_path / run
        bound = Bound(folder, folder / "topics", words(run))
        for tag in CHECKPOINTS:
            dumped(folder / "topics" / "all.jsonl", records_through(run, checkpoint_time(run, tag)))
            check(bound, run, tag, bound.spark(spark, "logs", "--bind-at-most", "900").frontier)
            counts[f"checkpoints of {run}"] += 1
        dumped(folder / "topics" / "all.jsonl", [one for records in topics(run).values() for one in records])
        with pytest.raises(SourceStop, match="was truncated") as stopped:
            bound.spark(spark, "logs", "--bind-at-most", "900")
        assert stopped.value.frontier is not None
        check(bound, run, "04_quiesced", stopped.value.frontier)
    default = "clean_default"
    folder = tmp_path / default
    bound = Bound(folder, folder / "topics", [*words(default), "--before", "from-state"])
    for tag in CHECKPOINTS:
        dumped(folder / "topics" / "all.jsonl", records_through(default, checkpoint_time(default, tag)))
        check(bound, default, tag, bound.spark(spark, "logs", "--bind-at-most", "900").frontier)
        counts[f"checkpoints of {default}"] += 1
    dumped(folder / "topics" / "all.jsonl", [one for records in topics(default).values() for one in records])
    check(bound, default, "final", bound.spark(spark, "logs", "--bind-at-most", "900").frontier)
    counts[f"checkpoints of {default}"] += 1
    record("recorded topics through Spark on a timeline", [0], counts)


def check(bound: Bound, run: str, tag: str, frontier: Antichain) -> None:
    """The tables are what PostgreSQL held."""
    upper = check_int(frontier.elements[0])
    for table, row_type in TABLES.items():
        [now] = content(log_messages(bound.folder / "logs" / table, row_type), table, upper - 1)
        assert truth(run, tag, table) == now, f"{run} {tag} {table}"


def test_old_rows_that_are_not_in_the_records_stop_it(spark: SparkSession, tmp_path: Path) -> None:
    """Tables without REPLICA IDENTITY FULL, unless they are looked up: with the remedy, as it is without Spark."""
    run = "clean_default"
    dumped(tmp_path / "topics" / "all.jsonl", [one for records in topics(run).values() for one in records])
    bound = Bound(tmp_path, tmp_path / "topics", words(run))
    with pytest.raises(SourceStop, match="--before from-state"):
        bound.spark(spark, "spark", "--bind-at-most", "900")
    assert 4 == bound.pure("pure")
    assert bound.facts("pure") == bound.facts("spark")
