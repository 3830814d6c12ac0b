"""Two replicas and their controller are killed, again and again, while clients ask and follow."""

from __future__ import annotations

from pathlib import Path

from tests.instance_kills import KilledInstances
from tests.stress.summary import record

SEED = 20261126


def test_instances_are_killed(tmp_path: Path) -> None:
    """Every answer and every change is judged by a formula when it comes, and 10,000 peeks are cancelled."""
    counts = KilledInstances(tmp_path, SEED).run(40, 10_000)

    record("instances are killed", [SEED], dict(sorted(counts.items())))
