"""The reader: micro-batches of logs in any order in, finished updates of all tables out, in order, once.

Rows stay on the executors (decoded, stashed, folded: ``codec.py``, ``stash.py``). The driver decides what is finished
with the protocol's own ``Ledger``, one per table, which gets numbers only. Tables share a timeline: a frontier
is released when every table has reported it, all tables together (the *meet* of their frontiers).

The state is bound to the logs, and not to a query. A manifest, put when a batch is done, holds the ledgers, the names
of the stash's pieces, and the next position of every partition. Facts may be absorbed again at will; they must not be
passed over. So a new checkpoint is legal (all is read again, and dropped), and a batch that starts ahead of the
state's position is refused. One batch::

    statements, ranges  ->  updates into the stash  ->  fold  ->  settle  ->  target  ->  manifest  ->  clean

The target moves before the manifest. A crash between them leaves the target ahead, which it notices by its own upper.

The file is long because a batch is one sequence, in which each step needs the result of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time
from cdcv2.errors import DecodeError, MalformedError, RefusedError
from cdcv2.logs.coverage import ALL, TableCoverage
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.quarantine import Decision
from cdcv2.materialize.targets.lake.history_output import demand_not_behind
from cdcv2.protocol.ledger import Ledger
from cdcv2.protocol.log import Position
from cdcv2.protocol.log_identity import check_ends
from cdcv2.protocol.messages import Progress
from cdcv2.rows.row_type import RowType
from cdcv2.spark.binding import binding, compare
from cdcv2.spark.checkpoint import REMEDY
from cdcv2.spark.codec import POSITION, RowCodec, begins_statement, begins_updates, beyond
from cdcv2.spark.file_digests import REPLAY_REMEDY, check, marks
from cdcv2.spark.output import Target
from cdcv2.spark.partition_batch import PartitionBatch, statements, wrong
from cdcv2.spark.session import tune
from cdcv2.spark.sources import LogPlace, LogSources, read_files, read_offsets
from cdcv2.spark.stash import ParquetStash
from cdcv2.store.numbered import NumberedFiles, local_path

#: The version of the state.
VERSION = 1
#: So many manifests are kept, for people to look at.
KEPT = 5

_AFTER_STASH = failpoints.declare("reader.after-stash", "the updates are in the stash; no manifest names the piece")
_AFTER_FOLD = failpoints.declare("reader.after-fold", "the ledgers have moved, in memory only; nothing is given out")
_BEFORE_MANIFEST = failpoints.declare("reader.before-manifest", "the target has the rows; the state does not know it")
_AFTER_MANIFEST = failpoints.declare("reader.after-manifest", "the state is durable; dead pieces are still there")
_AFTER_CLEANING = failpoints.declare("reader.after-cleaning", "all is done; Spark has not committed the batch")


class TableReader:
    """One table: its places, its rows' codec, what is finished of it, and its rows that are not given out.

    ``start`` is where its history is read from.
    """

    def __init__(
        self, name: str, places: Iterable[LogPlace], row_type: RowType, start: Antichain, folder: Path
    ) -> None:
        self.name, self.start = name, start
        self.places = sorted(place.name for place in places)
        self.codec = RowCodec(row_type)
        self.ledger = Ledger(start)
        self.stash = ParquetStash(folder / "stash" / name, self.codec)
        #: Rows that were dropped since their time was finished already.
        self.late = 0
        #: Rows that were given to the target.
        self.given = 0

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Go on with what was decided about times that are open."""
        for one in decisions:
            if one.time is None or not self.ledger.keeps(one.time):
                continue
            if one.count is not None:
                self.ledger.rule(one.time, one.count)
            elif type(one.time) is int and one.diff is not None:
                row = self.codec.row_type.from_plain(dict(one.row or {}))
                self.stash.decided.append((row, one.time, one.diff))
                if self.stash.holds(one.time):
                    # What was counted there before may be another number now.
                    self.ledger.arrived({one.time: 0}, exact=False)


@dataclass(frozen=True)
class BatchReport:
    """How a batch ended: the content of a progress line."""

    batch: int
    frontier: Antichain
    tables: Mapping[str, TableReader] = field(repr=False)
    rows: int = 0
    moved: bool = False


class Reader:
    """The state of one replay in ``folder``, and the function of its micro-batches.

    ``tables`` maps each table to its row type, ``identities`` each topic to the identity that Kafka gave it (a
    recreated topic is another log). ``report`` is called after each batch, with its Report. ``covered`` has the tables
    that the connector covers, and where those begin that begin later; ``look`` reads it again, as it may change.
    ``decided`` are the decisions about each table that a person has taken, ``disputed`` the times at which other
    readings found a contradiction about which none was taken: they hold the table.

    Raises IncompleteError where no table is covered, ForeignStateError when the state is of other logs, row types or
    another start, RefusedError when it is past the beginning of a table that was not covered then, or has given out
    what the target lacks.
    """

    def __init__(
        self,
        folder: str | Path,
        logs: LogSources,
        tables: Mapping[str, RowType],
        target: Target,
        *,
        start: Antichain,
        identities: Mapping[str, str] | None = None,
        report: Callable[[BatchReport], None] = lambda report: None,
        covered: TableCoverage = ALL,
        look: Callable[[], TableCoverage] = lambda: ALL,
        decided: Mapping[str, Sequence[Decision]] = MappingProxyType({}),
        disputed: Mapping[str, Sequence[Time]] = MappingProxyType({}),
    ) -> None:
        self.folder = local_path(folder)
        self._logs, self._target, self._report, self._start = logs, target, report, start
        self._covered, self._look = covered, look
        #: Table -> the times at which others found it in dispute: it is held there, as far as they were not given out.
        self.disputed = disputed
        every = {
            name: TableReader(
                name, [place for place in logs.places if place.table == name], tables[name],
                covered.start(name, start), self.folder,
            )
            for name in sorted(tables)
        }  # fmt: skip
        #: The tables that the connector covers.
        self.tables = {name: table for name, table in every.items() if name not in covered.uncovered}
        if not self.tables:
            covered.demand(every)
        self._table_of = {place.name: every[place.table] for place in logs.places}
        self._binding = binding(
            {name: table.codec.row_type for name, table in every.items()}, logs.places, identities or {}, start
        )
        self._numbered = NumberedFiles(self.folder / "manifests", "the state")
        # The number of the newest manifest; 0: there is none.
        self._number = 0
        # Everything not beyond it was given to the target.
        self.released = start
        # Place -> partition -> the next position: all before it is absorbed.
        self._positions: dict[str, dict[int, int]] = {}
        # Directory -> file -> its mark: by these the log is known again.
        self._marks: dict[str, dict[int, str]] = {}
        # The last batch that is in the state, and of which query it was: a hint that saves doing it again.
        self._done: tuple[str, int] = ("", -1)
        self._cleaned = False
        #: Whether the input was read to its end, and nothing more is awaited.
        self.finished = False
        self._load()
        self.demand_applied()
        # Behind that: who is refused leaves the target as it is.
        target.begin()
        for name, table in self.tables.items():
            table.decide(decided.get(name, ()))
            table.ledger.withhold(disputed.get(name, ()))

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Place -> partition -> the next position that the state has not absorbed; a copy."""
        return {place: dict(parts) for place, parts in self._positions.items()}

    @property
    def done(self) -> tuple[str, int]:
        """The query whose batch is the last in the state, and the batch's number; ``("", -1)``: there is none."""
        return self._done

    def demand_applied(self) -> None:
        """Raise RefusedError unless the target has all that was given out: then nothing is to be called complete.

        Asked at the start, in each batch, and at the end: the state would not give it out again.
        """
        demand_not_behind(self._target.place, self._target.found(), self.released, f"the state in {self.folder}")

    # -- the batch ------------------------------------------------------------------------------------------------

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Absorb one micro-batch. Raises what is wrong with the log, the state or the target; nothing has changed
        then that a new process would not find again."""
        session = tune(frame.sparkSession)
        query = str(session.sparkContext.getLocalProperty("sql.streaming.queryId"))
        if query == self._done[0] and batch <= self._done[1]:
            return
        for table in self.tables.values():
            table.stash.number = self._number + 1
        raw = frame.persist()
        try:
            self._absorb(session, raw)
        finally:
            raw.unpersist()
        self._end(session, query, batch)

    def _end(self, session: SparkSession, query: str, batch: int) -> None:
        before = self.released
        self.demand_applied()
        rows = self._settle(session)
        failpoints.reach(_BEFORE_MANIFEST)
        self._done = (query, batch)
        self._commit()
        self._report(BatchReport(batch, self.released, self.tables, rows, before != self.released))

    def resume(self, session: SparkSession) -> None:
        """Give out what is complete by decisions that the state did not have: nothing more may ever come."""
        ledgers = [table.ledger for table in self.tables.values()]
        if any(ledger.to_fold() or ledger.complete != ledger.reported for ledger in ledgers):
            for table in self.tables.values():
                table.stash.number = self._number + 1
            self._end(tune(session.newSession()), *self._done)

    def finish(self, session: SparkSession) -> None:
        """At the end of the input: make the numbers of the ledgers exact. Raises ContradictionError."""
        for table in self.tables.values():
            held = [time for time, (_, rows) in table.ledger.open_times().items() if rows]
            self._fold(tune(session.newSession()), table, held)
        self.finished = True

    def _absorb(self, session: SparkSession, raw: DataFrame) -> None:
        batches = self._listen(raw)
        missed = self._missed(session, batches)
        if missed is not None:
            missed = missed.persist()
            try:
                self._take(missed, self._listen(missed))
            finally:
                missed.unpersist()
        self._take(raw, batches)
        for one in batches:
            positions = self._positions.setdefault(one.place, {})
            positions[one.part] = max(one.end, positions.get(one.part, 0))
        failpoints.reach(_AFTER_STASH)

    def _listen(self, raw: DataFrame) -> list[PartitionBatch]:
        """What came, partition by partition: everything but the updates themselves."""
        sound = F.col("fault").isNull()
        is_updates = F.coalesce(begins_updates(F.col("value")) & sound, F.lit(False))
        is_statement = F.coalesce(begins_statement(F.col("value")) & sound, F.lit(False))
        whole = F.struct("offset", "index", "value", "fault")
        directories = F.lit(False)
        if self._logs.directories:
            directories = F.col("place").isin(self._logs.directories)
        found = raw.groupBy("place", "part").agg(
            F.min("offset").alias("least"),
            (F.max("offset") + 1).alias("end"),
            F.count_if(is_updates).alias("updates"),
            F.collect_list(F.when(is_statement, whole)).alias("statements"),
            F.min(F.when(~is_updates & ~is_statement, whole)).alias("odd"),
            F.collect_set(F.when(directories, F.col("offset"))).alias("files"),
        )
        batches = [PartitionBatch(**{**row.asDict(), "files": set(row["files"])}) for row in found.collect()]
        return sorted(batches, key=lambda one: (one.place, one.part))

    def _missed(self, session: SparkSession, batches: list[PartitionBatch]) -> DataFrame | None:
        """What lies between the state's positions and this batch. A directory still has it; a topic must not have any.

        Files become visible in the order of their numbers, but not always in that of their dates, which is Spark's.
        """
        frames = []
        for one in batches:
            following = self._positions.get(one.place, {}).get(one.part, 0)
            if one.place in self._logs.directories:
                numbers = set(range(following, one.end)) - one.files
                if numbers:
                    frames.append(read_files(session, one.place, sorted(numbers)))
            elif one.least > following:
                self._refuse_gap(session, one, following)
        return reduce(DataFrame.unionByName, frames) if frames else None

    def _refuse_gap(self, session: SparkSession, one: PartitionBatch, following: int) -> None:
        """Raise RefusedError unless the offsets passed over never held a message (as those of transaction markers)."""
        where = f"{one.place}[{one.part}]"
        between = read_offsets(session, self._logs.kafka, one.place, one.part, following, one.least)
        passed = between.count()
        if passed:
            raise RefusedError(
                f"Spark's checkpoint begins {where} at {one.least}, but the state in {self.folder} has absorbed "
                f"it only up to {following}: {passed} messages would be passed over. {REMEDY}"
            )

    def _take(self, raw: DataFrame, batches: list[PartitionBatch]) -> None:
        """Statements into the ledgers, updates into the stashes."""
        stated: dict[str, list[tuple[Progress, Position]]] = {}
        for one in batches:
            if one.odd is not None:
                raise self._odd(one)
            table = self._table_of[one.place]
            if table.name not in self.tables:
                # An empty message, which states of the log that it begins nowhere; or it begins by now.
                self._covered.demand_still(self._look)
                continue
            stated.setdefault(table.name, []).extend(statements(table.codec, one))
        for table in self.tables.values():
            table.ledger.state(stated.get(table.name, []))
            updates = sum(one.updates for one in batches if one.place in table.places)
            if updates:
                self._stash(table, raw.where(F.col("place").isin(table.places) & begins_updates(F.col("value"))))

    def _odd(self, one: PartitionBatch) -> DecodeError:
        offset, index, value, fault = one.odd or (0, 0, None, None)
        if value is None and one.place in self._logs.directories:
            # A file in the place of another is no damage: every reader refuses it at its first message.
            next(DirectoryLog(one.place).read({0: offset}), None)
        if value is None:
            reason = fault or "there is no value (a tombstone): a log's messages have one"
        else:
            reason = self._table_of[one.place].codec.reason(bytes(value))
        raw = None if value is None else bytes(value)
        return DecodeError(reason, position=Position(one.place, one.part, offset, index), raw=raw)

    def _stash(self, table: TableReader, raw: DataFrame) -> None:
        """Updates of a table into its stash; those at finished times are counted and dropped."""
        decoded = table.codec.decoded(raw)
        seen = Observation()
        exact = decoded.observe(seen, F.count_if(~F.col("exact")).alias("odd")).where("exact")
        self._append(table, raw, exact)
        if not seen.get.get("odd", 0):
            return
        rewritten = table.codec.rewritten(decoded.where(~F.col("exact"))).persist()
        try:
            fault = rewritten.where("fault is not null").orderBy(*POSITION).first()
            again = table.codec.decoded(rewritten)
            if fault is None:
                # Python took it and Spark did not: nothing is known that does this, but it must not be passed over.
                fault = again.where("updates is null").orderBy(*POSITION).first()
            if fault is not None:
                raise wrong(table.codec, raw, fault)
            self._append(table, raw, again)
        finally:
            rewritten.unpersist()

    def _append(self, table: TableReader, raw: DataFrame, decoded: DataFrame) -> None:
        seen = Observation()
        rows = table.codec.rows(decoded)
        kept, begun = beyond(table.ledger.reported), beyond(table.start)
        observed = rows.observe(
            seen, F.count_if(F.col("wrong")).alias("wrong"), F.count_if(~kept).alias("late"),
            F.count_if(~begun).alias("early"),
        )
        counts = table.stash.append(observed.where(kept))
        if seen.get.get("wrong", 0):
            first = rows.where("wrong").orderBy(*POSITION).first()
            raise wrong(table.codec, raw, first)
        if seen.get.get("early", 0):
            first = rows.where(~begun).orderBy("time", *POSITION).select("time", *POSITION).first()
            if first is None:
                raise LookupError("an update before the start is missing")
            table.ledger.left_out({first[0]: 1}, Position(*first[1:]))
        table.late += seen.get.get("late", 0)
        table.ledger.arrived(counts, exact=False)

    # -- what is finished -----------------------------------------------------------------------------------------

    def _settle(self, session: SparkSession) -> int:
        """Fold what may be complete, move the frontiers, and give out what all tables have reported."""
        for table in self.tables.values():
            self._fold(session, table, table.ledger.to_fold())
            table.ledger.settle()
        failpoints.reach(_AFTER_FOLD)
        frontier = Antichain.meet_of(table.ledger.reported for table in self.tables.values())
        # Up to where the first of them begins nothing is stated.
        first = Antichain.meet_of(table.start for table in self.tables.values())
        given = 0
        if frontier != self.released and not first.dominates(frontier):
            given = self._release(session, frontier)
        for table in self.tables.values():
            identities = table.stash.tidy(session)
            if identities is not None:
                table.ledger.folded({time: n for time, n in identities.items() if table.ledger.keeps(time)})
        return given

    def _fold(self, session: SparkSession, table: TableReader, times: Iterable[Any]) -> None:
        table.ledger.folded(table.stash.fold(session, times))

    def _release(self, session: SparkSession, frontier: Antichain) -> int:
        self._covered.demand_still(self._look)
        # A target that is ahead already has what comes before its own upper.
        lower = self.released.join(self._target.upper)
        rows = {
            name: table.stash.distinct(session, lower, frontier)
            for name, table in self.tables.items() if table.stash.rows_between(lower, frontier)
        }
        given = self._target.apply(rows, self.released, frontier)
        self.released = frontier
        for name, table in self.tables.items():
            table.given += given.get(name, 0)
            table.stash.release(frontier)
        return sum(given.values())

    # -- the state ------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        numbers = self._numbered.numbers()
        if not numbers:
            return
        plain = self._numbered.read(numbers[-1])
        if plain.get("version") != VERSION:
            raise MalformedError(
                f"the state in {self.folder} has version {plain.get('version')!r}: this release reads {VERSION}; "
                "remove it, and all is read again"
            )
        compare(plain["binding"], self._binding, self.folder)
        self._number = numbers[-1]
        self.released = Antichain.from_plain(plain["released"])
        self._positions = {
            place: {int(part): offset for part, offset in parts.items()} for place, parts in plain["positions"].items()
        }
        # A state that was made before there were marks has none.
        for place, known in plain.get("marks", {}).items():
            self._marks[place] = {int(number): mark for number, mark in known.items()}
        for place in self._logs.directories:
            check_ends(place, {0: self._next(place)}, DirectoryLog(place).ends(), REPLAY_REMEDY)
            check(place, self._marks.get(place, {}), self.folder)
        self._done = (plain["done"][0], plain["done"][1])
        for name, table in self.tables.items():
            kept = plain["tables"].get(name)
            if kept is None:
                self._begin(table)
                continue
            # A state that was made before there was an origin has none.
            table.ledger = Ledger.restore(kept["ledger"], start=table.start)
            table.stash.restore(kept["stash"])
            table.late, table.given = kept["late"], kept["given"]

    def _begin(self, table: TableReader) -> None:
        """Raise RefusedError if the state, which was made while the table was not covered, is past its beginning."""
        if not table.start.dominates(self.released):
            raise RefusedError(
                f"the state in {self.folder} has given out everything up to {self.released} without {table.name}, "
                f"which is covered by the connector from {table.start} on: remove the state, the checkpoint in it and "
                "the output, and all is read again"
            )

    def _next(self, directory: str) -> int:
        return self._positions.get(directory, {}).get(0, 0)

    def _commit(self) -> None:
        self._number += 1
        for place in self._logs.directories:
            self._marks[place] = marks(place, self._next(place), self._marks.get(place, {}))
        self._numbered.put(self._number, {
            "version": VERSION,
            "binding": self._binding,
            "released": self.released.to_plain(),
            "positions": self._positions,
            "marks": self._marks,
            "done": list(self._done),
            "tables": {
                name: {
                    "ledger": table.ledger.export(), "stash": table.stash.export(),
                    "late": table.late, "given": table.given,
                }
                for name, table in self.tables.items()
            },
        })
        failpoints.reach(_AFTER_MANIFEST)
        for table in self.tables.values():
            table.stash.clean(every=not self._cleaned)
        self._cleaned = True
        self._numbered.prune(self._number - KEPT + 1)
        failpoints.reach(_AFTER_CLEANING)
