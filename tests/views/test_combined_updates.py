"""One transaction's updates as columns: what they come to, what is odd in them, and which row is in the way."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.errors import ViewError
from cdcv2.materialize import Count, ViewBinding
from cdcv2.materialize.protocol.messages import ConflictError, Key, Loaded, Store, Values
from cdcv2.rows.row_type import RowType
from cdcv2.views.combined_updates import CombinedUpdates

ITEM = RowType({"type": "record", "name": "item", "fields": [
    {"name": "id", "type": "int"}, {"name": "weight", "type": "double"},
]})  # fmt: skip
BINDINGS = (
    ViewBinding("l", ITEM, "sums", ("id",), {"n": Count()}), ViewBinding("l", ITEM, "items", ("id",)),
    ViewBinding("l", ITEM, "counts"),
)  # fmt: skip
SUMS, ITEMS, COUNTS = range(3)
NAN = float("nan")


def row(one: int, weight: float = 0.5) -> Any:
    """Of an item."""
    return ITEM.row([one, weight])


def combined(*held: tuple[int, list[tuple[Any, int]]], digests: bool = False) -> CombinedUpdates:
    """Updates of bindings, held for their columns."""
    made = CombinedUpdates([binding.view() for binding in BINDINGS], digests=digests)
    for number, changes in held:
        made.hold(number, [(one, 1, diff) for one, diff in changes])
    return made


def rows(table: Any) -> list[tuple[Any, ...]]:
    """Of a table."""
    return [tuple(one.values()) for one in table.to_pylist()]


def test_updates_that_are_held_are_worked_out_together_by_binding() -> None:
    """However many parts they come in; each binding has its own."""
    made = combined((ITEMS, [(row(1), 1)]), (COUNTS, [(row(7), 2)]), (ITEMS, [(row(2), 1), (row(1), -1)]))
    items, counts = made.net(ITEMS), made.net(COUNTS)
    assert items is not None and counts is not None
    assert ([(2, 0.5)], [], [(7, 0.5, 2)], []) == (rows(items[0].come), items[1], rows(counts[0].come), counts[1])
    assert 4 == made.size and [] == [*made.stores()]


def test_nothing_is_worked_out_where_nothing_is_held() -> None:
    """Nor of a view that has to know what is there."""
    assert combined().net(ITEMS) is combined((ITEMS, [(row(1), 1)])).net(COUNTS) is None
    assert combined((SUMS, [(row(1), 1)])).net(SUMS) is None


def test_odd_keys_come_with_their_updates() -> None:
    """In their order; those of other keys are in the columns."""
    made = combined((ITEMS, [(row(1), 1), (row(2), 1), (row(1, 2.0), 1), (row(3), -2), (row(2), -1), (row(4), 1)]))
    worked = made.net(ITEMS)
    assert worked is not None
    assert [(4, 0.5)] == rows(worked[0].come) and {(1,), (3,)} == worked[0].odd
    assert [((1,), (row(1), 1, 1)), ((1,), (row(1, 2.0), 1, 1)), ((3,), (row(3), 1, -2))] == worked[1]


def test_where_nothing_is_odd_no_row_is_asked_for_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would cost more than all columns."""
    view = BINDINGS[ITEMS].view()
    monkeypatch.setattr(view, "key_of", None)
    made = CombinedUpdates([view])
    made.hold(0, [(row(1), 1, 1)])
    worked = made.net(0)
    assert worked is not None and ([(1, 0.5)], []) == (rows(worked[0].come), worked[1])


@pytest.mark.parametrize(("number", "key", "there", "reason"), [
    (ITEMS, (1,), None, f"the row {row(1)!r} would be there -1 times"),
    (ITEMS, (2,), (3.0,), "it would have 2 current rows"),
    (COUNTS, (1, 0.5), None, f"the row {row(1)!r} would be there -1 times"),
    (COUNTS, (5, NAN), (5, NAN, 1), f"the row {row(5, NAN)!r} would be there -1 times"),
])  # fmt: skip
def test_what_is_in_the_way_of_columns_is_named_as_of_rows(
    number: int, key: Key, there: Values | None, reason: str
) -> None:
    """By all updates of the key, and what the target has there."""
    changes = [(row(1), -2), (row(2), 1), (row(5, NAN), -2), (row(1), 1)]
    made = combined((number, changes), (COUNTS if number == ITEMS else ITEMS, [(row(1), 5), (row(2), -1)]))
    found = made.judged(ConflictError(BINDINGS[number].target, number, key, there))
    assert type(found) is ViewError and (BINDINGS[number].target, reason) == (found.target, found.reason)
    assert key == found.key if number == ITEMS else BINDINGS[number].view().key_of(row(*key)) == found.key


def test_of_a_multiset_the_rows_have_digests_where_the_target_takes_them() -> None:
    """And a row that is in the way is named by it; rows by key are as they were."""
    changes = [(row(1), -2), (row(5, NAN), -1), (row(1), 1)]
    made = combined((COUNTS, changes), (ITEMS, [(row(1), 1)]), digests=True)
    items, counts = made.net(ITEMS), made.net(COUNTS)
    assert items is not None and counts is not None
    key_of = BINDINGS[COUNTS].view().key_of
    assert [(1, 0.5)] == rows(items[0].come) and [] == items[1] == counts[1] == rows(counts[0].come)
    assert [repr((*key_of(one), *one, -1)) for one in (row(1), row(5, NAN))] == [*map(repr, rows(counts[0].gone))]
    for one, there in ((row(1), None), (row(5, NAN), (5, NAN, 0))):
        found = made.judged(ConflictError("counts", COUNTS, key_of(one), there))
        assert (key_of(one), f"the row {one!r} would be there -1 times") == (found.key, found.reason)
    assert "it would have 2 current rows" == made.judged(ConflictError("items", ITEMS, (1,), (3.0,))).reason


def test_a_conflict_that_the_rows_do_not_show_stays_one() -> None:
    """The target has been changed to what it should only become."""
    cause = ConflictError("items", ITEMS, (1,), (0.5,))
    assert cause is combined((ITEMS, [(row(1), -1)])).judged(cause)
    assert cause is combined((ITEMS, [(row(2), -1)])).judged(cause)


def test_keys_are_asked_for_once_and_stored_by_binding() -> None:
    """Each with what was there; a row that changes nothing is not stored."""
    made = combined()
    updates = [((1,), (row(1), 1, -1)), ((2,), (row(2), 1, 1)), ((1,), (row(1, 2.0), 1, 1))]
    assert [(1,), (2,)] == [*made.add(ITEMS, updates)] and [] == [*made.add(ITEMS, [((2,), (row(2), 2, -1))])]
    assert [(1,)] == [*made.add(SUMS, updates[:1])]
    made.loaded(Loaded(ITEMS, (1,), (0.5,)))
    made.loaded(Loaded(SUMS, (1,), (3,)))
    assert [Store(SUMS, (1,), (2,), True), Store(ITEMS, (1,), (2.0,), True)] == [*made.stores()]
    assert 5 == made.size


def test_stores_come_in_the_order_of_bindings_and_keys() -> None:
    """A repeated transaction brings the same ones in the same order; some destinations only count."""
    made = combined()
    for number in (ITEMS, SUMS):
        list(made.add(number, [((one,), (row(one), 1, 1)) for one in (7, 3, 5)]))

    assert [(number, (one,)) for number in (SUMS, ITEMS) for one in (3, 5, 7)] == [
        (one.binding, one.key) for one in made.stores()
    ]
    assert 6 == made.size
