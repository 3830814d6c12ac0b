"""PostgreSQL takes changes as columns: the same rows and the same errors as with Loads and Stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError, ViewError
from cdcv2.materialize import Runtime, ViewBinding
from cdcv2.materialize.protocol.messages import Checkpoint, Field
from cdcv2.materialize.targets.postgres.changes import demand_all_held
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType
from cdcv2.servers.postgres import Postgres
from tests.materialize.conftest import new_schema
from tests.materialize.row_by_row import History, MultisetHistory, RowByRow

pytestmark = pytest.mark.integration


def both(server: Postgres, history: History) -> tuple[Any, Any]:
    """How a history ends row by row, and as columns."""
    return history.carried(new_schema(server), RowByRow), history.carried(new_schema(server), PostgresDriver)


@pytest.mark.parametrize("seeds", [range(0, 15), range(15, 30)], ids=str)
@pytest.mark.parametrize("made", [History, MultisetHistory], ids=["by key", "multisets"])
def test_columns_end_as_rows_do(server: Postgres, made: type[History], seeds: range) -> None:
    """Each type and contradiction, in the log or by hand: one table, one error."""
    for seed in seeds:
        row_by_row, columns = both(server, made(seed))

        assert row_by_row == columns, f"seed {seed}"


def test_values_are_checked_in_parts_that_arrow_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of text it finds 2 GB of different values at most. A type that holds all that the log may have needs no check."""
    looked: list[list[str]] = []
    unique = pc.unique
    monkeypatch.setattr(pc, "unique", lambda column: looked.append(column.to_pylist()) or unique(column))
    kinds = {"doc": SourceType("jsonb"), "v": SourceType("numeric", 5, 2)}
    fields = [Field(name, "string", source=kind) for name, kind in kinds.items()]
    values = pa.chunked_array([["1.50", "1.50"], ["2"]])

    demand_all_held("t", fields, pa.table([pa.chunked_array([["{}", "[]"], ["7"]]), values], ["doc", "v"]))
    assert [["1.50", "1.50"], ["2"]] == looked
    with pytest.raises(MalformedError, match="t: '1.505' of the column 'v'"):
        demand_all_held("t", fields[1:], pa.table([pa.chunked_array([["1.50"], ["1.505"]])], ["v"]))


@pytest.mark.parametrize("columns", [164, 165, 199])
def test_a_row_that_its_table_holds_can_change(server: Postgres, columns: int) -> None:
    """What goes and what comes may be too much for one row of the temporary table: texts of 23 letters stay in it."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": f"c{number}", "type": "string"} for number in range(columns + 1)
    ]})  # fmt: skip
    old, new = (row_type.row(("key", *[letter * 23] * columns)) for letter in "ab")

    def cuts(_: Checkpoint) -> Iterator[Cut]:
        for time, updates in enumerate([[(old, 0, 1)], [(old, 1, -1), (new, 1, 1)]]):
            yield Cut({"rows": updates}, Antichain([time]), Antichain([time + 1]))

    connect = new_schema(server)
    Runtime("m", [ViewBinding("rows", row_type, "rows", ("c0",))], PostgresDriver(connect=connect), cuts, rows=1).run()
    with connect() as session:
        assert [tuple(new)] == session.execute("SELECT * FROM rows").fetchall()


@pytest.mark.parametrize("driver", [PostgresDriver, RowByRow])
@pytest.mark.parametrize(("source", "key"), [
    ("timestamptz", "2024-02-29T10:34:56.123456Z"), ("timetz", "10:00:00.5Z"), ("numeric", "1.50"),
])  # fmt: skip
def test_a_conflict_names_the_key_as_the_log_spells_it(
    server: Postgres, driver: type[PostgresDriver], source: str, key: str
) -> None:
    """Where the column gives the value otherwise than it takes it, too."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": "id", "type": "string", "cdcv2.source": {"type": source}}, {"name": "v", "type": "int"},
    ]})  # fmt: skip

    def cuts(_: Checkpoint) -> Iterator[Cut]:
        for time in range(2):
            yield Cut({"rows": [(row_type.row((key, time)), time, 1)]}, Antichain([time]), Antichain([time + 1]))

    view = ViewBinding("rows", row_type, "rows", ("id",))
    with pytest.raises(ViewError, match=f"key .'{key}',.: it would have 2 current rows"):
        Runtime("m", [view], driver(connect=new_schema(server)), cuts, rows=1).run()
