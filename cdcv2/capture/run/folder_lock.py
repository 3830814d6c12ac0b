"""A lock on a directory of logs: no capture may remove what another one has just made there.

Each capture locks the directory, shared, for as long as it runs. The system frees the lock, however the capture ends.
So the holder of an exclusive lock knows that everything there is of captures that have ended. A capture that is to be
the only one holds the exclusive lock for as long as it runs: then no second one works, however that is started.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from cdcv2.errors import OutputError, RefusedError

#: Seconds to wait for a lock: that of a capture that is just ending, or that looks whether it is alone.
WAIT = 5.0
_PAUSE = 0.05


class FolderInUse:
    """A directory, made if it is not there, and locked until :meth:`close`; one that we made and left empty goes.

    ``sole``: by no other capture meanwhile. On a file system without locks it counts as used by others, too, and cannot
    be refused to them. Raises OutputError where it cannot be made or opened, and RefusedError where this capture, or
    another one that uses it, is to be the only one; it names the other one.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, FolderInUse(Path(folder)) as used:
    ...     with used.alone() as alone:
    ...         alone
    True
    """

    def __init__(self, path: Path, *, sole: bool = False) -> None:
        #: The directory.
        self.path = path
        self._sole = sole
        self._made = False
        try:
            with suppress(FileExistsError):
                path.mkdir(parents=True)
                self._made = True
            self._opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror or error}; give another --into") from error
        try:
            self._locks = self._locked()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other capture uses the directory; if so, one that begins waits until the block is left."""
        if self._sole and self._locks:
            yield True
            return
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

    def _locked(self) -> bool:
        """Lock it; whether there are locks at all."""
        deadline = time.monotonic() + WAIT
        while True:
            try:
                fcntl.flock(self._opened, (fcntl.LOCK_EX if self._sole else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise self._refusal() from None
                time.sleep(_PAUSE)
            except OSError:
                return False

    def _refusal(self) -> RefusedError:
        others = _holders(os.fstat(self._opened).st_ino)
        who = f"process {' and '.join(map(str, others))}" if others else "another process"
        if self._sole:
            return RefusedError(
                f"{who} writes the logs in {self.path}, and this capture (--sole) writes them alone: end the other one"
            )
        return RefusedError(
            f"{who} writes the logs in {self.path}, alone: it was started with --sole, as cdcv2 up starts a capture. "
            "Let it work, or end it with cdcv2 down first"
        )

    def _lock(self, how: int) -> bool:
        try:
            fcntl.flock(self._opened, how)
        except OSError:
            return False
        return True


def _holders(inode: int) -> list[int]:
    """The processes that hold a lock on this file, as far as the system shows them."""
    with suppress(OSError, ValueError):
        lines = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
        found = {
            int(line[4]) for line in lines
            if line[1] == "FLOCK" and line[5].rpartition(":")[2] == str(inode) and line[4].isdigit()
        }
        return sorted(found - {0})
    return []
