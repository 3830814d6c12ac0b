"""What a transaction does, where its records do not say it all: it is looked up in what it found.

Of most tables a record names the row that it changes, and not what that row was. Such a record is held, as a
:class:`~cdcv2.capture.open_records.RowRecord`, with one change of diff 0: the data is what was told. The operator asks
the *state*, once for each transaction and in the order of their commits, as it gives them out. So the state at a time
is the sum of the output up to it, and whoever goes on from there adds that up and needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from cdcv2.capture.open_records import RowRecord, Tx

#: The diff of what is told of a row, and does to its table what is known with the table's content only.
TOLD = 0


class UnknownChange(Exception):
    """What a change does cannot be known from the content of its table. Whoever asks the state makes a stop of it."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class State(Protocol):
    """The content of all tables, after the transactions that were taken."""

    def take(self, tx: Tx, rows: Iterable[RowRecord]) -> Iterable[tuple[str, Iterable[tuple[Any, int]]]]:
        """Go along with the next transaction: all its rows, in any order. What it does, by table: pairs (data, diff).

        Raises Unknown; the state is then of no more use.
        """
