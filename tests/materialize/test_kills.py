"""The real process is killed with SIGKILL while it keeps views, and a reader sees only consistent cuts.

Twice per target here; `make stress` does it dozens of times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from cdcv2.servers.postgres import Postgres
from tests.killing import Poller, TargetRows, kill_many, lake_target, postgres_target

pytest.importorskip("yaml")
SEED, TIMES = 20261122, 600


@pytest.mark.integration
def test_nothing_is_lost_and_nothing_comes_twice_in_postgresql(server: Postgres, tmp_path: Path) -> None:
    """Killed at random moments after its first commits; then one is let live."""
    counts = kill_many(postgres_target(SEED, TIMES, tmp_path, server), 2, random.Random(SEED))

    assert 2 == counts["kills"]


def test_nothing_is_lost_and_nothing_comes_twice_in_files(tmp_path: Path) -> None:
    """The same, on a lake with a recovery log in files."""
    pytest.importorskip("pyarrow")
    counts = kill_many(lake_target(SEED + 1, TIMES, tmp_path), 2, random.Random(SEED + 1), rows=240)

    assert 2 == counts["kills"]


WRONG: dict[str, Callable[[TargetRows], TargetRows]] = {
    "a repetition": lambda seen: seen._replace(entries=(seen.entries[0] + 1, seen.entries[1] + 5)),
    "half a transfer": lambda seen: seen._replace(balances={**seen.balances, "account 0": -1}),
    "rows without their checkpoint": lambda seen: seen._replace(upper=seen.upper + 1),
    "a way back": lambda seen: seen._replace(upper=seen.upper - 5),
    "sums that are wrong": lambda seen: seen._replace(totals={**seen.totals, "account 0": (0, 0)}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_reader_would_notice(wrong: str, tmp_path: Path) -> None:
    """A judge that lets everything pass proves nothing."""
    target = lake_target(1, 50, tmp_path)
    poller, bank = Poller(target), target.bank
    bank.move(20)
    right = TargetRows(20, dict(bank.totals), dict(bank.balances), (bank.entries.total(), 12_000))
    poller.judge(right)
    with pytest.raises(AssertionError):
        poller.judge(WRONG[wrong](right))
