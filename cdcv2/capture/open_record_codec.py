"""The open-records log (TEMP): the records of open transactions, as rows that any reader of the format understands.

To change what a capture on a remap remembers, begin here, with the columns; :mod:`cdcv2.capture.open_records` has the
records themselves. Other captures have a memory (:mod:`cdcv2.capture.memory_format`).

A row has a ``kind`` and the columns that this kind uses; the others are null, or empty lists. Names and places of a
source (a transaction, the order of a row in it) are JSON text, as sources use numbers, texts or lists of these. The
place of a row that has a number is an object: ``order``, ``number`` (among its table's rows in the transaction), and
``anew``: true if the connector renumbers rows after a restart. Version 1 of the mapping had no numbers; its places, and
those of rows of a snapshot, are the order alone. The data of a change are the bytes of their table's own row type: one
schema serves all tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cdcv2.capture.open_records import (
    EndRecord, HaltRecord, OpenRecord, ReleaseRecord, RestartRecord, RowRecord, StartRecord, ThroughRecord,
)
from cdcv2.errors import DecodeError, MalformedError
from cdcv2.rows import row_type
from cdcv2.rows.row_type import RowType


def _nullable(name: str, kind: str, doc: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "doc": doc}


def _list(name: str, item: Any, doc: str) -> dict[str, Any]:
    return {"name": name, "type": {"type": "array", "items": item}, "doc": doc}


def _record(name: str, **fields: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": at, "type": kind} for at, kind in fields.items()]}


#: The row type of every log of TEMP.
TEMP = RowType({"type": "record", "name": "temp", "fields": [
    {"name": "kind", "type": "string", "doc": "row, halt, end, done, through or begun"},
    _nullable("transaction", "string", "which one, as JSON: a number, or a text"),
    _nullable("table", "string", "of a row"),
    _nullable("place", "string", "of a row in its transaction, as JSON"),
    _nullable("after", "long", "of row, halt: a commit before theirs; of through: that of what has none"),
    _nullable("commit", "long", "of end, done, through"),
    _list("changes", _record("change", data="bytes", diff="long"),
          "of a row: data as of its table's row type; with diff 0 what is known of the row, which is looked up"),
    _list("counts", _record("count", table="string", rows="long"), "of end: the rows of each table"),
    _nullable("reason", "string", "of halt"),
    _nullable("remedy", "string", "of halt"),
    _nullable("ordering", "string", "of begun"),
    _list("tables", "string", "of begun"),
    _nullable("snapshot", "boolean", "of begun: whether a snapshot comes first"),
    _nullable("looked_up", "boolean", "of begun: whether old rows are looked up in the tables"),
]})  # fmt: skip
_NOTHING: dict[str, Any] = {column: None for column in TEMP.columns} | {"changes": (), "counts": (), "tables": ()}


class DataCodec(Protocol):
    """The bytes of a table's data, and what they are called: by a :class:`~cdcv2.rows.row_type.RowType`, a row."""

    def encode(self, row: Any) -> bytes:
        """The bytes."""

    def decode(self, data: bytes) -> Any:
        """What they are called."""


class OpenRecordCodec:
    """Records of open transactions to rows of :data:`TEMP`, and back; ``tables`` are the row types of the tables.

    ``partial`` has, by table, the codec of partial changes (diff 0), for captures that look up before-images.

    >>> temp = OpenRecordCodec({})
    >>> row = temp.row(ThroughRecord(commit=70, base=3))
    >>> row.kind, row.commit, temp.held(row)
    ('through', 70, ThroughRecord(commit=70, base=3))
    """

    def __init__(self, tables: Mapping[str, DataCodec], partial: Mapping[str, DataCodec] | None = None) -> None:
        self._tables, self._partial = dict(tables), dict(partial or {})

    def row(self, held: OpenRecord) -> row_type.Row:
        """The row. Raises MalformedError for data of a table that has no row type, or that do not fit it."""
        return TEMP.row({**_NOTHING, **_ENCODE[type(held)](self, held)})

    def held(self, row: row_type.Row) -> OpenRecord:
        """The record of a row. Raises DecodeError for a row that no capture writes."""
        decode = _DECODE.get(row.kind)
        if decode is None:
            raise DecodeError(f"{row.kind!r} is nothing that an open-records log holds")
        try:
            return decode(self, row)
        except (ValueError, TypeError, KeyError) as cause:
            raise DecodeError(f"no {row.kind} of an open-records log: {cause}") from None

    def _codec(self, table: str) -> Callable[[int], DataCodec]:
        """By the diff of a change, what its data are written with."""
        if table not in self._tables:
            raise MalformedError(f"the row type of {table} is not given, so its rows in the open-records log are bytes")
        data, partial = self._tables[table], self._partial.get(table)

        def by_diff(diff: int) -> DataCodec:
            if diff or partial is None:
                return data
            return partial

        return by_diff

    def _of_row(self, held: RowRecord) -> dict[str, Any]:
        codec = self._codec(held.table)
        return {
            "kind": "row", "transaction": _text(held.tx), "table": held.table, "place": _text(_place(held)),
            "after": held.after,
            "changes": [{"data": codec(diff).encode(data), "diff": diff} for data, diff in held.changes],
        }

    def _to_row(self, row: row_type.Row) -> RowRecord:
        codec = self._codec(row.table)
        changes = tuple((codec(change.diff).decode(change.data), change.diff) for change in row.changes)
        tx, place = _value(row.transaction), _value(row.place)
        if not isinstance(place, dict):
            return RowRecord(row.table, tx, place, row.after, changes)
        return RowRecord(row.table, tx, place["order"], row.after, changes, place["number"], "anew" in place)

    def _of_halt(self, held: HaltRecord) -> dict[str, Any]:
        return {"kind": "halt", "transaction": _text(held.tx), "after": held.after, "reason": held.reason,
                "remedy": held.remedy}  # fmt: skip

    def _to_halt(self, row: row_type.Row) -> HaltRecord:
        return HaltRecord(_value(row.transaction), row.after, row.reason, row.remedy)

    def _of_end(self, held: EndRecord) -> dict[str, Any]:
        counts = [{"table": table, "rows": number} for table, number in held.counts]
        return {"kind": "end", "transaction": _text(held.tx), "commit": held.commit, "counts": counts}

    def _to_end(self, row: row_type.Row) -> EndRecord:
        return EndRecord(_value(row.transaction), row.commit, tuple((count.table, count.rows) for count in row.counts))

    def _of_restart(self, held: RestartRecord) -> dict[str, Any]:
        return {"kind": "restart", "transaction": _text(held.tx)}

    def _to_restart(self, row: row_type.Row) -> RestartRecord:
        return RestartRecord(_value(row.transaction))

    def _of_done(self, held: ReleaseRecord) -> dict[str, Any]:
        return {"kind": "done", "transaction": _text(held.tx), "commit": held.commit}

    def _to_done(self, row: row_type.Row) -> ReleaseRecord:
        return ReleaseRecord(_value(row.transaction), row.commit)

    def _of_through(self, held: ThroughRecord) -> dict[str, Any]:
        return {"kind": "through", "commit": held.commit, "after": held.base}

    def _to_through(self, row: row_type.Row) -> ThroughRecord:
        return ThroughRecord(row.commit, row.after)

    def _of_start(self, held: StartRecord) -> dict[str, Any]:
        return {"kind": "begun", "ordering": held.ordering, "tables": held.tables, "snapshot": held.snapshot,
                "looked_up": held.looked_up}  # fmt: skip

    def _to_start(self, row: row_type.Row) -> StartRecord:
        return StartRecord(row.ordering, tuple(row.tables), row.snapshot, row.looked_up)


_ENCODE: dict[type, Callable[[OpenRecordCodec, Any], dict[str, Any]]] = {
    RowRecord: OpenRecordCodec._of_row, HaltRecord: OpenRecordCodec._of_halt, EndRecord: OpenRecordCodec._of_end,
    ReleaseRecord: OpenRecordCodec._of_done,
    RestartRecord: OpenRecordCodec._of_restart, ThroughRecord: OpenRecordCodec._of_through,
    StartRecord: OpenRecordCodec._of_start,
}  # fmt: skip
_DECODE: dict[str, Callable[[OpenRecordCodec, row_type.Row], OpenRecord]] = {
    "row": OpenRecordCodec._to_row, "halt": OpenRecordCodec._to_halt, "end": OpenRecordCodec._to_end,
    "done": OpenRecordCodec._to_done,
    "restart": OpenRecordCodec._to_restart, "through": OpenRecordCodec._to_through, "begun": OpenRecordCodec._to_start,
}  # fmt: skip


def _place(row: RowRecord) -> object:
    if row.number is None and not row.renumbered:
        return row.order
    return {"order": row.order, "number": row.number, **({"anew": True} if row.renumbered else {})}


def _text(value: object) -> str:
    """JSON, the same for equal values. Raises MalformedError for what JSON cannot hold as it is."""
    try:
        text = json.dumps(value, separators=(",", ":"))
    except TypeError:
        text = "null"
    if _value(text) != value:
        raise MalformedError(f"{value!r} cannot be kept: it takes numbers, texts, and tuples of these")
    return text


def _value(text: str) -> Any:
    return _tuples(json.loads(text))


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tuples(one) for name, one in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
