"""Keys that are two in the log and one in PostgreSQL: one rule for every view."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError
from cdcv2.materialize import Count, Runtime, Sum, ViewBinding
from cdcv2.materialize.distributed import DistributedRuntime, carry
from cdcv2.materialize.protocol.messages import Checkpoint, Field, StartCommit, Table
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.materialize.targets.postgres.tables import one_key
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.servers.postgres import Postgres
from tests.materialize.conftest import new_schema
from tests.materialize.row_by_row import RowByRow
from tests.materialize.targets.test_postgres_driver import PostgresSubject
from tests.materialize.test_spread import Served

pytestmark = pytest.mark.integration
PRICES = RowType({"type": "record", "name": "t", "fields": [
    {"name": "part", "type": "int"}, {"name": "price", "type": "string", "cdcv2.source": {"type": "numeric"}},
    {"name": "v", "type": "int"},
]})  # fmt: skip
KEY = ("part", "price")
REDUCED = ViewBinding("rows", PRICES, "prices", KEY, {"n": Count(), "s": Sum("v")})
KEYED = ViewBinding("rows", PRICES, "prices", KEY)
VIEWS = [
    REDUCED, ViewBinding("rows", PRICES, "prices", KEY, REDUCED.reduce, "soft"),
    KEYED, ViewBinding("rows", PRICES, "prices", KEY, deletes="soft"),
]  # fmt: skip
Key = tuple[int, str]
#: a row that is there, of its key
There = dict[Key, int]


def drawn(draw: random.Random) -> tuple[list[list[tuple[Any, int]]], list[There]]:
    """Of each transaction its net changes, one row a key at most; and what is there behind each."""
    there: There = {}
    changes, states = [], []
    for _ in range(draw.randint(1, 5)):
        found: list[tuple[Any, int]] = []
        keys = [(part, price) for part in (1, 2) for price in ("1", "1.0", "2")]
        for key in draw.sample(keys, draw.randint(1, 2)):
            before = there.pop(key, None)
            if before is not None:
                found.append((PRICES.row((*key, before)), -1))
            if before is None or draw.random() < 0.5:
                there[key] = 1 if before is None else before + 1
                found.append((PRICES.row((*key, there[key])), 1))
        changes.append(found)
        states.append(dict(there))
    return changes, states


def first_stop(changes: list[list[tuple[Any, int]]], states: list[There], *, soft: bool) -> int | None:
    """The transaction that the table cannot hold: one of its keys is another, by value, that it or the table has."""
    held: set[Key] = set()
    for number, (change, state) in enumerate(zip(changes, states)):
        touched = {row[:2] for row, _ in change}
        values = Counter((part, Decimal(price)) for part, price in held | touched)
        if any(values[part, Decimal(price)] > 1 for part, price in touched):
            return number
        held = held | touched if soft else {*state}
    return None


def cuts_of(changes: list[list[tuple[Any, int]]]) -> list[Cut]:
    """A cut for each transaction."""
    return [
        Cut({"rows": [(row, time, diff) for row, diff in change]}, Antichain([time]), Antichain([time + 1]))
        for time, change in enumerate(changes)
    ]


@pytest.mark.parametrize("driver", [PostgresDriver, RowByRow])
@pytest.mark.parametrize("view", VIEWS, ids=["reduced", "reduced, soft", "by key", "by key, soft"])
def test_a_view_stops_exactly_where_two_keys_are_one(
    server: Postgres, view: ViewBinding, driver: type[PostgresDriver]
) -> None:
    """With both keys in the error; up to there the table is what the log has."""
    stopped = 0
    for seed in range(12):
        changes, states = drawn(random.Random(seed))
        stop = first_stop(changes, states, soft=view.deletes == "soft")
        connect = new_schema(server)

        def source(checkpoint: Checkpoint) -> Iterator[Cut]:
            yield from cuts_of(changes)  # noqa: B023

        runtime = Runtime("m", [view], driver(connect=connect), source, rows=1)
        if stop is None:
            runtime.run()
        else:
            text = r"prices: the keys (\(\d, '1[.0]*'\)) and (?!\1)\(\d, '1[.0]*'\) are one .* 'price' \(numeric\)"
            with pytest.raises(RefusedError, match=text):
                runtime.run()
            stopped += 1
        assert runtime.transactions == (len(changes) if stop is None else stop), f"seed {seed}"
        where = " WHERE NOT cdcv2_deleted" if view.deletes == "soft" else ""
        with connect() as session:
            found = session.execute(f"SELECT part, price::text, {'s' if view.reduce else 'v'} FROM prices{where}")
            rows = {(part, price): int(value) for part, price, value in found.fetchall()}
        last = len(changes) if stop is None else stop
        assert rows == (states[last - 1] if last else {}), f"seed {seed}"
    assert 0 < stopped < 12


@pytest.mark.parametrize("driver", [PostgresDriver, RowByRow])
@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("reduce", [{}, REDUCED.reduce], ids=["by key", "reduced"])
def test_a_deleted_row_that_is_kept_keeps_its_spelling(
    server: Postgres, driver: type[PostgresDriver], deletes: str, reduce: dict[str, Any]
) -> None:
    """It does not become one that has come in another; one that is not kept is in the way of none."""
    cuts = cuts_of([[(PRICES.row((1, price, 5)), diff)] for price, diff in (("1.0", 1), ("1.0", -1), ("1.00", 1))])
    view = ViewBinding("rows", PRICES, "prices", KEY, reduce, deletes)
    connect = new_schema(server)
    runtime = Runtime("m", [view], driver(connect=connect), lambda _: cuts, rows=1)
    if deletes == "soft":
        with pytest.raises(RefusedError, match=r"the keys \(1, '1.00'\) and \(1, '1.0'\) are one"):
            runtime.run()
    else:
        runtime.run()
    with connect() as session:
        found = session.execute("SELECT price::text FROM prices").fetchall()
    assert found == [("1.0",) if deletes == "soft" else ("1.00",)]


@pytest.mark.parametrize(("changes", "first", "second"), [
    ([[("1.0", 1), ("1.00", 1)]], "1.0", "1.00"),
    ([[("1.0", 1)], [("1.00", 1)]], "1.00", "1.0"),
], ids=["at once", "one after the other"])  # fmt: skip
def test_executors_find_them_too(
    server: Postgres, changes: list[list[tuple[str, int]]], first: str, second: str
) -> None:
    """Where two tasks have one of the keys each, when the driver merges."""
    PostgresSubject.server = server
    runtime = DistributedRuntime("m", [REDUCED], Served().driver())
    runtime.open()
    view = runtime.views[0]
    cuts = cuts_of([[(PRICES.row((1, price, 5)), diff) for price, diff in change] for change in changes])
    with pytest.raises(RefusedError, match=rf"the keys \(1, '{first}'\) and \(1, '{second}'\) are one"):
        for cut in cuts:
            def send(hand: Any) -> Iterator[tuple[int, Any]]:
                for update in cut.updates["rows"]:  # noqa: B023
                    groups = [(view.key_of(update[0]), [update])]
                    yield 0, carry(view, 0, pickle.loads(pickle.dumps(hand)), groups)

            runtime.transact(cut.upper, send)
    runtime.close()


def test_a_key_that_comes_in_another_spelling_while_it_is_written_is_named(server: Postgres) -> None:
    """Somebody else writes to the table, as columns beside Loads and Stores may."""
    connect = new_schema(server)
    cuts = cuts_of([[(PRICES.row((1, "1.0", 5)), 1)]])
    runtime = Runtime("m", [REDUCED], PostgresDriver(connect=connect), lambda _: cuts)
    with pytest.raises(RefusedError, match=r"the keys \(1, '1.0'\) and \(1, '1.00'\) are one"):
        for step in runtime.steps():
            if step is StartCommit:
                with connect() as session:
                    session.execute("INSERT INTO prices VALUES (1, 1.00, 1, 5)")
    runtime.close()


def test_what_to_do_is_what_can_help() -> None:
    """Of the columns that are spelled in two ways: not all of a key may be."""
    typed, plain = REDUCED.view().table.key[1], Field("name", "string")
    table = Table("prices", (plain, typed), ())
    cause = str(one_key(table, ("a", "1.0"), ("a", "1.00")))
    assert "'price' (numeric) for" in cause and "take its cdcv2.source out" in cause.lower()
    assert "'name' (text) for equal" in (cause := str(one_key(table, ("a", "1"), ("A", "1"))))
    assert "collation" in cause and "cdcv2.source" not in cause
