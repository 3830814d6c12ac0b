"""Clears what a failed first start left in a folder: only a fact makes the folder that of a capture.

A capture makes the descriptions of its logs before it writes into them, so that captures that start at once agree. If
it then ends without a fact (a wrong row type, a forgotten option), the corrected capture finds descriptions that differ
from its own. It removes them, but only while no other capture runs there, which may have just made them.

A capture that leaves out the notifications corrects nothing: without them it does not see what may have stopped the
first one, as a snapshot that was begun twice. It removes nothing, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdcv2.capture.memory_format import has_released
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.memory_file import MEMORY_FILE
from cdcv2.core.json_text import parse_json
from cdcv2.errors import Cdcv2Error, OutputError
from cdcv2.logs import log_json
from cdcv2.logs.capture_manifest import CAPTURE_FILE, read_manifest
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import is_there, matching

#: Where the logs are, below the directory: beside each other, and those of TEMP in a folder of their own.
_LOGS = ("*", "_temp/*")
_FACTS = "*.avro"
_NOTES = (CAPTURE_FILE, "_capture.*.json")


def clear_empty(used: FolderInUse, begun: Mapping[str, Any], rows: Mapping[str, RowType]) -> bool:
    """Remove the descriptions of another capture that ended without a fact from a folder.

    ``begun`` is the part of our manifest that must be the same, ``rows`` our row types, by the folders of the logs.
    Returns whether they were removed. If there is a fact, or a state that had one, or another capture runs, or ours
    leaves out the notifications, nothing is touched. Raises OutputError if they cannot be removed. Cost: reads the
    descriptions; if they are of another capture, lists every folder.
    """
    folder = used.path
    if _is_same(folder, begun, rows) or has_facts(folder):
        return False
    with used.alone() as alone:
        # Another capture may have started in the meantime.
        if not alone or _is_same(folder, begun, rows) or has_facts(folder):
            return False
        _clear(folder)
    return True


def _clear(folder: Path) -> None:
    try:
        for log in _described(folder):
            (log / log_json.LOG_FILE).unlink()
            if not any(log.iterdir()):
                log.rmdir()
        for path in (folder / MEMORY_FILE, *(note for name in _NOTES for note in matching(folder, name))):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} holds the descriptions of a capture that wrote nothing, and they cannot be removed: "
            f"{error.strerror or error}"
        ) from error


def _is_same(folder: Path, begun: Mapping[str, Any], rows: Mapping[str, RowType]) -> bool:
    """Whether all descriptions that are there are those that we would make; also where none of them may be removed.

    So where one cannot be read, or ours leaves out the notifications.
    """
    try:
        note = read_manifest(folder / CAPTURE_FILE) if is_there(folder / CAPTURE_FILE) else begun
        if any(note.get(name) != value for name, value in begun.items()):
            return _leaves_out(note, begun)
        return all(
            log_json.read(log).row_type == rows.get(str(log.relative_to(folder))) for log in _described(folder)
        )
    except (OSError, ValueError, Cdcv2Error):
        return True


def _leaves_out(note: Mapping[str, Any], begun: Mapping[str, Any]) -> bool:
    """Whether ours is the capture that is there without its notifications."""
    wanted = {"snapshot": "initial", "snapshot_completeness": "known", "prefix": begun.get("prefix")}
    is_there = all(note.get(name) == value for name, value in wanted.items())
    return is_there and begun.get("snapshot") == "initial" and begun["snapshot_completeness"] != "known"


def has_facts(folder: Path) -> bool:
    """Whether a fact was written, or a state shows that one was, and it is missing now."""
    if any(matching(folder, f"{logs}/{_FACTS}") for logs in _LOGS):
        return True
    try:
        return has_released(parse_json((folder / MEMORY_FILE).read_bytes()))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return True


def _described(folder: Path) -> list[Path]:
    """The directory logs in it."""
    return sorted(path.parent for logs in _LOGS for path in matching(folder, f"{logs}/{log_json.LOG_FILE}"))
