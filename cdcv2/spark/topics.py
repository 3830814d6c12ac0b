"""Kafka's description of topics before they are read, from the Java client that Spark itself will use; and records.

So there is one configuration for everything that the job does with Kafka, and nothing else to install. Settings come
from a properties file, as Java's clients have it; they may hold secrets, so no value of theirs is ever shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from cdcv2.errors import MissingLogError, UnavailableError, UsageError
from cdcv2.logs.kafka_topics import Topic, check_keeps, check_positions
from cdcv2.protocol.log import Place, Positions, plain_places
from cdcv2.spark.session import jvm
from cdcv2.store.kafka_client import read_properties

#: So many milliseconds an answer is waited for.
PATIENCE = 20_000


@dataclass(frozen=True)
class TopicDescription:
    """A topic as Kafka describes it, and the identity that Kafka gave it: a recreated one has another."""

    topic: Topic
    identity: str

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.topic.name


def settings(bootstrap: str | None, config_file: str | Path | None) -> dict[str, str]:
    """The settings of the Kafka clients: those of a properties file, and the bootstrap servers.

    Raises UsageError for a file that cannot be read, and when no bootstrap server is named.
    """
    found = {} if config_file is None else read_properties(config_file)
    if bootstrap is not None:
        found["bootstrap.servers"] = bootstrap
    if not found.get("bootstrap.servers"):
        raise UsageError("topics need --bootstrap HOST:PORT, or bootstrap.servers in the --kafka-config file")
    return found


def reading(kafka: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's Kafka source for clients with these settings: what every reader here wants of it."""
    # Executors are sent only for what is there, but their client, as soon as it has that, asks for what comes next;
    # then Spark's own question, how far the topic is, waits behind it on the broker, half a second by default.
    patient = {"fetch.max.wait.ms": "10", **kafka}
    options = {f"kafka.{key}": value for key, value in patient.items()}
    # Records that are deleted are rows that are missing: better to stop, and report it.
    return {**options, "kafka.isolation.level": "read_committed", "failOnDataLoss": "true"}


def kafka_frame(
    spark: SparkSession, java: Mapping[str, str], ranges: Mapping[Place, tuple[int, int]], *, tasks: int = 1,
    headers: bool = False,
) -> DataFrame:
    """Records of these ranges, by Spark's source; ``java`` are the clients' settings. In at least so many tasks.

    Each range has its first offset and the one behind its last; ``headers``: with the records' headers.
    """
    assign: dict[str, list[int]] = {}
    for topic, part in sorted(ranges):
        assign.setdefault(topic, []).append(part)
    first = plain_places({place: low for place, (low, _) in ranges.items()})
    behind = plain_places({place: high for place, (_, high) in ranges.items()})
    options = reading(java) | {
        "minPartitions": str(tasks), "includeHeaders": str(headers).lower(),
        "assign": json.dumps(assign), "startingOffsets": json.dumps(first), "endingOffsets": json.dumps(behind),
    }  # fmt: skip
    return spark.read.format("kafka").options(**options).load()


def describe(spark: SparkSession, kafka: Mapping[str, str], names: Sequence[str]) -> list[TopicDescription]:
    """Kafka's description of these topics. Raises MissingLogError, or UnavailableError when Kafka does not answer."""
    java = jvm(spark)
    properties = java.java.util.Properties()
    for key, value in kafka.items():
        properties.setProperty(key, value)
    properties.setProperty("default.api.timeout.ms", str(PATIENCE))
    properties.setProperty("request.timeout.ms", str(PATIENCE // 2))
    try:
        client = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            return [_describe(java, client, name) for name in names]
        finally:
            client.close(java.java.time.Duration.ofSeconds(1))
    except Py4JJavaError as error:
        raise UnavailableError(
            f"Kafka at {kafka['bootstrap.servers']} does not answer: {_cause(error)}; start it, or correct the "
            "address and the settings"
        ) from None


def check(described: TopicDescription, positions: Positions) -> None:
    """Raise UnsafeTopicError unless the topic has all from ``positions`` on (none: from the start), and will keep it.

    The error has the remedy.
    """
    check_keeps(described.topic)
    check_positions(described.topic, positions)


def _describe(java: Any, client: Any, name: str) -> TopicDescription:
    one = java.java.util.Collections.singletonList(name)
    try:
        found = client.describeTopics(one).allTopicNames().get().get(name)
    except Py4JJavaError as error:
        if "UnknownTopicOrPartition" in str(error.java_exception) or "InvalidTopic" in str(error.java_exception):
            raise MissingLogError(
                f"there is no topic {name!r}: the name is wrong, or the log has not been written yet"
            ) from None
        raise
    kind = getattr(java, "org.apache.kafka.common.config.ConfigResource$Type")
    resource = java.org.apache.kafka.common.config.ConfigResource(kind.TOPIC, name)
    asked = client.describeConfigs(java.java.util.Collections.singletonList(resource)).all()
    try:
        entries = java.java.util.ArrayList(asked.get().get(resource).entries())
        config = {entry.name(): entry.value() for entry in entries}
    except Py4JJavaError as error:
        if "AuthorizationException" not in str(error.java_exception):
            raise
        config = {}  # not ours to read; check_keeps reports it
    parts = [part.partition() for part in found.partitions()]
    spec = java.org.apache.kafka.clients.admin.OffsetSpec
    first, last = (_offsets(java, client, name, parts, which()) for which in (spec.earliest, spec.latest))
    topic = Topic(name, {part: (first[part], last[part]) for part in parts}, config)
    return TopicDescription(topic, found.topicId().toString())


def _offsets(java: Any, client: Any, name: str, parts: list[int], which: Any) -> dict[int, int]:
    asked = java.java.util.HashMap()
    for part in parts:
        asked.put(java.org.apache.kafka.common.TopicPartition(name, part), which)
    answers = client.listOffsets(asked).all().get()
    return {place.partition(): answers.get(place).offset() for place in asked.keySet()}


def _cause(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
