"""Write the golden catalogue of the present version: ``python -m tests.golden.catalogue``. Once per version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from cdcv2.control.catalogue import DATABASE, LOCK, take_catalogue
from tests.control.test_catalogue import ENTRIES, GOLDEN

if __name__ == "__main__":
    with take_catalogue(GOLDEN, "the controller of shop", 5.0) as catalogue:
        catalogue.write(ENTRIES)
    with closing(sqlite3.connect(GOLDEN / DATABASE)) as database:
        # One file: what is in the log beside it is moved into it.
        database.execute("PRAGMA journal_mode = delete")
    Path(GOLDEN / LOCK).unlink()
