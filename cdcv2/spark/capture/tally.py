"""The driver's side of capture: adds up what executors counted, and says which records a release must read.

``Commits`` decides on numbers; the tally gives it the numbers. Each record is counted once, when it is new: the
numbers of a transaction's rows are kept as bits, and where its rows were first seen as one range per partition. So
a transaction of a million rows costs the driver a few hundred kilobytes, is counted once, and is read a second time
only when it is released.

``positions`` is what must survive a crash: for each partition the first record that belongs to something unreleased.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdcv2.capture.commits import Commits
from cdcv2.capture.contradictions import one_place
from cdcv2.capture.numbers import Numbers
from cdcv2.capture.release import Release
from cdcv2.capture.run.source_check import Evidence
from cdcv2.connectors.debezium.envelope import FAULT, WHAT
from cdcv2.errors import DecodeError
from cdcv2.logs.release_times import Clock
from cdcv2.protocol.log import Place, Position
from cdcv2.spark.capture.batch_facts import Screen


@dataclass
class OpenTransaction:
    """What was counted of a transaction that is not released."""

    numbers: dict[str, Numbers] = field(default_factory=dict)
    #: their numbers among all of its rows
    places: Numbers = field(default_factory=Numbers)
    #: partition -> the least and the greatest offset of the rows that were new when they were counted
    ranges: dict[Place, tuple[int, int]] = field(default_factory=dict)
    #: partition -> the first record that says anything of it
    first: dict[Place, int] = field(default_factory=dict)
    #: rows seen, repeats of each other included
    raw: int = 0
    #: the values of `sequence[0]` in its rows
    seqs: set[int | None] = field(default_factory=set)

    def extend(self, place: Place, low: int, high: int) -> None:
        """New rows of it are there."""
        before = self.ranges.get(place, (low, high))
        self.ranges[place] = min(low, before[0]), max(high, before[1])
        self.began(place, low)

    def began(self, place: Place, offset: int) -> None:
        """Something of it is there."""
        self.first[place] = min(offset, self.first.get(place, offset))


@dataclass(frozen=True)
class Reading:
    """What a release must read, and what it must find there.

    ``times`` has the commit time of each transaction, ``snapshot`` the time of the snapshot's rows (None: not part
    of it); ``ranges`` the offsets, both included, of each partition that has rows of them; ``expected`` the number
    of distinct rows by (table, time). ``repeats`` says whether rows may be there more than once. Rows of the tables
    with the numbers ``left`` are no part of it, as nothing is stated of these.
    """

    times: Mapping[int, int]
    snapshot: int | None
    ranges: Mapping[Place, tuple[int, int]]
    expected: Mapping[tuple[str, int], int]
    repeats: bool
    left: tuple[int, ...] = ()

    def rows(self) -> int:
        """How many distinct rows there are."""
        return sum(self.expected.values())


class Tally:
    """Counts for ``commits``. One thread.

    ``tables`` must be in the order that executors number them by; ``positions`` is from where the topics are read.
    ``evidence`` is that of the logs, where no memory tells that the topics are theirs; it raises ForeignStateError.
    """

    def __init__(
        self, tables: tuple[str, ...], transaction_topic: str, notification_topic: str | None, commits: Commits,
        positions: Mapping[Place, int], evidence: Evidence | None = None, clock: Clock = Clock(None),
    ) -> None:
        self._tables, self._commits, self._evidence = tables, commits, evidence
        self._transactions: Place = (transaction_topic, 0)
        self._notifications: Place = (notification_topic or "", 0)
        #: when ENDs that are not released were committed
        self.clock = clock
        #: how far each partition has been counted
        self.counted: dict[Place, int] = dict(positions)
        self._counted_before = dict(positions)
        self._open: dict[int, OpenTransaction] = {}
        self._snapshot_rows: dict[tuple[str, int], int] = {}
        self._snapshot_ranges: dict[Place, tuple[int, int]] = {}
        self._snapshot_first: dict[Place, int] = {}
        self._errors: list[tuple[Position, str]] = []
        self.records = self.repeats = 0

    def screen(self) -> Screen:
        """What executors need not look at again."""
        commits = self._commits
        return Screen(dict(self.counted), commits.certain, commits.base, commits.snapshot_read_to)

    # -- counting

    def absorb(self, said: Mapping[str, Any]) -> None:
        """Count what the new records of one micro-batch said (see :func:`~cdcv2.spark.capture.batch_facts.merged`)."""
        self._counted_before = dict(self.counted)
        for topic, part, _, high, count in said["seen"]:
            place = topic, part
            self.counted[place] = max(high + 1, self.counted.get(place, 0))
            self.records += count
        self.repeats += said["repeats"]
        self._errors += [(Position(*error[:3]), error[3]) for error in said["errors"]]
        self._absorb_snapshot(said)
        # In the order of their topic.
        for offset, tx, *end in sorted([*said["begins"], *said["ends"]], key=lambda item: item[0]):
            if end:
                self._absorb_end(offset, tx, *end)
            else:
                self._commits.begin(tx)
        for table, tx, seq, topic, part, low, high, *group in said["rows"]:
            self._absorb_rows(self._tables[table], tx, seq, (topic, part), low, high, *group)
        for halt in said["halts"]:
            self._absorb_halt(*halt)
        if not self._commits.snapshot_released:
            self._commits.consumed(self.counted)
        self._drop_repeats()

    @property
    def sure(self) -> bool:
        """Whether it is known that the topics are those of the logs."""
        return self._evidence is None or self._evidence.sure

    def ended(self) -> None:
        """There is nothing more in the topics."""
        if self._evidence is not None:
            self._evidence.finished()

    def _absorb_snapshot(self, said: Mapping[str, Any]) -> None:
        for offset, kind, table, rows, status in sorted(said["notifications"], key=lambda item: item[0]):
            self._commits.notification(kind, table, rows, offset, status)
            if not self._commits.snapshot_released:
                self._snapshot_first.setdefault(self._notifications, offset)
        for number, lsn, topic, part, low, high, count in said["snapshot"]:
            table, place = self._tables[number], (topic, part)
            if self._commits.snapshot_released and self._evidence is not None:
                self._evidence.snapshot(table, lsn, self._commits.through or 0)
            self._commits.snapshot_read(table, lsn, place, high, count)
            if self._commits.snapshot_released:
                self.repeats += count
                continue
            rows = self._snapshot_rows[table, lsn] = self._snapshot_rows.get((table, lsn), 0) + count
            before = self._snapshot_ranges.get(place, (low, high))
            self._snapshot_ranges[place] = min(low, before[0]), max(high, before[1])
            self._snapshot_first[place] = min(low, self._snapshot_first.get(place, low))
            self._commits.snapshot_rows(table, lsn, rows)
        for marker, topic, part, offset in said["marks"]:
            self._commits.snapshot_marked(marker, Position(topic, part, offset))

    def _absorb_end(self, offset: int, tx: int, lsn: int, counts: list[list[int]], ts_ms: int | None) -> None:
        self.clock.end(lsn, ts_ms)
        if self._evidence is not None:
            self._evidence.end(lsn)
        if self._commits.end(tx, lsn, {self._tables[table]: count for table, count in counts}):
            self._transaction(tx).began(self._transactions, offset)

    def _absorb_rows(
        self, table: str, tx: int, seq: int | None, place: Place, low: int, high: int, anew: bool, had: bool,
        orders: list[int], places: list[int],
    ) -> None:
        self._commits.passed(place)
        if self._commits.is_repeat(seq, tx, table, max(orders)):
            self.repeats += len(orders)
            return
        self._commits.comes_after(tx, seq)
        if anew:
            self._commits.numbers_anew(tx)
        if had:
            self._commits.had(tx, table)
        held = self._transaction(tx)
        numbers = held.numbers.setdefault(table, Numbers())
        new = numbers.add(orders)
        held.places.add(places or orders)
        if len(held.places) < sum(map(len, held.numbers.values())):
            # Of one table they have one number, too: whoever reads the rows for a release finds that.
            found = one_place(tx, table)
            self._commits.halt(tx, found.reason, found.remedy)
        held.raw += len(orders)
        held.seqs.add(seq)
        self.repeats += len(orders) - new
        # Also where nothing of it is new: a row that comes again may be another one.
        held.extend(place, low, high)
        if new:
            self._commits.rows_seen(tx, table, len(numbers), numbers.highest)

    def _absorb_halt(
        self, table: int, tx: int | None, lsn: int | None, seq: int | None, number: int, topic: str, part: int,
        offset: int, reason: str, remedy: str,
    ) -> None:
        if tx is not None:
            if not self._commits.is_repeat(seq, tx, self._tables[table], number):
                self._commits.comes_after(tx, seq)
                self._commits.halt(tx, reason, remedy)
                self._transaction(tx).began((topic, part), offset)
        elif lsn is not None and self._commits.snapshot_released:
            self._commits.snapshot_read(self._tables[table], lsn, (topic, part), offset)
        else:
            self._commits.stop(reason, remedy)

    def _transaction(self, tx: int) -> OpenTransaction:
        held = self._open.get(tx)
        if held is None:
            held = self._open[tx] = OpenTransaction()
        return held

    def _drop_repeats(self) -> None:
        """Forget rows that are known to be repeats only now: by an END that came after them, or a later release."""
        for tx in [tx for tx, held in self._open.items() if self._is_repeat(tx, held)]:
            held = self._open.pop(tx)
            for table in held.numbers:
                self._commits.rows_seen(tx, table, 0)

    def _is_repeat(self, tx: int, held: OpenTransaction) -> bool:
        counted = [(table, numbers.highest) for table, numbers in held.numbers.items()] or [("", 0)]
        # All of them are looked at: each may show that END did not count it.
        return any([self._commits.is_repeat(seq, tx, *one) for seq in held.seqs for one in counted])

    # -- releasing

    def reading(self, release: Release) -> Reading:
        """Where the rows of a release are, and how many."""
        ranges: dict[Place, tuple[int, int]] = {}
        expected: dict[tuple[str, int], int] = {}
        raw = distinct = 0
        if release.snapshot is not None:
            ranges.update(self._snapshot_ranges)
            for (table, lsn), rows in self._snapshot_rows.items():
                expected[table, lsn] = expected.get((table, lsn), 0) + rows
        for tx, lsn in release.transactions:
            held = self._open.get(tx)
            if held is None:
                continue
            raw += held.raw
            for table, numbers in held.numbers.items():
                distinct += len(numbers)
                if table not in release.uncovered:
                    expected[table, lsn] = expected.get((table, lsn), 0) + len(numbers)
            for place, (low, high) in held.ranges.items():
                before = ranges.get(place, (low, high))
                ranges[place] = min(low, before[0]), max(high, before[1])
        left = tuple(number for number, table in enumerate(self._tables) if table in release.uncovered)
        return Reading(dict(release.transactions), release.snapshot, ranges, expected, raw > distinct, left)

    def settle(self, release: Release) -> None:
        """The release is durable and stated: forget it, here and in ``commits``."""
        self._commits.settle(release)
        for tx, _ in release.transactions:
            self._open.pop(tx, None)
        if release.snapshot is not None:
            self._snapshot_rows, self._snapshot_ranges, self._snapshot_first = {}, {}, {}
        self._drop_repeats()

    def positions(self) -> dict[Place, int]:
        """From where each partition must be read again: everything before is released.

        What stops the capture must be seen again by the next one, so where a stop has been reached, nothing counts
        as read that was read together with it.
        """
        stopping = self._errors or self._commits.stopped() is not None
        positions = dict(self._counted_before if stopping else self.counted)
        for firsts in (self._snapshot_first, *(held.first for held in self._open.values())):
            for place, offset in firsts.items():
                positions[place] = min(offset, positions.get(place, offset))
        return positions

    def error(self) -> DecodeError | None:
        """The first record that is none of the connector's, as an error; None if there was none."""
        if not self._errors:
            return None
        position, reason = min(self._errors)
        return DecodeError(reason, position=position, fault=FAULT, what=WHAT)

    @property
    def rows_waiting(self) -> int:
        """How many rows were counted and are not released."""
        return sum(held.raw for held in self._open.values()) + sum(self._snapshot_rows.values())
