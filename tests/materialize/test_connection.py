"""The wire to a driver in this process: what is sent arrives in order, and what ends the driver comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import TurnError
from cdcv2.materialize import Checkpoint, Driver, InlineConnection, Patch, ThreadConnection, connection
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Changes, Field, Flush, Flushed, Load, Loaded, Open, Opened, StartCommit, StartedCommit,
    Store, Table,
)

OPEN = Open("m", (Table("t", (Field("id", "int"),), (Field("v", "int"),)),) * 2)
FLUSH = Flush(Antichain([0]), Antichain([3]))
COMMIT = StartCommit(Checkpoint(Antichain([3])))
#: a transaction, until the end of its commit
ALL = [OPEN, Acknowledge(), Load(0, (1,)), Load(0, (2,)), FLUSH, Store(0, (1,), (4,), True), COMMIT, Acknowledge()]
WIRES = [InlineConnection, ThreadConnection]


class Heard(Driver):
    """Notes what arrives. Answers every second key at once, the others when flushed. ``wrong``: raised by a Store."""

    def __init__(self, wrong: Exception | None = None) -> None:
        self.arrived: list[Any] = []
        self.late: list[Loaded] = []
        self.wrong = wrong
        self.wrong_close: Exception | None = None
        #: set: the driver may go on with a Store
        self.let = threading.Event()
        self.let.set()
        self.ends: list[str] = []

    def prepare(self, message: Open) -> Patch | None:
        """By the name of what is kept."""
        return Patch({"prepared": message.materialization})

    def open(self, message: Open) -> Opened:
        """Note it; the second table takes columns."""
        self.arrived.append(message)
        return Opened(changes=frozenset({1}))

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """Note it."""
        self.arrived.append(message)
        return Acknowledged()

    def load(self, message: Load) -> Iterable[Loaded]:
        """Now, or later."""
        self.arrived.append(message)
        found = Loaded(message.binding, message.key, (7,))
        if message.key[0] % 2:
            return [found]
        self.late.append(found)
        return ()

    def flush(self, message: Flush) -> Iterator[Loaded | Flushed]:
        """What is left."""
        self.arrived.append(message)
        yield from self.late
        yield Flushed()

    def store(self, message: Store) -> None:
        """Note it, when it is let."""
        self.let.wait(60)
        self.arrived.append(message)
        if self.wrong is not None:
            raise self.wrong

    def changes(self, message: Changes) -> None:
        """Note it."""
        self.arrived.append(message)

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Note it."""
        self.arrived.append(message)
        return StartedCommit()

    def interrupt(self) -> None:
        """Go on."""
        self.ends.append("interrupt")
        self.let.set()

    def close(self) -> None:
        """Note it."""
        self.ends.append("close")
        if self.wrong_close is not None:
            raise self.wrong_close


Wire = Callable[[Driver], Any]


def answers(wire: Any, number: int) -> list[Any]:
    """So many answers, each waited for."""
    found = []
    for _ in range(number):
        wire.wait()
        found.append(wire.poll())
    return found


@pytest.mark.parametrize("made", WIRES)
def test_each_message_arrives_and_is_answered_in_order(made: Wire) -> None:
    """A Load at once or in the Flush; a Store and Changes have no answer."""
    driver = Heard()
    wire = made(driver)
    found, sizes = [], (1, 1, 1, 0, 2, 0, 1, 1)
    for message, size in zip(ALL, sizes):
        wire.send(message)
        found += answers(wire, size)

    assert [
        Opened(changes=frozenset({1})), Acknowledged(), Loaded(0, (1,), (7,)), Loaded(0, (2,), (7,)), Flushed(),
        StartedCommit(), Acknowledged(),
    ] == found  # fmt: skip
    assert ALL == driver.arrived
    assert wire.poll() is None
    wire.close()
    assert "close" == driver.ends[-1]


@pytest.mark.parametrize("made", WIRES)
def test_columns_arrive_and_have_no_answer(made: Wire) -> None:
    """As a Store."""
    pa = pytest.importorskip("pyarrow")
    driver, columns = Heard(), pa.table({"id": [1], "v": [2]})
    wire = made(driver)
    sent = [OPEN, Acknowledge(), FLUSH, Changes(1, columns[:0], columns, 0), COMMIT]
    for message, size in zip(sent, (1, 1, 1, 0, 1)):
        wire.send(message)
        answers(wire, size)

    assert Changes(1, columns[:0], columns, 0) == driver.arrived[-2]
    assert wire.poll() is None
    wire.close()


@pytest.mark.parametrize("made", WIRES)
def test_what_must_be_durable_first_is_asked_of_the_driver(made: Wire) -> None:
    """With the message that is to be sent."""
    wire = made(Heard())

    assert Patch({"prepared": "m"}) == wire.prepare(OPEN)
    wire.close()


@pytest.mark.parametrize("made", WIRES)
def test_a_message_out_of_turn_does_not_arrive(made: Wire) -> None:
    """It is the runtime's fault, and is seen on its side."""
    driver = Heard()
    wire = made(driver)
    with pytest.raises(TurnError, match="the runtime sent Flush"):
        wire.send(FLUSH)
    wire.close()

    assert [] == driver.arrived


class Unended(Heard):
    """Does not end its answer to Flush."""

    def flush(self, message: Flush) -> Iterator[Loaded | Flushed]:
        """What is left only."""
        yield from self.late


class Swapped(Heard):
    """Answers to a message that was not sent."""

    def acknowledge(self, message: Acknowledge) -> Any:
        """As if flushed."""
        return Flushed()


@pytest.mark.parametrize("made", WIRES)
@pytest.mark.parametrize(
    ("wrong", "text"), [(Unended, "with Flushed"), (Swapped, "the driver sent Flushed before Acknowledged")]
)
def test_a_wrong_answer_is_the_drivers_fault(made: Wire, wrong: type[Heard], text: str) -> None:
    """What it has answered before it comes first; on one thread, what it has answered to the messages before."""
    wire = made(wrong())
    found: list[Any] = []
    with pytest.raises(TurnError, match=text):
        for message, size in zip(ALL[:5], (1, 1, 1, 0, 3)):
            wire.send(message)
            for _ in range(size):
                found += answers(wire, 1)
    wire.close()

    before = [Opened] if wrong is Swapped else [Opened, Acknowledged, Loaded]
    if (made, wrong) == (ThreadConnection, Unended):
        before.append(Loaded)
    assert before == [type(one) for one in found]


def test_on_one_thread_no_other_can_answer() -> None:
    """Waiting is a mistake then."""
    wire = InlineConnection(Heard())
    with pytest.raises(TurnError, match="owes an answer"):
        wire.wait()


def flushed(driver: Driver, **options: Any) -> ThreadConnection:
    """A connection on which Stores may be sent."""
    wire = ThreadConnection(driver, **options)
    for message in (OPEN, Acknowledge(), FLUSH):
        wire.send(message)
        answers(wire, 1)
    return wire


def test_stores_go_over_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as there are so many, or with another message, or when an answer is waited for."""
    monkeypatch.setattr(connection, "_TOGETHER", 3)
    driver = Heard()
    wire = flushed(driver)
    handed: list[list[Any] | None] = []
    monkeypatch.setattr(wire._requests, "put", lambda messages, timeout: handed.append(messages))
    stores = [Store(0, (number,), (1,)) for number in range(5)]
    for one in stores:
        wire.send(one)
    assert [stores[:3]] == handed
    wire.send(COMMIT)
    assert [stores[:3], [*stores[3:], COMMIT]] == handed
    monkeypatch.undo()
    wire.close()


def test_what_is_held_is_handed_over_before_waiting() -> None:
    """Else one would wait for an answer to what was never sent."""
    wire = ThreadConnection(Heard())
    for message in (OPEN, Acknowledge()):
        wire.send(message)
        answers(wire, 1)
    wire.send(Load(0, (1,)))

    assert [Loaded(0, (1,), (7,))] == answers(wire, 1)
    wire.close()


@pytest.mark.parametrize(("ahead", "queued"), [(0, 1), (399, 1), (400, 2), (10_000, 50)])
def test_so_much_may_be_on_its_way(ahead: int, queued: int) -> None:
    """Two hundred at a time, and one time at least."""
    wire = ThreadConnection(Heard(), ahead=ahead)

    assert queued == wire._requests.maxsize
    wire.close()


def test_by_default_ten_thousand_are_ahead() -> None:
    """Then sending blocks."""
    wire = ThreadConnection(Heard())

    assert 50 == wire._requests.maxsize
    wire.close()


def test_one_that_blocks_sees_that_the_driver_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is full then, and the driver takes nothing any more."""
    monkeypatch.setattr(connection, "_TOGETHER", 1)
    monkeypatch.setattr(connection, "_LOOK", 0.01)
    driver = Heard(ZeroDivisionError("the disk"))
    driver.let.clear()
    wire = flushed(driver, ahead=1)
    letting = threading.Timer(0.05, driver.let.set)
    letting.start()
    with pytest.raises(ZeroDivisionError, match="the disk"):
        for number in range(9):
            wire.send(Store(0, (number,), (1,)))
    letting.join()
    wire.close()

    assert Store(0, (0,), (1,)) == driver.arrived[-1]


def test_nothing_is_lost_while_the_driver_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often one has looked whether there is a place."""
    monkeypatch.setattr(connection, "_TOGETHER", 1)
    monkeypatch.setattr(connection, "_LOOK", 0.001)
    driver = Heard()
    driver.let.clear()
    wire = flushed(driver, ahead=1)
    stores = [Store(0, (number,), (1,)) for number in range(4)]
    letting = threading.Timer(0.05, driver.let.set)
    letting.start()
    for message in (*stores, COMMIT):
        wire.send(message)
    letting.join()

    assert [StartedCommit()] == answers(wire, 1)
    assert [*stores, COMMIT] == driver.arrived[3:]
    wire.close()


def test_the_first_failure_is_the_cause() -> None:
    """That it cannot be closed either is not what is seen."""
    driver = Heard(ZeroDivisionError("the disk"))
    driver.wrong_close = OSError("gone")
    wire = flushed(driver)
    wire.send(Store(0, (1,), (1,)))
    wire.send(COMMIT)
    with pytest.raises(ZeroDivisionError, match="the disk"):
        answers(wire, 1)
    wire.close()

    assert ["close", "interrupt"] == driver.ends


def test_one_that_cannot_be_closed_is_seen() -> None:
    """By the next question."""
    driver = Heard()
    driver.wrong_close = OSError("gone")
    wire = ThreadConnection(driver)
    wire.close()
    with pytest.raises(OSError, match="gone"):
        wire.poll()

    assert ["interrupt", "close"] == driver.ends


def test_what_is_queued_is_not_done_once_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the queue has no place for the end: it is seen at the next message."""
    monkeypatch.setattr(connection, "_TOGETHER", 1)
    driver = Heard()
    driver.let.clear()
    wire = flushed(driver, ahead=1)
    for number in range(2):
        wire.send(Store(0, (number,), (1,)))
    wire.close()

    assert Store(0, (1,), (1,)) not in driver.arrived
    assert ["interrupt", "close"] == driver.ends
    assert not wire._thread.is_alive()


def test_its_thread_does_not_keep_the_process() -> None:
    """And has a name, for people who look at what the process does."""
    wire = ThreadConnection(Heard())

    assert ("cdcv2 driver", True) == (wire._thread.name, wire._thread.daemon)
    wire.close()
