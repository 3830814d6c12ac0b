"""One open transaction on a timeline: what is held of it, and what the current step adds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias, Union

from cdcv2.capture.numbers import Numbers
from cdcv2.capture.open_records import SNAPSHOT, EndRecord, HaltRecord, OpenRecord, RestartRecord, RowRecord
from cdcv2.capture.row_identity import contradiction_of
from cdcv2.capture.transaction_contradictions import Contradiction, two_snapshot_rows
from cdcv2.errors import SourceStop
from cdcv2.protocol.log import Position

#: What is held of an open transaction beside its rows.
Beside: TypeAlias = Union[HaltRecord, EndRecord, RestartRecord]


class BoundTransaction:
    """One open transaction.

    >>> opened = BoundTransaction()
    >>> opened.add(RowRecord("t", 7, 3, None, (("a", 1),), number=2)); opened.counted("t"), len(opened)
    ((1, 2), 1)

    Cost: a record O(1). Memory: what is held. Source: what TEMP holds of a transaction.
    """

    __slots__ = ("rows", "beside", "numbers", "seen", "fresh", "fresh_rows", "_fresh_orders")

    def __init__(self) -> None:
        self.rows: dict[Any, RowRecord] = {}
        #: What is held of it beside its rows: Halts, a Restart, its End.
        self.beside: dict[Beside, None] = {}
        #: Table -> the numbers of its rows; how many rows are held.
        self.numbers: dict[str, Numbers] = {}
        self.seen: dict[str, int] = {}
        #: What this step added: all but rows, and the number of rows, which are the last ones in ``rows``.
        self.fresh: list[OpenRecord] = []
        self.fresh_rows = 0
        self._fresh_orders: set[Any] | None = None

    @property
    def halts(self) -> list[HaltRecord]:
        """Why it can never be released."""
        return [held for held in self.beside if isinstance(held, HaltRecord)]

    @property
    def end(self) -> EndRecord | None:
        """Its End, if that is in."""
        return next((held for held in self.beside if isinstance(held, EndRecord)), None)

    def add(self, row: RowRecord) -> None:
        """Hold one more row. Raises SourceStop if another row has its number."""
        if row.number is not None and not self.numbers.setdefault(row.table, Numbers()).add([row.number]):
            for held in self.rows.values():
                _compare(held, row)
        self.rows[row.order] = row
        self.seen[row.table] = self.seen.get(row.table, 0) + 1
        self.fresh_rows += 1
        if self._fresh_orders is not None:
            self._fresh_orders.add(row.order)

    def add_copy(self, row: RowRecord, held: RowRecord) -> bool:
        """Whether ``row``, a copy of the row ``held``, replaces it. Of the copies in one step, the least commit wins.

        Raises SourceStop if it is a different row at the same place.
        """
        if held == row:
            return False
        _compare(held, row)
        if self._fresh_orders is None:
            self._fresh_orders = {*islice(self.rows, len(self.rows) - self.fresh_rows, None)}
        if row.order not in self._fresh_orders or _least(held, row) is held:
            return False
        self.rows[row.order] = row
        return True

    def counted(self, table: str) -> tuple[int, int]:
        """How many rows of the table there are, and the highest of their numbers, as far as they have any."""
        highest = self.numbers[table].highest if table in self.numbers else 0
        return self.seen[table], max(self.seen[table], highest)

    def content(self) -> Iterator[OpenRecord]:
        """What is held of it."""
        yield from self.rows.values()
        yield from self.beside

    def added(self) -> Iterator[OpenRecord]:
        """What this step added."""
        yield from islice(self.rows.values(), len(self.rows) - self.fresh_rows, None)
        yield from self.fresh

    def before(self) -> Iterator[OpenRecord]:
        """What was held before this step."""
        yield from islice(self.rows.values(), len(self.rows) - self.fresh_rows)
        yield from (held for held in self.beside if held not in self.fresh)

    def age(self) -> None:
        """The step is over."""
        self.fresh, self.fresh_rows, self._fresh_orders = [], 0, None

    def __len__(self) -> int:
        return len(self.rows) + len(self.beside)


def stop_of(found: Contradiction) -> SourceStop:
    """The error for a contradiction."""
    return SourceStop(found.reason, found.remedy, lasting=found.stated)


def _compare(held: RowRecord, row: RowRecord) -> None:
    """Raise SourceStop if the two rows of one transaction contradict each other."""
    found = contradiction_of(row.tx, held.identity, row.identity)
    if found is not None and row.tx == SNAPSHOT and isinstance(row.order, tuple):
        found = two_snapshot_rows(Position(*row.order))
    if found is not None:
        raise stop_of(found)


def _least(one: RowRecord, other: RowRecord) -> RowRecord:
    """The row that names the lesser commit; a row that names none comes first."""
    return min(one, other, key=lambda row: -1 if row.after is None else row.after)
