"""The driver's counts: whatever a micro-batch holds and wherever it dies, a release reads each of its rows once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.engine import CaptureEngine
from cdcv2.capture.facts import End, Fact, RowFact, SnapshotRow, Truncate
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import UsageError
from cdcv2.protocol.log import Position
from cdcv2.spark.capture.batch_facts import BatchFacts, merged
from cdcv2.spark.capture.keyed_capture import KeyedCapture
from cdcv2.spark.capture.spark_capture import SparkCapture
from cdcv2.spark.capture.rows_store import CountedRows
from cdcv2.spark.capture.tally import Tally
from tests.connector import PREFIX, SNAPSHOT_LSN, History, Place, Topics, Transaction, histories, sent
from tests.recorded import TABLES as RECORDED

SEEDS = range(300)
TABLES = ("public.a", "public.b")


@dataclass
class Counting:
    """The engine of a capture of the model's topics, with what it counts."""

    commits: CommitTransactions
    positions: dict[Place, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = dict.fromkeys(TABLES, next(iter(RECORDED.values())))
        asked = Recipe(PREFIX, kinds, notification_topic="notifications")
        self.rows = CountedRows(TABLES)
        self.engine = CaptureEngine(self.commits, asked, self.rows)
        self.tally = Tally(self.engine, self.rows, asked, self.positions)

    def say(self, *shares: BatchFacts) -> None:
        """Take in what executors report of a batch."""
        self.tally.absorb(merged([share.to_json() for share in shares]))


def batches(topics: Topics, chance: random.Random, start: dict[Place, int]) -> Iterator[list[tuple[Position, Fact]]]:
    """Micro-batches: of each partition the next few records, for some partitions none."""
    nexts = {place: start.get(place, 0) for place in topics.entries}
    while any(nexts[place] < len(facts) for place, facts in topics.entries.items()):
        batch = []
        for place, facts in topics.entries.items():
            end = min(len(facts), nexts[place] + chance.choice((0, 0, 1, 2, 5, 30)))
            batch += [(Position(*place, offset), facts[offset]) for offset in range(nexts[place], end)]
            nexts[place] = end
        yield batch


def told(batch: list[tuple[Position, Fact]], tally: Tally, chance: random.Random) -> list[BatchFacts]:
    """What the executors report of a batch, each about some of its records."""
    shares = [BatchFacts(TABLES) for _ in range(chance.randint(1, 3))]
    screen = tally.screen()
    for position, fact in batch:
        share = chance.choice(shares)
        place = position.place, position.part
        if screen.is_new(place, position.offset):
            share.read(place, position.offset)
            share.add(fact, position, screen)
    return shares


def test_two_tables_with_rows_at_one_place_are_compared() -> None:
    """Each has all its numbers, and the transaction has fewer places than rows; so has one with a copy of a row."""
    commits = CommitTransactions(TABLES, snapshot="none")
    counting, share = Counting(commits), BatchFacts(TABLES)
    for offset, (table, tx, order) in enumerate([("public.a", 7, 1), ("public.b", 7, 2), ("public.b", 7, 2),
                                                 ("public.a", 8, 1), ("public.b", 8, 1), ("public.a", 9, 1),
                                                 ("public.b", 9, 2)]):  # fmt: skip
        position = Position(f"{PREFIX}.{table}", 0, offset)
        share.add(RowFact(table, tx, order, 1, 0, "c", (), position), position, counting.tally.screen())
    for at, tx in enumerate((7, 8, 9)):
        position = Position(f"{PREFIX}.transaction", 0, at)
        share.add(End(tx, 100 + at, dict.fromkeys(TABLES, 1)), position, counting.tally.screen())
    counting.say(share)

    release = commits.ready()
    assert release is not None and [(7, 100), (8, 101), (9, 102)] == [*release.transactions]
    of_one = [replace(release, transactions=(one,)) for one in release.transactions]
    assert [True, True, False] == [counting.rows.reading(one).repeats for one in of_one]
    assert counting.rows.reading(release).repeats


@dataclass
class Run:
    """A capture of the model's topics that writes to memory, and may be killed between any two batches."""

    topics: Topics
    notified: bool
    written: dict[str, set[tuple[str, int, int]]] = field(default_factory=lambda: {table: set() for table in TABLES})
    known: int = 0
    memory: tuple[dict[str, object], dict[Place, int]] | None = None
    reread: int = 0

    def start(self) -> Counting:
        """A new process."""
        if self.memory is None:
            return Counting(CommitTransactions(TABLES, notifications=self.notified, known=self.known))
        plain, positions = self.memory
        return Counting(
            CommitTransactions.restore(plain, TABLES, notifications=self.notified, known=self.known), positions
        )

    def release(self, counting: Counting, *, remember: bool) -> bool:
        """Write what is ready, reading only where the counts show rows. Whether there was something."""
        release = counting.engine.ready()
        if release is None:
            return False
        reading = counting.rows.reading(release)
        rows: dict[object, tuple[str, int, tuple[tuple[str, int], ...]]] = {}
        for place, (low, high) in reading.ranges.items():
            for fact in self.topics.entries[place][low:high + 1]:
                self.reread += 1
                if isinstance(fact, RowFact) and fact.tx in reading.times:
                    assert reading.repeats or (fact.tx, fact.order) not in rows
                    rows[fact.tx, fact.order] = fact.table, reading.times[fact.tx], fact.changes
                elif isinstance(fact, SnapshotRow) and reading.snapshot == fact.lsn:
                    rows[fact.position] = fact.table, fact.lsn, ((fact.row, 1),)
        counts: dict[tuple[str, int], int] = {}
        for table, time, changes in rows.values():
            counts[table, time] = counts.get((table, time), 0) + 1
            self.written[table] |= {(row, time, diff) for row, diff in changes}
        assert counts == {key: count for key, count in reading.expected.items() if count}
        assert sum(counts.values()) == reading.rows()
        self.known = release.through + 1
        counting.engine.settle(release)
        if remember:
            self.memory = counting.commits.export(), counting.tally.positions()
        return True

    def read(self, chance: random.Random, *, lives: int) -> CommitTransactions:
        """Read everything, dying ``lives`` times on the way, with and without the memory."""
        while True:
            counting = self.start()
            commits = counting.commits
            for batch in batches(self.topics, chance, counting.tally.positions()):
                counting.say(*told(batch, counting.tally, chance))
                if commits.needs_ends:
                    counting.engine.ends_read(self.topics.ends(), counting.tally.counted)
                self.release(counting, remember=chance.random() < 0.8)
                assert commits.stopped() is None
                if lives and chance.random() < 0.2:
                    break
            else:
                return commits
            lives -= 1
            self.memory = self.memory if chance.random() < 0.7 else None


def test_every_row_is_released_once_whatever_dies() -> None:
    """Snapshot and stream, rows sent again, batches of any cut, processes that die with and without their memory."""
    for seed in SEEDS:
        chance = random.Random(seed)
        history, notified = histories(chance), chance.random() < 0.5
        if not notified and not sum(history.snapshot.values()):
            history = History({"public.a": 1}, history.transactions)
        run = Run(sent(history, chance, crashes=chance.randint(0, 3), notified=notified), notified)
        commits = run.read(chance, lives=chance.randint(0, 3))
        assert history.truth() == run.written, f"seed {seed}"
        assert (max(history.ends, default=None) or commits.through) == commits.through, f"seed {seed}"


def test_nothing_is_counted_or_kept_that_is_released() -> None:
    """At the end of the topics, when all is released, nothing is open and every position is the end."""
    for seed in SEEDS:
        chance = random.Random(seed)
        history = histories(chance)
        topics = sent(history, chance, crashes=2, notified=True)
        run = Run(topics, True)
        run.read(chance, lives=0)
        counting = run.start()
        for batch in batches(topics, chance, counting.tally.positions()):
            counting.say(*told(batch, counting.tally, chance))
            while run.release(counting, remember=True):
                pass
        assert {place: end for place, end in topics.ends().items() if end} == counting.tally.positions(), f"seed {seed}"
        assert 0 == counting.rows.waiting


def test_the_end_that_is_lost_is_missed() -> None:
    """Whichever it is and however its rows come, early or when others are released: it stops, and so does the next."""
    spoilt = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        history = histories(chance)
        number = history.endless(chance)
        if number is None:
            continue
        tx = history.transactions[number].tx
        run = Run(sent(history, chance, notified=True).without_end(tx), True)
        for _ in range(2):
            counting = run.start()
            commits = counting.commits
            for batch in batches(run.topics, chance, counting.tally.positions()):
                counting.say(*told(batch, counting.tally, chance))
                while run.release(counting, remember=True):
                    pass
                if commits.stopped() is not None:
                    break
            stop = commits.stopped()
            assert stop is not None and f"the END of transaction {tx} is missing" in stop.reason, f"seed {seed}"
            assert commits.lost
            run.memory = commits.export(), counting.tally.positions()
        before = history.ends[number - 1] if number else SNAPSHOT_LSN if sum(history.snapshot.values()) else 0
        beyond = "stated beyond it" in stop.reason
        assert beyond != (before == commits.through), f"seed {seed}"
        spoilt += beyond
    assert 0 < spoilt < 100


def test_rows_above_the_count_of_an_end_that_is_released_stop_it() -> None:
    """They are no repeats, and would be lost if they were taken for some."""
    commits = CommitTransactions(TABLES, snapshot="none")
    counting = Counting(commits)
    place = (f"{PREFIX}.public.a", 0)
    position, early, late = Position(*place, 0), BatchFacts(TABLES), BatchFacts(TABLES)
    early.add(End(7, 90, {}), Position(f"{PREFIX}.transaction", 0, 0), counting.tally.screen())
    counting.say(early)
    release = commits.ready()
    assert release is not None
    counting.engine.settle(release)
    late.add(RowFact("public.a", 7, 1, 1, None, "c", (("row", 1),), position), position, counting.tally.screen())
    counting.say(late)

    stop = commits.stopped()
    assert stop is not None and "numbered 1, but its END 90 counts 0; the logs are stated beyond it" in stop.reason


def test_a_row_with_a_number_above_what_its_end_counts_stops_it() -> None:
    """Though there are as many rows as that counts: one of them is missing."""
    commits = CommitTransactions(TABLES, snapshot="none")
    counting, said = Counting(commits), BatchFacts(TABLES)
    position = Position(f"{PREFIX}.public.a", 0, 0)
    said.add(RowFact("public.a", 7, 2, 2, None, "c", (("row", 1),), position), position, counting.tally.screen())
    said.add(End(7, 90, {"public.a": 1}), Position(f"{PREFIX}.transaction", 0, 0), counting.tally.screen())
    counting.say(said)
    release, stop = commits.ready(), commits.stopped()

    assert release is None
    assert stop is not None and "numbered up to 2, but its END 90 counts 1" in stop.reason


def test_a_large_transaction_is_read_twice_and_no_more() -> None:
    """Counted as it comes, in many batches, and read again once, when it is whole."""
    history = History({"public.a": 0, "public.b": 0}, [Transaction(7, 2000, ["public.a", "public.b"] * 2000)])
    chance = random.Random(7)
    topics = sent(history, chance, crashes=0, notified=True)
    run = Run(topics, True)
    run.read(chance, lives=0)
    assert 4000 == run.reread
    assert history.truth() == run.written


def test_what_stops_the_capture_is_seen_again_by_the_next_one() -> None:
    """A stop that no transaction holds open: what was read with it does not count as read, or it would be passed."""
    commits = CommitTransactions(TABLES, snapshot="none")
    counting = Counting(commits)
    place = (f"{PREFIX}.public.a", 0)
    first, second = BatchFacts(TABLES), BatchFacts(TABLES)
    first.read(place, 0)
    counting.say(first)
    assert {place: 1} == counting.tally.positions()
    second.read(place, 1)
    row = SnapshotRow("public.a", 5, "first", "row", Position(*place, 1))
    second.add(row, row.position, counting.tally.screen())
    counting.say(second)
    assert commits.stopped() is not None
    assert {place: 1} == counting.tally.positions()


def test_positions_of_other_topics_are_not_remembered() -> None:
    """One of them may be asked for the next time, and would be begun behind its end."""
    counting, said = Counting(CommitTransactions(TABLES, snapshot="none")), BatchFacts(TABLES)
    for place in ((f"{PREFIX}.public.a", 0), ("other", 0)):
        said.read(place, 4)
    counting.say(said)

    assert {(f"{PREFIX}.public.a", 0): 5} == counting.tally.positions()


def test_a_truncate_is_held_open_by_its_transaction() -> None:
    """The position stays before it, though its transaction has no row."""
    commits = CommitTransactions(TABLES, snapshot="none")
    counting = Counting(commits)
    place = (f"{PREFIX}.public.a", 0)
    said = BatchFacts(TABLES)
    for offset in range(3):
        said.read(place, offset)
    truncate = Truncate("public.a", 9, 1, 1, 0, Position(*place, 1), "truncated", "delete")
    said.add(truncate, Position(*place, 1), counting.tally.screen())
    counting.say(said)
    assert {place: 1} == counting.tally.positions()


def test_a_truncate_that_was_not_counted_stops_behind_its_released_transaction() -> None:
    """It is no duplicate, as a row above what END counts is none: the logs are stated beyond it."""
    commits = CommitTransactions(TABLES, snapshot="none")
    counting = Counting(commits)
    place = (f"{PREFIX}.public.a", 0)
    said = BatchFacts(TABLES)
    said.add(End(9, 70, {}), Position(f"{PREFIX}.transaction", 0, 0), counting.tally.screen())
    counting.say(said)
    release = commits.ready()
    assert release is not None
    commits.settle(release)
    late = BatchFacts(TABLES)
    late.add(Truncate("public.a", 9, 1, 1, 0, Position(*place, 1), "truncated", "delete"), Position(*place, 1),
             counting.tally.screen())
    counting.say(late)
    stop = commits.stopped()

    assert stop is not None and stop.lasting and "numbered 1, but its END 70 counts 0" in stop.reason


def test_old_rows_of_the_other_kind_are_refused(tmp_path: Path) -> None:
    """Before anything is made: there, rows of such tables would be left out without a word."""
    nothing: Any = None
    with pytest.raises(UsageError, match="takes before-images from-envelope; with from-state it is a KeyedCapture"):
        SparkCapture(Recipe(PREFIX, RECORDED, before="from-state"), nothing, {}, tmp_path, nothing)
    with pytest.raises(UsageError, match="takes before-images from-state; with from-envelope it is a Capture"):
        KeyedCapture(Recipe(PREFIX, RECORDED), nothing, {}, tmp_path, nothing)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("declared", [(), (SNAPSHOT_LSN + 10_000,)])
def test_executors_take_a_row_that_names_no_commit_for_what_the_driver_does(declared: tuple[int, ...]) -> None:
    """With a declared resnapshot only its END shows which transaction such a row is of."""
    commits = CommitTransactions(TABLES, again=declared, known=SNAPSHOT_LSN + 1, held={TABLES[0]: (SNAPSHOT_LSN, 1)})
    screen = Counting(commits).tally.screen()

    assert screen.base == commits.null_reads and (screen.base is None or not declared)
