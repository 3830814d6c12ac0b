"""Tables of which the connector never spoke, on a remap, through Spark: what the command makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.logs.capture_manifest import manifest_of
from cdcv2.logs.directory import DirectoryLog
from tests.cli.conftest import Run, runs
from tests.cli.test_command_capture_edges import BEGUN, NOTIFIED
from tests.cli.test_uncovered import (
    FIRST_OF_T, FIRST_OF_U, LATER, NAMED, PARTIAL, SAID, OnRemap, begins, changed, statements,
)
from tests.spark.binding import Bound

pytestmark = pytest.mark.spark
FIRST = [*BEGUN, *SAID]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""
    return runs(capsys)


class Both(OnRemap):
    """Captures on one remap into one folder, with Spark and without it."""

    def job(self, spark: SparkSession, dump: list[str], *more: str) -> str:
        """The lines that the job prints for people. Raises what ends it."""
        (self.folder / "topics").mkdir(exist_ok=True)
        (self.folder / "topics" / "all.jsonl").write_text("\n".join(self.on_remap(dump)) + "\n")
        words = ["--prefix", "p", "--rows", str(self.arrange_rows("tu")), *NOTIFIED, *more]
        bound = Bound(self.folder, self.folder / "topics", words)
        bound.spark(spark, "logs")
        return bound.said.getvalue()


def test_the_others_go_on_and_it_is_captured_from_its_first_record_on(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    """Also where one without Spark died in the transaction that shows it, and where that one goes on."""
    capture = Both(run, tmp_path)
    assert 1 == capture.job(spark, [*FIRST, *FIRST_OF_T]).count(NAMED)
    assert ([1, 3, 10], "none", []) == (capture.held(), begins(capture), statements(capture, "u"))
    whole = [*FIRST, *FIRST_OF_T, *FIRST_OF_U]
    with failpoints.placed(release_order.TABLE_STATED), pytest.raises(failpoints.PlacedCrash):
        capture.job(spark, whole)
    assert NAMED not in capture.job(spark, whole)
    start = int(begins(capture) or 0)
    assert [start] == statements(capture, "u")[0].lower.to_plain()
    assert 0 == capture([*whole, *LATER], *NOTIFIED, tables="tu").code
    capture.job(spark, [*whole, *LATER])
    assert ([1, 3, 10, 11], [7, 8]) == (capture.held(), capture.held("u"))
    shown = capture.run("verify", capture.logs, "--full")
    assert (0, True) == (shown.code, f"public.u is covered by the connector from {start} on" in shown.out)


def test_a_table_that_had_rows_before_its_first_record_is_left_out(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    """Nothing is written of it."""
    capture = Both(run, tmp_path)
    first = [FIRST_OF_U[0], changed("u", FIRST_OF_U[1]), FIRST_OF_U[2]]
    assert PARTIAL in capture.job(spark, [*FIRST, *FIRST_OF_T, *first, *LATER])
    assert ([1, 3, 10, 11], "partial", []) == (capture.held(), begins(capture), statements(capture, "u"))
    assert json.loads(capture.run("verify", capture.logs, "--json").out)["not_covered"] == ["public.u"]


def test_a_table_that_is_taken_for_empty_is_marked_in_its_log(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """By the first release that states it, as without Spark; not in a note of the directory at each start."""
    capture = Both(run, tmp_path)
    capture.job(spark, FIRST[:2], "--empty", "public.u")
    assert not any("empty" in path.read_text() for path in capture.logs.rglob("*.json")), "nothing is stated yet"
    capture.job(spark, [*FIRST, *FIRST_OF_T], "--empty", "public.u")
    marked = [DirectoryLog(capture.logs / f"public.{table}").description().empty for table in "tu"]
    assert ([None, "assumed"], False) == (marked, "empty" in manifest_of(capture.logs))
    assert ["public.u"] == json.loads(capture.run("verify", capture.logs, "--json").out)["assumed_empty"]
