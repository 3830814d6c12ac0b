"""A connector that fails: each way ends in an error that names what it did, and leaves no process behind."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import Cdcv2Error, FencedError, TurnError, UnavailableError, UsageError
from cdcv2.materialize import Driver, MemoryRecoveryLog, Runtime, ThreadConnection
from cdcv2.materialize.protocol.messages import Acknowledge, Flush, Open, Store
from cdcv2.materialize.runtime import Pause
from cdcv2.materialize.targets.process import connector
from cdcv2.materialize.targets.process.driver import ProcessDriver
from cdcv2.testing import Workload
from tests.materialize.targets.test_process_conforms import ROOT
from tests.materialize.targets.test_process_frames import AT, PRICES, staging
from tests.logs.polling import until


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Whatever a test does, nothing that it has started is there in the end, dead or alive."""
    before = children()
    yield
    until(lambda: children() <= before, f"only {before} are left", seconds=60)


def children() -> set[int]:
    """The processes that this one has, zombies included."""
    found = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in found.stdout.splitlines()]
    return {int(pid) for pid, parent, name, *_ in rows if parent == str(os.getpid()) and name != "ps"}


def materialized(driver: Driver, *, threaded: bool = False) -> Runtime:
    """The workload, put through the driver."""
    work = Workload("full", cuts=4)
    runtime = Runtime(
        "conformance", work.bindings, ThreadConnection(driver) if threaded else driver, work.source,
        log=MemoryRecoveryLog("conformance"), rows=1,
    )  # fmt: skip
    runtime.run()
    return runtime


DEATHS: list[tuple[str, str, type[Cdcv2Error], str]] = [
    ("spec", "exit", UnavailableError, "'python' ended with exit code 1 while it was needed; it printed: the"),
    ("open", "exit", UnavailableError, "it printed: the disk is full. See to it, and start again"),
    ("load", "exit", UnavailableError, "the disk is full"),
    ("store", "exit", UnavailableError, "the disk is full"),
    ("startCommit", "kill", UnavailableError, "was ended by the signal 9"),
    ("flush", "half a line", UnavailableError, "ended with exit code 0"),
    ("acknowledge", "close", UnavailableError, "closed its output while it was needed"),
    ("startCommit", "fenced", FencedError, "fenced off by another. Another instance has taken over"),
    ("flush", "hello", TurnError, "wrote to its output what is no JSON object: 'hello'"),
    ("flush", "[1]", TurnError, "no JSON object: '[1]'"),
    ("flush", '{"flushed": {"a": NaN}}', TurnError, "no JSON object"),
    ("flush", "no text", TurnError, r"no JSON object: '\\xff\\xfe'"),
    ("flush", "{}", TurnError, "sent a message that has nothing, not one of spec,"),
    ("flush", '{"flushed": {}, "loaded": {}}', TurnError, "'flushed', 'loaded', not one of"),
    ("flush", '{"flushed": []}', TurnError, "'flushed', not one of"),
    ("flush", '{"surprise": {}}', TurnError, "'surprise', not one of"),
    ("spec", '{"opened": {}}', TurnError, "the driver sent Opened out of turn (expected Spec)"),
    ("flush", '{"opened": {}}', TurnError, "the driver sent Opened out of turn (it has sent Opened before)"),
    ("load", '{"flushed": {}}', TurnError, "the driver sent Flushed"),
    ("store", '{"startedCommit": {}}', TurnError, "the driver sent StartedCommit"),
    ("store", '{"loaded": {"doc": {"account": "account a"}}}', TurnError, "the driver sent Loaded"),
    ("store", '{"acknowledged": {}}', TurnError, "the driver sent Acknowledged"),
    ("flush", '{"acknowledged": {}}', TurnError, "sent duplicate Acknowledged"),
    ("flush", '{"startedCommit": {}}', TurnError, "StartedCommit out of turn (expected Loaded or Flushed"),
    ("startCommit", '{"flushed": {}}', TurnError, "the driver sent Flushed out of turn"),
    ("acknowledge", '{"startedCommit": {}}', TurnError, "the driver sent StartedCommit out of turn"),
    ("flush", '{"loaded": {"binding": 7, "doc": {}}}', TurnError, "sent Loaded for the table 7 of 3"),
    ("flush", '{"loaded": {"doc": 5}}', TurnError, "a document that is no object: 5"),
    ("flush", '{"loaded": {"doc": {}}}', TurnError, "a document without the column 'account', which is never null"),
    ("flush", '{"loaded": {"doc": {"account": "?", "entries": 1, "total": 1, "worth": "1"}}}', TurnError,
     "which was not asked for"),
    ("flush", '{"flushed": {"state": {"mergePatch": true}}}', TurnError, "a state that is no object with an object"),
    ("open", '{"opened": {"runtimeCheckpoint": {"sources": {"a": {}}}}}', Cdcv2Error, "that is not of cdcv2"),
    ("validate", '{"validated": {"bindings": []}}', TurnError, "not for the 3 bindings"),
    ("spec", '{"spec": {"protocol": 3032023, "resourceConfigSchema": {"properties": ["a"]}}}', UsageError,
     "no property with x-collection-name"),
    ("validate", '{"validated": {"bindings": ["x", "x", "x"]}}', TurnError, "what is no object for account_total"),
    ("validate", '{"validated": {"bindings": [{"resourcePath": ["t"], "constraints": ["k"]}, {}, {}]}}', TurnError,
     "constraints of account_total that are no objects by name"),
    ("validate", '{"validated": {"bindings": [{"resourcePath": ["t"], "constraints": {"total": 5}}, {}, {}]}}',
     TurnError, "constraints of account_total that are no objects by name"),
    ("validate", '{"validated": {"bindings": [{}, {}, {}]}}', TurnError, "without a resourcePath for account_total"),
]


@pytest.mark.parametrize(("at", "how", "kind", "text"), DEATHS, ids=[f"{one[0]} {one[1][:25]}" for one in DEATHS])
def test_each_failure_says_what_it_was(tmp_path: Path, at: str, how: str, kind: type[Cdcv2Error], text: str) -> None:
    """Whose fault it is, and the connector's own message."""
    with pytest.raises(kind) as told:
        materialized(staging(tmp_path, fault={"at": at, "how": how, "nth": 2 if at == "acknowledge" else 1}))

    assert text in str(told.value).replace("'python3'", "'python'")
    if kind is TurnError:
        assert "driver" == told.value.side  # type: ignore[attr-defined]


@pytest.mark.parametrize("at", ["validate", "flush", "startCommit"])
def test_one_that_hangs_is_ended_when_the_patience_is_over(tmp_path: Path, at: str) -> None:
    """Also when it does not end on being asked to."""
    with pytest.raises(UnavailableError, match=r"has answered nothing for 0.3 seconds \(patience\)"):
        materialized(staging(tmp_path, fault={"at": at, "how": "hang"}, patience=0.3))


def test_one_that_takes_nothing_in_is_ended(tmp_path: Path) -> None:
    """It writes more than the system keeps for it."""
    driver = staging(tmp_path, fault={"at": "flush", "how": "hang", "nth": 2})
    driver.open(Open("shop", (PRICES,)))
    driver.acknowledge(Acknowledge())
    list(driver.flush(Flush(*AT)))
    driver._connector._patience = 2
    driver._connector.send({"flush": {}})
    with pytest.raises(UnavailableError, match=r"has taken in nothing for 2 seconds \(patience\)"):
        driver.store(Store(0, (1,), (None, "x" * 2_000_000)))


def test_what_it_has_started_ends_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A child that hangs as well is not there afterwards."""
    caplog.set_level(logging.INFO)
    driver = staging(tmp_path, fault={"at": "flush", "how": "hang with a child"})
    driver.open(Open("shop", (PRICES,)))
    driver.acknowledge(Acknowledge())
    driver._connector.send({"flush": {}})
    driver._connector.flush()
    until(lambda: "child" in caplog.text, "it has started a child")
    driver._connector._patience = 0.1
    with pytest.raises(UnavailableError, match=r"has answered nothing for 0.1 seconds \(patience\)"):
        driver._connector.receive()
    found = re.search(r"child (\d+)", caplog.text)
    assert found is not None
    stat = Path(f"/proc/{found[1]}/stat")

    until(lambda: not stat.exists() or stat.read_text().split()[2] == "Z", "the child is gone", seconds=60)


@pytest.mark.parametrize("at", ["flush", "acknowledge"])
def test_close_from_another_thread_ends_the_waiting(tmp_path: Path, at: str) -> None:
    """As a second Ctrl-C does: the patience is not waited for."""
    driver = staging(tmp_path, fault={"at": at, "how": "hang"}, patience=600, grace=0.2, record=str(tmp_path / "heard"))
    connection, work = ThreadConnection(driver), Workload("full", cuts=4)
    runtime = Runtime("conformance", work.bindings, connection, work.source, log=MemoryRecoveryLog("conformance"))
    outcome: list[str] = []

    def work_on() -> None:
        try:
            for step in runtime.steps():
                if step is Pause.DRIVER:
                    runtime.wait()
        except UnavailableError as cause:
            outcome.append(str(cause))

    thread = threading.Thread(target=work_on)
    thread.start()
    heard = tmp_path / "heard"
    until(lambda: heard.exists() and f'{{"{at}"' in heard.read_text(), f"it has heard {at}", seconds=60)
    connection.close()
    thread.join(60)

    assert not thread.is_alive()
    assert "was let go while it was needed" in outcome[0]


def test_one_that_ignores_the_end_of_its_input_is_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After its grace; with a line in the log."""
    driver = ProcessDriver([sys.executable, "-c", "import signal; signal.pause()"], grace=0.1)
    driver._connector.start()
    driver.close()
    driver.close()

    assert "has not ended 0.1 seconds after its input" in caplog.text


def test_one_that_nobody_closes_ends_with_us(tmp_path: Path) -> None:
    """An interpreter that forgets it leaves nothing behind, however little it listens."""
    text = (
        "import sys; from cdcv2.materialize.targets.process.connector import Connector\n"
        "one = Connector([sys.executable, '-c', 'import signal; signal.pause()']); one.start()\n"
        "print(one._process.pid)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)

    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_what_it_says_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Lines of JSON with their level, others as warnings; the last words are in the error."""
    caplog.set_level(logging.DEBUG)
    lines = [
        json.dumps({"level": "debug", "msg": "looking"}),
        json.dumps({"level": "info", "msg": "found", "fields": {"rows": 3, "at": "\u00e9"}}),
        "plain text", "[1]", json.dumps({"level": "error", "msg": "the password is wrong"}),
    ]  # fmt: skip
    one = ProcessDriver(["sh", "-c", f"cat >&2 <<'END'\n{chr(10).join(lines)}\nEND\nexit 7"])
    with pytest.raises(UnavailableError) as told:
        materialized(one)
    said = [(record.levelname, record.message.removeprefix("the connector 'sh': ")) for record in caplog.records]

    assert "ended with exit code 7" in str(told.value)
    assert "it printed: plain text / [1] / the password is wrong" in str(told.value)
    assert [
        ("DEBUG", "looking"), ("INFO", 'found {"rows": 3, "at": "\u00e9"}'), ("WARNING", "plain text"),
        ("WARNING", "[1]"), ("ERROR", "the password is wrong"),
    ] == said  # fmt: skip


def test_what_was_closed_says_so(tmp_path: Path) -> None:
    """And one that ended before it was sent anything, and one that does not even begin to read."""
    driver = staging(tmp_path)
    driver.open(Open("shop", (PRICES,)))
    driver.close()
    with pytest.raises(UnavailableError, match="is not running: open it again"):
        driver.acknowledge(Acknowledge())
    one = connector.Connector(["sh", "-c", "exec <&-; echo gone >&2; exit 3"])
    one.start()
    until(lambda: one._news.qsize() > 0, "it has closed its output")
    with pytest.raises(UnavailableError, match="ended with exit code 3 while it was needed; it printed: gone"):
        one.send({"spec": "x" * 1_000_000})


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not kept in memory for ever."""
    monkeypatch.setattr(connector, "_LONGEST", 1 << 20)
    with pytest.raises(TurnError, match="wrote a line that has no end: 1048576 bytes"):
        materialized(ProcessDriver(["sh", "-c", "yes | tr -d '\\n'"]))


def test_one_that_never_stops_talking(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recognized by its first words; its other output is not kept in memory for ever."""
    monkeypatch.setattr(connector, "_MOST", 10)
    one = connector.Connector(["yes", '{"spec": {}}'])
    one.start()
    until(lambda: one._news.qsize() > 10, "it talks")
    thread = one._threads[0]
    one.close(kill=True)

    assert not thread.is_alive()
    assert one._news.qsize() < 20_000


WRONG: list[tuple[list[str], dict[str, Any], str]] = [
    ([], {}, "the command is empty"),
    (["no-such-program"], {}, "there is no program 'no-such-program' in the PATH"),
    (["./connector"], {}, "there is no program './connector' in "),
    (["sh"], {"patience": 0}, "patience=0, grace=5.0: they take seconds"),
    (["sh", "-c", "\0"], {}, "cannot be started: embedded null byte"),
]


@pytest.mark.parametrize(("command", "more", "text"), WRONG, ids=[one[2][:20] for one in WRONG])
def test_commands_that_are_none(tmp_path: Path, command: list[str], more: dict[str, Any], text: str) -> None:
    """Are refused, most before anything is started."""
    with pytest.raises(UsageError) as told:
        materialized(ProcessDriver(command, folder=tmp_path, **more))

    assert text in str(told.value)


def test_a_secret_of_the_config_is_in_no_error(tmp_path: Path) -> None:
    """Nor in the recovery log."""
    log, work = MemoryRecoveryLog("conformance"), Workload("full", cuts=4)
    driver = staging(tmp_path, password="hunter2", fault={"at": "startCommit", "how": "exit", "nth": 2})
    runtime = Runtime("conformance", work.bindings, driver, work.source, log=log, rows=1)
    with pytest.raises(UnavailableError) as told:
        runtime.run()

    assert "hunter2" not in str(told.value) + repr(driver) + log._text
    assert 1 == runtime.transactions
