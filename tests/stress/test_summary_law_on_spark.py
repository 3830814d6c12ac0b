"""Remap and TEMP at a time are all that a capture on Spark needs to go on: killed at its steps, it writes the same."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from cdcv2.servers.submit import spark_submit
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER
from tests.recorded import HOME, TABLES, content, dump, truth
from tests.spark.binding import Bound, dumped
from tests.spark.capturing import log_messages
from tests.stress.summary import record
from tests.timelines import NOTIFICATIONS, recipe, topics

pytestmark = pytest.mark.spark

SEEDS, KILLS, RECORDS = range(10, 15), 4, 5000
KEYED_SEEDS = range(20, 22)
STEPS = (
    "shared-capture.bound", "shared-capture.read", "release.updates-durable", "release.temp-stated",
    "release.table-stated",
)
#: Seconds after which something is broken, and not only slow.
PATIENCE = 300


def test_the_real_job_killed_at_its_steps_writes_the_same(tmp_path: Path) -> None:
    """In both orderings; then the facts are those of a capture without Spark that never stopped, TEMP's among them."""
    counts: Counter[str] = Counter({"kills": 0})
    for seed in SEEDS:
        draw = random.Random(seed)
        ordering = (COMMIT_ORDER, AS_COMPLETE)[seed % 2]
        killed(tmp_path / str(seed), draw, ordering, counts)
        counts[f"with the ordering {ordering!r}"] += 1
    assert counts["kills"] == len(SEEDS) * KILLS
    record("the capture on a timeline is killed on Spark", list(SEEDS), counts)


def test_the_real_job_killed_at_its_steps_looks_up_the_same(tmp_path: Path) -> None:
    """Old rows from the state, which is rebuilt from the logs by each life: behind the TRUNCATE the tables are true."""
    counts: Counter[str] = Counter({"kills": 0})
    for seed in KEYED_SEEDS:
        bound = killed(tmp_path / str(seed), random.Random(seed), COMMIT_ORDER, counts, "clean_default")
        for table, row_type in TABLES.items():
            [now] = content(log_messages(bound.folder / "logs" / table, row_type), table, bound.known(f"logs/{table}"))
            assert truth("clean_default", "final", table) == now, table
            counts["tables that are true"] += 1
    assert counts["kills"] == len(KEYED_SEEDS) * KILLS
    record("the capture that looks old rows up is killed on Spark", list(KEYED_SEEDS), counts)


def killed(
    folder: Path, draw: random.Random, ordering: str, counts: Counter[str], run: str | None = None
) -> Bound:
    """One history, of which each life sees some more; each but the last dies at a step."""
    how = recipe(run or draw.choice(("clean_full", "crash_full")))
    run, records = how.prefix, RECORDS if run is None else None
    arrived = [one for one in dump(run).read() if (one.topic, one.partition) in topics(run)][:records]
    words = ["--prefix", run, "--notifications", NOTIFICATIONS, "--rows", str(HOME / "rows"), "--ordering", ordering,
             "--before", how.before, "--bind-at-most", str(draw.randint(100, 400))]  # fmt: skip
    bound = Bound(folder, folder / "topics", words)
    job = [str(bound.topics), "--remap", str(folder / "remap"), "--into", str(folder / "logs"),
           "--no-follow", "--max-records", str(draw.randint(100, 500)), *words]  # fmt: skip
    for life in range(1, KILLS + 2):
        share = arrived[:len(arrived) * life // (KILLS + 1)]
        dumped(bound.topics / "all.jsonl", [*topics(run)[NOTIFICATIONS, 0], *share])
        step = draw.choice(STEPS)
        crash = {"CDCV2_CRASH": f"{step}:{draw.randint(1, 2)}", "CDCV2_CRASH_HOW": "kill"} if life <= KILLS else {}
        child = spark_submit("capture", job, folder=folder / "job", environment=crash)
        code = child.wait(PATIENCE)
        child.kill9()
        if crash:
            assert code not in (0, 1), f"it did not come to {step}: {child.log_tail()}"
            counts["kills"] += 1
            counts[f"at {step}"] += 1
        else:
            assert code in (0, 1), child.log_tail()
    bound.pure("pure")
    facts = bound.facts("logs")
    assert bound.facts("pure") == facts
    counts["facts that are equal"] += sum(len(updates) for updates, _ in facts.values())
    return bound
