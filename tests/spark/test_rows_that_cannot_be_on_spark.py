"""A table that was declared to have been empty, and was not, through Spark: a row that cannot be there stops it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.capture.memory import LogTail
from cdcv2.errors import SourceStop
from cdcv2.spark.capture.rows_store import CountedRows
from tests.cli.conftest import Run, runs
from tests.cli.test_command_capture_edges import BEGUN, NOTIFIED
from tests.cli.test_rows_that_cannot_be import COUNTED, INSERTED, REASON, insert
from tests.cli.test_rows_that_cannot_be import T as FIRST_OF_T
from tests.cli.test_uncovered import changed, end
from tests.spark.dumped import OnSpark
from tests.spark.test_bound_uncovered import Both

pytestmark = pytest.mark.spark
BEFORE = [*BEGUN, *COUNTED, *FIRST_OF_T]
#: What is deleted is sent again; then there is no row to change.
DELETED = [changed("d", insert(1, 7, 7, 1, 140)), changed("d", insert(2, 7, 7, 1, 140)), end(2, 7, 160, u=1)]
WRONG = [changed("u", insert(3, 7, 8, 1, 160)), end(3, 8, 180, u=1)]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""
    return runs(capsys)


def test_a_change_of_an_empty_table_stops_before_its_transaction(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """Rows are counted in a batch, from the saved state, and from the logs; a row that is sent twice counts once."""
    capture = OnSpark(run, tmp_path / "one", spark, *NOTIFIED)
    with pytest.raises(SourceStop, match=f"transaction 8 {REASON}0 rows"):
        capture.job([*BEFORE, *INSERTED, *DELETED, *WRONG])
    capture = OnSpark(run, tmp_path / "two", spark, *NOTIFIED)
    capture.job(BEFORE, INSERTED)
    assert [7] == capture.held("u")
    capture.job([*BEFORE, *INSERTED], DELETED)
    for _ in range(2):
        with pytest.raises(SourceStop, match=f"transaction 8 {REASON}0 rows"):
            capture.job([*BEFORE, *INSERTED, *DELETED], WRONG)
        assert ([1, 3, 10], []) == (capture.held(), capture.held("u"))
        capture.lost()
    stopped = capture([*BEFORE, *INSERTED, *DELETED, *WRONG], *NOTIFIED, tables="tu")
    assert f"transaction 8 {REASON}0 rows" in stopped.err


def test_on_a_remap_it_stops_so_too(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """What others have captured is counted by the logs."""
    capture = Both(run, tmp_path)
    capture.job(spark, [*BEFORE, *INSERTED])
    assert 0 == capture([*BEFORE, *INSERTED, *DELETED], *NOTIFIED, tables="tu").code
    with pytest.raises(SourceStop, match=f"transaction 8 {REASON}0 rows"):
        capture.job(spark, [*BEFORE, *INSERTED, *DELETED, *WRONG])
    assert ([1, 3, 10], []) == (capture.held(), capture.held("u"))


def test_a_row_that_is_counted_again_is_no_other_one() -> None:
    """Of the rows of a transaction the inserts are counted, less the deletes."""
    rows, place = CountedRows(("t",)), ("topic", 0)
    assert (3, 3, 1) == rows.keep("t", 7, None, place, (0, 2), [1, 2, 3], [], "cuu")
    assert (4, 4, 0) == rows.keep("t", 7, None, place, (1, 3), [3, 4], [], "ud")
    assert rows.keep("t", 7, None, place, (4, 4), [1], [], "c") is None


def test_a_tail_of_before_has_no_number_of_rows() -> None:
    """Such a log is read from its start."""
    plain = LogTail(5, {0: 3}, {"0": "x"}, 2).to_plain()
    assert (2, None) == (LogTail.from_plain(plain).rows, LogTail.from_plain({**plain, "rows": None}).rows)
    assert LogTail.from_plain({name: value for name, value in plain.items() if name != "rows"}).rows is None
