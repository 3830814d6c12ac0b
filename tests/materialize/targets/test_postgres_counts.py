"""A multiset in PostgreSQL is kept by changes of its counts: nothing is asked for, errors are those of row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError, ViewError
from cdcv2.materialize import Checkpoint, Runtime, ViewBinding
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from tests.materialize.row_by_row import RowByRow

pytestmark = pytest.mark.integration
Connect = Callable[[], Any]
#: A row, and how many times more it is there.
Change = tuple[list[Any], int]
#: The types of columns that have no equality in PostgreSQL, or a wider one.
NAMES = {"id": "text", "doc": "json", "at": "point", "price": "numeric"}
THING = RowType({
    "type": "record", "name": "thing", "fields": [
        {"name": name, "type": ["null", "string"], "cdcv2.source": {"type": of}} for name, of in NAMES.items()
    ],
})  # fmt: skip
BAG = ViewBinding("things", THING, "bag")
#: No type of Arrow's holds its decimals.
HUGE = RowType({"type": "record", "name": "h", "fields": [
    {"name": "v", "type": {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0}},
]})  # fmt: skip
TIGHT = RowType({"type": "record", "name": "t", "fields": [
    {"name": "price", "type": "string", "cdcv2.source": {"type": "numeric", "precision": 5, "scale": 2}},
]})  # fmt: skip
SOFT = ViewBinding("things", THING, "bag", deletes="soft")


def thing(name: str, price: str | None = "1.5") -> list[Any]:
    """A row."""
    return [name, '{"a": 1,  "a": 2}', "(1,2)", price]


def run(
    connect: Connect, *cuts: list[Change], view: ViewBinding = BAG, driver: type[PostgresDriver] = PostgresDriver
) -> list[str]:
    """A transaction a cut, to the end; the kinds of the messages that were sent."""
    sent: list[str] = []

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        for time, changes in enumerate(cuts):
            updates = [(view.row_type.row(row), time, diff) for row, diff in changes]
            yield Cut({"things": updates}, Antichain([time]), Antichain([time + 1]))

    runtime = Runtime("m", [view], driver(connect=connect), source, rows=1)
    try:
        for step in runtime.steps():
            sent.append(getattr(step, "__name__", ""))
    finally:
        runtime.close()
    return [one for one in sent if one in ("Load", "Store", "Changes")]


def shown(connect: Connect, columns: str = "id, price, cdcv2_count") -> list[tuple[Any, ...]]:
    """What a reader sees."""
    with connect() as session:
        return list(session.execute(f"SELECT {columns} FROM bag ORDER BY 1, 2".encode()).fetchall())


def change(connect: Connect, statement: str) -> None:
    """What somebody does by hand."""
    with connect() as session:
        session.execute(statement.encode())


def test_no_key_is_asked_for_and_no_row_sent_alone(connect: Connect) -> None:
    """One message a transaction; a transaction that comes to nothing needs none."""
    nothing: list[Change] = [(thing("a"), 1), (thing("a"), -1)]
    sent = run(connect, [(thing("a"), 2), (thing("b"), 1)], nothing, [(thing("a"), -1), (thing("b"), -1)])
    assert ["Changes", "Changes"] == sent
    assert [("a", Decimal("1.5"), 1)] == shown(connect)


def test_a_row_type_that_arrow_cannot_hold_goes_row_by_row(connect: Connect) -> None:
    """As before."""
    view = ViewBinding("things", HUGE, "bag")
    assert ["Load", "Store"] == run(connect, [([Decimal(7)], 1), ([Decimal(7)], 1)], view=view)
    assert [(7, 2)] == shown(connect, "v, cdcv2_count")


def test_a_table_of_very_many_columns_takes_changes_too(connect: Connect) -> None:
    """What goes and what comes need not fit into one row, as they must by key."""
    names = [f"c{number}" for number in range(1000)]
    fields = [{"name": name, "type": ["null", "string"]} for name in names]
    view = ViewBinding("things", RowType({"type": "record", "name": "w", "fields": fields}), "bag")
    rows = [["x" * 100_000, *["y"] * 999], [None] * 1000]
    assert ["Changes", "Changes"] == run(connect, [(rows[0], 1)], [(rows[0], -1), (rows[1], 3)], view=view)
    assert [(None, None, 3)] == shown(connect, "c0, c999, cdcv2_count")


@pytest.mark.parametrize("view", [BAG, SOFT], ids=["hard", "soft"])
def test_a_table_that_was_begun_row_by_row_goes_on(connect: Connect, view: ViewBinding) -> None:
    """And back: a row has the same key either way, also one of types that have no equality, with nulls or spellings."""
    cuts: list[list[Change]] = [
        [(thing("a"), 2), (thing("a", "1.50"), 1), (thing("b", None), 1)],
        [(thing("a"), 1), (thing("a", "1.50"), -1), (thing("b", None), -1)],
        [(thing("a"), -3), (thing("a", "1.50"), 1), (thing("c"), 1)],
        [(thing("a"), 4), (thing("c"), -1), (thing("a", "1.50"), -1)],
    ]
    drivers = [RowByRow, PostgresDriver, RowByRow, PostgresDriver]
    for number, driver in enumerate(drivers, 1):
        run(connect, *cuts[:number], view=view, driver=driver)
    kept = [("a", "1.5", 4)] if view is BAG else [("a", "1.5", 4), ("a", "1.50", 0), ("b", None, 0), ("c", "1.5", 0)]
    assert kept == shown(connect, "id, price::text, cdcv2_count")


@pytest.mark.parametrize("view", [BAG, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize(("name", "diff", "count"), [("a", -3, -1), ("a", -(2**62), 2 - 2**62), ("b", -1, -1)])
@pytest.mark.parametrize("driver", [PostgresDriver, RowByRow])
def test_a_row_that_goes_more_often_than_it_is_there_stops(
    connect: Connect, driver: type[PostgresDriver], view: ViewBinding, name: str, diff: int, count: int
) -> None:
    """It is named with its count, and nothing of its transaction is there."""
    (key,), row = view.view().key_of(THING.row(thing(name))), THING.row(thing(name))
    with pytest.raises(ViewError) as caught:
        run(connect, [(thing("a"), 2)], [(thing("c"), 1), (thing(name), diff)], view=view, driver=driver)
    assert ((key,), f"the row {row!r} would be there {count} times") == (caught.value.key, caught.value.reason)
    assert [("a", Decimal("1.5"), 2)] == shown(connect)


@pytest.mark.parametrize("edit", ["DELETE FROM bag", "UPDATE bag SET cdcv2_count = 1"])
def test_a_row_that_somebody_took_away_is_missing_when_it_goes(connect: Connect, edit: str) -> None:
    """Nothing was looked up, and the table has it less often than the log."""
    cuts: list[list[Change]] = [[(thing("a"), 2)], [(thing("a"), -2), (thing("b"), 1)]]
    run(connect, cuts[0])
    change(connect, edit)
    there = shown(connect)
    with pytest.raises(ViewError, match=rf"would be there -{2 - sum(count for *_, count in there)} times"):
        run(connect, *cuts)
    assert there == shown(connect)


def test_a_trigger_that_keeps_a_row_out_is_named_with_its_key(connect: Connect) -> None:
    """The table is as the log has it, and stays so."""
    run(connect, [(thing("a"), 1)])
    change(connect, "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    change(connect, "CREATE TRIGGER keeps_out BEFORE INSERT ON bag FOR EACH ROW EXECUTE FUNCTION nothing()")
    (key,) = BAG.view().key_of(THING.row(thing("b")))
    with pytest.raises(ViewError, match=rf"'{key}',.: PostgreSQL wrote fewer rows .* triggers are keeps_out\."):
        run(connect, [(thing("a"), 1)], [(thing("b"), 1), (thing("a"), 1)])
    assert [("a", Decimal("1.5"), 1)] == shown(connect)


@pytest.mark.parametrize("driver", [PostgresDriver, RowByRow])
@pytest.mark.parametrize(("diffs", "text"), [
    ([[2**63 - 1], [1]], "PostgreSQL cannot hold a value of bag: bigint out of range"),
    ([[2**62, 2**62]], "^bag: the diffs of one row come to more than 64 bits hold"),
    ([[2**63]], "^bag: the time or the diff of an update is no whole number of 64 bits"),
])  # fmt: skip
def test_a_count_of_over_64_bits_stops(
    connect: Connect, driver: type[PostgresDriver], diffs: list[list[int]], text: str
) -> None:
    """It is an error of the table, whether an update has so many, a transaction, or the table with it."""
    cuts: list[list[Change]] = [[(thing("a"), diff) for diff in of] for of in diffs]
    by_row = "PostgreSQL cannot hold a value of bag: value .* is out of range for type bigint"
    with pytest.raises(MalformedError, match=by_row if driver is RowByRow else text):
        run(connect, *cuts, driver=driver)
    assert [2**63 - 1] * (len(diffs) - 1) == [count for *_, count in shown(connect)]


@pytest.mark.parametrize("driver", [PostgresDriver, RowByRow])
@pytest.mark.parametrize(("view", "row", "text"), [
    (ViewBinding("things", TIGHT, "bag"), ["1.005"], "^bag: '1.005' of the column 'price' is not held exactly"),
    (ViewBinding("things", TIGHT, "bag"), ["1234.50"], "PostgreSQL cannot hold a value of bag"),
    (BAG, thing("a\x00b"), "PostgreSQL cannot hold a value of bag"),
    (BAG, [*thing("a")[:-1], "many"], "^bag: in the column 'price', 'many' is no number"),
])  # fmt: skip
def test_a_value_that_its_column_cannot_hold_stops(
    connect: Connect, driver: type[PostgresDriver], view: ViewBinding, row: list[Any], text: str
) -> None:
    """It is not rounded, and nothing is there."""
    with pytest.raises(MalformedError, match=text):
        run(connect, [(row, 1)], view=view, driver=driver)
    assert [] == shown(connect, "price, cdcv2_count")
