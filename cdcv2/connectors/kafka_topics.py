"""The connector's topics in Kafka, read by position.

No consumer group keeps the positions: the capture does, and what it has not released is read again. So everything
must still be there: a compacted topic is refused, and so is one that lost records which are asked for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.facts import Record
from cdcv2.capture.topics import Item, PartitionPosition, Ranges
from cdcv2.capture.topics_check import listed
from cdcv2.connectors.kafka_ranges import KafkaRanges, check_not_compacted, demand_one_partition, judge
from cdcv2.errors import MissingLogError, UnavailableError, UnsafeTopicError
from cdcv2.logs.kafka_topics import spans
from cdcv2.protocol.log import Place
from cdcv2.store.kafka_client import Client
from cdcv2.store.stalled_partitions import StalledPartitions

LOGGER = logging.getLogger(__name__)
#: How often a reader that follows looks for new topics and partitions, in seconds.
_LOOK = 5.0
#: What to do where records are not there any more.
_GONE = "start over with a new snapshot, and keep records until they are captured"


class KafkaTopics:
    """The topics of a recipe in a cluster.

    A reader that follows waits for topics that are not there yet and for brokers that go away, however long
    (:meth:`waits`). :meth:`read` raises MissingLogError without the transaction topic, if it does not follow;
    UnsafeTopicError where that has more than one partition, where a topic is compacted or lacks what is asked for; and
    UnavailableError when no broker answers at the start, or, not following, later.
    """

    def __init__(self, client: Client, recipe: DatabaseConnector) -> None:
        self._client, self._recipe = client, recipe
        self._consumer: Any = None
        # Partitions that are read, with the offset that comes next in each; those that must wait; and where partitions
        # ended when that was asked last.
        self._assigned: dict[Place, int] = {}
        self._waiting: set[Place] = set()
        self._ends: Mapping[Place, int] = {}
        # Behind the last record of each, and the epoch of its leader.
        self._epochs: dict[Place, tuple[int, int | None]] = {}
        # Whether nothing came since the last look, and what the last looks found.
        self._idle, self._stalled = False, StalledPartitions[Place]()
        # Topics that must be there and are not, as far as was looked; and what there is in their place.
        self._absent: str | None = None
        self._known: frozenset[str] = frozenset()

    # -- what is there

    def missing(self) -> list[str]:
        """Topics that do not exist yet: the connector makes a table's topic at its first row."""
        there = self._topics()
        return [topic for topic in self._recipe.topics() if topic not in there]

    def identities(self) -> dict[str, str]:
        """The ids that the cluster gives topics when they are made."""
        return {topic: str(self._client.topic_id(topic)) for topic in self._topics()}

    def ranges(self, topic: str) -> Ranges:
        """The topic, to be read by ranges of offsets."""
        return KafkaRanges(self._client, [topic], single=[topic])

    def ends(self) -> dict[Place, int]:
        """For each partition, the offset behind the last record that is there now."""
        return {place: high for place, (_, high) in self._spans(self._topics()).items()}

    def check(self, positions: Mapping[Place, int], *, follow: bool = False) -> dict[Place, int]:
        """Raise unless everything from the positions on is there, and will stay; returns where the partitions end now.

        Raises MissingLogError if a topic is not there and is not waited for; else as :meth:`read` does.
        """
        every = self.topics()
        self._absent = self.lacks(every)
        if self._absent is not None and not follow:
            raise MissingLogError(self._absent)
        return self._checked([topic for topic in self._recipe.topics() if topic in every], positions)

    def _checked(self, there: list[str], positions: Mapping[Place, int]) -> dict[Place, int]:
        found = self._spans(there)
        for single in (self._recipe.transaction_topic, self._recipe.notification_topic):
            if single is not None:
                demand_one_partition(single, sum(topic == single for topic, _ in found))
        for topic in there:
            check_not_compacted(self._client, topic)
        for place, span in sorted(found.items()):
            _check_span(place, span, positions.get(place, 0))
        return {place: high for place, (_, high) in found.items()}

    def lacks(self, there: Collection[str]) -> str | None:
        """That the transaction topic is not there, in words with what there is; None: it is."""
        transactions = self._recipe.transaction_topic
        if transactions in there:
            return None
        return (
            f"there is no topic {transactions!r} at {self._client.bootstrap}. {listed(self._recipe.prefix, there)}. "
            f"{self._recipe.first_transaction}"
        )

    def topics(self) -> Collection[str]:
        """All topics of the cluster."""
        asked = self._client.request(
            "the topics", lambda: self._client.admin.list_topics(timeout=self._client.patience)
        )
        self._known = frozenset(asked.topics)
        return self._known

    def known_topics(self) -> Collection[str]:
        """The same, as they were when it looked last."""
        return self._known

    def _topics(self) -> list[str]:
        """Those topics of the recipe that exist."""
        every = self.topics()
        return [topic for topic in self._recipe.topics() if topic in every]

    def _spans(self, topics: list[str]) -> dict[Place, tuple[int, int]]:
        # Not asked by the consumer, which answers only between two waits for records.
        return {(topic, part): span for topic in topics for part, span in spans(self._client, topic).items()}

    # -- reading

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """All records from the positions on; see ``running.Topics``."""
        ends = self.check(positions, follow=follow)
        for topic in self.missing():
            LOGGER.info("the topic %s does not exist yet%s", topic, ": waiting for it" if follow else "")
        self._consumer, self._ends = self._client.consumer(), ends
        try:
            self._assign(set(ends), positions)
            yield from self._follow(positions) if follow else self._until(ends, positions)
        finally:
            self._consumer.close()
            self._consumer, self._assigned, self._waiting, self._stalled = None, {}, set(), StalledPartitions()
            self._epochs = {}

    def _until(self, ends: Mapping[Place, int], positions: Mapping[Place, int]) -> Iterator[Item]:
        """To the ends, as they were."""
        unread = {place for place, end in ends.items() if positions.get(place, 0) < end}
        active = time.monotonic()
        while unread:
            for item in self._batch():
                yield item
                if item is None:
                    continue
                active = time.monotonic()
                place, following = item if isinstance(item, PartitionPosition) else (_place(item), item.offset + 1)
                if following >= ends.get(place, 0):
                    unread.discard(place)
            if unread and time.monotonic() > active + self._client.patience:
                raise self._client.error(f"topic {min(unread)[0]!r}", None)

    def _follow(self, positions: Mapping[Place, int]) -> Iterator[Item]:
        """For ever, finding new topics and partitions."""
        looked = time.monotonic()
        while True:
            yield from self._batch()
            if time.monotonic() > looked + _LOOK:
                try:
                    self._look(positions)
                except (UnavailableError, MissingLogError):
                    # The cluster may come back; until then there is nothing to find.
                    LOGGER.debug("the topics cannot be listed now")
                looked = time.monotonic()

    def _look(self, positions: Mapping[Place, int]) -> None:
        """Find topics and partitions that were not there before."""
        every = self.topics()
        self._absent = self.lacks(every)
        there = [topic for topic in self._recipe.topics() if topic in every]
        fresh = set(there) - {topic for topic, _ in self._assigned}
        if fresh:
            self._checked(sorted(fresh), positions)
        ends = {place: high for place, (_, high) in self._spans(there).items()}
        self._ends = ends
        self._assign(set(ends), positions)
        if not self._idle:
            self._stalled.forget()
        elif self._stalled.look(self._assigned, ends):
            LOGGER.warning("no record arrives, and topics have more: they are read by another consumer")
            self._renew_consumer()
        self._idle = False

    def _batch(self) -> Iterator[Item]:
        """What arrives within a moment; None where nothing does, as that is a good time to release."""
        messages = self._client.received(self._consumer, 1000, timeout=0.2)
        for message in messages:
            self._client.answered()
            place = message.topic(), message.partition()
            if message.error() is None:
                # The consumer counts all of a batch as read, as soon as it gives it.
                self._assigned[place] = message.offset() + 1
                self._epochs[place] = message.offset() + 1, message.leader_epoch()
                yield Record(*place, message.offset(), message.key(), message.value())
            elif message.error().code() == self._client.kafka.KafkaError._PARTITION_EOF:
                # Behind the last record there may be offsets of none, as the marks of transactions have them.
                self._assigned[place] = message.offset()
                yield PartitionPosition(place, message.offset())
            else:
                judge(self._client, place, message.error(), _GONE)
        self._idle |= not messages
        if not messages:
            # A partition that is ahead may hold what is missing, after all: a connector that sent rows again.
            self.let_wait(None)
            yield None

    def _assign(self, there: set[Place], positions: Mapping[Place, int]) -> None:
        fresh = sorted(there - self._assigned.keys())
        if fresh:
            self._consumer.incremental_assign([
                self._client.place(*place, positions.get(place, 0), self._epochs.get(place)) for place in fresh
            ])
            self._assigned |= {place: positions.get(place, 0) for place in fresh}

    def unread(self) -> int | None:
        """By the ends that brokers reported with the last records, and when they were asked; None: nothing is read."""
        if self._consumer is None:
            return None
        partition, unread = self._client.kafka.TopicPartition, 0
        for place, following in self._assigned.items():
            # Negative until a broker has answered this consumer, which may be long after the first wait for records.
            reported = self._consumer.get_watermark_offsets(partition(*place), cached=True)[1]
            unread += max(0, reported - following, self._ends.get(place, 0) - following)
        return unread

    def _renew_consumer(self) -> None:
        """Read the same partitions on, by another consumer."""
        following = self._assigned
        self._consumer.close()
        self._consumer, self._assigned, self._waiting = self._client.consumer(), {}, set()
        self._assign(set(following), following)

    def waits(self) -> str | None:
        """The transaction topic, as long as it is not there."""
        return self._absent

    def let_wait(self, is_ahead: Callable[[Place], bool] | None) -> None:
        """Pause the partitions that are ahead; None: go on with all."""
        ahead = {place for place in self._assigned if is_ahead(place)} if is_ahead is not None else set()
        partition = self._client.kafka.TopicPartition
        if ahead - self._waiting:
            self._consumer.pause([partition(*place) for place in ahead - self._waiting])
        if self._waiting - ahead:
            self._consumer.resume([partition(*place) for place in self._waiting - ahead])
        self._waiting = ahead


def _check_span(place: Place, span: tuple[int, int], start: int) -> None:
    (topic, part), (low, high) = place, span
    if low > start:
        raise UnsafeTopicError(
            f"the topic {topic!r} begins at {low} in partition {part}, and {start} is wanted: what came before was "
            "removed (retention). Start over with a new snapshot, and keep records until they are captured"
        )
    if high < start:
        raise UnsafeTopicError(
            f"the topic {topic!r} ends at {high} in partition {part}, and was read up to {start} before: it was made "
            "again. Capture it as a new source, with a memory and logs of its own"
        )


def _place(record: Record) -> Place:
    return record.topic, record.partition
