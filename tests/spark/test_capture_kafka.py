"""Capture on Spark from a real Kafka into logs in Kafka: by position, and not from topics that lose records."""

from __future__ import annotations

import io
import json
import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from cdcv2 import failpoints
from cdcv2.capture import updates_then_statements as release_order
from cdcv2.capture.run.commit_times import Capture as PureCapture
from cdcv2.capture.connector import FROM_ENVELOPE, FROM_STATE
from cdcv2.capture.facts import Record
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import Cdcv2Error, ForeignStateError, MissingLogError, SourceStop, UnavailableError, UnsafeTopicError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog
from cdcv2.logs.kafka_topics import KEEPING
from cdcv2.logs.stops import Stop, stop_of
from cdcv2.protocol import Progress, Updates
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.spark.capture.keyed_capture import KeyedCapture
from cdcv2.spark.capture.spark_capture import SparkCapture
from cdcv2.spark.capture.job import begins, parser, planned
from cdcv2.spark.capture.logs import TableLogs
from cdcv2.spark.capture.query import CaptureQuery
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.capture.tails import LogSpec
from cdcv2.spark.capture.topics import SparkKafkaTopics
from cdcv2.spark.job import Guard, follow
from tests.doubles import RecordingLog
from tests.recorded import TABLES, dump, recipe
from tests.spark.capturing import facts_of
from tests.topics import delete_topic, make_topics

pytestmark = [pytest.mark.spark, pytest.mark.integration]

RUN = "crash_full"


def produce(broker: KafkaBroker, records: Iterable[Record], rename: str) -> None:
    """The records, into topics of another prefix; each partition in its order."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    for record in records:
        topic = record.topic.replace(RUN, rename)
        value = None if record.value is None else record.value.replace(f'"name":"{RUN}"'.encode(), _name(rename))
        producer.produce(topic, partition=record.partition, key=record.key, value=value)
        producer.poll(0)
    assert 0 == producer.flush(240)


def _name(prefix: str) -> bytes:
    return f'"name":"{prefix}"'.encode()


def wanted(record: Record) -> bool:
    """Whether a capture reads it."""
    return record.topic in recipe(RUN).topics()


def topics_of(prefix: str) -> dict[str, int]:
    """The topics of the recorded run, under another prefix, with their numbers of partitions."""
    parts: dict[str, int] = {}
    for topic, part in dump(RUN).partitions():
        if topic in recipe(RUN).topics():
            name = topic.replace(RUN, prefix)
            parts[name] = max(parts.get(name, 0), part + 1)
    return parts


def first(number: int | None) -> list[Record]:
    """So many records that a capture reads, as they came; the run ends with a TRUNCATE (None: all)."""
    return [record for record in dump(RUN).read() if wanted(record)][:number]


@cache
def expected(number: int | None = None) -> dict[str, tuple[set[object], object]]:
    """What the capture without Spark makes of the run, or of its first records."""
    logs: dict[str, RecordingLog] = {table: RecordingLog() for table in TABLES}
    records = first(number)
    ends = {(record.topic, record.partition): record.offset + 1 for record in records}
    with PureCapture(recipe(RUN), logs) as capture, (pytest.raises(SourceStop) if number is None else nullcontext()):
        for record in records:
            capture.absorb(record)
            if capture.needs_ends:
                capture.ends_read(ends)
        capture.release()
    return facts_of({table: log.durable for table, log in logs.items()})


class KafkaRun:
    """A capture of one prefix."""

    def __init__(
        self, broker: KafkaBroker, prefix: str, folder: Path, *, records: int | None = 3000,
        report: CaptureReport | None = None,
    ) -> None:
        self.broker, self.prefix, self.state, self.records = broker, prefix, folder / "state", records
        self.recipe = Recipe(prefix, TABLES)
        self.said = io.StringIO()
        self.report = CaptureReport(people=self.said) if report is None else report

    def specs(self) -> dict[str, LogSpec]:
        """A topic for each table."""
        return {
            table: LogSpec(table, row_type, topic=f"cdc.{self.prefix}.{table}", bootstrap=self.broker.bootstrap)
            for table, row_type in TABLES.items()
        }

    def run(self, spark: SparkSession, *, before: str = FROM_ENVELOPE) -> CaptureQuery:
        """Read what is there, to the end. Raises what ends it."""
        how = replace(self.recipe, before=before)
        topics = SparkKafkaTopics(self.broker.bootstrap, how, records=self.records)
        kind = KeyedCapture if before == FROM_STATE else SparkCapture
        capture = kind(how, topics, self.specs(), self.state, spark, self.report)
        try:
            guard = Guard(capture.batch)
            follow(capture.query(guard, available_now=True), guard)
        finally:
            capture.close()
        return capture

    def found(self) -> dict[str, tuple[set[object], object]]:
        """What the logs hold."""
        logs = {
            table: [entry.message for entry in KafkaLog(str(spec.topic), spec.bootstrap, spec.row_type).read() if entry]
            for table, spec in self.specs().items()
        }
        return facts_of(logs)  # type: ignore[arg-type]


def test_the_recorded_run_through_kafka_with_crashes(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """Batches that lag behind one another, rows read again by range, a crash, a lost state: the facts of the run."""
    run = KafkaRun(broker, "whole", tmp_path, records=1700)
    make_topics(broker.bootstrap, topics_of("whole"))
    produce(broker, first(2600), "whole")
    with failpoints.placed(release_order.TABLE_STATED, 4), pytest.raises(failpoints.PlacedCrash):
        run.run(spark)
    with failpoints.placed(release_order.UPDATES_DURABLE, 2), pytest.raises(failpoints.PlacedCrash):
        run.run(spark)
    run.records = None
    shutil.rmtree(run.state)
    run.run(spark)
    assert expected(2600) == run.found()
    # Every message, of drivers and of executors, states the timeline: what Kafka calls the first topic.
    found = {table: KafkaLog(str(spec.topic), spec.bootstrap, spec.row_type) for table, spec in run.specs().items()}
    stated = {LogDescription.from_headers(one.headers) for log in found.values() for one in log.read() if one}
    first_topic = found[min(found)].description().identity
    assert {LogDescription(timeline=first_topic, log_set=first_topic)} == stated


def test_old_rows_looked_up_or_whole_may_take_turns(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """With one memory, over topics: one that looks them up dies when some logs are ahead, and so does one after it."""
    run = KafkaRun(broker, "turns", tmp_path, records=1000)
    make_topics(broker.bootstrap, topics_of("turns"))
    produce(broker, first(2600), "turns")
    with failpoints.placed("release.table-stated", 4), pytest.raises(failpoints.PlacedCrash):
        run.run(spark, before=FROM_STATE)
    with failpoints.placed("release.remembered"), pytest.raises(failpoints.PlacedCrash):
        run.run(spark, before=FROM_STATE)
    with failpoints.placed(release_order.TABLE_STATED, 4), pytest.raises(failpoints.PlacedCrash):
        run.run(spark)
    run.run(spark, before=FROM_STATE)
    assert expected(2600) == run.found()
    assert run.said.getvalue().count("resumes from its memory") == 2


def test_a_topic_that_comes_later_is_waited_for(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """The connector makes a table's topic at its first row: it is named, and found when it comes."""
    run = KafkaRun(broker, "late", tmp_path)
    topics = topics_of("late")
    late = {name: topics.pop(name) for name in ["late.public.orders", "late.public.order_items"]}
    make_topics(broker.bootstrap, topics)
    records = first(1000)
    produce(broker, [record for record in records if record.topic.replace(RUN, "late") in topics], "late")
    capture = run.run(spark)
    assert capture.frontier is None
    assert "waits for the topics late.public.order_items, late.public.orders" in run.said.getvalue()
    make_topics(broker.bootstrap, late)
    produce(broker, [record for record in records if record.topic.replace(RUN, "late") in late], "late")
    run.run(spark)
    assert expected(1000) == run.found()


def refused(run: KafkaRun, spark: SparkSession, kind: type[Cdcv2Error], text: str) -> None:
    """The run is refused, with the reason."""
    with pytest.raises(kind, match=text):
        run.run(spark)


def test_topics_that_cannot_be_captured_are_refused(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """No transaction topic, one without an order, one that is compacted, one that lost its head, one recreated."""
    run = KafkaRun(broker, "bad", tmp_path)
    refused(run, spark, MissingLogError, "there is no topic 'bad.transaction'")
    make_topics(broker.bootstrap, {"bad.transaction": 2})
    refused(run, spark, UnsafeTopicError, "2 partitions")
    delete_topic(broker.bootstrap, "bad.transaction")
    make_topics(broker.bootstrap, {"bad.public.orders": 1}, {"cleanup.policy": "compact"})
    make_topics(broker.bootstrap, {"bad.transaction": 1})
    refused(run, spark, UnsafeTopicError, "is compacted")
    delete_topic(broker.bootstrap, "bad.public.orders")
    with pytest.raises(UnavailableError, match="does not answer"):
        SparkKafkaTopics("127.0.0.1:1", run.recipe, patience=1).check(spark, {})


def test_a_log_made_anew_is_refused(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """The memory is of the other topic, however long this one is; without it, the log is written again."""
    run = KafkaRun(broker, "relogged", tmp_path)
    make_topics(broker.bootstrap, topics_of("relogged"))
    produce(broker, first(800), "relogged")
    run.run(spark)
    found, log = run.found(), "cdc.relogged.public.orders"
    run.run(spark)
    delete_topic(broker.bootstrap, log)
    make_topics(broker.bootstrap, {log: 1}, KEEPING)
    copy = KafkaLog(log, broker.bootstrap, TABLES["public.orders"])
    for _ in range(300):
        copy.send(Progress([0], [1]))
    copy.flush()
    copy.close()
    refused(run, spark, ForeignStateError, f"the topic {log} was made again")

    delete_topic(broker.bootstrap, log)
    shutil.rmtree(run.state)
    run.run(spark)
    assert found == run.found()


def test_a_topic_made_anew_is_refused(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """The memory's positions are of the other topic."""
    run = KafkaRun(broker, "again", tmp_path)
    make_topics(broker.bootstrap, topics_of("again"))
    records = first(800)
    produce(broker, records, "again")
    run.run(spark)
    assert "released" in run.said.getvalue()
    delete_topic(broker.bootstrap, "again.public.orders")
    make_topics(broker.bootstrap, {"again.public.orders": 3})
    produce(broker, records * 2, "again")
    refused(run, spark, ForeignStateError, "again.public.orders is another one")


class Reaction(io.StringIO):
    """Where a report goes, which does something when it is first written to."""

    def __init__(self, what: Callable[[], object]) -> None:
        super().__init__()
        self._what = what

    def write(self, text: str) -> int:
        """Take it, and do that."""
        if not self.tell():
            self._what()
        return super().write(text)


def test_a_job_that_follows_waits_for_the_transaction_topic(
    broker: KafkaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    """The connector of an idle database has not made it yet: it reports that, once, and goes on when it is there."""
    kind = {"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]}
    (tmp_path / "public.t.avsc").write_text(json.dumps(kind), "utf-8")
    make_topics(broker.bootstrap, {"idle.public.t": 1})
    words = ["--bootstrap", broker.bootstrap, "--prefix", "idle", "--rows", str(tmp_path), "--into", "kafka:i.{table}",
             "--state", str(tmp_path / "state")]  # fmt: skip
    plan, stopping = planned(parser().parse_args(words)), threading.Event()
    said = Reaction(stopping.set)
    assert not begins(spark, plan, CaptureReport(people=said), stopping)
    assert "waiting: there is no topic 'idle.transaction'" in said.getvalue()

    said = Reaction(lambda: make_topics(broker.bootstrap, {"idle.transaction": 1}))
    assert begins(spark, plan, CaptureReport(people=said), threading.Event())
    assert 1 == len(said.getvalue().splitlines()), said.getvalue()


def test_a_tail_does_not_pass_by_the_stop_of_another_capture(broker: KafkaBroker) -> None:
    """It stands between statements of this one, and is the last message of no partition."""
    table, stop = "public.orders", Stop("the END of transaction 5 is missing", "start over")
    spec = LogSpec(table, TABLES[table], topic="stopped.orders", bootstrap=broker.bootstrap)
    logs = TableLogs({table: spec})
    logs.state(table, 10, {}, {})
    assert (logs.all()[0].ends(), None) == (logs.tails()[table].positions, logs.stop)
    other = spec.open(writing=True)
    other.send(Updates([]))
    other.flush()
    logs.state(table, 20, {}, {})
    assert (logs.all()[0].ends(), None) == (logs.tails()[table].positions, logs.stop)
    assert isinstance(other, KafkaLog)
    other.put_stop(stop)
    for upper in (30, 40):
        logs.state(table, upper, {}, {})
    assert stop == logs.stop
    again = TableLogs({table: spec}, logs.tails())
    assert (stop, 40) == (stop_of(again.all()), again.known[table])
