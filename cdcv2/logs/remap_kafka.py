"""The log of a shared remap in a Kafka topic of one partition: a record's place is its offset.

No transactions, and no compare-and-append that Kafka does not have: each minter appends its request, and all read
the outcome. The topic keeps everything, as topics of logs do; trimming deletes the records before an offset, which
is never used again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cdcv2.errors import RefusedError, UnsafeTopicError
from cdcv2.logs.kafka_topics import check_keeps, create_topic, describe, spans
from cdcv2.store.kafka_client import PATIENCE, Client
from cdcv2.timeline.shared_remap import LogView


#: A summary has every binding that is kept: with one a second, a day's are some megabytes.
SUMMARIES = {"max.message.bytes": str(64 << 20)}


class KafkaRemap:
    """The log in a topic. One thread at a time.

    Args:
        topic: the topic, of one partition.
        bootstrap: ``host:port`` of a broker, or several with commas; None: as in the settings.
        config_file: a properties file with TLS and SASL settings; never shown.
        create: make the topic if it is not there.
        patience: how long, in seconds, an answer of the cluster is waited for, and a delivery.

    Raises MissingLogError without the topic, UnsafeTopicError for one that would lose records or has more than one
    partition, UnavailableError when no broker answers, UsageError for wrong settings.
    """

    def __init__(
        self,
        topic: str,
        bootstrap: str | None,
        *,
        config_file: str | Path | None = None,
        create: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        self._topic = topic
        self._client = Client(bootstrap, config_file, patience=patience)
        described = (
            create_topic(self._client, topic, settings=SUMMARIES)
            if create else describe(self._client, topic)
        )
        self._most = described.message_bytes
        check_keeps(described)
        if set(described.spans) != {0}:
            raise UnsafeTopicError(
                f"the topic {topic!r} has {len(described.spans)} partitions, between which nothing is before anything "
                "else: a shared remap needs a topic of one"
            )
        self._producer: Any = None
        self._consumer: Any = None

    @property
    def name(self) -> str:
        """The topic."""
        return self._topic

    def place(self, number: int) -> str:
        """Topic, partition and offset of a record."""
        return f"{self._topic}[0]@{number}"

    def read(self, after: int) -> LogView:
        """The records from an offset on; see :class:`~cdcv2.timeline.minting.RemapLog`.

        Raises UnavailableError, and MissingLogError when the topic is missing.
        """
        deadline = time.monotonic() + self._client.patience
        while True:
            # The end is asked for after the beginning: a summary that let something be trimmed is before the end.
            low, end = spans(self._client, self._topic)[0]
            records = self._consumed(max(low, after), end)
            if records is not None:
                return LogView(records, end)
            # Trimmed while it was read: the beginning is another one now.
            if time.monotonic() > deadline:
                self._client.fail(f"topic {self._topic!r}", None)

    def append(self, raw: bytes, after: int) -> int:
        """Append a record, durably; its offset. Raises UnavailableError when it is unknown whether it is there,
        RefusedError for a record that is larger than the topic allows.
        """
        delivered: list[tuple[Any, int]] = []
        if self._producer is None:
            self._producer = self._client.producer(message_max_bytes=max(1000, self._most))
        try:
            self._producer.produce(
                self._topic, value=raw, partition=0,
                on_delivery=lambda error, message: delivered.append((error, message.offset())),
            )
            self._client.served(lambda: self._producer.flush(self._client.patience + 5))
        except self._client.kafka.KafkaException as cause:
            delivered.append((cause.args[0], -1))
        error, offset = delivered[0] if delivered else (None, -1)
        if delivered and error is None:
            return int(offset)
        self._producer.purge()
        self._producer = None
        if error is not None and error.code() == self._client.kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            raise RefusedError(
                f"the topic {self._topic!r} takes no record of {len(raw)} bytes: raise its max.message.bytes, or "
                "compact the remap further (--keep)"
            )
        self._client.fail(f"topic {self._topic!r}", error)

    def trim(self, before: int) -> None:
        """Delete the records before an offset. Raises UnavailableError; then they may be deleted or not."""
        place = self._client.kafka.TopicPartition(self._topic, 0, before)

        def delete() -> None:
            self._client.admin.delete_records([place], request_timeout=self._client.patience)[place].result(
                self._client.patience
            )

        self._client.request(f"topic {self._topic!r}", delete)

    def close(self) -> None:
        """Leave the cluster."""
        if self._consumer is not None:
            self._consumer.close()
        if self._producer is not None:
            self._producer.purge()
        self._producer = self._consumer = None

    def _consumed(self, start: int, end: int) -> list[tuple[int, bytes]] | None:
        """The records of some offsets; None when the first ones are deleted."""
        if start >= end:
            return []
        if self._consumer is None:
            # It is asked for what is there; a broker that waits for more to come would hold up the next question.
            self._consumer = self._client.consumer(fetch_wait_max_ms=5)
        self._consumer.assign([self._client.kafka.TopicPartition(self._topic, 0, start)])
        try:
            return self._until(end)
        finally:
            self._consumer.unassign()

    def _until(self, end: int) -> list[tuple[int, bytes]] | None:
        error_of = self._client.kafka.KafkaError
        passing = (error_of._PARTITION_EOF, error_of._ALL_BROKERS_DOWN, error_of._TRANSPORT)
        records: list[tuple[int, bytes]] = []
        active = time.monotonic()
        while True:
            for record in self._client.received(self._consumer, 100, timeout=0.02):
                active, error = time.monotonic(), record.error()
                if error is None:
                    if record.offset() < end:
                        records.append((record.offset(), record.value() or b""))
                elif self._client.removed(error):
                    return None
                elif error.code() not in passing and not error.retriable():
                    self._client.fail(f"topic {self._topic!r}", error)
                # The end of the partition comes as an error, with the place behind the last record; others have none.
                at = record.offset()
                if at is not None and at + (error is None) >= end:
                    return records
            if time.monotonic() > active + self._client.patience:
                self._client.fail(f"topic {self._topic!r}", None)
