"""When records of Kafka were written, by the timestamps that they have there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from cdcv2.logs.kafka_topics import spans_of
from cdcv2.protocol.log import Place
from cdcv2.store.kafka_client import Client


def written_at(client: Client, offsets: Mapping[Place, int]) -> dict[Place, float]:
    """For each partition, when the first record from the offset on was written, in seconds since 1970.

    A partition that gives none within the client's patience, and one without such a record or timestamp, is missing.
    Raises UnavailableError.
    """
    if not offsets:
        return {}
    kafka, found = client.kafka, dict[Place, float]()
    left = set(offsets)
    with closing(client.consumer(fetch_wait_max_ms=20, queued_min_messages=1, fetch_message_max_bytes=65536)) as reader:
        reader.assign([kafka.TopicPartition(*place, offset) for place, offset in sorted(offsets.items())])
        deadline = time.monotonic() + client.patience
        while left and time.monotonic() < deadline:
            for message in client.received(reader, 100, timeout=0.05):
                place = message.topic(), message.partition()
                if place not in left or (message.error() is not None and message.error().retriable()):
                    continue
                left.remove(place)
                reader.incremental_unassign([kafka.TopicPartition(*place)])
                # An error here is the end of the partition, behind which only markers of transactions were.
                kind, moment = (None, 0) if message.error() is not None else message.timestamp()
                if kind not in (None, kafka.TIMESTAMP_NOT_AVAILABLE):
                    found[place] = moment / 1000
    return found


def last_written_at(client: Client, topic: str) -> float | None:
    """When the newest record of a topic was written, in seconds since 1970; None: it has none, or is not there.

    Raises UnavailableError.
    """
    _, parts = spans_of(client, [topic]).get(topic, ("", {}))
    newest = client.questions.OffsetSpec.max_timestamp()
    asked = {client.kafka.TopicPartition(topic, part): newest for part in parts}
    if not asked:
        return None
    answers = client.request(f"the newest records of {topic}", lambda: [
        future.result(client.patience)
        for future in client.admin.list_offsets(asked, request_timeout=client.patience).values()
    ])  # fmt: skip
    return max((one.timestamp / 1000 for one in answers if one.timestamp >= 0), default=None)
