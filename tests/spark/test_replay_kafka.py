"""Replay from Kafka: the same history as from files, exact positions in errors, unsafe topics refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    DecodeError,
    ForeignStateError,
    MissingLogError,
    RefusedError,
    UnavailableError,
    UnsafeTopicError,
)
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog
from cdcv2.logs.stops import Stop
from cdcv2.protocol import Message, Position, mangle
from cdcv2.rows.row_type import RowType
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.materialize.targets.lake.view import open_lake
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import ReplayPlan, opened
from cdcv2.spark.sources import LogPlace, LogSources
from tests.spark.replaying import ROWS, messages, plan, put, replayed, run, told, truth, updates

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def write(
    broker: KafkaBroker, topic: str, said: Iterable[Message], *, partitions: int = 2, timeline: str = "things"
) -> LogPlace:
    """A topic with these messages."""
    stated = LogDescription(timeline=timeline)
    log = KafkaLog(topic, broker.bootstrap, ROWS, create=True, partitions=partitions, description=stated)
    for message in said:
        log.send(message)
    log.flush()
    log.close()
    return LogPlace("things", "topic", topic)


def produce(broker: KafkaBroker, topic: str, value: bytes | None) -> None:
    """Put bytes into a topic, as a stranger would."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value=value, partition=0)
    producer.flush()


def over(broker: KafkaBroker, folder: Path, places: list[LogPlace], **limits: Any) -> ReplayPlan:
    """A replay of topics and directories of things."""
    logs = LogSources(places, {"bootstrap.servers": broker.bootstrap}, **limits)
    return ReplayPlan(
        logs, {"things": ROWS}, folder / "out", folder / "state", folder / "state" / "checkpoint", Antichain([0]),
        True, 0.1,
    )


def test_topics_and_files_are_replayed_as_iter_replays_them(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Copies in two topics and a directory, mangled, in small batches, and again by a fresh checkpoint.

    A stop that one of them keeps is named.
    """
    said = messages(updates(21), 12, seed=21)
    third = len(said) // 3
    places = [
        write(broker, "equal.one", mangle(said[: 2 * third], seed=1)),
        write(broker, "equal.two", mangle(said[third:], seed=2), partitions=1),
        put(tmp_path / "things~files", said[third:2 * third]),
    ]
    wanted = over(broker, tmp_path, places, messages=20, files=2)

    reader = run(spark, wanted)
    assert truth({"things": said}) == replayed(spark, wanted)
    assert reader.positions["equal.two"] == KafkaLog("equal.two", broker.bootstrap, ROWS).ends()

    again = over(broker, tmp_path, places)
    KafkaLog("equal.two", broker.bootstrap, ROWS).put_stop(Stop("a row is lacking", "Start over"))
    _, people = told(spark, replace(again, checkpoint=tmp_path / "fresh"))
    assert "the capture stopped: a row is lacking. Start over" in people
    assert truth({"things": said}) == replayed(spark, wanted)
    assert Antichain([12]) == open_lake(wanted.output).frontier

    others = write(broker, "equal.others", said[:1], timeline="others")
    with pytest.raises(ForeignStateError, match="equal.one is of the timeline things, and the log equal.others of the"):
        opened(spark, over(broker, tmp_path / "others", [places[0], others]), ProgressLines())


@pytest.mark.parametrize(("value", "reason"), [(b"\x00\x02\x0a", ""), (b"hello", "branch"), (None, "tombstone")])
def test_a_foreign_message_is_told_with_topic_partition_and_offset(
    value: bytes | None, reason: str, spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """So that one can go and look."""
    topic = f"foreign.{tmp_path.name}"
    place = write(broker, topic, messages(updates(22, count=20), 12), partitions=1)
    offset = KafkaLog(topic, broker.bootstrap, ROWS).ends()[0]
    produce(broker, topic, value)

    with pytest.raises(DecodeError) as caught:
        run(spark, over(broker, tmp_path, [place]))
    assert Position(topic, 0, offset) == caught.value.position
    assert reason in caught.value.reason


def test_the_row_type_of_another_table_is_told_as_what_it_is(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """At the first message of rows: the log may be whole, and the row type wrong."""
    place = write(broker, "mistaken", messages(updates(28, count=20), 12), partitions=1)
    other = RowType({"type": "record", "name": "other", "fields": [{"name": "x", "type": "boolean"}]})

    with pytest.raises(DecodeError, match="the row type is not the log's: give the right one") as caught:
        run(spark, replace(over(broker, tmp_path, [place]), tables={"things": other}))
    # Behind the empty message that states the timeline.
    assert Position("mistaken", 0, 1) == caught.value.position
    assert Antichain([0]) == open_lake(tmp_path / "out").frontier


def test_a_checkpoint_ahead_of_the_state_is_refused(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    """Spark would pass over what the state has lost; without the checkpoint, all is read again.

    A missing state is found out before anything is read, one from before the checkpoint's time by what comes.
    """
    said = messages(updates(23), 12, seed=23)
    first, second, third = said[:2], said[2:-1], said[-1:]
    place = write(broker, "ahead", first, partitions=1)
    wanted = over(broker, tmp_path, [place])
    run(spark, wanted)
    shutil.copytree(wanted.state, tmp_path / "older")
    write(broker, "ahead", second)
    other = replace(wanted, checkpoint=tmp_path / "other")
    run(spark, other)
    write(broker, "ahead", third)

    with pytest.raises(RefusedError, match="the state in .*lost has nothing.* remove the checkpoint"):
        opened(spark, replace(other, state=tmp_path / "lost"), ProgressLines())
    behind = replace(other, state=tmp_path / "older")
    with pytest.raises(RefusedError, match=r"ahead\[0\] at \d+, but .* only up to \d: \d+ messages .* remove the c"):
        run(spark, behind)

    shutil.rmtree(other.checkpoint)
    run(spark, behind)
    assert truth({"things": said}) == replayed(spark, wanted)


def test_offsets_that_hold_no_message_are_no_gap(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    """The markers of a transactional writer take offsets, and Spark begins behind them."""
    said = messages(updates(24), 12, seed=24)
    place = write(broker, "markers", said[:-2], partitions=1)
    wanted = over(broker, tmp_path, [place])
    run(spark, wanted)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "markers"})
    producer.init_transactions()
    for message in said[-2:]:
        producer.begin_transaction()
        producer.produce("markers", MessageCodec(ROWS).encode(message))
        producer.commit_transaction()
        run(spark, wanted)

    assert truth({"things": said}) == replayed(spark, wanted)


def unsafe(spark: SparkSession, wanted: ReplayPlan, kind: type[Exception], words: str) -> None:
    """Opening the replay is refused, before anything is read."""
    with pytest.raises(kind, match=words):
        opened(spark, wanted, ProgressLines())


def test_a_topic_that_is_not_there_is_said_before_the_start(spark, broker: KafkaBroker, tmp_path: Path) -> None:
    """The name is wrong, or no process has written it; either way nothing would ever come."""
    unsafe(
        spark, over(broker, tmp_path, [LogPlace("things", "topic", "nowhere")]), MissingLogError, "no topic 'nowhere'"
    )


def test_a_topic_that_would_lose_statements_is_refused(spark, broker: KafkaBroker, tmp_path: Path) -> None:
    """Compacted, or limited in time."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for topic, setting in (("losing.compact", "cleanup.policy=compact"), ("losing.week", "retention.ms=604800000")):
        key, _, value = setting.partition("=")
        admin.create_topics([NewTopic(topic, 1, config={key: value})])[topic].result()

        unsafe(spark, over(broker, tmp_path, [LogPlace("things", "topic", topic)]), UnsafeTopicError, setting)


def test_a_topic_that_was_trimmed_is_refused(spark, broker: KafkaBroker, tmp_path: Path) -> None:
    """What stood there is needed, and lost; a state that has read it already needs it no more."""
    said = messages(updates(25), 12, seed=25)
    place = write(broker, "trimmed", said, partitions=1)
    wanted = over(broker, tmp_path, [place])
    run(spark, wanted)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_records([TopicPartition("trimmed", 0, 2)])[TopicPartition("trimmed", 0)].result()

    run(spark, wanted)
    unsafe(spark, over(broker, tmp_path / "new", [place]), UnsafeTopicError, "begins at offset 2")
    assert truth({"things": said}) == replayed(spark, wanted)


def test_a_broker_that_is_down_is_said_to_be_so(spark: SparkSession, tmp_path: Path, monkeypatch) -> None:
    """With its address, and what to do."""
    monkeypatch.setattr("cdcv2.spark.topics.PATIENCE", 1000)
    wanted = plan(tmp_path, [])
    logs = LogSources([LogPlace("things", "topic", "t")], {"bootstrap.servers": "127.0.0.1:1"})

    unsafe(spark, replace(wanted, logs=logs, tables={"things": ROWS}), UnavailableError, "127.0.0.1:1 does not answer")
