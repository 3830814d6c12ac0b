"""Whatever happens to a log, a reader gives out what the oracle does: over ints, and products of two and three.

The seeded tests are many and cheap, those of Hypothesis few, and they shrink; both draw with the same generator.
Each seed is another history; the last test counts them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checks import CHECKS, run_seeds
from tests.strategies import choosers

LEAST = 10_000
# A mutant is found by the first few cases or by none.
MUTATE = os.environ.get("HYPOTHESIS_PROFILE") == "mutate"
DIVISOR = 50 if MUTATE else 1
SIZE = 500 // DIVISOR
KINDS = {"mangled": 5, "moved": 3, "mangled by mangle": 3, "contradictory": 3, "in quarantine": 3, "folded late": 3}
BLOCKS = [
    (kind, range(1_000_000 * number + SIZE * block, 1_000_000 * number + SIZE * (block + 1)))
    for number, (kind, blocks) in enumerate(KINDS.items())
    for block in range(blocks)
]


@pytest.mark.parametrize("kind, seeds", BLOCKS, ids=lambda value: value if isinstance(value, str) else str(value[0]))
def test_seeded_histories_are_read_as_the_oracle_reads_them(kind: str, seeds: range) -> None:
    """A block of random histories, each put through one kind of check; a failure names its seed."""
    assert SIZE == run_seeds(kind, seeds)


@pytest.mark.parametrize("kind", CHECKS)
@pytest.mark.parametrize("dims", [1, 2, 3])
@settings(max_examples=3 if MUTATE else 20)
@given(data=st.data())
def test_drawn_histories_are_read_as_the_oracle_reads_them(kind: str, dims: int, data: st.DataObject) -> None:
    """The same checks where a failure shrinks to the smallest history that shows it."""
    CHECKS[kind](data.draw(choosers()), dims)


def test_ten_thousand_histories_and_more_are_run(record_property: Callable[[str, object], None]) -> None:
    """The seeds of all blocks are different, and there are enough of them."""
    seeds = {seed for _, block in BLOCKS for seed in block}
    record_property("histories", len(seeds))

    assert sum(len(block) for _, block in BLOCKS) == len(seeds)
    assert LEAST <= len(seeds) * DIVISOR
