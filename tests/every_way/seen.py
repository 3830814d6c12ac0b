"""What a capture by commit times is given: topics up to a cut, and logs that note what was known when."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cdcv2.capture.facts import Record
from cdcv2.capture.topics import TopicExtents
from cdcv2.errors import UnsafeTopicError
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.messages import Message, Progress
from cdcv2.timeline.binding import check_int
from tests.every_way.connector import Place
from tests.every_way.world import Cut


@dataclass(frozen=True)
class Given:
    """From ``lower`` up to ``upper`` a log was stated when the records up to ``cut`` were known.

    ``partly``: by a life that began at the positions of its memory, so it need not know what is before.
    """

    lower: int
    upper: int
    cut: Cut
    partly: bool


class SeenRanges:
    """Some of the topics, to be read by ranges."""

    def __init__(self, records: Mapping[Place, list[Record]], heads: Cut) -> None:
        self._records, self._heads = records, heads

    def look(self) -> TopicExtents:
        """From where on, and how far, they are there."""
        return TopicExtents({at: (self._heads.get(at, 0), len(found)) for at, found in self._records.items() if found})

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """The records of ranges."""
        for place, (low, high) in ranges.items():
            assert low >= self._heads.get(place, 0)
            yield from self._records.get(place, [])[low:high]


class SeenTopics:
    """The topics as far as a stage goes, read in any order; ``seen`` is what was read or is behind the positions."""

    def __init__(self, records: Mapping[Place, list[Record]], cut: Cut, chance: random.Random, heads: Cut) -> None:
        self._records, self._cut, self._chance, self._heads = records, cut, chance, heads
        self.seen: Cut = {}
        self.from_memory = False

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Record | None]:
        """Each partition in order; now and then nothing."""
        gone = [place for place, head in self._heads.items() if positions.get(place, 0) < head]
        if gone:
            raise UnsafeTopicError(f"{gone[0]} begins at {self._heads[gone[0]]}")
        chance = self._chance
        left = {place: positions.get(place, 0) for place, end in self._cut.items() if positions.get(place, 0) < end}
        self.from_memory = bool(positions)
        self.seen = {place: min(end, positions.get(place, 0)) for place, end in self._cut.items()}
        weights = {place: chance.choice((1, 1, 5, 40)) for place in left}
        while left:
            place = chance.choices(list(left), [weights[place] for place in left])[0]
            self.seen[place] = left[place] + 1
            yield self._records[place][left[place]]
            left[place] += 1
            if left[place] == self._cut[place]:
                del left[place]
            if chance.random() < 0.1:
                yield None

    def identities(self) -> dict[str, str]:
        """They have none."""
        return {}

    def ranges(self, topic: str) -> SeenRanges:
        """One of them."""
        seen = {at: found[:self._cut.get(at, 0)] for at, found in self._records.items() if at[0] == topic}
        return SeenRanges(seen, self._heads)

    def ends(self) -> Cut:
        """Of the stage."""
        return dict(self._cut)

    def let_wait(self, is_ahead: object) -> None:
        """They do not."""


class WatchedLog(MemoryLog):
    """Notes what was known when it was stated, by a statement that came to be in the log.

    Updates are given out by that: what a killed life wrote and did not state is none of it yet, and the next life may
    know less, or other rows of a snapshot. Each table has a log, which may be stated by a life of its own.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.known: Callable[[], tuple[Cut, bool]] = lambda: ({}, False)
        self.given: list[Given] = []
        self._sent_given: list[Given] = []

    def carry(self, messages: list[Message]) -> None:
        """These messages come from another log, and no capture knew anything when they were stated here."""
        for message in messages:
            super().send(message)
        super().flush()

    def send(self, message: Message) -> None:
        """As the other one."""
        if isinstance(message, Progress):
            lower, upper = (check_int(frontier.elements[0]) for frontier in (message.lower, message.upper))
            self._sent_given.append(Given(lower, upper, *self.known()))
        super().send(message)

    def flush(self) -> None:
        """As the other one."""
        super().flush()
        self.given += self._sent_given
        self._sent_given.clear()

    def close(self) -> None:
        """As the other one."""
        super().close()
        self._sent_given.clear()
