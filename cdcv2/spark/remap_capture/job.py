"""The capture job on a shared remap: what its arguments mean, and the capture at work.

See :mod:`cdcv2.spark.capture.job`, which has the arguments.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.sql import SparkSession

from cdcv2.capture.binder import Binder
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.empty_directory import clear_empty
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.log_types import in_directories, kept_types
from cdcv2.capture.run.omitted_tables import CaptureLogs, bring_up, check_left_out
from cdcv2.capture.run.recipe_check import DatabaseLogs, check_first, check_fresh, check_there
from cdcv2.capture.run.remap_loop import RunOptions, RunResult, begin_when_there, carry_on
from cdcv2.capture.run.request import CaptureRequest, temp_name, together
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.capture.run.timeline_manifest import check_timeline, write_timeline
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.cli.options.capture import broker, dump_files, from_kafka
from cdcv2.cli.options.remap_capture import capture_request, run_options
from cdcv2.connectors.debezium.envelope import FROM_STATE, Recipe
from cdcv2.connectors.debezium.topics_check import check_meet
from cdcv2.connectors.dump_files import DumpedRanges, DumpedTopics
from cdcv2.errors import MissingLogError, UsageError
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import CAPTURE_FILE, log_set_in
from cdcv2.logs.description import LogDescription
from cdcv2.logs.log_set import describe_log_set
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.protocol.log import Log, LogAddress
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture.logs import TableLogs
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.remap_capture.before_images import BoundKeyedDatabase
from cdcv2.spark.remap_capture.capture import BoundCapture
from cdcv2.spark.remap_capture.frames import Frames, KafkaFrames, MemoryFrames
from cdcv2.spark.remap_capture.outputs import BoundDatabase, BoundOutput, BoundPlain
from cdcv2.spark.session import tune
from cdcv2.store.file_system import is_there
from cdcv2.timeline.minting import RemapLog
from cdcv2.timeline.ordering import COMMIT_ORDER


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
    ranges, frames = _topics(plan)
    for recipe, _ in plan.request.databases.values():
        check_meet(
            recipe, _there(plan, recipe, ranges), follow=plan.run.follow,
            remark=lambda text: report.write("waiting", text),
        )
    begun = begin_when_there(
        plan.run, lambda look: _remap(plan, ranges, look), ranges.look, stopping=stopping.is_set,
        remark=lambda text: report.write("waiting", text),
    )
    if begun is None:
        return None
    log, look = begun
    own = tune(spark.newSession())
    came = carry_on(
        plan.run, log, look, lambda binder: _opened(plan, binder, ranges, frames, own, report),
        check=lambda binder: _check_proposed(plan, binder, look, ranges),
        stopping=stopping.is_set, remark=lambda text: report.write("waiting", text),
    )
    if came is not None:
        frontier = came.frontier.elements[0] if came.frontier else "none"
        waiting = "; ".join(came.waiting) or "nothing is held"
        report.write("end", f"frontier {frontier}; {came.records} records; {waiting}",
                     frontier=came.frontier.to_plain(), records=came.records, waits=came.waiting)  # fmt: skip
    return came


def outcome(came: RunResult | None, *, finished: bool) -> Exit:
    """One that was told to end waits for the rest; one that has read all there is (``finished``) misses it."""
    return Exit.MISSING if finished and came is not None and came.waiting else Exit.DONE


def _topics(plan: RemapCapturePlan) -> tuple[Ranges, Frames]:
    options = plan.options
    if not from_kafka(options):
        held = DumpedRanges(DumpedTopics(*dump_files(options)))
        return held, MemoryFrames(held)
    return _in_kafka(plan, plan.request), KafkaFrames(options.bootstrap, options.kafka_config)


def _in_kafka(plan: RemapCapturePlan, asked: CaptureRequest) -> Ranges:
    from cdcv2.connectors.kafka_ranges import KafkaRanges
    from cdcv2.store.kafka_client import Client

    client = Client(plan.options.bootstrap, plan.options.kafka_config)
    return KafkaRanges(client, asked.topics, single=asked.single)


def _there(plan: RemapCapturePlan, recipe: Recipe, ranges: Ranges) -> Collection[str]:
    """All topics that there are."""
    if not from_kafka(plan.options):
        return ranges.look().topics
    from cdcv2.connectors.kafka_topics import KafkaTopics
    from cdcv2.store.kafka_client import Client

    return KafkaTopics(Client(plan.options.bootstrap, plan.options.kafka_config), recipe).topics()


def _remap(plan: RemapCapturePlan, ranges: Ranges, look: TopicExtents) -> RemapLog:
    """The remap, which is made if it is not there; not for topics that are not or do not fit, which would leave it."""
    missing = sorted(plan.request.needed - look.topics)
    try:
        return _open_remap(plan)
    except MissingLogError:
        if not missing:
            check_first(plan.request, look, ranges)
            return _open_remap(plan, create=True)
        raise MissingLogError(
            f"there is no topic {missing[0]!r}: its name is wrong, or it has not been written yet"
        ) from None


def _open_remap(plan: RemapCapturePlan, *, create: bool = False) -> RemapLog:
    if not plan.remap.is_topic:
        return DirectoryRemap(Path(plan.remap.name).absolute(), create=create)
    from cdcv2.logs.remap_kafka import KafkaRemap

    return KafkaRemap(
        plan.remap.name, plan.options.log_bootstrap or plan.options.bootstrap,
        config_file=plan.options.kafka_config, create=create,
    )


def _check_proposed(plan: RemapCapturePlan, binder: Binder, look: TopicExtents, ranges: Ranges) -> None:
    """Raise an error unless the recipe can be continued, as far as that can be seen before it is proposed."""
    check_left_out(binder, _left(plan, ranges))
    _check_logs(plan, binder)
    check_fresh(binder, plan.request, look, ranges, at_first=plan.options.begin_at_first)


def _check_logs(plan: RemapCapturePlan, binder: Binder) -> None:
    """Raise an error unless the logs that are there can be continued. Makes none."""
    asked, folder = plan.request, together(plan.logs)
    if folder is not None:
        check_timeline(folder, str(binder.bound.timeline))
    check_there(binder, [(table, plan.spec(table, kind).open) for table, (_, kind) in asked.plain.items()], [
        DatabaseLogs(
            names, {table: plan.spec(names[table], kind).open for table, kind in recipe.tables.items()},
            plan.spec(temp_name(plan.logs, prefix), TEMP).open, recipe.snapshot == "initial",
        )
        for prefix, (recipe, names) in asked.databases.items()
    ])


def _left(plan: RemapCapturePlan, ranges: Ranges) -> CaptureLogs:
    """The logs of tables that are left out, where they are; a dump is read as it was."""
    return CaptureLogs(
        plan.logs, Path(plan.options.rows), lambda name, kind: plan.spec(name, kind).open(writing=True),
        lambda asked: _in_kafka(plan, asked) if from_kafka(plan.options) else ranges, plan.options.max_records,
    )


@contextmanager
def _opened(
    plan: RemapCapturePlan, binder: Binder, ranges: Ranges, frames: Frames, spark: SparkSession, report: CaptureReport
) -> Iterator[BoundCapture]:
    """The capture with its logs, which are made if they are not there.

    Long, as it is one order: what is refused comes before what stays for ever, and all that was opened is closed.
    """
    options, asked, folder = plan.options, plan.request, together(plan.logs)
    described = LogDescription(asked.ordering)
    with ExitStack() as opened:
        if folder is not None:
            used = opened.enter_context(FolderInUse(folder))
            clear_empty(used, {"timeline": str(binder.recipe.timeline)}, asked.logs(plan.logs))
        bring_up(binder, _left(plan, ranges), partial(report.write, "left out"))
        unnoted = folder is not None and not is_there(folder / CAPTURE_FILE)
        if unnoted or asked.ordering != COMMIT_ORDER:
            # A note, and a mark that a log is in no order, stay for ever: the logs of others get none.
            _check_logs(plan, binder)
        if folder is not None:
            write_timeline(folder, str(binder.recipe.timeline), asked.recipe.tables, ordering=asked.ordering)
        outputs: list[BoundOutput] = []
        spread: list[TableLogs] = []
        kept: dict[str, Log] = {}

        def own() -> None:
            whole = describe_log_set(
                {**kept, **{log.name: log for logs in spread for log in logs.all()}},
                replace(log_set_in(folder), timeline=binder.recipe.timeline),
            )
            for logs in spread:
                logs.described(whole)
            binder.of_log_set(whole.log_set)

        def written(log: Log) -> Writer:
            kept[log.name] = log
            return opened.enter_context(Writer(log))

        if asked.plain:
            logs = TableLogs({
                table: plan.spec(table, kind, described) for table, (_, kind) in asked.plain.items()
            })
            spread.append(logs)
            outputs.append(BoundPlain(0, asked.plain, logs, spark))
            opened.callback(logs.close)
        for prefix, (recipe, names) in asked.databases.items():
            specs = {
                table: plan.spec(names[table], kind, described) for table, kind in recipe.tables.items()
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
                len(outputs), recipe, logs, (temp, writer), spark, ordering=asked.ordering, names=names
            ))
        for text in kept_types(in_directories(plan.logs, asked.logs(plan.logs))):
            report.write("kept-types", text)
        capture = BoundCapture(
            binder, ranges, frames, outputs, spark, at_most=options.max_records, report=report, own=own
        )
        opened.callback(capture.close)
        report.write(
            "start", f"{len(asked.recipe.tables)} tables; goes on from {capture.frontier.to_plain()}",
            tables=sorted(asked.recipe.tables), frontier=capture.frontier.to_plain(),
        )
        yield capture
