"""How far a command is that ends by itself, for the person at the terminal: a bar."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

#: After so many seconds a bar appears; after so many more it is drawn again.
_APPEARS, _REDRAWN = 0.5, 0.1
#: The least and the greatest width of the bar itself, in characters.
_NARROW, _WIDE = 8, 40


class Bar:
    """A bar on a terminal, drawn over itself in one line, which leaves nothing behind.

    ``total`` steps are the whole. Its share is shown, not the number: what is counted is offsets and files.
    """

    def __init__(
        self, total: int, what: str, stream: IO[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total, self._what, self._stream, self._clock = total, what, stream, clock
        self._steps, self._drawn = 0, 0
        self._begun = clock()
        self._next = self._begun + _APPEARS

    def update(self, steps: int) -> None:
        """So many steps more are done."""
        self._steps += steps
        now = self._clock()
        if now >= self._next:
            self._next = now + _REDRAWN
            self._draw(self._line(now - self._begun))

    def close(self) -> None:
        """Remove it."""
        if self._drawn:
            self._draw("")
            self._write("\r")

    def _line(self, elapsed: float) -> str:
        share = min(1.0, self._steps / self._total) if self._total > 0 else 0.0
        left = f", {_minutes(elapsed / share - elapsed)} to go" if share else ""
        head, tail = f"{self._what}: {share:4.0%} |", f"| {_minutes(elapsed)}{left}"
        width = shutil.get_terminal_size().columns - len(head) - len(tail) - 1
        width = max(_NARROW, min(_WIDE, width))
        return f"{head}{('#' * round(share * width)).ljust(width)}{tail}"

    def _draw(self, line: str) -> None:
        # Spaces over what was longer: a terminal need not know more than to return to the first column.
        self._write("\r" + line.ljust(self._drawn))
        self._drawn = len(line)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # The reader has left; the work goes on.
            self._next = float("inf")


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def progress(total: int, what: str, *, shown: bool = True) -> Iterator[Callable[[int], object]]:
    """A bar on standard error while the block runs, when that is a terminal; yields what moves it on.

    It appears only when the work takes a while, and leaves nothing behind.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda steps: None
        return
    bar = Bar(total, what, sys.stderr)
    try:
        yield bar.update
    finally:
        bar.close()
