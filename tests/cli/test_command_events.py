"""``--events``: every command that works for long states its end, of whatever kind it is, and nothing else changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli import replay, verify
from cdcv2.cli.main import COMMANDS, parser_of
from cdcv2.cli.options.events import has_events
from cdcv2.errors import UnavailableError
from cdcv2.event_stream import read_events
from cdcv2.protocol.messages import Progress, Updates
from tests.children import CDCV2, started
from tests.cli.conftest import APPLE, Run, write
from tests.logs.polling import until

WORKS_FOR_LONG = {
    "capture", "replay", "verify", "materialize", "compare", "compact-remap", "orphans", "repair", "rewrite",
    "instance", "replicas",
}  # fmt: skip
LAKE = """
materialization: prices
logs: .
bindings: [{log: prices, target: now, key: id}]
target: {driver: lake, folder: lake}
recovery_log: recovery
"""


def end_of(path: Path) -> dict[str, Any]:
    """The end that a run states, once, as the last event."""
    stated = read_events(path)
    assert ["end"] == [one["event"] for one in stated if one["event"] not in ("start", "progress")]
    return stated[-1]


def test_which_programs_have_events() -> None:
    """All that work for long."""
    assert WORKS_FOR_LONG == {name for name in COMMANDS if has_events(parser_of(name))}


@pytest.mark.parametrize("command", ["replay", "verify"])
def test_a_command_that_is_done_states_how_far_it_came(run: Run, prices: Path, command: str, tmp_path: Path) -> None:
    """And its own output stays as it is."""
    plain = run(command, prices)
    said = run(command, prices, "--events", tmp_path / "events")
    end, (*_, last, _) = end_of(tmp_path / "events"), read_events(tmp_path / "events")

    assert plain == said
    assert (f"cdcv2 {command}", said.code, None) == (end["job"], end["exit"], end["error"])
    assert last["frontier"] == end["frontier"] is not None
    assert last["counts"]["messages"] > 0


def test_wrong_usage_has_an_end(run: Run, prices: Path, tmp_path: Path) -> None:
    """Also where the arguments cannot be read: what started it learns not to try again."""
    said = run("replay", prices, "--no-such-option", f"--events={tmp_path / 'events'}")
    end = end_of(tmp_path / "events")

    assert (2, 2, "UsageError", "never") == (said.code, end["exit"], end["error"], end["retry"])
    assert "--no-such-option" in end["reason"]


@pytest.mark.parametrize("words", [["--events", ""], ["--events", "fd:x"], ["--events", "fd:987"], ["--events"]])
def test_a_wrong_place_is_wrong_usage(run: Run, prices: Path, words: list[str]) -> None:
    """Before anything is done."""
    said = run("replay", prices, *words)

    assert (2, "") == (said.code, said.out)
    assert "--events" in said.err and "mistake in cdcv2" not in said.err


@pytest.mark.parametrize("logs", [".", "{prices: prices}", "nowhere"])
def test_a_view_whose_logs_are_not_there_yet_is_tried_again(run: Run, tmp_path: Path, logs: str) -> None:
    """At the first start of a pipeline the view may be quicker than the capture that makes its logs."""
    path = tmp_path / "lake.yaml"
    path.write_text(LAKE.replace("logs: .", f"logs: {logs}"), "utf-8")
    said = run("materialize", path, f"--events={tmp_path / 'events'}")
    end = end_of(tmp_path / "events")

    assert (2, 2, "MissingLogError", "mended") == (said.code, end["exit"], end["error"], end["retry"])
    assert f"{path}, line 3" in end["reason"]


@pytest.mark.parametrize(
    ("error", "code", "retry"),
    [
        (UnavailableError("a server does not answer"), 4, "mended"),
        (KeyboardInterrupt(), 130, "never"),
        (BrokenPipeError(), 141, "mended"),
        (PermissionError(13, "Permission denied", "rows"), 4, "mended"),
        (ZeroDivisionError("password=hunter2"), 70, "never"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_way_to_end_is_stated(
    run: Run, prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, retry: str
) -> None:
    """Errors, Ctrl-C, a mistake of ours."""
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(verify, "open_logs", fails)
    monkeypatch.setattr(replay, "open_logs", fails)
    said = run("verify", prices, "--events", tmp_path / "events")
    end = end_of(tmp_path / "events")

    assert (code, code, type(error).__name__, retry) == (said.code, end["exit"], end["error"], end["retry"])
    assert "hunter2" not in json.dumps(read_events(tmp_path / "events"))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A materialization of a small log."""
    pytest.importorskip("yaml")
    write(tmp_path / "prices", Updates([(APPLE, 3, 1)]), Progress([0], [5], {3: 1}))
    (tmp_path / "prices.yaml").write_text(LAKE, "utf-8")
    return tmp_path / "prices.yaml"


def frontiers(path: Path) -> list[Any]:
    """Those that were stated so far."""
    return [one["frontier"] for one in read_events(path) if one["event"] == "progress"] if path.exists() else []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_one_that_follows_states_its_end_when_it_is_stopped(lake: Path, number: int, code: int, tmp_path: Path) -> None:
    """A process of its own, by a real signal."""
    events = tmp_path / "events"
    with started(*CDCV2, "materialize", str(lake), "--follow", "--events", str(events)) as following:
        until(lambda: [5] in frontiers(events), "it is there")
        until(lambda: any(one.get("caught_up") for one in read_events(events)), "it has caught up")
        following.send_signal(number)
        following.wait(60)
    end = end_of(events)

    assert (code, code, [5]) == (following.returncode, end["exit"], end["frontier"])
    assert {following.pid} == {one["pid"] for one in read_events(events)}


def test_a_kill_leaves_a_file_that_the_next_run_continues(run: Run, lake: Path, tmp_path: Path) -> None:
    """It states no end, and nothing that was stated is lost."""
    events = tmp_path / "events"
    with started(*CDCV2, "materialize", str(lake), "--follow", "--events", str(events)) as following:
        until(lambda: [5] in frontiers(events), "it is there")
        until(lambda: any(one.get("caught_up") for one in read_events(events)), "it has caught up")
        following.kill()
        following.wait(60)
    killed = [one["event"] for one in read_events(events)]
    said = run("materialize", lake, "--events", events)

    assert (["start", "progress"], 0) == (killed[:2], said.code)
    assert "end" not in killed
    both = [one["event"] for one in read_events(events)]
    assert (killed, "start", "end") == (both[:len(killed)], both[len(killed)], both[-1])


def test_a_signal_that_a_command_does_not_answer_itself_has_an_end(tmp_path: Path) -> None:
    """It ends by the signal, as ever; a pipe that stands for a dump is waited for."""
    (tmp_path / "rows").mkdir()
    row = {"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]}
    (tmp_path / "rows" / "public.t.avsc").write_text(json.dumps(row), "utf-8")
    os.mkfifo(tmp_path / "dump.jsonl")
    words = ["capture", str(tmp_path / "dump.jsonl"), "--prefix", "p", "--rows", str(tmp_path / "rows"), "--into",
             str(tmp_path / "logs"), "--events", str(tmp_path / "events")]  # fmt: skip
    with started(*CDCV2, *words) as waiting:
        until(lambda: (tmp_path / "events").exists() and read_events(tmp_path / "events") != [], "it has started")
        waiting.terminate()
        waiting.wait(60)
    end = end_of(tmp_path / "events")

    assert (-signal.SIGTERM, 143, "now") == (waiting.returncode, end["exit"], end["retry"])


def test_events_go_to_an_open_descriptor(lake: Path) -> None:
    """As a supervisor gives one; standard output has only what it has without."""
    reading, writing = os.pipe()
    ran = subprocess.run(
        [*CDCV2, "materialize", str(lake), "--json", "--events", f"fd:{writing}"], pass_fds=[writing],
        capture_output=True, text=True, check=False,
    )
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        kinds = [json.loads(line)["event"] for line in stream]

    assert (0, [5]) == (ran.returncode, json.loads(ran.stdout)["frontier"])
    assert ["start", "progress", "end"] == list(dict.fromkeys(kinds))


def test_no_secret_of_a_target_is_in_an_event(run: Run, lake: Path, tmp_path: Path) -> None:
    """The password of a server that does not answer, and of one whose address cannot be read."""
    pytest.importorskip("psycopg")
    text = lake.read_text("utf-8")
    for place in ("host=127.0.0.1 port=1 user=a password=hunter2", "postgresql://a:hunter2@127.0.0.1:1/b",
                  "host=h password=hunter2 no such thing"):  # fmt: skip
        target = f'{{driver: postgres, conninfo: "{place}"}}'
        lake.write_text(text.replace("{driver: lake, folder: lake}\nrecovery_log: recovery", target), "utf-8")
        said = run("materialize", lake, "--events", tmp_path / "events")

        assert said.code in (2, 4), said.err
    assert 3 == len([one for one in read_events(tmp_path / "events") if one["event"] == "end"])
    assert b"hunter2" not in (tmp_path / "events").read_bytes()


def test_no_secret_of_kafka_is_in_an_event(run: Run, prices: Path, tmp_path: Path) -> None:
    """What stands in the file of settings, right or wrong."""
    pytest.importorskip("confluent_kafka")
    config, row = tmp_path / "kafka.properties", tmp_path / "row.avsc"
    row.write_text(json.dumps({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]}), "utf-8")
    for text in ("sasl.mechanism=PLAIN\nsecurity.protocol=SASL_PLAINTEXT\nsasl.username=a\nsasl.password=hunter2\n",
                 "sasl.jaas.config=Module required username=\"a\" password=\"hunter2\"\n", "hunter2\n"):  # fmt: skip
        config.write_text(text, "utf-8")
        said = run("verify", "kafka:t", "--row", row, "--bootstrap", "127.0.0.1:1", "--patience", "0.1",
                   "--kafka-config", config, "--events", tmp_path / "events")  # fmt: skip

        assert said.code in (2, 4), said.err
    assert b"hunter2" not in (tmp_path / "events").read_bytes()
