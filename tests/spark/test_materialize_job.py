"""The materialize job: views that executors keep, each commit a cut, through crashes and kills."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.cli.main import main as command
from cdcv2.control.materialization_file import read_plan
from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, IncompleteError, MalformedError, RefusedError, UsageError, ViewError
from cdcv2.event_stream import read_events
from cdcv2.exits import Exit
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.named_logs import NamedLog
from cdcv2.materialize.distributed import DistributedRuntime
from cdcv2.materialize.targets.delta.driver import open_delta
from cdcv2.materialize.targets.delta.tables import opened
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.protocol import Progress, Updates
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import Child
from cdcv2.servers.submit import spark_submit
from cdcv2.spark.delta import EXTENSION, committer
from cdcv2.spark.materialization_target import MaterializationTarget
from cdcv2.spark.materialize import main, parser, planned, views_of
from cdcv2.spark.replay import outcome
from cdcv2.testing import Workload
from cdcv2.testing.workload import ACCOUNTS, ENTRIES, entry
from tests.spark.materializing import LAST, materialized, written
from tests.spark.submitting import QUICK

pytestmark = [pytest.mark.spark]
PATIENCE = 300
LAKE, DELTA = "{driver: lake, folder: tables}", "{driver: delta, folder: tables}"


TABLES = ("account_total", "entry_log", "account_now", "account_last")


def consistent(tables: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """The tables, in which the last owners are those that the accounts have."""
    last = {key: (values[0], values[-1]) for key, values in tables["account_last"].items()}
    assert {key: (values[0], 1) for key, values in tables["account_now"].items()} == last
    return tables


def seen(view: Any) -> dict[str, dict[Any, Any]]:
    """What a reader sees, and closes."""
    return consistent({table: dict(view.rows(table)) for table in TABLES})


KINDS: dict[str, tuple[str, Callable[[Path], Any], list[str]]] = {
    # What the reader does between views and manifest is the same for all: shown where a run is cheap.
    "lake": (LAKE, open_lake, ["materialize.carried", "reader.before-manifest"]),
    "delta": (DELTA, open_delta, []),
    "merged on Spark": (DELTA, open_delta, ["delta.table"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_views_are_kept_through_crashes(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Sums, a multiset, rows by key; micro-batch after micro-batch; what is committed is a cut, and is not repeated."""
    target, look, crashes = KINDS[kind]
    # Each MERGE on Spark takes seconds, and two transactions show the turns as many do.
    cuts = 2
    work, merge = Workload(cuts=cuts + 2), kind == "merged on Spark"
    path = written(tmp_path, work, target=target, cuts=cuts, last=LAST)
    for step in crashes:
        with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash, match=step):
            materialized(spark, path, "--max-files", "4", merge=merge)
        view = look(tmp_path / "tables")
        (upper,) = view.frontier.elements
        assert work.truth(upper) == work.shown(seen(view)), step
    reader = materialized(spark, path, merge=merge)

    assert (Exit.DONE, Antichain([2 * cuts])) == (outcome(reader), reader.released)
    assert work.truth(2 * cuts) == work.shown(seen(look(tmp_path / "tables")))
    # And the other way of keeping them takes its turn.
    written(tmp_path, work, target=target, last=LAST)
    assert 0 == command(["materialize", str(path)])
    assert work.truth() == work.shown(seen(look(tmp_path / "tables")))
    assert 0 == command(["compare", str(path)])
    if kind == "lake":
        # Logs of an old backup, read from the start.
        shutil.rmtree(tmp_path / "state")
        for log in (tmp_path / "logs").iterdir():
            for file in sorted(log.glob("*.avro"))[-2:]:
                file.unlink()
        left = f"its logs complete through {2 * cuts + 3}: these are not the logs that it was made of"
        with pytest.raises(IncompleteError, match=left):
            materialized(spark, path)
    if merge:
        said = opened(tmp_path / "tables" / "account_total").history()
        engines = ["Spark" in one["engineInfo"] for one in reversed(said[:-1])]
        assert engines == sorted(engines, reverse=True) and {True, False} == set(engines), said


def test_a_spark_that_delta_does_not_work_with_is_refused() -> None:
    """One that was started with nothing, and one of another version; with what to do."""
    class Bare:
        """A Spark that was started with nothing."""

        version = "4.3.0"
        settings: dict[str, str] = {}

        @property
        def sparkContext(self) -> Any:  # noqa: N802
            """Its settings."""
            return self

        def getConf(self) -> dict[str, str]:  # noqa: N802
            """None, at first."""
            return self.settings

    with pytest.raises(UsageError, match="--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension"):
        committer(Bare())  # type: ignore[arg-type]
    Bare.settings = {"spark.sql.extensions": EXTENSION}
    with pytest.raises(UsageError, match="works with Spark 4.2, as Delta 4.4 does, and this is 4.3.0"):
        committer(Bare())  # type: ignore[arg-type]


def test_logs_that_turn_out_to_be_in_no_order_are_refused_before_the_first_commit(tmp_path: Path) -> None:
    """A log that was empty when the job began could not show it."""
    path = written(tmp_path, Workload(seed=1), target=LAKE, cuts=0)
    given = read_plan(str(path))
    runtime = DistributedRuntime(given.name, given.bindings, given.driver(), log=given.recovery(), start=[0])
    try:
        runtime.open()
        views = MaterializationTarget(runtime, given.provenance)
        DirectoryLog(tmp_path / "logs" / "entries", description=LogDescription("complete"))
        with pytest.raises(RefusedError, match="a view of entries needs the state before"):
            views.apply({}, Antichain([0]), Antichain([5]))
        assert Antichain([0]) == views.upper
    finally:
        runtime.close()


def test_a_mistyped_option_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    """As by the command: one line, and its exit code."""
    assert 2 == main(read_plan, ["f.yaml", "--state", "s", "--no-folow"])
    said = capsys.readouterr().err.splitlines()
    assert 1 == len(said)
    assert "unrecognized arguments: --no-folow; did you mean --no-follow? (see materialize.py --help)" in said[0]


def test_other_logs_than_the_views_were_made_of_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the job begins, and before the first transaction: under their names, and of their timeline."""
    path = written(tmp_path, Workload(seed=1), target=LAKE, cuts=2)
    assert 0 == command(["materialize", str(path)])
    views_end = open_lake(tmp_path / "tables").frontier

    def made() -> DistributedRuntime:
        return DistributedRuntime(given.name, given.bindings, given.driver(), log=given.recovery(), start=[0])

    given = read_plan(str(path))
    runtime = made()
    views = views_of(given, runtime)
    views.begin()
    assert (views_end, views_end) == (views.found(), views.upper)
    runtime.close()
    shutil.rmtree(tmp_path / "logs" / "entries")
    written(tmp_path, Workload(seed=1), target=LAKE, cuts=2)
    given = read_plan(str(path))
    runtime = made()
    with pytest.raises(ForeignStateError, match="was made of another log 'entries'"):
        views_of(given, runtime)
    runtime.close()
    with monkeypatch.context() as patch:
        # Another job committed after this one had looked, and before it took over.
        patch.setattr(type(given), "demand_continued", lambda given: None)
        runtime = made()
        views = views_of(given, runtime)
        with pytest.raises(ForeignStateError, match="was made of another log 'entries'"):
            views.begin()
        runtime.close()
    runtime = made()
    runtime.open()
    views = MaterializationTarget(runtime, given.provenance)
    with pytest.raises(ForeignStateError, match="was made of another log 'entries'"):
        views.apply({}, views.upper, Antichain([9]))
    runtime.close()


def test_what_a_task_meets_is_told_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """A row that would be there less than no times; a null in a key: with table, key and value, and nothing counts.

    And what is before it stays: a reader's state that is ahead of views that were recreated is refused.
    """
    work = Workload()
    path = written(tmp_path, work, target=LAKE, cuts=2, last=LAST)
    log = DirectoryLog(tmp_path / "logs" / "entries")
    log.send(Updates([(entry("account z", 1), 4, -1)]))
    log.flush()
    log.send(Progress([4], [5], {4: 1}))
    log.flush()
    other = DirectoryLog(tmp_path / "logs" / "accounts")
    other.send(Progress([4], [5]))
    other.flush()

    # A batch with the two cuts, and one that goes wrong.
    with pytest.raises(ViewError, match="account_total, key .'account z',.: it would have -1 rows"):
        materialized(spark, path, "--max-files", "4")
    assert work.truth(4) == work.shown(seen(open_lake(tmp_path / "tables")))

    named = path.with_name("owners.yaml")
    text = path.read_text("utf-8").replace("now, key: [name]", "now, key: [owner]").replace(" conformance", " owners")
    named.write_text(text.replace("folder: tables", "folder: owners").replace(": recovery", ": owners-log"), "utf-8")
    with pytest.raises(MalformedError, match="account_now: the key column 'owner' is null in .*name key columns"):
        materialized(spark, named, "--max-files", "4", "--state", str(tmp_path / "owners-state"))
    assert {} == dict(open_lake(tmp_path / "owners").rows("account_total"))

    # The target was recreated and the state was not: nothing between may be lost.
    for name in ("tables", "recovery"):
        (tmp_path / name).rename(tmp_path / f"old-{name}")
    with pytest.raises(RefusedError, match="remove the state and its checkpoint"):
        materialized(spark, path)


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        ("{driver: webhook, url: 'http://localhost:1'}", "recovery_log: r", "use cdcv2 materialize, which needs"),
        ("{driver: duck}", "", "'duck' is none of postgres"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, more: str, said: str
) -> None:
    """Found before Spark is started."""
    path = written(tmp_path, Workload(cuts=1), target=target, more=more)

    assert 2 == main(read_plan, [str(path), "--state", str(tmp_path / "state")])
    told = capsys.readouterr().err.splitlines()
    assert (1, True) == (len(told), said in told[0]), told


@dataclass
class Topic:
    """A log in Kafka, as far as a plan looks at it."""

    name: str
    closed: bool = False

    def close(self) -> None:
        """It is not read here."""
        self.closed = True


def test_the_logs_of_the_file_become_those_of_the_reader(tmp_path: Path) -> None:
    """Topics with their settings, directories, copies; what Spark cannot read is refused."""
    written(tmp_path, Workload(cuts=1), target=LAKE)
    (tmp_path / "kafka").write_text("security.protocol = SSL\n")
    given = read_plan(str(tmp_path / "shop.yaml"))
    topic = Topic("shop.entries")
    logs = [*given.logs, NamedLog("entries", topic, ENTRIES)]  # type: ignore[arg-type]
    options = parser().parse_args(["f", "--state", "/s", "--max-records", "9", "--no-follow"])
    plan = planned(replace(given, logs=logs, kafka=("h:1", tmp_path / "kafka"), start=5), options)

    assert [("accounts", "directory"), ("entries", "directory"), ("entries", "topic")] == [
        (place.table, place.kind) for place in plan.logs.places
    ]
    assert ["shop.entries"] == plan.logs.topics and topic.closed
    assert {"bootstrap.servers": "h:1", "security.protocol": "SSL"} == plan.logs.kafka
    assert (9, None, [5], Path("/s/checkpoint")) == (
        plan.logs.messages, plan.output, plan.start.to_plain(), plan.checkpoint
    )  # fmt: skip
    for wrong, said in [
        (NamedLog("entries", topic, ACCOUNTS), "different row types"),  # type: ignore[arg-type]
        (NamedLog("entries", topic, ENTRIES, 2), "have 2 coordinates"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(UsageError, match=said):
            planned(replace(given, logs=[*given.logs, wrong], kafka=("h:1", None)), options)


def test_a_limit_that_would_be_ignored_is_refused(tmp_path: Path) -> None:
    """Of records where no log is in Kafka, of files where all are; with both kinds of logs both are taken."""
    written(tmp_path, Workload(cuts=1), target=LAKE)
    given = read_plan(str(tmp_path / "shop.yaml"))
    topic = NamedLog("entries", Topic("shop.entries"), ENTRIES)  # type: ignore[arg-type]
    both = parser().parse_args(["f", "--state", "/s", "--max-records", "9", "--max-files", "9"])
    planned(replace(given, logs=[*given.logs, topic], kafka=("h:1", None)), both)

    with pytest.raises(UsageError, match="^--max-records goes with Kafka, and the logs are directories here"):
        planned(given, both)
    with pytest.raises(UsageError, match="^--max-files goes with directories, and the logs are in Kafka here"):
        planned(replace(given, logs=[topic], kafka=("h:1", None)), both)


def test_help_shows_how_it_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    """With examples, and what the exit codes mean."""
    with pytest.raises(SystemExit) as caught:
        main(read_plan, ["--help"])
    shown = capsys.readouterr().out

    assert 0 == caught.value.code
    assert "streaming_jobs/materialize.py" in shown
    assert "exit codes:\n  0    done" in shown


# --- as its user starts it


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server that answers."""
    with Postgres() as started:
        yield started


def submit(path: Path, server: Postgres, *options: str) -> Child:
    """Start the job."""
    arguments = [str(path), "--state", str(path.parent / "state"), "--interval", "0.05", *options]
    return spark_submit(
        "materialize", arguments, folder=path.parent, settings=QUICK, environment=server.environment
    )


def reached(server: Postgres) -> int:
    """The time up to which the views are; -1 when there are none yet."""
    with server.connect() as connection:
        there = connection.execute("SELECT to_regclass('cdcv2_checkpoints') IS NOT NULL").fetchone()
        row = connection.execute("SELECT checkpoint FROM cdcv2_checkpoints").fetchone() if there[0] else None
    frontier = json.loads(row[0])["frontier"] if row else [-1]
    return frontier[0] if frontier else 10**9


def in_postgres(server: Postgres) -> dict[str, dict[Any, Any]]:
    """The tables, in one snapshot."""
    with server.connect() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return consistent({
            name: {row[:1]: row[1:] for row in connection.execute(f"SELECT * FROM {name}".encode()).fetchall()}
            for name in TABLES
        })  # fmt: skip


@pytest.mark.xdist_group("jobs")
@pytest.mark.integration
def test_a_job_that_is_killed_goes_on_and_one_that_is_told_to_end_ends(tmp_path: Path, server: Postgres) -> None:
    """SIGKILL for the whole process group in mid-run; SIGTERM between batches; and everything is there once."""
    work = Workload(cuts=12)
    path = written(tmp_path, work, target="{driver: postgres}", more="", cuts=6, last=LAST)
    events = ("--events", str(tmp_path / "events.jsonl"))
    first = submit(path, server, "--max-files", "2", *events)
    first.wait_until(lambda: reached(server) >= 2, "the first commit", PATIENCE)
    first.kill9()
    assert work.truth(reached(server)) == work.shown(in_postgres(server))

    second = submit(path, server, *events)
    second.wait_until(lambda: reached(server) == 12, "the end of the log", PATIENCE)
    written(tmp_path, work, target="{driver: postgres}", more="", cuts=8, last=LAST)
    second.wait_until(lambda: reached(server) == 16, "what came since", PATIENCE)
    second.signal(signal.SIGTERM)
    assert 0 == second.wait(PATIENCE), second.log_tail()
    assert "materialize: complete through 15; nothing that was stated is missing" in second.log_since_start()
    assert work.truth(16) == work.shown(in_postgres(server))
    stated = read_events(tmp_path / "events.jsonl")
    kinds = [one["event"] for one in stated]
    # The first life may be killed between its commit and its statement of it.
    assert ["start", "progress", "end"] == [kind for kind, _ in groupby(kinds[-kinds[::-1].index("start") - 1:])]
    assert (2, 1) == (kinds.count("start"), kinds.count("end"))
    assert ("materialize.py", 0, [16]) == tuple(stated[-1][name] for name in ("job", "exit", "frontier"))
