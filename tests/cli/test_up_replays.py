"""``replays:`` under ``cdcv2 up``: a real process keeps a history, and is killed again and again."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.control.supervisor import Supervisor
from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError
from cdcv2.event_stream import read_events
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize.targets.lake.view import open_lake, read_lake
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2

ROW = RowType.load({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
FILE = """
pipeline: shop
replays:
  history: {logs: {items: items}, output: history}
"""


def write(folder: Path, through: int) -> None:
    """The log has the row 7 at each odd time up to there, and lacks it again at each even one."""
    with Writer(DirectoryLog(folder / "items", ROW, create=True)) as writer:
        writer.extend([(ROW.row([7]), time, 1 if time % 2 else -1) for time in range(1, through + 1)])
        writer.advance([through + 1])


def through(folder: Path) -> int:
    """The time through which the history is complete; 0 where there is none."""
    try:
        (upper,) = open_lake(folder / "history").frontier.elements
    except MissingLogError:
        return 0
    assert isinstance(upper, int)
    return upper - 1


def explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The way to the history."""
    capsys.readouterr()
    main(["explain", str(folder / "shop.yaml"), "history", "--json"])
    (way,) = json.loads(capsys.readouterr().out)
    return way


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Supervisor]:
    """The jobs of the pipeline in the folder; all of them end with the test."""
    (tmp_path / "shop.yaml").write_text(FILE, "utf-8")
    found = Supervisor(tmp_path / "shop.state" / "jobs")
    yield found
    for job in [found.job(name) for name in found.names()]:
        job.kill()
        assert poll_until(lambda job=job: not job.alive(), 30)  # type: ignore[misc]


def test_a_replay_is_kept_through_kills_of_it_and_of_what_keeps_it(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each time it goes on where the history is; ``status``, ``explain`` and events show how far; ``down`` ends it."""
    write(tmp_path, 1)
    for time, killed in ((2, "job"), (3, "up"), (4, "job")):
        with subprocess.Popen([*CDCV2, "up", str(tmp_path / "shop.yaml")], stderr=subprocess.DEVNULL) as up:
            try:
                assert poll_until(lambda time=time: through(tmp_path) == time - 1, 60)  # type: ignore[misc]
                if killed == "job":
                    jobs.job("history").kill()
                else:
                    up.send_signal(signal.SIGKILL)
                write(tmp_path, time)
                assert poll_until(lambda time=time: through(tmp_path) == time, 60)  # type: ignore[misc]
            finally:
                up.terminate()
                up.wait(60)
    way = explained(tmp_path, capsys)
    main(["status", str(tmp_path / "shop.yaml"), "--json"])
    status = json.loads(capsys.readouterr().out)
    ended = main(["down", str(tmp_path / "shop.yaml")])

    counts = [read_lake(tmp_path / "history", "items", at)["cdcv2_count"].to_pylist() for at in (1, 2, 3, 4)]
    assert counts == [[1], [], [1], []] and ended == 0 and not jobs.job("history").alive()
    assert [(row["table"], row["kind"], row["job"], row["frontier"]) for row in status["tables"]] == [
        ("items", "target", "history", [5])
    ]
    assert [(row["kind"], row["state"], row["run"]) for row in status["jobs"]] == [("replay", "running", 3)]
    assert [link["kind"] for link in way["links"]] == ["reader", "target"]
    assert way["links"][1]["measure"] == "complete through 4"
    ends = [one for one in read_events(jobs.job("history").events) if one["event"] == "end"]
    assert [(one["job"], one["exit"], one["frontier"]) for one in ends] == [("cdcv2 replay", 0, [5])]


def test_one_that_cannot_go_on_waits_with_the_reason(
    tmp_path: Path, jobs: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log was removed and made again: the history is of the one before, which somebody has to mend."""
    write(tmp_path, 2)
    assert main(["replay", str(tmp_path / "items"), "--lake", str(tmp_path / "history")]) == 0
    (tmp_path / "items").rename(tmp_path / "before")
    write(tmp_path, 3)
    with subprocess.Popen([*CDCV2, "up", str(tmp_path / "shop.yaml")], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: bool(jobs.look()) and jobs.look()[0].status.reason is not None, 60)
        finally:
            up.terminate()
            up.wait(60)
    way = explained(tmp_path, capsys)

    assert "was made of another log 'items'" in way["fault"]["fault"] and way["fault"]["kind"] == "reader"
    assert open_lake(tmp_path / "history").frontier == Antichain([3])
