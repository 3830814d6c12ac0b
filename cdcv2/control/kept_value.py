"""A small value in a file of its own, as JSON with a version: replaced whole, and read by any later run."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

from cdcv2.core.json_text import parse_json
from cdcv2.errors import MalformedError, OutputError
from cdcv2.store.put_if_absent import replace_file

#: The version of these files.
VERSION = 1
Record = TypeVar("Record", bound=NamedTuple)


def keep(path: Path, plain: Mapping[str, Any]) -> None:
    """Have the file hold this value, durably. Raises OutputError."""
    try:
        replace_file(path, json.dumps({"version": VERSION, **plain}).encode())
    except OSError as error:
        remedy = "make room, or grant the rights"
        if error.errno == errno.EROFS:
            remedy = "its file system is read-only: see why, and mount it for writing (mount -o remount,rw)"
        raise OutputError(f"{path} cannot be written: {error.strerror or error}; {remedy}") from error


def kept(path: Path) -> dict[str, Any] | None:
    """The value that the file holds; None: there is no file. Raises MalformedError for anything else."""
    try:
        plain = parse_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise MalformedError(f"{path} cannot be read: {error}. Restore it, or remove it") from error
    if not isinstance(plain, dict) or plain.pop("version", None) != VERSION:
        raise MalformedError(
            f"{path} is not of version {VERSION}: a newer cdcv2 wrote it, or it was damaged. Use that one, or remove it"
        )
    return plain


def kept_record(path: Path, kind: type[Record]) -> Record | None:
    """The value as a named tuple of texts and numbers; None: there is no file. Raises MalformedError for others."""
    plain = kept(path)
    if plain is None:
        return None
    declared = {name: (int, float) if one is float else (one,) for name, one in get_type_hints(kind).items()}
    right = {name for name, value in plain.items() if type(value) in declared.get(name, ())}
    if wrong := sorted({*plain, *declared} - right):
        raise MalformedError(f"{path} has no {', '.join(wrong)} as it was written: restore it, or remove it")
    make: Callable[..., Record] = kind
    return make(**plain)
