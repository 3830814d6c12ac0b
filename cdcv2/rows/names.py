"""Names: a column is called what the database calls it, which need not be a name in Avro or in Python.

Avro allows ``[A-Za-z_][A-Za-z0-9_]*``. Any other character is written as SQL/XML writes it (ISO 9075-14, as
PostgreSQL does too): ``_xHHHH_``, or ``_xHHHHHHHH_`` above U+FFFF, with its code point in upper-case hexadecimal;
so is a leading digit, and an underscore that would otherwise be read as the start of such an escape.

The attributes of a row are Python names: a keyword gets an underscore behind it, and a name that starts with an
underscore, which named tuples refuse, gets ``column`` before it. Both mappings can be reversed.
"""

from __future__ import annotations

import keyword
import re

from cdcv2.errors import MalformedError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPE = re.compile(r"_x([0-9A-F]{8}|[0-9A-F]{4})_")
_TO_ESCAPE = re.compile(r"_(?=x[0-9A-F]{4})|^[0-9]|[^A-Za-z0-9_]", re.DOTALL)
_SHIFTED = re.compile(r"(column)*_")


def is_avro_name(name: str) -> bool:
    """Whether ``name`` is a name in Avro as it stands.

    >>> is_avro_name("unit_price"), is_avro_name("unit price")
    (True, False)
    """
    return _PLAIN.match(name) is not None


def avro_name(column: str) -> str:
    """The Avro name of a column; different columns have different ones.

    >>> avro_name("unit price"), avro_name("2nd"), avro_name("id")
    ('unit_x0020_price', '_x0032_nd', 'id')

    Raises MalformedError for an empty name, and for one that is not valid Unicode.
    """
    if not column:
        raise MalformedError("a column with an empty name cannot be written: name it")
    try:
        column.encode()
    except UnicodeEncodeError:
        raise MalformedError(f"the column name {column!r} holds a lone surrogate, which is no character") from None
    return _TO_ESCAPE.sub(_escape, column)


def column_name(name: str) -> str:
    """The column whose Avro name this is.

    >>> column_name("unit_x0020_price"), column_name("id")
    ('unit price', 'id')

    An Avro name that :func:`avro_name` never makes is the column's own name.
    """
    column = _ESCAPE.sub(_unescape, name)
    try:
        return column if avro_name(column) == name else name
    except MalformedError:
        return name


def python_name(name: str) -> str:
    """The attribute by which a row offers the field with this Avro name.

    >>> python_name("class"), python_name("class_"), python_name("_id"), python_name("id")
    ('class_', 'class__', 'column_id', 'id')
    """
    if keyword.iskeyword(name.rstrip("_")):
        return name + "_"
    return "column" + name if _SHIFTED.match(name) else name


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"_x{code:04X}_" if code <= 0xFFFF else f"_x{code:08X}_"


def _unescape(match: re.Match[str]) -> str:
    code = int(match.group(1), 16)
    return chr(code) if code <= 0x10FFFF else match.group()
