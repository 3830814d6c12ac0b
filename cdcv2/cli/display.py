"""Rows and positions, as a person or a program reads them."""

from __future__ import annotations

import json
from typing import Any

from cdcv2.protocol.log import Position
from cdcv2.rows.plain import plain_int


def json_line(plain: Any) -> str:
    """A line of JSON that every tool takes alike, whatever is in it; see :func:`safe`."""
    return json.dumps(safe(plain))


def safe(plain: Any) -> Any:
    """The same, with what JSON tools would bend as strings: integers beyond 2**53 - 1, and the names of files.

    >>> safe({"lsn": [2**53, 7], "closed": True, "to": "gr\\udcc3\\udcb6\\udcc3\\udc9fe"})
    {'lsn': ['9007199254740992', 7], 'closed': True, 'to': 'größe'}
    """
    if isinstance(plain, str):
        # In a locale without its letters, the name of a file comes as its bytes, each one half of a surrogate pair.
        return plain.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(plain, dict):
        return {safe(key): safe(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [safe(item) for item in plain]
    return plain_int(plain) if type(plain) is int else plain


def csv_line(values: list[Any]) -> str:
    """Plain values as a line of CSV as PostgreSQL writes it: NULL is nothing, an empty string is ``""``.

    >>> csv_line([1, None, "", 'a "b", c', True])
    '1,,"","a ""b"", c",true'
    """
    return ",".join(map(_csv_field, values))


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text and not any(mark in text for mark in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def plain_position(position: Any) -> Any:
    """A position as JSON: topic or directory, partition, offset or file number, and index in the file."""
    return position._asdict() if isinstance(position, Position) else None if position is None else str(position)


def raw_text(raw: bytes, most: int = 32, *, size: int | None = None) -> str:
    """The first bytes in hexadecimal, and how many there are: ``size``, where the rest of them was not kept.

    >>> raw_text(bytes([0, 255])), raw_text(bytes(40), 3)
    ('00 ff (2 bytes)', '00 00 00 ... (40 bytes)')
    """
    size = len(raw) if size is None else size
    return f"{raw[:most].hex(' ')}{' ...' if size > most else ''} ({size} bytes)"


def sort_key(value: Any) -> Any:
    """A key that sorts values of one column: null first, then NaN, then the values; inside of tuples alike."""
    if value is None:
        return (0,)
    if isinstance(value, tuple):
        return (2, [sort_key(item) for item in value])
    return (2, value) if value == value else (1,)


def cut(line: str, width: int | None) -> str:
    """The line, in no more than so many characters, if there is a width.

    >>> cut("a long line", 8), cut("a line", 8), cut("a long line", None)
    ('a lon...', 'a line', 'a long line')
    """
    return line if width is None or len(line) <= width else f"{line[:max(0, width - 3)]}..."
