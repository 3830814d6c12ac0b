"""What a supervised job printed: the file of its folder, and the one that was put aside before it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from cdcv2.control.job_folder import before_of
from cdcv2.errors import OutputError

#: So many bytes of a file are read at a time.
_BLOCK = 1 << 16


class JobOutput:
    """The lines in ``path``, behind those that were put aside. What is no UTF-8 is shown as replaced characters.

    Raises OutputError where a file is there that cannot be read.

    Cost of :meth:`last`: what it returns, and a block more. Memory: those lines.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The file that :meth:`following` goes on in, and the piece of a line that is not whole yet.
        self._file: IO[bytes] | None = None
        self._piece = b""

    def last(self, number: int) -> list[str]:
        """The last so many lines, those of the file that was put aside first; none where nothing was printed.

        A line that is not whole yet is one. :meth:`following` goes on behind them.
        """
        self.close()
        self._file = _opened(self._path)
        lines = deque[bytes](maxlen=number)
        if self._file is not None:
            lines.extend(_last_lines(self._file, number))
            self._file.seek(0, os.SEEK_END)
        aside = _opened(before_of(self._path)) if len(lines) < number else None
        if aside is not None:
            with aside:
                lines.extendleft(reversed(_last_lines(aside, number - len(lines))))
        return [_text(line) for line in lines]

    def following(self, pause: Callable[[], bool]) -> Iterator[str]:
        """Lines as they come, also of later runs of the job, until ``pause``, which waits a moment, returns True."""
        while True:
            yield from self._come()
            if pause():
                return

    def _come(self) -> Iterator[str]:
        """The lines that have come since, and, where the file was put aside, those of the new one."""
        if self._file is not None:
            while block := self._file.read(_BLOCK):
                *lines, self._piece = (self._piece + block).split(b"\n")
                yield from map(_text, lines)
        if self._file is None or not _same(self._file, self._path):
            new = _opened(self._path)
            if new is not None:
                rest, self._piece = self._piece, b""
                self.close()
                self._file = new
                yield from [_text(rest)] if rest else []
                yield from self._come()

    def close(self) -> None:
        """Leave the file."""
        if self._file is not None:
            self._file.close()
        self._file = None


def _opened(path: Path) -> IO[bytes] | None:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror or error}; grant the right to read it") from error


def _same(file: IO[bytes], path: Path) -> bool:
    """Whether the file is still the one at the path; one that was removed has no successor yet."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return True


def _last_lines(file: IO[bytes], number: int) -> list[bytes]:
    """The last lines of a file, read from its end."""
    at, found = file.seek(0, os.SEEK_END), b""
    # The last line break ends a line, and the one before so many lines has to be seen, too.
    while at > 0 and found.count(b"\n") <= number:
        size = min(_BLOCK, at)
        at -= size
        file.seek(at)
        found = file.read(size) + found
    lines = found.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines[-number:] if number else []


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
