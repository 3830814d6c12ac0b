"""Many histories, each read by the reader for whole numbers and by the general classes."""

from __future__ import annotations

from tests.stress.summary import record
from tests.two_readers import run

SEEDS = range(200_000, 212_000)


def test_two_readers_read_many_histories_alike() -> None:
    """Seeds that no other run has; which errors they raised is kept too."""
    raised = run(SEEDS)

    counts = {"histories": len(SEEDS), **{f"messages that raised {kind}": raised[kind] for kind in sorted(raised)}}
    record("the reader for whole numbers beside the general classes", SEEDS, counts)
