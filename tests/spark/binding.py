"""Captures of dumped topics on a shared remap, with Spark and without it: what their tests share."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdcv2.capture.facts import Record
from cdcv2.capture.run.remap_loop import RunResult
from cdcv2.cli import main as cli
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Updates
from cdcv2.protocol.resolver import Resolver
from cdcv2.spark.capture.job import parser
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.remap_capture import job as bound_job
from cdcv2.timeline.binding import check_int
from tests.test_events import Job


def dumped(path: Path, records: Iterable[Record]) -> Path:
    """The records in a file, as a dump."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({
        "topic": record.topic, "partition": record.partition, "offset": record.offset,
        "key": None if record.key is None else record.key.decode(),
        "value": None if record.value is None else record.value.decode(),
    }) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Bound:
    """Topics, a remap in a directory, and captures of them; ``words`` are the options for what is captured."""

    def __init__(self, folder: Path, topics: Path, words: Sequence[str]) -> None:
        self.folder, self.topics, self.words = folder, topics, list(words)
        self.said, self.job = io.StringIO(), Job()

    def spark(self, spark: SparkSession, into: str, *more: str) -> RunResult:
        """The job's capture, to the end of what is there. Raises what ends it."""
        words = [
            str(self.topics), "--remap", str(self.folder / "remap"), "--into", str(self.folder / into),
            "--no-follow", *self.words, *more,
        ]
        plan = bound_job.planned(parser().parse_args(words))
        report = CaptureReport(people=self.said, events=self.job.events)
        came = bound_job.capture(spark, plan, report, stopping=threading.Event())
        assert came is not None
        return came

    def pure(self, into: str, *more: str) -> int:
        """The command, in this process; its exit code."""
        dumps = [str(path) for path in sorted(self.topics.iterdir())]
        words = ["--remap", str(self.folder / "remap"), "--into", str(self.folder / into), *self.words, *more]
        return cli.main(["capture", *dumps, *words])

    def facts(self, into: str) -> dict[str, Any]:
        """By log, those of TEMP included: the updates, each once, and how far it is stated."""
        return {
            str(path.parent.relative_to(self.folder / into)): told(DirectoryLog(path.parent))
            for path in sorted((self.folder / into).rglob("_log.json"))
        }

    def known(self, log: str) -> int:
        """How far a log is stated, whatever else it holds."""
        reader = Resolver()
        for entry in DirectoryLog(self.folder / log).read():
            reader.absorb(entry)
        return check_int(reader.known.elements[0])


def told(log: DirectoryLog) -> tuple[set[Any], Any]:
    """The updates and the frontier of a log; every update in it is counted, and nothing is missing."""
    messages = [entry.message for entry in log.read() if entry is not None]
    updates = {update for message in messages if isinstance(message, Updates) for update in message.updates}
    reader = Iter(messages)
    assert sum(len(batch.updates) for batch in reader) == len(updates), "an update that no statement counts"
    assert not reader.missing()
    return updates, reader.frontier
