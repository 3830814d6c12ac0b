"""Where a command speaks: its result to standard output or a file, remarks to standard error."""

from __future__ import annotations

import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import IO

from cdcv2.errors import OutputError


#: How the line of a command begins.
_COMMAND = re.compile(r"\Acdcv2 [a-z-]+: ")
# Names of files that are open already, as /dev/stdout: a reader would not look at another in their place.
_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")


#: The part of a larger command that speaks in this thread.
_PART: ContextVar[str | None] = ContextVar("part", default=None)


@contextmanager
def part_of(name: str) -> Iterator[None]:
    """Within the block, what is printed in this thread begins with the name of a part, and not with its command."""
    token = _PART.set(name)
    try:
        yield
    finally:
        _PART.reset(token)


def _of_part(text: str, command: str = "") -> str:
    """The text as the part's, behind the ``command`` that runs it; as it is where no part speaks."""
    part = _PART.get()
    if part is None:
        return text
    return f"{command}{part}: {_COMMAND.sub('', text, count=1).removeprefix(f'{part}: ')}"


class ResultOutput:
    """The result of a command: lines to standard output, or to the file at ``path``, which is replaced.

    A context manager. The file is written beside, under a name that starts with a dot, and put in place at the end: one
    that was there stays as it was when the command fails. What is no regular file, as a pipe, is written as it is.

    Raises OutputError when the file cannot be written, or standard output is closed; a reader of standard output that
    went away is a BrokenPipeError, which ends the command quietly.
    """

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path is not None else None
        # What may be done where it cannot be written.
        self._other, self._elsewhere = ", or give --output", "give another --output"
        self._file: IO[str] | None = None
        # Where the file is written that will take the place of the one at the path.
        self._beside: Path | None = None

    @classmethod
    def standard(cls) -> ResultOutput:
        """That of a command without --output."""
        made = cls(None)
        made._other, made._elsewhere = "", "make room, or lead it elsewhere"
        return made

    def __enter__(self) -> ResultOutput:
        if self._path is None:
            if sys.stdout is None:
                raise OutputError("standard output is closed: open it, or lead it to /dev/null")
            return self
        try:
            self._file = self._opened(self._path)
        except OSError as error:
            raise self._failed(error) from error
        return self

    def _opened(self, path: Path) -> IO[str]:
        if not os.path.abspath(path).startswith(_OPEN_FILES) and (path.is_file() or not path.exists()):
            # Where the path is a link, the file that it leads to is replaced, and not the link.
            target = Path(os.path.realpath(path))
            beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
            try:
                file = open(beside, "x", encoding="utf-8", newline="")
            except PermissionError:
                if not target.exists():
                    raise
                # A file that may be written, in a folder that may not.
            else:
                self._beside = beside
                return file
        return open(path, "w", encoding="utf-8", newline="")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._file is not None:
                self._file.close()
                self._settle(done=kind is None)
            else:
                sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as cause:
            self._settle(done=False)
            raise self._failed(cause) from cause

    def _settle(self, *, done: bool) -> None:
        """Put in its place what was written beside, or remove it."""
        if self._beside is None or self._path is None:
            return
        if done:
            if self._path.exists():
                shutil.copymode(self._path, self._beside)
            os.replace(self._beside, os.path.realpath(self._path))
        else:
            self._beside.unlink(missing_ok=True)
        self._beside = None

    def line(self, text: str) -> None:
        """Write one line. Raises OutputError if the file, or the encoding of standard output, does not take it."""
        try:
            # In one piece: parts of a command print at once.
            print(f"{_of_part(text) if self._file is None else text}\n", end="", file=self._file or sys.stdout)
        except BrokenPipeError:
            raise
        except UnicodeEncodeError as error:
            raise OutputError(
                f"standard output takes {error.encoding} only, which has no {error.object[error.start]!a}: set "
                f"PYTHONIOENCODING=utf-8{self._other}"
            ) from error
        except OSError as error:
            raise self._failed(error) from error

    def flush(self) -> None:
        """Have a reader see what was written by now. Raises as writing does."""
        try:
            (self._file or sys.stdout).flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error) from error

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees the lines as they are written."""
        return self._file is None and sys.stdout is not None and sys.stdout.isatty()

    def _failed(self, error: OSError) -> OutputError:
        where = "standard output" if self._path is None else str(self._path)
        return OutputError(f"{where} cannot be written: {error.strerror or error}; {self._elsewhere}")


def remark(text: str) -> None:
    """Print a remark on the result to standard error; if that is closed, the result stands all the same."""
    try:
        print(f"{_of_part(text, 'cdcv2 run: ')}\n", end="", file=sys.stderr)
    except OSError:
        forget(sys.stderr)


def forget(stream: IO[str]) -> None:
    """Let what is left in a stream that cannot be written, and what is yet to come, go into nothing.

    Else the interpreter tries again at its end, and leaves with an exit code of its own.
    """
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        # The stream is no file here: there is nothing that could be flushed into it.
        return


def open_closed_streams() -> None:
    """Put /dev/null in the place of standard streams that are closed, else files opened next would be taken for them.

    Python's standard output stays none, so that a result with nowhere to go is an error; what goes to standard error
    is dropped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free: this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
