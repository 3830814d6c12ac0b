"""Formats of others, by their first bytes: an error names what a topic holds where that can be seen."""

from __future__ import annotations

#: The first byte of Confluent's framing; the id of a schema follows, as 4 bytes.
_CONFLUENT = b"\0"
_HEADER = 5


def format_of(raw: bytes) -> str | None:
    """What the bytes seem to be, as words for "these are ..."; None where nothing is recognized.

    For bytes that could not be read as what was expected: the bytes of a good message may look like another format.

    >>> format_of(b'{"op": "c"}'), format_of(bytes([0, 0, 0, 0, 7, 0, 2])), format_of(bytes([255]))
    ('JSON records', 'Confluent Avro records (schema id 7), or another format of a schema registry', None)
    """
    return "JSON records" if raw[:64].lstrip().startswith((b"{", b"[")) else registry_format(raw)


def registry_format(raw: bytes) -> str | None:
    """The same for what a converter with a schema registry writes.

    >>> registry_format(bytes([0, 0, 0, 0, 9]) + b'{"op": "c"}')
    "JSON behind a schema registry's header (schema id 9)"
    """
    # An id above 2 ** 24 is not seen in practice, and a message of a log begins with a zero, too.
    if len(raw) <= _HEADER or not raw.startswith(_CONFLUENT + b"\0"):
        return None
    number = int.from_bytes(raw[1:_HEADER], "big")
    if raw[_HEADER:].lstrip().startswith(b"{"):
        return f"JSON behind a schema registry's header (schema id {number})"
    return f"Confluent Avro records (schema id {number}), or another format of a schema registry"


def no_json(raw: bytes, error: Exception) -> str:
    """Why these bytes are refused where JSON was expected: what they are, where that can be seen."""
    other = registry_format(raw)
    return f"{f'these are {other}, ' if other is not None else ''}no JSON ({error})"
