"""Topics that are read by exact ranges of offsets: what a binding says, no more and no less.

Nobody keeps positions here, neither a consumer group nor a file. The remap says which offsets are in at which time, and
the logs which times are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cdcv2.sources.facts import Record
from cdcv2.sources.snapshot import Place


@dataclass(frozen=True)
class Look:
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

    def look(self) -> Look:
        """How far the topics are now. Raises UnsafeTopicError for one that is compacted, UnavailableError."""

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """Every record from the first offset of each range up to, not including, the second; each partition in order.

        Raises UnsafeTopicError where some are gone, UnavailableError.
        """
