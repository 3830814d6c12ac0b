"""Which files a history is read from, and what they must have; and what may be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME
from cdcv2.errors import IncompleteError, MissingLogError, OutputError, UsageError
from cdcv2.logs.coverage import TableCoverage
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.targets.lake import history
from cdcv2.materialize.targets.lake.history import TableHistory, history_of, requested, shown
from cdcv2.materialize.targets.lake.manifest import LakeFolder, LakeManifest
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.partitioned import Partitioned

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = RowType({"type": "record", "name": "h", "fields": [{"name": "id", "type": "int"}]})
START = Antichain([0])


class Lake:
    """A folder of histories, and the manifest that names its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = LakeFolder(folder)
        self.parts: dict[str, list[TableFile]] = {}
        self.upper = Antichain([20])
        self.coverage = TableCoverage((), {})

    def add(
        self, name: str, lower: int | None, *times: int | None, stated: int | None = None, table: str = "h",
        **options: Any,
    ) -> Path:
        """A file with a row for each time, numbered from 0 on."""
        kind = pa.struct([("id", pa.int32())])
        rows = {"data": pa.array([{"id": at} for at in range(len(times))], kind), "time": pa.array(times, pa.int64()),
                "diff": pa.array([1] * len(times), pa.int64())}  # fmt: skip
        return self.put(name, lower, pa.table(rows), stated=stated, table=table, **options)

    def put(
        self, name: str, lower: int | None, rows: Any, *, stated: int | None = None, table: str = "h", **options: Any
    ) -> Path:
        """A file of these columns."""
        part = TableFile(name, len(rows) if stated is None else stated, lower)
        path = self.folder.file(table, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, **options)
        self.parts.setdefault(table, []).append(part)
        return path

    @property
    def manifest(self) -> LakeManifest:
        """What counts."""
        return LakeManifest(
            "replay", START, {}, parts={name: tuple(parts) for name, parts in self.parts.items()},
            histories={"h": ROWS, "i": ROWS}, coverage=self.coverage, applied={Range(): self.upper},
        )  # fmt: skip

    def of(self, table: str = "h") -> TableHistory:
        """A table as it is now."""
        return TableHistory(self.folder, self.manifest, table)

    def read(self, at: Any = None) -> dict[int, int]:
        """How often each row is there."""
        rows = self.of().read(at)
        return dict(zip(rows["id"].to_pylist(), rows["cdcv2_count"].to_pylist()))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """One without files."""
    return Lake(tmp_path)


def test_only_files_that_may_have_earlier_times_are_read(lake: Lake) -> None:
    """Rows of a time that is asked for, and of those before; a table may have no file."""
    first, second = lake.add("a", 0, 0, 4, 6), lake.add("b", 7, 7)
    lake.add("c", 9, 9)

    assert [[first], [first], [first, second]] == [lake.of().paths(Antichain([at])) for at in (5, 7, 8)]
    assert ({0: 1, 1: 1}, {0: 1, 1: 1, 2: 1}) == (lake.read(4), lake.read([7]))
    assert [] == lake.of("i").paths(Antichain([5]))
    old = Lake(lake.folder.path / "old")
    assert [old.add("a", None, 3)] == old.of().paths(Antichain([1]))


def test_a_history_that_is_finished_is_read_to_its_end(lake: Lake) -> None:
    """Also the greatest time there is."""
    lake.upper = Antichain()
    lake.add("a", 5, 5, MAX_TIME)

    assert {0: 1, 1: 1} == lake.read() == lake.read(MAX_TIME) == lake.read([])
    assert {0: 1} == lake.read(MAX_TIME - 1)


def test_files_of_a_batch_have_one_number_of_rows(lake: Lake) -> None:
    """They lie in a folder; each other file has its own number."""
    lake.add("0/a", 1, 1, 2, stated=3)
    lake.add("0/b", 1, 1, stated=0)
    lake.of().paths(Antichain([9]))
    odd = lake.add("1/a", 3, 3, 3, stated=1).parent
    lake.add("2/a", 4, 4, stated=2)
    with pytest.raises(OutputError, match=f"{odd} has 2 rows, and its manifest states 1"):
        lake.of().paths(Antichain([9]))


def test_a_file_with_another_number_of_rows_is_refused(lake: Lake) -> None:
    """Though another one makes up for it."""
    odd = lake.add("a", 1, 1, 2, stated=1)
    lake.add("b", 3, 3, stated=2)
    with pytest.raises(OutputError, match=f"{odd} has 2 rows, and its manifest states 1"):
        lake.of().paths(Antichain([9]))


@pytest.mark.parametrize("times", [(4, 6), (6, 8), (6, 9), (4,), (8,)])
def test_a_file_of_the_times_of_others_is_refused(lake: Lake, times: tuple[int, ...]) -> None:
    """A batch ends where the next one begins, in whichever table."""
    odd = lake.add("a", 5, *times)
    lake.add("b", 8, 8, table="i")
    text = f"{odd} has times from {times[0]} to {times[-1]}, and its manifest states others"
    with pytest.raises(OutputError, match=text):
        lake.of().paths(Antichain([9]))


def test_the_last_batch_ends_with_the_history(lake: Lake) -> None:
    """As far as it is."""
    lake.upper = Antichain([8])
    lake.add("a", 5, 5)
    lake.add("x", 6, 6, 7)
    lake.of().paths(Antichain([8]))
    odd = lake.add("b", 6, 8)
    with pytest.raises(OutputError, match=f"{odd} has times from 8 to 8"):
        lake.of().paths(Antichain([8]))


def test_a_file_whose_end_states_no_times_is_not_judged_by_them(lake: Lake) -> None:
    """By another program, or of no times."""
    lake.add("a", 5, 1, write_statistics=False)
    lake.add("b", 5)
    lake.add("c", 5, None)
    lake.put("d", 5, pa.table({"data": pa.array([{"id": 1}], pa.struct([("id", pa.int32())]))}))
    lake.add("e", 5, 5, 6, row_group_size=1)

    assert 5 == len(lake.of().paths(Antichain([9])))
    lake.add("f", 5, 5, 1, row_group_size=1)
    with pytest.raises(OutputError, match="f.parquet has times from 1 to 1"):
        lake.of().paths(Antichain([9]))


@pytest.mark.parametrize(
    "rows", [{"id": [1], "time": [5]}, {"data": [1], "time": [5]}, {"data": [{"x": 1}], "time": [5]}]
)
def test_a_file_of_other_columns_is_refused(lake: Lake, rows: dict[str, list[Any]]) -> None:
    """With what it has, and what it should have."""
    odd = lake.put("a", 5, pa.table(rows))
    columns = "x" if rows.get("data") == [{"x": 1}] else ", ".join(rows)
    with pytest.raises(OutputError, match=f"{odd} has the columns {columns}, and its manifest states id:"):
        lake.of().paths(Antichain([9]))


def test_a_table_of_which_nothing_is_finished(lake: Lake) -> None:
    """Or that is not covered: that it has no rows would be no answer."""
    lake.upper, lake.coverage = Antichain([7]), TableCoverage(("i",), {"h": 7})
    with pytest.raises(IncompleteError, match=f"the output {lake.folder.path}: no time is finished in h yet"):
        lake.of().demand_some()
    with pytest.raises(IncompleteError, match="i is not covered"):
        lake.of("i").demand_some()
    lake.coverage = TableCoverage(("i",), {"h": 6})
    lake.of().demand_some()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Which files are read for the first time of all, and which columns of them."""
    found: list[tuple[str, Any]] = []
    read = history.read_part

    def noted(path: Path, columns: Any = None) -> Any:
        found.append((path.stem, columns))
        return read(path, columns=columns)

    monkeypatch.setattr(history, "read_part", noted)
    return found


@pytest.mark.parametrize(
    ("at", "first", "names"),
    [
        # As soon as one is not beyond the time, or no other file may have an earlier one.
        (7, 7, "a"), (8, 7, "a"), (6, 6, "ab"), (4, 6, "ab"),
    ],
)
def test_the_first_time_is_looked_for_in_few_files(
    lake: Lake, reads: list[Any], at: int, first: int, names: str
) -> None:
    """By where they begin, whatever tables they are of; of each the times only."""
    lake.add("c", 6, 6, table="h")
    lake.add("b", 5, 9, 6, table="h")
    lake.add("a", 4, 7, table="i")
    lake.add("d", 6, 8, table="h")

    assert first == lake.of()._first(at)
    assert [(name, ["time"]) for name in names] == reads


def test_the_first_time_of_all(lake: Lake, reads: list[Any]) -> None:
    """The least of several files; none where there is no update; the start, where that is later."""
    lake.add("a", 4, 8, table="i")
    lake.add("b", 5, 9)
    assert (8, ["a", "b"]) == (lake.of()._first(3), [name for name, _ in reads])
    assert Lake(lake.folder.path / "x").of()._first(3) is None
    later = LakeManifest("replay", Antichain([6]), {}, histories={"h": ROWS})

    assert 6 == TableHistory(lake.folder, later, "h")._first(5)
    with pytest.raises(UsageError, match="the history begins at 8"):
        lake.of().through(3)


def test_files_that_begin_together_are_in_no_order(lake: Lake) -> None:
    """Of one table, and of one that had no beginning."""
    for name, lower in (("a", 5), ("b", 5), ("c", None), ("d", None)):
        lake.add(name, lower, 9)

    assert 9 == lake.of()._first(3)


def test_the_history_of_a_folder(tmp_path: Path) -> None:
    """By the name of its table, which need not be given where there is one."""
    folder = LakeFolder(tmp_path)
    with pytest.raises(MissingLogError, match=f"{tmp_path} is no output of replay"):
        history_of(tmp_path, None)
    folder.change(lambda before: LakeManifest("m", START, {}))
    with pytest.raises(MissingLogError, match=f"{tmp_path} is no output of replay"):
        history_of(tmp_path, "h")
    one = LakeManifest("replay", START, {}, histories={"h": ROWS})
    folder.change(lambda before: one)
    for table in (None, "h"):
        found = history_of(str(tmp_path), table)
        assert (tmp_path, one, "h") == (found.folder.path, found.manifest, found.table)
    with pytest.raises(UsageError, match=f"table='i': {tmp_path} has the tables h$"):
        history_of(tmp_path, "i")
    folder.change(lambda before: LakeManifest("replay", START, {}, histories={"h": ROWS, "i": ROWS}))
    assert "i" == history_of(tmp_path, "i").table
    for name in (None, "x"):
        with pytest.raises(UsageError, match=f"table={name!r}: {tmp_path} has the tables h, i$"):
            history_of(tmp_path, name)


def test_frontiers_of_times_and_for_people() -> None:
    """The greatest time has none behind it."""
    assert (Antichain([MAX_TIME]), Antichain()) == (requested(MAX_TIME - 1), requested(MAX_TIME))
    parts = Antichain([Partitioned.at("a", 1), Partitioned.at("b", 2)])
    assert ("7", "the end of the history") == (shown(Antichain([7])), shown(Antichain()))
    assert ", ".join(map(str, parts)) == shown(parts)
