"""How many changed rows a second come into PostgreSQL exactly once?

The baseline is what a view with a key costs at the least: COPY into a temporary table, and INSERT ... ON CONFLICT DO
UPDATE from there, in the same transactions of 10,000; at least once, without deletes, and nothing is checked. Beside it
are COPY into a table without an index, which is no view at all, and ON CONFLICT by psycopg's executemany. Two rows of
five change one that is there. Last, the same orders as a multiset: by changes of counts, and as it was before, by a
Load and a Store a row. CPU counts the server's. Expected: 0.55 of the baseline's speed by key, 0.25 as a multiset,
whose key is a digest of 64 characters that PostgreSQL keeps an index of. Answer:
``results/materialize_postgres.csv``, from ``python -m benchmarks materialize_postgres``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from benchmarks.harness import Case, Question
from benchmarks.shop import BINDING, ORDERS, Shop
from cdcv2.materialize import Runtime, ThreadConnection, ViewBinding
from cdcv2.materialize.protocol.messages import Open, Opened
from cdcv2.materialize.targets.postgres.driver import PostgresDriver

PER_TRANSACTION = 10_000
MULTISET = ViewBinding("orders", ORDERS, "orders")
_CREATE = "CREATE TABLE {} (id bigint{}, customer integer, total bigint, note text)"
_UPSERT = (
    "INSERT INTO orders VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "
    "SET customer = excluded.customer, total = excluded.total, note = excluded.note"
)
_TEMPORARY = "CREATE TEMP TABLE changed (id bigint, customer integer, total bigint, note text) ON COMMIT DELETE ROWS"
_FROM_TEMPORARY = (
    "INSERT INTO orders SELECT * FROM changed ON CONFLICT (id) DO UPDATE "
    "SET customer = excluded.customer, total = excluded.total, note = excluded.note"
)


def opened(seed: int, size: int) -> Shop:
    """The changes, and a server."""
    return Shop.open(seed, size, PER_TRANSACTION).serve()


def by_copy(shop: Shop, transactions: Iterable[Iterable[tuple[Any, ...]]]) -> None:
    """Rows as they are then: COPY into a temporary table, and an upsert from there, a transaction after the other."""
    with shop.connect() as session:
        session.execute(_CREATE.format("orders", " PRIMARY KEY"))
        session.execute(_TEMPORARY)
        session.commit()
        for rows in transactions:
            with session.cursor().copy("COPY changed FROM STDIN") as copying:
                for row in rows:
                    copying.write_row(row)
            session.execute(_FROM_TEMPORARY)
            session.commit()


def on_copy(shop: Shop) -> None:
    """The same rows, from memory."""
    by_copy(shop, shop.rows)


def copy(shop: Shop) -> None:
    """Every changed row into a table without an index."""
    with shop.connect() as session:
        session.execute(_CREATE.format("plain", ""))
        session.commit()
        for rows in shop.rows:
            with session.cursor().copy("COPY plain FROM STDIN") as copying:
                for row in rows:
                    copying.write_row(row)
            session.commit()


def on_conflict(shop: Shop) -> None:
    """The usual upsert."""
    with shop.connect() as session:
        session.execute(_CREATE.format("orders", " PRIMARY KEY"))
        session.commit()
        for rows in shop.rows:
            session.cursor().executemany(_UPSERT, rows)
            session.commit()


class RowByRow(PostgresDriver):
    """The same driver, which takes a Load and a Store a row, as it did of multisets."""

    def open(self, message: Open) -> Opened:
        """As it is, but for that."""
        return replace(super().open(message), changes=frozenset())


def into(shop: Shop, binding: ViewBinding, driver: type[PostgresDriver] = PostgresDriver) -> None:
    """A transaction a cut."""
    connection = ThreadConnection(driver(connect=shop.connect))
    Runtime("shop", [binding], connection, shop.source, rows=1).run()


def by_key(shop: Shop) -> None:
    """Rows by key."""
    into(shop, BINDING)


def as_multiset(shop: Shop) -> None:
    """Each row, and how often it is there."""
    into(shop, MULTISET)


def as_multiset_row_by_row(shop: Shop) -> None:
    """The same, a message at a time."""
    into(shop, MULTISET, RowByRow)


def check(shop: Shop) -> None:
    """The view is what it should be."""
    with shop.connect() as session:
        shop.check(session.execute("SELECT * FROM orders").fetchall())


def check_multiset(shop: Shop) -> None:
    """Each row is there once."""
    with shop.connect() as session:
        shop.check(session.execute("SELECT id, customer, total, note FROM orders WHERE cdcv2_count = 1").fetchall())


def check_copy(shop: Shop) -> None:
    """All rows were copied."""
    with shop.connect() as session:
        found = session.execute("SELECT count(*) FROM plain").fetchone()
    if found != (sum(map(len, shop.rows)),):
        raise ValueError(f"{found} rows were copied")


QUESTION = Question(
    prepare=opened,
    baseline=Case("COPY to temp + INSERT ON CONFLICT", on_copy, Shop.clean, check),
    cases=[
        Case("COPY into an unindexed table", copy, Shop.clean, check_copy),
        Case("INSERT ... ON CONFLICT, executemany", on_conflict, Shop.clean, check),
        Case("materialize", by_key, Shop.clean, check),
        Case("materialize, a multiset", as_multiset, Shop.clean, check_multiset),
        Case("materialize, a multiset, a Load and a Store a row", as_multiset_row_by_row, Shop.clean, check_multiset),
    ],
    size=200_000,
    unit="changed rows",
    versions=["psycopg", "pyarrow"],
    close=Shop.close,
    servers=Shop.server_cpu,
)
