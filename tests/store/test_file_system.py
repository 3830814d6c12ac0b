"""Looking at files: what may not be looked at is an error with its path, and never taken for what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.errors import UnavailableError
from cdcv2.store.file_system import is_there, matching, names_in
from tests.denied import deny


def test_what_nobody_may_look_at_is_not_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file in a folder that may not be searched, and the names in it; what is not there is that."""
    folder, file = tmp_path / "folder", tmp_path / "folder" / "file"
    folder.mkdir()
    file.touch()
    assert ([True, False, False], ["file"], None) == (
        [is_there(path) for path in (file, folder / "other", file / "within")], names_in(folder), names_in(file)
    )
    deny(monkeypatch, folder)
    for look, path in ((is_there, file), (names_in, folder), (lambda path: matching(path, "*"), folder)):
        with pytest.raises(UnavailableError, match=f"{path} cannot be read: Permission denied; grant the right to"):
            look(path)
