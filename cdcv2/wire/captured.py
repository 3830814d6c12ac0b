"""The note that a capture leaves beside its directory logs: how it was begun, for those who judge the logs later."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdcv2.core.json_text import parse_json
from cdcv2.errors import RefusedError, UnavailableError
from cdcv2.wire.put_if_absent import link, sync_folder, write_temporary

#: The name of the note.
CAPTURE_FILE = "_capture.json"


def noted(folder: Path) -> dict[str, Any]:
    """The note in a directory; empty where there is none.

    Raises RefusedError where it is damaged, as it says which logs there must be; UnavailableError if it cannot be read.
    """
    path = folder / CAPTURE_FILE
    try:
        plain = parse_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(plain, dict):
        raise _damaged(path, json.dumps(plain)[:40])
    return plain


def _damaged(path: Path, what: str) -> RefusedError:
    return RefusedError(
        f"{path} is not what a capture writes ({what}), and it says which logs there must be: restore it; or remove "
        "it, if you know that they are all there"
    )


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
