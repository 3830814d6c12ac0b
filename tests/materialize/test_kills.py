"""A real process is killed with SIGKILL, again and again, while it keeps views in a real PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdcv2.embedded.postgres import Postgres
from cdcv2.testing import Workload

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]

# One process's life; libpq finds the server in the environment.
LIFE = """
from cdcv2.materialize import Runtime, Threaded
from cdcv2.materialize.drivers.postgres import PostgresDriver
from cdcv2.testing import Workload

work = Workload(cuts=20)
print(Runtime("killed", work.bindings, Threaded(PostgresDriver()), work.source, rows=1).run().frontier)
"""


def live(server: Postgres, schema: str, crash: str) -> subprocess.CompletedProcess[str]:
    """Run one, which dies at that step."""
    environment = {
        **os.environ, **server.environment, "PGOPTIONS": f"-c search_path={schema}",
        "CDCV2_CRASH": crash, "CDCV2_CRASH_HOW": "kill",
    }  # fmt: skip
    command = [sys.executable, "-c", LIFE]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_nothing_is_lost_and_nothing_comes_twice(server: Postgres, connect: Callable[[], Any]) -> None:
    """Killed before, in and after its commits, at the first and at later ones; then one is let live."""
    with connect() as connection:
        schema = connection.execute("SELECT current_schema()").fetchone()[0]
    places = [f"postgres.{step}-commit" for step in ("before", "after")]
    places += ["materialize.before-commit", "materialize.after-prepare"]
    for number in range(8):
        died = live(server, schema, f"{places[number % len(places)]}:{1 + number % 3}")
        assert -signal.SIGKILL == died.returncode, died.stderr
    lived = live(server, schema, "")

    assert (0, "[]\n") == (lived.returncode, lived.stdout), lived.stderr

    work = Workload(cuts=20)
    with connect() as connection:
        seen = {
            table: {row[:1]: row[1:] for row in connection.execute(f"SELECT * FROM {table}".encode()).fetchall()}
            for table in work.truth()
        }

    assert work.truth() == work.shown(seen)
