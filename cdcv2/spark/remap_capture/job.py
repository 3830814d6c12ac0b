"""The capture job on a shared remap: what its arguments mean, and the capture at work.

See :mod:`cdcv2.spark.capture.job`, which has the arguments.
"""

from __future__ import annotations

import argparse
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.sql import SparkSession

from cdcv2.capture.binder import Binder
from cdcv2.capture.connector import FROM_STATE
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.remap_capture import DescribeLogs, run_remap_capture
from cdcv2.capture.run.remap_loop import RunOptions, RunResult
from cdcv2.capture.run.request import CaptureRequest, temp_name
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.capture.run.waits import bound_state, result_state
from cdcv2.capture.topics import Ranges
from cdcv2.cli.options.capture_arguments import broker, from_kafka
from cdcv2.cli.options.remap_arguments import capture_request, capture_topics, run_options
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.logs.description import LogDescription
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture.logs import TableLogs
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.remap_capture.keyed_database import BoundKeyedDatabase
from cdcv2.spark.remap_capture.capture import BoundCapture
from cdcv2.spark.remap_capture.frames import Frames, KafkaFrames, MemoryFrames
from cdcv2.spark.remap_capture.outputs import BoundDatabase, BoundOutput, BoundPlain
from cdcv2.spark.session import tune
from cdcv2.store.kafka_client import Client
from cdcv2.timeline.minting import RemapLog


class RemapCapturePlan(NamedTuple):
    """What a capture on a shared remap is to do: the arguments, checked as far as they can be without Spark."""

    run: RunOptions
    options: argparse.Namespace

    @property
    def logs(self) -> LogAddress:
        """Where the logs go."""
        return cast(LogAddress, self.options.into)

    @property
    def remap(self) -> LogAddress:
        """The remap."""
        return cast(LogAddress, self.options.remap)

    @property
    def request(self) -> CaptureRequest:
        """What is captured."""
        return self.run.request

    def spec(self, name: str, row_type: RowType, description: LogDescription = LogDescription()) -> LogSpec:
        """The log that is called so among those that are written."""
        return LogSpec.of(self.logs, name, row_type, self.options, description)


def planned(options: argparse.Namespace) -> RemapCapturePlan:
    """The plan of parsed arguments. Raises UsageError."""
    if from_kafka(options):
        broker(options)
    elif options.follow:
        raise UsageError("dumped topics do not grow: give --no-follow")
    if options.remap.is_topic and options.bootstrap is None and options.log_bootstrap is None:
        raise UsageError("a remap in Kafka needs --bootstrap HOST:PORT or --log-bootstrap HOST:PORT")
    request = capture_request(options)
    return RemapCapturePlan(run_options(options, request), options)


def capture(
    spark: SparkSession, plan: RemapCapturePlan, report: CaptureReport, *, stopping: threading.Event
) -> RunResult | None:
    """Run a capture until its input ends (``--no-follow``), ``stopping`` is set, or an error."""
    options = plan.options

    def client() -> Client:
        return Client(options.bootstrap, options.kafka_config)

    topics = capture_topics(options, client)
    frames = KafkaFrames(options.bootstrap, options.kafka_config) if topics.held is None else MemoryFrames(topics.held)
    stores = _SparkStores(plan, frames, tune(spark.newSession()), report)
    came = run_remap_capture(
        plan.run, topics, stores, stopping=report.events.keeping_alive(stopping.is_set),
        turn=lambda *now: report.turn(partial(bound_state, *now)),
    )
    if came is not None:
        report.turn(partial(result_state, came), last=True)
        frontier = came.frontier.elements[0] if came.frontier else "none"
        waiting = "; ".join(came.waiting) or "nothing is held"
        report.write("end", f"frontier {frontier}; {came.records} records; {waiting}",
                     frontier=came.frontier.to_plain(), records=came.records, waits=came.waiting)  # fmt: skip
    return came


def outcome(came: RunResult | None, *, finished: bool) -> Exit:
    """One that was asked to end waits for the rest; one that has read all there is (``finished``) misses it."""
    return Exit.MISSING if finished and came is not None and came.waiting else Exit.DONE


class _SparkStores:
    """The remap and the logs of the job, whose rows the executors write; see RemapStores."""

    def __init__(self, plan: RemapCapturePlan, frames: Frames, spark: SparkSession, report: CaptureReport) -> None:
        self._plan, self._frames, self._spark, self._report = plan, frames, spark, report

    def remap(self, *, create: bool = False) -> RemapLog:
        """The remap."""
        place, options = self._plan.remap, self._plan.options
        if not place.is_topic:
            return DirectoryRemap(Path(place.name).absolute(), create=create)
        from cdcv2.logs.remap_kafka import KafkaRemap

        return KafkaRemap(
            place.name, options.log_bootstrap or options.bootstrap, config_file=options.kafka_config, create=create
        )

    def log(self, name: str, row_type: RowType) -> Log:
        """The log of this name."""
        return self._plan.spec(name, row_type).open()

    def report(self, what: str, text: str) -> None:
        """A line for people, and one for machines; and an event, of what it waits for."""
        if what == "waiting":
            self._report.waiting(text)
        else:
            self._report.write(what, text)

    def capture(
        self, binder: Binder, ranges: Ranges, description: LogDescription, describe: DescribeLogs, opened: ExitStack
    ) -> BoundCapture:
        """The capture whose driver decides."""
        plan, asked = self._plan, self._plan.request
        outputs: list[BoundOutput] = []
        spread: list[TableLogs] = []
        kept: dict[str, Log] = {}

        def own() -> None:
            whole = describe({**kept, **{log.name: log for logs in spread for log in logs.all()}})
            for logs in spread:
                logs.described(whole)

        def written(log: Log) -> Writer:
            kept[log.name] = log
            return opened.enter_context(Writer(log))

        if asked.plain:
            logs = TableLogs({
                table: plan.spec(table, kind, description) for table, (_, kind) in asked.plain.items()
            })
            spread.append(logs)
            outputs.append(BoundPlain(0, asked.plain, logs, self._spark))
            opened.callback(logs.close)
        for prefix, (recipe, names) in asked.databases.items():
            specs = {
                table: plan.spec(names[table], kind, description) for table, kind in recipe.tables.items()
            }
            temp = plan.spec(temp_name(plan.logs, prefix), TEMP).open(create=True)
            writer = written(temp)
            if recipe.before == FROM_STATE:
                tables = TableWriters({table: spec.open(create=True) for table, spec in specs.items()})
                kept.update({log.name: log for log in tables.logs.values()})
                outputs.append(BoundKeyedDatabase(recipe, tables, (temp, writer), ordering=asked.ordering, names=names))
                continue
            logs = TableLogs(specs)
            spread.append(logs)
            opened.callback(logs.close)
            outputs.append(BoundDatabase(
                len(outputs), recipe, logs, (temp, writer), self._spark, ordering=asked.ordering, names=names
            ))
        capture = BoundCapture(
            binder, ranges, self._frames, outputs, self._spark, at_most=plan.run.at_most, report=self._report, own=own
        )
        self._report.write(
            "start", f"{len(asked.recipe.tables)} tables; resumes from {capture.frontier.to_plain()}",
            tables=sorted(asked.recipe.tables), frontier=capture.frontier.to_plain(),
        )
        return capture
