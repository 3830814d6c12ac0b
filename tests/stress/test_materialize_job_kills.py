"""The materialize job is killed with SIGKILL again and again, on a real PostgreSQL and on Delta tables."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child
from cdcv2.servers.submit import spark_submit
from tests.killing import Runner, Target, kill_many, lake_target, postgres_target
from tests.spark.submitting import QUICK
from tests.stress.summary import record

pytestmark = [pytest.mark.spark, pytest.mark.integration]
KILLS, TIMES = 10, 4_000
SEED = 20261124


def submit(target: Target, plan: Path, last: bool) -> Child:
    """A life, of small micro-batches unless it is the last."""
    arguments = [str(plan), "--state", str(target.folder / "state"), "--no-follow", "--interval", "0.05"]
    arguments += [] if last else ["--max-files", "8"]
    return spark_submit(
        "materialize", arguments, folder=target.folder / "job", settings=QUICK, environment=target.environment()
    )


#: It takes seconds to start, and seconds for a transaction.
JOB = Runner(submit, first=12.0, further=1.5, pause=0.25, patience=400.0)


def test_postgres(tmp_path: Path) -> None:
    """Executors COPY, the driver merges: sums, a multiset and rows by key, in one transaction each."""
    with Postgres() as server:
        counts = kill_many(postgres_target(SEED, TIMES, tmp_path, server), KILLS, random.Random(SEED), runner=JOB)
    record("the materialize job is killed, PostgreSQL", [SEED], counts)


def test_delta(tmp_path: Path) -> None:
    """Executors stage files, and tables are committed one by one."""
    counts = kill_many(
        lake_target(SEED + 1, TIMES, tmp_path, driver="delta"), KILLS, random.Random(SEED + 1), runner=JOB
    )
    record("the materialize job is killed, Delta tables", [SEED + 1], counts)
