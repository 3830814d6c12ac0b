"""A database that is removed or replaced while it is open: nothing more is written into it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cdcv2.errors import RestoredError
from cdcv2.store.sqlite_file import SqliteFile

TABLE = "CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY)"


def opened(path: Path) -> SqliteFile:
    """The database, with a table of numbers."""
    return SqliteFile(path, TABLE, "the numbers", remedy="Do this")


def add(file: SqliteFile, number: int) -> None:
    """Add a number, in a transaction."""
    with file.changing():
        file.rows("INSERT INTO numbers VALUES (?)", [number])


@pytest.mark.parametrize("put_back", [True, False], ids=["put back", "removed"])
@pytest.mark.parametrize("use", [lambda file: add(file, 2), lambda file: file.rows("SELECT number FROM numbers")])
def test_a_file_that_is_another_one_meanwhile_is_not_used(
    tmp_path: Path, put_back: bool, use: Callable[[SqliteFile], object]
) -> None:
    """A process that opens it again has what is there."""
    path, backup = tmp_path / "numbers.sqlite", tmp_path / "backup.sqlite"
    file = opened(path)
    add(file, 1)
    file.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, backup)
    for one in tmp_path.glob("numbers.sqlite*"):
        one.unlink()
    if put_back:
        shutil.copy(backup, path)

    with pytest.raises(RestoredError, match=r"the numbers: .*numbers.sqlite was removed, .*\. Do this"):
        use(file)
    again = opened(path)
    add(again, 3)
    assert ([(1,)] if put_back else []) + [(3,)] == again.rows("SELECT number FROM numbers")
