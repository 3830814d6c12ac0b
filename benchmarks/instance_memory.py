"""How much memory does a row take in an instance, beside a dict of the same rows?

A million rows, in two tables, that come and are not changed. The baseline is a dict for each table, from the id to the
very row that ``cdcv2.read`` gives. Memory is the process's, less what it has with logs of no row. Expected: 1.5 times
the baseline's. Answer: ``results/instance_memory.csv``, from ``python -m benchmarks instance_memory``.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.harness import Case, Question
from benchmarks.indexed_shop import TABLES, IndexedShop, cpu_of, into_dicts, resident
from benchmarks.instance_start import CPU

MEASURE = "bytes per row"


@dataclass
class World:
    """A shop with rows, and what an instance takes of one without."""

    shop: IndexedShop
    size: int
    bare: int

    @classmethod
    def open(cls, seed: int, size: int) -> World:
        """The logs."""
        empty = IndexedShop.open(seed, 0)
        try:
            child, _ = empty.start()
            bare = resident(child.pid)
        finally:
            empty.close()
        return cls(IndexedShop.open(seed, size // len(TABLES)), size, bare)

    def close(self) -> None:
        """Remove the logs."""
        self.shop.close()


def dicts(world: World) -> dict[str, float]:
    """Plain dicts."""
    found = into_dicts(world.shop)
    return {CPU: found["cpu"], MEASURE: found["bytes"] / world.size}


def instance(world: World) -> dict[str, float]:
    """The command."""
    child, _ = world.shop.start()
    figures = {CPU: cpu_of(child.pid), MEASURE: (resident(child.pid) - world.bare) / world.size}
    child.stop()
    return figures


QUESTION = Question(
    prepare=World.open,
    baseline=Case("a dict from id to row", dicts),
    cases=[Case("cdcv2 instance", instance)],
    size=1_000_000,
    unit="rows",
    close=World.close,
    rounds=3,
    warm_up=0,
)
