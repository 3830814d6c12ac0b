"""Where the events of a job go (:mod:`cdcv2.events`), and how they are read again: a file, or an open descriptor.

A FILE is appended to, a whole line at a write. A kill leaves at most one line that was broken off; the next run begins
a line of its own. :func:`read_events` passes over such a line, and refuses any other that is none.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
import select
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cdcv2.errors import DecodeError, MissingLogError, OutputError, UnavailableError, UsageError

LOGGER = logging.getLogger(__name__)
VERSION = 1
#: The option, where it is looked for before the other arguments are judged: wrong usage has an end, too.
OPTION = "--events"
#: Seconds to wait for the reader of a full pipe, for the last line.
_PATIENCE = 2.0
#: How every line begins, by which a file of events is known.
_BEGINS = b'{"version": '
_FAULT = "The file was damaged: remove it, or what is damaged in it; the jobs begin a new one"


class DescriptorStream:
    """An open file or pipe; ``begun``: its last line is broken off. ``owned``: it is closed at the end."""

    def __init__(self, number: int, *, owned: bool = False, begun: bool = False) -> None:
        self._number, self._owned, self._open = number, owned, True
        # What is out in part: nothing else may follow it before the rest does.
        self._rest = b"\n" if begun else b""
        self._failing = False
        self._ready = select.poll()
        self._ready.register(number, select.POLLOUT)
        regular = stat.S_ISREG(os.fstat(number).st_mode)
        # A pipe that is ready takes as much without waiting; a file takes any line in one piece.
        self._at_once = None if regular else select.PIPE_BUF

    def write(self, line: bytes, *, last: bool = False) -> None:
        """See :class:`~cdcv2.events.EventStream`. What a full pipe takes no part of is lost; the last one waits."""
        if not self._open:
            return
        try:
            self._flush(last)
            if not self._rest:
                self._rest = line
                self._flush(last)
        except BrokenPipeError:
            # The reader has left, and no other can come.
            self._open = False
        except OSError as error:
            if not self._failing:
                LOGGER.warning("events cannot be written: %s; the job runs on without them", error.strerror)
            self._failing = True
        else:
            self._failing = False
        if self._rest == line:
            self._rest = b""

    def _flush(self, last: bool) -> None:
        while self._rest and self._ready.poll(_PATIENCE * 1000 if last else 0):
            self._rest = self._rest[os.write(self._number, self._rest[:self._at_once]):]

    def close(self) -> None:
        """Close what was opened here."""
        if self._owned and self._open:
            os.close(self._number)
        self._open = False


def event_place(text: str) -> str:
    """What ``--events`` takes: a file, or ``fd:N``; for argparse. Raises ArgumentTypeError for anything else."""
    if not text or (text.startswith("fd:") and not text[3:].isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no place for events: name a file, or fd:N, one that is open")
    return text


def open_events(place: str) -> DescriptorStream:
    """The stream at a place that :func:`event_place` takes.

    Raises UsageError for a descriptor that is not open for writing, and for a file of other things; OutputError for one
    that cannot be written.
    """
    if place.startswith("fd:"):
        return _descriptor(place)
    try:
        number = os.open(place, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OutputError(f"{OPTION} {place} cannot be written: {error.strerror}; name another file") from error
    size = os.fstat(number).st_size
    if size and not os.pread(number, len(_BEGINS), 0).lstrip().startswith(_BEGINS[:size]):
        os.close(number)
        raise UsageError(f"{OPTION} {place}: this file has something else than events: name another, or a new one")
    return DescriptorStream(number, owned=True, begun=bool(size) and os.pread(number, 1, size - 1) != b"\n")


def _descriptor(place: str) -> DescriptorStream:
    number = int(place.removeprefix("fd:"))
    try:
        access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except (OSError, OverflowError):
        raise UsageError(
            f"{OPTION} {place}: this descriptor is not open here (spark-submit gives none on): name a file"
        ) from None
    if access == os.O_RDONLY:
        raise UsageError(f"{OPTION} {place}: this descriptor is open for reading only: name one for writing")
    return DescriptorStream(number)


def place_in(words: Sequence[str]) -> str | None:
    """Where events go by these arguments, which need not be right; None: nowhere.

    >>> place_in(["logs", "--events", "fd:3"]), place_in(["--events=a", "--json"]), place_in(["--", "--events", "a"])
    ('fd:3', 'a', None)
    """
    found = None
    own = list(words[:words.index("--")] if "--" in words else words)
    for number, word in enumerate(own):
        name, sign, value = word.partition("=")
        if name == OPTION:
            found = value if sign else next(iter(own[number + 1:number + 2]), None)
    return found


def parse_event(line: str | bytes, position: object = None) -> dict[str, Any]:
    """The event of a line. Raises DecodeError for what is none, or of a later version."""
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError):
        raise DecodeError("it is no JSON", position=position, fault=_FAULT, what="an event") from None
    if not isinstance(plain, dict) or plain.get("event") not in ("start", "progress", "end"):
        raise DecodeError("it has no kind of event", position=position, fault=_FAULT, what="an event")
    if plain.get("version") != VERSION:
        raise DecodeError(
            f"its version is {plain.get('version')!r}, and this release reads {VERSION}", position=position,
            fault="Read it with the release that wrote it, or a newer one", what="an event",
        )
    return plain


def read_events(path: str | Path, *, begins: int = 0, most: int | None = None) -> list[dict[str, Any]]:
    """The events in a file, in their order; a line that a kill has broken off is passed over.

    ``begins``: only those that stand from this byte on, where a line begins; ``most``: only those of which all is in so
    many bytes at the end. A line that is broken off is the last one, or stands before the start of a run. Raises
    DecodeError for any other that is none, MissingLogError without the file, and UnavailableError where it cannot be
    read.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            at = begins if most is None else max(begins, size - most)
            file.seek(at)
            raw = file.read()
    except FileNotFoundError:
        raise MissingLogError(f"there is no file {path}: no job was started with it, or its name is wrong") from None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}") from error
    if at > begins:
        # The rest of a line that begins before.
        raw = raw.partition(b"\n")[2]
    where = path if at == 0 else f"{path}, behind byte {at}"
    found: list[dict[str, Any]] = []
    torn: DecodeError | None = None
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line:
            continue
        try:
            event = parse_event(line, f"{where}, line {number}")
        except DecodeError as error:
            if torn is not None:
                raise torn from None
            torn = error
            continue
        if torn is not None and event["event"] != "start":
            raise torn
        torn = None
        found.append(event)
    if torn is not None and raw.endswith(b"\n"):
        raise torn
    return found
