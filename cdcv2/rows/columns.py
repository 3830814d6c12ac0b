"""Updates as columns: Arrow arrays of a row type, with time and diff beside them; the carrier between boxes.

An :class:`UpdateBatch` is canonical by construction, as rows are: there is one NaN, 0.0 stands for -0.0, a decimal is a
number (so it has no padding), the keys of a map are sorted. Two rows of a batch are therefore equal exactly if their
columns are, and Arrow's own ``group_by`` gives the equality of rows.

===================  ======================================  =========================================
Avro type            Arrow type                              no exact form: the row path
===================  ======================================  =========================================
null, boolean        null, bool
int, long            int32, int64
float, double        float32, float64
string, enum         string
bytes, fixed         binary, fixed_size_binary
decimal              decimal128, from 39 digits decimal256   more than 76 digits
array, map, record   list, map, struct                       a record without columns
update               time and diff are int64                 products as times, diffs of over 64 bits
===================  ======================================  =========================================

The row path beside it is a list of updates ``(row, time, diff)``. :func:`arrow_schema` and :meth:`UpdateBatch.of`
return None where only that is exact.

The file is long because it is the table above, in code: for each type the way into an array, the way back, and the
check of columns that others made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, chain, islice, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcv2.errors import MalformedError
from cdcv2.protocol.messages import Update
from cdcv2.rows.row_type import RowType, class_of, record_check
from cdcv2.rows.schema import Shape
from cdcv2.rows.values import NAN, checker, minimal

#: Rows of a chunk; fewer, where their values come to more than one array holds.
_CHUNK = 65_536
#: Bytes that one array of strings holds, or of bytes.
_MOST = 2**31 - 1
_LONG = 2**63
_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "enum": pa.string(), "bytes": pa.binary(),
}  # fmt: skip
_NESTED = frozenset({"array", "map", "record"})


def arrow_type(shape: Shape) -> pa.DataType | None:
    """The Arrow type of a shape; None where no type holds its values exactly.

    >>> arrow_type(Shape("bytes", decimal=(20, 2))), arrow_type(Shape("bytes", decimal=(100, 0)))
    (Decimal128Type(decimal128(20, 2)), None)
    """
    if shape.decimal is not None:
        precision, scale = shape.decimal
        return None if precision > 76 else (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    if shape.kind == "fixed":
        return pa.binary(shape.size) if shape.size else pa.binary()
    if shape.kind == "record":
        inside = [(column.name, arrow_type(column.shape)) for column in shape.columns]
        return pa.struct(inside) if inside and all(inner is not None for _, inner in inside) else None
    if shape.kind not in ("optional", "array", "map"):
        return _SIMPLE[shape.kind]
    inner = arrow_type(shape.item)
    if inner is None or shape.kind == "optional":
        return inner
    return pa.list_(inner) if shape.kind == "array" else pa.map_(pa.string(), inner)


@cache
def arrow_schema(row_type: RowType) -> pa.Schema | None:
    """The columns of a row type in Arrow, under the names of the database; None where the row path is needed."""
    types = [(column.name, arrow_type(column.shape), column.shape) for column in row_type.shape.columns]
    if any(made is None for _, made, _ in types):
        return None
    return pa.schema([pa.field(name, made, shape.kind in ("optional", "null")) for name, made, shape in types])


class UpdateBatch:
    """Updates of one row type as columns. Immutable; slices and filters share memory.

    >>> orders = RowType({"type": "record", "name": "order", "fields": [
    ...     {"name": "id", "type": "long"}, {"name": "price", "type": "double"}]})
    >>> batch = UpdateBatch.of(orders, [(orders.row((1, -0.0)), 5, 1), (orders.row((1, 0.0)), 6, -1)])
    >>> batch.rows.column("price").to_pylist(), batch.times.to_pylist(), batch.diffs.to_pylist()
    ([0.0, 0.0], [5, 6], [1, -1])
    >>> len(batch.consolidated(at=6)), batch.updates()[1]
    (0, (Row(id=1, price=0.0), 6, -1))

    Cost: about a microsecond a row to make one of rows, or rows of one; more for nested columns.
    """

    __slots__ = ("_table", "row_type")

    def __init__(self, row_type: RowType, table: pa.Table) -> None:
        """Of columns that are canonical: use :meth:`of` or :meth:`from_arrow`. The last two are time and diff."""
        #: what its rows are
        self.row_type = row_type
        self._table = table

    @classmethod
    def of(cls, row_type: RowType, updates: Iterable[Update]) -> UpdateBatch | None:
        """The updates as columns; None where Arrow has no exact form of them, which leaves the row path.

        Raises MalformedError, naming the column, for data that are no rows of this type, for what is no triple, and for
        a diff of 0.
        """
        schema = arrow_schema(row_type)
        if schema is None:
            return None
        left, batches = iter(updates), list[pa.RecordBatch]()
        while part := list(islice(left, _CHUNK)):
            rows, times, diffs = _apart(part)
            at, by = _whole(times, 0), _whole(diffs, -_LONG)
            if at is None or by is None:
                return None
            _demand_some(by)
            batches += _batches(row_type, schema, rows, [at, by])
        return cls(row_type, pa.Table.from_batches(batches, _with_update(schema)))

    @classmethod
    def from_arrow(cls, row_type: RowType, rows: Any, times: Any, diffs: Any) -> UpdateBatch:
        """A batch of columns that others have made: checked, and made canonical.

        ``rows`` is a table or record batch with the types of :func:`arrow_schema`, its columns in this order; ``times``
        and ``diffs`` are arrays. Raises MalformedError, naming the column and a value, for what no row can hold.
        """
        schema = arrow_schema(row_type)
        found = [] if schema is None else list(schema.types)
        if list(rows.schema.types) != found:
            raise MalformedError(f"the columns {rows.schema.types} are not those of {row_type}: {found}")
        columns = [
            _canonical(column.shape, given, f"column {column.name!r}")
            for column, given in zip(row_type.shape.columns, rows.columns)
        ]
        held = [_int64(times, "time", 0), _int64(diffs, "diff", -_LONG)]
        if pc.any(pc.equal(held[1], 0)).as_py():
            raise MalformedError("an update has the diff 0, which states nothing: leave it out")
        return cls(row_type, pa.Table.from_arrays([*columns, *held], schema=_with_update(schema)))

    @property
    def rows(self) -> pa.Table:
        """The columns of the rows, by name."""
        return self._table.select(range(self._table.num_columns - 2))

    @property
    def times(self) -> pa.ChunkedArray:
        """The times, as int64."""
        return self._table.column(self._table.num_columns - 2)

    @property
    def diffs(self) -> pa.ChunkedArray:
        """The diffs, as int64; none is 0."""
        return self._table.column(self._table.num_columns - 1)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of its columns."""
        return int(self._table.nbytes)

    def updates(self) -> list[Update]:
        """The row path: the same updates with rows."""
        found: list[Update] = []
        shape = self.row_type.shape
        for batch in self._table.to_batches():
            *columns, times, diffs = batch.columns
            found += zip(_records(shape, columns, None), times.to_pylist(), diffs.to_pylist())
        return found

    def filter(self, mask: Any) -> UpdateBatch:
        """The updates for which the boolean array is true."""
        return UpdateBatch(self.row_type, self._table.filter(mask))

    def take(self, places: Any) -> UpdateBatch:
        """The updates at these places, in this order."""
        return UpdateBatch(self.row_type, rows_at(self._table, places))

    @classmethod
    def concat(cls, batches: Sequence[UpdateBatch]) -> UpdateBatch:
        """Several batches of one row type, behind one another; nothing is copied. Raises MalformedError for none."""
        if not batches or any(one.row_type != batches[0].row_type for one in batches):
            raise MalformedError("only batches of one row type make one: give at least one, all of the same row type")
        return cls(batches[0].row_type, pa.concat_tables([one._table for one in batches]))

    def consolidated(self, at: int | None = None) -> UpdateBatch:
        """Each identity once, with the sum of its diffs, in the order of its first update; sums of 0 are left out.

        With ``at``, all updates are taken to be at this time: what is left is the net change of every row. Raises
        MalformedError for a sum of over 64 bits. Cost: one ``group_by``; columns of arrays, maps and records are
        compared as Python values.
        """
        count = self._table.num_columns - 2
        keys = [self._comparable(place) for place in range(count)]
        places, sums = summed(keys if at is not None else [*keys, self.times], self.diffs)
        first = rows_at(self._table, places)
        if at is not None:
            first = first.set_column(count, first.schema.field(count), pa.repeat(pa.scalar(at, pa.int64()), len(first)))
        return UpdateBatch(self.row_type, first.set_column(count + 1, first.schema.field(count + 1), sums))

    def _comparable(self, place: int) -> Any:
        """A column as ``group_by`` takes it: what is nested as numbers, one for all equal values."""
        shape, column = self.row_type.shape.columns[place].shape, self._table.column(place)
        if (shape.item if shape.kind == "optional" else shape).kind not in _NESTED:
            return column
        numbers: dict[Any, int] = {}
        values = column_values(shape, column)
        return pa.array([numbers.setdefault(value, len(numbers)) for value in values], pa.int64())

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UpdateBatch) and self.row_type == other.row_type and self.updates() == other.updates()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return UpdateBatch, (self.row_type, self._table)

    def __repr__(self) -> str:
        return f"UpdateBatch({self.row_type}, {len(self)} updates)"


def summed(keys: Sequence[Any], diffs: Any, *, zeros: bool = False) -> tuple[pa.Array, pa.Array]:
    """Of equal rows of these columns, the place of the first and the sum of the diffs, in order; no 0 but by ``zeros``.

    >>> places, sums = summed([pa.array(["a", "b", "a"])], pa.array([1, 1, 1]))
    >>> places.to_pylist(), sums.to_pylist()
    ([0, 1], [2, 1])

    The columns are canonical, and not nested. Raises MalformedError for a sum of over 64 bits. Cost: one ``group_by``.
    """
    if not len(diffs):
        return pa.array([], pa.int64()), pa.array([], pa.int64())
    extent = pc.min_max(diffs).as_py()
    if max(-extent["min"], extent["max"]) * len(diffs) >= _LONG:
        # Arrow's sum would run over without an error; one of decimals does not.
        diffs = diffs.cast(pa.decimal128(19))
    names = [str(place) for place in range(len(keys))]
    given = pa.table([*keys, diffs, counted(len(diffs))], [*names, "diff", "place"])
    grouped = given.group_by(names, use_threads=False).aggregate([("diff", "sum"), ("place", "min")])
    grouped = grouped.select(["diff_sum", "place_min"])
    if not zeros:
        grouped = grouped.filter(pc.not_equal(grouped.column("diff_sum"), 0))
    left = grouped.sort_by("place_min").combine_chunks()
    try:
        sums = left.column("diff_sum").cast(pa.int64())
    except pa.ArrowInvalid:
        raise MalformedError("the diffs of one row come to more than 64 bits hold") from None
    return whole_array(left.column("place_min")), whole_array(sums)


def rows_at(rows: pa.Table, places: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows at these places, in this order; nulls where a place is null. The columns may be of any size.

    >>> rows_at(pa.table({"id": [7, 8, 9]}), pa.array([2, 0])).column("id").to_pylist()
    [9, 7]
    """
    return pa.Table.from_arrays([values_at(column, places) for column in rows.columns], schema=rows.schema)


def values_at(column: pa.ChunkedArray, places: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """The same of one column."""
    wide = pa.large_string() if pa.types.is_string(column.type) else pa.large_binary()
    if column.nbytes <= _MOST or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return column.take(places)
    # To take, Arrow makes one array of all chunks.
    values, size = pa.concat_arrays(column.cast(wide).chunks), max(1, _MOST // 4 * len(column) // column.nbytes)
    parts = (whole_array(_chunked(places).slice(at, size)) for at in range(0, len(places), size))
    return pa.chunked_array([one.cast(column.type) for part in parts for one in _taken(values, part)], column.type)


def _taken(values: pa.Array, places: pa.Array) -> Iterator[pa.Array]:
    """The values there, in parts that one array holds: some values may be far larger than most."""
    part = values.take(places)
    if part.nbytes <= _MOST or len(part) == 1:
        yield part
    else:
        # Not slices of the part, whose offsets would be as large.
        half = len(places) // 2
        yield from _taken(values, places.slice(0, half))
        yield from _taken(values, places.slice(half))


def _chunked(places: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return places if isinstance(places, pa.ChunkedArray) else pa.chunked_array([places])


def chunked(values: Sequence[Any], kind: pa.DataType) -> pa.ChunkedArray:
    """Python values as a column, in as many arrays as hold them.

    >>> chunked(["a", None], pa.string()).null_count
    1
    """
    found = pa.array(values, kind)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def column_values(shape: Shape, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as rows have them; None for null."""
    return [*chain.from_iterable(_values(shape, chunk) for chunk in column.chunks)]


def _apart(updates: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Rows, times and diffs. Raises MalformedError for what is no triple.

    Neither this nor :func:`_transposed` is by zip: its iterator for each row, all at once, wakes the garbage collector,
    which walks over all that is held. This costs no more than that, and looks at how wide each one is.
    """
    try:
        return [row for row, _, _ in updates], [time for _, time, _ in updates], [diff for _, _, diff in updates]
    except (TypeError, ValueError):
        odd = next(one for one in updates if not isinstance(one, (tuple, list)) or len(one) != 3)
        raise MalformedError(f"{odd!r} is no update: give (row, time, diff)") from None


def _transposed(rows: Sequence[Any], width: int) -> list[list[Any]]:
    """The columns of rows that are all so wide."""
    values = [*chain.from_iterable(rows)]
    return [values[at::width] for at in range(width)]


def _demand_some(diffs: Any) -> None:
    """Raise MalformedError unless every diff states something."""
    if pc.any(pc.equal(diffs, 0), min_count=0).as_py():
        raise MalformedError("an update has the diff 0, which changes nothing: leave it out")


def counted(count: int) -> pa.Array:
    """The whole numbers from 0 on, so many.

    >>> counted(3).to_pylist()
    [0, 1, 2]
    """
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=-1)


def whole_array(given: pa.ChunkedArray) -> pa.Array:
    """The chunks of a column as one array."""
    return pa.concat_arrays(given.chunks) if given.num_chunks else pa.array([], given.type)


def _whole(numbers: Sequence[Any], least: int) -> pa.Array | None:
    """The numbers as an array; None unless they are all ints that 64 bits hold, and none is less."""
    if {*map(type, numbers)} != {int}:
        return None
    try:
        # The diffs of an append are all 1, and many cuts have one time: that takes a third of the time.
        if numbers[0] == numbers[-1] and numbers.count(numbers[0]) == len(numbers):
            return pa.repeat(pa.scalar(numbers[0], pa.int64()), len(numbers)) if numbers[0] >= least else None
        found = pa.array(numbers, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        return None
    return found if pc.min(found).as_py() >= least else None


def _with_update(schema: pa.Schema) -> pa.Schema:
    # Read by their places only: a row type may have columns of these names.
    return pa.schema([*schema, pa.field("time", pa.int64(), False), pa.field("diff", pa.int64(), False)])


class _TooLarge(Exception):
    """One array does not hold the values."""


def _batches(
    row_type: RowType, schema: pa.Schema, rows: Sequence[Any], held: Sequence[pa.Array]
) -> Iterator[pa.RecordBatch]:
    """The rows, in as few parts as Arrow holds."""
    try:
        yield _batch(row_type, schema, rows, held)
    except _TooLarge:
        half = len(rows) // 2
        yield from _batches(row_type, schema, rows[:half], [one.slice(0, half) for one in held])
        yield from _batches(row_type, schema, rows[half:], [one.slice(half) for one in held])


def _batch(row_type: RowType, schema: pa.Schema, rows: Sequence[Any], held: Sequence[pa.Array]) -> pa.RecordBatch:
    if {*map(type, rows)} != {row_type.row_class}:
        rows = [row_type.row(row) for row in rows]
    values = _transposed(rows, len(row_type.shape.columns))
    columns = [_array(column.shape, one) for column, one in zip(row_type.shape.columns, values)]
    return pa.RecordBatch.from_arrays([*columns, *held], schema=_with_update(schema))


# --- from canonical Python values to arrays


def _array(shape: Shape, values: Sequence[Any]) -> pa.Array:
    """Canonical values, or None, as an array."""
    kind = shape.kind
    if kind == "optional":
        return _array(shape.item, values)
    if shape.decimal is not None:
        return _decimals(shape, values)
    if kind == "array":
        inner = _array(shape.item, [*chain.from_iterable(one for one in values if one is not None)])
        return pa.ListArray.from_arrays(_offsets(values), inner)
    if kind == "map":
        pairs = [*chain.from_iterable(one for one in values if one is not None)]
        keys = _one_array([key for key, _ in pairs], pa.string())
        return pa.MapArray.from_arrays(_offsets(values), keys, _array(shape.item, [value for _, value in pairs]))
    if kind == "record":
        columns = [
            _array(column.shape, [None if one is None else one[at] for one in values])
            for at, column in enumerate(shape.columns)
        ]
        absent = pa.array([one is None for one in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(_type(shape)), mask=absent)
    return _one_array(values, _type(shape))


def _one_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    found = chunked(values, kind)
    if found.num_chunks > 1:
        raise _TooLarge
    return found.chunk(0)


def _type(shape: Shape) -> pa.DataType:
    made = arrow_type(shape)
    if made is None:
        raise MalformedError(f"Arrow has no exact form of {shape.kind} {shape.name}: use the row path")
    return made


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each list begins; null for one that is None."""
    ends = [0, *accumulate(0 if one is None else len(one) for one in values)]
    last = ends.pop()
    begins = [None if one is None else begin for one, begin in zip(values, ends)]
    return pa.array([*begins, last], pa.int32())


def _decimals(shape: Shape, values: Sequence[Any]) -> pa.Array:
    made = _type(shape)
    width = made.bit_width // 8
    # Through bytes: as Python's decimals each would take a microsecond, and a context that does not round.
    raw = b"".join([
        bytes(width) if one is None else int.from_bytes(one, "big", signed=True).to_bytes(width, "little", signed=True)
        for one in values
    ])  # fmt: skip
    there = None
    if None in values:
        there = pa.array([one is not None for one in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(made, len(values), [there, pa.py_buffer(raw)])


# --- and back


def _values(shape: Shape, array: pa.Array) -> list[Any]:
    """The canonical values of an array; None for null."""
    kind = shape.kind
    if kind == "optional":
        return _values(shape.item, array)
    if shape.decimal is not None:
        return _decimal_bytes(shape, array)
    if kind in ("float", "double"):
        return [NAN if one != one else one for one in array.to_pylist()]
    if kind == "array":
        return _lists(array, _values(shape.item, _inside(array, array.values)))
    if kind == "map":
        keys, items = _inside(array, array.keys), _inside(array, array.items)
        return _lists(array, [*zip(keys.to_pylist(), _values(shape.item, items))])
    if kind == "record":
        columns = [array.field(at) for at in range(array.type.num_fields)]
        return list(_records(shape, columns, array.is_valid().to_pylist() if array.null_count else None))
    found: list[Any] = array.to_pylist()
    return found


def _records(shape: Shape, columns: Sequence[pa.Array], there: list[bool] | None) -> Iterator[Any]:
    row = _row_maker(shape)
    rows = zip(*(_values(column.shape, array) for column, array in zip(shape.columns, columns)))
    if there is None:
        return map(row, rows)
    return (row(one) if held else None for one, held in zip(rows, there))


@cache
def _row_maker(shape: Shape) -> Callable[[Any], Any]:
    return partial(tuple.__new__, class_of(shape))


def _inside(array: pa.Array, items: pa.Array) -> pa.Array:
    """Of the items of all lists that share the memory, those of this array's."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return items.slice(first, last - first)


def _lists(array: pa.Array, items: list[Any]) -> list[Any]:
    places = array.offsets.to_pylist()
    first = places[0]
    return [
        tuple(items[begin - first: end - first]) if held else None
        for (begin, end), held in zip(pairwise(places), array.is_valid().to_pylist())
    ]


def _decimal_bytes(shape: Shape, array: pa.Array) -> list[Any]:
    width, raw = array.type.bit_width // 8, memoryview(array.buffers()[1] or b"")
    found: list[Any] = []
    for place, held in enumerate(array.is_valid().to_pylist(), array.offset):
        if not held:
            found.append(None)
            continue
        # Its highest byte first, as the log has it.
        turned = bytes(raw[place * width: place * width + width][::-1])
        short = minimal(turned)
        sign = b"\xff" if short[0] > 127 else b"\x00"
        found.append(short.rjust(shape.size, sign) if shape.kind == "fixed" else short)
    return found


# --- columns of others


def _canonical(shape: Shape, given: Any, place: str) -> pa.Array | pa.ChunkedArray:
    """The column, checked and canonical."""
    inner = shape.item if shape.kind == "optional" else shape
    if shape.kind not in ("optional", "null") and given.null_count:
        raise MalformedError(f"{place}: there is a null in it, and the column holds none")
    try:
        given.validate(full=True)
    except pa.ArrowInvalid as cause:
        raise MalformedError(f"{place}: {cause}") from None
    if inner.kind in _NESTED or (inner.decimal is not None and inner.kind == "fixed"):
        # What these may hold has no check by columns: that of the rows is the one.
        check = checker(shape, place, record_check)
        return _array(shape, [check(one) for one in given.to_pylist()])
    if inner.kind in ("float", "double"):
        typed = given.type
        nan, zero = pa.scalar(NAN, typed), pa.scalar(0.0, typed)
        return pc.if_else(pc.is_nan(given), nan, pc.if_else(pc.equal(given, zero), zero, given))
    if inner.kind == "enum":
        check = checker(inner, place, record_check)
        for symbol in pc.unique(given).drop_null().to_pylist():
            check(symbol)
    return given


def _int64(given: Any, what: str, least: int) -> Any:
    if given.type != pa.int64() or given.null_count:
        raise MalformedError(f"the {what}s are {given.type} with {given.null_count} nulls, and not int64 without")
    if len(given) and pc.min(given).as_py() < least:
        raise MalformedError(f"there is the {what} {pc.min(given).as_py()}: it is at least {least}")
    return given
