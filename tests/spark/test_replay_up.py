"""A replay that ``cdcv2 up`` keeps by the job on Spark: it is killed, goes on, and its output is right."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.control.job_folder import JobFolder
from cdcv2.errors import MissingLogError
from cdcv2.event_stream import read_events
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize.targets.lake.view import open_lake, read_lake
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers import jars
from cdcv2.servers.processes import poll_until
from cdcv2.servers.spark_home import spark_environment
from tests.children import CDCV2
from tests.spark.submitting import QUICK

pytestmark = pytest.mark.spark

ROW = RowType.load({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
CONF = {**QUICK, "spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "-Xss8m"}
FILE = f"""
pipeline: shop
replays:
  history:
    logs: {{items: items}}
    output: history
    spark:
      state: spark-state
      arguments: [--master, "local[2]", --driver-memory, 1g, --jars, "${{JARS}}"]
      conf: {{{", ".join(f'{name}: "{value}"' for name, value in CONF.items())}}}
"""
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300


def write(folder: Path, through: int) -> None:
    """A row at each time up to there."""
    with Writer(DirectoryLog(folder / "items", ROW, create=True)) as writer:
        writer.extend([(ROW.row([time]), time, +1) for time in range(1, through + 1)])
        writer.advance([through + 1])


def rows(folder: Path) -> list[int]:
    """The rows of the history as far as it is complete."""
    try:
        open_lake(folder / "history")
    except MissingLogError:
        return []
    return sorted(read_lake(folder / "history", "items")["id"].to_pylist()) if _is_begun(folder) else []


def _is_begun(folder: Path) -> bool:
    return open_lake(folder / "history").frontier.to_plain() != [0]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobFolder]:
    """The folder of the job, whose processes end with the test."""
    for name, value in {**spark_environment(), "JARS": jars.comma_list("spark")}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shop.yaml").write_text(FILE, "utf-8")
    folder = JobFolder(tmp_path / "shop.state" / "jobs" / "history")
    yield folder
    folder.kill()
    assert poll_until(lambda: not folder.alive(), 60)


def test_a_replay_on_spark_is_kept_through_a_kill_and_continued_without_spark(tmp_path: Path, job: JobFolder) -> None:
    """The whole job is killed once its output has moved; ``down`` ends it politely, and the command goes on there."""
    write(tmp_path, 3)
    with subprocess.Popen([*CDCV2, "up", str(tmp_path / "shop.yaml")], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: rows(tmp_path) == [1, 2, 3], PATIENCE)
            os.killpg(job._holders()[0], signal.SIGKILL)
            write(tmp_path, 5)
            assert poll_until(lambda: rows(tmp_path) == [1, 2, 3, 4, 5], PATIENCE)
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)
    ended = main(["down", str(tmp_path / "shop.yaml")])
    write(tmp_path, 6)
    later = main(["replay", str(tmp_path / "items"), "--lake", str(tmp_path / "history")])

    assert (0, 0, False) == (ended, later, job.alive())
    assert rows(tmp_path) == [1, 2, 3, 4, 5, 6]
    ends = [one for one in read_events(job.events) if one["event"] == "end"]
    assert (ends[-1]["job"], ends[-1]["exit"], ends[-1]["frontier"]) == ("replay.py", 0, [6])
