"""An error in a log, a name or an output: each command that meets it reports what, where, and by which exit code."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import APPLE, HISTORY, PEAR, Run, append_raw, encoded, write

READERS = ("inspect", "replay", "as-of", "verify", "mangle")


def words(command: str, log: object, tmp_path: Path) -> list[object]:
    """A call of the command on the log that reads all of it."""
    return [command, log, *([tmp_path / "copy"] if command == "mangle" else [])]


GARBLED = {
    "bytes that are no message": b"\xff\xfe\xfd",
    "a message of an unknown branch": b"\x04\x00",
    "a message that ends early": encoded(HISTORY[0])[:-3],
    "bytes left over": encoded(HISTORY[0]) + b"\x00",
    "a foreign message": json.dumps({"op": "c"}).encode(),
    "a diff of zero": encoded(Updates.trusted(((APPLE, 3, 0),))),
    "a negative time": b"\x00\x02\x02\x00\x00\x01\x02\x00",
    "nothing at all": b"",
}


@pytest.mark.parametrize("what", GARBLED)
@pytest.mark.parametrize("command", READERS)
def test_bytes_that_are_no_message_are_named_with_file_and_place(
    run: Run, prices: Path, tmp_path: Path, command: str, what: str
) -> None:
    """Exit 3; a wrong byte is never passed over, as it may have been a fact."""
    append_raw(prices, encoded(HISTORY[0]), GARBLED[what])
    said = run(*words(command, prices, tmp_path))

    assert 3 == said.code
    assert f"{prices}[0]@6#1" in said.out + said.err
    if command != "inspect":
        assert "The writer of the log is at fault, or it was damaged since, or the row type" in said.out + said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("command", READERS)
def test_a_file_that_is_no_container_is_named(run: Run, prices: Path, tmp_path: Path, command: str) -> None:
    """Cut off, or something else altogether."""
    last = max(prices.glob("*.avro"))
    last.write_bytes(last.read_bytes()[:-9])
    said = run(*words(command, prices, tmp_path))

    assert (3, True) == (said.code, f"{prices}[0]@5" in said.out + said.err)


CONTRADICTORY: dict[str, tuple[Message, Message, str]] = {
    "diffs": (Updates([(APPLE, 12, 1)]), Updates([(APPLE, 12, 2)]), "the diff 1 and also 2"),
    "counts": (Progress([10], [15], {12: 1}), Progress([10], [14], {12: 2}), "states 1 updates at time 12 and also 2"),
    "over-delivery": (
        Updates([(APPLE, 12, 1), (PEAR, 12, 1)]), Progress([10], [15], {12: 1}),
        "states 1 updates at time 12 but holds 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRADICTORY)
@pytest.mark.parametrize("command", ["replay", "as-of", "verify"])
def test_a_contradiction_is_said_with_its_evidence(
    run: Run, tmp_path: Path, command: str, what: str
) -> None:
    """Exit 3, both facts, and where they were read."""
    *facts, text = CONTRADICTORY[what]
    log = write(tmp_path / "log", *HISTORY, *facts)  # type: ignore[arg-type]
    said = run(*words(command, log, tmp_path))

    assert (3, True) == (said.code, text in said.out + said.err)
    assert f"{log}[0]@" in said.out + said.err


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("what", ["nothing", "an empty directory", "a file"])
def test_a_log_that_is_not_there_is_said(run: Run, tmp_path: Path, command: str, what: str) -> None:
    """Exit 2, with the name: it is wrong, or has not been written yet."""
    place = tmp_path / "log"
    if what == "an empty directory":
        place.mkdir()
    elif what == "a file":
        place.write_bytes(b"x")
    said = run(*words(command, place, tmp_path))

    assert (2, "", 1) == (said.code, said.out, said.err.count("\n"))
    assert str(place) in said.err
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("command", READERS)
def test_a_file_that_was_removed_is_said(run: Run, prices: Path, tmp_path: Path, command: str) -> None:
    """A gap in the numbers is no end: facts are missing. Exit 4; verify, whose answer it is, has 1 for it."""
    (prices / f"{2:020d}.avro").unlink()
    said = run(*words(command, prices, tmp_path))

    assert (1 if command == "verify" else 4, True) == (said.code, "it was removed" in said.out + said.err)


@pytest.mark.parametrize("text", ["{", "[" * 200_000])
@pytest.mark.parametrize("command", READERS)
def test_a_description_that_is_damaged_is_said(
    run: Run, prices: Path, tmp_path: Path, command: str, text: str
) -> None:
    """Without its row type nothing can be read. Exit 4."""
    (prices / "_log.json").write_text(text, "utf-8")
    said = run(*words(command, prices, tmp_path))

    assert (4, True) == (said.code, "_log.json is no JSON" in said.err)


def test_copies_of_different_row_types_are_no_copies(run: Run, prices: Path, tmp_path: Path) -> None:
    """Another schema, another log. Exit 2."""
    other = RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "long"}]})
    DirectoryLog(tmp_path / "other", other, create=True)
    said = run("verify", f"prices={prices}", f"prices={tmp_path / 'other'}")

    assert (2, True) == (said.code, "different row types" in said.err)


@pytest.mark.parametrize("command", ["inspect", "replay", "as-of"])
def test_an_output_that_cannot_be_written_is_said(run: Run, prices: Path, tmp_path: Path, command: str) -> None:
    """Exit 4, with the name."""
    said = run(command, prices, "--output", tmp_path / "none" / "out")

    assert (4, "", True) == (said.code, said.out, f"{tmp_path}/none/out cannot be written" in said.err)


def test_a_target_below_a_file_cannot_be_made(run: Run, prices: Path, captured: Path, tmp_path: Path) -> None:
    """Neither a copy nor the logs of a capture. Exit 4."""
    (tmp_path / "file").write_bytes(b"")
    copied = run("mangle", prices, tmp_path / "file" / "copy")
    caught = run("capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows",
                 "--into", tmp_path / "file" / "logs")  # fmt: skip

    assert (4, 4) == (copied.code, caught.code)
    assert f"{tmp_path}/file" in copied.err and f"{tmp_path}/file" in caught.err


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "cannot be read"), ("{", "is no JSON"), ("[" * 200_000, "is no JSON"),
     ('"long"', "a row type is an Avro record schema")],
)
def test_a_row_schema_that_is_none_is_wrong_usage(run: Run, tmp_path: Path, content: str | None, what: str) -> None:
    """Exit 2: the log is not at fault."""
    schema = tmp_path / "row.avsc"
    if content is not None:
        schema.write_text(content, "utf-8")
    said = run("verify", "kafka:x", "--bootstrap", "127.0.0.1:1", "--row", schema)

    assert (2, True) == (said.code, what in said.err)


@pytest.fixture
def closed_port() -> int:
    """A port on which no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize("command", [*READERS, "capture"])
def test_a_broker_that_is_down_is_said_after_a_bounded_wait(
    run: Run, captured: Path, tmp_path: Path, closed_port: int, command: str
) -> None:
    """Exit 4, with its address; nothing is written meanwhile."""
    pytest.importorskip("confluent_kafka")
    row = captured / "rows" / "public.orders.avsc"
    broker = ["--bootstrap", f"127.0.0.1:{closed_port}", "--patience", 1]
    into = tmp_path / "logs"
    call = [*words(command, "kafka:orders", tmp_path), "--row", row]
    if command == "capture":
        call = ["capture", "kafka", "--prefix", "p", "--rows", captured / "rows", "--into", into]
    said = run(*call, *broker)

    # While it waits it may report once that it does.
    assert (4, "", True) == (said.code, said.out, said.err.count("\n") <= 2)
    assert f"127.0.0.1:{closed_port}" in said.err.splitlines()[-1]
    assert (False, False) == (into.exists(), (tmp_path / "copy").exists())


@pytest.mark.parametrize("words", [["--patience", "0"], ["--times", "many"], []])
def test_kafka_wants_right_arguments(run: Run, captured: Path, words: list[str]) -> None:
    """Exit 2, with the argument."""
    row = captured / "rows" / "public.orders.avsc"
    said = run("verify", "kafka:x", "--row", row, *(["--bootstrap", "127.0.0.1:1", *words] if words else []))

    assert (2, True) == (said.code, (words or ["--bootstrap"])[0] in said.err)


def test_a_topic_without_a_row_type_is_wrong_usage(run: Run, captured: Path) -> None:
    """Kafka does not know what is in it; a directory of row types serves many tables."""
    nothing = run("verify", "kafka:x", "--bootstrap", "127.0.0.1:1")
    missing = run("verify", "kafka:x", "--bootstrap", "127.0.0.1:1", "--rows", captured / "rows")

    assert (2, True) == (nothing.code, "the row type of x is not given" in nothing.err)
    assert (2, True) == (missing.code, "x.avsc" in missing.err)
