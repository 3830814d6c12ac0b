"""The runtime: pipelined, resumable, one consistent cut per commit, and clear about whose fault it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import RefusedError, UsageError
from cdcv2.materialize import Checkpoint, Count, MemoryRecoveryLog, Runtime, Sum, ViewBinding
from cdcv2.materialize.intake import Fed
from cdcv2.materialize.protocol.messages import Flush, Flushed, Load, Loaded, Open, Opened, Store
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from tests import toys

MOVE = RowType({
    "type": "record", "name": "move",
    "fields": [{"name": "account", "type": "string"}, {"name": "amount", "type": "long"}],
})  # fmt: skip
TOTALS = ViewBinding("moves", MOVE, "totals", ("account",), {"n": Count(), "total": Sum("amount")})


def cut(lower: int, upper: int | None, *moves: tuple[str, int, int], log: str = "moves") -> Cut:
    """A cut with these (account, amount, time)."""
    updates = [(MOVE.row([account, amount]), time, 1) for account, amount, time in moves]
    return Cut({log: updates} if updates else {}, Antichain([lower]), Antichain([] if upper is None else [upper]))


THREE = [cut(0, 3, ("a", 5, 1), ("b", 1, 2)), cut(3, 4, ("a", 2, 3)), cut(4, 9, ("b", -1, 4), ("c", 7, 8))]
IN_THE_END = {("a",): (2, 7), ("b",): (2, 0), ("c",): (1, 7)}


def fed(cuts: Iterable[Fed]) -> Callable[[Checkpoint], Iterable[Fed]]:
    """A source that always begins with the first."""
    held = list(cuts)
    return lambda checkpoint: iter(held)


class Noted(toys.Authoritative):
    """A driver that records what it receives."""

    def __init__(self, database: toys.Database) -> None:
        super().__init__(database)
        self.told: list[Any] = []

    def open(self, message: Open) -> Opened:
        """Note it."""
        self.told.append(message)
        return super().open(message)

    def load(self, message: Load) -> Iterable[Loaded]:
        """Note it."""
        self.told.append(message)
        return super().load(message)

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Note it."""
        self.told.append(message)
        return super().flush(message)

    def store(self, message: Store) -> None:
        """Note it."""
        self.told.append(message)
        super().store(message)


def test_each_transaction_asks_stores_and_commits() -> None:
    """A key that is there is sent with ``exists``; one transaction per cut, as far as its size is reached."""
    database = toys.Database()
    driver = Noted(database)
    checkpoint = Runtime("m", [TOTALS], driver, fed(THREE), rows=1).run()

    assert Checkpoint(Antichain([9])) == checkpoint
    assert {"totals": IN_THE_END} == database.rows
    assert [
        Load(0, ("a",)), Load(0, ("b",)), Flush(Antichain([0]), Antichain([3])),
        Store(0, ("a",), (1, 5)), Store(0, ("b",), (1, 1)),
        Load(0, ("a",)), Flush(Antichain([3]), Antichain([4])), Store(0, ("a",), (2, 7), exists=True),
        Load(0, ("b",)), Load(0, ("c",)), Flush(Antichain([4]), Antichain([9])),
        Store(0, ("b",), (2, 0), exists=True), Store(0, ("c",), (1, 7)),
    ] == driver.told[1:]  # fmt: skip


def test_cuts_that_are_there_go_into_one_transaction() -> None:
    """Each key is asked for once, and stored once, whatever number of cuts changes it."""
    driver = Noted(toys.Database())
    runtime = Runtime("m", [TOTALS], driver, fed(THREE))
    runtime.run()

    assert 1 == runtime.transactions
    assert [(type(one), one.key) for one in driver.told if isinstance(one, (Load, Store))] == [
        (kind, (key,)) for kind in (Load, Store) for key in "abc"
    ]


def test_logs_of_one_timeline_are_committed_together() -> None:
    """A transfer is in both tables or in neither, at every commit."""
    database, seen = toys.Database(), []
    other = ViewBinding("mirror", MOVE, "mirrored", ("account",), {"n": Count(), "total": Sum("amount")})
    cuts = [
        Cut({**one.updates, "mirror": [(MOVE.row([row.account, -row.amount]), time, diff)
                                       for row, time, diff in one.updates["moves"]]}, one.lower, one.upper)
        for one in THREE
    ]  # fmt: skip
    runtime = Runtime("m", [TOTALS, other], toys.Authoritative(database), fed(cuts), rows=1)
    for _ in runtime.steps():
        seen.append(sum(values[1] for table in database.rows.values() for values in table.values()))

    assert {0} == set(seen)
    assert 14 == sum(values[1] for values in database.rows["totals"].values())


def test_it_goes_on_where_the_checkpoint_is() -> None:
    """The source may begin anywhere before: what the view has is skipped, per update."""
    database = toys.Database()
    Runtime("m", [TOTALS], toys.Authoritative(database), fed(THREE[:2])).run()
    asked: list[Checkpoint] = []

    def source(checkpoint: Checkpoint) -> Iterator[Fed]:
        asked.append(checkpoint)
        # Other cuts than the first time; facts are the same.
        yield Cut({"moves": [*THREE[1].updates["moves"], *THREE[2].updates["moves"]]}, Antichain([2]), Antichain([9]))

    again = Runtime("m", [TOTALS], toys.Authoritative(database), source)

    assert Checkpoint(Antichain([9])) == again.run()
    assert [Checkpoint(Antichain([4]))] == asked
    assert {"totals": IN_THE_END} == database.rows


def test_the_state_of_the_reader_comes_back() -> None:
    """Behind the last cut of a transaction, with its frontier; not from the middle of one."""
    log = MemoryRecoveryLog("m")
    shelf = toys.Shelf()
    source = fed([(one, {"read": number}) for number, one in enumerate(THREE)])
    Runtime("m", [TOTALS], toys.Lake(shelf), source, log=log).run()
    again = Runtime("m", [TOTALS], toys.Lake(shelf), fed([]), log=log)

    assert Checkpoint(Antichain([9]), {"read": 2}) == again.run()


def test_a_gap_is_refused() -> None:
    """Its content would be lost for ever, and silently."""
    with pytest.raises(RefusedError, match=r"gave a cut from \[4\] on, and the view .*\[3\]"):
        Runtime("m", [TOTALS], toys.Authoritative(toys.Database()), fed([THREE[0], THREE[2]])).run()


def test_nothing_now_commits_what_is_there() -> None:
    """A live source that pauses must not keep the view waiting for more."""
    database = toys.Database()
    pausing = fed([None, THREE[0], None, THREE[1], None, THREE[2]])
    runtime = Runtime("m", [TOTALS], toys.Authoritative(database), pausing)
    runtime.run()

    assert 3 == runtime.transactions
    assert {"totals": IN_THE_END} == database.rows


def test_an_idle_timeline_moves_its_checkpoint() -> None:
    """That nothing happened is news: the target has everything up to there."""
    database = toys.Database()
    idle = fed([cut(0, 5), None, cut(5, None)])
    checkpoint = Runtime("m", [TOTALS], toys.Authoritative(database), idle).run()

    assert Checkpoint(Antichain()) == checkpoint
    assert {} == database.rows
    assert Checkpoint(Antichain()) == Runtime("m", [TOTALS], toys.Authoritative(database), fed([])).run()


def test_a_driver_that_leaves_the_checkpoint_to_a_log_needs_one() -> None:
    """The error names the materialization, and what to do."""
    runtime = Runtime("shop", [TOTALS], toys.Lake(toys.Shelf()), fed(THREE))
    text = "^the driver of 'shop' leaves the checkpoint to the recovery log, and there is none: name one$"
    with pytest.raises(UsageError, match=text):
        runtime.run()
