"""The output of replay: its own upper, what readers of it see, and the numbered files beneath."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdcv2 import failpoints
from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    ForeignStateError, IncompleteError, MalformedError, OutputError, RefusedError, UsageError,
)
from cdcv2.logs.coverage import TableCoverage
from cdcv2.protocol import Update
from cdcv2.rows.row_type import RowType
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.materialize.targets.lake.view import open_lake, read_lake
from cdcv2.spark.output import OutputFolder, as_of, history
from cdcv2.spark.schema import updates_type
from cdcv2.store.numbered import NumberedFiles, local_path
from tests.golden import output as golden
from tests.spark.replaying import PLAIN

pytestmark = pytest.mark.spark

A, B = PLAIN.row([1, "a"]), PLAIN.row([2, None])
START = Antichain([0])


def frame(spark: SparkSession, updates: list[Update], row_type: RowType = PLAIN) -> DataFrame:
    """Updates as the reader gives them."""
    return spark.createDataFrame([(tuple(data), time, diff) for data, time, diff in updates], updates_type(row_type))


def shown(rows: DataFrame) -> list[tuple[object, ...]]:
    """Rows as sorted tuples."""
    return sorted((tuple(row) for row in rows.collect()), key=repr)


@pytest.fixture(scope="module")
def moved(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output in which a is there from 1 on, twice from 2 on, and not from 5 on; b is there from 3 on."""
    folder = tmp_path_factory.mktemp("moved")
    made = OutputFolder(folder, {"things": PLAIN, "none": PLAIN}, START)
    made.apply({"things": frame(spark, [(A, 1, 1), (A, 2, 1)])}, START, Antichain([3]))
    made.apply({"things": frame(spark, [(B, 3, 1), (A, 5, -2)])}, Antichain([3]), Antichain([7]))
    return folder


@pytest.mark.parametrize(
    ("frontier", "expected"),
    [([0], []), ([1], []), (1, [(1, "a", 1)]), ([2], [(1, "a", 1)]), (2, [(1, "a", 2)]), ([3], [(1, "a", 2)]),
     (4, [(1, "a", 2), (2, None, 1)]), (Antichain([5]), [(1, "a", 2), (2, None, 1)]), (5, [(2, None, 1)]),
     (6, [(2, None, 1)]), ([7], [(2, None, 1)]), (None, [(2, None, 1)])],
)
def test_a_table_is_read_as_of_any_finished_frontier(frontier, expected, spark: SparkSession, moved: Path) -> None:
    """The sum of the updates up to and including a time, or not beyond a frontier, whichever batches brought them."""
    assert expected == shown(as_of(spark, moved, frontier, table="things"))


def test_rows_can_be_repeated_instead_of_counted(spark: SparkSession, moved: Path) -> None:
    """So that sums over a column are those of the table."""
    rows = as_of(spark, moved, 2, table="things", multiplicity=None)

    assert (["id", "note"], [(1, "a"), (1, "a")]) == (rows.columns, shown(rows))


def test_a_table_without_rows_is_as_finished_as_the_others(spark: SparkSession, moved: Path) -> None:
    """It has no files, and a schema."""
    rows = as_of(spark, moved, 6, table="none")

    assert ([], ["id", "note", "multiplicity"]) == (shown(rows), rows.columns)


def test_a_time_before_the_history_is_an_error_in_each_of_its_tables(spark: SparkSession, moved: Path) -> None:
    """It does not know what was there then. A frontier is what it is."""
    for table in ("things", "none"):
        with pytest.raises(UsageError, match="nothing is known at time 0: the history begins at 1"):
            as_of(spark, moved, 0, table=table)
    assert [] == shown(as_of(spark, moved, [0], table="things"))
    begun = OutputFolder(moved.parent / "begun", {"things": PLAIN}, Antichain([5]))
    begun.apply({"things": frame(spark, [(A, 7, 1)])}, Antichain([5]), Antichain())
    with pytest.raises(UsageError, match="the history begins at 5"):
        history(spark, moved.parent / "begun", 4)
    with pytest.raises(UsageError, match="the history begins at 7"):
        history(spark, moved.parent / "begun", 6)
    assert 1 == history(spark, moved.parent / "begun", 2**63 - 1).count()


@pytest.mark.parametrize("starts", [{}, {"things": 9}])
def test_an_output_in_which_nothing_is_finished_has_no_last_table(starts: dict[str, int], tmp_path: Path) -> None:
    """That of a job which died before its first cut: an empty table would be an answer. Asked before anything is read.

    So it is where the others have come to where the log of a table begins, and no further.
    """
    made = OutputFolder(tmp_path, {"things": PLAIN}, Antichain([5]), TableCoverage((), starts))
    made.begin()
    if starts:
        made.apply({}, Antichain([5]), Antichain([9]))
    with pytest.raises(IncompleteError, match="no time is finished in things yet: let the replay continue"):
        as_of(None, tmp_path)


@pytest.mark.parametrize("frontier", [7, [8], Antichain()])
def test_an_unfinished_frontier_is_refused_and_the_finished_one_named(frontier, spark, moved: Path) -> None:
    """Half a transaction is never shown."""
    with pytest.raises(RefusedError, match=r"only up to 7|not complete through 7 yet \(complete through 6\)"):
        as_of(spark, moved, frontier, table="things")


@pytest.mark.parametrize("at", ["now", "0/217EF70", "2026-11-23T01:04:00Z", b"7", 7.5, True])
def test_a_time_that_is_no_number_is_refused_with_what_is_one(at: Any, tmp_path: Path) -> None:
    """A text was taken for a list of letters. Asked before anything is read."""
    for read in (as_of, history):
        with pytest.raises(UsageError, match="is no time: give a whole number"):
            read(None, tmp_path, at)


def test_a_wrong_name_is_refused_with_the_right_ones(spark: SparkSession, moved: Path) -> None:
    """Of a table, and of the column that shall hold the multiplicity."""
    with pytest.raises(UsageError, match="none, things"):
        as_of(spark, moved, table="thing")
    with pytest.raises(UsageError, match="none, things"):
        as_of(spark, moved)
    with pytest.raises(UsageError, match="column 'note' of its own"):
        as_of(spark, moved, table="things", multiplicity="note")


def test_a_negative_multiplicity_is_an_error_that_names_the_row(spark: SparkSession, tmp_path: Path) -> None:
    """A table cannot hold a row minus once; at a frontier where it does not, the same output reads well."""
    made = OutputFolder(tmp_path, {"things": PLAIN}, START)
    made.apply({"things": frame(spark, [(A, 1, -1), (A, 2, 1)])}, START, Antichain([3]))

    assert [] == shown(as_of(spark, tmp_path, 2))
    with pytest.raises(MalformedError, match=r"Row\(id=1, note='a'\) is in the table -1 times"):
        as_of(spark, tmp_path, 1)


def test_only_what_is_beyond_the_upper_is_applied(spark: SparkSession, tmp_path: Path) -> None:
    """The same history in other pieces, again and again, adds nothing twice."""
    made = OutputFolder(tmp_path, {"things": PLAIN}, START)
    everything = frame(spark, [(A, 1, 1), (B, 4, 1)])
    assert {"things": 1} == made.apply({"things": everything.where("time < 2")}, START, Antichain([2]))

    assert {"things": 1} == made.apply({"things": everything}, START, Antichain([5]))
    assert {} == made.apply({"things": everything}, START, Antichain([3]))
    assert {} == made.apply({"things": everything.where("time < 2")}, Antichain([1]), Antichain([6]))

    assert [1, 4] == sorted(row["time"] for row in history(spark, tmp_path).collect())
    assert Antichain([6]) == open_lake(tmp_path).frontier


def test_a_gap_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that begins ahead of the upper has left something out."""
    made = OutputFolder(tmp_path, {"things": PLAIN}, START)

    with pytest.raises(RefusedError, match="everything up to 3, and the output in .* has it only up to 0"):
        made.apply({"things": frame(spark, [(A, 3, 1)])}, Antichain([3]), Antichain([4]))


def test_a_manifest_now_and_then_lists_all_files(spark: SparkSession, tmp_path: Path, monkeypatch) -> None:
    """Each lists what is new since the last that lists all, so none grows for ever, and all files are found."""
    monkeypatch.setattr(LakeFolder, "FULL", 3)
    made = OutputFolder(tmp_path, {"things": PLAIN}, START)
    for time in range(4):
        made.apply({"things": frame(spark, [(A, time, 1)])}, Antichain([time]), Antichain([time + 1]))
    again = OutputFolder(tmp_path, {"things": PLAIN}, START)
    again.apply({"things": frame(spark, [(A, 4, 1)])}, Antichain([4]), Antichain([5]))

    assert [0, 1, 2, 3, 4] == [part.lower for part in open_lake(tmp_path).manifest.parts["things"]]
    assert [0, 1, 2, 3, 4] == sorted(row["time"] for row in history(spark, tmp_path).collect())
    numbered = NumberedFiles(tmp_path / "_manifests", "the output")
    listed = [numbered.read(number)["files"].get("things", ()) for number in numbered.numbers()]
    assert [0, 1, 1, 3, 1, 1] == [*map(len, listed)]


def test_an_earlier_output_is_continued_by_one_put(spark: SparkSession, tmp_path: Path) -> None:
    """A crash before it leaves what was there; behind it, what came is there, too. As ever on Spark, as without it."""
    folder = Path(shutil.copytree(golden.GOLDEN, tmp_path / "old"))
    covered = TableCoverage(("uncovered",), {"late": 3})
    row, before = golden.wide(1), golden.wide(2)
    for step, at in (("output.after-files", 5), ("output.after-manifest", 6)):
        made = OutputFolder(folder, golden.TABLES, START, covered)
        new = frame(spark, [(row, 5, -1), (before, 5, 4)], golden.WIDE)
        with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash, match=step):
            made.apply({"wide": new}, Antichain([5]), Antichain([6]))
        assert Antichain([at]) == open_lake(folder).frontier

    made = OutputFolder(folder, golden.TABLES, START, covered)
    assert {} == made.apply({"wide": new}, Antichain([5]), Antichain([6]))
    for at, expected in ((2, [2, 2, 1]), (4, [2, 1]), (5, [1, 5])):
        read, shown_on_spark = read_lake(folder, "wide", at), as_of(spark, folder, at, table="wide")
        assert read.column_names[:-1] == shown_on_spark.columns[:-1]
        assert expected == read.sort_by("id")["cdcv2_count"].to_pylist()
        assert expected == [row["multiplicity"] for row in shown_on_spark.orderBy("id").collect()]


def test_columns_are_called_as_in_the_database(spark: SparkSession, tmp_path: Path) -> None:
    """Avro cannot hold every name; readers need not know."""
    odd = RowType({"type": "record", "name": "odd", "fields": [
        {"name": "unit price", "type": "long"}, {"name": "Id", "type": "long"}, {"name": "time", "type": "long"}]})
    OutputFolder(tmp_path, {"odd": odd}, START).apply(
        {"odd": frame(spark, [((7, 1, 9), 0, 1)], odd)}, START, Antichain([1])
    )

    assert ["unit price", "Id", "time", "multiplicity"] == as_of(spark, tmp_path).columns
    assert [(7, 1, 9, 1)] == shown(as_of(spark, tmp_path))


def test_a_number_is_put_once(tmp_path: Path) -> None:
    """Of two that put it the second gets an error, and the value stays that of the first."""
    one, two = NumberedFiles(tmp_path / "n", "the state"), NumberedFiles(tmp_path / "n", "the state")
    one.put(1, {"who": "one"})

    with pytest.raises(RefusedError, match="number 1 before us"):
        two.put(1, {"who": "two"})
    assert {"who": "one"} == two.read(1)
    assert [path.name for path in (tmp_path / "n").iterdir()] == [f"{1:020d}.json"]


def test_a_number_that_was_removed_since_is_not_free(tmp_path: Path) -> None:
    """A process that slept meanwhile finds its own number free again, and must not put it."""
    numbered = NumberedFiles(tmp_path, "the state")
    for number in range(1, 6):
        numbered.put(number, {})
    numbered.prune(4)
    assert [4, 5] == numbered.numbers()

    with pytest.raises(RefusedError, match="number 2 before us"):
        numbered.put(2, {})
    assert [4, 5] == numbered.numbers()
    numbered.prune(9)
    assert [5] == numbered.numbers()


def test_a_damaged_manifest_is_said_to_be_so(tmp_path: Path) -> None:
    """It is not taken for an empty one."""
    numbered = NumberedFiles(tmp_path, "the state")
    (tmp_path / f"{1:020d}.json").write_text("{")
    (tmp_path / f"{2:020d}.json").write_text("[]")

    for number in (1, 2):
        with pytest.raises(ForeignStateError, match="damaged"):
            numbered.read(number)
    with pytest.raises(OutputError, match="cannot be read"):
        numbered.read(3)


@pytest.mark.parametrize("path", ["s3a://bucket/out", "hdfs://host/out"])
def test_a_file_system_without_put_if_absent_is_refused_by_name(path: str) -> None:
    """Better than to lose what two processes write."""
    with pytest.raises(UsageError, match=path.partition(":")[0]):
        local_path(path)
