"""The connector's topics in Kafka, read by position.

No consumer group keeps the positions: the capture does, and what it has not released is read again. So everything
must still be there: a compacted topic is refused, and so is one that lost records which are asked for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cdcv2.errors import MissingLogError, UnavailableError, UnsafeTopicError, UsageError
from cdcv2.sources.debezium import Recipe
from cdcv2.sources.facts import Record
from cdcv2.sources.running import Item, Reached
from cdcv2.sources.snapshot import Place

LOGGER = logging.getLogger(__name__)
#: How long an answer may take, and how often to look for new topics and partitions, in seconds.
_PATIENCE = 10.0
_LOOK = 5.0
_TOPIC, _COMPACT = "cleanup.policy", "compact"


class KafkaTopics:
    """The topics of a recipe, in the cluster at ``bootstrap``.

    ``settings`` are librdkafka's (TLS, SASL); nothing of them reaches an error or a log. Each :meth:`read` raises
    MissingLogError without the transaction topic, UnsafeTopicError where that has more than one partition, where a
    topic is compacted or lacks what is asked for, and UnavailableError when no broker answers (while reading: for
    ``patience`` seconds).
    """

    def __init__(
        self, bootstrap: str, recipe: Recipe, *, settings: Mapping[str, Any] | None = None, patience: float = 60.0
    ) -> None:
        self._bootstrap, self._recipe, self._patience = bootstrap, recipe, patience
        self._settings = {**(settings or {}), "bootstrap.servers": bootstrap, "log_level": 0}
        self._kafka = _confluent_kafka()
        self._admin = self._kafka.admin.AdminClient(self._settings)
        self._consumer: Any = None
        # Partitions that are read, and those of them that are let wait.
        self._read: set[Place] = set()
        self._waiting: set[Place] = set()
        self._down_since: float | None = None

    # -- what is there

    def partitions(self) -> set[Place]:
        """The partitions of those topics of the recipe that exist."""
        listed = self._asked(lambda: self._admin.list_topics(timeout=_PATIENCE))
        found = {name: topic for name, topic in listed.topics.items() if topic.error is None}
        return {(name, part) for name in self._recipe.topics() if name in found for part in found[name].partitions}

    def missing(self) -> list[str]:
        """Topics that do not exist yet: the connector makes a table's topic at its first row."""
        there = {topic for topic, _ in self.partitions()}
        return [topic for topic in self._recipe.topics() if topic not in there]

    def ends(self) -> dict[Place, int]:
        """For each partition, the offset behind the last record that is there now."""
        return self._offsets(self.partitions(), self._kafka.admin.OffsetSpec.latest())

    def check(self, positions: Mapping[Place, int]) -> None:
        """Whether everything from the positions on is there, and will stay. Raises as :meth:`read` does."""
        there = self.partitions()
        transactions = self._recipe.transaction_topic
        parts = sum(topic == transactions for topic, _ in there)
        if not parts:
            raise MissingLogError(
                f"there is no topic {transactions!r} at {self._bootstrap}: is the prefix right? The connector makes it "
                "with the first transaction, if it has provide.transaction.metadata=true"
            )
        for single in (transactions, self._recipe.notification_topic):
            parts = sum(topic == single for topic, _ in there)
            if parts > 1:
                raise UnsafeTopicError(
                    f"the topic {single!r} has {parts} partitions, so its records have no order: make it anew with one"
                )
        self._check_policies({topic for topic, _ in there})
        self._check_ranges(there, positions)

    def _check_policies(self, topics: set[str]) -> None:
        kind = self._kafka.admin.ConfigResource
        asked = [kind(kind.Type.TOPIC, topic) for topic in sorted(topics)]
        for resource, answer in self._admin.describe_configs(asked, request_timeout=_PATIENCE).items():
            try:
                policy = answer.result(timeout=_PATIENCE)["cleanup.policy"].value
            except self._kafka.KafkaException as error:
                LOGGER.warning("the settings of topic %s cannot be read (%s): not checked", resource.name, _said(error))
                continue
            if "compact" in policy:
                raise UnsafeTopicError(
                    f"the topic {resource.name!r} is compacted (cleanup.policy={policy}), so rows of it go missing: "
                    "set cleanup.policy=delete, and begin anew with a new snapshot, as some may be gone already"
                )

    def _check_ranges(self, there: set[Place], positions: Mapping[Place, int]) -> None:
        lows = self._offsets(there, self._kafka.admin.OffsetSpec.earliest())
        highs = self._offsets(there, self._kafka.admin.OffsetSpec.latest())
        for topic, part in sorted(there):
            low, high, start = lows[topic, part], highs[topic, part], positions.get((topic, part), 0)
            if low > start:
                raise UnsafeTopicError(
                    f"the topic {topic!r} begins at {low} in partition {part}, and {start} is wanted: what came before "
                    "was removed (retention). Begin anew with a new snapshot, and keep records until they are captured"
                )
            if high < start:
                raise UnsafeTopicError(
                    f"the topic {topic!r} ends at {high} in partition {part}, and was read up to {start} before: it "
                    "was made anew. Capture it as a new source, with a memory and logs of its own"
                )

    def _offsets(self, places: set[Place], spec: Any) -> dict[Place, int]:
        """Asked by a connection of its own: the consumer's answers only between two waits for records."""
        asked = {self._kafka.TopicPartition(*place): spec for place in places}
        answers = self._admin.list_offsets(asked, request_timeout=_PATIENCE) if asked else {}
        return {
            (partition.topic, partition.partition): self._asked(answer.result).offset
            for partition, answer in answers.items()
        }

    # -- reading

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """All records from the positions on; see ``running.Topics``."""
        self.check(positions)
        ends = self.ends()
        self._assign(set(ends), positions)
        for topic in self.missing():
            LOGGER.info("the topic %s does not exist yet: waiting for it", topic)
        done = {place for place, end in ends.items() if end <= positions.get(place, 0)}
        look = time.monotonic() + _LOOK
        try:
            while follow or done < set(ends):
                for item in self._batch():
                    if isinstance(item, Record) and item.offset + 1 >= ends.get((item.topic, item.partition), 0):
                        done.add((item.topic, item.partition))
                    elif isinstance(item, Reached):
                        done.add(item.place)
                    yield item
                if follow and time.monotonic() > look:
                    self._assign(self._still_there(), positions)
                    look = time.monotonic() + _LOOK
        finally:
            self.close()

    def _batch(self) -> Iterator[Item]:
        """What arrives within a moment; None behind it, as it is a good time to release."""
        messages = self._asked(lambda: self._open().consume(1000, timeout=0.2))
        for message in messages:
            error = message.error()
            place = message.topic(), message.partition()
            if error is None:
                self._down_since = None
                yield Record(*place, message.offset(), message.key(), message.value())
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                yield Reached(place, message.offset())
            elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                raise UnsafeTopicError(f"records of {place[0]!r} are gone that were asked for: {error.str()}")
            elif not error.retriable():
                raise UnavailableError(f"Kafka at {self._bootstrap} does not let us read {place[0]!r}: {error.str()}")
        if not messages:
            self._nothing_came()
            yield None

    def _nothing_came(self) -> None:
        """Nobody waits any longer, and brokers that are down for long are an error."""
        self.let_wait(None)
        since = self._down_since
        if since is None:
            return
        try:
            self.partitions()
            self._down_since = None
        except UnavailableError:
            if time.monotonic() - since > self._patience:
                raise

    def _assign(self, there: set[Place], positions: Mapping[Place, int]) -> None:
        fresh = sorted(there - self._read)
        if fresh:
            partition = self._kafka.TopicPartition
            self._open().incremental_assign([partition(*place, positions.get(place, 0)) for place in fresh])
            self._read |= set(fresh)

    def _still_there(self) -> set[Place]:
        try:
            return self.partitions()
        except UnavailableError:
            # They may come back; `_nothing_came` counts the time.
            return set()

    def let_wait(self, is_ahead: Callable[[Place], bool] | None) -> None:
        """Pause the partitions that are ahead; None: go on with all."""
        ahead = {place for place in self._read if is_ahead(place)} if is_ahead is not None else set()
        consumer, partition = self._open(), self._kafka.TopicPartition
        if ahead - self._waiting:
            consumer.pause([partition(*place) for place in ahead - self._waiting])
        if self._waiting - ahead:
            consumer.resume([partition(*place) for place in self._waiting - ahead])
        self._waiting = ahead

    # -- the consumer

    def _open(self) -> Any:
        if self._consumer is None:
            self._consumer = self._kafka.Consumer({
                **self._settings,
                # Required, and of no meaning: nothing is committed and nothing is balanced.
                "group.id": "cdcv2-capture",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "error_cb": self._trouble,
            })
        return self._consumer

    def _trouble(self, error: Any) -> None:
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN and self._down_since is None:
            self._down_since = time.monotonic()
            LOGGER.warning("Kafka at %s does not answer: waiting for it", self._bootstrap)

    def _asked(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self._kafka.KafkaException as error:
            raise UnavailableError(
                f"Kafka at {self._bootstrap} does not answer ({_said(error)}): is it there, and are we let in?"
            ) from None

    def close(self) -> None:
        """Leave the cluster. It can be read again."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer, self._read, self._waiting = None, set(), set()


def _said(error: Any) -> str:
    """What librdkafka says about an error, without settings."""
    return str(error.args[0].str())


def _confluent_kafka() -> Any:
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as cause:
        raise UsageError("reading Kafka needs confluent-kafka: pip install 'cdcv2[kafka]'") from cause
    return confluent_kafka
