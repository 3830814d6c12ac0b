"""What clients learn at the edges: nothing is reported yet, values that are none, places that are none."""

from __future__ import annotations

import errno
import io
import math
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cdcv2
from cdcv2.cli.main import main
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import IncompleteError, UnavailableError, UsageError
from cdcv2.instances.run import client as client_module
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.controller import ReplicaController
from cdcv2.instances.run.index_catalogue import IndexCatalogue
from cdcv2.instances.run.place import LONGEST_PLACE
from cdcv2.instances.run.replica import InstanceReplica
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog
from tests.market import KEYS, PRICES, Market
from tests.serving import served, serving

PATIENCE = 60.0


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    found = Market(tmp_path)
    with served(found.instance, found.place):
        yield found


def test_until_now_waits_until_a_replica_has_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A controller without a report knows of no time, and so of no now; the table is not empty for that."""
    market = Market(tmp_path)
    replica = InstanceReplica(market.logs(), lambda text: None)
    one = tmp_path / "one.sock"
    with IndexCatalogue(tmp_path / "state") as catalogue:
        controller = ReplicaController(market.logs(), KEYS, [one], catalogue, lambda text: None, history=None)
        with serving(controller, market.place):
            client = cdcv2.connect(market.place)
            with pytest.raises(UnavailableError, match="no replica of the instance at .* connected for 0 seconds"):
                [*client.tail("prices", timeout=0).until()]
            assert main(["tail", "prices", "--until", "now", "--timeout", "0", "--instance", str(market.place)]) == 4
            found: list[Any] = []
            asking = threading.Thread(target=lambda: found.extend(client.tail("prices", timeout=PATIENCE).until()))
            asking.start()
            with serving(replica, one):
                asking.join()
    replica.close()
    assert [batch.changes for batch in found] == [[(PRICES.row(["pear", 1]), 1, 1)]]
    assert capsys.readouterr().out == ""


def test_a_tail_names_the_time_that_it_waits_for(market: Market, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it has nothing yet; with a batch, what is beyond that."""
    words = ["tail", "prices", "--instance", str(market.place), "--timeout", "0"]
    first = "the time 100, of which the first batch of prices is, is not finished after 0 seconds"
    for more, text in (
        (["--since", "100"], first), (["--until", "100"], first),
        (["--after", "2", "--until", "100"], "nothing of prices beyond [2] is finished after 0 seconds"),
    ):
        assert main([*words, *more]) == 1
        assert text in capsys.readouterr().err


def test_nothing_is_called_complete_that_the_logs_have_not_reached(
    market: Market, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--instance", str(market.place), "--timeout", "0"]
    for words in (["--after", "99"], ["--since", "98"], ["--after", "99", "--json"]):
        assert main(["tail", "prices", "--until", "now", *words, *place]) == 1
        out, err = capsys.readouterr()
        assert out == "" and "not everything up to 98 is finished" in err and "complete through 1" in err
    assert main(["tail", "prices", "--after", "99", "--until", "98", *place]) == 1
    assert "through 98" not in capsys.readouterr().err
    assert main(["tail", "prices", "--after", "99", "--until", "5", *place]) == 2
    assert "continues behind 98, and is to end at 5" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["inf", "nan", "-1", "1e+300", "1000001"])
def test_a_timeout_that_is_none_is_refused(wrong: str, market: Market, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["peek", "prices=pear"], ["tail", "prices", "--until", "now"]):
        assert main([*command, "--instance", str(market.place), "--timeout", wrong]) == 2
        assert wrong in capsys.readouterr().err
    client = cdcv2.connect(market.place)
    for ask in (
        lambda: client.peek({"prices": "pear"}, timeout=float(wrong)), lambda: client.status(timeout=float(wrong)),
        lambda: client.tail("prices", timeout=float(wrong)),
    ):
        with pytest.raises(UsageError, match="it takes a number of seconds from 0 to 1000000"):
            ask()


def test_a_time_that_no_log_can_have_is_refused(market: Market, capsys: pytest.CaptureFixture[str]) -> None:
    huge, place = str(MAX_TIME + 1), ["--instance", str(market.place)]
    for words in (
        ["peek", "prices=pear", "--at", huge], ["peek", "prices=pear", "--at", f"after:{huge}"],
        ["tail", "prices", "--until", huge], ["tail", "prices", "--after", huge], ["tail", "prices", "--since", huge],
    ):
        assert main([*words, *place]) == 2
        assert huge in capsys.readouterr().err
    client = cdcv2.connect(market.place)
    for at in (-1, MAX_TIME + 1, True, "x", 1.5):
        with pytest.raises(UsageError, match="is no time"):
            client.peek({"prices": "pear"}, at=at)  # type: ignore[arg-type]  # that is what is tried
        with pytest.raises(UsageError, match="is no time"):
            [*client.tail("prices").until(at)]  # type: ignore[arg-type]
        for given in ({"after": at}, {"since": at}):
            with pytest.raises(UsageError, match="is no "):
                client.tail("prices", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("value, kind", [
    ({1}, "set"), (bytearray(b"pear"), "bytearray"), (math, "module"), ("\ud800", "str"),
    (["pear", {"a": b""}], "list"),
])  # fmt: skip
def test_a_key_that_json_has_not_is_named_with_its_column(
    value: object, kind: str, market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"prices": [("pear",), (value,)]}
    client = cdcv2.connect(market.place)
    with pytest.raises(UsageError, match=f"of the table prices.* column 'name' is of the type {kind}"):
        client.peek(keys)
    monkeypatch.setattr(client_module, "_MOMENT", 0.0)
    with pytest.raises(UsageError, match=f"of the table prices.* value 1 is of the type {kind}"):
        cdcv2.connect(market.place.with_name("none.sock")).peek(keys)


def test_logs_of_which_nothing_is_complete_are_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = DirectoryLog(tmp_path / "prices", PRICES, create=True,
                       description=LogDescription(timeline="m", identity="prices", log_set="m"))  # fmt: skip
    instance = LoneInstance([NamedLog("prices", DirectoryLog(log.path), PRICES)], KEYS)
    with served(instance, tmp_path / "shop.sock") as place:
        assert main(["peek", "prices=pear", "--timeout", "0", "--instance", str(place)]) == 1
    said = capsys.readouterr().err
    assert "no time is finished after 0 seconds; nothing of its logs is complete yet: capture" in said


def test_half_a_letter_in_an_argument_is_refused(market: Market, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--instance", str(market.place)]
    for words in (
        ["peek", "prices=\udc80"], ["peek", 'prices="\\ud800"'], ["peek", "pri\udc80=7"], ["tail", "pri\udc80"],
        ["peek", "prices=pear", "--at", "\udc80"], ["tail", "prices", "--until", "\udc80"],
    ):
        assert main([*words, *place]) == 2
        err = capsys.readouterr().err
        assert "Traceback" not in err and ("\\udc80" in err or "\\ud800" in err)


def test_a_place_at_which_nothing_can_answer_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file.sock"
    file.touch()
    for place, reason in (
        (tmp_path / ("x" * LONGEST_PLACE), f"{LONGEST_PLACE} bytes"), (tmp_path / "none" / "a.sock", "no folder"),
        (file, "no socket"), (tmp_path, "no socket"),
    ):
        for words in (["peek", "prices=pear"], ["tail", "prices"]):
            assert main([*words, "--instance", str(place), "--timeout", "10000"]) == 2
            assert reason in capsys.readouterr().err
        with pytest.raises(UsageError, match=reason):
            cdcv2.connect(place).status(timeout=10_000)


def test_a_connected_tail_ends_at_its_timeout_and_goes_on(market: Market, capsys: pytest.CaptureFixture[str]) -> None:
    client = cdcv2.connect(market.place)
    tail = client.tail("prices", after=1, timeout=PATIENCE)
    first = next(tail)
    tail.timeout = 0.01
    with pytest.raises(IncompleteError, match="nothing of prices .* after 0.01 seconds; its logs .* through 1"):
        next(tail)
    tail.timeout = PATIENCE
    market.reprice(2)
    second = next(tail)
    place = ["--instance", str(market.place)]
    capsys.readouterr()

    assert main(["tail", "prices", "--until", "9", "--timeout", "0.3", *place]) == 1
    assert main(["tail", "prices", "--timeout", "0.3", *place]) == 1
    assert "nothing of prices" in capsys.readouterr().err
    assert (first.upper, second.lower, second.upper) == (Antichain([2]), Antichain([2]), Antichain([3]))


def test_what_was_given_for_timeout_is_what_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the instance takes the connection, and then states nothing."""
    monkeypatch.setattr(client_module, "_LAST", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(tmp_path / "s.sock"))
        silent.listen()
        client = cdcv2.connect(tmp_path / "s.sock")
        with pytest.raises(UnavailableError, match="does not answer for 0.25 seconds"):
            client.peek({"prices": "pear"}, timeout=0.25)


def test_output_is_advised_only_where_there_is_such_an_option(
    market: Market, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Full())
        code = main(["peek", "prices=pear", "--instance", str(market.place)])
    err = capsys.readouterr().err
    assert code == 4 and "standard output cannot be written" in err and "--output" not in err
