"""What the tests of the lake and of Delta tables share: subjects of the kit, small cuts, a crash inside of a commit."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import MissingLogError
from cdcv2.materialize import Checkpoint, Driver, FileRecoveryLog, MemoryRecoveryLog, RecoveryLog, Runtime, ViewBinding
from cdcv2.materialize.targets.delta.driver import DeltaDriver, open_delta
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from cdcv2.testing import Stage, Subject, Workload

ENTRY = RowType({
    "type": "record", "name": "entry",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": ["null", "long"]}],
})  # fmt: skip
ENTRIES = ViewBinding("entries", ENTRY, "entries", ("id",))
Source = Callable[[Checkpoint], Iterator[Cut]]


class FolderSubject(Subject):
    """A folder, and a recovery log in memory, which is the same for every instance."""

    #: makes a driver on the folder; looks at it
    make: Callable[[Path], Driver]
    look: Callable[[Path], Any]

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cdcv2-lake-"))
        self.recovery = MemoryRecoveryLog("conformance")
        # The last manifest that was looked at, and what it shows.
        self._seen: tuple[object, dict[str, dict[Any, Any]]] = (None, {})

    def driver(self) -> Driver:
        """Another instance."""
        return self.make(self.folder)

    def log(self) -> RecoveryLog | None:
        """The one."""
        return self.recovery

    def view(self) -> dict[str, dict[Any, Any]]:
        """What a reader sees."""
        try:
            view = self.look(self.folder)
        except MissingLogError:
            return {}
        if self._seen[0] != view.manifest:
            self._seen = (view.manifest, {table: dict(view.rows(table)) for table in view.manifest.tables})
        return self._seen[1]

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.folder)


class LakeSubject(FolderSubject):
    """Parquet files, which are merged all the time."""

    columns = True
    files = 3
    look = staticmethod(open_lake)

    def make(self, folder: Path) -> Driver:  # type: ignore[override]
        """With few files to a table."""
        return LakeDriver(folder, files=self.files)


class DeltaSubject(FolderSubject):
    """Delta tables."""

    columns = True
    make, look = DeltaDriver, staticmethod(open_delta)


def check_crash_inside_of_a_commit(subject: Subject, step: str, nth: int) -> None:
    """The next process applies what was committed, and stages the rest again."""
    stage = Stage(subject, Workload(cuts=4))
    dying = stage.instance()
    with failpoints.placed(step, nth), pytest.raises(failpoints.PlacedCrash):
        dying.finish()
    stage.demand_cut()

    assert "done" == stage.instance().finish()
    stage.demand_whole()
    stage.close()


def cuts(*changes: list[tuple[Any, int]], row_type: RowType = ENTRY, start: int = 0) -> Source:
    """Each list of rows and diffs is a cut."""

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        for time, rows in enumerate(changes, start):
            updates = [(row_type.row(row), time, diff) for row, diff in rows]
            yield Cut({"entries": updates}, Antichain([time]), Antichain([time + 1]))

    return source


def keep_in(
    driver: Driver, folder: Path, source: Source, *bindings: ViewBinding, name: str = "m", **options: Any
) -> Runtime:
    """Materialize to the end of the source; the recovery log lies beside the folder."""
    log = FileRecoveryLog(name, folder.with_name(f"{folder.name}-log"))
    runtime = Runtime(name, bindings or [ENTRIES], driver, source, log=log, rows=1, **options)
    runtime.run()
    return runtime
