"""Files that may not be read, for tests that run as root, who may read all: the errors of the system are imitated."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def deny(monkeypatch: pytest.MonkeyPatch, denied: Path) -> None:
    """As with ``chmod 000``: of a directory neither its names nor anything in it, of a file its content."""
    denied = denied.absolute()
    is_folder = denied.is_dir()

    def refusing(call: Callable[..., Any], refused: Callable[[Path], bool]) -> Callable[..., Any]:
        def made(path: Any = ".", *more: Any, **named: Any) -> Any:
            if isinstance(path, str | os.PathLike) and refused(Path(path).absolute()):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
            return call(path, *more, **named)

        return made

    def within(path: Path) -> bool:
        return denied in path.parents

    def content(path: Path) -> bool:
        return path == denied if not is_folder else within(path)

    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name), lambda path: is_folder and within(path)))
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name), lambda path: path == denied or within(path)))
    for module in (io, builtins):
        monkeypatch.setattr(module, "open", refusing(module.open, content))
    monkeypatch.setattr(os, "open", refusing(os.open, content))
