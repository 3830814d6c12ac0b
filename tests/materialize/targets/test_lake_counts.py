"""A multiset in a lake is files of changes of counts: an append looks nothing up, and what goes must be there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cdcv2 import failpoints
from cdcv2.errors import ForeignStateError, OutputError, ViewError
from cdcv2.materialize import ViewBinding
from cdcv2.materialize.protocol.messages import Open, Opened
from cdcv2.materialize.targets.lake import manifest
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake, read_lake
from cdcv2.materialize.targets.lake.view import LakeView
from cdcv2.rows.row_type import RowType
from tests.lakes import ENTRY, Source, cuts, keep_in
from tests.materialize.lake_counts import ends

ENTRIES = ViewBinding("entries", ENTRY, "entries")
A, B = ("a", 1), ("b", None)
STEPS = ["lake.staged", "materialize.before-commit", "materialize.after-commit", "lake.applied"]


class EarlierRelease(LakeDriver):
    """Keeps a multiset as the other tables: a row by its digest, whole."""

    def open(self, message: Open) -> Opened:
        """As if it knew of no other form."""
        tables = tuple(replace(one, multiset=False) for one in message.tables)
        return replace(super().open(replace(message, tables=tables)), changes=frozenset())


def keep(folder: Path, source: Source, binding: ViewBinding = ENTRIES, driver: type[LakeDriver] = LakeDriver) -> None:
    """Materialize to the end of the source."""
    keep_in(driver(folder, files=1), folder, source, binding)


def there(folder: Path) -> list[tuple[Any, ...]]:
    """Each row with its count."""
    return sorted((tuple(row.values()) for row in read_lake(folder, "entries").to_pylist()), key=repr)


@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in range(0, 125, 25)], ids=str)
def test_columns_end_as_rows_do(seeds: range) -> None:
    """Each type, each contradiction, hard and soft, merged and not: the same rows and counts, the same error."""
    for seed in seeds:
        try:
            assert 8 == len([*ends(seed, 8)])
        except AssertionError as cause:
            raise AssertionError(f"seed {seed}") from cause


def test_an_append_is_its_columns_and_looks_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No digest, no canonical bytes; a row that comes twice stands there as it came."""
    monkeypatch.setattr(LakeView, "like", lambda *_: pytest.fail("rows are looked up"))
    keep(tmp_path / "lake", cuts([(A, 1), (B, 2)], [(A, 1), (A, 3)]))
    files = [pq.read_table(path) for path in (tmp_path / "lake" / "entries").iterdir()]

    assert {("id", "amount", "cdcv2_diff")} == {tuple(file.column_names) for file in files}
    assert [[("a", 1, 1), ("a", 1, 3)], [("a", 1, 1), ("b", None, 2)]] == sorted(
        [tuple(row.values()) for row in file.to_pylist()] for file in files
    )
    assert [("a", 1, 5), ("b", None, 2)] == there(tmp_path / "lake")
    assert {A: (*A, 5), B: (*B, 2)} == dict(open_lake(tmp_path / "lake").rows("entries"))


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_what_goes_is_taken_away_also_when_files_are_merged(tmp_path: Path, deletes: str) -> None:
    """To the last one; a row whose count is 0 stays where that is wanted."""
    binding = replace(ENTRIES, deletes=deletes)
    more = [[((str(number), number), 1)] for number in range(8)]
    keep(tmp_path / "lake", cuts([(A, 2), (B, 1)], [(A, -1)], [(A, -1)], *more, [(B, -1)]), binding)
    gone = [("a", 1, 0), ("b", None, 0)] if deletes == "soft" else []

    assert [*((str(number), number, 1) for number in range(8)), *gone] == there(tmp_path / "lake")
    parts = open_lake(tmp_path / "lake").manifest.parts["entries"]
    # Thirteen changes were made: those of a row that went are one, or none.
    assert len(parts) <= 4 and sum(part.rows for part in parts) <= 11

    keep(tmp_path / "lake", cuts([(B, 1)], start=12), binding)

    assert ("b", None, 1) in there(tmp_path / "lake")


@pytest.mark.parametrize("driver", [LakeDriver, EarlierRelease])
@pytest.mark.parametrize("lie", [[(B, -1)], [(A, -3)]])
def test_a_row_that_goes_and_is_not_there_ends_the_run(
    tmp_path: Path, lie: list[Any], driver: type[LakeDriver]
) -> None:
    """At once, with the row and what its count would be, as it ends row by row; nothing of the transaction counts."""
    with pytest.raises(ViewError, match=rf"the row {re.escape(repr(ENTRY.row(lie[0][0])))} would be there -1 times"):
        keep(tmp_path / "lake", cuts([(A, 2)], [(("c", 1), 1), *lie]), driver=driver)

    assert [("a", 1, 2)] == [row[-3:] for row in there(tmp_path / "lake")]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_adds_no_change_twice(tmp_path: Path, step: str) -> None:
    """Before the commit nothing of it counts, behind it all: an addition that is repeated would show."""
    changes = cuts([(A, 1)], [(A, 1), (B, 1)], [(B, -1)])
    for nth in (1, 1):
        with failpoints.placed(step, nth), pytest.raises(failpoints.PlacedCrash):
            keep(tmp_path / "lake", changes)
    keep(tmp_path / "lake", changes)

    assert [("a", 1, 2)] == there(tmp_path / "lake")


def test_a_folder_of_an_earlier_release_goes_on_in_its_form(tmp_path: Path) -> None:
    """By digests and whole counts; an earlier release reads it still, and refuses a folder of changes of counts."""
    old, new = tmp_path / "old", tmp_path / "new"
    keep(old, cuts([(A, 2), (B, 1)]), driver=EarlierRelease)
    keep(old, cuts([(A, -1)], [(B, -1), (("c", 3), 1)], start=1))
    keep(new, cuts([(A, 1)]))
    lasts = [max((folder / "_manifests").iterdir()) for folder in (old, new)]

    assert [("a", 1, 1), ("c", 3, 1)] == sorted(row[1:] for row in there(old))
    assert "cdcv2_row" == read_lake(old, "entries").column_names[0]
    assert [1, 2] == [json.loads(path.read_text("utf-8"))["version"] for path in lasts]


def test_a_newer_version_of_the_manifest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier release refuses changes of counts, which it would take for counts."""
    keep(tmp_path / "lake", cuts([(A, 1)]))
    monkeypatch.setattr(manifest.LakeManifest, "NEWEST", 1)

    with pytest.raises(ForeignStateError, match="holds no lake of cdcv2, version 1: .* or use a newer cdcv2"):
        read_lake(tmp_path / "lake", "entries")


def test_a_file_that_is_missing_in_the_sum_is_an_error(tmp_path: Path) -> None:
    """A reader is given no count below 0."""
    lake = tmp_path / "lake"
    keep(lake, cuts([(A, 1)], [(A, -1)]))
    folder = manifest.LakeFolder(lake)
    folder.change(lambda before: before and replace(before, parts={"entries": before.parts["entries"][1:]}))

    with pytest.raises(OutputError, match="has the row {'id': 'a', 'amount': 1} of entries -1 times: a file was lost"):
        read_lake(lake, "entries")


def test_rows_of_lists_alone_are_found(tmp_path: Path) -> None:
    """No column by which one could look: all is read, and compared as text."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": "list", "type": {"type": "array", "items": ["null", "int"]},
         "cdcv2.source": {"type": "array", "items": {"type": "int4"}}},
    ]})  # fmt: skip
    binding = ViewBinding("entries", row_type, "entries")
    changes = cuts([(([1, 2],), 2), (([],), 1)], [(([1, 2],), -1)], row_type=row_type)
    keep(tmp_path / "lake", changes, binding)

    assert [([1, 2], 1), ([], 1)] == there(tmp_path / "lake")
    with pytest.raises(ViewError, match=r"\(1, 2\).* would be there -1 times"):
        keep(tmp_path / "lake", cuts([(([1, 2],), -2)], row_type=row_type, start=2), binding)
