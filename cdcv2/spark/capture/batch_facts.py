"""The facts of the records of one micro-batch, without their rows: small enough to be sent to the driver.

Executors classify records and keep the rows; a :class:`BatchFacts` collects what the driver decides on: which rows of
which transaction were seen where (their numbers, no values), ENDs, notifications, what stops the capture, and how
far each partition was read. It becomes JSON; the driver's :class:`~cdcv2.spark.capture.tally.Tally` adds it up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cdcv2.capture.coverage import had_rows
from cdcv2.capture.facts import (
    Begin, End, Fact, Notification, RowFact, SnapshotRow, Truncate, UnfitRow, is_renumbered,
)
from cdcv2.capture.snapshot.extent import MARKERS
from cdcv2.protocol.log import Place, Position


class PartitionSpan(NamedTuple):
    """Of a partition: the first offset that was read, the last one, and the numbers of records and of their offsets.

    Where there are fewer offsets than records, a record was read twice.
    """

    low: int
    high: int
    records: int
    offsets: int


class Screen(NamedTuple):
    """What need not be looked at again, as the driver knows it when a batch begins.

    ``start`` has the offset up to which each partition has been counted; ``through`` and ``base`` are what
    ``CommitTransactions`` calls ``certain`` and ``null_reads``: a row whose ``sequence[0]`` is below ``through``
    belongs to a released transaction. Snapshot rows before the offsets of ``snapshot`` are duplicates.
    """

    start: Mapping[Place, int]
    through: int | None = None
    base: int | None = None
    snapshot: Mapping[Place, int] | None = None

    def is_new(self, place: Place, offset: int) -> bool:
        """Whether the record has not been counted yet."""
        return offset >= self.start.get(place, 0)

    def repeats(self, seq: int | None) -> bool:
        """Whether a row with this ``sequence[0]`` is certainly a repeat; what is in doubt is judged on the driver."""
        seq = self.base if seq is None else seq
        return self.through is not None and seq is not None and seq < self.through


@dataclass
class RowGroup:
    """Rows of one table, transaction, ``sequence[0]`` and partition, and where they are.

    ``orders`` are their numbers among the rows of their table, ``places`` those among all rows of the transaction;
    ``renumbered``: some are of a connector that renumbers a transaction's rows when it is restarted inside it; ``had``:
    the first one shows that its table :func:`~cdcv2.capture.coverage.had_rows`. ``ops`` has a letter for each: c, u, d.
    """

    low: int
    high: int
    orders: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    renumbered: bool = False
    had: bool = False
    ops: list[str] = field(default_factory=list)

    def add(self, fact: RowFact, offset: int) -> None:
        """One more."""
        self.low, self.high = min(self.low, offset), max(self.high, offset)
        self.orders.append(fact.table_order)
        self.places.append(fact.order)
        self.ops.append(fact.op)
        self.renumbered |= fact.renumbered
        self.had |= had_rows(fact.op, fact.table_order)

    def plain(self) -> list[Any]:
        """For JSON; places that are the numbers are left out, as those of a transaction of one table are."""
        places = [] if self.places == self.orders else self.places
        return [self.low, self.high, self.renumbered, self.had, self.orders, places, "".join(self.ops)]


@dataclass
class BatchFacts:
    """The collection of one executor's share; ``tables`` fixes the numbers by which tables go.

    ``seen`` has for each partition the first and the last offset of records that came one behind the other.
    """

    tables: tuple[str, ...]
    seen: dict[Place, list[list[int]]] = field(default_factory=dict)
    rows: dict[tuple[int, int, int | None, str, int], RowGroup] = field(default_factory=dict)
    snapshot: dict[tuple[int, int, str, int], list[int]] = field(default_factory=dict)
    marks: list[list[Any]] = field(default_factory=list)
    begins: list[list[Any]] = field(default_factory=list)
    ends: list[list[Any]] = field(default_factory=list)
    notifications: list[list[Any]] = field(default_factory=list)
    halts: list[list[Any]] = field(default_factory=list)
    errors: list[list[Any]] = field(default_factory=list)
    repeats: int = 0
    #: whether a record is of a connector that renumbers a transaction's rows when it is restarted inside it
    old: bool = False

    def __post_init__(self) -> None:
        self._numbers = {table: number for number, table in enumerate(self.tables)}

    def read(self, place: Place, offset: int) -> None:
        """A record was read there, of any kind."""
        seen = self.seen.setdefault(place, [])
        if seen and seen[-1][1] == offset - 1:
            seen[-1][1] = offset
        else:
            seen.append([offset, offset])

    def add(self, fact: Fact, position: Position, screen: Screen) -> bool:
        """Add the fact of the record there. Returns whether it has a row that may be released."""
        self.old |= is_renumbered(fact)
        if isinstance(fact, RowFact):
            return self._add_row(fact, position, screen)
        if isinstance(fact, SnapshotRow):
            return self._add_snapshot_row(fact, position, screen)
        if isinstance(fact, End):
            counts = [[self._numbers[table], count] for table, count in fact.counts.items() if table in self._numbers]
            self.ends.append([position.offset, fact.tx, fact.lsn, counts, fact.ts_ms])
        elif isinstance(fact, Begin):
            self.begins.append([position.offset, fact.tx])
        elif isinstance(fact, Notification):
            self.notifications.append([position.offset, fact.kind, fact.table, fact.rows, fact.status])
        elif isinstance(fact, (Truncate, UnfitRow)):
            lsn = fact.lsn if isinstance(fact, UnfitRow) else None
            table, number = self._numbers[fact.table], fact.table_order
            self.halts.append([table, fact.tx, lsn, fact.seq, number, *position[:3], fact.reason, fact.remedy])
        return False

    def garbled(self, position: Position, reason: str) -> None:
        """The record there is none of the connector's."""
        self.errors.append([*position[:3], reason])

    def _add_row(self, fact: RowFact, position: Position, screen: Screen) -> bool:
        if screen.repeats(fact.seq):
            self.repeats += 1
            return False
        offset = position.offset
        key = self._numbers[fact.table], fact.tx, fact.seq, position.place, position.part
        self.rows.setdefault(key, RowGroup(offset, offset)).add(fact, offset)
        return True

    def _add_snapshot_row(self, fact: SnapshotRow, position: Position, screen: Screen) -> bool:
        if position.offset < (screen.snapshot or {}).get((position.place, position.part), 0):
            self.repeats += 1
            return False
        key = self._numbers[fact.table], fact.lsn, position.place, position.part
        group = self.snapshot.get(key)
        if group is None:
            self.snapshot[key] = [position.offset, position.offset, 1]
        else:
            group[0], group[1] = min(group[0], position.offset), max(group[1], position.offset)
            group[2] += 1
        if fact.marker in MARKERS:
            self.marks.append([fact.marker, *position[:3]])
        return True

    def to_json(self) -> str:
        """What is sent to the driver."""
        return json.dumps({
            "seen": [[*place, *one] for place, seen in self.seen.items() for one in seen],
            "rows": [[*key, *group.plain()] for key, group in self.rows.items()],
            "snapshot": [[*key, *group] for key, group in self.snapshot.items()],
            "marks": self.marks,
            "begins": self.begins,
            "ends": self.ends,
            "notifications": self.notifications,
            "halts": self.halts,
            "errors": self.errors,
            "repeats": self.repeats,
            "old": self.old,
        }, separators=(",", ":"))


def merged(parts: list[str]) -> dict[str, Any]:
    """The JSON of several shares as one plain value; lists are joined, repeats are added up."""
    whole: dict[str, Any] = {
        "seen": [], "rows": [], "snapshot": [], "marks": [], "begins": [], "ends": [], "notifications": [], "halts": [],
        "errors": [],
    }
    repeats, old = 0, False
    for part in parts:
        plain = json.loads(part)
        repeats += plain["repeats"]
        old |= plain["old"]
        for name, items in whole.items():
            items.extend(plain[name])
    return whole | {"repeats": repeats, "old": old}


def ranges(facts: Mapping[str, Any]) -> dict[Place, PartitionSpan]:
    """What several shares have read of each partition together."""
    found: dict[Place, PartitionSpan] = {}
    for topic, part, low, high in sorted(facts["seen"]):
        before = found.get((topic, part), PartitionSpan(low, low - 1, 0, 0))
        records, new = before.records + high + 1 - low, max(0, high - max(low - 1, before.high))
        found[topic, part] = PartitionSpan(before.low, max(high, before.high), records, before.offsets + new)
    return found
