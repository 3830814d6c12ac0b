"""Resnapshots that the user has not declared: which still can be declared, and what to do about the others.

``declared`` are the LSNs that are declared, ``seen`` those of all snapshots of which a row was seen; the logs are
stated up to ``through``, None: nothing is.
"""

from __future__ import annotations

from collections.abc import Collection

from cdcv2.capture.snapshot.remedies import TWO
from cdcv2.capture.source_words import SLOT, SNAPSHOT_LSN


def undeclared(declared: Collection[int], seen: Collection[int], through: int | None) -> list[int]:
    """The LSNs of snapshots that are not declared, and still can be: those above ``through``.

    The least LSN of all is the first snapshot's.
    """
    least = min(seen, default=0) if through is None else through
    return sorted(lsn for lsn in {*seen}.difference(declared) if lsn > least)


def late(declared: Collection[int], seen: Collection[int], through: int | None) -> list[int]:
    """The LSNs of undeclared resnapshots that the logs are already stated beyond."""
    return sorted(lsn for lsn in {*seen}.difference(declared) if min(seen) < lsn <= (through or 0))


def remedy(declared: Collection[int], seen: Collection[int], through: int | None) -> str:
    """What to do about an undeclared snapshot.

    >>> "continue with --snapshot-again 90,120 and" in remedy([90], [10, 90, 120], 95)
    True
    """
    otherwise, missing = f"Otherwise: {TWO[0].lower()}{TWO[1:]}", undeclared(declared, seen, through)
    stated = late(declared, seen, through)
    if stated and not missing:
        lsns = ",".join(map(str, sorted({*stated, *declared})))
        return f"If these logs were captured with --snapshot-again {lsns}, keep giving it. {otherwise}"
    known = [lsn for lsn in declared if lsn <= (through or 0) or lsn in seen]
    lsns, where = ",".join(map(str, sorted({*known, *missing}))), ""
    if not missing:
        lsns, where = "LSN", (
            f" ({SNAPSHOT_LSN} of its rows, of which none was seen yet: once it is complete, start this again, and it "
            "is named here)"
        )
    return (
        f"If the connector's {SLOT} was lost, and it made a new one and took this snapshot on it first of all, and "
        f"was not interrupted: continue with --snapshot-again {lsns} and --before from-state{where}. {otherwise}"
    )
