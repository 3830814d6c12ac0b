"""A log in the directory of another one of its capture is refused, wherever it is opened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdcv2.errors import ForeignStateError
from cdcv2.logs.capture_manifest import put_manifest
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.timeline_of_logs import describe_log_set
from cdcv2.rows.row_type import RowType

ROW = RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a capture of three tables writes."""
    put_manifest(tmp_path / "logs", {"tables": ["t", "u", "v"]})
    logs = {name: DirectoryLog(tmp_path / "logs" / name, ROW, create=True) for name in "tuv"}
    describe_log_set(logs, LogDescription(log_set="x"))
    return tmp_path / "logs"


def swap(folder: Path) -> None:
    """Have t and u change places."""
    (folder / "t").rename(folder / "x")
    (folder / "u").rename(folder / "t")
    (folder / "x").rename(folder / "u")


def test_logs_that_changed_places_are_refused(folder: Path) -> None:
    """Each with both names; what is in its own place is read, and both are again when they are back."""
    swap(folder)
    for name, held in (("t", "u"), ("u", "t")):
        with pytest.raises(ForeignStateError, match=f"holds the log of {held}, and not that of {name}"):
            DirectoryLog(folder / name)
        with pytest.raises(ForeignStateError, match="Give each of them its own name again"):
            DirectoryLog(folder / name, ROW, create=True)
    assert "v" == DirectoryLog(folder / "v").description().table
    swap(folder)
    assert ["t", "u"] == [DirectoryLog(folder / name).description().table for name in "tu"]


def test_a_copy_in_place_of_another_log_is_refused(folder: Path) -> None:
    """Elsewhere, and without the note, it is the log, whatever it is called."""
    shutil.rmtree(folder / "u")
    shutil.copytree(folder / "t", folder / "u")
    shutil.copytree(folder / "t", folder.parent / "copy")
    with pytest.raises(ForeignStateError, match="holds the log of t, and not that of u"):
        DirectoryLog(folder / "u")

    assert "t" == DirectoryLog(folder.parent / "copy").description().table


def test_a_copy_of_a_log_that_states_no_name_is_known_by_its_identity(folder: Path) -> None:
    """As those of earlier releases do not; in their own places they are read."""
    for name in "tuv":
        file = folder / name / "_log.json"
        plain = json.loads(file.read_text("utf-8"))
        del plain["table"], plain["digest"]
        file.write_text(json.dumps(plain), "utf-8")
    shutil.rmtree(folder / "v")
    assert [None, None] == [DirectoryLog(folder / name).description().table for name in "tu"]
    shutil.rmtree(folder / "u")
    shutil.copytree(folder / "t", folder / "u")
    for name in "tu":
        with pytest.raises(ForeignStateError, match="hold one and the same log"):
            DirectoryLog(folder / name)
