"""What the tests of replay share: small histories of awkward rows, logs of them in directories, and runs over those.

The truth is always what ``Iter`` gives out for the very messages that lie in the logs.
"""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol import Iter, Message, Progress, Update, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.spark.output import history
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.reader import Reader
from cdcv2.spark.replay import ReplayPlan, replay
from cdcv2.spark.sources import LogPlace, LogSources

#: A row type in which everything that is hard to compare occurs.
ROWS = RowType({"type": "record", "name": "thing", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"]},
    {"name": "size", "type": "double"},
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
]})
#: A row type that is quick to write down.
PLAIN = RowType({"type": "record", "name": "plain", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}]})


def updates(seed: int, count: int = 60, times: int = 12, row_type: RowType = ROWS) -> list[Update]:
    """Random updates, each identity once."""
    choice = random.Random(seed)
    made: dict[Any, int] = {}
    while len(made) < count:
        values: list[Any] = [choice.randrange(8), choice.choice([None, "", "a", "ü", "日本"])]
        if row_type is ROWS:
            values += [
                choice.choice([0.0, -0.0, float("nan"), 1.5, float("-inf")]),
                [choice.choice(["x", "", None]) for _ in range(choice.randrange(3))],
                choice.choice([None, bytes([choice.randrange(3)]), b"\xff\x7f"]),
            ]
        made[row_type.row(values), choice.randrange(times)] = choice.choice([1, 1, -1, 7])
    return [(data, time, diff) for (data, time), diff in made.items()]


def messages(facts: Sequence[Update], upper: int | None, *, lower: int = 0, seed: int = 0) -> list[Message]:
    """The log of some updates: in chunks, with statements at random cuts up to ``upper`` (None: the end)."""
    choice = random.Random(seed)
    last = 1 + max((time for _, time, _ in facts), default=0) if upper is None else upper
    cuts = sorted({lower, last, *(choice.randint(lower, last) for _ in range(3))})
    said: list[Message] = [Updates(facts[at:at + 7]) for at in range(0, len(facts), 7)]
    for low, high in zip(cuts, cuts[1:]):
        counts = Counter(time for _, time, _ in facts if low <= time < high)
        said.append(Progress([low], [high], counts))
    if upper is None:
        said.append(Progress([last], []))
    return said


#: Of which timeline the logs are.
THINGS = LogDescription(timeline="things")


def put(
    path: Path, said: Iterable[Message], *, row_type: RowType = ROWS, per_file: int = 3,
    description: LogDescription = THINGS,
) -> LogPlace:
    """Write messages into a directory log, so many per file; the place, of the table that the directory is named after.

    A directory called ``things~copy`` holds a copy of the log of ``things``.
    """
    log = DirectoryLog(path, row_type, create=True, description=description)
    for number, message in enumerate(said, 1):
        log.send(message)
        if number % per_file == 0:
            log.flush()
    log.flush()
    return LogPlace(path.name.partition("~")[0], "directory", str(path))


def plan(folder: Path, places: Sequence[LogPlace], *, files: int | None = None, **others: Any) -> ReplayPlan:
    """A replay of places into ``folder``: state and output there, what is available now, ``files`` of each a batch."""
    tables = {place.table: DirectoryLog(place.name).row_type for place in places}
    made = ReplayPlan(
        LogSources(places, {}, None, files), tables, folder / "out", folder / "state", folder / "state" / "checkpoint",
        Antichain([0]), True, 0.1,
    )
    return replace(made, **others) if others else made


def run(spark: SparkSession, wanted: ReplayPlan) -> Reader:
    """Replay to the end of what is there, without output for people."""
    return replay(spark, wanted, ProgressLines(), signals=False)


def told(spark: SparkSession, wanted: ReplayPlan) -> tuple[Reader, str]:
    """The same, and the lines that it prints for people."""
    people = io.StringIO()
    return replay(spark, wanted, ProgressLines(people), signals=False), people.getvalue()


def replayed(spark: SparkSession, wanted: ReplayPlan) -> dict[str, Counter[Update]]:
    """What is in the output: of each table, how often each update is there."""
    return {
        table: Counter(
            (row_type.row(tuple(row["data"])), row["time"], row["diff"])
            for row in history(spark, wanted.output, table=table).collect()
        )
        for table, row_type in wanted.tables.items()
    }


def truth(logs: Mapping[str, Iterable[Message]], start: Iterable[int] = (0,)) -> dict[str, Counter[Update]]:
    """The same as ``Iter`` gives it out, at times before the meet of the frontiers that it reaches for the tables."""
    read = {}
    reached = Antichain()
    for table, said in logs.items():
        iterator = Iter(said, start=start)
        read[table] = [update for batch, _ in iterator for update in batch]
        reached = reached.meet(iterator.frontier)
    return {
        table: Counter(update for update in found if not reached.less_equal(update[1]))
        for table, found in read.items()
    }
