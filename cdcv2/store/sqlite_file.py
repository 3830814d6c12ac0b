"""A SQLite database as a small durable value: opened the same way by all, changed by whole transactions.

Readers and a writer do not wait for each other (write-ahead log), and what is committed survives a loss of power.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from cdcv2.errors import ForeignStateError, OutputError


class SqliteFile:
    """The database at a path, made if it is not there.

    ``tables``: the statement that makes its table. ``what``: what it is and where, for errors. ``patience``: how many
    seconds to wait for others that write it. One thread at a time may use it, and not always the same one. Everything
    raises OutputError where it cannot be used, and ForeignStateError where it is damaged.
    """

    def __init__(
        self, path: str | Path, tables: str, what: str, *, patience: float = 30.0
    ) -> None:
        self._what = what
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
            if is_damage(cause):
                raise ForeignStateError(
                    f"{self._what} cannot be used: {cause}: it is damaged, or another file. Restore it from a backup; "
                    "what else can be done is in docs/operations/restarts.md"
                ) from cause
            raise OutputError(
                f"{self._what} cannot be used: {cause}; make room, grant the rights, or end what locks it, and start "
                "again"
            ) from cause


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
