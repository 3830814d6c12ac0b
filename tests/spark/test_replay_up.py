"""A replay that ``cdcv2 up`` keeps by the job on Spark: killed, asked to end, and continued by the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.control.job_folder import JobFolder
from cdcv2.event_stream import read_events
from cdcv2.servers import jars
from cdcv2.servers.archive import flags
from cdcv2.servers.java import SHORT_LIVED
from cdcv2.servers.processes import poll_until
from cdcv2.servers.spark_home import spark_environment
from tests.children import CDCV2
from tests.spark.replaying import PLAIN, put, truth
from tests.spark.submitting import QUICK, left, reached, rolling

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("jobs")]

CONF = {**QUICK, "spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "${OPTIONS}"}
FILE = f"""
pipeline: shop
replays:
  history:
    logs: {{things: things}}
    output: out
    spark:
      state: state
      max-files: 3
      interval: 0.05
      arguments: [--master, "local[2]", --driver-memory, 1g, --jars, "${{JARS}}"]
      conf: {{{", ".join(f'{name}: "{value}"' for name, value in CONF.items())}}}
"""
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobFolder]:
    """The folder of the job, whose processes end with the test."""
    options = " ".join(("-Xss8m", *SHORT_LIVED, *flags("spark")))
    for name, value in {**spark_environment(), "JARS": jars.comma_list("spark"), "OPTIONS": options}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shop.yaml").write_text(FILE, "utf-8")
    folder = JobFolder(tmp_path / "shop.state" / "jobs" / "history")
    yield folder
    folder.kill()
    assert poll_until(lambda: not folder.alive(), 60)


def test_a_replay_on_spark_is_kept_through_a_kill_and_continued_without_spark(tmp_path: Path, job: JobFolder) -> None:
    """SIGKILL for the whole job in mid-run; ``down`` ends it between two batches, and the command goes on there.

    Every update is there once, though the log has it twice, and each life states what it did.
    """
    said = rolling(14)
    put(tmp_path / "things", said[:16], row_type=PLAIN, per_file=2)
    with subprocess.Popen([*CDCV2, "up", str(tmp_path / "shop.yaml")], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: reached(tmp_path) > 0, PATIENCE), job.output.read_text()
            os.killpg(job._holders()[0], signal.SIGKILL)
            assert poll_until(lambda: reached(tmp_path) == 8, PATIENCE), job.output.read_text()
            put(tmp_path / "things", said[16:24], row_type=PLAIN, per_file=2)
            assert poll_until(lambda: reached(tmp_path) > 8, PATIENCE), job.output.read_text()
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)
    ended = main(["down", str(tmp_path / "shop.yaml")])
    stopped_at = reached(tmp_path)

    assert (0, False) == (ended, job.alive())
    expected = truth({"things": said})["things"]
    assert {fact: 1 for fact in expected if fact[1] < stopped_at} == dict(left(tmp_path))
    lines = job.output.read_text("utf-8").splitlines()
    assert ("end", [stopped_at]) == tuple(json.loads(last(lines, "{"))[name] for name in ("what", "frontier"))
    assert last(lines, "replay: c") == f"replay: complete through {stopped_at - 1}; nothing that was stated is missing"
    *_, killed, continued = runs_of(read_events(job.events))
    assert "end" not in [event["event"] for event in killed]
    assert ["start", "progress", "end"] == list(dict.fromkeys(event["event"] for event in continued))
    frontiers = [event["frontier"][0] for event in killed + continued if event["event"] == "progress"]
    assert frontiers == sorted(frontiers) and {8, stopped_at} <= set(frontiers)
    assert ("replay.py", 0, [stopped_at], None) == tuple(
        continued[-1][name] for name in ("job", "exit", "frontier", "retry")
    )
    assert len(expected) >= continued[-2]["counts"]["rows"] > 0

    put(tmp_path / "things", said[24:], row_type=PLAIN, per_file=2)
    assert 0 == main(["replay", str(tmp_path / "things"), "--lake", str(tmp_path / "out")])
    assert dict.fromkeys(expected, 1) == dict(left(tmp_path))


def last(lines: list[str], begin: str) -> str:
    """The last line that begins so."""
    return [line for line in lines if line.startswith(begin)][-1]


def runs_of(events: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The events of each run."""
    names = list(dict.fromkeys(event["run"] for event in events))
    return [[event for event in events if event["run"] == name] for name in names]
