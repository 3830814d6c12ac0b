"""What does it cost to append rows to a lake exactly once, beside writing the same rows to Parquet files?

The baseline makes columns of each transaction's 10,000 rows, writes them to a file of its own, zstd as the lake has it,
and flushes it to the disk. A lake looks keys up, keeps a manifest and a recovery log, and merges its files; rows by key
are worked out as columns, a multiset is appended as it comes, as changes of counts (docs/decisions/0350). Expected: CPU
of 2 times the baseline's for an append, 6 for rows by key. Answer: ``results/materialize_lake.csv``, from
``python -m benchmarks materialize_lake``. With ``--scale 4`` an append merges files, too.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import Any

import pyarrow
import pyarrow.parquet

from benchmarks.harness import Case, Question
from benchmarks.shop import BINDING, ORDERS, Shop
from cdcv2.core.antichain import Antichain
from cdcv2.materialize import FileRecoveryLog, Runtime, ThreadConnection, ViewBinding
from cdcv2.materialize.protocol.messages import Open, Opened
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.protocol.timeline import Cut

PER_TRANSACTION = 10_000
MULTISET = ViewBinding("orders", ORDERS, "orders")
_SCHEMA = pyarrow.schema([
    ("id", pyarrow.int64()), ("customer", pyarrow.int32()), ("total", pyarrow.int64()), ("note", pyarrow.string()),
])  # fmt: skip


@dataclass
class Appended:
    """The shop, and the same rows as cuts in which each comes and none goes: an append."""

    shop: Shop
    cuts: list[Cut]


def opened(seed: int, size: int) -> Appended:
    """Both."""
    shop = Shop.open(seed, size, PER_TRANSACTION)
    cuts = [
        Cut({"orders": [(ORDERS.row(row), time, 1) for row in rows]}, Antichain([time]), Antichain([time + 1]))
        for time, rows in enumerate(shop.rows)
    ]
    return Appended(shop, cuts)


def clean(given: Appended) -> None:
    """Nothing is there."""
    for name in ("lake", "recovery", "plain"):
        shutil.rmtree(given.shop.folder / name, ignore_errors=True)


def bare(given: Appended) -> None:
    """A file per transaction."""
    shop = given.shop
    (shop.folder / "plain").mkdir()
    for number, rows in enumerate(shop.rows):
        arrays = [pyarrow.array(values, one.type) for one, values in zip(_SCHEMA, zip(*rows))]
        path = shop.folder / "plain" / f"{number}.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=_SCHEMA), path, compression="zstd")
        with path.open("rb") as file:
            os.fsync(file.fileno())


class RowByRow(LakeDriver):
    """The same driver, which takes a Load and a Store a key, as all did before."""

    def open(self, message: Open) -> Opened:
        """As it is, but for that."""
        return replace(super().open(message), changes=frozenset())


def into(shop: Shop, binding: ViewBinding, source: Any, driver: type[LakeDriver] = LakeDriver) -> None:
    """A transaction a cut."""
    log = FileRecoveryLog("shop", shop.folder / "recovery")
    Runtime("shop", [binding], ThreadConnection(driver(shop.folder / "lake")), source, log=log, rows=1).run()
    log.close()


def append(given: Appended) -> None:
    """As a multiset: an append, and no key of the rows' own."""
    into(given.shop, MULTISET, lambda checkpoint: iter(given.cuts))


def by_key(given: Appended) -> None:
    """Rows by key: two of five replace one that is there."""
    into(given.shop, BINDING, given.shop.source)


def by_key_row_by_row(given: Appended) -> None:
    """The same, a message at a time."""
    into(given.shop, BINDING, given.shop.source, RowByRow)


def check_append(given: Appended) -> None:
    """Every row is there."""
    if open_lake(given.shop.folder / "lake").read("orders").num_rows != sum(map(len, given.shop.rows)):
        raise ValueError("rows are missing")


def check(given: Appended) -> None:
    """The view is what it should be."""
    given.shop.check([(*key, *values) for key, values in open_lake(given.shop.folder / "lake").rows("orders")])


def close(given: Appended) -> None:
    """Remove the folder."""
    given.shop.close()


QUESTION = Question(
    prepare=opened,
    baseline=Case("a Parquet file per transaction", bare, clean),
    cases=[
        Case("append to a lake, a multiset", append, clean, check_append),
        Case("rows by key in a lake", by_key, clean, check),
        Case("rows by key in a lake, a Load and a Store a key", by_key_row_by_row, clean, check),
    ],
    size=200_000,
    unit="rows",
    versions=["pyarrow"],
    close=close,
)
