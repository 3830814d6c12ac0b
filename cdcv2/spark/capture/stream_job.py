"""The capture job with ``--stream``: topics whose records have times of their own, each into the log of one table.

Each topic is a query of its own, and its log is stated as far as the topic is complete. See
:mod:`cdcv2.spark.capture.job`, which has the arguments.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession

from cdcv2.capture.run.manifest import write_stream_manifest
from cdcv2.capture.run.stream_state import StreamTopic
from cdcv2.capture.run.stream_tables import demand_topics
from cdcv2.capture.run.waits import stream_waits
from cdcv2.capture.topics import TopicExtents
from cdcv2.cli.options.capture_arguments import broker, dump_directory, from_kafka
from cdcv2.cli.options.stream_arguments import stream_topics
from cdcv2.connectors.kafka_ranges import KafkaRanges
from cdcv2.errors import MissingLogError
from cdcv2.events import JobProgress
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import log_set_in
from cdcv2.logs.log_json import kept_types
from cdcv2.logs.timeline_of_logs import describe_log_set
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.stateful_run import StatefulRun
from cdcv2.spark.capture.stream import CheckSpan, StreamCapture
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.capture.topics import check_dumped_span, dumped_stream, dumped_topics
from cdcv2.spark.paths import nameable, streamable
from cdcv2.spark.topics import reading, settings
from cdcv2.store.kafka_client import Client


class StreamSource(Protocol):
    """Where the records come from. Called on the driver."""

    def demand(self, spark: SparkSession) -> None:
        """Raise MissingLogError for a topic that is not there."""

    def look(self) -> TopicExtents:
        """What there is of the topics, as far as is known before they are read."""

    def single(self, topic: str) -> bool:
        """Whether the topic has one partition, as far as is known before it is read."""

    def span_check(self) -> CheckSpan | None:
        """What is asked of each partition of a micro-batch; None: nothing."""

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """The records as a stream, from the start of the topic."""


class DumpedStreams:
    """Topics that were dumped to the files of a directory; see :class:`~cdcv2.spark.capture.topics.FileTopics`.

    ``topics`` are those of which something must be there. Of others files that were read may be missing.
    """

    def __init__(self, folder: Path, topics: Sequence[str], files: int | None = None) -> None:
        streamable(folder)
        self._folder, self._topics, self._files = folder, topics, files

    def demand(self, spark: SparkSession) -> None:
        """A topic without a line is none. Cost: reads files up to the first line of each topic.

        Raises MissingLogError unless folder and topics are there.
        """
        nameable(spark, self._folder)
        if not self._folder.is_dir():
            raise MissingLogError(f"there is no directory {self._folder} with dumped topics")
        lines = dumped_topics(spark, self._folder)
        there = [topic for topic in self._topics if lines.where(lines.topic == topic).take(1)]
        demand_topics(self._topics, there, str(self._folder))

    def look(self) -> TopicExtents:
        """That is seen when they are read; files have no identities."""
        return TopicExtents({})

    def single(self, topic: str) -> bool:
        """That is seen when they are read."""
        return True

    def span_check(self) -> CheckSpan:
        """Of what a micro-batch reads, dumps have each record once."""
        return partial(check_dumped_span, self._folder)

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """Those of the topic."""
        frame = dumped_stream(spark, self._folder, self._files)
        return frame.where(frame.topic == topic)


class KafkaStreams:
    """Topics of a cluster. ``records`` limits a micro-batch (None: all that is there)."""

    def __init__(self, bootstrap: str, config_file: str | None, topics: list[str], records: int | None) -> None:
        self._java, self._records, self._topics = settings(bootstrap, config_file), records, topics
        self._ranges = KafkaRanges(Client(bootstrap, config_file), topics)
        self._look = TopicExtents({})

    def demand(self, spark: SparkSession) -> None:
        """By its partitions. Raises UnsafeTopicError for a compacted one."""
        self._look = self._ranges.look()
        demand_topics(self._topics, self._look.topics)

    def look(self) -> TopicExtents:
        """As it was when they were demanded."""
        return self._look

    def single(self, topic: str) -> bool:
        """As it was when it was looked for."""
        return sum(of == topic for of, _ in self._look.spans) == 1

    def span_check(self) -> None:
        """Spark fails where an offset is missing; those of the markers of transactions never had a record."""

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """By Spark's source."""
        options = reading(self._java) | {"subscribe": topic, "startingOffsets": "earliest"}
        if self._records is not None:
            options["maxOffsetsPerTrigger"] = str(self._records)
        return spark.readStream.format("kafka").options(**options).load()


class StreamJobPlan(NamedTuple):
    """What a capture of stream topics is to do: the arguments, checked as far as they can be without Spark."""

    tables: dict[str, StreamTopic]
    source: StreamSource
    logs: dict[str, LogSpec]
    run: StatefulRun


def planned(options: argparse.Namespace) -> StreamJobPlan:
    """The plan of parsed arguments. Raises UsageError."""
    run = StatefulRun.of(options)
    tables = stream_topics(options)
    source: StreamSource
    if not from_kafka(options):
        # One that was begun may have read files that are missing now.
        new = [one.topic for table, one in tables.items() if not (run.state / table).is_dir()]
        source = DumpedStreams(dump_directory(options), new, options.max_files)
    else:
        topics = [one.topic for one in tables.values()]
        source = KafkaStreams(broker(options), options.kafka_config, topics, options.max_records)
    logs = {table: LogSpec.of(options.into, table, one.records.row_type, options) for table, one in tables.items()}
    return StreamJobPlan(tables, source, logs, run)


def capture(
    spark: SparkSession, plan: StreamJobPlan, report: CaptureReport, stopping: threading.Event | None = None
) -> Exit:
    """Run the queries until their input ends (``available_now``), they are to end (``stopping``), or an error."""
    stopping = stopping or threading.Event()
    if not _there(spark, plan, report, stopping):
        return Exit.DONE
    with ExitStack() as running:
        used = plan.run.lock(running)
        if used is not None:
            write_stream_manifest(used, plan.tables)
        progress = _StreamProgress(plan.tables, report)
        captures = {table: _opened(plan, table, report, stopping, progress) for table in sorted(plan.tables)}
        logs = {log.name: log for one in captures.values() for log in one.logs.all()}
        stated = describe_log_set(logs, log_set_in(plan.run.together))
        try:
            for table, one in captures.items():
                one.logs.described(stated)
                frame = plan.source.frame(spark, plan.tables[table].topic)
                one.start(frame, available_now=plan.run.available_now, interval=plan.run.interval)
        except BaseException:
            stopping.set()
            raise
        finally:
            _follow(captures, stopping)
            for one in captures.values():
                one.logs.close()
    waits = {table: one.counts.waits() for table, one in captures.items()}
    known = min(one.known for one in captures.values())
    for table, one in captures.items():
        progress.take(table, one)
    report.turn(progress.state, last=True)
    text = "; ".join(f"{table}: {text}" for table, text in waits.items() if text) or "nothing is open"
    report.write("end", f"frontier {known}; {text}", frontier=[known])
    return Exit.MISSING if any(waits.values()) and plan.run.available_now and not stopping.is_set() else Exit.DONE


class _StreamProgress:
    """How far the captures of all tables are, each as it was after its last turn: they work at the same time."""

    def __init__(self, tables: Mapping[str, StreamTopic], report: CaptureReport) -> None:
        self._topics, self._report = {table: one.topic for table, one in tables.items()}, report
        self._known, self._held, self._records = (dict.fromkeys(tables, 0) for _ in range(3))
        self._waits: dict[str, str | None] = dict.fromkeys(tables)

    def take(self, table: str, capture: StreamCapture) -> None:
        """This capture is so far."""
        self._known[table], self._held[table] = capture.known, capture.counts.held
        self._records[table], self._waits[table] = capture.records, capture.counts.waits()

    def turn(self, table: str, capture: StreamCapture) -> None:
        """This capture has ended a turn."""
        self.take(table, capture)
        self._report.turn(self.state)

    def state(self) -> JobProgress:
        """How far all are; when a time of a stream was, is not known."""
        waits = stream_waits((table, self._topics[table], text) for table, text in self._waits.items() if text)
        counts = {"records": sum(self._records.values())}
        return JobProgress([min(self._known.values())], None, waits, sum(self._held.values()), counts)


def _opened(
    plan: StreamJobPlan, table: str, report: CaptureReport, stopping: threading.Event, progress: _StreamProgress
) -> StreamCapture:
    """The capture of one table; its topic has all that it needs."""
    source = plan.tables[table]
    made = StreamCapture(
        source, plan.logs[table], plan.run.state / table, single=plan.source.single(source.topic),
        look=plan.source.look(), check=plan.source.span_check(), stopping=stopping, report=report,
        turn=partial(progress.turn, table),
    )
    progress.take(table, made)
    spec = plan.logs[table]
    text = f"{table} -> {spec.name}; frontier {made.known}"
    report.write("log", text, table=table, log=spec.name, frontier=[made.known])
    for text in kept_types([(Path(spec.folder), spec.row_type)] if spec.folder is not None else []):
        report.write("kept-types", text)
    return made


def _there(spark: SparkSession, plan: StreamJobPlan, report: CaptureReport, stopping: threading.Event) -> bool:
    """Wait until the topics are there; False: it is to end before they are. One that does not follow waits for none."""

    def there(remark: Callable[[str], None]) -> bool:
        try:
            plan.source.demand(spark)
        except MissingLogError as missing:
            if plan.run.available_now:
                raise
            remark(f"waiting: {missing}")
            return False
        return True

    return report.wait(there, stopping)


def _follow(captures: Mapping[str, StreamCapture], stopping: threading.Event) -> None:
    """Follow all queries to their ends; where one ends with an error, the others end, too, and it is raised."""
    with ThreadPoolExecutor(len(captures)) as pool:
        ends = [pool.submit(one.wait) for one in captures.values()]
        for end in as_completed(ends):
            if end.exception() is not None:
                stopping.set()
    for end in ends:
        end.result()
