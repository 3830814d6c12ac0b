"""Which table each view has, and what it stores there, asked of the view alone."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.errors import MalformedError, UsageError, ViewError
from cdcv2.materialize import Count, Max, Sum, ViewBinding
from cdcv2.materialize.protocol.messages import Field, Store
from cdcv2.rows.row_type import RowType
from cdcv2.views.changes import NetChanges, NetCounts

ITEM = RowType({"type": "record", "name": "item", "fields": [
    {"name": "shop", "type": "string"}, {"name": "id", "type": ["null", "long"]},
    {"name": "weight", "type": ["null", "double"]},
]})  # fmt: skip
#: Numbers in text, of which several spellings are one value.
PRICED = RowType({"type": "record", "name": "p", "fields": [
    {"name": "id", "type": "string", "cdcv2.source": {"type": "citext"}},
    {"name": "price", "type": ["null", "string"], "cdcv2.source": {"type": "numeric", "scale": 2}},
    {"name": "number", "type": ["null", "string"], "cdcv2.source": {"type": "numeric"}},
]})  # fmt: skip
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0}
#: No type of Arrow's holds its decimals.
HUGE = RowType({"type": "record", "name": "h", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": WIDE}]})
KEYED, MULTISET = ViewBinding("l", ITEM, "items", ("id",)), ViewBinding("l", ITEM, "items")
REDUCED = replace(KEYED, reduce={"most": Max("weight"), "sum": Sum("id")})
ID, SHOP = Field("id", "long"), Field("shop", "string")
WEIGHT, DELETED = Field("weight", "double", True), Field("cdcv2_deleted", "boolean")
COUNT = Field("cdcv2_count", "integer")
REDUCTIONS = (Field("most", "double", True), Field("most_values", "json"), Field("sum", "integer"))


def row(shop: str, one: int | None = 1, weight: float | None = None) -> Any:
    """Of an item."""
    return ITEM.row([shop, one, weight])


def stored(binding: ViewBinding, before: tuple[Any, ...] | None, *changes: tuple[Any, int]) -> Store | None:
    """What is to be stored at the key of these rows."""
    view = binding.view()
    held, key = view.begin(), view.key_of(changes[0][0])
    for changed, diff in changes:
        held = view.add(held, changed, 1, diff)
    return view.after(key, held, before)


@pytest.mark.parametrize(("binding", "key", "values", "flags", "changes"), [
    (KEYED, (ID,), (SHOP, WEIGHT), (False, False, False, False), NetChanges),
    (replace(KEYED, deletes="soft"), (ID,), (SHOP, WEIGHT, DELETED), (False, True, False, True), NetChanges),
    (replace(KEYED, delta=True), (ID,), (SHOP, WEIGHT), (True, False, False, False), None),
    (replace(KEYED, delta=True, deletes="soft"), (ID,), (SHOP, WEIGHT), (True, True, False, False), None),
    (replace(KEYED, row_type=HUGE), (Field("id", "int"),), (Field("v", "decimal", False, 77, 0),),
     (False, False, False, False), None),
    (replace(REDUCED, delta=False), (ID,), (*REDUCTIONS, COUNT), (False, False, False, False), None),
    (replace(REDUCED, deletes="soft"), (ID,), (*REDUCTIONS, COUNT, DELETED), (False, True, False, True), None),
    (replace(REDUCED, reduce={"n": Count(), "sum": Sum("id")}, delta=True), (ID,),
     (Field("n", "integer"), Field("sum", "integer")), (True, False, False, False), None),
    *(
        (replace(binding, deletes=deletes), (Field("cdcv2_row", "string"),), values,
         (binding.delta, deletes == "soft", counts is not None, False), counts)
        for deletes in ("hard", "soft") for binding, values, counts in (
            (MULTISET, (SHOP, replace(ID, nullable=True), WEIGHT, Field("cdcv2_count", "long")), NetCounts),
            (replace(MULTISET, delta=True), (SHOP, replace(ID, nullable=True), WEIGHT, Field("cdcv2_count", "long")),
             None),
            (replace(MULTISET, row_type=HUGE),
             (Field("id", "int"), Field("v", "decimal", False, 77, 0), Field("cdcv2_count", "long")), None),
        )
    ),
])  # fmt: skip
def test_a_view_has_a_table(binding: ViewBinding, key: Any, values: Any, flags: Any, changes: Any) -> None:
    """Its name, its key, which is never null, its columns, and what may be done to it."""
    view = binding.view()
    table = view.table
    assert (binding.target, key, values) == (table.name, table.key, table.values)
    assert flags == (table.delta, table.soft, table.multiset, table.marked)
    assert changes is (None if view.changes is None else type(view.changes))


def test_a_conflict_names_a_row_by_its_key_or_by_its_columns() -> None:
    """The digest of a row of a multiset would be no help."""
    assert (7,) == KEYED.view().place(row("a", 7)) == REDUCED.view().place(row("a", 7))
    assert ("a", 7, 0.5) == MULTISET.view().place(row("a", 7, 0.5))


@pytest.mark.parametrize("binding", [KEYED, REDUCED], ids=["rows", "reductions"])
def test_a_null_in_a_key_is_named_with_the_table(binding: ViewBinding) -> None:
    """And so is a key column whose text is none of its type, and one that the rows have not."""
    with pytest.raises(MalformedError, match="^items: the key column 'id' is null in Row"):
        binding.view().key_of(row("a", None))
    with pytest.raises(UsageError, match="^items: two columns would be called 'id', the reduction and another: name"):
        replace(REDUCED, reduce={"id": Count()})
    numbers = replace(binding, row_type=PRICED, key=("number",), reduce={"n": Count()} if binding.reduce else {})
    with pytest.raises(MalformedError, match="^items: in the column 'number', 'many' is no number"):
        numbers.view().key_of(PRICED.row(["a", None, "many"]))


@pytest.mark.parametrize("key", [("id",), ()], ids=["rows", "a multiset"])
def test_a_value_that_is_none_of_its_type_is_named_with_the_table(key: tuple[str, ...]) -> None:
    """When it is to be stored."""
    with pytest.raises(MalformedError, match="^items: in the column 'number', 'many' is no number"):
        stored(ViewBinding("l", PRICED, "items", key), None, (PRICED.row(["a", None, "many"]), 1))


@pytest.mark.parametrize(("binding", "before", "changes", "store"), [
    (KEYED, None, [(row("a"), 1)], Store(0, (1,), ("a", None))),
    (KEYED, ("a", None), [(row("a"), -1), (row("b"), 1)], Store(0, (1,), ("b", None), exists=True)),
    (KEYED, ("a", None), [(row("a"), -1)], Store(0, (1,), ("a", None), exists=True, delete=True)),
    (KEYED, None, [(row("a"), 1), (row("a"), -1)], None),
    (KEYED, ("a", None), [(row("b"), 1), (row("b"), -1)], None),
    (KEYED, ("a", None), [(row("a"), 1), (row("a"), -1)], None),
    (replace(KEYED, deletes="soft"), ("a", None, False), [(row("a"), -1)], Store(0, (1,), ("a", None, True), True)),
    (replace(KEYED, deletes="soft"), ("a", None, True), [(row("b"), 1)], Store(0, (1,), ("b", None, False), True)),
    (replace(KEYED, deletes="soft"), ("a", None, True), [(row("b"), 1), (row("b"), -1)], None),
    # Pushed: of two rows that go, one is named, always the same.
    (replace(KEYED, delta=True), None, [(row("b", weight=0.5), -1), (row("b"), -1)],
     Store(0, (1,), ("b", 0.5), delete=True)),
    (replace(KEYED, delta=True), None, [(row("a"), 1), (row("b"), -1), (row("a"), -1)],
     Store(0, (1,), ("b", None), delete=True)),
    (replace(KEYED, delta=True), None, [(row("a"), 1), (row("a"), -1)], None),
    (REDUCED, None, [(row("a", weight=0.5), 1)], Store(0, (1,), (0.5, '{"0.5":1}', 1, 1))),
    (REDUCED, (0.5, '{"0.5":1}', 1, 1), [(row("a", weight=0.5), -1)], Store(0, (1,), (None, "{}", 0, 0), True, True)),
    (replace(REDUCED, deletes="soft"), (0.5, '{"0.5":1}', 1, 1, False), [(row("a", weight=0.5), -1)],
     Store(0, (1,), (None, "{}", 0, 0, True), True)),
    (replace(REDUCED, reduce={"sum": Sum("id")}, delta=True), None, [(row("a"), 2), (row("b"), -2)], None),
    (replace(REDUCED, reduce={"sum": Sum("id")}, delta=True), None, [(row("a"), 2)], Store(0, (1,), (2, 2))),
    # The same number in another spelling is no change, before and after.
    (replace(KEYED, row_type=PRICED), ("1.50", None), [(PRICED.row(["1", "1.5", None]), -1)],
     Store(0, ("1",), ("1.50", None), True, True)),
    (replace(KEYED, row_type=PRICED), ("1.50", None),
     [(PRICED.row(["1", "1.5", None]), -1), (PRICED.row(["1", "1.500", None]), 1)], None),
    (replace(KEYED, row_type=PRICED), ("1.50", None),
     [(PRICED.row(["1", "1.5", None]), -1), (PRICED.row(["1", "2", None]), 1)], Store(0, ("1",), ("2.00", None), True)),
    (replace(KEYED, row_type=PRICED), None, [(PRICED.row(["1", one, None]), by) for one, by in (("1", 2), ("1.0", -1))],
     Store(0, ("1",), ("1.00", None))),
])  # fmt: skip
def test_a_view_states_what_to_store(
    binding: ViewBinding, before: Any, changes: list[Any], store: Store | None
) -> None:
    """Of one key, by what was there and what changed."""
    assert store == stored(binding, before, *changes)


@pytest.mark.parametrize(("binding", "before", "diff", "left"), [
    (MULTISET, None, 2, (2, False)), (MULTISET, 3, -1, (2, False)), (MULTISET, 3, -3, (0, True)),
    (MULTISET, 3, 0, None), (replace(MULTISET, deletes="soft"), 3, -3, (0, False)),
    (replace(MULTISET, delta=True), None, -3, (-3, False)),
])  # fmt: skip
def test_a_row_of_a_multiset_has_a_count(binding: ViewBinding, before: int | None, diff: int, left: Any) -> None:
    """Beside its columns; without one it is deleted, unless it is to stay."""
    values, one = ("a", 1, 0.5), row("a", 1, 0.5)
    store = stored(binding, None if before is None else (*values, before), (one, 5), (one, diff - 5))
    key = binding.view().key_of(one)
    assert store == (None if left is None else Store(0, key, (*values, left[0]), before is not None, left[1]))


ONE, TWO = (PRICED.row(["k", price, "1"]) for price in "12")


@pytest.mark.parametrize(("binding", "before", "changes", "reason", "rows"), [
    (KEYED, None, [(row("a"), 2)], "it would have 2 current rows", f"{row('a')!r}, 2 times"),
    (KEYED, None, [(row("b"), 1), (row("a"), 1)], "it would have 2 current rows", f"{row('a')!r}; {row('b')!r}"),
    (KEYED, ("a", None), [(row("b"), 1)], "it would have 2 current rows", f"{row('a')!r}; {row('b')!r}"),
    (KEYED, ("a", None), [(row("a"), 1)], "it would have 2 current rows", f"{row('a')!r}, 2 times"),
    (KEYED, None, [(row("c"), 1), (row("b", weight=0.5), 3), (row("b"), 1)],
     "it would have 5 current rows", f"{row('b', weight=0.5)!r}, 3 times; {row('b')!r}; and 1 more"),
    (KEYED, None, [(row("a"), -1)], f"the row {row('a')!r} would be there -1 times", ""),
    (KEYED, ("a", None), [(row("a"), -2)], f"the row {row('a')!r} would be there -1 times", ""),
    (replace(KEYED, delta=True), None, [(row("a"), -2)], f"the row {row('a')!r} would be there -2 times", ""),
    (MULTISET, ("a", 1, None, 2), [(row("a"), -3)], f"the row {row('a')!r} would be there -1 times", ""),
    (REDUCED, (None, "{}", 2, 2), [(row("a"), -3)], "it would have -1 rows", ""),
    (replace(KEYED, row_type=PRICED, key=("id", "number")), None, [(TWO, 1), (ONE, 1)],
     "it would have 2 current rows", f"{ONE!r}; {TWO!r}"),
])  # fmt: skip
def test_what_no_table_can_have_is_named(
    binding: ViewBinding, before: Any, changes: list[Any], reason: str, rows: str
) -> None:
    """Two of the rows, in one order, and how many there are."""
    with pytest.raises(ViewError) as caught:
        stored(binding, before, *changes)
    assert ("items", reason, rows) == (caught.value.target, caught.value.reason, caught.value.rows)
    assert binding.view().key_of(changes[0][0]) == caught.value.key


def test_sums_of_decimals_are_exact() -> None:
    """However many digits the log's have; and where nothing is added, a decimal, too."""
    binding, digits = ViewBinding("l", HUGE, "items", ("id",), {"sum": Sum("v")}), int("9" * 77)
    rows = [HUGE.row([1, Decimal(number)]) for number in (str(digits), "-1")]
    twice, less = Decimal(str(2 * digits)), Decimal(str(2 * digits - 1))
    assert Store(0, (1,), (twice, 2)) == stored(binding, None, (rows[0], 2))
    assert Store(0, (1,), (less, 3), True) == stored(binding, (twice, 2), (rows[1], 1))
    nothing = stored(replace(binding, deletes="soft"), (twice, 2, True), (rows[0], 1), (rows[0], -1))
    assert nothing is not None and repr((twice, 2, False)) == repr(nothing.values)
