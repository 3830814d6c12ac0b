"""Delta tables: every fault of the kit, crashes inside of its commits, every type, maintenance, foreign hands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.errors import (
    ForeignStateError,
    MissingLogError,
    OutputError,
    RefusedError,
    UsageError,
    ViewError,
)
from cdcv2.materialize import Range, Runtime, ViewBinding
from cdcv2.materialize.protocol.fence import LAST
from cdcv2.materialize.protocol.messages import Acknowledged
from cdcv2.materialize.targets.delta import tables as delta_tables
from cdcv2.materialize.targets.delta.driver import DeltaDriver, open_delta
from cdcv2.materialize.targets.delta.manifest import DeltaFolder
from cdcv2.materialize.targets.file_workers import DeltaWorker
from cdcv2.rows.row_type import RowType
from cdcv2.testing import Scenario, Stage, Workload, conform, scenarios
from tests.faults import few
from tests.lakes import ENTRIES, ENTRY, DeltaSubject, Source, check_crash_inside_of_a_commit, cuts, keep_in

pytest.importorskip("deltalake")
STEPS = ["delta.staged", "delta.begun", "delta.table", "delta.applied"]
STEPS += ["materialize.before-commit", "materialize.after-commit"]


# Each takes a second; the others are played by `make stress`.
HERE = re.compile(r"(crash|zombie)-at-(Store-25|StartCommit-4|StartedCommit-4|Acknowledge-[14]|Acknowledged-5)\Z")


@pytest.mark.parametrize(
    "scenario", [one for one in few(scenarios(DeltaSubject)) if HERE.match(one.name) or "-at-" not in one.name], ids=str
)
def test_it_comes_through_every_fault(scenario: Scenario) -> None:
    """With sums and a log that is appended to, in which a repetition would show."""
    conform(DeltaSubject, scenario)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_crash_inside_of_a_commit_repeats_nothing(step: str, nth: int) -> None:
    """The next instance applies what was committed, and stages the rest again."""
    check_crash_inside_of_a_commit(DeltaSubject(), step, nth)


def keep(folder: Path, source: Source, *bindings: ViewBinding, name: str = "m", **options: Any) -> Runtime:
    """Materialize to the end of the source; the recovery log lies beside the tables."""
    return keep_in(DeltaDriver(folder), folder, source, *bindings, name=name, **options)


def shown(folder: Path, table: str = "entries") -> dict[Any, Any]:
    """What a reader sees."""
    return dict(open_delta(folder).rows(table))


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("boolean", [True, False]),
        ("int", [-(2**31), 2**31 - 1]),
        ("long", [-(2**63), 2**63 - 1]),
        ("float", [1.5, float("-inf"), float("nan"), 1e-45]),
        ("double", [1.1, float("inf"), float("nan"), 5e-324]),
        ("string", ["", "a\\b\t\n'\"`", "\u0000\u00e9\u4e16\U0001f600\U0010ffff", "x" * 10_000_000]),
        ("bytes", [b"", bytes(range(256))]),
        ({"type": "fixed", "name": "f", "size": 2}, [b"\x00\xff", b"\xff\xff"]),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B", "A"]),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, [b"\xff", b"\x03" + b"\xff" * 15]),
        ({"type": "array", "items": "long"}, [[], [1, 2**62]]),
    ],
    ids=lambda one: str(one)[:20],
)
def test_every_type_goes_there_and_back(tmp_path: Path, type_: Any, values: list[Any]) -> None:
    """A value is stored, looked up, replaced by another and taken away: the view is right, or it would be an error."""
    delta, row_type = tmp_path / "delta", RowType({
        "type": "record", "name": "one",
        "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", type_]}],
    })  # fmt: skip
    binding = ViewBinding("entries", row_type, "t", ("id",))
    rows = [(number, value) for number, value in enumerate([*values, None])]
    other = [(number, value) for (number, _), (_, value) in zip(rows, reversed(rows))]
    once = cuts([(row, 1) for row in rows], row_type=row_type)
    keep(delta, once, binding)
    before = shown(delta, "t")
    keep(delta, cuts([(row, -1) for row in rows] + [(row, 1) for row in other], row_type=row_type, start=1), binding)
    after = shown(delta, "t")

    assert [repr(before[key]) for key in sorted(before)] == [repr(after[key]) for key in sorted(after, reverse=True)]

    keep(delta, cuts([(row, -1) for row in other], row_type=row_type, start=2), binding)

    assert {} == shown(delta, "t")


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("boolean", [True, False]),
        ("int", [-5, 2**31 - 1]),
        ("long", [-(2**63), 0, 2**63 - 1]),
        ("string", ["", "a'b\"`", "\u0000", "\U0010ffff"]),
        ("bytes", [b"", b"\x00", b"\xff"]),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, [b"\xff", b"\x64"]),
    ],
    ids=lambda one: str(one)[:20],
)
def test_every_kind_of_key_is_found_again(tmp_path: Path, type_: Any, values: list[Any]) -> None:
    """With a second column in the key; names that need quotes, in a table whose name does."""
    delta, row_type = tmp_path / "delta", RowType({
        "type": "record", "name": "one",
        "fields": [
            {"name": "Or_x0060_der", "type": type_}, {"name": "from", "type": "string"},
            {"name": "_x0022_v", "type": ["null", "long"]},
        ],
    })  # fmt: skip
    binding = ViewBinding("entries", row_type, "Select * '", ("Or`der", "from"))
    first = [((value, part, 1), 1) for value in values for part in "ab"]
    second = [((value, "b", 1), -1) for value in values] + [((value, "b", 2), 1) for value in values]
    gone = [((value, "a", 1), -1) for value in values]
    keep(delta, cuts(first, second, gone, row_type=row_type), binding)

    assert {("b", 2)} == {(key[1], row[0]) for key, row in shown(delta, "Select * '").items()}
    assert len(values) == len(shown(delta, "Select * '"))


def test_any_reader_of_delta_reads_a_table(tmp_path: Path) -> None:
    """Each version is a whole transaction, with its frontier; what is new is appended, not merged."""
    deltalake = pytest.importorskip("deltalake")
    changes = [[(("a", 1), 1)], [(("b", 2), 1)], [(("a", 1), -1), (("c", 3), 1)], [(("d", 4), 1)]]
    keep(tmp_path / "delta", cuts(*changes))
    table = deltalake.DeltaTable(tmp_path / "delta" / "entries")
    seen = []
    for version in range(5):
        table.load_as_version(version)
        seen.append(sorted(row["id"] for row in table.to_pyarrow_table().to_pylist()))
    said = [(one["operation"], one.get("cdcv2.upper")) for one in table.history()]

    assert [[], ["a"], ["a", "b"], ["b", "c"], ["b", "c", "d"]] == seen
    assert [("WRITE", "[4]"), ("MERGE", "[3]"), ("WRITE", "[2]"), ("WRITE", "[1]")] == said[:4]


def test_maintenance_and_foreign_hands(tmp_path: Path) -> None:
    """OPTIMIZE and VACUUM change nothing that is seen; a row that somebody removes is not seen any more."""
    deltalake = pytest.importorskip("deltalake")
    delta = tmp_path / "delta"
    keep(delta, cuts([(("a", 1), 1)], [(("b", 2), 1)]))
    table = deltalake.DeltaTable(delta / "entries")
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    assert {("a",): (1,), ("b",): (2,)} == shown(delta)

    table.delete("id = 'b'")

    assert {("a",): (1,)} == shown(delta)

    keep(delta, cuts([(("c", 3), 1)], start=2))

    assert {("a",): (1,), ("c",): (3,)} == shown(delta)


@pytest.mark.parametrize("hand", ["another", "its own"])
def test_a_commit_that_meets_another_is_made_anew(tmp_path: Path, hand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between look and commit somebody puts a row at the key, or commits the same transaction: it is there once."""
    delta = tmp_path / "delta"
    keep(delta, cuts([(("a", 1), 1)]))
    made, tried = delta_tables._append, list[int]()

    def meddled(found: Any, table: Any, rows: Any, properties: Any) -> None:
        tried.append(found.version())
        other = delta_tables.opened(delta / "entries")
        if hand == "another":
            made(other, table, rows, None)
        else:
            made(other, table, rows, properties)
        made(found, table, rows, properties)

    monkeypatch.setattr(delta_tables, "_append", meddled)
    keep(delta, cuts([(("b", 2), 1)], start=1))

    assert [1] == tried
    rows = [(one["id"], one["amount"]) for one in open_delta(delta).read("entries").to_pylist()]
    assert [("a", 1), ("b", 2)] == sorted(rows)


def test_a_second_row_that_somebody_put_beside_ours_is_an_error(tmp_path: Path) -> None:
    """Of the table, by its key: not of the driver; and neither of the two is taken for the one. Removed, it goes on."""
    delta = tmp_path / "delta"
    changes = [[(("a", 1), 1), (("b", 1), 1)], [(("a", 1), -1), (("a", 2), 1)]]
    keep(delta, cuts(*changes[:1]))
    deltalake, pyarrow = pytest.importorskip("deltalake"), pytest.importorskip("pyarrow")
    deltalake.write_deltalake(delta / "entries", pyarrow.table({"id": ["a"], "amount": [7]}), mode="append")
    with pytest.raises(ViewError, match=r"entries, key \('a',\): it has more than one row.*changed by hand"):
        keep(delta, cuts(*changes))
    with pytest.raises(ViewError, match="more than one row"):
        DeltaWorker(open_delta(delta), [ENTRIES.view().table]).work(0).look([("a",)])
    deltalake.DeltaTable(delta / "entries").delete("amount = 7")
    keep(delta, cuts(*changes))

    assert {("a",): (2,), ("b",): (1,)} == shown(delta)


@pytest.mark.parametrize("step", ["delta.begun", "delta.table"])
def test_whoever_finds_a_transaction_half_applied_finishes_it(step: str) -> None:
    """One half of the keys dies in it; the other half goes on, and every cut that is named has all of it or nothing."""
    stage = Stage(DeltaSubject(), Workload(cuts=4))
    lower, upper = stage.instance(Range(0, LAST // 2)), stage.instance(Range(LAST // 2 + 1, LAST))
    upper.commit(1)
    with failpoints.placed(step, 2), pytest.raises(failpoints.PlacedCrash):
        lower.finish()
    folder = stage.subject.driver()._folder  # type: ignore[attr-defined]
    number, manifest = folder.last()
    half = manifest.applying.range

    upper.commit(1)
    upper.until(Acknowledged, 3)
    after = folder.last()[1]

    assert Range(0, LAST // 2) == half
    assert manifest.applying.upper == after.applied[half]
    assert "done" == stage.instance().finish()
    stage.demand_whole()
    stage.close()


def test_what_a_dead_transaction_staged_is_found(tmp_path: Path) -> None:
    """It does not count, and can be removed; what was applied leaves nothing."""
    delta = tmp_path / "delta"
    with failpoints.placed("delta.staged"), pytest.raises(failpoints.PlacedCrash):
        keep(delta, cuts([(("a", 1), 1)]))

    assert 1 == len(DeltaFolder(delta).orphans())

    DeltaFolder(delta).orphans()[0].unlink()
    # What was committed and not applied is found, too, however old it is: after the next run, it is not.
    with failpoints.placed("materialize.after-commit"), pytest.raises(failpoints.PlacedCrash):
        keep(delta, cuts([(("a", 1), 1)]))

    assert (1, {}) == (len(DeltaFolder(delta).orphans()), shown(delta))
    keep(delta, cuts([(("a", 1), 1)]))

    assert ([], {("a",): (1,)}) == (DeltaFolder(delta).orphans(), shown(delta))


def test_what_cannot_be_kept_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Changes, strange names, too many digits, columns that differ by case."""
    wide = RowType({"type": "record", "name": "w", "fields": [
        {"name": "id", "type": "string"}, {"name": "ID", "type": "string"}, {"name": "a_x0020_b", "type": "string"},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}},
    ]})  # fmt: skip

    def only(*names: str) -> RowType:
        return RowType({**wide.schema, "fields": [one for one in wide.schema["fields"] if one["name"] in names]})

    for binding, said in [
        (ViewBinding("entries", ENTRY, "t", delta=True), "leave delta out"),
        (ViewBinding("entries", ENTRY, "../t"), "name of a table of Delta"),
        (ViewBinding("entries", only("id", "a_x0020_b"), "t", ("id",)), "takes no column 'a b'"),
        (ViewBinding("entries", only("id", "ID"), "t", ("id",)), "'ID' at most"),
        (ViewBinding("entries", only("id", "d"), "t", ("id",)), "'d' has 39 digits, and Delta's decimals 38"),
    ]:
        with pytest.raises(UsageError, match=said):
            keep(tmp_path / "delta", cuts(), binding)
    with pytest.raises(MissingLogError, match="no Delta tables of a materialization"):
        open_delta(tmp_path / "delta")


def test_a_folder_that_is_not_what_it_was_is_refused(tmp_path: Path) -> None:
    """Another's, other columns, lost commits, lost manifests, a table that somebody else has made."""
    deltalake = pytest.importorskip("deltalake")
    delta, copy = tmp_path / "delta", tmp_path / "copy"
    keep(delta, cuts([(("a", 1), 1)], [(("b", 1), 1)]))
    with pytest.raises(MissingLogError, match="there are entries"):
        open_delta(delta).read("t")
    with pytest.raises(ForeignStateError, match="of 'm', not of 'other'"):
        keep(delta, cuts(), name="other")
    with pytest.raises(RefusedError, match="'entries' has other columns"):
        keep(delta, cuts(), ViewBinding("entries", ENTRY, "entries"))
    with pytest.raises(RefusedError, match="'more' is not in it"):
        keep(delta, cuts(), ENTRIES, ViewBinding("entries", ENTRY, "more"))

    shutil.copytree(delta, copy)
    shutil.copytree(tmp_path / "delta-log", tmp_path / "log")
    shutil.rmtree(delta / "_manifests")
    with pytest.raises(RefusedError, match="no manifest beside it"):
        keep(delta, cuts())
    shutil.rmtree(tmp_path / "delta-log")
    with pytest.raises(ForeignStateError, match="belongs to 'm'"):
        keep(delta, cuts(), name="other")

    shutil.rmtree(tmp_path / "delta-log")
    shutil.copytree(tmp_path / "log", tmp_path / "delta-log")
    shutil.rmtree(delta)
    shutil.copytree(copy, delta)
    (delta / "entries" / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(RefusedError, match="has lost commits: there is version 1, and version 2 was there"):
        keep(delta, cuts())
    shutil.rmtree(delta / "entries")
    with pytest.raises(RefusedError, match="has lost commits: there is nothing"):
        keep(delta, cuts())
    shutil.rmtree(delta)
    with pytest.raises(RefusedError, match="has lost commits: the last manifest has the number 0"):
        keep(delta, cuts())

    shutil.rmtree(delta)
    shutil.copytree(copy, delta)
    column = deltalake.Field("x", deltalake.schema.PrimitiveType("long"))
    deltalake.DeltaTable(delta / "entries").alter.add_columns(column)
    with pytest.raises(RefusedError, match=r"has other columns \(id string, amount int64, x int64\)"):
        keep(delta, cuts())


def test_manifests_older_than_the_tables_are_refused(tmp_path: Path) -> None:
    """They would never come to an end with a transaction that every table states to have behind it."""
    delta = tmp_path / "delta"
    keep(delta, cuts([(("a", 1), 1)]))
    places = [delta / "_manifests", tmp_path / "delta-log"]
    for number, place in enumerate(places):
        shutil.copytree(place, tmp_path / f"old-{number}")
    keep(delta, cuts([(("b", 1), 1)], [(("c", 1), 1)], start=1))
    for number, place in enumerate(places):
        shutil.rmtree(place)
        shutil.copytree(tmp_path / f"old-{number}", place)

    with pytest.raises(RefusedError, match="has later transactions than the manifests"):
        keep(delta, cuts([(("x", 1), 1)], [(("y", 1), 1)], start=1))


def test_a_table_that_was_damaged_is_named_in_our_words(tmp_path: Path) -> None:
    """Those of the library are the cause."""
    delta = tmp_path / "delta"
    keep(delta, cuts([(("a", 1), 1)]))
    for file in (delta / "entries").glob("*.parquet"):
        file.write_bytes(b"no Parquet, and long enough")
    with pytest.raises(OutputError) as found:
        shown(delta)

    text = f"the Delta table in {delta / 'entries'} cannot be read: it is not as it was written: something else"
    assert str(found.value).startswith(text) and found.value.__cause__ is not None


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A file in the way; a missing staged file; when they are back, all is right."""
    delta = tmp_path / "delta"
    keep(delta, cuts([(("a", 1), 1)]))
    with failpoints.placed("materialize.after-commit"), pytest.raises(failpoints.PlacedCrash):
        keep(delta, cuts([(("b", 1), 1)], start=1))
    (staged,) = DeltaFolder(delta).orphans()
    staged.rename(tmp_path / "aside")
    with pytest.raises(OutputError, match="cannot be read"):
        keep(delta, cuts(start=2))
    (tmp_path / "aside").rename(staged)
    keep(delta, cuts(start=2))

    assert {("a",): (1,), ("b",): (1,)} == shown(delta)

    log = delta / "entries" / "_delta_log"
    log.rename(tmp_path / "log")
    log.write_text("in the way", "utf-8")
    with pytest.raises((OutputError, RefusedError), match="entries"):
        keep(delta, cuts([(("c", 1), 1)], start=2))
