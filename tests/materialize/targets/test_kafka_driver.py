"""Kafka takes deltas: faults of the kit on a real broker, partitions in any order, and topics that would lose some."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import MissingLogError, RefusedError, UnavailableError, UnsafeTopicError
from cdcv2.logs.kafka_topics import create_topic
from cdcv2.materialize import Checkpoint, Driver, MemoryRecoveryLog, RecoveryLog, Runtime, ViewBinding
from cdcv2.materialize.subscriber import Subscriber
from cdcv2.materialize.targets import push
from cdcv2.materialize.targets.kafka.driver import KafkaDriver
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.store.kafka_client import Client
from cdcv2.testing import Scenario, Subject, Workload, conform, scenarios
from cdcv2.testing.workload import ENTRIES, entry
from tests.topics import delete_topic

pytestmark = pytest.mark.integration
#: The scenarios of a short run: at these messages a push differs from other stores. The long run plays all.
CHOSEN = {
    f"{fault}-at-{place}" for fault in ("crash", "zombie") for place in ("Store-25", "StartCommit-2", "Acknowledge-2")
}


class KafkaSubject(Subject):
    """Topics of their own, and a subscriber that reads them from the start each time."""

    delta = True
    splits = False
    consistent = False
    broker: ClassVar[KafkaBroker]

    def __init__(self) -> None:
        self.recovery, self.prefix = MemoryRecoveryLog("conformance"), f"{uuid.uuid4().hex}."

    def driver(self) -> Driver:
        """Another producer."""
        return KafkaDriver(self.broker.bootstrap, prefix=self.prefix, partitions=2)

    def log(self) -> RecoveryLog | None:
        """The one."""
        return self.recovery

    def view(self) -> dict[str, dict[Any, Any]]:
        """What a subscriber makes of the topics."""
        bindings = Workload("delta").bindings
        subscriber = Subscriber(bindings)
        for _, value in records(self.broker, [self.prefix + one.target for one in bindings]):
            subscriber.take(value)
        return subscriber.view


def records(broker: KafkaBroker, topics: list[str]) -> Iterator[tuple[bytes | None, bytes]]:
    """Keys and values of all that the topics hold, in the order in which the partitions happen to come."""
    client = Client(broker.bootstrap)
    consumer, error = client.consumer(fetch_wait_max_ms=5), client.kafka.KafkaError
    parts = [client.kafka.TopicPartition(topic, part, 0) for topic in topics for part in (0, 1)]
    consumer.assign(parts)
    left = len(parts)
    while left:
        for record in consumer.consume(500, timeout=1):
            if record.error() is None:
                yield record.key(), record.value()
            else:
                assert record.error().code() == error._PARTITION_EOF, record.error()
                left -= 1
    consumer.close()


@pytest.mark.parametrize(
    "scenario", [one for one in scenarios(KafkaSubject) if one.name in CHOSEN], ids=str
)
def test_it_comes_through_faults(broker: KafkaBroker, scenario: Scenario) -> None:
    """With two partitions, so that nothing comes in the order in which it was pushed."""
    KafkaSubject.broker = broker
    conform(KafkaSubject, scenario)


def test_deltas_of_a_key_are_in_one_partition_in_order(broker: KafkaBroker) -> None:
    """For readers that want no more than that; statements have no key."""
    KafkaSubject.broker = broker
    subject, work = KafkaSubject(), Workload("delta")
    Runtime("m", work.bindings, subject.driver(), work.source, log=subject.log(), rows=1).run()
    uppers: dict[bytes, list[Any]] = {}
    for key, value in records(broker, [f"{subject.prefix}account_total"]):
        if key is not None:
            uppers.setdefault(key, []).append(value[value.index(b'"upper"'):value.index(b'"key"')])

    assert 6 == len(uppers)
    assert b'{"account":"account a"}' in uppers
    assert all(len(set(found)) == len(found) for found in uppers.values())


def test_topics_that_do_not_go_with_the_recovery_log_are_refused(broker: KafkaBroker) -> None:
    """Another log, topics of another name, recreated topics: readers would wait, or add what they have."""
    KafkaSubject.broker = broker
    subject, work = KafkaSubject(), Workload("delta")

    def keep(cuts: int, log: RecoveryLog | None, prefix: str = subject.prefix) -> None:
        driver = KafkaDriver(broker.bootstrap, prefix=prefix, partitions=2)
        source = [one for one, _ in zip(work.source(Checkpoint(Antichain([0]))), range(cuts))]
        Runtime("m", work.bindings, driver, lambda _: iter(source), log=log, rows=1).run()

    # One that dies in its first transaction goes on.
    with failpoints.placed(push.PUSHED), pytest.raises(failpoints.PlacedCrash):
        keep(2, subject.log())
    keep(2, subject.log())
    with pytest.raises(RefusedError, match="_total' has records, and the recovery log knows nothing of them"):
        keep(3, MemoryRecoveryLog("m"))
    with pytest.raises(RefusedError, match="'elsewhere.account_total' is new to a view that has begun"):
        keep(3, subject.log(), "elsewhere.")
    keep(3, subject.log())
    topic = f"{subject.prefix}entry_log"
    delete_topic(broker.bootstrap, topic)
    with pytest.raises(RefusedError, match="entry_log' has lost records that the recovery log knows of"):
        keep(4, subject.log())


def test_a_recovery_log_that_is_old_or_anothers_is_refused_before_anything_is_pushed(broker: KafkaBroker) -> None:
    """The topics show it; with the right log it goes on, and the subscriber has every delta once."""
    KafkaSubject.broker = broker
    subject, work = KafkaSubject(), Workload("delta")
    cuts = list(work.source(Checkpoint(Antichain([0]))))

    def keep(number: int, log: RecoveryLog) -> None:
        driver = KafkaDriver(broker.bootstrap, prefix=subject.prefix, partitions=2)
        Runtime("m", work.bindings, driver, lambda _: iter(cuts[:number]), log=log, rows=1).run()

    def copied(log: MemoryRecoveryLog) -> MemoryRecoveryLog:
        """As a backup is."""
        made = MemoryRecoveryLog("m")
        made._text = log._text
        return made

    right = MemoryRecoveryLog("m")
    keep(2, right)
    old = copied(right)
    with failpoints.placed(push.PUSHED), pytest.raises(failpoints.PlacedCrash):
        keep(3, right)
    begun = copied(right)
    with failpoints.placed(push.STATED), pytest.raises(failpoints.PlacedCrash):
        keep(3, right)
    ends = written(broker, subject)
    with pytest.raises(RefusedError, match=r"has deltas from \[4\] to \[6\], and the recovery log is at \[4\]: it is"):
        keep(4, old)
    keep(4, right)
    now = written(broker, subject)
    with pytest.raises(RefusedError, match=r"has deltas from \[6\] to \[8\], and the recovery log is at \[4\]: it is"):
        keep(5, begun)
    for name, old_text, new_text, text in [
        ("m", '"frontier": [8]', '"frontier": [9]', r"is at \[8\] where it should have the .* is at \[9\]: it is an"),
        ("n", '"materialization": "m"', '"materialization": "n"', "has deltas of 'm', not of 'n'"),
    ]:  # fmt: skip
        other = MemoryRecoveryLog(name)
        other._text = right._text.replace(old_text, new_text)
        assert other._text != right._text
        driver = KafkaDriver(broker.bootstrap, prefix=subject.prefix)
        with pytest.raises(RefusedError, match=text):
            Runtime(name, work.bindings, driver, lambda _: iter(cuts), log=other, rows=1).run()
    assert ends < now == written(broker, subject)
    keep(99, right)
    assert work.truth() == work.shown(subject.view())
    producer = Client(broker.bootstrap).producer()
    producer.produce(f"{subject.prefix}entry_log", value=b"hello")
    producer.flush(30)
    with pytest.raises(RefusedError, match=r"_log' has at offset \d+ of partition \d what is no delta of version 1"):
        keep(99, right)


def written(broker: KafkaBroker, subject: KafkaSubject) -> int:
    """How many records there are in its topics."""
    return sum(1 for _ in records(broker, [subject.prefix + one.target for one in Workload("delta").bindings]))


def test_topics_that_cannot_take_it_are_named(broker: KafkaBroker) -> None:
    """One that is not there, one that forgets, a delta that is too large, a broker that is not there."""
    binding = ViewBinding("entries", ENTRIES, "deltas", delta=True)

    def run(rows: list[Any], **options: Any) -> None:
        driver = KafkaDriver(options.pop("bootstrap", broker.bootstrap), **options)
        work = Workload("delta")
        work.history = [(0, "entries", entry(*row), 1) for row in rows]
        Runtime("m", [binding], driver, work.source, log=MemoryRecoveryLog("m")).run()

    with pytest.raises(MissingLogError, match="there is no topic 'none.deltas'"):
        run([], prefix="none.", create=False)
    client = Client(broker.bootstrap)
    create_topic(client, "compacted.deltas")
    alter(client, "compacted.deltas", "cleanup.policy", "compact")
    with pytest.raises(UnsafeTopicError, match="cleanup.policy=compact"):
        run([], prefix="compacted.")
    create_topic(client, "small.deltas")
    alter(client, "small.deltas", "max.message.bytes", "2000")
    with pytest.raises(RefusedError, match="raise its max.message.bytes"):
        run([("x" * 5000, 1)], prefix="small.")
    with pytest.raises(UnavailableError, match="does not answer"):
        run([], bootstrap="127.0.0.1:1", patience=0.5)


def alter(client: Client, topic: str, name: str, value: str) -> None:
    """Change a topic's setting."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in client.admin.incremental_alter_configs([resource]).values():
        future.result(60)
