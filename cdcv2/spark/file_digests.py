"""Digests of the files of a directory log, taken when they were read: they identify the log for a state.

A topic has an identity, a directory has none: one that was recreated under the same name looks like the old one. But
its files never change once they are there. So a state keeps a *mark* of the files that it has absorbed, a digest of
each. A log with another file under one of these numbers is another log. A copy of the directory is the same log, and so
is one without a file yet: the state cannot have anything from it.

A mark covers a file's size and its beginning. There the header has the digests of all blocks or, in a file of another
program, the sync marker that it drew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from cdcv2.errors import ForeignStateError
from cdcv2.logs.directory import file_name
from cdcv2.store.file_system import unreadable_part

#: About so many marks are kept of one directory: those of all its files, and of one that has more, evenly spread.
MOST = 100

_BEGINNING = 1 << 16
#: What helps where the log of a replay is another one.
REPLAY_REMEDY = (
    "bring the log back; or, if this one is to be read, give the replay a state and an output of their own: in these "
    "the two histories would be mixed"
)


def marks(directory: str, end: int, known: Mapping[int, str]) -> dict[int, str]:
    """The marks of the files below ``end``: of every file, or of every second, fourth ..., and of the last.

    ``known`` are marks taken before, which are not taken again. Raises UnavailableError.
    """
    step = 1
    while end > step * MOST:
        step *= 2
    wanted = {number: known.get(number) for number in (*range(0, end, step), end - 1) if number >= 0}
    taken = {number: mark or _mark(directory, number) for number, mark in wanted.items()}
    return {number: mark for number, mark in taken.items() if mark is not None}


def check(directory: str, known: Mapping[int, str], state: Path | None, remedy: str = REPLAY_REMEDY) -> None:
    """Raise ForeignStateError unless the directory is the log whose files ``state`` (None: a memory) has absorbed."""
    who = "the memory" if state is None else f"the state in {state}"
    for number, mark in sorted(known.items()):
        if _mark(directory, number) not in (mark, None):
            raise ForeignStateError(
                f"{who} is of another log that was also at {directory}: file {number} there is not the "
                f"one that was read: {remedy}"
            )


def _mark(directory: str, number: int) -> str | None:
    """The mark of a file; None for one that was removed: reading it will raise."""
    path = Path(directory) / file_name(number)
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256(str(os.fstat(file.fileno()).st_size).encode())
            digest.update(file.read(_BEGINNING))
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise unreadable_part(f"the log {directory}", cause) from cause
    return digest.hexdigest()[:32]
