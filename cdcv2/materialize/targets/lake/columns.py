"""Changes of a lake's rows as columns: how keys are found, and whether what goes is what is there.

Everything here is for whole columns what :class:`~cdcv2.materialize.targets.lake.files.StagedFile` and
:func:`~cdcv2.materialize.intake.canonical` are for a row.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcv2.materialize.intake import canonical
from cdcv2.materialize.protocol.messages import DELETED, Changes, Field, Key, Table, Values
from cdcv2.materialize.targets.lake.files import KEY, logged, rows_of
from cdcv2.rows.columns import chunked, rows_at
from cdcv2.views.columns import arrow_of

#: Text whose ``ascii`` is itself between two quotes: printable, without quotes and backslashes.
_BARE = r"^[ -&(-\[\]-~]*$"


def canonical_keys(table: Table, rows: Any) -> Any:
    """The canonical bytes of the key of each row, as one array; ``rows`` is a table whose first columns are the key.

    >>> orders = Table("orders", (Field("id", "long"), Field("shop", "string")), ())
    >>> canonical_keys(orders, pa.table({"id": [7], "shop": ["north"]})).to_pylist() == [canonical((7, "north"))]
    True

    Cost: a few operations of Arrow where a key is numbers and plain text; otherwise as row by row.
    """
    columns = [one_array(column) for column in rows.columns[: len(table.key)]]
    parts = [_canonical_part(field, column) for field, column in zip(table.key, columns)]
    if any(part is None for part in parts):
        return pa.array(map(canonical, zip(*(column.to_pylist() for column in columns))), pa.binary())
    first, *others = parts
    between = [one for part in others for one in (pa.scalar(", "), part)]
    end = pa.scalar(",)" if len(parts) == 1 else ")")
    return pc.binary_join_element_wise(pa.scalar("("), first, *between, end, pa.scalar("")).cast(pa.binary())


def keys_by(table: Table, column: str, rows: Any) -> Any:
    """The keys of rows, as the column of a lake's files has them that ``key_column`` names."""
    return canonical_keys(table, rows) if column == KEY else one_array(rows[column])


def _canonical_part(field: Field, column: Any) -> Any:
    """A column of a key as the ``ascii`` of its values; None where that has to be made value by value."""
    if field.kind in ("int", "long"):
        return column.cast(pa.string())
    if field.kind == "boolean":
        return pc.if_else(column, "True", "False")
    if field.kind == "string" and pc.all(pc.match_substring_regex(column, _BARE), min_count=0).as_py():
        return pc.binary_join_element_wise(pa.scalar("'"), column, pa.scalar("'"), pa.scalar(""))
    return None


def one_array(column: Any) -> Any:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def conflict(
    table: Table, message: Changes, gone: Any, come: Any, there: Any, column: str = KEY
) -> tuple[Key, Values | None] | None:
    """The least key at which the rows that are ``there`` are not those that the changes expect, and its present values.

    ``gone`` and ``come`` are the keys of the changes, as the column has them; ``there`` has the columns of a
    lake's files, without deleted rows. None if all is as it should be: each row that goes is there, and where one only
    comes is none.
    """
    if table.marked:
        there = there.filter(pc.invert(there[DELETED]))
    held = one_array(there[column])
    places = pc.index_in(gone, held)
    found, wrong = rows_at(there, places), pc.is_null(places)
    for field, mine in zip(table.fields, message.gone.columns):
        wrong = pc.or_(wrong, _differing(field, mine, as_logged(field, found[field.name])))
    taken = pc.is_in(come.slice(message.both), held)
    names = [field.name for field in table.key]
    odd = [message.gone.select(names).filter(wrong), message.come.select(names).slice(message.both).filter(taken)]
    if not any(map(len, odd)):
        return None
    key = min(tuple(row.values()) for one in odd for row in one.to_pylist())
    at = there.filter(pc.equal(there[KEY], canonical(key)))
    return key, next((values for _, values in rows_of(table, at)), None)


def as_logged(field: Field, column: Any) -> Any:
    """A column of a file with the log's values."""
    values = logged(field, column)
    return column if values is None else chunked(values, arrow_of(field))


def _differing(field: Field, one: Any, other: Any) -> Any:
    """For each row whether the two columns differ; nulls are equal, and two NaN, and two texts of the same JSON."""
    odd = pc.fill_null(pc.not_equal(one, other), True)
    if pa.types.is_floating(one.type):
        both = pc.and_(pc.fill_null(pc.is_nan(one), False), pc.fill_null(pc.is_nan(other), False))
        odd = pc.and_not(odd, both)
    odd = pc.and_not(odd, pc.and_(pc.is_null(one), pc.is_null(other)))
    if field.kind == "json" and pc.any(odd).as_py():
        # Another program may have spelled it otherwise in a file.
        pairs = zip(odd.to_pylist(), one.to_pylist(), other.to_pylist())
        odd = pa.array([differs and not _same_json(mine, theirs) for differs, mine, theirs in pairs], pa.bool_())
    return odd


def _same_json(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and bool(json.loads(one) == json.loads(other))
