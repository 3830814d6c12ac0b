"""A replica that hangs keeps its connection: beats find it, and who waits learns its name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import cdcv2
from cdcv2.errors import IncompleteError, UnavailableError
from cdcv2.instances.run import client as client_module
from cdcv2.instances.run import controller as controller_module
from cdcv2.instances.run.controller import ReplicaController
from cdcv2.instances.run.index_catalogue import IndexCatalogue
from cdcv2.instances.run.place import InstancePlace
from cdcv2.instances.run.replica import InstanceReplica
from tests.market import KEYS, Market
from tests.serving import serving

PATIENCE = 60.0


class StoppedReplica:
    """A replica that a test stops, as SIGSTOP does: its connections stay, and nothing is read or sent."""

    def __init__(self, market: Market) -> None:
        self.replica = InstanceReplica(market.logs(), lambda text: None)
        self._goes = threading.Event()
        self.cont()

    def stop(self) -> None:
        self._goes.clear()

    def cont(self) -> None:
        self._goes.set()

    def serve(self, place: InstancePlace, stopping: Callable[[], bool]) -> None:
        def stopped() -> bool:
            while not stopping() and not self._goes.wait(0.01):
                pass
            return stopping()

        self.replica.serve(place, stopped)
        self.replica.close()


def test_a_replica_that_hangs_is_named_and_the_other_one_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "_BEAT", 0.01)
    monkeypatch.setattr(controller_module, "_SILENCE", 0.05)
    monkeypatch.setattr(client_module, "PATIENCE", 0.5)
    market, lines = Market(tmp_path), list[str]()
    one, two = StoppedReplica(market), StoppedReplica(market)
    places = [tmp_path / "one.sock", tmp_path / "two.sock"]
    with IndexCatalogue(tmp_path / "state") as catalogue:
        made = ReplicaController(market.logs(), KEYS, places, catalogue, lines.append, history=None)
        with serving(made, market.place), serving(one, places[0]), serving(two, places[1]):
            client = cdcv2.connect(market.place)
            while len(client.status(timeout=PATIENCE)["replicas"]) < 2 or client.status()["silent"]:
                pass
            assert client.peek({"prices": "pear"}, at=1, timeout=PATIENCE).at == 1
            one.stop()
            while list(client.status()["silent"]) != [str(places[0])]:
                pass
            assert any("one.sock has not answered for" in wait.text for wait in made.progress().waits)
            assert client.peek({"prices": "pear"}, at=1, timeout=PATIENCE).at == 1
            with pytest.raises(IncompleteError, match="of its replicas .*one.sock has not answered for .* seconds"):
                client.peek({"prices": "pear"}, at=9, timeout=0)
            two.stop()
            while len(client.status()["silent"]) < 2:
                pass
            for at in (1, 9):
                with pytest.raises(UnavailableError, match="no replica of .* answers .*one.sock .*two.sock"):
                    client.peek({"prices": "pear"}, at=at, timeout=0)
            asked = len(made._asked)
            one.cont()
            two.cont()
            while client.status()["silent"]:
                pass
            assert client.peek({"prices": "pear"}, at=1, timeout=PATIENCE).at == 1
    assert asked == 2
    for text in ("one.sock has not answered", "two.sock has not answered", "one.sock answers again"):
        assert sum(text in line for line in lines) >= 1
