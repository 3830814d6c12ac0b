"""The capture job: from Debezium's topics to one log per table.

All logs are of one timeline. The tables need REPLICA IDENTITY FULL. The
connector needs provide.transaction.metadata=true and skipped.operations=none.
Each table needs a row type, DIR/SCHEMA.TABLE.avsc (see cdcv2 rows). The topic
of a table may be missing until its first row. The transaction topic must be
there, with one partition.

With --before from-state, tables with a key need only REPLICA IDENTITY
DEFAULT: before-images are looked up in what the logs hold, and a TRUNCATE
takes every row away. The driver then holds all rows, decides and writes.
Executors read and parse.

You may kill it and start it again at any moment. Its state may be lost: it
then reads the topics from their start, and repeats what the logs have. What
it cannot carry over ends it with reason and remedy: a second snapshot, a
changed row type, a TRUNCATE without --before from-state. The logs are
complete up to there. SIGTERM and Ctrl-C end it between two micro-batches.

With --remap the times are not those of commits: offsets are bound to the
milliseconds of one timeline, in a remap that captures share. So topics that
were never a database (--plain) and several databases have one cut over all.
Any number of captures with the same arguments, on Spark or not (cdcv2 capture
--remap), write the same into the same logs. Any of them may die, be upgraded
or be moved. Nothing is kept beside the logs, so there is no --state.

With --stream the records are updates that have times of their own, in a
column, and bounds: how far the topic is complete. --stream goes without
--prefix and --remap.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from pyspark.sql import SparkSession

from cdcv2.capture.connector import FROM_STATE, DatabaseConnector
from cdcv2.capture.run.manifest import write_manifest
from cdcv2.cli.options.capture_arguments import broker, dump_directory, from_kafka, left_out, recipe_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.capture_parser import add_capture_job_options
from cdcv2.errors import SourceStop
from cdcv2.events import JobEvents
from cdcv2.exits import Exit
from cdcv2.logs.capture_manifest import log_set_in
from cdcv2.logs.description import LogDescription
from cdcv2.logs.release_times import ReleaseTimes
from cdcv2.spark.capture import stream_job
from cdcv2.spark.capture.keyed_capture import KeyedCapture
from cdcv2.spark.capture.spark_capture import SparkCapture
from cdcv2.spark.capture.query import CaptureQuery
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.stateful_run import StatefulRun
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.capture.topics import FileTopics, SparkKafkaTopics, SparkTopics
from cdcv2.spark.job import SUBMIT, Guard, follow, listen, run
from cdcv2.spark.remap_capture import job as bound_job
from cdcv2.spark.session import KAFKA, ended, require, session

EXAMPLES = (
    (f"{SUBMIT} streaming_jobs/capture.py kafka --bootstrap localhost:9092 --prefix bank "
     "--notifications bank.notifications --rows rows --tables public.accounts,public.ledger --into kafka:cdc.{table} "
     "--state /data/capture",
     "from Kafka into topics, until SIGTERM"),
    (f"{SUBMIT} streaming_jobs/capture.py kafka --bootstrap localhost:9092 --prefix bank --rows rows --into /data/logs "
     "--state /data/capture --no-follow", "into directories: what is there, and end"),
    (f"{SUBMIT} streaming_jobs/capture.py /data/dumped --prefix bank --rows rows --into /data/logs "
     "--state /data/capture --no-follow", "from dumped topics (JSON lines), without Kafka"),
    (f"{SUBMIT} streaming_jobs/capture.py kafka --bootstrap localhost:9092 --remap kafka:timeline "
     "--plain clicks=web.clicks --prefix bank --notifications bank.notifications --rows rows --into kafka:cdc.{table}",
     "a plain topic and a database, on a remap"),
    (f"{SUBMIT} streaming_jobs/capture.py kafka --bootstrap localhost:9092 --stream prices=market.prices "
     "--rows market --into kafka:cdc.{table} --state /data/prices", "a topic whose records have times of their own"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done, also after SIGTERM",
    Exit.MISSING: "with --no-follow: the topics end inside a transaction or a snapshot",
    Exit.WRONG: "a record is no row, or cannot be read: topic, partition and offset are named",
    Exit.UNABLE: "a server is down, or the capture met something that no log can continue across, such as a second "
                 "snapshot: reason and remedy are printed, and the logs are complete up to there",
}


class CaptureJobPlan(NamedTuple):
    """What a capture is to do: the arguments, checked as far as they can be without Spark."""

    recipe: DatabaseConnector
    topics: SparkTopics
    logs: dict[str, LogSpec]
    run: StatefulRun


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with these arguments (default: the process's). Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments

    def body(events: JobEvents) -> Exit:
        options = parser().parse_args(given)
        report = CaptureReport.standard(events)
        overlooked = left_out(options)
        if overlooked is not None:
            report.write("left-out", overlooked)
        options.command_line = f"spark-submit (its own options) streaming_jobs/capture.py {shlex.join(given)}"
        if options.stream:
            return _streams(options, report)
        if options.remap is not None:
            return _bound(options, report)
        plan = planned(options)
        with _started(options) as (spark, stopping):
            if not begins(spark, plan, report, stopping):
                return Exit.DONE
            return outcome(capture(spark, plan, report, stopping))

    return run("capture", given, body)


@contextmanager
def _started(options: argparse.Namespace) -> Iterator[tuple[SparkSession, threading.Event]]:
    """A session that has what the capture needs, and the event of a signal that is to stop it."""
    stopping = threading.Event()
    with ended(session(options.app_name, spark_log=options.spark_log)) as spark:
        if from_kafka(options):
            require(spark, KAFKA)
        listen(spark, stopping)
        yield spark, stopping


def _streams(options: argparse.Namespace, report: CaptureReport) -> Exit:
    plan = stream_job.planned(options)
    with _started(options) as (spark, stopping):
        return stream_job.capture(spark, plan, report, stopping)


def _bound(options: argparse.Namespace, report: CaptureReport) -> Exit:
    plan = bound_job.planned(options)
    with _started(options) as (spark, stopping):
        came = bound_job.capture(spark, plan, report, stopping=stopping)
        return bound_job.outcome(came, finished=not options.follow and not stopping.is_set())


def begins(spark: SparkSession, plan: CaptureJobPlan, report: CaptureReport, stopping: threading.Event) -> bool:
    """Wait until all topics are there that a capture must have; False: it is to end before they are.

    One that does not follow waits for none. Reports what it waits for. Raises MissingLogError for topics that nothing
    could ever be complete of, and what asking raises.
    """
    return report.wait(
        lambda remark: plan.topics.check_meet(spark, follow=not plan.run.available_now, remark=remark), stopping
    )


def capture(
    spark: SparkSession, plan: CaptureJobPlan, report: CaptureReport, stopping: threading.Event | None = None
) -> CaptureQuery:
    """Run a capture until its input ends (``available_now``), it is to end (``stopping``), or an error."""
    with ExitStack() as running:
        return _capture(spark, plan, report, running, stopping or threading.Event())


def _capture(
    spark: SparkSession, plan: CaptureJobPlan, report: CaptureReport, running: ExitStack, stopping: threading.Event
) -> CaptureQuery:

    def begin() -> LogDescription:
        used = plan.run.lock(running)
        if used is not None:
            write_manifest(used, plan.recipe)
        return log_set_in(plan.run.together)

    kind = KeyedCapture if plan.recipe.before == FROM_STATE else SparkCapture
    times = None if plan.run.together is None else ReleaseTimes(plan.run.together)
    made: CaptureQuery = kind(plan.recipe, plan.topics, plan.logs, plan.run.state, spark, report, begin, times)
    try:
        guard = Guard(made.batch, stopping, lambda: report.turn(made.progress))
        follow(made.query(guard, available_now=plan.run.available_now, interval=plan.run.interval), guard)
        made.finished = plan.run.available_now and not stopping.is_set()
        if made.finished:
            made.ended()
        report.turn(made.progress, last=True)
    except SourceStop:
        # All before it is released.
        report.turn(made.progress, last=True)
        raise
    finally:
        made.close()
    frontier = made.frontier
    through = "nothing is stated yet" if frontier is None else f"frontier {frontier.elements[0]}"
    report.write("end", f"{through}; {made.waits().text}", frontier=frontier and frontier.to_plain())
    return made


def outcome(made: CaptureQuery) -> Exit:
    """One that goes on, or that was asked to end, waits for the rest; one that has read all there is misses it."""
    return Exit.MISSING if made.finished and made.waits().inside else Exit.DONE


def planned(options: argparse.Namespace) -> CaptureJobPlan:
    """The plan of parsed arguments. Raises UsageError."""
    job_run = StatefulRun.of(options)
    recipe = recipe_of(options)
    topics: SparkTopics
    if not from_kafka(options):
        topics = FileTopics(dump_directory(options), recipe, options.max_files)
    else:
        topics = SparkKafkaTopics(
            broker(options), recipe, config_file=options.kafka_config, records=options.max_records
        )
    logs = {
        table: LogSpec.of(options.into, table, row_type, options)
        for table, row_type in recipe.tables.items()
    }
    return CaptureJobPlan(recipe, topics, logs, job_run)


def parser() -> OptionParser:
    """The job's arguments."""
    made = OptionParser("capture.py", __doc__, EXAMPLES, EXITS)
    add_capture_job_options(made)
    return made
