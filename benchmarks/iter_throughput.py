"""How many updates a second does one thread replay from memory?

Compared with what one writes by hand when there is no protocol: put everything into a set, sort it by time, and hope
that it was all. Each update comes twice and is counted once, in a message with updates of many other times. Expected:
``Iter`` has 0.8 of the set's speed, and unlike the set it knows that it was all; the general reader (``Stash`` and
``Ledger``) takes seven times as long. Answer: ``results/iter_throughput.csv``, from
``python -m benchmarks iter_throughput``.
"""

from __future__ import annotations

from operator import itemgetter
from random import Random

from benchmarks.harness import Case, Question
from cdcv2 import Iter, Progress, Resolver, Updates, mangle
from cdcv2.protocol.messages import Message

UPDATES_PER_TIME = 10
TIMES_PER_STATEMENT = 10


def written_twice(seed: int, size: int) -> list[Message]:
    """A history of ``size`` updates of int data, mangled into two copies of each fact."""
    random = Random(seed)
    log: list[Message] = []
    upper = max(1, size // UPDATES_PER_TIME)
    for first in range(0, upper, TIMES_PER_STATEMENT):
        times = range(first, min(first + TIMES_PER_STATEMENT, upper))
        rows = random.sample(range(1_000_000), UPDATES_PER_TIME * len(times))
        log.append(Updates([(row, time, 1) for row, time in zip(rows, [*times] * UPDATES_PER_TIME)]))
        log.append(Progress([first], [times.stop], dict.fromkeys(times, UPDATES_PER_TIME)))
    log.append(Progress([upper], []))
    return list(mangle(log, seed=seed, copies=2, window=200))


def by_hand(messages: list[Message]) -> None:
    """Everything into a set, sorted by time at the end."""
    seen = {update for message in messages if isinstance(message, Updates) for update in message.updates}
    sorted(seen, key=itemgetter(1))


def by_iter(messages: list[Message]) -> None:
    """Each finished batch as soon as it is finished."""
    reader = Iter(messages)
    for _updates, _frontier in reader:
        pass
    if not reader.closed:
        raise ValueError(f"the replay stopped at {reader.frontier}: {reader.missing()}")


def by_general(messages: list[Message]) -> None:
    """The same by the reader for all times and settings."""
    reader = Resolver(general=True)
    for message in messages:
        reader.absorb(message)
    if not reader.closed:
        raise ValueError(f"the replay stopped at {reader.frontier}: {reader.missing()}")


QUESTION = Question(
    prepare=written_twice,
    baseline=Case("a set, sorted at the end", by_hand),
    cases=[Case("Iter", by_iter), Case("the general reader", by_general)],
    size=200_000,
    unit="updates",
)
