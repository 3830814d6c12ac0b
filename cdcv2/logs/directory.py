"""A log in a directory: ``_log.json`` describes it, and files with consecutive numbers hold it.

::

    orders/_log.json                      {"format": "cdcv2-log", "version": 1, "times": "int", "row": {...}}
    orders/00000000000000000000.avro      an Avro container of messages, each one a bytes value

A file is put if absent: written under a temporary name (which starts with a dot and is no part of the log), made
durable, then linked to the first free number. So a file is whole or not there, is never changed, and any number of
writers may add files at once; a crash leaves at most a temporary file, which does no harm. Numbers have no gaps: a
gap means that a file was removed, and is an error. The file system must have hard links. What ``_log.json`` states
beside rows and times is in :mod:`cdcv2.logs.description`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cdcv2 import failpoints
from cdcv2.errors import (
    DecodeError,
    ForeignStateError,
    OutputError,
    UnavailableError,
    UnsafeTopicError,
    UsageError,
)
from cdcv2.logs import log_json
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.capture_manifest import described_by_manifest
from cdcv2.logs.container import ForeignFile, Origin, pack, unpack
from cdcv2.logs.description import LogDescription, check_ordering
from cdcv2.logs.directory_name_check import check_place
from cdcv2.logs.log_names import local_directory
from cdcv2.logs.release_times import ReleaseTime, ReleaseTimes
from cdcv2.logs.stops import Stop, in_folder, put_in_folder
from cdcv2.protocol.log import Entry, Position, Positions
from cdcv2.protocol.messages import GarbledMessage, Message
from cdcv2.rows.altered_columns import demand_same_meaning
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times, check_times
from cdcv2.store.file_system import in_words, is_there, unreadable_part
from cdcv2.store.put_if_absent import link, sync_folder, write_temporary

BEFORE_LINK = failpoints.declare("files.before-link", "a file is durable under a temporary name, and not in the log")
AFTER_LINK = failpoints.declare(
    "files.after-link", "a file is in the log, perhaps not durably; its temporary name is there"
)

#: Seconds after which a reader that follows looks for files that were removed.
_LISTING = 1.0
_NAME = re.compile(r"([0-9]{20})\.avro\Z")


class DirectoryLog:
    """The log in the directory ``path``; both a source and a sink.

    Args:
        path: the directory.
        row_type: its row type; None: the one that an existing log states.
        create: make the log (and the directories above it) if it is not there.
        times: ``"int"`` or the number of coordinates of Product times; None: as the log states, else ``"int"``.
        description: what the log is to state of itself from now on, beside what it states already.
        file_bytes: messages are put into files of about this size, in bytes.
        idle_wait: how long, in seconds, a reader that follows waits before it looks again.

    Raises MissingLogError when there is no log, RefusedError for a directory that holds something else or a later
    version, ForeignStateError for a log of another row type, kind of times or description, and for one in the place of
    another log of its capture, OutputError when it cannot be made, UsageError for a URL, and for a log
    to create without a row type.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        row_type: RowType | None = None,
        *,
        create: bool = False,
        times: Times | None = None,
        description: LogDescription = LogDescription(),
        file_bytes: int = 8 << 20,
        idle_wait: float = 0.1,
    ) -> None:
        self.path = local_directory(path)
        if times is not None:
            check_times(times)
        check_ordering(description.ordering)
        if create and not is_there(self.path / log_json.LOG_FILE):
            self._create(row_type, times, description)
        self.row_type, self.times, self._stated = log_json.read(self.path)
        check_place(self.path, self._stated)
        _check_same(self.path, self.row_type, row_type, self.times, times)
        if description != LogDescription():
            self.describe(description)
        self._codec = MessageCodec(self.row_type, self.times)
        self._file_bytes = file_bytes
        #: How long, in seconds, a reader that follows waits before it looks again. 0: its caller does the waiting.
        self.idle_wait = idle_wait
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
                # Since it was opened, another capture may have started it in its own way, while it was empty.
                _check_same(self.path, log_json.read(self.path).row_type, self.row_type, self.times, None)
                self._free = self._end()
            self._free = self._put(self._free) + 1
        except OSError as cause:
            raise OutputError(f"the log {self.name} cannot be written: {in_words(cause)}") from cause
        self._sent, self._size = [], 0

    def close(self) -> None:
        """Forget what was sent and not flushed."""
        self._sent, self._size = [], 0

    def _create(self, row_type: RowType | None, times: Times | None, description: LogDescription) -> None:
        if row_type is None:
            raise UsageError(f"there is no log in {self.name}, and to create one its row type is needed")
        log_json.make(self.path, row_type, times or "int", description)

    def put_stop(self, stop: Stop) -> None:
        """Keep a stop beside the log. Raises OutputError."""
        put_in_folder(self.path, stop)

    def describe(self, description: LogDescription) -> None:
        """Have the log state all of this, durably. Raises ForeignStateError where it states something else."""
        self._stated = log_json.describe(self.path, description)

    def keep_release(self, release: ReleaseTime) -> None:
        """Keep it in the log's directory, durably. Raises OutputError."""
        ReleaseTimes(self.path).keep(release)

    def _put(self, free: int) -> int:
        """Put what was sent as a file under the first free number from ``free`` on, durably; the number."""
        while True:
            temporary = write_temporary(self.path, pack(self._sent, self._origin(free)))
            failpoints.reach(BEFORE_LINK)
            if link(temporary, self.path / file_name(free)):
                break
            temporary.unlink()
            free += 1
        failpoints.reach(AFTER_LINK)
        temporary.unlink()
        sync_folder(self.path)
        return free

    def _origin(self, number: int) -> Origin:
        return Origin(self._stated.identity, self._stated.timeline, number)

    # --- reading

    def stops(self) -> list[Stop]:
        """The stops that are kept beside the log. Raises RefusedError, UnavailableError."""
        return in_folder(self.path)

    def release_times(self) -> list[ReleaseTime]:
        """What is kept in the log's directory, and in the one that it is in. Raises RefusedError, UnavailableError."""
        folders = self.path, self.path.absolute().parent
        return sorted({release for folder in folders for release in ReleaseTimes(folder).read()})

    def description(self) -> LogDescription:
        """What the log states of itself now, or the note of its capture does beside it.

        Raises as opening does, and ForeignStateError where the note there is of other logs.
        """
        own = log_json.read(self.path).description
        folder = self.path.absolute()
        return described_by_manifest(folder.parent, folder.name, own)

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """The messages from file ``after[0]`` on; see :class:`~cdcv2.protocol.log.Source`.

        A file is read as a whole: to resume, give the number of the last file seen (its messages then come again),
        or one more when all of it was seen. A file that is no container of messages is one :class:`GarbledMessage`,
        with the messages that stand before the damage. Raises UnsafeTopicError when a requested file is missing.
        """
        start = (after or {}).get(0, 0)
        return self._read(start, self._end_beyond(start), follow)

    def ends(self) -> Positions:
        """The number of the next file, as the position of part 0."""
        return {0: self._end()}

    def _read(self, at: int, end: int, follow: bool) -> Iterator[Entry | None]:
        listed = time.monotonic()
        while True:
            for number in range(at, end):
                yield from self._messages(number)
            if not follow:
                return
            at = end
            # Numbers have no gaps, so one look shows whether there is more. What was removed, the whole list shows.
            if is_there(self.path / file_name(end)) or time.monotonic() >= listed + _LISTING:
                end, listed = self._end_beyond(end), time.monotonic()
            if at == end:
                yield None
                time.sleep(self.idle_wait)

    def _messages(self, number: int) -> Iterator[Entry]:
        try:
            raw = (self.path / file_name(number)).read_bytes()
        except FileNotFoundError:
            raise missing_file(self.name, number) from None
        except OSError as cause:
            raise unreadable_part(f"the log {self.name}", cause) from cause
        index = 0
        try:
            for value in unpack(raw, self._origin(number)):
                yield Entry(Position(self.name, 0, number, index), self._decoded(value))
                index += 1
        except ForeignFile as cause:
            raise UnsafeTopicError(
                f"the log {self.name} has not its own file {file_name(number)}: {cause.reason}. Files of logs were "
                "swapped or copied; bring its own back, or write the log again"
            ) from None
        except DecodeError as cause:
            yield Entry(Position(self.name, 0, number, index), GarbledMessage(raw, cause.reason))

    def _decoded(self, value: bytes) -> Message | GarbledMessage:
        try:
            return self._codec.decode(value)
        except DecodeError as cause:
            return GarbledMessage(value, cause.reason)

    def _end_beyond(self, start: int) -> int:
        names = self._names()
        end = _end_of(names)
        if start > end:
            raise UnsafeTopicError(
                f"the log {self.name} ends at file {end} and was read up to {start} before: it was made again, or "
                "files were removed. Read it from the start, with a fresh state"
            )
        # Files from there on are read, which shows one that lacks. Of those before it, only their names are asked for.
        if start and sum(name < file_name(start) for name in names) != start:
            for number in range(start):
                # One that came while the names were read may not have been among them.
                if not is_there(self.path / file_name(number)):
                    raise missing_file(self.name, number)
        return end

    def _end(self) -> int:
        """One more than the highest number that is there."""
        return _end_of(self._names())

    def _names(self) -> list[str]:
        """The names of the files that are there."""
        try:
            return [*filter(_NAME.match, os.listdir(self.path))]
        except FileNotFoundError:
            # It was there when it was opened: its name is right.
            raise UnavailableError(f"the log {self.name} is missing since it was opened: bring it back") from None
        except OSError as cause:
            raise unreadable_part(f"the log {self.name}", cause) from cause


def _check_same(path: Path, held: RowType, wanted: RowType | None, times: Times, wanted_times: Times | None) -> None:
    if wanted is not None and wanted != held:
        raise ForeignStateError(
            f"the log {path} holds rows of another type, with the columns {', '.join(held.columns)}, not the "
            f"{', '.join(wanted.columns)} that were given: a changed row type needs a log of its own"
        )
    if wanted is not None:
        demand_same_meaning(path, held, wanted)
    if wanted_times is not None and wanted_times != times:
        raise ForeignStateError(f"the log {path} has times of the kind {times!r}, not {wanted_times!r}")


def _end_of(names: Iterable[str]) -> int:
    # Names of equal length: the greatest is the highest number.
    last = max(names, default=None)
    return 0 if last is None else int(last[:20]) + 1


def file_name(number: int) -> str:
    """What the file with this number is called in the directory of a log."""
    return f"{number:020d}.avro"


def missing_file(log: str, number: int) -> UnsafeTopicError:
    """What is raised for a file that is not there, though later ones are."""
    return UnsafeTopicError(
        f"the log {log} has no file {file_name(number)}, though later ones are there: it was removed, "
        "and with it facts. Bring it back, or write the log again"
    )
