"""What a capture that wrote nothing has left is removed by the next one, and only then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.run import empty_directory
from cdcv2.capture.run.empty_directory import clear_empty
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.memory_file import MEMORY_FILE
from cdcv2.errors import OutputError
from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.logs.directory import DirectoryLog
from cdcv2.rows.row_type import RowType

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
OTHER = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]})
BEGUN = {"prefix": "src", "snapshot": "initial", "snapshot_completeness": "known", "tables": ["t"]}


def left(folder: Path, begun: Any = None, **logs: RowType) -> None:
    """What another capture has described, with the logs by their names."""
    folder.mkdir(exist_ok=True)
    (folder / CAPTURE_FILE).write_text(json.dumps({**BEGUN, "id": "x", **(begun or {})}))
    for name, kind in logs.items():
        path = folder / "_temp" / name[5:] if name.startswith("temp_") else folder / name
        DirectoryLog(path, kind, create=True).close()


def cleared(folder: Path, begun: Any = None, **rows: RowType) -> bool:
    """Whether it is removed by one that has these rows."""
    with FolderInUse(folder) as used:
        return clear_empty(used, {**BEGUN, **(begun or {})}, rows or {"t": ROWS})


def names(folder: Path) -> list[str]:
    """All that is there."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_without_anything_stays(tmp_path: Path) -> None:
    """Nothing differs."""
    assert not cleared(tmp_path / "logs")


@pytest.mark.parametrize(
    ("begun", "rows"),
    [({"tables": ["t", "u"]}, {"t": ROWS}), ({}, {"t": OTHER}), ({}, {"u": ROWS}), ({"more": 7}, {"t": ROWS})],
)
def test_descriptions_of_another_capture_are_removed(tmp_path: Path, begun: Any, rows: dict[str, RowType]) -> None:
    """By what its note states, or by the rows of its logs; with all that it noted, and empty folders of logs."""
    left(tmp_path, t=ROWS, temp_src=ROWS)
    (tmp_path / "_capture.0123.json").write_text("{}")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("")
    (tmp_path / "t" / "keep").write_text("")
    (tmp_path / MEMORY_FILE).write_text('{"commits": {"through": 0}}')

    assert cleared(tmp_path, begun, **rows, **{"_temp/src": ROWS})
    assert ["_temp", "mine", "mine/note.txt", "t", "t/keep"] == [one for one in names(tmp_path) if "lock" not in one]


def test_descriptions_that_are_ours_stay(tmp_path: Path) -> None:
    """The logs of TEMP among them; and what a note states beside ours is no difference."""
    left(tmp_path, t=ROWS, temp_src=ROWS)
    before = names(tmp_path)

    assert not cleared(tmp_path, t=ROWS, u=ROWS, **{"_temp/src": ROWS})
    assert set(before) <= set(names(tmp_path))


def test_logs_without_a_note_are_judged_by_their_rows(tmp_path: Path) -> None:
    """As of a start that died before it noted anything."""
    DirectoryLog(tmp_path / "t", ROWS, create=True).close()
    assert not cleared(tmp_path)
    assert cleared(tmp_path, t=OTHER)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("fact", ["t/0.avro", "_temp/src/0.avro"])
def test_where_a_fact_is_nothing_is_removed(tmp_path: Path, fact: str) -> None:
    """In a log of a table, or in TEMP."""
    left(tmp_path, t=ROWS, temp_src=ROWS)
    (tmp_path / fact).write_bytes(b"")

    assert not cleared(tmp_path, {"prefix": "other"})
    assert (tmp_path / CAPTURE_FILE).exists()


@pytest.mark.parametrize("memory", ["{", "[]", '"x"', '{"released": 7}'])
def test_where_a_memory_may_have_had_a_fact_nothing_is_removed(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is missing now, or the memory cannot be read."""
    left(tmp_path, t=ROWS)
    (tmp_path / MEMORY_FILE).write_text(memory)
    if memory == '{"released": 7}':
        monkeypatch.setattr(empty_directory, "has_released", lambda plain: plain == {"released": 7})

    assert not cleared(tmp_path, {"prefix": "other"})
    monkeypatch.setattr(empty_directory, "has_released", lambda plain: False)
    assert cleared(tmp_path, {"prefix": "other"}) == (memory[0] in '["{' and memory != "{")


@pytest.mark.parametrize(
    ("note", "ours", "removed"),
    [
        ({}, {"snapshot_completeness": "assumed"}, False),
        ({"snapshot_completeness": "assumed"}, {}, True),
        ({"prefix": "other"}, {"snapshot_completeness": "assumed"}, True),
        ({"snapshot": "none"}, {"snapshot_completeness": "assumed"}, True),
        ({"snapshot_completeness": "assumed"}, {"snapshot_completeness": "assumed", "tables": []}, True),
        ({}, {"snapshot": "none"}, True),
        ({}, {"snapshot_completeness": "assumed", "tables": []}, False),
        ({}, {"tables": []}, True),
    ],
)
def test_one_that_leaves_out_the_notifications_removes_nothing(
    tmp_path: Path, note: Any, ours: Any, removed: bool
) -> None:
    """It does not see what may have stopped the first one; another database's is no matter of that."""
    left(tmp_path, note, t=ROWS)

    assert removed == cleared(tmp_path, ours)
    assert removed != (tmp_path / CAPTURE_FILE).exists()


@pytest.mark.parametrize(
    ("damage", "text"),
    [(CAPTURE_FILE, "{"), ("t/_log.json", "{"), (CAPTURE_FILE, "[]"), (CAPTURE_FILE, '{"version": 2}')],
)
def test_what_cannot_be_read_is_not_removed(tmp_path: Path, damage: str, text: str) -> None:
    """It may be of a later release."""
    left(tmp_path, t=ROWS)
    (tmp_path / damage).write_text(text)
    assert not cleared(tmp_path, t=OTHER)

    assert (tmp_path / "t" / "_log.json").exists()


def test_while_another_capture_runs_nothing_is_removed(tmp_path: Path) -> None:
    """It may just have made them."""
    left(tmp_path, t=ROWS)
    with FolderInUse(tmp_path):
        assert not cleared(tmp_path, {"prefix": "other"})
    assert cleared(tmp_path, {"prefix": "other"})


@pytest.mark.parametrize("what", ["fact", "ours"])
def test_what_came_before_it_was_alone_counts(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another capture has written a fact meanwhile, or described what we would."""
    left(tmp_path, {"prefix": "other"}, t=ROWS)
    alone = FolderInUse.alone

    def overtaken(used: FolderInUse) -> Any:
        if what == "fact":
            (tmp_path / "t" / "0.avro").write_bytes(b"")
        else:
            left(tmp_path)
        return alone(used)

    monkeypatch.setattr(FolderInUse, "alone", overtaken)

    assert not cleared(tmp_path)
    assert (tmp_path / CAPTURE_FILE).exists()


def test_what_cannot_be_removed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the folder and the reason."""
    left(tmp_path, t=ROWS)

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched, pytest.raises(
        OutputError, match=f"{tmp_path} holds the descriptions of .* cannot be removed: Permission denied"
    ):
        patched.setattr(Path, "unlink", refused)
        cleared(tmp_path, t=OTHER)
