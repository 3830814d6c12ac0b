"""The mark of what is ours: the nonce of its entry, and whose it is, in a comment, a setting or a file."""

from __future__ import annotations

import re

from cdcv2.control.entries import CatalogueEntry

_MARK = re.compile(r"cdcv2: entry (\S+)(?: of (.*))?")


def mark_of(entry: CatalogueEntry) -> str:
    """The text that states whose it is.

    >>> from cdcv2.control.entries import Kind
    >>> mark_of(CatalogueEntry("7f", Kind.PUBLICATION, "shop", "db", {}, True, ("capture shop",)))
    'cdcv2: entry 7f of capture shop'
    """
    return f"cdcv2: entry {entry.nonce} of {', '.join(entry.users)}" if entry.users else f"cdcv2: entry {entry.nonce}"


def read_mark(text: str | None) -> tuple[str | None, str]:
    """The nonce, and whose it is; None and an empty text for what is no mark.

    >>> read_mark("cdcv2: entry 7f of capture shop"), read_mark("the orders"), read_mark(None)
    (('7f', 'capture shop'), (None, ''), (None, ''))
    """
    found = _MARK.fullmatch(text or "")
    return (found[1], found[2] or "") if found else (None, "")
