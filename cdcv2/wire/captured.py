"""The note that a capture leaves beside its directory logs: how it was begun, for those who judge the logs later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: The name of the note.
CAPTURE_FILE = "_capture.json"


def noted(folder: Path) -> dict[str, Any]:
    """The note in a directory; empty where there is none that says anything."""
    try:
        plain = json.loads((folder / CAPTURE_FILE).read_bytes())
    except (OSError, ValueError):
        # No capture's directory, or one that another release wrote.
        return {}
    return plain if isinstance(plain, dict) else {}
