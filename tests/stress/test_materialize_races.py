"""Two runtimes race on a real PostgreSQL in 600 random interleavings: the fenced one never commits again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from cdcv2.servers.postgres import Postgres
from tests.racing import Noting, race_at_once, race_in_turns
from tests.stress.summary import record

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("name", "race", "seeds"),
    [("in turns", race_in_turns, range(1000, 1400)), ("at the same time", race_at_once, range(2000, 2200))],
)
def test_races(name: str, race: Callable[[int], Counter[str]], seeds: range) -> None:
    """Step by step in random turns; and at the same time, where they meet at the locks of the database."""
    counts = Counter[str]()
    with Postgres() as server:
        Noting.server = server
        for seed in seeds:
            counts += race(seed)
    assert counts["fenced off"] > len(seeds) // 3 and counts["taken over after a commit"] > len(seeds) // 8
    record(f"materialize races on PostgreSQL, {name}", seeds, {"races": len(seeds), **counts})
