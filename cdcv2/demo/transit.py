"""Money on its way between two banks: no transaction spans two databases, so between two of them it is nowhere else.

As banks do it, each keeps an account of what the other one owes it: a row of its branches. To send, a transaction of
one database takes money from an account and books it there; to receive, a transaction of the other one, later, does
the reverse. So each of them leaves the money of its own bank as it was, and what the two rows have together is the
money on its way. A copy that shows both banks at one moment shows all the money, wherever each of them is in its own
history; it may show money as received that it does not show as sent yet, since two databases have no common order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from cdcv2.demo.bank import Bank
from cdcv2.demo.business import OTHER_BANK, received, sent

if TYPE_CHECKING:
    from psycopg import Cursor

    from cdcv2.demo.bank import Connected

    Open: TypeAlias = Cursor[tuple[Any, ...]]

#: so many payments are on their way between two banks in each direction, while couriers work
ON_THEIR_WAY = 4


def introduce(bank: Bank) -> None:
    """Let a bank have an account for what another one owes it. Once in its life."""
    with bank.connect() as connection:
        connection.execute("INSERT INTO branches VALUES (%s, 'the other bank', 0)", (OTHER_BANK,))


class Couriers:
    """Within the block, payments go both ways between two banks; leaving it, all that were sent are received.

    Args:
        one, other: the banks, which were introduced.
        rate: payments a second, in each direction.
        seed: what they are drawn from.
    """

    def __init__(self, one: Bank, other: Bank, *, rate: float, seed: int) -> None:
        self._rate, self._stop, self._failures = rate, threading.Event(), list[Exception]()
        self._sent, self._received = [0, 0], [0, 0]
        self._threads = [
            threading.Thread(target=self._courier, args=(at, *way, Random(f"{seed}/courier {at}")), daemon=True)
            for at, way in enumerate(((one, other), (other, one)))
        ]

    @property
    def sent(self) -> int:
        """How many payments left so far."""
        return sum(self._sent)

    @property
    def received(self) -> int:
        """How many came in so far."""
        return sum(self._received)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *how: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise what a courier raised that could not go on."""
        if self._failures:
            raise self._failures[0]

    def _courier(self, at: int, giver: Bank, taker: Bank, draw: Random) -> None:
        waiting: deque[int] = deque()
        try:
            with giver.connect() as here, taker.connect() as there:
                while not self._stop.is_set():
                    amount = _committed(here, lambda cursor: sent(cursor, draw))
                    if amount:
                        self._sent[at] += 1
                        waiting.append(amount)
                    if len(waiting) > ON_THEIR_WAY:
                        self._received[at] += _deliver(there, waiting.popleft(), draw)
                    self._stop.wait(draw.expovariate(self._rate))
                while waiting:
                    self._received[at] += _deliver(there, waiting.popleft(), draw)
        except Exception as failure:  # kept for the thread that asks for it
            self._failures.append(failure)
            self._stop.set()


def _deliver(connection: Connected, amount: int, draw: Random) -> int:
    """Try until an account takes it: the one that was drawn may just have been closed."""
    while not _committed(connection, lambda cursor: int(received(cursor, draw, amount))):
        pass
    return 1


def _committed(connection: Connected, work: Callable[[Open], int]) -> int:
    """What the work comes to, committed, unless that is nothing; nothing, too, if a deadlock was ended by it."""
    from psycopg.errors import DeadlockDetected

    try:
        with connection.cursor() as cursor:
            done = work(cursor)
    except DeadlockDetected:
        connection.rollback()
        return 0
    if done:
        connection.commit()
    else:
        connection.rollback()
    return done
