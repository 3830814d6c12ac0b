"""PostgreSQL takes changes as columns: the same rows and the same errors as with Loads and Stores."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.servers.postgres import Postgres
from tests.materialize.conftest import new_schema
from tests.materialize.row_by_row import History, RowByRow

pytestmark = pytest.mark.integration


def both(server: Postgres, seed: int) -> tuple[Any, Any]:
    """How a history ends row by row, and as columns."""
    history = History(seed)
    return history.carried(new_schema(server), RowByRow), history.carried(new_schema(server), PostgresDriver)


@pytest.mark.parametrize("seeds", [range(0, 15), range(15, 30)], ids=str)
def test_columns_end_as_rows_do(server: Postgres, seeds: range) -> None:
    """Each type and contradiction, in the log or by hand: one table, one error."""
    for seed in seeds:
        row_by_row, columns = both(server, seed)

        assert row_by_row == columns, f"seed {seed}"
