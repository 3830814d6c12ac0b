"""The replay job: from logs to finished, consistent tables in Parquet.

The history is written in order. A table may be given several logs: they are
copies, in any overlap, and all are read. All tables must be of one timeline.
They are finished together.

You may kill it and start it again at any moment. SIGTERM and Ctrl-C end it
between two micro-batches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.rows import row_file
from cdcv2.cli.options.spark_jobs import add_replay_job_options
from cdcv2.cli.options.times import given_times
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.events import JobEvents
from cdcv2.exits import Exit
from cdcv2.logs.commit_clock import CommitClock, states_remap
from cdcv2.logs.coverage import TableCoverage, coverage
from cdcv2.logs.description import LogDescription, description_of, known_by
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_names import table_of
from cdcv2.logs.timeline_of_logs import OPTION, LogPart, one_timeline
from cdcv2.logs.quarantine import decisions_about, disputed_in, history_of
from cdcv2.logs.stops import stops_of
from cdcv2.rows.row_type import RowType
from cdcv2.spark import checkpoint
from cdcv2.spark.job import SUBMIT, Guard, follow, listen, run, translated, triggered
from cdcv2.spark.output import OutputFolder, Target
from cdcv2.spark.paths import nameable, writable
from cdcv2.spark.progress import ProgressLines, ReaderProgress, lacking
from cdcv2.spark.reader import Reader
from cdcv2.spark.session import AVRO, KAFKA, ended, require, session
from cdcv2.spark.sources import LogFacts, LogPlace, LogSources, row_type_of, stated
from cdcv2.spark.topics import TopicDescription, check, describe, settings
from cdcv2.store.numbered import local_path
from cdcv2.views.identity import Provenance

EXAMPLES = (
    (f"{SUBMIT} streaming_jobs/replay.py accounts=kafka:bank.accounts ledger=/data/logs/ledger "
     "--row accounts=schemas/accounts.avsc --bootstrap localhost:9092 --state /data/replay/state "
     "--output /data/replay/tables --no-follow", "two tables, one from a topic and one from a directory, and end"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done, also after SIGTERM",
    Exit.MISSING: "with --no-follow: the logs end before all that they state has arrived",
    Exit.WRONG: "the logs contradict themselves, or hold bytes that are no message",
}


@dataclass(frozen=True)
class ReplayPlan:
    """What a replay is to do: the arguments, checked as far as they can be without Spark.

    ``output``: None where the target is no folder. ``timeline``: that of logs which do not state it;
    ``naming``: what stands before a name where a user may give it. ``quarantine``: a folder of decisions.
    """

    logs: LogSources
    tables: Mapping[str, RowType]
    output: Path | None
    state: Path
    checkpoint: Path
    start: Antichain
    available_now: bool
    interval: float
    timeline: str | None = None
    naming: str = OPTION
    quarantine: Path | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with these arguments (default: the process's). Returns the exit code."""
    def body(events: JobEvents) -> Exit:
        options = parser().parse_args(arguments)
        plan = planned(options)
        with ended(session(options.app_name, spark_log=options.spark_log)) as spark:
            return outcome(replay(spark, plan, ProgressLines.standard(events=events)))

    return run("replay", arguments, body)


def replay(
    spark: SparkSession, plan: ReplayPlan, progress: ProgressLines, *, signals: bool = True,
    target: Callable[[], Target] | None = None,
) -> Reader:
    """Run a replay to its end: of the input, of the history, or when a signal asks for it (``signals``).

    ``target`` opens what is finished goes to, by default the plan's output. Raises what is wrong with the logs, the
    state or the target.
    """
    reader = opened(spark, plan, progress, target)
    far = ReaderProgress(reader, _clock(spark, plan))
    guard = Guard(reader, turn=lambda: progress.turn(far.state))
    if signals:
        listen(spark, guard.stopping)
    reader.resume(spark)
    follow(started(spark, plan, guard), guard, until=lambda: not reader.released)
    if plan.available_now and not guard.stopping.is_set():
        reader.finish(spark)
    reader.demand_applied()
    progress.turn(far.state, last=True)
    progress.end(reader.released, reader.tables)
    return reader


def outcome(reader: Reader) -> Exit:
    """A job that follows, or that was stopped, waits for what lacks; one that has read all there is misses it."""
    if reader.finished and any(reader.disputed.get(table) for table in reader.tables):
        return Exit.WRONG
    return Exit.MISSING if reader.finished and lacking(reader.tables) else Exit.DONE


def opened(
    spark: SparkSession, plan: ReplayPlan, progress: ProgressLines, target: Callable[[], Target] | None = None
) -> Reader:
    """The reader of a plan, after every check that can be made before anything is read."""
    require(spark, AVRO, *([KAFKA] if plan.logs.topics else []))
    called = [(plan.output or plan.state) / table for table in plan.tables]
    nameable(spark, plan.state, plan.checkpoint, *called, *plan.logs.directories)
    topics = _topics(spark, plan)
    facts = _stated(spark, plan, topics)
    _timeline(plan, facts)
    covered, histories = _coverage(plan, facts), _histories(plan, facts)
    decided, disputed = decisions_about(plan.quarantine, histories), disputed_in(plan.quarantine, histories)
    into = _target(spark, plan, target, covered)
    reader = Reader(
        plan.state, plan.logs, plan.tables, into, start=plan.start,
        identities={topic.name: topic.identity for topic in topics}, report=progress.batch, covered=covered,
        look=lambda: _coverage(plan, _stated(spark, plan, _topics(spark, plan))),
        decided=decided, disputed={table: [case.time for case in cases] for table, cases in disputed.items()},
    )
    if isinstance(into, OutputFolder) and _hold(plan, topics):
        # Before that, a topic states nothing yet: the output asks when rows come.
        into.demand_made_of(_provenance(plan, topics, facts))
    checkpoint.check(plan.checkpoint, reader.done, reader.folder)
    for topic in topics:
        check(topic, reader.positions.get(topic.name, {}))
    progress.covered(covered)
    progress.quarantined(disputed)
    progress.stopped(sorted({stop for one in facts.values() for stop in one.stops}))
    return reader


def _topics(spark: SparkSession, plan: ReplayPlan) -> list[TopicDescription]:
    return describe(spark, plan.logs.kafka, plan.logs.topics) if plan.logs.topics else []


def _stated(spark: SparkSession, plan: ReplayPlan, topics: Sequence[TopicDescription]) -> dict[str, LogFacts]:
    """What the logs state of themselves now, by their places; topics without a message state nothing yet."""
    facts = stated(spark, plan.logs.kafka, [one.topic for one in topics])
    logs = {name: DirectoryLog(name) for name in plan.logs.directories}
    return facts | {name: LogFacts(description_of(log), tuple(stops_of([log]))) for name, log in logs.items()}


def _clock(spark: SparkSession, plan: ReplayPlan) -> CommitClock:
    """Of logs in topics by commit times it knows nothing: their messages stay on executors."""
    if plan.logs.directories:
        return CommitClock([DirectoryLog(name) for name in plan.logs.directories])

    def on_remap() -> bool | None:
        try:
            facts = _stated(spark, plan, _topics(spark, plan))
        except (PySparkException, Py4JError) as error:
            raise translated(error) from error
        known = [one.description for one in facts.values() if one.description.timeline is not None]
        return states_remap(known[0]) if known else None

    return CommitClock([], on_remap)


def _coverage(plan: ReplayPlan, facts: Mapping[str, LogFacts]) -> TableCoverage:
    return coverage((place.table, facts[place.name].description) for place in plan.logs.places if place.name in facts)


def _histories(plan: ReplayPlan, facts: Mapping[str, LogFacts]) -> dict[str, str]:
    places = [place for place in plan.logs.places if place.name in facts]
    return {
        table: history_of((facts[place.name].description, place.name) for place in places if place.table == table)
        for table in {place.table for place in places}
    }


def _target(
    spark: SparkSession, plan: ReplayPlan, target: Callable[[], Target] | None, covered: TableCoverage
) -> Target:
    if target is not None:
        return target()
    if plan.output is None:
        raise UsageError("this plan has no output: name a folder, or pass a target")

    def made_of() -> Provenance:
        now = _topics(spark, plan)
        return _provenance(plan, now, _stated(spark, plan, now))

    return OutputFolder(plan.output, plan.tables, plan.start, covered, cache(made_of))


def _hold(plan: ReplayPlan, topics: Sequence[TopicDescription]) -> bool:
    """Whether any of the logs has something."""
    held = any(any(DirectoryLog(name).ends().values()) for name in plan.logs.directories)
    return held or any(low < high for topic in topics for low, high in topic.topic.spans.values())


def _timeline(plan: ReplayPlan, facts: Mapping[str, LogFacts]) -> str | None:
    parts = [LogPart(f"the log {name}", one.description.timeline) for name, one in sorted(facts.items())]
    return one_timeline(parts, plan.timeline, naming=plan.naming)


def _provenance(
    plan: ReplayPlan, topics: Sequence[TopicDescription], facts: Mapping[str, LogFacts]
) -> Provenance:
    """As the command has it, which takes turns with this job on one output."""
    called = {topic.name: topic.identity for topic in topics}
    found: dict[str, list[str]] = {}
    for place in plan.logs.places:
        stated = facts[place.name].description if place.name in facts else LogDescription()
        if place.kind == "topic":
            stated = replace(stated, identity=called[place.name], table=place.name)
        found.setdefault(place.table, []).extend(known_by(stated, stated.table))
    return Provenance(_timeline(plan, facts), found)


def started(spark: SparkSession, plan: ReplayPlan, guard: Guard) -> StreamingQuery:
    """Start the query."""
    writer = plan.logs.stream(spark).writeStream.foreachBatch(guard).queryName("cdcv2 replay")
    writer = writer.option("checkpointLocation", writable(plan.checkpoint))
    return triggered(writer, available_now=plan.available_now, interval=plan.interval).start()


def planned(options: argparse.Namespace) -> ReplayPlan:
    """The plan of parsed arguments. Raises UsageError, MissingLogError for a directory that is not there."""
    if not options.log:
        raise UsageError("name the logs that are read: LOG, or TABLE=LOG")
    places = list(map(LogPlace.of, options.log))
    if len({(place.kind, place.name) for place in places}) < len(places):
        raise UsageError("a log is given twice: each topic or directory is the log of one table")
    kafka = {}
    if any(place.kind == "topic" for place in places):
        kafka = settings(options.bootstrap, options.kafka_config)
    names = sorted({place.table for place in places})
    tables = {name: _row_type(name, places, options) for name in names}
    start = Antichain(given_times("--start", options.start or ["0"], places))
    state = local_path(options.state)
    kept = local_path(options.checkpoint) if options.checkpoint else state / "checkpoint"
    return ReplayPlan(
        LogSources(places, kafka, options.max_records, options.max_files), tables, local_path(options.output), state,
        kept, start, not options.follow, options.interval, options.timeline,
        quarantine=quarantine_of(options),
    )


def parser() -> OptionParser:
    """The job's arguments."""
    made = OptionParser("replay.py", __doc__, EXAMPLES, EXITS)
    add_replay_job_options(made)
    made.formerly("--log", "{}")
    made.formerly("--rows", "--row={}", lambda text: table_of(text)[0] is not None)
    return made


def quarantine_of(options: argparse.Namespace) -> Path | None:
    """The folder that the arguments name."""
    return None if options.quarantine is None else local_path(options.quarantine)


def _row_type(table: str, places: Sequence[LogPlace], options: argparse.Namespace) -> RowType:
    """The row type of a table, from --row or --rows and from its directories, which must agree."""
    topic = any(place.table == table and place.kind == "topic" for place in places)
    # A directory knows its own: a folder of row types need not have it.
    given = row_file(table, options) if topic or table in dict(map(table_of, options.row)) else None
    found = [] if given is None else [(given, RowType.load(given))]
    for place in places:
        if place.table == table and place.kind == "directory":
            found.append((place.name, row_type_of(Path(place.name))))
    if not found:
        raise UsageError(f"the row type of {table} is not known: give --row {table}=FILE.avsc")
    for name, row_type in found[1:]:
        if row_type != found[0][1]:
            raise UsageError(
                f"{table}: {found[0][0]} and {name} have different row types; they are no copies of one log"
            )
    return found[0][1]


if __name__ == "__main__":
    sys.exit(main())
