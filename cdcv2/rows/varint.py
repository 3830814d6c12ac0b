"""Avro's integers: zigzag (0, -1, 1, -2, ... become 0, 1, 2, 3, ...), then seven bits a byte, lowest first.

Longer forms than needed are read, as Avro allows them; more than 64 bits are not.
"""

from __future__ import annotations

from typing import NoReturn

from cdcv2.errors import DecodeError, MalformedError


def bad(reason: str) -> NoReturn:
    """Raise DecodeError with this reason; a caller that knows the position fills it in."""
    raise DecodeError(reason)


def read_long(buf: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends. Raises DecodeError, or IndexError when the bytes end before it does."""
    first = buf[at]
    if first < 128:
        return (first >> 1) ^ -(first & 1), at + 1
    return read_tail(buf, at + 1, first)


def read_tail(buf: bytes, at: int, first: int) -> tuple[int, int]:
    """The same, when the first of several bytes has been read."""
    number, shift = first & 127, 7
    while True:
        byte = buf[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            bad("an integer of more than 64 bits")
    if number >> 64:
        bad("an integer of more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def read_longs(buf: bytes, at: int, count: int) -> tuple[list[int], int]:
    """So many numbers from ``at`` on, and where they end: as so many times :func:`read_long`, at a third of the cost.

    >>> read_longs(b"\\x01\\x80\\x01\\x04", 0, 2)
    ([-1, 64], 3)
    """
    numbers: list[int] = []
    add = numbers.append
    for _ in range(count):
        first = buf[at]
        at += 1
        if first < 128:
            add((first >> 1) ^ -(first & 1))
        elif (second := buf[at]) < 128:
            at += 1
            add((first & 127 | second << 7) >> 1 ^ -(first & 1))
        else:
            number, at = read_tail(buf, at, first)
            add(number)
    return numbers, at


def long_bytes(number: int) -> bytes:
    """The shortest form of a number. Raises MalformedError when it does not fit 64 bits.

    >>> long_bytes(-1), long_bytes(64)
    (b'\\x01', b'\\x80\\x01')
    """
    if not -(2**63) <= number < 2**63:
        raise MalformedError(f"{number} does not fit the format's 64 bits")
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_bytes(buf: bytes, at: int) -> tuple[bytes, int]:
    """The length-prefixed bytes at ``at``, and where they end."""
    size, at = read_long(buf, at)
    if not 0 <= size <= len(buf) - at:
        bad(f"a length of {size} where {len(buf) - at} bytes are left")
    return buf[at:at + size], at + size
