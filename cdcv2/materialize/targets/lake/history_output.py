"""The output of replay, written: a lake of histories, from Spark or without it.

::

    OUT/_manifests/00000000000000000007.json    tables, frontier, and the files that are new in it
    OUT/accounts/<number>-<attempt>/part-….parquet    columns data (the row), time, diff

**The output carries its own upper.** A run that applies the updates of ``[lower, upper)`` is refused when ``lower`` is
ahead of it (there would be a gap); only rows beyond it are written; and it moves in the same atomic step in which
their files begin to count: the put of the next manifest. So it does not matter how often, by which run or with which
bounds the same history is applied. Files that no manifest names are nothing: readers do not look for files.

**It states of which logs it was made**, whichever writer made it, and takes no rows of others: asked before each batch,
as logs may be made again at any moment. A lake of an earlier release may not state it: it takes those that come first.

A manifest names all tables, so every reader sees all of them at one frontier. What it holds is in
:mod:`cdcv2.materialize.targets.lake.manifest`, what may be read of it in :mod:`cdcv2.materialize.targets.lake.history`.
"""

from __future__ import annotations

import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import pyarrow.compute as pc
import pyarrow.parquet as parquet

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, OutputError, RefusedError, UsageError
from cdcv2.logs.coverage import ALL, TableCoverage
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.targets.lake.files import reason
from cdcv2.materialize.targets.lake.history import shown, written_columns
from cdcv2.materialize.targets.lake.manifest import REPLAY, LakeFolder, LakeManifest
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.protocol.messages import Update
from cdcv2.rows.columns import UpdateBatch, arrow_schema
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import Shape
from cdcv2.store.numbered import durable
from cdcv2.views.identity import Provenance, demand_provenance

#: What a carrier of a table's updates is: a DataFrame, or a list.
R = TypeVar("R")

_FOLDER = "_manifests"
#: What to do where the lake was made of other logs.
_OTHER_LOGS = "Give it the logs that it was made of; or write into another folder"
_ATTEMPT = re.compile(r"(\d{20})-[0-9a-f]{32}\Z")

_AFTER_FILES = failpoints.declare("output.after-files", "the rows are in files; no manifest names them yet")
_AFTER_MANIFEST = failpoints.declare(
    "output.after-manifest", "the output has them; the reader's manifest does not state it"
)


def demand_not_behind(place: str, upper: Antichain, released: Antichain, state: str = "the reader's state") -> None:
    """Raise RefusedError if a target lacks something of what a state has given out, and will not give out again."""
    if not upper.dominates(released):
        raise RefusedError(
            f"{state} has given out everything up to {shown(released)}, and {place} has it only up to {shown(upper)}: "
            "that was removed, replaced, or restored from an older backup, and the state was not. Restore what goes "
            "with the state; or remove the state and its checkpoint, and all is read again, and only what lacks is "
            "added there. Each target needs a state of its own"
        )


class HistoryOutput(ABC, Generic[R]):
    """The output in ``folder`` for some tables; ``begin`` makes it if there is none. One thread at a time.

    ``covered`` has the tables that the connector covers, and where those begin that begin later; manifests state it.
    ``made_of`` states what the rows are of, as far as their logs state it by now; by default nothing is known of them.

    Raises ForeignStateError when the folder is the output of other tables, other row types or another start,
    UsageError for a table that is called like its manifests' folder.
    """

    def __init__(
        self, folder: str | Path, tables: Mapping[str, RowType], start: Antichain, covered: TableCoverage = ALL,
        made_of: Callable[[], Provenance] = Provenance,
    ) -> None:
        self._made_of = made_of
        self._lake = LakeFolder(folder)
        self.folder = self._lake.path
        self.place = f"the output in {self.folder}"
        if _FOLDER in tables:
            raise UsageError(f"a table called {_FOLDER} cannot be replayed: the output has its own files there")
        histories = {name: tables[name] for name in sorted(tables)}
        self._cleaned = self._begun = False
        self._number, found = self._lake.last()
        if found is not None:
            self._check(found, histories, start)
            self._manifest = replace(found, coverage=covered)
            return
        self._manifest = LakeManifest(REPLAY, start, {}, histories=histories, coverage=covered)

    def begin(self) -> None:
        """Make it where there is none. Raises OutputError when nothing can be written, RefusedError when it lost files.
        """
        if self._begun:
            return
        if self._number < 0:
            self._lake.append(0, None, self._manifest)
            self._number = 0
        self._lake.demand_files()
        self._begun = True

    @property
    def is_there(self) -> bool:
        """Whether it was made."""
        return self._number >= 0

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is in the output."""
        return self._manifest.frontier

    @property
    def reader(self) -> Mapping[str, Any]:
        """What the reader that wrote last has kept here."""
        return self._manifest.reader

    def found(self) -> Antichain:
        """Up to where it has everything, as it is now: it may have been replaced since. Raises what is wrong there."""
        _, newest = self._lake.last()
        if newest is None:
            return self._manifest.start
        self._check(newest, self._manifest.histories, self._manifest.start)
        return newest.frontier

    def demand_made_of(self, now: Provenance) -> None:
        """Raise ForeignStateError unless it was made of these logs, as far as it states that.

        A topic states no timeline where its last offset has no message: then its identity alone is compared.
        """
        kept = {key: value for key, value in self.reader.items() if key != "timeline" or now.timeline is not None}
        checkpoint = Checkpoint(self.upper, kept)
        demand_provenance(str(self.folder), now, checkpoint, remedy=_OTHER_LOGS)

    def apply(
        self, rows: Mapping[str, R], lower: Antichain, upper: Antichain,
        reader: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, int]:
        """Take the updates of each table at times in ``[lower, upper)``, each identity once; how many took effect.

        ``reader``: what the reader keeps here with them, beside what is there. Raises OutputError when files cannot be
        written, ForeignStateError for rows of other logs than it was made of.
        """
        self.begin()
        begin = self.upper
        demand_not_behind(self.place, begin, lower)
        if begin.dominates(upper):
            return {}
        of = self._made_of()
        self.demand_made_of(of)
        number = self._number + 1
        written = {table: self._write(table, some, number, begin) for table, some in sorted(rows.items())}
        durable(*(self._lake.file(table, part) for table, parts in written.items() for part in parts))
        failpoints.reach(_AFTER_FILES)
        kept = {**self.reader, **reader, **of.to_plain()}
        after = replace(self._manifest.with_transaction(Range(), upper, written), reader=kept)
        self._lake.append(number, self._manifest, after)
        self._number, self._manifest = number, after
        failpoints.reach(_AFTER_MANIFEST)
        if not self._cleaned:
            self._clean()
            self._cleaned = True
        return {table: sum(part.rows for part in parts) for table, parts in written.items() if parts}

    # -- inside ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def _write(self, table: str, rows: R, number: int, lower: Antichain) -> list[TableFile]:
        """Write the updates that are beyond ``lower`` into files of a new attempt; none where there is no update."""

    def _attempt(self, table: str, number: int) -> Path:
        """A folder for files, under a name that no other has."""
        return self.folder / table / f"{number:020d}-{uuid.uuid4().hex}"

    def _check(self, newest: LakeManifest, wanted: Mapping[str, RowType], start: Antichain) -> None:
        remedy = "give each its own output folder, or remove this one and the reader's state to start over"
        if newest.tables:
            raise ForeignStateError(f"{self.folder} holds the lake of {newest.materialization!r}: {remedy}")
        if list(newest.histories) != list(wanted):
            raise ForeignStateError(
                f"{self.folder} is the output of the tables {', '.join(newest.histories)}, not of "
                f"{', '.join(wanted)}: {remedy}"
            )
        for table, row_type in newest.histories.items():
            if row_type != wanted[table]:
                raise ForeignStateError(f"{self.folder} holds rows of {table} of another type: {remedy}")
        if newest.start != start:
            raise ForeignStateError(
                f"{self.folder} begins at {newest.start.to_plain()}, not at {start.to_plain()}: {remedy}"
            )

    def _clean(self) -> None:
        """Remove the files of dead attempts: those for numbers that are decided, and that nothing names."""
        named = {Path(part.name).parent.name for parts in self._manifest.parts.values() for part in parts}
        for table in self._manifest.histories:
            folder = self.folder / table
            for path in folder.iterdir() if folder.is_dir() else ():
                found = _ATTEMPT.match(path.name)
                if found and int(found.group(1)) <= self._number and path.name not in named:
                    shutil.rmtree(path, ignore_errors=True)


class HistoryFolder(HistoryOutput[Sequence[Update]]):
    """The same, written without Spark: updates as the reader of logs gives them."""

    def begin(self) -> None:
        """As of the class above; raises UsageError, before there is anything, for a table that it cannot hold."""
        if not self.is_there:
            for table in self._manifest.histories:
                self._demand_held(table)
        super().begin()

    def _demand_held(self, table: str) -> None:
        """Raise UsageError unless the rows of the table have columns in a file."""
        row_type = self._manifest.histories[table]
        if arrow_schema(row_type) is None or _has_nulls(row_type.shape, within=False):
            raise UsageError(
                f"{table}: a lake cannot hold its rows: a decimal of more than 76 digits, a record without columns, or "
                "a map or an array with values of the type null. Leave the table out"
            )

    def _write(self, table: str, rows: Sequence[Update], number: int, lower: Antichain) -> list[TableFile]:
        self._demand_held(table)
        batch = UpdateBatch.of(self._manifest.histories[table], rows)
        (least,) = lower
        if batch is None or not isinstance(least, int):
            raise UsageError(
                f"{table}: a lake cannot hold what is in its log: a time or a count that is no whole number of 64 "
                "bits. Leave the table out"
            )
        fresh = batch.filter(pc.greater_equal(batch.times, least))
        if not len(fresh):
            return []
        path = self._attempt(table, number) / "part-00000.parquet"
        try:
            path.parent.mkdir(parents=True)
            parquet.write_table(written_columns(fresh), path, compression="zstd")
        except OSError as cause:
            raise OutputError(
                f"{self.place} cannot be written: {reason(cause)}; make room or grant the rights, and start again: "
                "nothing of the batch counts"
            ) from cause
        return [TableFile(f"{path.parent.name}/{path.stem}", len(fresh), least)]


def _has_nulls(shape: Shape, *, within: bool) -> bool:
    """Whether a map or an array has values of the type null, for which Arrow makes no columns of another name."""
    if shape.kind == "record":
        return any(_has_nulls(column.shape, within=within) for column in shape.columns)
    if shape.kind in ("optional", "array", "map"):
        return _has_nulls(shape.item, within=within or shape.kind != "optional")
    return within and shape.kind == "null"
