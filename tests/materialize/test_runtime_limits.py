"""The runtime where things go otherwise: pushes, crashes, wrong drivers, ranges, views that were changed by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import RefusedError, TurnError, UsageError, ViewError
from cdcv2.materialize import (
    Checkpoint, Count, Driver, InlineConnection, Max, MemoryRecoveryLog, Patch, Range, Runtime, Sum, ThreadConnection,
    ViewBinding,
)
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.fence import number_of
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Flush, Flushed, Load, Loaded, Open, StartCommit, StartedCommit, Store,
)
from cdcv2.materialize.commit_sequence import AFTER_COMMIT, AFTER_PREPARE, BEFORE_COMMIT
from cdcv2.materialize.runtime import Pause
from cdcv2.protocol.timeline import Cut
from cdcv2.servers.processes import poll_until
from tests import toys
from tests.materialize.test_runtime import IN_THE_END, MOVE, THREE, TOTALS, cut, fed


def test_tables_of_changes_are_not_asked() -> None:
    """They still get Flush, and the changes of just this transaction."""
    pushed: list[tuple[Any, ...]] = []
    delta = ViewBinding("moves", MOVE, "totals", ("account",), {"n": Count(), "total": Sum("amount")}, delta=True)
    runtime = Runtime("m", [delta], toys.Push(pushed), fed(THREE), log=MemoryRecoveryLog("m"), rows=1)
    kinds = [step for step in runtime.steps() if step in (Load, Loaded, Flush, Flushed)]

    assert [Flush, Flushed] * 3 == kinds
    assert [(0, 3, "a", 5), (0, 3, "b", 1), (3, 4, "a", 2), (4, 9, "b", -1), (4, 9, "c", 7)] == [
        (*lower, *upper, *change.key, change.values[1]) for _, lower, upper, change in pushed
    ]


def test_an_interrupted_push_is_repeated_with_its_extent() -> None:
    """Also by a reader whose cuts are others, and reach further."""
    pushed: list[tuple[Any, ...]] = []
    log = MemoryRecoveryLog("m")
    delta = ViewBinding("moves", MOVE, "totals", ("account",), {"n": Count(), "total": Sum("amount")}, delta=True)
    with pytest.raises(failpoints.PlacedCrash), failpoints.placed(AFTER_PREPARE):
        Runtime("m", [delta], toys.Push(pushed), fed(THREE[:2]), log=log).run()
    one = Cut({"moves": [move for each in THREE for move in each.updates["moves"]]}, Antichain([0]), Antichain([9]))
    Runtime("m", [delta], toys.Push(pushed), fed([one]), log=log).run()

    assert [(0, 4, "a", 7), (0, 4, "b", 1), (4, 9, "b", -1), (4, 9, "c", 7)] == [
        (*lower, *upper, *change.key, change.values[1]) for _, lower, upper, change in pushed
    ]


def test_an_extent_that_the_reader_does_not_reach_any_more_is_refused() -> None:
    """Pushing a part of it would make the receiver take the rest for a repeat."""
    log = MemoryRecoveryLog("m")
    delta = ViewBinding("moves", MOVE, "totals", delta=True)
    with pytest.raises(failpoints.PlacedCrash), failpoints.placed(AFTER_PREPARE):
        Runtime("m", [delta], toys.Push([]), fed(THREE), log=log).run()
    with pytest.raises(RefusedError, match="a transaction up to .* has begun before a crash, and the reader ends at"):
        Runtime("m", [delta], toys.Push([]), fed(THREE[:2]), log=log).run()


@pytest.mark.parametrize(("step", "committed"), [(BEFORE_COMMIT, 0), (AFTER_COMMIT, 3)])
def test_the_recovery_log_decides_what_was_committed(step: str, committed: int) -> None:
    """Staged and not committed is nothing; committed and not applied is applied by the next instance."""
    log, shelf = MemoryRecoveryLog("m"), toys.Shelf()
    with pytest.raises(failpoints.PlacedCrash), failpoints.placed(step):
        Runtime("m", [TOTALS], toys.Lake(shelf), fed(THREE), log=log, rows=1).run()

    assert {} == shelf.rows

    again = Runtime("m", [TOTALS], toys.Lake(shelf), fed([]), log=log)

    assert Checkpoint(Antichain([committed])) == again.run()
    assert ({"totals": {("a",): (1, 5), ("b",): (1, 1)}} if committed else {}) == shelf.rows


class Stuck(toys.Toy):
    """A driver whose first Store takes until it is let."""

    def __init__(self) -> None:
        super().__init__({})
        self.busy, self.let = threading.Event(), threading.Event()

    def store(self, message: Store) -> None:
        """Wait."""
        self.busy.set()
        assert self.let.wait(60), "nobody let the driver go on"
        super().store(message)


def test_what_was_said_and_not_begun_is_not_done_when_it_is_closed() -> None:
    """Stores go to the driver's thread some at a time, and yet one ends the conversation between two of them."""
    driver, at = Stuck(), Antichain([1])
    connection = ThreadConnection(driver)
    for request in (Open("m", (TOTALS.view().table,)), Acknowledge(), Flush(Antichain([0]), at)):
        connection.send(request)
        connection.wait()

        assert connection.poll() is not None

    for name in "abc":
        connection.send(Store(0, (name,), (1, 1)))
    connection.send(StartCommit(Checkpoint(at)))
    assert driver.busy.wait(60)
    closing = threading.Thread(target=connection.close)
    closing.start()
    assert poll_until(lambda: connection._closing, 60)
    driver.let.set()
    closing.join(60)

    assert not closing.is_alive()
    assert [("a",)] == [one.key for one in driver.staged]
    assert {} == driver.rows


class Slow(toys.Lake):
    """A lake that applies when it is let."""

    def __init__(self, shelf: toys.Shelf) -> None:
        super().__init__(shelf)
        self.busy, self.let = threading.Event(), threading.Event()

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """When something was staged, wait."""
        if self.pending:
            self.busy.set()
            assert self.let.wait(60), "nobody let the driver go on"
        return super().acknowledge(message)


def test_the_next_transaction_is_loaded_while_the_last_is_applied() -> None:
    """The pipelining: Loads go out while Acknowledged is owed; Flush does not."""
    driver = Slow(toys.Shelf())
    said: list[Any] = []
    connection = ThreadConnection(driver)
    runtime = Runtime("m", [TOTALS], connection, fed(THREE), log=MemoryRecoveryLog("m"), rows=1)
    for step in runtime.steps():
        if step is Pause.DRIVER and [StartedCommit, Acknowledge, Load] == said[-3:]:
            # The second transaction waits only for Acknowledged.
            assert driver.busy.wait(60), "the driver was not told to apply"
            driver.let.set()
        if step is Pause.DRIVER:
            connection.wait()
        else:
            said.append(step)
    runtime.close()

    assert driver.let.is_set()
    assert {"totals": IN_THE_END} == driver.shelf.rows


@pytest.mark.parametrize("wire", [InlineConnection, ThreadConnection])
def test_what_the_driver_raises_ends_the_run(wire: Callable[[Driver], Any]) -> None:
    """On whichever thread it was, and the driver is closed."""

    class Broken(toys.Lake):
        closed = 0

        def store(self, message: Store) -> None:
            raise ZeroDivisionError("the disk")

        def close(self) -> None:
            self.closed += 1

    driver = Broken(toys.Shelf())
    with pytest.raises(ZeroDivisionError, match="the disk"):
        Runtime("m", [TOTALS], wire(driver), fed(THREE), log=MemoryRecoveryLog("m")).run()

    assert 1 == driver.closed


class Wrong(toys.Toy):
    """A driver that does one thing wrong."""

    def __init__(self, what: str) -> None:
        super().__init__({})
        self.what = what

    def load(self, message: Load) -> Iterable[Loaded]:
        """An answer to another question, or two."""
        wrong = Loaded(0, ("z",), (1, 1))
        right = Loaded(0, message.key, (1, 1))
        answers: dict[str, list[Any]] = {"fabricated": [wrong], "twice": [right, right], "flushed": [Flushed()]}
        return answers.get(self.what, [])

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """No end, or an answer behind it."""
        return {"silent": [], "late": [Flushed(), Loaded(0, ("a",), (1, 1))]}.get(self.what, [Flushed()])


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("fabricated", "the driver sent Loaded for the key ('z',), which was not asked for"),
        ("twice", "the driver sent Loaded twice"),
        ("flushed", "the driver sent Flushed before receiving Flush"),
        ("silent", "the driver did not end its answer to Flush with Flushed"),
        ("late", "the driver sent Loaded out of turn"),
    ],
)
@pytest.mark.parametrize("wire", [InlineConnection, ThreadConnection])
def test_a_driver_that_answers_wrongly_is_named(wire: Callable[[Driver], Any], what: str, text: str) -> None:
    """And nothing of the transaction is committed."""
    log = MemoryRecoveryLog("m")
    with pytest.raises(TurnError) as caught:
        Runtime("m", [TOTALS], wire(Wrong(what)), fed(THREE), log=log).run()

    assert text in str(caught.value)
    assert Checkpoint(Antichain([0])) == log.open(Range(), Antichain([0])).recovered.checkpoint


def test_a_view_that_was_changed_by_hand_is_an_error() -> None:
    """The key, what would be there, and the remedy; and the store stays as it is."""
    database = toys.Database()
    rows = ViewBinding("moves", MOVE, "rows", ("account",))
    first = Cut({"moves": [(MOVE.row(["a", 1]), 1, 1)]}, Antichain([0]), Antichain([2]))
    second = Cut({"moves": [(MOVE.row(["a", 1]), 2, -1)]}, Antichain([2]), Antichain([3]))
    Runtime("m", [rows], toys.Authoritative(database), fed([first])).run()
    database.rows["rows"][("a",)] = (99,)
    with pytest.raises(ViewError, match=r"rows, key \('a',\): the row Row.* would be there -1 times"):
        Runtime("m", [rows], toys.Authoritative(database), fed([first, second])).run()

    assert {("a",): (99,)} == database.rows["rows"]


def test_each_range_has_the_keys_of_its_numbers() -> None:
    """Two halves together have everything, and no key twice."""
    halves = [Range(0, 2**31 - 1), Range(2**31, 2**32 - 1)]
    shown = []
    for half in halves:
        database = toys.Database()
        Runtime("m", [TOTALS], toys.Authoritative(database), fed(THREE), range=half).run()
        shown.append(database.rows.get("totals", {}))
        assert all(half.holds(number_of(canonical(key))) for key in shown[-1])

    assert IN_THE_END == {**shown[0], **shown[1]}
    assert 3 == len(shown[0]) + len(shown[1])


OTHERWISE = [
    ViewBinding("moves", MOVE, "totals", ("account",), {"n": Count(), "total": Max("amount", retractions=False)}),
    ViewBinding("others", MOVE, "totals", ("account",), {"n": Count(), "total": Sum("amount")}),
    ViewBinding("moves", MOVE, "totals", ("account",), {"n": Sum("amount"), "total": Count()}),
]


@pytest.mark.parametrize("log", [None, MemoryRecoveryLog], ids=["store", "log"])
@pytest.mark.parametrize("binding", OTHERWISE, ids=str)
def test_a_view_that_is_another_than_it_was_is_refused(binding: ViewBinding, log: Any) -> None:
    """Its table may look the same: what is there was made otherwise. The store may keep the checkpoint, or a log."""
    database, shelf, recovery = toys.Database(), toys.Shelf(), log and log("m")

    def driver() -> Driver:
        return toys.Authoritative(database) if log is None else toys.Lake(shelf)

    wanted = ViewBinding("moves", MOVE, "totals", ("account",), {"n": Count(), "total": Sum("amount")})
    Runtime("m", [wanted], driver(), fed(THREE[:1]), log=recovery).run()
    with pytest.raises(RefusedError, match="'m' is at .* and its view 'totals' was another"):
        Runtime("m", [binding], driver(), fed(THREE), log=recovery).run()
    Runtime("m", [wanted], driver(), fed(THREE), log=recovery).run()


def test_a_view_that_was_left_out_for_a_while_does_not_come_back() -> None:
    """It would lack what came meanwhile, with the right checkpoint beside it."""
    database = toys.Database()
    more = ViewBinding("moves", MOVE, "more", ("account",), {"n": Count()})
    Runtime("m", [TOTALS, more], toys.Authoritative(database), fed(THREE[:1])).run()
    Runtime("m", [TOTALS], toys.Authoritative(database), fed(THREE[:2])).run()
    with pytest.raises(RefusedError, match="its view 'more' is new: what came before would be missing"):
        Runtime("m", [TOTALS, more], toys.Authoritative(database), fed(THREE)).run()
    # Ranges at different frontiers have none that is of all of them; their views are.
    Runtime("m", [TOTALS], toys.Authoritative(database), fed(THREE), range=Range(0, 9)).run()
    with pytest.raises(RefusedError, match="its view 'more' is new"):
        Runtime("m", [more], toys.Authoritative(database), fed(THREE)).run()


def test_a_key_has_the_same_bytes_in_every_python() -> None:
    """Which characters are printable is another table in each: a lake is read by the next one, too."""
    assert rb"('\u20ac\U0001fae8', b'\xff', 7)" == canonical(("\u20ac\U0001fae8", b"\xff", 7))
    assert canonical(("".join(chr(plane * 0x10000 + 0xE9) for plane in range(17)),)).isascii()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Runtime("m", [], toys.Toy({}), fed([])), "'m' has no bindings"),
        (lambda: Runtime("m", [TOTALS], toys.Toy({}), fed([])).run(), "leaves the checkpoint to the recovery log"),
        (
            lambda: Runtime(
                "m", [TOTALS], toys.Authoritative(toys.Database()), fed([cut(0, 2, ("a", 1, 1), log="x")])
            ).run(),
            "the log 'x' has no binding; there are bindings of ['moves']",
        ),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], object], text: str) -> None:
    """Before anything is stored."""
    with pytest.raises(UsageError) as caught:
        make()

    assert text in str(caught.value)


def test_times_that_are_no_ints_are_refused_by_name() -> None:
    """For now; their frontiers would not fit an extent."""
    from cdcv2.core import Product

    odd = Cut({}, Antichain([0]), Antichain([Product(1, 2)]))
    with pytest.raises(UsageError, match="materialization takes int times, for now, and was given a cut up to"):
        Runtime("m", [TOTALS], toys.Authoritative(toys.Database()), fed([odd])).run()


def test_a_state_of_flushed_is_durable_before_the_first_store() -> None:
    """A driver may name there what it is about to write to."""

    class Announcing(toys.Lake):
        def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
            return [Flushed(Patch({"writing to": "x"}))]

        def store(self, message: Store) -> None:
            raise ZeroDivisionError("a crash")

    log = MemoryRecoveryLog("m")
    with pytest.raises(ZeroDivisionError):
        Runtime("m", [TOTALS], Announcing(toys.Shelf()), fed(THREE), log=log).run()

    assert "x" == log.open(Range(), Antichain([0])).recovered.state["writing to"]


def test_a_commit_that_could_not_start_is_told_by_no_started_commit() -> None:
    """An error that is known before is raised, and the recovery log stays where it was."""

    class Full(toys.Lake):
        def start_commit(self, message: StartCommit) -> StartedCommit:
            raise ZeroDivisionError("no room")

    log = MemoryRecoveryLog("m")
    with pytest.raises(ZeroDivisionError):
        Runtime("m", [TOTALS], Full(toys.Shelf()), fed(THREE), log=log).run()

    assert Checkpoint(Antichain([0])) == log.open(Range(), Antichain([0])).recovered.checkpoint
