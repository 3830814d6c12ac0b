"""What stands beside directory logs: their timeline, all tables that were ever captured, and the loosest ordering."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.capture.run.timeline_manifest import check_timeline, write_timeline
from cdcv2.errors import ForeignStateError, OutputError, RefusedError
from cdcv2.logs import capture_manifest
from cdcv2.logs.capture_manifest import CAPTURE_FILE, manifest_of
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER


def test_a_note_stands_and_grows(tmp_path: Path) -> None:
    """Its name stays; tables are added; a cut that was none once does not become one."""
    write_timeline(tmp_path / "logs", "t1", ["b"], ordering=COMMIT_ORDER)
    first = manifest_of(tmp_path / "logs")
    stated = {"version": 1, "timeline": "t1", "tables": ["b"], "snapshot_completeness": "known", "ordering": "commit"}
    assert stated == {name: value for name, value in first.items() if name != "id"}
    write_timeline(tmp_path / "logs", "t1", ["b"], ordering=COMMIT_ORDER)
    assert first == manifest_of(tmp_path / "logs")
    write_timeline(tmp_path / "logs", "t1", ["a"], ordering=AS_COMPLETE)
    write_timeline(tmp_path / "logs", "t1", ["a", "b"], ordering=COMMIT_ORDER)

    assert {**first, "tables": ["a", "b"], "ordering": "complete"} == manifest_of(tmp_path / "logs")
    assert all(path.name.startswith("_capture.") for path in (tmp_path / "logs").iterdir())


def test_two_that_add_tables_at_once_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One comes in between what the other has read and what it writes."""
    write_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)
    waiting, whole = [["c"]], capture_manifest.write_temporary

    def overtaken(folder: Path, content: bytes) -> Path:
        for tables in [waiting.pop()] if waiting else []:
            write_timeline(tmp_path, "t1", tables, ordering=AS_COMPLETE)
        return whole(folder, content)

    monkeypatch.setattr(capture_manifest, "write_temporary", overtaken)
    write_timeline(tmp_path, "t1", ["a", "b"], ordering=COMMIT_ORDER)

    assert (["a", "b", "c"], AS_COMPLETE) == (manifest_of(tmp_path)["tables"], manifest_of(tmp_path)["ordering"])


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    """Another timeline, another kind of capture, something else; and a place that cannot be written."""
    write_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)
    with pytest.raises(ForeignStateError, match="the logs of the timeline t1, not of t2"):
        write_timeline(tmp_path, "t2", ["a"], ordering=COMMIT_ORDER)
    for raw, said in (("{}", "of another capture"), ("[]", "not what a capture writes"), ("{", "is not what")):
        (tmp_path / CAPTURE_FILE).write_text(raw, "utf-8")
        with pytest.raises(RefusedError, match=said):
            write_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)
    with pytest.raises(OutputError, match="cannot be written"):
        write_timeline(tmp_path / CAPTURE_FILE / "logs", "t1", ["a"], ordering=COMMIT_ORDER)


def test_an_order_is_added_only_where_it_is_looser(tmp_path: Path) -> None:
    """What is there already adds no file."""
    write_timeline(tmp_path, "t1", ["a"], ordering=AS_COMPLETE)
    write_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)
    write_timeline(tmp_path, "t1", ["a"], ordering=AS_COMPLETE)
    assert [CAPTURE_FILE] == [path.name for path in tmp_path.iterdir()]
    (tmp_path / "sub").mkdir()
    write_timeline(tmp_path / "sub", "t1", ["a"], ordering=COMMIT_ORDER)
    write_timeline(tmp_path / "sub", "t1", ["a"], ordering=AS_COMPLETE)

    assert AS_COMPLETE == manifest_of(tmp_path / "sub")["ordering"]


def test_a_note_that_lacks_its_tables_gets_them(tmp_path: Path) -> None:
    """As one of an older release may."""
    (tmp_path / CAPTURE_FILE).write_text('{"timeline": "t1", "ordering": "commit", "id": "x"}', "utf-8")
    write_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)

    assert ["a"] == manifest_of(tmp_path)["tables"]


def test_logs_are_looked_at_before_anything_is_written(tmp_path: Path) -> None:
    """None may be there yet; those that are must be of this timeline."""
    check_timeline(tmp_path / "logs", "t1")
    write_timeline(tmp_path / "logs", "t1", ["a"], ordering=COMMIT_ORDER)
    check_timeline(tmp_path / "logs", "t1")
    with pytest.raises(ForeignStateError, match="logs of the timeline t1, not of t2"):
        check_timeline(tmp_path / "logs", "t2")
