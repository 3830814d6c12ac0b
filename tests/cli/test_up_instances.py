"""``instances:`` under ``cdcv2 up``: real processes hold a table, and any of them may be killed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.control.supervisor import Supervisor
from cdcv2.instances.run.client import InstanceClient
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2

ROW = RowType.load({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
FILE = """
pipeline: shop
state: s
instances:
  rows: {logs: {items: items}, index: {items: id}, replicas: 2, place: rows.sock}
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pipeline's folder with a log, by a short path, as sockets need; all of its jobs end with the test."""
    path = tmp_path_factory.mktemp("i")
    (path / "shop.yaml").write_text(FILE, "utf-8")
    yield path
    jobs = Supervisor(path / "s" / "jobs")
    for job in [jobs.job(name) for name in jobs.names()]:
        job.kill()
        assert poll_until(lambda job=job: not job.alive(), 30)  # type: ignore[misc]


def write(folder: Path, time: int) -> None:
    """The log has the rows 1 to ``time``, each at its time."""
    with Writer(DirectoryLog(folder / "items", ROW, create=True)) as writer:
        writer.extend([(ROW.row([one]), one, +1) for one in range(1, time + 1)])
        writer.advance([time + 1])


def test_they_are_kept_running_and_asked_while_some_are_killed(folder: Path) -> None:
    """Clients ask at one place; a replica that was killed is started again, and so is their controller."""
    write(folder, 1)
    client = InstanceClient(folder / "rows.sock")
    with subprocess.Popen([*CDCV2, "up", str(folder / "shop.yaml")], stderr=subprocess.DEVNULL) as process:
        try:
            answers = [client.peek({"items": 1}, at=1, timeout=120)]
            jobs = Supervisor(folder / "s" / "jobs")
            for time, killed in ((2, "rows-1"), (3, "rows"), (4, "rows-2")):
                jobs.job(killed).kill()
                write(folder, time)
                answers.append(client.peek({"items": time}, at=time, timeout=120))
            assert poll_until(lambda: (jobs.job("rows").last_progress() or {}).get("frontier") == [5], 60)
        finally:
            process.terminate()
            process.wait(60)
    code = main(["down", str(folder / "shop.yaml")])

    assert [len(answer["items"].to_arrow()) for answer in answers] == [1, 1, 1, 1]
    assert code == 0
