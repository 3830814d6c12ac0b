"""What the driver of Delta tables keeps is read by Delta's own reader, on Spark, at one cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.materialize import MemoryRecoveryLog, Runtime
from cdcv2.testing import Workload

pytest.importorskip("deltalake")
pytestmark = pytest.mark.spark


def test_spark_reads_what_the_driver_keeps(spark: SparkSession, tmp_path: Path) -> None:
    """Sums, a multiset and rows by key, after appends and merges: all of them at the versions of one cut."""
    from cdcv2.materialize.targets.delta.driver import DeltaDriver, open_delta

    work, log = Workload(), MemoryRecoveryLog("m")
    Runtime("m", work.bindings, DeltaDriver(tmp_path / "tables"), work.source, log=log, rows=1).run()
    view = open_delta(tmp_path / "tables")
    seen = {}
    for name, table in view.manifest.tables.items():
        reader = spark.read.format("delta").option("versionAsOf", view.table(name).version())
        rows = [tuple(row) for row in reader.load(str(tmp_path / "tables" / name)).collect()]
        seen[name] = {row[: len(table.key)]: row[len(table.key):] for row in rows}
        assert len(rows) == len(seen[name])

    assert work.truth() == work.shown(seen)
