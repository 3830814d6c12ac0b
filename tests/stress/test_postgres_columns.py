"""Changes of PostgreSQL tables as columns, against Loads and Stores: histories with lies in the log and by hand."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.servers.postgres import Postgres
from tests.materialize.conftest import new_schema
from tests.materialize.row_by_row import History, MultisetHistory, RowByRow
from tests.stress.summary import record

pytestmark = pytest.mark.integration
#: The first seed, and how many: a failure is repeated by its seed alone.
FIRST, MANY = int(os.environ.get("CDCV2_SEED", 1000)), int(os.environ.get("CDCV2_HISTORIES", 2000))
SEEDS = range(FIRST, FIRST + MANY)


@pytest.mark.parametrize(("made", "kept"), [(History, "a table"), (MultisetHistory, "a multiset")])
def test_columns_end_as_rows_do(made: type[History], kept: str) -> None:
    """One table, one error."""
    ends = Counter[str]()
    with Postgres() as server:
        for seed in SEEDS:
            history = made(seed)
            rows = carried(history, server, RowByRow)
            columns = carried(history, server, PostgresDriver)
            assert rows == columns, f"seed {seed}"
            ends[columns[0].split(":")[0]] += 1

    record(f"{kept} in PostgreSQL by columns, against row by row", SEEDS, {"histories": len(SEEDS), **ends})


def carried(history: History, server: Postgres, driver: type[PostgresDriver]) -> tuple[str, list[Any]]:
    """How the history ends in a schema of its own, which is dropped."""
    connect = new_schema(server)
    ended = history.carried(connect, driver)
    with connect() as session:
        (schema,) = session.execute("SELECT current_schema()").fetchone()
        session.execute(f"DROP SCHEMA {schema} CASCADE".encode())
    return ended
