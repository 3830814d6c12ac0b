"""The note that a capture leaves beside its directory logs: how it was begun, for those who judge the logs later."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdcv2.core.json_text import parse_json
from cdcv2.wire.put_if_absent import link, sync_folder, write_temporary

#: The name of the note.
CAPTURE_FILE = "_capture.json"


def noted(folder: Path) -> dict[str, Any]:
    """The note in a directory; empty where there is none that says anything."""
    try:
        plain = parse_json((folder / CAPTURE_FILE).read_bytes())
    except (OSError, ValueError):
        # No capture's directory, or one that another release wrote.
        return {}
    return plain if isinstance(plain, dict) else {}


def put_note(folder: Path, plain: Mapping[str, Any]) -> None:
    """Put a note there, durably, with a name for these logs (``id``), unless there is one. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CAPTURE_FILE
    if path.exists():
        return
    text = json.dumps({**plain, "id": uuid.uuid4().hex}, indent=2) + "\n"
    temporary = write_temporary(folder, text.encode())
    # Another one may have begun here by now: then its note stands, and is compared as any other is.
    link(temporary, path)
    temporary.unlink()
    sync_folder(folder)
