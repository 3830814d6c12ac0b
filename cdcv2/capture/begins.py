"""What BEGINs mean: two of one transaction, and one without an END.

The records of the transaction topic have an order, and a connector sends one transaction after the other. If two BEGINs
of one transaction follow each other directly, the connector was restarted inside the transaction, or at its start. The
two cases look alike. Before Debezium 3.7.0 the connector then numbers what it sends from 1 again, as if that was the
whole transaction. If the restart was at an earlier transaction, records of that one stand between the two BEGINs, and
the whole transaction is sent again.

A restart never leads forward: the connector sends all from there on again. So an END that is later than each one before
it, in the order of commits, is that of the next transaction. A transaction with a BEGIN before it is that one, or has
an END before it. If not, its END is lost. Who has not read the topic from its beginning knows an END before it only
from the first one on that was read.

A task of Kafka Connect that was replaced may still send what it had to send, and end inside a transaction that was sent
whole long before. So the END is looked for in the whole topic before it counts as lost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

#: What a transaction is called by its source.
T = TypeVar("T")


class BeginRecords(Generic[T]):
    """Reads the records of the transaction topic, in their order.

    >>> begins = BeginRecords[int]()
    >>> begins.begin(7), begins.begin(7), begins.end(7, 100), begins.begin(7)
    (False, True, [], False)

    The END of 8 is lost: that of 9 is later than all before it.

    >>> begins.begin(8), begins.end(7, 100), begins.begin(9), begins.end(9, 120)
    (False, [], False, [(8, 100)])

    If the topic no longer holds what stood before the first record that is read, it is unknown whether the connector
    was restarted inside the transaction of that record: it is in doubt.

    >>> begins.recall(None, gone=True); begins.doubts(), begins.begin(7), begins.doubts()
    (True, False, False)

    Cost: constant, for an END as much as there are BEGINs without one. Memory: these, at most one for each restart
    since the last new END. Source: measured with kills of several releases of the connector.
    """

    def __init__(self) -> None:
        self._last: T | None = None
        self._gone = False
        # Those without an END; only where an END before them is known, or that there is none.
        self._open: set[T] = set()
        # The latest END; 0: the topic begins here.
        self._highest: int | None = None

    def begin(self, tx: T) -> bool:
        """A BEGIN: whether the connector was restarted inside this transaction, or at its start."""
        restarted, self._last, self._gone = self._last == tx, tx, False
        if self._highest is not None:
            self._open.add(tx)
        return restarted

    def recall(
        self, last: T | None, *, gone: bool = False, unended: Collection[T] = (), highest: int | None = None
    ) -> None:
        """The record before the next one is a BEGIN of this transaction; None: it is none. ``gone``: it is lost.

        ``unended`` and ``highest`` are those of the records before.
        """
        self._last, self._gone = last, gone
        self._open, self._highest = set(unended), highest

    def doubts(self) -> bool:
        """Whether the transaction of the next record, a BEGIN or an END, is in doubt: call it before taking that."""
        return self._gone

    def end(self, tx: T, lsn: int) -> list[tuple[T, int]]:
        """An END. Returns the transactions whose END is lost, each with the latest END before it; 0: there was none."""
        self._last, self._gone = None, False
        self._open.discard(tx)
        before = self._highest
        if before is not None and lsn <= before:
            return []
        self._highest = lsn
        lost = [] if before is None else [(one, before) for one in sorted(self._open, key=str)]
        self._open.clear()
        return lost

    @property
    def unended(self) -> frozenset[T]:
        """The transactions with a BEGIN whose END must still come."""
        return frozenset(self._open)

    @property
    def highest(self) -> int | None:
        """The latest END; 0: there was none before the first record; None: that is unknown."""
        return self._highest
