"""A partition is stalled if it had more at several looks and its offset stayed; nothing else is."""

from __future__ import annotations

from random import Random

import pytest

from cdcv2.store.stalled_partitions import LOOKS, StalledPartitions


@pytest.mark.parametrize("places", [1, 3])
def test_what_moves_or_has_no_more_is_not_stalled(places: int) -> None:
    """Judged by a count of its own, over 2,000 looks."""
    chance, stalled = Random(places), StalledPartitions[int]()
    offsets, ends, still = (dict.fromkeys(range(places), 0) for _ in range(3))
    found = 0
    for _ in range(2000):
        for place in range(places):
            ends[place] += chance.random() < 0.5
            moved = offsets[place] < ends[place] and chance.random() < 0.12
            offsets[place] += moved
            still[place] = (1 if moved else still[place] + 1) if offsets[place] < ends[place] else 0
        expected = any(count > LOOKS for count in still.values())
        assert expected is stalled.look(offsets, ends)
        if expected:
            found, still = found + 1, dict.fromkeys(range(places), 0)
        elif chance.random() < 0.02:
            stalled.forget()
            still = dict.fromkeys(range(places), 0)
    assert found > 20


def test_a_partition_without_an_end_is_not_stalled() -> None:
    """It is not there any more, or not asked for."""
    stalled = StalledPartitions[str]()
    assert not any(stalled.look({"a": 3}, {}) for _ in range(3 * LOOKS))
