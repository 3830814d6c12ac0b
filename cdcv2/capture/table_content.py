"""Changes whose before-image is missing in the record: it is looked up in the state.

Of most tables a record names the row that it changes, and lacks the old values. Such a record is held, as a
:class:`~cdcv2.capture.open_records.RowRecord`, with one change of diff 0: its data is the partial change. The operator
asks the *state*, once for each transaction and in the order of commits, as it releases them. So the state at a time is
the sum of the output up to it: a resuming capture adds that up and needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from cdcv2.capture.open_records import RowRecord, Tx

#: The diff of a partial change: its effect on the table depends on the table's content.
UNRESOLVED = 0


class UnknownChange(Exception):
    """The content of a table does not show what a change does. The caller turns it into a stop."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class State(Protocol):
    """The content of all tables, after the transactions that were taken."""

    def take(self, tx: Tx, rows: Iterable[RowRecord]) -> Iterable[tuple[str, Iterable[tuple[Any, int]]]]:
        """Go along with the next transaction: all its rows, in any order. What it does, by table: pairs (data, diff).

        Raises Unknown; the state is then of no more use.
        """
