"""Topics that a test makes and deletes: both return when the broker shows it.

A broker confirms either some milliseconds before its own list of topics follows.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

from tests.logs.polling import until


def make_topics(bootstrap: str, topics: Mapping[str, int], settings: Mapping[str, str] | None = None) -> None:
    """Topics with so many partitions, each with the same settings."""
    admin = _admin(bootstrap)
    new = [NewTopic(name, num_partitions=parts, config=dict(settings or {})) for name, parts in topics.items()]
    for made in admin.create_topics(new).values():
        made.result(60)
    until(lambda: admin.list_topics(timeout=60).topics.keys() >= topics.keys(), f"the topics {sorted(topics)}")


def delete_topic(bootstrap: str, name: str) -> None:
    """The topic, whosesoever it is."""
    admin = _admin(bootstrap)
    admin.delete_topics([name])[name].result(60)
    until(lambda: name not in admin.list_topics(timeout=60).topics, f"topic {name} is deleted")


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
