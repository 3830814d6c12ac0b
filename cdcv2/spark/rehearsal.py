"""What the jobs ask of Spark, small and all at once: run by ``spark-submit`` to load the classes for it.

``rehearsal.py FOLDER`` writes and reads Parquet there, groups, joins, maps by Python, and streams through a
foreachBatch function. See :mod:`cdcv2.servers.rehearse`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F


def _same(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    yield from batches


def _absorb(frame: DataFrame, batch: int) -> None:
    """As the reader takes a micro-batch: persisted, observed, grouped with what is collected, and counted."""
    seen = Observation()
    kept = frame.persist()
    kept.observe(seen, F.count("*").alias("rows")).groupBy("part").agg(
        F.min("id"), F.max("id"), F.collect_list(F.when(F.col("id") < 3, F.struct("id", "text")))
    ).collect()
    kept.mapInArrow(_same, kept.schema).write.mode("append").partitionBy("part").parquet(f"{sys.argv[1]}/stash-{batch}")
    kept.unpersist()


def main() -> None:
    """Run all of it once."""
    spark = SparkSession.builder.appName("rehearsal").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    folder = sys.argv[1]
    made = spark.range(100).selectExpr(
        "id", "id % 3 AS part", "CAST(id AS string) AS text", "CAST(CAST(id AS string) AS binary) AS value",
        "named_struct('a', id, 'b', array(CAST(id AS double)), 'c', map('k', id)) AS data",
    )
    made.repartition(2, "part").write.parquet(f"{folder}/rows")
    rows = spark.read.parquet(f"{folder}/rows").drop("data")
    stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").writeStream.foreachBatch(_absorb)
    query = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    rows.join(F.broadcast(rows.groupBy("part").count()), "part").orderBy("id").limit(3).collect()
    rows.join(rows.groupBy("id").agg(F.sum("part").alias("sum")), "id", "left_anti").union(rows).distinct().count()
    rows.rdd.getNumPartitions()
    spark.stop()


if __name__ == "__main__":
    main()
