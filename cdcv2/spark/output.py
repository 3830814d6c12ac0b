"""The output of replay: a folder of Parquet files per table, and a manifest of those that count, with their frontier.

::

    OUT/_manifests/00000000000000000007.json    tables, upper, and the files that are new in it
    OUT/accounts/<number>-<attempt>/part-….parquet    columns data (the row), time, diff

**The output carries its own upper.** A run that applies the updates of ``[lower, upper)`` is refused when ``lower`` is
ahead of it (there would be a gap); only rows beyond it are written; and it moves in the same atomic step in which
their files begin to count: the put of the next manifest. So it does not matter how often, by which run or with which
bounds the same history is applied. Files that no manifest names are nothing: readers do not look for files.

A manifest names all tables, so every reader sees all of them at one frontier. It lists the files that it adds, and
every ``FULL``-th lists all; ``builds_on`` is the number of the last such one.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cdcv2 import failpoints
from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME, Time, check_time, less_equal
from cdcv2.errors import (
    ForeignStateError, IncompleteError, MalformedError, MissingLogError, OutputError, RefusedError, UsageError,
)
from cdcv2.logs.coverage import ALL, TableCoverage
from cdcv2.protocol.timeline import demand_started
from cdcv2.rows.row_type import RowType
from cdcv2.spark.codec import beyond
from cdcv2.spark.equality import as_rows, grouped
from cdcv2.spark.paths import readable, writable
from cdcv2.spark.schema import updates_type
from cdcv2.store.numbered import NumberedFiles, durable, local_path
from cdcv2.timeline.binding import check_int

#: The version of the manifests.
VERSION = 1
#: Every so many manifests, one lists all files.
FULL = 64

_FOLDER = "_manifests"
_ATTEMPT = re.compile(r"(\d{20})-[0-9a-f]{32}\Z")

_AFTER_FILES = failpoints.declare("output.after-files", "the rows are in files; no manifest names them yet")
_AFTER_MANIFEST = failpoints.declare(
    "output.after-manifest", "the output has them; the reader's manifest does not say so"
)


class Target(Protocol):
    """Where finished rows go. Called by one thread at a time, only by the job's driver."""

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it has been applied."""

    def apply(self, rows: Mapping[str, DataFrame], lower: Antichain, upper: Antichain) -> dict[str, int]:
        """Take the updates (data, time, diff) of each table at times in ``[lower, upper)``, each identity once.

        A table without rows may be absent. The rows must take effect together with the move of ``upper``, or not at
        all; those not beyond the target's own upper must be left out. Called again with the same or with other
        bounds after a crash, as the first call may have taken effect. Returns how many rows of each table took effect.
        Raises RefusedError when ``lower`` is ahead of the target's upper. Not promised: that
        bounds are the same in the next run.
        """


class OutputFiles(NamedTuple):
    """Files that count together: their table, paths below the output, the interval of their times, their rows."""

    table: str
    paths: list[str]
    lower: Antichain
    upper: Antichain
    rows: int


class OutputFolder:
    """The output in ``folder`` for some tables; made if there is none. One thread at a time.

    ``covered`` has the tables that the connector covers, and where those begin that begin later; manifests state it.

    Raises ForeignStateError when the folder is the output of other tables, other row types or another start,
    UsageError for a table that is called like its manifests' folder.
    """

    def __init__(
        self, folder: str | Path, tables: Mapping[str, RowType], start: Antichain, covered: TableCoverage = ALL
    ) -> None:
        self.folder, self._covered = local_path(folder), covered
        if _FOLDER in tables:
            raise UsageError(f"a table called {_FOLDER} cannot be replayed: the output has its own files there")
        self._tables = {name: tables[name].schema for name in sorted(tables)}
        self._start = start
        self._numbered = NumberedFiles(self.folder / _FOLDER, "the output")
        self._cleaned = False
        numbers = self._numbered.numbers()
        if numbers:
            self._number = numbers[-1]
            newest = _read(self._numbered, self._number)
            self._check(newest)
            self._builds_on = self._number if newest["builds_on"] is None else newest["builds_on"]
            self._upper = Antichain.from_plain(newest["upper"])
        else:
            self._number, self._builds_on, self._upper = 0, 0, start
            self._put(0, [], start, start)

    @property
    def upper(self) -> Antichain:
        """Everything not beyond it is in the output."""
        return self._upper

    def apply(self, rows: Mapping[str, DataFrame], lower: Antichain, upper: Antichain) -> dict[str, int]:
        """See :class:`Target`. Raises OutputError when files cannot be written."""
        if not self._upper.dominates(lower):
            raise RefusedError(
                f"the output in {self.folder} has everything up to {_shown(self._upper)}, and is offered what comes "
                f"from {_shown(lower)} on: it was replaced or is older than the reader's state. Remove the reader's "
                "state and checkpoint; then all is read again, and the output takes what it lacks"
            )
        if self._upper.dominates(upper):
            return {}
        number, begin = self._number + 1, self._upper
        written = [self._write(table, frame, number, begin, upper) for table, frame in sorted(rows.items())]
        fresh = [each for each in written if each is not None]
        durable(*(self.folder / path for each in fresh for path in each.paths))
        failpoints.reach(_AFTER_FILES)
        self._put(number, fresh, begin, upper)
        failpoints.reach(_AFTER_MANIFEST)
        if not self._cleaned:
            self._clean()
            self._cleaned = True
        return {each.table: each.rows for each in fresh}

    # -- inside ---------------------------------------------------------------------------------------------------

    def _check(self, newest: Mapping[str, Any]) -> None:
        remedy = "give each its own output folder, or remove this one and the reader's state to start over"
        if list(newest["tables"]) != list(self._tables):
            raise ForeignStateError(
                f"{self.folder} is the output of the tables {', '.join(newest['tables'])}, not of "
                f"{', '.join(self._tables)}: {remedy}"
            )
        for table, schema in newest["tables"].items():
            if RowType(schema) != RowType(self._tables[table]):
                raise ForeignStateError(f"{self.folder} holds rows of {table} of another type: {remedy}")
        if newest["start"] != self._start.to_plain():
            raise ForeignStateError(
                f"{self.folder} begins at {newest['start']}, not at {self._start.to_plain()}: {remedy}"
            )

    def _write(
        self, table: str, frame: DataFrame, number: int, lower: Antichain, upper: Antichain
    ) -> OutputFiles | None:
        folder = self.folder / table / f"{number:020d}-{uuid.uuid4().hex}"
        counted = Observation()
        fresh = frame.where(beyond(lower)).select("data", "time", "diff")
        fresh.observe(counted, F.count(F.lit(1)).alias("rows")).write.parquet(writable(folder))
        if not counted.get.get("rows", 0):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        paths = sorted(folder.glob("*.parquet"))
        if not paths:
            raise OutputError(
                f"{folder} is empty after Spark has written to it: the output must be a folder that the driver and "
                "all executors see under the same path"
            )
        names = [str(path.relative_to(self.folder)) for path in paths]
        return OutputFiles(table, names, lower, upper, counted.get["rows"])

    def _put(self, number: int, fresh: list[OutputFiles], lower: Antichain, upper: Antichain) -> None:
        full = number % FULL == 0
        listed = [*_files(self._numbered, self._number), *fresh] if full and number else fresh
        plain = {
            "version": VERSION,
            "tables": self._tables,
            "start": self._start.to_plain(),
            "lower": lower.to_plain(),
            "upper": upper.to_plain(),
            "builds_on": None if full else self._builds_on,
            "coverage": self._covered.to_plain(),
            "files": [[*each[:2], each.lower.to_plain(), each.upper.to_plain(), each.rows] for each in listed],
        }
        self._numbered.put(number, plain)
        self._number, self._upper = number, upper
        if full:
            self._builds_on = number

    def _clean(self) -> None:
        """Remove the files of dead attempts: those for numbers that are decided, and that nothing names."""
        named = {
            Path(path).parent.name for each in _files(self._numbered, self._number) for path in each.paths
        }
        for table in self._tables:
            folder = self.folder / table
            for path in folder.iterdir() if folder.is_dir() else ():
                found = _ATTEMPT.match(path.name)
                if found and int(found.group(1)) <= self._number and path.name not in named:
                    shutil.rmtree(path, ignore_errors=True)


def finished(path: str | Path) -> Antichain:
    """The frontier up to which the output in ``path`` has everything. Needs no Spark session.

    Raises MissingLogError when there is no output.
    """
    return Antichain.from_plain(_newest(path)[1]["upper"])


def files(path: str | Path) -> list[OutputFiles]:
    """The files of the output in ``path`` that count, in the order in which they came. Needs no Spark session.

    Raises MissingLogError when there is no output.
    """
    numbered, newest = _newest(path)
    return _files(numbered, newest["number"])


def history(
    spark: SparkSession,
    path: str | Path,
    frontier: Antichain | Iterable[int] | int | None = None,
    *,
    table: str | None = None,
) -> DataFrame:
    """The updates (data, time, diff) of a table up to a time, or at times not beyond a frontier, each identity once.

    See :func:`as_of` for the arguments and errors.
    """
    _demand_times(frontier)
    numbered, newest = _newest(path)
    name = _table(newest, table, path)
    through = _frontier(newest, frontier, path)
    _demand_stated(newest, name, through)
    listed = _files(numbered, newest["number"])
    if isinstance(frontier, int):
        demand_started(frontier, _first(spark, path, newest, listed, frontier))
    paths = [
        readable(local_path(path) / one) for each in listed
        if each.table == name and not each.lower.dominates(through) for one in each.paths
    ]
    schema = updates_type(RowType(newest["tables"][name]))
    rows = spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
    return rows.where(~beyond(through))


def as_of(
    spark: SparkSession,
    path: str | Path,
    frontier: Antichain | Iterable[int] | int | None = None,
    *,
    table: str | None = None,
    multiplicity: str | None = "multiplicity",
) -> DataFrame:
    """A table at a finished time or frontier: the sum of all updates up to it.

    ``path`` is the output of replay; ``frontier`` a single time t, for everything up to and including t, as ``cdcv2
    as-of --at`` has it, or an antichain or its elements, for everything that is not beyond it; by default all that is
    finished. ``table`` may be left out when there is only one. The columns
    are the table's own, called as in the database, and one with the given name that says how often the row is there;
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
    _demand_times(frontier)
    _, newest = _newest(path)
    name = _table(newest, table, path)
    if frontier is None:
        _demand_some(newest, name, path)
    row_type = RowType(newest["tables"][name])
    if multiplicity in row_type.columns:
        raise UsageError(f"the table has a column {multiplicity!r} of its own: give another name for the multiplicity")
    rows = history(spark, path, frontier, table=table)
    each = grouped(rows, row_type).agg(F.sum(F.col("diff").cast("decimal(38,0)")).alias("times"))
    summed = as_rows(each, row_type)
    wrong = summed.where("times < 0 or times > 9223372036854775807").first()
    if wrong is not None:
        shown = row_type.row(tuple(wrong["data"]))
        raise MalformedError(
            f"at this frontier {shown!r} is in the table {wrong['times']} times: the writer of the log is at fault"
        )
    there = summed.where("times <> 0").withColumn("times", F.col("times").cast("bigint"))
    if multiplicity is None:
        # array_repeat takes an int; what does not fit one would not fit a partition either.
        there = there.select("data", F.explode(F.array_repeat(F.lit(0), F.col("times").cast("int"))))
        return there.select("data.*").toDF(*row_type.columns)
    return there.select("data.*", "times").toDF(*row_type.columns, multiplicity)


def _newest(path: str | Path) -> tuple[NumberedFiles, dict[str, Any]]:
    numbered = NumberedFiles(local_path(path) / _FOLDER, "the output")
    numbers = numbered.numbers()
    if not numbers:
        raise MissingLogError(f"{path} is no output of replay: it has no manifest in {_FOLDER}")
    return numbered, {**_read(numbered, numbers[-1]), "number": numbers[-1]}


def _read(numbered: NumberedFiles, number: int) -> dict[str, Any]:
    plain = numbered.read(number)
    if plain.get("version") != VERSION:
        raise MalformedError(
            f"the output in {numbered.folder.parent} has version {plain.get('version')!r}: this release reads {VERSION}"
        )
    return plain


def _files(numbered: NumberedFiles, number: int) -> list[OutputFiles]:
    """The files that count as of manifest ``number``."""
    newest = _read(numbered, number)
    first = number if newest["builds_on"] is None else newest["builds_on"]
    plain = [_read(numbered, each)["files"] for each in range(first, number)] + [newest["files"]]
    return [
        OutputFiles(table, paths, Antichain.from_plain(lower), Antichain.from_plain(upper), rows)
        for listed in plain for table, paths, lower, upper, rows in listed
    ]


def _table(newest: Mapping[str, Any], table: str | None, path: str | Path) -> str:
    names = [str(name) for name in newest["tables"]]
    if table is None and len(names) == 1:
        return names[0]
    if table is None or table not in names:
        raise UsageError(f"table={table!r}: {path} has the tables {', '.join(names)}")
    return table


def _demand_times(frontier: object) -> None:
    """Raises UsageError for what is neither times nor nothing: a text is a list of letters to Python."""
    if frontier is None or isinstance(frontier, Iterable) and not isinstance(frontier, (str, bytes)):
        return
    if not isinstance(frontier, int) or isinstance(frontier, bool):
        raise UsageError(
            f"frontier={frontier!r} is no time: give a whole number, for everything up to and including it (of an LSN "
            "as 0/217EF70 that is int('217EF70', 16), and 2**32 times what stands before the stroke); or an Antichain; "
            "or leave it out, for all that is finished. An output knows no moments of the clock: cdcv2 as-of --at does"
        )


def _frontier(
    newest: Mapping[str, Any], frontier: Antichain | Iterable[int] | int | None, path: str | Path
) -> Antichain:
    upper = Antichain.from_plain(newest["upper"])
    if frontier is None:
        return upper
    if isinstance(frontier, int):
        check_time(frontier)
        # The greatest time has none behind it.
        asked = Antichain([frontier + 1] if frontier < MAX_TIME else [])
        if upper.less_equal(frontier):
            raise RefusedError(
                f"{path} is not complete through {frontier} yet ({through_text(upper)}): ask for an earlier time, or "
                "wait"
            )
        return asked
    asked = Antichain(frontier)
    if not upper.dominates(asked):
        raise RefusedError(
            f"{path} is not finished up to {_shown(asked)} yet, only up to {_shown(upper)}: ask for that or an "
            "earlier frontier, or wait"
        )
    return asked


def _covered(newest: Mapping[str, Any], table: str) -> TableCoverage:
    # Earlier releases had no output with a table that is not covered.
    return (TableCoverage.from_plain(newest["coverage"]) if "coverage" in newest else ALL).of(table)


def _demand_some(newest: Mapping[str, Any], table: str, path: str | Path) -> None:
    """Raise IncompleteError unless a time of the table is finished: that it has no rows then would be no answer."""
    covered = _covered(newest, table)
    covered.demand([table])
    upper = Antichain.from_plain(newest["upper"])
    if covered.start(table, Antichain.from_plain(newest["start"])).dominates(upper):
        raise IncompleteError(f"no time is finished in {table} yet: let the replay go on", what=f"the output {path}")


def _demand_stated(newest: Mapping[str, Any], table: str, through: Antichain) -> None:
    """Raise IncompleteError, UsageError unless something is stated of the table up to there."""
    covered = _covered(newest, table)
    covered.demand([table])
    covered.demand_started(check_int(through.elements[0]) - 1 if through else None)


def _first(
    spark: SparkSession, path: str | Path, newest: Mapping[str, Any], listed: Sequence[OutputFiles], at: int
) -> Time | None:
    """The earliest time of an update in any table; or a time up to ``at``, as soon as one is found. None: no update."""
    start: Time = Antichain.from_plain(newest["start"]).elements[0]
    if not less_equal(start, at):
        return start
    first: int | None = None
    for each in sorted(listed, key=lambda one: one.lower.elements):
        if each.upper and each.upper.less_equal(at):
            # It has rows, and all of them are before that.
            return at
        if first is None or each.lower.less_equal(first):
            paths = [readable(local_path(path) / one) for one in each.paths]
            times = spark.read.schema("time bigint").parquet(*paths)
            found = int(times.agg(F.min("time").alias("first")).collect()[0]["first"])
            first = found if first is None else min(found, first)
    return first


def _shown(frontier: Antichain) -> str:
    return ", ".join(str(time) for time in frontier) or "the end of the history"
