"""The ways to capture that need no Spark, run over a history: in memory, with restarts, kills, and any cut of bindings.

Each run has a result (:class:`Came`). Topics are seen as far as a stage of the history goes; a life of a
capture reads them in an order of its own, may be killed at any step, and may have lost its memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from cdcv2 import failpoints
from cdcv2.capture.binder import Binder
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.database import Database
from cdcv2.capture.run.loop import run
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.spilled_rows import MEMORY_ROWS
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.capture.topics import TopicExtents
from cdcv2.capture.connector import FROM_ENVELOPE, FROM_STATE
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import Cdcv2Error, SourceStop, UnsafeTopicError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.stops import StopLog, stops_of
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.binding import check_int
from cdcv2.timeline.positions import places
from cdcv2.timeline.recipe import BoundRecipe
from tests.doubles import KeptMemory
from tests.every_way.connector import PREFIX, TRANSACTIONS
from tests.every_way.database import TABLES
from tests.every_way.judge import Facts, Way
from tests.every_way.seen import Given, SeenTopics, WatchedLog
from tests.every_way.world import Cut, World, recipe_words
from tests.remap_in_memory import RemapInMemory

ROWS = RowType({"type": "record", "name": "t", "fields": [
    {"name": "id", "type": "int"}, {"name": "v", "type": "string"},
]})  # fmt: skip
# In this order, whatever was imported first: a seed draws one of them, and is to be the same history everywhere.
_WRITER = ("writer.updates-sent", "writer.updates-durable", "writer.statement-sent", "writer.statement-durable")
PLAIN_STEPS = [
    *_WRITER, "release.table-written", "release.updates-durable", "release.table-stated", "release.before-updates",
    "release.stated", "release.remembered",
]
BOUND_STEPS = [
    *_WRITER, "shared-capture.bound", "coverage.start-durable", "release.updates-durable", "release.temp-stated",
    "release.table-stated", "shared-capture.read", "release.table-written", "release.before-updates",
]
# Those of a capture that keeps rows on disk, too.
SPILL_STEPS = ["spill.written", "spill.read"]


#: What ended a life and is no stop.
UNWANTED = "an error, and no stop:"


@dataclass
class Came:
    """What a run came to: facts by time, how far the logs are stated, and what stopped it, life after life.

    ``cuts`` are the bindings of a timeline.
    """

    facts: dict[int, Facts] = field(default_factory=dict)
    upper: int = 0
    cuts: dict[int, Cut] = field(default_factory=dict)
    #: By commit times what was known when each table's log was stated, in the order in which it was; of some ways
    #: that is not noted.
    given: dict[str, list[Given]] = field(default_factory=dict)
    #: On a timeline, the least time up to which anything was stated of a table.
    first_stated: int | None = None
    #: Whether the transaction topic has lost its beginning on the way.
    forgot: bool = False
    #: Of each life that was not killed: how far the topics were, what stopped it, how far the logs were then.
    lives: list[tuple[Cut, str | None, int]] = field(default_factory=list)
    #: By commit times what stopped one more run, of all topics, that had no memory and released after each record; and
    #: whether the logs then keep a stop.
    without_memory: tuple[str | None, bool] | None = None
    #: The stops that were reported as permanent, and those that the logs keep, log by log.
    lasting: set[str] = field(default_factory=set)
    kept: dict[str, set[str]] = field(default_factory=dict)
    #: Where one lasts, what stops one more life, without a memory and without what need not be in the topics any more.
    afterwards: list[str | None] = field(default_factory=list)

    @property
    def stop(self) -> str | None:
        """What stopped the last life."""
        return self.lives[-1][1] if self.lives else None


def recipe(world: World, way: Way) -> Recipe:
    """How a history is captured."""
    before = FROM_STATE if way.state else FROM_ENVELOPE
    return Recipe(PREFIX, dict.fromkeys(TABLES, ROWS), before=before, **recipe_words(world))


def said_by(logs: Mapping[str, MemoryLog]) -> tuple[dict[int, Facts], int]:
    """The content of logs in memory; none for tables that the connector does not cover."""
    return of_covered(
        {table: log.messages for table, log in logs.items()}, {table: log.description() for table, log in logs.items()}
    )


def of_covered(
    logs: Mapping[str, list[Message]], described: Mapping[str, LogDescription]
) -> tuple[dict[int, Facts], int]:
    """The same of any logs, each with its description."""
    covered = [table for table, one in described.items() if one.covered and (not one.begins or logs[table])]
    return stated({table: logs[table] for table in covered}, {table: described[table].begins for table in covered})


def stated(
    logs: Mapping[str, list[Message]], starts: Mapping[str, int] | None = None
) -> tuple[dict[int, Facts], int]:
    """The content of the logs, by time, each update counted, up to the meet of what is stated; from ``starts`` on."""
    facts: dict[int, Facts] = {}
    uppers = []
    for table, messages in logs.items():
        start = (starts or {}).get(table, 0)
        reader = Iter(messages, start=[start], begins=[start])
        for batch in reader:
            for row, time, diff in batch.updates:
                of_time = facts.setdefault(check_int(time), {one: Counter() for one in TABLES})
                of_time[table][tuple(row)] += diff
        uppers.append(check_int(reader.frontier.elements[0]) if messages else 0)
    upper = min(uppers, default=0)
    return {time: of_time for time, of_time in facts.items() if time < upper}, upper


class Life:
    """Which stage a capture sees, where it is killed, and what becomes of its memory before it begins."""

    def __init__(self, chance: random.Random, cut: Cut, names: list[str]) -> None:
        self.cut, self.chance = cut, chance
        self.step = chance.choice(names) if chance.random() < 0.5 else None
        self.nth = chance.choice((1, 1, 2, 3, 5))
        self.memory = chance.choice(("kept", "kept", "lost", "older"))

    def live(self, capture: Callable[[], None], came: Came, upper: Callable[[], int]) -> None:
        """Until it ends, stops or is killed."""
        # A topic that has not what is to be read is refused, whatever is in it.
        step = None if self.step is None else (self.step, self.nth)
        live(came, self.cut, capture, upper, step, passed_over=(UnsafeTopicError,))


def live(
    came: Came, cut: Cut, capture: Callable[[], object], upper: Callable[[], int], step: tuple[str, int] | None,
    *, passed_over: tuple[type[Cdcv2Error], ...] = (),
) -> None:
    """A capture runs until it ends, stops or is killed at the step."""
    stop = None
    try:
        with ExitStack() as stack:
            if step is not None:
                stack.enter_context(failpoints.placed(*step))
            capture()
    except (failpoints.PlacedCrash, *passed_over):
        return
    except SourceStop as found:
        stop = f"{found.reason}. {found.remedy}"
        came.lasting |= {stop} if found.lasting else set()
    except Cdcv2Error as found:
        stop = f"{UNWANTED} {type(found).__name__}: {found}"
    came.lives.append((cut, stop, upper()))


def lives(world: World, chance: random.Random, names: list[str]) -> list[Life]:
    """Some in each stage; then two that are not killed, one with its memory and one without."""
    found = [Life(chance, stage, names) for stage in world.stages for _ in range(chance.choice((1, 1, 1, 2)))]
    last = [Life(chance, world.whole, names) for _ in range(2)]
    for life, memory in zip(last, ("kept", "lost")):
        life.step, life.memory = None, memory
    return [*found, *last]


# -- by commit times


def by_commits_spilled(world: World, way: Way, seed: int) -> Came:
    """The same with few rows in memory, the others in a temporary file."""
    return by_commits(world, way, seed, spilling=random.Random(f"{seed} spill"))


def by_commits_cut(world: World, way: Way, seed: int) -> Came:
    """The same in logs that are cut between its lives; some rows are in a temporary file, if they can be."""
    chance = random.Random(f"{seed} cut")
    return by_commits(world, way, seed, cutting=chance, spilling=None if way.state else chance)


def by_commits(
    world: World, way: Way, seed: int, some: Iterable[Life] | None = None, *, spilling: random.Random | None = None,
    cutting: random.Random | None = None,
) -> Came:
    """A capture by commit times, which lives so, or as is drawn."""
    chance, came, records = random.Random(seed), Came(), world.records()
    steps = PLAIN_STEPS if spilling is None else [*PLAIN_STEPS, *SPILL_STEPS]
    logs, memory, older = {table: WatchedLog(table) for table in TABLES}, KeptMemory(), [None]
    heads, forgets = Cut(), random.Random(f"{seed} heads")

    def upper() -> int:
        return said_by(logs)[1]

    for life in lives(world, chance, steps) if some is None else some:
        at = None if cutting is None else time_to_cut(logs, cutting)
        if at is not None:
            # What it knew and reported is of the logs that were cut.
            logs, memory, older = cut(logs, at), KeptMemory(), [None]
            came.lives, came.lasting = [], set()
        older.append(memory.plain)
        memory.plain = {"kept": memory.plain, "lost": None, "older": chance.choice(older)}[life.memory]
        if world.forgets and memory.plain is not None:
            _forget(memory.plain["positions"].get(TRANSACTIONS, {}).get("0", 0), heads, forgets)
        topics = SeenTopics(records, life.cut, chance, heads)
        for log in logs.values():
            log.close()
            log.known = lambda topics=topics: (dict(topics.seen), topics.from_memory)  # type: ignore[misc]

        def one(topics: SeenTopics = topics) -> None:
            every = chance.choice((1, 1, 2, 5, 2000))
            size = chance.choice((1, 2, 1000))
            few = MEMORY_ROWS if spilling is None else spilling.choice((0, 1, 3))
            with Capture(
                recipe(world, way), logs, memory=memory, updates_per_message=size, memory_rows=few,
            ) as capture:
                run(capture, topics, release_every=every)

        life.live(one, came, upper)
    came.forgot = bool(heads)
    came.facts, came.upper = said_by(logs)
    came.given = {table: [*log.given] for table, log in logs.items()}
    came.kept = kept_in(logs)
    if came.lasting:
        came.afterwards.append(_stop_of(lambda: _captured(recipe(world, way), logs, SeenTopics({}, {}, chance, {}))))
    if some is None and not heads:
        came.without_memory = _without_memory(world, way, logs)
    return came


def time_to_cut(logs: Mapping[str, WatchedLog], chance: random.Random) -> int | None:
    """A time up to which logs are cut: one of the history, the one before or after it, or any; None: they are not."""
    facts, upper = said_by(logs)
    times = sorted({*facts, upper - 1})
    if not facts or chance.random() < 0.5:
        return None
    at = chance.choice((chance.choice(times) + chance.choice((-1, 0, 1)), chance.randint(times[0], times[-1])))
    return min(max(at, times[0]), times[-1])


def cut(logs: Mapping[str, WatchedLog], at: int) -> dict[str, WatchedLog]:
    """New logs with what these have up to the time, as ``cdcv2 rewrite --at`` makes them."""
    found = {}
    for table, log in logs.items():
        described = log.description()
        new = found[table] = WatchedLog(table)
        new.describe(described.of_copy())
        new.given = [replace(one, upper=min(one.upper, at + 1)) for one in log.given if one.lower <= at]
        begins = described.begins
        if log.messages and described.covered and begins <= at:
            reader = Iter(log.messages, start=[begins], begins=[begins])
            kept = [update for batch in reader for update in batch.updates if check_int(update[1]) <= at]
            counts = Counter(update[1] for update in kept)
            new.carry([*([Updates(kept)] if kept else []), Progress([begins], [at + 1], dict(counts))])
    return found


def _without_memory(world: World, way: Way, logs: Mapping[str, WatchedLog]) -> tuple[str | None, bool]:
    """What stops a run that has no memory and releases after each record, and whether the logs then keep a stop."""
    came, topics = Came(), SeenTopics(world.records(), world.whole, random.Random(world.seed), Cut())
    life = Life(random.Random(0), world.whole, PLAIN_STEPS)
    life.step = None
    for log in logs.values():
        log.close()

    def one() -> None:
        with Capture(recipe(world, way), logs) as capture:
            run(capture, topics, release_every=1)

    life.live(one, came, lambda: 0)
    return came.stop, bool(stops_of(logs.values()))


def _captured(how: Recipe, logs: Mapping[str, WatchedLog], topics: SeenTopics) -> None:
    with Capture(how, logs) as capture:
        run(capture, topics)


def kept_in(logs: Mapping[str, StopLog]) -> dict[str, set[str]]:
    """The stops that these logs keep."""
    return {name: {f"{stop.reason}. {stop.remedy}" for stop in log.stops()} for name, log in logs.items()}


def _stop_of(capture: Callable[[], None]) -> str | None:
    """What stops it."""
    try:
        capture()
    except SourceStop as found:
        return f"{found.reason}. {found.remedy}"
    return None


def _forget(before: int, heads: Cut, chance: random.Random | None) -> None:
    """The transaction topic loses some, or all, of what need not be read on from, which stands before an offset."""
    place = TRANSACTIONS, 0
    head = before if chance is None else chance.randint(0, before)
    if head > heads.get(place, 0):
        heads[place] = head


# -- on a timeline


class Timeline(RemapInMemory):
    """A remap in memory, its logs, and topics that are seen to grow up to a stage."""

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world.records(), chance)
        self.cut: Cut = {}
        self.logs = {table: MemoryLog(table) for table in TABLES}
        self.temp = MemoryLog("temp")

    def look(self) -> TopicExtents:
        """Somewhat further than the last time."""
        for place, end in self.cut.items():
            if self.chance.random() < 0.6:
                now = self.ends.get(place, 0)
                self.ends[place] = max(now, min(end, now + self.chance.choice((1, 1, 2, 4, 50))))
        return self.seen()

    def run(self, world: World, way: Way) -> None:
        """One life: until all of the stage is bound and written."""
        how = recipe(world, way)
        bound = BoundRecipe({table: {"database": how.prefix} for table in how.tables})
        binder = Binder(
            self, bound, topics=frozenset(how.topics()), now=self.now, at_most=self.chance.choice((1, 2, 3, 7, 1000)),
        )
        binder.begin(TopicExtents({}))
        size = self.chance.choice((1, 1000))
        writers = TableWriters(self.logs, updates_per_message=size)
        output = Database(how, writers, (self.temp, Writer(self.temp)), ordering=way.ordering)
        capture = SharedCapture(binder, self, [output], at_most=self.chance.choice((1, 10, 1000)))
        self.carry(binder, capture)

    def carry(self, binder: Binder, capture: SharedCapture) -> None:
        """Look, bind and carry, in turns that are drawn."""
        while True:
            look = self.look()
            for _ in range(self.chance.choice((1, 1, 2, 5))):
                if not binder.bind(look):
                    break
            moved = capture.carry()
            seen = all(self.ends.get(place, 0) >= end for place, end in self.cut.items())
            if not moved and seen and binder.caught_up(self.look().ends):
                return

    def told(self) -> tuple[dict[int, Facts], int]:
        """The content of the logs; up to where TEMP is stated, while no table has an output."""
        facts, upper = said_by(self.logs)
        if not upper and self.temp.messages:
            temp = Iter(self.temp.messages)
            for _ in temp:
                continue
            upper = check_int(temp.frontier.elements[0])
        return facts, upper

    def forget(self, chance: random.Random | None) -> None:
        """The transaction topic loses some, or all, of what is carried into all logs."""
        upper = said_by(self.logs)[1]
        before = [cut for time, cut in sorted(bindings(self).items()) if time < upper] if upper else []
        _forget(before[-1].get((TRANSACTIONS, 0), 0) if before else 0, self.heads, chance)

    def first_stated(self) -> int | None:
        """The least time up to which anything was ever stated of a table."""
        uppers = (one.upper for log in self.logs.values() for one in log.messages if isinstance(one, Progress))
        return min((check_int(upper.elements[0]) for upper in uppers), default=None)

    def close(self) -> None:
        """What was sent and is not durable is lost."""
        for log in (*self.logs.values(), self.temp):
            log.close()


def bound(world: World, way: Way, seed: int) -> Came:
    """A capture on a remap of its own."""
    chance, came = random.Random(seed), Came()
    timeline = Timeline(world, chance)

    def upper() -> int:
        return timeline.told()[1]

    forgets = random.Random(f"{seed} heads")
    for life in lives(world, chance, BOUND_STEPS):
        timeline.close()
        if world.forgets:
            timeline.forget(forgets)
        timeline.cut = life.cut
        life.live(lambda: timeline.run(world, way), came, upper)
    came.facts, came.upper = timeline.told()
    came.first_stated, came.forgot = timeline.first_stated(), bool(timeline.heads)
    came.cuts = bindings(timeline)
    came.kept = kept_in(timeline.logs)
    if came.lasting:
        timeline.close()
        timeline.forget(None)
        came.afterwards.append(_stop_of(lambda: timeline.run(world, way)))
    return came


def bindings(log: Any) -> dict[int, Cut]:
    """Where the topics were at each time of a remap that is bound."""
    from cdcv2.timeline.minting import follow, run as minted
    from cdcv2.timeline.partitioned import NOT_STARTED
    from cdcv2.timeline.shared_remap import SharedRemap

    shared = SharedRemap(NOT_STARTED)
    minted(log, follow(shared))
    return {into: dict(places(where)) for into, where in shared.remap.bindings()}
