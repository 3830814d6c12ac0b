"""Sets of numbers, of which many are neighbours."""

from __future__ import annotations

from cdcv2.capture.numbers import Numbers


def test_numbers_are_counted_once() -> None:
    """Also far apart, also again."""
    numbers = Numbers()
    assert 3 == numbers.add([5, 5, 10**12, 4097])
    assert 0 == numbers.add([4097, 5])
    assert (3, 10**12) == (len(numbers), numbers.highest)


def test_neighbours_of_several_chunks_are_counted_once() -> None:
    """Zero is a number, too, and the highest one stays that."""
    numbers = Numbers()

    assert (0, 0, 3) == (numbers.highest, len(numbers), numbers.add([4096, 0, 8191]))
    assert (5903, 5906) == (numbers.add(range(4095, 10000)), len(numbers))
    assert (0, 9999) == (numbers.add([5000]), numbers.highest)
