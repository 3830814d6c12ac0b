"""A view that ``cdcv2 up`` keeps by a job on Spark: its Java, its Python driver, and all of it, killed with SIGKILL.

Each kill comes when the frontier has moved. The job runs again by itself, no two drivers work at once, and in the end
the copy is proven equal to its log.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import MissingLogError, UsageError
from cdcv2.event_stream import read_events
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers import jars
from cdcv2.servers.processes import poll_until
from cdcv2.servers.spark_home import spark_environment
from tests.children import CDCV2
from tests.spark.submitting import QUICK
from tests.stress.summary import record

pytestmark = pytest.mark.spark

KILLS = 6
SEED = 20261127
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300
ROW = RowType.load({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
CONF = {**QUICK, "spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "-Xss8m"}
FILE = f"""
pipeline: shop
views:
  copy:
    logs: {{items: items}}
    bindings: [{{log: items, target: items, key: [id]}}]
    target: {{driver: lake, folder: lake}}
    recovery_log: recovery
    spark:
      state: spark-state
      arguments: [--master, "local[2]", --driver-memory, 1g, --jars, "${{JARS}}"]
      conf: {{{", ".join(f'{name}: "{value}"' for name, value in CONF.items())}}}
"""


def write(folder: Path, through: int) -> None:
    """A row at each time up to there."""
    log = DirectoryLog(folder / "items", ROW, create=True)
    with Writer(log) as writer:
        writer.extend([(ROW.row([time]), time, +1) for time in range(1, through + 1)])
        writer.advance([through + 1])


def rows(folder: Path) -> int:
    """How many rows the copy has; 0 while there is none."""
    try:
        return len(dict(open_lake(folder / "lake").rows("items")))
    except (MissingLogError, UsageError):  # the lake, or its table, is not there yet
        return 0


def processes(job: JobFolder) -> dict[str, list[int]]:
    """Those that belong to the job, by what they are."""
    found: dict[str, list[int]] = {"java": [], "driver": []}
    for pid in job._holders():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        found["java" if words[0].endswith(b"java") else "driver"].append(pid)
    return found


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobFolder]:
    """The folder of the view's job, whose processes end with the test."""
    for name, value in {**spark_environment(), "JARS": jars.comma_list("spark")}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shop.yaml").write_text(FILE, "utf-8")
    folder = JobFolder(tmp_path / "shop.state" / "jobs" / "copy")
    yield folder
    folder.kill()
    assert poll_until(lambda: not folder.alive(), 60)


def test_a_view_on_spark_is_kept_through_kills(tmp_path: Path, job: JobFolder) -> None:
    """Java alone: the driver states its end, and runs again at once. The driver alone: Java ends with it."""
    choice, counts, through = random.Random(SEED), Counter[str](), 5
    write(tmp_path, through)
    with subprocess.Popen([*CDCV2, "up", str(tmp_path / "shop.yaml")], stderr=subprocess.DEVNULL) as up:
        try:
            assert poll_until(lambda: rows(tmp_path) == through, PATIENCE)
            while counts["kills"] < KILLS:
                # What a process forks has its lock for a moment, until it is another program.
                assert poll_until(lambda: [1, 1] == [len(pids) for pids in processes(job).values()], 60), processes(job)
                there = processes(job)
                kind = ("java", "driver", "all of it")[counts["kills"] % 3]
                through += choice.randrange(1, 6)
                write(tmp_path, through)
                if kind == "all of it":
                    os.killpg(there["java"][0], signal.SIGKILL)
                else:
                    os.kill(there[kind][0], signal.SIGKILL)
                assert poll_until(lambda: rows(tmp_path) == through, PATIENCE), f"kill {counts['kills']} of {kind}"
                counts.update({"kills": 1, f"of {kind}": 1})
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)
    (status,) = Supervisor(job.path.parent).look()
    ended = main(["down", str(tmp_path / "shop.yaml")])
    events = read_events(job.events)

    assert (Exit.DONE, False, KILLS + 1) == (ended, job.alive(), status.status.run)
    assert Exit.DONE == main(["compare", str(tmp_path / "shop.yaml")])
    # Each run of a driver is over before the next one begins: an end of one is not behind the start of another.
    runs = list(dict.fromkeys(event["run"] for event in events))
    assert [event["run"] for event in events] == [run for run in runs for event in events if event["run"] == run]
    ends = [event for event in events if event["event"] == "end"]
    assert ("materialize.py", 0, None) == tuple(ends[-1][name] for name in ("job", "exit", "retry"))
    assert {"now"} == {end["retry"] for end in ends[:-1]}
    counts["ends that the driver stated, whose Java was killed"] = len(ends) - 1
    record("a view on Spark under cdcv2 up is killed", [SEED], counts)
