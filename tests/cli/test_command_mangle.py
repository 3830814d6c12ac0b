"""`cdcv2 mangle` makes a copy in which no reader sees a difference to the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2 import failpoints
from cdcv2.logs.capture_manifest import CAPTURE_FILE, manifest_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.stops import Stop
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Message, Updates
from tests.cli.conftest import HISTORY, Run, append_raw


TABLE = "public.order_items"


@pytest.fixture
def one_table(run: Run, captured: Path, tmp_path: Path) -> Path:
    """What a capture of one table wrote."""
    into = tmp_path / "one"
    assert 0 == run("capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows",
                    "--tables", TABLE, "--into", into).code  # fmt: skip
    return into


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


def test_copies_may_be_in_one_message(run: Run, prices: Path, tmp_path: Path) -> None:
    """A reader gets the same history; with messages that stay as they are it cannot be."""
    assert 0 == run("mangle", prices, tmp_path / "copy", "--doubled").code
    copy = messages(tmp_path / "copy")

    assert any(len(set(one.updates)) < len(one.updates) for one in copy if isinstance(one, Updates))
    assert told(list(HISTORY)) == told(copy)
    said = run("mangle", prices, tmp_path / "other", "--doubled", "--no-rebatch")
    assert 2 == said.code and "without rebatch" in said.err and not (tmp_path / "other").exists()


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
    """Into a directory of its own; {table} stands for another place."""
    copies = run("mangle", captured / "logs", tmp_path / "copies", "--window", 9)
    named = run("mangle", captured / "logs", tmp_path / "some/{table}/log")

    assert (0, 0) == (copies.code, named.code)
    assert 0 == run("verify", "--full", tmp_path / "copies").code
    frontier = json.loads(run("verify", "--json", tmp_path / "copies").out)["frontier"]
    assert [102462313] == frontier
    assert (tmp_path / "some" / "public.orders" / "log" / "_log.json").exists()


def test_a_capture_of_one_table_is_copied_as_one(run: Run, one_table: Path, tmp_path: Path) -> None:
    """The layout is that of the capture, however many tables it has; a log by itself is copied as a log."""
    whole, alone = run("mangle", one_table, tmp_path / "copies"), run("mangle", one_table / TABLE, tmp_path / "alone")

    assert (0, 0) == (whole.code, alone.code)
    assert (tmp_path / "copies" / TABLE / "_log.json").exists() and (tmp_path / "alone" / "_log.json").exists()
    assert not (tmp_path / "alone" / CAPTURE_FILE).exists()


def test_copies_have_the_note_of_the_capture(run: Run, captured: Path, tmp_path: Path) -> None:
    """verify reports of its copies what it reports of the capture; and the capture's state does not know them."""
    logs, copies, named = captured / "logs", tmp_path / "copies", tmp_path / "named"
    run("mangle", logs, copies, "--window", 9)
    run("mangle", logs, named / "{table}", "--window", 9)
    note = manifest_of(logs)

    assert "snapshot completeness assumed" in run("verify", copies).out
    for copy in (copies, named):
        assert {**note, "id": manifest_of(copy)["id"], "timeline": note["id"]} == manifest_of(copy)
        assert manifest_of(copy)["id"] != note["id"]


def test_what_lacks_of_copies_after_a_crash_is_missed(run: Run, captured: Path, tmp_path: Path) -> None:
    """The note is there first: of the tables whose turn did not come, verify knows that they lack."""
    with failpoints.placed("files.before-link", 3), pytest.raises(failpoints.PlacedCrash):
        run("mangle", captured / "logs", tmp_path / "copies")
    said = run("verify", tmp_path / "copies")

    assert (1, True) == (said.code, "missing: the whole log" in said.out)


def test_copies_of_two_captures_do_not_mix(run: Run, captured: Path, one_table: Path, tmp_path: Path) -> None:
    """The note would be true of the one only. Nothing is written."""
    run("mangle", one_table, tmp_path / "copies")
    for path in (tmp_path / "copies" / TABLE).iterdir():
        path.unlink()
    (tmp_path / "copies" / TABLE).rmdir()
    said = run("mangle", captured / "logs", tmp_path / "copies")

    assert (2, True) == (said.code, "holds logs of another capture" in said.err)
    assert [CAPTURE_FILE] == [path.name for path in (tmp_path / "copies").iterdir()]


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


def test_a_stop_that_a_log_keeps_is_in_its_copy(run: Run, prices: Path, tmp_path: Path) -> None:
    """The copy lacks what the log does, and `verify` of it finds the same."""
    DirectoryLog(prices).put_stop(Stop("a row is lacking", "Begin with new logs"))
    assert 0 == run("mangle", prices, tmp_path / "copy").code
    shown = run("verify", tmp_path / "copy")

    assert (3, True) == (shown.code, "the capture stopped: a row is lacking. Begin with new logs" in shown.out)
