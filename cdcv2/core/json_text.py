"""JSON from others: whatever is wrong with it is one error, also where it is nested deeper than Python can follow."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """The value of a JSON text; ``hooks`` are those of :func:`json.loads`.

    >>> parse_json("[" * 200_000)
    Traceback (most recent call last):
    ValueError: it is nested too deep

    Raises ValueError for anything else: for bytes that are no text, and for a number of thousands of digits, too.
    Cost: linear. Source: RFC 8259 lets a reader set a limit to the depth; Python's is that of its stack.
    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
