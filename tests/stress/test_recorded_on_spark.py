"""What Debezium really sent, on a timeline, through Spark: the true tables at each checkpoint, or a named refusal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.reclock.binding import check_int
from cdcv2.sources.facts import End, Fact, Record, RowFact, SnapshotRow
from tests.recorded import CHECKPOINTS, HOME, TABLES, checkpoint_time, content, ends, facts, truth
from tests.spark.binding import Bound, dumped
from tests.spark.capturing import log_messages
from tests.stress.summary import record
from tests.timelines import NOTIFICATIONS, topics

pytestmark = pytest.mark.spark


def records_through(run: str, lsn: int) -> list[Record]:
    """Of each partition what must be there for the transactions that ended at this LSN or before, and no END more."""
    wanted = {tx for end, tx in ends(run).items() if end <= lsn}
    found = list(topics(run)[NOTIFICATIONS, 0])
    for place, entries in facts(run).items():
        number = int(place[0] == f"{run}.transaction")
        seen = set[object]()
        for at, (_, fact) in enumerate(entries):
            needed = _needed(fact, at, wanted, lsn)
            if needed is not None and needed not in seen:
                seen.add(needed)
                number = at + 1
        if place in topics(run):
            found += [one for one, _ in entries[:number]]
    return found


def _needed(fact: Fact, at: int, wanted: set[int], lsn: int) -> object:
    """What a record is called of which the first one is needed; None: it is not needed."""
    if isinstance(fact, SnapshotRow):
        return at
    if isinstance(fact, RowFact):
        return (fact.tx, fact.order) if fact.tx in wanted else None
    return ("END", fact.lsn) if isinstance(fact, End) and fact.lsn <= lsn else None


def words(run: str) -> list[str]:
    """The capture of a run."""
    return ["--prefix", run, "--notifications", NOTIFICATIONS, "--rows", str(HOME / "rows")]


def test_the_recorded_topics_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """At nine checkpoints of two runs, in one of which rows came twice; then the TRUNCATE stops it, behind all else."""
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
    record("recorded topics through Spark on a timeline", [0], counts)


def check(bound: Bound, run: str, tag: str, frontier: Antichain) -> None:
    """The tables are what PostgreSQL held."""
    upper = check_int(frontier.elements[0])
    for table, row_type in TABLES.items():
        [now] = content(log_messages(bound.folder / "logs" / table, row_type), table, upper - 1)
        assert truth(run, tag, table) == now, f"{run} {tag} {table}"


def test_old_rows_that_are_not_in_the_records_stop_it(spark: SparkSession, tmp_path: Path) -> None:
    """Tables without REPLICA IDENTITY FULL are not for a timeline: said with the remedy, as it is without Spark."""
    run = "clean_default"
    dumped(tmp_path / "topics" / "all.jsonl", [one for records in topics(run).values() for one in records])
    bound = Bound(tmp_path, tmp_path / "topics", words(run))
    with pytest.raises(SourceStop, match="--before from-state"):
        bound.spark(spark, "spark", "--bind-at-most", "900")
    assert 4 == bound.pure("pure")
    assert bound.facts("pure") == bound.facts("spark")
