"""Row schemas and values drawn at random, and a slow encoder for them that shares nothing with the package.

Values are drawn as a caller may hold them: lists, maps in any order, NaN with any payload, -0.0, padded decimals.
:func:`reference` makes their canonical bytes, by one obvious rule per type.
"""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

SCALARS = ("boolean", "int", "long", "float", "double", "bytes", "string")
COLUMN_NAMES = st.sampled_from(["id", "name", "class", "_hidden", "count", "unit price", "größe", "1st", "x_y", "a.b"])
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
KEYS = st.sampled_from(["", "a", "b", "ä", "\U0001f600", "aa"])


class Numbered:
    """Names for named types, none of them twice."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self, stem: str) -> str:
        self.last += 1
        return f"{stem}{self.last}"


@st.composite
def types(draw: st.DrawFn, name: Numbered, depth: int) -> Any:
    """Any type that a column may have, at most so deep."""
    kinds = ["scalar", "scalar", "enum", "fixed", "decimal", "optional"]
    kind = draw(st.sampled_from(kinds + ["array", "map", "record"] if depth else kinds))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "enum":
        return {"type": "enum", "name": name("Enum"), "symbols": ["A", "B", "C"]}
    if kind == "fixed":
        return {"type": "fixed", "name": name("Fixed"), "size": draw(st.integers(1, 3))}
    if kind == "decimal":
        return DECIMAL
    if kind == "optional":
        inner = draw(types(name, depth).filter(lambda schema: not isinstance(schema, list)))
        return draw(st.sampled_from([["null", inner], [inner, "null"]]))
    if kind == "array":
        return {"type": "array", "items": draw(types(name, depth - 1))}
    if kind == "map":
        return {"type": "map", "values": draw(types(name, depth - 1))}
    return draw(records(name, depth - 1))


@st.composite
def records(draw: st.DrawFn, name: Numbered, depth: int) -> Any:
    """A record of one to four columns."""
    columns = draw(st.lists(COLUMN_NAMES, min_size=1, max_size=4, unique=True))
    fields = [{"name": column, "type": draw(types(name, depth))} for column in columns]
    return {"type": "record", "name": name("Record"), "fields": fields}


def schemas() -> st.SearchStrategy[Any]:
    """A row schema, with records, arrays and maps up to two deep."""
    return st.builds(Numbered).flatmap(lambda name: records(name, 2))


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a type as callers hold them, from pools that are small enough for two draws to be equal."""
    if isinstance(schema, list):
        inner = next(branch for branch in schema if branch != "null")
        return st.one_of(st.none(), values(inner))
    kind = schema["type"] if isinstance(schema, dict) else schema
    if schema == DECIMAL:
        return st.tuples(st.integers(-300, 300), st.integers(0, 2)).map(
            lambda pair: pair[0].to_bytes(2 + pair[1], "big", signed=True)
        )
    if kind == "record":
        return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=3)
    if kind == "map":
        return st.lists(st.tuples(KEYS, values(schema["values"])), max_size=3, unique_by=lambda pair: pair[0]).map(dict)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.sampled_from([bytes(schema["size"]), b"\xff" * schema["size"]])
    return _scalars(kind)


def _scalars(kind: str) -> st.SearchStrategy[Any]:
    payload = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]
    floats = [0.0, -0.0, 1.5, -1.5, 0.1, float("nan"), -float("nan"), payload, float("inf"), -float("inf")]
    pools = {
        "boolean": [True, False],
        "int": [0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)],
        "long": [0, 1, -1, 8191, 8192, 2**20, 2**21, 2**53, 2**63 - 1, -(2**63)],
        "float": floats,
        "double": floats + [1e300],
        "bytes": [b"", b"\x00", b"\xff\xfe", b"a" * 70],
        "string": ["", "a", "ä", "e\u0301", "\u00e9", "\U0001f600", "x" * 70],
    }
    return st.sampled_from(pools[kind])


def reference(schema: Any, value: Any) -> bytes:
    """The canonical bytes of a value, by the rules of the format and nothing else."""
    if isinstance(schema, list):
        at = schema.index("null") if value is None else 1 - schema.index("null")
        return zigzag(at) + (b"" if value is None else reference(schema[at], value))
    kind = schema["type"] if isinstance(schema, dict) else schema
    if schema == DECIMAL:
        return length_first(shortest(value))
    if kind == "record":
        return b"".join(reference(field["type"], value[field["name"]]) for field in schema["fields"])
    if kind == "array":
        items = [reference(schema["items"], item) for item in value]
        return (zigzag(len(items)) if items else b"") + b"".join(items) + b"\x00"
    if kind == "map":
        pairs = sorted((key.encode(), item) for key, item in value.items())
        coded = [length_first(key) + reference(schema["values"], item) for key, item in pairs]
        return (zigzag(len(coded)) if coded else b"") + b"".join(coded) + b"\x00"
    if kind == "enum":
        return zigzag(schema["symbols"].index(value))
    return value if kind == "fixed" else _reference_scalar(kind, value)


def _reference_scalar(kind: str, value: Any) -> bytes:
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if kind in ("int", "long"):
        return zigzag(value)
    if kind in ("float", "double"):
        number = value + 0.0 if value == 0 else value
        if number != number:
            return bytes.fromhex("0000c07f" if kind == "float" else "000000000000f87f")
        return struct.pack("<f" if kind == "float" else "<d", abs(number) if number == 0 else number)
    return length_first(value.encode() if kind == "string" else value)


def zigzag(number: int) -> bytes:
    """An Avro long."""
    rest, out = number * 2 if number >= 0 else -number * 2 - 1, b""
    while rest >= 128:
        out += bytes([rest % 128 + 128])
        rest //= 128
    return out + bytes([rest])


def length_first(raw: bytes) -> bytes:
    """Avro bytes."""
    return zigzag(len(raw)) + raw


def shortest(raw: bytes) -> bytes:
    """Two's complement without the bytes at its head that only repeat the sign."""
    while len(raw) > 1 and (raw[0] == 0 and raw[1] < 128 or raw[0] == 255 and raw[1] >= 128):
        raw = raw[1:]
    return raw
