"""A lock on a directory of logs: no capture may remove what another one has just made there.

Each capture locks the directory, shared, for as long as it runs. The system frees the lock, however the capture ends.
So the holder of an exclusive lock knows that everything there is of captures that have ended.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from cdcv2.errors import OutputError


class FolderInUse:
    """A directory, made if it is not there, and locked until :meth:`close`; one that we made and left empty goes.

    On a file system without locks it counts as used by others, too. Raises OutputError where it cannot be made or
    opened.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, FolderInUse(Path(folder)) as used:
    ...     with used.alone() as alone:
    ...         alone
    True
    """

    def __init__(self, path: Path) -> None:
        #: The directory.
        self.path = path
        self._made = False
        try:
            with suppress(FileExistsError):
                path.mkdir(parents=True)
                self._made = True
            self._opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror or error}; give another --into") from error
        self._locks = self._lock(fcntl.LOCK_SH)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other capture uses the directory; if so, one that begins waits until the block is left."""
        alone = self._locks and self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield alone
        finally:
            # Also after a refusal, which may have given up the lock that we had.
            if self._locks:
                self._lock(fcntl.LOCK_SH)

    def close(self) -> None:
        """Let it go."""
        os.close(self._opened)
        if self._made:
            with suppress(OSError):  # not empty, as a rule
                self.path.rmdir()

    def __enter__(self) -> FolderInUse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self, how: int) -> bool:
        try:
            fcntl.flock(self._opened, how)
        except OSError:
            return False
        return True
