"""The many random sequences from pipeline files: up, down, change, crash and two owners, on servers in memory."""

from __future__ import annotations

from tests.control.test_random_pipeline_files import tell_all
from tests.stress.summary import record

SEEDS = range(10_000, 12_000)


def test_from_files_nothing_leaks_and_nothing_is_taken() -> None:
    """What exists is what the catalogue states, and at the end nothing of ours is left."""
    tell_all(SEEDS)
    record("pipeline files on servers in memory", SEEDS, {"sequences": len(SEEDS)})
