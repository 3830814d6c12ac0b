"""A lake as it was at one commit: rows of the last file that has a key, and counts that are added up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, OutputError, RefusedError, UsageError
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import Field, Table
from cdcv2.materialize.targets.lake import file_cache
from cdcv2.materialize.targets.lake import view as module
from cdcv2.materialize.targets.lake.file_cache import HeldFiles
from cdcv2.materialize.targets.lake.files import StatedFile, file_schema
from cdcv2.materialize.targets.lake.manifest import LakeFolder, LakeManifest
from cdcv2.materialize.targets.lake.view import LakeView, held_lake, open_lake, read_lake
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = RowType({"type": "record", "name": "h", "fields": [{"name": "id", "type": "int"}]})
T = Table("t", (Field("id", "long"),), (Field("v", "string", True),))
M = Table("m", (Field("cdcv2_row", "bytes"),), (Field("a", "long"), Field("n", "long")))
EMPTY = Table("e", (Field("id", "long"),), ())


class Lake:
    """A folder with a table of keys, a multiset, a table without files and a history; it is at 7."""

    def __init__(self, folder: Path) -> None:
        self.folder = LakeFolder(folder)
        self.parts: dict[str, list[TableFile]] = {}

    def put(self, table: str, name: str, rows: Any) -> Path:
        """A file."""
        part = TableFile(name, len(rows))
        path = self.folder.file(table, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)
        self.parts.setdefault(table, []).append(part)
        return path

    def keyed(self, name: str, *rows: tuple[int, str | None, bool]) -> Path:
        """Rows by key, and which of them are deleted."""
        plain = [{"id": one, "v": v, "cdcv2_key": canonical((one,)), "cdcv2_gone": gone} for one, v, gone in rows]
        return self.put("t", name, pa.Table.from_pylist(plain, file_schema(T)))

    def counted(self, name: str, *rows: tuple[int, int]) -> Path:
        """Changes of counts."""
        arrays = [pa.array([row[at] for row in rows], pa.int64()) for at in (0, 1)]
        return self.put("m", name, pa.table(arrays, ["a", "cdcv2_diff"]))

    def view(self, held: HeldFiles | None = None, *, zeros: bool = False) -> LakeView:
        """As it is now."""
        return LakeView(self.folder, self.manifest(zeros=zeros), held)

    def manifest(self, *, zeros: bool = False) -> LakeManifest:
        """What counts."""
        return LakeManifest(
            "m", Antichain([0]), {"t": T, "m": M, "e": EMPTY}, counts={"m": zeros}, histories={"h": ROWS},
            parts={name: tuple(parts) for name, parts in self.parts.items()}, applied={Range(): Antichain([7])},
        )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """With two files of each."""
    made = Lake(tmp_path)
    made.keyed("a", (1, "x", False), (2, "y", False), (3, None, False))
    made.keyed("b", (2, "z", False), (3, None, True), (4, "w", False))
    made.counted("a", (5, 2), (6, 1))
    made.counted("b", (5, -1), (6, -1), (7, 3))
    return made


#: As nothing is held, everything is, or only small files are.
HELD = [lambda: None, HeldFiles, lambda: HeldFiles(0)]


@pytest.mark.parametrize("held", HELD)
def test_rows_by_key(lake: Lake, held: Any) -> None:
    """The last file that has a key counts, and what is deleted is not there."""
    found = lake.view(held()).read("t")

    rows = dict(zip(found["id"].to_pylist(), found["v"].to_pylist()))
    assert (["id", "v"], {1: "x", 2: "z", 4: "w"}) == (found.schema.names, rows)
    assert {((1,), ("x",)), ((2,), ("z",)), ((4,), ("w",))} == set(lake.view(held()).rows("t"))


def test_a_multiset(lake: Lake) -> None:
    """Each row once, with its count; one that is there no more only where such rows stay."""
    found = lake.view().read("m")
    assert (pa.schema([("a", pa.int64()), ("n", pa.int64())]), [{"a": 5, "n": 1}, {"a": 7, "n": 3}]) == (
        found.schema, found.to_pylist()
    )  # fmt: skip
    assert [((5,), (5, 1)), ((7,), (7, 3))] == list(lake.view().rows("m"))
    assert [5, 6, 7] == lake.view(zeros=True).read("m")["a"].to_pylist()
    wide = Table("w", M.key, (Field("a", "long"), Field("b", "long"), Field("n", "long")))
    lake.put("w", "f", pa.table({"a": [1], "b": [2], "cdcv2_diff": [1]}))
    manifest = LakeManifest("m", Antichain([0]), {"w": wide}, counts={"w": False}, parts={"w": (TableFile("f", 1),)})
    assert ["a", "b", "n"] == LakeView(lake.folder, manifest).read("w").schema.names
    lake.counted("c", (7, -4), (8, -1))
    with pytest.raises(OutputError, match=r"has the row {'a': 7} of m -1 times: a file was lost"):
        lake.view().read("m")


def test_tables_without_files_have_their_columns(tmp_path: Path) -> None:
    """And no rows."""
    view = Lake(tmp_path).view()

    assert (pa.schema([("id", pa.int64())]), 0) == (view.read("e").schema, len(view.read("e")))
    assert (["a", "n"], 0) == (view.read("m").schema.names, len(view.read("m")))
    assert (["id", "cdcv2_key", "cdcv2_gone"], 0) == (view.at("e", None).schema.names, len(view.at("e", None)))
    assert [] == view.files("e")
    assert view.close() is None  # type: ignore[func-returns-value]


def test_only_the_present_time_is_kept(lake: Lake) -> None:
    """Of tables that are no histories; what is no time is refused for all."""
    assert 3 == len(lake.view().read("t", [7])) == len(lake.view().read("t", 6))
    assert Antichain([7]) == lake.view().frontier
    for at in (7, [6]):
        with pytest.raises(RefusedError, match="is at 7, and keeps no earlier rows of t: leave the time out"):
            lake.view().read("t", at)
    with pytest.raises(UsageError, match="'now' is no time"):
        lake.view().read("t", "now")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'now' is no time"):
        read_lake("missing", "t", "now")  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="is not complete through 9 yet"):
        lake.view().read("h", 9)
    assert 0 == len(lake.view().read("h", [5]))


def test_a_table_that_is_not_there(lake: Lake) -> None:
    """The error has those that are."""
    with pytest.raises(MissingLogError, match=f"the lake in {lake.folder.path} has no table 'x'; it has t, m, e, h$"):
        lake.view().read("x")


@pytest.mark.parametrize("held", HELD)
def test_what_is_at_keys(lake: Lake, held: Any) -> None:
    """By the canonical key, or by the key itself; nothing for those that are not there, or are deleted."""
    assert {((2,), ("z",)), ((1,), ("x",))} == set(lake.view(held()).look("t", [(1,), (2,), (3,), (9,)]))
    assert [] == list(lake.view(held()).look("t", [(3,), (9,)])) == list(lake.view(held()).look("t", []))
    found = lake.view(held()).at("t", pa.array([2, 3, 4]), "id")
    assert (file_schema(T).names, {2, 4}) == (found.schema.names, set(found["id"].to_pylist()))
    assert file_schema(T).equals(found.schema)
    lake.keyed("c", (1, "n", False), (4, None, True))
    assert {((1,), ("n",)), ((2,), ("z",))} == set(lake.view(held()).look("t", [(1,), (2,), (4,)]))
    lake.parts.clear()
    lake.keyed("d")
    assert [] == list(lake.view(held()).look("t", [(1,)]))


def test_what_is_held_is_not_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of the other files only what is wanted."""
    held, reads = HeldFiles(), list[Any]()
    lake.view(held).read("t")
    lake.view(held).read("m")
    read = module.read_part

    def noted(file: StatedFile, wanted: Any = None, column: str = "cdcv2_key") -> Any:
        reads.append((file.path.stem, wanted and wanted.to_pylist(), column))
        return read(file, wanted, column)

    monkeypatch.setattr(module, "read_part", noted)
    monkeypatch.setattr(file_cache, "read_part", noted)
    assert 2 == lake.view(held).at("t", pa.array([1, 4]), "id").num_rows
    assert [] == reads
    assert 2 == lake.view().at("t", pa.array([1, 4]), "id").num_rows
    assert [("a", [1, 4], "id"), ("b", [1, 4], "id")] == reads


@pytest.mark.parametrize("held", HELD)
def test_rows_of_a_multiset_that_could_be_these(lake: Lake, held: Any) -> None:
    """By the column with the most values; all of them where there is none to look by."""
    wanted = pa.table({"a": pa.array([6, 7, 6]), "cdcv2_diff": pa.array([-1, -1, -1])})
    found = lake.view(held()).like("m", wanted)
    assert (wanted.schema, [(6, -1), (6, 1), (7, 3)]) == (
        found.schema, sorted(tuple(row.values()) for row in found.to_pylist())
    )  # fmt: skip
    floats = Table("m", M.key, (Field("a", "double"), M.values[-1]))
    lake.parts.pop("m")
    lake.put("m", "f", pa.table({"a": [0.5, 1.5], "cdcv2_diff": [1, 1]}))
    manifest = LakeManifest("m", Antichain([0]), {"m": floats}, counts={"m": False}, parts={"m": (TableFile("f", 2),)})
    going = pa.table({"a": [0.5], "cdcv2_diff": [-1]})
    assert 2 == len(LakeView(lake.folder, manifest, held()).like("m", going))


def test_files_and_what_is_stated_of_them(lake: Lake) -> None:
    """In order, with their rows and columns."""
    place = lake.folder.path / "m"

    assert [(place / "a.parquet", 2, ["a", "cdcv2_diff"]), (place / "b.parquet", 3, ["a", "cdcv2_diff"])] == [
        tuple(one) for one in lake.view().files("m")
    ]
    opened = Table("t", T.key, (Field("v", "string", True, source=SourceType("uuid")),))
    stored = lake.view().stored_table(opened)
    assert (None, False) == (stored.values[0].source, stored.multiset)


def test_a_lake_is_opened_as_it_is_now(lake: Lake) -> None:
    """And read again where its files were replaced while it was read; else the error stands."""
    with pytest.raises(MissingLogError, match=f"there is no lake in {lake.folder.path}: the name is wrong"):
        open_lake(lake.folder.path)
    lake.folder.change(lambda before: lake.manifest())
    view = open_lake(str(lake.folder.path))
    assert (lake.folder.path, lake.manifest(), None) == (view.folder.path, view.manifest, view.held)
    assert 3 == len(read_lake(lake.folder.path, "t"))
    assert 3 == len(read_lake(lake.folder.path, "t", [7]))
    with pytest.raises(RefusedError, match="keeps no earlier rows of t"):
        read_lake(lake.folder.path, "t", [6])
    lake.folder.file("t", TableFile("b", 3)).unlink()
    with pytest.raises(OutputError, match="b.parquet cannot be read"):
        read_lake(lake.folder.path, "t")


def replaced_at_first(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the files of a lake replaced while it is read for the first time; returns which tables are read."""
    lake.folder.change(lambda before: lake.manifest())
    read, tried = LakeView.read, list[str]()

    def replaced(view: LakeView, table: str, at: Any = None) -> Any:
        tried.append(table)
        if len(tried) == 1:
            lake.keyed("c", (9, "n", False))
            LakeFolder(lake.folder.path).change(lambda before: lake.manifest())
            raise OutputError("the file is missing")
        return read(view, table, at)

    monkeypatch.setattr(LakeView, "read", replaced)
    return tried


def test_a_lake_that_is_replaced_while_it_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look finds the new files; a history has no new ones."""
    tried = replaced_at_first(lake, monkeypatch)
    assert 4 == len(read_lake(lake.folder.path, "t"))
    assert ["t", "t"] == tried
    tried.clear()
    lake.parts["t"].pop()
    with pytest.raises(OutputError, match="the file is missing"):
        read_lake(lake.folder.path, "h")


def test_tables_that_are_held_are_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the commit at which they could be read, which may be a later one; others, and other times, as ever."""
    tried = replaced_at_first(lake, monkeypatch)
    held = held_lake(open_lake(lake.folder.path), ["t", "x", "m"])
    monkeypatch.undo()
    assert (["t", "t", "m"], ["t", "m"], lake.manifest()) == (tried, list(held.known), held.manifest)
    for part in ("a", "b", "c"):
        lake.folder.file("t", TableFile(part, 1)).unlink()
    assert [1, 2, 4, 9] == sorted(held.read("t")["id"].to_pylist()) and held.read("t") is held.known["t"]
    assert 0 == len(held.read("e"))
    for view in (held, open_lake(lake.folder.path)):
        with pytest.raises(OutputError, match=r"[abc].parquet cannot be read"):
            view.read("t", [7])
    with pytest.raises(OutputError, match=r"[abc].parquet cannot be read"):
        held_lake(open_lake(lake.folder.path), ["t"])
