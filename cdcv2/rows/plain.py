"""Rows as plain JSON values, without loss, for people and for other tools; the row type gives each one its meaning.

Numbers that JSON tools would bend go as strings: integers beyond 2**53 - 1 either way, ``"NaN"``, ``"Infinity"``,
``"-Infinity"``. Decimals are strings with all digits of their scale, bytes are base64, maps and records are objects.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cdcv2.errors import MalformedError
from cdcv2.rows.schema import Shape, shown
from cdcv2.rows.values import decimal_from_text, decimal_text

#: Integers up to here, either way, are the same number in every JSON tool.
SAFE = 2**53 - 1

# Python refuses to make integers of more digits than 4300.
_DIGITS = 4000
_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

#: One direction for one shape.
Convert: TypeAlias = Callable[[Any], Any]


def plain_int(number: int) -> int | str:
    """An integer as JSON carries it safely.

    >>> plain_int(5), plain_int(2**60)
    (5, '1152921504606846976')
    """
    return number if -SAFE <= number <= SAFE else str(number)


def int_from_plain(plain: Any) -> Any:
    """The integer again; what is not one is given back as it is, for the check that names the column."""
    if isinstance(plain, str) and plain.removeprefix("-").isdecimal() and plain.isascii() and len(plain) <= _DIGITS:
        return int(plain)
    return plain


def plain_float(number: float) -> float | str:
    """A float as JSON carries it: the three that JSON has no number for are strings."""
    if math.isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def float_from_plain(plain: Any) -> Any:
    """The float again; what is not one is given back as it is."""
    return _NAMES.get(plain, plain) if isinstance(plain, str) else plain


def plain_bytes(raw: bytes) -> str:
    """Bytes as JSON carries them: base64."""
    return base64.b64encode(raw).decode()


def bytes_from_plain(plain: Any) -> Any:
    """Bytes again, from base64; what is not is given back as it is."""
    try:
        return base64.b64decode(plain, validate=True) if isinstance(plain, str) else plain
    except (binascii.Error, ValueError):
        return plain


def to_plain(shape: Shape) -> Convert:
    """The function that turns canonical values of this shape into JSON values."""
    kind = shape.kind
    if kind == "record":
        parts = [(column.name, to_plain(column.shape)) for column in shape.columns]
        return lambda row: {name: convert(value) for (name, convert), value in zip(parts, row)}
    if kind in ("optional", "array", "map"):
        inner = to_plain(shape.item)
        if kind == "optional":
            return lambda value: None if value is None else inner(value)
        if kind == "array":
            return lambda items: [inner(item) for item in items]
        return lambda pairs: {key: inner(value) for key, value in pairs}
    if shape.decimal is not None:
        scale = shape.decimal[1]
        return lambda raw: decimal_text(raw, scale)
    simple: dict[str, Convert] = {
        "int": plain_int, "long": plain_int, "float": plain_float, "double": plain_float,
        "bytes": plain_bytes, "fixed": plain_bytes,
    }
    return simple.get(kind, _same)


def from_plain(shape: Shape, place: str = "the row") -> Convert:
    """The function that turns them back into values for the checks of :mod:`cdcv2.rows.values`."""
    kind = shape.kind
    if kind == "record":
        parts = {column.name: from_plain(column.shape, f"column {column.name!r}") for column in shape.columns}
        return lambda plain: _object(parts, place, plain)
    if kind in ("optional", "array", "map"):
        inner = from_plain(shape.item, place)
        if kind == "optional":
            return lambda value: None if value is None else inner(value)
        if kind == "array":
            return lambda items: [inner(item) for item in items] if isinstance(items, list) else items
        return lambda held: {k: inner(v) for k, v in held.items()} if isinstance(held, Mapping) else held
    if shape.decimal is not None:
        return lambda text: _decimal(place, text)
    simple: dict[str, Convert] = {
        "int": int_from_plain, "long": int_from_plain, "float": float_from_plain, "double": float_from_plain,
        "bytes": bytes_from_plain, "fixed": bytes_from_plain,
    }
    return simple.get(kind, _same)


def _same(value: Any) -> Any:
    return value


def _object(parts: dict[str, Convert], place: str, plain: Any) -> Any:
    if not isinstance(plain, Mapping):
        raise MalformedError(f"{place}: {shown(plain)} is no JSON object with columns")
    # A name that is no column goes through, to be named by the check of the row.
    return {name: parts[name](value) if name in parts else value for name, value in plain.items()}


def _decimal(place: str, text: Any) -> Any:
    if not isinstance(text, str):
        return text
    number = decimal_from_text(text)
    if number is None:
        raise MalformedError(f"{place}: {shown(text)} is no decimal number")
    return number
