"""Values of columns: from whatever a caller holds to the one canonical Python value, or an error with the column.

========================  ==================================  ============================================
Avro type                 canonical value                     also taken
========================  ==================================  ============================================
null                      None
boolean                   bool                                nothing else: 1 is no boolean
int, long                 int, 32 or 64 bits with sign        nothing else: True is no number
float, double             float; one NaN, 0.0 for -0.0        an int that it holds exactly
string, enum              str, valid Unicode
bytes, fixed              bytes                               bytearray, memoryview
bytes or fixed, decimal   bytes: two's complement, minimal    decimal.Decimal that the scale holds exactly
array                     tuple                               list
map                       tuple of (key, value), by key       mapping, pairs in any order
record                    named tuple (a row)                 mapping, list or tuple of its values
========================  ==================================  ============================================

A float is rounded to single precision, as the column will hold it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NoReturn, TypeAlias

from cdcv2.errors import MalformedError
from cdcv2.rows.schema import Shape, shown

#: The one NaN that rows hold: tuples compare by identity first, so rows with it are equal and hash alike.
NAN = float("nan")

#: Turns a caller's value into the canonical one; raises MalformedError.
Check: TypeAlias = Callable[[Any], Any]
#: Gives the class of a record shape, whose instances are rows, and the check that makes one.
RecordCheck: TypeAlias = Callable[[Shape, str], Check]

_SINGLE = struct.Struct("<f")
_LIMITS = {"int": 2**31, "long": 2**63}


def checker(shape: Shape, place: str, record: RecordCheck) -> Check:
    """The check for one shape; ``place`` names the column in errors, ``record`` makes the checks of records."""
    kind = shape.kind
    if kind == "record":
        return record(shape, place)
    if kind == "optional":
        inner = checker(shape.item, place, record)
        return lambda value: None if value is None else inner(value)
    if kind == "array":
        return partial(_array, place, checker(shape.item, place, record))
    if kind == "map":
        return partial(_map, place, checker(shape.item, place, record))
    if kind in _LIMITS:
        return partial(_integer, place, kind, _LIMITS[kind])
    if kind == "enum":
        return partial(_symbol, place, frozenset(shape.symbols))
    if shape.decimal is not None:
        return partial(_decimal, place, shape)
    if kind == "fixed":
        return partial(_fixed, place, shape.size)
    simple = {"null": _null, "boolean": _boolean, "float": _single, "double": _double, "string": _string}
    return partial(simple.get(kind, _bytes), place)


def minimal(raw: bytes) -> bytes:
    """The same two's complement number in the fewest bytes.

    >>> minimal(bytes([0, 0, 5])), minimal(bytes([255, 128]))
    (b'\\x05', b'\\x80')

    Raises MalformedError for no bytes, which are no number.
    """
    if not raw:
        raise MalformedError("a decimal of no bytes: zero is one byte, 0")
    number = int.from_bytes(raw, "big", signed=True)
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def canonical_decimal(shape: Shape, raw: bytes) -> bytes:
    """The bytes of a decimal as rows hold them. Raises MalformedError when it has too many digits."""
    precision, scale = shape.decimal or (0, 0)
    short = minimal(raw)
    if abs(int.from_bytes(short, "big", signed=True)) >= 10**precision:
        raise MalformedError(f"{decimal_text(short, scale)} has more digits than decimal({precision}, {scale}) holds")
    return raw if shape.kind == "fixed" else short


def decimal_text(raw: bytes, scale: int) -> str:
    """A decimal as text, with all digits of its scale: what people and JSON get to see.

    >>> decimal_text(bytes([4, 210]), 2)
    '12.34'
    """
    number = int.from_bytes(raw, "big", signed=True)
    if not scale:
        return str(number)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


_NUMERAL = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:nan|inf|infinity))", re.ASCII)


def decimal_from_text(text: str) -> Decimal | None:
    """The number that a text spells, also NaN and infinities; None for text that is none, though Python takes it.

    >>> decimal_from_text("12.50"), decimal_from_text("0E-10"), decimal_from_text("1_000"), decimal_from_text(" 1")
    (Decimal('12.50'), Decimal('0E-10'), None, None)
    """
    if _NUMERAL.fullmatch(text) is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        # Its exponent has more digits than any system reads.
        return None


def decimal_bytes(shape: Shape, number: Decimal) -> bytes:
    """The reverse: the bytes of a Decimal. Raises MalformedError when scale or precision cannot hold it exactly."""
    precision, scale = shape.decimal or (0, 0)
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise MalformedError(f"{shown(number)} is no number that decimal({precision}, {scale}) holds")
    text = "".join(map(str, digits)).rstrip("0")
    # How many zeros stand behind the last other digit at this scale.
    zeros = exponent + scale + len(digits) - len(text)
    text = text.lstrip("0")
    if text and zeros < 0:
        raise MalformedError(f"{shown(number)} is not held exactly by decimal({precision}, {scale})")
    if text and len(text) + zeros > precision:
        raise MalformedError(f"{shown(number)} has more digits than decimal({precision}, {scale}) holds")
    whole = int(text + "0" * zeros) if text else 0
    signed = -whole if sign else whole
    if shape.kind != "fixed":
        return signed.to_bytes((signed + (signed < 0)).bit_length() // 8 + 1, "big", signed=True)
    try:
        return signed.to_bytes(shape.size, "big", signed=True)
    except OverflowError:
        raise MalformedError(f"{shown(number)} does not fit into {shape.size} bytes") from None


def _refuse(place: str, value: object, wanted: str) -> NoReturn:
    raise MalformedError(f"{place}: {shown(value)} is not {wanted}")


def _null(place: str, value: object) -> None:
    if value is not None:
        _refuse(place, value, "null")


def _boolean(place: str, value: object) -> bool:
    if value is not True and value is not False:
        _refuse(place, value, "a boolean")
    return value


def _integer(place: str, kind: str, limit: int, value: object) -> int:
    if not isinstance(value, int) or value is True or value is False or not -limit <= value < limit:
        _refuse(place, value, f"an integer that fits {kind}")
    return int(value)


def with_one_nan(value: Any) -> Any:
    """The value, of any type, with the NaN of rows for each NaN in it: for values out of a pickle, which makes others.

    >>> with_one_nan((1, (float("nan"), "x"))) == (1, (NAN, "x"))
    True

    Rows see to themselves.
    """
    if value.__class__ is tuple:
        return tuple([with_one_nan(one) for one in value])
    return NAN if value != value else value


def _double(place: str, value: object) -> float:
    if type(value) is int:
        try:
            number = float(value)
        except OverflowError:
            _refuse(place, value, "a number that double holds exactly")
        if number != value:
            _refuse(place, value, "a number that double holds exactly")
        return number
    if not isinstance(value, float):
        _refuse(place, value, "a floating-point number")
    return NAN if value != value else float(value) or 0.0


def _single(place: str, value: object) -> float:
    number = _double(place, value)
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    except OverflowError:
        _refuse(place, value, "a number within the range of float")
    if type(value) is int and rounded != number:
        _refuse(place, value, "a number that float holds exactly")
    return number if number != number else rounded or 0.0


def _string(place: str, value: object) -> str:
    if not isinstance(value, str):
        _refuse(place, value, "a string")
    try:
        # Free for ASCII; elsewhere this is the only way to find a lone surrogate.
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        _refuse(place, value, "valid Unicode: it holds a lone surrogate")
    return str(value)


def _symbol(place: str, symbols: frozenset[str], value: object) -> str:
    if not isinstance(value, str) or value not in symbols:
        _refuse(place, value, f"one of {sorted(symbols)}")
    return str(value)


def _bytes(place: str, value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        _refuse(place, value, "bytes")
    return bytes(value)


def _fixed(place: str, size: int, value: object) -> bytes:
    raw = _bytes(place, value)
    if len(raw) != size:
        _refuse(place, value, f"{size} bytes")
    return raw


def _decimal(place: str, shape: Shape, value: object) -> bytes:
    try:
        if isinstance(value, Decimal):
            return decimal_bytes(shape, value)
        raw = _fixed(place, shape.size, value) if shape.kind == "fixed" else _bytes(place, value)
        return canonical_decimal(shape, raw)
    except MalformedError as cause:
        text = str(cause)
        raise MalformedError(text if text.startswith(place) else f"{place}: {text}") from None


def _array(place: str, inner: Check, value: object) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        _refuse(place, value, "a list")
    return tuple([inner(item) for item in value])


def _map(place: str, inner: Check, value: object) -> tuple[tuple[str, Any], ...]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, (list, tuple)):
        _refuse(place, value, "a mapping or pairs")
    held: dict[str, Any] = {}
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            _refuse(place, pair, "a pair of key and value")
        key = _string(place, pair[0])
        if key in held:
            _refuse(place, value, f"a map: the key {key!r} stands there twice")
        held[key] = inner(pair[1])
    return tuple(sorted(held.items(), key=_key))


def _key(pair: tuple[str, Any]) -> str:
    # By code point, which is also the order of the keys' UTF-8 bytes.
    return pair[0]
