"""A multiset in a lake as changes of counts, against row by row: ten thousand histories, with lies in the log."""

from __future__ import annotations

from collections import Counter

from tests.materialize.lake_counts import ends
from tests.stress.summary import record

SEEDS, RUNS = range(1_000, 4_000), 4


def test_columns_end_as_rows_do() -> None:
    """The same rows and counts, one error."""
    ended = Counter[str]()
    for seed in SEEDS:
        try:
            ended.update(ends(seed, RUNS))
        except AssertionError as cause:
            raise AssertionError(f"seed {seed}") from cause

    record("a multiset in a lake by columns, against row by row", SEEDS, {"histories": len(SEEDS) * RUNS, **ended})
