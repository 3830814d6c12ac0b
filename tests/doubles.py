"""Stand-ins: a log that remembers what was asked of it and can crash, and a time of which two may have no join.

Nothing here is clever: a double that needs tests of its own is no double.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdcv2.capture.facts import Record
from cdcv2.capture.topics import TopicExtents
from cdcv2.logs.stops import Stop
from cdcv2.protocol.log import Entry, Place, Position, Positions
from cdcv2.protocol.messages import Message

CRASH = "crash"


class Crash(Exception):
    """What a `RecordingLog` raises where a crash was placed."""


class KeptMemory:
    """What a capture remembers, as JSON and in memory: it outlives the capture, and can be set back or lost."""

    def __init__(self) -> None:
        self.plain: Any = None
        self.older: list[Any] = [None]

    def load(self) -> Any:
        """What was saved last."""
        return json.loads(json.dumps(self.plain))

    def save(self, plain: Any) -> None:
        """Keep it, and what was before."""
        self.older.append(self.plain)
        self.plain = json.loads(json.dumps(plain))


class RecordingLog:
    """A log in memory that is durable only at `flush`, and lists every call in `.calls`.

    `crash_at` names the calls ("send 3", "flush 1", counted from 1) at which it raises instead of working;
    `keep` is how many of the buffered messages a crashing flush makes durable all the same, as a broker may.
    """

    def __init__(self, messages: Iterable[Message] = (), *, crash_at: Iterable[str] = (), keep: int = 0) -> None:
        self.name = "recording"
        self.durable: list[Message] = list(messages)
        self.buffered: list[Message] = []
        self.calls: list[Any] = []
        self.reads: list[Positions | None] = []
        self._crash_at = set(crash_at)
        self._keep = keep
        self._stops: list[Stop] = []
        self._count = {"send": 0, "flush": 0}

    def canonical(self, data: Any) -> Any:
        """As in memory."""
        return data

    def send(self, message: Message) -> None:
        """Buffer a message."""
        self._step("send")
        self.calls.append(message)
        self.buffered.append(message)

    def flush(self) -> None:
        """Make what is buffered durable."""
        try:
            self._step("flush")
        except Crash:
            self.durable += self.buffered[:self._keep]
            self.buffered.clear()
            raise
        self.calls.append("flush")
        self.durable += self.buffered
        self.buffered.clear()

    def close(self) -> None:
        """Note it."""
        self.calls.append("close")

    def read(self, after: Positions | None = None, *, follow: bool = False) -> Iterator[Entry | None]:
        """What was durable at the call, from `after` on."""
        self.reads.append(None if after is None else dict(after))
        first = (after or {}).get(0, 0)
        for offset, message in enumerate(self.durable[first:], start=first):
            yield Entry(Position(self.name, 0, offset), message)

    def ends(self) -> Positions:
        """Behind the last durable message."""
        return {0: len(self.durable)}

    def again(self) -> RecordingLog:
        """The log as the next process finds it: what was durable, nothing else."""
        log = RecordingLog(self.durable)
        log._stops = list(self._stops)
        return log

    def stops(self) -> list[Stop]:
        """What was put."""
        return list(self._stops)

    def put_stop(self, stop: Stop) -> None:
        """Keep it, durably."""
        self._stops.append(stop)

    def _step(self, call: str) -> None:
        self._count[call] += 1
        if f"{call} {self._count[call]}" in self._crash_at:
            raise Crash(f"{call} {self._count[call]}")


@dataclass(frozen=True)
class Lane:
    """A time in one of several lanes that never meet above: no join across lanes, and one time below them all.

    The smallest model of a source with partitions; `Lane("", 0)` is below everything.
    """

    lane: str
    at: int

    def less_equal(self, other: Lane) -> bool:
        """Within a lane by `at`; the bottom is below all."""
        return self == Lane("", 0) or (self.lane == other.lane and self.at <= other.at)

    def join(self, other: Lane) -> Lane | None:
        """The later of two in one lane; None across lanes."""
        if self.less_equal(other):
            return other
        return self if other.less_equal(self) else None

    def sort_key(self) -> tuple[str, int]:
        """The lane's name first; the bottom's is empty."""
        return self.lane, self.at


class GivenRanges:
    """Topics that hold these records, to be read by ranges of offsets."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = sorted(records, key=lambda record: record[:3])

    def look(self) -> TopicExtents:
        """From the first record of each partition to the last."""
        spans: dict[Place, tuple[int, int]] = {}
        for topic, part, offset, *_ in self._records:
            spans[topic, part] = spans.get((topic, part), (offset, 0))[0], offset + 1
        return TopicExtents(spans)

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[Record]:
        """Those of the ranges."""
        for record in self._records:
            low, high = ranges.get(record[:2], (0, 0))
            if low <= record.offset < high:
                yield record
