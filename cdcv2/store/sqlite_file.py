"""A SQLite database as a small durable value: opened the same way by all, changed by whole transactions.

Readers and a writer do not wait for each other (write-ahead log), and what is committed survives a loss of power.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any


class SqliteFile:
    """The database at a path, made if it is not there.

    ``tables``: the statement that makes its table. ``failed`` makes our error of one of SQLite's. ``patience``: how
    many seconds to wait for others that write it. One thread at a time may use it, and not always the same one.
    """

    def __init__(
        self, path: str | Path, tables: str, failed: Callable[[sqlite3.Error], Exception], *, patience: float = 30.0
    ) -> None:
        self.path, self._failed = path, failed
        with self._errors():
            self._connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            self._write_ahead(patience)
            self._connection.execute("PRAGMA synchronous = full")
            self._connection.execute(tables)

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
        with self._errors():
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as cause:
            raise self._failed(cause) from cause
