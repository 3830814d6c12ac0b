"""A lake that is compared while it runs: it replaces its files, and that is no damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import OutputError
from cdcv2.materialize import FileRecoveryLog, Runtime
from cdcv2.materialize.intake import Cut
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.lake.view import LakeView, held_lake
from cdcv2.rows.row_type import RowType
from cdcv2.views.binding import ViewBinding

ENTRY = RowType({"type": "record", "name": "entry", "fields": [{"name": "id", "type": "string"}]})
BINDING = ViewBinding("entries", ENTRY, "entries", ("id",))


def keep(folder: Path, last: int) -> None:
    """The view up to this row, a commit for each; the files are merged again and again."""

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        for time in range(last):
            yield Cut({"entries": [(ENTRY.row([f"row {time}"]), time, 1)]}, Antichain([time]), Antichain([time + 1]))

    log = FileRecoveryLog("m", folder / "log")
    Runtime("m", [BINDING], LakeDriver(folder / "lake", files=1), source, log=log, rows=1).run()


def number(view: LakeView) -> int:
    """How many rows it has."""
    return len(list(view.rows("entries")))


def test_a_lake_that_goes_on_while_it_is_compared_is_read_at_one_commit(tmp_path: Path) -> None:
    """What was read stays; what is too old is read again, at a later commit; a file that is missing is an error."""
    keep(tmp_path, 3)
    old, held = open_lake(tmp_path / "lake"), held_lake(open_lake(tmp_path / "lake"), ["entries"])
    keep(tmp_path, 40)
    with pytest.raises(OutputError, match="cannot be read"):
        number(old)
    again = held_lake(old, ["entries"])

    assert (3, Antichain([3])) == (number(held), held.frontier)
    assert (40, Antichain([40])) == (number(again), again.frontier)

    for path in (tmp_path / "lake" / "entries").glob("*.parquet"):
        path.unlink()
    with pytest.raises(OutputError, match="cannot be read"):
        held_lake(old, ["entries"])
