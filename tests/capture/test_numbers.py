"""Sets of numbers, of which many are neighbours."""

from __future__ import annotations

from cdcv2.capture.numbers import Numbers


def test_numbers_are_counted_once() -> None:
    """Also far apart, also again."""
    numbers = Numbers()
    assert 3 == numbers.add([5, 5, 10**12, 4097])
    assert 0 == numbers.add([4097, 5])
    assert (3, 10**12) == (len(numbers), numbers.highest)
