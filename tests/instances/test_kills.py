"""Clients of two replicas do not notice that processes are killed; the long run is in tests/stress."""

from __future__ import annotations

from pathlib import Path

from tests.instance_kills import KilledInstances


def test_clients_do_not_notice_what_is_killed(tmp_path: Path) -> None:
    counts = KilledInstances(tmp_path, 20261126).run(2, 200)
    assert counts["kills"] >= 2 and counts["batches"] and counts["peeks answered"] >= 30
