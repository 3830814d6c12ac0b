"""A lake as it is read: of one commit, whole.

Of rows by key and of reductions, the last file that has a key counts; of a multiset, the changes of all files add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, OutputError, RefusedError
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.messages import Key, Table, Values
from cdcv2.materialize.targets.lake.counts import added, probe
from cdcv2.materialize.targets.lake.file_cache import HeldFiles
from cdcv2.materialize.targets.lake.files import (
    DIFF, GONE, KEY, StatedFile, arrow, current, file_schema, read_part, rows_of, type_of,
)
from cdcv2.materialize.targets.lake.history import Frontier, TableHistory, demand_times, requested, shown
from cdcv2.materialize.targets.lake.manifest import LakeFolder, LakeManifest
from cdcv2.rows.columns import rows_at


@dataclass(frozen=True)
class LakeView:
    """A lake as it was at one commit. While it is read, the lake may go on for a while; see :func:`open_lake`."""

    folder: LakeFolder
    manifest: LakeManifest
    #: files that need not be read
    held: HeldFiles | None = None
    #: tables that were read already, whole
    known: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is in the view."""
        return self.manifest.frontier

    def read(self, table: str, at: Frontier = None) -> Any:
        """The rows, as a pyarrow.Table; see :func:`read_lake`.

        Raises MissingLogError if the table is unknown, RefusedError if its rows at that time are not kept.
        """
        demand_times(at)
        if at is None and table in self.known:
            return self.known[table]
        if table in self.manifest.histories:
            return TableHistory(self.folder, self.manifest, table).read(at)
        pa, found = arrow(), self._table(table)
        if at is not None and requested(at) != self.frontier:
            raise RefusedError(
                f"the lake in {self.folder.path} is at {shown(self.frontier)}, and keeps no earlier rows of {table}: "
                "leave the time out, or ask the logs, or the output of replay"
            )
        if found.multiset:
            return self._added(found)
        names = [one.name for one in found.fields]
        rows = current(self._parts(table))
        if rows is None:
            return pa.schema([pa.field(one.name, type_of(one)) for one in found.fields]).empty_table()
        return rows.filter(pa.compute.invert(rows[GONE])).select(names)

    def _added(self, table: Table) -> Any:
        """Each row of a multiset once, and how often it is there."""
        pa = arrow()
        rows = pa.concat_tables([file_schema(table).empty_table(), *self._parts(table.name)])
        places, sums = added(table, rows, self.manifest.counts[table.name])
        wrong = pa.compute.less(sums, 0)
        if pa.compute.any(wrong, min_count=0).as_py():
            row = rows_at(rows, places.filter(wrong).slice(0, 1)).drop_columns([DIFF]).to_pylist()[0]
            raise OutputError(
                f"the lake in {self.folder.path} has the row {row} of {table.name} {sums.filter(wrong)[0]} times: a "
                "file was lost or changed. Restore the folder, or begin again with it and the recovery log empty"
            )
        count = pa.field(table.values[-1].name, pa.int64())
        return rows_at(rows, places).drop_columns([DIFF]).append_column(count, sums)

    def rows(self, table: str) -> Iterator[tuple[Key, Values]]:
        """The same as Python values: keys and values; of a multiset, the row, and the row with its count."""
        return rows_of(self._table(table), self.read(table))

    def stored_table(self, table: Table) -> Table:
        """The table with its columns in the types that they were made in."""
        return self.manifest.stored_table(table)

    def close(self) -> None:
        """Nothing is held open."""

    def look(self, table: str, keys: Iterable[Key]) -> Iterator[tuple[Key, Values]]:
        """What is at these keys; nothing for those that are not there. Cost: reads every file's keys."""
        pa = arrow()
        yield from rows_of(self._table(table), self.at(table, pa.array([canonical(key) for key in keys], pa.binary())))

    def at(self, table: str, keys: Any, column: str = KEY) -> Any:
        """The same as columns, of keys as a column has them: a pyarrow.Table with the columns of a file."""
        pa = arrow()
        rows = current(self._parts(table, keys, column), column)
        if rows is None:
            return file_schema(self._table(table)).empty_table()
        return rows.filter(pa.compute.invert(rows[GONE]))

    def like(self, table: str, rows: Any) -> Any:
        """Of a multiset, all rows that could be these: a pyarrow.Table with the columns of a file, as ``rows`` has."""
        column = probe(rows)
        wanted = None if column is None else arrow().compute.unique(rows[column])
        return arrow().concat_tables([rows.schema.empty_table(), *self._parts(table, wanted, column or "")])

    def _table(self, name: str) -> Table:
        try:
            return self.manifest.stored_table(self.manifest.tables[name])
        except KeyError:
            there = ", ".join([*self.manifest.tables, *self.manifest.histories])
            raise MissingLogError(f"the lake in {self.folder.path} has no table {name!r}; it has {there}") from None

    def files(self, table: str) -> list[StatedFile]:
        """The table's files, and what the manifest states of each."""
        parts, columns = self.manifest.parts.get(table, ()), file_schema(self._table(table)).names
        return [StatedFile(self.folder.file(table, part), part.rows, columns) for part in parts]

    def _parts(self, table: str, wanted: Any = None, column: str = KEY) -> list[Any]:
        pa, files = arrow(), self.files(table)
        last = [] if self.held is None else self.held.last_of(table, files)
        found = [read_part(file, wanted, column) for file in files[: len(files) - len(last)]]
        if wanted is None or not last:
            return found + last
        # All at once: what is wanted is hashed by each call.
        given = pa.chunked_array([one for rows in last for one in rows[column].chunks], last[0][column].type)
        there, at = pa.compute.is_in(given, wanted), 0
        for rows in last:
            found.append(rows.filter(there.slice(at, len(rows))))
            at += len(rows)
        return found


def open_lake(folder: str | Path) -> LakeView:
    """The lake in a folder as it is now: whole commits, over all its tables.

    Files that were replaced since stay for some more commits; an older view raises OutputError: open a new one.
    Raises MissingLogError where no lake is.
    """
    place = LakeFolder(folder)
    _, manifest = place.last()
    if manifest is None:
        raise MissingLogError(f"there is no lake in {place.path}: the name is wrong, or nothing was materialized yet")
    return LakeView(place, manifest)


def held_lake(view: LakeView, tables: Iterable[str]) -> LakeView:
    """The lake with these tables read, at this commit or a later one: its files may be replaced then.

    Raises OutputError for a file that is missing or damaged, and that the newest manifest names.
    """
    names = [table for table in tables if table in view.manifest.tables]
    while True:
        try:
            return replace(view, known={table: view.read(table) for table in names})
        except OutputError:
            newest = open_lake(view.folder.path)
            if newest.manifest == view.manifest:
                raise
            # It was replaced while it was read, by many commits.
            view = newest


def read_lake(folder: str | Path, table: str, at: Frontier = None) -> Any:
    """See :func:`cdcv2.read_lake`."""
    demand_times(at)
    while True:
        view = open_lake(folder)
        try:
            return view.read(table, at)
        except OutputError:
            # It may have been replaced while it was read, by many commits; but not a file of a history.
            if table in view.manifest.histories or view.folder.last()[1] == view.manifest:
                raise
