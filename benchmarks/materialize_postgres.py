"""How many changed rows a second come into PostgreSQL exactly once?

The baseline is the limit: COPY of the same rows into a table without an index, which is no view at all. The case beside
is what people do: INSERT ... ON CONFLICT DO UPDATE with psycopg's executemany (in its pipeline mode, as a function
given to foreachBatch would), in the same transactions of 10,000, at least once and without deletes. Two rows of five
change one that is there. Expected: half as fast as ON CONFLICT, as each key is looked up first; and so it was. Answer:
``results/materialize_postgres.csv``, from ``python -m benchmarks materialize_postgres``.
"""

from __future__ import annotations

import contextlib
import io
import os

from benchmarks.harness import Case, Question
from benchmarks.shop import BINDING, PLAN, Shop, with_cpu
from cdcv2.cli import main
from cdcv2.materialize import Runtime, Threaded
from cdcv2.materialize.drivers.postgres import PostgresDriver

PER_TRANSACTION = 10_000
_CREATE = "CREATE TABLE {} (id bigint{}, customer integer, total bigint, note text)"


def opened(seed: int, size: int) -> Shop:
    """The changes, their log, and a server."""
    shop = Shop.open(seed, size, PER_TRANSACTION).serve()
    shop.write()
    (shop.folder / "shop.yaml").write_text(PLAN + "target: {driver: postgres}\n", "utf-8")
    if shop.server is not None:
        os.environ.update(shop.server.environment)
    return shop


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
            session.cursor().executemany(
                "INSERT INTO orders VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "
                "SET customer = excluded.customer, total = excluded.total, note = excluded.note",
                rows,
            )
            session.commit()


def materialize(shop: Shop) -> None:
    """Rows by key, a transaction a cut."""
    driver = PostgresDriver(connect=shop.connect)
    Runtime("shop", [BINDING], Threaded(driver), shop.source, rows=1).run()


def command(shop: Shop) -> None:
    """The same from the log in a directory, read and resolved."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(["materialize", str(shop.folder / "shop.yaml")])
    if code:
        raise ValueError(f"cdcv2 materialize ended with {code}")


def check(shop: Shop) -> None:
    """The view is what it should be."""
    with shop.connect() as session:
        shop.check(session.execute("SELECT * FROM orders").fetchall())


def check_copy(shop: Shop) -> None:
    """All rows were copied."""
    with shop.connect() as session:
        found = session.execute("SELECT count(*) FROM plain").fetchone()
    if found != (sum(map(len, shop.rows)),):
        raise ValueError(f"{found} rows were copied")


QUESTION = Question(
    prepare=opened,
    baseline=Case("COPY into an unindexed table", with_cpu(copy), Shop.clean, check_copy),
    cases=[
        Case("INSERT ... ON CONFLICT, executemany", with_cpu(on_conflict), Shop.clean, check),
        Case("materialize", with_cpu(materialize), Shop.clean, check),
        Case("cdcv2 materialize, from a log", with_cpu(command), Shop.clean, check),
    ],
    size=200_000,
    unit="changed rows",
    versions=["psycopg"],
    close=Shop.close,
    rounds=3,
)
