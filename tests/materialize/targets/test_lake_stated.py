"""A file of a lake that is not what its manifest states is an error that names it, for every reader."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

from cdcv2.core.antichain import Antichain  # noqa: E402
from cdcv2.errors import OutputError  # noqa: E402
from cdcv2.materialize import MemoryRecoveryLog, Runtime, ViewBinding  # noqa: E402
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake, read_lake  # noqa: E402
from cdcv2.materialize.targets.lake.files import DIFF  # noqa: E402
from cdcv2.protocol.timeline import Cut  # noqa: E402
from cdcv2.rows.row_type import RowType  # noqa: E402
from tests.golden.output import GOLDEN  # noqa: E402

ROWS = RowType({"type": "record", "name": "r", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": "string"}]})


def view(folder: Path, key: tuple[str, ...], cuts: int = 2) -> None:
    """A lake with a file for each of some commits, and a second table of other columns with as many rows."""
    given = [
        Cut({"rows": [(ROWS.row([number, "x"]), number, 1)]}, Antichain([number]), Antichain([number + 1]))
        for number in range(cuts)
    ]
    bindings = [ViewBinding("rows", ROWS, "t", key), ViewBinding("rows", ROWS, "u", ("note", "id"))]
    Runtime("m", bindings, LakeDriver(folder), lambda _: given, log=MemoryRecoveryLog("m"), rows=1).run()


def cut(files: list[Path]) -> None:
    """It lacks a row."""
    pq.write_table(pq.read_table(files[0]).slice(1), files[0])


def grown(files: list[Path]) -> None:
    """A row is there twice."""
    rows = pq.read_table(files[0])
    pq.write_table(pa.concat_tables([rows, rows]), files[0])


def swapped(files: list[Path]) -> None:
    """Two files of as many rows have each other's name."""
    spare = files[0].with_name("spare")
    files[0].rename(spare)
    files[-1].rename(files[0])
    spare.rename(files[-1])


def foreign(files: list[Path]) -> None:
    """A file of another program, with as many rows."""
    pq.write_table(pa.table({"other": list(range(pq.read_metadata(files[0]).num_rows))}), files[0])


DAMAGES = {cut: "has . rows, and its manifest states", grown: "has . rows, and its manifest states",
           swapped: "is the file [0-9a-f]{32}", foreign: "has the columns other, and its manifest states"}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("key", [("id",), ("id", "note"), ()], ids=["key", "keys", "multiset"])
def test_a_file_of_current_rows_is_that_of_the_manifest(
    tmp_path: Path, key: tuple[str, ...], damage: Callable[[list[Path]], None]
) -> None:
    """For readers of the table, and for the next transaction; the other table is read."""
    view(tmp_path, key)
    found = open_lake(tmp_path)
    files = [found.folder.file("t", part) for part in found.manifest.parts["t"]]
    assert 2 == len(files) and read_lake(tmp_path, "t").schema.metadata is None
    damage(files)

    for read in (lambda: read_lake(tmp_path, "t"), lambda: list(open_lake(tmp_path).rows("t"))):
        with pytest.raises(OutputError, match=f"the lake's file .*/t/.*{DAMAGES[damage]}.* Restore it"):
            read()
    with pytest.raises(OutputError, match=DAMAGES[damage]):
        if key:
            list(found.look("t", [(0, "x")[: len(key)]]))
        else:
            found.like("t", pa.table({"id": [0], "note": ["x"], DIFF: [1]}))
    assert 2 == read_lake(tmp_path, "u").num_rows


def test_a_file_that_does_not_have_its_name_is_read(tmp_path: Path) -> None:
    """An earlier release did not put it there."""
    view(tmp_path, ("id",))
    found = open_lake(tmp_path)
    for part in found.manifest.parts["t"]:
        path = found.folder.file("t", part)
        pq.write_table(pq.read_table(path).replace_schema_metadata(), path)

    assert [0, 1] == read_lake(tmp_path, "t")["id"].to_pylist()


def files_of(folder: Path) -> list[Path]:
    """The files of a history."""
    found = open_lake(folder)
    return [found.folder.file("wide", part) for part in found.manifest.parts["wide"]]


HISTORY: dict[Callable[[list[Path]], None], str] = {
    cut: "has . rows, and its manifest states", grown: "has . rows, and its manifest states",
    foreign: "has the columns other, and its manifest states",
}


@pytest.mark.parametrize("damage", HISTORY, ids=lambda one: one.__name__)
def test_a_file_of_a_history_is_that_of_the_manifest(
    tmp_path: Path, damage: Callable[[list[Path]], None]
) -> None:
    """Also of an earlier release, whose manifests have the rows of a batch's files in one number. As on Spark."""
    output = pytest.importorskip("cdcv2.spark.output")
    old = Path(shutil.copytree(GOLDEN, tmp_path / "old"))
    damage(files_of(old))

    with pytest.raises(OutputError, match=f"the lake's file .*/wide/.*{HISTORY[damage]}"):
        read_lake(old, "wide")
    # No session is asked: the files are looked at before.
    with pytest.raises(OutputError, match=f"the lake's file .*/wide/.*{HISTORY[damage]}"):
        output.as_of(None, old, table="wide")
    assert 1 == read_lake(old, "plain").num_rows


def test_files_of_a_history_that_have_changed_places_are_an_error(tmp_path: Path) -> None:
    """At a time between them, the rows of the earlier one would be missing."""
    old = Path(shutil.copytree(GOLDEN, tmp_path / "old"))
    rows: dict[int, list[Path]] = {}
    for path in files_of(old):
        rows.setdefault(pq.read_metadata(path).num_rows, []).append(path)
    alike: list[Any] = next(found for found in rows.values() if found[0].parent != found[-1].parent)
    swapped(alike)

    with pytest.raises(OutputError, match="has times from . to ., and its manifest states others"):
        read_lake(old, "wide")
