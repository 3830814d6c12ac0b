"""The recorded topics on timelines that are drawn: how they are seen to grow, and with it what is bound when.

A timeline is a remap, logs and topics in memory; captures of it are real ones. Records are parsed, and what TEMP holds
is encoded, once for all timelines: :func:`made_once`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from cdcv2.capture.binder import Binder
from cdcv2.capture.facts import End, Fact, PartialChangeFact, Record, RowFact, SnapshotRow
from cdcv2.capture.open_record_codec import OpenRecordCodec
from cdcv2.capture.run import database
from cdcv2.capture.run.database import Database
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.capture.topics import TopicExtents
from cdcv2.connectors.debezium.envelope import classify
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Progress, Update, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import COMMIT_ORDER
from cdcv2.timeline.recipe import BoundRecipe
from tests.recorded import TABLES, as_copied, dump, ends, facts, truth
from tests.remap_in_memory import RemapInMemory

NOTIFICATIONS = "notifications"
Place = tuple[str, int]


def notified(offset: int, kind: str, table: str | None = None, rows: int | None = None) -> Record:
    """A notification about the snapshot."""
    more = {"scanned_collection": table, "total_rows_scanned": rows}
    said = {"type": kind, "aggregate_type": "Initial Snapshot", "additional_data": more}
    return Record(NOTIFICATIONS, 0, offset, None, json.dumps(said).encode())


@cache
def topics(run: str) -> dict[Place, list[Record]]:
    """The topics of a run, with the notifications that it would have had."""
    found = {place: [record for record, _ in entries] for place, entries in facts(run).items()}
    scanned = Counter(fact.table for entries in facts(run).values() for _, fact in entries
                      if isinstance(fact, SnapshotRow))  # fmt: skip
    said = [("STARTED", None, None), *(("TABLE_SCAN_COMPLETED", table, scanned[table]) for table in TABLES)]
    found[NOTIFICATIONS, 0] = [notified(at, *one) for at, one in enumerate([*said, ("COMPLETED", None, None)])]
    return {place: records for place, records in found.items() if place[0] in recipe(run).topics()}


@cache
def recipe(run: str) -> Recipe:
    """The capture of a run; where the tables have REPLICA IDENTITY DEFAULT, with old rows from the state."""
    before = "from-state" if run == "clean_default" else "from-envelope"
    return Recipe(run, TABLES, notification_topic=NOTIFICATIONS, before=before)


def records_through(run: str, lsn: int) -> list[Record]:
    """Of each partition what must be there for the transactions that ended at this LSN or before, and no END more."""
    wanted = {tx for end, tx in ends(run).items() if end <= lsn}
    found = list(topics(run)[NOTIFICATIONS, 0])
    for place, entries in facts(run, recipe(run).before).items():
        number = int(place[0] == f"{run}.transaction")
        seen = set[object]()
        for at, (_, fact) in enumerate(entries):
            needed = _needed(fact, at, wanted, lsn)
            if needed is not None and needed not in seen:
                seen.add(needed)
                number = at + 1
        if place in topics(run):
            found += [one for one, _ in entries[:number]]
    return found


def _needed(fact: Fact, at: int, wanted: set[int], lsn: int) -> object:
    """What a record is called of which the first one is needed; None: it is not needed."""
    if isinstance(fact, SnapshotRow):
        return at
    if isinstance(fact, (RowFact, PartialChangeFact)):
        return (fact.tx, fact.order) if fact.tx in wanted else None
    return ("END", fact.lsn) if isinstance(fact, End) and fact.lsn <= lsn else None


def edge(tables: Mapping[str, RowType]) -> tuple[Recipe, dict[Place, list[Record]]]:
    """The run with everything that is rare: these tables of it, and the notifications that it would have had."""
    how = Recipe("edge", tables, before="from-state", notification_topic=NOTIFICATIONS)
    records = {
        place: found for place, found in dump("edge", "topics_edge").partitions().items() if place[0] in how.topics()
    }
    scanned = Counter(
        topic for (topic, _), found in records.items() for one in found if b'"op":"r"' in (one.value or b"")
    )
    counted = [("TABLE_SCAN_COMPLETED", table, scanned[how.topic(table)]) for table in tables]
    said: list[Any] = [("STARTED", None, None), *counted, ("COMPLETED", None, None)]
    return how, {**records, (NOTIFICATIONS, 0): [notified(at, *one) for at, one in enumerate(said)]}


KNOWN: dict[Any, Fact] = {}
ENCODED: dict[Any, Any] = {}


class EncodedOnce(OpenRecordCodec):
    """What TEMP holds becomes a row once, however many timelines hold it."""

    def row(self, held: Any) -> Any:
        """As the other one."""
        if held not in ENCODED:
            ENCODED[held] = super().row(held)
        return ENCODED[held]


def parsed(how: Recipe, record: Record) -> Fact:
    """The fact in a record, parsed once."""
    at = how.prefix, how.before, record.position
    if at not in KNOWN:
        KNOWN[at] = classify(how, record)
    return KNOWN[at]


@contextmanager
def made_once() -> Iterator[None]:
    """Within the block, nothing of the runs is parsed or encoded twice."""
    with mock.patch.object(Recipe, "fact", parsed), mock.patch.object(database, "OpenRecordCodec", EncodedOnce):
        yield
    KNOWN.clear()
    ENCODED.clear()


class Timeline(RemapInMemory):
    """A remap, logs, and topics that are seen to grow as chance has it."""

    def __init__(
        self, records: Mapping[Place, list[Record]], chance: random.Random, tables: Iterable[str] = TABLES
    ) -> None:
        super().__init__(records, chance)
        self.ends = {place: 0 for place in records if chance.random() < 0.7}
        self.tables: Mapping[str, MemoryLog] = {table: MemoryLog(table) for table in tables}
        self.temp = MemoryLog("temp")

    # -- the topics

    def look(self) -> TopicExtents:
        """Somewhat further than the last time; partitions appear as they like."""
        for place, records in self.records.items():
            step = self.chance.choice((0, 0, 0.02, 0.1, 0.4))
            if place in self.ends or self.chance.random() < 0.2:
                self.ends[place] = min(len(records), self.ends.get(place, 0) + int(len(records) * step) + 1)
        return self.seen()

    @property
    def all_seen(self) -> bool:
        """Whether they cannot grow any more."""
        return all(self.ends.get(place, 0) == len(records) for place, records in self.records.items())

    # -- captures

    def opened(self, how: Recipe, *, ordering: str = COMMIT_ORDER, at_most: int = 5000) -> tuple[Binder, SharedCapture]:
        bound = BoundRecipe({table: {"database": how.prefix} for table in how.tables})
        binder = Binder(self, bound, topics=frozenset(how.topics()), now=self.now)
        binder.begin(TopicExtents({}))
        writers = TableWriters({table: self.tables[table] for table in how.tables})
        output = Database(how, writers, (self.temp, Writer(self.temp)), ordering=ordering)
        return binder, SharedCapture(binder, self, [output], at_most=at_most)

    def run(self, how: Recipe, **more: Any) -> SharedCapture:
        """Until everything is bound and written."""
        binder, capture = self.opened(how, **more)
        while True:
            look = self.look()
            moved = binder.bind(look)
            if not (capture.carry() or moved) and self.all_seen:
                return capture

    def told(self) -> dict[str, tuple[dict[Any, int], Antichain]]:
        """The updates of each log, and its frontier."""
        found = {}
        for log in (*self.tables.values(), self.temp):
            reader = Iter(log.messages)
            updates: Counter[Any] = Counter()
            for batch in reader:
                for row, time, diff in batch.updates:
                    updates[row, time] += diff
            found[log.name] = dict(updates), reader.frontier
        return found

    def back_at(self, time: int) -> Timeline:
        """The same timeline, as if nothing had been written after this time."""
        other = Timeline(self.records, self.chance, self.tables)
        other.raws, other.clock = self.raws, self.clock
        other.ends = {place: len(records) for place, records in self.records.items()}
        told = self.told()
        begun = any(at <= time for name, (updates, _) in told.items() if name != "temp" for _, at in updates)
        for name, (updates, _) in told.items():
            if name != "temp" and not begun:
                # Nothing is stated of tables while the snapshot is not given out.
                continue
            log = other.temp if name == "temp" else other.tables[name]
            kept: list[Update] = [(row, at, diff) for (row, at), diff in updates.items() if at <= time]
            if kept:
                log.send(Updates(kept))
            log.send(Progress([0], [time + 1], Counter(at for _, at, _ in kept)))
            log.flush()
        return other


def until_the_truncate(timeline: Timeline, run: str) -> None:
    """Every run ends with one; it can be carried over where the state is known."""
    if recipe(run).before == "from-state":
        timeline.run(recipe(run), at_most=timeline.chance.choice((300, 5000)))
        return
    try:
        timeline.run(recipe(run), at_most=timeline.chance.choice((300, 5000)))
    except SourceStop as stop:
        assert "was truncated" in stop.reason
        return
    raise AssertionError("it went past the TRUNCATE")


def check_true_tables(run: str, seed: int) -> None:
    """Of a timeline that is drawn, the tables at its end are what PostgreSQL held: before the TRUNCATE, or after it."""
    timeline = Timeline(topics(run), random.Random(seed))
    until_the_truncate(timeline, run)
    told, last = timeline.told(), "final" if recipe(run).before == "from-state" else "04_quiesced"
    for table in TABLES:
        content: Counter[Any] = Counter()
        for (row, _), diff in told[table][0].items():
            content[row] += diff
        texts = Counter({as_copied(table, row): number for row, number in content.items() if number})

        assert truth(run, last, table) == texts, f"{table}, timeline {seed}"
    assert 1 == len({str(frontier) for _, frontier in told.values()})


def check_begun_again(run: str, seed: int, times: int) -> None:
    """Of a timeline that is drawn, whatever is written after some time is written again by who begins there."""
    timeline = Timeline(topics(run), random.Random(seed))
    until_the_truncate(timeline, run)
    told = timeline.told()
    for time in timeline.chance.sample(range(told["temp"][1].elements[0]), times):  # type: ignore[arg-type]
        other = timeline.back_at(time)
        until_the_truncate(other, run)

        assert told == other.told(), f"timeline {seed}, begun again at {time}"
