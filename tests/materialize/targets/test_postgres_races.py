"""Runtimes race on PostgreSQL: one that was fenced off never commits again, by what the database itself has noted.

A dozen races here; `make stress` runs six hundred.
"""

from __future__ import annotations

import pytest

from cdcv2.materialize.targets.postgres import fence as postgres_fence
from cdcv2.servers.postgres import Postgres
from tests.racing import Noting, NotingRowByRow, judge, race_at_once, race_in_turns

pytestmark = pytest.mark.integration


def test_of_two_that_take_turns_the_fenced_one_never_commits_again(server: Postgres) -> None:
    """In random turns; and somebody was fenced off after it had committed."""
    Noting.server = server
    counts = sum((race_in_turns(seed) for seed in range(8)), start=judge([], 0))

    assert counts["fenced off"] and counts["taken over after a commit"]


def test_of_several_that_run_at_the_same_time_the_fenced_one_never_commits_again(server: Postgres) -> None:
    """They meet at the locks of the database."""
    Noting.server = server
    counts = sum((race_at_once(seed) for seed in range(6)), start=judge([], 0))

    assert counts["fenced off"] and counts["taken over after a commit"]


@pytest.mark.parametrize("name", ["COMMIT", "HELD"])
def test_without_its_fence_it_is_caught(server: Postgres, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A statement that lets any fence pass is found out within a few races."""
    Noting.server = server
    text = getattr(postgres_fence, name)
    monkeypatch.setattr(postgres_fence, name, text.replace(postgres_fence.OURS, "TRUE"))
    with pytest.raises(Exception, match=r"seed \d|its row was added or deleted|in the end the store|would|put back"):
        for seed in range(60):
            # What was looked up is what a fence that holds no more makes wrong.
            race_in_turns(seed, NotingRowByRow if name == "HELD" else Noting)
