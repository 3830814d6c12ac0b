"""Dumped topics are read by exact ranges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2.connectors.dump_files import DumpedRanges, DumpedTopics
from cdcv2.errors import UnsafeTopicError


def dumped(path: Path, *offsets: int, value: str = "x") -> Path:
    """A dump of one partition with these offsets."""
    lines = [json.dumps({"topic": "t", "partition": 0, "offset": offset, "value": value}) for offset in offsets]
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_a_range_is_what_is_in_it(tmp_path: Path) -> None:
    """Of two dumps as of one; what both have comes once."""
    one, other = dumped(tmp_path / "one", 2, 3, 4), dumped(tmp_path / "other", 4, 5)
    ranges = DumpedRanges(DumpedTopics(one, other))

    assert {("t", 0): (2, 6)} == ranges.look().spans
    assert (frozenset("t"), {}) == (ranges.look().topics, ranges.look().ids)
    assert [3, 4] == [record.offset for record in ranges.read({("t", 0): (3, 5)})]
    assert [] == list(ranges.read({("t", 0): (4, 4), ("none", 0): (0, 0)}))


@pytest.mark.parametrize("place, low, high", [(("t", 0), 1, 3), (("t", 0), 4, 7), (("t", 1), 0, 1)])
def test_a_range_that_is_not_all_there_is_refused(tmp_path: Path, place: tuple[str, int], low: int, high: int) -> None:
    """Before it, in it, and of a partition that is not there."""
    ranges = DumpedRanges(DumpedTopics(dumped(tmp_path / "one", 2, 3, 4, 6)))
    with pytest.raises(UnsafeTopicError, match=rf"lacks {1 if low == 1 else 5 if low == 4 else 0} in partition"):
        list(ranges.read({place: (low, high)}))
