"""``_log.json``: what a directory log states of itself; see :mod:`cdcv2.logs.description`.

::

    {"format": "cdcv2-log", "version": 1, "times": "int", "row": {...}, "timeline": "7f...", "identity": "0c...",
     "digest": "..."}

It is put if absent. Attributes of the description may be added later; then the file is replaced as a whole, and every
process that adds one adds the same. ``digest`` is that of what else it states: another type of rows would give other
rows. A file without it is an older one, as is one without ``identity`` or ``table``.
"""

from __future__ import annotations

import fnmatch
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import reading, with_digest, without_digest
from cdcv2.errors import MissingLogError, OutputError, RefusedError
from cdcv2.logs.description import LogDescription
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.altered_columns import altered_text
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times, check_times
from cdcv2.store.file_system import in_words, is_there, names_in, unreadable_part
from cdcv2.store.put_if_absent import link, replace_file, sync_folder, write_temporary

#: The version of the format; any other is refused.
VERSION = 1
#: The name of the file: what makes a directory a log.
LOG_FILE = "_log.json"
_FORMAT = "cdcv2-log"
#: What the files of a log are called.
_FILES = "[0-9]" * 20 + ".avro"


class LogFile(NamedTuple):
    """What a file states: the type of the rows, the kind of the times, and the description."""

    row_type: RowType
    times: Times
    description: LogDescription


def make(path: Path, row_type: RowType, times: Times, description: LogDescription) -> None:
    """Make the directory a log, durably, unless it is one; one that names no ``identity`` gets one drawn for it.

    Raises RefusedError for a directory that holds other things, OutputError.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        demand_not_lost(path)
        foreign = [entry.name for entry in path.iterdir() if not entry.name.startswith((".", "_"))]
        if foreign and not is_there(path / LOG_FILE):
            raise RefusedError(
                f"the directory {path} holds other things ({min(foreign)}): a log needs a directory of its own. Name "
                "another one, or move them away"
            )
        own = replace(description, identity=description.identity or uuid.uuid4().hex)
        plain = {"format": _FORMAT, "version": VERSION, "times": times, "row": row_type.schema, **own.to_plain()}
        temporary = write_temporary(path, _text(plain))
        # Another process may have made it by now; which of the two it is does not matter, if they agree.
        link(temporary, path / LOG_FILE)
        temporary.unlink()
        sync_folder(path)
        sync_folder(path.parent)
    except OSError as cause:
        raise OutputError(f"no log can be made in {path}: {in_words(cause)}") from cause


def demand_not_lost(path: Path) -> None:
    """Raise RefusedError if a directory has the files of a log and not its description, which was put first.

    Cost: a look at the directory.
    """
    files = fnmatch.filter(names_in(path) or [], _FILES)
    if files and not is_there(path / LOG_FILE):
        raise RefusedError(
            f"the directory {path} has files of a log ({files[0]}), and its {LOG_FILE} is lost: restore that. If it "
            "cannot be had again: move the directory away, and have the log written again from the topics, or read a "
            "copy of it"
        )


def read(path: Path) -> LogFile:
    """What the file in a directory states.

    Raises MissingLogError without one, RefusedError for something else, a later version, or one that is damaged,
    UnavailableError when it cannot be read.
    """
    plain = _plain(path)
    with reading(path / LOG_FILE, "restore it"):
        return LogFile(RowType(plain.get("row")), check_times(plain.get("times")), LogDescription.from_plain(plain))


def describe(path: Path, description: LogDescription) -> LogDescription:
    """Have the log in a directory state all of this, durably; what it states then.

    Raises ForeignStateError where it states something else, OutputError, and what reading raises.
    """
    plain = _plain(path)
    with reading(path / LOG_FILE, "restore it"):
        stated = LogDescription.from_plain(plain)
    wanted = stated.joined(description, str(path))
    if wanted == stated:
        return stated
    try:
        # Another process that adds to it now adds the same.
        replace_file(path / LOG_FILE, _text({**plain, **wanted.to_plain()}))
    except OSError as cause:
        raise OutputError(f"the description of the log {path} cannot be written: {in_words(cause)}") from cause
    return wanted


def _text(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(with_digest(plain), indent=2).encode()


def _plain(path: Path) -> dict[str, Any]:
    file = path / LOG_FILE
    try:
        plain: Any = parse_json(file.read_text("utf-8"))
    except FileNotFoundError:
        demand_not_lost(path)
        there = f"the directory {path} holds no {LOG_FILE}" if is_there(path) else f"there is no directory {path}"
        raise MissingLogError(f"{there}, so it is no log: is the path right, and has the writer started?") from None
    except NotADirectoryError:
        raise MissingLogError(f"{path} is no directory, so it is no log") from None
    except OSError as cause:
        raise unreadable_part(f"the log {path}", cause) from cause
    except ValueError as cause:
        raise RefusedError(f"{file} is no JSON ({cause}): restore it, or name the directory of a log") from None
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
        raise RefusedError(f"{file} does not describe a log: restore it, or name the directory of a log")
    if plain.get("version") != VERSION:
        raise RefusedError(
            f"the log {path} has version {plain.get('version')!r} of the format, and this program knows version "
            f"{VERSION}: read it with the program that wrote it, or a newer one"
        )
    return without_digest(plain, file, "restore it")


def kept_types(logs: Iterable[tuple[Path, RowType]]) -> list[str]:
    """A line for each directory log, given with its row schema, that keeps another. Raises what reading it raises."""
    found = [altered_text(folder, read(folder).row_type, given) for folder, given in logs]
    return [text for text in found if text is not None]


def in_directories(logs: LogAddress, rows: Mapping[str, RowType]) -> list[tuple[Path, RowType]]:
    """The directory logs at an address, by their names, with their row schemas; topics keep none."""
    places = [(logs.of(name), row_type) for name, row_type in sorted(rows.items())]
    return [(Path(place.name), row_type) for place, row_type in places if not place.is_topic]
