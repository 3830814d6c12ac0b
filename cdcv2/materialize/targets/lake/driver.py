"""A lake of Parquet files, without Spark: the recovery log rules, and what it has committed is applied idempotently.

A transaction is one new file per table, under names that no other transaction uses; the recovery log commits those
names with the checkpoint; then a manifest that has them is put if absent. It has for each range of keys up to where
that was applied, so applying a transaction twice has no effect, however late: commits for one range come in the order
of their frontiers. No file counts before a manifest names it, and readers (:func:`read_lake`) see whole commits.

Files are merged as their number grows, a large one seldom: each row is written about log(n) times. Keys are looked up
by reading the key column of every file, so a lake wants few large transactions (``rows`` of the runtime), and a
database many small ones. A transaction that dies between staging and
its commit leaves a file that no manifest will ever name; :func:`orphans` finds them, ``cdcv2 orphans --remove``
removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import OutputError, UsageError
from cdcv2.materialize.distributed import TargetWorker
from cdcv2.materialize.protocol.fence import Range, fenced
from cdcv2.materialize.protocol.messages import (
    Changes, Checkpoint, Flush, Flushed, Loaded, Open, Opened, Store, Table,
)
from cdcv2.materialize.repair import RepairableDriver, TableRepair
from cdcv2.materialize.targets.file_workers import LakeWorker, demand_there
from cdcv2.materialize.targets.lake import counts
from cdcv2.materialize.targets.lake.columns import keys_by
from cdcv2.materialize.targets.lake.file_cache import HeldFiles
from cdcv2.materialize.targets.lake.files import (
    DIFF, GONE, KEY, StagedFile, arrow, current, key_column, read_part, type_of,
)
from cdcv2.materialize.targets.lake.manifest import LakeFolder, LakeManifest
from cdcv2.materialize.targets.lake.view import LakeView, open_lake, read_lake
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.materialize.targets.staged_driver import StagedDriver, demand_view

__all__ = ["LakeDriver", "LakeView", "open_lake", "read_lake"]

#: How many times as many files a multiset may have: an append looks nothing up in them.
_APPENDED = 4


REPAIR_STAGED = failpoints.declare("lake.repair-staged", "the new files of damaged tables are durable; none counts")
REPAIRED = failpoints.declare("lake.repaired", "the manifest names the new files of damaged tables")


class LakeDriver(StagedDriver, RepairableDriver):
    """One instance on the lake in ``folder``, a directory or ``file:`` URI, which one materialization has for itself.

    ``files``: when a table has more, the youngest ones are merged.
    """

    STAGED = failpoints.declare("lake.staged", "the files of a transaction are durable; no commit names them yet")
    APPLIED = failpoints.declare(
        "lake.applied", "the manifest has the transaction; the recovery log does not state that it has"
    )
    WHAT = "a lake"

    def __init__(self, folder: str | Path, *, files: int = 8) -> None:
        if files < 1:
            raise UsageError(f"files={files}: a table of a lake is at least one file")
        self._folder, self._most = LakeFolder(folder), files
        super().__init__(self._folder)
        self._held = HeldFiles()
        # Number of the table -> the files of the transaction.
        self._parts: dict[int, list[TableFile]] = {}
        # Whether all files are there, as far as it is known: others are not merged.
        self._whole = True

    def open(self, message: Open) -> Opened:
        """See :class:`Driver`. Raises UsageError for tables that no lake can have, ForeignStateError, RefusedError."""
        opened = self._open(message)
        self._folder.demand_files()
        return opened

    def open_damaged(self, message: Open) -> Opened:
        """See :class:`RepairableDriver`: files that are missing may be."""
        self._whole = False
        return self._open(message)

    def _open(self, message: Open) -> Opened:
        arrow()
        for table in message.tables:
            _check(table)
        state = message.state or {}
        self._message, self._pending = message, dict(state.get("staged", {}))
        found = self._folder.change(lambda before: self._manifest_with_tables(before, message))
        self._folder.demand_there(found, state)
        self._message = self._view().manifest.stored(message)
        # A multiset that an earlier release started goes on as it was: a Load and a Store for each row.
        both = zip(message.tables, self._message.tables)
        return Opened(changes=frozenset(at for at, (one, kept) in enumerate(both) if one.multiset == kept.multiset))

    def _manifest_with_tables(self, before: LakeManifest | None, message: Open) -> LakeManifest:
        """The manifest with all the tables of this materialization."""
        if before is None:
            tables = {table.name: table for table in message.tables}
            multisets = {name: table.soft for name, table in tables.items() if table.multiset}
            return LakeManifest(message.materialization, message.start, tables, counts=multisets)
        self._folder.demand_same(before, message)
        return before

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Look all keys up."""
        view, tables = self._view(), self._opened().tables
        for number, keys in self._asked.items():
            for key, values in view.look(tables[number].name, keys):
                yield Loaded(number, key, values)
        self._asked = {}
        yield Flushed()

    def changes(self, message: Changes) -> None:
        """Into the table's new file, when what is there is what they go with. Raises ConflictError otherwise."""
        pa, table = arrow(), self._opened().tables[message.binding]
        view = self._view(self._held)
        if table.multiset:
            counts.stage(table, message, self._file(message.binding), partial(view.like, table.name))
            return
        column = key_column(table)
        gone, come = (keys_by(table, column, rows) for rows in (message.gone, message.come))
        there = view.at(table.name, pa.compute.unique(pa.chunked_array([gone, come])), column)
        self._stage(message, gone, come, there, column)

    def hand(self) -> TargetWorker:
        """See :class:`DistributedDriver`. Executors must see the folder under the same path."""
        return LakeWorker(self._view(), self._opened().tables)

    def _view(self, held: HeldFiles | None = None) -> LakeView:
        _, manifest = self._folder.last()
        if manifest is None:
            raise self._missing_file()
        return LakeView(LakeFolder(self._folder.path), manifest, held)

    def _missing_file(self) -> OutputError:
        return OutputError(
            f"the manifests in {self._folder.path} are missing, and were there before: mount or restore the folder, "
            "and start again"
        )

    def took(self, number: int, receipt: Any) -> None:
        """See :class:`DistributedDriver`."""
        part = TableFile(*receipt)
        demand_there(self._folder.file(self._opened().tables[number].name, part))
        self._name(number, part)

    def _name(self, number: int, part: TableFile) -> None:
        self._parts.setdefault(number, []).append(part)

    def _take_files(self) -> dict[str, Any]:
        parts, self._parts = self._parts, {}
        tables = self._opened().tables
        return {tables[number].name: [[part.name, part.rows] for part in one] for number, one in parts.items()}

    def _apply(self, transaction: Mapping[str, Any]) -> None:
        wanted, upper = Range(*transaction["range"]), Antichain.from_plain(transaction["upper"])
        parts = {table: [TableFile(*part) for part in one] for table, one in transaction["files"].items()}

        def decide(before: LakeManifest | None) -> LakeManifest | None:
            # A range is applied in the order of its commits: an instance that commits has applied the one before.
            if before is None:
                # It was there when we opened it. To pass over that would be to acknowledge what is nowhere.
                raise self._missing_file()
            if before.has(wanted, upper):
                return None
            return before.with_transaction(wanted, upper, parts)

        self._folder.change(decide)
        for table in self._opened().tables if self._whole else ():
            self._merge(table)

    def repair(self, tables: Sequence[TableRepair], checkpoint: Checkpoint, demand: Callable[[], None]) -> None:
        """See :class:`RepairableDriver`. Each of these tables gets one new file, and one manifest names them all.

        Rows that a wrong file has by chance right are written, too: what else is wrong in it is not known.
        """
        opened = self._opened()
        parts = {}
        for one in tables:
            table = opened.tables[one.number]
            staged = self._file(one.number)
            for key, values in one.rows.items():
                staged.add(Store(one.number, key, values))
            parts[table.name] = (staged.finish(),)
        self._staged = {}
        failpoints.reach(REPAIR_STAGED)
        demand()

        def decide(before: LakeManifest | None) -> LakeManifest | None:
            if before is None:
                raise self._missing_file()
            if before.frontier != checkpoint.frontier:
                raise fenced(opened.materialization, opened.range)
            return replace(before, parts={**before.parts, **parts})

        self._folder.change(decide)
        failpoints.reach(REPAIRED)

    def _merge(self, table: Table) -> None:
        """Put one file in place of the youngest, when there are many."""
        _, manifest = self._folder.last()
        parts = () if manifest is None else manifest.parts.get(table.name, ())
        first = _first_merged([part.rows for part in parts])
        most = self._most * _APPENDED if table.multiset else self._most
        if manifest is None or len(parts) <= most or first == len(parts) - 1:
            return
        given = [read_part(file) for file in LakeView(self._folder, manifest).files(table.name)[first:]]
        if table.multiset:
            rows = counts.merged(table, given, manifest.counts[table.name])
        else:
            rows = current(given, key_column(table))
        if first == 0 and not table.multiset:
            # There is nothing before it that could come back.
            rows = rows.filter(arrow().compute.invert(rows[GONE]))
        staged = StagedFile(self._folder, table)
        staged.add_table(rows)
        merged = staged.finish()
        won = False

        def decide(before: LakeManifest | None) -> LakeManifest | None:
            nonlocal won
            there = self._folder.file(table.name, merged).exists()
            after = before.with_merged(table.name, parts[first:], merged) if before is not None and there else None
            # Who is overtaken in putting a manifest is asked again, though it may be what others have built upon.
            won = after is not None or (before is not None and merged in before.parts.get(table.name, ()))
            return after

        self._folder.change(decide)
        if not won:
            # Another instance has merged the same files: as good.
            self._folder.file(table.name, merged).unlink(missing_ok=True)


def _first_merged(rows: list[int]) -> int:
    """From which file on they are merged: a file joins in when those behind it have half as many rows as it has.

    >>> _first_merged([1000, 90, 30, 20, 10]), _first_merged([1000, 10])
    (1, 1)
    """
    first = len(rows) - 1
    behind = rows[first] if rows else 0
    while first > 0 and rows[first - 1] <= 2 * behind:
        first -= 1
        behind += rows[first]
    return first


def _check(table: Table) -> None:
    demand_view(table, "a lake")
    for column in table.fields:
        type_of(column)
        if column.name in (KEY, GONE, DIFF):
            raise UsageError(f"{table.name}: the column {column.name!r} is the lake's own: call it otherwise")
