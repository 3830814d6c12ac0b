"""Write what states of which log it was made: ``python -m tests.golden.identities FOLDER``, once per version.

By commands alone: a log, its history in a lake (``cdcv2 replay --lake``), and a view of it (``cdcv2 materialize``). The
folder ``identities`` was written with manifests of a lake of version 3, and a recovery log of version 1.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType

ROW = RowType({"type": "record", "name": "items", "fields": [{"name": "id", "type": "long"}]})
#: The log has these times, one row at each.
UPPER = 3
VIEW = """
materialization: shop
logs: {items: items}
bindings: [{log: items, target: items, key: [id]}]
target: {driver: lake, folder: view}
recovery_log: recovery
"""


def log(folder: Path, upper: int) -> None:
    """The log in the folder, made where there is none, with all times below ``upper``."""
    description = LogDescription(timeline="shop")
    with Writer(DirectoryLog(folder / "items", ROW, create=True, description=description)) as writer:
        writer.extend([(ROW.row([time]), time, 1) for time in range(upper)])
        writer.advance([upper])


def words(folder: Path) -> dict[str, list[str]]:
    """What keeps a copy of the log, and its command."""
    return {
        "history": ["replay", str(folder / "items"), "--lake", str(folder / "history")],
        "view": ["materialize", str(folder / "shop.yaml")],
    }


def write(folder: Path) -> None:
    """All of it."""
    log(folder, UPPER)
    (folder / "shop.yaml").write_text(VIEW, "utf-8")
    for command in words(folder).values():
        subprocess.run([sys.executable, "-m", "cdcv2", *command], check=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
