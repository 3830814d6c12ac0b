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
from cdcv2.views.changes import Net, NetChanges, NetCounts
from cdcv2.views.columns import arrow_of

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


#: an id, a shop, a weight, and how many times more it is there
Step = tuple[int | None, str, float | None, int]
TEXTS = RowType({
    "type": "record", "name": "t", "fields": [
        {"name": "id", "type": ["null", "int"]}, {"name": "shop", "type": "string"},
        {"name": "weight", "type": ["null", "string"], "cdcv2.source": {"type": "numeric"}},
    ],
})  # fmt: skip


def steps(row_type: RowType, *changes: tuple[Any, Any, Any, int]) -> list[Any]:
    """Updates."""
    return [(row_type.row([*row]), time, diff) for time, (*row, diff) in enumerate(changes)]


def shown(table: Any) -> list[str]:
    """All rows, as text."""
    return [repr(tuple(row.values())) for row in table.to_pylist()]


def texts(*rows: tuple[Any, ...]) -> list[str]:
    """The same of the rows that are expected."""
    return [repr(row) for row in rows]


@pytest.mark.parametrize(("changes", "both", "gone", "come", "odd"), [
    ([], 0, [], [], []),
    ([(1, "a", 0.5, 1)], 0, [], [(1, "a", 0.5)], []),
    ([(1, "a", 0.5, -1)], 0, [(1, "a", 0.5)], [], []),
    ([(1, "a", 0.5, 1), (1, "b", 0.5, -1)], 1, [(1, "b", 0.5)], [(1, "a", 0.5)], []),
    (
        [(3, "n", None, 1), (2, "l", 0.5, -1), (1, "a", 0.5, -1), (1, "b", None, 1), (4, "m", NAN, 1),
         (5, "o", 1.0, -1)],
        1, [(1, "a", 0.5), (2, "l", 0.5), (5, "o", 1.0)], [(1, "b", None), (3, "n", None), (4, "m", NAN)], [],
    ),
    # What comes to nothing, with and without a sum.
    ([(1, "a", 0.5, 1), (1, "a", 0.5, -1)], 0, [], [], []),
    ([(1, "a", NAN, 1), (1, "a", NAN, -1), (2, "a", None, -1), (2, "a", None, 1)], 0, [], [], []),
    ([(1, "a", 0.5, -1), (1, "b", 0.5, 1), (1, "b", 0.5, -1), (1, "a", 0.5, 1)], 0, [], [], []),
    ([(1, "a", 0.5, -1), (1, "b", 0.5, 1), (1, "b", 0.5, -1), (1, "c", 0.5, 1)],
     1, [(1, "a", 0.5)], [(1, "c", 0.5)], []),
    ([(1, "a", 0.5, 2), (1, "a", 0.5, -1)], 0, [], [(1, "a", 0.5)], []),
    ([(1, "a", 0.5, -2), (1, "a", 0.5, 1)], 0, [(1, "a", 0.5)], [], []),
    # Null is no value, and no NaN.
    ([(1, "a", NAN, -1), (1, "a", None, 1)], 1, [(1, "a", NAN)], [(1, "a", None)], []),
    ([(1, "a", None, -1), (1, "a", 0.5, 1)], 1, [(1, "a", None)], [(1, "a", 0.5)], []),
    ([(1, "a", NAN, -1), (1, "a", 0.5, 1)], 1, [(1, "a", NAN)], [(1, "a", 0.5)], []),
    ([(1, "a", 0.5, -1), (1, "a", NAN, 1)], 1, [(1, "a", 0.5)], [(1, "a", NAN)], []),
    # A key of two rows, or of one that is there twice, goes the other way; others do not.
    ([(1, "a", 0.5, 2), (2, "b", 0.5, 1)], 0, [], [(2, "b", 0.5)], [1]),
    ([(1, "a", 0.5, -2), (2, "b", 0.5, -1)], 0, [(2, "b", 0.5)], [], [1]),
    ([(1, "a", 0.5, 1), (1, "b", 0.5, 1)], 0, [], [], [1]),
    ([(1, "a", 0.5, -1), (1, "b", 0.5, -1), (3, "c", 0.5, 3)], 0, [], [], [1, 3]),
    ([(1, "a", 0.5, -1), (1, "b", 0.5, 1), (1, "c", 0.5, 1)], 0, [], [], [1]),
])  # fmt: skip
def test_what_goes_and_what_comes(
    changes: list[Step], both: int, gone: list[Any], come: list[Any], odd: list[int]
) -> None:
    """By the key id: first of the keys that change, in one order."""
    found = ViewBinding("l", ITEM, "items", ("id",)).view().changes
    assert isinstance(found, NetChanges)
    net = found.net(steps(ITEM, *changes))
    assert (both, texts(*gone), texts(*come)) == (net.both, shown(net.gone), shown(net.come))
    assert frozenset((one,) for one in odd) == net.odd
    assert ["id", "shop", "weight"] == net.gone.column_names == net.come.column_names


def test_spellings_of_one_value_are_no_change() -> None:
    """A number that the table has as it had it before."""
    found = ViewBinding("l", TEXTS, "items", ("id",)).view().changes
    assert isinstance(found, NetChanges)
    net = found.net(steps(TEXTS, (1, "a", "1E+0", -1), (1, "a", "1", 1), (2, "b", "1E+1", -1), (2, "b", "20", 1)))
    assert (texts((2, "b", "10")), texts((2, "b", "20")), 1) == (shown(net.gone), shown(net.come), net.both)


def test_a_row_that_goes_softly_stays_marked_behind_those_that_change() -> None:
    """What is there is not marked; of what comes, only what goes is."""
    changes = [(3, "n", 1.0, 1), (2, "l", 2.0, -1), (1, "a", 3.0, -1), (1, "b", 4.0, 1), (4, "x", 5.0, 2)]
    found = ViewBinding("l", ITEM, "items", ("id",), deletes="soft").view().changes
    assert isinstance(found, NetChanges)
    net = found.net(steps(ITEM, *changes))

    assert texts((1, "a", 3.0, False), (2, "l", 2.0, False)) == shown(net.gone)
    assert texts((1, "b", 4.0, False), (2, "l", 2.0, True), (3, "n", 1.0, False)) == shown(net.come)
    assert (2, {(4,)}) == (net.both, net.odd) and "cdcv2_deleted" == net.gone.column_names[-1]
    assert net.gone.schema == net.come.schema


@pytest.mark.parametrize(("changes", "gone", "come"), [
    ([], [], []),
    # Rows that only come are as they are; but for sums, of which none may be over 64 bits.
    ([(1, "a", 0.5, 1), (2, "b", NAN, 70), (1, "a", 0.5, 1)],
     [], [(1, "a", 0.5, 1), (2, "b", NAN, 70), (1, "a", 0.5, 1)]),
    ([(1, "a", 0.5, 2**62 - 1), (1, "a", 0.5, 1)], [], [(1, "a", 0.5, 2**62 - 1), (1, "a", 0.5, 1)]),
    ([(1, "a", 0.5, 2**62), (1, "a", 0.5, 1)], [], [(1, "a", 0.5, 2**62 + 1)]),
    ([(1, "a", 0.5, 3), (2, "b", None, -2), (1, "a", 0.5, -1), (3, "c", NAN, 1), (3, "c", NAN, -1), (4, "d", 1.0, -1)],
     [(2, "b", None, -2), (4, "d", 1.0, -1)], [(1, "a", 0.5, 2)]),
    ([(1, "a", 0.5, -1)], [(1, "a", 0.5, -1)], []),
    ([(1, "a", 0.5, -1), (1, "a", 0.5, 2)], [], [(1, "a", 0.5, 1)]),
])  # fmt: skip
def test_counts_go_down_and_up(changes: list[Step], gone: list[Any], come: list[Any]) -> None:
    """Of a multiset nothing is odd, and no row is another's."""
    found = ViewBinding("l", ITEM, "items").view().changes
    assert isinstance(found, NetCounts)
    net = found.net(steps(ITEM, *changes))
    assert (texts(*gone), texts(*come)) == (shown(net.gone), shown(net.come))
    assert (0, frozenset()) == (net.both, net.odd) and net.gone.schema == net.come.schema
    assert ["id", "shop", "weight", "cdcv2_count"] == net.come.column_names


@pytest.mark.parametrize(("row_type", "changes", "gone", "come"), [
    (ITEM, [], [], []),
    # Each row stands once, also where rows only come.
    (ITEM, [(1, "a", 0.5, 1), (2, "b", NAN, 70), (1, "a", 0.5, 1), (2, "b", NAN, 1)],
     [], [(1, "a", 0.5, 2), (2, "b", NAN, 71)]),
    (ITEM, [(1, "a", 0.5, 3), (2, "b", None, -2), (1, "a", 0.5, -1), (3, "c", -0.0, 1), (3, "c", 0.0, -1),
            (4, "d", 1.0, -1)], [(2, "b", None, -2), (4, "d", 1.0, -1)], [(1, "a", 0.5, 2)]),
    (ITEM, [(1, "a", 0.5, -1)], [(1, "a", 0.5, -1)], []),
    # Two rows of the log that are one value in the target.
    (TEXTS, [(1, "a", "1.5", 1), (1, "a", "1.50", -1), (1, "a", "1.5", 1)],
     [(1, "a", "1.50", -1)], [(1, "a", "1.5", 2)]),
])  # fmt: skip
def test_counts_go_down_and_up_by_digests(
    row_type: RowType, changes: list[Step], gone: list[Any], come: list[Any]
) -> None:
    """In front of each row the key that the table has for it."""
    view = ViewBinding("l", row_type, "items").view()
    assert isinstance(view.changes, NetCounts)
    net = view.changes.net_with_digests(steps(row_type, *changes))

    def expected(rows: list[Any]) -> list[str]:
        made = [row_type.row(row[:-1]) for row in rows]
        return texts(*((*view.key_of(one), *view.place(one), row[-1]) for one, row in zip(made, rows)))

    assert (expected(gone), expected(come)) == (shown(net.gone), shown(net.come))
    assert (0, frozenset()) == (net.both, net.odd) and net.gone.schema == net.come.schema
    assert [one.name for one in view.table.fields] == net.come.column_names
    # Of no rows, too.
    assert [arrow_of(one) for one in view.table.fields] == net.come.schema.types


@pytest.mark.parametrize("key", [("id",), ()], ids=["by key", "a multiset"])
def test_what_no_log_could_state_is_named_by_its_table(key: tuple[str, ...]) -> None:
    """And so is what is none of its column's values."""
    changes = ViewBinding("l", TEXTS, "items", key).view().changes
    assert changes is not None
    with pytest.raises(MalformedError, match="^items: the time or the diff of an update is no whole number of 64 bits"):
        changes.net(steps(TEXTS, (1, "a", "1", 2**63)))
    with pytest.raises(MalformedError, match="^items: in the column 'weight', 'many' is no number"):
        changes.net(steps(TEXTS, (1, "a", "many", 1)))


def test_the_row_with_a_null_in_its_key_is_named() -> None:
    """The first of them."""
    changes = ViewBinding("l", TEXTS, "items", ("shop", "id")).view().changes
    assert changes is not None
    with pytest.raises(MalformedError, match=r"the key column 'id' is null in Row\(id=None, shop='b', weight=None\)"):
        changes.net(steps(TEXTS, (1, "a", None, 1), (None, "b", None, 1), (None, "c", None, -1)))


@pytest.mark.parametrize("key", [("id", "shop"), ()])
def test_sums_of_over_64_bits_are_refused(key: tuple[str, ...]) -> None:
    """They may be the sum of two that are not; also of a multiset, where each one alone could stay as it is."""
    row, changes = ITEM.row([1, "a", None]), ViewBinding("items", ITEM, "items", key).view().changes
    assert changes is not None
    ways = [changes.net, changes.net_with_digests] if isinstance(changes, NetCounts) else [changes.net]
    for net in ways:
        with pytest.raises(MalformedError, match="^items: the diffs of one row come to more than 64 bits hold"):
            net([(row, at, 2**62) for at in range(2)])
    assert 1 == len(changes.net([(row, 1, 1)]).come)
