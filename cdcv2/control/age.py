"""How long something is, as people read it."""

from __future__ import annotations


def age(seconds: float) -> str:
    """How long something is, in its greatest unit.

    >>> [age(one) for one in (-1, 59.9, 60, 7300, 200000)]
    ['0 s', '59 s', '1 min', '2 h', '2 d']
    """
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"
