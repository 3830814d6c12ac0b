"""A lake of Parquet files: every fault of the kit, crashes inside of its commits, every type, merging, readers."""

from __future__ import annotations

import dataclasses
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import (
    ForeignStateError,
    MalformedError,
    MissingLogError,
    OutputError,
    RefusedError,
    UsageError,
)
from cdcv2.materialize import Range, Runtime, Sum, ViewBinding
from cdcv2.materialize.protocol.fence import LAST
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake, read_lake
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.rows.row_type import RowType
from cdcv2.store import numbered
from cdcv2.testing import Scenario, Stage, Workload, conform, scenarios
from tests.faults import few
from tests.lakes import ENTRIES, ENTRY, LakeSubject, Source, check_crash_inside_of_a_commit, cuts, keep_in

pytest.importorskip("pyarrow")
STEPS = ["lake.staged", "lake.applied", "materialize.before-commit", "materialize.after-commit"]


@pytest.mark.parametrize("scenario", few(scenarios(LakeSubject)), ids=str)
def test_it_comes_through_every_fault(scenario: Scenario) -> None:
    """With sums and a log that is appended to, in which a repetition would show; files are merged all the time."""
    conform(LakeSubject, scenario)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_crash_inside_of_a_commit_repeats_nothing(step: str, nth: int) -> None:
    """The next instance applies what was committed, and stages the rest again."""
    check_crash_inside_of_a_commit(LakeSubject(), step, nth)


def keep(folder: Path, source: Source, *bindings: ViewBinding, name: str = "m", **options: Any) -> Runtime:
    """Materialize to the end of the source; the recovery log lies beside the lake."""
    return keep_in(LakeDriver(folder, files=3), folder, source, *bindings, name=name, **options)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("boolean", [True, False]),
        ("int", [-(2**31), 2**31 - 1]),
        ("long", [-(2**63), 2**63 - 1]),
        ("float", [1.5, float("-inf"), 1e-45]),
        ("double", [1.1, float("inf"), 5e-324]),
        ("string", ["", "a\\b\t\n'\"", "\u0000\u00e9\u4e16\U0001f600\U0010ffff", "x" * 10_000_000]),
        ("bytes", [b"", bytes(range(256))]),
        ({"type": "fixed", "name": "f", "size": 2}, [b"\x00\xff"]),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B"]),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}, [b"\xff", b"\x7f" + b"\xff" * 20]),
        ({"type": "array", "items": "long"}, [[], [1, 2**62]]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_every_type_goes_there_and_back(tmp_path: Path, type_: Any, values: list[Any]) -> None:
    """A value is stored and looked up; a row that comes back otherwise could not be taken away again."""
    row_type = RowType({
        "type": "record", "name": "one",
        "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", type_]}],
    })  # fmt: skip
    rows = [(number, value) for number, value in enumerate([*values, None])]
    binding = ViewBinding("entries", row_type, "t", ("id",))
    there, back = [(row, 1) for row in rows], [(row, -1) for row in rows]
    keep(tmp_path / "lake", cuts(there, row_type=row_type), binding)

    assert len(rows) == read_lake(tmp_path / "lake", "t").num_rows

    keep(tmp_path / "lake", cuts(back, row_type=row_type, start=1), binding)

    assert {} == dict(open_lake(tmp_path / "lake").rows("t"))


def test_sums_are_numbers_that_other_readers_know(tmp_path: Path) -> None:
    """A decimal without a point; one that is too long is an error that names the column, and the lake stays."""
    total = ViewBinding("entries", ENTRY, "totals", ("id",), {"sum": Sum("amount")})
    keep(tmp_path / "lake", cuts([(("a", 2**62), 3)]), total)
    table = read_lake(tmp_path / "lake", "totals")

    assert ["id", "sum", "cdcv2_count"] == table.column_names
    assert [Decimal(3 * 2**62)] == table["sum"].to_pylist()
    assert {("a",): (3 * 2**62, 3)} == dict(open_lake(tmp_path / "lake").rows("totals"))
    with pytest.raises(MalformedError, match="totals: the column 'sum' is of the type decimal128"):
        keep(tmp_path / "lake", cuts([(("a", 2**62), 10**30)], start=1), total)
    assert {("a",): (3 * 2**62, 3)} == dict(open_lake(tmp_path / "lake").rows("totals"))


def test_files_stay_few_and_what_is_replaced_goes(tmp_path: Path) -> None:
    """Many transactions: a logarithm of them in files; nothing lies there that no manifest names."""
    lake = tmp_path / "lake"
    changes = [[((str(number), number), 1)] for number in range(40)]
    keep(lake, cuts(*changes, [((str(number), number), -1) for number in range(39)]))
    view = open_lake(lake)

    assert {("39",): (39,)} == dict(view.rows("entries"))
    assert len(view.manifest.parts["entries"]) <= 5
    assert len(list((lake / "_manifests").iterdir())) <= LakeFolder.KEPT
    assert len(list((lake / "entries").iterdir())) <= 5 + 2 * LakeFolder.KEPT
    assert [] == LakeFolder(lake).orphans()
    assert Antichain([41]) == view.frontier


def test_a_manifest_is_read_once_and_again_when_its_file_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are kept, and however often what counts is asked for; a folder that was restored is seen."""
    lake, read = tmp_path / "lake", list[Path]()
    before = numbered.NumberedFiles.read

    def counted(files: numbered.NumberedFiles, number: int) -> dict[str, Any]:
        read.append(files.folder)
        return before(files, number)

    monkeypatch.setattr(numbered.NumberedFiles, "read", counted)
    keep(lake, cuts(*([((str(number), number), 1)] for number in range(20))))
    folder = LakeFolder(lake)
    number, manifest = folder.last()
    again, restored = folder.last(), LakeFolder(lake)

    assert manifest is again[1] and manifest is not None
    assert read.count(lake / "_manifests") <= number + 3
    (lake / "_manifests" / f"{number:020d}.json").unlink()
    restored.change(lambda before: before and dataclasses.replace(manifest, removing=("one",)))
    assert (number, ("one",)) == (number, folder.manifest(number).removing)


def test_who_is_overtaken_while_a_merge_is_put_leaves_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is there, another instance puts the next one upon it: then the merged file counts, and stays."""
    lake = tmp_path / "lake"
    flushed = numbered.durable

    def slowly(*files: Path, **given: bool) -> None:
        flushed(*files, **given)
        _, manifest = LakeFolder(lake).last()
        if files[0].parent.name == "_manifests" and manifest is not None:
            parts = manifest.parts.get("entries", ())
            if len(parts) == 1 and parts[0].rows > 1:
                monkeypatch.undo()
                other = dataclasses.replace(manifest, applied={**manifest.applied, Range(0, 9): Antichain([3])})
                LakeFolder(lake).change(lambda before: other)

    monkeypatch.setattr(numbered, "durable", slowly)
    keep(lake, cuts(*([((str(number), number), 1)] for number in range(4))))

    assert numbered.durable is flushed
    assert {(str(number),): (number,) for number in range(4)} == dict(open_lake(lake).rows("entries"))


def test_an_old_view_stays_readable_for_a_while_and_then_says_so(tmp_path: Path) -> None:
    """A reader that began before some commits reads what was so then."""
    lake = tmp_path / "lake"
    keep(lake, cuts([(("a", 1), 1)]))
    old = open_lake(lake)
    keep(lake, cuts([(("b", 1), 1)], start=1))

    assert {("a",): (1,)} == dict(old.rows("entries"))

    keep(lake, cuts(*([((f"c{number}", 1), 1)] for number in range(20)), start=2))

    with pytest.raises(OutputError, match="cannot be read"):
        dict(old.rows("entries"))
    assert 22 == read_lake(lake, "entries").num_rows


def test_what_a_dead_transaction_staged_is_found(tmp_path: Path) -> None:
    """It does not count, and can be removed."""
    lake = tmp_path / "lake"
    with failpoints.placed("lake.staged"), pytest.raises(failpoints.PlacedCrash):
        keep(lake, cuts([(("a", 1), 1)]))

    (dead,) = LakeFolder(lake).orphans()
    assert 0 == read_lake(lake, "entries").num_rows
    # What was committed and not applied is found, too, however old it is: after the next run, it is not.
    with failpoints.placed("materialize.after-commit"), pytest.raises(failpoints.PlacedCrash):
        keep(lake, cuts([(("a", 1), 1)]))

    assert 2 == len(LakeFolder(lake).orphans()) and 0 == read_lake(lake, "entries").num_rows
    keep(lake, cuts([(("a", 1), 1)]))
    assert [dead] == LakeFolder(lake).orphans()
    dead.unlink()
    assert 1 == read_lake(lake, "entries").num_rows


def test_a_late_parent_applies_its_transaction_for_nothing() -> None:
    """Committed by the whole range, applied by a half; when the whole is opened again, the state names it still."""
    subject = LakeSubject()
    stage = Stage(subject, Workload(cuts=4))
    parent = stage.instance()
    parent.commit(2)
    halves = [stage.instance(Range(0, LAST // 2)), stage.instance(Range(LAST // 2 + 1, LAST))]
    halves[0].commit(2)
    halves[1].commit(1)
    joined = stage.instance()
    joined.commit(1)

    assert ["fenced", "fenced", "fenced"] == [one.finish() for one in (parent, *halves)]
    assert "done" == joined.finish()
    stage.demand_whole()
    stage.close()


def test_what_cannot_be_kept_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Changes, strange names, another materialization's folder, other columns, a folder that was emptied."""
    lake = tmp_path / "lake"
    for binding, said in [
        (ViewBinding("entries", ENTRY, "t", delta=True), "leave delta out"),
        (ViewBinding("entries", ENTRY, "../t"), "name of a table of a lake"),
    ]:
        with pytest.raises(UsageError, match=said):
            keep(lake, cuts(), binding)
    with pytest.raises(MissingLogError, match="there is no lake"):
        read_lake(lake, "t")
    keep(lake, cuts([(("a", 1), 1)], [(("b", 1), 1)]))
    with pytest.raises(MissingLogError, match="it has entries"):
        read_lake(lake, "t")
    with pytest.raises(ForeignStateError, match="of 'm', not of 'other'"):
        keep(lake, cuts(), name="other")
    with pytest.raises(RefusedError, match="'entries' has other columns"):
        keep(lake, cuts(), ViewBinding("entries", ENTRY, "entries"))
    with pytest.raises(RefusedError, match="'more' is not in it"):
        keep(lake, cuts(), ENTRIES, ViewBinding("entries", ENTRY, "more"))
    shutil.rmtree(lake)
    with pytest.raises(RefusedError, match="has lost commits"):
        keep(lake, cuts())


@pytest.mark.parametrize("damage", [b"", b"no Parquet", b"PAR1" * 9])
def test_a_file_that_was_damaged_is_named_in_our_words(tmp_path: Path, damage: bytes) -> None:
    """Those of the library are the cause."""
    lake = tmp_path / "lake"
    keep(lake, cuts([(("a", 1), 1)]))
    (file,) = lake.glob("entries/*.parquet")
    file.write_bytes(damage)
    with pytest.raises(OutputError) as found:
        read_lake(lake, "entries")

    assert str(found.value).startswith(f"the lake's file {file} cannot be read: it is not as it was written: ")
    assert "arquet magic" not in str(found.value) and found.value.__cause__ is not None


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file in the way; when it is removed, all is right."""
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "entries").write_text("in the way", "utf-8")
    with pytest.raises(OutputError, match="cannot be written"):
        keep(lake, cuts([(("a", 1), 1)]))
    (lake / "entries").unlink()
    keep(lake, cuts([(("a", 1), 1)]))

    assert {("a",): (1,)} == dict(open_lake(lake).rows("entries"))


def test_a_view_that_keeps_what_is_deleted_goes_on(tmp_path: Path) -> None:
    """Its tables in the folder know nothing of how it deletes, and never did."""
    soft = dataclasses.replace(ENTRIES, key=("id",), deletes="soft")
    keep(tmp_path / "lake", cuts([(("a", 1), 1)]), soft)
    keep(tmp_path / "lake", cuts([(("a", 1), -1)], start=1), soft)

    assert {("a",): (1, True)} == dict(open_lake(tmp_path / "lake").rows("entries"))
