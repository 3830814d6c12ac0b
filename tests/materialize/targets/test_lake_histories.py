"""Histories in a lake, as replay writes them, read without Spark. The folders were written by earlier releases."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcv2
from cdcv2.core.antichain import Antichain
from cdcv2.errors import (
    ForeignStateError, IncompleteError, MalformedError, MissingLogError, OutputError, RefusedError, UsageError,
)
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import Field, Open, Table
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake, read_lake
from cdcv2.materialize.targets.lake.files import rows_in
from cdcv2.materialize.targets.lake.history import TableHistory, written_columns
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.rows.columns import UpdateBatch
from cdcv2.rows.row_type import RowType
from tests.golden.output import BATCHES, GOLDEN, WIDE, wide

#: Written before manifests had a digest, and before they stated what is covered.
OLDEST = Path(__file__).resolve().parents[2] / "golden" / "spark" / "out"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations" / "on-spark.md"


def counts(table: Any) -> dict[int, int]:
    """How often each row is there, by its first column."""
    return dict(zip(table.column(0).to_pylist(), table["cdcv2_count"].to_pylist()))


@pytest.fixture()
def old(tmp_path: Path) -> Path:
    """An output of an earlier release, which may be written to."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "old"))


@pytest.mark.parametrize(
    ("at", "expected"),
    [(1, {1: 1, 2: 2}), ([2], {1: 1, 2: 2}), (2, {1: 2, 2: 2, 3: 1}), (3, {1: 2, 2: 2, 3: 1}), (4, {1: 2, 2: 1}),
     (Antichain([5]), {1: 2, 2: 1}), (None, {1: 2, 2: 1}), ([0], {})],
)  # fmt: skip
def test_an_earlier_output_is_read_at_any_time(at: Any, expected: dict[int, int]) -> None:
    """Its manifests build on others, and its batches are several files: every update up to then counts once."""
    assert expected == counts(read_lake(GOLDEN, "wide", at))


def test_rows_have_the_columns_of_the_row_type() -> None:
    """Of every type, under the names of the database, inside rows, too: as UpdateBatch has them."""
    read = read_lake(GOLDEN, "wide", 2)
    updates = [(WIDE.row(row), 0, diff) for batch in BATCHES[:3] for row, _, diff in batch.get("wide", ())]
    made = UpdateBatch.of(WIDE, updates)
    assert made is not None
    summed = made.consolidated(at=0)

    assert summed.rows.schema.names == read.schema.names[:-1]
    assert summed.rows.schema.types == read.schema.types[:-1]
    assert repr(summed.rows.to_pylist()) == repr(read.drop_columns(["cdcv2_count"]).to_pylist())
    assert math.isnan(read["size"][2].as_py()) and [2, 2, 1] == read["cdcv2_count"].to_pylist()


def test_a_file_is_written_as_spark_writes_it() -> None:
    """With columns of every type, under the names of Avro, inside rows, too: a lake may have files of both."""
    theirs = pq.read_table(LakeFolder(GOLDEN).file("wide", open_lake(GOLDEN).manifest.parts["wide"][0]))
    made = UpdateBatch.of(WIDE, [(WIDE.row(row), time, diff) for row, time, diff in BATCHES[1]["wide"]])
    assert made is not None
    ours = written_columns(made)

    assert ours.schema.equals(theirs.schema) and ["data", "time", "diff"] == ours.schema.names
    assert theirs.to_pylist() == ours.to_pylist()


def test_rows_within_a_map_or_a_list_have_the_names_of_avro_in_a_file() -> None:
    """However deep."""
    point = {"type": "record", "name": "p", "fields": [{"name": "x at", "type": "int"}]}
    fields = [{"name": "by name", "type": {"type": "map", "values": ["null", point]}},
              {"name": "ways", "type": {"type": "array", "items": {"type": "map", "values": "p"}}}]  # fmt: skip
    rows = RowType({"type": "record", "name": "t", "fields": fields})
    made = UpdateBatch.of(rows, [(rows.row(({"a": (1,), "b": None}, ({"c": (2,)},))), 3, 1)])
    assert made is not None
    written = written_columns(made)

    inner = pa.map_(pa.string(), pa.struct([("x_x0020_at", pa.int32())]))
    assert pa.struct([("by_x0020_name", inner), ("ways", pa.list_(inner))]) == written.schema.field("data").type
    (row,) = written["data"].to_pylist()
    assert {
        "by_x0020_name": [("a", {"x_x0020_at": 1}), ("b", None)], "ways": [[("c", {"x_x0020_at": 2})]],
    } == row  # fmt: skip


def test_the_oldest_output_is_read() -> None:
    """One whose manifests have no digest, and state nothing of what is covered."""
    view = open_lake(OLDEST)

    assert Antichain([121]) == view.frontier
    assert {1: 1, 2: 1, 3: 1} == counts(view.read("public.t"))
    with pytest.raises(UsageError, match="the history begins at 100"):
        view.read("public.t", 99)


def test_a_time_before_the_history_is_an_error() -> None:
    """In each of its tables: what was there then is not known."""
    for table in ("wide", "plain"):
        with pytest.raises(UsageError, match="nothing is known at time 0: the history begins at 1"):
            read_lake(GOLDEN, table, 0)


@pytest.mark.parametrize(
    ("table", "at", "error", "said"),
    [("wide", 5, RefusedError, "not complete through 5 yet (complete through 4)"),
     ("wide", [6], RefusedError, "not finished up to 6 yet, only up to 5"),
     ("wide", "now", UsageError, "'now' is no time: give a whole number"),
     ("late", 2, UsageError, "nothing is stated of late at 2"),
     ("uncovered", None, IncompleteError, "uncovered is not covered"),
     ("uncovered", 3, IncompleteError, "uncovered is not covered"),
     ("missing", None, MissingLogError, "has no table 'missing'; it has late, plain, uncovered, wide")],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error(table: str, at: Any, error: type[Exception], said: str) -> None:
    """Half a transaction is never shown, and an empty table is never an answer for one that is not known."""
    with pytest.raises(error, match=re.escape(said)):
        read_lake(GOLDEN, table, at)


def test_where_nothing_is_finished_there_is_no_last_table(tmp_path: Path) -> None:
    """That of a job which died before its first batch."""
    (tmp_path / "_manifests").mkdir()
    shutil.copy(GOLDEN / "_manifests" / f"{0:020d}.json", tmp_path / "_manifests")

    with pytest.raises(IncompleteError, match="no time is finished in wide yet"):
        read_lake(tmp_path, "wide")


def test_an_earlier_output_is_continued_in_the_format_of_a_lake(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next manifest adds to the old ones; one that lists all files needs them no more."""
    folder = LakeFolder(old)
    number, before = folder.last()
    assert before is not None
    for full in (False, True):
        monkeypatch.setattr(LakeFolder, "FULL", number + 1 if full else 64)
        (last,) = before.parts["plain"][-1:]
        (lower,) = before.frontier
        copy = TableFile(f"{last.name}-{number}", rows_in(folder.file("plain", last)), lower)
        rows = pq.read_table(folder.file("plain", last))
        rows = rows.set_column(1, "time", pa.array([lower] * len(rows), pa.int64()))
        pq.write_table(rows, folder.file("plain", copy))
        after = before.with_transaction(Range(), Antichain([lower + 1]), {"plain": [copy]})
        folder.append(number + 1, before, after)
        number, before = number + 1, after
        plain = folder._numbered.read(number)
        assert ("cdcv2 lake", 3, not full) == (plain["format"], plain["version"], "added_to" in plain)
        assert (number, after) == folder.last() == LakeFolder(old).last()
    assert {7: 3} == counts(read_lake(old, "plain"))
    assert {1: 2, 2: 1} == counts(read_lake(old, "wide"))


def test_of_two_that_continue_it_one_is_told(old: Path) -> None:
    """No run builds on what is not there any more."""
    folder = LakeFolder(old)
    number, before = folder.last()
    assert before is not None
    folder.append(number + 1, before, before.with_transaction(Range(), Antichain([9]), {}))

    with pytest.raises(RefusedError, match="another process works with the lake"):
        LakeFolder(old).append(number + 1, before, before)
    assert Antichain([9]) == open_lake(old).frontier


def test_no_materialization_takes_an_output_for_its_lake(old: Path) -> None:
    """Nor are files of the output orphans."""
    with pytest.raises(ForeignStateError, match="holds the lake of 'replay', not of 'shop'"):
        LakeDriver(old).open(Open("shop", (Table("t", (Field("id", "long"),), ()),)))

    assert [] == LakeFolder(old).orphans()


def test_a_lake_of_current_rows_has_no_earlier_ones(tmp_path: Path) -> None:
    """Its own frontier may be named: it is what it has."""
    table = Table("t", (Field("id", "long"),), ())
    LakeDriver(tmp_path).open(Open("shop", (table,)))

    assert 0 == read_lake(tmp_path, "t", [0]).num_rows
    with pytest.raises(RefusedError, match="is at 0, and keeps no earlier rows of t"):
        read_lake(tmp_path, "t", 3)
    with pytest.raises(MissingLogError, match="there is no lake"):
        read_lake(tmp_path / "none", "t")


def test_a_row_that_is_there_less_than_zero_times_is_an_error(old: Path) -> None:
    """The writer of the log is at fault: it is named, and not left out."""
    folder = LakeFolder(old)
    number, before = folder.last()
    assert before is not None
    parts = {**before.parts, "wide": before.parts["wide"][-1:]}
    # None: it names all its files, and builds on no other one.
    folder.append(number + 1, None, type(before)(**{**vars(before), "parts": parts}))

    with pytest.raises(MalformedError, match=f"id={wide(3)[0]}.* is in the table -1 times"):
        read_lake(old, "wide")


def test_of_a_file_only_the_updates_up_to_the_time_count(old: Path) -> None:
    """One batch may finish many times: at the first of them, its later updates are not there yet."""
    folder, part = LakeFolder(old), TableFile("made", 3, 5)
    updates = {"data": [{"id": 8}, {"id": 9}, {"id": 8}], "time": [5, 6, 8], "diff": [1, 1, -1]}
    data = pa.array(updates["data"], pa.struct([("id", pa.int32())]))
    path = folder.file("plain", part)
    pq.write_table(pa.table([data, updates["time"], updates["diff"]], ["data", "time", "diff"]), path)
    number, before = folder.last()
    assert before is not None
    folder.append(number + 1, before, before.with_transaction(Range(), Antichain([9]), {"plain": [part]}))

    assert [{7: 1, 8: 1}, {7: 1, 8: 1, 9: 1}, {7: 1, 9: 1}] == [counts(read_lake(old, "plain", at)) for at in (5, 6, 8)]


def test_a_file_that_is_gone_is_named(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a lake of current rows. It does not come back, so it is not waited for while the replay goes on."""
    part = open_lake(old).manifest.parts["wide"][0]
    LakeFolder(old).file("wide", part).unlink()
    opened = list[Path]()
    read = TableHistory.read

    def going_on(self: TableHistory, at: Any) -> Any:
        opened.append(self.folder.path)
        number, before = self.folder.last()
        assert before is not None and len(opened) < 9
        self.folder.append(number + 1, before, before.with_transaction(Range(), Antichain([number + 1]), {}))
        return read(self, at)

    monkeypatch.setattr(TableHistory, "read", going_on)
    with pytest.raises(OutputError, match="cannot be read: No such file"):
        read_lake(old, "wide")


def test_the_page_reads_an_output(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own lines of Python, but for folder, table and time."""
    (code,) = (one.split("```")[0] for one in PAGE.read_text("utf-8").split("```python\n")[1:])
    code = code.replace("/data/tables", str(old)).replace("public.orders", "wide").replace("35123056", "2")
    exec(compile(code, "on-spark.md", "exec"), {})

    assert ["2", "3"] == capsys.readouterr().out.splitlines()
    assert cdcv2.read_lake.__doc__
