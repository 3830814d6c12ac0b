"""What a look at a topic gives, without a Kafka: what is shown of it is shown when it is new."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.control.entries import CatalogueEntry, Kind
from cdcv2.control.kinds import topics
from cdcv2.logs.kafka_topics import Topic

ENTRY = CatalogueEntry("6f", Kind.TOPIC, "orders", "k", {"partitions": 1}, True, ("shop",))


def test_what_is_shown_of_a_topic_does_not_change_with_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that others write into is refused with the same text at each look, and so is named once."""
    ends = iter([0, 7, 8])
    monkeypatch.setattr(topics, "describe", lambda client, name: Topic(name, {0: (0, next(ends))}, {}))
    client: Any = SimpleNamespace(topic_id=lambda name: "id")
    empty, first, second = (topics._found(client, ENTRY) for _ in range(3))

    assert (True, False, False) == (empty.empty, first.empty, second.empty)
    assert first == second and empty.place != first.place
