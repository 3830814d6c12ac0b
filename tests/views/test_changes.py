"""The net change of rows by key, worked out as columns, is the one that counting rows one by one gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdcv2.errors import MalformedError
from cdcv2.materialize import ViewBinding
from cdcv2.rows.row_type import RowType
from cdcv2.views.changes import Net, NetChanges

ITEM = RowType({
    "type": "record", "name": "item",
    "fields": [
        {"name": "id", "type": "long"}, {"name": "shop", "type": "string"},
        {"name": "weight", "type": ["null", "double"]},
    ],
})  # fmt: skip
NAN = float("nan")
#: One key mostly, so that rows meet; two NaN are one value, and so are two nulls.
ROWS = st.builds(
    lambda *values: ITEM.row([*values]),
    st.integers(1, 3), st.sampled_from(["a", "b"]), st.sampled_from([None, 0.0, -0.0, 1.5, NAN]),
)  # fmt: skip
UPDATES = st.lists(st.tuples(ROWS, st.integers(0, 3), st.sampled_from([-2, -1, -1, 1, 1, 2])), min_size=1, max_size=8)


def of(updates: list[Any], *, marked: bool = False) -> Net:
    """By columns."""
    view = ViewBinding("items", ITEM, "items", ("id", "shop"), deletes="soft" if marked else "hard").view()
    assert isinstance(view.changes, NetChanges)
    return view.changes.net(updates)


def slowly(updates: list[Any]) -> tuple[Counter[Any], Counter[Any], set[Any]]:
    """What goes, what comes and the odd keys, from a sum for each row."""
    sums: Counter[Any] = Counter()
    for row, _, diff in updates:
        sums[repr(tuple(row))] += diff
    gone, come, odd = Counter[Any](), Counter[Any](), set()
    for row in {repr(tuple(row)): tuple(row) for row, _, _ in updates}.values():
        count = sums[repr(row)]
        for side in [gone] * (count < 0) + [come] * (count > 0):
            side[row[:2]] += 1
            if abs(count) > 1 or side[row[:2]] > 1:
                odd.add(row[:2])
    rows = {repr(tuple(row)): tuple(row) for row, _, _ in updates}
    plain = {row: count for row, count in sums.items() if count and rows[row][:2] not in odd}
    return (
        Counter(row for row, count in plain.items() if count < 0),
        Counter(row for row, count in plain.items() if count > 0), odd,
    )  # fmt: skip


def rows_of(table: Any) -> list[str]:
    """Each row as text, so that NaN is equal to itself."""
    return [repr(tuple(row[name] for name in table.column_names[:3])) for row in table.to_pylist()]


SAME = (ITEM.row([1, "a", NAN]), 1, -1), (ITEM.row([1, "a", NAN]), 1, 1)
OTHER = (ITEM.row([1, "a", None]), 1, -1), (ITEM.row([1, "a", NAN]), 1, 1)


@given(UPDATES)
@example([*SAME])
@example([*OTHER])
@example([*SAME, (ITEM.row([2, "a", 1.5]), 1, 1)])
@example([*SAME, *OTHER])
@example([(ITEM.row([1, "b", None]), 0, -1), (ITEM.row([1, "b", None]), 2, 1)])
def test_it_is_what_counting_gives(updates: list[Any]) -> None:
    """Rows that go and come, each once; the keys of both first and in one order; odd keys apart."""
    net, (gone, come, odd) = of(updates), slowly(updates)
    assert (Counter(rows_of(net.gone)), Counter(rows_of(net.come)), set(net.odd)) == (gone, come, odd)
    keys = [[(row["id"], row["shop"]) for row in side.to_pylist()] for side in (net.gone, net.come)]
    assert keys[0][: net.both] == keys[1][: net.both]
    assert not {*keys[0][net.both :]} & {*keys[1][net.both :]}


@given(UPDATES)
def test_a_row_that_goes_softly_stays_with_a_mark(updates: list[Any]) -> None:
    """Where one only goes, the same one comes in its place, marked."""
    (gone, _, odd), net = slowly(updates), of(updates, marked=True)
    left = [row for row in net.come.to_pylist() if row["cdcv2_deleted"]]
    hard = of(updates)
    assert Counter(rows_of(net.gone)) == gone and set(net.odd) == odd
    assert len(net.come) == len(hard.come) + len(left) and len(left) == len(hard.gone) - hard.both
    assert net.both == len(net.gone)


@pytest.mark.parametrize("key", [("id", "shop"), ()])
def test_sums_of_over_64_bits_are_refused(key: tuple[str, ...]) -> None:
    """They may be the sum of two that are not; also of a multiset, where each one alone could stay as it is."""
    row, changes = ITEM.row([1, "a", None]), ViewBinding("items", ITEM, "items", key).view().changes
    assert changes is not None
    with pytest.raises(MalformedError, match="64 bits"):
        changes.net([(row, at, 2**62) for at in range(2)])
    assert 1 == len(changes.net([(row, 1, 1)]).come)
