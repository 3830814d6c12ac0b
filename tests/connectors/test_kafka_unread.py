"""How many records of topics in Kafka are still to be read, by what a consumer knows without asking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cdcv2.capture.facts import Record
from cdcv2.capture.topics import PartitionPosition
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.kafka_topics import KafkaTopics
from cdcv2.protocol.log import Place
from cdcv2.rows.row_type import RowType
from cdcv2.store.kafka_client import Client

ROW = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
QUIET, BUSY = ("src.public.t", 0), ("src.transaction", 0)
#: What librdkafka gives for an end that it does not know yet.
UNKNOWN = -1001


class Consumer:
    """A consumer with the messages and the ends that a test gives it; where a partition ended comes as a message."""

    def __init__(self, client: Client) -> None:
        self.kafka = client.kafka
        self.ends: dict[Place, int] = {}
        self.batch: list[Any] = []
        self.assigned: dict[Place, tuple[int, int | None]] = {}

    def incremental_assign(self, places: list[Any]) -> None:
        """Note from where it reads."""
        self.assigned = {(place.topic, place.partition): (place.offset, place.leader_epoch) for place in places}

    def consume(self, most: int, timeout: float) -> list[Any]:
        """What the test has put there, at once."""
        found, self.batch = self.batch, []
        return found

    def get_watermark_offsets(self, place: Any, *, cached: bool) -> tuple[int, int]:
        """As brokers reported with the last answer."""
        return 0, self.ends.get((place.topic, place.partition), UNKNOWN)

    def close(self) -> None:
        """Nothing."""


class Message:
    """A record; with ``kafka``, the message that a partition was read to its end."""

    def __init__(self, place: Place, offset: int, kafka: Any = None) -> None:
        self._error = None if kafka is None else kafka.KafkaError(kafka.KafkaError._PARTITION_EOF)
        self.topic, self.partition, self.offset = (lambda: place[0]), (lambda: place[1]), (lambda: offset)

    def error(self) -> Any:
        """Why it is no record."""
        return self._error

    def key(self) -> None:
        """None."""

    def leader_epoch(self) -> int:
        """That of a broker that was elected some times."""
        return 4

    def value(self) -> bytes:
        """That of an END: one of a transaction without rows."""
        return b'{"status": "END", "id": "5:80"}'


class Topics(KafkaTopics):
    """Topics of which everything is there."""

    #: Where each partition ended when that was asked.
    there = 7487

    def check(self, positions: Mapping[Place, int], *, follow: bool = False) -> dict[Place, int]:
        """All is well."""
        return dict.fromkeys((QUIET, BUSY), self.there)

    def missing(self) -> list[str]:
        """None."""
        return []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> tuple[Topics, Consumer, Any]:
    """A capture that goes on where it was: each partition from 7487 on."""
    client = Client("127.0.0.1:1")
    consumer = Consumer(client)
    monkeypatch.setattr(client, "consumer", lambda: consumer)
    topics = Topics(client, Recipe("src", {"public.t": ROW}))
    items = topics.read({QUIET: 7487, BUSY: 7487}, follow=True)
    assert next(items) is None
    return topics, consumer, items


def test_what_was_read_before_the_start_is_not_counted(started: tuple[Topics, Consumer, Any]) -> None:
    """Also of a partition from which nothing has come since; and what has come there now is."""
    topics, consumer, items = started
    consumer.ends = {QUIET: 7487, BUSY: 7488}
    consumer.batch = [Message(BUSY, 7487)]
    assert isinstance(next(items), Record)
    assert 0 == topics.unread()
    consumer.ends[QUIET] = 7489
    assert 2 == topics.unread()


@pytest.mark.parametrize("end", [UNKNOWN, -1, 0, 12])
def test_it_is_never_negative(started: tuple[Topics, Consumer, Any], end: int) -> None:
    """Where no broker has reported an end yet, or Kafka is away."""
    topics, consumer, _ = started
    consumer.ends = {QUIET: end, BUSY: end}
    assert 0 == topics.unread()


def test_offsets_that_are_no_records_are_not_waited_for(started: tuple[Topics, Consumer, Any]) -> None:
    """Behind the last record there is the mark of a transaction: the partition was read to its end all the same."""
    topics, consumer, items = started
    consumer.ends, consumer.batch = {QUIET: 7487, BUSY: 7489}, [Message(BUSY, 7487)]
    assert isinstance(next(items), Record)
    assert 1 == topics.unread()
    consumer.batch = [Message(BUSY, 7489, consumer.kafka)]
    assert PartitionPosition(BUSY, 7489) == next(items)
    assert 0 == topics.unread()


def test_what_was_there_at_the_start_is_unread_before_a_broker_answers(
    started: tuple[Topics, Consumer, Any]
) -> None:
    """The first wait for records may end before the first answer; and a reader that is renewed knows no ends again."""
    topics, consumer, items = started
    topics.there = 7490
    items.close()
    items = topics.read({QUIET: 7490, BUSY: 7487}, follow=True)
    assert (None, 3) == (next(items), topics.unread())
    consumer.batch = [Message(BUSY, offset) for offset in (7487, 7488, 7489)]
    found = [(next(items).offset, topics.unread()) for _ in range(3)]
    assert [(7487, 2), (7488, 1), (7489, 0)] == found


def test_before_topics_are_read_it_is_not_known(started: tuple[Topics, Consumer, Any]) -> None:
    """And when they are read no more."""
    topics, _, items = started
    items.close()
    assert topics.unread() is None


def test_another_consumer_begins_by_the_epoch_of_what_was_read(started: tuple[Topics, Consumer, Any]) -> None:
    """Else it would not notice that a topic was cut off and written over. Where nothing was read, none is known."""
    topics, consumer, items = started
    consumer.batch = [Message(BUSY, 7487)]
    next(items)
    topics._renew_consumer()
    assert {QUIET: (7487, None), BUSY: (7488, 4)} == consumer.assigned
