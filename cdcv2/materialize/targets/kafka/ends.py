"""Whether topics of deltas end where they do in the recovery log, read from the topics themselves at opening.

The log knows the place of the last statement in each topic, and behind which offsets nothing of ours is. So at that
place there is the statement of just its frontier; and whatever is behind has been committed (a zombie may send it
again), or is of the one transaction that had begun. Anything else was pushed with another log, or with one that
is newer than this: of a backup, then. Nothing may be pushed with it: readers would get other deltas of times that
they have, or wait for ever for those in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.errors import Cdcv2Error, RefusedError
from cdcv2.logs.kafka_topics import Topic
from cdcv2.materialize.protocol.deltas import VERSION
from cdcv2.materialize.protocol.fence import meet_of
from cdcv2.materialize.protocol.messages import Open
from cdcv2.store.kafka_client import Client

_REMEDY = (
    "it is another log, or an old one (as of a backup), and what is in the topic would be pushed again, otherwise. "
    "Name the log that it was written with, restore that; or start over, with topics and a recovery log that are empty"
)


@dataclass(frozen=True)
class _Place:
    """A topic: from where on it is read, to where; and where the last statement is, as (partition, offset)."""

    topic: str
    begin: dict[int, int]
    end: dict[int, int]
    stated: tuple[int, int] | None


def demand_ends(client: Client, topics: list[Topic], message: Open) -> None:
    """Raises RefusedError for a topic that goes on where the recovery log does not. Cost: what is read is a statement,
    and a transaction that has begun before a crash. Raises UnavailableError when Kafka does not answer.
    """
    state: Mapping[str, Any] = message.state or {}
    if "ends" not in state:
        return
    places = {topic.name: _place(topic, state) for topic in topics}
    judge = _Judge(message)
    for record in _records(client, places):
        judge.take(record, places[record.topic()])


def _place(topic: Topic, state: Mapping[str, Any]) -> _Place:
    known, kept = state["ends"].get(topic.name, {}), state.get("stated", {}).get(topic.name)
    begin = {part: max(low, known.get(str(part), 0)) for part, (low, _) in topic.spans.items()}
    stated = None
    # A head that somebody has removed is no matter of the recovery log's.
    if kept is not None and topic.spans.get(kept[0], (0, 0))[0] <= kept[1]:
        stated = (kept[0], kept[1])
        begin[kept[0]] = kept[1]
    return _Place(topic.name, begin, topic.ends, stated)


class _Judge:
    """What the recovery log allows a record to be."""

    def __init__(self, message: Open) -> None:
        self._name = message.materialization
        self._frontier = meet_of(message.pieces) if message.pieces else message.start
        self._extent = message.extent

    def take(self, record: Any, place: _Place) -> None:
        """Raise RefusedError unless the record is one of its own."""
        at = (record.partition(), record.offset())
        try:
            plain = parse_json(record.value() or b"")
            if plain["version"] != VERSION:
                raise ValueError("another version")
            name, lower, upper = plain["materialization"], *map(Antichain.from_plain, (plain["lower"], plain["upper"]))
        except (ValueError, TypeError, KeyError, Cdcv2Error) as cause:
            raise RefusedError(
                f"the topic {place.topic!r} has at offset {at[1]} of partition {at[0]} what is no delta of version "
                f"{VERSION}: others write to it. Give the materialization topics of its own"
            ) from cause
        known = f"and the recovery log is at {self._frontier}: {_REMEDY}"
        if name != self._name:
            raise RefusedError(f"the topic {place.topic!r} has deltas of {name!r}, not of {self._name!r}: {_REMEDY}")
        if at == place.stated:
            if "deltas" not in plain or upper != self._frontier:
                raise RefusedError(
                    f"the topic {place.topic!r} is at {upper} where it should have the last statement that the log "
                    f"knows of, {known}"
                )
        elif not self._frontier.dominates(upper) and (lower, upper) != (self._frontier, self._extent):
            raise RefusedError(f"the topic {place.topic!r} has deltas from {lower} to {upper}, {known}")


def _records(client: Client, places: Mapping[str, _Place]) -> Iterator[Any]:
    """What is in the topics, each partition from where it is to be read to where it ended."""
    unread = {
        (place.topic, part): end
        for place in places.values() for part, end in place.end.items() if place.begin[part] < end
    }  # fmt: skip
    if not unread:
        return
    kafka = client.kafka
    consumer, active = client.consumer(fetch_wait_max_ms=20), time.monotonic()
    try:
        consumer.assign([kafka.TopicPartition(topic, part, places[topic].begin[part]) for topic, part in unread])
        while unread:
            records = client.received(consumer, 1000, timeout=0.1)
            for record in records:
                active, part = time.monotonic(), (record.topic(), record.partition())
                error, end = record.error(), unread.get(part)
                if error is None and end is not None:
                    if record.offset() < end:
                        yield record
                    if record.offset() + 1 >= end:
                        del unread[part]
                elif error is not None and error.code() == kafka.KafkaError._PARTITION_EOF:
                    unread.pop(part, None)
                elif error is not None and not error.retriable():
                    client.fail(f"topic {part[0]!r}", error)
            if not records and time.monotonic() > active + client.patience:
                raise client.error("its topics", None)
    finally:
        consumer.close()
