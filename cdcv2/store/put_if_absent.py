"""Putting a file under a name unless the name is taken: whole or not at all, durable, and never in place of another.

The file is written under a temporary name, which starts with a dot, made durable, and linked to its own name. A crash
leaves at most the temporary one. The file system must have hard links; a rename would replace what is there.
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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
