"""Delta tables whose transactions are merged by Delta on Spark: the same commits as the driver's, by executors.

A transaction's staged files are MERGEd by key, with its number as Delta's ``txnAppId`` and ``txnVersion``: a table that
has it is not changed again. Whether it has, and which version is the cut's, is read from the table's log as ever
(:func:`cdcv2.materialize.targets.delta.tables.commit`), so the two ways of committing may take turns.
"""

from __future__ import annotations

import json

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import UsageError
from cdcv2.materialize.protocol.messages import Table
from cdcv2.materialize.targets.delta.manifest import DeltaFolder, TableVersion, TransactionFiles
from cdcv2.materialize.targets.delta.tables import Commit, app, commit, opened, quoted, sync, unusable
from cdcv2.materialize.targets.lake.files import GONE
from cdcv2.spark.paths import readable, writable
from cdcv2.spark.session import tune

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_STAGED = "cdcv2_staged"


def committer(spark: SparkSession) -> Commit:
    """What commits by way of this Spark. Raises UsageError for one without Delta, or that Delta does not work with."""
    conf = spark.sparkContext.getConf()
    if EXTENSION not in (conf.get("spark.sql.extensions") or ""):
        raise UsageError(
            "--merge-on-spark needs Delta on Spark: give spark-submit the jars of python -m cdcv2.servers.jars delta "
            f"besides, --conf spark.sql.extensions={EXTENSION} and --conf spark.sql.catalog.spark_catalog={CATALOG}"
        )
    if not spark.version.startswith("4.2."):
        raise UsageError(
            f"--merge-on-spark works with Spark 4.2, as Delta 4.4 does, and this is {spark.version}: take Spark 4.2, "
            "or leave the option out, and Delta is written without Spark"
        )
    # Of its own, since Delta learns of a transaction by settings.
    session = tune(spark.newSession())
    # Otherwise a moment is written as nanoseconds (INT96), and readers other than Spark find another one for those
    # before 1677 and after 2262.
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    if conf.get("spark.databricks.delta.snapshotPartitions") is None:
        session.conf.set("spark.databricks.delta.snapshotPartitions", str(spark.sparkContext.defaultParallelism))

    def merged(
        folder: DeltaFolder, table: Table, files: TransactionFiles, number: int, materialization: str, upper: Antichain
    ) -> TableVersion | None:
        place, name = folder.table(table.name), app(materialization)
        for _ in range(3):
            found = opened(place)
            last, before = found.transaction_version(name), found.version()
            if last is not None and last >= number:
                break
            session.conf.set("spark.databricks.delta.write.txnAppId", name)
            session.conf.set("spark.databricks.delta.write.txnVersion", str(number))
            session.conf.set(
                "spark.databricks.delta.commitInfo.userMetadata", json.dumps({"cdcv2.upper": upper.to_plain()})
            )
            try:
                rows = session.read.parquet(*(readable(folder.staged(one)) for one in files.names))
                rows.createOrReplaceTempView(_STAGED)
                session.sql(_merge(writable(place), table)).collect()
            except (PySparkException, Py4JError) as cause:
                if opened(place).version() == before:
                    line = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
                    raise unusable(place, "written", line) from cause
                # Somebody was faster, with this transaction or with maintenance: look again.
        after = opened(place)
        if after.transaction_version(name) == number:
            sync(place, after.version())
            return TableVersion(after.version(), number)
        # Others have continued, or always come in between: the rule of whom to believe is in one place.
        return commit(folder, table, files, number, materialization, upper)

    return merged


def _merge(path: str, table: Table) -> str:
    key, values = [quoted(one.name) for one in table.key], [quoted(one.name) for one in table.values]
    same = " AND ".join(f"t.{one} = s.{one}" for one in key)
    changed = ", ".join(f"t.{one} = s.{one}" for one in values)
    every = [*key, *values]
    return (
        f"MERGE INTO delta.{quoted(path)} AS t USING {_STAGED} AS s ON {same} "
        f"WHEN MATCHED AND s.{GONE} THEN DELETE "
        + (f"WHEN MATCHED THEN UPDATE SET {changed} " if changed else "")
        + f"WHEN NOT MATCHED AND NOT s.{GONE} THEN INSERT ({', '.join(every)}) "
        f"VALUES ({', '.join(f's.{one}' for one in every)})"
    )
