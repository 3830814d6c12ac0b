"""How fast does an instance start over ten million updates, and how much memory does each take?

Two tables of a million rows each come, and every row is changed twice. The instance holds all of it by key, every time
of it: ten million updates. The baseline reads the same logs with ``cdcv2.read`` into a dict for each table, so that
what was changed is forgotten. Seconds are those of a process, from its start until it answers, or has the dicts.
Expected: 1.5 times the baseline's seconds. Answer: ``results/instance_start.csv``, from ``python -m benchmarks
instance_start``.
"""

from __future__ import annotations

from benchmarks.harness import Case, Question
from benchmarks.indexed_shop import TABLES, IndexedShop, cpu_of, into_dicts, resident

#: Changes of each row: one update when it comes, two for each change.
CHANGES = 2
CPU, MEMORY = "CPU seconds of the other process", "MB"


def opened(seed: int, size: int) -> IndexedShop:
    """The logs of so many updates."""
    return IndexedShop.open(seed, size // len(TABLES) // (2 * CHANGES + 1), CHANGES)


def dicts(shop: IndexedShop) -> dict[str, float]:
    """Plain dicts."""
    found = into_dicts(shop)
    if found["rows"] != len(TABLES) * shop.rows:
        raise ValueError(f"{found['rows']} rows are there")
    return {CPU: found["cpu"], MEMORY: found["bytes"] / 1e6}


def instance(shop: IndexedShop) -> dict[str, float]:
    """The command."""
    child, _ = shop.start()
    figures = {CPU: cpu_of(child.pid), MEMORY: resident(child.pid) / 1e6}
    child.stop()
    return figures


QUESTION = Question(
    prepare=opened,
    baseline=Case("cdcv2.read into dicts", dicts),
    cases=[Case("cdcv2 instance", instance)],
    size=10_000_000,
    unit="updates",
    close=IndexedShop.close,
    rounds=3,
    warm_up=0,
)
