"""Numbered files: a durable value with a history, changed by compare-and-swap.

A folder holds files with consecutive numbers; the value is the content of the file with the greatest number. The next
one is written under a temporary name, flushed to disk, and *put if absent* by a hard link: of two processes that put
the same number, one gets it and the other an error. (A rename would not do: it replaces.) Old numbers are removed
after a while, so one who comes very late could find his number free again; hence a put looks whether a greater
number is there, and has lost if so. Greatest numbers are never removed.

The process that has put number n knows that no one else can build on what came before n, and may remove what only that
used.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import DIGEST, RESTORE, with_digest, without_digest
from cdcv2.errors import ForeignStateError, OutputError, RefusedError, UsageError
from cdcv2.store.file_system import in_words

T = TypeVar("T")
#: what changes when a file becomes another one: its inode, when it was written, and how long it is
Stamp = tuple[int, int, int]
#: of a file's number in its name
_DIGITS = 20


def local_path(text: str | Path) -> Path:
    """The absolute path of a directory given as a path or a ``file:`` URI. Raises UsageError for other schemes.

    >>> local_path("file:///data/out")
    PosixPath('/data/out')
    """
    parts = urlsplit(str(text))
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme and "://" in str(text):
        raise UsageError(
            f"{text}: {parts.scheme}: is not supported: write a path of this machine, or of a file system that every "
            "machine mounts"
        )
    return Path(text).absolute()


def path_to_read(text: str | os.PathLike[str]) -> Path:
    """The path of what a user wrote, from the current directory, or from a ``file:`` URI; see :func:`local_path`.

    >>> path_to_read("rows/orders.avsc")
    PosixPath('rows/orders.avsc')
    """
    plain = os.fspath(text)
    return local_path(plain) if plain.startswith("file:") or "://" in plain else Path(text)


def durable(*files: Path, flushed: bool = False) -> None:
    """Return when the files, and their folders' entries for them, would survive a loss of power.

    ``flushed``: what is in the files would already.
    """
    for path in dict.fromkeys([*(() if flushed else files), *(file.parent for file in files)]):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class NumberedFiles:
    """The numbered files of one folder, which is made when the first one is put. One thread at a time.

    ``whose`` names the owner in errors: "the state", "the output".
    """

    def __init__(self, folder: Path, whose: str) -> None:
        self.folder, self._whose = folder, whose
        # Whether there was a number: a folder that is missing then is not made again.
        self._begun = False
        # The value that was put or read last: its number, the stamp of its file, and its text, which is not damaged.
        self._known: tuple[int, Stamp, str | bytes] | None = None

    def numbers(self) -> list[int]:
        """The numbers that are there, ascending.

        Raises OutputError where the folder cannot be read.
        """
        return sorted(map(int, self._digits()))

    def greatest(self) -> int:
        """The greatest number that is there, -1 for none. Raises what :meth:`numbers` raises."""
        # All have the same number of digits.
        return int(max(self._digits(), default="-1"))

    def _digits(self) -> list[str]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise OutputError(f"{self._whose} in {self.folder} cannot be read: {in_words(error)}") from error
        ours = [name[:_DIGITS] for name in names if name[_DIGITS:] == ".json"]
        found = [digits for digits in ours if digits.isdecimal()]
        self._begun |= bool(found)
        return found

    def read(self, number: int) -> dict[str, Any]:
        """The value with this number. Raises OutputError when it is not there, ForeignStateError when it is damaged.

        Cost: of the value that was put or read last, a stat, and no more reading.
        """
        stamp = self.stamp(number)
        if self._known is not None and self._known[:2] == (number, stamp):
            return _without_its_digest(parse_json(self._known[2]))
        path = self._path(number)
        try:
            text = path.read_bytes()
            plain = parse_json(text)
        except OSError as error:
            raise OutputError(f"{self._whose} cannot be read: {in_words(error)}") from error
        except ValueError as error:
            raise ForeignStateError(f"{path} is damaged ({error}): {RESTORE}") from error
        if not isinstance(plain, dict):
            raise ForeignStateError(f"{path} is damaged (no object): {RESTORE}")
        value = without_digest(plain, path)
        if stamp is not None:
            self._known = number, stamp, text
        return value

    def stamp(self, number: int) -> Stamp | None:
        """What changes when the file of a number becomes another one, as none is written in place; None: not there."""
        try:
            return _stamp(os.stat(self._place(number)))
        except OSError:
            return None

    def last(self) -> tuple[int, dict[str, Any] | None]:
        """The greatest number and its value, -1 and None where there is none yet. Raises what :meth:`read` raises."""
        return self.newest(self.read)

    def newest(self, read: Callable[[int], T]) -> tuple[int, T | None]:
        """The same, where ``read`` makes the value of a number, and raises OutputError when it is not there."""
        while True:
            number = self.greatest()
            if number < 0:
                return number, None
            try:
                return number, read(number)
            except OutputError:
                if self.greatest() == number:
                    raise
                # Others have put so many since that it is removed: read the next.

    def put(self, number: int, plain: dict[str, Any]) -> None:
        """Make ``plain`` the value, as ``number``; durable on return.

        Raises RefusedError when another process has put this number or a greater one, OutputError when nothing can
        be written, as in a folder that was there before and is missing now: no reader would find what is put into
        another one in its place. The value is then what it was.
        """
        place = self._place(number)
        temporary = f"{self.folder}/.{number:0{_DIGITS}d}.json.{uuid.uuid4().hex}"
        # Not dump: that goes through Python, value by value.
        text = json.dumps(with_digest(plain), separators=(",", ":"))
        try:
            if not self._begun:
                # Another process may make it at the same moment.
                self.folder.mkdir(parents=True, exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                stamp = _stamp(os.fstat(file.fileno()))
            try:
                os.link(temporary, place)
            finally:
                os.unlink(temporary)
            durable(self._path(number), flushed=True)
        except FileExistsError as error:
            if error.filename2 != place:
                raise self._unwritable(error) from error
            raise self._lost(number) from None
        except OSError as error:
            raise self._unwritable(error) from error
        greatest = self.greatest()
        if greatest < 0:
            raise self._unwritable(FileNotFoundError("it is missing, and what was put with it"))
        if greatest != number:
            self._path(number).unlink(missing_ok=True)
            raise self._lost(number)
        self._known = number, stamp, text

    def prune(self, first_kept: int) -> None:
        """Remove the numbers below ``first_kept``. The greatest one stays in any case."""
        for number in self.numbers()[:-1]:
            if number < first_kept:
                self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return Path(self._place(number))

    def _place(self, number: int) -> str:
        # As text: to join paths takes as long as to read a small file.
        return f"{self.folder}/{number:0{_DIGITS}d}.json"

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self._whose} in {self.folder} cannot be written: {in_words(error)}; make room or grant the rights, "
            "and start the job again"
        )

    def _lost(self, number: int) -> RefusedError:
        return RefusedError(
            f"another process works with {self._whose} in {self.folder} (it has written number {number} before us): "
            "stop one of the two; the other loses nothing by being started again"
        )


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_mtime_ns, found.st_size


def _without_its_digest(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name != DIGEST}
