"""Topics that logs live in: made so that they keep everything, and refused where they do not.

A log's statements are never superseded: a topic that is compacted, or forgets with time or size, loses facts, and a
reader that starts later waits for them for ever. So ``cleanup.policy=delete, retention.ms=-1, retention.bytes=-1``,
and nothing removed from the head.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cdcv2.errors import MissingLogError, RefusedError, UnsafeTopicError, UsageError
from cdcv2.protocol.log import Positions
from cdcv2.store.kafka_client import Client

LOGGER = logging.getLogger(__name__)
#: The settings that keep a log whole.
KEEPING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
#: What Kafka allows a message if the topic has no setting.
MESSAGE_BYTES = 1_000_000


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster describes it.

    ``spans`` gives for each partition the first offset that is there and the one behind the last; ``settings`` is
    empty when we may not read them.
    """

    name: str
    spans: Mapping[int, tuple[int, int]]
    settings: Mapping[str, str]

    @property
    def message_bytes(self) -> int:
        """How large a message may be, in bytes."""
        return int(self.settings.get("max.message.bytes", MESSAGE_BYTES))

    @property
    def ends(self) -> Positions:
        """For each partition, the position behind its last message."""
        return {part: high for part, (_, high) in self.spans.items()}


def create_topic(
    client: Client, topic: str, *, partitions: int = 1, replication: int | None = None,
    settings: Mapping[str, str] | None = None, fresh: bool = False,
) -> Topic:
    """Make the topic, with the settings that keep it whole, and others, unless it is there; what it is like then.

    Raises UnavailableError when the cluster does not answer, or does not allow it; RefusedError, with ``fresh``, for
    one that is there.
    """
    # -1: as many replicas as the cluster gives by default.
    config = {**(settings or {}), **KEEPING}
    new = client.questions.NewTopic(topic, partitions, -1 if replication is None else replication, config=config)

    def ask() -> bool:
        try:
            client.admin.create_topics([new], request_timeout=client.patience)[topic].result(client.patience)
        except client.kafka.KafkaException as cause:
            if cause.args[0].code() != client.kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    if client.request(f"topic {topic!r}", ask):
        LOGGER.info("made the topic %s with %d partitions", topic, partitions)
    elif fresh:
        raise RefusedError(f"the topic {topic!r} is there already: others made it a moment ago")
    deadline = time.monotonic() + client.patience
    while True:
        try:
            return describe(client, topic)
        except MissingLogError:
            # Made a moment ago, by us or by another: not every broker knows it yet.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def describe(client: Client, topic: str) -> Topic:
    """The cluster's description of a topic. Raises MissingLogError, UnavailableError."""
    return Topic(topic, spans(client, topic), _settings(client, topic))


def spans(client: Client, topic: str) -> dict[int, tuple[int, int]]:
    """For each partition, the first offset that is there and the one behind the last that can be read."""
    parts, spec = partitions_of(client, topic), client.questions.OffsetSpec
    low = _offsets(client, topic, parts, spec.earliest())
    high = ends_of(client, topic, parts)
    return {part: (low[part], high[part]) for part in parts}


def ends_of(client: Client, topic: str, parts: Collection[int]) -> Positions:
    """For each of the partitions, the offset behind the last message that can be read. Raises as :func:`describe`."""
    return _offsets(client, topic, parts, client.questions.OffsetSpec.latest())


def _offsets(client: Client, topic: str, parts: Collection[int], which: Any) -> Positions:
    asked = {client.kafka.TopicPartition(topic, part): which for part in parts}

    def ask() -> Positions:
        answers = client.admin.list_offsets(
            asked, isolation_level=client.kafka.IsolationLevel.READ_COMMITTED, request_timeout=client.patience
        )
        return {place.partition: answer.result(client.patience).offset for place, answer in answers.items()}

    return client.request(f"topic {topic!r}", ask)


def spans_of(client: Client, topics: Collection[str]) -> dict[str, tuple[str, dict[int, tuple[int, int]]]]:
    """For each of the topics that are there, what Kafka calls it, and its partitions as :func:`spans` has them.

    Three questions for all of them. Raises UnavailableError, and MissingLogError for one that goes away meanwhile.
    """
    kafka, spec = client.kafka, client.questions.OffsetSpec

    def ask() -> dict[str, tuple[str, list[int]]]:
        answers = client.admin.describe_topics(kafka.TopicCollection(list(topics)), request_timeout=client.patience)
        found = {}
        for topic, answer in answers.items():
            try:
                described = answer.result(client.patience)
            except kafka.KafkaException as cause:
                if not client.missing(cause.args[0]):
                    raise
                continue
            found[topic] = str(described.topic_id), sorted(part.id for part in described.partitions)
        return found

    there = client.request("the topics", ask) if topics else {}
    places = [kafka.TopicPartition(topic, part) for topic, (_, parts) in there.items() for part in parts]

    def offsets(which: Any) -> dict[tuple[str, int], int]:
        answers = client.admin.list_offsets(
            dict.fromkeys(places, which), isolation_level=kafka.IsolationLevel.READ_COMMITTED,
            request_timeout=client.patience,
        )
        return {
            (place.topic, place.partition): answer.result(client.patience).offset for place, answer in answers.items()
        }

    low = client.request("the topics", lambda: offsets(spec.earliest())) if places else {}
    high = client.request("the topics", lambda: offsets(spec.latest())) if places else {}
    return {
        topic: (identity, {part: (low[topic, part], high[topic, part]) for part in parts})
        for topic, (identity, parts) in there.items()
    }


def partitions_of(client: Client, topic: str) -> list[int]:
    """The numbers of the topic's partitions. Asking does not make the topic.

    Raises UsageError if the topic has no name; else as :func:`describe` does.
    """
    if not topic:
        raise UsageError("a topic needs a name")
    names = client.kafka.TopicCollection([topic])

    def ask() -> list[int]:
        answers = client.admin.describe_topics(names, request_timeout=client.patience)
        return sorted(part.id for part in answers[topic].result(client.patience).partitions)

    return client.request(f"topic {topic!r}", ask)


def check_keeps(topic: Topic) -> None:
    """Raise UnsafeTopicError, with the remedy, unless the topic keeps what is written to it."""
    if not topic.settings:
        LOGGER.warning("we may not read the settings of topic %s: that it keeps everything is not checked", topic.name)
    wrong = {name: topic.settings[name] for name, value in KEEPING.items() if topic.settings.get(name, value) != value}
    if wrong:
        found = ", ".join(f"{name}={value}" for name, value in wrong.items())
        remedy = ",".join(f"{name}={KEEPING[name]}" for name in wrong)
        raise UnsafeTopicError(
            f"the topic {topic.name!r} does not keep all that is written to it ({found}), as logs and remaps of cdcv2 "
            "do. If it is another topic, as one of the connector's, leave its settings as they are, and name the log. "
            "If it is one of cdcv2's, it would lose statements: kafka-configs.sh --bootstrap-server KAFKA:9092 "
            f"--alter --entity-type topics --entity-name {topic.name} --add-config {remedy} keeps what is still there; "
            "check that nothing is missing"
        )


def check_positions(topic: Topic, after: Positions) -> None:
    """Raise UnsafeTopicError unless everything from the positions on is there."""
    gone = sorted(set(after) - set(topic.spans))
    if gone:
        raise UnsafeTopicError(_recreated(topic.name, f"has no partition {gone[0]}"))
    for part, (low, high) in sorted(topic.spans.items()):
        start = after.get(part, 0)
        if low > start:
            raise UnsafeTopicError(
                f"the topic {topic.name!r} begins at offset {low} in partition {part}, and {start} is wanted: what "
                "came before was removed, and with it facts. Kafka cannot put it back: write the log again into "
                "another topic"
            )
        if high < start:
            raise UnsafeTopicError(_recreated(topic.name, f"ends at offset {high} in partition {part}, not at {start}"))


def _recreated(topic: str, found: str) -> str:
    return (
        f"the topic {topic!r} {found}, which was read before: it was made again, or has lost its end. "
        "Read it from the start, with a fresh state"
    )


def _settings(client: Client, topic: str) -> dict[str, str]:
    kind = client.questions.ConfigResource
    resource = kind(kind.Type.TOPIC, topic)

    def ask() -> dict[str, str]:
        answer = client.admin.describe_configs([resource], request_timeout=client.patience)[resource]
        try:
            return {name: entry.value for name, entry in answer.result(client.patience).items()}
        except client.kafka.KafkaException as cause:
            if not client.forbidden(cause.args[0]):
                raise
            return {}

    return client.request(f"settings of topic {topic!r}", ask)
