"""What commands demand of their values, and the few rules about times that all have in common."""

from __future__ import annotations

from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError
from cdcv2.instances.commands import (
    LEAST, CreateIndex, IndexedTable, Peek, Tail, is_finished, last_time, least_since,
)

ORDERS, ITEMS = IndexedTable("orders", ("id",), "log-1"), IndexedTable("items", ("id",), "log-2")


@pytest.mark.parametrize("time", [-1, True, 1.5, "1", None])
def test_a_time_is_a_whole_number_from_0_on(time: Any) -> None:
    for make in (
        lambda: CreateIndex("main", (ORDERS,), time), lambda: Peek("p", "main", {}, time),
        lambda: Tail("t", "main", "orders", since=time),
    ):  # fmt: skip
        with pytest.raises(MalformedError, match=f"^{time!r} is no time of an index: these are whole numbers"):
            make()


@pytest.mark.parametrize(("tables", "words"), [
    ((), r"has the tables \[\]"), ((ORDERS, ITEMS, ORDERS), r"has the tables \['orders', 'items', 'orders'\]"),
    ((ORDERS, ITEMS._replace(key=())), "has no key for 'items'"),
])  # fmt: skip
def test_an_index_has_tables_with_keys_each_once(tables: tuple[IndexedTable, ...], words: str) -> None:
    with pytest.raises(MalformedError, match=f"^the index 'main' {words}"):
        CreateIndex("main", tables)


def test_an_index_is_what_its_tables_are() -> None:
    """Under any name, in any order and from any time on."""
    main = CreateIndex("main", (ORDERS, ITEMS))
    assert 0 == main.since and main.definition == CreateIndex("more", (ITEMS, ORDERS), 7).definition
    assert main.definition != CreateIndex("main", (ORDERS, ITEMS._replace(log="log-3"))).definition


def test_a_tail_needs_what_its_client_has_not() -> None:
    """From the last time that it has; from the beginning, what is there at its since."""
    tails = [Tail("t", "main", "orders", after, 5) for after in (LEAST, Antichain([1]), Antichain([9]), Antichain())]
    assert [5, 0, 8, 5] == [one.hold for one in tails]


def test_a_time_is_finished_if_the_frontier_is_beyond_it() -> None:
    uppers = [Antichain(), LEAST, Antichain([1]), Antichain([7])]
    assert [True, False, False, True] == [is_finished(6, upper) for upper in uppers]
    assert [None, None, 0, 6] == [last_time(upper) for upper in uppers]
    assert not is_finished(7, Antichain([7])) and (3, 2) == (least_since(iter([5, 3]), 4), least_since([], 2))
