"""The output of replay, written and read on Spark: a lake of histories
(:mod:`cdcv2.materialize.targets.lake.history_output`, which also writes it without Spark).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cdcv2.core.antichain import Antichain
from cdcv2.errors import OutputError, UsageError
from cdcv2.materialize.targets.lake.files import rows_in
from cdcv2.materialize.targets.lake.history import Frontier, demand_times, history_of, miscounted
from cdcv2.materialize.targets.lake.history_output import HistoryOutput
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.spark.codec import beyond
from cdcv2.spark.equality import as_rows, grouped
from cdcv2.spark.paths import readable, writable
from cdcv2.spark.schema import updates_type
from cdcv2.timeline.binding import check_int


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
        Raises RefusedError when ``lower`` is ahead of the target's upper. Not promised:
        that bounds are the same in the next run.
        """


class OutputFolder(HistoryOutput[DataFrame]):
    """A :class:`Target` that is a lake of histories; several machines write its files."""

    def _write(self, table: str, rows: DataFrame, number: int, lower: Antichain) -> list[TableFile]:
        folder = self._attempt(table, number)
        counted = Observation()
        fresh = rows.where(beyond(lower)).select("data", "time", "diff")
        fresh.observe(counted, F.count(F.lit(1)).alias("rows")).write.parquet(writable(folder))
        number_of_rows = counted.get.get("rows", 0)
        if not number_of_rows:
            shutil.rmtree(folder, ignore_errors=True)
            return []
        found = {path: rows_in(path) for path in sorted(folder.glob("*.parquet"))}
        if sum(found.values()) != number_of_rows:
            raise OutputError(
                f"{folder} has {sum(found.values())} rows after Spark has written {number_of_rows} to it: the output "
                "must be a folder that the driver and all executors see under the same path"
            )
        (least,) = lower
        return [TableFile(f"{folder.name}/{path.stem}", some, check_int(least)) for path, some in found.items() if some]


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
