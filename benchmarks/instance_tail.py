"""How long after its statement is a finished time in a tail of an instance?

A writer adds transactions of one row, and states each durably, at a steady pace. The clock starts before it does, so
that the write to the disk is in it, too. The instance holds two tables of 100,000 rows. The baseline is a reader of the
log alone, which looks every millisecond: nothing can be sooner. Expected: the baseline, half of the 20 milliseconds
between two looks of an instance, and a millisecond.
Answer: ``results/instance_tail.csv``, from ``python -m benchmarks instance_tail``.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cdcv2
from benchmarks.harness import Case, Question
from benchmarks.indexed_shop import TABLES, IndexedShop
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.resolver import Resolver
from cdcv2.protocol.writer import Writer

ROWS = 100_000
#: Transactions a second.
RATE = 40


@dataclass
class World:
    """A shop, an instance of it, and what is written on; ``size`` transactions in each run."""

    shop: IndexedShop
    place: Path
    size: int
    writers: list[Writer]
    stated: dict[int, float] = field(default_factory=dict)

    @classmethod
    def open(cls, seed: int, size: int) -> World:
        """All of it."""
        shop = IndexedShop.open(seed, ROWS)
        try:
            _, place = shop.start()
        except BaseException:
            shop.close()
            raise
        return cls(shop, place, size, [Writer(shop.log(table)) for table in TABLES])

    def close(self) -> None:
        """Stop all."""
        self.shop.close()

    def write(self) -> None:
        """So many transactions of a row of the first table; in the second one nothing happens."""
        begun = time.monotonic()
        first, *others = self.writers
        for turn in range(self.size):
            time.sleep(max(0.0, begun + turn / RATE - time.monotonic()))
            now = self.shop.end
            self.shop.end += 1
            first.update(self.shop.row(ROWS + now, 0), now, 1)
            for writer in others:
                writer.advance([now + 1])
            self.stated[now] = time.monotonic()
            first.advance([now + 1])

    def measured(self, arrivals: Iterator[int]) -> dict[str, float]:
        """Write, and see the times arrive."""
        first, last = self.shop.end, self.shop.end + self.size - 1
        writing = threading.Thread(target=self.write)
        seen: dict[int, float] = {}
        writing.start()
        for at in arrivals:
            seen.setdefault(at, time.monotonic())
            if at >= last:
                break
        writing.join()
        took = [1000 * (seen[at] - self.stated[at]) for at in range(first, last + 1)]
        cuts = statistics.quantiles(took, n=100)
        return {"ms, median": cuts[49], "ms, p99": cuts[98]}


def reader(world: World) -> dict[str, float]:
    """The log alone."""
    log = DirectoryLog(world.shop.logs / TABLES[0], idle_wait=0.001)
    resolver = Resolver()
    reading = log.read(follow=True)
    # What is there by now is read before the clock starts.
    for entry in iter(reading.__next__, None):
        resolver.absorb(entry)

    def arrivals() -> Iterator[int]:
        for entry in reading:
            batch = None if entry is None else resolver.absorb(entry)
            for _, at, _ in batch.updates if batch is not None else ():
                if isinstance(at, int):
                    yield at

    return world.measured(arrivals())


def tail(world: World) -> dict[str, float]:
    """A client of the instance."""
    with cdcv2.connect(world.place).tail(TABLES[0], after=world.shop.end) as following:
        return world.measured(change[1] for batch in following for change in batch.changes)


QUESTION = Question(
    prepare=World.open,
    baseline=Case("a reader of the log alone", reader),
    cases=[Case("cdcv2.connect(...).tail", tail)],
    size=400,
    unit="transactions",
    close=World.close,
    rounds=5,
    warm_up=1,
)
