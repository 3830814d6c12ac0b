"""A capture on Spark goes on with logs that were begun before: it judges them by the records of the transaction topic.

The dumps are those of the command's tests, and the command makes the logs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.connectors import dump_files
from cdcv2.errors import SourceStop
from cdcv2.spark.capture.topics import FileTopics
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

    def __init__(
        self, run: Run, folder: Path, spark: SparkSession, kind: str, before: str, how: tuple[str, ...] = NOTIFIED
    ) -> None:
        self._words = (*how, "--before", before)
        self._on_remap, self._folder, self._spark = kind == "remap", folder, spark
        self._job = OnSpark(run, folder, spark, *self._words)
        self.command: Captures = Bound(run, folder) if self._on_remap else self._job

    def begun(self, dump: list[str]) -> list[int]:
        """The rows that the command makes of it."""
        self.said = self.command(dump, *self._words).err
        return self.command.held()

    def forget(self) -> None:
        """Lose the memory of the command; the job has none yet."""
        self.command.forget("lost")

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


#: A frontier, and a time of a remap: milliseconds since 1970.
_BOUND = re.compile(r"\[[0-9]+\]|\b[0-9]{13}\b")


def same(spark: SparkSession, run: Run, folder: Path, kind: str, first: list[str], then: list[str], *how: str) -> str:
    """The stop of the command, and of the job in other logs, without a memory: in the same words, and kept alike."""
    said, kept = [], []
    for way in (Way(run, folder / name, spark, kind, "from-envelope", how) for name in ("command", "job")):
        way.begun(first)
        way.forget()
        if not said:
            way.begun(then)
            said.append(way.said)
        else:
            with pytest.raises(SourceStop) as stop:
                way.job(then)
            said.append(str(stop.value))
        kept.append([_BOUND.sub("", path.read_text()) for path in way.command.logs.glob("*/_stop.*")])
        assert way.command.run("verify", way.command.logs).code == (3 if kept[-1] else 0)
    # The times of a remap are those at which it was bound.
    command, job = (_BOUND.sub("T", text) for text in said)
    assert job in command and kept[0] == kept[1], (command, job, kept)
    return job


@pytest.mark.parametrize("kind", ["commit times", "remap"])
def test_rows_of_a_snapshot_that_is_not_wanted_stop_it_as_they_stop_the_command(
    spark: SparkSession, run: Run, tmp_path: Path, kind: str
) -> None:
    """The logs keep the stop where a transaction behind the snapshot is given out."""
    first = [insert(1, 0, 10, 5, 1, 100), end(0, 5, 120, 1)]
    said = same(spark, run, tmp_path, kind, first, [*first, row(0, 0, 1)], "--snapshot", "none")
    assert "at 100, and no snapshot is wanted (--snapshot none); the logs are stated through" in said


@pytest.mark.parametrize("kind", ["commit times", "remap"])
def test_an_incremental_snapshot_stops_it_as_it_stops_the_command(
    spark: SparkSession, run: Run, tmp_path: Path, kind: str
) -> None:
    """It is neither a second snapshot nor one that is not wanted."""
    first = [insert(1, 0, 10, 5, 1, 100), end(0, 5, 120, 1)]
    then = [*first, row(1, 1, 10, lsn=130, snapshot="incremental")]
    said = same(spark, run, tmp_path, kind, first, then, "--snapshot", "none")
    assert said.startswith("an incremental snapshot of public.t was taken; the logs are complete through")


TORN = "transaction 6 has a row of public.t numbered 2, but its END 140 counts 1"
UNKNOWN = "whether a row of transaction 5, which comes after the commit 100, is a duplicate cannot be known"


@pytest.mark.parametrize("late, text", [
    pytest.param(insert(0, 4, 12, 6, 2, 120), TORN, id="known"),
    pytest.param(insert(0, 4, 12, 5, 1, 100), UNKNOWN, id="unknown"),
])  # fmt: skip
def test_a_transaction_topic_without_its_head_stops_it_as_it_stops_the_command(
    spark: SparkSession, run: Run, tmp_path: Path, late: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a memory, with the older of two ENDs lost: the one that is left shows that the topics are the logs'."""
    # A start without a memory refuses topics without their heads before it judges anything: that is left out here.
    for check in ("_check_start", "_check_gaps"):
        monkeypatch.setattr(dump_files, check, lambda *_: None)
    monkeypatch.setattr(FileTopics, "is_complete", lambda *_: None)
    rows = [*BEGUN[1:], insert(0, 2, 10, 5, 1, 100), insert(0, 3, 11, 6, 1, 120)]
    left = [end(1, 6, 140, 1)]
    first = [*rows, end(0, 5, 120, 1), *left]
    assert text in same(spark, run, tmp_path, "commit times", first, [*rows, late, *left], *NOTIFIED)
