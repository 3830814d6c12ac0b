"""For how long a finished time can be asked for."""

from __future__ import annotations

import pytest

from cdcv2.instances.kept_times import KeptTimes


def test_a_time_is_kept_for_so_many_seconds_after_it_was_finished() -> None:
    """Not a moment less; and what was never finished is no since."""
    kept = KeptTimes(10)
    seen = [(0.0, None), (1.0, 5), (2.0, 7), (10.9, 8), (11.0, 8), (11.9, 8), (12.0, None), (30.0, 9), (39.9, 20)]
    assert [None, None, None, None, 5, 5, 7, 8, 8] == [kept.since(now, last) for now, last in seen]
    assert 9 == kept.since(40.0, None) and 10 == kept.seconds


@pytest.mark.parametrize(("seconds", "pause"), [(10, 1.0), (1000, 10.0)])
def test_moments_are_kept_some_time_apart(seconds: float, pause: float) -> None:
    """A second, and a hundredth of what is kept: those between count as the next one."""
    kept = KeptTimes(seconds)
    for now, last in ((0.0, 1), (pause - 0.1, 2), (pause, 3), (2 * pause - 0.1, 4)):
        assert kept.since(now, last) is None
    assert 1 == kept.since(seconds + pause - 0.1, None)
    assert 3 == kept.since(seconds + pause, None) == kept.since(9 * seconds, None)


def test_nothing_is_kept_where_no_second_is() -> None:
    """What was finished at the last look may be forgotten."""
    kept = KeptTimes(0)
    assert [1, 2, 3] == [kept.since(now, last) for now, last in ((0.0, 1), (0.5, 2), (1.0, 3))]
