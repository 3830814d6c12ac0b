"""The folder of numbered files: who makes it, and what is known of its values without reading them again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cdcv2.errors import ForeignStateError, OutputError, RefusedError
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


def test_what_was_put_is_read_without_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it is asked for, and each time as a value of its own."""
    numbered = NumberedFiles(tmp_path / "log", "the log")
    numbered.put(0, {"parts": ["a"], "pair": (1, 2)})
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))

    first, second = numbered.read(0), numbered.read(0)

    first["parts"].append("b")
    assert second == {"parts": ["a"], "pair": [1, 2]}
    assert numbered.last() == (0, {"parts": ["a"], "pair": [1, 2]})


def test_a_file_that_others_change_is_read_again(tmp_path: Path) -> None:
    """Also where it is as long as before: what was known of it is not believed any more."""
    numbered = NumberedFiles(tmp_path / "log", "the log")
    numbered.put(0, {"number": 1})
    assert numbered.read(0) == {"number": 1}
    (file,) = (tmp_path / "log").iterdir()
    text = file.read_text()
    file.unlink()
    file.write_text(text.replace('"number":1', '"number":2'))

    with pytest.raises(ForeignStateError, match="is damaged"):
        numbered.read(0)


def test_a_number_that_another_process_has_put_is_its_value(tmp_path: Path) -> None:
    """Not the one that was put last here."""
    ours, theirs = (NumberedFiles(tmp_path / "log", "the log") for _ in range(2))
    ours.put(0, {"of": "us"})
    theirs.put(1, {"of": "them"})

    assert ours.last() == (1, {"of": "them"})
    with pytest.raises(RefusedError, match="has written number 1"):
        ours.put(1, {"of": "us"})
    assert ours.last() == (1, {"of": "them"})
