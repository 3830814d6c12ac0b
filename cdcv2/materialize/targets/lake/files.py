"""The Parquet files of a lake: their types, how one is staged, and how the current rows are read out of several.

A file has the columns of its table and two more: ``cdcv2_key``, the key's canonical bytes, by which rows are found for
keys of all types, and ``cdcv2_gone``. Of a multiset it has the columns of the rows, and ``cdcv2_diff``
(:mod:`.counts`).
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cdcv2.errors import MalformedError, OutputError, UsageError
from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.messages import Field, Key, Store, Table, Values
from cdcv2.materialize.targets.manifests import TableFile
from cdcv2.rows.columns import counted, rows_at
from cdcv2.store.numbered import durable
from cdcv2.views.arrow_columns import DIGITS, arrow_column

KEY, GONE, DIFF = "cdcv2_key", "cdcv2_gone", "cdcv2_diff"
#: A file has its own name in it, so that one in the place of another is found.
_OWN_NAME = b"cdcv2.file"
#: how many rows are held in memory before they are written
_BUFFER = 50_000
#: kinds of values that are the same in many rows, often enough
_REPEATING = frozenset({"string", "bytes", "json"})
#: kinds of keys that are equal exactly if they are equal in Arrow
_COMPARED = frozenset({"int", "long", "string", "bytes"})
#: How the library of Delta tables names an error of the system.
_NUMBERED = re.compile(r"\(os error (\d+)\)")
#: What to do about a value that a column cannot hold: one of the log's own type, a sum, and one of the source's.
_AS_LOGGED = "Mend the source's row, or leave the column out"
_SUM = (
    "The rows are right: counts and sums have as many digits in a lake and in a Delta table. Materialize the view into "
    "PostgreSQL, where they have no such limit, name more key columns, or leave the sum out"
)
_ALTERED = (
    "If the column was altered in the source: make the row schema again (cdcv2 rows), name its folder with types in "
    "the file, and begin in a new folder, with a new recovery log. Otherwise mend the source's row, or leave the "
    "column out"
)


def arrow() -> Any:
    """pyarrow, imported by the first who needs it: that takes a tenth of a second."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet

    return pyarrow


def reason(cause: BaseException) -> str:
    """Why a file or table cannot be used, in the system's words or in ours; those of the library stay in the cause.

    >>> reason(OSError(28, "Error writing bytes to file")), reason(ValueError("Parquet magic bytes not found"))
    ('No space left on device', 'it is not as it was written: something else has changed or damaged it')
    """
    number = cause.errno if isinstance(cause, OSError) else None
    found = _NUMBERED.search(str(cause))
    if number is None and found is not None:
        number = int(found[1])
    if number is not None:
        return os.strerror(number)
    return "it is not as it was written: something else has changed or damaged it"


def type_of(column: Field) -> Any:
    """The column's type. Raises UsageError for decimals that are too long."""
    pa = arrow()
    typed = arrow_column(column)
    if typed is not None:
        return typed.type(pa)
    if column.kind in ("integer", "decimal"):
        digits = column.precision or DIGITS
        if digits > 76:
            raise UsageError(f"column {column.name!r} has {digits} digits, and Parquet's decimals at most 76")
        return (pa.decimal128 if digits <= DIGITS else pa.decimal256)(digits, column.scale or 0)
    made = {
        "boolean": pa.bool_, "int": pa.int32, "long": pa.int64, "float": pa.float32, "double": pa.float64,
        "string": pa.string, "bytes": pa.binary, "json": pa.string,
    }  # fmt: skip
    return made[column.kind]()


def fits(value: Any, kind: Any) -> bool:
    """Whether a column of this type of Arrow's can hold the value."""
    pa = arrow()
    try:
        pa.array([value], kind)
    except (pa.ArrowException, ValueError, OverflowError):
        return False
    return True


class StagingFolder(Protocol):
    """A folder in which files are staged."""

    @property
    def path(self) -> Path:
        """The folder, as errors name it."""

    def file(self, table: str, part: TableFile) -> Path:
        """Where a file of a table lies."""


def file_schema(table: Table) -> Any:
    """The columns of a table's files."""
    pa = arrow()
    columns = [pa.field(one.name, type_of(one)) for one in table.stored]
    own = [pa.field(DIFF, pa.int64())] if table.multiset else [pa.field(KEY, pa.binary()), pa.field(GONE, pa.bool_())]
    return pa.schema([*columns, *own])


class StagedFile:
    """A new file of a table, under a name that no other file has; it counts when a manifest names it."""

    def __init__(self, folder: StagingFolder, table: Table) -> None:
        self._pa, self._folder, self._table = arrow(), folder, table
        self._schema = file_schema(table)
        # What the columns of the source's types take, by their places.
        typed = [(at, arrow_column(one)) for at, one in enumerate(table.stored)]
        self._put = {at: one.put for at, one in typed if one is not None}
        self._sums = {one.name for one in table.values if one.kind in ("integer", "decimal") and one.precision is None}
        # Of keys and numbers a dictionary takes longer to make than it saves, and zstd needs none.
        self._repeating = [one.name for one in table.values if one.kind in _REPEATING]
        self._part = TableFile(uuid.uuid4().hex, 0)
        self._rows: list[tuple[Any, ...]] = []
        self._writer: Any = None

    def add(self, message: Store) -> None:
        """Take a row; of a multiset, one with its count, which no other file has. Raises MalformedError for a value
        that its column cannot hold.
        """
        own = () if self._table.multiset else (canonical(message.key), message.delete)
        self._rows.append((*(() if self._table.multiset else message.key), *message.values, *own))
        if len(self._rows) >= _BUFFER:
            self._write()

    def add_columns(self, rows: Any, keys: Any, gone: Any) -> None:
        """Take rows as columns: those of the table as the log has them, their canonical keys, and which are deleted.

        Raises MalformedError for a value that its column cannot hold.
        """
        self._write()
        self.add_table(self.typed(rows, [keys, gone]))

    def typed(self, rows: Any, own: Sequence[Any]) -> Any:
        """Columns of the table as the log has them, and the lake's ``own`` ones, as a file has them: a pyarrow.Table.

        Raises MalformedError for a value that its column cannot hold.
        """
        columns = zip(self._schema, rows.columns, map(self._put.get, range(len(self._table.stored))))
        arrays = [
            self._array(field, column.to_pylist(), put) if put is not None else column.cast(field.type)
            for field, column, put in columns
        ]
        return self._pa.Table.from_arrays([*arrays, *own], schema=self._schema)

    def add_table(self, rows: Any) -> None:
        """Take rows as they stand in other files."""
        self._errors(lambda: self._opened().write_table(rows))
        self._part = replace(self._part, rows=self._part.rows + rows.num_rows)

    def finish(self) -> TableFile:
        """Make it durable."""
        path = self._folder.file(self._table.name, self._part)
        self._write()
        self._errors(self._opened().close)
        self._errors(lambda: durable(path, path.parent))
        return self._part

    def discard(self) -> None:
        """It is not needed."""
        if self._writer is not None:
            self._writer.close()
            self._folder.file(self._table.name, self._part).unlink(missing_ok=True)

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        columns = zip(self._schema, zip(*rows), map(self._put.get, range(len(self._schema))))
        arrays = [self._array(column, values, put) for column, values, put in columns]
        self.add_table(self._pa.Table.from_arrays(arrays, schema=self._schema))

    def _array(self, column: Any, values: Sequence[Any], put: Callable[[Any], Any] | None) -> Any:
        try:
            if put is not None:
                values = [None if value is None else put(value) for value in values]
            return self._pa.array(values, column.type)
        except MalformedError as cause:
            raise MalformedError(f"{self._table.name}: in the column {column.name!r}, {cause}") from None
        except (self._pa.ArrowException, ValueError, OverflowError) as cause:
            odd = next((value for value in values if not fits(value, column.type)), None)
            raise MalformedError(
                f"{self._table.name}: the column {column.name!r} is of the type {column.type} and cannot hold the "
                f"value {odd!r}. {self._remedy(column.name, put)}"
            ) from cause

    def _remedy(self, name: str, put: Callable[[Any], Any] | None) -> str:
        if name in self._sums:
            return _SUM
        return _AS_LOGGED if put is None else _ALTERED

    def _opened(self) -> Any:
        if self._writer is None:
            path = self._folder.file(self._table.name, self._part)

            def made() -> Any:
                path.parent.mkdir(parents=True, exist_ok=True)
                schema = self._schema.with_metadata({_OWN_NAME: self._part.name})
                return self._pa.parquet.ParquetWriter(
                    path, schema, compression="zstd", use_dictionary=self._repeating
                )

            self._writer = self._errors(made)
        return self._writer

    def _errors(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except OSError as cause:
            raise OutputError(
                f"the lake in {self._folder.path} cannot be written: {reason(cause)}; make room or grant the rights, "
                "and start again: nothing of the transaction counts"
            ) from cause


class StatedFile(NamedTuple):
    """A file, and what the manifest that names it states: how many rows it has, and which columns."""

    path: Path
    rows: int
    columns: Sequence[str]

    def demand(self, file: Any) -> None:
        """Raise OutputError for a pyarrow.parquet.ParquetFile that is not this file, by its end."""
        own = (file.schema_arrow.metadata or {}).get(_OWN_NAME)
        # Files of earlier releases do not have it.
        if own not in (None, self.path.stem.encode()):
            raise unlike(self.path, f"is the file {own.decode()}")
        demand_columns(self.path, self.columns, file.schema_arrow.names)
        demand_rows(self.path, self.rows, int(file.metadata.num_rows))


def demand_columns(place: Path, stated: Collection[str], found: Collection[str]) -> None:
    """Raise OutputError unless a file has the columns that its manifest states."""
    if set(stated) != set(found):
        raise unlike(place, f"has the columns {', '.join(found)}, and its manifest states {', '.join(stated)}")


def demand_rows(place: Path, stated: int, found: int) -> None:
    """Raise OutputError unless a file, or a folder of files, has as many rows as its manifest states.

    >>> demand_rows(Path("lake/t/7f.parquet"), 3, 3)
    """
    if stated != found:
        raise unlike(place, f"has {found} rows, and its manifest states {stated}")


def unlike(place: Path, what: str) -> OutputError:
    """The error of a file that is not what its manifest states.

    >>> str(unlike(Path("lake/t/7f.parquet"), "has 2 rows, and its manifest states 3"))[:73]
    "the lake's file lake/t/7f.parquet has 2 rows, and its manifest states 3: "
    """
    return OutputError(
        f"the lake's file {place} {what}: it was cut, or another file stands in its place. Restore it, or begin again "
        "with the folder and what it was made with empty"
    )


def read_part(
    given: Path | StatedFile, wanted: Any = None, column: str = KEY, *, columns: Sequence[str] | None = None
) -> Any:
    """The rows of a file, or some of their columns, or those rows that have one of the wanted values in a column.

    Raises OutputError when it is not there, damaged, or not what is stated of it. Cost: of a file that has none of
    them, reading that column.
    """
    pa, path = arrow(), given.path if isinstance(given, StatedFile) else given
    with _reading(path), pa.parquet.ParquetFile(path) as file:
        if isinstance(given, StatedFile):
            given.demand(file)
        # Threads cost more than they gain where there is little to read.
        threads = path.stat().st_size > 1 << 20
        if wanted is None:
            return file.read(columns, use_threads=threads).replace_schema_metadata()
        found = pa.concat_tables([file.schema_arrow.empty_table(), *_found(file, wanted, column, threads)])
        return found.replace_schema_metadata()


def rows_in(path: Path) -> int:
    """How many rows a file has. Raises OutputError as :func:`read_part`. Cost: reads the end of it."""
    with end_of(path) as file:
        return int(file.metadata.num_rows)


@contextmanager
def end_of(path: Path) -> Iterator[Any]:
    """A file as a pyarrow.parquet.ParquetFile, of which only the end is read. Raises as :func:`read_part`."""
    with _reading(path), arrow().parquet.ParquetFile(path) as file:
        yield file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, arrow().ArrowException) as cause:
        raise OutputError(
            f"the lake's file {path} cannot be read: {reason(cause)}; open the lake again, or restore the file"
        ) from cause


def _found(file: Any, wanted: Any, column: str, threads: bool) -> Iterator[Any]:
    """What a file has with these values, one group of its rows after the other."""
    pa, names = arrow(), file.schema_arrow.names
    others = [name for name in names if name != column]
    for group in range(file.num_row_groups):
        held = file.read_row_group(group, [column], use_threads=False)
        there = pa.compute.is_in(held[column], wanted)
        if pa.compute.any(there).as_py():
            rows = file.read_row_group(group, others, use_threads=threads)
            yield rows.append_column(held.schema.field(column), held[column]).filter(there).select(names)


def key_column(table: Table) -> str:
    """The column of a file by which keys are found: the key itself, where it is one that Arrow compares as we do.

    >>> key_column(Table("t", (Field("id", "long"),), ())), key_column(Table("t", (Field("price", "decimal"),), ()))
    ('id', 'cdcv2_key')
    """
    first, *others = table.key
    return first.name if not others and first.kind in _COMPARED and arrow_column(first) is None else KEY


def current(parts: Sequence[Any], column: str = KEY) -> Any:
    """Of each key, as a column has it, the row of the last part that has it, marks included; None without parts."""
    pa = arrow()
    if not parts:
        return None
    rows = pa.concat_tables(parts)
    if len(parts) == 1:
        return rows
    place = counted(rows.num_rows)
    last = pa.table([rows[column], place], ["key", "place"]).group_by("key", use_threads=False)
    last = last.aggregate([("place", "max")])
    return rows_at(rows, last["place_max"].sort())


def rows_of(table: Table, rows: Any) -> Iterator[tuple[Key, Values]]:
    """Rows as keys and values; of a multiset, the key is the row, the values are the row and how often it is there."""
    fields, width = table.fields, len(table.key)
    if table.multiset:
        fields, width = table.values, 0
    columns = [_values(one, rows[one.name]) for one in fields]
    for at, one in enumerate(fields):
        if one.kind == "integer":
            columns[at] = [None if value is None else int(value) for value in columns[at]]
    for row in zip(*columns):
        yield row[:-1] if table.multiset else row[:width], row[width:]


def _values(field: Field, column: Any) -> list[Any]:
    """A column as the log has it."""
    found = logged(field, column)
    return list(column.to_pylist()) if found is None else found


def logged(field: Field, column: Any) -> list[Any] | None:
    """The log's values of a column that a file has in the type of the source; None where it has the log's own type."""
    typed = arrow_column(field)
    if typed is None:
        return None
    if typed.read_as is not None:
        column = column.cast(typed.read_as(arrow()))
    return [None if value is None else typed.get(value) for value in column.to_pylist()]
