"""What an executor asks and stages for its keys, and what a spread transaction commits; stores are dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import FencedError, RefusedError, TurnError, UsageError, ViewError
from cdcv2.materialize import Checkpoint, MemoryRecoveryLog, Patch, Range, ViewBinding, distributed
from cdcv2.materialize.distributed import DistributedDriver, DistributedRuntime, TargetTask, TargetWorker, carry
from cdcv2.materialize.protocol.fence import Piece
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Changes, ConflictError, Flush, Flushed, Key, Loaded, Open, Opened, StartCommit,
    StartedCommit, Store, Values,
)
from cdcv2.protocol.messages import Update
from cdcv2.views.identity import marks
from tests import toys
from tests.materialize.test_runtime import MOVE, TOTALS

ROWS = ViewBinding("moves", MOVE, "moves", ("account",))
START = Antichain([0])


class Task(TargetTask):
    """Notes what it is asked."""

    def __init__(self, there: dict[Key, Values], columns: bool, wrong: Exception | None) -> None:
        self.there, self.columns, self.wrong = there, columns, wrong
        self.asked: list[list[Key]] = []
        self.staged: list[list[Store]] = []
        self.changed: list[Changes] = []
        self.ends: list[str] = []

    def look(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Values]]:
        """From the rows that are there."""
        self.asked.append([*keys])
        return [(key, self.there[key]) for key in keys if key in self.there]

    def stage(self, stores: Sequence[Store]) -> None:
        """Note them."""
        self._fail()
        self.staged.append([*stores])

    def changes(self, message: Changes) -> None:
        """Note it."""
        self._fail()
        self.changed.append(message)

    def _fail(self) -> None:
        if self.wrong is not None:
            raise self.wrong

    def finish(self) -> Any:
        """The receipt."""
        self.ends.append("finish")
        return ["receipt"]

    def close(self) -> None:
        """Note it."""
        self.ends.append("close")


class Worker(TargetWorker):
    """Gives out one task, for the table with the number 3."""

    def __init__(
        self, there: dict[Key, Values] | None = None, columns: bool = False, wrong: Exception | None = None
    ) -> None:
        self.task = Task(there or {}, columns, wrong)

    def work(self, number: int) -> TargetTask:
        """The one."""
        assert 3 == number
        return self.task


def moved(account: str, amount: int, diff: int = 1) -> Update:
    """An update of an account."""
    return MOVE.row([account, amount]), 1, diff


def groups(*updates: Update) -> list[tuple[Key, list[Update]]]:
    """Updates by account."""
    found: dict[Key, list[Update]] = {}
    for one in updates:
        found.setdefault((one[0][0],), []).append(one)
    return [*found.items()]


def test_keys_are_looked_up_and_staged_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the limit, and the rest at the end; what is there is taken in; each Store names the table."""
    monkeypatch.setattr(distributed, "AT_ONCE", 2)
    worker = Worker({("b",): (1, 10)})
    every = groups(*(moved(name, 5) for name in "abcde"))

    assert ["receipt"] == carry(TOTALS.view(), 3, worker, every)
    assert [[("a",), ("b",)], [("c",), ("d",)], [("e",)]] == worker.task.asked
    assert [
        [Store(3, ("a",), (1, 5)), Store(3, ("b",), (2, 15), exists=True)],
        [Store(3, ("c",), (1, 5)), Store(3, ("d",), (1, 5))],
        [Store(3, ("e",), (1, 5))],
    ] == worker.task.staged
    assert ["finish", "close"] == worker.task.ends


def test_what_changes_nothing_is_not_staged() -> None:
    """The key was looked up all the same."""
    worker = Worker()
    carry(TOTALS.view(), 3, worker, groups(moved("a", 5), moved("a", 5, -1)))

    assert ([[("a",)]], []) == (worker.task.asked, worker.task.staged)


def test_a_task_that_takes_columns_looks_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has Changes of the only table that it knows, each of as many updates as the limit, or more by one key's."""
    monkeypatch.setattr(distributed, "AT_ONCE", 2)
    worker = Worker(columns=True)
    every = groups(moved("a", 1, -1), moved("a", 5), moved("b", 2), moved("c", 3, -1), moved("d", 4))

    assert ["receipt"] == carry(ROWS.view(), 3, worker, every)
    assert [
        (0, [{"account": "a", "amount": 1}], [{"account": "a", "amount": 5}], 1),
        (0, [{"account": "c", "amount": 3}], [{"account": "b", "amount": 2}], 0),
        (0, [], [{"account": "d", "amount": 4}], 0),
    ] == [(one.binding, one.gone.to_pylist(), one.come.to_pylist(), one.both) for one in worker.task.changed]
    assert ([], ["finish", "close"]) == (worker.task.asked, worker.task.ends)


def test_a_row_that_is_not_there_is_named_by_the_log() -> None:
    """The target knows the key only; the task is closed, and there is no receipt."""
    worker = Worker(columns=True, wrong=ConflictError("moves", 0, ("a",), None))
    with pytest.raises(ViewError, match=r"the row .*'a', amount=1.* would be there -1 times"):
        carry(ROWS.view(), 3, worker, groups(moved("a", 1, -1)))

    assert ["close"] == worker.task.ends


class Hand(TargetWorker):
    """What the drivers below give out; nothing is asked of it."""

    def work(self, number: int) -> TargetTask:
        """Not here."""
        raise AssertionError("nothing was to be done")


def test_a_task_without_keys_opens_nothing() -> None:
    """No session and no file; also where there are many tasks, and a transaction of few rows."""
    assert carry(ROWS.view(), 3, Hand(), []) is None


class Spread(toys.Toy, DistributedDriver):
    """A store that can be spread: a receipt is the Stores that it names. Notes each Flush."""

    flushed: list[Flush]
    opening: Open
    marked: str | None = None
    closed = False

    def open(self, message: Open) -> Opened:
        """Note it."""
        self.opening = message
        return super().open(message)

    def hand(self) -> TargetWorker:
        """Anything."""
        return Hand()

    def took(self, number: int, receipt: Any) -> None:
        """Stage them."""
        assert all(number == one.binding for one in receipt)
        self.staged += receipt

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Note it; and what it leaves in the state, if that is wanted."""
        self.flushed = [*getattr(self, "flushed", []), message]
        (answer,) = super().flush(message)
        return [Flushed(Patch({"flushed": self.marked}))] if self.marked else [answer]

    def close(self) -> None:
        """Note it."""
        self.closed = True


class Database(Spread, toys.Authoritative):
    """Its own commit counts."""

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """With what it leaves in the state, if that is wanted."""
        started = super().start_commit(message)
        return StartedCommit(Patch({"started": self.marked})) if self.marked else started

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """With what it leaves in the state, if that is wanted."""
        return Acknowledged(Patch({"acknowledged": self.marked}) if self.marked else None)


class Lake(Spread, toys.Lake):
    """The recovery log's commit counts."""


class Log(MemoryRecoveryLog):
    """Notes that it is closed."""

    closed = False

    def close(self) -> None:
        """Note it."""
        self.closed = True


def sent(*stores: Store) -> Callable[[TargetWorker], Iterator[tuple[int, Any]]]:
    """A task that has staged these, and one that had no keys."""
    def send(hand: TargetWorker) -> Iterator[tuple[int, Any]]:
        assert isinstance(hand, Hand)
        yield 0, None
        yield 0, list(stores)

    return send


def opened(driver: DistributedDriver, log: MemoryRecoveryLog | None = None, name: str = "m") -> DistributedRuntime:
    """An instance that is open."""
    made = DistributedRuntime(name, [TOTALS], driver, log=log)
    made.open()
    return made


def test_an_instance_begins_with_nothing() -> None:
    """At the start that it is given, before it is opened."""
    made = DistributedRuntime("m", [TOTALS], Database(toys.Database()), start=[5])

    assert (Checkpoint(Antichain([5])), 0) == (made.checkpoint, made.transactions)
    made.open()
    assert Antichain([5]) == made.checkpoint.frontier


def test_a_store_that_rules_has_rows_and_checkpoint_of_each_transaction() -> None:
    """The frontiers of one are the next one's lower; the reader's state and the views are in the checkpoint."""
    database = toys.Database()
    driver = Database(database)
    runtime = opened(driver)
    runtime.transact(Antichain([3]), sent(Store(0, ("a",), (1, 5))), {"reader": 1})
    runtime.transact(Antichain([4]), sent(Store(0, ("a",), (2, 7), exists=True)), {"reader": 2})

    assert {"totals": {("a",): (2, 7)}} == database.rows
    assert [Flush(START, Antichain([3])), Flush(Antichain([3]), Antichain([4]))] == driver.flushed
    assert 2 == runtime.transactions
    assert Checkpoint(Antichain([4]), {"reader": 2}, marks([TOTALS])) == runtime.checkpoint
    assert runtime.checkpoint == opened(Database(database)).checkpoint
    runtime.close()
    assert driver.closed


def test_beside_a_store_that_rules_the_log_has_the_drivers_state_alone() -> None:
    """Each patch is kept, and the log's checkpoint stays where it was; closing closes both."""
    driver, log = Database(toys.Database()), Log("m")
    driver.marked = "x"
    runtime = opened(driver, log)

    assert {"acknowledged": "x"} == log.holdings()[0].value["state"]
    driver.marked = "y"
    runtime.transact(Antichain([3]), sent(Store(0, ("a",), (1, 5))))

    found = log.open(Range(), START).recovered
    assert {"acknowledged": "y", "flushed": "y", "started": "y"} == found.state
    assert START == found.checkpoint.frontier
    runtime.close()
    assert (True, True) == (driver.closed, log.closed)


def test_a_log_that_rules_has_checkpoint_and_state() -> None:
    """What it commits is in the store once it is acknowledged; the next instance goes on from there."""
    shelf, log = toys.Shelf(), MemoryRecoveryLog("m")
    runtime = opened(Lake(shelf), log)
    runtime.transact(Antichain([3]), sent(Store(0, ("a",), (1, 5))), {"reader": 1})

    assert {"totals": {("a",): (1, 5)}} == shelf.rows
    assert Checkpoint(Antichain([3]), {"reader": 1}, marks([TOTALS])) == log.checkpoints()[0]
    assert log.checkpoints()[0] == opened(Lake(shelf), log).checkpoint


@pytest.mark.parametrize(
    ("step", "at", "there"),
    [("after-prepare", 3, {}), ("carried", 3, {}), ("before-commit", 3, {}), ("after-commit", 4, {("b",): (1, 1)})],
)
def test_a_crash_at_each_step(step: str, at: int, there: dict[Key, Values]) -> None:
    """The next instance has the transaction if the recovery log has it, and is opened with what is there."""
    shelf, log = toys.Shelf(), MemoryRecoveryLog("m")
    dying = opened(Lake(shelf), log)
    dying.transact(Antichain([3]), sent(Store(0, ("a",), (1, 5))))
    with failpoints.placed(f"materialize.{step}"), pytest.raises(failpoints.PlacedCrash):
        dying.transact(Antichain([4]), sent(Store(0, ("b",), (1, 1))))
    # Executors need not repeat what they began, so how far it goes is nowhere.
    assert log.holdings()[0].value["extent"] is None
    driver, before = Lake(shelf), log.holdings()[0].value["state"]
    following = opened(driver, log)

    assert Antichain([at]) == following.checkpoint.frontier
    assert {"totals": {("a",): (1, 5)} | there} == shelf.rows
    known = (Piece(Range(), Antichain([at])),)
    assert Open("m", (TOTALS.view().table,), Range(), before, START, known) == driver.opening


def test_a_checkpoint_that_is_kept_nowhere_is_a_mistake() -> None:
    """The name of the materialization is in the error."""
    with pytest.raises(UsageError, match="'m' leaves the checkpoint to the recovery log"):
        opened(Lake(toys.Shelf()))


def test_other_views_are_refused() -> None:
    """By the name of the materialization."""
    database = toys.Database()
    opened(Database(database)).transact(Antichain([3]), sent())
    with pytest.raises(RefusedError, match="'mine'"):
        DistributedRuntime("mine", [ROWS], Database(database)).open()


class Refusing(Database):
    """Finds the store further than the log states."""

    def __init__(self, meanwhile: Callable[[], Any]) -> None:
        super().__init__(toys.Database())
        self.meanwhile = meanwhile

    def open(self, message: Open) -> Opened:
        """Refuse, after something."""
        self.meanwhile()
        raise RefusedError("the store is ahead")


def test_a_store_that_refuses_one_that_was_replaced_is_not_the_cause() -> None:
    """What was found there is a successor's then; else it is what it is, with a log and without."""
    log = MemoryRecoveryLog("m")
    with pytest.raises(RefusedError, match="the store is ahead"):
        opened(Refusing(lambda: None))
    with pytest.raises(RefusedError, match="the store is ahead"):
        opened(Refusing(lambda: None), log)
    with pytest.raises(FencedError):
        opened(Refusing(lambda: log.open(Range(), START)), log)


class Uneven(Database):
    """Parts of its keys are at different frontiers."""

    def open(self, message: Open) -> Opened:
        """Two of them."""
        super().open(message)
        parts = Piece(Range(0, 99), Antichain([5])), Piece(Range(100, Range().end), START)
        return Opened(Checkpoint(START), parts)


def test_parts_at_different_frontiers_are_named() -> None:
    """Executors take all keys."""
    with pytest.raises(RefusedError, match=r"of the keys of 'm' .*0-99: \[5\], 100-\d+: \[0\]"):
        opened(Uneven(toys.Database()))


def broken(meanwhile: Callable[[], Any] = lambda: None) -> Callable[[TargetWorker], Iterator[tuple[int, Any]]]:
    """Tasks that find a view wrong, after something."""
    def send(hand: TargetWorker) -> Iterator[tuple[int, Any]]:
        meanwhile()
        raise ViewError("totals", ("a",), "it is wrong")
        yield

    return send


@pytest.mark.parametrize("logged", [False, True])
def test_what_a_zombie_finds_wrong_is_that_it_is_one(logged: bool) -> None:
    """The store is asked for the same transaction, or the log; where none has taken over, the view is wrong."""
    shelf, database, log = toys.Shelf(), toys.Database(), MemoryRecoveryLog("m") if logged else None

    def made() -> DistributedDriver:
        return Lake(shelf) if logged else Database(database)

    driver: Any = made()
    runtime = opened(driver, log)
    with pytest.raises(ViewError, match="it is wrong"):
        runtime.transact(Antichain([3]), broken())
    assert [Flush(START, Antichain([3]))] * 2 == driver.flushed

    runtime = opened(made(), log)
    with pytest.raises(FencedError):
        runtime.transact(Antichain([3]), broken(lambda: opened(made(), log)))


class Unready(Database):
    """States that it has committed, when keys are asked for."""

    def flush(self, message: Flush) -> Iterable[Any]:
        """Out of turn."""
        return [StartedCommit()]


def test_an_answer_out_of_turn_is_the_drivers_mistake() -> None:
    """Nothing is committed."""
    runtime = opened(Unready(toys.Database()))
    with pytest.raises(TurnError, match="the driver sent StartedCommit"):
        runtime.transact(Antichain([3]), sent())

    assert 0 == runtime.transactions
