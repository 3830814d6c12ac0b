"""`cdcv2 mangle` makes a copy that no reader can tell from the log."""

from __future__ import annotations

import json
from pathlib import Path

from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Message, Updates
from cdcv2.wire.files import DirectoryLog
from tests.cli.conftest import HISTORY, Run, append_raw


def messages(path: Path) -> list[Message]:
    """What the log in a directory holds."""
    return [entry.message for entry in DirectoryLog(path).read() if entry is not None]  # type: ignore[misc]


def told(log: list[Message]) -> list[object]:
    """Every update that a reader gets, in order of time."""
    return sorted(((time, repr(data), diff) for updates, _ in Iter(log) for data, time, diff in updates))


def test_the_copy_holds_each_fact_as_often_as_asked_for(run: Run, prices: Path, tmp_path: Path) -> None:
    """And a reader of it gets the same history."""
    said = run("mangle", prices, tmp_path / "copy", "--copies", 3, "--json")
    copy = messages(tmp_path / "copy")

    told_of = {"table": "prices", "messages": len(copy), "to": str(tmp_path / "copy")}
    assert (0, told_of) == (said.code, json.loads(said.out))
    assert 3 * 6 == sum(len(message.updates) for message in copy if isinstance(message, Updates))
    assert told(list(HISTORY)) == told(copy)


def test_the_same_seed_makes_the_same_copy(run: Run, prices: Path, tmp_path: Path) -> None:
    """Another seed another one."""
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        run("mangle", prices, tmp_path / name, "--seed", seed)

    assert messages(tmp_path / "a") == messages(tmp_path / "b") != messages(tmp_path / "c")


def test_without_rebatching_the_messages_stay_as_they_are(run: Run, prices: Path, tmp_path: Path) -> None:
    """Only their order and number change."""
    run("mangle", prices, tmp_path / "copy", "--no-rebatch", "--copies", 2)
    copy = messages(tmp_path / "copy")

    assert sorted(map(repr, [*HISTORY, *HISTORY])) == sorted(map(repr, copy))
    assert [*HISTORY, *HISTORY] != copy


def test_every_log_of_a_capture_is_copied(run: Run, captured: Path, tmp_path: Path) -> None:
    """Into a directory of its own; {table} says where else."""
    copies = run("mangle", captured / "logs", tmp_path / "copies", "--window", 9)
    named = run("mangle", captured / "logs", tmp_path / "some/{table}/log")

    assert (0, 0) == (copies.code, named.code)
    assert 0 == run("verify", "--full", tmp_path / "copies").code
    frontier = json.loads(run("verify", "--json", tmp_path / "copies").out)["frontier"]
    assert [102462313] == frontier
    assert (tmp_path / "some" / "public.orders" / "log" / "_log.json").exists()


def test_a_target_that_holds_messages_is_refused(run: Run, prices: Path, tmp_path: Path) -> None:
    """Two histories in one log contradict each other; nothing is written."""
    run("mangle", prices, tmp_path / "copy")
    before = messages(tmp_path / "copy")
    said = run("mangle", prices, tmp_path / "copy", "--seed", 9)

    assert (2, True) == (said.code, "holds messages already" in said.err)
    assert before == messages(tmp_path / "copy")
    assert 2 == run("mangle", prices, prices).code


def test_wrong_numbers_are_wrong_usage(run: Run, prices: Path, tmp_path: Path) -> None:
    """They are named."""
    for words in (["--copies", 0], ["--window", 0], ["--copies", "many"]):
        said = run("mangle", prices, tmp_path / "copy", *words)
        assert (2, True) == (said.code, words[0].removeprefix("--") in said.err)


def test_garbled_bytes_cannot_be_copied(run: Run, prices: Path, tmp_path: Path) -> None:
    """They may have been facts."""
    append_raw(prices, b"\xff")
    said = run("mangle", prices, tmp_path / "copy")

    assert (3, True) == (said.code, f"{prices}[0]@6" in said.err)
