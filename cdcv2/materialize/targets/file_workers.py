"""Hands that stage Parquet files on a file system that every machine sees: of a lake, and of Delta tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cdcv2.errors import OutputError
from cdcv2.materialize.distributed import TargetTask, TargetWorker
from cdcv2.materialize.protocol.messages import Changes, Key, Store, Table, Values
from cdcv2.materialize.targets.delta.manifest import DeltaFolder
from cdcv2.materialize.targets.delta.tables import DeltaView
from cdcv2.materialize.targets.lake import counts
from cdcv2.materialize.targets.lake.files import StagedFile, StagingFolder
from cdcv2.materialize.targets.lake.view import LakeView


def demand_there(path: Path) -> None:
    """Raise OutputError unless the driver sees what an executor has written."""
    if not path.exists():
        raise OutputError(
            f"an executor has staged {path}, and it is not there for the driver: the folder must be one that driver "
            "and all executors see under the same path"
        )


class LakeWorker(TargetWorker):
    """Looks keys up in a lake as it was when the transaction began."""

    def __init__(self, view: LakeView, tables: Sequence[Table]) -> None:
        self._view, self._tables = view, tuple(tables)

    def work(self, number: int) -> TargetTask:
        """See :class:`TargetWorker`."""
        return _LakeTask(self._view, self._tables[number])


class DeltaWorker(TargetWorker):
    """Looks keys up in the versions of Delta tables that are the cut at which the transaction began."""

    def __init__(self, view: DeltaView, tables: Sequence[Table]) -> None:
        self._folder, self._manifest, self._tables = view.folder.path, view.manifest, tuple(tables)
        #: number of the table -> Delta's version
        self.versions = [view.table(table.name).version() for table in tables]

    def work(self, number: int) -> TargetTask:
        """See :class:`TargetWorker`."""
        view = DeltaView(DeltaFolder(self._folder), self._manifest)
        return _DeltaTask(view, self._tables[number], self.versions[number])


class _StagingTask(TargetTask):
    """What both have in common: rows go into a file of the task's own. ``there``: whether a key was there before."""

    def __init__(self, folder: StagingFolder, table: Table) -> None:
        self._table, self._staged, self._rows = table, StagedFile(folder, table), 0
        self.there = False

    def stage(self, stores: Sequence[Store]) -> None:
        for store in stores:
            self._staged.add(store)
            self.there = self.there or store.exists
        self._rows += len(stores)

    def finish(self) -> Any:
        if not self._rows:
            return None
        part = self._staged.finish()
        self._rows = 0
        return [part.name, part.rows]

    def close(self) -> None:
        if self._rows:
            self._staged.discard()


class _LakeTask(_StagingTask):
    def __init__(self, view: LakeView, table: Table) -> None:
        super().__init__(view.folder, table)
        self._view, self.columns = view, table.multiset

    def changes(self, message: Changes) -> None:
        counts.stage(self._table, message, self._staged, partial(self._view.like, self._table.name))
        self._rows += len(message.gone) + len(message.come)

    def look(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Values]]:
        return self._view.look(self._table.name, keys)


class _DeltaTask(_StagingTask):
    def __init__(self, view: DeltaView, table: Table, version: int) -> None:
        super().__init__(view.folder, table)
        self._view, self._version = view, version

    def look(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Values]]:
        return self._view.look(self._table.name, keys, self._version)[1]

    def finish(self) -> Any:
        receipt = super().finish()
        return None if receipt is None else [*receipt, self.there]
