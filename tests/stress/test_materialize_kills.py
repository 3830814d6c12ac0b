"""`cdcv2 materialize` is killed with SIGKILL dozens of times, on a real PostgreSQL and on real files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cdcv2.servers.postgres import Postgres
from tests.killing import kill_many, lake_target, postgres_target
from tests.stress.summary import record

pytestmark = pytest.mark.integration
KILLS, TIMES = 60, 24_000
SEED = 20261123


def test_postgres(tmp_path: Path) -> None:
    """Sums, a multiset and rows by key, in one transaction each."""
    with Postgres() as server:
        counts = kill_many(postgres_target(SEED, TIMES, tmp_path, server), KILLS, random.Random(SEED))
    record("materialize is killed, PostgreSQL", [SEED], counts)


@pytest.mark.parametrize("recovery", ["files", "SQLite"])
def test_lake(tmp_path: Path, recovery: str) -> None:
    """The same on Parquet files, with either recovery log."""
    seed = SEED + 1 + (recovery == "SQLite")
    target = lake_target(seed, TIMES // 3, tmp_path, sqlite=recovery == "SQLite")
    counts = kill_many(target, KILLS // 2, random.Random(seed), rows=240)
    record(f"materialize is killed, lake with a recovery log in {recovery}", [seed], counts)


def test_delta(tmp_path: Path) -> None:
    """Delta tables are committed one by one, and each life is ended anywhere in between."""
    target = lake_target(SEED + 3, TIMES // 6, tmp_path, driver="delta")
    counts = kill_many(target, KILLS // 2, random.Random(SEED + 3), rows=240)
    record("materialize is killed, Delta tables", [SEED + 3], counts)
