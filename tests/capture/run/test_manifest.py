"""The manifest beside the logs of a capture: the first one stands, if several start at the same moment."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cdcv2.capture.run import manifest
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.stream_state import StreamTopic
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.stream import StreamRecords
from cdcv2.errors import ForeignStateError, RefusedError
from cdcv2.logs import capture_manifest
from cdcv2.logs.directory import DirectoryLog
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]})


def recipe(*tables: str) -> Recipe:
    """A capture of these tables."""
    return Recipe("src", {table: ROWS for table in tables})


def together(monkeypatch: pytest.MonkeyPatch, into: Path, recipes: list[Recipe]) -> list[object]:
    """What each of them gets, when none finds a note there before all have looked."""
    looked, ended = threading.Barrier(len(recipes)), threading.Barrier(len(recipes))
    is_there = capture_manifest.is_there

    def slow(path: Path) -> bool:
        found = is_there(path)
        looked.wait(timeout=60)
        return found

    got: list[object] = [None] * len(recipes)

    def begin(number: int) -> None:
        with FolderInUse(into) as used:
            try:
                got[number] = manifest.write_manifest(used, recipes[number])
            except ForeignStateError as error:
                got[number] = error
            ended.wait(timeout=60)

    with monkeypatch.context() as patched:
        patched.setattr(capture_manifest, "is_there", slow)
        threads = [threading.Thread(target=begin, args=(number,)) for number in range(len(recipes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return got


def test_captures_that_begin_together_name_the_logs_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And so does the next one; nothing else is left there."""
    names = together(monkeypatch, tmp_path / "logs", [recipe("public.t")] * 4)
    with FolderInUse(tmp_path / "logs") as used:
        after = manifest.write_manifest(used, recipe("public.t"))

    assert isinstance(after, str) and {after} == set(names)
    assert [manifest.CAPTURE_FILE] == [path.name for path in (tmp_path / "logs").iterdir()]


def test_of_two_other_captures_that_begin_together_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whichever noted first goes on."""
    got = together(monkeypatch, tmp_path / "logs", [recipe("public.t"), recipe("public.u")])
    refused = [error for error in got if isinstance(error, ForeignStateError)]
    plain = json.loads((tmp_path / "logs" / manifest.CAPTURE_FILE).read_bytes())

    assert [plain["id"]] == [name for name in got if isinstance(name, str)]
    assert 1 == len(refused) and "holds another capture" in str(refused[0])


def note(into: Path) -> dict[str, Any]:
    """The manifest that is there, without the name of the logs, which is drawn."""
    plain: dict[str, Any] = json.loads((into / manifest.CAPTURE_FILE).read_bytes())
    assert plain.pop("id")
    return plain


def begin(into: Path, wanted: Recipe) -> str | None:
    """A capture begins there."""
    with FolderInUse(into) as used:
        return manifest.write_manifest(used, wanted)


def written(into: Path) -> None:
    """A fact is in the log of public.t."""
    (into / "public.t").mkdir(parents=True)
    (into / "public.t" / "0.avro").write_bytes(b"")


@pytest.mark.parametrize(
    ("options", "snapshot", "completeness"),
    [
        ({}, "initial", "assumed"), ({"notification_topic": "n"}, "initial", "known"),
        ({"snapshot": "none"}, "none", "known"),
    ],
)  # fmt: skip
def test_what_the_manifest_states(tmp_path: Path, options: dict[str, Any], snapshot: str, completeness: str) -> None:
    """Whether the snapshot is known to be whole: without notifications it is not, if there is one."""
    begin(tmp_path, replace(recipe("public.u", "public.t"), **options))

    assert {
        "version": 1, "prefix": "src", "tables": ["public.t", "public.u"], "snapshot": snapshot,
        "snapshot_completeness": completeness,
    } == note(tmp_path)  # fmt: skip


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (Recipe("old", {"public.t": ROWS}), "with --prefix src, and not with --prefix old: give another"),
        (recipe("public.t", "public.u"), "with --tables public.t, and not with --tables public.t,public.u: give"),
        (replace(recipe("public.t"), notification_topic="n"), "without --notifications, and not with --notif"),
        # What is known of the snapshot follows from whether there is one.
        (replace(recipe("public.t"), snapshot="none"), "with --snapshot initial, and not with --snapshot none: give"),
        (replace(recipe("public.t"), prefix="old", snapshot="none"),
         "with --prefix src, with --snapshot initial, and not with --prefix old, with --snapshot none: give"),
    ],
)  # fmt: skip
def test_another_capture_is_named_by_its_options(tmp_path: Path, other: Recipe, text: str) -> None:
    """Those of both that differ."""
    begin(tmp_path, recipe("public.t"))
    written(tmp_path)
    with pytest.raises(ForeignStateError, match=re.escape(text)):
        begin(tmp_path, other)


@dataclass(frozen=True)
class OtherRecipe(Recipe):
    """That of a connector of another kind, which differs from the first one in nothing else."""

    kind: ClassVar[str] = "another"


@pytest.mark.parametrize("turned", [False, True])
def test_the_kind_of_the_connector_is_stated_unless_it_is_the_first(tmp_path: Path, turned: bool) -> None:
    """A folder of one kind is not continued by the other, whichever was there before."""
    kinds = [recipe("public.t"), OtherRecipe("src", {"public.t": ROWS})]
    before, after = kinds[::-1] if turned else kinds
    begin(tmp_path, before)
    written(tmp_path)

    assert ("another" if turned else None) == note(tmp_path).get("connector")
    assert begin(tmp_path, before)
    text = "with --connector another, and not without --conn" if turned else "without --connector, and not with --conn"
    with pytest.raises(ForeignStateError, match=f"holds another capture, {text}"):
        begin(tmp_path, after)


STREAM = StreamTopic("changes", StreamRecords(ROWS))


def stream(into: Path, tables: dict[str, StreamTopic]) -> str | None:
    """A capture of streams begins there."""
    with FolderInUse(into) as used:
        return manifest.write_stream_manifest(used, tables)


def test_the_manifest_of_streams(tmp_path: Path) -> None:
    """Their topics, and the columns of time and diff."""
    own = StreamRecords(ROWS, time="at", diff="n")
    name = stream(tmp_path, {"u": StreamTopic("b", own), "t": StreamTopic("a", own)})

    assert {
        "version": 1, "stream": {"t": "a", "u": "b"}, "tables": ["t", "u"], "snapshot_completeness": "known",
        "time_column": "at", "diff_column": "n",
    } == note(tmp_path)  # fmt: skip
    assert ["t", "u"] == [*json.loads((tmp_path / manifest.CAPTURE_FILE).read_bytes())["stream"]]
    assert name == stream(tmp_path, {"t": StreamTopic("a", own), "u": StreamTopic("b", own)})


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"public.t": STREAM._replace(topic="x"), "u": STREAM},
         "with --tables public.t, --stream public.t=x --stream u=changes"),
        ({"public.t": StreamTopic("changes", StreamRecords(ROWS, time="at"))}, "not with --time-column at: give"),
    ],
)  # fmt: skip
def test_other_streams_are_named_by_their_options(tmp_path: Path, tables: dict[str, StreamTopic], text: str) -> None:
    """As they are given."""
    stream(tmp_path, {"public.t": STREAM})
    written(tmp_path)
    with pytest.raises(ForeignStateError) as caught:
        stream(tmp_path, tables)

    assert text.split(", ")[-1] in str(caught.value)


def rewritten(into: Path, **changes: Any) -> None:
    """Other values in the manifest that is there; None: missing."""
    plain = json.loads((into / manifest.CAPTURE_FILE).read_bytes()) | changes
    stated = {name: value for name, value in plain.items() if value is not None}
    (into / manifest.CAPTURE_FILE).write_text(json.dumps(stated))
    written(into)


def test_the_manifest_of_an_older_release(tmp_path: Path) -> None:
    """Had no name for its logs, and did not state the columns of a stream; other things that lack differ."""
    stream(tmp_path, {"public.t": STREAM})
    rewritten(tmp_path, id=None, time_column=None, diff_column=None)

    assert stream(tmp_path, {"public.t": STREAM}) is None
    with pytest.raises(ForeignStateError, match="without --prefix, without --snapshot, and not with --prefix"):
        begin(tmp_path, recipe("public.t"))


def test_the_manifest_of_a_later_release(tmp_path: Path) -> None:
    """Its form is not ours: another --into would leave the logs behind."""
    begin(tmp_path, recipe("public.t"))
    rewritten(tmp_path, version=2)
    with pytest.raises(RefusedError, match="has version 2 of the format, and this program knows version 1: use the pr"):
        begin(tmp_path, recipe("public.t"))


def test_what_a_first_start_left_is_removed(tmp_path: Path) -> None:
    """Logs of other rows too, while there is no fact."""
    begin(tmp_path, recipe("public.t"))
    DirectoryLog(tmp_path / "public.t", ROWS, create=True).close()
    other = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
    before = (tmp_path / manifest.CAPTURE_FILE).read_bytes()
    assert begin(tmp_path, recipe("public.t")) == json.loads(before)["id"]
    assert (tmp_path / "public.t" / "_log.json").exists()
    begin(tmp_path, replace(recipe("public.t"), tables={"public.t": other}))

    assert before != (tmp_path / manifest.CAPTURE_FILE).read_bytes()
    assert not (tmp_path / "public.t").exists()


def test_logs_of_streams_that_a_first_start_left(tmp_path: Path) -> None:
    """As those of a database."""
    name = stream(tmp_path, {"t": STREAM})
    DirectoryLog(tmp_path / "t", ROWS, create=True).close()

    assert name == stream(tmp_path, {"t": STREAM})
    assert (tmp_path / "t" / "_log.json").exists()


def test_a_directory_with_facts_of_another_capture_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """Named as it is called; one without a manifest, or without a fact, belongs to no capture yet."""
    into, mine, other = tmp_path / "logs", recipe("public.t"), recipe("public.u")
    manifest.demand_same_capture(into, manifest.first_manifest(mine))
    with FolderInUse(into) as used:
        manifest.write_manifest(used, mine)
    manifest.demand_same_capture(into, manifest.first_manifest(other))
    with FolderInUse(into) as used:
        manifest.write_manifest(used, mine)
    written(into)
    manifest.demand_same_capture(into, manifest.first_manifest(mine))
    before = sorted(path.name for path in into.rglob("*"))
    told = f"{re.escape(str(into))} holds another capture, with --tables public.t, and not with --tables public.u"
    with pytest.raises(ForeignStateError, match=told):
        manifest.demand_same_capture(into, manifest.first_manifest(other))
    with FolderInUse(into) as used, pytest.raises(ForeignStateError, match=told):
        manifest.write_manifest(used, other)

    assert before == sorted(path.name for path in into.rglob("*"))
    (into / manifest.CAPTURE_FILE).unlink()
    manifest.demand_same_capture(into, manifest.first_manifest(other))
