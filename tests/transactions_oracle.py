"""Transactions under reclocking by definition: at every time, all records up to it are looked at from the first on.

A history is what a connector sent, partition by partition: the rows of transactions, spread over the partitions of a
topic, and the Ends in a topic of one. It may have been started again on the way, and sent a part once more, rows into
other partitions. Nothing is remembered from one time to the next here, and no rule separates repeats from facts: the
whole history is known, so whether something is a copy needs no deciding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cdcv2.capture.open_records import SNAPSHOT, EndRecord, RowRecord
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.messages import Update
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.partitioned import Part, Partitioned, offsets
from tests.strategies import Chooser

CAPTURED = ("a", "b")
#: Partitions of the rows, then that of the Ends, then that in which the snapshot's End stands.
ROWS, ENDS, COUNTED = (0, 1, 2), 3, 4
Place = dict[int, int]


@dataclass
class Transaction:
    """One transaction as it really was."""

    end: EndRecord
    rows: list[RowRecord]

    def rows_captured(self) -> set[RowRecord]:
        """Those of the tables that are captured."""
        return {row for row in self.rows if row.table in CAPTURED}


@dataclass
class History:
    """What each partition holds, and the transactions in the order of their commits, the snapshot first."""

    transactions: list[Transaction]
    snapshot: bool
    partitions: dict[int, list[Any]] = field(default_factory=lambda: {part: [] for part in (*ROWS, ENDS, COUNTED)})

    def whole(self) -> Place:
        """Where everything is in."""
        return {part: len(records) for part, records in self.partitions.items()}

    def between(self, low: Place, high: Place) -> list[Update]:
        """The records from one place to another, as updates at their from-times."""
        return [
            (said, Partitioned.at(part, offset), 1)
            for part, records in self.partitions.items()
            for offset, said in enumerate(records)
            if low.get(part, 0) <= offset < high.get(part, 0)
        ]


def histories(choose: Chooser, *, snapshot: bool, most: int = 5) -> History:
    """A history; among its transactions are empty ones, ones of other tables, and ones larger than the rest."""
    commit, history = choose.integer(1, 5), History([], snapshot)
    if snapshot:
        tables = [choose.pick(CAPTURED) for _ in range(choose.integer(0, 3))]
        rows = [RowRecord(table, SNAPSHOT, ("t", 0, at), commit, (("s", 1),)) for at, table in enumerate(tables)]
        history.transactions.append(
            Transaction(EndRecord.of(SNAPSHOT, commit, Counter(row.table for row in rows)), rows)
        )
    known = commit if snapshot else 0
    for number in range(choose.integer(1, most)):
        first = number == 0 and choose.chance(2)
        tx, own = choose.pick((100, 200)) - number, commit + choose.integer(2, 4)
        tables = [choose.pick(("a", "b", "other")) for _ in range(choose.pick((0, 1, 2, 2, 3, 7)))]
        rows = [
            RowRecord(table, tx, order, None if first else choose.integer(known, own - 1), changes(choose))
            for order, table in enumerate(tables, 1)
        ]
        history.transactions.append(Transaction(EndRecord.of(tx, own, Counter(tables)), rows))
        commit = known = own
    _send(choose, history)
    return history


def changes(choose: Chooser) -> tuple[tuple[Any, int], ...]:
    """What a row does: insert, delete, or replace, now and then by the same."""
    one, other = choose.pick("xyz"), choose.pick("xyz")
    return choose.pick((((one, 1),), ((one, -1),), ((one, -1), (other, 1))))


def _send(choose: Chooser, history: History) -> None:
    sends: list[Any] = []
    for transaction in history.transactions:
        sends += [*choose.shuffled(transaction.rows), transaction.end]
    at, restarts, snapshot = 0, choose.integer(0, 2), len(history.transactions[0].rows) if history.snapshot else 0
    while at < len(sends):
        said = sends[at]
        if isinstance(said, EndRecord):
            part = COUNTED if said.tx == SNAPSHOT else ENDS
        else:
            part = choose.pick(ROWS)
        history.partitions[part].append(said)
        at += 1
        if restarts and at > snapshot and choose.chance(4):
            # What was not remembered is sent again, from the middle of a transaction as well.
            restarts, at = restarts - 1, choose.integer(snapshot, at)


def remaps(choose: Chooser, history: History, most: int = 6) -> list[tuple[int, Place]]:
    """Times, and how far the sources are from each on; the last has everything."""
    into, place, drawn = 0, dict[int, int](), []
    whole = history.whole()
    for _ in range(choose.integer(0, most)):
        into += choose.integer(1, 3)
        place = {part: choose.integer(place.get(part, 0), end) for part, end in whole.items()}
        drawn.append((into, place))
    return [*drawn, (into + choose.integer(1, 3), whole)]


def bindings(remap: Iterable[tuple[int, Place]]) -> list[Binding]:
    """The same as cdcv2 has it."""
    done, lower = [], 1
    for into, place in remap:
        done.append(Binding(lower, into + 1, frontier(place)))
        lower = into + 1
    return done


def frontier(place: Place) -> Antichain:
    """A place as cdcv2 has it."""
    places: dict[Part, int | None] = {part: at for part, at in place.items()}
    return offsets(places)


def place_of(source: Antichain, history: History) -> Place:
    """The other way round."""
    at = {time.part: time.number for time in source if isinstance(time, Partitioned)}
    return {part: at.get(part, 0) for part in history.partitions}


@dataclass
class Truth:
    """What there is at one time: the tables' contents, the other records, H, and what was given out early."""

    output: Counter[tuple[str, Any]]
    rest: set[Any]
    through: int | None
    early: set[int]


def truth(history: History, remap: list[tuple[int, Place]], time: int, ordered: bool) -> Truth:
    """The definition."""
    place = ([{}] + [place for into, place in remap if into <= time])[-1]
    said = {record for part, records in history.partitions.items() for record in records[:place.get(part, 0)]}
    whole = [one.end in said and one.rows_captured() <= said for one in history.transactions]
    prefix = next((number for number, is_whole in enumerate(whole) if not is_whole), len(whole))
    through = 0 if prefix == 0 else history.transactions[prefix - 1].end.commit
    done = Truth(Counter(), set(), None if history.snapshot and prefix == 0 else through, set())
    for number, transaction in enumerate(history.transactions):
        follows = not history.snapshot or whole[0]
        if number < prefix or (not ordered and follows and whole[number]):
            for row in transaction.rows_captured():
                for data, diff in row.changes:
                    done.output[row.table, data] += diff
            if number > prefix:
                done.early.add(transaction.end.commit)
        else:
            done.rest |= transaction.rows_captured() & said
            if transaction.end in said:
                counts = {table: count for table, count in transaction.end.counts if table in CAPTURED}
                done.rest.add(EndRecord.of(transaction.end.tx, transaction.end.commit, counts))
    done.output = Counter({key: diff for key, diff in done.output.items() if diff})
    return done
