"""The manifest beside the logs of a capture: the first one stands, if several start at the same moment."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from cdcv2.capture.run import manifest
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import ForeignStateError
from cdcv2.logs import capture_manifest
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
