"""Topics that are read by exact ranges of offsets: what a binding says, no more and no less.

Nobody keeps positions here, neither a consumer group nor a file. The remap says which offsets are in at which time, and
the logs which times are written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cdcv2.errors import MalformedError, UnsafeTopicError
from cdcv2.sources.dumped import DumpedTopics
from cdcv2.sources.facts import Record
from cdcv2.sources.snapshot import Place


@dataclass(frozen=True)
class Look:
    """Topics at some moment: of each partition the first offset that is there, and the one behind the last.

    ``ids`` has what the cluster calls the topics that are there, as far as it gives them names of its own.
    """

    spans: Mapping[Place, tuple[int, int]]
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        """Those that are there."""
        return frozenset(topic for topic, _ in self.spans)

    @property
    def ends(self) -> dict[Place, int]:
        """Behind the last record of each partition."""
        return {place: high for place, (_, high) in self.spans.items()}


class Ranges(Protocol):
    """Where the records come from. One thread."""

    def look(self) -> Look:
        """How far the topics are now. Raises UnsafeTopicError for one that is compacted, UnavailableError."""

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """Every record from the first offset of each range up to, not including, the second; each partition in order.

        Raises UnsafeTopicError where some are gone, UnavailableError.
        """


class DumpedRanges:
    """Dumped topics, held in memory: their first record is where they begin.

    Raises MalformedError where two dumps have different records for one offset.
    """

    def __init__(self, dumped: DumpedTopics) -> None:
        self._records: dict[Place, list[Record]] = {}
        for place, records in dumped.partitions().items():
            kept = self._records[place] = records[:1]
            for record in records[1:]:
                if record.offset > kept[-1].offset:
                    kept.append(record)
                elif record != kept[-1]:
                    raise MalformedError(f"the dumps have two different records at {record.position}: dump it anew")

    def look(self) -> Look:
        """How far the dumps go."""
        return Look({place: (records[0].offset, records[-1].offset + 1) for place, records in self._records.items()})

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """The records; see :class:`Ranges`."""
        for place, (low, high) in sorted(ranges.items()):
            records = self._records.get(place, [])
            first = bisect_left(records, low, key=lambda record: record.offset)
            found = records[first:bisect_left(records, high, key=lambda record: record.offset)]
            if len(found) != high - low:
                there = {record.offset for record in found}
                gone = next(offset for offset in range(low, high) if offset not in there)
                raise UnsafeTopicError(
                    f"the dump of {place[0]!r} lacks {gone} in partition {place[1]}: that record was removed "
                    "(compaction), or not dumped. Dump it too; a producer that writes in Kafka's transactions leaves "
                    "such gaps: capture from Kafka then"
                )
            yield from found
