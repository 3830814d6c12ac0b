"""What Debezium really sent, bound in a hundred ways, is at each checkpoint what PostgreSQL really held."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from functools import cache
from typing import Any

import pytest

from cdcv2.capture.before_images import Contents
from cdcv2.capture.bound_facts import timeline_fact
from cdcv2.capture.facts import Begin
from cdcv2.capture.open_records import (
    SNAPSHOT, EndRecord, HaltRecord, RowRecord, SourceRecord, StartRecord, ThroughRecord,
)
from cdcv2.capture.transactions_on_timeline import Transactions
from cdcv2.core.antichain import Antichain
from cdcv2.protocol.messages import Update
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.ordering import AS_COMPLETE
from cdcv2.timeline.partitioned import NOT_STARTED, Part, Partitioned, offsets
from cdcv2.timeline.reclock import Reclock
from cdcv2.timeline.remap import Remap
from tests.recorded import CHECKPOINTS, TABLES, as_copied, checkpoint_time, dump, facts, truth

#: How many ways to bind each run; with old rows from the records, together over a hundred; without, in the long runs.
WAYS = {"clean_full": 21, "crash_full": 6, "clean_default": 9}
#: Runs whose tables have REPLICA IDENTITY DEFAULT: old rows are looked up.
KEYED = {"clean_default"}
Place = dict[Part, int]
#: The partition in which the End of the snapshot stands, as in a topic of notifications.
COUNTED = "counted"
Content = Counter[tuple[str, Any]]


class Recording:
    """One run: the facts of each partition, and how far each must be bound for each checkpoint."""

    def __init__(self, run: str) -> None:
        self.partitions: dict[Part, list[SourceRecord | None]] = {
            f"{topic}/{part}": [None if isinstance(fact, Begin) else timeline_fact(fact) for _, fact in entries]
            for (topic, part), entries in facts(run, "from-state" if run in KEYED else "from-envelope").items()
        }
        self.tags = [*CHECKPOINTS, "final"] if run in KEYED else CHECKPOINTS
        scanned = [one for records in self.partitions.values() for one in records if is_scanned(one)]
        base = checkpoint_time(run, CHECKPOINTS[0])
        self.partitions[COUNTED] = [EndRecord.of(SNAPSHOT, base, Counter(row.table for row in scanned))]
        self.whole: Place = {part: len(records) for part, records in self.partitions.items()}
        self.ends = next(part for part in self.partitions if str(part).endswith(".transaction/0"))
        # Where each End stands first; before that are only lesser ones.
        commits: dict[int, int] = {}
        for at, one in enumerate(self.partitions[self.ends]):
            if isinstance(one, EndRecord):
                commits.setdefault(one.commit, at)
        commit_of = {one.tx: one.commit for one in self.partitions[self.ends] if isinstance(one, EndRecord)}
        firsts = self._firsts(run)
        self.needed: list[Place] = []
        for tag in CHECKPOINTS:
            through = checkpoint_time(run, tag)
            last = max((at for commit, at in commits.items() if commit <= through), default=-1)
            place: Place = {COUNTED: 1, self.ends: last + 1}
            for part, rows in firsts.items():
                within = [at for at, tx in rows if tx == SNAPSHOT or commit_of[tx] <= through]
                place[part] = max(within, default=-1) + 1
            self.needed.append(place)

    def _firsts(self, run: str) -> dict[Part, list[tuple[int, Any]]]:
        """Where each row stands first, by arrival, and its transaction."""
        seen, found = set[Any](), dict[Part, list[tuple[int, Any]]]()
        for record in dump(run).read():
            part: Part = f"{record.topic}/{record.partition}"
            low = facts(run)[record.topic, record.partition][0][0].offset
            one = self.partitions[part][record.offset - low]
            if isinstance(one, RowRecord) and (one.tx, one.order) not in seen:
                seen.add((one.tx, one.order))
                found.setdefault(part, []).append((record.offset - low, one.tx))
        return found

    def way(self, chance: random.Random) -> tuple[list[Place], list[int]]:
        """Bindings, one a time from 1 on, and which of them are the checkpoints': Ends up to them, rows far or less."""
        places, at = list[Place](), list[int]()
        place = dict.fromkeys(self.whole, 0)
        for needed in self.needed:
            for _ in range(chance.choice((0, 1, 3))):
                place = {part: self._between(chance, part, place[part], needed) for part in place}
                places.append(place)
            place = {
                part: max(place[part], needed.get(part, 0)) if part == self.ends or chance.random() < 0.5
                else self._between(chance, part, max(place[part], needed.get(part, 0)), needed)
                for part in place
            }
            places.append(place)
            at.append(len(places))
        # What the TRUNCATE leaves is known where rows are looked up.
        return [*places, self.whole], [*at, len(places) + 1] if len(self.tags) > len(at) else at

    def _between(self, chance: random.Random, part: Part, low: int, needed: Place) -> int:
        """Somewhere behind; of the Ends not past the checkpoint's, of the rows a tenth of all past it at most."""
        ahead = 0 if part == self.ends else self.whole[part] // 10
        return max(low, min(self.whole[part], chance.randint(low, max(low, needed.get(part, 0) + ahead))))


def is_scanned(one: SourceRecord | None) -> bool:
    """Whether it is a row of the snapshot."""
    return isinstance(one, RowRecord) and one.tx == SNAPSHOT


@cache
def recording(run: str) -> Recording:
    """Read once."""
    return Recording(run)


def by_definition(run: str, places: list[Place]) -> list[list[SourceRecord]]:
    """What comes at each time: of each partition, what is between one binding and the next."""
    done, before = [], dict.fromkeys(recording(run).whole, 0)
    for place in places:
        done.append([
            one for part, records in recording(run).partitions.items()
            for one in records[before[part]:place[part]] if one is not None
        ])
        before = place
    return done


def contents(updates: dict[str, list[Update]], at: list[int]) -> list[Content]:
    """The contents of all tables at each of these times."""
    changes = [Counter[tuple[str, Any]]() for _ in range(len(at) + 1)]
    for table, changed in updates.items():
        for row, time, diff in changed:
            changes[bisect_left(at, time)][table, row] += diff
    held, done = Content(), []
    for change in changes[:-1]:
        for key, diff in change.items():
            held[key] += diff
        assert all(number >= 0 for number in held.values())
        done.append(Content({key: number for key, number in held.items() if number}))
    return done


@cache
def true_contents(run: str) -> list[Content]:
    """What the tables hold at each checkpoint, as rows: of one way of binding, compared with the truth as text."""
    places, at = recording(run).way(random.Random("the first"))
    found = contents(run_through(run, operator(run), places), at)
    for tag, content in zip(recording(run).tags, found, strict=True):
        assert {table: truth(run, tag, table) for table in TABLES} == texts(content), tag
    return found


def operator(run: str) -> Transactions:
    """A new one; old rows are looked up in tables that are empty before the snapshot."""
    if run not in KEYED:
        return Transactions(TABLES, snapshot=True)
    return Transactions(TABLES, snapshot=True, state=Contents.of(TABLES, {}, dict.fromkeys(TABLES, 0)))


def run_through(run: str, transactions: Transactions, places: list[Place]) -> dict[str, list[Update]]:
    """What the operator gives out of each table; it comes to the TRUNCATE with which every run ends, or over it."""
    out: dict[str, list[Update]] = {table: [] for table in TABLES}
    for time, records in enumerate(by_definition(run, places), 1):
        summary = transactions.updates([(one, time, 1) for one in records], Antichain([time + 1]))
        for table, updates in summary.output.items():
            out[table] += updates
    if run not in KEYED:
        assert transactions.stop is not None and "truncated" in transactions.stop.reason
    return out


def texts(content: Content) -> dict[str, Counter[tuple[str, ...]]]:
    """What each table holds, as the truth has it."""
    found: dict[str, Counter[tuple[str, ...]]] = {table: Counter() for table in TABLES}
    for (table, row), number in content.items():
        found[table][as_copied(table, row)] += number
    return found


@pytest.mark.parametrize("run", WAYS)
def test_any_way_of_binding_gives_the_truth_at_every_checkpoint(run: str) -> None:
    """Ends far ahead of their rows and rows far ahead of their Ends; thousands of records twice."""
    for seed in range(WAYS[run]):
        places, at = recording(run).way(random.Random(seed))
        transactions = operator(run)

        assert true_contents(run) == contents(run_through(run, transactions, places), at), f"way {seed}"
        left = transactions.temp()
        assert {StartRecord, ThroughRecord, HaltRecord, EndRecord} >= {
            type(one) for one in left if not isinstance(one, RowRecord)
        }


@pytest.mark.parametrize("run", WAYS)
def test_it_is_so_behind_the_operator_that_carries_records_over(run: str) -> None:
    """Read in another order than they are bound in, with bindings that come before and after what they bind."""
    chance = random.Random(run)
    places, at = recording(run).way(chance)
    coming = [Binding(into, into + 1, offsets(dict(place))) for into, place in enumerate(places, 1)]
    reclock, transactions = Reclock(Remap(NOT_STARTED)), operator(run)
    out: dict[str, list[Update]] = {table: [] for table in TABLES}
    read: Place = dict.fromkeys(recording(run).whole, 0)
    while transactions.stop is None and (coming or read != places[-1]):
        following = {part: min(end, read[part] + chance.randint(0, end // 8 + 1)) for part, end in places[-1].items()}
        records = [
            (one, Partitioned.at(part, offset), 1)
            for part, end in following.items()
            for offset, one in enumerate(recording(run).partitions[part][read[part]:end], read[part])
            if one is not None
        ]
        read = following
        batches = [reclock.updates(records, offsets(dict(read)))]
        batches += [reclock.bind(coming.pop(0)) for _ in range(min(len(coming), chance.randint(0, 5)))]
        for carried in batches:
            if transactions.stop is None:
                for table, updates in transactions.updates(*carried).output.items():
                    out[table] += updates

    assert true_contents(run) == contents(out, at)


def test_as_soon_as_complete_comes_to_the_same() -> None:
    """Wherever all that was committed before is whole: at the checkpoints no End is bound that comes after them."""
    for seed in range(5):
        places, at = recording("crash_full").way(random.Random(seed))
        transactions = Transactions(TABLES, ordering=AS_COMPLETE, snapshot=True)

        assert true_contents("crash_full") == contents(run_through("crash_full", transactions, places), at)
