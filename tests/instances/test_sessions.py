"""Replicas and their controller, each in a thread: what a session states, who is refused, and what is kept."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import cdcv2
from cdcv2 import failpoints
from cdcv2.cli.main import main
from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.errors import UnavailableError
from cdcv2.instances.commands import (
    CreateIndex, CreateInstance, Frontiers, IndexedTable, InitializationComplete, Peek,
)
from cdcv2.instances.run.client import InstanceClient
from cdcv2.instances.run.controller import ReplicaController
from cdcv2.instances.run.index_catalogue import BEFORE_WRITE, IndexCatalogue
from cdcv2.instances.run.replica import InstanceReplica
from cdcv2.instances.wire import decode, encode
from tests.market import KEYS, PRICES, Market
from tests.serving import serving

PATIENCE = 60.0
INDEX = CreateIndex("1", (IndexedTable("prices", ("name",), "prices-1"),))


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


@contextmanager
def replica(market: Market, name: str, lines: list[str]) -> Iterator[Path]:
    """A replica of the market; what it reports goes to ``lines``."""
    made = InstanceReplica(market.logs(), lines.append)
    with serving(made, market.place.with_name(name)) as path:
        yield path
    made.close()


@contextmanager
def controller(market: Market, *names: str, history: float | None = None, keys: Any = None) -> Iterator[list[str]]:
    """A controller of replicas by these names, at the place of the market; gives what it reports."""
    lines: list[str] = []
    with IndexCatalogue(market.place.with_name("state")) as catalogue:
        places = [market.place.with_name(name) for name in names]
        made = ReplicaController(market.logs(), keys or KEYS, places, catalogue, lines.append, history=history)
        progress = made.progress()
        assert [wait.place["replica"] for wait in progress.waits] == [*map(str, places)]
        assert (progress.frontier, progress.counts) == ([0], {"peeks": 0, "tails": 0})
        with serving(made, market.place):
            yield lines


class Session:
    """A controller of a test, message by message."""

    def __init__(self, place: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(str(place))
        self._lines = self._socket.makefile("rb")

    def send(self, *commands: Any) -> None:
        for command in commands:
            line = command if isinstance(command, bytes) else encode(command).encode()
            self._socket.sendall(line + b"\n")

    def answer(self) -> Any:
        return decode(self._lines.readline())

    def fault(self) -> str:
        """Why it was ended."""
        found = str(parse_json(self._lines.readline())["fault"])
        assert self._lines.readline() == b""
        self.close()
        return found

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def begun(place: Path, *commands: Any) -> Session:
    session = Session(place)
    session.send(CreateInstance("a"), *commands, InitializationComplete())
    return session


def test_a_replica_keeps_its_index_over_sessions_and_reports_how_far_it_is(market: Market) -> None:
    lines: list[str] = []
    with replica(market, "one.sock", lines) as place:
        for _ in range(2):
            session = begun(place, INDEX)
            assert session.answer() == Frontiers("1", Antichain([2]))
            session.send(Peek("u", "1", {"prices": (("pear",),)}, 1))
            assert session.answer().rows == {"prices": (((({"name": "pear", "price": 1}), 1),),)}
            session.close()
    assert [line for line in lines if "has connected" in line] == [
        "a controller has connected: created 1", "a controller has connected: kept 1",
    ]  # fmt: skip


@pytest.mark.parametrize("wrong, text", [
    ([b"garbage"], "is no message of an instance"),
    ([Frontiers("1", Antichain([3]))], "Frontiers is no command"),
    ([b'{"peek": {}}'], "is no message"),
    ([CreateInstance("a"), INDEX, INDEX], "which exists"),
    ([CreateInstance("a"), CreateIndex("1", (IndexedTable("prices", ("name",), "other"),))], "over the log other"),
    ([CreateInstance("a"), CreateIndex("1", (IndexedTable("none", ("name",), "prices-1"),))], "no log of the table"),
    ([CreateInstance("a"), CreateIndex("1", (IndexedTable("prices", ("x",), "prices-1"),))], "no key column 'x'"),
])  # fmt: skip
def test_a_wrong_message_ends_the_session_and_nothing_else(market: Market, wrong: list[Any], text: str) -> None:
    with replica(market, "one.sock", []) as place:
        session = Session(place)
        session.send(*wrong)
        assert text in session.fault()
        assert begun(place, INDEX).answer() == Frontiers("1", Antichain([2]))


def test_a_connection_that_sends_nothing_keeps_no_controller_out(market: Market) -> None:
    with replica(market, "one.sock", []) as place:
        Session(place)
        assert begun(place, INDEX).answer() == Frontiers("1", Antichain([2]))


def test_a_replica_has_one_controller_at_a_time(market: Market) -> None:
    with replica(market, "one.sock", []) as place:
        first = begun(place, INDEX)
        assert first.answer()
        second = Session(place)
        second.send(CreateInstance("b"))
        assert "another controller has this replica" in second.fault()
        with pytest.raises(UnavailableError, match="another controller"):
            ask(place)
        market.reprice(2)
        assert first.answer() == Frontiers("1", Antichain([3]))
        first.close()


def ask(place: Path) -> None:
    try:
        InstanceClient(place).peek({"prices": "pear"}, timeout=0)
    except cdcv2.errors.UsageError as error:
        raise UnavailableError(str(error)) from None


def test_replicas_answer_as_one_whichever_is_there(market: Market) -> None:
    """One, then both, then the other; a tail goes on over all of them."""
    reports: list[list[str]] = [[], []]
    with ExitStack() as stack:
        lines = stack.enter_context(controller(market, "one.sock", "two.sock"))
        client = cdcv2.connect(market.place)
        with pytest.raises(UnavailableError, match="no replica of the instance at .* is connected"):
            client.peek({"prices": "pear"}, timeout=0)
        with client.tail("prices", since=0, timeout=PATIENCE) as tail:
            with replica(market, "one.sock", reports[0]):
                assert price(client, 1) == 1
                first = next(tail)
                with replica(market, "two.sock", reports[1]):
                    market.reprice(3)
                    assert price(client, 3) == 3
                    while len(client.status()["replicas"]) < 2:
                        pass
            with replica(market, "two.sock", reports[1]):
                market.reprice(5)
                assert price(client, 2) == 2 and price(client, 5) == 5
                batches = [first, *tail.until(5)]
    assert [one.upper for one in batches[:-1]] == [one.lower for one in batches[1:]]
    assert sum(len(one.changes) for one in batches) == 9 and batches[-1].upper == Antichain([6])
    assert any("two.sock responds" in line for line in lines)
    assert any("one.sock does not respond" in line for line in lines)


def price(client: InstanceClient, at: int) -> int:
    [row] = client.peek({"prices": "pear"}, at=at, timeout=PATIENCE)["prices"]
    found: int = row.price
    return found


def test_a_controller_that_starts_again_finds_its_replica(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sinces of its catalogue; what is not kept any more is refused before and after."""
    monkeypatch.setattr("cdcv2.instances.run.client_server._LOOK", 0.0)
    monkeypatch.setattr("cdcv2.instances.kept_times._LEAST", 0.0)
    lines: list[str] = []
    with replica(market, "one.sock", lines):
        for life in range(2):
            with controller(market, "one.sock", history=0.001):
                client = cdcv2.connect(market.place)
                market.reprice(market.at + 1)
                while client.status()["since"] != [market.at]:
                    pass
                assert price(client, market.at) == market.at
                with pytest.raises(cdcv2.errors.RefusedError, match=f"the time {life + 1} is not kept any more"):
                    price(client, life + 1)
        with controller(market, "one.sock", keys={"prices": ["price"]}):
            assert cdcv2.connect(market.place).peek({"prices": 3}, at=3, timeout=PATIENCE).at == 3
    assert [line for line in lines if "has connected" in line] == [
        "a controller has connected: created 1", "a controller has connected: kept 1",
        "a controller has connected: created 2; dropped 1",
    ]  # fmt: skip


def test_a_client_waits_through_the_death_of_a_controller(market: Market) -> None:
    """Its peek is for a time that comes in the next life; its tail goes on there."""
    with replica(market, "one.sock", []):
        client = cdcv2.connect(market.place)
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(price(client, 7)))
        tail = client.tail("prices", since=1, timeout=PATIENCE)
        with controller(market, "one.sock"):
            first = next(tail)
            thread.start()
            while client.status()["peeks"] < 1:
                pass
        with controller(market, "one.sock"):
            market.reprice(7)
            thread.join()
            rest = [*tail.until(7)]
        tail.close()
    assert found == [7] and first.upper == rest[0].lower
    assert [change for batch in (first, *rest) for change in batch.changes][-1] == (PRICES.row(["pear", 7]), 7, 1)


def test_what_is_allowed_is_kept_before_it_is_sent(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that dies before it is kept has sent nothing: the replica can still do what the catalogue states."""
    monkeypatch.setattr("cdcv2.instances.run.client_server._LOOK", 0.0)
    monkeypatch.setattr("cdcv2.instances.kept_times._LEAST", 0.0)
    made = InstanceReplica(market.logs(), lambda line: None)
    with serving(made, market.place.with_name("one.sock")):
        # The first two are those of its start.
        with pytest.raises(failpoints.PlacedCrash), failpoints.placed(BEFORE_WRITE, 3):
            with controller(market, "one.sock", history=0.001):
                while BEFORE_WRITE in failpoints._placed and market.at < 2000:
                    market.reprice(market.at + 1)
                    time.sleep(0.001)
    made.close()
    assert made._source.instance._indexes["1"].arrangement.since == 0
    with IndexCatalogue(market.place.with_name("state")) as catalogue:
        assert [one.since for one in catalogue.indexes] == [0]


def test_words_that_do_not_go_together_are_refused(market: Market, tmp_path: Path) -> None:
    logs, place = str(market.log.path), ["--instance", str(tmp_path / "x.sock")]
    assert main(["instance", logs, *place]) == 2
    assert main(["instance", logs, *place, "--replica", "--index", "prices=name"]) == 2
    assert main(["instance", logs, *place, "--replica", "--history", "3"]) == 2
    same = ["--of", str(tmp_path / "x.sock"), "--state", str(tmp_path / "s")]
    assert main(["replicas", logs, *place, "--index", "prices=name", *same]) == 2
