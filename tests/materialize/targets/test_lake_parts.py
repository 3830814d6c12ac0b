"""Changes of a lake as columns, in memory: keys, what is there and what goes, sums of counts, and held files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cdcv2.errors import MalformedError
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.messages import Changes, ConflictError, Field, Table
from cdcv2.materialize.targets.lake import columns, counts, file_cache, files
from cdcv2.materialize.targets.lake.columns import as_logged, canonical_keys, conflict, keys_by, one_array
from cdcv2.materialize.targets.lake.files import StatedFile
from cdcv2.rows.columns import rows_at
from cdcv2.rows.source_types import SourceType

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
PLAIN: list[tuple[str, Any, list[Any]]] = [
    ("int", pa.int32(), [-(2**31), 0, 7]), ("long", pa.int64(), [2**63 - 1, -1]),
    ("boolean", pa.bool_(), [True, False]),
    ("string", pa.string(), ["", "a b", "~ -&([]^"]),
]  # fmt: skip
ODD: list[tuple[str, Any, list[Any]]] = [
    ("string", pa.string(), ["a", "it's"]), ("string", pa.string(), ["a\\b"]), ("string", pa.string(), ["é", "\n"]),
    ("bytes", pa.binary(), [b"", b"\x00'"]), ("decimal", pa.decimal128(9, 2), [Decimal("1.50")]),
]  # fmt: skip


def keyed(*fields: tuple[str, Any, list[Any]]) -> tuple[Table, Any]:
    """A table with this key and another column, and rows of it."""
    names = [f"k{at}" for at in range(len(fields))]
    key = tuple(Field(name, kind) for name, (kind, _, _) in zip(names, fields))
    arrays = [pa.chunked_array([pa.array(one[:1], kind), pa.array(one[1:], kind)]) for _, kind, one in fields]
    return Table("t", key, (Field("v", "int"),)), pa.table([*arrays, arrays[0]], [*names, "v"])


def row_by_row(*fields: tuple[str, Any, list[Any]]) -> list[bytes]:
    """The keys that they should have."""
    return [canonical(key) for key in zip(*(one for _, _, one in fields))]


@pytest.mark.parametrize(
    "fields", [(one,) for one in PLAIN] + [(PLAIN[1], PLAIN[2], PLAIN[3]), (PLAIN[3], PLAIN[3])], ids=str
)
def test_plain_keys_are_made_as_columns(monkeypatch: pytest.MonkeyPatch, fields: Any) -> None:
    """As those of rows are, and none of them is made row by row."""
    shortest = min(len(one) for _, _, one in fields)
    fields = [(kind, typed, one[:shortest]) for kind, typed, one in fields]
    expected, (table, rows) = row_by_row(*fields), keyed(*fields)
    monkeypatch.setattr(columns, "canonical", None)
    found = canonical_keys(table, rows)

    assert (expected, pa.binary()) == (found.to_pylist(), found.type)
    assert [] == canonical_keys(table, rows.slice(0, 0)).to_pylist()


@pytest.mark.parametrize("fields", [(one,) for one in ODD] + [(PLAIN[1], ODD[0]), (ODD[2], PLAIN[2])], ids=str)
def test_other_keys_are_made_row_by_row(fields: Any) -> None:
    """With the same outcome."""
    table, rows = keyed(*fields)
    found = canonical_keys(table, rows)

    assert (row_by_row(*fields), pa.binary()) == (found.to_pylist(), found.type)
    assert pa.binary() == canonical_keys(table, rows.slice(0, 0)).type


def test_keys_by_a_column() -> None:
    """The key itself, or its canonical bytes."""
    table, rows = keyed(PLAIN[1])

    assert [2**63 - 1, -1] == keys_by(table, "k0", rows).to_pylist()
    assert row_by_row(PLAIN[1]) == keys_by(table, "cdcv2_key", rows).to_pylist()


def test_a_column_in_one_piece() -> None:
    """Whatever it was in, and of its type also where there is nothing."""
    pieces = pa.chunked_array([[1], [2, 3]], pa.int32())

    assert (pa.array([1, 2, 3], pa.int32()), pieces.chunk(1)) == (one_array(pieces), one_array(pieces.chunk(1)))
    assert pa.array([], pa.int32()) == one_array(pa.chunked_array([], pa.int32()))


# --- whether what goes is what is there

T = Table("t", (Field("id", "long"),), (Field("v", "double", True), Field("j", "json", True)))
COLUMNS = {"id": pa.int64(), "v": pa.float64(), "j": pa.string()}
NAN = float("nan")
Row = tuple[Any, ...]


def of(rows: Sequence[Row], table: Table = T) -> Any:
    """Rows as columns."""
    kinds = [*COLUMNS.values(), pa.bool_()][: len(table.fields)]
    return pa.table(
        [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)], [one.name for one in table.fields]
    )


def judged(
    gone: list[Row], come: list[Row], there: list[Row], *, both: int = 0, table: Table = T, column: str = "cdcv2_key"
) -> Any:
    """What is found odd, by the canonical key or by the key itself."""
    changes = Changes(0, of(gone, table), of(come, table), both)
    rows = of(there, table).append_column("cdcv2_key", pa.array([canonical(row[:1]) for row in there], pa.binary()))
    keys = (keys_by(table, column, one) for one in (changes.gone, changes.come))
    return conflict(table, changes, *keys, rows, column)


A, B, C = (1, 0.5, "[1]"), (2, None, None), (3, NAN, '{"a":1}')


@pytest.mark.parametrize("column", ["cdcv2_key", "id"])
@pytest.mark.parametrize(
    ("gone", "come", "both", "there", "odd"),
    [
        ([], [], 0, [], None), ([], [A, B], 0, [C], None), ([A, B, C], [], 0, [C, B, A], None),
        ([A], [(1, 9.0, None)], 1, [B, A], None),
        ([(3, NAN, '{"a": 1.0}')], [], 0, [C], None),
        # Not there, or another one.
        ([A], [], 0, [B], ((1,), None)), ([A], [(1, 9.0, None)], 1, [], ((1,), None)),
        ([(1, 0.6, "[1]")], [], 0, [A], ((1,), A[1:])), ([(1, None, "[1]")], [], 0, [A], ((1,), A[1:])),
        ([(3, None, '{"a":1}')], [], 0, [C], ((3,), C[1:])),
        ([(1, NAN, "[1]")], [], 0, [A], ((1,), A[1:])), ([(2, NAN, None)], [], 0, [B], ((2,), B[1:])),
        ([(2, 0.0, None)], [], 0, [B], ((2,), B[1:])), ([(1, 0.5, "[2]")], [], 0, [A], ((1,), A[1:])),
        ([(1, 0.5, None)], [], 0, [A], ((1,), A[1:])), ([(2, None, "[1]")], [], 0, [B], ((2,), B[1:])),
        ([(2, None, "null")], [], 0, [B], ((2,), B[1:])),
        # One is there that should not be.
        ([], [A], 0, [A], ((1,), A[1:])), ([B], [(2, 1.0, None), (1, 7.0, None)], 1, [A, B], ((1,), A[1:])),
        # The least of all.
        ([(2, 1.0, None), (3, NAN, '{"a":1}')], [(2, 5.0, None), (4, None, None)], 1, [B, C, (4, 0.0, None)],
         ((2,), B[1:])),
        ([(2, 1.0, None)], [(1, 1.0, None)], 0, [B, A], ((1,), A[1:])),
    ],
)  # fmt: skip
def test_what_is_there_is_what_is_expected(
    column: str, gone: list[Row], come: list[Row], both: int, there: list[Row], odd: Any
) -> None:
    """Nulls are equal, as two NaN and two spellings of one JSON are; else the least key, and what is there."""
    assert repr(odd) == repr(judged(gone, come, there, both=both, column=column))


def test_a_marked_row_is_not_there() -> None:
    """In a table that keeps deleted rows."""
    table = Table("t", T.key, (*T.values, Field("cdcv2_deleted", "boolean")), soft=True)
    live, deleted = (*A, False), (*A, True)

    assert judged([], [live], [deleted], table=table) is None
    assert ((1,), None) == judged([live], [], [deleted], table=table)
    assert ((1,), live[1:]) == judged([], [live], [live], table=table)


def test_columns_of_the_sources_types_are_the_logs_again() -> None:
    """Others are as they are."""
    moment = Field("v", "long", source=SourceType("timestamp"))
    written = pa.chunked_array([pa.array([1_500_000, None], pa.timestamp("us"))])

    assert pa.chunked_array([[1_500_000, None]], pa.int64()) == as_logged(moment, written)
    assert pa.chunked_array([[None]], pa.int64()) == as_logged(moment, written.slice(1))
    assert pa.chunked_array([[7]]) == as_logged(Field("v", "long"), pa.chunked_array([[7]]))


# --- counts

M = Table("m", (Field("cdcv2_row", "bytes"),), (
    Field("a", "long"), Field("s", "string", True), Field("cdcv2_count", "long")), multiset=True)  # fmt: skip


def counted(*rows: tuple[Any, Any, int], name: str = "cdcv2_diff") -> Any:
    """Rows with a number."""
    kinds = {"a": pa.int64(), "s": pa.string(), name: pa.int64()}
    return pa.table({one: pa.array([row[at] for row in rows], kind) for at, (one, kind) in enumerate(kinds.items())})


class Staged:
    """A file in memory, that cannot hold 99."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    def typed(self, rows: Any, own: Sequence[Any]) -> Any:
        """As a file has them."""
        if 99 in rows["a"].to_pylist():
            raise MalformedError("99 is too much")
        return pa.Table.from_arrays([rows["a"], rows["s"], *own], schema=counted().schema)

    def add_table(self, rows: Any) -> None:
        """Note them."""
        self.written.append(rows)


def staged(gone: Any, come: Any, there: Any) -> tuple[list[Any], list[Any]]:
    """What is written, and for what it was looked."""
    file: Any = Staged()
    looked: list[Any] = []

    def like(rows: Any) -> Any:
        looked.append(rows.to_pylist())
        return there

    counts.stage(M, Changes(4, gone, come, 0), file, like)
    (written,) = file.written
    return [tuple(row.values()) for row in written.to_pylist()], looked


def test_what_comes_is_written_as_it_comes() -> None:
    """Nothing is looked up where no row goes."""
    come = counted((1, "x", 2), (2, None, 1), (1, "x", 1))

    assert ([(1, "x", 2), (2, None, 1), (1, "x", 1)], []) == staged(counted(), come, None)


def test_what_goes_is_written_first_if_it_is_there_so_often() -> None:
    """In any number of files, and whatever else is there."""
    gone, come = counted((1, "x", -3), (2, None, -1)), counted((5, "y", 1))
    there = counted((1, "x", 2), (9, "z", -7), (2, None, 1), (1, "x", 1), (1, "y", -4))
    written, looked = staged(gone, come, there)

    assert [(1, "x", -3), (2, None, -1), (5, "y", 1)] == written
    assert [gone.to_pylist()] == looked


@pytest.mark.parametrize(
    ("gone", "there", "key", "before"),
    [
        (counted((1, "x", -3)), counted((1, "x", 2)), (1, "x"), (1, "x", 2)),
        (counted((1, "x", -1)), counted(), (1, "x"), None),
        (counted((1, "x", -1), (2, "y", -2)), counted((1, "x", 1), (2, "y", 1)), (2, "y"), (2, "y", 1)),
        (counted((1, None, -2)), counted((1, "x", 5)), (1, None), None),
        (counted((99, "x", -1)), None, (99, "x"), None),
        (counted((1, "x", -1), (99, "y", -2), (99, "z", -1)), None, (99, "y"), None),
        (counted((3, "x", -1)), counted((3, "x", -1)), (3, "x"), (3, "x", -1)),
    ],
)
def test_what_goes_more_often_than_it_is_there(gone: Any, there: Any, key: Any, before: Any) -> None:
    """The row, and how often it is there; one that no file can hold is not there."""
    with pytest.raises(ConflictError) as caught:
        staged(gone, counted(), there)

    assert ("m", 4, key, before) == (caught.value.target, caught.value.binding, caught.value.key, caught.value.there)


def test_what_comes_and_cannot_be_held_is_the_rows_fault() -> None:
    """It is no conflict."""
    with pytest.raises(MalformedError, match="99 is too much"):
        staged(counted(), counted((99, "x", 1)), None)


def test_several_files_become_one() -> None:
    """Where rows go they are added up, in their order; else they stay as they are."""
    come, more = counted((1, "x", 2), (2, "y", 1)), counted((1, "x", 1))
    assert pa.concat_tables([come, more]) == counts.merged(M, [come, more], zeros=False)
    assert counted() == counts.merged(M, [counted(), counted()], zeros=False)
    going = counted((2, "y", -1), (1, "x", -1), (3, "z", 1))
    found = counts.merged(M, [come, going], zeros=False)
    assert (counted((1, "x", 1), (3, "z", 1)).to_pylist(), come.schema) == (found.to_pylist(), found.schema)
    zeros = counts.merged(M, [come, going], True)
    assert counted((1, "x", 1), (2, "y", 0), (3, "z", 1)).to_pylist() == zeros.to_pylist()
    zero = counted((1, "x", 0))
    assert [[], [{"a": 1, "s": "x", "cdcv2_diff": 0}]] == [
        counts.merged(M, [zero], kept).to_pylist() for kept in (False, True)
    ]


def test_rows_are_taken_as_they_are_of_columns_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table's own ``take`` ends with an error if a column has more text than 2 GB, which a test has no time for."""
    taken: list[str] = []

    def noted(name: str, rows: Any, places: Any) -> Any:
        taken.append(name)
        return rows_at(rows, places)

    for module in (files, counts, columns):
        monkeypatch.setattr(module, "rows_at", partial(noted, module.__name__.rpartition(".")[2]))
    part = counted((1, "x", 1), (2, "y", 1))
    assert part == files.current([part, part], "a")
    assert counted((2, "y", 1)) == counts.merged(M, [part, counted((1, "x", -1))], zeros=False)
    assert judged([A], [], [A]) is None
    assert ["files", "counts", "columns"] == taken


def test_sums_of_equal_rows() -> None:
    """The place of the first of them; a sum of 0 only where it is wanted. Lists are compared by their values."""
    rows = counted((1, "x", 2), (2, None, 1), (1, "x", -2), (2, None, 1))
    assert ([1], [2]) == tuple(one.to_pylist() for one in counts.added(M, rows))
    assert ([0, 1], [0, 2]) == tuple(one.to_pylist() for one in counts.added(M, rows, zeros=True))
    field = Field("a", "json", source=SourceType("array", items=SourceType("int4")))
    lists = Table("m", M.key, (field, M.values[-1]), multiset=True)
    nested = pa.table({"a": pa.array([[1, None], [2], [1, None]], pa.list_(pa.int32())), "cdcv2_diff": [1, 1, 1]})

    assert ([0, 1], [2, 1]) == tuple(one.to_pylist() for one in counts.added(lists, nested))


def test_by_which_column_rows_are_looked_for() -> None:
    """The one with the most values; not by floats, lists and numbers of rows."""
    rows = pa.table({
        "kind": ["a", "a", "b"], "id": [1, 2, 3], "x": [0.5, 1.5, 2.5], "l": [[1], [2], [3]], "cdcv2_diff": [1, 2, 3],
    })  # fmt: skip

    assert "id" == counts.probe(rows)
    assert "kind" == counts.probe(rows.drop_columns(["id"]))
    assert counts.probe(rows.select(["x", "l", "cdcv2_diff"])) is None


# --- files in memory


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    found: list[str] = []
    read = file_cache.read_part

    def noted(file: StatedFile) -> Any:
        found.append(file.path.name)
        return read(file)

    monkeypatch.setattr(file_cache, "read_part", noted)
    return found


def made(folder: Path, name: str, *numbers: int) -> StatedFile:
    """A file of numbers."""
    rows = pa.table({"n": pa.array(numbers, pa.int64())})
    pq.write_table(rows, folder / name)
    return StatedFile(folder / name, len(numbers), ("n",))


def numbers(found: list[Any]) -> list[list[int]]:
    """Of each file."""
    return [one["n"].to_pylist() for one in found]


def test_a_file_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    """In its order; one that is another one by now is read again, and one that is no more named is let go."""
    a, b, c = (made(tmp_path, name, at) for at, name in enumerate("abc"))
    files = file_cache.HeldFiles()
    assert [[0], [1], [2]] == numbers(files.last_of("t", [a, b, c]))
    assert [[1], [2]] == numbers(files.last_of("t", [b, c]))
    assert ["c", "b", "a"] == reads
    made(tmp_path, "d", 7)
    os.replace(tmp_path / "d", b.path)
    assert [[0], [7], [2]] == numbers(files.last_of("t", [a, b, c]))
    assert ["c", "b", "a", "b", "a"] == reads
    assert [[0]] == numbers(files.last_of("u", [a]))
    assert [] == files.last_of("t", [])


def test_one_that_may_be_too_large_is_not_read(tmp_path: Path, reads: list[str]) -> None:
    """It may be four times as large in memory."""
    a = made(tmp_path, "a", *range(10))
    on_disk = a.path.stat().st_size

    assert ([], []) == (file_cache.HeldFiles(4 * on_disk - 1).last_of("t", [a]), reads)
    assert 1 == len(file_cache.HeldFiles(4 * on_disk).last_of("t", [a]))


def test_room_is_what_all_tables_leave(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte: a file that is as large as the room is held, and its rows count until they are let go."""
    monkeypatch.setattr(file_cache, "_UNPACKED", 0)
    a, b = made(tmp_path, "a", *range(10)), made(tmp_path, "b", *range(5))
    large, small = file_cache.read_part(a).nbytes, file_cache.read_part(b).nbytes
    assert [10, 5] == [len(one) for one in file_cache.HeldFiles(large + small).last_of("t", [a, b])]
    tight = file_cache.HeldFiles(large + small - 1)
    assert [5] == [len(one) for one in tight.last_of("t", [a, b])]
    reads.clear()
    assert [5] == [len(one) for one in tight.last_of("t", [a, b])]
    assert [] == reads
    assert [] == tight.last_of("u", [a])
    assert [5] == [len(one) for one in tight.last_of("u", [b])]
    assert [] == tight.last_of("t", [])
    assert [10] == [len(one) for one in file_cache.HeldFiles(large).last_of("t", [a])]
    assert [] == file_cache.HeldFiles(large - 1).last_of("t", [a])


def test_a_file_that_is_missing_ends_it(tmp_path: Path, reads: list[str]) -> None:
    """Reading it raises, where it is read."""
    a, b, c = (made(tmp_path, name, at) for at, name in enumerate("abc"))
    b.path.unlink()

    assert [[2]] == numbers(file_cache.HeldFiles().last_of("t", [a, b, c]))
    assert ["c"] == reads
