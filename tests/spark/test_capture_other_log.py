"""A directory log that was recreated under a capture's memory is not taken for the one that the memory is of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.errors import ForeignStateError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol import Progress
from tests.recorded import TABLES, dump, recipe
from tests.spark.capturing import CaptureRun, dump_into

pytestmark = pytest.mark.spark


def test_another_log_of_the_same_name_is_refused_and_a_copy_is_not(spark: SparkSession, tmp_path: Path) -> None:
    """However long it is; brought back, the capture goes on."""
    table, records = "public.orders", list(dump("clean_full").read())
    run = CaptureRun(tmp_path, recipe("clean_full"), files=None)
    dump_into(tmp_path / "topics", records[:2000], size=2000)
    run.run(spark)
    shutil.move(run.logs / table, tmp_path / "kept")
    other = DirectoryLog(run.logs / table, TABLES[table], create=True)
    for _ in range(30):
        other.send(Progress([0], [1]))
        other.flush()
    with pytest.raises(ForeignStateError, match="the memory is of another log .* remove the memory"):
        run.run(spark)

    shutil.rmtree(run.logs / table)
    shutil.copytree(tmp_path / "kept", run.logs / table)
    dump_into(tmp_path / "topics", records[2000:3000], size=1000)
    before = len(run.messages(table))
    run.run(spark)
    assert before < len(run.messages(table))
