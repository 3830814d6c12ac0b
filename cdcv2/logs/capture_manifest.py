"""The manifest of a capture, beside its directory logs: how the capture started, for readers of the logs.

``_capture.json`` is put once and never changed. Later additions, tables or a looser ordering, are put beside it, each
as a file of its own, named by a digest of its content: so any number of captures may add at once, and nothing is lost.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cdcv2.core.json_text import parse_json
from cdcv2.errors import ForeignStateError, RefusedError, UnavailableError
from cdcv2.logs import log_json
from cdcv2.logs.description import ONE_OF_EACH, LogDescription
from cdcv2.store.file_system import is_there, matching
from cdcv2.store.put_if_absent import link, sync_folder, write_temporary
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER

#: The name of the note.
CAPTURE_FILE = "_capture.json"
#: The version of the format; any other is refused. Additions of before state none.
VERSION = 1
_ADDED = "_capture.{}.json"
#: What stands in a note, and must be a list of texts, or a text if it is stated at all.
_LISTS, _TEXTS = ("tables", "empty"), ("id", "timeline", "ordering", "snapshot_completeness")


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest in a directory, with its additions; empty if there is none.

    Raises RefusedError if it is damaged, as it names the logs that must be there, or of a later version;
    UnavailableError if it cannot be read.
    """
    plain = read_manifest(folder / CAPTURE_FILE)
    added = [read_manifest(path, named=True) for path in matching(folder, _ADDED.format("*"))] if plain else []
    if added:
        tables = {table for one in (plain, *added) for table in one.get("tables", ())}
        plain = {**plain, "tables": sorted(tables)}
        empty = {table for one in added for table in one.get("empty", ())}
        if empty:
            plain["empty"] = sorted(empty)
        if any(one.get("ordering") == AS_COMPLETE for one in added):
            plain["ordering"] = AS_COMPLETE
    return plain


def log_set_in(folder: Path | None) -> LogDescription:
    """What the manifest in a directory states of all logs there: a timeline, if it names one, and its ``id``.

    Without a directory, or a manifest, it is empty. Raises as :func:`manifest_of`.
    """
    return LogDescription() if folder is None else _log_set_of(manifest_of(folder))


def _log_set_of(note: Mapping[str, Any]) -> LogDescription:
    named = {name: str(note[name]) for name in ("timeline", "id") if note.get(name)}
    return LogDescription(timeline=named.get("timeline"), log_set=named.get("id"))


def described_by_manifest(folder: Path, log: str, own: LogDescription) -> LogDescription:
    """What one of the logs in a directory states, ``own``, with what the note there states of it, which it need not.

    The timeline of logs by commit times is the ``id`` of the note, if it names none. Raises as :func:`manifest_of`, and
    ForeignStateError where the note is of other logs, and names both.
    """
    note = manifest_of(folder)
    ordering = str(note.get("ordering", COMMIT_ORDER))
    if log not in note.get("tables", ()):
        return replace(LogDescription(ordering), **own.to_plain())
    named = _log_set_of(note)
    for attribute in ("log_set", "timeline"):
        mine, theirs = getattr(own, attribute), getattr(named, attribute)
        if None not in (mine, theirs) and mine != theirs:
            raise ForeignStateError(
                f"the log {folder / log} is none of the capture beside whose {CAPTURE_FILE} it lies: the log is of "
                f"{ONE_OF_EACH[attribute]} {mine}, and {folder / CAPTURE_FILE} of {theirs}. Somebody put it in the "
                "place of another log: bring that one back, and read this one in a directory of its own"
            )
    beside = replace(named, ordering=ordering, timeline=named.timeline or named.log_set)
    return replace(beside, **own.to_plain())


def add_to_manifest(folder: Path, plain: Mapping[str, Any]) -> None:
    """Add to the note that is there, durably: ``tables``, and an ``ordering``. Raises OSError."""
    text = json.dumps({"version": VERSION, **plain}, sort_keys=True, indent=2) + "\n"
    path = folder / _added_name(text.encode())
    temporary = write_temporary(folder, text.encode())
    # If it is there, its content is the same.
    link(temporary, path)
    temporary.unlink()
    sync_folder(folder)


def _added_name(raw: bytes) -> str:
    return _ADDED.format(hashlib.sha256(raw).hexdigest()[:32])


def read_manifest(path: Path, *, named: bool = False) -> dict[str, Any]:
    """What the file of a manifest states, or one of its additions, which are ``named`` by the digest of it.

    Empty if there is none. Raises RefusedError if it is damaged, or of a later version; UnavailableError if it cannot
    be read.
    """
    try:
        raw = path.read_bytes()
        plain = parse_json(raw)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnavailableError(
            f"{path} cannot be read: {error.strerror or error}; it states which logs there must be: make it readable, "
            "and start again"
        ) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(plain, dict):
        raise _damaged(path, json.dumps(plain)[:40])
    if named and path.name != _added_name(raw):
        raise _damaged(path, "it does not have the digest that its name has")
    _check_version(path, plain.get("version", VERSION))
    for name, value in plain.items():
        if not _fits(name, value):
            raise _damaged(path, f"{name} is {json.dumps(value)[:40]}")
    return plain


def _check_version(path: Path, version: Any) -> None:
    """Raise RefusedError unless the version is ours: before all else, as another version may have other values."""
    if type(version) is not int:
        raise _damaged(path, f"version is {json.dumps(version)[:40]}")
    if version != VERSION:
        raise RefusedError(
            f"{path} has version {version} of the format, and this program knows version {VERSION}: use the program "
            "that wrote it, or a newer one"
        )


def _fits(name: str, value: Any) -> bool:
    if name in _LISTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return name not in _TEXTS or value is None or isinstance(value, str)


def _damaged(path: Path, what: str) -> RefusedError:
    return RefusedError(
        f"{path} is not what a capture writes ({what}), and it states which logs there must be: restore it; or remove "
        "it, if you know that they are all there"
    )


def put_manifest(folder: Path, plain: Mapping[str, Any]) -> None:
    """Put a note there, durably, with a name for these logs (``id``), unless there is one. Raises OSError.

    Logs that are there keep the name that they state: a note that was removed may be put again. Raises what reading
    their descriptions raises.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CAPTURE_FILE
    if is_there(path):
        return
    there = (folder / table for table in plain.get("tables", ()) if is_there(folder / table / log_json.LOG_FILE))
    stated = (log_json.read(path).description.log_set for path in there)
    named = next(filter(None, stated), None) or uuid.uuid4().hex
    text = json.dumps({**plain, "id": named}, indent=2) + "\n"
    temporary = write_temporary(folder, text.encode())
    # Another capture may have started here in the meantime: then its manifest stands, and is compared as any other.
    link(temporary, path)
    temporary.unlink()
    sync_folder(folder)
