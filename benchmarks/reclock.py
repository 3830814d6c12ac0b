"""What does it cost to carry updates over to a timeline, and to give them out as whole transactions?

Compared with what one would write by hand for this topic alone: per partition a list of ends and one of times, and a
bisect for each update, with every binding there before its updates. Expected: three times as long for carrying over
with a binding after each micro-batch, as the operator sorts by part, holds what is not bound, and adds up what it gives
out; ten times for transactions of five rows. Answer: ``results/reclock.csv``, from ``python -m benchmarks reclock``;
its rows of ``before (dabd76a)`` were measured in the same rounds, with that commit's package beside this one.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.harness import Case, Question
from cdcv2.capture.open_records import EndRecord, RowRecord
from cdcv2.capture.transactions_on_timeline import Transactions
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.messages import Update
from cdcv2.timeline import NOT_STARTED, Binding, Part, Partitioned, Reclock, Remap, offsets

PARTITIONS = 8
#: The partition of the Ends.
ENDS = PARTITIONS
ROWS_PER_TRANSACTION = 5
UPDATES_PER_BATCH = 1000


@dataclass
class Read:
    """What a consumer reads, micro-batch by micro-batch: updates, and where it is after them."""

    batches: list[tuple[list[Update], Antichain]]
    #: The same by hand: data, partition, offset and diff of each update, and the next offset of each partition.
    plain: list[tuple[list[tuple[Any, int, int, int]], dict[int, int]]]
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
    records: list[tuple[Any, int, int, int]] = []
    plain: list[tuple[list[tuple[Any, int, int, int]], dict[int, int]]] = []
    transactions = max(1, size // (ROWS_PER_TRANSACTION + 1))
    for tx in range(1, transactions + 1):
        rows = [RowRecord("t", tx, order, tx - 1, (((tx, order), 1),)) for order in range(ROWS_PER_TRANSACTION)]
        said = [(row, random.randrange(PARTITIONS)) for row in rows]
        for one, part in (*said, (EndRecord.of(tx, tx, {"t": ROWS_PER_TRANSACTION}), ENDS)):
            records.append((one, part, at[part], 1))
            at[part] += 1
            if len(records) == UPDATES_PER_BATCH:
                plain.append((records, dict(at)))
                records = []
    plain.append((records, dict(at)))
    batches: list[tuple[list[Update], Antichain]] = [
        ([(data, Partitioned.at(part, offset), diff) for data, part, offset, diff in records], place(at))
        for records, at in plain
    ]
    return Read(batches, plain, transactions * ROWS_PER_TRANSACTION)


def place(at: dict[int, int]) -> Antichain:
    """Where a consumer is that reads these offsets next."""
    places: dict[Part, int | None] = dict(at.items())
    return offsets(places)


def by_hand(source: Read) -> None:
    """A bisect for each update in the ends of its partition."""
    source.given = 0
    ends: dict[int, list[int]] = {part: [] for part in range(PARTITIONS + 1)}
    times: dict[int, list[int]] = {part: [] for part in range(PARTITIONS + 1)}
    for time, (records, at) in enumerate(source.plain, 1):
        for part, end in at.items():
            ends[part].append(end)
            times[part].append(time)
        source.given += len([
            (data, times[part][bisect_right(ends[part], offset)], diff) for data, part, offset, diff in records
        ])


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
    baseline=Case("one bisect per update, by hand", by_hand, check=all_given),
    cases=[
        Case("Reclock", carried, check=all_given),
        Case("Reclock, bindings known", carried_again, check=all_given),
        Case("Reclock and Transactions", in_transactions, check=all_rows_given),
    ],
    size=300_000,
    unit="updates",
)
