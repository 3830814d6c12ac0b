"""Views: whatever way a history is cut into transactions, the table is that of the rows in the end."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.errors import IncompleteError, MalformedError, RefusedError, UsageError, ViewError
from cdcv2.materialize import Count, Last, Max, Min, Sum, ViewBinding
from cdcv2.materialize.protocol.messages import Key, Loaded, Store, Values
from cdcv2.rows.row_type import RowType
from cdcv2.views.binding import View
from cdcv2.views.combined_updates import CombinedUpdates

SALE = RowType({
    "type": "record", "name": "sale",
    "fields": [
        {"name": "shop", "type": "string"},
        {"name": "item", "type": "long"},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}]},
        {"name": "weight", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
})  # fmt: skip
MARKED = RowType({
    "type": "record", "name": "m",
    "fields": [{"name": "id", "type": "int"}, {"name": "cdcv2_deleted", "type": "boolean"}],
})  # fmt: skip
EMPTY = RowType({"type": "record", "name": "r", "fields": [{"name": "x", "type": "null"}]})
#: (row, time, diff)
Change = tuple[Any, int, int]
TableNow = dict[Key, Values]


def sale(shop: str = "s", item: int = 1, price: str | None = "1.00", weight: float = 1.5, tags: Any = ("t",)) -> Any:
    """A row."""
    return SALE.row([shop, item, None if price is None else Decimal(price), weight, list(tags)])


def transact(view: View, table: TableNow, changes: list[Change]) -> list[Store]:
    """One transaction, as a runtime and a store would do it; the stores."""
    combined = CombinedUpdates([view])
    for key in combined.add(0, [(view.key_of(row), (row, time, diff)) for row, time, diff in changes]):
        if key in table:
            combined.loaded(Loaded(0, key, table[key]))
    stores = list(combined.stores())
    for one in stores:
        assert one.exists == (one.key in table and not view.table.delta)
        if one.delete:
            table.pop(one.key, None)
        else:
            table[one.key] = one.values
    return stores


def kept(binding: ViewBinding, *transactions: list[Change]) -> TableNow:
    """The table after these transactions."""
    view, table = binding.view(), TableNow()
    for changes in transactions:
        transact(view, table, changes)
    return table


def cut(changes: list[Change], places: set[int]) -> list[list[Change]]:
    """The history in transactions of whole times, which begin at these times."""
    parts: list[list[Change]] = [[]]
    for change in sorted(changes, key=lambda one: one[1]):
        if change[1] in places and parts[-1] and parts[-1][-1][1] != change[1]:
            parts.append([])
        parts[-1].append(change)
    return parts


PRICES = ["0.01", "-2.50", "99999999999999999999999999999999999.99", None]


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Updates over 8 times, one per row and time, in which no row is ever there less than no times."""
    there, changes = Counter[Any](), []
    for time in range(8):
        for row in draw(st.lists(rows, max_size=4, unique=True)):
            diff = draw(st.integers(-there[row], 2).filter(bool))
            there[row] += diff
            changes.append((row, time, diff))
    return changes


rows = st.builds(
    sale, st.sampled_from("ab"), st.integers(0, 2), st.sampled_from(PRICES),
    st.sampled_from([0.5, float("nan"), float("-inf")]), st.sampled_from([(), ("x", "ü")]),
)  # fmt: skip
places = st.sets(st.integers(0, 7))


def by_shop(changes: list[Change]) -> dict[str, Counter[Any]]:
    """The rows that are there, by shop; shops with none left out."""
    found: dict[str, Counter[Any]] = {}
    for row, _, diff in changes:
        found.setdefault(row.shop, Counter())[row] += diff
    return {shop: +rows for shop, rows in found.items() if +rows}


def number(row: Any) -> Decimal | None:
    """The price of a row."""
    plain = SALE.to_plain(row)["price"]
    return None if plain is None else Decimal(plain)


@given(histories(), places)
def test_reductions_do_not_depend_on_transactions(changes: list[Change], at: set[int]) -> None:
    """Count, sum, least and greatest are those of the rows that are there, exact to the last digit."""
    wanted = {
        "n": Count(), "items": Sum("item"), "money": Sum("price"),
        "low": Min("price"), "high": Max("price"), "heavy": Max("weight"),
    }  # fmt: skip
    table = kept(ViewBinding("sales", SALE, "t", ("shop",), wanted), *cut(changes, at))
    truth = {}
    for shop, found in by_shop(changes).items():
        prices = [price for price in map(number, found) if price is not None]
        weights = sorted((row.weight for row in found), key=lambda weight: (weight != weight, weight))
        money = sum(Fraction(number(row) or 0) * count for row, count in found.items())
        truth[shop] = (
            found.total(), sum(row.item * count for row, count in found.items()), money,
            min(prices, default=None), max(prices, default=None), repr(weights[-1]),
        )  # fmt: skip
    shown = {key[0]: (*(values[place] for place in (0, 1, 2, 3, 5)), repr(values[7])) for key, values in table.items()}

    assert truth == shown


@given(histories(), places)
def test_a_multiset_has_each_row_as_often_as_it_is_there(changes: list[Change], at: set[int]) -> None:
    """Also rows with NaN, and ones that came, went and came again."""
    table = kept(ViewBinding("sales", SALE, "t"), *cut(changes, at))
    truth = Counter[Any]()
    for row, _, diff in changes:
        truth[row] += diff

    assert {(hashlib.sha256(SALE.encode(row)).hexdigest(),): count for row, count in (+truth).items()} == {
        key: values[-1] for key, values in table.items()
    }


def last_of(changes: list[Change], found: Counter[Any], value: Callable[[Any], Any]) -> Any:
    """Of the rows that are there, those that were written last; of these, the greatest value, NaN greatest."""
    since = {row: max(time for other, time, diff in changes if other == row and diff > 0) for row in found}
    values = [value(row) for row in found if since[row] == max(since.values()) and value(row) is not None]
    return max(values, key=lambda one: (one != one, one), default=None)


@given(histories(), places)
def test_the_last_write_wins_of_the_rows_that_are_there(changes: list[Change], at: set[int]) -> None:
    """Of a deleted row nothing is shown, however the history is cut; also of nulls, NaN, arrays and text."""
    wanted = {"price": Last("price"), "weight": Last("weight"), "tags": Last("tags"), "item": Last("item")}
    table = kept(ViewBinding("sales", SALE, "t", ("shop",), wanted), *cut(changes, at))
    truth = {}
    for shop, found in by_shop(changes).items():
        shown = (number, lambda row: row.weight, lambda row: '["x","ü"]' if row.tags else "[]", lambda row: row.item)
        truth[shop] = repr([*(last_of(changes, found, one) for one in shown), found.total()])

    assert truth == {key[0]: repr([*(values[place] for place in (0, 2, 4, 6, 8))]) for key, values in table.items()}


def test_the_value_of_a_row_that_is_gone_is_not_shown() -> None:
    """The one written before it is; after the last row, nothing. What is written again is written last."""
    binding = ViewBinding("sales", SALE, "t", ("shop",), {"last": Last("item")}, deletes="soft")
    first, second = sale(item=1), sale(item=2)
    history = [
        ([(first, 1, 1)], 1), ([(second, 2**60, 1)], 2), ([(second, 2**60 + 1, -1)], 1),
        ([(second, 2**60 + 2, 1)], 2), ([(first, 2**60 + 3, 1)], 1),
        ([(first, 2**60 + 4, -2), (second, 2**60 + 4, -1)], None),
    ]  # fmt: skip
    view, table = binding.view(), TableNow()
    for changes, shown in history:
        transact(view, table, changes)
        assert shown == table[("s",)][0]


@pytest.mark.parametrize("at", [set(), {2}, {3}, {2, 3}], ids=str)
def test_a_row_that_is_there_twice_and_once_taken_away_was_written_when_it_was(at: set[int]) -> None:
    """Also within a transaction: taking one away is no writing, and makes no row older."""
    binding = ViewBinding("sales", SALE, "t", ("shop",), {"last": Last("item")})
    first, second = sale(item=1), sale(item=2)

    assert (1, 2) == kept(binding, *cut([(second, 1, 1), (first, 2, 2), (first, 3, -1)], at))["s",][::2]
    assert (2, 2) == kept(binding, *cut([(first, 1, 2), (second, 2, 1), (first, 3, -1)], at))["s",][::2]


def test_the_last_write_without_its_rows_refuses_retractions() -> None:
    """It has one column and costs nothing; what was written before is not known."""
    binding = ViewBinding("l", SALE, "t", ("shop",), {"last": Last("price", False)})
    written = [[(sale(price="5.00"), 1, 1)], [(sale(price="2.00"), 2, 1), (sale(item=3, price=None), 2, 1)]]

    assert {("s",): (Decimal("2.00"), 3)} == kept(binding, *written)
    assert {("s",): (None, 4)} == kept(binding, *written, [(sale(item=4, price=None), 3, 1)])
    with pytest.raises(RefusedError, match=r"'last' was declared .* row Row\(.* at time 3: let it keep"):
        kept(binding, *written, [(sale(price="2.00"), 3, -1)])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([*PRICES, "gone"])), max_size=8), places)
def test_rows_by_key_are_the_current_rows(wishes: list[tuple[str, str | None]], at: set[int]) -> None:
    """Inserts, updates and deletes of a table, as its log has them."""
    current: dict[str, Any] = {}
    changes: list[Change] = []
    for time, (shop, price) in enumerate(wishes):
        new = None if price == "gone" else sale(shop, price=price)
        if current.get(shop) != new:
            changes += [(row, time, diff) for row, diff in ((current.get(shop), -1), (new, 1)) if row is not None]
        current[shop] = new
    table = kept(ViewBinding("sales", SALE, "t", ("shop",)), *cut(changes, at))
    soft = kept(ViewBinding("sales", SALE, "t", ("shop",), deletes="soft"), *cut(changes, at))
    truth = {(shop,): (1, number(row), 1.5, '["t"]') for shop, row in current.items() if row is not None}

    assert truth == table
    assert truth == {key: values[:-1] for key, values in soft.items() if not values[-1]}


def test_what_is_gone_softly_stays_and_is_marked() -> None:
    """Also in a multiset, whose count is 0, and in reductions; and it may come back."""
    came, went = [(sale(), 1, 1)], [(sale(), 2, -1)]
    by_key = ViewBinding("sales", SALE, "t", ("shop",), deletes="soft")
    multiset = ViewBinding("sales", SALE, "t", deletes="soft")
    reduced = ViewBinding("sales", SALE, "t", ("shop",), {"n": Count(), "items": Sum("item")}, deletes="soft")
    ends = {name: list(kept(one, came, went).values()) for name, one in zip("kmr", (by_key, multiset, reduced))}
    row = (1, Decimal("1.00"), 1.5, '["t"]')

    assert {"k": [(*row, True)], "m": [("s", *row, 0)], "r": [(0, 0, True)]} == ends
    assert {("s",): (*row, False)} == kept(by_key, came, went, [(sale(), 3, 1)])
    assert {("s",): (1, 1, False)} == kept(reduced, came, went, [(sale(), 3, 1)])


def test_what_changes_nothing_is_not_stored() -> None:
    """A row that is taken away and put back costs the target nothing."""
    view = ViewBinding("sales", SALE, "t", ("shop",)).view()
    table = TableNow()
    transact(view, table, [(sale(), 1, 1)])

    assert [] == transact(view, table, [(sale(), 2, -1), (sale(), 3, 1)])
    assert [] == transact(ViewBinding("sales", SALE, "t").view(), {}, [(sale(), 2, 1), (sale(), 3, -1)])
    assert [] == transact(
        ViewBinding("sales", SALE, "t", ("shop",), {"n": Count()}).view(), {}, [(sale(), 2, 1), (sale(), 3, -1)]
    )


def test_changes_are_what_a_transaction_does() -> None:
    """Nothing is loaded; a subscriber who adds them up has the view."""
    wanted = {"n": Count(), "items": Sum("item")}
    total = ViewBinding("sales", SALE, "t", ("shop",), wanted, delta=True)
    by_key, multiset = ViewBinding("sales", SALE, "t", ("shop",), delta=True), ViewBinding(
        "sales", SALE, "t", delta=True
    )
    moved = [(sale(item=1), 2, -1), (sale(item=5), 2, 1)]
    gone = [(sale(item=5), 3, -2)]

    assert [(0, 4)] == [one.values for one in transact(total.view(), {}, moved)]
    assert [(-2, -10)] == [one.values for one in transact(total.view(), {}, gone)]
    assert [(5, False)] == [(one.values[0], one.delete) for one in transact(by_key.view(), {}, moved)]
    assert [(5, True)] == [(one.values[0], one.delete) for one in transact(by_key.view(), {}, [(sale(item=5), 3, -1)])]
    assert [-1, 1] == sorted(one.values[-1] for one in transact(multiset.view(), {}, moved))
    assert [] == list(CombinedUpdates([total.view()]).add(0, [(("s",), (sale(), 1, 1))]))


@pytest.mark.parametrize(
    ("binding", "changes", "text"),
    [
        (ViewBinding("l", SALE, "t", ("shop",)), [(sale(), 1, -1)], "would be there -1 times"),
        (ViewBinding("l", SALE, "t", ("shop",)), [(sale(), 1, 2)], "it would have 2 current rows"),
        (ViewBinding("l", SALE, "t", ("shop",)), [(sale(), 1, 1), (sale(item=2), 1, 1)],
         "it would have 2 current rows"),
        (ViewBinding("l", SALE, "t"), [(sale(), 1, -1)], "would be there -1 times"),
        (ViewBinding("l", SALE, "t", ("shop",), {"n": Count()}), [(sale(), 1, -1)], "it would have -1 rows"),
        (
            ViewBinding("l", SALE, "t", ("shop",), {"low": Min("item")}),
            [(sale(), 1, 1), (sale(item=2), 1, -1)],
            "the value 2 of 'item' would be there -1 times",
        ),
        (
            ViewBinding("l", SALE, "t", ("shop",), {"last": Last("item")}),
            [(sale(), 1, 1), (sale(item=2), 1, -1)],
            "a row with 2 as 'item' would be there -1 times",
        ),
    ],
)
def test_less_than_nothing_and_two_rows_are_errors(binding: ViewBinding, changes: list[Change], text: str) -> None:
    """Never a silent choice; the error names table, key, row, and the two ways it can have come about."""
    with pytest.raises(ViewError, match="changed by hand.*run cdcv2 repair.*no key of the log's rows") as caught:
        kept(binding, changes)

    assert text in caught.value.reason
    assert ("t", "s") == (caught.value.target, caught.value.key[0] if binding.key else "s")  # type: ignore[index]


def test_of_many_rows_for_one_key_two_are_named_behind_what_to_do() -> None:
    """A key that is none may be that of a whole table."""
    rows = [(sale(item=item, tags=("x" * 90,)), 1, 1) for item in range(203)]
    with pytest.raises(ViewError, match="it would have 203 current rows. If .*; and 201 more$") as caught:
        kept(ViewBinding("l", SALE, "t", ("shop",)), rows)
    assert len(str(caught.value)) < 1200 and 2 == str(caught.value).count("x" * 90)
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))
    twice = pickle.loads(pickle.dumps(IncompleteError("it is at 5", what="the target is behind")))
    assert "the target is behind: it is at 5" == str(twice)


def test_a_null_in_a_key_is_an_error() -> None:
    """It equals nothing, not even itself, in most systems."""
    with pytest.raises(MalformedError, match="the key column 'price' is null in Row"):
        kept(ViewBinding("l", SALE, "t", ("shop", "price")), [(sale(price=None), 1, 1)])


def test_what_a_reduction_shows_and_keeps_are_columns() -> None:
    """What is shown of a minimum or of the last row may be null, whatever the log's column; a sum has its scale."""
    number = RowType({
        "type": "record", "name": "n", "fields": [{"name": "k", "type": "int"}, {"name": "v", "type": "int"}],
    })  # fmt: skip
    wanted = {"n": Count(), "sum": Sum("v"), "low": Min("v"), "last": Last("v"), "high": Max("v", False)}
    fields = {one.name: one for one in ViewBinding("l", number, "t", ("k",), wanted).view().table.values}
    shown = [("n", "integer"), ("sum", "integer"), ("low", "int"), ("low_values", "json"), ("last", "int"),
             ("last_rows", "json"), ("high", "int")]  # fmt: skip

    assert shown == [(name, one.kind) for name, one in fields.items()]
    assert [True, True, True] == [fields[name].nullable for name in ("low", "last", "high")]
    assert {(1,): (2, 7)} == {
        key: values[:2]
        for key, values in kept(ViewBinding("l", number, "t", ("k",), wanted), [
            (number.row([1, 3]), 1, 1), (number.row([1, 4]), 1, 1)
        ]).items()
    }  # fmt: skip
    (money,) = ViewBinding("l", SALE, "t", ("shop",), {"n": Count(), "m": Sum("price")}).view().table.values[1:]
    assert ("decimal", 2) == (money.kind, money.scale)


def test_a_minimum_keeps_its_values_with_their_counts() -> None:
    """Rows that share a value count together, in a transaction and across several; a value without rows is dropped."""
    binding = ViewBinding("l", SALE, "t", ("shop",), {"low": Min("item"), "high": Max("item")})
    history = [
        [(sale(weight=1.0), 1, 1), (sale(weight=2.0), 1, 2)], [(sale(item=5), 2, 1)], [(sale(weight=1.0), 3, -1)],
        [(sale(weight=2.0), 4, -2)], [(sale(item=5), 5, -1), (sale(item=7), 5, 1), (sale(item=7, weight=0.0), 5, 1)],
    ]  # fmt: skip
    wanted = [(1, '{"1":3}'), (1, '{"1":3,"5":1}'), (1, '{"1":2,"5":1}'), (5, '{"5":1}'), (7, '{"7":2}')]
    for number, shown in enumerate(wanted, 1):
        assert shown == kept(binding, *history[:number])["s",][:2]


def test_a_minimum_without_its_values_refuses_retractions() -> None:
    """What was least before is not known; insertions are welcome."""
    binding = ViewBinding("l", SALE, "t", ("shop",), {"low": Min("item", False), "high": Max("item", False)})

    assert {("s",): (2, 9, 2)} == kept(binding, [(sale(item=2), 1, 1)], [(sale(item=9), 2, 1)])
    assert {("s",): (2, 9, 2)} == kept(binding, [(sale(item=9), 1, 1)], [(sale(item=2), 2, 1)])
    assert {("s",): (2, 9, 3)} == kept(binding, [(sale(item=5), 1, 1)], [(sale(item=2), 2, 1), (sale(item=9), 2, 1)])
    with pytest.raises(RefusedError, match=r"'low' was .* the row Row\(.*at time 2: let it keep what it needs \("):
        kept(binding, [(sale(item=5), 1, 1)], [(sale(item=5), 2, -1)])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ViewBinding("l", SALE, "t", ("nothing",)),
         "there is no column 'nothing': the log's rows have shop, item"),
        (lambda: ViewBinding("l", SALE, "t", ("weight",)), "'weight' is of the kind 'double' and cannot be a key"),
        (lambda: ViewBinding("l", SALE, "t", ("tags",)), "'tags' is of the kind 'json' and cannot be a key"),
        (lambda: ViewBinding("l", SALE, "t", ("shop", "item", "shop")), "the key names the column 'shop' twice: name"),
        (lambda: ViewBinding("l", MARKED, "t", ("id",), deletes="soft"),
         "'cdcv2_deleted', the log's and the view's own"),
        (lambda: ViewBinding("l", SALE, "t", (), {"n": Count()}), "reductions need the key columns"),
        (lambda: ViewBinding("l", SALE, "t", ("shop",), {"w": Sum("weight")}),
         "sums are of whole numbers and decimals"),
        (lambda: ViewBinding("l", SALE, "t", ("item",), {"w": Sum("shop")}),
         "as its kind is 'string': sums are of whole"),
        (lambda: ViewBinding("l", SALE, "t", ("shop",), {"w": Sum("tags")}),
         "as its kind is 'json': sums are of whole"),
        (lambda: ViewBinding("l", SALE, "t", ("shop",), {"w": Min("tags")}), "the values of 'tags' have no order"),
        (lambda: ViewBinding("l", SALE, "t", ("shop",), {"shop": Count()}), "two columns would be called 'shop'"),
        (lambda: ViewBinding("l", SALE, "t", deletes="never"), "deletes='never' is neither"),
        (lambda: ViewBinding("l", SALE, "t", ("shop",), {"w": Min("item")}, delta=True), "set retractions to false"),
        (lambda: ViewBinding("l", SALE, "t", ("shop",), {"w": Last("item")}, delta=True), "the last value stays"),
        (lambda: ViewBinding("l", EMPTY, "t"), "column 'x' is of the type 'null'"),
    ],
)
def test_a_binding_that_cannot_be_is_refused_at_once(make: Callable[[], ViewBinding], text: str) -> None:
    """Before anything is opened, and by the name of what does not fit."""
    with pytest.raises(UsageError, match=text):
        make()
