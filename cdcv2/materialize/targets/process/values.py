"""A table's keys and values as a connector's JSON has them, there and back; and keys as packed tuples.

A row is a *document*: an object with the table's columns, and ``_meta/op``. Numbers of 64 bits are JSON numbers, as
connectors take them; larger ones, decimals and what JSON has no number for (NaN, the infinities) are strings with a
format, bytes are base64, and ``json`` is itself. Keys and values go a second time as packed tuples, which some
connectors read instead: the tuple layer of FoundationDB, whose bytes are in the order of the keys.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from cdcv2.errors import TurnError
from cdcv2.materialize.protocol.messages import Field, Key, Table, Values
from cdcv2.rows.plain import SAFE, float_from_plain, int_from_plain, plain_bytes, plain_float

_LONG = range(-(2**63), 2**63)
_WITHIN = {"int": range(-(2**31), 2**31), "long": _LONG}
#: Where documents have the operation; a column of that name is the table's own, and then the operation is missing.
META = "_meta"
_DECIMAL = re.compile(r"-?\d{1,4000}(\.\d{1,4000})?([eE][+-]?\d{1,4})?", re.ASCII)

#: Kind -> the JSON types that its values have, and the format of those that are strings.
TYPES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "boolean": (("boolean",), {}),
    "int": (("integer",), {}),
    "long": (("integer",), {}),
    "integer": (("integer", "string"), {"format": "integer"}),
    "decimal": (("string",), {"format": "number"}),
    "float": (("number", "string"), {"format": "number"}),
    "double": (("number", "string"), {"format": "number"}),
    "string": (("string",), {}),
    "bytes": (("string",), {"contentEncoding": "base64"}),
    "json": (("array", "boolean", "integer", "number", "object", "string"), {}),
}


def json_types(field: Field) -> list[str]:
    """The JSON types of a column's values, null included where there may be one."""
    return sorted([*TYPES[field.kind][0], *(["null"] if field.nullable else [])])


class Documents:
    """One table's rows as documents. Raises TurnError, at the driver's fault, for documents that are no rows of it.

    ``selected``: the columns that go as values beside the document; by default all.
    """

    def __init__(self, table: Table, selected: Sequence[str] | None = None) -> None:
        self._table = table
        self._outward = [_outward(field) for field in table.fields]
        self._names = [field.name for field in table.fields]
        # Connectors that check want the values in the order of their names.
        width = len(table.key)
        places = range(width, len(table.fields))
        order = sorted(places, key=lambda at: self._names[at].encode())
        self._order = [at - width for at in order if selected is None or self._names[at] in selected]
        self._marked = META not in self._names
        #: the names of the columns that are no key, in the order in which their values go
        self.value_names = [table.values[at].name for at in self._order]

    def key(self, key: Key) -> list[Any]:
        """A key as JSON."""
        return [outward(one) for outward, one in zip(self._outward, key)]

    def row(self, key: Key, values: Values, operation: str) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Key, values and document as JSON; ``operation``: c, u or d."""
        plain = [None if one is None else outward(one) for outward, one in zip(self._outward, (*key, *values))]
        width, document = len(key), dict(zip(self._names, plain))
        if self._marked:
            document[META] = {"op": operation}
        return plain[:width], [plain[width + at] for at in self._order], document

    def is_deleted(self, document: Any) -> bool:
        """Whether it is of a deleted row."""
        meta = document.get(META) if self._marked and isinstance(document, Mapping) else None
        return isinstance(meta, Mapping) and meta.get("op") == "d"

    def back(self, document: Any) -> tuple[Key, Values]:
        """The key and the values of a document."""
        if not isinstance(document, Mapping):
            raise self._wrong(f"a document that is no object: {_short(document)}")
        found = tuple([self._value(field, document.get(field.name)) for field in self._table.fields])
        width = len(self._table.key)
        return found[:width], found[width:]

    def _value(self, field: Field, plain: Any) -> Any:
        if plain is None:
            if field.nullable:
                return None
            raise self._wrong(f"a document without the column {field.name!r}, which is never null")
        value = _inward(field, plain)
        if value is None:
            raise self._wrong(f"{_short(plain)} in the column {field.name!r}, which is of the kind {field.kind!r}")
        return value

    def _wrong(self, text: str) -> TurnError:
        return TurnError("driver", f"sent Loaded for {self._table.name} with {text}")


def _outward(field: Field) -> Callable[[Any], Any]:
    found: dict[str, Callable[[Any], Any]] = {
        "integer": lambda value: value if value in _LONG else str(value),
        "decimal": lambda value: format(value, "f"),
        "float": plain_float,
        "double": plain_float,
        "bytes": plain_bytes,
        "json": json.loads,
    }
    return found.get(field.kind, _same)


def _same(value: Any) -> Any:
    return value


def _inward(field: Field, plain: Any) -> Any:
    """The value, or None for what is none of the kind."""
    kind = field.kind
    if kind == "json":
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    if kind == "boolean":
        return plain if isinstance(plain, bool) else None
    if isinstance(plain, bool):
        return None
    if kind in ("int", "long", "integer"):
        return _integer(kind, plain)
    if kind in ("float", "double"):
        value = float_from_plain(plain)
        return float(value) if isinstance(value, (int, float)) else None
    if kind == "decimal" and isinstance(plain, (int, str)):
        return Decimal(plain) if _DECIMAL.fullmatch(str(plain)) else None
    if not isinstance(plain, str):
        return None
    if kind == "bytes":
        try:
            return base64.b64decode(plain, validate=True)
        except ValueError:
            return None
    return plain


def _integer(kind: str, plain: Any) -> int | None:
    value = int_from_plain(plain)
    if isinstance(value, float) and value.is_integer() and abs(value) <= SAFE:
        # What has no other numbers than floats writes 7.0, or 1e3.
        value = int(value)
    if not isinstance(value, int) or (kind in _WITHIN and value not in _WITHIN[kind]):
        return None
    return value


def _short(plain: Any) -> str:
    text = json.dumps(plain, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}…"


def packed(values: Iterable[Any]) -> str:
    """A packed tuple of JSON values, in base64: null, booleans, numbers of 64 bits, text; what is composed as its JSON.

    >>> base64.b64decode(packed([None, "FÔO\\x00bar", -5551212, True]))
    b"\\x00\\x02F\\xc3\\x94O\\x00\\xffbar\\x00\\x11\\xabK\\x93'"
    """
    return base64.b64encode(b"".join(map(_packed, values))).decode("ascii")


def _packed(value: Any) -> bytes:
    if value is None:
        return b"\x00"
    if isinstance(value, bool):
        return b"\x27" if value else b"\x26"
    if isinstance(value, int):
        size = (abs(value).bit_length() + 7) // 8
        number = value if value >= 0 else value + (1 << (8 * size)) - 1
        return bytes([0x14 + size if value >= 0 else 0x14 - size]) + number.to_bytes(size, "big")
    if isinstance(value, float):
        bits = struct.pack(">d", value)
        flip = bytes([bits[0] ^ 0x80]) + bits[1:] if bits[0] < 0x80 else bytes(byte ^ 0xFF for byte in bits)
        return b"\x21" + flip
    if isinstance(value, str):
        return b"\x02" + value.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff") + b"\x00"
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return b"\x01" + text.encode("utf-8", "surrogatepass") + b"\x00"
