"""A subscriber rebuilds the view from deltas, shuffled and repeated; what cannot be is an error that names it."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import ContradictionError, DecodeError, MalformedError, RefusedError, ViewError
from cdcv2.materialize import Count, Field, Max, MemoryRecoveryLog, Min, Runtime, Sum, ViewBinding
from cdcv2.materialize.protocol.deltas import plain_value, value_from_plain
from cdcv2.materialize.protocol.messages import Table
from cdcv2.materialize.subscriber import Subscriber
from cdcv2.materialize.targets.push import PushDriver
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.testing import Workload

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
SALE = RowType({
    "type": "record", "name": "sale",
    "fields": [{"name": "shop", "type": "string"}, {"name": "price", "type": PRICE},
               {"name": "weight", "type": ["null", "double"]}],
})  # fmt: skip


class ListDriver(PushDriver):
    """Pushes into a list, as text."""

    def __init__(self) -> None:
        super().__init__()
        self.pushed: list[str] = []

    def connect(self, tables: tuple[Table, ...]) -> None:
        """Nothing to do."""

    def push(self, table: Table, message: dict[str, Any]) -> None:
        """At once."""
        self.pushed.append(json.dumps(message))

    def settle(self) -> None:
        """Nothing to do."""


def pushed(bindings: list[ViewBinding], source: Any) -> list[str]:
    """All that a materialization pushes, a cut a transaction."""
    driver = ListDriver()
    Runtime("m", bindings, driver, source, log=MemoryRecoveryLog("m"), rows=1).run()
    return driver.pushed


@pytest.mark.parametrize("seed", range(20))
def test_any_order_and_any_repeats_come_to_the_same(seed: int) -> None:
    """After every message the view is a cut; in the end it is the history."""
    work, lottery = Workload("delta", seed=seed), random.Random(seed)
    messages = pushed(work.bindings, work.source)
    shuffled = messages + lottery.choices(messages, k=20)
    lottery.shuffle(shuffled)
    subscriber = Subscriber(work.bindings)
    for message in shuffled:
        if subscriber.take(message) and subscriber.frontier:
            assert work.truth(subscriber.frontier.elements[0]) == work.shown(subscriber.view)

    assert work.truth() == work.shown(subscriber.view)
    assert (Antichain(), 20) == (subscriber.frontier, subscriber.repeats)


def sales(*changes: list[tuple[str, int, float | None, int]]) -> Any:
    """Cuts of (shop, cents, weight, diff)."""

    def source(_: Any) -> Any:
        for time, rows in enumerate(changes):
            updates = [
                (SALE.row([shop, cents.to_bytes(20, "big", signed=True), weight]), time, diff)
                for shop, cents, weight, diff in rows
            ]
            yield Cut({"sales": updates}, Antichain([time]), Antichain([time + 1]))

    return source


def shown(binding: ViewBinding, source: Any) -> dict[Any, Any]:
    """What a subscriber has in the end, each message twice."""
    subscriber = Subscriber([binding])
    for message in pushed([binding], source):
        subscriber.take(message)
        subscriber.take(message.encode())
    return subscriber.view["t"]


def test_each_kind_of_view_is_rebuilt() -> None:
    """Rows come, change and go; sums are exact with forty digits; the least and the greatest, with NaN and null."""
    long = 10**37 + 1
    rows = ViewBinding("sales", SALE, "t", ("shop",), delta=True)
    source = sales([("a", 1, None, 1), ("b", 2, float("nan"), 1)], [("a", 1, None, -1), ("a", 3, 0.5, 1)],
                   [("b", 2, float("nan"), -1)])  # fmt: skip

    assert {("a",): (Decimal("0.03"), 0.5)} == shown(rows, source)

    sums = ViewBinding("sales", SALE, "t", ("shop",), {"n": Count(), "sum": Sum("price")}, delta=True)

    assert {("a",): (3, Decimal(f"{3 * long}E-2"))} == shown(sums, sales(*([("a", long, None, 1)] for _ in "123")))
    assert {} == shown(sums, sales([("a", long, None, 2)], [("a", long, None, -2)]))

    ends = {"low": Min("weight", retractions=False), "high": Max("weight", retractions=False)}
    extremes = ViewBinding("sales", SALE, "t", ("shop",), ends, delta=True)
    three = sales([("a", 1, None, 1)], [("a", 1, 2.5, 1)], [("a", 1, -1.0, 1)])

    assert {("a",): (-1.0, 2.5, 3)} == shown(extremes, three)


def test_lies_and_foreign_messages_are_named() -> None:
    """Two values for one identity, two numbers for one transaction, less than no rows; and nothing has changed."""
    binding = ViewBinding("sales", SALE, "t", ("shop",), {"n": Count()}, delta=True)
    messages = [json.loads(one) for one in pushed([binding], sales([("a", 1, None, 2)], [("a", 1, None, -1)]))]
    delta, statement = messages[:2]
    subscriber = Subscriber([binding])
    subscriber.take(delta)
    with pytest.raises(ContradictionError, match="'a'"):
        subscriber.take({**delta, "values": {"n": 3}})
    subscriber = Subscriber([binding])
    subscriber.take({**statement, "deltas": 2})
    with pytest.raises(ContradictionError, match="states 2 updates"):
        subscriber.take(statement)
    for wrong in (b"{", b"[]", {**delta, "version": 9}, {**delta, "values": {}}, {**delta, "values": {"n": "x"}}):
        with pytest.raises(DecodeError):
            Subscriber([binding]).take(wrong)
    with pytest.raises(RefusedError, match="of the table 'u', and there are t"):
        Subscriber([binding]).take({**delta, "table": "u"})
    subscriber = Subscriber([binding])
    subscriber.take({**delta, "values": {"n": -2}})
    with pytest.raises(ViewError, match="-2 times"):
        subscriber.take(statement)


def test_what_was_refused_leaves_nothing_behind() -> None:
    """A receiver that goes on after an error, as one that has answered 4xx, loses nothing and has nothing by halves."""
    both = [ViewBinding("sales", SALE, name, ("shop",), {"n": Count()}, delta=True) for name in ("t", "u")]
    source = sales([("a", 1, None, 1), ("b", 1, None, 1)], [("a", 1, None, 1)])
    messages = [json.loads(one) for one in pushed(both, source)]
    subscriber, delta = Subscriber(both), messages[0]
    statement = next(one for one in messages if "deltas" in one)
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({**delta, "upper": [9], "values": {"n": "x"}}, DecodeError),
        ({**delta, "delete": "false"}, DecodeError),
        ({**delta, "lower": None}, DecodeError),
        ({**delta, "upper": delta["lower"]}, DecodeError),
        ({**delta, "table": ["t"]}, RefusedError),
        *(({**statement, "upper": [9], "deltas": deltas}, DecodeError) for deltas in ("2", True, None, -1)),
    ]
    for number, message in enumerate(messages):
        for one, error in wrong if number == 0 else []:
            with pytest.raises(error):
                subscriber.take(one)
        subscriber.take(message)
        if message is statement:
            for one in ({**statement, "deltas": 1}, {**statement, "deltas": 3}, {**delta, "key": {"shop": "new"}}):
                with pytest.raises(ContradictionError):
                    subscriber.take(one)
    assert {"t": {("a",): (2,), ("b",): (1,)}, "u": {("a",): (2,), ("b",): (1,)}} == subscriber.view

    subscriber = Subscriber(both)
    first = [one for one in messages if one["upper"] == delta["upper"]]
    *others, last = [{**one, "values": {"n": -1}} if one["table"] == "u" and "key" in one else one for one in first]
    for one in others:
        subscriber.take(one)
    with pytest.raises(ViewError, match="-1 times"):
        subscriber.take(last)
    assert ({"t": {}, "u": {}}, Antichain([0])) == (subscriber.view, subscriber.frontier)

    subscriber = Subscriber(both)
    for one in first[:2]:
        subscriber.take(one)
    with pytest.raises(ContradictionError, match="states 2 updates"):
        subscriber.take({**statement, "deltas": 1})
    for message in messages:
        subscriber.take(message)
    assert {("a",): (2,), ("b",): (1,)} == subscriber.view["t"]


def test_what_another_recovery_log_pushes_is_no_repeat() -> None:
    """It has other extents: part of what they have is in the view, and the rest would be lost, or come twice."""
    binding = ViewBinding("sales", SALE, "t", ("shop",), {"n": Count()}, delta=True)
    source = sales([("a", 1, None, 1)], [("a", 2, None, 1)], [("a", 3, None, 1)])
    right = [json.loads(one) for one in pushed([binding], source)]
    driver = ListDriver()
    Runtime("m", [binding], driver, source, log=MemoryRecoveryLog("m"), rows=2).run()
    other = [json.loads(one) for one in driver.pushed]
    first, second = right[:2], right[2:4]
    assert other[0]["lower"] == first[0]["lower"] and other[0]["upper"] == second[0]["upper"]

    subscriber = Subscriber([binding])
    for message in first:
        subscriber.take(message)
    with pytest.raises(RefusedError, match=r"from \[0\] to \[2\] overlap the view, which is at \[1\].*recovery log"):
        subscriber.take(other[0])
    for message in (*right, *right):
        subscriber.take(message)
    assert {"t": {("a",): (3,)}} == subscriber.view
    for message in other:
        subscriber.take(message)
    assert {"t": {("a",): (3,)}} == subscriber.view

    places = (first[0], other[0], "0. to .1"), (second[0], other[0], "1. to .2"), (other[0], second[0], "0. to .2")
    for before, then, place in places:
        subscriber = Subscriber([binding])
        subscriber.take(before)
        with pytest.raises(RefusedError, match=rf"overlap others from .{place}.:"):
            subscriber.take(then)


def test_two_materializations_in_one_place_are_told_apart() -> None:
    """Their extents may be the same."""
    binding = ViewBinding("sales", SALE, "t", ("shop",), {"n": Count()}, delta=True)
    message = json.loads(pushed([binding], sales([("a", 1, None, 1)]))[0])
    subscriber = Subscriber([binding])
    subscriber.take(message)
    with pytest.raises(RefusedError, match="of the materialization 'n', and those before were of 'm'"):
        subscriber.take({**message, "materialization": "n"})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", True), ("int", -1), ("long", 2**62), ("integer", 10**50), ("decimal", Decimal("-1E-7")),
        ("decimal", Decimal("100")), ("float", 1.5), ("double", float("inf")), ("double", 2.0),
        ("string", "\U0001f600"), ("bytes", b"\x00\xff"), ("json", '{"a":1}'), ("long", None),
    ],
)  # fmt: skip
def test_values_go_there_and_back(kind: str, value: Any) -> None:
    """Through real JSON, every kind."""
    column = Field("c", kind, nullable=value is None)

    assert value == value_from_plain(column, json.loads(json.dumps(plain_value(column, value))))


@pytest.mark.parametrize("kind, plain", [
    ("boolean", 1), ("int", "x"), ("long", 1.0), ("long", True), ("double", "x"), ("float", True), ("double", None),
    ("decimal", 1.5), ("decimal", 1), ("decimal", "x"), ("decimal", ["1"]), ("string", 7), ("bytes", "?"), ("json", {}),
])  # fmt: skip
def test_what_is_no_value_of_a_column_is_refused(kind: str, plain: Any) -> None:
    """By the column's name: what another program wrote is not guessed at."""
    with pytest.raises(MalformedError):
        value_from_plain(Field("c", kind), plain)


def test_plain_values_are_whole_and_written_out() -> None:
    """A decimal has no exponent; a float may come as a whole number, as many programs write it."""
    number = Field("c", "decimal", precision=40, scale=2)

    assert ["-0.0000001", "100000"] == [plain_value(number, Decimal(text)) for text in ("-1E-7", "1E+5")]
    for kind in ("float", "double"):
        value = value_from_plain(Field("c", kind), 2)
        assert (2.0, float) == (value, type(value))


def test_taking_states_whether_the_view_has_moved() -> None:
    """With the last message of a transaction it has; with one that came before, or waits for others, it has not."""
    binding = ViewBinding("sales", SALE, "t", ("shop",), {"n": Count()}, delta=True)
    delta, statement = (json.loads(one) for one in pushed([binding], sales([("a", 1, None, 1)])))
    subscriber = Subscriber([binding])

    moved = [subscriber.take(one) for one in (delta, delta, statement, statement)]
    assert all(one is other for one, other in zip(moved, (False, False, True, False), strict=True))
    assert {"t": {("a",): (1,)}} == subscriber.view and type(subscriber.view["t"][("a",)][0]) is int
    for first, wrong in ((delta, {**delta, "values": {"n": 3}}), (statement, {**statement, "deltas": 7})):
        subscriber = Subscriber([binding])
        subscriber.take(first)
        with pytest.raises(ContradictionError, match=r"\[1\]"):
            subscriber.take(wrong)


def test_a_row_that_is_not_there_may_go() -> None:
    """Within one transaction a row may come and go: its delta deletes what no delta brought."""
    binding = ViewBinding("sales", SALE, "t", ("shop",), delta=True)
    delta, statement = (json.loads(one) for one in pushed([binding], sales([("a", 1, None, 1)])))
    subscriber = Subscriber([binding])
    subscriber.take({**delta, "delete": True})

    assert subscriber.take(statement) and {"t": {}} == subscriber.view


def test_sums_of_whole_numbers_stay_whole_numbers_and_those_of_decimals_exact() -> None:
    """A count is an int after a second change, too."""
    reductions = {"n": Count(), "sum": Sum("price")}
    binding = ViewBinding("sales", SALE, "t", ("shop",), reductions, delta=True)
    rows = shown(binding, sales([("a", 1, None, 1)], [("a", 2, None, 1)]))

    assert [(2, int), (Decimal("0.03"), Decimal)] == [(value, type(value)) for value in rows["a",]]


@pytest.mark.parametrize("weights, low, high", [
    ([float("nan"), 1.0], "1.0", "nan"), ([1.0, float("nan")], "1.0", "nan"), ([None, None], "None", "None"),
    ([None, float("nan")], "nan", "nan"), ([float("nan"), None, 2.0, -1.0], "-1.0", "nan"),
], ids=str)  # fmt: skip
def test_nan_is_the_greatest_and_null_is_neither(weights: list[float | None], low: str, high: str) -> None:
    """As in PostgreSQL, in whatever order they come."""
    ends = {"low": Min("weight", retractions=False), "high": Max("weight", retractions=False)}
    binding = ViewBinding("sales", SALE, "t", ("shop",), ends, delta=True)
    rows = shown(binding, sales(*([("a", 1, weight, 1)] for weight in weights)))

    assert [low, high] == list(map(str, rows["a",][:2]))
