"""How does the materialize job compare with a Spark job that upserts the same topic into the same PostgreSQL?

The baseline is what one would write without guarantees: each micro-batch is decoded with ``from_avro``, the last row of
each key is kept, and executors COPY them to a temporary table and INSERT ... ON CONFLICT from there, each its share of
the keys in a transaction of its own: no counts, no frontier, no deletes, no checkpoint, and a view that shows half of a
transaction. The case is the job: the stash, the frontier, and a transaction a micro-batch. CPU counts all children:
Spark's JVM and Python workers, the broker, and the sessions of PostgreSQL. Two rounds by default, as one takes a
minute. Expected: twice the CPU, as rows go through the stash and are shuffled once more. Found: 3.7 times.
Answer: ``results/spark_materialize.csv``, from ``python -m benchmarks spark_materialize``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from benchmarks.harness import Case, Question
from benchmarks.shop import ORDERS, Shop
from benchmarks.stage import Stage
from cdcv2.control.materialization_file import read_plan
from cdcv2.logs.avro import MessageCodec
from cdcv2.materialize.distributed import DistributedRuntime
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.spark.materialize import exit_code, parser, planned, views_of
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import replay

PER_TRANSACTION, PER_MESSAGE = 1_000, 100
#: Kafka messages in one micro-batch, for both
BATCH = 1_000
PLAN = """
materialization: shop
logs: {{orders: {{kafka: orders, row: orders.avsc}}}}
kafka: {{bootstrap: "{bootstrap}"}}
bindings: [{{log: orders, target: orders, key: [id]}}]
target: {{driver: postgres}}
"""
_CREATE = "CREATE TABLE orders (id bigint PRIMARY KEY, customer integer, total bigint, note text)"
_UPSERT = (
    "INSERT INTO orders SELECT * FROM changed ON CONFLICT (id) DO UPDATE "
    "SET customer = excluded.customer, total = excluded.total, note = excluded.note"
)


@dataclass
class Both:
    """A broker with Spark, and the orders with their PostgreSQL."""

    stage: Stage
    shop: Shop

    def clean(self) -> None:
        """No table, no checkpoint."""
        self.shop.clean()

    def close(self) -> None:
        """Stop everything."""
        self.stage.close()
        self.shop.close()


def messages(shop: Shop) -> Iterator[Message]:
    """The log: updates in small messages, a statement a transaction."""
    for cut in shop.cuts:
        updates = cut.updates["orders"]
        for at in range(0, len(updates), PER_MESSAGE):
            yield Updates(updates[at:at + PER_MESSAGE])
        yield Progress(cut.lower, cut.upper, {updates[0][1]: len(updates)})


def opened(seed: int, size: int) -> Both:
    """The topic ``orders``, and an empty server."""
    shop, codec = Shop.open(seed, size, PER_TRANSACTION).serve(), MessageCodec(ORDERS)
    if shop.server is not None:
        # Before Spark starts its workers, which connect as the driver does.
        os.environ.update(shop.server.environment)
    both = Both(Stage.open(), shop)
    stage = both.stage
    stage.topic(1, "orders")
    stage.fill(("orders", 0, None, codec.encode(one)) for one in messages(both.shop))
    (stage.folder / "orders.avsc").write_text(json.dumps(ORDERS.schema), "utf-8")
    (stage.folder / "shop.yaml").write_text(PLAN.format(bootstrap=stage.broker.bootstrap), "utf-8")
    return both


def _upserted(rows: Iterable[Row]) -> None:
    import psycopg

    with psycopg.connect("") as session:
        session.execute("CREATE TEMP TABLE changed (id bigint, customer integer, total bigint, note text)")
        with session.cursor().copy("COPY changed FROM STDIN") as copying:
            for row in rows:
                copying.write_row(tuple(row))
        session.execute(_UPSERT)
        session.commit()


def upserts(both: Both) -> None:
    """Kafka -> from_avro -> the last row of each key -> COPY and INSERT ... ON CONFLICT, by the executors."""
    stage = both.stage
    with both.shop.connect() as session:
        session.execute(_CREATE)
        session.commit()
    fields = [{"name": "message", "type": MessageCodec(ORDERS).schema}]
    envelope = json.dumps({"type": "record", "name": "envelope", "fields": fields})

    def upsert(frame: DataFrame, number: int) -> None:
        updates = (
            frame.select(from_avro("value", envelope).alias("it"))
            .select(F.explode("it.message.member0").alias("update"))
            .where("update.diff > 0")
        )
        last = updates.groupBy("update.data.id").agg(F.max_by("update.data", "update.time").alias("row"))
        last.select("row.*").foreachPartition(_upserted)

    query = stage.stream("orders", records=BATCH).writeStream.foreachBatch(upsert)
    query = query.option("checkpointLocation", f"{stage.fresh()}-at").trigger(availableNow=True)
    query.start().awaitTermination()


def job(both: Both) -> None:
    """The materialize job."""
    stage = both.stage
    given = read_plan(str(stage.folder / "shop.yaml"))
    words = ["shop.yaml", "--state", str(stage.fresh()), "--no-follow", "--max-records", str(BATCH)]
    plan = planned(given, parser().parse_args(words))
    runtime = DistributedRuntime(given.name, given.bindings, given.driver(), log=given.recovery(), start=[given.start])
    try:
        reader = replay(
            stage.spark, plan, ProgressLines.standard(job="materialize"), signals=False,
            target=lambda: views_of(given, runtime),
        )  # fmt: skip
        exit_code(given, runtime, reader)
    finally:
        runtime.close()


def check(both: Both) -> None:
    """The view is what it should be."""
    with both.shop.connect() as session:
        both.shop.check(session.execute("SELECT * FROM orders").fetchall())


def children_cpu(both: Both) -> float:
    """CPU seconds so far of all processes below this one, ended ones that were waited for too, and of PostgreSQL."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            numbers = place.read_text("utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        parents[int(place.parent.name)] = int(numbers[1])
        ticks[int(place.parent.name)] = sum(map(int, numbers[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    below = sum(ticks[pid] for pid in ours - {os.getpid()})
    server: Any = both.shop.server
    apart = 0.0 if server is None or server.pid in ours else both.shop.server_cpu()
    return below / os.sysconf("SC_CLK_TCK") + apart


QUESTION = Question(
    prepare=opened,
    baseline=Case("Kafka to PostgreSQL, COPY to temp + INSERT ON CONFLICT on executors", upserts, Both.clean, check),
    cases=[Case("materialize job", job, Both.clean, check)],
    size=200_000,
    unit="changed rows",
    versions=("pyspark", "confluent-kafka", "psycopg"),
    close=Both.close,
    servers=children_cpu,
    rounds=2,
    warm_up=1,
)
