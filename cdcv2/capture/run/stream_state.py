"""How a capture of stream topics is opened and what it keeps, with and without Spark.

What was kept must be of this capture, of these topics and of these logs: a topic that was made again has other records
at the same offsets, and positions would skip what a log lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cdcv2.capture.connector import StreamConnector
from cdcv2.capture.memory import StreamMemory, check_not_ahead, same_topics
from cdcv2.capture.memory_format import MEMORY, BatchMemory, plain_memory, read_memory
from cdcv2.capture.run.log_digests import log_digests
from cdcv2.capture.stream_counts import StreamCounts
from cdcv2.capture.topics import TopicExtents
from cdcv2.errors import UnsafeTopicError
from cdcv2.protocol.log import Log, Place


class StreamTopic(NamedTuple):
    """What a table is captured from."""

    topic: str
    records: StreamConnector

    @property
    def identity(self) -> dict[str, Any]:
        """By what a memory is known to be of it."""
        return {"topic": self.topic, "row": self.records.row_type.fingerprint, "columns": list(self.records.names)}


class StreamState:
    """What the capture of some tables knows of the runs before, and keeps for the next one. One thread.

    ``plain`` is what was kept (None: nothing), ``place`` what that is called in errors, and ``save`` keeps what is now
    (None: nowhere). Raises ForeignStateError for the memory of another capture.
    """

    def __init__(
        self, tables: Mapping[str, StreamTopic], plain: Mapping[str, Any] | None,
        save: Callable[[Mapping[str, Any]], object] | None, place: object = MEMORY,
    ) -> None:
        self._tables, self._save = dict(tables), save
        self._identity = {table: one.identity for table, one in sorted(tables.items())}
        #: What was kept.
        self.kept = read_memory(StreamMemory, plain, self._identity, place)
        self._topics = dict(self.kept.topics)

    def check(self, look: TopicExtents, read: Mapping[Place, int]) -> dict[Place, tuple[int, int]]:
        """What there is of the topics. Raises unless they are those of before, and have all that was not read.

        ``read`` has up to where each partition was. Raises ForeignStateError for a topic that was made again,
        UnsafeTopicError for one that lost records. Cost: linear in the partitions.
        """
        own = {one.topic for one in self._tables.values()}
        found = {topic: identity for topic, identity in look.ids.items() if topic in own}
        self._topics = same_topics(found, self._topics)
        spans = {place: span for place, span in look.spans.items() if place[0] in own}
        for place, span in sorted(spans.items()):
            at = read.get(place, 0)
            _check_span(place, span, at, max(at, self.kept.read.get(place, 0)))
        return spans

    def counts(self, table: str, log: Log, known: int) -> StreamCounts:
        """What is open of a table, whose log is stated up to ``known``.

        Where nothing was kept of it, the log is read: what the topic has is compared with it. Raises ForeignStateError
        for a log that is not as far as what was kept, and what reading raises.
        """
        source, kept = self._tables[table], self.kept.counts.get(table)
        held = log_digests(log, source.records.row_type, known) if kept is None else None
        counts = StreamCounts(kept, known, name=f"the topic {source.topic}", held=held)
        check_not_ahead(f"the log of {table}", counts.released, known)
        return counts

    def keep(
        self, counts: Mapping[str, StreamCounts], read: Mapping[Place, int], logs: Mapping[str, Any], *,
        positions: Mapping[Place, int], batch: BatchMemory | None,
    ) -> None:
        """Keep how far the tables are, durably; ``read`` has up to where each partition was read in this run.

        The others are as in :class:`~cdcv2.capture.memory.StreamMemory`. Raises what saving raises.
        """
        if self._save is None:
            return
        counted = {place: max(at, self.kept.read.get(place, 0)) for place, at in read.items()}
        plain = {table: one.plain() for table, one in counts.items()}
        memory = StreamMemory(plain, positions, counted, self._topics, logs, batch)
        self._save(plain_memory(memory, self._identity))


def _check_span(place: Place, span: tuple[int, int], at: int, counted: int) -> None:
    """Raise UnsafeTopicError unless a partition that spans these offsets has all from ``at`` on, up to ``counted``."""
    low, high = span
    if low > at or high < counted:
        what = f"begins at {low}, and {at}" if low > at else f"ends at {high}, and {counted}"
        raise UnsafeTopicError(
            f"the topic {place[0]!r} {what} is wanted in partition {place[1]}: what stood there was removed "
            "(retention), not dumped, or the topic was made again. Bring it back; or have the history written into a "
            "new topic, and capture that into new logs"
        )
