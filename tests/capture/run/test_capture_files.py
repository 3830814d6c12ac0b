"""Capture into directories: what a reader finds there after crashes of every kind, kill -9 among them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.loop import run
from cdcv2.capture.run.memory_file import MemoryFile
from cdcv2.errors import SourceStop
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Message, Updates
from tests.recorded import CHECKPOINTS, TABLES, checkpoint_time, content, dump, recipe, truth
from tests.steps import IN_FILES

ROOT = Path(__file__).parents[3]


def logs_in(folder: Path) -> dict[str, DirectoryLog]:
    """A log per table, made where it is not there."""
    return {table: DirectoryLog(folder / table, kind, create=True) for table, kind in TABLES.items()}


def captured(name: str, folder: Path, every: int = 150) -> None:
    """Capture the run into the folder, until its TRUNCATE stops it."""
    memory = MemoryFile(folder / "_capture.json")
    with Capture(recipe(name), dict(logs_in(folder)), memory=memory) as capture:
        with pytest.raises(SourceStop, match="was truncated"):
            run(capture, dump(name), release_every=every)


def messages(folder: Path, table: str) -> list[Message]:
    """What stands in a log."""
    return [entry.message for entry in DirectoryLog(folder / table).read() if entry]  # type: ignore[misc]


def assert_truth(name: str, folder: Path) -> None:
    """Every table equals PostgreSQL at every checkpoint, and no update was left without a statement."""
    times = [checkpoint_time(name, tag) for tag in CHECKPOINTS]
    for table in TABLES:
        found = messages(folder, table)
        assert [truth(name, tag, table) for tag in CHECKPOINTS] == content(found, table, *times)
        written = {update for message in found if isinstance(message, Updates) for update in message.updates}
        reader = Iter(found)
        assert len(written) == sum(len(batch.updates) for batch in reader)
        assert not reader.missing()


@pytest.mark.parametrize("name", ["clean_full", "crash_full"])
def test_the_directories_hold_the_truth(tmp_path: Path, name: str) -> None:
    """Through bytes and files, and once more with nothing left to do."""
    captured(name, tmp_path)
    assert_truth(name, tmp_path)
    before = {table: len(messages(tmp_path, table)) for table in TABLES}
    captured(name, tmp_path)
    assert before == {table: len(messages(tmp_path, table)) for table in TABLES}


@pytest.mark.parametrize("step", IN_FILES)
def test_a_crash_at_any_step_of_any_part_is_healed(tmp_path: Path, step: str) -> None:
    """Of the capture, the writer of a log, the files of a log: three times each, early and late."""
    chance = random.Random(step)
    crashes = 0
    while crashes < 3:
        try:
            with failpoints.placed(step, nth=chance.randint(1, 5)):
                captured("clean_full", tmp_path)
            break
        except failpoints.PlacedCrash:
            crashes += 1
    captured("clean_full", tmp_path)
    assert 3 == crashes
    assert_truth("clean_full", tmp_path)


def test_a_process_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """SIGKILL at two steps, in a process of its own; the memory is lost on the way. The long runs kill more often."""
    assert 2 == killed(tmp_path, 2)
    assert_truth("clean_full", tmp_path)


def killed(folder: Path, most: int, seed: int = 9) -> int:
    """Capture the run in processes that die, at most so many, and in one that lives; how many died.

    When half of them have died, the memory is removed.
    """
    chance, kills = random.Random(seed), 0
    while kills < most:
        step = chance.choice(IN_FILES)
        crash = {"CDCV2_CRASH": f"{step}:{chance.randint(1, 6)}", "CDCV2_CRASH_HOW": "kill"}
        done = start_process("clean_full", folder, crash)
        if done.returncode == 0:
            break
        assert -signal.SIGKILL == done.returncode, done.stderr
        kills += 1
        if kills == most // 2:
            (folder / "_capture.json").unlink(missing_ok=True)
    assert 0 == start_process("clean_full", folder, {}).returncode
    return kills


def start_process(name: str, folder: Path, crash: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the capture in a process of its own, to its end or its crash."""
    environment: dict[str, Any] = {**os.environ, **crash, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, str(Path(__file__)), name, str(folder)]
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=240, check=False)


if __name__ == "__main__":
    captured(sys.argv[1], Path(sys.argv[2]), every=250)
