"""A lake takes changes as columns: the same files, rows and errors as with Loads and Stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.core import Antichain
from cdcv2.errors import ViewError
from cdcv2.materialize import Checkpoint, MemoryRecoveryLog, Runtime, ViewBinding
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.messages import Field, Table
from cdcv2.materialize.targets.lake import file_cache
from cdcv2.materialize.targets.lake.columns import canonical_keys
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.lake.files import StatedFile
from cdcv2.protocol.timeline import Cut
from cdcv2.rows.row_type import RowType
from tests.materialize.lake_by_rows import in_a_lake, in_delta

#: Kind of a key's column -> its Arrow type and its values.
KEYS = {
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)), "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "boolean": (pa.bool_(), st.booleans()), "bytes": (pa.binary(), st.binary(max_size=3)),
    "string": (pa.string(), st.text(st.characters(max_codepoint=0x2FF, exclude_categories=["Cs"]), max_size=4)),
    "decimal": (pa.decimal128(9, 2), st.decimals(-99, 99, places=2)),
}  # fmt: skip


@pytest.mark.parametrize("seeds", [range(at, at + 20) for at in range(0, 60, 20)], ids=str)
def test_columns_end_as_rows_do(tmp_path: Path, seeds: range) -> None:
    """Each type and contradiction, in the log or by hand in a file: one view, the same files, one error."""
    for seed in seeds:
        rows, columns = in_a_lake(tmp_path / str(seed), seed)

        assert rows == columns, f"seed {seed}"


def test_columns_end_as_rows_do_in_delta(tmp_path: Path) -> None:
    """The same rows, the same number of commits, one error."""
    for seed in range(20):
        rows, columns = in_delta(tmp_path / str(seed), seed)

        assert rows == columns, f"seed {seed}"


def test_json_that_was_spelled_otherwise_by_hand_is_the_same_value(tmp_path: Path) -> None:
    """A row that goes is found by what the text means; another value is a conflict."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": "id", "type": "long"}, {"name": "list", "type": ["null", {"type": "array", "items": "long"}]},
    ]})  # fmt: skip
    rows = [row_type.row((1, one)) for one in ([1, 2], [3], None)]

    def source(checkpoint: Checkpoint) -> Iterator[Cut]:
        yield Cut({"rows": [(rows[0], 0, 1)]}, Antichain([0]), Antichain([1]))
        spell(tmp_path, "[1 ,2]")
        yield Cut({"rows": [(rows[0], 1, -1), (rows[1], 1, 1)]}, Antichain([1]), Antichain([2]))
        spell(tmp_path, "[4]")
        yield Cut({"rows": [(rows[1], 2, -1), (rows[2], 2, 1)]}, Antichain([2]), Antichain([3]))

    binding = ViewBinding("rows", row_type, "rows", ("id",))
    walk = Runtime("m", [binding], LakeDriver(tmp_path), source, log=MemoryRecoveryLog("m"), rows=1)
    with pytest.raises(ViewError, match="would be there -1 times"):
        walk.run()

    assert 2 == walk.transactions


def spell(folder: Path, text: str) -> None:
    """Put another text into the column of the youngest file."""
    view = open_lake(folder)
    path = view.folder.file("rows", view.manifest.parts["rows"][-1])
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(1, rows.schema.field(1), [pa.array([text], pa.string())]), path)


def test_young_files_are_read_once_and_so_many_bytes_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The youngest; one that was changed by hand, or has become too large, is read again, or by others."""
    read, before = list[str](), file_cache.read_part
    monkeypatch.setattr(file_cache, "read_part", lambda file: read.append(file.path.name) or before(file))
    paths = [StatedFile(tmp_path / name, 1000, ["n"]) for name in "abc"]
    for number, file in enumerate(paths):
        pq.write_table(pa.table({"n": [number] * 1000}), file.path)
    files = file_cache.HeldFiles(20_000)
    assert [[1], [2]] == [rows["n"].unique().to_pylist() for rows in files.last_of("t", paths)]
    # The third one is found to be too large, once.
    assert (["c", "b", "a"], 2) == (read, len(files.last_of("t", paths)))

    pq.write_table(pa.table({"n": [7] * 1000}), paths[2].path)
    assert [[1], [7]] == [rows["n"].unique().to_pylist() for rows in files.last_of("t", paths)]
    # Another table may have as many bytes as this one leaves.
    assert [] == files.last_of("u", paths[:1]) and ["c", "b", "a", "c", "a"] == read
    paths[2] = paths[2]._replace(rows=3000)
    pq.write_table(pa.table({"n": [8] * 3000}), paths[2].path)
    assert [] == files.last_of("t", paths) + files.last_of("t", paths) and "cbacac" == "".join(read)
    paths[2].path.unlink()
    assert [] == files.last_of("t", paths)


def test_what_is_held_and_what_is_not_end_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some histories no file is held, of some the youngest."""
    for seed in range(100, 120):
        monkeypatch.setattr(file_cache.HeldFiles.__init__, "__defaults__", ((0, 4_000, 16_000)[seed % 3],))
        rows, columns = in_a_lake(tmp_path / str(seed), seed)

        assert rows == columns, f"seed {seed}"


@given(st.data())
def test_the_keys_of_columns_are_those_of_rows(data: st.DataObject) -> None:
    """Whatever the text, and whatever is beside it."""
    kinds = data.draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3))
    keys = data.draw(st.lists(st.tuples(*(KEYS[kind][1] for kind in kinds)), max_size=5))
    table = Table("t", tuple(Field(str(at), kind, precision=9, scale=2) for at, kind in enumerate(kinds)), ())
    columns = [pa.array([key[at] for key in keys], KEYS[kind][0]) for at, kind in enumerate(kinds)]

    rows = pa.table(columns, list(map(str, range(len(kinds)))))

    assert [*map(canonical, keys)] == canonical_keys(table, rows).to_pylist()
