"""What the updates of one time add up to, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Sums(Protocol):
    """Data, canonical in their log, and the sums of their diffs; data whose sum is zero are not there.

    In memory it is a :class:`~cdcv2.core.changes.ChangeBatch`. Others may be larger than memory: a writer goes through
    them once, and holds a message of them at a time.
    """

    def update(self, key: Any, change: int) -> None:
        """Add ``change`` to the sum of ``key``."""

    def get(self, key: Any) -> int:
        """The sum of ``key``; 0 when it is not there."""

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        """Each key with its sum."""

    def __len__(self) -> int:
        """How many keys there are."""
