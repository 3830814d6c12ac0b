"""What a capture needs to read the topics of a source: in their order from positions on, or by exact ranges of offsets.

Positions are kept by the capture, not here: neither by a consumer group nor in a file. On a timeline the remap states
which offsets are in at which time, and the logs state which times are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, Union

from cdcv2.capture.facts import Record
from cdcv2.protocol.log import Place


@dataclass(frozen=True)
class TopicExtents:
    """Topics at some moment: of each partition the first offset that is there, and the one behind the last.

    ``ids`` has what the cluster calls the topics that are there, as far as it gives them names of its own;
    ``retention`` has, by topic, the settings by which it forgets records, where it does and that is known.
    """

    spans: Mapping[Place, tuple[int, int]]
    ids: Mapping[str, str] = field(default_factory=dict)
    retention: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

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

    def look(self) -> TopicExtents:
        """How far the topics are now. Raises UnsafeTopicError for one that is compacted, UnavailableError."""

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """Every record from the first offset of each range up to, not including, the second; each partition in order.

        Raises UnsafeTopicError if some are missing, UnavailableError.
        """


class PartitionPosition(NamedTuple):
    """The partition has been read up to the offset ``following``, exclusive."""

    place: Place
    following: int


#: What topics give: a record, how far a partition was read, or None: nothing now.
Item: TypeAlias = Union[Record, PartitionPosition, None]


class Topics(Protocol):
    """Where the records come from. One thread."""

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """All records from the positions on (where none is given: from the start), each partition in its order.

        Ends behind what was there at the call; with ``follow`` it does not end. Raises MissingLogError,
        UnsafeTopicError (requested records are missing, or may be deleted), UnavailableError.
        """

    def identities(self) -> dict[str, str]:
        """For each existing topic an identity that another topic of the same name would not have, if Kafka has one."""

    def ranges(self, topic: str) -> Ranges:
        """One of them, to be read by ranges of offsets."""

    def ends(self) -> dict[Place, int]:
        """For each partition, the offset behind the last record that is there now."""

    def topics(self) -> Collection[str]:
        """All topics that there are, captured or not."""

    def known_topics(self) -> Collection[str]:
        """The same as far as is known without asking."""

    def unread(self) -> int | None:
        """How many records are there that were not given yet, as far as is known without asking; None: it is not known.
        """

    def waits(self) -> str | None:
        """What it waits for while it is read, in words, if that is not a record."""

    def let_wait(self, is_ahead: Callable[[Place], bool] | None) -> None:
        """Read partitions that are ahead no further, for now; None: read all. A wish, not an order."""
