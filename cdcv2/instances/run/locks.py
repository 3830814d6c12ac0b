"""Locks of processes that keep something alone: a second one learns which process has it."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

#: What Linux states of the other side of a Unix socket: the numbers of its process, user and group.
_CREDENTIALS = struct.Struct("3i")


class LockedError(Exception):
    """Another process has the lock; the text names it."""


def locked(path: Path) -> int:
    """Lock a file, which is made if it is not there, and write into it who has it. Returns its descriptor.

    The system frees the lock however its process ends. Raises LockedError, and OSError.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(OSError, ValueError):
            raise LockedError(os.pread(lock, 1000, 0).decode() or "another process") from None
        raise LockedError("another process") from None
    else:
        holder, lock = lock, -1
        # Who has the lock is what the text is for: without it a second one is refused all the same.
        with suppress(OSError):
            os.ftruncate(holder, 0)
            os.pwrite(holder, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        return holder
    finally:
        if lock >= 0:
            os.close(lock)


def listener_at(path: Path) -> str | None:
    """The process that accepts connections at a Unix socket; None: none does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.setblocking(False)
        try:
            stream.connect(os.fspath(path))
        except BlockingIOError:
            return "a process that is busy"
        except OSError:
            return None
        pid, _, _ = _CREDENTIALS.unpack(
            stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return f"process {pid}"
