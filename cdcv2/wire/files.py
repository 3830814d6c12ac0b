"""A log in a directory: ``_log.json`` says what it holds, and files with consecutive numbers hold it.

::

    orders/_log.json                      {"format": "cdcv2-log", "version": 1, "times": "int", "row": {...}}
    orders/00000000000000000000.avro      an Avro container of messages, each one a bytes value

A file is put if absent: written under a temporary name (which starts with a dot and is no part of the log), made
durable, then linked to the first free number. So a file is whole or not there, is never changed, and any number of
writers may add files at once; a crash leaves at most a temporary file, which harms nobody. Numbers have no gaps: a
gap means that a file was removed, and is an error. The file system must have hard links. ``_log.json`` may have a
``digest`` of what else it says, and one written here has it: another type of rows would give other rows. ``ordering``
is there in a log whose transactions are not in the order of their commits (:mod:`cdcv2.wire.ordering`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cdcv2 import steps
from cdcv2.core.json_text import parse_json
from cdcv2.errors import (
    DecodeError,
    ForeignStateError,
    MalformedError,
    MissingLogError,
    OutputError,
    RefusedError,
    UnavailableError,
    UnsafeTopicError,
    UsageError,
)
from cdcv2.protocol.log import Entry, Position, Positions
from cdcv2.protocol.messages import Garbled, Message
from cdcv2.wire.avro import MessageCodec
from cdcv2.reclock.temp import COMMIT_ORDER
from cdcv2.wire import ordering as marks
from cdcv2.wire.container import pack, unpack
from cdcv2.wire.put_if_absent import link, sync_folder, write_temporary
from cdcv2.wire.rows import RowType
from cdcv2.wire.times import Times, check_times

BEFORE_LINK = steps.declare("files.before-link", "a file is durable under a temporary name, and not in the log")
AFTER_LINK = steps.declare("files.after-link", "a file is in the log, perhaps not durably; its temporary name is there")

#: The version of the format; any other is refused.
VERSION = 1
_FORMAT = "cdcv2-log"
_DESCRIPTION = "_log.json"
_DIGEST = "digest"
_NAME = re.compile(r"([0-9]{20})\.avro\Z")


class DirectoryLog:
    """The log in the directory ``path``; both a source and a sink.

    Args:
        path: the directory.
        row_type: its row type; None: what the log says, for a log that is there.
        create: make the log (and the directories above it) if it is not there.
        times: ``"int"`` or the number of coordinates of Product times; None: what the log says, else ``"int"``.
        ordering: of the transactions that will be written; the log is marked with one that is not that of commits.
        file_bytes: messages are put into files of about this size, in bytes.
        idle_wait: how long, in seconds, a reader that follows waits before it looks again.

    Raises MissingLogError when there is no log, RefusedError for a directory that holds something else or a later
    version, ForeignStateError for a log of another row type or kind of times, OutputError when it cannot be made,
    UsageError for a URL, and for a log to create without a row type.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        row_type: RowType | None = None,
        *,
        create: bool = False,
        times: Times | None = None,
        ordering: str = COMMIT_ORDER,
        file_bytes: int = 8 << 20,
        idle_wait: float = 0.1,
    ) -> None:
        if "://" in os.fspath(path):
            raise UsageError(f"{os.fspath(path)!r} is a URL: put-if-absent is known here for local directories only")
        self.path = Path(path)
        if times is not None:
            check_times(times)
        if create and not (self.path / _DESCRIPTION).exists():
            self._create(row_type, times)
        self.row_type, self.times, marked = _described(self.path)
        _check_same(self.path, self.row_type, row_type, self.times, times)
        if marks.check_ordering(ordering) != COMMIT_ORDER and marked != ordering:
            self._mark(ordering)
        self._codec = MessageCodec(self.row_type, self.times)
        self._file_bytes, self._idle_wait = file_bytes, idle_wait
        self._sent: list[bytes] = []
        self._size = 0
        # No file with this number or a higher one was there when last looked; None: not looked yet.
        self._free: int | None = None

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    # --- writing

    def canonical(self, data: Any) -> Any:
        """The row of the log's type; see :class:`~cdcv2.protocol.log.Sink`. Raises MalformedError."""
        return self.row_type.row(data)

    def send(self, message: Message) -> None:
        """Take a message; a file is written whenever enough have come. Raises MalformedError, OutputError."""
        raw = self._codec.encode(message)
        self._sent.append(raw)
        self._size += len(raw)
        if self._size >= self._file_bytes:
            self.flush()

    def flush(self) -> None:
        """Return when everything sent is in the log and durable: files, their names and the directory.

        Raises OutputError when it may not be; what was sent is kept, so flushing again tries again.
        """
        if not self._sent:
            return
        try:
            if self._free is None:
                self._free = self._end()
            self._free = _put(self.path, pack(self._sent), self._free) + 1
        except OSError as cause:
            raise OutputError(f"the log {self.name} cannot be written: {cause}") from cause
        self._sent, self._size = [], 0

    def close(self) -> None:
        """Forget what was sent and not flushed."""
        self._sent, self._size = [], 0

    def _mark(self, ordering: str) -> None:
        try:
            said = parse_json((self.path / _DESCRIPTION).read_bytes())
            said = {name: value for name, value in said.items() if name != _DIGEST} | {marks.NAME: ordering}
            text = json.dumps({**said, _DIGEST: _digest(said)}, indent=2)
            # Whoever else marks it now writes the same.
            os.replace(write_temporary(self.path, text.encode()), self.path / _DESCRIPTION)
            sync_folder(self.path)
        except OSError as cause:
            raise OutputError(f"the log {self.name} cannot be marked with its ordering: {cause}") from cause

    def _create(self, row_type: RowType | None, times: Times | None) -> None:
        if row_type is None:
            raise UsageError(f"there is no log in {self.name}, and to create one its row type is needed")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            foreign = [entry.name for entry in self.path.iterdir() if not entry.name.startswith((".", "_"))]
            if foreign:
                raise RefusedError(
                    f"the directory {self.name} holds other things ({min(foreign)}): a log needs a directory of its own"
                )
            said = {"format": _FORMAT, "version": VERSION, "times": times or "int", "row": row_type.schema}
            text = json.dumps({**said, _DIGEST: _digest(said)}, indent=2)
            temporary = write_temporary(self.path, text.encode())
            # Another process may have made it by now; which of the two it is does not matter, if they agree.
            link(temporary, self.path / _DESCRIPTION)
            temporary.unlink()
            sync_folder(self.path)
            sync_folder(self.path.parent)
        except OSError as cause:
            raise OutputError(f"no log can be made in {self.name}: {cause}") from cause

    # --- reading

    def ordering(self) -> str:
        """In which order its transactions are, as the log tells now. Raises as opening does."""
        return _described(self.path)[2]

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """The messages from file ``after[0]`` on; see :class:`~cdcv2.protocol.log.Source`.

        A file is read as a whole: to resume, give the number of the last file seen (its messages then come again),
        or one more when all of it was seen. A file that is no container of messages is one :class:`Garbled`, with
        the messages that stand before the damage. Raises UnsafeTopicError when a file is gone that was asked for.
        """
        start = (after or {}).get(0, 0)
        return self._read(start, self._end_beyond(start), follow)

    def ends(self) -> Positions:
        """The number of the next file, as the position of part 0."""
        return {0: self._end()}

    def _read(self, at: int, end: int, follow: bool) -> Iterator[Entry | None]:
        while True:
            for number in range(at, end):
                yield from self._messages(number)
            if not follow:
                return
            at, end = end, self._end_beyond(end)
            if at == end:
                yield None
                time.sleep(self._idle_wait)

    def _messages(self, number: int) -> Iterator[Entry]:
        try:
            raw = (self.path / _file_name(number)).read_bytes()
        except FileNotFoundError:
            raise UnsafeTopicError(
                f"the log {self.name} has no file {_file_name(number)}, though later ones are there: it was removed, "
                "and with it facts. Bring it back, or write the log anew"
            ) from None
        except OSError as cause:
            raise UnavailableError(f"the log {self.name} cannot be read: {cause}") from cause
        index = 0
        try:
            for value in unpack(raw):
                yield Entry(Position(self.name, 0, number, index), self._decoded(value))
                index += 1
        except DecodeError as cause:
            yield Entry(Position(self.name, 0, number, index), Garbled(raw, cause.reason))

    def _decoded(self, value: bytes) -> Message | Garbled:
        try:
            return self._codec.decode(value)
        except DecodeError as cause:
            return Garbled(value, cause.reason)

    def _end_beyond(self, start: int) -> int:
        end = self._end()
        if start > end:
            raise UnsafeTopicError(
                f"the log {self.name} ends at file {end} and was read up to {start} before: it was made anew, or files "
                "were removed. Read it from the start, with a fresh state"
            )
        return end

    def _end(self) -> int:
        """One more than the highest number that is there."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            raise MissingLogError(f"the log {self.name} is gone") from None
        except OSError as cause:
            raise UnavailableError(f"the log {self.name} cannot be read: {cause}") from cause
        # Names of equal length: the greatest is the highest number.
        last = max(filter(_NAME.match, names), default=None)
        return 0 if last is None else int(last[:20]) + 1


def _described(path: Path) -> tuple[RowType, Times, str]:
    """What ``_log.json`` says: rows, times, ordering."""
    try:
        plain: Any = parse_json((path / _DESCRIPTION).read_text("utf-8"))
    except FileNotFoundError:
        there = f"the directory {path} holds no {_DESCRIPTION}" if path.is_dir() else f"there is no directory {path}"
        raise MissingLogError(f"{there}, so it is no log: is the path right, and has the writer started?") from None
    except NotADirectoryError:
        raise MissingLogError(f"{path} is no directory, so it is no log") from None
    except OSError as cause:
        raise UnavailableError(f"the log {path} cannot be read: {cause}") from cause
    except ValueError as cause:
        raise RefusedError(
            f"{path / _DESCRIPTION} is no JSON ({cause}): restore it, or name the directory of a log"
        ) from None
    if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
        raise RefusedError(f"{path / _DESCRIPTION} does not describe a log: name the directory of a log")
    if plain.get("version") != VERSION:
        raise RefusedError(
            f"the log {path} has version {plain.get('version')!r} of the format, and this program knows version "
            f"{VERSION}: read it with the program that wrote it, or a newer one"
        )
    if plain.get(_DIGEST, _digest(plain)) != _digest(plain):
        raise RefusedError(
            f"{path / _DESCRIPTION} is damaged (it was changed after it was written, and does not have the digest that "
            "it names): restore it"
        )
    try:
        return RowType(plain.get("row")), check_times(plain.get("times")), str(plain.get(marks.NAME, COMMIT_ORDER))
    except (MalformedError, UsageError) as cause:
        raise RefusedError(f"{path / _DESCRIPTION} is damaged ({cause}): restore it") from None


def _digest(said: Mapping[str, Any]) -> str:
    """The digest of what a description says beside it."""
    rest = {name: value for name, value in said.items() if name != _DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def _check_same(path: Path, held: RowType, wanted: RowType | None, times: Times, wanted_times: Times | None) -> None:
    if wanted is not None and wanted != held:
        raise ForeignStateError(
            f"the log {path} holds rows of another type, with the columns {', '.join(held.columns)}, not the "
            f"{', '.join(wanted.columns)} that were given: a changed row type needs a log of its own"
        )
    if wanted_times is not None and wanted_times != times:
        raise ForeignStateError(f"the log {path} has times of the kind {times!r}, not {wanted_times!r}")


def _put(path: Path, content: bytes, free: int) -> int:
    """Put a file under the first free number from ``free`` on, durably; the number."""
    temporary = write_temporary(path, content)
    steps.reach(BEFORE_LINK)
    while not link(temporary, path / _file_name(free)):
        free += 1
    steps.reach(AFTER_LINK)
    temporary.unlink()
    sync_folder(path)
    return free


def _file_name(number: int) -> str:
    return f"{number:020d}.avro"
