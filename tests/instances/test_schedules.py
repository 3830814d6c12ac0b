"""Every answer is what `as_of` gives, whatever breaks: some random schedules; thousands are in ``tests/stress``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.instance_schedules import run


@pytest.mark.parametrize("replicas", [1, 2])
def test_clients_do_not_notice_what_dies(replicas: int) -> None:
    """Instances and the controller crash, connections break and delay, clients repeat themselves."""
    counts = Counter[str]()
    for seed in range(100):
        counts += run(replicas * 1000 + seed, replicas)

    assert min(counts["answered"], counts["batches"], counts["crash_instance"], counts["crash_controller"]) > 100
