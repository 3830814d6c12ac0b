"""The recorded topics on over a hundred timelines, and thousands of captures that race for one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER
from tests.strategies import seeded
from tests.stress.summary import record
from tests.timelines import check_begun_again, check_true_tables, made_once

TIMELINES = {"clean_full": 100, "crash_full": 100, "clean_default": 100}
AGAIN = {"clean_full": 4, "crash_full": 2, "clean_default": 4}
RACES = 2_000
FIRST = 10_000


def races(name: str) -> Any:
    """The module of a race among the ordinary tests."""
    path = Path(__file__).resolve().parent.parent / "capture" / "run" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_recorded_topics_on_many_timelines() -> None:
    """The true tables at the end of each; and the same again from some of its times."""
    with made_once():
        for run, timelines in TIMELINES.items():
            for seed in range(FIRST, FIRST + timelines):
                check_true_tables(run, seed)
        for run, timelines in AGAIN.items():
            for seed in range(FIRST, FIRST + timelines):
                check_begun_again(run, seed, 10)

    counts = {f"timelines of {run}": number for run, number in TIMELINES.items()}
    counts |= {f"begun again, {run}": 10 * number for run, number in AGAIN.items()}
    record("recorded topics on timelines", range(FIRST, FIRST + max(TIMELINES.values())), counts)


def test_captures_that_race() -> None:
    """Two or three at once, killed and woken: plain topics, and a database in either ordering."""
    plain, database = races("test_on_remap_race"), races("test_database_race")
    kinds = [(True, COMMIT_ORDER), (False, COMMIT_ORDER), (True, AS_COMPLETE)]
    for seed in range(FIRST, FIRST + RACES):
        plain.race(seeded(seed))
        database.race(seeded(seed), *kinds[seed % 3])

    counts = {"races of plain topics": RACES, "races of a database": RACES}
    record("captures race for one timeline", range(FIRST, FIRST + RACES), counts)


def test_captures_that_look_rows_up_race() -> None:
    """The same, of a database without whole old rows: each takes its state from what all of them wrote."""
    keyed = races("test_keyed_race")
    for seed in range(FIRST, FIRST + RACES):
        keyed.race(seeded(seed), snapshot=seed % 3 > 0)

    record("captures that look rows up race for one timeline", range(FIRST, FIRST + RACES), {"races": RACES})
