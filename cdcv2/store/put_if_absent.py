"""Putting a file under a name: whole or not at all, durable, and in place of another only where that is requested.

The file is written under a temporary name, which starts with a dot, made durable, and given its own name. A crash
leaves at most the temporary one. :func:`link` never takes the place of another file: the file system must have hard
links for it, as a rename would. :func:`replace_file` is that rename, for files that one process at a time writes.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_temporary(folder: Path, content: bytes) -> Path:
    """A durable file with this content, under a name that no reader opens. Raises OSError, and leaves nothing then."""
    temporary = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def link(temporary: Path, target: Path) -> bool:
    """Give the file its name unless that is taken; whether it was free. Raises OSError, and removes the file then."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return True


def replace_file(path: Path, content: bytes) -> None:
    """Have the file hold this content, durably; a crash leaves the old content or the new. Raises OSError."""
    os.replace(write_temporary(path.parent, content), path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
