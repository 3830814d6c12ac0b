"""A mapping of open times answers for an interval as a look at each of its times would."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import Product, sort_key
from cdcv2.errors import MalformedError
from cdcv2.protocol.open_times import OpenTimes
from tests.strategies import choosers, antichains, lift, times


@given(choosers(), st.sampled_from([1, 2]), st.booleans(), st.booleans())
def test_intervals_hold_what_lies_in_them(choose: Any, dims: int, no_lower: bool, no_upper: bool) -> None:
    """Beyond the one frontier and not beyond the other, sorted; also where a frontier is empty."""
    drawn = [lift(times(choose, dims)) for _ in range(choose.integer(0, 8))]
    lower = Antichain(() if no_lower else map(lift, antichains(choose, dims)))
    upper = Antichain(() if no_upper else map(lift, antichains(choose, dims)))
    held: OpenTimes[int] = OpenTimes(total=dims == 1)
    for number, time in enumerate(drawn):
        held[time] = number
    ordered = sorted(set(drawn), key=sort_key)

    assert [t for t in ordered if lower.less_equal(t) and not upper.less_equal(t)] == held.between(lower, upper)
    assert [t for t in ordered if not upper.less_equal(t)] == held.not_beyond(upper)
    assert [(t, max(n for n, d in enumerate(drawn) if d == t)) for t in ordered] == held.items()
    assert len(ordered) == len(held)
    assert set(ordered) == set(held)
    for time in ordered:
        assert time in held
        assert held[time] == held.get(time) == held.pop(time)
        assert time not in held
        assert (None, "none") == (held.pop(time), held.pop(time, "none"))


def test_a_copy_is_independent_and_as_fast() -> None:
    """Integers stay sorted in it; values are copied too."""
    held: OpenTimes[list[int]] = OpenTimes(total=True)
    held[5], held[2] = [5], [2]

    twin = copy.deepcopy(held)
    twin[3] = []
    twin[5].append(6)

    assert [2, 3, 5] == list(twin)
    assert [2, 5] == list(held)
    assert ([5], [5, 6]) == (held.get(5), twin.get(5))
    assert (None, []) == (held.get(3), twin.get(3))
    with pytest.raises(MalformedError):
        twin[Product(1, 1)] = []


@pytest.mark.parametrize("time", [True, 1.0, "1", (1, 2), None, Product(1), Product(1, 2)])
def test_integers_keep_other_times_out(time: Any) -> None:
    """They could not be compared with what is there."""
    held: OpenTimes[int] = OpenTimes(total=True)

    with pytest.raises(MalformedError):
        held[time] = 1
    assert 0 == len(held)
