"""What the driver of Delta tables keeps is read by Delta's own reader, on Spark, at one cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdcv2.embedded import jars
from cdcv2.embedded.java import SHORT_LIVED
from cdcv2.embedded.standalone import spark_environment
from cdcv2.materialize import MemoryRecoveryLog, Runtime
from cdcv2.testing import Workload

pytest.importorskip("deltalake")
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("jobs")]

READER = """
import json, sys
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[1]).config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.shuffle.partitions", "1").config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.driver.extraJavaOptions", sys.argv[3]).config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
found = {}
for table in sys.argv[4:]:
    name, _, version = table.partition("@")
    rows = spark.read.format("delta").option("versionAsOf", version).load(f"{sys.argv[2]}/{name}")
    found[name] = [[str(value) for value in row] for row in rows.collect()]
print(json.dumps(found))
"""


def test_spark_reads_what_the_driver_keeps(tmp_path: Path) -> None:
    """Sums, a multiset and rows by key, after appends and merges: all of them at the versions of one cut."""
    from cdcv2.materialize.drivers.delta import DeltaDriver, open_delta

    work = Workload()
    log = MemoryRecoveryLog("m")
    Runtime("m", work.bindings, DeltaDriver(tmp_path / "tables"), work.source, log=log, rows=1).run()
    view = open_delta(tmp_path / "tables")
    asked = [f"{name}@{view.table(name).version()}" for name in view.manifest.tables]
    command = [sys.executable, "-c", READER, jars.comma_list("delta"), str(tmp_path / "tables"), SHORT_LIVED, *asked]
    environment = {**os.environ, **spark_environment()}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300, check=False
    )
    assert 0 == run.returncode, run.stderr[-2000:]
    told = json.loads(run.stdout.splitlines()[-1])
    expected = {
        name: sorted([str(value) for value in (*key, *values)] for key, values in view.rows(name)) for name in told
    }

    assert work.truth() == work.shown({name: dict(view.rows(name)) for name in view.manifest.tables})
    assert {"account_now", "account_total", "entry_log"} == set(told)
    assert expected == {name: sorted(rows) for name, rows in told.items()}
