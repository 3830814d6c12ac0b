"""In which order the transactions of a timeline are given out, and what may be made of that."""

from __future__ import annotations

from cdcv2.errors import RefusedError

#: A transaction is given out when it and every one committed before it is whole.
COMMIT_ORDER = "commit"
#: A transaction is given out when it is whole. No promise of a consistent cut, and nothing that needs the state before.
AS_COMPLETE = "complete"


def check_ordered(ordering: str, purpose: str) -> None:
    """Raise RefusedError, naming the purpose, unless transactions are released in the order of commits.

    For everything that needs the state before a transaction: before-images, TRUNCATE, materialization.

    >>> check_ordered(COMMIT_ORDER, "a view")
    """
    if ordering != COMMIT_ORDER:
        raise RefusedError(
            f"{purpose} needs the state before each transaction, and this timeline has them as soon as they are "
            f"complete ({ordering!r}), not in the order of their commits: capture with the ordering {COMMIT_ORDER!r}"
        )
