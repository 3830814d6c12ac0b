"""A partition is stalled if it had more at several looks and its offset stayed; nothing else is."""

from __future__ import annotations

from random import Random

import pytest

from cdcv2.store.stalled_partitions import LOOKS, MOST, StalledPartitions


@pytest.mark.parametrize("places", [1, 3])
def test_what_moves_or_has_no_more_is_not_stalled(places: int) -> None:
    """Judged by a count of its own, over 2,000 looks."""
    chance, stalled = Random(places), StalledPartitions[int]()
    offsets, ends, still = (dict.fromkeys(range(places), 0) for _ in range(3))
    found, limits = 0, dict.fromkeys(range(places), LOOKS)
    for _ in range(2000):
        for place in range(places):
            ends[place] += chance.random() < 0.5
            moved = offsets[place] < ends[place] and chance.random() < 0.12
            offsets[place] += moved
            still[place] = (1 if moved else still[place] + 1) if offsets[place] < ends[place] else 0
            limits[place] = LOOKS if moved or offsets[place] == ends[place] else limits[place]
        over = [place for place, count in still.items() if count > limits[place]]
        assert bool(over) is stalled.look(offsets, ends)
        if over:
            found, still = found + 1, dict.fromkeys(range(places), 0)
            limits |= {place: min(2 * limits[place], MOST) for place in over}
        elif chance.random() < 0.02:
            stalled.forget()
            still = dict.fromkeys(range(places), 0)
    assert found > 20


def test_a_partition_without_an_end_is_not_stalled() -> None:
    """It is not there any more, or not asked for."""
    stalled = StalledPartitions[str]()
    assert not any(stalled.look({"a": 3}, {}) for _ in range(3 * LOOKS))


def test_what_is_slow_is_given_more_time_each_time_until_something_comes() -> None:
    """A fetch that is thrown away and begun again after the same time would never end. What comes elsewhere helps not.
    """
    stalled, waits, since = StalledPartitions[str](), list[int](), 0
    for _ in range(4 * MOST):
        since += 1
        if stalled.look({"a": 3, "b": 5}, {"a": 9, "b": 5}):
            waits, since = [*waits, since], 0
            stalled.forget()
    assert [LOOKS + 1, 2 * LOOKS + 1, 4 * LOOKS + 1, 8 * LOOKS + 1, MOST + 1, MOST + 1] == waits[:6]
    assert [LOOKS + 1] == [at for at in range(1, MOST) if stalled.look({"a": 4}, {"a": 9})][:1]
