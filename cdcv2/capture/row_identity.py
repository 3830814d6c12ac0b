"""Which row of a transaction is a copy of which, and which contradict each other: the one rule of every way to capture.

A connector gives each row a place among all rows of its transaction (Debezium's ``total_order``), and a number among
those of its table there (``data_collection_order``). With each copy it sends both again, and the same change. So two
rows that share one of them are one row, or they contradict each other.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from cdcv2.capture.transaction_contradictions import NEW_SOURCE, Contradiction

REMEDY = (
    "The records are at fault: a connector gives each row of a transaction one total_order, and one number among the "
    f"rows of its table, and sends both again with each copy. {NEW_SOURCE}"
)


class RowIdentity(NamedTuple):
    """A row of a transaction, by what identifies it; ``change`` is what it does, compared as it is.

    ``number`` is None where it is unknown: then it contradicts no other.

    >>> one = RowIdentity("orders", 3, 2, "tea")
    >>> one.is_copy(RowIdentity("orders", 3, None, "tea")), one.is_copy(one._replace(number=1))
    (True, False)
    """

    table: str
    order: Hashable
    number: int | None
    change: object

    def shares_number(self, other: RowIdentity) -> bool:
        """Whether both have one number of one table."""
        return self.number is not None and (self.table, self.number) == (other.table, other.number)

    def is_copy(self, other: RowIdentity) -> bool:
        """Whether both are one row: the same table, place and change, and the same number as far as both have one."""
        numbers = {number for number in (self.number, other.number) if number is not None}
        return (self.table, self.order, self.change) == (other.table, other.order, other.change) and len(numbers) < 2


def contradiction_of(tx: object, one: RowIdentity, other: RowIdentity, where: str = "") -> Contradiction | None:
    """Why two rows of the transaction ``tx`` cannot both be right; None: they are copies, or have nothing in common.

    ``where`` is where one of them stands, for people.

    >>> one = RowIdentity("orders", 3, 2, "tea")
    >>> contradiction_of(7, one, one._replace(number=1)).reason
    'transaction 7 has two different rows of orders with total_order 3, numbered 1 and 2'
    >>> contradiction_of(7, one, one._replace(order=4)).reason
    'transaction 7 has two different rows of orders numbered 2, with total_order 3 and 4'

    Cost: constant. Source: what Debezium states of the order of a transaction's rows.
    """
    shares_order = one.order == other.order
    if one.is_copy(other) or not (shares_order or one.shares_number(other)):
        return None
    low, high = sorted((one, other), key=_sorted_by)
    if shares_order and one.table != other.table:
        what = f"with total_order {one.order}, of {_of(low)} and of {_of(high)}"
    elif shares_order and one.shares_number(other):
        what = f"of {_of(one)}, both with total_order {one.order}"
    elif shares_order and None in (one.number, other.number):
        what = f"of {one.table}, both with total_order {one.order}"
    elif shares_order:
        what = f"of {one.table} with total_order {one.order}, numbered {low.number} and {high.number}"
    else:
        what = f"of {_of(one)}, with total_order {low.order} and {high.order}"
    return Contradiction(f"transaction {tx} has two different rows {what}{where}", REMEDY)


def _of(row: RowIdentity) -> str:
    return row.table if row.number is None else f"{row.table} numbered {row.number}"


def _sorted_by(row: RowIdentity) -> tuple[str, int, int, str]:
    """Whichever of two came first, they are named alike."""
    order = str(row.order)
    return row.table, row.number or 0, len(order), order
