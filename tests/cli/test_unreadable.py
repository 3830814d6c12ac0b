"""A file without permission is exit code 4 with its path: no table is left out of a folder; there is no traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdcv2.errors import UnavailableError, UsageError
from cdcv2.logs import directory
from cdcv2.logs.capture_manifest import add_to_manifest, manifest_of, put_manifest
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import text_of
from tests.cli.conftest import HISTORY, Run, bound, write
from tests.denied import deny

FILE = (
    "materialization: prices\nlogs: logs\nbindings: [{log: one, target: now, key: [id]}]\n"
    "target: {driver: lake, folder: lake}\nrecovery_log: recovery\n"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two logs in a folder, as a capture leaves them, a file of a materialization, and a remap."""
    monkeypatch.chdir(tmp_path)
    for table in ("one", "two"):
        write(Path("logs") / table, *HISTORY)
    Path("m.yaml").write_text(FILE, "utf-8")
    bound(Path("remap"))


READERS = [
    ("verify", "logs"), ("verify", "logs/two"), ("replay", "logs"), ("replay", "logs/two"), ("inspect", "logs"),
    ("as-of", "logs", "--table", "one"), ("mangle", "logs", "copies"), ("materialize", "m.yaml"),
    ("compare", "logs", "--source", "env"), ("open-transactions", "logs/two"),
]  # fmt: skip


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("denied", ["logs/two", "logs", "logs/two/_log.json"])
def test_a_log_that_nobody_may_read_is_not_left_out(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], denied: str
) -> None:
    """Also where another table is asked for: a folder that hides one would pass for whole."""
    if words[1] == "logs/two" and denied == "logs":
        denied = "logs/two"
    deny(monkeypatch, Path(denied))
    if denied == "logs/two/_log.json" and words[0] == "materialize":
        # Its log is another one, and this one is a log.
        assert 0 == run(*words).code
        return
    said = run(*words)

    assert 4 == said.code, said
    assert denied in said.err and "Permission denied" in said.err and "Traceback" not in said.err
    assert "Errno" not in said.err


@pytest.mark.parametrize(
    ("denied", "words"),
    [("remap", ("where", "remap")), ("remap/00000000000000000001.json", ("where", "remap")),
     ("remap", ("inspect", "remap")), ("recovery", ("materialize", "m.yaml")), ("m.yaml", ("compare", "m.yaml")),
     ("logs/one/00000000000000000002.avro", ("replay", "logs/one")), ("logs/_capture.json", ("verify", "logs")),
     ("rows", ("capture", "dump.jsonl", "--prefix", "p", "--rows", "rows", "--into", "to")),
     ("rows", ("capture", "dump.jsonl", "--prefix", "p", "--rows", "rows", "--into", "to", "--remap", "new")),
     ("rows/p.t.avsc", ("capture", "dump.jsonl", "--prefix", "p", "--rows", "rows", "--into", "to")),
     ("rows/p.t.avsc", ("verify", "kafka:t", "--row", "rows/p.t.avsc", "--bootstrap", "127.0.0.1:1")),
     ("dump.jsonl", ("capture", "dump.jsonl", "--prefix", "p", "--rows", "rows", "--into", "to")),
     ("dump.jsonl", ("rows", "--from-envelope", "dump.jsonl", "--table", "p.t")),
     ("settings", ("where", "kafka:remap", "--kafka-config", "settings"))],
    ids=str,
)  # fmt: skip
def test_whatever_else_cannot_be_read_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, denied: str, words: tuple[str, ...]
) -> None:
    """Remaps, recovery logs, notes, row types, dumps, settings."""
    pytest.importorskip("yaml")
    pytest.importorskip("confluent_kafka")
    assert 0 == run("materialize", "m.yaml").code
    Path("rows").mkdir()
    Path("rows/p.t.avsc").write_text('{"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]}')
    Path("dump.jsonl").touch()
    Path("settings").touch()
    put_manifest(Path("logs"), {"version": 1, "tables": ["one", "two"]})
    deny(monkeypatch, Path(denied))
    said = run(*words)

    assert 4 == said.code, said
    assert denied in said.err and "Permission denied" in said.err and "Traceback" not in said.err


@pytest.mark.parametrize("more", [[], ["--remap", "new"]], ids=["commit times", "remap"])
def test_a_note_that_a_capture_cannot_read_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """And not the directory, which can be written."""
    Path("rows").mkdir()
    Path("rows/p.t.avsc").write_text('{"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]}')
    plain = {"topic": "x.transaction", "partition": 0, "offset": 0, "timestamp": 1, "key": None, "value": None}
    Path("dump.jsonl").write_text(json.dumps(plain) + "\n")
    capture = ("capture", "dump.jsonl", "--prefix", "x", "--rows", "rows", "--into", "to", "--snapshot", "none", *more)
    first = run(*capture)
    assert Path("to/_capture.json").exists(), first
    deny(monkeypatch, Path("to/_capture.json"))
    said = run(*capture)

    assert 4 == said.code, said
    assert "to/_capture.json cannot be read: Permission denied" in said.err and "written" not in said.err, said.err
    assert "give another" not in said.err


def test_what_was_added_to_a_note_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the note can be read, and the folder not be listed."""
    put_manifest(Path("logs"), {"version": 1, "tables": ["one"]})
    add_to_manifest(Path("logs"), {"tables": ["two"]})
    assert ["one", "two"] == manifest_of(Path("logs"))["tables"]

    def refuse(path: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.listdir", refuse)
    with pytest.raises(UnavailableError, match="logs cannot be read: Permission denied"):
        manifest_of(Path("logs"))


@pytest.mark.parametrize(
    ("looks", "text"), [(1, "logs/one is missing"), (2, "logs/one has no file 00000000000000000000.avro")]
)
def test_a_log_that_vanishes_while_it_is_read_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, looks: int, text: str
) -> None:
    """Whatever notices it first."""
    listed, left = directory.DirectoryLog._names, [looks]

    def then_gone(log: directory.DirectoryLog) -> list[str]:
        names, left[0] = listed(log), left[0] - 1
        if not left[0]:
            shutil.rmtree(log.path)
        return names

    monkeypatch.setattr(directory.DirectoryLog, "_names", then_gone)
    said = run("replay", "logs/one")

    assert (4, True) == (said.code, text in said.err), said


def test_an_error_of_the_file_system_that_nothing_expects_has_no_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the system's, with a path; one without a path is a mistake of the program."""
    def fail(*_: object, error: OSError) -> None:
        raise error

    for error, code in ((FileNotFoundError(2, "No such file", "/there/x"), 4), (OSError("odd"), 70)):
        monkeypatch.setattr("cdcv2.cli.verify.open_logs", lambda args, error=error: fail(error=error))
        said = run("verify", "logs")
        assert (code, code == 70) == (said.code, "Traceback" in said.err)
        assert code == 70 or "/there/x: No such file" in said.err


def test_a_file_that_is_not_there_is_wrong_usage_and_one_that_is_not_readable_is_not(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is wrong, or the rights are."""
    with pytest.raises(UsageError, match="the thing cannot be read: No such file or directory: 'nothing'"):
        text_of("nothing", "the thing")
    with pytest.raises(UsageError, match="Is a directory"):
        text_of("logs", "the thing")
    deny(monkeypatch, Path("m.yaml"))
    with pytest.raises(UnavailableError, match="m.yaml' cannot be read.*Permission denied"):
        RowType.load("m.yaml")
