"""The young files of a lake in memory, so that a transaction does not read again what those before it have read.

A file is never changed, so it is read once. Only so many bytes are held, of the youngest files: these are read whole by
every transaction that looks keys up, while of a large old one it is the column of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cdcv2.materialize.targets.lake.files import StatedFile, read_part

#: Bytes in memory, of all tables together.
MOST = 64 << 20
#: How many times as large a file may be in memory; it is not read to find out that it is larger.
_UNPACKED = 4


class HeldFiles:
    """Those of one instance. One thread at a time."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        # Table -> file -> what changes with it (inode, time, size), and its rows; None where they are too many.
        self._held: dict[str, dict[Path, tuple[tuple[int, int, int], Any]]] = {}

    def last_of(self, table: str, files: Sequence[StatedFile]) -> list[Any]:
        """The rows of the last of these files, of as many as are held. Raises OutputError as :func:`read_part`."""
        known, kept, found = self._held.pop(table, {}), dict[Path, tuple[tuple[int, int, int], Any]](), list[Any]()
        room = self._most - sum(rows.nbytes for one in self._held.values() for _, rows in one.values() if rows)
        for file in reversed(files):
            path = file.path
            try:
                stat = path.stat()
            except OSError:
                # Reading it will raise.
                break
            stamp = stat.st_ino, stat.st_mtime_ns, stat.st_size
            before = known.get(path)
            if before is None or before[0] != stamp:
                if stat.st_size * _UNPACKED > room:
                    break
                rows = read_part(file)
                before = stamp, rows if rows.nbytes <= room else None
            kept[path] = before
            if before[1] is None:
                break
            found.append(before[1])
            room -= before[1].nbytes
        self._held[table] = kept
        return found[::-1]
