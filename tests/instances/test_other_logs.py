"""A log that is made again at the same place is another one: what was kept of the first does not continue over it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

import cdcv2
from cdcv2.cli.main import main
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, RefusedError, UnavailableError, UsageError
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.controller import ReplicaController
from cdcv2.instances.run.index_catalogue import IndexCatalogue
from cdcv2.instances.run.replica import InstanceReplica
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog
from tests.market import KEYS, PRICES
from tests.serving import served, serving

PATIENCE = 60.0


def opened(folder: Path) -> list[NamedLog]:
    return [NamedLog("prices", DirectoryLog(folder / "prices"), PRICES)]


def write(folder: Path, identity: str, price: int, upper: int) -> None:
    """The log, made again: with another identity, other rows, and further than the one before."""
    shutil.rmtree(folder / "prices", ignore_errors=True)
    log = DirectoryLog(folder / "prices", PRICES, create=True,
                       description=LogDescription(timeline="m", identity=identity, log_set="m"))  # fmt: skip
    writer = cdcv2.Writer(log)
    writer.extend([(PRICES.row(["pear", price]), 1, 1)])
    writer.advance([upper])
    log.flush()


@contextmanager
def alone(folder: Path) -> Iterator[Path]:
    with served(LoneInstance(opened(folder), KEYS), folder / "shop.sock") as place:
        yield place


@contextmanager
def replicated(folder: Path) -> Iterator[Path]:
    with ExitStack() as stack:
        catalogue = stack.enter_context(IndexCatalogue(folder / "state"))
        replica = InstanceReplica(opened(folder), lambda text: None)
        stack.callback(replica.close)
        one = stack.enter_context(serving(replica, folder / "one.sock"))
        made = ReplicaController(opened(folder), KEYS, [one], catalogue, lambda text: None, history=None)
        yield stack.enter_context(serving(made, folder / "shop.sock"))


@pytest.mark.parametrize("run", [alone, replicated])
def test_a_tail_does_not_continue_over_another_log(
    run: Callable[[Path], AbstractContextManager[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "first", price=1, upper=4)
    with run(tmp_path) as place:
        client = cdcv2.connect(place)
        live = client.tail("prices", timeout=PATIENCE)
        batch = next(live)
        continued = client.tail("prices", after=3, timeout=0.01)
        with pytest.raises(cdcv2.errors.IncompleteError):
            [next(continued) for _ in range(2)]
    assert (batch.resume_token, live.resume_token, batch.log) == ("4@first", "4@first", "first")
    write(tmp_path, "second", price=2, upper=9)
    continued.timeout = PATIENCE
    with run(tmp_path) as place:
        for tail in (live, continued, client.tail("prices", after=batch.resume_token, timeout=PATIENCE)):
            with pytest.raises(RefusedError, match="is of the log first, and second is here now.* Begin again without"):
                next(tail)
        words = ["tail", "prices", "--instance", str(place), "--timeout", "60"]
        capsys.readouterr()
        assert main([*words, "--after", "4@first"]) == 4
        assert "is of the log first, and second is here now" in capsys.readouterr().err
        # Of a frontier alone it is not known of which log it is.
        for same in ("4", "[4]", "4@second", "[4]@second"):
            assert main([*words, "--after", same, "--until", "8"]) == 0
            assert capsys.readouterr().out == "-- complete through 8, frontier [9] (--after 9@second)\n"
        again = next(client.tail("prices", since=8, timeout=PATIENCE))
    assert (again.upper, [row.price for row, _, _ in again.changes]) == (Antichain([9]), [2])


@pytest.mark.parametrize("run", [alone, replicated])
def test_where_nothing_is_to_come_the_log_and_the_table_are_looked_at(
    run: Callable[[Path], AbstractContextManager[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "second", price=1, upper=50)
    with run(tmp_path) as place:
        client = cdcv2.connect(place)
        assert client.peek({}, after=49, timeout=PATIENCE).at == 49
        words = ["--instance", str(place), "--timeout", "60"]
        # Also a time that the logs here come to later, or never: nothing is waited for.
        for after in ("50@first", "99@first", "[]@first"):
            for until in ("now", "98"):
                assert main(["tail", "prices", *words, "--after", after, "--until", until]) == 4
                assert "is of the log first, and second is here now" in capsys.readouterr().err
            with pytest.raises(RefusedError, match="is of the log first"):
                list(client.tail("prices", after=after, timeout=PATIENCE))
        for after in ("50", "[]"):
            assert main(["tail", "fruit", *words, "--after", after, "--until", "now"]) == 2
            assert "the table 'fruit' is not kept here: there are prices" in capsys.readouterr().err
        for after in ("50", "50@second"):
            assert main(["tail", "prices", *words, "--after", after, "--until", "now"]) == 0
            assert capsys.readouterr().err.endswith("continue with --after 50@second\n")
        ended = client.tail("prices", after="[]", timeout=PATIENCE)
        assert ([*ended], ended.resume_token) == ([], "[]@second")
        assert client.status()["tails"] == 0


@pytest.mark.parametrize("run", [alone, replicated])
def test_a_client_forgets_what_it_saw_of_other_logs(
    run: Callable[[Path], AbstractContextManager[Path]], tmp_path: Path
) -> None:
    """Which have not come as far; and not that it may ask for later times."""
    write(tmp_path, "first", price=1, upper=1000)
    with run(tmp_path) as place:
        client = cdcv2.connect(place)
        assert client.peek({"prices": "pear"}, timeout=PATIENCE).at == 999
    write(tmp_path, "second", price=2, upper=9)
    with run(tmp_path) as place:
        answer = client.peek({"prices": "pear"}, timeout=PATIENCE)
        assert (answer.at, [row.price for row in answer["prices"]]) == (8, [2])
        assert client.peek({}, after=7, timeout=PATIENCE).at == 8
        tail = client.tail("prices", timeout=PATIENCE)
        assert [batch.upper for batch in tail.until()] == [Antichain([9])]
        with pytest.raises(IncompleteError, match="not everything up to 12 is finished"):
            client.peek({}, after=12, timeout=0.01)


def test_a_controller_of_before_is_named_with_its_replica(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which was away, and is there over logs that were made again: each reason is reported once by each side."""
    write(tmp_path, "first", price=1, upper=4)
    reports: list[list[str]] = [[], []]
    with ExitStack() as stack:
        catalogue = stack.enter_context(IndexCatalogue(tmp_path / "state"))
        one = tmp_path / "one.sock"
        made = ReplicaController(opened(tmp_path), KEYS, [one], catalogue, reports[0].append, history=None)
        place = stack.enter_context(serving(made, tmp_path / "shop.sock"))
        client = cdcv2.connect(place)
        with pytest.raises(UnavailableError, match="is connected for 0 seconds: start cdcv2 instance --replica"):
            client.peek({}, timeout=0)
        write(tmp_path, "second", price=2, upper=9)
        replica = InstanceReplica(opened(tmp_path), reports[1].append)
        stack.callback(replica.close)
        stack.enter_context(serving(replica, one))
        while not client.status()["faults"]:
            pass
        # Until it was tried again and again.
        sessions = [connections(made)]
        while len(sessions) < 4:
            if (now := connections(made)) not in (None, *sessions):
                sessions.append(now)
        assert main(["peek", "prices=pear", "--instance", str(place), "--timeout", "0"]) == 4
    text = (
        "the controller was started over the log first of prices, and this replica over second: if the logs were made "
        "again meanwhile, start the older of the two again; otherwise give both the same logs"
    )
    assert f"no replica of the instance at {place} works for it. {one}: this is a replica" in capsys.readouterr().err
    assert [f"a session was ended: {text}"] == reports[1]
    assert [text in line for line in reports[0]] == [False, True]


def connections(controller: ReplicaController) -> object:
    """The connection that a controller has to its replica; None between two."""
    return next(iter(controller._connections.copy().values()), None)


def test_a_mark_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = cdcv2.connect(tmp_path / "none.sock")
    for wrong in ("", "x", "@first", "[4", "4]", "-4", "[4,5]", "0/4", "٤", "4@\ud800", "1" * 19 + "9"):
        with pytest.raises(UsageError):
            client.tail("prices", after=wrong)
        assert main(["tail", "prices", "--instance", str(tmp_path / "none.sock"), "--after", wrong]) == 2
    assert "Traceback" not in capsys.readouterr().err
