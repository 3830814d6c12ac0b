"""Where an instance answers: a Unix socket that only its user may connect to.

The rights of the file are the whole protection, so there is no token.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from pathlib import Path
from types import TracebackType

from cdcv2.errors import OutputError, RefusedError, UsageError

#: Connections that may wait to be accepted.
_BACKLOG = 512


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
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._listening.close()
            raise OutputError(f"{self._path}.lock cannot be opened: {error.strerror}; name another place") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            self._listening.close()
            raise RefusedError(
                f"another process has {self._path}: end it, or name another place with --instance"
            ) from None
        self._lock = lock
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
        self._listening.close()
        if self._listens:
            self._path.unlink(missing_ok=True)
        if self._lock is not None:
            os.close(self._lock)
