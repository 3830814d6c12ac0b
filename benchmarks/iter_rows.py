"""How many updates a second does one thread replay from memory, when the data are rows as a database has them?

Compared with the set that one writes by hand, as in ``iter_throughput``. Expected: 0.9 of the set's speed, more than
with int data, as hashing a row costs either the same. Answer: ``results/iter_rows.csv``, from
``python -m benchmarks iter_rows``.
"""

from __future__ import annotations

from benchmarks.harness import Case, Question
from benchmarks.iter_throughput import by_general, by_hand, by_iter, written_twice
from cdcv2 import Updates
from cdcv2.protocol.messages import Message


def rows(seed: int, size: int) -> list[Message]:
    """The history of ``iter_throughput`` with a payment in place of each number, a new object in each message."""
    return [
        Updates([(_payment(data), time, diff) for data, time, diff in message.updates])
        if isinstance(message, Updates) else message
        for message in written_twice(seed, size)
    ]


def _payment(number: int) -> tuple[int, str, str, int, None]:
    return number, f"account {number % 1000}", f"account {number % 997}", number * 7 % 100_000, None


QUESTION = Question(
    prepare=rows,
    baseline=Case("a set, sorted at the end", by_hand),
    cases=[Case("Iter", by_iter), Case("the general reader", by_general)],
    size=200_000,
    unit="updates",
)
