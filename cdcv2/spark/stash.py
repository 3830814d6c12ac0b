"""Rows that are not given out yet, as Parquet files beside the checkpoint: one stash per table.

Arrivals are appended as they come, with their positions, in a folder of their own for every attempt: a *piece*. Which
of them are repeats is found out later and in bulk, by grouping by time and data, where data are equal exactly when
their canonical encodings are (``equality.py``). So a row lies here once for every time that it came, until the stash
is rewritten: when the rows that were never folded outnumber those that were, or the rows that have been given out
outnumber those that have not.

Only the reader's manifest names the pieces that there are: a piece is written whole before a manifest
names it, and removed after one does not name it any more. Times are integers here.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from sortedcontainers import SortedDict

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ContradictionError
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import Updates
from cdcv2.spark.codec import POSITION, RAW, RowCodec
from cdcv2.spark.equality import as_rows, grouped
from cdcv2.spark.paths import readable, writable
from cdcv2.store.numbered import durable

#: So many rows more than the rule allows are held before a stash is rewritten: rewriting little is not worth a job.
SLACK = 100_000
#: So many unfolded pieces are held before they are made one: each costs a file to open.
PIECES = 32
#: So many rows are worth a task, and a file, of their own.
ROWS_PER_TASK = 250_000
#: So many intervals of times are asked for one by one; beyond it, what lies between is read too.
_SPANS = 50

_ATTEMPT = re.compile(r"(\d{20})-[0-9a-f]{32}\Z")


@dataclass(frozen=True)
class StashPiece:
    """Some rows of the stash: the folder's name, how many rows, their least and greatest time, whether folded."""

    name: str
    rows: int
    least: int
    greatest: int
    folded: bool


class ParquetStash:
    """The stash of one table in ``folder``.

    ``number`` is that of the manifest which will name the pieces that are written now: after its put, every piece of
    that number or a lower one that it does not name may be removed.
    """

    def __init__(self, folder: Path, codec: RowCodec) -> None:
        self.folder, self._codec = folder, codec
        self.number = 0
        self._pieces: list[StashPiece] = []
        # Names of the pieces of this process, and of those it took over, that may still lie in the folder.
        self._written: set[str] = set()
        # Time -> rows held, repeats included, for every time that is not released.
        self._counts: SortedDict[Any, int] = SortedDict()
        #: What was decided of rows, by a person: (row, time, diff); 0: the update never happened.
        self.decided: list[tuple[Any, int, int]] = []
        self._type = spark.StructType(codec.updates_type.fields)
        self._type = self._type.add("place", spark.StringType()).add("part", spark.IntegerType())
        self._type = self._type.add("offset", spark.LongType()).add("index", spark.IntegerType())

    # -- what is there --------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """How many rows are held that are not released, repeats included."""
        return sum(self._counts.values())

    @property
    def stored(self) -> int:
        """How many rows lie in the pieces."""
        return sum(piece.rows for piece in self._pieces)

    def holds(self, time: int) -> bool:
        """Whether rows are held at the time."""
        return time in self._counts

    def rows_between(self, lower: Antichain, upper: Antichain) -> int:
        """How many rows, repeats included, are held at times beyond ``lower`` and not beyond ``upper``."""
        return sum(self._counts[time] for time in self._times(lower, upper))

    def distinct(self, session: SparkSession, lower: Antichain, upper: Antichain) -> DataFrame:
        """One row (data, time, diff) per identity at times beyond ``lower`` and not beyond ``upper``.

        For times that were folded: it does not look for contradictions.
        """
        times = self._times(lower, upper)
        each = self._judged(session, times).drop("other")
        tasks = 1 + sum(self._counts[time] for time in times) // ROWS_PER_TASK
        return as_rows(each, self._codec.row_type).select("data", "time", "diff").coalesce(tasks)

    # -- changes --------------------------------------------------------------------------------------------------

    def append(self, rows: DataFrame) -> dict[Any, int]:
        """Write the rows as a new piece; return how many there are at each time."""
        piece, counts = self._write(rows.select("data", "time", "diff", *POSITION), folded=False)
        if piece is not None:
            self._pieces.append(piece)
        for time, count in counts.items():
            self._counts[time] = self._counts.get(time, 0) + count
        return counts

    def fold(self, session: SparkSession, times: Iterable[int]) -> dict[Any, int]:
        """How many distinct identities there are at each of the times.

        Raises ContradictionError, with the positions of both, when one of them has two diffs.
        """
        asked = sorted(time for time in times if time in self._counts)
        if not asked:
            return {}
        each = self._judged(session, asked)
        total = each.groupBy("time").agg(
            F.count(F.lit(1)).alias("identities"), F.count_if(F.col("diff") != F.col("other")).alias("disputed")
        )
        counts = {row["time"]: row for row in total.collect()}
        disputed = [time for time in asked if time in counts and counts[time]["disputed"]]
        if disputed:
            raise self._evidence(session, disputed[0])
        # Of a time of which every update was decided never to have happened, nothing is left.
        return {time: counts[time]["identities"] if time in counts else 0 for time in asked}

    def release(self, frontier: Antichain) -> None:
        """Forget the rows at times that are not beyond ``frontier``, and the pieces that hold no others."""
        for time in self._times(Antichain([0]), frontier):
            del self._counts[time]
        self._pieces = [piece for piece in self._pieces if frontier.less_equal(piece.greatest)]

    def tidy(self, session: SparkSession) -> dict[Any, int] | None:
        """Rewrite the stash if it holds too much that need not be held.

        Returns how many distinct identities there are at each time, if that was found out. Raises
        ContradictionError as :meth:`fold` does.
        """
        if not self._counts:
            return None
        fresh = [piece for piece in self._pieces if not piece.folded]
        unfolded = sum(piece.rows for piece in fresh)
        if unfolded > self.stored - unfolded + SLACK or self.stored > 2 * self.held + SLACK:
            identities = self.fold(session, self._counts)
            self._replace(session, self._pieces, folded=True)
            return identities
        if len(fresh) > PIECES:
            self._replace(session, fresh, folded=False)
        return None

    def clean(self, *, every: bool = False) -> None:
        """Remove pieces that are not held any more, now that manifest ``number`` is put.

        ``every``: look through the folder for those of dead processes, too; else only own ones.
        """
        kept = {piece.name for piece in self._pieces}
        names = (path.name for path in self.folder.iterdir()) if every and self.folder.is_dir() else self._written
        for name in set(names) - kept:
            found = _ATTEMPT.match(name)
            if found and int(found.group(1)) <= self.number:
                shutil.rmtree(self.folder / name, ignore_errors=True)
        self._written = kept

    # -- export ---------------------------------------------------------------------------------------------------

    def export(self) -> dict[str, Any]:
        """Pieces and counts, as plain values."""
        pieces = [[piece.name, piece.rows, piece.least, piece.greatest, piece.folded] for piece in self._pieces]
        return {"pieces": pieces, "counts": [list(item) for item in self._counts.items()]}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over what :meth:`export` made."""
        self._pieces = [StashPiece(*piece) for piece in plain["pieces"]]
        self._counts = SortedDict((time, count) for time, count in plain["counts"])
        self._written = {piece.name for piece in self._pieces}

    # -- inside ---------------------------------------------------------------------------------------------------

    def _times(self, lower: Antichain, upper: Antichain) -> list[int]:
        if not lower:
            return []
        least, greatest = lower.elements[0], upper.elements[0] if upper else None
        return list(self._counts.irange(least, greatest, inclusive=(True, False)))

    def _rows(self, session: SparkSession, times: list[int]) -> DataFrame:
        """The rows at these times, and perhaps at others in between."""
        spans = _spans(times, self._counts)
        pieces = [
            piece for piece in self._pieces
            if any(least <= piece.greatest and piece.least <= greatest for least, greatest in spans)
        ]
        wanted = reduce(lambda a, b: a | b, (F.col("time").between(*span) for span in spans), F.lit(False))
        return self._read(session, pieces).where(wanted)

    def _read(self, session: SparkSession, pieces: Iterable[StashPiece]) -> DataFrame:
        paths = [readable(self.folder / piece.name) for piece in pieces]
        reader = session.read.schema(self._type)
        return reader.parquet(*paths) if paths else session.createDataFrame([], self._type)

    def _judged(self, session: SparkSession, times: list[int]) -> DataFrame:
        """Time and data of each identity, its least and greatest diff (``diff``, ``other``), or the one decided."""
        rows = self._rows(session, times)
        ruled = self._ruled(session, times)
        if ruled is None:
            return self._identities(rows).agg(F.min("diff").alias("diff"), F.max("diff").alias("other"))
        both = rows.select("data", "time", "diff").unionByName(ruled, allowMissingColumns=True)
        found = self._identities(both).agg(
            F.min("diff").alias("diff"), F.max("diff").alias("other"), F.max("ruled").alias("ruled")
        )
        # A decision alone is no update: it counts where the update is in the log.
        kept = found.where("diff is not null and coalesce(ruled, 1) <> 0")
        sides = (F.coalesce("ruled", side).alias(side) for side in ("diff", "other"))
        return kept.select("time", "data", *sides)

    def _ruled(self, session: SparkSession, times: list[int]) -> DataFrame | None:
        """What was decided of rows at these times: data, time, ruled; None: nothing."""
        wanted = set(times)
        decided = [one for one in self.decided if one[1] in wanted]
        if not decided:
            return None
        # As messages, so that the rows are made as those of the log are. The decided diff stands where an offset does.
        raw = [
            ("", 0, diff, number, self._codec.codec.encode(Updates([(row, time, 1)])), None)
            for number, (row, time, diff) in enumerate(decided)
        ]
        rows = self._codec.rows(self._codec.decoded(session.createDataFrame(raw, RAW)))
        return rows.select("data", "time", F.col("offset").alias("ruled"))

    def _identities(self, rows: DataFrame) -> GroupedData:
        return grouped(rows, self._codec.row_type, "time")

    def _replace(self, session: SparkSession, pieces: list[StashPiece], *, folded: bool) -> None:
        """Write the live rows of some pieces, each identity once, as one piece."""
        live = self._read(session, pieces).where(_at_least(self._counts.keys()[0]))
        first = F.min(F.struct("diff", *POSITION)).alias("first")
        once = as_rows(self._identities(live).agg(first), self._codec.row_type).select("data", "time", "first.*")
        tasks = 1 + sum(piece.rows for piece in pieces) // ROWS_PER_TASK
        piece, counts = self._write(once.coalesce(tasks).sortWithinPartitions("time"), folded=folded)
        self._pieces = [kept for kept in self._pieces if kept not in pieces]
        if piece is not None:
            self._pieces.append(piece)
        if folded:
            self._counts = SortedDict(counts)

    def _write(self, rows: DataFrame, *, folded: bool) -> tuple[StashPiece | None, dict[Any, int]]:
        name = f"{self.number:020d}-{uuid.uuid4().hex}"
        self._written.add(name)
        folder = self.folder / name
        rows.write.option("parquet.block.size", 16 << 20).parquet(writable(folder))
        durable(*folder.glob("*.parquet"))
        session = rows.sparkSession
        at_times = session.read.schema("time bigint").parquet(readable(folder)).groupBy("time").count()
        counts = {time: count for time, count in at_times.collect()}
        if not counts:
            return None, {}
        return StashPiece(name, sum(counts.values()), min(counts), max(counts), folded), counts

    def _evidence(self, session: SparkSession, time: int) -> ContradictionError:
        """The error about an identity at ``time`` that has two diffs."""
        place = F.struct(*POSITION)
        rows, ruled = self._rows(session, [time]).where(F.col("time") == time), self._ruled(session, [time])
        nothing = F.lit(None).cast("bigint")
        rows = rows.withColumn("ruled", nothing) if ruled is None else rows.unionByName(ruled, allowMissingColumns=True)
        fact = F.when(F.col("diff").isNotNull(), F.struct("diff", place.alias("at")))
        each = self._identities(rows).agg(
            F.min(fact).alias("low"), F.max(fact).alias("high"), F.max("ruled").alias("ruled")
        )
        found = as_rows(each.where("low.diff <> high.diff and ruled is null"), self._codec.row_type).first()
        if found is None:
            raise LookupError(f"the dispute at time {time} is missing")
        facts = sorted(((Position(*side["at"]), side["diff"]) for side in (found["low"], found["high"])))
        (one, first), (other, second) = facts
        data = self._codec.row_type.row(tuple(found["data"]))
        return ContradictionError("diff", time, first, second, data=data, positions=(one, other))


def _at_least(time: int) -> Column:
    return F.col("time") >= time


def _spans(times: list[int], among: SortedDict[Any, int]) -> list[tuple[int, int]]:
    """Intervals (both ends in it) that hold ``times``, sorted, and of the times in ``among`` as few others as can be.

    >>> _spans([1, 2, 5], SortedDict.fromkeys([1, 2, 4, 5]))
    [(1, 2), (5, 5)]
    """
    spans: list[list[int]] = []
    last = -2
    for time in times:
        place = among.index(time)
        if place == last + 1:
            spans[-1][1] = time
        else:
            spans.append([time, time])
        last = place
    if len(spans) > _SPANS:
        return [(times[0], times[-1])]
    return [(least, greatest) for least, greatest in spans]
