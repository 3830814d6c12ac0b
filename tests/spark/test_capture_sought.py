"""A lost END, through Spark: topics are read to their ends for a snapshot that explains it, before it is for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.errors import SourceStop
from tests.cli.conftest import Run, runs
from tests.cli.test_command_capture_edges import BEGUN, NOTIFIED, note, row, scanned
from tests.cli.test_uncovered import SAID, change, end
from tests.spark.dumped import OnSpark

pytestmark = pytest.mark.spark

ROWS, ENDS = [*BEGUN, *SAID, change("t", 2, 9, 7, 1, 100)], [end(0, 7, 110, t=1), end(1, 9, 140, other=1)]
#: Another transaction ends; then the row of one that was committed before comes, whose END does not.
LOST = [[*ROWS, *ENDS], [change("t", 3, 10, 8, 1, 110)]]
ANOTHER = [note(3, "STARTED"), row(0, 4, 12, lsn=150, snapshot="last"), scanned(4, 1), note(5, "COMPLETED")]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""
    return runs(capsys)


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
def test_a_lost_end_is_for_good_where_no_snapshot_explains_it(
    spark: SparkSession, run: Run, tmp_path: Path, before: str
) -> None:
    """It is kept in the logs then, and not where there is one, in a part of the topics that was not reached."""
    explained = OnSpark(run, tmp_path / "explained", spark, *NOTIFIED, "--before", before)
    with pytest.raises(SourceStop, match="the END of transaction 8 is missing.*--snapshot-again 150 ") as stop:
        explained.job(*LOST, ANOTHER, tables="t")
    assert not stop.value.lasting and not list(explained.logs.rglob("_stop*"))

    lost = OnSpark(run, tmp_path / "lost", spark, *NOTIFIED, "--before", before)
    lost.job(LOST[0], tables="t")
    lost.lost()
    # Without the memory also where it is found before it is known that the topics are those of the logs.
    with pytest.raises(SourceStop, match="the END of transaction 8 is missing.*start over") as stop:
        lost.job([*ROWS, *LOST[1]], ENDS, tables="t")
    assert stop.value.lasting and 1 == len(list(lost.logs.rglob("_stop*")))


def test_a_lost_end_before_a_declared_resnapshot_is_made_up_for(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """Also where the micro-batch that shows it has nothing of the resnapshot, as without Spark."""
    job = OnSpark(run, tmp_path / "job", spark, *NOTIFIED, "--before", "from-state", "--snapshot-again", "150")
    for _ in range(2):
        job.job([*ROWS, *LOST[1], *ENDS], ANOTHER, tables="t")
        assert [12] == job.held() and 0 == run("verify", job.logs).code
    assert not list(job.logs.rglob("_stop*"))
