"""A SQLite database as a small durable value: opened the same way by all, changed by whole transactions.

Readers and a writer do not wait for each other (write-ahead log), and what is committed survives a loss of power.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from cdcv2.errors import ForeignStateError, OutputError, RestoredError


class SqliteFile:
    """The database at a path, made if it is not there.

    ``tables``: the statement that makes its table. ``what``: what it is and where, for errors. ``patience``: how many
    seconds to wait for others that write it. One thread at a time may use it, and not always the same one. Everything
    raises OutputError where it cannot be used, ForeignStateError where it is damaged, and RestoredError where another
    file is at the path by now, or none: what was written would be found by no other process. ``remedy``: what to do.
    """

    def __init__(
        self, path: str | Path, tables: str, what: str, *, patience: float = 30.0,
        remedy: str = "Start again: it continues from what is there",
    ) -> None:
        self._path, self._what, self._remedy = Path(path), what, remedy
        with self._errors():
            self._connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            self._write_ahead(patience)
            self._connection.execute("PRAGMA synchronous = full")
            self._connection.execute(tables)
        self._opened = _identity(self._path)

    def _write_ahead(self, patience: float) -> None:
        """Let readers and a writer not wait for each other. Of two that begin a database SQLite refuses one at once."""
        until = monotonic() + patience
        # Asked first: setting it needs a lock that readers would have to wait for.
        while self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._connection.execute("PRAGMA journal_mode = wal")
            except sqlite3.OperationalError as cause:
                if cause.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() >= until:
                    raise
                sleep(0.01)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Within the block, :meth:`rows` is one transaction: committed at its end, undone by any exception."""
        self._demand_there()
        with self._errors():
            # A transaction that begins by reading could not always become one that writes.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """What the statement gives."""
        self._demand_there()
        with self._errors():
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _demand_there(self) -> None:
        """Raise RestoredError unless the file at the path is the one that was opened."""
        if _identity(self._path) != self._opened:
            raise RestoredError(
                f"{self._what}: {self._path} was removed, or another file was put in its place, while this process "
                f"used it. Nothing more was written. {self._remedy}"
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as cause:
            if is_damage(cause):
                raise ForeignStateError(
                    f"{self._what} cannot be used: {cause}: it is damaged, or another file. Restore it from a backup; "
                    "what else can be done is in docs/operations/restarts.md"
                ) from cause
            raise OutputError(
                f"{self._what} cannot be used: {cause}; make room, grant the rights, or end what locks it, and start "
                "again"
            ) from cause


def _identity(path: Path) -> tuple[int, int] | None:
    """What names a file as long as it is there; None: it is not."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_damage(cause: sqlite3.Error) -> bool:
    """Whether the bytes of the file are at fault, and no disk, right or lock."""
    # An error that the module finds itself has no code.
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def rows_at_rest(path: Path, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    """What a statement gives of a database in a place where nothing can be written, as on a full disk.

    What is only in its write-ahead log is not seen. Raises sqlite3.Error.
    """
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()
