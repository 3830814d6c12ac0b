"""How many changed rows a second come from a log into PostgreSQL exactly once?

The baseline decodes the same log with the same codec, believes it without checking, and puts the rows that come into
PostgreSQL by COPY to a temporary table and INSERT ... ON CONFLICT, a transaction a time: no counts, no frontier, no
deletes, no checkpoint. The case is the command, which resolves the log and keeps the view. CPU counts the server's.
Expected: 0.35 of the baseline's speed. Answer: ``results/materialize_postgres_log.csv``, from ``python -m benchmarks
materialize_postgres_log``.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from benchmarks.harness import Case, Question
from benchmarks.materialize_postgres import PER_TRANSACTION, by_copy, check
from benchmarks.shop import ORDERS, PLAN, Shop
from cdcv2.cli.main import main
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Updates


def opened(seed: int, size: int) -> Shop:
    """The changes, their log, and a server."""
    shop = Shop.open(seed, size, PER_TRANSACTION).serve()
    shop.write()
    (shop.folder / "shop.yaml").write_text(PLAN + "target: {driver: postgres}\n", "utf-8")
    if shop.server is not None:
        os.environ.update(shop.server.environment)
    return shop


def _decoded(shop: Shop) -> Iterator[list[tuple[Any, ...]]]:
    """Of each time of the log, the rows that come."""
    entries = DirectoryLog(shop.folder / "logs" / "orders", ORDERS).read()
    messages = (entry.message for entry in entries if entry is not None)
    updates = (update for one in messages if isinstance(one, Updates) for update in one.updates)
    for _, same in groupby(updates, key=lambda update: update[1]):
        yield [row for row, _, diff in same if diff > 0]


def decoded(shop: Shop) -> None:
    """Decode, and copy."""
    by_copy(shop, _decoded(shop))


def command(shop: Shop) -> None:
    """``cdcv2 materialize``."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(["materialize", str(shop.folder / "shop.yaml")])
    if code:
        raise ValueError(f"cdcv2 materialize ended with {code}")


QUESTION = Question(
    prepare=opened,
    baseline=Case("the same log decoded, COPY to temp + INSERT ON CONFLICT", decoded, Shop.clean, check),
    cases=[Case("cdcv2 materialize, from a log", command, Shop.clean, check)],
    size=200_000,
    unit="changed rows",
    versions=["psycopg", "pyarrow"],
    close=Shop.close,
    servers=Shop.server_cpu,
)
