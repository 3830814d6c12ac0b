"""Looking at the logs from outside: how far they are known, what is in them, and mangled copies of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from cdcv2.core.antichain import Antichain
from cdcv2.demo.mangled_copy import MangledCopy, describe
from cdcv2.errors import MissingLogError, UnavailableError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.log import Positions
from cdcv2.protocol.mangle import mangle
from cdcv2.protocol.messages import GarbledMessage, Message, Updates
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until

#: at most so many updates in a message of a mangled topic
UPDATES = 25


def topics_of(bootstrap: str) -> set[str]:
    """The names of the topics that there are."""
    from confluent_kafka.admin import AdminClient

    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics)


def end_of(bootstrap: str, topic: str, marker: int, *, patience: float) -> int:
    """The offset of a marker's END in its connector's transaction topic, once it is there: then all before it are.

    Raises UnavailableError after ``patience`` seconds.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "end", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []

    def is_in() -> bool:
        message = consumer.poll(0.5)
        if message is None or message.error():
            return False
        value, offset = json.loads(message.value() or b"{}"), message.offset()
        if offset is not None and value.get("status") == "END" and int(value["id"].partition(":")[2]) >= marker:
            found.append(offset)
        return bool(found)

    try:
        if not poll_until(is_in, patience, pause=0):
            raise UnavailableError(f"the last transaction is not in {topic} after {patience:g} s: does Debezium live?")
    finally:
        consumer.close()
    return found[0]


class LogWatch:
    """Readers of some logs of one timeline that go on where they were, each time they are asked.

    Args:
        bootstrap: the broker.
        topics: table -> the topic of its log; it may not be there yet.
        rows: table -> its row type.
    """

    def __init__(self, bootstrap: str, topics: Mapping[str, str], rows: Mapping[str, RowType]) -> None:
        self.bootstrap, self.rows = bootstrap, rows
        self._topics = topics
        self._readers = {table: Resolver() for table in topics}
        self._positions: dict[str, Positions] = {table: {} for table in topics}
        self._messages: dict[str, list[Message]] = {table: [] for table in topics}
        # The frontiers that all logs together have been seen at, oldest first; none before the first batch.
        self._seen: list[Antichain] = []

    def known(self) -> Antichain:
        """How far all logs together are stated by now."""
        for table in self._topics:
            self._read(table)
        met = Antichain.meet_of(self._readers[table].known for table in self._topics)
        if met != Antichain([0]) and (not self._seen or self._seen[-1] != met):
            self._seen.append(met)
        return met

    @property
    def first(self) -> Antichain:
        """The first frontier past the beginning that was seen."""
        return self._seen[0]

    def frontier_moves(self) -> int:
        """How many frontiers past the beginning have been seen by now."""
        self.known()
        return len(self._seen)

    def messages(self, table: str) -> list[Message]:
        """Every message that the table's log holds by now, in the order of reading."""
        self._read(table)
        return self._messages[table]

    def description(self, table: str) -> LogDescription:
        """What the table's log states of itself."""
        log = KafkaLog(self._topics[table], self.bootstrap, self.rows[table])
        try:
            return log.description()
        finally:
            log.close()

    def _read(self, table: str) -> None:
        try:
            log = KafkaLog(self._topics[table], self.bootstrap, self.rows[table])
        except MissingLogError:
            return  # capture makes it when it starts
        positions = self._positions[table]
        try:
            for entry in log.read(positions or None):
                if entry is None:
                    continue
                self._readers[table].absorb(entry)
                if not isinstance(entry.message, GarbledMessage):
                    self._messages[table].append(entry.message)
                positions[entry.position.part] = entry.position.offset + 1
        finally:
            log.close()


def mangle_topic(watch: LogWatch, table: str, topic: str, *, seed: int) -> MangledCopy:
    """Write the log of ``table`` into ``topic``, mangled, and read it back to describe its content.

    Reordered within a sixth of the log only, so that a reader finishes something before it has read everything.
    """
    original = list(smaller(watch.messages(table)))
    target = KafkaLog(
        topic, watch.bootstrap, watch.rows[table], create=True, partitions=3,
        description=watch.description(table).of_copy(),
    )
    try:
        for message in mangle(original, seed=seed, copies=2, window=max(8, len(original) // 6)):
            target.send(message)
        target.flush()
        return described(target, original)
    finally:
        target.close()


def described(copy: KafkaLog, original: list[Message]) -> MangledCopy:
    """Read a copy of a log, to describe its content."""
    there = [entry.message for entry in copy.read() if entry is not None]
    return describe(copy.name, original, [message for message in there if not isinstance(message, GarbledMessage)])


def smaller(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, with at most ``UPDATES`` updates in each."""
    for message in messages:
        if isinstance(message, Updates):
            for first in range(0, len(message.updates), UPDATES):
                yield Updates(message.updates[first:first + UPDATES])
        else:
            yield message
