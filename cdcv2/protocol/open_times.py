"""A mapping from the times that are still open, which can be asked for an interval between two frontiers.

Integers are kept sorted, so an interval costs what it holds; times of a partial order are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from sortedcontainers import SortedDict

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Time, check_time, sort_key

V = TypeVar("V")


class OpenTimes(Generic[V]):
    """Times with a value each; ``total``: the times are integers.

    >>> from cdcv2.core.antichain import Antichain
    >>> held = OpenTimes(total=True)
    >>> held[5], held[2] = "b", "a"
    >>> held.between(Antichain([0]), Antichain([5]))
    [2]

    Cost: O(log n) to set a new integer time, O(1) to get; ``between`` costs O(log n) and its result for
    integers, else O(n) comparisons with the frontiers' elements.
    """

    __slots__ = ("_values", "_total", "get")

    def __init__(self, *, total: bool) -> None:
        self._total = total
        # Time -> value; sorted by time when the times are integers.
        self._values: dict[Time, V] = SortedDict() if total else {}
        self.get = self._values.get

    def between(self, lower: Antichain, upper: Antichain) -> list[Time]:
        """The times beyond ``lower`` and not beyond ``upper``, sorted."""
        if not lower:
            return []
        if self._total:
            values: Any = self._values
            low = lower.elements[0]
            high = upper.elements[0] if upper else None
            return list(values.irange(low, high, inclusive=(True, False)))
        found = [time for time in self._values if lower.less_equal(time) and not upper.less_equal(time)]
        return sorted(found, key=sort_key)

    def not_beyond(self, frontier: Antichain) -> list[Time]:
        """The times that are not beyond ``frontier``, sorted."""
        if self._total:
            values: Any = self._values
            high = frontier.elements[0] if frontier else None
            return list(values.irange(None, high, inclusive=(True, False)))
        return sorted((time for time in self._values if not frontier.less_equal(time)), key=sort_key)

    def pop(self, time: Time, default: Any = None) -> Any:
        """Forget ``time`` and return its value, or ``default``."""
        return self._values.pop(time, default)

    def items(self) -> list[tuple[Time, V]]:
        """Times and values, sorted by time."""
        return sorted(self._values.items(), key=lambda item: sort_key(item[0]))

    def __setitem__(self, time: Time, value: V) -> None:
        if self._total and type(time) is not int:
            check_time(time)
            Antichain([0]).less_equal(time)  # names the two kinds of times that met
        self._values[time] = value

    def __getitem__(self, time: Time) -> V:
        return self._values[time]

    def __contains__(self, time: object) -> bool:
        return time in self._values

    def __iter__(self) -> Iterator[Time]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __deepcopy__(self, memo: dict[int, Any]) -> OpenTimes[V]:
        # ``get`` is bound to the mapping; a field-by-field copy would go on reading the original.
        import copy

        twin: OpenTimes[V] = OpenTimes(total=self._total)
        for time, value in self._values.items():
            twin[time] = copy.deepcopy(value, memo)
        return twin
