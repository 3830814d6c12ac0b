"""Manifests of a lake and of Delta tables: what they state, there and back, and what may continue a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, OutputError, RefusedError, RestoredError
from cdcv2.logs.coverage import ALL, TableCoverage
from cdcv2.materialize.protocol.fence import Piece, Range
from cdcv2.materialize.protocol.messages import Field, Open, Table
from cdcv2.materialize.targets.delta.manifest import (
    DeltaFolder, DeltaManifest, PendingCommit, TableVersion, TransactionFiles,
)
from cdcv2.materialize.targets.lake.manifest import LakeFolder, LakeManifest
from cdcv2.materialize.targets.manifests import TableFile, is_staged
from cdcv2.rows.row_type import RowType
from cdcv2.rows.source_types import SourceType

START = Antichain([0])
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
T = Table("t", (Field("id", "int"),), (
    Field("price", "decimal", True, 10, 2), Field("day", "int", source=SourceType("date")),
))  # fmt: skip
U = Table("u", (Field("id", "int"),), ())
LOW, HIGH = Range(0, 99), Range(100, Range().end)
A, B, C = (f"{digit * 32}" for digit in "abc")


def lake(**more: Any) -> LakeManifest:
    """A lake of two tables, with a file in one of them."""
    parts = {"t": (TableFile(A, 3),), "u": ()}
    return LakeManifest(**{"materialization": "m", "start": START, "tables": {"t": T, "u": U}, "parts": parts, **more})


def delta(**more: Any) -> DeltaManifest:
    """Delta tables of which one has a transaction."""
    return DeltaManifest("m", START, {"t": T}, {"t": TableVersion(4, 7)}, **more)


PENDING = PendingCommit(LOW, Antichain([9]), {"t": TransactionFiles([A, B], 3), "u": TransactionFiles([], None)})
COVERED = TableCoverage(("v",), {"h": 7})
MANIFESTS = [
    lake(), lake(applied={LOW: Antichain([5]), HIGH: Antichain()}), lake(removing=(A, B)),
    lake(counts={"t": True, "u": False}),
    lake(histories={"h": ROWS}, coverage=COVERED, parts={"h": (TableFile(A, 3, 7), TableFile(B, 0))}),
    lake(histories={"h": ROWS}, reader={"positions": [["h", 7]]}),
    delta(), delta(applying=PENDING, applied={Range(): Antichain([2])}),
]  # fmt: skip


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_there_and_back(manifest: Any) -> None:
    """As JSON, with what equality does not show: the types of the source."""
    found = type(manifest).from_plain(json.loads(json.dumps(manifest.to_plain())), "here")

    assert manifest == found
    assert manifest.to_plain() == found.to_plain()
    assert [one.source for one in T.fields] == [one.source for one in found.tables["t"].fields]


def test_a_manifest_to_the_letter() -> None:
    """Other releases read it: what is not needed is not in it, and the version is the oldest that can state it."""
    columns = {
        "key": [["id", "int", False, None, None]],
        "values": [["price", "decimal", True, 10, 2], ["day", "int", False, None, None, {"type": "date"}]],
    }
    tables = {"t": columns, "u": {"key": [["id", "int", False, None, None]], "values": []}}

    assert {
        "format": "cdcv2 lake", "version": 1, "materialization": "m", "start": [0], "applied": [[0, 99, [5]]],
        "tables": tables, "files": {"t": [[A, 3]], "u": []},
    } == lake(applied={LOW: Antichain([5])}).to_plain()  # fmt: skip
    assert (2, {"t": True}) == _some(lake(counts={"t": True}), "version", "counts")
    assert (1, [A]) == _some(lake(removing=(A,)), "version", "removing")
    assert "reader" not in lake(histories={"h": ROWS}).to_plain()
    assert ({"positions": [["h", 7]]},) == _some(
        lake(histories={"h": ROWS}, reader={"positions": [["h", 7]]}), "reader"
    )
    assert (3, {"h": ROWS.schema}, COVERED.to_plain(), {"h": [[A, 3, 7]]}) == _some(
        lake(histories={"h": ROWS}, coverage=COVERED, parts={"h": (TableFile(A, 3, 7),)}),
        "version", "histories", "coverage", "files",
    )  # fmt: skip
    assert {
        "format": "cdcv2 delta", "version": 1, "materialization": "m", "start": [0], "applied": [],
        "tables": {"t": columns}, "marks": {"t": [4, 7]},
        "applying": {"range": [0, 99], "upper": [9], "files": {"t": [[A, B], 3], "u": [[], None]}},
    } == delta(applying=PENDING).to_plain()  # fmt: skip
    assert delta().to_plain()["applying"] is None


def _some(manifest: Any, *names: str) -> tuple[Any, ...]:
    return tuple(manifest.to_plain()[name] for name in names)


def test_what_an_older_release_left_out() -> None:
    """There were no counts, histories and types of the source then, and a history without coverage covers all."""
    plain = lake().to_plain()
    plain["tables"]["t"]["values"][1].pop()
    found = LakeManifest.from_plain(plain, "here")
    assert (None, {}, (), ALL) == (found.tables["t"].values[1].source, found.counts, found.removing, found.coverage)
    old = lake(histories={"h": ROWS}, coverage=COVERED).to_plain()
    del old["coverage"]

    assert ALL == LakeManifest.from_plain(old, "here").coverage


@pytest.mark.parametrize("changes", [{"format": "cdcv2 delta"}, {"version": 4}, {"version": 0}, {"version": None}])
def test_another_folder_is_refused(changes: dict[str, Any]) -> None:
    """Of another kind, or of a later release."""
    with pytest.raises(ForeignStateError, match="^here holds no lake of cdcv2, version 3: name"):
        LakeManifest.from_plain({**lake().to_plain(), **changes}, "here")
    for version in (1, 2, 3):
        LakeManifest.from_plain({**lake().to_plain(), "version": version}, "here")


@pytest.mark.parametrize(
    ("manifest", "damage"),
    [
        (lake(), {"materialization": 7}),
        (lake(), {"tables": {"t": {"key": [["id", "int", 1, None, None]], "values": []}}}),
        (lake(), {"tables": {"t": {"key": [["id", 7, True, None, None]], "values": []}}}),
        (lake(), {"tables": {"t": {"key": [[7, "int", True, None, None]], "values": []}}}),
        (lake(), {"tables": {"t": {"key": [["id", "int", True, "1", None]], "values": []}}}),
        (lake(), {"tables": {"t": {"key": [["id", "int", True, None, 1.5]], "values": []}}}),
        (lake(), {"files": {"t": [[7, 3]]}}), (lake(), {"files": {"t": [[A, "3"]]}}),
        (lake(), {"files": {"t": [[A, 3, "7"]]}}),
        (lake(), {"removing": [7]}), (lake(), {"counts": {"t": 1}}), (lake(), {"applied": [[0, 9]]}),
        (delta(), {"marks": {"t": [1, 2, 3]}}), (delta(), {"applying": {}}),
    ],
)  # fmt: skip
def test_a_manifest_that_is_damaged_is_refused(manifest: Any, damage: dict[str, Any]) -> None:
    """With its place."""
    with pytest.raises(ForeignStateError, match="^here is damaged"):
        type(manifest).from_plain({**manifest.to_plain(), **damage}, "here")


def test_the_names_of_staged_files() -> None:
    """Thirty-two digits, as they are drawn; others are another program's."""
    assert is_staged(Path(f"x/{A}.parquet"))
    for name in (A, f"{A}0.parquet", f"{A[1:]}.parquet", f"{A}.PARQUET", f"{A[1:]}g.parquet", f"{A[1:]}A.parquet"):
        assert not is_staged(Path(name))
    assert not is_staged(Path(f"{A}xparquet"))


def test_how_far_a_manifest_is() -> None:
    """Where every key is; a range has what was applied to it alone."""
    assert START == lake().frontier
    found = lake(applied={LOW: Antichain([5]), HIGH: Antichain([7])})
    assert Antichain([5]) == found.frontier == replace(found, start=Antichain([2])).frontier
    assert START == replace(found, applied={LOW: Antichain([5])}).frontier

    assert [True, True, False, False] == [
        found.has(LOW, Antichain([4])), found.has(LOW, Antichain([5])), found.has(LOW, Antichain([6])),
        found.has(Range(), Antichain([4])),
    ]  # fmt: skip


def test_a_table_as_it_is_kept() -> None:
    """In the types that it was made in; whether a multiset is counted is the lake's."""
    opened = replace(T, values=(T.values[0], replace(T.values[1], source=None)), soft=True, multiset=True)
    assert opened == T
    kept = lake().stored_table(opened)
    assert (SourceType("date"), True, False) == (kept.values[1].source, kept.soft, kept.multiset)
    assert lake(counts={"t": False}).stored_table(opened).multiset
    assert not lake(counts={"u": False}).stored_table(opened).multiset
    other = replace(opened, values=())
    assert (other, False) == (delta().stored_table(other), delta().stored_table(other).multiset)
    unknown = replace(opened, name="x")
    found = delta().stored_table(unknown)
    assert (unknown, None, True, False) == (found, found.values[1].source, found.soft, found.multiset)
    message = delta().stored(Open("m", (opened, unknown), LOW))
    assert (("t", "x"), LOW) == (tuple(one.name for one in message.tables), message.range)
    assert SourceType("date") == message.tables[0].values[1].source


# --- a lake


def test_a_transaction_adds_files_behind_those_that_are_there() -> None:
    """Of the tables that the lake has; a range is then applied up to there."""
    first = lake(applied={HIGH: Antichain([2])})
    found = first.with_transaction(LOW, Antichain([9]), {"t": [TableFile(B, 1)], "u": (TableFile(C, 2),), "x": []})

    assert {"t": (TableFile(A, 3), TableFile(B, 1)), "u": (TableFile(C, 2),)} == found.parts
    assert {HIGH: Antichain([2]), LOW: Antichain([9])} == found.applied
    assert (TableFile(A, 3), TableFile(B, 1)) == first.with_parts({"t": [TableFile(B, 1)]}).parts["t"]
    history = lake(histories={"h": ROWS}, tables={}, parts={}).with_parts({"h": [TableFile(A, 1, 7)]})
    assert {"h": (TableFile(A, 1, 7),)} == history.parts


def test_files_that_follow_each_other_are_merged() -> None:
    """Unless they do not any more, or the new one is being removed."""
    a, b, c, new = TableFile(A, 1), TableFile(B, 2), TableFile(C, 3), TableFile("d" * 32, 9)
    found = lake(parts={"t": (a, b, c), "u": (a,)})

    for old, parts in (([a, b], (new, c)), ([b, c], (a, new)), ([b], (a, new, c)), ([a, b, c], (new,))):
        merged = found.with_merged("t", old, new)
        assert merged is not None and {"t": parts, "u": (a,)} == merged.parts
    for old in ([a, c], [b, a], [c, new], [a, b, c, new]):
        assert found.with_merged("t", old, new) is None
    assert replace(found, removing=(new.name,)).with_merged("t", [a, b], new) is None
    assert found.with_merged("x", [a], new) is None


@pytest.fixture
def folder(tmp_path: Path) -> LakeFolder:
    """Of a lake."""
    return LakeFolder(tmp_path / "lake")


def file(place: LakeFolder, table: str, name: str) -> Path:
    """A file that is there."""
    path = place.file(table, TableFile(name, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def setting(manifest: LakeManifest | None) -> Callable[[LakeManifest | None], LakeManifest | None]:
    """Makes this the manifest."""
    return lambda before: manifest


def test_what_counts_is_changed_by_what_it_was(folder: LakeFolder) -> None:
    """One who was faster is asked about; what changes nothing puts nothing."""
    assert (-1, None) == folder.last()
    assert -1 == folder.change(setting(None))
    assert 0 == folder.change(setting(lake()))
    assert 0 == folder.change(setting(lake()))
    seen: list[LakeManifest | None] = []

    def overtaken(before: LakeManifest | None) -> LakeManifest | None:
        seen.append(before)
        if len(seen) == 1:
            LakeFolder(folder.path).change(setting(lake(removing=(B,))))
        return before and replace(before, removing=(*before.removing, C))

    assert 2 == folder.change(overtaken)
    assert [lake(), lake(removing=(B,))] == seen
    assert (2, lake(removing=(B, C))) == folder.last() == LakeFolder(folder.path).last()


def test_a_manifest_is_read_once_and_again_when_it_is_another(folder: LakeFolder, monkeypatch: Any) -> None:
    """As long as it is near to the newest one that was read."""
    reads: list[int] = []
    load = LakeFolder._load

    def noted(self: LakeFolder, number: int) -> LakeManifest:
        reads.append(number)
        return load(self, number)

    monkeypatch.setattr(LakeFolder, "_load", noted)
    for number in range(3):
        folder._numbered.put(number, lake(removing=(A,) * (number + 1)).to_plain())
    assert folder.manifest(1) is folder.manifest(1)
    (folder.path / "_manifests" / f"{1:020}.json").unlink()
    with pytest.raises(OutputError, match="the lake cannot be read"):
        folder.manifest(1)
    assert [1, 1] == reads
    for number in range(3, 20):
        folder._numbered.put(number, lake(removing=(A,) * (number + 1)).to_plain())
    reads.clear()
    folder.manifest(2)
    folder.manifest(17)
    folder.manifest(2)
    folder.manifest(18)
    folder.manifest(2)
    assert [2, 17, 18, 2] == reads
    place = folder.path / "_manifests"
    (place / f"{17:020}.json").rename(place / f"{18:020}.json")
    assert 18 == len(folder.manifest(18).removing)


def test_old_manifests_and_their_files_are_forgotten(folder: LakeFolder, monkeypatch: Any) -> None:
    """Those that only they name; the others of the last eight stay, for readers that are slow."""
    monkeypatch.setattr(LakeFolder, "KEPT", 3)
    old, kept, other = file(folder, "t", A), file(folder, "t", B), file(folder, "u", A)
    folder.change(setting(lake(parts={"t": (TableFile(A, 1), TableFile(B, 1)), "u": (TableFile(A, 1),)})))
    for number, names in enumerate([(B, "d"), (B, "e"), ("f",)], 1):
        parts = {"t": tuple(TableFile(one, 1) for one in names), "u": (TableFile(A, 1),)}
        assert number == folder.change(setting(lake(parts=parts)))

    assert [1, 2, 3] == folder._numbered.numbers()
    assert (False, True, True) == (old.exists(), kept.exists(), other.exists())
    folder.change(setting(lake(parts={"t": (TableFile("g", 1),), "u": ()})))
    folder.change(setting(lake(parts={"t": (TableFile("h", 1),), "u": ()})))
    assert (False, True) == (kept.exists(), other.exists())
    folder.change(setting(lake(parts={"t": (TableFile("i", 1),), "u": ()})))
    assert not other.exists()


def test_another_that_forgets_the_same_is_no_error(folder: LakeFolder) -> None:
    """Its manifests are missing when they are read."""
    folder.change(setting(lake()))

    assert {("t", A)} == folder._named(7, 0, 8)


def test_files_that_are_lost_are_named(folder: LakeFolder) -> None:
    """Unless others have merged them since."""
    folder.demand_files()
    folder.change(setting(lake(parts={"t": (TableFile(A, 1), TableFile(B, 1)), "u": (TableFile(C, 1),)})))
    text = rf"last manifest names \S+t/{A}.parquet, .*\(3 of 3 are missing\).*, and the recovery log, to start over"
    with pytest.raises(RefusedError, match=text):
        folder.demand_files()
    for table, name in (("t", A), ("u", C)):
        file(folder, table, name)
    with pytest.raises(RefusedError, match=rf"{B}.parquet, .*\(1 of 3 are missing\)"):
        folder.demand_files()
    file(folder, "t", B)
    folder.demand_files()
    folder.change(setting(lake(histories={"h": ROWS}, parts={"h": (TableFile(A, 1),)})))
    with pytest.raises(RefusedError, match="remove it, and the reader's state and checkpoint, to start over"):
        folder.demand_files()


def test_a_file_that_others_have_merged_is_not_lost(folder: LakeFolder, monkeypatch: Any) -> None:
    """They have put a manifest since, and that one counts."""
    folder.change(setting(lake()))
    exists = Path.exists

    def merged(path: Path) -> bool:
        monkeypatch.setattr(Path, "exists", exists)
        LakeFolder(folder.path).change(setting(lake(parts={"t": (), "u": ()})))
        return False

    monkeypatch.setattr(Path, "exists", merged)
    folder.demand_files()


def test_orphans_are_what_no_manifest_names(folder: LakeFolder) -> None:
    """Of the names that are drawn here, in the folders of the tables."""
    assert [] == folder.orphans()
    table = replace(T, name="t[a]")
    for name in ("t[a]", "u", "x", "ta"):
        file(folder, name, A)
    named, orphan, other = file(folder, "u", B), file(folder, "t[a]", C), file(folder, "u", "mine")
    assert other.exists() and named.exists()
    parts = {"t[a]": (TableFile(A, 1),), "u": (TableFile(B, 1),)}
    folder.change(setting(LakeManifest("m", START, {"t[a]": table, "u": U}, parts=parts)))
    assert [orphan, folder.path / "u" / f"{A}.parquet"] == folder.orphans()
    folder.change(setting(LakeManifest("m", START, {"t[a]": table, "u": U}, parts={"t[a]": (), "u": ()})))

    assert [orphan, folder.path / "u" / f"{A}.parquet"] == folder.orphans()


def test_orphans_are_stated_before_they_are_removed(folder: LakeFolder, monkeypatch: Any) -> None:
    """What a manifest names by now stays; in the end none is being removed."""
    first, second, named = (file(folder, "t", name) for name in (B, C, A))
    second.unlink()
    folder.change(setting(lake()))
    stated: list[Any] = []
    unlink = Path.unlink

    def noted(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".parquet":
            found = LakeFolder(folder.path).last()[1]
            stated.append((path.name, found and found.removing))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", noted)

    assert [first, second] == folder.remove([first, named, second])
    assert [(f"{B}.parquet", (B, C)), (f"{C}.parquet", (B, C))] == stated
    assert (False, True) == (first.exists(), named.exists())
    assert (2, lake()) == folder.last()
    assert [] == folder.remove([named])
    assert (2, lake()) == folder.last()


def test_where_there_is_no_lake_nothing_is_stated(folder: LakeFolder) -> None:
    """The files go all the same."""
    orphan = file(folder, "t", A)

    assert [orphan] == folder.remove(iter([orphan]))
    assert (-1, None) == folder.last()
    assert not orphan.exists()


def test_histories_list_what_they_add(folder: LakeFolder) -> None:
    """Every so many manifests one lists all files; each is read as a whole."""
    before, parts = None, tuple[TableFile, ...]()
    for number in range(67):
        parts += (TableFile(f"{number:032x}", 1, number),) if number != 3 else ()
        after = lake(tables={}, histories={"h": ROWS}, parts={"h": parts}, applied={Range(): Antichain([number])})
        folder.append(number, before, after)
        before = after
    plain = folder._numbered.read

    assert [None, 0, 1, 62, None, 64, 65] == [plain(one).get("added_to") for one in (0, 1, 2, 63, 64, 65, 66)]
    assert [1, 1, 64, 1] == [len(plain(one)["files"]["h"]) for one in (1, 63, 64, 65)]
    assert {} == plain(3)["files"]
    assert (66, before) == folder.last() == LakeFolder(folder.path).last()
    with pytest.raises(RefusedError):
        folder.append(66, before, lake())


def test_a_history_is_not_put_behind_manifests_that_are_not_there(folder: LakeFolder) -> None:
    """The folder was put back while it was written. One that is removed as a whole is no such folder."""
    first, second = lake(materialization="n", histories={"h": ROWS}), lake(histories={"h": ROWS}, removing=(A,))
    folder.append(0, None, lake())
    folder.append(1, first, second)
    there = r"of 'n' was put back to another moment while it was worked on: {} has its manifests up to {}, and had {}\."
    for number, had in ((3, 2), (9, 8)):
        with pytest.raises(RestoredError, match=there.format(re.escape(str(folder.path)), 1, had)):
            folder.append(number, first, second)
    folder.append(9, None, first)
    folder.append(10, first, second)
    names = sorted(path.name for path in (folder.path / "_manifests").iterdir())
    for name in names[1:]:
        (folder.path / "_manifests" / name).unlink()
    with pytest.raises(RestoredError, match="up to 0, and had 1"):
        folder.append(2, first, second)
    (folder.path / "_manifests" / names[0]).unlink()
    folder.append(2, lake(), second)


def test_an_older_manifest_than_was_seen_is_refused(folder: LakeFolder) -> None:
    """By the object that saw the newer one; a folder that is removed as a whole has none."""
    for number in range(3):
        folder.change(setting(lake(removing=(str(number),))))
    assert 2 == folder.last()[0]
    newest = folder.path / "_manifests" / f"{2:020d}.json"
    newest.unlink()
    there = f"the last manifest in {folder.path} has the number 1, and 2 was there"
    with pytest.raises(RestoredError, match=f"of 'm' was put back .*: {re.escape(there)}"):
        folder.last()
    assert 1 == LakeFolder(folder.path).last()[0]
    for path in newest.parent.iterdir():
        path.unlink()
    assert (-1, None) == folder.last()


def test_the_output_of_replay_before_it_was_a_lake(folder: LakeFolder) -> None:
    """It had folders for batches, one number of rows for the files of each, and one lower frontier."""
    first = {
        "builds_on": None, "start": [0], "upper": [5], "tables": {"h": ROWS.schema},
        "files": [["h", ["h/0/a.parquet", "h/0/b.parquet"], [2], [5], 7]],
    }  # fmt: skip
    second = {
        "builds_on": 0, "start": [0], "upper": [9], "tables": {"h": ROWS.schema}, "coverage": COVERED.to_plain(),
        "files": [["h", ["h/1/c.parquet"], [5], [9], 1], ["h", ["h/2/d.parquet"], [6], [9], 2]],
    }  # fmt: skip
    folder._numbered.put(0, first)
    folder._numbered.put(1, second)
    parts = [TableFile("0/a", 7, 2), TableFile("0/b", 0, 2), TableFile("1/c", 1, 5), TableFile("2/d", 2, 6)]
    whole = LakeManifest("replay", START, {}, histories={"h": ROWS})

    assert replace(
        whole, parts={"h": tuple(parts[:2])}, applied={Range(): Antichain([5])}
    ) == folder.manifest(0)
    assert replace(
        whole, parts={"h": tuple(parts)}, applied={Range(): Antichain([9])}, coverage=COVERED
    ) == folder.manifest(1)
    folder._numbered.put(2, {"builds_on": 1, "start": [0]})
    with pytest.raises(ForeignStateError, match=f"{folder.path} is damaged"):
        folder.manifest(2)
    folder._numbered.put(3, {"start": [0]})
    with pytest.raises(ForeignStateError, match=f"{folder.path} holds no lake"):
        folder.manifest(3)


# --- what continues a folder


@pytest.mark.parametrize(
    ("number", "known"), [(3, {"manifest": 3}), (3, {"manifest": 2}), (0, {}), (-1, {"manifest": -1})]
)
def test_a_folder_that_has_what_the_log_knows(folder: LakeFolder, number: int, known: dict[str, Any]) -> None:
    """Or more."""
    folder.demand_there(number, known)


@pytest.mark.parametrize(("number", "known"), [(2, {"manifest": 3}), (-1, {"manifest": 0}), (-1, {})])
def test_a_folder_that_has_lost_commits_is_refused(folder: LakeFolder, number: int, known: dict[str, Any]) -> None:
    """By the number that the log knows of."""
    text = f"the lake in {folder.path} has lost commits: the last manifest has the number {number}, and the recovery "
    with pytest.raises(RefusedError) as caught:
        folder.demand_there(number, known)
    assert text + f"log knows of {known.get('manifest', 0)}. Restore" in str(caught.value)


def opened(*pieces: tuple[Range, int], tables: tuple[Table, ...] = (T,), name: str = "m", start: int = 0) -> Open:
    """What an instance opens, where the log has these pieces."""
    known = tuple(Piece(one, Antichain([at])) for one, at in pieces)
    return Open(name, tables, Range(), {}, Antichain([start]), known)


def test_what_continues_what_is_there(folder: LakeFolder) -> None:
    """The same name and columns, and a log that is as far."""
    folder.demand_same(lake(), opened())
    found = lake(applied={LOW: Antichain([5]), HIGH: Antichain([7])})
    folder.demand_same(found, opened((LOW, 5), (HIGH, 9)))
    folder.demand_same(found, opened((Range(), 7), tables=()))


@pytest.mark.parametrize(
    ("manifest", "message", "text"),
    [
        (lake(), opened(name="n"), "holds the lake of 'm', not of 'n': each needs a folder of its own"),
        (lake(), opened(tables=(U, replace(T, values=()))), "is at [0], and the table 't' has other columns: what"),
        (lake(), opened(tables=(replace(T, name="x"),)), "is at [0], and the table 'x' is not in it: what came"),
        (lake(applied={LOW: Antichain([5])}), opened(), "is at [5], and the recovery log at [0]: it is another log"),
        (lake(applied={LOW: Antichain([5]), HIGH: Antichain([7])}), opened((Range(), 5)),
         "is at [7], and the recovery log at [5]"),
        (lake(applied={LOW: Antichain([5])}), opened(start=3), "is at [5], and the recovery log at [3]"),
        (delta(applying=PENDING), opened((Range(), 8)), "is at [9], and the recovery log at [8]"),
    ],
)  # fmt: skip
def test_what_does_not_is_refused(tmp_path: Path, manifest: Any, message: Open, text: str) -> None:
    """With both sides."""
    place: Any = DeltaFolder(tmp_path) if isinstance(manifest, DeltaManifest) else LakeFolder(tmp_path)
    with pytest.raises((RefusedError, ForeignStateError)) as caught:
        place.demand_same(manifest, message)

    assert text in str(caught.value)
    assert str(tmp_path) in str(caught.value)


# --- Delta tables


def test_a_transaction_that_is_being_applied_is_done() -> None:
    """Then its range is up to there, and the tables that it has changed are at new versions."""
    found = replace(delta(applying=PENDING, applied={HIGH: Antichain([2])}), marks={
        "t": TableVersion(4, 7), "u": TableVersion(1, None)})  # fmt: skip
    assert [(LOW, Antichain([9]))] == found.under_way()
    done = found.done({"t": TableVersion(5, 8)})

    assert {"t": TableVersion(5, 8), "u": TableVersion(1, None)} == done.marks
    assert ({HIGH: Antichain([2]), LOW: Antichain([9])}, None, []) == (done.applied, done.applying, done.under_way())
    with pytest.raises(RefusedError, match="no transaction is being applied"):
        done.done({})


def test_a_manifest_of_delta_tables_is_put_once(tmp_path: Path) -> None:
    """Of two who put a number one has it; the last eight stay."""
    place = DeltaFolder(tmp_path / "delta")
    assert place.put(0, delta())
    assert not DeltaFolder(tmp_path / "delta").put(0, delta(applying=PENDING))
    for number in range(1, 10):
        assert place.put(number, delta(applied={LOW: Antichain([number])}))

    assert [*range(2, 10)] == place._numbered.numbers()
    assert (9, delta(applied={LOW: Antichain([9])})) == place.last()
    place._numbered.put(10, lake().to_plain())
    with pytest.raises(ForeignStateError, match=f"{place.path} holds no folder of Delta tables"):
        place.last()


def test_what_is_staged_for_delta_tables(tmp_path: Path) -> None:
    """What is being applied is no orphan; names that are not drawn here are not either."""
    place = DeltaFolder(tmp_path)
    assert ([], tmp_path / "t") == (place.orphans(), place.table("t"))
    paths = [place.file("t", TableFile(name, 1)) for name in (A, B, C, "mine")]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(b"")
    assert [tmp_path / "_staged" / f"{name}.parquet" for name in (A, B, C)] == place.orphans()
    place.put(0, delta(applying=PENDING))
    assert [paths[2]] == place.orphans()
    place.put(1, delta())
    assert paths[:3] == place.orphans()
    paths[0].unlink()
    assert paths[:2] == place.remove(iter(paths[:2]))
    assert [False, False, True, True] == [path.exists() for path in paths]
