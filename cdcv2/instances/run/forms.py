"""How the rows of a log are keyed by some of its columns, and which log that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from cdcv2.errors import MalformedError, RefusedError, UsageError
from cdcv2.instances.arrangement import TableForm
from cdcv2.instances.commands import IndexedTable
from cdcv2.logs.description import description_of, identity_of_copies
from cdcv2.logs.named_logs import NamedLog
from cdcv2.rows.plain import bytes_from_plain, from_plain
from cdcv2.rows.row_type import RowType, record_check
from cdcv2.rows.schema import Shape
from cdcv2.rows.values import checker


#: The name in an object that stands for bytes, where a column has them: with it, they are in base64.
RAW = "bytes"


def form_of(row_type: RowType, key: Sequence[str]) -> TableForm:
    """The form of a table whose rows are of a type, by these columns.

    >>> columns = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    >>> row_type = RowType({"type": "record", "name": "data", "fields": columns})
    >>> form = form_of(row_type, ["id"])
    >>> form.key_of(row_type.row([7, "pear"])), form.key_from_plain([7])
    (7, 7)

    Raises UsageError for a column that the rows have not; ``key_from_plain`` raises MalformedError, naming the column,
    for a value that it cannot have. Cost of a key: one look-up or check per column.
    """
    for name in key:
        if name not in row_type.columns:
            raise UsageError(f"there is no key column {name!r}: the log's rows have {', '.join(row_type.columns)}")
    places = [row_type.columns.index(name) for name in key]
    parts = [_part(row_type.shape.columns[place].shape, f"column {name!r}") for place, name in zip(places, key)]

    def key_from_plain(values: Sequence[Any]) -> Hashable:
        key = tuple(part(value) for part, value in zip(parts, values, strict=True))
        return key if len(key) > 1 else key[0]

    # As itemgetter has it: of one column the value, of several a tuple.
    return TableForm(itemgetter(*places), key_from_plain, row_type.to_plain)


def _part(shape: Shape, place: str) -> Callable[[Any], Hashable]:
    """How a value of a key is made of its plain one; a bit more is taken than rows have, where it can mean one thing.

    Bytes may be those of a row, a decimal may be a whole number, and a UUID may have capitals, which no row has.
    """
    one = shape.item if shape.kind == "optional" else shape
    convert, check = from_plain(shape, place), checker(shape, place, record_check)
    is_raw = one.decimal is not None or one.kind in ("bytes", "fixed")
    is_uuid = str(json.loads(one.extras).get("connect.name")).endswith("data.Uuid")

    def part(value: Any) -> Hashable:
        if is_raw and isinstance(value, Mapping) and set(value) == {RAW}:
            made: Hashable = check(bytes_from_plain(value[RAW]))
            return made
        plain = value
        if one.decimal is not None and type(value) is int:
            plain = str(value)
        elif is_uuid and isinstance(value, str):
            plain = value.lower()
        try:
            made = check(convert(plain))
        except MalformedError as cause:
            if type(value) in (int, float, bool) and (is_raw or one.kind in ("string", "enum")):
                raise MalformedError(
                    f"{cause}. Its keys are texts: on a command line each is in double quotes, and all of the key in "
                    f"single ones, as TABLE='{json.dumps(str(value))}'; from Python it is a str"
                ) from None
            raise
        return made

    return part


def indexed_table(logs: Sequence[NamedLog], table: str, key: Sequence[str]) -> IndexedTable:
    """A table of an index over the logs given, with the identities of those that are (copies of) it.

    Raises UsageError for a table of which there is no log, and RefusedError for a log that states no identity: another
    one of its name could not be distinguished from it.
    """
    of_table = [named for named in logs if named.table == table]
    if not of_table:
        tables = ", ".join(sorted({named.table for named in logs}))
        raise UsageError(f"there is no log of the table {table!r}: there are {tables}")
    identities = {description_of(named.log).identity: named for named in of_table}
    if None in identities:
        raise RefusedError(
            f"the log {identities[None].log.name} states no identity, so another of its name would be taken for it: "
            "write it again with cdcv2 rewrite, which gives it one"
        )
    form_of(of_table[0].row_type, key)
    return IndexedTable(table, tuple(key), identity_of_copies(identities) or "")
