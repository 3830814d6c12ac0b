"""Where a command speaks: its result to standard output or a file, a bar and remarks to standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO

from cdcv2.errors import OutputError


class Output:
    """The result of a command: lines to standard output, or to the file at ``path``, which is made anew.

    A context manager. Raises OutputError when the file cannot be written; a reader of standard output that went
    away is a BrokenPipeError, which ends the command quietly.
    """

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path is not None else None
        self._file: IO[str] | None = None

    def __enter__(self) -> Output:
        if self._path is not None:
            try:
                self._file = open(self._path, "w", encoding="utf-8", newline="")
            except OSError as error:
                raise self._failed(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._file is not None:
                self._file.close()
            else:
                sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as cause:
            raise self._failed(cause) from cause

    def line(self, text: str) -> None:
        """Write one line."""
        try:
            print(text, file=self._file or sys.stdout)
        except BrokenPipeError:
            raise
        except UnicodeEncodeError as error:
            raise OutputError(
                f"standard output takes {error.encoding} only, which has no {error.object[error.start]!a}: set "
                "PYTHONIOENCODING=utf-8, or give --output"
            ) from error
        except OSError as error:
            raise self._failed(error) from error

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees the lines as they are written."""
        return self._file is None and sys.stdout.isatty()

    def _failed(self, error: OSError) -> OutputError:
        where = "standard output" if self._path is None else str(self._path)
        return OutputError(f"{where} cannot be written: {error.strerror or error}; give another --output")


def remark(text: str) -> None:
    """Say something about the result, on standard error."""
    print(text, file=sys.stderr)


@contextmanager
def progress(total: int, what: str, *, shown: bool = True) -> Iterator[Callable[[int], object]]:
    """A bar on standard error while the block runs, when that is a terminal; yields what moves it on.

    It appears only when the work takes a while, and leaves nothing behind. Without tqdm there is no bar.
    """
    bar = _bar(total, what) if shown and sys.stderr.isatty() else None
    if bar is None:
        yield lambda steps: None
        return
    try:
        yield bar.update
    finally:
        bar.close()


def _bar(total: int, what: str):  # type: ignore[no-untyped-def]  # tqdm has no types
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    # What is counted is offsets in a topic and files in a directory: their share says something, their number little.
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}, {remaining} to go"
    return tqdm(total=total, desc=what, bar_format=form, delay=0.5, leave=False, file=sys.stderr)
