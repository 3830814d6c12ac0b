"""Sums by time in bounded memory, against all numbers kept."""

from __future__ import annotations

import random

import pytest

from cdcv2.capture.recent_sums import RecentSums


@pytest.mark.parametrize("seed", range(20))
def test_it_adds_up_what_came(seed: int) -> None:
    """What is known is right, of the last times all is, and what is kept may be taken up again."""
    draw, all_of_them, sums = random.Random(seed), dict[int, int](), RecentSums(recent=3)
    for at in range(60):
        time, number = max(0, at + draw.randint(-9, 3)), draw.randint(-4, 9)
        all_of_them[time] = all_of_them.get(time, 0) + number
        sums.add(time, number)
        assert sum(all_of_them.values()) == sums.total and len(sums.times) <= 6
        if draw.random() < 0.1:
            plain = sums.plain()
            sums = RecentSums({**plain, "times": plain["times"]}, recent=3)
        for asked in range(at + 6):
            expected = sum(number for time, number in all_of_them.items() if time < asked)
            assert sums.before(asked) == (None if asked < sums.since else expected)
        assert sorted(all_of_them)[-3:] == sorted(sums.times)[-3:]


def test_a_new_one_knows_that_nothing_was_before() -> None:
    """Of every time."""
    sums = RecentSums()

    assert (0, 0, 0, {}) == (sums.since, sums.older, sums.total, sums.times) and 0 == sums.before(0)


def test_times_become_one_sum_when_they_are_twice_as_many() -> None:
    """The last ones stay apart; the first of these is known from there on."""
    sums = RecentSums(recent=2)
    for time in (1, 3, 5, 7):
        sums.add(time, 1)
    assert (0, 4) == (sums.since, len(sums.times))
    sums.add(9, 1)

    assert (7, 3, {7: 1, 9: 1}) == (sums.since, sums.older, sums.times)
    sums.add(7, 5)
    sums.add(6, 5)
    assert (8, {7: 6, 9: 1}, 8, None) == (sums.older, sums.times, sums.before(7), sums.before(6))
