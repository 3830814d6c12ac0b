"""A log in a Kafka topic: a record per message, its value the message's bytes, no key.

Any number of partitions, as order means nothing. The producer is idempotent, for fewer repeats, and uses no
transactions, as repeats mean nothing either. Nothing is committed and no group is balanced: readers keep positions
themselves, or begin at the start.

The file is long because it is one client of Kafka: writing, reading and what each of its errors means.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, is_total
from cdcv2.errors import Cdcv2Error, DecodeError, MalformedError, RefusedError, UnavailableError, UnsafeTopicError
from cdcv2.logs import release_times
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.description import LogDescription, check_ordering
from cdcv2.logs.kafka_topics import (
    Topic, check_keeps, check_positions, create_topic, describe, ends_of, partitions_of, spans,
)
from cdcv2.logs.release_times import ReleaseTime
from cdcv2.logs.stops import HEADER, Stop, in_headers
from cdcv2.protocol.log import Entry, Headers, Position, Positions
from cdcv2.protocol.messages import GarbledMessage, Message, Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.rows.times import Times
from cdcv2.store.kafka_client import PATIENCE, Client
from cdcv2.store.stalled_partitions import StalledPartitions

LOGGER = logging.getLogger(__name__)
__all__ = ["Client", "KafkaLog", "Topic"]

# What Kafka adds to a message of its own, generously.
_ENVELOPE = 200
# So many seconds after its time a message is surely given up: the client looks at them once a second.
_GIVEN_UP = 5
# How often a reader that follows looks for new partitions, in seconds; and how long it waits for an answer then: in its
# thread other logs are read, too, or an instance is asked.
_LOOK, _ANSWER = 5.0, 2.5


class KafkaLog:
    """The log in a topic; both a source and a sink. One thread at a time.

    Args:
        topic: the topic.
        bootstrap: ``host:port`` of a broker, or several with commas; None: as in the settings.
        row_type: the log's row type; Kafka does not keep it.
        config_file: a properties file with TLS and SASL settings (see :class:`Client`); never shown.
        create: make the topic if it is not there, with ``partitions`` and ``replication`` (None: the cluster's own).
        writing: something will be sent, as it is with ``create``: so the producer gets ready now, which takes it half
            a second, and not at the first message.
        times: ``"int"`` or the number of coordinates of Product times.
        description: what every message that is sent states of the log in its headers. With ``create`` or ``writing``, a
            log that does not state all of it yet gets an empty message that does.
        confluent_schema_id: messages are framed as Confluent's serializers do it, with this id.
        patience: how long, in seconds, an answer of the cluster is waited for, and a delivery.

    Raises MissingLogError without the topic, UnsafeTopicError for one that would lose statements, DecodeError where it
    holds none, ForeignStateError for one that is described otherwise, UnavailableError when no broker answers,
    UsageError for wrong settings.
    """

    def __init__(
        self,
        topic: str,
        bootstrap: str | None,
        row_type: RowType,
        *,
        config_file: str | Path | None = None,
        create: bool = False,
        writing: bool = False,
        partitions: int = 1,
        replication: int | None = None,
        times: Times = "int",
        description: LogDescription = LogDescription(),
        confluent_schema_id: int | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.row_type, self.times = row_type, times
        #: How long, in seconds, a reader that follows waits for what comes next, before it gives None.
        self.idle_wait = 0.1
        self._topic = topic
        self._codec = MessageCodec(row_type, times, confluent_schema_id)
        self._client = Client(bootstrap, config_file, patience=patience)
        if create:
            described = create_topic(self._client, topic, partitions=partitions, replication=replication)
        else:
            described = describe(self._client, topic)
        self._most = described.message_bytes
        self._producer: Any = None
        # Taken and not known to be durable: with the client's own queue all that a flush still has to do.
        # What no broker has acknowledged, by number; and the numbers of what was given up, and is to be sent again.
        self._unacknowledged: dict[int, tuple[bytes, Headers]] = {}
        self._failed: list[int] = []
        self._numbers = count()
        self._trouble: Any = None
        check_ordering(description.ordering)
        self._headers: Headers = description.headers()
        # What the messages that were read state of the log, and the headers of the last one.
        self._stated, self._seen = LogDescription(), Headers()
        self._stops: dict[Stop, None] = {}
        #: Partitions of which a reader that follows has not seen the end yet: what is there may come after a None.
        self.unread: set[int] = set()
        # The release whose statement is sent next, and those that messages state which were read.
        self._release: ReleaseTime | None = None
        self._releases = set[ReleaseTime]()
        try:
            check_keeps(described)
        except UnsafeTopicError:
            # Of what is no log nothing is wrong with its settings.
            self._check_first(described)
            raise
        if create or writing:
            self._opened()
            self.describe(description)

    @property
    def name(self) -> str:
        """The topic."""
        return self._topic

    # --- writing

    def canonical(self, data: Any) -> Any:
        """The row of the log's type; see :class:`~cdcv2.protocol.log.Sink`. Raises MalformedError."""
        return self.row_type.row(data)

    def send(self, message: Message, headers: Headers = ()) -> None:
        """Take a message; what is larger than the topic allows is split first, which means the same.

        ``headers`` stand beside it, and beside each part of it, with those of the log's description. Raises
        MalformedError for what the log cannot hold, RefusedError for what cannot be split far enough, UnavailableError
        when the client's buffer stays full.
        """
        self._retry_produce()
        beside = (*self._headers, *headers, *self._dated(message))
        most = self._most - _ENVELOPE - sum(len(name) + len(value) + 10 for name, value in beside)
        for raw in self._pieces(message, most):
            self._produce(raw, beside)

    def flush(self) -> None:
        """Return when every broker that must has everything sent; raise if that may not be so.

        Raises UnavailableError, MissingLogError, RefusedError. What was not acknowledged is kept, and flushing again
        sends it again.
        """
        self._retry_produce()
        if self._producer is None:
            return
        try:
            left = self._client.served(lambda: self._producer.flush(self._client.patience + _GIVEN_UP))
        except self._client.kafka.KafkaException as cause:
            raise self._dropped(cause) from None
        if left or self._failed:
            self._drop()
            raise self._failure()

    def close(self) -> None:
        """Leave the cluster. What was sent and not flushed may be in the log or not."""
        self._drop()
        self._unacknowledged, self._failed = {}, []

    def put_stop(self, stop: Stop) -> None:
        """Keep a stop in an empty message. Raises as :meth:`flush` does, and :meth:`description`."""
        # Another capture may have stated the log's start since this one opened it, and the last message stands for all.
        self._headers = LogDescription.from_headers(self._headers).joined(self.description(), self._topic).headers()
        self.send(Updates([]), ((HEADER, stop.to_bytes()),))
        self.flush()

    def keep_release(self, release: ReleaseTime) -> None:
        """Keep it in a header of the statement up to its END, which is sent next."""
        self._release = release

    def _dated(self, message: Message) -> Headers:
        release = self._release
        if release is None or not isinstance(message, Progress) or message.upper != Antichain([release.lsn + 1]):
            return ()
        return ((release_times.HEADER, release.to_text().encode()),)

    def describe(self, description: LogDescription) -> None:
        """Have the log state all of this from now on; by an empty message, unless it does.

        Raises ForeignStateError where it states something else, and what sending raises.
        """
        stated = self.description()
        wanted = stated.joined(description, self._topic)
        # What was stated before stands beside each message, too: the last one stands for all.
        self._headers = LogDescription.from_headers(self._headers).joined(wanted, self._topic).headers()
        if wanted != stated:
            self.send(Updates([]))
            self.flush()

    def _pieces(self, message: Message, most: int) -> Iterator[bytes]:
        raw = self._codec.encode(message)
        if len(raw) <= most:
            yield raw
            return
        for part in split(message, -(-len(raw) // max(1, most))):
            yield from self._pieces(part, most)

    def _produce(self, raw: bytes, headers: Headers) -> None:
        # Everything in the buffer is delivered or given up before this deadline, and makes room.
        deadline, number = time.monotonic() + self._client.patience + _GIVEN_UP, next(self._numbers)
        report, producer = partial(self._delivered, number), self._opened()
        try:
            while True:
                try:
                    producer.produce(self._topic, value=raw, headers=[*headers], on_delivery=report)
                    break
                except BufferError:
                    if time.monotonic() > deadline:
                        raise self._client.error(f"topic {self._topic!r}", None) from None
                    self._client.served(lambda: producer.poll(0.1))
            self._unacknowledged[number] = raw, headers
            self._client.served(lambda: producer.poll(0))
        except self._client.kafka.KafkaException as cause:
            raise self._dropped(cause) from None

    def _retry_produce(self) -> None:
        # What fails again meanwhile is left for the next time: a broker that is away is not waited for without end.
        for _ in range(len(self._failed)):
            self._produce(*self._unacknowledged[self._failed[0]])
            del self._unacknowledged[self._failed.pop(0)]

    def _drop(self) -> None:
        """Let the producer go; what it had not delivered is to be sent again."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        producer.purge()
        with suppress(self._client.kafka.KafkaException):
            self._client.served(lambda: producer.flush(5))
        # Also what was not reported, as a report that comes with an error of the producer is not carried out.
        self._failed = sorted(self._unacknowledged)

    def _dropped(self, cause: Any) -> Cdcv2Error:
        """The error, when the producer has ended by this one, and is let go."""
        self._trouble = cause.args[0]
        self._drop()
        return self._failure()

    def _opened(self) -> Any:
        if self._producer is None:
            self._producer = self._client.producer(
                message_max_bytes=max(1000, self._most), queue_buffering_max_kbytes=64 << 10
            )
        return self._producer

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            del self._unacknowledged[number]
        else:
            self._failed.append(number)
            # That a queue was emptied explains nothing; the error before it does.
            kafka_error = self._client.kafka.KafkaError
            if self._trouble is None or error.code() not in (kafka_error._PURGE_QUEUE, kafka_error._PURGE_INFLIGHT):
                self._trouble = error

    def _failure(self) -> Cdcv2Error:
        error, self._trouble = self._trouble, None
        if error is not None and error.code() == self._client.kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            return RefusedError(f"the topic {self._topic!r} takes no message as large as ours: raise max.message.bytes")
        return self._client.error(f"topic {self._topic!r}", error)

    # --- reading

    def ends(self) -> Positions:
        """For each partition, the offset behind the last message that is there now."""
        return {part: high for part, (_, high) in spans(self._client, self._topic).items()}

    def description(self) -> LogDescription:
        """What the messages state of the log that were read, and the last one of each partition; and its identity.

        Cost: a read of those messages. Raises as :meth:`read` does, and ForeignStateError where messages disagree.
        """
        found = spans(self._client, self._topic)
        lasts = {part: max(low, high - 1) for part, (low, high) in found.items()}
        for _ in self._entries(lasts, {part: high for part, (_, high) in found.items()}, False):
            continue
        return replace(self._stated, identity=self._client.topic_id(self._topic))

    def expect(self, timeline: str) -> None:
        """From now on, raise ForeignStateError when a message is read that states another timeline."""
        self._stated = LogDescription(timeline=timeline).joined(self._stated, self._topic)

    def stops(self) -> list[Stop]:
        """The stops in the messages that were read, and in the last one of each partition; see ``description``."""
        self.description()
        return list(self._stops)

    def release_times(self) -> list[ReleaseTime]:
        """What statements in the topic keep. Cost: a read of the topic. Raises as :meth:`read` does, RefusedError."""
        for _ in self.read():
            continue
        return sorted(self._releases)

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """The messages from the positions on; see :class:`~cdcv2.protocol.log.Source`.

        A reader that follows waits for a broker that does not answer, however long that takes, logs it, and finds
        partitions that are added. Raises UnsafeTopicError when requested messages are missing, also when they
        are deleted while reading; MissingLogError, UnavailableError (not when following: at the start only).
        """
        found = Topic(self._topic, spans(self._client, self._topic), {})
        check_positions(found, after or {})
        return self._entries(dict(after or {}), found.ends, follow)

    def _entries(self, at: Positions, ends: Positions, follow: bool) -> Iterator[Entry | None]:
        unread = {part for part, end in ends.items() if at.get(part, 0) < end}
        if not unread and not follow:
            return
        if follow:
            self.unread = unread
        consumer, active = self._client.consumer(), time.monotonic()
        looked, before, stalled = active, dict(at), StalledPartitions[int]()
        # Behind the last message that was read of each partition, and the epoch of its leader.
        epochs: dict[int, tuple[int, int | None]] = {}
        try:
            self._assign(consumer, ends if follow else unread, at)
            while follow or unread:
                records = self._client.received(consumer, 1000, timeout=self.idle_wait if follow else 0.1)
                for record in records:
                    active, part = time.monotonic(), record.partition()
                    self._client.answered()
                    if record.error() is not None:
                        self._judge(record, ends, unread, at)
                    elif follow or record.offset() < ends[part]:
                        yield self._entry(record)
                        at[part] = record.offset() + 1
                        epochs[part] = at[part], record.leader_epoch()
                    if record.error() is None and record.offset() + 1 >= ends.get(part, 0):
                        unread.discard(part)
                if follow and not records:
                    yield None
                    if time.monotonic() > looked + _LOOK:
                        if self._look_for_more(consumer, ends, at, before, stalled):
                            LOGGER.warning("no message arrives, and the topic has more: it is read by another consumer")
                            consumer.close()
                            consumer = self._client.consumer()
                            self._assign(consumer, ends, at, epochs)
                        looked, before = time.monotonic(), dict(at)
                elif not records and time.monotonic() > active + self._client.patience:
                    raise self._client.error(f"topic {self._topic!r}", None)
        finally:
            consumer.close()

    def _check_first(self, topic: Topic) -> None:
        """Raise DecodeError if the first record of a partition is no message."""
        for part, (low, high) in topic.spans.items():
            for entry in self._entries({part: low}, {part: min(low + 1, high)}, False):
                if entry is not None and isinstance(entry.message, GarbledMessage):
                    raise DecodeError(entry.message.reason, position=entry.position, raw=entry.message.raw)

    def _entry(self, record: Any) -> Entry:
        position = Position(self._topic, record.partition(), record.offset())
        headers: Headers = tuple(record.headers() or ())
        if headers != self._seen:
            self._stated = LogDescription.from_headers(headers).joined(self._stated, self._topic)
            self._seen = headers
            self._stops.update(dict.fromkeys(in_headers(headers)))
            self._releases.update(release_times.in_headers(headers, f"topic {self._topic!r}"))
        value = record.value()
        if value is None:
            return Entry(position, GarbledMessage(b"", "a record without a value, which a log never has"), headers)
        try:
            return Entry(position, self._codec.decode(value), headers)
        except DecodeError as cause:
            return Entry(position, GarbledMessage(value, cause.reason), headers)

    def _judge(self, record: Any, ends: Positions, unread: set[int], at: Positions) -> None:
        """What a consumer returns instead of a record: the end of a partition, or trouble."""
        error, kafka_error, part = record.error(), self._client.kafka.KafkaError, record.partition()
        if error.code() == kafka_error._PARTITION_EOF:
            if record.offset() < ends.get(part, 0):
                raise UnsafeTopicError(
                    self._compacted(part, f"it ends at {record.offset()}, and ended at {ends[part]}")
                )
            unread.discard(part)
            at[part] = record.offset()
        elif self._client.removed(error):
            raise UnsafeTopicError(self._compacted(part, error.str()))
        elif not error.retriable() and error.code() not in (kafka_error._ALL_BROKERS_DOWN, kafka_error._TRANSPORT):
            self._client.fail(f"topic {self._topic!r}", error)

    def _compacted(self, part: int, why: str) -> str:
        return (
            f"messages of the topic {self._topic!r}, partition {part}, are missing that were to be read ({why}): "
            "restore the topic, or write the log again"
        )

    def _assign(
        self, consumer: Any, parts: Any, at: Positions, epochs: Mapping[int, tuple[int, int | None]] = {}
    ) -> None:
        consumer.incremental_assign([
            self._client.place(self._topic, part, at.get(part, 0), epochs.get(part)) for part in sorted(parts)
        ])

    def _look_for_more(
        self, consumer: Any, ends: Positions, at: Positions, before: Positions, stalled: StalledPartitions[int]
    ) -> bool:
        """Read partitions that are new, too; whether nothing arrives from one that has more.

        ``before``: where it was at the last look. Of a partition from which something came since, no end is asked.
        """
        quiet = {part: at.get(part, 0) for part in ends if at.get(part, 0) == before.get(part, 0)}
        try:
            with self._client.within(_ANSWER):
                parts = partitions_of(self._client, self._topic)
                there = ends_of(self._client, self._topic, quiet) if quiet else {}
        except UnavailableError:
            # It may come back; until then there is nothing to look for.
            return False
        fresh = set(parts) - set(ends)
        self._assign(consumer, fresh, {})
        ends.update(dict.fromkeys(fresh, 0))
        self.unread |= fresh
        # Here, too, what is there may come after a None.
        self.unread |= {part for part in quiet if quiet[part] < there.get(part, 0)}
        return stalled.look(quiet, there)


def split(message: Message, parts: int) -> list[Message]:
    """The message as some ``parts`` messages (at least two) that together mean the same.

    >>> [part.counts for part in split(Progress([0], [9], {1: 5, 4: 2, 7: 1}), 2)]
    [((1, 5), (4, 2)), ((7, 1),)]

    Raises RefusedError if that cannot be done: one update, one count, or times without a total order; MalformedError
    unless it is a message.
    """
    if isinstance(message, Updates):
        if len(message.updates) < 2:
            raise RefusedError("one update is larger than the topic's max.message.bytes: raise it")
        size = -(-len(message.updates) // max(2, parts))
        return [Updates.trusted(message.updates[at:at + size]) for at in range(0, len(message.updates), size)]
    if not isinstance(message, Progress):
        raise MalformedError(f"{message!r} is no message: a message is Updates or Progress")
    counts = message.counts
    if len(counts) < 2 or not is_total(counts[0][0]):
        raise RefusedError(
            "a statement is larger than the topic's max.message.bytes and cannot be split, as its times have no total "
            "order: raise max.message.bytes, or state more often"
        )
    size = -(-len(counts) // max(2, parts))
    chunks = [counts[at:at + size] for at in range(0, len(counts), size)]
    # Each piece begins where its first count stands; the first and the last keep the statement's own bounds.
    cuts: list[Iterable[Time]] = [message.lower, *[[chunk[0][0]] for chunk in chunks[1:]], message.upper]
    return [Progress(lower, upper, chunk) for lower, upper, chunk in zip(cuts, cuts[1:], chunks)]
