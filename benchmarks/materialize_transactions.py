"""What does a transaction cost, against how many rows it has?

Twenty transactions of 1, 10, 100, 1,000 and 10,000 changed rows each, into PostgreSQL and into a lake; the baseline
is twenty INSERT ... ON CONFLICT of one row and a commit each. Expected: a constant, about ten statements in PostgreSQL
and five files flushed to the disk in a lake, up to a thousand rows; then the rows. Answer:
``results/materialize_transactions.csv``, from ``python -m benchmarks materialize_transactions``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

from benchmarks.harness import Case, Question
from benchmarks.shop import BINDING, Shop
from cdcv2.materialize import FileRecoveryLog, Runtime, ThreadConnection
from cdcv2.materialize.targets.lake.driver import LakeDriver
from cdcv2.materialize.targets.postgres.driver import PostgresDriver

SIZES = (1, 10, 100, 1000, 10_000)


class Shops:
    """One of each size, on one server."""

    def __init__(self, seed: int, size: int) -> None:
        self.by_size = {rows: Shop.open(seed, size * rows, rows) for rows in SIZES}
        self.first = self.by_size[1].serve()
        for shop in self.by_size.values():
            shop.server = self.first.server

    def close(self) -> None:
        """Stop it."""
        for shop in self.by_size.values():
            if shop is not self.first:
                shutil.rmtree(shop.folder)
        self.first.close()


def done(rows: int, run: Callable[[Shop], None], shops: Shops) -> None:
    """Do it."""
    run(shops.by_size[rows])


def on_conflict(shops: Shops) -> None:
    """One row and a commit."""
    with shops.first.connect() as session:
        session.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer integer, total bigint, note text)")
        session.commit()
        for (row,) in shops.first.rows:
            session.execute(
                "INSERT INTO orders VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "
                "SET customer = excluded.customer, total = excluded.total, note = excluded.note", row,
            )
            session.commit()


def postgres(shop: Shop) -> None:
    """Into PostgreSQL."""
    Runtime("shop", [BINDING], ThreadConnection(PostgresDriver(connect=shop.connect)), shop.source, rows=1).run()


def lake(shop: Shop) -> None:
    """Into a lake."""
    log = FileRecoveryLog("shop", shop.folder / "recovery")
    Runtime("shop", [BINDING], ThreadConnection(LakeDriver(shop.folder / "lake")), shop.source, log=log, rows=1).run()
    log.close()


def clean(shops: Shops) -> None:
    """Nothing is there."""
    shops.first.clean()
    for shop in shops.by_size.values():
        for name in ("lake", "recovery"):
            shutil.rmtree(shop.folder / name, ignore_errors=True)


QUESTION = Question(
    prepare=Shops,
    baseline=Case("INSERT ... ON CONFLICT of one row", on_conflict, clean),
    cases=[
        Case(f"{rows} rows into {name}", partial(done, rows, run), clean)
        for name, run in (("PostgreSQL", postgres), ("a lake", lake))
        for rows in SIZES
    ],
    size=20,
    unit="transactions",
    versions=["psycopg", "pyarrow"],
    close=Shops.close,
    rounds=3,
)
