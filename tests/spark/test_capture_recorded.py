"""What Debezium really sent, through Spark: the logs equal the truth, and stop where no row is named any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture.facts import End
from cdcv2.core.antichain import Antichain
from cdcv2.errors import SourceStop
from tests.recorded import CHECKPOINTS, TABLES, checkpoint_time, content, dump, ends, facts, recipe, truth
from tests.spark.capturing import CaptureRun, dump_into, facts_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("run", "files"), [("crash_full", 6)])
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


def test_a_lost_end_takes_no_rows_with_it_unseen(spark: SparkSession, tmp_path: Path) -> None:
    """Of a transaction with rows, in another micro-batch than the next END: it stops before it, and does so again."""
    run = "clean_full"
    lost = 101816088
    capturing = CaptureRun(tmp_path, recipe(run))
    said = {record.position: fact for record, fact in facts(run)[f"{run}.transaction", 0]}
    [gone] = [position for position, fact in said.items() if isinstance(fact, End) and fact.lsn == lost]
    records = [record for record in list(dump(run).read())[:1600] if record.position != gone]
    # Never sent, that is, and not removed, which the offsets would show.
    records = [
        record._replace(offset=record.offset - 1) if record.topic == gone.place and record.offset > gone.offset
        else record for record in records
    ]
    dump_into(tmp_path / "topics", records, size=800)
    for _ in range(2):
        with pytest.raises(SourceStop, match=f"the END of transaction {ends(run)[lost]} is missing") as caught:
            capturing.run(spark)
        before = max(lsn for lsn in ends(run) if lsn < lost)
        assert Antichain([before + 1]) == caught.value.frontier
