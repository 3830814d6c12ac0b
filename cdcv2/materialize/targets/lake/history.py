"""Histories in a lake, which replay writes: tables of updates, of which a reader sums those up to a time.

What may be read, and which files have it, is decided here for readers on Spark, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcv2.completeness import through_text
from cdcv2.core.antichain import Antichain
from cdcv2.core.order import MAX_TIME, Time, check_time, less_equal
from cdcv2.errors import IncompleteError, MalformedError, MissingLogError, RefusedError, UsageError
from cdcv2.materialize.targets.lake.files import demand_columns, demand_rows, end_of, read_part, unlike
from cdcv2.materialize.targets.lake.manifest import LakeFolder, LakeManifest
from cdcv2.protocol.timeline import demand_started
from cdcv2.rows.columns import UpdateBatch, arrow_type
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import Shape
from cdcv2.views.binding import COUNT

#: Up to when a table is read: an int for everything up to and including this time, an antichain or its elements for
#: everything that is not beyond it, None for all that is finished.
Frontier = Antichain | Iterable[int] | int | None


@dataclass(frozen=True)
class TableHistory:
    """The updates of a table in a lake as it was at one commit."""

    folder: LakeFolder
    manifest: LakeManifest
    table: str

    @property
    def row_type(self) -> RowType:
        """What its rows are."""
        return self.manifest.histories[self.table]

    def through(self, at: Frontier) -> Antichain:
        """The frontier that is asked for.

        Raises RefusedError when that is not finished, naming what is; UsageError for a time before the first one at
        which any table has an update, and for one before the connector covered this table; IncompleteError for a table
        that it does not cover.
        """
        found = self._requested(at)
        covered = self.manifest.coverage.of(self.table)
        covered.demand([self.table])
        covered.demand_started(max((time - 1 for time in found if isinstance(time, int)), default=None))
        if isinstance(at, int):
            demand_started(at, self._first(at))
        return found

    def demand_some(self) -> None:
        """Raise IncompleteError unless a time of the table is finished: that it has no rows then would be no answer."""
        covered = self.manifest.coverage.of(self.table)
        covered.demand([self.table])
        if covered.start(self.table, self.manifest.start).dominates(self.manifest.frontier):
            raise IncompleteError(
                f"no time is finished in {self.table} yet: let the replay continue",
                what=f"the output {self.folder.path}",
            )

    def paths(self, through: Antichain) -> list[Path]:
        """The files that have its updates at times not beyond a frontier; they may have later ones, too.

        Raises OutputError for one that is not what the manifest states. Cost: reads the end of each file.
        """
        parts = self.manifest.parts.get(self.table, ())
        found = [part for part in parts if not through.less_equal(part.lower or 0)]
        stated, there, bounds = Counter[Path](), Counter[Path](), self._bounds()
        for part in found:
            path = self.folder.file(self.table, part)
            # Earlier manifests have a number for the files of a batch together, which lie in one folder.
            batch = path.parent if "/" in part.name else path
            stated[batch] += part.rows
            lower = part.lower or 0
            there[batch] += self._rows(path, lower, bounds[bisect_right(bounds, lower)])
        for batch, rows in stated.items():
            demand_rows(batch, rows, there[batch])
        return [self.folder.file(self.table, part) for part in found]

    def _rows(self, path: Path, lower: int, upper: int) -> int:
        """How many rows a file has. Raises OutputError for one of other columns, or of the times of other batches."""
        with end_of(path) as file:
            data = file.schema_arrow.field("data").type if "data" in file.schema_arrow.names else pa.null()
            names = [field.name for field in data] if pa.types.is_struct(data) else file.schema_arrow.names
            demand_columns(path, [field["name"] for field in self.row_type.schema["fields"]], names)
            for low, high in _times_in(file):
                if low < lower or high >= upper:
                    raise unlike(path, f"has times from {low} to {high}, and its manifest states others")
            return int(file.metadata.num_rows)

    def _bounds(self) -> list[int]:
        """Where batches begin, sorted, and where the last one ends."""
        lowers = {part.lower or 0 for parts in self.manifest.parts.values() for part in parts}
        ends = {time for time in self.manifest.frontier if isinstance(time, int)}
        return sorted({*lowers, *ends, MAX_TIME + 1})

    def read(self, at: Frontier) -> Any:
        """The rows at a time, each once, and how often it is there: a pyarrow.Table.

        Raises UsageError for a table with a column that is called as the count is, MalformedError for a row that comes
        to less than none.
        """
        if at is None:
            self.demand_some()
        through, row_type = self.through(at), self.row_type
        if COUNT in row_type.columns:
            raise UsageError(f"{self.table} has a column {COUNT!r}, as the count is called here: read it on Spark")
        parts = [_updates(row_type, path, through) for path in self.paths(through)]
        summed = UpdateBatch.concat([_nothing(row_type), *parts]).consolidated(at=0)
        wrong = summed.filter(pc.less(summed.diffs, 0))
        if len(wrong):
            ((row, _, times),) = wrong.take([0]).updates()
            raise miscounted(row, times)
        return summed.rows.append_column(pa.field(COUNT, pa.int64()), summed.diffs)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _requested(self, at: Frontier) -> Antichain:
        upper, path = self.manifest.frontier, self.folder.path
        if at is None:
            return upper
        found = requested(at)
        if isinstance(at, int) and upper.less_equal(at):
            raise RefusedError(
                f"{path} is not complete through {at} yet ({through_text(upper)}): ask for an earlier time, or wait"
            )
        if not upper.dominates(found):
            raise RefusedError(
                f"{path} is not finished up to {shown(found)} yet, only up to {shown(upper)}: ask for that or an "
                "earlier frontier, or wait"
            )
        return found

    def _first(self, at: int) -> Time | None:
        """The earliest time of an update in any table; or one up to ``at``, as soon as it is found. None: no update."""
        start: Time = self.manifest.start.elements[0]
        if not less_equal(start, at):
            return start
        first: int | None = None
        every = [(part.lower or 0, table, part) for table, parts in self.manifest.parts.items() for part in parts]
        for lower, table, part in sorted(every, key=lambda one: one[0]):
            if first is not None and (first <= at or first <= lower):
                break
            times = read_part(self.folder.file(table, part), columns=["time"])["time"]
            found = pc.min(times).as_py()
            first = found if first is None else min(found, first)
        return first


def _times_in(file: Any) -> Iterator[tuple[int, int]]:
    """The least and the greatest time of each group of rows, as far as the end of the file states them."""
    for group in range(file.metadata.num_row_groups):
        column = next(
            (one for one in map(file.metadata.row_group(group).column, range(file.metadata.num_columns))
             if one.path_in_schema == "time"), None,
        )  # fmt: skip
        if column is not None and column.statistics is not None and column.statistics.has_min_max:
            yield column.statistics.min, column.statistics.max


def _nothing(row_type: RowType) -> UpdateBatch:
    made = UpdateBatch.of(row_type, [])
    if made is None:
        raise UsageError(f"Arrow has no exact form of {row_type}")
    return made


def _updates(row_type: RowType, path: Path, through: Antichain) -> UpdateBatch:
    """The updates in a file at times not beyond a frontier."""
    rows = read_part(path)
    for time in through:
        rows = rows.filter(pc.less(rows["time"], time))
    columns = rows["data"].combine_chunks().flatten()
    # Columns have Avro's names there, and fixed ones any length.
    kinds = {column.name: arrow_type(column.shape) for column in row_type.shape.columns}
    typed = [column.view(_written(kind)).cast(kind) for kind, column in zip(kinds.values(), columns)]
    return UpdateBatch.from_arrow(row_type, pa.table(typed, list(kinds)), rows["time"], rows["diff"])


def written_columns(batch: UpdateBatch) -> Any:
    """The updates as a file of a history has them: columns data (with the names of Avro), time and diff."""
    shapes = [column.shape for column in batch.row_type.shape.columns]
    columns = [
        column.combine_chunks().cast(_written(column.type)).view(_named(shape))
        for shape, column in zip(shapes, batch.rows.columns)
    ]
    data = pa.StructArray.from_arrays(columns, [column.avro for column in batch.row_type.shape.columns])
    return pa.table([data, batch.times.combine_chunks(), batch.diffs.combine_chunks()], ["data", "time", "diff"])


def _named(shape: Shape) -> Any:
    """The type of a column as its file has it."""
    if shape.kind == "optional":
        return _named(shape.item)
    if shape.kind == "record":
        return pa.struct([(column.avro, _named(column.shape)) for column in shape.columns])
    if shape.kind == "map":
        return pa.map_(pa.string(), _named(shape.item))
    return pa.list_(_named(shape.item)) if shape.kind == "array" else _written(arrow_type(shape))


def _written(kind: Any) -> Any:
    """The type of a column as Spark writes it, with the names of the database."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _written(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _written(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_written(kind.value_type))
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind


def history_of(folder: str | Path, table: str | None) -> TableHistory:
    """The output of replay in a folder as it is now; ``table`` may be None if it has one.

    Raises MissingLogError when there is none, UsageError for a table that is not in it.
    """
    place = LakeFolder(folder)
    _, manifest = place.last()
    if manifest is None or not manifest.histories:
        raise MissingLogError(f"{folder} is no output of replay: it has no manifest of one in _manifests")
    names = list(manifest.histories)
    if table is None and len(names) == 1:
        (table,) = names
    if table not in manifest.histories or table is None:
        raise UsageError(f"table={table!r}: {folder} has the tables {', '.join(names)}")
    return TableHistory(place, manifest, table)


def requested(at: Antichain | Iterable[int] | int) -> Antichain:
    """The frontier that a time or its elements stand for.

    >>> requested(4), requested([4])
    (Antichain([5]), Antichain([4]))
    """
    if not isinstance(at, int):
        return Antichain(at)
    check_time(at)
    # The greatest time has none behind it.
    return Antichain([at + 1] if at < MAX_TIME else [])


def demand_times(at: object) -> None:
    """Raise UsageError unless it is times, or None: a text is a list of letters to Python."""
    if at is None or isinstance(at, Iterable) and not isinstance(at, (str, bytes)):
        return
    if not isinstance(at, int) or isinstance(at, bool):
        raise UsageError(
            f"{at!r} is no time: give a whole number, for everything up to and including it (of an LSN "
            "as 0/217EF70 that is int('217EF70', 16), and 2**32 times what stands before the stroke); or an Antichain; "
            "or leave it out, for all that is finished. An output knows no moments of the clock: cdcv2 as-of --at does"
        )


def miscounted(row: object, times: int) -> MalformedError:
    """The error of a row that is in a table less than zero times, or more often than 64 bits count."""
    return MalformedError(
        f"at this frontier {row!r} is in the table {times} times: the writer of the log is at fault"
    )


def shown(frontier: Antichain) -> str:
    """For people."""
    return ", ".join(str(time) for time in frontier) or "the end of the history"
