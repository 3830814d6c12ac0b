"""A capture on Spark goes on with logs that were begun before: it judges by what the transaction topic says of that.

The dumps are those of the command's tests, and the command makes the logs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.errors import SourceStop
from tests.cli.conftest import Run, runs
from tests.cli.test_command_capture_edges import NOTIFIED, Captures, end, insert, row
from tests.cli.test_started_again import BEGUN, Bound, begin
from tests.spark import binding
from tests.spark.dumped import OnSpark

pytestmark = pytest.mark.spark

WAYS = [(kind, before) for kind in ("commit times", "remap") for before in ("from-envelope", "from-state")]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""
    return runs(capsys)


class Way:
    """A way to capture: first by the command, then by the job, into the same logs."""

    def __init__(self, run: Run, folder: Path, spark: SparkSession, kind: str, before: str) -> None:
        self._words = (*NOTIFIED, "--before", before)
        self._on_remap, self._folder, self._spark = kind == "remap", folder, spark
        self._job = OnSpark(run, folder, spark, *self._words)
        self.command: Captures = Bound(run, folder) if self._on_remap else self._job

    def begun(self, dump: list[str]) -> list[int]:
        """The rows that the command makes of it."""
        self.command(dump, *self._words)
        return self.command.held()

    def job(self, dump: list[str]) -> None:
        """Go on with Spark. Raises what ends it."""
        if not self._on_remap:
            self._job.job(dump, tables="t")
            return
        topics = self._folder / "topics"
        topics.mkdir(exist_ok=True)
        (topics / "all.jsonl").write_text("\n".join(dump) + "\n", "utf-8")
        words = ["--prefix", "p", "--rows", str(self._folder / "rows"), *self._words]
        binding.Bound(self._folder, topics, words).spark(self._spark, "logs")


@pytest.mark.parametrize("kind, before", WAYS)
def test_a_row_that_its_end_did_not_count_is_no_duplicate(
    spark: SparkSession, run: Run, tmp_path: Path, kind: str, before: str
) -> None:
    """It comes when its transaction was given out, by another run."""
    way, first = Way(run, tmp_path, spark, kind, before), [*BEGUN, insert(0, 2, 10, 5, 1, 100), end(1, 5, 120, 1)]
    assert [1, 3, 10] == way.begun(first)
    with pytest.raises(SourceStop, match="has a row of public.t numbered 2, but its END 120 counts 1") as stop:
        way.job([*first, insert(0, 3, 11, 5, 2, 100), end(2, 6, 140, 0)])

    assert stop.value.lasting and [1, 3, 10] == way.command.held()


@pytest.mark.parametrize("kind", ["commit times", "remap"])
def test_a_transaction_that_an_old_connector_begins_again_is_never_given_out(
    spark: SparkSession, run: Run, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """END counts only what came after the restart, and the rows are numbered from 1 again; at the start it warns."""
    way = Way(run, tmp_path, spark, kind, "from-envelope")
    assert [1, 3] == way.begun(BEGUN)
    transaction = {"id": "5:1", "total_order": 1, "data_collection_order": 1}
    anew = row(0, 2, 10, op="c", txId=5, transaction=transaction, version="3.4.1.Final")
    with pytest.raises(SourceStop, match="transaction 5 .*has two BEGINs, one directly after the other"):
        way.job([*BEGUN, begin(1, 5), anew, end(2, 5, 120, 1)])

    assert [1, 3] == way.command.held() and "the connector of p is older than Debezium 3.7.0" in caplog.text
