"""Kafka as a target: a topic per table takes the deltas, and a statement per transaction.

A record's key is the delta's key, as JSON, so that all deltas of a key are in one partition, in order; its value is the
delta (:mod:`cdcv2.materialize.protocol.deltas`). Statements have no key. No transactions of Kafka: a reader knows a
repeat by itself (:class:`~cdcv2.materialize.subscriber.Subscriber` does it), which also covers what Kafka's cannot, a
producer that dies between its own commit and ours.

The recovery log knows up to where the topics were written, and where the last statements are. So recreated topics are
noticed at opening, and so is a log that is another's, or an old one: the topics have other records, or go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cdcv2.errors import Cdcv2Error, RefusedError
from cdcv2.logs.kafka_topics import Topic, check_keeps, create_topic, describe
from cdcv2.materialize.protocol.messages import Flush, Flushed, Loaded, Patch, StartCommit, StartedCommit, Table
from cdcv2.materialize.targets.kafka.ends import demand_ends
from cdcv2.materialize.targets.push import PushDriver
from cdcv2.store.kafka_client import PATIENCE, Client


class KafkaDriver(PushDriver):
    """One producer.

    Args:
        bootstrap: ``host:port`` of a broker, or several with commas; None: as in the settings.
        prefix: what stands before a table's name in that of its topic.
        config_file: a properties file with TLS and SASL settings; never shown.
        create: make the topics that are missing, with ``partitions``; they keep everything, as sums need it.
        patience: how long, in seconds, an answer of the cluster is waited for, and a delivery.

    Raises as :class:`~cdcv2.logs.kafka.KafkaLog`: MissingLogError, UnsafeTopicError, UnavailableError, UsageError.
    """

    def __init__(
        self,
        bootstrap: str | None,
        *,
        prefix: str = "",
        config_file: str | Path | None = None,
        create: bool = True,
        partitions: int = 1,
        patience: float = PATIENCE,
    ) -> None:
        super().__init__()
        self._client = Client(bootstrap, config_file, patience=patience)
        self._prefix, self._create, self._partitions = prefix, create, partitions
        self._producer: Any = None
        # Topic -> partition -> behind the last record that any instance wrote. ``_is_kept``: the recovery log has that.
        self._ends: dict[str, dict[str, int]] = {}
        # Topic -> partition and offset of the statement that was written last.
        self._stated: dict[str, list[int]] = {}
        self._is_kept = False
        self._trouble: list[tuple[str, Any]] = []

    def connect(self, tables: tuple[Table, ...]) -> None:
        """Find the topics, or make them."""
        found, least = [], None
        for table in tables:
            topic = self._prefix + table.name
            if self._create:
                described = create_topic(self._client, topic, partitions=self._partitions)
            else:
                described = describe(self._client, topic)
            check_keeps(described)
            self._demand_known(described)
            found.append(described)
            least = min(described.message_bytes, least or described.message_bytes)
        demand_ends(self._client, found, self._opened())
        self._producer = self._client.producer(message_max_bytes=max(1000, least or 0))

    def _demand_known(self, topic: Topic) -> None:
        """Raise RefusedError unless the topic goes with the recovery log."""
        opened = self._opened()
        known: Mapping[str, Mapping[str, int]] | None = (opened.state or {}).get("ends")
        begun = any(not opened.start.dominates(piece.frontier) for piece in opened.pieces)
        ends, wrong = {str(part): end for part, end in topic.ends.items()}, ""
        if known is None and not begun and any(ends.values()):
            wrong = "has records, and the recovery log knows nothing of them"
        elif known is not None and begun and topic.name not in known:
            wrong = "is new to a view that has begun, and lacks what came before"
        elif known is not None and any(ends.get(part, 0) < end for part, end in known.get(topic.name, {}).items()):
            wrong = "has lost records that the recovery log knows of, or was made again"
        if wrong:
            raise RefusedError(
                f"the topic {topic.name!r} {wrong}: name the log that it was written with, or restore it; or start "
                "over, with topics and a recovery log that are empty"
            )
        self._ends[topic.name], self._is_kept = ends, known is not None

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """Note the extent. Before anything is pushed, the recovery log knows the topics."""
        was_kept, self._is_kept = self._is_kept, True
        answers = list(super().flush(message))
        return answers if was_kept else [*answers[:-1], Flushed(Patch({"ends": self._ends}))]

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Push what is buffered, then the statements; returns up to where that has filled the topics."""
        super().start_commit(message)
        return StartedCommit(Patch({"ends": self._ends, "stated": self._stated}))

    def push(self, table: Table, message: dict[str, Any]) -> None:
        """Into the producer's buffer; waits for room in it. Raises RefusedError for what is too large."""
        topic, deadline = self._prefix + table.name, time.monotonic() + self._client.patience
        key = _json(message["key"]) if "key" in message else None
        while True:
            try:
                self._producer.produce(topic, key=key, value=_json(message), on_delivery=self._delivered)
                break
            except BufferError:
                self._serve(lambda: self._producer.poll(0.1))
                if time.monotonic() > deadline:
                    raise self._client.error(f"topic {topic!r}", None) from None
            except self._client.kafka.KafkaException as cause:
                raise self._failure(topic, cause.args[0]) from None
        self._serve(lambda: self._producer.poll(0))

    def settle(self) -> None:
        """Wait for all deliveries. Raises UnavailableError, MissingLogError, RefusedError."""
        left = self._serve(lambda: self._producer.flush(self._client.patience + 5))
        if self._trouble:
            raise self._failure(*self._trouble[0])
        if left:
            raise self._client.error("its topics", None)

    def close(self) -> None:
        """Leave the cluster; what is buffered is thrown away."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            with suppress(self._client.kafka.KafkaException):
                self._client.served(lambda: producer.flush(5))

    def _serve(self, act: Callable[[], int]) -> int:
        """What the producer's act returns. Raises as :meth:`settle`, also for an error that ends the producer."""
        try:
            return self._client.served(act)
        except self._client.kafka.KafkaException as cause:
            raise self._failure(None, cause.args[0]) from None

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._trouble.append((message.topic(), error))
        else:
            ends = self._ends[message.topic()]
            ends[str(message.partition())] = max(ends.get(str(message.partition()), 0), message.offset() + 1)
            if message.key() is None:
                self._stated[message.topic()] = [message.partition(), message.offset()]

    def _failure(self, topic: str | None, error: Any) -> Cdcv2Error:
        if error.code() == self._client.kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            return RefusedError(f"the topic {topic!r} takes no delta as large as ours: raise its max.message.bytes")
        return self._client.error("its topics" if topic is None else f"topic {topic!r}", error)


def _json(plain: Any) -> bytes:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
