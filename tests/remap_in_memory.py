"""A remap in memory, with a clock of its own, and the records of topics that are seen to grow: for captures on it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from cdcv2.capture.facts import Record
from cdcv2.capture.topics import TopicExtents
from cdcv2.protocol.log import Place
from cdcv2.timeline.records import Proposal
from cdcv2.timeline.shared_remap import LogView, SharedRemap


def closing(shared: SharedRemap) -> Proposal | None:
    """What to append so that all times are decided; None when they are. No program of ours does so."""
    return shared._proposal(shared.remap.close())


class RemapRecords:
    """The log of a remap in memory. What is trimmed is deleted."""

    name = "remap"

    def __init__(self) -> None:
        self.raws: list[bytes] = []
        self.first = 0

    def place(self, number: int) -> str:
        """For people."""
        return f"remap[0]@{number}"

    def read(self, after: Any) -> Any:
        """All that is there from a place on."""
        return LogView(list(enumerate(self.raws))[max(after, self.first):], len(self.raws))

    def append(self, raw: bytes, after: int) -> int:
        """At the end."""
        self.raws.append(raw)
        return len(self.raws) - 1

    def trim(self, before: int) -> None:
        """For good."""
        self.first = max(self.first, before)


class RemapInMemory(RemapRecords):
    """What a binder and a capture ask of a remap and of topics; ``ends`` is how far these are seen.

    Partitions are read in an order that ``chance`` draws.
    """

    def __init__(self, records: Mapping[Place, list[Record]], chance: random.Random) -> None:
        super().__init__()
        self.records, self.chance, self.clock = records, chance, 0
        self.ends: dict[Place, int] = {}
        #: The first offset that is left, of partitions whose first records were removed.
        self.heads: dict[Place, int] = {}

    def read(self, after: Any) -> Any:
        """The remap from a place on; or the records of ranges."""
        return super().read(after) if isinstance(after, int) else self._ranges(after)

    def _ranges(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        for place in sorted(ranges, key=lambda place: self.chance.random()):
            low, high = ranges[place]
            assert low >= min(high, self.heads.get(place, 0)), f"{place} begins at {self.heads[place]}, not at {low}"
            yield from self.records[place][low:high]

    def trim(self, before: int) -> None:
        """Never."""
        raise AssertionError

    def seen(self) -> TopicExtents:
        """How far the topics are."""
        return TopicExtents({place: (self.heads.get(place, 0), end) for place, end in self.ends.items() if end})

    def now(self) -> int:
        """The clock."""
        self.clock += 1
        return self.clock
