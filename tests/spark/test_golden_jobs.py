"""What jobs of earlier versions left is continued: see tests/golden/spark.py."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.core.antichain import Antichain
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.output import as_of
from cdcv2.spark.progress import ProgressLines
from tests.golden import spark as golden

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("before", ["from-envelope", "from-state"])
def test_jobs_go_on_with_what_earlier_ones_left(spark: SparkSession, tmp_path: Path, before: str) -> None:
    """Memory of a capture in the middle of a transaction, which both kinds take; states and checkpoints of readers."""
    folder, said = golden.placed(tmp_path / "jobs"), io.StringIO()
    assert Antichain([121]) == open_lake(folder / "out").frontier
    golden.arrange(folder, golden.REST, 1)
    golden.capture(spark, folder, before, CaptureReport(people=said))
    assert "all through 120 is in the logs; resumes from its memory" in said.getvalue()
    assert all(int(number) < len(golden.FIRST) for number in re.findall(r"read (\d+) records", said.getvalue()))
    if before == "from-state":
        return
    golden.replay(spark, folder, ProgressLines(people=said))
    assert Antichain([141]) == open_lake(folder / "out").frontier
    for table, ids in (("public.t", [1, 2, 3, 4]), ("public.u", [7, 8, 9])):
        assert ids == sorted(row["id"] for row in as_of(spark, folder / "out", table=table).collect())
    golden.views(spark, folder, ProgressLines(people=said))
    lake = open_lake(folder / "lake")
    assert Antichain([141]) == lake.frontier
    assert ([(1,), (2,), (3,), (4,)], [(7,), (8,), (9,)]) == tuple(sorted(dict(lake.rows(name))) for name in "tu")
