"""Where an instance answers: a Unix socket that only its user may connect to.

The rights of the file are the whole protection, so there is no token.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from types import TracebackType

from cdcv2.errors import OutputError, RefusedError, UsageError
from cdcv2.instances.run.locks import LockedError, listener_at, locked

#: Connections that may wait to be accepted.
_BACKLOG = 512
#: The longest path of a Unix socket, in bytes: what Linux takes.
LONGEST_PLACE = 107


def place_fault(path: Path) -> str | None:
    """Why no instance can ever answer at a path as it is; None: one can, whether or not it does."""
    if len(os.fsencode(path)) > LONGEST_PLACE:
        return f"{path} is longer than {LONGEST_PLACE} bytes, which no socket may be: name a shorter place"
    try:
        if not stat.S_ISDIR(path.parent.stat().st_mode):
            return f"{path.parent} is no folder: name another place"
        if not stat.S_ISSOCK(path.stat().st_mode):
            return f"{path} is there, and is no socket: name another place"
    except FileNotFoundError:
        # A socket is there only as long as an instance is.
        return None if path.parent.is_dir() else f"there is no folder {path.parent}: make it, or name another place"
    except OSError as error:
        return f"{path} cannot be a socket: {error.strerror}; name another place"
    return None


class InstancePlace:
    """A place that this process has alone, from entering the block on; after :meth:`listen` clients reach it there.

    A file beside it (``.lock``) is locked as long as the process lives, so what a killed one left is taken over.
    Raises RefusedError where another process has it, UsageError where it cannot be a socket, OutputError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listens = False

    def __enter__(self) -> InstancePlace:
        try:
            self._lock = locked(Path(f"{self._path}.lock"))
            # Somebody may have removed the lock of one that is at work.
            other = listener_at(self._path)
            if other is not None:
                raise LockedError(other)
        except OSError as error:
            self._close()
            raise OutputError(f"{self._path}.lock cannot be opened: {error.strerror}; name another place") from None
        except LockedError as other:
            self._close()
            raise RefusedError(
                f"another process has {self._path} ({other}): end it, or name another place with --instance"
            ) from None
        return self

    def listen(self) -> None:
        """Accept clients from now on. Raises UsageError for a path that is too long, or of another file."""
        there = self._path.lstat() if self._path.is_symlink() or self._path.exists() else None
        if there is not None and not stat.S_ISSOCK(there.st_mode):
            raise UsageError(f"{self._path} is there, and is no socket: name another place with --instance")
        # We have the lock, so it is of a process that has ended.
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._listening.bind(os.fspath(self._path))
        except OSError as error:
            raise UsageError(f"{self._path} cannot be a socket: {error}; name a shorter place, or another") from None
        finally:
            os.umask(mask)
        self._listens = True
        self._listening.listen(_BACKLOG)
        self._listening.setblocking(False)

    @property
    def listening(self) -> socket.socket:
        """What clients connect to; it does not wait for them."""
        return self._listening

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listens:
            self._path.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        self._listening.close()
        if self._lock is not None:
            os.close(self._lock)
