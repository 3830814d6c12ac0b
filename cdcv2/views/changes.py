"""The net change of rows by key, and of counts of rows, as columns: which rows go, and which come.

Of a transaction, a key has one row that goes at most, and one that comes at most. A key with more is *odd*: it would
have two current rows, or a row less than no times. No target can have it, so it takes the way of a Load and a Store,
where :meth:`~cdcv2.views.binding.View.after` judges it with what is there. Of a multiset, the count of a row changes,
and nothing is odd.

A row that goes must be the row that is there, and where only one comes none may be. That is for the target to find out,
in the transaction that commits: so nothing is looked up before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcv2.errors import MalformedError
from cdcv2.materialize.protocol.messages import DELETED, Field, Key
from cdcv2.protocol.messages import Update
from cdcv2.rows.columns import UpdateBatch, chunked, counted, rows_at, summed, values_at
from cdcv2.rows.row_type import RowType
from cdcv2.views.columns import ViewColumn


@dataclass(frozen=True)
class Net:
    """What a transaction does to the rows of a table; columns are those of the table, the key's first.

    ``gone`` and ``come`` have a key once. The first ``both`` rows of each have the same keys, in the same
    order: these keys change their rows. The ``odd`` keys are in neither. Of a multiset, the columns are those of the
    rows, perhaps behind their digests, and by how much their counts change; see
    :class:`~cdcv2.materialize.protocol.messages.Changes`.
    """

    gone: pa.Table
    come: pa.Table
    both: int
    odd: frozenset[Key]


class NetChanges:
    """The rows of one binding by key, from updates to what goes and comes.

    ``key`` and ``others`` are the table's columns; ``key_of`` gives the key of a row, and raises for a null in it.
    ``marked``: a row that goes stays, marked, so another one comes in its place.
    """

    def __init__(
        self, row_type: RowType, target: str, key: Sequence[ViewColumn], others: Sequence[ViewColumn],
        key_of: Callable[[Any], Key], *, marked: bool,
    ) -> None:
        self._row_type, self._target, self._columns = row_type, target, (*key, *others)
        self._width, self._key_of, self._marked = len(key), key_of, marked

    def net(self, updates: Sequence[Update]) -> Net:
        """What these updates come to. Raises MalformedError for a null in a key, and for diffs of over 64 bits."""
        columns, diffs = _of(self._row_type, self._target, self._columns, updates)
        for given in columns[: self._width]:
            if given.null_count:
                self._key_of(updates[pc.index(given.is_null(), True).as_py()][0])
        names = [one.field.name for one in self._columns]
        rows = pa.table(columns, names)
        keys, found = self._by_key(rows, diffs)
        if found:
            # Of these keys there are several updates: what they come to, by rows.
            places, sums = _summed(self._target, columns, diffs)
            rows = rows_at(rows, places)
            keys, found = self._by_key(rows, sums)
        else:
            keys = keys.filter(pc.invert(_unchanged(rows, keys)))
        return self._net(rows, keys, found)

    def _by_key(self, rows: pa.Table, diffs: Any) -> tuple[pa.Table, frozenset[Key]]:
        """The place of the row that goes and of the one that comes, by key; and the keys that are odd, which it lacks.

        Right of rows that are there once, with the sums of their diffs, and where no key is odd also of updates.
        """
        names = [str(place) for place in range(self._width)]
        places, goes = counted(len(diffs)), pc.less(diffs, 0)
        marks = [
            pc.if_else(goes, places, None), pc.if_else(goes, None, places),
            pc.and_(pc.not_equal(diffs, 1), pc.not_equal(diffs, -1)),
        ]  # fmt: skip
        given = pa.table([*rows.columns[: self._width], *marks], [*names, "gone", "come", "several"])
        wanted = [(name, how) for name in ("gone", "come") for how in ("min", "count")]
        keys = given.group_by(names, use_threads=False).aggregate([*wanted, ("several", "any")])
        odd = pc.or_(keys.column("several_any"), pc.or_(
            pc.greater(keys.column("gone_count"), 1), pc.greater(keys.column("come_count"), 1)
        ))  # fmt: skip
        if not pc.any(odd).as_py():
            return keys, frozenset()
        out = keys.filter(odd)
        return keys.filter(pc.invert(odd)), frozenset(zip(*(out.column(name).to_pylist() for name in names)))

    def _net(self, rows: pa.Table, keys: pa.Table, found: frozenset[Key]) -> Net:
        goes, comes = keys.column("gone_min").is_valid(), keys.column("come_min").is_valid()
        paired = keys.filter(pc.and_(goes, comes))
        left, new = keys.filter(pc.invert(comes)).column("gone_min"), keys.filter(pc.invert(goes)).column("come_min")
        gone = [*paired.column("gone_min").chunks, *left.chunks]
        if not self._marked:
            come = [*paired.column("come_min").chunks, *new.chunks]
            return Net(_selected(rows, gone), _selected(rows, come), paired.num_rows, found)
        then = _selected(rows, [*paired.column("come_min").chunks, *left.chunks, *new.chunks])
        parts = ((False, paired.num_rows), (True, len(left)), (False, len(new)))
        marks = pa.concat_arrays([pa.repeat(marked, size) for marked, size in parts])
        first = _selected(rows, gone)
        first = first.append_column(DELETED, pa.repeat(False, len(first)))
        return Net(first, then.append_column(DELETED, marks), len(first), found)


class NetCounts:
    """The counts of one binding's rows: from updates to which rows are there less often, and which more often.

    ``columns`` are those of the rows, ``key`` and ``count`` are the columns of the table that have the row's digest,
    which ``digest_of`` gives, and its count.
    """

    def __init__(
        self, row_type: RowType, target: str, key: Field, columns: Sequence[ViewColumn], count: Field,
        digest_of: Callable[[Any], str],
    ) -> None:
        self._row_type, self._target, self._columns, self._digest_of = row_type, target, columns, digest_of
        self._key, self._names = key.name, [*(one.field.name for one in columns), count.name]

    def net(self, updates: Sequence[Update]) -> Net:
        """The sum of these updates. Raises MalformedError for diffs of over 64 bits.

        If rows only come they stay as they are, also one that comes twice, unless their sum may be that much: the
        reader adds them up.
        """
        columns, diffs = _of(self._row_type, self._target, self._columns, updates)
        extent = pc.min_max(diffs).as_py()
        if len(diffs) and (extent["min"] < 0 or extent["max"] * len(diffs) >= 2**63):
            places, diffs = _summed(self._target, columns, diffs)
            columns = [values_at(column, places) for column in columns]
        return _counts(pa.table([*columns, diffs], self._names))

    def net_with_digests(self, updates: Sequence[Update]) -> Net:
        """The same, with the digest of each row in front of it, and each row once. Raises MalformedError as ``net``.

        Rows with one digest are one row, and no others: two may be equal in the target, and two in the log.
        """
        columns, diffs = _of(self._row_type, self._target, self._columns, updates)
        digests = chunked([self._digest_of(row) for row, _, _ in updates], pa.string())
        places, sums = _summed(self._target, [digests], diffs)
        rows = [values_at(column, places) for column in (digests, *columns)]
        return _counts(pa.table([*rows, sums], [self._key, *self._names]))


def _counts(rows: pa.Table) -> Net:
    """Rows and, in the last column, by how much their counts change."""
    goes = pc.less(rows.column(rows.num_columns - 1), 0)
    if not pc.any(goes).as_py():
        return Net(rows.slice(0, 0), rows, 0, frozenset())
    return Net(rows.filter(goes), rows.filter(pc.invert(goes)), 0, frozenset())


def _of(
    row_type: RowType, target: str, wanted: Sequence[ViewColumn], updates: Sequence[Update]
) -> tuple[list[pa.ChunkedArray], pa.ChunkedArray]:
    """These columns of the updates, and their diffs."""
    batch = UpdateBatch.of(row_type, updates)
    if batch is None:
        raise MalformedError(
            f"{target}: the time or the diff of an update is no whole number of 64 bits, so no log can state it"
        )
    rows = batch.rows
    return [one.array(row_type, rows.column(one.index)) for one in wanted], batch.diffs


def _summed(target: str, keys: Sequence[Any], diffs: Any) -> tuple[pa.Array, pa.Array]:
    try:
        return summed(keys, diffs)
    except MalformedError as cause:
        raise MalformedError(f"{target}: {cause}") from None


def _selected(rows: pa.Table, places: Sequence[pa.Array]) -> pa.Table:
    return rows_at(rows, pa.chunked_array(places, pa.int64()))


def _unchanged(rows: pa.Table, keys: pa.Table) -> Any:
    """For each key whether the row that goes is the one that comes: nulls are equal, and two NaN."""
    gone, come = (rows_at(rows, keys.column(name)) for name in ("gone_min", "come_min"))
    alike = pc.and_(keys.column("gone_min").is_valid(), keys.column("come_min").is_valid())
    for one, other in zip(gone.columns, come.columns):
        same = pc.fill_null(pc.equal(one, other), False)
        if pa.types.is_floating(one.type):
            same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False))
        alike = pc.and_(alike, pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other))))
    return alike
