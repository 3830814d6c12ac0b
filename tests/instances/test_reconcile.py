"""What becomes of the indexes that an instance has, when a controller states what there is to be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcv2.instances.commands import CreateIndex, IndexedTable
from cdcv2.instances.reconcile import IndexReconciliation, difference, reconcile

ORDERS, ITEMS = IndexedTable("orders", ("id",), "log 1"), IndexedTable("items", ("id", "line"), "log 2")
MAIN = CreateIndex("main", (ORDERS, ITEMS), 5)


@pytest.mark.parametrize(("since", "requested", "why"), [
    (5, MAIN, None), (5, replace(MAIN, tables=(ITEMS, ORDERS)), None), (5, replace(MAIN, since=6), None),
    (0, replace(MAIN, since=0), None), (5, replace(MAIN, id="other"), None),
    (6, MAIN, "it is compacted up to 6, and 5 is requested"),
    (5, replace(MAIN, tables=(ORDERS,)), "it has the tables items, orders, and orders are requested"),
    (5, replace(MAIN, tables=(ORDERS, ITEMS, ITEMS._replace(name="a"))),
     "it has the tables items, orders, and a, items, orders are requested"),
    (5, replace(MAIN, tables=(ORDERS, ITEMS._replace(key=("id",)))),
     "the key of items is id, line, and id is requested"),
    (5, replace(MAIN, tables=(ORDERS, ITEMS._replace(key=("line", "id")))),
     "the key of items is id, line, and line, id is requested"),
    (5, replace(MAIN, tables=(ORDERS._replace(log="log 3"), ITEMS)),
     "orders is read from the log log 1, and log 3 is requested"),
])  # fmt: skip
def test_an_index_serves_if_it_has_what_is_requested(since: int, requested: CreateIndex, why: str | None) -> None:
    """Its tables by the same keys, of the same logs, in any order, and at every time from then on."""
    assert why == difference(MAIN, since, requested)


def test_each_index_has_one_fate() -> None:
    """In the order in which it was requested, and of those that are dropped, in which it was there."""
    there = {
        name: (replace(MAIN, id=name), 5) for name in ("z", "old", "late", "kept", "a")
    }  # fmt: skip
    wanted = [replace(MAIN, id="new"), replace(MAIN, id="late", since=4), replace(MAIN, id="kept"),
              replace(MAIN, id="old"), replace(MAIN, id="more")]  # fmt: skip
    assert reconcile(there, iter(wanted)) == IndexReconciliation(
        ("kept", "old"), ("new", "more"), ("z", "a"), {"late": "it is compacted up to 5, and 4 is requested"}
    )


@pytest.mark.parametrize(("given", "text"), [
    (IndexReconciliation(), "nothing to do"),
    (IndexReconciliation(("a", "b"), ("c",), ("d",), {"e": "why", "f": "not"}),
     "kept a, b; created c; dropped d; replaced e (why); replaced f (not)"),
    (IndexReconciliation(dropped=("d", "e")), "dropped d, e"),
])  # fmt: skip
def test_it_is_a_line_for_people(given: IndexReconciliation, text: str) -> None:
    """Without what there is none of."""
    assert text == given.text
