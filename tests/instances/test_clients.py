"""Many clients at once: none that is slow, silent or away holds another one up, or leaves anything behind."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import cdcv2
from cdcv2.cli.main import main
from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError, UnavailableError, UsageError
from cdcv2.instances import front
from cdcv2.instances.requests import PeekRequest, TailRequest
from cdcv2.instances.run import client_server
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.client import InstanceClient
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog
from tests.market import PRICES, Market
from tests.serving import served

PATIENCE = 60.0


@pytest.fixture
def market(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Market]:
    found = Market(tmp_path)
    with served(found.instance, found.place):
        yield found


def asked(place: Path, line: bytes) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(PATIENCE)
    stream.connect(str(place))
    stream.sendall(line)
    return stream


def test_a_time_is_waited_for_in_the_instance(market: Market) -> None:
    """Also by many at once; who goes away is forgotten."""
    client = cdcv2.connect(market.place)
    line = PeekRequest("u", {"prices": (("pear",),)}, 10**9).to_line()
    waiting = [asked(market.place, line.replace(b'"u"', b'"u%d"' % number)) for number in range(200)]
    while client.status()["peeks"] < 200:
        pass
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(
        row.price for row in client.peek({"prices": "pear"}, at=3, timeout=PATIENCE)["prices"]))
    thread.start()
    for stream in waiting:
        stream.close()
    market.reprice(3)
    thread.join()
    assert found == [3]
    while client.status()["peeks"]:
        pass
    clients = market.instance._clients
    while clients.number:
        pass
    assert clients._asking == set() and clients._leaving == []


def test_a_client_that_takes_nothing_holds_no_other_up_and_gets_all_in_the_end(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tail waits at the upper that it was sent; what is ready for it stays small."""
    monkeypatch.setattr(client_server, "_MUCH", 2000)
    slow = asked(market.place, TailRequest("slow", "prices", since=1).to_line())
    client = cdcv2.connect(market.place)
    most = 0
    for number in range(2, 200):
        market.reprice(number, "p" * 2000)
        if number % 20 == 0:
            assert client.peek({"prices": "x"}, at=number, timeout=PATIENCE)["prices"].to_arrow().num_rows == 0
            most = max(most, max((one.pending for one in market.instance._clients._clients.values()), default=0))
    client.peek({"prices": "x"}, at=199, timeout=PATIENCE)
    # What is sent after a pause is one batch: here at most of the 20 times between two looks.
    assert 0 < most < 200_000
    upper, changes = [0], 0
    with slow.makefile("rb") as lines:
        assert "begun" in json.loads(lines.readline())
        while upper != [200]:
            line = json.loads(lines.readline())
            if "part" in line:
                changes += len(line["part"])
                continue
            batch = line["batch"]
            assert batch["lower"] == upper
            upper, changes = batch["upper"], changes + len(batch["changes"])
    assert changes == 1 + 2 * 198
    slow.close()


def test_a_silent_client_is_let_go_and_one_too_many_is_sent_away(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_server, "_LOOK", 0.0)
    clients = market.instance._clients
    clients._most = 2
    silent = [asked(market.place, b"") for _ in range(2)]
    while clients.number < 2:
        pass
    with pytest.raises(UnavailableError, match="as many clients as it takes, 2"):
        cdcv2.connect(market.place).peek({"prices": "pear"}, timeout=0.3)
    clients._patience = 0.0
    assert silent[0].recv(1) == b"" == silent[1].recv(1)
    clients._patience = PATIENCE
    assert cdcv2.connect(market.place).peek({"prices": "pear"}, timeout=PATIENCE).at == 1


def test_a_connection_has_one_request(market: Market) -> None:
    stream = asked(market.place, TailRequest("t", "prices").to_line())
    assert stream.recv(1)
    stream.sendall(TailRequest("u", "prices").to_line())
    while stream.recv(1 << 16):
        pass
    garbled = asked(market.place, b"x" * 1_000_001)
    assert b"no whole line" in garbled.recv(1 << 16)


def test_a_tail_has_each_change_once_and_continues(market: Market) -> None:
    client = cdcv2.connect(market.place)
    with client.tail("prices", since=0, timeout=PATIENCE) as tail:
        first = next(tail)
        assert first.changes == [(PRICES.row(["pear", 1]), 1, 1)] and first.lower == Antichain([0])
        market.reprice(4)
        rest = [*tail.until(3)]
    assert rest[-1].upper == Antichain([4])
    again = [*client.tail("prices", after=rest[0].lower).until()]
    changes = [change for batch in again for change in batch.changes]
    wanted = [(PRICES.row(["pear", at - less]), at, 1 - 2 * less) for at in (2, 3, 4) for less in (1, 0)]
    assert sorted(changes, key=repr) == sorted(wanted, key=repr)
    shown = again[0]._repr_html_()
    assert "<th>diff</th><th>time</th><th>name</th>" in shown and "<td>pear</td>" in shown
    table = again[0].to_arrow()
    assert table.column_names == ["name", "price", "cdcv2_time", "cdcv2_diff"]
    assert [*client.tail("prices", after=5).until()] == []
    [snapshot] = client.tail("prices").until()
    assert snapshot.changes == [(PRICES.row(["pear", 4]), 4, 1)] and snapshot.upper == Antichain([5])
    with pytest.raises(UsageError, match="'none' is not kept here"):
        next(client.tail("none"))
    with pytest.raises(UnavailableError, match="for 0 seconds"):
        next(InstanceClient(market.place.with_name("none.sock")).tail("prices", timeout=0))


def test_a_tail_that_ends_at_a_time_continues_there(market: Market) -> None:
    """Not behind the batch that it was cut out of; and from the beginning it is the table at that time, whenever asked.
    """
    client = cdcv2.connect(market.place)
    market.reprice(6)
    client.peek({"prices": "pear"}, at=6, timeout=PATIENCE)
    tail = client.tail("prices", after=1, timeout=PATIENCE)
    parts = [[*tail.until(3)], [*tail.until(4)], [*tail.until()]]
    future = client.tail("prices", timeout=PATIENCE)
    threading.Timer(0.05, lambda: market.reprice(12)).start()

    assert [part[-1].upper for part in parts] == [Antichain([4]), Antichain([5]), Antichain([7])]
    assert [{time for batch in part for _, time, _ in batch.changes} for part in parts] == [{1, 2, 3}, {4}, {5, 6}]
    assert [(batch.upper, batch.changes) for batch in future.until(9)] == [
        (Antichain([10]), [(PRICES.row(["pear", 9]), 9, 1)])
    ]
    with pytest.raises(UsageError, match="begins at 8, and is to end at 5"):
        next(client.tail("prices", since=8, timeout=PATIENCE).until(5))


def test_a_tail_ends_with_its_log(market: Market) -> None:
    tail = cdcv2.connect(market.place).tail("prices", timeout=PATIENCE)
    next(tail)
    market.writer.finish()
    market.log.flush()
    assert [(batch.upper, batch.changes) for batch in tail] == [(Antichain(), [])]
    assert [*tail] == [] and not tail.upper


def test_after_waits_for_what_one_has_committed(market: Market) -> None:
    client = cdcv2.connect(market.place)
    threading.Timer(0.05, lambda: market.reprice(8)).start()
    assert client.peek({"prices": "pear"}, after="0/8", timeout=PATIENCE).at == 8
    assert client.peek({"prices": "pear"}, at="0/3").at == 3
    # What is there is given however short the time is.
    assert client.peek({"prices": "pear"}, at=3, timeout=0).at == 3 and client.peek({"prices": "x"}, timeout=0).at == 8
    with pytest.raises(cdcv2.errors.IncompleteError, match="not everything up to 9 is finished after 0 seconds"):
        client.peek({"prices": "pear"}, after=9, timeout=0)


def test_an_answer_is_not_older_than_the_one_before(market: Market) -> None:
    """An instance that lost its memory, and has read less by now: the client waits."""
    market.reprice(3)
    client = cdcv2.connect(market.place)
    client.peek({"prices": "pear"}, at=3, timeout=PATIENCE)
    assert client._seen == 3
    client._seen = 5
    with pytest.raises(cdcv2.errors.IncompleteError, match="not everything up to 5 is finished"):
        client.peek({"prices": "pear"}, timeout=0)
    market.reprice(6)
    assert client.peek({"prices": "pear"}, timeout=PATIENCE).at in (5, 6)


def test_the_commands_print_what_one_can_continue_from(market: Market, capsys: pytest.CaptureFixture[str]) -> None:
    market.reprice(2)
    place = ["--instance", str(market.place)]
    cdcv2.connect(market.place).peek({"prices": "pear"}, at=2, timeout=PATIENCE)
    assert main(["tail", "prices", *place, "--since", "1", "--until", "now"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == '+1 at 1  prices  {"name": "pear", "price": 1}'
    assert out.splitlines()[-1] == "-- complete through 2, frontier [3] (--after 3@prices-1)"
    assert err == "cdcv2 tail: complete through 2; continue with --after 3@prices-1\n"
    market.reprice(3)
    assert main(["tail", "prices", *place, "--after", "3", "--until", "3", "--json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        '{"table": "prices", "data": {"name": "pear", "price": 2}, "time": 3, "diff": -1}',
        '{"table": "prices", "data": {"name": "pear", "price": 3}, "time": 3, "diff": 1}',
        '{"frontier": [4], "after": "4@prices-1"}',
    ]  # fmt: skip
    assert main(["peek", "prices=pear", *place, "--at", "after:0/3"]) == 0
    assert main(["peek", "prices=pear", *place, "--at", "after:99", "--timeout", "0"]) == 1
    assert "not everything up to 99 is finished" in capsys.readouterr().err
    for wrong in ("after:", "xafter:3", "after:x", "0/x", "-1"):
        assert main(["peek", "prices=pear", *place, "--at", wrong]) == 2
    assert main(["tail", "prices", *place, "--after", "0/3"]) == 2


def test_old_times_are_let_go(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the seconds of --history; the memory for them, too."""
    monkeypatch.setattr(client_server, "_LOOK", 0.0)
    monkeypatch.setattr("cdcv2.instances.kept_times._LEAST", 0.0)
    instance = LoneInstance([NamedLog("prices", DirectoryLog(market.log.path), PRICES)], {"prices": ["name"]},
                            history=0.001)  # fmt: skip
    market.reprice(50)
    with served(instance, market.place.with_name("short.sock")) as place:
        client = cdcv2.connect(place)
        while client.status()["since"] != [50]:
            pass
        with pytest.raises(RefusedError, match="the time 3 is not kept any more"):
            client.peek({"prices": "pear"}, at=3)
        with pytest.raises(RefusedError, match="the time 2 is not kept any more"):
            next(client.tail("prices", after=3))
        assert instance._follower.source.instance.size("main") == 1


def test_a_large_first_batch_comes_in_parts_between_which_others_are_served(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is long, a peek is answered between two of them, and who loses its connection begins again."""
    monkeypatch.setattr(front, "_PART", 1000)
    for number in range(2, 400):
        market.reprice(number, f"name {number}")
    client = cdcv2.connect(market.place)
    client.peek({"prices": "x"}, at=399, timeout=PATIENCE)
    begun, lines = asked(market.place, TailRequest("slow", "prices", since=399).to_line()), list[bytes]()
    with begun.makefile("rb") as stream:
        assert "begun" in json.loads(stream.readline())
        while not lines or b"part" in lines[-1][:8]:
            lines.append(stream.readline())
            assert client.peek({"prices": "pear"}, timeout=PATIENCE).at == 399
    begun.close()
    assert len(lines) > 20 and max(map(len, lines)) < 2000
    plain = [json.loads(line) for line in lines]
    changes = [change for line in plain[:-1] for change in line["part"]] + plain[-1]["batch"]["changes"]

    tail = client.tail("prices", since=399, timeout=PATIENCE)
    conversation = tail._connected()
    tail._parts += conversation.answer(None)["part"]
    # As where the instance dies in the middle.
    conversation._socket.shutdown(socket.SHUT_RDWR)
    [batch] = tail.until(399)
    assert len(batch.changes) == len(changes) and batch.upper == Antichain([400])
    assert sorted(row.price for row, _, diff in batch.changes if diff > 0) == sorted(
        row["price"] for row, _, diff in changes if diff > 0)
