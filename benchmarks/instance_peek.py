"""How long does a peek of an instance take, beside a keyed look-up in PostgreSQL?

Two tables of a million rows each; a question is for one key, or for a hundred keys, of both tables, at random. The
baseline keeps a session by a Unix socket and asks with prepared ``SELECT ... WHERE id = ANY(...)``, both in one
REPEATABLE READ transaction: the answer is of one moment, as a peek's is. The peek is ``cdcv2.connect(...).peek``
at now, a connection each time, as the client does it. Rows are Python's in the end. Expected: a millisecond for one
key, five times the baseline; for a hundred three milliseconds, three times. Answer: ``results/instance_peek.csv``, from
``python -m benchmarks instance_peek``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import cdcv2
from benchmarks.harness import Case, Question
from benchmarks.indexed_shop import TABLES, IndexedShop

ROWS = 1_000_000
#: What is asked: how many keys at once, and for how many of the questions.
_KEYS = (1, 100)
Answered = Callable[[dict[str, list[int]]], dict[str, Sequence[Any]]]


@dataclass
class World:
    """A shop, with an instance and a PostgreSQL of its rows; ``size`` questions of each kind."""

    shop: IndexedShop
    place: Path
    size: int

    @classmethod
    def open(cls, seed: int, size: int) -> World:
        """All of it."""
        # A smaller size is for trying it out.
        shop = IndexedShop.open(seed, min(ROWS, 1000 * size))
        try:
            _, place = shop.start()
            shop.serve()
        except BaseException:
            shop.close()
            raise
        return cls(shop, place, size)

    def close(self) -> None:
        """Stop all."""
        self.shop.close()

    def measured(self, ask: Answered) -> dict[str, float]:
        """Ask, look whether the answers are right, and how long they took."""
        figures: dict[str, float] = {}
        for number in _KEYS:
            took = []
            for _ in range(self.size):
                keys = {table: self.shop.random.sample(range(self.shop.rows), number) for table in TABLES}
                begun = perf_counter()
                found = ask(keys)
                took.append(1000 * (perf_counter() - begun))
                if {table: {row[0] for row in rows} for table, rows in found.items()} != {
                    table: set(wanted) for table, wanted in keys.items()
                }:
                    raise ValueError(f"{keys} were asked, and {found} is the answer")
            cuts = statistics.quantiles(took, n=100)
            name = "ms for 1 key of each table" if number == 1 else f"ms for {number} keys of each table"
            figures |= {f"{name}, median": cuts[49], f"{name}, p99": cuts[98]}
        return figures


def look_up(world: World) -> dict[str, float]:
    """PostgreSQL."""
    with world.shop.connect() as session:
        def ask(keys: dict[str, list[int]]) -> dict[str, Sequence[Any]]:
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = {
                table: session.execute(f"SELECT * FROM {table} WHERE id = ANY(%s)", [wanted], prepare=True).fetchall()
                for table, wanted in keys.items()
            }
            session.execute("COMMIT")
            return found

        return world.measured(ask)


def peek(world: World) -> dict[str, float]:
    """The instance."""
    client = cdcv2.connect(world.place)

    def ask(keys: dict[str, list[int]]) -> dict[str, Sequence[Any]]:
        answer = client.peek(keys)
        return {table: list(answer[table]) for table in keys}

    return world.measured(ask)


QUESTION = Question(
    prepare=World.open,
    baseline=Case("SELECT ... WHERE id = ANY, prepared, one transaction", look_up),
    cases=[Case("cdcv2.connect(...).peek", peek)],
    size=1000,
    unit="questions of each kind",
    versions=["psycopg"],
    close=World.close,
)
