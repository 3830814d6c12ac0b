"""The Spark session of a job: taken as ``spark-submit`` made it, checked, and tuned for one query only.

A job never sets a master, and changes no setting that its user can see: what it needs otherwise (no adaptive
execution inside small batches, as many shuffle partitions as cores) is set in the session that Spark clones for
each streaming query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from cdcv2.errors import UsageError

#: What a job needs on the driver's class path beyond Spark itself: class -> the jar that has it.
AVRO = ("org.apache.spark.sql.avro.functions", "spark-avro")
KAFKA = ("org.apache.spark.sql.kafka010.KafkaSourceProvider", "spark-sql-kafka-0-10")
# Loggers that print a failed query's stack trace, a hundred lines, before the job reports it in one.
_REPEATS = (
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
)


def session(name: str, *, spark_log: str = "ERROR") -> SparkSession:
    """The session of the job ``name``, with the settings of ``spark-submit``.

    Spark's own logging is cut down to ``spark_log``, as otherwise the job's lines would be lost in it.
    """
    spark = SparkSession.builder.appName(name).getOrCreate()
    spark.sparkContext.setLogLevel(spark_log)
    log4j = jvm(spark).org.apache.logging.log4j
    for place in _REPEATS:
        log4j.core.config.Configurator.setLevel(place, log4j.Level.OFF)
    return spark


@contextmanager
def ended(spark: SparkSession) -> Iterator[SparkSession]:
    """Stop Spark at the end of the block, so that executors end in an orderly way; also if its Java side has ended."""
    try:
        yield spark
    finally:
        with suppress(Py4JError, OSError):
            spark.stop()


def require(spark: SparkSession, *needs: tuple[str, str]) -> None:
    """Raise UsageError, with the remedy, unless Spark has the classes of AVRO or KAFKA."""
    missing = [artifact for class_name, artifact in needs if not _has_class(spark, class_name)]
    if missing:
        version = spark.version
        packages = ",".join(f"org.apache.spark:{artifact}_2.13:{version}" for artifact in missing)
        raise UsageError(
            f"Spark {version} was started without {' and '.join(missing)}: give spark-submit "
            f"--jars $(python -m cdcv2.servers.jars spark), or --packages {packages}"
        )


def tune(spark: SparkSession) -> SparkSession:
    """Set what suits micro-batches in a query's own session (``frame.sparkSession``), and return it."""
    # Re-planning between the stages of jobs this small costs more than it saves.
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    # Two columns that differ by case only are two columns.
    spark.conf.set("spark.sql.caseSensitive", "true")
    if spark.conf.get("spark.sql.shuffle.partitions") == "200":
        # Spark's default, so the user has not chosen it.
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    return spark


def jvm(spark: SparkSession) -> Any:
    """The driver's Java classes, by name. Raises UsageError under Spark Connect, which has none to offer."""
    view = getattr(spark, "_jvm", None)
    if view is None:
        raise UsageError("the jobs need a classic Spark session: start them by spark-submit, not by Spark Connect")
    return view


def _has_class(spark: SparkSession, name: str) -> bool:
    loader = jvm(spark).java.lang.Thread.currentThread().getContextClassLoader()
    resource = name.replace(".", "/") + ".class"
    return loader.getResource(resource) is not None
