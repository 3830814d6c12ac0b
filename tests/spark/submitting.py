"""Replay as a real ``spark-submit``, and a look at its output without Spark: what the process left is all there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as parquet

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError
from cdcv2.protocol import Message, Progress, Update, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import Child
from cdcv2.servers.submit import spark_submit
from cdcv2.materialize.targets.lake.view import open_lake
from cdcv2.spark.sources import LogPlace
from tests.spark.replaying import PLAIN, updates

#: What keeps a small test small: half the fixed cost of a micro-batch.
QUICK = {
    "spark.sql.streaming.checkpointFileManagerClass":
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.shuffle.partitions": "2",
}


def submit(
    folder: Path, places: Sequence[LogPlace], *options: str, master: str = "local[2]",
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Start a replay of directories, with state and output in ``folder``."""
    logs = [f"{place.table}={place.name}" for place in places]
    arguments = [*logs, "--state", str(folder / "state"), "--output", str(folder / "out"), *options]
    return spark_submit(
        "replay", arguments, folder=folder, master=master, settings=QUICK, environment=environment
    )


def rolling(times: int, *, seed: int = 9, row_type: RowType = PLAIN) -> list[Message]:
    """A log that finishes one time with each pair of messages, and repeats the updates of the time before."""
    facts = updates(seed, count=5 * times, times=times, row_type=row_type)
    said: list[Message] = []
    for time in range(times):
        now = [fact for fact in facts if fact[1] == time]
        before = [fact for fact in facts if fact[1] == time - 1]
        said += [Updates(now + before), Progress([time], [time + 1], {time: len(now)} if now else {})]
    return said


def reached(folder: Path) -> int:
    """The time up to which the output in ``folder`` is finished; -1 when there is none yet."""
    try:
        frontier = open_lake(folder / "out").frontier
    except MissingLogError:
        return -1
    return int(frontier.to_plain()[0])  # type: ignore[arg-type]


def left(folder: Path, table: str = "things", row_type: RowType = PLAIN) -> Counter[Update]:
    """How often each update is in the output."""
    found: Counter[Update] = Counter()
    view = open_lake(folder / "out")
    for part in view.manifest.parts.get(table, ()):
        for row in parquet.read_table(view.folder.file(table, part)).to_pylist():
            found[row_type.row(list(row["data"].values())), row["time"], row["diff"]] += 1
    return found


def before(everything: Counter[Update], frontier: Antichain) -> Counter[Update]:
    """Of these updates those at times that are not beyond the frontier."""
    return Counter({fact: count for fact, count in everything.items() if not frontier.less_equal(fact[1])})
