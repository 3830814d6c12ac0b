"""Thousands of schedules of a controller, its instances and clients, with crashes of each."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.instance_schedules import run
from tests.stress.summary import record


@pytest.mark.parametrize("replicas, seeds", [(1, range(300_000, 305_000)), (2, range(310_000, 312_500))])
def test_clients_of_instances_do_not_notice_what_dies(replicas: int, seeds: range) -> None:
    """Every answer is judged by the oracle when it is given, and every tail after each step."""
    counts = Counter[str]()
    for seed in seeds:
        counts += run(seed, replicas)

    named = {name.replace("_", " "): counts[name] for name in sorted(counts)}
    record(f"instances, {replicas} of one thing", seeds, {"histories": len(seeds), **named})
