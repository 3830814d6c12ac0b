"""How many changed rows a second come into PostgreSQL exactly once?

The baseline is the limit: COPY of the same rows into a table without an index, which is no view at all. The case beside
is what people do: INSERT ... ON CONFLICT DO UPDATE with psycopg's executemany (in its pipeline mode), in the same
transactions of 10,000, at least once and without deletes; and the same from Spark's foreachBatch, a Parquet file of
10,000 rows a micro-batch, read from where a stream of records would be decoded to. Two rows of five
change one that is there. Expected: half as fast as ON CONFLICT, as each key is looked up first; and so it was. Answer:
``results/materialize_postgres.csv``, from ``python -m benchmarks materialize_postgres``.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import uuid
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

from benchmarks.harness import Case, Question
from benchmarks.shop import BINDING, PLAN, Shop
from cdcv2.cli.main import main
from cdcv2.materialize import Runtime, Threaded
from cdcv2.materialize.targets.postgres.driver import PostgresDriver

PER_TRANSACTION = 10_000
_CREATE = "CREATE TABLE {} (id bigint{}, customer integer, total bigint, note text)"
_UPSERT = (
    "INSERT INTO orders VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "
    "SET customer = excluded.customer, total = excluded.total, note = excluded.note"
)
_PARQUET = pa.schema([("id", pa.int64()), ("customer", pa.int32()), ("total", pa.int64()), ("note", pa.string())])


def _spark() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = SparkSession.builder.master("local[2]").appName("benchmark").config("spark.ui.enabled", "false")
    spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    return spark.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def opened(seed: int, size: int) -> Shop:
    """The changes, their log, and a server."""
    shop = Shop.open(seed, size, PER_TRANSACTION).serve()
    shop.write()
    (shop.folder / "parquet").mkdir()
    for number, rows in enumerate(shop.rows):
        columns = [list(column) for column in zip(*rows)]
        pq.write_table(pa.table(columns, schema=_PARQUET), shop.folder / "parquet" / f"{number:04}.parquet")
    # Started here, as a job is that is at work: its start is not what is asked for.
    _spark().sparkContext.setLogLevel("ERROR")
    (shop.folder / "shop.yaml").write_text(PLAN + "target: {driver: postgres}\n", "utf-8")
    if shop.server is not None:
        os.environ.update(shop.server.environment)
    return shop


def closed(shop: Shop) -> None:
    """Stop Spark and the server."""
    _spark().stop()
    shop.close()


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


def from_spark(shop: Shop) -> None:
    """The same from Spark's foreachBatch."""
    with shop.connect() as session:
        session.execute(_CREATE.format("orders", " PRIMARY KEY"))
    spark = _spark()
    server = shop.server.environment if shop.server is not None else {}

    def upsert(rows: Iterable[Row]) -> None:
        import psycopg

        with psycopg.connect(
            host=server["PGHOST"], port=server["PGPORT"], user=server["PGUSER"], password=server["PGPASSWORD"],
            dbname=server["PGDATABASE"],
        ) as session:
            session.cursor().executemany(_UPSERT, rows)

    def batch(frame: DataFrame, number: int) -> None:
        frame.foreachPartition(upsert)

    files = spark.readStream.schema("id long, customer int, total long, note string").option("maxFilesPerTrigger", 1)
    query = files.parquet(str(shop.folder / "parquet")).writeStream.foreachBatch(batch).trigger(availableNow=True)
    query.option("checkpointLocation", str(shop.folder / "checkpoints" / uuid.uuid4().hex)).start().awaitTermination()


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
    baseline=Case("COPY into an unindexed table", copy, Shop.clean, check_copy),
    cases=[
        Case("INSERT ... ON CONFLICT, executemany", on_conflict, Shop.clean, check),
        Case("INSERT ... ON CONFLICT, Spark's foreachBatch", from_spark, Shop.clean, check),
        Case("materialize", materialize, Shop.clean, check),
        Case("cdcv2 materialize, from a log", command, Shop.clean, check),
    ],
    size=200_000,
    unit="changed rows",
    versions=["psycopg", "pyspark"],
    close=closed,
    rounds=3,
)
