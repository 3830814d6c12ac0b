"""What a log states of itself: in ``_log.json``, in headers, and by the note of its capture."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from cdcv2.errors import ForeignStateError, MalformedError, RefusedError
from cdcv2.logs.capture_manifest import add_to_manifest, manifest_of, put_manifest
from cdcv2.logs.description import PARTIAL, UNCOVERED, LogDescription, description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import AS_COMPLETE

ROW = RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "long"}]})
#: Of each attribute that a log has one of: it, and another.
VALUES = {field.name: (f"a {field.name}", "another") for field in fields(LogDescription)[1:]} | {"start": ("70", "90")}
WHOLE = LogDescription(AS_COMPLETE, **{name: value for name, (value, _) in VALUES.items()})


def test_every_attribute_is_carried_by_headers_and_by_json() -> None:
    """A further one is, too; but an identity and a name are in none, and what others state beside it is passed over."""
    others = (("ordering", b"random"), ("cdcv2-stop", b"1"), ("cdcv2-timeline", None))

    assert replace(WHOLE, identity=None, table=None) == LogDescription.from_headers((*WHOLE.headers(), *others))
    assert WHOLE == LogDescription.from_plain({**WHOLE.to_plain(), "format": "cdcv2-log"})
    assert ((), {}) == (LogDescription().headers(), LogDescription().to_plain())


@pytest.mark.parametrize("attribute", VALUES)
def test_a_log_has_one_timeline_log_set_identity_and_start(attribute: str) -> None:
    """What only one of two states is of both; two that differ are an error that names both."""
    value, another = VALUES[attribute]
    other = replace(LogDescription(), **{attribute: another})

    assert WHOLE == LogDescription().joined(WHOLE, "log") == WHOLE.joined(LogDescription(), "log")
    with pytest.raises(ForeignStateError, match=rf"the log orders is of .* {another}, and of .* {value}"):
        other.joined(WHOLE, "orders")


def test_where_a_log_begins_is_stated_when_its_table_is_covered() -> None:
    """That it was not covered before is forgotten then, in whatever order the two are stated."""
    before, begun = LogDescription(start=UNCOVERED), LogDescription(start="70")

    assert [begun] * 2 == [before.joined(begun, "log"), begun.joined(before, "log")]
    assert [before] * 2 == [before.joined(LogDescription(), "log"), LogDescription().joined(before, "log")]
    assert (False, 0, True, 70) == (before.covered, before.begins, begun.covered, begun.begins)
    partial = LogDescription(start=PARTIAL)
    assert [partial] * 2 == [before.joined(partial, "log"), partial.joined(before, "log")]
    assert [begun] * 2 == [partial.joined(begun, "log"), begun.joined(partial, "log")]
    assert (False, 0) == (partial.covered, partial.begins)
    for wrong in ("", "-1", "later"):
        with pytest.raises(MalformedError, match="the start '.*' of a log is no time"):
            LogDescription(start=wrong)


def test_a_directory_log_states_what_it_was_opened_with(tmp_path: Path) -> None:
    """It has an identity from the first moment, which stays; the rest may come later, and does not change."""
    log = DirectoryLog(tmp_path / "log", ROW, create=True)
    identity = log.description().identity
    opened = DirectoryLog(tmp_path / "log", ROW, create=True, description=LogDescription(timeline="x"))

    assert identity and LogDescription(timeline="x", identity=identity) == opened.description()
    assert identity != DirectoryLog(tmp_path / "other", ROW, create=True).description().identity
    with pytest.raises(ForeignStateError, match="of the timeline x, and of the timeline y"):
        DirectoryLog(tmp_path / "log", description=LogDescription(timeline="y"))
    assert opened.description() == description_of(DirectoryLog(tmp_path / "log"))


def test_a_description_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """It would be compared with others, and equal none."""
    DirectoryLog(tmp_path, ROW, create=True)
    plain = json.loads((tmp_path / "_log.json").read_text("utf-8"))
    del plain["digest"]
    (tmp_path / "_log.json").write_text(json.dumps({**plain, "timeline": 7}), "utf-8")
    with pytest.raises(RefusedError, match="timeline is 7, which is no text"):
        DirectoryLog(tmp_path)


def test_an_older_log_has_its_timeline_from_the_note_of_its_capture(tmp_path: Path) -> None:
    """By commit times that is the note's id; a log that the capture did not write has nothing from it."""
    for name in ("noted", "other"):
        DirectoryLog(tmp_path / name, ROW, create=True)
    put_manifest(tmp_path, {"tables": ["noted"]})
    identity = json.loads((tmp_path / "_capture.json").read_text("utf-8"))["id"]
    noted, other = (description_of(DirectoryLog(tmp_path / name)) for name in ("noted", "other"))

    assert ((identity, identity), (None, None)) == ((noted.timeline, noted.log_set), (other.timeline, other.log_set))


def test_the_timeline_that_a_note_names_is_that_of_its_logs(tmp_path: Path) -> None:
    """On a remap; a log that the note does not name has its own."""
    put_manifest(tmp_path, {"tables": ["a"], "timeline": "x"})
    DirectoryLog(tmp_path / "a", ROW, create=True)
    DirectoryLog(tmp_path / "b", ROW, create=True, description=LogDescription(timeline="y"))
    add_to_manifest(tmp_path, {"ordering": AS_COMPLETE})
    found = [description_of(DirectoryLog(tmp_path / name)) for name in "ab"]

    assert [("x", AS_COMPLETE), ("y", AS_COMPLETE)] == [(one.timeline, one.ordering) for one in found]


def test_a_log_that_cannot_state_anything_states_nothing() -> None:
    """As one in memory."""
    assert LogDescription() == description_of(MemoryLog())


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"tables": 5, "timeline": 7}', '{"tables": [5]}', '{"tables": null}', '{"timeline": 7}']
)
def test_a_note_that_is_not_what_a_capture_writes_is_damage(tmp_path: Path, text: str) -> None:
    """Wherever it is read, before anything is made of it."""
    (tmp_path / "_capture.json").write_text(text, "utf-8")
    with pytest.raises(RefusedError, match="_capture.json is not what a capture writes"):
        manifest_of(tmp_path)


def test_a_note_of_a_later_version_is_refused_wherever_it_is_read(tmp_path: Path) -> None:
    """Its form may mean something else; what a note of before states is read as ever."""
    put_manifest(tmp_path, {"version": 1, "tables": ["a"]})
    add_to_manifest(tmp_path, {"tables": ["b"]})
    assert ["a", "b"] == manifest_of(tmp_path)["tables"]
    for version, said in (("99", "has version 99 of the format, and this program knows version 1"),
                          ("true", "version is true"), ('"1"', 'version is "1"')):
        (tmp_path / "_capture.json").write_text(f'{{"version": {version}, "tables": 7}}', "utf-8")
        with pytest.raises(RefusedError, match=said):
            manifest_of(tmp_path)
    (tmp_path / "_capture.json").write_text('{"tables": ["a"]}', "utf-8")
    assert ["a", "b"] == manifest_of(tmp_path)["tables"]
    add_to_manifest(tmp_path, {"version": 2, "tables": ["c"]})
    with pytest.raises(RefusedError, match="has version 2 of the format"):
        manifest_of(tmp_path)


def test_an_addition_of_before_states_no_version(tmp_path: Path) -> None:
    """It is named by its digest, and read."""
    put_manifest(tmp_path, {"version": 1, "tables": ["a"]})
    raw = b'{\n  "tables": [\n    "b"\n  ]\n}\n'
    (tmp_path / f"_capture.{hashlib.sha256(raw).hexdigest()[:32]}.json").write_bytes(raw)

    assert ["a", "b"] == manifest_of(tmp_path)["tables"]
