"""The folder of numbered files is made by the process that puts the first one; several may be first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cdcv2.errors import OutputError
from cdcv2.store.numbered import NumberedFiles


def test_two_may_make_the_folder_at_the_same_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second finds it there, and goes on."""
    make = os.mkdir

    def beaten(path: Path, mode: int = 0o777) -> None:
        make(path, mode)
        raise FileExistsError(17, "File exists", str(path))

    monkeypatch.setattr(os, "mkdir", beaten)
    numbered = NumberedFiles(tmp_path / "log", "the log")

    numbered.put(0, {"first": True})

    assert (0, {"first": True}) == numbered.last()


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    """It is nothing that one could write into."""
    (tmp_path / "log").write_text("a file")

    with pytest.raises(OutputError, match="the log in .* cannot be written"):
        NumberedFiles(tmp_path / "log", "the log").put(0, {})


def test_a_folder_that_went_away_is_not_made_anew(tmp_path: Path) -> None:
    """What is put into another one in its place would be lost when it is back."""
    numbered = NumberedFiles(tmp_path / "log", "the log")
    numbered.put(0, {"number": 0})
    (tmp_path / "log").rename(tmp_path / "kept")

    with pytest.raises(OutputError, match="the log in .* cannot be written"):
        numbered.put(1, {"number": 1})

    assert not (tmp_path / "log").exists()
    (tmp_path / "kept").rename(tmp_path / "log")
    numbered.put(1, {"number": 1})
    assert (1, {"number": 1}) == numbered.last()


def test_a_folder_that_goes_away_with_what_is_put_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Just behind the put: the caller cannot know that it counts."""
    numbered = NumberedFiles(tmp_path / "log", "the log")
    monkeypatch.setattr("cdcv2.store.numbered.durable", lambda path, **_: (tmp_path / "log").rename(tmp_path / "kept"))

    with pytest.raises(OutputError, match="the log in .* it is missing"):
        numbered.put(0, {"number": 0})
