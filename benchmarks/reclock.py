"""What does it cost to carry updates over to a timeline, and to give them out as whole transactions?

Compared with a bare loop over the same updates that gives each of them the number of its micro-batch as its time, which
nobody else could find again. Expected: ten times as long for carrying over with a binding for each micro-batch, half of
that again for transactions of five rows; less where the bindings are there before the updates, as after a restart.
Found, in small runs on a busy machine: about a hundred times, as such a loop looks nothing up. Answer:
``results/reclock.csv``, from ``python -m benchmarks reclock``.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from benchmarks.harness import Case, Question
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.messages import Update
from cdcv2.reclock import NOT_STARTED, Binding, Part, Partitioned, Reclock, Remap, offsets
from cdcv2.reclock.temp import End, Row
from cdcv2.reclock.transactions import Transactions

PARTITIONS = 8
#: The partition of the Ends.
ENDS = PARTITIONS
ROWS_PER_TRANSACTION = 5
UPDATES_PER_BATCH = 1000


@dataclass
class Read:
    """What a consumer reads, micro-batch by micro-batch: updates, and where it is after them."""

    batches: list[tuple[list[Update], Antichain]]
    rows: int
    #: What the last run gave out: rows of transactions, or all updates.
    given: int = 0

    @property
    def updates(self) -> int:
        """All that there is."""
        return sum(len(updates) for updates, _ in self.batches)

    def bindings(self) -> list[Binding]:
        """A binding for each micro-batch."""
        return [Binding(time, time + 1, frontier) for time, (_, frontier) in enumerate(self.batches, 1)]


def read(seed: int, size: int) -> Read:
    """Transactions whose rows are spread over the partitions of a topic, at about ``size`` updates, Ends included."""
    random, at = Random(seed), dict.fromkeys(range(PARTITIONS + 1), 0)
    updates: list[Update] = []
    batches: list[tuple[list[Update], Antichain]] = []
    transactions = max(1, size // (ROWS_PER_TRANSACTION + 1))
    for tx in range(1, transactions + 1):
        rows = [Row("t", tx, order, tx - 1, (((tx, order), 1),)) for order in range(ROWS_PER_TRANSACTION)]
        said = [(row, random.randrange(PARTITIONS)) for row in rows]
        for one, part in (*said, (End.of(tx, tx, {"t": ROWS_PER_TRANSACTION}), ENDS)):
            updates.append((one, Partitioned.at(part, at[part]), 1))
            at[part] += 1
            if len(updates) == UPDATES_PER_BATCH:
                batches.append((updates, place(at)))
                updates = []
    return Read([*batches, (updates, place(at))], transactions * ROWS_PER_TRANSACTION)


def place(at: dict[int, int]) -> Antichain:
    """Where a consumer is that reads these offsets next."""
    places: dict[Part, int | None] = dict(at.items())
    return offsets(places)


def by_hand(source: Read) -> None:
    """The number of the micro-batch is the time."""
    source.given = 0
    for number, (updates, _) in enumerate(source.batches):
        source.given += len([(data, number, diff) for data, _, diff in updates])


def carried(source: Read) -> None:
    """Each binding comes after what it binds."""
    source.given, operator = 0, Reclock(Remap(NOT_STARTED))
    for (updates, frontier), binding in zip(source.batches, source.bindings()):
        operator.updates(updates, frontier)
        source.given += len(operator.bind(binding).updates)


def carried_again(source: Read) -> None:
    """All bindings are there already."""
    source.given, remap = 0, Remap(NOT_STARTED)
    for binding in source.bindings():
        remap.follow(binding)
    operator = Reclock(remap)
    for updates, frontier in source.batches:
        source.given += len(operator.updates(updates, frontier).updates)


def in_transactions(source: Read) -> None:
    """Carried over, and given out as whole transactions in the order of their commits."""
    source.given, operator, transactions = 0, Reclock(Remap(NOT_STARTED)), Transactions(["t"])
    for (updates, frontier), binding in zip(source.batches, source.bindings()):
        operator.updates(updates, frontier)
        source.given += len(transactions.updates(*operator.bind(binding)).output["t"])


def all_given(source: Read) -> None:
    """Raise ValueError when something was not given out."""
    if source.given != source.updates:
        raise ValueError(f"{source.given} of {source.updates} updates were given out")


def all_rows_given(source: Read) -> None:
    """Raise ValueError when a row was not given out."""
    if source.given != source.rows:
        raise ValueError(f"{source.given} of {source.rows} rows were given out")


QUESTION = Question(
    prepare=read,
    baseline=Case("the number of the micro-batch", by_hand, check=all_given),
    cases=[
        Case("Reclock", carried, check=all_given),
        Case("Reclock, bindings known", carried_again, check=all_given),
        Case("Reclock and Transactions", in_transactions, check=all_rows_given),
    ],
    size=300_000,
    unit="updates",
)
