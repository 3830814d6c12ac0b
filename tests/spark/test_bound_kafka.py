"""Capture on a shared remap, on Spark, from a real Kafka: exactly what is bound, and what is missing is named."""

from __future__ import annotations

import io
import json
import threading
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from cdcv2.capture.run.remap_loop import RunResult
from cdcv2.cli import main as cli
from cdcv2.errors import UnsafeTopicError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import poll_until
from cdcv2.spark.capture.job import parser
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.remap_capture import job as bound_job
from cdcv2.timeline.binding import check_int
from tests.recorded import HOME, TABLES, checkpoint_time, content, truth
from tests.spark.capturing import log_messages
from tests.timelines import NOTIFICATIONS, records_through

pytestmark = [pytest.mark.spark, pytest.mark.integration]

CLICKS = {"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "string"}]}


class Hands:
    """A plain topic of two partitions, a remap and logs in topics, and captures of it, on Spark and not."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.bootstrap, self.folder, self.topic = broker.bootstrap, folder, f"clicks-{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self.admin.create_topics([NewTopic(self.topic, 2)])[self.topic].result(60)
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0})
        self.said = io.StringIO()
        (folder / "clicks.avsc").write_text(json.dumps(CLICKS), "utf-8")

    def send(self, *pages: str) -> None:
        """Records, in turns into the two partitions."""
        for number, page in enumerate(pages):
            value = json.dumps({"page": page}).encode()
            self.producer.produce(self.topic, partition=number % 2, value=value)
        assert 0 == self.producer.flush(60)

    def in_a_transaction(self, page: str) -> None:
        """A record, and behind it a marker that takes an offset."""
        writer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": uuid.uuid4().hex})
        writer.init_transactions(60)
        writer.begin_transaction()
        writer.produce(self.topic, partition=0, value=json.dumps({"page": page}).encode())
        writer.commit_transaction(60)

    def words(self) -> list[str]:
        """What both take."""
        return ["--bootstrap", self.bootstrap, "--remap", f"kafka:{self.topic}.remap", "--plain",
                f"clicks={self.topic}", "--rows", str(self.folder)]  # fmt: skip

    def spark(self, spark: SparkSession, into: str, *more: str, stopping: threading.Event | None = None) -> RunResult:
        """The job's capture; without ``stopping``, of what is there."""
        how = [] if stopping else ["--no-follow"]
        plan = bound_job.planned(parser().parse_args([
            *self.words(), "--into", f"kafka:{self.topic}.{into}.{{table}}", *how, *more
        ]))
        came = bound_job.capture(spark, plan, CaptureReport(people=self.said), stopping=stopping or threading.Event())
        assert came is not None
        return came

    def pure(self, into: str, *more: str) -> int:
        """The command."""
        return cli.main(["capture", "kafka", *self.words(), "--into", f"kafka:{self.topic}.{into}.{{table}}", *more])

    def verified(self, *into: str) -> int:
        """Whether these logs are one."""
        logs = [f"clicks=kafka:{self.topic}.{name}.clicks" for name in into]
        return cli.main(["verify", "--full", *logs, "--bootstrap", self.bootstrap, "--row",
                         str(self.folder / "clicks.avsc")])  # fmt: skip

    def stated(self, into: str) -> set[LogDescription]:
        """What the messages of the table's log state of it."""
        log = KafkaLog(f"{self.topic}.{into}.clicks", self.bootstrap, RowType(CLICKS))
        return {LogDescription.from_headers(one.headers) for one in log.read() if one}

    def pages(self, into: str, capsys: Any) -> list[str]:
        """What the table has."""
        capsys.readouterr()
        log = f"kafka:{self.topic}.{into}.clicks"
        assert 0 == cli.main(["as-of", log, "--bootstrap", self.bootstrap, "--row", str(self.folder / "clicks.avsc")])
        found: list[str] = capsys.readouterr().out.split()[1:]
        return sorted(found)


@pytest.fixture
def hands(broker: KafkaBroker, tmp_path: Path) -> Hands:
    """On the broker that answers."""
    return Hands(broker, tmp_path)


def test_with_and_without_spark_one_log_is_written(hands: Hands, spark: SparkSession, capsys: Any) -> None:
    """In turns and in one log; markers of transactions are passed over; logs of one's own have the same facts."""
    hands.send(*"abcdef")
    hands.spark(spark, "both", "--bind-at-most", "2")
    hands.in_a_transaction("g")
    assert 0 == hands.pure("both")
    hands.in_a_transaction("h")
    came = hands.spark(spark, "both")
    hands.spark(spark, "alone", "--max-records", "3")

    assert list("abcdefgh") == hands.pages("both", capsys) == hands.pages("alone", capsys)
    assert (0, 1) == (hands.verified("both", "alone"), came.records)
    both, alone = (hands.stated(into) for into in ("both", "alone"))
    assert (1, 1, True) == (len(both), len(alone), {one.timeline for one in both} == {one.timeline for one in alone})
    assert both != alone


def test_old_rows_are_looked_up_in_the_logs(hands: Hands, spark: SparkSession, tmp_path: Path) -> None:
    """Topics as a connector left them, whose records have no old rows: the true tables, in two runs."""
    run, prefix = "clean_default", f"shop{uuid.uuid4().hex[:8]}"
    plan = bound_job.planned(parser().parse_args([
        "--bootstrap", hands.bootstrap, "--remap", str(tmp_path / "remap"), "--into", str(tmp_path / "logs"),
        "--prefix", prefix, "--notifications", f"{prefix}.notes", "--rows", str(HOME / "rows"), "--before",
        "from-state", "--no-follow",
    ]))  # fmt: skip
    sent = Counter[tuple[str, int]]()
    for tag in ("01_live", "02_live"):
        records = records_through(run, checkpoint_time(run, tag))
        parts = {topic: 1 + max(one.partition for one in records if one.topic == topic)
                 for topic in {one.topic for one in records}}  # fmt: skip
        named = {topic: f"{prefix}.notes" if topic == NOTIFICATIONS else topic.replace(run, prefix) for topic in parts}
        if not sent:
            asked = [NewTopic(named[topic], number) for topic, number in parts.items()]
            for made in hands.admin.create_topics(asked).values():
                made.result(60)
        for one in records:
            if one.offset >= sent[one.topic, one.partition]:
                value = None if one.value is None else one.value.replace(run.encode(), prefix.encode())
                hands.producer.produce(named[one.topic], partition=one.partition, key=one.key, value=value)
                sent[one.topic, one.partition] = one.offset + 1
        assert 0 == hands.producer.flush(60)
        came = bound_job.capture(spark, plan, CaptureReport(people=hands.said), stopping=threading.Event())
        assert came is not None and came.records > 0
        upper = check_int(came.frontier.elements[0])
        for table, row_type in TABLES.items():
            [now] = content(log_messages(tmp_path / "logs" / table, row_type), table, upper - 1)
            assert truth(run, tag, table) == now, f"{tag} {table}"


def test_told_to_stop_it_ends_behind_a_turn(hands: Hands, spark: SparkSession) -> None:
    """While it goes on for ever: what came after the start is in, and what is in is stated."""
    hands.send("a")
    stopping = threading.Event()
    done: list[RunResult] = []
    thread = threading.Thread(target=lambda: done.append(
        hands.spark(spark, "logs", "--bind-every", "0.01", "--bind-idle", "0.01", stopping=stopping)
    ))
    thread.start()
    try:
        assert poll_until(lambda: "1 records (1 in this run)" in hands.said.getvalue(), 240)
        hands.send("b")
        assert poll_until(lambda: "1 records (2 in this run)" in hands.said.getvalue(), 240)
    finally:
        stopping.set()
        thread.join(120)
    assert [2] == [came.records for came in done]
    assert 0 == hands.verified("logs")


def test_records_that_are_gone_are_named_by_their_times(hands: Hands, spark: SparkSession) -> None:
    """Trimmed before they were written; where the logs have them, nothing is lost."""
    hands.send(*"abcdef")
    hands.spark(spark, "logs")
    place = TopicPartition(hands.topic, 0, 2)
    hands.admin.delete_records([place])[place].result(timeout=60)
    assert 0 == hands.spark(spark, "logs").records
    with pytest.raises(UnsafeTopicError, match="begins at 2, and 0 is wanted: .* Lost are rows of the time"):
        hands.spark(spark, "other")
