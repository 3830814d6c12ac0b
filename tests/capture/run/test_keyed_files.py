"""Old rows from the state, in directories: what is read back from a log is what the records take away."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from cdcv2 import failpoints
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.loop import run
from cdcv2.capture.run.memory_file import MemoryFile
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from tests.recorded import CHECKPOINTS, HOME, TABLES, checkpoint_time, content, dump, recipe, truth
from tests.steps import IN_FILES

RUN = "clean_default"
ROOT = Path(__file__).parents[3]


def captured(folder: Path) -> None:
    """Capture the run into the folder, to its end."""
    logs = {table: DirectoryLog(folder / table, kind, create=True) for table, kind in TABLES.items()}
    memory = MemoryFile(folder / "_memory.json")
    with Capture(recipe(RUN, before="from-state"), dict(logs), memory=memory) as capture:
        run(capture, dump(RUN), release_every=150)


def assert_truth(folder: Path) -> None:
    """Every table equals PostgreSQL at every checkpoint, behind the TRUNCATE, too."""
    tags = [*CHECKPOINTS, "final"]
    times = [checkpoint_time(RUN, tag) for tag in tags]
    for table in TABLES:
        found = [entry.message for entry in DirectoryLog(folder / table).read() if entry]
        reader = Iter(found)  # type: ignore[arg-type]  # whole messages
        list(reader)
        assert not reader.missing()
        assert [truth(RUN, tag, table) for tag in tags] == content(found, table, *times)  # type: ignore[arg-type]


def test_crashes_at_steps_of_any_part_are_healed(tmp_path: Path) -> None:
    """Of the capture, the writer of a log, the files of a log: one after the other, in one life of the logs."""
    chance = random.Random(4)
    crashed = 0
    for step in chance.sample(IN_FILES, len(IN_FILES)):
        if chance.random() < 0.3:
            (tmp_path / "_memory.json").unlink(missing_ok=True)
        try:
            with failpoints.placed(step, nth=chance.randint(1, 3)):
                captured(tmp_path)
        except failpoints.PlacedCrash:
            crashed += 1
    captured(tmp_path)
    assert crashed >= 10
    assert_truth(tmp_path)


def test_a_command_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """SIGKILL at two steps, in processes of their own; the memory is deleted on the way. The long runs kill more."""
    assert 2 == killed(tmp_path, 2)
    assert_truth(tmp_path / "logs")


def killed(folder: Path, most: int, seed: int = 9) -> int:
    """Run the command so often with a step to die at, and once without; how many died.

    When half of them have run, the memory is removed.
    """
    chance, kills = random.Random(seed), 0
    into = folder / "logs"
    words = [sys.executable, "-m", "cdcv2", "capture", str(HOME / RUN / "topics.jsonl.gz"), "--prefix", RUN, "--rows",
             str(HOME / "rows"), "--into", str(into), "--before", "from-state", "--max-records", "250"]
    for number in range(most + 1):
        kill = {"CDCV2_CRASH": f"{chance.choice(IN_FILES)}:{chance.randint(1, 6)}", "CDCV2_CRASH_HOW": "kill"}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(kill if number < most else {})}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode in ((-signal.SIGKILL, 0) if number < most else (0,)), done.stderr
        kills += done.returncode != 0
        if number + 1 == most // 2:
            (into / "_memory.json").unlink(missing_ok=True)
    return kills
