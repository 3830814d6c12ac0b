"""Tables of which the connector never spoke, through Spark: what the command makes of them, whatever dies.

The dumps are those of the command's tests: a table ``t`` with a snapshot, and a table ``u`` that is covered later.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.run import log_starts
from cdcv2.errors import ResumeError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Progress, Updates
from tests.cli.conftest import Run, Said, runs
from tests.cli.test_command_capture_edges import BEGUN, NOTIFIED
from tests.cli.test_uncovered import FIRST_OF_T, FIRST_OF_U, LATER, NAMED, PARTIAL, SAID, begins, change, changed, end
from tests.spark.dumped import OnSpark

pytestmark = pytest.mark.spark
FIRST = [*BEGUN, *SAID]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""
    return runs(capsys)


def check(capture: OnSpark) -> None:
    """All of the dumps is in the logs."""
    assert ("140", None) == (begins(capture), begins(capture, "t"))
    assert ([1, 3, 10, 11], [7, 8]) == (capture.held(), capture.held("u"))
    shown: Said = capture.run("verify", capture.logs, "--full")
    assert 0 == shown.code and shown.out.endswith("complete through 160\n"), shown.out


CRASHES = {
    "from-envelope": [log_starts.COVERED, release_order.TABLE_STATED],
    "from-state": [release_order.UPDATES_DURABLE],
}


@pytest.mark.parametrize("before", CRASHES)
def test_the_others_go_on_and_it_is_captured_from_its_first_record_on(
    spark: SparkSession, run: Run, tmp_path: Path, before: str
) -> None:
    """Whatever dies while it is covered, with the memory and without it; and one without Spark takes its turn."""
    capture = OnSpark(run, tmp_path, spark, *NOTIFIED, "--before", before)
    assert 1 == capture.job(FIRST).count(NAMED)
    assert NAMED in capture.job(FIRST, FIRST_OF_T).partition("released")[0], "its log states it"
    assert ([1, 3, 10], "none", []) == (
        capture.held(), begins(capture), list(DirectoryLog(capture.logs / "public.u").read())
    )
    shown = capture.run("verify", capture.logs)
    assert 0 == shown.code and NAMED in shown.out and shown.out.endswith("complete through 120\n")
    kept = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-kept")
    for number, step in enumerate(CRASHES[before]):
        with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
            capture.job([*FIRST, *FIRST_OF_T], FIRST_OF_U)
        if number % 2:
            capture.lost()
        capture.job([*FIRST, *FIRST_OF_T, *FIRST_OF_U, *LATER])
        check(capture)
        shutil.rmtree(tmp_path)
        shutil.copytree(kept, tmp_path)
    # The command's memory is another one, so it goes by the logs alone.
    whole = [*FIRST, *FIRST_OF_T, *FIRST_OF_U, *LATER]
    assert 0 == capture(whole, *NOTIFIED, "--before", before).code
    check(capture)


def test_without_a_snapshot_a_table_is_covered_if_it_has_a_topic(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    """What happened before its first record is in none."""
    capture = OnSpark(run, tmp_path, spark, "--snapshot", "none")
    other, first = end(0, 4, 110, other=1), [change("t", 0, 10, 5, 1, 110), end(1, 5, 120, t=1)]
    said = capture.job([other])
    assert "nothing is stated yet: released 1 transactions" in said and "frontier" not in said
    assert NAMED in capture.job([other], first)
    capture.job([other], first, [change("u", 0, 7, 6, 1, 120), end(2, 6, 140, u=1)])
    assert ("140", [10], [7]) == (begins(capture), capture.held(), capture.held("u"))
    said: list[Any] = [entry.message for entry in DirectoryLog(capture.logs / "public.u").read() if entry is not None]
    assert [Progress([140], [141], {140: 1})] == [one for one in said if not isinstance(one, Updates)]


def test_a_table_that_had_rows_before_its_first_record_is_left_out(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    """Nothing is written of it, in the transaction that shows it and in those behind it."""
    capture = OnSpark(run, tmp_path, spark, *NOTIFIED)
    said = capture.job([*FIRST, *FIRST_OF_T], [FIRST_OF_U[0], changed("u", FIRST_OF_U[1]), FIRST_OF_U[2]], LATER)
    assert (1, 1) == (said.count(NAMED), said.count(PARTIAL))
    assert ([1, 3, 10, 11], "partial", []) == (
        capture.held(), begins(capture), list(DirectoryLog(capture.logs / "public.u").read())
    )
    shown = capture.run("verify", capture.logs, "--full")
    assert 0 == shown.code and PARTIAL in shown.out and shown.out.endswith("complete through 160\n")


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
def test_updates_that_no_topic_has_are_refused_where_a_release_has_no_rows(
    spark: SparkSession, run: Run, tmp_path: Path, before: str
) -> None:
    """Stated as none they would contradict the log for ever."""
    capture = OnSpark(run, tmp_path, spark, *NOTIFIED, "--before", before)
    share = [*BEGUN, *SAID, *FIRST_OF_T]
    capture.job(share, tables="t")
    log = DirectoryLog(capture.logs / "public.t")
    messages = [entry.message for entry in log.read() if entry is not None]
    row = next(message.updates[0][0] for message in messages if isinstance(message, Updates))
    log.send(Updates([(row, 150, 1)]))
    log.flush()

    with pytest.raises(ResumeError, match="another history"):
        capture.job([*share, end(1, 6, 160, other=1)], tables="t")
    stated = [entry.message for entry in log.read() if entry is not None and isinstance(entry.message, Progress)]
    assert [message for message in messages if isinstance(message, Progress)] == stated
