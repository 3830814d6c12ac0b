"""Spark's master and workers, started from the pip install."""

from __future__ import annotations

import pytest

from cdcv2.servers.processes import poll_until
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("jobs")]


def test_workers_register_and_a_killed_one_comes_back() -> None:
    """Entered, the cluster is complete; left, nothing of it runs."""
    with Standalone(workers=2) as cluster:
        assert 2 == cluster.alive

        cluster.workers[0].kill9()
        cluster.workers[0].start()

        # A worker that comes back is a new one to the master, which may remember the old one for a while.
        assert poll_until(lambda: cluster.alive >= 2, 300)
        everyone = [cluster, *cluster.workers]
        assert [True] * 3 == [server.running for server in everyone]
    assert [False] * 3 == [server.running for server in everyone]
