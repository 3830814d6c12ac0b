"""The output of replay, written and read on Spark: a lake of histories.

::

    OUT/_manifests/00000000000000000007.json    tables, frontier, and the files that are new in it
    OUT/accounts/<number>-<attempt>/part-….parquet    columns data (the row), time, diff

**The output carries its own upper.** A run that applies the updates of ``[lower, upper)`` is refused when ``lower`` is
ahead of it (there would be a gap); only rows beyond it are written; and it moves in the same atomic step in which
their files begin to count: the put of the next manifest. So it does not matter how often, by which run or with which
bounds the same history is applied. Files that no manifest names are nothing: readers do not look for files.

A manifest names all tables, so every reader sees all of them at one frontier. What it holds is in
:mod:`cdcv2.materialize.targets.lake.manifest`, what may be read of it in :mod:`cdcv2.materialize.targets.lake.history`.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, OutputError, RefusedError, UsageError
from cdcv2.logs.coverage import ALL, TableCoverage
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.targets.lake.files import rows_in
from cdcv2.materialize.targets.lake.history import Frontier, demand_times, history_of, miscounted, shown
from cdcv2.materialize.targets.lake.manifest import REPLAY, LakeFolder, LakeManifest
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.rows.row_type import RowType
from cdcv2.spark.codec import beyond
from cdcv2.spark.equality import as_rows, grouped
from cdcv2.spark.paths import readable, writable
from cdcv2.spark.schema import updates_type
from cdcv2.store.numbered import durable
from cdcv2.timeline.binding import check_int

_FOLDER = "_manifests"
_ATTEMPT = re.compile(r"(\d{20})-[0-9a-f]{32}\Z")

_AFTER_FILES = failpoints.declare("output.after-files", "the rows are in files; no manifest names them yet")
_AFTER_MANIFEST = failpoints.declare(
    "output.after-manifest", "the output has them; the reader's manifest does not state it"
)


class Target(Protocol):
    """Where finished rows go. Called by one thread at a time, only by the job's driver."""

    @property
    def place(self) -> str:
        """What it is and where, in the words of errors."""

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it has been applied."""

    def found(self) -> Antichain:
        """Up to where it has everything, as it is now: it may have been replaced since. Raises what is wrong there.

        Called before :meth:`begin`, and in each batch; changes nothing.
        """

    def begin(self) -> None:
        """Make it where there is none, or take it over. Called once, before anything is applied."""

    def apply(self, rows: Mapping[str, DataFrame], lower: Antichain, upper: Antichain) -> dict[str, int]:
        """Take the updates (data, time, diff) of each table at times in ``[lower, upper)``, each identity once.

        A table without rows may be absent. The rows must take effect together with the move of ``upper``, or not at
        all; those not beyond the target's own upper must be left out. Called again with the same or with other
        bounds after a crash, as the first call may have taken effect. Returns how many rows of each table took effect.
        Raises RefusedError when ``lower`` is ahead of the target's upper (:func:`demand_not_behind`). Not promised:
        that bounds are the same in the next run.
        """


def demand_not_behind(place: str, upper: Antichain, released: Antichain, state: str = "the reader's state") -> None:
    """Raise RefusedError where a target lacks something of what a state has given out, and will not give out again."""
    if not upper.dominates(released):
        raise RefusedError(
            f"{state} has given out everything up to {shown(released)}, and {place} has it only up to {shown(upper)}: "
            "that was removed, replaced, or restored from an older backup, and the state was not. Restore what goes "
            "with the state; or remove the state and its checkpoint, and all is read again, and only what lacks is "
            "added there. Each target needs a state of its own"
        )


class OutputFolder:
    """The output in ``folder`` for some tables; ``begin`` makes it if there is none. One thread at a time.

    ``covered`` has the tables that the connector covers, and where those begin that begin later; manifests state it.

    Raises ForeignStateError when the folder is the output of other tables, other row types or another start,
    UsageError for a table that is called like its manifests' folder.
    """

    def __init__(
        self, folder: str | Path, tables: Mapping[str, RowType], start: Antichain, covered: TableCoverage = ALL
    ) -> None:
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
        """See :class:`Target`. Raises OutputError when nothing can be written, RefusedError when it lost files."""
        if self._begun:
            return
        if self._number < 0:
            self._lake.append(0, None, self._manifest)
            self._number = 0
        self._lake.demand_files()
        self._begun = True

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is in the output."""
        return self._manifest.frontier

    def found(self) -> Antichain:
        """See :class:`Target`."""
        _, newest = self._lake.last()
        if newest is None:
            return self._manifest.start
        self._check(newest, self._manifest.histories, self._manifest.start)
        return newest.frontier

    def apply(self, rows: Mapping[str, DataFrame], lower: Antichain, upper: Antichain) -> dict[str, int]:
        """See :class:`Target`. Raises OutputError when files cannot be written."""
        self.begin()
        begin = self.upper
        demand_not_behind(self.place, begin, lower)
        if begin.dominates(upper):
            return {}
        number = self._number + 1
        written = {table: self._write(table, frame, number, begin) for table, frame in sorted(rows.items())}
        durable(*(self._lake.file(table, part) for table, parts in written.items() for part in parts))
        failpoints.reach(_AFTER_FILES)
        after = self._manifest.with_transaction(Range(), upper, written)
        self._lake.append(number, self._manifest, after)
        self._number, self._manifest = number, after
        failpoints.reach(_AFTER_MANIFEST)
        if not self._cleaned:
            self._clean()
            self._cleaned = True
        return {table: sum(part.rows for part in parts) for table, parts in written.items() if parts}

    # -- inside ---------------------------------------------------------------------------------------------------

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

    def _write(self, table: str, frame: DataFrame, number: int, lower: Antichain) -> list[TableFile]:
        folder = self.folder / table / f"{number:020d}-{uuid.uuid4().hex}"
        counted = Observation()
        fresh = frame.where(beyond(lower)).select("data", "time", "diff")
        fresh.observe(counted, F.count(F.lit(1)).alias("rows")).write.parquet(writable(folder))
        rows = counted.get.get("rows", 0)
        if not rows:
            shutil.rmtree(folder, ignore_errors=True)
            return []
        found = {path: rows_in(path) for path in sorted(folder.glob("*.parquet"))}
        if sum(found.values()) != rows:
            raise OutputError(
                f"{folder} has {sum(found.values())} rows after Spark has written {rows} to it: the output must be a "
                "folder that the driver and all executors see under the same path"
            )
        (least,) = lower
        return [TableFile(f"{folder.name}/{path.stem}", some, check_int(least)) for path, some in found.items() if some]

    def _clean(self) -> None:
        """Remove the files of dead attempts: those for numbers that are decided, and that nothing names."""
        named = {Path(part.name).parent.name for parts in self._manifest.parts.values() for part in parts}
        for table in self._manifest.histories:
            folder = self.folder / table
            for path in folder.iterdir() if folder.is_dir() else ():
                found = _ATTEMPT.match(path.name)
                if found and int(found.group(1)) <= self._number and path.name not in named:
                    shutil.rmtree(path, ignore_errors=True)


def history(
    spark: SparkSession,
    path: str | Path,
    frontier: Frontier = None,
    *,
    table: str | None = None,
) -> DataFrame:
    """The updates (data, time, diff) of a table up to a time, or at times not beyond a frontier, each identity once.

    See :func:`as_of` for the arguments and errors.
    """
    demand_times(frontier)
    of = history_of(path, table)
    through = of.through(frontier)
    paths, schema = [readable(one) for one in of.paths(through)], updates_type(of.row_type)
    rows = spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
    return rows.where(~beyond(through))


def as_of(
    spark: SparkSession,
    path: str | Path,
    frontier: Frontier = None,
    *,
    table: str | None = None,
    multiplicity: str | None = "multiplicity",
) -> DataFrame:
    """A table at a finished time or frontier: the sum of all updates up to it.

    ``path`` is the output of replay; ``frontier`` a single time t, for everything up to and including t, as ``cdcv2
    as-of --at`` has it, or an antichain or its elements, for everything that is not beyond it; by default all that is
    finished. ``table`` may be left out when there is only one. The columns
    are the table's own, called as in the database, and one with the given name that has how often the row is there;
    with None instead of a name, a row is repeated that often. (Columns that differ by case only need
    ``spark.sql.caseSensitive``.)

    >>> as_of(spark, "out", 1200, table="accounts")         # doctest: +SKIP
    DataFrame[id: bigint, balance: bigint, multiplicity: bigint]

    Raises RefusedError when that is not finished, naming what is; UsageError for a text, for a time before the first
    one at which the output has anything, in any of its tables, and for one before the connector covered this table;
    IncompleteError for a table that it does not cover, and without ``frontier`` where nothing is finished yet;
    MalformedError when a row would be there less than zero times,
    or its multiplicity does not fit 64 bits; UsageError for a table or column name that cannot be; MissingLogError when
    there is no output. Cost: one job at once, to look for negative multiplicities.
    """
    demand_times(frontier)
    of = history_of(path, table)
    if frontier is None:
        of.demand_some()
    row_type = of.row_type
    if multiplicity in row_type.columns:
        raise UsageError(f"the table has a column {multiplicity!r} of its own: give another name for the multiplicity")
    rows = history(spark, path, frontier, table=table)
    each = grouped(rows, row_type).agg(F.sum(F.col("diff").cast("decimal(38,0)")).alias("times"))
    summed = as_rows(each, row_type)
    wrong = summed.where("times < 0 or times > 9223372036854775807").first()
    if wrong is not None:
        raise miscounted(row_type.row(tuple(wrong["data"])), wrong["times"])
    there = summed.where("times <> 0").withColumn("times", F.col("times").cast("bigint"))
    if multiplicity is None:
        # array_repeat takes an int; what does not fit one would not fit a partition either.
        there = there.select("data", F.explode(F.array_repeat(F.lit(0), F.col("times").cast("int"))))
        return there.select("data.*").toDF(*row_type.columns)
    return there.select("data.*", "times").toDF(*row_type.columns, multiplicity)
