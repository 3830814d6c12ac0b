"""The runtime with a driver that takes Changes: the same tables as by Load and Store, whatever the cuts are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core import Antichain
from cdcv2.errors import ViewError
from cdcv2.materialize import Checkpoint, Count, Runtime, ViewBinding
from cdcv2.materialize.protocol.messages import (
    Changes, ConflictError, Load, Loaded, Open, Opened, StartCommit, StartedCommit,
)
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from tests import toys

PAIR = RowType({
    "type": "record", "name": "pair",
    "fields": [{"name": "id", "type": "string"}, {"name": "value", "type": "long"}],
})  # fmt: skip
#: One view that has to know what is there, two that are kept by columns, and a log of which nothing may come.
BINDINGS = (
    ViewBinding("pairs", PAIR, "counts", ("id",), {"n": Count()}),
    ViewBinding("silent", PAIR, "silent", ("id",)),
    ViewBinding("pairs", PAIR, "rows", ("id",)),
    ViewBinding("pairs", PAIR, "bag"),
)


class ByColumns(toys.Authoritative):
    """Takes Changes of every table that it is allowed to; keeps a multiset as its rows and their counts."""

    def __init__(self, database: toys.Database) -> None:
        super().__init__(database)
        self.loaded: list[Load] = []
        self.taken: list[Changes] = []
        self.changed: list[Changes] = []

    def open(self, message: Open) -> Opened:
        """Of all tables, also of those whose views have no Changes."""
        return replace(super().open(message), changes=frozenset(range(len(message.tables))))

    def load(self, message: Load) -> Iterable[Loaded]:
        """Note it."""
        self.loaded.append(message)
        return super().load(message)

    def changes(self, message: Changes) -> None:
        """Stage them."""
        self.taken.append(message)
        self.changed.append(message)

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Check what goes and comes against what is there, then commit."""
        for one in self.changed:
            table = self.tables[one.binding]
            held = self.rows.setdefault(table.name, {})
            if table.multiset:
                self._count(held, one)
            else:
                self._replace(held, one, len(table.key))
        self.changed = []
        return super().start_commit(message)

    def _count(self, held: dict[Any, Any], one: Changes) -> None:
        for row in (*_tuples(one.gone), *_tuples(one.come)):
            left = held.get(row[:-1], 0) + row[-1]
            if left < 0:
                raise ConflictError("bag", one.binding, row[:-1], None)
            held[row[:-1]] = left
            if not left:
                del held[row[:-1]]

    @staticmethod
    def _replace(held: dict[Any, Any], one: Changes, width: int) -> None:
        gone, come = _tuples(one.gone), _tuples(one.come)
        assert [row[:width] for row in gone[: one.both]] == [row[:width] for row in come[: one.both]]
        for row in gone:
            if held.get(row[:width]) != row[width:]:
                raise ConflictError("rows", one.binding, row[:width], held.get(row[:width]))
            del held[row[:width]]
        for place, row in enumerate(come):
            if row[:width] in held:
                raise ConflictError("rows", one.binding, row[:width], held[row[:width]])
            assert place < one.both or row[:width] not in {other[:width] for other in gone}
            held[row[:width]] = row[width:]


class ByDigests(ByColumns):
    """Takes the rows of a multiset with their digests."""

    def open(self, message: Open) -> Opened:
        """Which it asks for."""
        return replace(super().open(message), digests=True)

    def _count(self, held: dict[Any, Any], one: Changes) -> None:
        given = [*_tuples(one.gone), *_tuples(one.come)]
        assert len({row[0] for row in given}) == len(given)
        for key, *row, diff in given:
            left = (*row, held.get((key,), (0,))[-1] + diff)
            if left[-1] < 0:
                raise ConflictError("bag", one.binding, (key,), held.get((key,)))
            held[key,] = left
            if not left[-1]:
                del held[key,]


def _tuples(table: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns))) if table.num_rows else []


def carried(cuts: list[Cut], driver: type[toys.Authoritative], rows: int) -> tuple[dict[str, Any], Any]:
    """The tables in the end, a multiset as row -> count; and the driver."""
    made = driver(database := toys.Database())

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        yield from cuts

    Runtime("m", BINDINGS, made, source, rows=rows).run()
    tables = {name: dict(held) for name, held in database.rows.items() if held}
    if driver is not ByColumns and "bag" in tables:  # there each row is at its digest
        tables["bag"] = {values[:-1]: values[-1] for values in tables["bag"].values()}
    return tables, made


@st.composite
def histories(draw: st.DrawFn) -> list[Cut]:
    """Rows by key that come, change and go, in cuts of which some are empty."""
    held: dict[str, int] = {}
    cuts: list[Cut] = []
    for time in range(draw(st.integers(1, 5))):
        updates: list[tuple[Any, int, int]] = []
        for key in draw(st.lists(st.sampled_from("abc"), unique=True)):
            before, after = held.pop(key, None), draw(st.sampled_from([None, 1, 2]))
            if before is not None:
                updates.append((PAIR.row([key, before]), time, -1))
            if after is not None:
                updates.append((PAIR.row([key, after]), time, 1))
                held[key] = after
        cuts.append(Cut({"pairs": updates} if updates else {}, Antichain([time]), Antichain([time + 1])))
    return cuts


@given(histories(), st.sampled_from([1, 3, 100]), st.sampled_from([ByColumns, ByDigests]))
def test_tables_kept_by_columns_are_those_kept_by_rows(cuts: list[Cut], rows: int, made: type[ByColumns]) -> None:
    """Nothing is asked of a table that is kept by columns, and each change is sent once."""
    expected, _ = carried(cuts, toys.Authoritative, rows)
    found, driver = carried(cuts, made, rows)
    assert expected == found
    assert {0} >= {load.binding for load in driver.loaded}
    assert all(len(one.gone) or len(one.come) for one in driver.taken)
    truth = Counter[Any]()
    for cut in cuts:
        for row, _, diff in cut.updates.get("pairs", ()):
            truth[row.id, row.value] += diff
    assert {row: count for row, count in truth.items() if count} == found.get("bag", {})


def test_a_key_with_two_rows_is_looked_up_and_named() -> None:
    """What columns cannot express is loaded and judged with what is there, as without columns."""
    twice = [(PAIR.row(["a", 1]), 0, 1), (PAIR.row(["a", 2]), 0, 1)]
    with pytest.raises(ViewError, match="rows.*'a'"):
        carried([Cut({"pairs": twice}, Antichain([0]), Antichain([1]))], ByColumns, 1)

    driver = ByColumns(toys.Database())
    cuts = [
        Cut({"pairs": twice[:1]}, Antichain([0]), Antichain([1])),
        # Two rows come and two go: more than columns can express, and in the end one row.
        Cut({"pairs": [(PAIR.row(["a", 1]), 1, -1), (PAIR.row(["a", 3]), 1, 2), (PAIR.row(["a", 3]), 1, -1),
                       (PAIR.row(["a", 2]), 1, 2), (PAIR.row(["a", 2]), 1, -2)]}, Antichain([1]), Antichain([2])),
        Cut({"pairs": [(PAIR.row(["b", 1]), 2, 1)]}, Antichain([2]), Antichain([3])),
    ]  # fmt: skip
    Runtime("m", BINDINGS, driver, lambda checkpoint: iter(cuts), rows=1).run()
    assert {("a",): (3,), ("b",): (1,)} == driver.rows["rows"]


def test_what_goes_and_is_not_there_is_named() -> None:
    """The driver reports what it found, and the runtime names the row of the log that contradicts it."""
    gone = [(PAIR.row(["a", 1]), 0, -1)]
    with pytest.raises(ViewError, match="'a'"):
        carried([Cut({"pairs": gone}, Antichain([0]), Antichain([1]))], ByColumns, 1)


@pytest.mark.parametrize("made", [ByColumns, ByDigests])
@pytest.mark.parametrize("binding", BINDINGS[2:], ids=["rows", "bag"])
def test_what_a_driver_of_columns_does_not_find_is_judged_by_the_log(
    binding: ViewBinding, made: type[ByColumns]
) -> None:
    """Not the driver's conflict is the error, but the update behind it."""
    gone = Cut({"pairs": [(PAIR.row(["a", 1]), 4, -1)]}, Antichain([0]), Antichain([9]))
    runtime = Runtime("m", [binding], made(toys.Database()), lambda checkpoint: iter([gone]))
    text = rf"^{binding.target}, key .*: the row Row\(id='a', value=1\) would be there -1 times"
    with pytest.raises(ViewError, match=text) as caught:
        runtime.run()

    assert not isinstance(caught.value, ConflictError)
