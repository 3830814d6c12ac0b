"""Captures without Spark die by SIGKILL at steps of all kinds, again and again, and lose their memory on the way."""

from __future__ import annotations

from pathlib import Path

from tests.capture.run import test_capture_files, test_keyed_files
from tests.stress.summary import record

SEEDS = range(9, 12)
KILLS = 6


def test_a_process_that_dies_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """By commit times, in logs of its own for each seed."""
    kills = 0
    for seed in SEEDS:
        kills += test_capture_files.killed(tmp_path / str(seed), KILLS, seed)
        test_capture_files.assert_truth("clean_full", tmp_path / str(seed))
    assert kills >= len(SEEDS) * KILLS // 2
    record("capture without Spark is killed", SEEDS, {"captures": len(SEEDS), "kills": kills})


def test_a_command_that_dies_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """The same, where old rows are looked up."""
    kills = 0
    for seed in SEEDS:
        kills += test_keyed_files.killed(tmp_path / str(seed), KILLS, seed)
        test_keyed_files.assert_truth(tmp_path / str(seed) / "logs")
    assert kills >= len(SEEDS) * KILLS // 2
    record("capture without Spark that looks rows up is killed", SEEDS, {"captures": len(SEEDS), "kills": kills})
