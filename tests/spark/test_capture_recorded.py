"""What Debezium really sent, through Spark: the logs equal the truth, and stop where no row is named any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from tests.recorded import CHECKPOINTS, TABLES, checkpoint_time, content, dump, recipe, truth
from tests.spark.capturing import CaptureRun, dump_into, facts_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("run", "files"), [("clean_full", 5), ("crash_full", 6)])
def test_the_logs_equal_the_truth_at_nine_checkpoints(
    run: str, files: int, spark: SparkSession, tmp_path: Path
) -> None:
    """In several micro-batches, with rows sent again; the TRUNCATE stops it, all before it is complete."""
    capturing = CaptureRun(tmp_path, recipe(run))
    records = list(dump(run).read())
    dump_into(tmp_path / "topics", records, size=len(records) // files + 1)
    with pytest.raises(SourceStop, match="was truncated in transaction") as caught:
        capturing.run(spark)
    times = [checkpoint_time(run, tag) for tag in CHECKPOINTS]
    logs = {table: capturing.messages(table) for table in TABLES}
    for table in TABLES:
        assert [truth(run, tag, table) for tag in CHECKPOINTS] == content(logs[table], table, *times), table
    assert {caught.value.frontier} == {frontier for _, frontier in facts_of(logs).values()}
    assert isinstance(caught.value.frontier, Antichain)
