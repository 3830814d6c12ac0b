"""Histories of stream topics, and what they come to: counted from the start, by no rule of the capture."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

from hypothesis import strategies as st

from cdcv2.capture.facts import Record

TOPIC = "web.things"
#: A row, a time, a diff.
Update = tuple[int, int, int]
LAST = 9


class StreamHistory(NamedTuple):
    """The records of a topic, partition by partition: updates, and bounds (before, rows)."""

    partitions: list[list[Any]]

    @property
    def updates(self) -> list[Update]:
        """All of them."""
        return [one for part in self.partitions for one in part if len(one) == 3]

    @property
    def frontier(self) -> int:
        """The greatest bound that is true."""
        return max((one[0] for part in self.partitions for one in part if len(one) == 2), default=0)

    def truth(self) -> dict[tuple[int, int], int]:
        """Row and time -> diff, of all before the frontier."""
        sums: Counter[tuple[int, int]] = Counter()
        for row, time, diff in self.updates:
            if time < self.frontier:
                sums[row, time] += diff
        return {identity: diff for identity, diff in sums.items() if diff}

    def records(self) -> list[Record]:
        """As a topic holds them."""
        return [
            Record(TOPIC, part, offset, None, json.dumps(plain(one)).encode())
            for part, records in enumerate(self.partitions) for offset, one in enumerate(records)
        ]


def plain(one: Any) -> dict[str, Any]:
    """A record's value; a diff of 1 is left out."""
    if len(one) == 2:
        return {"complete_before": one[0]} | ({} if one[1] is None else {"rows": one[1]})
    row, time, diff = one
    return {"id": row, "time": time} | ({} if diff == 1 else {"diff": diff})


@st.composite
def histories(draw: st.DrawFn) -> StreamHistory:
    """Updates in any order over some partitions; true bounds anywhere, and in one partition also promises."""
    few = st.integers(0, LAST - 1)
    updates = draw(st.lists(st.tuples(st.integers(1, 3), few, st.sampled_from([-1, 1, 2])), max_size=12))
    number = draw(st.integers(1, 3))
    partitions: list[list[Any]] = [[] for _ in range(number)]
    for update in updates:
        partitions[draw(st.integers(0, number - 1))].append(update)
    for before in draw(st.lists(st.integers(1, LAST), max_size=3)):
        part = draw(st.sampled_from(partitions))
        bound = before, sum(time < before for _, time, _ in updates)
        part.insert(draw(st.integers(0, len(part))), bound)
    if number == 1:
        for before in sorted(draw(st.lists(st.integers(1, LAST), max_size=3))):
            records = partitions[0]
            least = max((at + 1 for at, one in enumerate(records) if is_before(one, before)), default=0)
            records.insert(draw(st.integers(least, len(records))), (before, None))
        promised = [one for one in partitions[0] if len(one) == 2 and one[1] is None]
        if promised != sorted(promised):
            # One that stands behind a greater one would go back.
            partitions[0] = [one for one in partitions[0] if len(one) != 2 or one[1] is not None]
    return StreamHistory(partitions)


def is_before(one: Any, before: int) -> bool:
    """Whether a record is an update that must stand before the promise."""
    return len(one) == 3 and one[1] < before
