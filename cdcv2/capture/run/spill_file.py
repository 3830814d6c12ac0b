"""A private temporary file for rows that do not fit into memory: a nameless database of SQLite.

SQLite opens it without a name, and removes it from its folder as it opens it, so that no file is left after the
process, however that ends. Its pages are in memory up to a fixed size; only beyond that they are written. Nothing
durable depends on it: it has no journal, and is never synced. It is in the folder of temporary files, not beside the
logs: those may be on a file system of another machine, are backed up, and are no place for what is worthless after the
process.

Rows are their canonical bytes. Equal bytes are one row, so that the database adds up their diffs.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from cdcv2.errors import OutputError

#: Kilobytes of the file that are in memory.
CACHE = 32_768
#: A row of a buffer: a part and a number in it, which identify it; its number; the bytes that go, and those that come.
SpilledRow: TypeAlias = tuple[int, int, "int | None", "bytes | None", "bytes | None"]

# Numbers that SQLite has no whole number for are texts.
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_ROWS = (
    "CREATE TABLE rows (buffer INTEGER, part INTEGER, key, number, minus BLOB, plus BLOB, "
    "PRIMARY KEY (buffer, part, key)) WITHOUT ROWID"
)
_SUMS = "CREATE TABLE sums (buffer INTEGER, data BLOB, diff INTEGER, PRIMARY KEY (buffer, data)) WITHOUT ROWID"
_ADD_UP = (
    "INSERT INTO sums SELECT ?1, data, sum(diff) FROM ("
    "SELECT minus AS data, -1 AS diff FROM rows WHERE buffer = ?1 AND minus IS NOT NULL UNION ALL "
    "SELECT plus, 1 FROM rows WHERE buffer = ?1 AND plus IS NOT NULL) GROUP BY data HAVING sum(diff) != 0"
)


class SpillFile:
    """Rows by buffer, each a number of the caller's; the file is made with the first row.

    Each method raises OutputError where the file cannot be made, written or read: it is of no use then, to any buffer.

    >>> file = SpillFile()
    >>> file.put(1, [(0, 3, 1, None, b"tea"), (0, 4, 2, b"tea", b"coffee")])
    >>> file.row(1, 0, 3), file.add_up(1), list(file.sums(1))
    ((0, 3, 1, None, b'tea'), 1, [(b'coffee', 1)])
    >>> file.close()

    Cost: O(log rows) for each row; to add up, a sort. Memory: 32 MB. Source: SQLite's temporary databases.
    """

    def __init__(self) -> None:
        self._opened: sqlite3.Connection | None = None
        # Those that have rows there.
        self._buffers: set[int] = set()

    def put(self, buffer: int, rows: Iterable[SpilledRow]) -> None:
        """Write rows; one that is there already is written over."""
        with _errors():
            made = self._connection()
            self._buffers.add(buffer)
            made.execute("BEGIN")
            made.executemany(
                "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?)",
                ((buffer, part, _plain(key), _plain(number), minus, plus) for part, key, number, minus, plus in rows),
            )
            made.execute("COMMIT")

    def row(self, buffer: int, part: int, key: int) -> SpilledRow | None:
        """The row with this key; None: there is none."""
        return next(self._rows("AND part = ? AND key = ?", buffer, part, key), None)

    def numbered(self, buffer: int, number: int) -> Iterator[SpilledRow]:
        """The rows with this number. Cost: all rows of the buffer."""
        return self._rows("AND number = ?", buffer, number)

    def rows(self, buffer: int) -> Iterator[SpilledRow]:
        """All rows of the buffer, by part and key."""
        return self._rows("ORDER BY part, key", buffer)

    def add_up(self, buffer: int) -> int:
        """Add up what its rows do; how many rows remain, with their sums: see :meth:`sums`."""
        with _errors():
            made = self._connection()
            made.execute("DELETE FROM sums WHERE buffer = ?", (buffer,))
            return made.execute(_ADD_UP, (buffer,)).rowcount

    def sums(self, buffer: int) -> Iterator[tuple[bytes, int]]:
        """What was added up: the bytes of rows, and their sums."""
        return self._found("SELECT data, diff FROM sums WHERE buffer = ?", (buffer,))

    def sum(self, buffer: int, data: bytes) -> int:
        """The sum of a row; 0 when it is not there."""
        found = self._found("SELECT diff FROM sums WHERE buffer = ? AND data = ?", (buffer, data))
        return next((diff for diff, in found), 0)

    def set_sum(self, buffer: int, data: bytes, diff: int) -> None:
        """Set the sum of a row; 0: it is not there any more."""
        with _errors():
            made = self._connection()
            made.execute("DELETE FROM sums WHERE buffer = ? AND data = ?", (buffer, data))
            if diff:
                made.execute("INSERT INTO sums VALUES (?, ?, ?)", (buffer, data, diff))

    def drop(self, buffer: int) -> None:
        """Forget the buffer. With the last one the file is removed."""
        if buffer not in self._buffers:
            return
        self._buffers.discard(buffer)
        if not self._buffers:
            self.close()
            return
        # These rows are not needed, but those of others are: without a journal, what failed may have damaged them.
        with _errors():
            for table in ("rows", "sums"):
                self._connection().execute(f"DELETE FROM {table} WHERE buffer = ?", (buffer,))

    def close(self) -> None:
        """Remove the file."""
        self._buffers.clear()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            # One thread at a time uses it, which need not be the one that made it.
            made = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            for words in (
                "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA temp_store = FILE",
                f"PRAGMA cache_size = -{CACHE}", _ROWS, _SUMS,
            ):
                made.execute(words)
            self._opened = made
        return self._opened

    def _rows(self, which: str, buffer: int, *values: int) -> Iterator[SpilledRow]:
        words = f"SELECT part, key, number, minus, plus FROM rows WHERE buffer = ? {which}"
        for part, key, number, minus, plus in self._found(words, (buffer, *map(_plain, values))):
            yield part, int(key), None if number is None else int(number), minus, plus

    def _found(self, words: str, values: tuple[Any, ...]) -> Iterator[Any]:
        with _errors():
            yield from self._connection().execute(words, values)


def _plain(number: int | None) -> int | str | None:
    return number if number is None or _LEAST <= number <= _GREATEST else str(number)


@contextmanager
def _errors() -> Iterator[None]:
    """Raise OutputError for what SQLite raises."""
    try:
        yield
    except sqlite3.Error as cause:
        raise OutputError(
            f"rows of open transactions cannot be kept in a temporary file in {temporary_folder()}: {cause}. The disk "
            "or the folder is at fault (full, or read-only?). Make room there, or name another folder by the "
            "environment variable TMPDIR; or keep more rows in memory (--memory-rows). Then start again: what the "
            "logs state is whole, and what they do not state is read again"
        ) from cause


def temporary_folder() -> str:
    """The folder in which SQLite makes temporary files: the first of its list that can be written.

    Its order prefers ``/var/tmp``, which is on a disk, to ``/tmp``, which may be in memory.

    >>> os.path.isdir(temporary_folder())
    True
    """
    if os.name != "posix":
        return tempfile.gettempdir()
    named = [os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR")]
    folders = [*filter(None, named), "/var/tmp", "/usr/tmp", "/tmp"]
    usable = (folder for folder in folders if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK))
    return next(usable, "the current folder")
