"""How many updates a second does one thread replay from memory, when each message has one update or one statement?

A source of small transactions writes like this: nothing is shared by the updates of a message, so all that a message
costs is paid for one update. Compared with the general reader (``Stash`` and ``Ledger``), which was the only one once.
Expected: a dozen times as fast. Answer: ``results/iter_single.csv``, from ``python -m benchmarks iter_single``.
"""

from __future__ import annotations

from random import Random

from benchmarks.harness import Case, Question
from benchmarks.iter_throughput import by_general, by_iter
from cdcv2 import Progress, Updates
from cdcv2.protocol.messages import Message


def one_by_one(seed: int, size: int) -> list[Message]:
    """A time for each update, and a statement behind it."""
    random = Random(seed)
    log: list[Message] = []
    for time in range(size):
        log.append(Updates([(random.randrange(1_000_000), time, 1)]))
        log.append(Progress([time], [time + 1], {time: 1}))
    log.append(Progress([size], []))
    return log


QUESTION = Question(
    prepare=one_by_one,
    baseline=Case("the general reader", by_general),
    cases=[Case("Iter", by_iter)],
    size=50_000,
    unit="updates",
)
