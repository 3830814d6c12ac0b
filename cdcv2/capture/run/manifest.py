"""The manifest of a capture (``_capture.json``), beside its logs: how the capture started, for readers of the logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdcv2.capture.connector import FIRST_KIND, DatabaseConnector
from cdcv2.capture.run.empty_directory import clear_empty, has_facts
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.stream_state import StreamTopic
from cdcv2.errors import ForeignStateError, OutputError
from cdcv2.logs.capture_manifest import CAPTURE_FILE, VERSION, put_manifest, read_manifest
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import is_there


#: What a manifest need not state; its version is judged where it is read.
_LATER = ("version", "time_column", "diff_column")


def write_manifest(used: FolderInUse, recipe: DatabaseConnector) -> str | None:
    """Write the manifest of a capture into the folder of its logs, or check that the one there is the same.

    If another capture left files there and no fact, they are removed: only a fact makes the folder that of a capture.
    Returns and raises as :func:`put_or_compare`.
    """
    return put_or_compare(used, first_manifest(recipe), recipe.tables)


def first_manifest(recipe: DatabaseConnector) -> dict[str, Any]:
    """What the manifest states of a capture of a database when it begins."""
    # Without notifications, nothing states how many rows the snapshot has.
    assumed = recipe.snapshot == "initial" and not recipe.notification_topic
    return {
        "version": VERSION,
        "prefix": recipe.prefix,
        "tables": sorted(recipe.tables),
        "snapshot": recipe.snapshot,
        "snapshot_completeness": "assumed" if assumed else "known",
        # A missing key means what was once the only one.
        **({} if recipe.kind == FIRST_KIND else {"connector": recipe.kind}),
    }


def write_stream_manifest(used: FolderInUse, tables: Mapping[str, StreamTopic]) -> str | None:
    """The same of a capture of stream topics."""
    rows = {table: one.records.row_type for table, one in tables.items()}
    return put_or_compare(used, stream_manifest(tables), rows)


def stream_manifest(tables: Mapping[str, StreamTopic]) -> dict[str, Any]:
    """What the manifest states of a capture of stream topics; the columns of time and diff are the same for all."""
    time, diff = next(iter(tables.values())).records.names
    return {
        "version": VERSION, "stream": {table: one.topic for table, one in sorted(tables.items())},
        "tables": sorted(tables), "snapshot_completeness": "known", "time_column": time, "diff_column": diff,
    }


def demand_same_capture(into: Path, begun: Mapping[str, Any]) -> None:
    """Raise ForeignStateError where a directory holds facts of another capture. Nothing is written.

    Raises also as :func:`~cdcv2.logs.capture_manifest.read_manifest`.
    """
    path = into / CAPTURE_FILE
    if is_there(path) and has_facts(into):
        _demand_same(into, read_manifest(path), begun)


def put_or_compare(used: FolderInUse, begun: Mapping[str, Any], rows: Mapping[str, RowType]) -> str | None:
    """Put the manifest of a capture that begins, ``begun``, with logs of these rows; or compare it with what is there.

    Returns the name by which its memory knows the logs; None where none was given them. Raises ForeignStateError for
    the directory of another capture, OutputError where it cannot be written, and as
    :func:`~cdcv2.logs.capture_manifest.read_manifest`.
    """
    into = used.path
    path = into / CAPTURE_FILE
    clear_empty(used, begun, rows)
    try:
        put_manifest(into, begun)
    except OSError as error:
        raise OutputError(f"{into} cannot be written: {error.strerror or error}; give another --into") from error
    before = read_manifest(path)
    _demand_same(into, before, begun)
    return None if before.get("id") is None else str(before["id"])


def _demand_same(into: Path, before: Mapping[str, Any], begun: Mapping[str, Any]) -> None:
    changed = [
        name for name in dict.fromkeys([*begun, "connector"])
        if before.get(name) != begun.get(name) and (name in before or name not in _LATER)
    ]
    if "snapshot" in changed:
        # What is known of the snapshot follows from whether there is one.
        changed = [name for name in changed if name != "snapshot_completeness"]
    if changed:
        raise ForeignStateError(
            f"{into} holds another capture, {_shown(before, changed)}, and not {_shown(begun, changed)}: give "
            "another --into, or the same arguments as before"
        )


def _shown(plain: Mapping[str, Any], names: list[str]) -> str:
    return ", ".join(_in_words(name, plain.get(name)) for name in names)


def _in_words(name: str, value: Any) -> str:
    """A value of the manifest, by the options that it came from."""
    if name == "snapshot_completeness":
        return "with --notifications" if value == "known" else "without --notifications"
    if value is None:
        return f"without --{name}"
    if isinstance(value, dict):
        return " ".join(f"--{name} {table}={topic}" for table, topic in value.items())
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"with --{name.replace('_', '-')} {text}"
