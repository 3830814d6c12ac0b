"""What stands beside directory logs: their timeline, all tables that were ever captured, and the loosest ordering."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.capture.run.timeline_manifest import note_timeline
from cdcv2.errors import ForeignStateError, OutputError
from cdcv2.logs import captured
from cdcv2.logs.captured import CAPTURE_FILE, noted
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER


def test_a_note_stands_and_grows(tmp_path: Path) -> None:
    """Its name stays; tables are added; a cut that was none once does not become one."""
    note_timeline(tmp_path / "logs", "t1", ["b"], ordering=COMMIT_ORDER)
    first = noted(tmp_path / "logs")
    note_timeline(tmp_path / "logs", "t1", ["b"], ordering=COMMIT_ORDER)
    assert first == noted(tmp_path / "logs")
    note_timeline(tmp_path / "logs", "t1", ["a"], ordering=AS_COMPLETE)
    note_timeline(tmp_path / "logs", "t1", ["a", "b"], ordering=COMMIT_ORDER)

    assert {**first, "tables": ["a", "b"], "ordering": "complete"} == noted(tmp_path / "logs")
    assert all(path.name.startswith("_capture.") for path in (tmp_path / "logs").iterdir())


def test_two_that_add_tables_at_once_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One comes in between what the other has read and what it writes."""
    note_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)
    waiting, whole = [["c"]], captured.write_temporary

    def overtaken(folder: Path, content: bytes) -> Path:
        for tables in [waiting.pop()] if waiting else []:
            note_timeline(tmp_path, "t1", tables, ordering=AS_COMPLETE)
        return whole(folder, content)

    monkeypatch.setattr(captured, "write_temporary", overtaken)
    note_timeline(tmp_path, "t1", ["a", "b"], ordering=COMMIT_ORDER)

    assert (["a", "b", "c"], AS_COMPLETE) == (noted(tmp_path)["tables"], noted(tmp_path)["ordering"])


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    """Another timeline, another kind of capture, something else; and a place that cannot be written."""
    note_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)
    with pytest.raises(ForeignStateError, match="the logs of the timeline t1, not of t2"):
        note_timeline(tmp_path, "t2", ["a"], ordering=COMMIT_ORDER)
    for raw, said in (("{}", "of another capture"), ("[]", "not what a capture writes"), ("{", "is not what")):
        (tmp_path / CAPTURE_FILE).write_text(raw, "utf-8")
        with pytest.raises(ForeignStateError, match=said):
            note_timeline(tmp_path, "t1", ["a"], ordering=COMMIT_ORDER)
    with pytest.raises(OutputError, match="cannot be written"):
        note_timeline(tmp_path / CAPTURE_FILE / "logs", "t1", ["a"], ordering=COMMIT_ORDER)
