"""The ENDs of a transaction topic, looked up where they stand: the last one, and the first beyond a frontier.

The topic has an END for each commit, in the order of commits; a connector that starts again writes some of them again.
So the first END beyond a frontier is found by halving, in some tens of short reads, however long the topic is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.facts import End, Record
from cdcv2.errors import DecodeError, UnavailableError
from cdcv2.logs.kafka_topics import spans
from cdcv2.store.kafka_client import Client

#: So many records are read at once: an END is among them.
_AT_ONCE = 256


class TransactionEnd(NamedTuple):
    """An END in a transaction topic: of which transaction, its LSN, when it was committed, and where it stands.

    ``written_at`` is when the connector wrote it. Moments are in seconds since 1970; None: the record has none.
    """

    tx: int
    lsn: int
    at: float | None
    offset: int
    written_at: float | None = None


#: The ENDs of a range of offsets, in their order.
EndReader = Callable[[int, int], list[TransactionEnd]]


def last_end(read: EndReader, low: int, high: int) -> TransactionEnd | None:
    """The last END of the topic, whose offsets are from ``low`` to before ``high``."""
    length, at = _AT_ONCE, high
    while at > low:
        start = max(low, at - length)
        found = read(start, at)
        if found:
            return found[-1]
        at, length = start, 2 * length
    return None


def highest_end(read: EndReader, low: int, high: int, confirmed: int) -> TransactionEnd | None:
    """The END with the highest LSN, of those that were written since a position was confirmed.

    It need not be the last one: a connector that starts again writes some of them again, from what it has confirmed on.
    So no END before many that are all before that position was written since. Cost: what was.

    >>> ends = [TransactionEnd(tx, lsn, None, tx) for tx, lsn in enumerate([10, 20, 30, 20])]
    >>> highest_end(lambda start, end: ends[start:end], 0, 4, 15).lsn
    30
    """
    length, at = _AT_ONCE, high
    highest: TransactionEnd | None = None
    while at > low:
        start = max(low, at - length)
        found = read(start, at)
        if found:
            highest = max([*found, *([] if highest is None else [highest])], key=lambda end: end.lsn)
            if all(end.lsn < confirmed for end in found):
                break
        at, length = start, 2 * length
    return highest


def first_end_beyond(read: EndReader, low: int, high: int, frontier: int) -> TransactionEnd | None:
    """The first END in the order of commits whose LSN is not before the frontier; None: there is none.

    >>> ends = [TransactionEnd(tx, 10 * tx, None, tx) for tx in range(200)]
    >>> first_end_beyond(lambda start, end: ends[start:end], 0, 200, 141).lsn
    150
    """
    # The newest records first: a copy that is up to date ends here.
    length, above = _AT_ONCE, high
    beyond: TransactionEnd | None = None
    while above > low:
        start = max(low, above - length)
        found = _first_after(read, start, above)
        if found is not None and found.lsn < frontier:
            between = _halved(read, found.offset, above, frontier)
            return beyond if between is None else between
        if found is not None:
            beyond = found
        above, length = start, 2 * length
    return beyond


def _halved(read: EndReader, below: int, above: int, frontier: int) -> TransactionEnd | None:
    """The first END beyond the frontier between the one at ``below``, which is not, and the offset ``above``."""
    beyond: TransactionEnd | None = None
    while above - below > _AT_ONCE:
        middle = (below + above) // 2
        found = _first_after(read, middle, above)
        if found is not None and found.lsn < frontier:
            below = found.offset
        else:
            above, beyond = middle, found if found is not None else beyond
    return next((end for end in read(below, above) if end.lsn >= frontier), beyond)


def _first_after(read: EndReader, start: int, above: int) -> TransactionEnd | None:
    """The first END from an offset on."""
    for at in range(start, above, _AT_ONCE):
        found = read(at, min(at + _AT_ONCE, above))
        if found:
            return found[0]
    return None


class TransactionEnds:
    """The transaction topic of a recipe, in Kafka. One thread.

    Raises what the client raises; MissingLogError where there is no such topic.
    """

    def __init__(self, client: Client, recipe: DatabaseConnector) -> None:
        self._client, self._recipe = client, recipe
        self._low, self._high = spans(client, recipe.transaction_topic)[0]
        self._consumer: Any = None
        self._read: dict[tuple[int, int], list[TransactionEnd]] = {}

    @property
    def end(self) -> int:
        """The offset behind its last record."""
        return self._high

    def last(self) -> TransactionEnd | None:
        """Its last END."""
        return last_end(self._ends, self._low, self._high)

    def highest(self, confirmed: int) -> TransactionEnd | None:
        """Its highest END, of those since a position was confirmed."""
        return highest_end(self._ends, self._low, self._high, confirmed)

    def beyond(self, frontier: int) -> TransactionEnd | None:
        """The first END in the order of commits that is not before the frontier."""
        return first_end_beyond(self._ends, self._low, self._high, frontier)

    def behind(self, offset: int) -> TransactionEnd | None:
        """The first END from an offset on."""
        return _first_after(self._ends, max(offset, self._low), self._high)

    def close(self) -> None:
        """Leave the cluster."""
        if self._consumer is not None:
            self._consumer.close()

    def _ends(self, low: int, high: int) -> list[TransactionEnd]:
        low, high = max(low, self._low), min(high, self._high)
        if (low, high) not in self._read:
            self._read[low, high] = [] if low >= high else list(self._of(self._messages(low, high)))
        return self._read[low, high]

    def _of(self, messages: Iterable[Any]) -> Iterable[TransactionEnd]:
        for message in messages:
            record = Record(
                message.topic(), message.partition(), message.offset(), message.key(), message.value()
            )
            try:
                fact = self._recipe.fact(record)
            except DecodeError:
                continue  # the capture judges it
            if isinstance(fact, End):
                kind, moment = message.timestamp()
                written = moment / 1000 if kind != self._client.kafka.TIMESTAMP_NOT_AVAILABLE else None
                committed = None if fact.ts_ms is None else fact.ts_ms / 1000
                yield TransactionEnd(fact.tx, fact.lsn, committed, message.offset(), written)

    def _messages(self, low: int, high: int) -> Iterable[Any]:
        """The records of a range. Raises UnavailableError where they do not come within our patience."""
        topic, kafka = self._recipe.transaction_topic, self._client.kafka
        if self._consumer is None:
            # With a full queue librdkafka pauses for a second, unless it is given another pause.
            self._consumer = self._client.consumer(
                fetch_wait_max_ms=10, queued_min_messages=20_000, fetch_queue_backoff_ms=10
            )
        self._consumer.assign([kafka.TopicPartition(topic, 0, low)])
        deadline = time.monotonic() + self._client.patience
        while time.monotonic() < deadline:
            for message in self._client.received(self._consumer, _AT_ONCE, timeout=0.05):
                error = message.error()
                if error is not None and error.code() == kafka.KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    self._client.fail(f"topic {topic!r}", error)
                if message.offset() >= high:
                    return
                yield message
                if message.offset() == high - 1:
                    return
        raise UnavailableError(
            f"Kafka at {self._client.bootstrap} does not answer for topic {topic!r}: start it, or try again later"
        )
