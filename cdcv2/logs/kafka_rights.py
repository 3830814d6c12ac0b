"""What Kafka lets us do with topics: asked of it, without doing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdcv2.errors import UnavailableError
from cdcv2.store.kafka_client import Client


def rights_to(client: Client, topics: Collection[str]) -> Mapping[str, frozenset[str] | None]:
    """Topic -> what we may do with it, by Kafka's names, as ``READ``; nothing: we may not see it. None: there is none.

    Kafka without an authorizer lets everybody do all. Cost: one request. Raises UnavailableError without an answer.
    """
    kafka = client.kafka

    def ask() -> dict[str, frozenset[str] | None]:
        answers = client.admin.describe_topics(
            kafka.TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=client.patience
        )
        found: dict[str, frozenset[str] | None] = {}
        for topic, answer in answers.items():
            try:
                allowed = answer.result(client.patience).authorized_operations
                found[topic] = frozenset(one.name for one in allowed or ())
            except kafka.KafkaException as cause:
                if not client.missing(cause.args[0]) and not client.forbidden(cause.args[0]):
                    raise
                found[topic] = None if client.missing(cause.args[0]) else frozenset()
        return found

    return client.request("the topics", ask) if topics else {}


def may_create(client: Client, topic: str) -> bool:
    """Whether we may make a topic of this name, which is not there. Raises UnavailableError without an answer."""
    new = client.questions.NewTopic(topic, 1, -1)
    try:
        client.request(f"topic {topic!r}", lambda: client.admin.create_topics(
            [new], validate_only=True, request_timeout=client.patience
        )[topic].result(client.patience))  # fmt: skip
    except UnavailableError as error:
        if error.forbidden:
            return False
        raise
    return True
