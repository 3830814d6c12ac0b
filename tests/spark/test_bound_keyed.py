"""Old rows from the state, on a timeline, through Spark: the true tables, and what the capture without Spark writes."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture.facts import Record
from cdcv2.errors import RefusedError, SourceStop
from cdcv2.spark.capture.job import parser
from cdcv2.spark.remap_capture import job as bound_job
from tests.recorded import HOME, TABLES, checkpoint_time, content, truth
from tests.capture.run.test_keyed_recorded import MANY, SMALL
from tests.spark.binding import Bound, dumped
from tests.spark.capturing import log_messages
from tests.timelines import NOTIFICATIONS, edge, records_through, topics

pytestmark = pytest.mark.spark

RUN = "clean_default"
CLICKS = {"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "int"}]}
WORDS = ["--prefix", RUN, "--notifications", NOTIFICATIONS, "--rows", str(HOME / "rows"), "--before", "from-state"]


def all_of(run: str) -> list[Any]:
    """Every record of a run."""
    return [one for records in topics(run).values() for one in records]


def test_the_tables_are_true_at_checkpoints_and_behind_the_truncate(spark: SparkSession, tmp_path: Path) -> None:
    """Under load, and in the end; one without Spark goes on in the middle, in the same logs. Then one alone."""
    bound = Bound(tmp_path, tmp_path / "topics", WORDS)
    for at, tag in enumerate(("01_live", "03_quiesced", "final")):
        records = all_of(RUN) if tag == "final" else records_through(RUN, checkpoint_time(RUN, tag))
        dumped(tmp_path / "topics" / "all.jsonl", records)
        if at == 1:
            bound.pure("logs", "--bind-at-most", "1500")
        else:
            bound.spark(spark, "logs", "--bind-at-most", "1500")
        for table, row_type in TABLES.items():
            upper = bound.known(f"logs/{table}")
            [now] = content(log_messages(tmp_path / "logs" / table, row_type), table, upper - 1)
            assert truth(RUN, tag, table) == now, f"{tag} {table}"
    assert 0 == bound.pure("pure")

    assert bound.facts("pure") == bound.facts("logs")


def test_what_is_rare_comes_to_the_same_as_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Large values that no record has, cascades, rows that move, TRUNCATEs; then another column stops it, by name."""
    tables = {**SMALL, "public.types_t": MANY}
    _, records = edge(tables)
    (tmp_path / "rows").mkdir()
    for table, row_type in tables.items():
        (tmp_path / "rows" / f"{table}.avsc").write_text(json.dumps(row_type.schema), "utf-8")
    dumped(tmp_path / "topics" / "all.jsonl", [one for found in records.values() for one in found])
    bound = Bound(tmp_path, tmp_path / "topics", [
        "--prefix", "edge", "--notifications", NOTIFICATIONS, "--rows", str(tmp_path / "rows"), "--before", "from-state"
    ])
    for _ in range(2):
        with pytest.raises(SourceStop, match="'added' is new, in transaction 793"):
            bound.spark(spark, "spark", "--bind-at-most", "20")
    assert 4 == bound.pure("pure")
    facts = bound.facts("spark")
    large = {row.big for row, _, diff in facts["public.types_t"][0] if diff > 0}

    assert bound.facts("pure") == facts
    assert "x" * 3000 in large


STEPS = [
    ("shared-capture.read", 2), ("writer.updates-durable", 3), ("release.temp-stated", 2),
    ("release.table-stated", 6),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Bound:
    """A part of the run, and a plain topic beside it, carried by the capture without Spark: ``pure``."""
    folder = tmp_path_factory.mktemp("keyed")
    clicks = [Record("web", at % 2, at // 2, None, json.dumps({"page": at % 7}).encode()) for at in range(40)]
    dumped(folder / "topics" / "all.jsonl", [*records_through(RUN, checkpoint_time(RUN, "02_live")), *clicks])
    shutil.copytree(HOME / "rows", folder / "rows")
    (folder / "rows" / "clicks.avsc").write_text(json.dumps(CLICKS), "utf-8")
    words = [*WORDS[:-3], str(folder / "rows"), *WORDS[-2:], "--plain", "clicks=web"]
    bound = Bound(folder, folder / "topics", words)
    bound.pure("pure", "--bind-at-most", "400")
    return bound


@pytest.mark.parametrize(("step", "nth"), STEPS)
def test_died_anywhere_its_state_is_what_the_logs_say(
    step: str, nth: int, written: Bound, spark: SparkSession, tmp_path: Path
) -> None:
    """Of tables of which some are ahead; nothing else is kept that could be lost."""
    bound = Bound(tmp_path, written.topics, written.words)
    shutil.copytree(written.folder / "remap", tmp_path / "remap")
    with failpoints.placed(step, nth):
        with pytest.raises(failpoints.PlacedCrash):
            bound.spark(spark, "logs", "--max-records", "700")
    known = Counter(bound.known(f"logs/{table}") for table in TABLES)
    assert (len(known) > 1) == (step == "release.table-stated")
    bound.spark(spark, "logs", "--max-records", "2000")
    facts = bound.facts("logs")

    assert written.facts("pure") == facts
    assert 40 == sum(diff for _, _, diff in facts["clicks"][0])


def test_it_goes_in_the_order_of_commits(tmp_path: Path) -> None:
    """It is refused before Spark is asked for anything."""
    words = [str(tmp_path), "--into", str(tmp_path / "logs"), "--no-follow", *WORDS]
    with pytest.raises(RefusedError, match="needs the state before each transaction"):
        bound_job.planned(parser().parse_args([*words, "--remap", str(tmp_path / "r"), "--ordering", "complete"]))
