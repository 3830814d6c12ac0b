"""What Kafka says of topics before they are read, asked by the Java client that Spark itself will use.

So there is one configuration for everything that the job does with Kafka, and nothing else to install. Settings come
from a properties file, as Java's clients have it; they may hold secrets, so no value of theirs is ever shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from cdcv2.errors import MissingLogError, UnavailableError, UnsafeTopicError, UsageError
from cdcv2.spark.session import jvm

#: So many milliseconds an answer is waited for.
PATIENCE = 20_000


@dataclass(frozen=True)
class Topic:
    """A topic as Kafka describes it: its identity, its settings, and the first offset of each partition."""

    name: str
    identity: str
    config: Mapping[str, str]
    earliest: Mapping[int, int]


def settings(bootstrap: str | None, config_file: str | Path | None) -> dict[str, str]:
    """The settings of the Kafka clients: those of a properties file, and the bootstrap servers.

    Raises UsageError for a file that cannot be read, and when no bootstrap server is named.
    """
    found: dict[str, str] = {}
    if config_file is not None:
        try:
            lines = Path(config_file).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the Kafka settings in {config_file} cannot be read: {error}") from error
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if not line or line[0] in "#!":
                continue
            key, equals, value = line.partition("=")
            if not equals:
                raise UsageError(f"{config_file}, line {number}: a setting is written key=value")
            found[key.strip()] = value.strip()
    if bootstrap is not None:
        found["bootstrap.servers"] = bootstrap
    if not found.get("bootstrap.servers"):
        raise UsageError("topics need --bootstrap-server HOST:PORT, or bootstrap.servers in the --kafka-config file")
    return found


def describe(spark: SparkSession, kafka: Mapping[str, str], names: Sequence[str]) -> list[Topic]:
    """What Kafka says of these topics. Raises MissingLogError, or UnavailableError when Kafka does not answer."""
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


def check(topic: Topic, positions: Mapping[int, int]) -> None:
    """Whether the topic has everything from ``positions`` on (no partition there: from the start), and will keep it.

    Raises UnsafeTopicError with the remedy.
    """
    for part, earliest in sorted(topic.earliest.items()):
        if earliest > positions.get(part, 0):
            raise UnsafeTopicError(
                f"{topic.name}[{part}] begins at offset {earliest}, and {positions.get(part, 0)} is needed: messages "
                "have been removed, and what they stated is lost; restore the topic, or write the log anew"
            )
    for problem in unsafe(topic.config):
        raise UnsafeTopicError(
            f"the topic {topic.name} would lose statements: {problem}; set cleanup.policy=delete, retention.ms=-1 and "
            "retention.bytes=-1 (if it has lost none yet)"
        )


def unsafe(config: Mapping[str, str]) -> list[str]:
    """What in a topic's settings would lose messages in time.

    >>> unsafe({"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"})
    ['cleanup.policy=compact']
    """
    wanted = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    return [f"{key}={config[key]}" for key, value in wanted.items() if config.get(key, value) != value]


def _describe(java: Any, client: Any, name: str) -> Topic:
    one = java.java.util.Collections.singletonList(name)
    try:
        found = client.describeTopics(one).allTopicNames().get().get(name)
    except Py4JJavaError as error:
        if "UnknownTopicOrPartition" in str(error.java_exception) or "InvalidTopic" in str(error.java_exception):
            raise MissingLogError(
                f"there is no topic {name!r}: the name is wrong, or nobody has written the log yet"
            ) from None
        raise
    kind = getattr(java, "org.apache.kafka.common.config.ConfigResource$Type")
    resource = java.org.apache.kafka.common.config.ConfigResource(kind.TOPIC, name)
    config = client.describeConfigs(java.java.util.Collections.singletonList(resource)).all().get().get(resource)
    wanted = java.java.util.HashMap()
    for part in found.partitions():
        place = java.org.apache.kafka.common.TopicPartition(name, part.partition())
        wanted.put(place, java.org.apache.kafka.clients.admin.OffsetSpec.earliest())
    offsets = client.listOffsets(wanted).all().get()
    return Topic(
        name,
        found.topicId().toString(),
        {entry.name(): entry.value() for entry in config.entries().toArray()},
        {place.partition(): offsets.get(place).offset() for place in wanted.keySet()},
    )


def _cause(error: Py4JJavaError) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
