"""A replica that hangs keeps its connection: beats find it, and who waits learns its name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, UnavailableError
from cdcv2.instances.run import client as client_module
from cdcv2.instances.run import controller as controller_module
from cdcv2.instances.run import tail as tail_module
from cdcv2.instances.run.controller import ReplicaController
from cdcv2.instances.run.index_catalogue import IndexCatalogue
from cdcv2.instances.run.place import InstancePlace
from cdcv2.instances.run.replica import InstanceReplica
from tests.market import KEYS, Market
from tests.serving import Serving, serving

PATIENCE = 60.0


class Stopped:
    """A replica or an instance that a test stops, as SIGSTOP does: its connections stay, nothing is read or sent."""

    def __init__(self, served: Serving) -> None:
        self.served = served
        self._goes, self._holds = threading.Event(), threading.Event()
        self.cont()

    def stop(self) -> None:
        """Returns when it does nothing more."""
        self._holds.clear()
        self._goes.clear()
        assert self._holds.wait(PATIENCE)

    def cont(self) -> None:
        self._goes.set()

    def serve(self, place: InstancePlace, stopping: Callable[[], bool]) -> None:
        def stopped() -> bool:
            while not stopping() and not self._goes.is_set():
                self._holds.set()
                self._goes.wait(0.01)
            return stopping()

        self.served.serve(place, stopped)


class Clock:
    """The clock of a controller, which a test moves on: so a replica that answers late is not one that hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._skipped = 0.0
        monkeypatch.setattr(controller_module, "time", SimpleNamespace(monotonic=lambda: self.now))

    @property
    def now(self) -> float:
        return time.monotonic() + self._skipped

    def skip_until(self, condition: Callable[[], bool]) -> None:
        """In steps that are short beside a silence; three looks in a row, as an answer may be on its way.

        At most ten silences: then it fails.
        """
        held, end = 0, self._skipped + 10 * controller_module._SILENCE
        while held < 3:
            held = held + 1 if condition() else 0
            self._skipped += 0.0 if held else 0.2
            assert self._skipped < end


@contextmanager
def replicas(market: Market) -> Iterator[tuple[Stopped, Stopped, ReplicaController, list[str]]]:
    """Two replicas, of a controller at the market's place, which have answered; and what it reports."""
    lines = list[str]()
    made = [InstanceReplica(market.logs(), lambda text: None) for _ in range(2)]
    one, two = map(Stopped, made)
    places = [market.place.with_name(name) for name in ("one.sock", "two.sock")]
    with IndexCatalogue(market.place.with_name("state")) as catalogue:
        controller = ReplicaController(market.logs(), KEYS, places, catalogue, lines.append, history=None)
        with serving(controller, market.place), serving(one, places[0]), serving(two, places[1]):
            client = cdcv2.connect(market.place)
            while len(client.status(timeout=PATIENCE)["replicas"]) < 2 or client.status(timeout=PATIENCE)["silent"]:
                pass
            assert client.peek({"prices": "pear"}, at=1, timeout=PATIENCE).at == 1
            yield one, two, controller, lines
    for replica in made:
        replica.close()


def test_a_replica_that_hangs_is_named_and_the_other_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "_BEAT", 0.01)
    clock, market = Clock(monkeypatch), Market(tmp_path)
    client = cdcv2.connect(market.place)
    with replicas(market) as (one, two, made, lines):
        one.stop()
        first = str(tmp_path / "one.sock")
        clock.skip_until(lambda: list(client.status(timeout=PATIENCE)["silent"]) == [first])
        assert any("one.sock has not answered for" in wait.text for wait in made.progress().waits)
        assert client.peek({"prices": "pear"}, at=1, timeout=PATIENCE).at == 1
        with pytest.raises(IncompleteError, match="of its replicas .*one.sock has not answered for .* seconds"):
            client.peek({"prices": "pear"}, at=9, timeout=0)
        two.stop()
        clock.skip_until(lambda: len(client.status(timeout=PATIENCE)["silent"]) == 2)
        for at in (1, 9):
            with pytest.raises(UnavailableError, match="no replica of .* answers .*one.sock .*two.sock"):
                client.peek({"prices": "pear"}, at=at, timeout=0)
        asked = len(made._asked)
        one.cont()
        two.cont()
        while client.status(timeout=PATIENCE)["silent"]:
            pass
        assert client.peek({"prices": "pear"}, at=1, timeout=PATIENCE).at == 1
    assert asked == 2
    for text in ("one.sock has not answered", "two.sock has not answered", "one.sock answers again"):
        assert sum(text in line for line in lines) >= 1


def test_who_was_asked_is_named_before_it_is_called_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the controller, which answers, and not the logs."""
    monkeypatch.setattr(controller_module, "_SILENCE", 10_000.0)
    monkeypatch.setattr(controller_module, "_BEAT", 0.01)
    monkeypatch.setattr(controller_module, "_MOMENT", 0.05)
    market = Market(tmp_path)
    client = cdcv2.connect(market.place)
    with replicas(market) as (one, two, _, _):
        for stopped in (one, two):
            stopped.stop()
        while len(client.status(timeout=PATIENCE)["asked"]) < 2:
            pass
        with pytest.raises(IncompleteError, match="of its replicas .*one.sock has not answered for .*two.sock has not"):
            client.peek({"prices": "pear"}, at=9, timeout=0)
        # What waits for an answer of theirs: not for long, but for a status as long as it takes.
        status = client._status
        monkeypatch.setattr(client_module, "_LAST", 0.5)
        monkeypatch.setattr(client, "_status", lambda seconds, timeout: status(PATIENCE, timeout))
        with pytest.raises(UnavailableError, match=r"no replica .* for 0 seconds \(asked: .*one.sock, .*two.sock\)"):
            client.peek({"prices": "pear"}, at=1, timeout=0)
        for stopped in (one, two):
            stopped.cont()


def test_a_tail_ends_where_its_instance_is_stopped_and_not_where_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a time-out: it asks whether the instance lives, on a connection of its own."""
    monkeypatch.setattr(tail_module, "SILENCE", 0.02)
    market = Market(tmp_path)
    market.instance.read(lambda: False)
    stopped = Stopped(market.instance)
    with serving(stopped, market.place):
        client = cdcv2.connect(market.place)
        asked, demand_life, stops = list[float](), client.demand_life, threading.Event()

        def counted(seconds: float, timeout: float) -> None:
            demand_life(seconds if stops.is_set() else PATIENCE, timeout)
            asked.append(seconds)
            if len(asked) == 5:
                market.reprice(2)

        monkeypatch.setattr(client, "demand_life", counted)
        monkeypatch.setattr(tail_module.InstanceTail, "_silence", PATIENCE)
        with client.tail("prices", after=1) as tail:
            assert next(tail).upper == Antichain([2])
            assert next(tail).upper == Antichain([3])
            assert len(asked) >= 5
            stopped.stop()
            stops.set()
            with pytest.raises(UnavailableError, match="does not answer for 0.02 seconds: it is busy, or stopped"):
                next(tail)
            stopped.cont()
    market.instance.close()
