"""What the broker acknowledged, it keeps, whether it was stopped or killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcv2.servers.kafka import KafkaBroker
from tests.logs.polling import until

pytestmark = pytest.mark.integration


def quiet(broker: KafkaBroker) -> dict[str, str | int | float | bool]:
    """The settings of a client that does not report that the broker is down: the test takes it down."""
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0}


def messages(broker: KafkaBroker, topic: str) -> list[bytes | None]:
    """All values of partition 0, up to its end."""
    consumer = Consumer({**quiet(broker), "group.id": "nobody", "enable.auto.commit": False})
    part, ends = TopicPartition(topic, 0, 0), list[int]()

    def answers() -> bool:
        try:
            ends.append(consumer.get_watermark_offsets(part, timeout=300)[1])
        except KafkaException as error:
            # A broker that has just started leads its partitions a moment later.
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
        return bool(ends)

    until(answers, f"the end of {topic}")
    (end,) = ends
    consumer.assign([part])
    found = consumer.consume(end, timeout=300) if end else []
    consumer.close()
    return [message.value() for message in found]


def test_messages_survive_sigkill_and_restart(tmp_path: Path) -> None:
    """On the same port, so that clients find it again; and a clean stop loses nothing either."""
    with KafkaBroker(tmp_path) as broker:
        admin = AdminClient(quiet(broker))
        admin.create_topics([NewTopic("facts", 1, 1)])["facts"].result(60)
        producer = Producer({**quiet(broker), "enable.idempotence": True})
        for number in range(500):
            producer.produce("facts", str(number).encode())
        assert 0 == producer.flush(20)
        bootstrap = broker.bootstrap

        broker.kill9()
        assert not broker.running
        broker.start()
        assert [str(number).encode() for number in range(500)] == messages(broker, "facts")

        # The same producer goes on: to it, the broker was away for a moment.
        producer.produce("facts", b"one more")
        assert 0 == producer.flush(20)
        broker.restart()
        assert b"one more" == messages(broker, "facts")[-1]
        assert bootstrap == broker.bootstrap
    assert not broker.running
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_topic_is_not_made_by_being_named(broker: KafkaBroker) -> None:
    """A misspelt name must be an error somewhere, not a new topic."""
    admin = AdminClient(quiet(broker))

    admin.list_topics("no-such-topic", timeout=300)

    assert "no-such-topic" not in admin.list_topics(timeout=300).topics
