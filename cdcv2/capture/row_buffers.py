"""Where the rows of open transactions and of snapshots are kept: a small contract, and its way in memory.

:class:`~cdcv2.capture.open_rows.OpenRows` decides which row is a copy, and which one contradicts another; a buffer only
has the rows. The other way is :mod:`cdcv2.capture.run.spilled_rows`, which writes rows to disk beyond a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias, TypeVar, Union

from cdcv2.capture.facts import PartialChange
from cdcv2.protocol.log import Place
from cdcv2.protocol.sums import Sums

#: The effect of a row: pairs (row, diff); or a partial change, whose before-image must be looked up in the table.
Changes = Union[tuple[tuple[Any, int], ...], PartialChange]
#: A row of a transaction: its number in its table (``data_collection_order``), and what it does.
NumberedChanges: TypeAlias = tuple[int, Changes]
#: Where a row of a snapshot stands: a partition, and an offset in it.
RowPlace: TypeAlias = tuple[Place, int]

K = TypeVar("K")
V = TypeVar("V")


class RowBuffer(Protocol[K, V]):
    """The rows of one table, of one transaction or of one snapshot, by what identifies each of them there."""

    def __len__(self) -> int:
        """How many there are."""

    def __setitem__(self, key: K, row: V) -> None:
        """Keep a row; none has this key yet."""

    def get(self, key: K) -> V | None:
        """The row with this key; None: there is none."""

    def items(self) -> Iterable[tuple[K, V]]:
        """All of them with their keys, in any order."""

    def values(self) -> Iterable[V]:
        """All of them, in any order."""


class TransactionBuffer(RowBuffer[int, NumberedChanges], Protocol):
    """The rows of one table of one transaction, by their ``total_order``."""

    def sharing(self, order: int, number: int | None) -> Iterable[tuple[int, NumberedChanges]]:
        """Those with this place, then those with this number (None: none has it); one that has both may come twice."""


class RowBuffers(Protocol):
    """Makes buffers, and ends them."""

    def of_transaction(self, table: str) -> TransactionBuffer:
        """For the rows of a table of one transaction."""

    def of_snapshot(self, table: str) -> RowBuffer[RowPlace, Any]:
        """For the rows of a table of one snapshot."""

    def sums(self, buffer: TransactionBuffer | RowBuffer[RowPlace, Any]) -> Sums | None:
        """What its rows add up to, as rows with their diffs; None: they are all in memory, where the caller adds."""

    def drop(self, buffer: TransactionBuffer | RowBuffer[RowPlace, Any]) -> None:
        """Its rows are not needed any more."""

    def close(self) -> None:
        """None is needed any more."""


class MemoryBuffer(dict[int, NumberedChanges]):
    """The rows of one table of one transaction, in memory.

    >>> rows = MemoryBuffer()
    >>> rows[3] = 1, (("tea", 1),)
    >>> list(rows.sharing(9, 1))
    [(3, (1, (('tea', 1),)))]

    Cost: that of a dict; ``sharing`` looks at each row. Memory: the rows.
    """

    def sharing(self, order: int, number: int | None) -> Iterator[tuple[int, NumberedChanges]]:
        """As the contract has it."""
        if order in self:
            yield order, self[order]
        yield from ((at, row) for at, row in self.items() if row[0] == number)


class MemoryBuffers:
    """All rows in memory.

    >>> MemoryBuffers().of_transaction("public.a")
    {}
    """

    def of_transaction(self, table: str) -> MemoryBuffer:
        """A dict."""
        return MemoryBuffer()

    def of_snapshot(self, table: str) -> dict[RowPlace, Any]:
        """A dict."""
        return {}

    def sums(self, buffer: TransactionBuffer | RowBuffer[RowPlace, Any]) -> None:
        """The caller adds."""

    def drop(self, buffer: TransactionBuffer | RowBuffer[RowPlace, Any]) -> None:
        """Memory is freed with the buffer."""

    def close(self) -> None:
        """There is no file."""
