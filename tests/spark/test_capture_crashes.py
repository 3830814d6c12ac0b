"""Died at any step, with and without what it had written down: the same facts in the end, none lost, none twice."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.facts import Record, SnapshotRow
from cdcv2.capture.run.commit_times import Capture
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import ForeignStateError, LogFinishedError, MissingLogError, ResumeError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.spark.capture.spark_capture import BEGUN, COUNTED
from tests.doubles import RecordingLog
from tests.recorded import TABLES, dump, recipe
from tests.spark.capturing import CaptureRun, dump_into, facts_of

pytestmark = pytest.mark.spark

RUN = "clean_full"
#: The snapshot and some transactions, in two micro-batches of which each releases something.
RECORDS, BATCH = 1000, 500
NOTES = "notes"
STEPS = [
    BEGUN, COUNTED, release_order.BEFORE_UPDATES, release_order.TABLE_WRITTEN, release_order.UPDATES_DURABLE,
    release_order.TABLE_STATED, release_order.STATED, release_order.REMEMBERED,
]


def how() -> Recipe:
    """With a notification topic, so that the snapshot is known to be whole."""
    return recipe(RUN, notification_topic=NOTES)


@cache
def records() -> list[Record]:
    """The first records that arrived, after the notifications that the connector would have sent."""
    arrived = list(dump(RUN).read())[:RECORDS]
    facts = [how().fact(record) for record in arrived]
    scanned = Counter(fact.table for fact in facts if isinstance(fact, SnapshotRow))
    said: list[tuple[str, dict[str, str]]] = [("STARTED", {})]
    said += [
        ("TABLE_SCAN_COMPLETED", {"scanned_collection": table, "total_rows_scanned": str(rows)})
        for table, rows in ((table, scanned[table]) for table in how().tables)
    ]
    notes = [
        Record(NOTES, 0, offset, None, json.dumps({
            "type": kind, "aggregate_type": "Initial Snapshot", "additional_data": {"connector_name": RUN, **more},
        }).encode())
        for offset, (kind, more) in enumerate([*said, ("COMPLETED", {})])
    ]
    return notes + arrived


@cache
def expected() -> dict[str, tuple[set[object], object]]:
    """What the capture without Spark makes of them."""
    logs: dict[str, RecordingLog] = {table: RecordingLog() for table in TABLES}
    with Capture(how(), logs) as capture:
        for record in records():
            capture.absorb(record)
        capture.release()
    return facts_of({table: log.durable for table, log in logs.items()})


@pytest.fixture
def run(tmp_path: Path) -> CaptureRun:
    """A capture of them that has not begun."""
    dump_into(tmp_path / "topics", records(), size=BATCH)
    return CaptureRun(tmp_path, how())


def found(run: CaptureRun) -> dict[str, tuple[set[object], object]]:
    """What the logs hold."""
    return facts_of({table: run.messages(table) for table in TABLES})


def nothing(run: CaptureRun) -> None:
    """Nothing is lost."""


def checkpoint(run: CaptureRun) -> None:
    """Spark's checkpoint is lost."""
    shutil.rmtree(run.state / "checkpoint")


def memory(run: CaptureRun) -> None:
    """The capture's memory is lost, if it had one already; Spark's checkpoint is not."""
    shutil.rmtree(run.state / "memory", ignore_errors=True)


def both(run: CaptureRun) -> None:
    """All but the logs is lost."""
    shutil.rmtree(run.state)


LOSSES: list[Callable[[CaptureRun], None]] = [nothing, checkpoint, memory, both]


@pytest.mark.parametrize(("number", "step"), list(enumerate(STEPS)), ids=STEPS)
def test_a_crash_at_any_step_leaves_the_same_facts_in_the_end(
    number: int, step: str, run: CaptureRun, spark: SparkSession
) -> None:
    """In the second release or in the first, and something is lost; the stress test has all of it at every step."""
    # After the second release is stated there is nothing left to die in.
    last = step in (release_order.STATED, release_order.REMEMBERED)
    crashed(run, spark, step, 1 if last else 2 - number % 2, LOSSES[number // 2])
    run.run(spark)
    assert expected() == found(run)


def crashed(run: CaptureRun, spark: SparkSession, step: str, nth: int, lose: Callable[[CaptureRun], None]) -> None:
    """It dies at the step, when it is there for the so many-th time, and something is lost."""
    with failpoints.placed(step, nth), pytest.raises(failpoints.PlacedCrash):
        run.run(spark)
    lose(run)


def test_what_was_captured_is_not_written_again(run: CaptureRun, spark: SparkSession) -> None:
    """With its memory it reads nothing twice; with all lost it reads all, and finds that the logs have it."""
    run.run(spark)
    written = {table: run.messages(table) for table in TABLES}
    again = run.run(spark)
    assert 0 == again.transactions
    both(run)
    again = run.run(spark)
    assert 0 == again.transactions
    assert written == {table: run.messages(table) for table in TABLES}
    assert expected() == found(run)


def test_two_captures_may_write_the_same_logs(run: CaptureRun, spark: SparkSession, tmp_path: Path) -> None:
    """Started one after the other, with a memory each and other batches: they write the same facts."""
    with failpoints.placed(release_order.TABLE_STATED, 3), pytest.raises(failpoints.PlacedCrash):
        run.run(spark)
    second = CaptureRun(tmp_path, how(), files=None)
    second.state = tmp_path / "second"
    second.run(spark)
    run.run(spark)
    assert expected() == found(run)


def test_orphans_that_contradict_the_topics_are_refused(run: CaptureRun, spark: SparkSession) -> None:
    """An update that no statement counts, and that the topics do not have: another history was written there."""
    table = "public.pgbench_branches"
    log = DirectoryLog(run.logs / table, TABLES[table], create=True)
    row = next(row for (row, _, _) in sorted(expected()[table][0], key=str))  # type: ignore[attr-defined]
    log.send(Updates([(row, 101_779_848, 7)]))
    log.flush()
    with pytest.raises(ResumeError, match="another history"):
        run.run(spark)
    assert [Updates([(row, 101_779_848, 7)])] == run.messages(table), "nothing was written"


def test_nothing_is_stated_that_differs_from_a_statement_that_waits(run: CaptureRun, spark: SparkSession) -> None:
    """A statement of later times is a fact, though what comes before it is not stated yet."""
    table = "public.pgbench_branches"
    log = DirectoryLog(run.logs / table, TABLES[table], create=True)
    waiting = Progress([101_779_848], [101_779_849], {101_779_848: 999})
    log.send(waiting)
    log.flush()
    with pytest.raises(ResumeError, match="states 999 updates at time 101779848"):
        run.run(spark)
    assert [waiting] == [message for message in run.messages(table) if isinstance(message, Progress)]


def test_orphans_that_agree_are_counted_and_not_written_again(run: CaptureRun, spark: SparkSession) -> None:
    """A crash left updates without their statement; the next life states them."""
    with failpoints.placed(release_order.UPDATES_DURABLE), pytest.raises(failpoints.PlacedCrash):
        run.run(spark)
    before = updates(run)
    run.run(spark)
    assert expected() == found(run)
    assert sum(len(facts) for facts, _ in expected().values()) == len(updates(run)) > len(before) > 0


def updates(run: CaptureRun) -> list[object]:
    """Every update as often as it is in the logs."""
    messages: list[Message] = [message for table in TABLES for message in run.messages(table)]
    return [update for message in messages if isinstance(message, Updates) for update in message.updates]


def test_a_finished_log_is_refused(run: CaptureRun, spark: SparkSession) -> None:
    """Its history is complete: a capture would add to it."""
    table = "public.orders"
    with Writer(DirectoryLog(run.logs / table, TABLES[table], create=True)) as writer:
        writer.finish()
    with pytest.raises(LogFinishedError, match="is complete"):
        run.run(spark)


def test_the_memory_of_other_logs_is_refused(run: CaptureRun, spark: SparkSession) -> None:
    """Its positions would skip what these logs lack; without it they are written from the start.

    The capture does not make a missing log again, so that a reader of the logs sees that it is missing.
    """
    run.run(spark)
    shutil.rmtree(run.logs)
    with pytest.raises(ForeignStateError, match=r"of a log that is missing\. .* remove the memory"):
        run.run(spark)
    assert not run.logs.exists()
    for spec in run.specs().values():
        spec.open(create=True)
    with pytest.raises(ForeignStateError, match="made again"):
        run.run(spark)
    memory(run)
    run.run(spark)
    assert expected() == found(run)


def test_the_memory_of_another_capture_is_refused(run: CaptureRun, spark: SparkSession) -> None:
    """It is bound to tables, row types and logs, and the error names the one that differs."""
    run.run(spark)
    fewer = {table: row_type for table, row_type in TABLES.items() if table != "public.orders"}
    other = CaptureRun(run.folder, replace(run.recipe, tables=fewer))
    with pytest.raises(ForeignStateError, match="its log of public.orders is "):
        other.run(spark)


def test_topics_that_are_not_there_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(MissingLogError, match="no directory"):
        CaptureRun(tmp_path, how()).run(spark)


def test_statements_cover_each_log_without_a_gap(run: CaptureRun, spark: SparkSession) -> None:
    """A table without rows in a release is stated as well, or its readers would wait."""
    run.run(spark)
    for table in TABLES:
        uppers = [message for message in run.messages(table) if isinstance(message, Progress)]
        assert [0] + [statement.upper.elements[0] for statement in uppers][:-1] == [
            statement.lower.elements[0] for statement in uppers
        ]
