"""Topics in Kafka, read by exact ranges of offsets; see :mod:`cdcv2.capture.topics`."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from cdcv2.capture.facts import Record
from cdcv2.capture.topics import TopicExtents
from cdcv2.errors import UnsafeTopicError
from cdcv2.logs.kafka_topics import KEEPING, describe, spans_of
from cdcv2.protocol.log import Place
from cdcv2.store.kafka_client import Client

LOGGER = logging.getLogger(__name__)
_RETENTION = ("retention.ms", "retention.bytes")


class KafkaRanges:
    """Topics of a cluster, those of them that are there; others may come later.

    ``single`` are topics whose records have an order, so they must have one partition.
    """

    def __init__(self, client: Client, topics: Collection[str], *, single: Collection[str] = ()) -> None:
        self._client, self._topics = client, sorted(topics)
        self._single = frozenset(single)
        # Those of which it was seen that they are not compacted, with the settings by which they forget.
        self._checked: dict[str, dict[str, str]] = {}
        self._consumer: Any = None

    def look(self) -> TopicExtents:
        """How far the topics are now; see :class:`~cdcv2.capture.topics.Ranges`.

        Raises UnsafeTopicError for a topic with several partitions whose records need an order, and what Kafka raises.
        """
        found = spans_of(self._client, self._topics)
        for topic, (_, spans) in found.items():
            if topic in self._single:
                demand_one_partition(topic, len(spans))
            if topic not in self._checked:
                self._checked[topic] = check_not_compacted(self._client, topic)
        return TopicExtents(
            {(topic, part): span for topic, (_, spans) in found.items() for part, span in spans.items()},
            {topic: identity for topic, (identity, _) in found.items()},
            {topic: settings for topic, settings in self._checked.items() if settings},
        )

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """The records; see :class:`~cdcv2.capture.topics.Ranges`. Of several partitions they come mixed."""
        unread = {place: high for place, (low, high) in ranges.items() if low < high}
        if not unread:
            return
        if self._consumer is None:
            # What is fetched behind a range is thrown away, so not too much of it.
            self._consumer = self._client.consumer(fetch_wait_max_ms=20, queued_min_messages=20_000)
        partition = self._client.kafka.TopicPartition
        self._consumer.assign([partition(*place, ranges[place][0]) for place in sorted(unread)])
        try:
            yield from self._until(unread)
        finally:
            self._consumer.unassign()

    def close(self) -> None:
        """Leave the cluster."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    def _until(self, unread: dict[Place, int]) -> Iterator[Record]:
        active = time.monotonic()
        while unread:
            for message in self._client.received(self._consumer, 1000, timeout=0.05):
                place = message.topic(), message.partition()
                high, at = unread.get(place), message.offset()
                if message.error() is None:
                    active = time.monotonic()
                    if high is not None and at < high:
                        yield Record(*place, at, message.key(), message.value())
                    at += 1
                elif message.error().code() != self._client.kafka.KafkaError._PARTITION_EOF:
                    judge(self._client, place, message.error(), "keep records until they are captured")
                    continue
                # Offsets at the end of a range may be markers of transactions, which are invisible: the next record
                # shows it.
                if high is not None and at >= high:
                    del unread[place]
                    self._consumer.incremental_unassign([self._client.kafka.TopicPartition(*place)])
            if unread and time.monotonic() > active + self._client.patience:
                raise self._client.error(f"topic {min(unread)[0]!r}", None)


def judge(client: Client, place: Place, error: Any, remedy: str) -> None:
    """Raise what a consumer's error about a partition means, unless it passes: UnsafeTopicError for missing records."""
    kinds = client.kafka.KafkaError
    if client.removed(error):
        raise UnsafeTopicError(
            f"records of the topic {place[0]!r}, partition {place[1]}, are missing that were to be read "
            f"({error.str()}): {remedy}"
        )
    if not error.retriable() and error.code() not in (kinds._ALL_BROKERS_DOWN, kinds._TRANSPORT):
        client.fail(f"topic {place[0]!r}", error)


def demand_one_partition(topic: str, partitions: int) -> None:
    """Raise UnsafeTopicError if a topic whose records need an order has several partitions."""
    if partitions > 1:
        raise UnsafeTopicError(
            f"the topic {topic!r} has {partitions} partitions, so its records have no order, and Kafka takes no "
            "partitions away: start over, with a topic of one (docs/operations/start-over.md)"
        )


def check_not_compacted(client: Client, topic: str) -> dict[str, str]:
    """Raise UnsafeTopicError, with the remedy, for a compacted topic; the settings by which it forgets by age or size.

    Settings that we have no right to read are not checked, and a warning reports them.
    """
    settings = describe(client, topic).settings
    if not settings:
        LOGGER.warning("we may not read the settings of topic %s: that it is not compacted is not checked", topic)
    policy = settings.get("cleanup.policy", "")
    if "compact" in policy:
        raise UnsafeTopicError(
            f"the topic {topic!r} is compacted (cleanup.policy={policy}), so rows of it go missing: set "
            "cleanup.policy=delete, and start over with a new snapshot, as some may be missing already"
        )
    return {name: settings[name] for name in _RETENTION if settings.get(name, KEEPING[name]) != KEEPING[name]}
