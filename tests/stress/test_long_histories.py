"""A hundred thousand random histories, each put through one of the checks that the ordinary run has fewer of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.checks import CHECKS, run_seeds
from tests.strategies import Chooser, choosers
from tests.stress.summary import record

FIRST = 100_000_000
EACH = 20_000


def test_histories_of_many_seeds_are_read_as_the_oracle_reads_them() -> None:
    """Seeds that no other run has; the same number of each kind."""
    counts = {
        f"histories {kind}": run_seeds(kind, range(FIRST + EACH * number, FIRST + EACH * (number + 1)))
        for number, kind in enumerate(CHECKS)
    }

    record("histories against the oracle", range(FIRST, FIRST + EACH * len(CHECKS)), counts)


@given(choosers(), st.integers(1, 3), st.sampled_from(sorted(CHECKS)))
def test_drawn_histories_are_read_as_the_oracle_reads_them(choose: Chooser, dims: int, kind: str) -> None:
    """As many as the profile states, and they shrink."""
    CHECKS[kind](choose, dims)
