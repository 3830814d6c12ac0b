"""A set of numbers of which many are neighbours, as the numbers of a transaction's rows are."""

from __future__ import annotations

from collections.abc import Iterable

_BITS = 4096


class Numbers:
    """A set of numbers from 0 on: a few bytes for each 4096 neighbours.

    >>> numbers = Numbers()
    >>> numbers.add([1, 2, 2, 9000]), numbers.add([2, 3]), len(numbers), numbers.highest
    (3, 1, 4, 9000)

    Cost: a number O(1), plus a copy of its chunk (512 bytes) per call. Source: bitmaps of fixed chunks.
    """

    def __init__(self) -> None:
        self._chunks: dict[int, int] = {}
        self._count = 0
        #: The greatest of them; 0 without any.
        self.highest = 0

    def add(self, numbers: Iterable[int]) -> int:
        """Add them; returns how many are new."""
        fresh: dict[int, int] = {}
        for number in numbers:
            fresh[number // _BITS] = fresh.get(number // _BITS, 0) | 1 << number % _BITS
            self.highest = max(self.highest, number)
        new = 0
        for chunk, bits in fresh.items():
            held = self._chunks.get(chunk, 0)
            new += (bits & ~held).bit_count()
            self._chunks[chunk] = held | bits
        self._count += new
        return new

    def __len__(self) -> int:
        return self._count
