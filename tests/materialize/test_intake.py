"""What goes into a transaction: whole times, each once, of the keys that an instance has and the view lacks."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product
from cdcv2.errors import RefusedError, UsageError
from cdcv2.materialize import ViewBinding
from cdcv2.materialize.intake import Intake, KeyShare, Portion, canonical
from cdcv2.materialize.protocol.fence import LAST, Piece, Range
from cdcv2.protocol.messages import Update
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType

ROW = RowType({"type": "record", "name": "row", "fields": [{"name": "id", "type": "string"}]})
BINDINGS = [ViewBinding("a", ROW, "one", ("id",)), ViewBinding("b", ROW, "two", ("id",)),
            ViewBinding("a", ROW, "three", ("id",))]  # fmt: skip
HALF = zlib.crc32(b"('x',)")


def at(*elements: Any) -> Antichain:
    """A frontier."""
    return Antichain(elements)


def put(name: str, time: int) -> Update:
    """A row comes."""
    return ROW.row([name]), time, 1


def intake(cuts: Iterable[Any], *, wanted: Range = Range(), pieces: Iterable[Piece] = (), start: int = 0) -> Intake:
    """Of three views of two logs."""
    return Intake(cuts, BINDINGS, [one.view() for one in BINDINGS], KeyShare(wanted, [*pieces]), at(start))


def test_every_binding_of_a_log_gets_its_updates_and_a_cut_ends_where_it_ends() -> None:
    """With the reader's state, if it has one; logs without updates have no part."""
    updates = [put("x", 1), put("y", 2)]
    source = intake([Cut({"a": updates}, at(0), at(3)), None, (Cut({"b": [put("z", 3)]}, at(3), at(9)), {"s": 1})])

    assert [
        Portion(((0, updates), (2, updates)), at(3), None), None, Portion(((1, [put("z", 3)]),), at(9), {"s": 1}), None,
    ] == [source.pull() for _ in range(4)]  # fmt: skip
    assert (at(9), True) == (source.frontier, source.ended)


def test_a_source_that_has_nothing_now_has_not_ended() -> None:
    """Only the end of its cuts ends it."""
    source = intake([None])

    assert source.pull() is None and source.ended is False and source.pull() is None and source.ended is True


def test_what_the_view_has_is_skipped_and_a_gap_refused() -> None:
    """Whole cuts and the beginning of one."""
    source = intake([
        Cut({"a": [put("old", 1)]}, at(0), at(4)), Cut({"a": [put("old", 4)]}, at(4), at(5)),
        Cut({"a": [put("old", 4), put("new", 5), put("newer", 6)], "b": [put("old", 3)]}, at(2), at(7)),
        Cut({}, at(8), at(9)),
    ], start=5)  # fmt: skip

    new = [put("new", 5), put("newer", 6)]
    assert Portion(((0, new), (2, new)), at(7), None) == source.pull()
    with pytest.raises(RefusedError, match=r"from \[8\] on, and the view is complete up to \[7\] only"):
        source.pull()


def test_a_transaction_that_is_repeated_ends_where_it_ended() -> None:
    """What is left of the cut comes next, and the state with it: it is that of the cut's end."""
    cut = Cut({"b": [put("x", 1), put("y", 4), put("z", 5)]}, at(0), at(9))
    source = intake([(cut, "s")])

    assert Portion(((1, [put("x", 1)]),), at(4), None) == source.pull(at(4))
    assert Portion(((1, [put("y", 4)]),), at(5), None) == source.pull(at(5))
    assert Portion(((1, [put("z", 5)]),), at(9), "s") == source.pull(at(9))
    assert source.pull(at(10)) is None


def test_a_limit_that_lies_in_what_the_view_has_in_part_leaves_the_rest() -> None:
    """A cut may begin before the view's frontier, and be split behind it."""
    source = intake([Cut({"b": [put("x", 1), put("y", 4), put("z", 5)]}, at(0), at(9))], start=3)

    assert [Portion(((1, [put(name, time)]),), at(end), None) for name, time, end in (("y", 4, 5), ("z", 5, 9))] == [
        source.pull(at(5)), source.pull(at(12))
    ]


@pytest.mark.parametrize("cut, error", [
    (Cut({}, at(Product(0)), at(Product(1))), "int times"), (Cut({}, at(0), at(Product(1))), "int times"),
    (Cut({"c": [put("x", 0)]}, at(0), at(1)), r"the log 'c' has no binding; there are bindings of \['a', 'b'\]"),
], ids=str)  # fmt: skip
def test_what_no_binding_takes_is_wrong_usage(cut: Cut, error: str) -> None:
    """Times of another kind, and a log of none."""
    with pytest.raises(UsageError, match=error):
        intake([cut]).pull()


def test_an_instance_takes_the_keys_of_its_range_that_the_view_lacks() -> None:
    """Each key by the piece that its number lies in; at its edge the number is in the second piece."""
    pieces = [Piece(Range(0, HALF - 1), at(7)), Piece(Range(HALF, LAST), at(3))]
    names = sorted("abcdefghxyz", key=lambda name: zlib.crc32(f"('{name}',)".encode()))
    below, above = names[:names.index("x")], names[names.index("x"):]
    updates = [put(name, time) for time in (2, 3, 6, 7) for name in names]
    assert below and above
    source = intake([Cut({"b": updates}, at(0), at(9))], pieces=pieces)
    lacking = [put(name, time) for time in (2, 3, 6, 7) for name in names if time >= (7 if name in below else 3)]

    assert Portion(((1, lacking),), at(9), None) == source.pull()
    for wanted, mine in ((Range(0, HALF - 1), below), (Range(HALF, LAST), above), (Range(HALF, HALF), ["x"])):
        source = intake([Cut({"b": updates}, at(0), at(9))], wanted=wanted)
        portion = source.pull()
        assert portion is not None
        assert [(1, [put(name, time) for time in (2, 3, 6, 7) for name in names if name in mine])] == [*portion.updates]


def test_no_key_is_looked_at_once_the_view_is_even() -> None:
    """Then every update is wanted."""
    pieces = [Piece(Range(0, HALF - 1), at(7)), Piece(Range(HALF, LAST), at(3))]
    share = KeyShare(Range(), pieces)

    assert [False, False, True, True] == [share.even(at(number)) for number in (3, 6, 7, 8)]
    assert KeyShare(Range(), []).even(at(0)) and not KeyShare(Range(0, 9), []).even(at(9))
    assert not KeyShare(Range(1, LAST), pieces).even(at(9))


@pytest.mark.parametrize("key, raw", [
    (("a", 1, True, b"\xff"), rb"('a', 1, True, b'\xff')"), (("é\u2028",), rb"('\xe9\u2028',)"),
    ((None,), b"('None',)"), ((1, b"\x00", "a", 1.5), rb"(1, b'\x00', 'a', '1.5')"),
    ((Decimal("1.50"), date(2026, 1, 2)), b"('1.50', '2026-01-02')"), ((1.5, "a"), b"('1.5', 'a')"), ((), b"()"),
    ([1, "a"], b"(1, 'a')"),
], ids=str)  # fmt: skip
def test_the_bytes_of_a_key_are_the_same_in_every_release(key: Any, raw: bytes) -> None:
    """They decide which instance has it."""
    assert raw == canonical(key)
