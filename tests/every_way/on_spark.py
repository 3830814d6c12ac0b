"""The ways to capture on Spark, run over a history: dumped topics in files, logs in directories, one session."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from cdcv2.capture.facts import Record
from cdcv2.capture.run.request import TEMP_FOLDER
from cdcv2.logs.description import LogDescription, description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.remap_files import DirectoryRemap
from tests.every_way.compare import Case
from tests.every_way.connector import NOTIFICATIONS, PREFIX, TRANSACTIONS, Place
from tests.every_way.database import TABLES
from tests.every_way.judge import Facts, Way
from tests.every_way.pure import ROWS, Came, bindings, kept_in, live, of_covered, recipe
from tests.every_way.ways import judged_by
from tests.every_way.world import Cut, World
from tests.spark.binding import Bound, dumped
from tests.spark.capturing import CaptureRun, dump_into, log_messages

STEPS = ("release.table-written", "release.table-stated", "release.stated", "release.temp-stated",
         "release.updates-durable", "shared-capture.read", "writer.updates-durable")  # fmt: skip


@dataclass(frozen=True)
class SparkRoad:
    """A kind of capture on Spark, and what is asked of it; ``bound``: on a remap."""

    name: str
    way: Way
    bound: bool

    def takes(self, world: World) -> bool:
        """As without Spark."""
        return not self.bound or world.snapshot != "marked"


ROADS = (
    SparkRoad("commit times", Way(), False),
    SparkRoad("commit times, from state", Way(state=True), False),
    SparkRoad("remap", Way(), True),
    SparkRoad("remap, from state", Way(state=True), True),
    SparkRoad("remap, as complete", Way("complete"), True),
)


def check(road: SparkRoad, world: World, spark: SparkSession, folder: Path) -> Came:
    """Run it, and judge. Raises :class:`~tests.every_way.compare.Different`."""
    came = (bound if road.bound else by_commits)(world, road.way, world.seed, spark, folder)
    Case(f"Spark, {road.name}", judged_by(world, road.way), road.way, came, bound=road.bound).check()
    return came


def can(world: World) -> bool:
    """Whether the topics are there that a capture asks for."""
    wanted = [TRANSACTIONS, *([NOTIFICATIONS] if world.snapshot == "notified" else [])]
    return all(world.entries.get((topic, 0)) for topic in wanted)


def _stages(world: World, chance: random.Random) -> list[Cut]:
    """A part, in which the topics are there, and all."""
    part = {place: chance.randint(0, end) for place, end in world.stages[0].items()}
    for place in part:
        if place[0] in (TRANSACTIONS, NOTIFICATIONS):
            part[place] = max(1, part[place])
        elif world.snapshot == "marked":
            part[place] = world.whole[place]
    return [*([part] if chance.random() < 0.5 else []), world.whole]


def _between(records: dict[Place, list[Record]], low: Cut, high: Cut, chance: random.Random) -> Iterator[Record]:
    """The records that are new, each partition in order."""
    left = {place: low.get(place, 0) for place, end in high.items() if low.get(place, 0) < end}
    while left:
        place = chance.choice(list(left))
        yield records[place][left[place]]
        left[place] += 1
        if left[place] == high[place]:
            del left[place]


def told(logs: Path) -> tuple[dict[int, Facts], int]:
    """The content of the logs, of the tables that the connector covers."""
    there = {table: (logs / table).is_dir() for table in TABLES}
    return of_covered(
        {table: log_messages(logs / table, ROWS) if is_there else [] for table, is_there in there.items()},
        {table: description_of(DirectoryLog(logs / table)) if is_there else LogDescription()
         for table, is_there in there.items()},
    )


def _kept(logs: Path) -> dict[str, set[str]]:
    """The stops that the logs which there are keep."""
    return kept_in({table: DirectoryLog(logs / table) for table in TABLES if (logs / table).is_dir()})


def _told_on_a_remap(run: Bound) -> tuple[dict[int, Facts], int]:
    """The same; up to where TEMP is stated, while no table has an output."""
    facts, upper = told(run.folder / "logs")
    temp = f"logs/{TEMP_FOLDER}/{PREFIX}"
    return facts, upper or (run.known(temp) if (run.folder / temp).is_dir() else 0)


def _step(chance: random.Random, last: bool) -> tuple[str, int] | None:
    return None if last or chance.random() < 0.5 else (chance.choice(STEPS), chance.choice((1, 2)))


def by_commits(world: World, way: Way, seed: int, spark: SparkSession, folder: Path) -> Came:
    """A capture by commit times."""
    chance, came, records, before = random.Random(seed), Came(), world.records(), Cut()
    run = CaptureRun(folder, recipe(world, way))
    for cut in _stages(world, chance):
        new = list(_between(records, before, cut, chance))
        if new:
            dump_into(folder / "topics", new, size=max(1, len(new) // chance.choice((1, 1, 2)) + 1))
        before = cut
        live(came, cut, lambda: run.run(spark), lambda: told(run.logs)[1], _step(chance, cut == world.whole))
    came.facts, came.upper = told(run.logs)
    came.kept = _kept(run.logs)
    return came


def bound(world: World, way: Way, seed: int, spark: SparkSession, folder: Path) -> Came:
    """A capture on a remap of its own."""
    chance, came, records = random.Random(seed), Came(), world.records()
    (folder / "rows").mkdir(parents=True)
    for table in TABLES:
        (folder / "rows" / f"{table}.avsc").write_text(json.dumps(ROWS.schema), "utf-8")
    words = ["--prefix", PREFIX, "--rows", str(folder / "rows"), "--full-identity", ",".join(sorted(world.full))]
    words += ["--notifications", NOTIFICATIONS] if world.snapshot == "notified" else ["--snapshot", "none"]
    words += ["--empty", str(world.declared_empty)] if world.unnamed else []
    words += ["--before", "from-state"] if way.state else []
    words += ["--ordering", "complete"] if way.ordering == "complete" else []
    run, size = Bound(folder, folder / "topics", words), str(chance.choice((3, 7, 20, 1000)))
    for cut in _stages(world, chance):
        dumped(folder / "topics" / "all.jsonl", _between(records, Cut(), cut, chance))
        step = _step(chance, cut == world.whole)
        live(
            came, cut, lambda: run.spark(spark, "logs", "--bind-at-most", size), lambda: _told_on_a_remap(run)[1], step
        )
    came.facts, came.upper = _told_on_a_remap(run)
    came.cuts = bindings(DirectoryRemap(folder / "remap"))
    came.kept = _kept(folder / "logs")
    return came
