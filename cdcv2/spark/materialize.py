"""The materialize job: from logs to views in another system, on executors.

The views are kept exactly once. The file is that of cdcv2 materialize (its
--help shows all that it may have). The command and the job may take turns on
one target, and cdcv2 compare takes the file, too. Drivers: postgres, lake,
delta. For the others use cdcv2 materialize.

Executors reduce, look up and stage the rows. What is finished with a
micro-batch is one transaction. So its size is that of --max-records and
--max-files, and "rows" in the file has no effect here. Executors need the
packages of the driver (psycopg; pyarrow; deltalake), its folder under the
same path or the way to its server, and what libpq takes from the environment.

You may kill it and start it again at any moment. SIGTERM and Ctrl-C end it
between two micro-batches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from cdcv2.cli.options.log_words import check_batch
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.spark_jobs import add_materialize_job_options
from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.events import JobEvents
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.timeline_of_logs import FIELD
from cdcv2.logs.named_logs import NamedLog
from cdcv2.materialize.distributed import DistributedRuntime
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.protocol.messages import Checkpoint
from cdcv2.materialize.recovery_log import RecoveryLog
from cdcv2.materialize.targets.delta.driver import DeltaDriver
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.spark.delta import committer
from cdcv2.spark.job import SUBMIT, run
from cdcv2.spark.materialization_target import MaterializationTarget
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.reader import Reader
from cdcv2.spark.replay import ReplayPlan, outcome, quarantine_of, replay
from cdcv2.spark.schema import spark_type
from cdcv2.spark.session import ended, session
from cdcv2.spark.sources import LogPlace, LogSources
from cdcv2.spark.topics import settings
from cdcv2.store.numbered import local_path
from cdcv2.views.binding import ViewBinding
from cdcv2.views.identity import Provenance

EXAMPLES = (
    (f"{SUBMIT} streaming_jobs/materialize.py shop.yaml --state /data/shop-state", "until SIGTERM"),
    (f"{SUBMIT} streaming_jobs/materialize.py shop.yaml --state /data/shop-state --no-follow --max-files 100",
     "what is there, in transactions of at most 100 files a directory, and end"),
    ("spark-submit --jars $(python -m cdcv2.servers.jars spark),$(python -m cdcv2.servers.jars delta) "
     "--py-files cdcv2.zip --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
     "--conf spark.sql.catalog.spark_catalog=$CATALOG "
     "streaming_jobs/materialize.py shop-delta.yaml --state /data/shop-state --merge-on-spark",
     "Delta tables, merged by Delta on Spark; CATALOG is org.apache.spark.sql.delta.catalog.DeltaCatalog"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "done, also after SIGTERM",
    Exit.MISSING: "with --no-follow: the logs end before all that they state has arrived",
    Exit.WRONG: "the logs contradict themselves, or hold bytes that are no message; or a value does not fit the target",
}


class MaterializationSpec(Protocol):
    """The content of a materialization's file (``cdcv2.control.plan.MaterializationPlan``)."""

    @property
    def name(self) -> str:
        """The materialization."""

    @property
    def logs(self) -> Sequence[NamedLog]:
        """The logs that bindings name."""

    @property
    def bindings(self) -> Sequence[ViewBinding]:
        """The views."""

    @property
    def driver(self) -> Callable[[], Driver]:
        """Makes the driver."""

    @property
    def recovery(self) -> Callable[[], RecoveryLog | None]:
        """Opens the recovery log."""

    @property
    def start(self) -> int:
        """Where the history begins."""

    @property
    def kafka(self) -> tuple[str | None, Path | None]:
        """Where the logs' topics are: an address, a file of settings."""

    @property
    def timeline(self) -> str | None:
        """That of logs which do not state it."""

    @property
    def quarantine(self) -> Path | None:
        """The folder of decisions about contradictions."""

    def provenance(self) -> Provenance:
        """Timeline and identities of the logs, in the order of commits, asked once they have something.

        Raises RefusedError.
        """

    def demand_made_of(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Raise ForeignStateError unless the logs, if they have anything, are those that the checkpoints are of."""

    def demand_continued(self) -> None:
        """Raise what resuming from the checkpoint would raise, as far as reading shows it. Fences no instance."""

    def found(self) -> Antichain:
        """Up to where the target has the views, as it is now. Raises RefusedError where it lost a commit."""

    def demand_reached(self, frontier: Antichain, logs: Antichain) -> None:
        """Raise IncompleteError unless the logs, complete up to ``logs``, are so up to where the target is."""


class SpecReader(Protocol):
    """What reads a materialization from a file."""

    def __call__(self, path: str, view: str | None, *, create: bool) -> MaterializationSpec:
        """That of a view; ``create``: whether the driver makes what is missing. Raises UsageError."""


def main(read: SpecReader, arguments: Sequence[str] | None = None) -> int:
    """Run the job with these arguments (default: the process's). Returns the exit code. ``read`` reads the file."""
    def body(events: JobEvents) -> Exit:
        options = parser().parse_args(arguments)
        given = read(options.file, options.view, create=not options.no_create)
        plan = planned(given, options)
        log = given.recovery()
        driver = given.driver()
        if options.merge_on_spark and not isinstance(driver, DeltaDriver):
            raise UsageError("--merge-on-spark is for the driver delta: leave it out")
        runtime = DistributedRuntime(given.name, given.bindings, driver, log=log, start=[given.start])
        try:
            with ended(session(options.app_name, spark_log=options.spark_log)) as spark:

                def target() -> MaterializationTarget:
                    if isinstance(driver, DeltaDriver) and options.merge_on_spark:
                        driver.commit = committer(spark)
                    return views_of(given, runtime)

                reader = replay(spark, plan, ProgressLines.standard(events, job="materialize"), target=target)
                return exit_code(given, runtime, reader)
        finally:
            runtime.close()

    return run("materialize", arguments, body)


def views_of(given: MaterializationSpec, runtime: DistributedRuntime) -> MaterializationTarget:
    """The views, as a target of the reader, which opens the runtime where it begins.

    Raises ForeignStateError unless they are made of these logs, now and when it begins.
    """
    given.demand_continued()

    def begin() -> None:
        runtime.open()
        given.demand_made_of([runtime.checkpoint])
        for one in runtime.remarks:
            print(f"materialize: {one}", file=sys.stderr)

    return MaterializationTarget(runtime, given.provenance, given.found, begin)


def exit_code(given: MaterializationSpec, runtime: DistributedRuntime, reader: Reader) -> Exit:
    """The exit code of a reader that has ended. Raises IncompleteError if its logs end before the views do."""
    if reader.finished:
        given.demand_reached(runtime.checkpoint.frontier, reader.released)
    return outcome(reader)


def planned(given: MaterializationSpec, options: argparse.Namespace) -> ReplayPlan:
    """How the logs are read. Closes those of the file. Raises UsageError for what Spark cannot read."""
    places: list[LogPlace] = []
    tables: dict[str, RowType] = {}
    for named in given.logs:
        if named.times != "int":
            raise UsageError(f"the times of {named.log.name} have {named.times} coordinates: this job takes integers")
        spark_type(named.row_type)
        there = isinstance(named.log, DirectoryLog)
        places.append(LogPlace.of(LogAddress("directory" if there else "topic", named.log.name, named.table)))
        if tables.setdefault(named.table, named.row_type) != named.row_type:
            raise UsageError(f"the logs of {named.table!r} have different row types: they are no copies of one log")
        named.log.close()
    limits = {"--max-records": options.max_records, "--max-files": options.max_files}
    check_batch([word for word, limit in limits.items() if limit is not None], {place.kind for place in places})
    kafka = settings(*given.kafka) if any(place.kind == "topic" for place in places) else {}
    state = local_path(options.state)
    kept = local_path(options.checkpoint) if options.checkpoint else state / "checkpoint"
    return ReplayPlan(
        LogSources(places, kafka, options.max_records, options.max_files), tables, None, state, kept,
        Antichain([given.start]), not options.follow, options.interval,
        given.timeline, FIELD, quarantine_of(options) or given.quarantine,
    )  # fmt: skip


def parser() -> OptionParser:
    """The job's arguments."""
    made = OptionParser("materialize.py", __doc__, EXAMPLES, EXITS)
    add_materialize_job_options(made)
    return made
