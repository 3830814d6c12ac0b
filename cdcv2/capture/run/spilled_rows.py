"""The rows of open transactions and of snapshots, on disk beyond a limit: see :mod:`cdcv2.capture.row_buffers`.

Rows are in memory until there are more than the limit. Then all of them are written to a
:class:`~cdcv2.capture.run.spill_file.SpillFile`, and memory is filled again. What is on disk is given out as sums,
which a writer goes through once. So a transaction of any size takes the memory of the limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

from cdcv2 import failpoints
from cdcv2.capture.facts import PartialChange, encoded_images
from cdcv2.capture.row_buffers import NumberedChanges, RowBuffer, RowPlace, TransactionBuffer
from cdcv2.capture.run.spill_file import SpilledRow, SpillFile
from cdcv2.errors import Cdcv2Error
from cdcv2.protocol.log import Place
from cdcv2.protocol.sums import Sums
from cdcv2.rows.row_type import RowType

SPILLED = failpoints.declare("spill.written", "the rows that were in memory are in a temporary file")
READ = failpoints.declare("spill.read", "one more row of a release was read from the temporary file")

#: How many rows a capture has in memory at most, unless it is asked for another number.
MEMORY_ROWS = 1_000_000

K = TypeVar("K")
V = TypeVar("V")


class SpillingBuffers:
    """Buffers of the tables' rows, of which ``limit`` are in memory at most, in all; None: all of them.

    It keeps no partial changes: where before-images are looked up, every row of the tables is in memory.

    >>> kind = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
    >>> buffers = SpillingBuffers({"t": kind}, 1)
    >>> rows = buffers.of_transaction("t")
    >>> rows[1] = 1, ((kind.row([7]), 1),)
    >>> buffers.sums(rows) is None
    True
    >>> rows[2] = 2, ((kind.row([7]), -1), (kind.row([8]), 1))
    >>> list(buffers.sums(rows)), len(rows), list(rows.sharing(2, None))
    ([(Row(id=8), 1)], 2, [(2, (2, ((Row(id=7), -1), (Row(id=8), 1))))])
    >>> buffers.close()

    Raises OutputError where rows cannot be kept in the file. Cost: a row in memory as in a dict; beyond the limit the
    bytes of each row, which are sorted when they are added up. Memory: the limit, and that of the file.
    """

    def __init__(self, row_types: Mapping[str, RowType], limit: int | None = MEMORY_ROWS) -> None:
        self._row_types, self._limit, self._file = row_types, limit, SpillFile()
        # By their numbers in the file, in the order in which they were made.
        self._buffers: dict[int, SpillingBuffer[Any, Any]] = {}
        self._made = 0
        self._in_memory = 0

    def of_transaction(self, table: str) -> SpillingTransaction:
        """For the rows of a table of one transaction."""
        made = SpillingTransaction(self, self._next(), self._file, self._row_types[table])
        self._buffers[made.number] = made
        return made

    def of_snapshot(self, table: str) -> SpillingSnapshot:
        """For the rows of a table of one snapshot."""
        made = SpillingSnapshot(self, self._next(), self._file, self._row_types[table])
        self._buffers[made.number] = made
        return made

    def _next(self) -> int:
        self._made += 1
        return self._made

    def added(self) -> None:
        """A buffer has one row more in memory."""
        self._in_memory += 1
        if self._limit is not None and self._in_memory > self._limit:
            for buffer in self._buffers.values():
                self._in_memory -= buffer.spill()
            failpoints.reach(SPILLED)

    def sums(self, buffer: TransactionBuffer | RowBuffer[RowPlace, Any]) -> Sums | None:
        """What its rows add up to; None: they are all in memory."""
        if not isinstance(buffer, SpillingBuffer) or not buffer.on_disk:
            return None
        self._in_memory -= buffer.spill()
        return SpilledSums(self._file, buffer.number, buffer.row_type)

    def drop(self, buffer: TransactionBuffer | RowBuffer[RowPlace, Any]) -> None:
        """Its rows are not needed any more."""
        if isinstance(buffer, SpillingBuffer) and self._buffers.pop(buffer.number, None) is not None:
            self._in_memory -= len(buffer) - buffer.on_disk
            self._file.drop(buffer.number)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class SpillingBuffer(ABC, Generic[K, V]):
    """The rows of one table, of one transaction or snapshot: some in memory, others in ``file``, as its ``number``.

    Cost and memory: those of :class:`SpillingBuffers`.
    """

    def __init__(self, buffers: SpillingBuffers, number: int, file: SpillFile, row_type: RowType) -> None:
        #: Its number in the file.
        self.number = number
        #: The type of its rows.
        self.row_type = row_type
        #: How many of its rows are in the file.
        self.on_disk = 0
        self._added, self._file = buffers.added, file
        self._recent: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._recent) + self.on_disk

    def __setitem__(self, key: K, row: V) -> None:
        self._recent[key] = row
        self._added()

    def get(self, key: K) -> V | None:
        """The row with this key; None: there is none."""
        row = self._recent.get(key)
        return row if row is not None or not self.on_disk else self._on_disk(key)

    def items(self) -> Iterator[tuple[K, V]]:
        """All of them with their keys."""
        spilled = self._file.rows(self.number) if self.on_disk else ()
        return chain(map(self._decoded, spilled), self._recent.items())

    def values(self) -> Iterator[V]:
        """All of them."""
        return (row for _, row in self.items())

    def spill(self) -> int:
        """Write those that are in memory to the file; how many they are."""
        number = len(self._recent)
        if number:
            self._file.put(self.number, map(self._encoded, self._recent.items()))
            self.on_disk += number
            self._recent.clear()
        return number

    @abstractmethod
    def _on_disk(self, key: K) -> V | None:
        """The row with this key in the file."""

    @abstractmethod
    def _encoded(self, item: tuple[K, V]) -> SpilledRow:
        """A row for the file."""

    @abstractmethod
    def _decoded(self, row: SpilledRow) -> tuple[K, V]:
        """A row of the file."""


class SpillingTransaction(SpillingBuffer[int, NumberedChanges]):
    """The rows of one table of one transaction, by their ``total_order``. Cost and memory: as of its base."""

    def sharing(self, order: int, number: int | None) -> Iterator[tuple[int, NumberedChanges]]:
        """Those with this place, then those with this number. Cost: its rows."""
        held = self.get(order)
        if held is not None:
            yield order, held
        if number is None:
            return
        if self.on_disk:
            yield from map(self._decoded, self._file.numbered(self.number, number))
        yield from ((at, row) for at, row in self._recent.items() if row[0] == number)

    def _on_disk(self, key: int) -> NumberedChanges | None:
        found = self._file.row(self.number, 0, key)
        return None if found is None else self._decoded(found)[1]

    def _encoded(self, item: tuple[int, NumberedChanges]) -> SpilledRow:
        order, (number, does) = item
        if isinstance(does, PartialChange):
            raise Cdcv2Error(f"the change {does!r} needs its before-image: it is kept in memory, with all rows")
        minus, plus = encoded_images(does, self.row_type.encode, f"the row {order} of a transaction")
        return 0, order, number, minus, plus

    def _decoded(self, row: SpilledRow) -> tuple[int, NumberedChanges]:
        _, order, number, minus, plus = row
        images = ((minus, -1), (plus, 1))
        does = tuple((self.row_type.decode(image), diff) for image, diff in images if image is not None)
        return order, (number or 0, does)


class SpillingSnapshot(SpillingBuffer[RowPlace, Any]):
    """The rows of one table of one snapshot, by their places. Cost and memory: as of its base."""

    def __init__(self, buffers: SpillingBuffers, number: int, file: SpillFile, row_type: RowType) -> None:
        super().__init__(buffers, number, file, row_type)
        # The partitions, numbered as they come, and the greatest offset of each that is in the file.
        self._places: list[Place] = []
        self._parts: dict[Place, int] = {}
        self._highest: dict[Place, int] = {}

    def _on_disk(self, key: RowPlace) -> Any:
        place, offset = key
        # Topics are read in order: most rows come once, and need not be looked for.
        if offset > self._highest.get(place, -1):
            return None
        found = self._file.row(self.number, self._parts[place], offset)
        return None if found is None else self._decoded(found)[1]

    def _encoded(self, item: tuple[RowPlace, Any]) -> SpilledRow:
        (place, offset), row = item
        part = self._parts.get(place)
        if part is None:
            part = self._parts[place] = len(self._places)
            self._places.append(place)
        self._highest[place] = max(offset, self._highest.get(place, -1))
        return part, offset, None, None, self.row_type.encode(row)

    def _decoded(self, row: SpilledRow) -> tuple[RowPlace, Any]:
        part, offset, _, _, plus = row
        return (self._places[part], offset), self.row_type.decode(plus or b"")


class SpilledSums:
    """What the rows of a buffer in the file add up to: a :class:`~cdcv2.protocol.sums.Sums`.

    Cost: a sort when it is made; each row is read once as one goes through them. Memory: a row.
    """

    def __init__(self, file: SpillFile, number: int, row_type: RowType) -> None:
        self._file, self._number, self._row_type = file, number, row_type
        self._rows = file.add_up(number)

    def update(self, key: Any, change: int) -> None:
        """Add ``change`` to the sum of ``key``."""
        data = self._row_type.encode(key)
        before = self._file.sum(self._number, data)
        self._file.set_sum(self._number, data, before + change)
        self._rows += bool(before + change) - bool(before)

    def get(self, key: Any) -> int:
        """The sum of ``key``; 0 when it is not there."""
        return self._file.sum(self._number, self._row_type.encode(key))

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        for data, diff in self._file.sums(self._number):
            failpoints.reach(READ)
            yield self._row_type.decode(data), diff

    def __len__(self) -> int:
        return self._rows
