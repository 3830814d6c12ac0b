"""Captures on Spark from dumped topics in files: what their tests share."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdcv2.capture.connector import FROM_STATE
from cdcv2.capture.facts import Record
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Message
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture.keyed_capture import KeyedCapture
from cdcv2.spark.capture.spark_capture import SparkCapture
from cdcv2.spark.capture.query import CaptureQuery
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.capture.topics import FileTopics
from cdcv2.spark.job import Guard, follow


def dump_into(folder: Path, records: Iterable[Record], *, size: int) -> None:
    """Write the records, in this order, into files of ``size``; their order is that of their modification times."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({
        "topic": record.topic, "partition": record.partition, "offset": record.offset,
        "key": None if record.key is None else record.key.decode(),
        "value": None if record.value is None else record.value.decode(),
    }) for record in records]
    present = len(list(folder.glob("*.jsonl")))
    for number, first in enumerate(range(0, len(lines), size), present):
        path = folder / f"{number:06d}.jsonl"
        path.write_text("\n".join(lines[first:first + size]) + "\n", encoding="utf-8")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


class CaptureRun:
    """One capture in a folder of its own: ``topics``, if not elsewhere, ``logs`` and ``state``; run it ever again."""

    def __init__(self, folder: Path, recipe: Recipe, *, files: int | None = 1, topics: Path | None = None) -> None:
        self.folder, self.recipe = folder, recipe
        self.topics = FileTopics(topics or folder / "topics", recipe, files)
        self.state, self.logs = folder / "state", folder / "logs"
        self.said = io.StringIO()

    def specs(self) -> dict[str, LogSpec]:
        """A directory log for each table."""
        return {
            table: LogSpec(table, row_type, folder=str(self.logs / table))
            for table, row_type in self.recipe.tables.items()
        }

    def run(self, spark: SparkSession) -> CaptureQuery:
        """Read what is there, to the end. Raises what ends it."""
        kind = KeyedCapture if self.recipe.before == FROM_STATE else SparkCapture
        capture = kind(self.recipe, self.topics, self.specs(), self.state, spark, CaptureReport(people=self.said))
        try:
            guard = Guard(capture.batch)
            follow(capture.query(guard, available_now=True), guard)
        finally:
            capture.close()
        return capture

    def messages(self, table: str) -> list[Message]:
        """What the log of a table holds."""
        return log_messages(self.logs / table, self.recipe.tables[table])


def log_messages(path: Path, row_type: RowType) -> list[Message]:
    """The messages of a directory log, every one of which can be decoded."""
    messages: list[Any] = [entry.message for entry in DirectoryLog(path, row_type).read() if entry is not None]
    return messages


def facts_of(logs: Mapping[str, list[Message]]) -> dict[str, tuple[set[Any], Any]]:
    """By table: the updates in a log, each once, and how far a reader comes; every update is counted."""
    from cdcv2.protocol.iter import Iter
    from cdcv2.protocol.messages import Updates

    found: dict[str, tuple[set[Any], Any]] = {}
    for table, messages in logs.items():
        updates = {update for message in messages if isinstance(message, Updates) for update in message.updates}
        reader = Iter(messages)
        assert sum(len(batch.updates) for batch in reader) == len(updates), "an update that no statement counts"
        assert not reader.missing()
        found[table] = updates, reader.frontier
    return found
