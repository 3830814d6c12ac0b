"""Who keeps the jobs of a state folder: one process at a time, which a second one can name.

The owner holds a lock on a file of the folder. The system frees it however the owner ends, so a dead owner is taken
over from at once, and no clock decides who is dead.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from cdcv2.control.kept_value import keep, kept_record
from cdcv2.errors import OutputError, RefusedError


#: The file in the state folder whose lock they share who run a pipeline in one process.
RUNNING = "run.lock"
#: The file whose lock the owner has. When it was changed is when the owner's loop has made its last round; 1970: none
#: yet.
_LOCK = "owner.lock"
#: A loop makes a round in about a second, and waits for no server. After so many without one it counts as hanging: it
#: is stopped (SIGSTOP, a cgroup, a debugger), or waits for a disk that does not answer.
SILENT = 30.0


class OwnerRecord(NamedTuple):
    """A process that keeps the jobs: its number, its machine, and since when (in seconds since 1970)."""

    pid: int
    host: str
    since: float

    def text(self) -> str:
        """As a sentence has it."""
        return f"process {self.pid} on {self.host}"


class OwnedFolder:
    """The state folder, made if it is not there, and ours until :meth:`close`.

    Raises RefusedError where another process keeps its jobs, with which one; OutputError where it cannot be made.
    """

    def __init__(self, path: Path, now: float) -> None:
        #: The folder.
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._opened = _opened(path / _LOCK, os.O_CREAT)
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror or error}; name another folder as 'state'"
            ) from error
        try:
            fcntl.flock(self._opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._opened)
            who = owner(path)
            raise RefusedError(
                f"the jobs of {path} are kept by {'another process' if who is None else who.text()}: end that one "
                "first, or let it be. A 'cdcv2 up' that ends leaves its jobs at work"
            ) from error
        with suppress(OSError):
            # The rounds of the owner before are not ours. No clock decides that: it may have been set back since.
            os.utime(self._opened, (0, 0))
        try:
            keep(path / "owner.json", OwnerRecord(os.getpid(), socket.gethostname(), now)._asdict())
        except OutputError:
            # Who has it is then not known to others. What has to be written in the folder meets the error, too.
            with suppress(OSError):
                (path / "owner.json").unlink()

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._opened)

    def __enter__(self) -> OwnedFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _opened(path: Path, more: int = 0) -> int:
    """The file of a lock. A lock can be held also where nothing can be written."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | more, 0o600)
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES):
            with suppress(OSError):  # The first error has the reason.
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raise


def owner(path: Path) -> OwnerRecord | None:
    """Who kept the jobs of a state folder last; None: no process did. Raises MalformedError for a damaged record."""
    return kept_record(path / "owner.json", OwnerRecord)


@contextmanager
def running(path: Path) -> Iterator[None]:
    """Within the block, a process that starts no jobs works for itself with the file of this state folder.

    Where the folder cannot be written nothing is kept: who asks could pause no job there, either.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        opened = os.open(path / RUNNING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_SH)
        yield
    finally:
        os.close(opened)


def is_running(path: Path) -> bool:
    """Whether a process is in :func:`running` now."""
    return _may_be_held(path / RUNNING, fcntl.LOCK_EX)


def is_owned(path: Path) -> bool:
    """Whether a process keeps the jobs of the state folder now."""
    return _may_be_held(path / _LOCK, fcntl.LOCK_SH)


def beat(path: Path) -> None:
    """State that the loop of the owner makes a round now. Nothing is stated where the folder cannot be written."""
    with suppress(OSError):
        os.utime(path / _LOCK)


def silent_for(path: Path, now: float) -> float | None:
    """For how many seconds the loop of the owner has made no round, if it hangs; None: it works, as far as is known.

    It is not known of one that has made no round yet, and where it cannot state its rounds.
    """
    if not is_owned(path):
        return None
    try:
        at = (path / _LOCK).stat().st_mtime
        can_state = os.access(path / _LOCK, os.W_OK, effective_ids=True)
    except OSError:
        return None
    silent = now - at
    return silent if can_state and at and silent > SILENT else None


def _may_be_held(path: Path, how: int) -> bool:
    try:
        return is_held(path, how)
    except OSError:
        return False


def is_held(path: Path, how: int = fcntl.LOCK_SH) -> bool:
    """Whether another process has a lock on a file that is against one of this kind. Nothing is written.

    A shared one is against a lock that is held for one alone, and not against that of another who only asks. Raises
    OSError where the file cannot be opened.
    """
    try:
        opened = _opened(path)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(opened)
    return False
