"""Write the golden catalogue of the present version: ``python -m tests.golden.catalogue``. Once per version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from cdcv2.control.catalogue import DATABASE, take_catalogue
from cdcv2.control.owner import OwnedFolder
from tests.control.test_catalogue import ENTRIES, GOLDEN

if __name__ == "__main__":
    with OwnedFolder(GOLDEN, 5.0) as owned, take_catalogue(owned, "the controller of shop", 5.0, "shop") as catalogue:
        catalogue.write(ENTRIES)
    with closing(sqlite3.connect(GOLDEN / DATABASE)) as database:
        # One file: what is in the log beside it is moved into it.
        database.execute("PRAGMA journal_mode = delete")
    for name in ("owner.lock", "owner.json"):
        Path(GOLDEN / name).unlink()
