"""Logs of two timelines are never read as one: every command that reads compares, and names both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdcv2.capture.run.timeline_manifest import write_timeline
from cdcv2.errors import ForeignStateError
from cdcv2.logs.capture_manifest import manifest_of, put_manifest
from cdcv2.logs.description import LogDescription, description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.timeline_of_logs import describe_log_set
from cdcv2.protocol.messages import Message, Progress, Updates
from tests.cli.conftest import APPLE, PEAR, PRICES, Run

X, Y, NONE = LogDescription(timeline="x"), LogDescription(timeline="y"), LogDescription()
ONE: list[Message] = [Updates([(APPLE, 100, 1), (PEAR, 200, 1)]), Progress([0], [300], {100: 1, 200: 1})]
OTHER: list[Message] = [Updates([(APPLE, 150, 1)]), Progress([0], [300], {150: 1})]
YAML = """
materialization: m
logs: {a: a, b: b}
bindings: [{log: a, target: a, key: [id]}, {log: b, target: b, key: [id]}]
target: {driver: lake, folder: lake}
recovery_log: recovery
"""


def logs(folder: Path, one: LogDescription, other: LogDescription) -> tuple[Path, Path]:
    """Two logs, a and b."""
    for name, description, messages in (("a", one, ONE), ("b", other, OTHER)):
        log = DirectoryLog(folder / name, PRICES, create=True, description=description)
        for message in messages:
            log.send(message)
        log.flush()
    return folder / "a", folder / "b"


def materialization(folder: Path, text: str = YAML) -> Path:
    """The file that keeps both."""
    (folder / "m.yaml").write_text(text, "utf-8")
    return folder / "m.yaml"


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_logs_of_two_timelines_are_refused_with_both_names(run: Run, tmp_path: Path, command: str) -> None:
    """Their times have nothing to do with each other; each alone is read."""
    a, b = logs(tmp_path, X, Y)
    said = run(command, a, b)

    assert (4, "") == (said.code, said.out)
    assert f"{a} is of the timeline x, and the log {b} of the timeline y" in said.err
    assert [0, 0] == [run(command, a).code, run(command, b).code]


def test_copies_of_a_log_are_of_one_timeline(run: Run, tmp_path: Path) -> None:
    """Also where they are given by the name of one table; a log beside them that is not read does not matter."""
    a, b = logs(tmp_path, X, Y)

    assert [4, 4] == [run(command, f"t={a}", f"t={b}").code for command in ("verify", "replay")]
    assert 0 == run("as-of", tmp_path, "--table", "a").code


def test_a_log_that_is_read_alone_is_of_the_timeline_that_is_named(run: Run, tmp_path: Path) -> None:
    """No reader gets rows of another one."""
    a, _ = logs(tmp_path, X, Y)
    right, wrong = (run("as-of", a, "--timeline", name) for name in "xy")

    assert (0, 4, "") == (right.code, wrong.code, wrong.out)
    assert "is of the timeline x, and not of y, which --timeline names" in wrong.err


@pytest.mark.parametrize("command", ["materialize", "compare"])
def test_a_materialization_of_two_timelines_is_refused(run: Run, tmp_path: Path, command: str) -> None:
    """Before anything is made."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    logs(tmp_path, X, Y)
    said = run(command, materialization(tmp_path))

    assert (4, True, False) == (said.code, "of the timeline x, and" in said.err, (tmp_path / "lake").exists()), said.err


def test_logs_that_state_none_are_read_together_where_the_user_names_their_timeline(run: Run, tmp_path: Path) -> None:
    """Alone they need no name; with a name, what they lack is taken to be it, and what they state must be."""
    a, b = logs(tmp_path, NONE, NONE)
    said = run("verify", a, b)

    assert (0, 0) == (run("verify", a).code, run("verify", a, b, "--timeline", "x").code)
    assert (2, True) == (said.code, f"{a} does not state of which timeline its times are" in said.err)
    assert said.err.endswith("with --timeline NAME\n")
    mixed = logs(tmp_path / "mixed", X, NONE)
    assert run("verify", *mixed).err.endswith("with --timeline x\n")
    assert [0, 4] == [run("verify", *mixed, "--timeline", name).code for name in "xy"]
    assert 4 == run("verify", mixed[0], "--timeline", "y").code


def test_a_materialization_names_the_timeline_in_its_file(run: Run, tmp_path: Path) -> None:
    """As --timeline does; the message has the line of the file."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    logs(tmp_path, NONE, NONE)
    said = run("materialize", materialization(tmp_path))
    named = run("materialize", materialization(tmp_path, YAML + "timeline: x\n"))

    assert (2, True, 0) == (said.code, "m.yaml, line 3: " in said.err, named.code), said.err + named.err
    assert said.err.endswith("name it, with timeline: NAME\n") and "--timeline" not in said.err
    assert 0 == run("compare", tmp_path / "m.yaml").code
    logs(tmp_path / "stating", Y, Y)
    other = run("materialize", materialization(tmp_path / "stating", YAML + "timeline: x\n"))
    assert 4 == other.code and "not of x, which timeline names: leave that out" in other.err, other.err


def test_a_view_goes_on_with_logs_of_its_own_timeline_only(run: Run, tmp_path: Path) -> None:
    """A recreated log may have the same name: its times are others."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    logs(tmp_path, X, X)
    assert 0 == run("materialize", materialization(tmp_path)).code
    for name in "ab":
        (tmp_path / name).rename(tmp_path / f"old-{name}")
    logs(tmp_path, Y, Y)
    said = run("materialize", tmp_path / "m.yaml")

    assert (4, True) == (said.code, "'m' is at [300] of the timeline x, and its logs are of y" in said.err), said.err


def test_older_logs_have_the_timeline_of_the_note_beside_them(run: Run, tmp_path: Path) -> None:
    """That of a remap by its name, that of commits by the note's id."""
    for folder, timeline in (("one", "x"), ("other", "y")):
        logs(tmp_path / folder, NONE, NONE)
        write_timeline(tmp_path / folder, timeline, ["a", "b"], ordering="commit")
    logs(tmp_path / "commits", NONE, NONE)
    put_manifest(tmp_path / "commits", {"tables": ["a", "b"]})
    identity = json.loads((tmp_path / "commits" / "_capture.json").read_text("utf-8"))["id"]

    assert [0, 0, 0] == [run("verify", tmp_path / folder).code for folder in ("one", "other", "commits")]
    assert 4 == run("verify", tmp_path / "one" / "a", tmp_path / "other" / "b").code
    assert f"of the timeline {identity}" in run("verify", tmp_path / "one" / "a", tmp_path / "commits" / "b").err


def test_the_logs_of_a_capture_by_commit_times_are_of_one_timeline(captured: Path) -> None:
    """That of the note, which was put if absent: so all captures of a log set state the same."""
    identity = manifest_of(captured / "logs")["id"]
    found = [description_of(DirectoryLog(path.parent)) for path in (captured / "logs").glob("*/_log.json")]

    assert {(identity, identity)} == {(one.timeline, one.log_set) for one in found} and len(found) > 1


def test_a_mangled_log_is_another_one_of_the_same_timeline(run: Run, tmp_path: Path) -> None:
    """Which the user may name for one that does not state it."""
    a, b = logs(tmp_path, X, NONE)
    run("mangle", a, tmp_path / "copy")
    run("mangle", b, tmp_path / "named", "--timeline", "x")
    here, copy, named = (description_of(DirectoryLog(path)) for path in (a, tmp_path / "copy", tmp_path / "named"))

    assert ("x", "x", "x") == (here.timeline, copy.timeline, named.timeline)
    assert here.identity != copy.identity
    assert 0 == run("verify", f"a={a}", f"a={tmp_path / 'copy'}", tmp_path / "named").code
    assert 4 == run("mangle", a, tmp_path / "other", "--timeline", "y").code


@pytest.mark.parametrize("stated", [X, LogDescription(timeline="x", log_set="0c")])
def test_a_log_in_the_place_of_another_is_refused(run: Run, tmp_path: Path, stated: LogDescription) -> None:
    """A reader, or a later writer, would have the rows of two sources in one table."""
    logs(tmp_path / "own", NONE, NONE)
    write_timeline(tmp_path / "own", "y" if stated.log_set is None else "x", ["a", "b"], ordering="commit")
    a, _ = logs(tmp_path / "foreign", stated, stated)
    shutil.rmtree(tmp_path / "own" / "a")
    shutil.copytree(a, tmp_path / "own" / "a")

    for command in ("verify", "replay", "as-of"):
        said = run(command, tmp_path / "own", *(["--table", "a"] if command == "as-of" else []))
        assert (4, "") == (said.code, said.out)
        assert f"the log {tmp_path / 'own' / 'a'} is none of the capture beside whose _capture.json it lies" in said.err
        assert str(tmp_path / "own" / "_capture.json") in said.err
    with pytest.raises(ForeignStateError, match="Somebody put it in the place of another log"):
        describe_log_set({"a": DirectoryLog(tmp_path / "own" / "a")}, NONE)


def test_a_note_that_was_lost_is_put_again_with_the_name_that_the_logs_state(captured: Path) -> None:
    """So the memory of the capture is still that of these logs."""
    note = captured / "logs" / "_capture.json"
    before = json.loads(note.read_text("utf-8"))
    note.unlink()
    put_manifest(captured / "logs", {name: value for name, value in before.items() if name != "id"})

    assert before == json.loads(note.read_text("utf-8"))
