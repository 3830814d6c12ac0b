"""The driver's side of capture: adds up what executors counted.

The engine decides on numbers; the tally gives it the numbers. Each record is counted once, when it is new.

``positions`` is what must survive a crash: for each partition the first record that belongs to something unreleased.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.engine import CaptureEngine
from cdcv2.errors import DecodeError
from cdcv2.protocol.log import Place, Position
from cdcv2.spark.capture.batch_facts import Screen
from cdcv2.spark.capture.rows_store import CountedRows


class Tally:
    """Counts for ``engine``. One thread.

    ``rows`` are those of the engine, ``positions`` is from where the topics are read.
    Raises ForeignStateError where the topics are none of those that the logs were made of.
    """

    def __init__(
        self, engine: CaptureEngine, rows: CountedRows, asked: DatabaseConnector, positions: Mapping[Place, int]
    ) -> None:
        self._engine, self._commits, self._rows, self._tables = engine, engine.commits, rows, rows.tables
        self._asked = asked
        self._transactions: Place = (asked.transaction_topic, 0)
        self._notifications: Place = (asked.notification_topic or "", 0)
        #: how far each partition has been counted
        self.counted: dict[Place, int] = dict(positions)
        self._counted_before = dict(positions)
        self._errors: list[tuple[Position, str]] = []
        self.records = self._repeats = 0

    @property
    def repeats(self) -> int:
        """How many records were duplicates."""
        return self._repeats + self._rows.repeats

    def screen(self) -> Screen:
        """What executors need not look at again."""
        commits = self._commits
        return Screen(dict(self.counted), commits.certain, commits.null_reads, commits.snapshots.read_to)

    # -- counting

    def absorb(self, facts: Mapping[str, Any]) -> None:
        """Count the facts of the new records of a micro-batch (:func:`~cdcv2.spark.capture.batch_facts.merged`)."""
        self._counted_before = dict(self.counted)
        for topic, part, low, high in facts["seen"]:
            place = topic, part
            self.counted[place] = max(high + 1, self.counted.get(place, 0))
            self.records += high + 1 - low
        self._repeats += facts["repeats"]
        self._errors += [(Position(*error[:3]), error[3]) for error in facts["errors"]]
        self._absorb_snapshot(facts)
        # In the order of their topic.
        for offset, tx, *end in sorted([*facts["begins"], *facts["ends"]], key=lambda item: item[0]):
            if end:
                self._absorb_end(offset, tx, *end)
            else:
                self._commits.begin(tx)
        for table, tx, seq, topic, part, low, high, *group in facts["rows"]:
            self._absorb_rows(self._tables[table], tx, seq, (topic, part), low, high, *group)
        for number, tx, lsn, seq, order, topic, part, offset, *why in facts["halts"]:
            self._engine.halt(self._tables[number], tx, lsn, seq, order, (topic, part), offset, *why)
        self._engine.read_to(self.counted)

    def _absorb_snapshot(self, facts: Mapping[str, Any]) -> None:
        for offset, kind, table, rows, status in sorted(facts["notifications"], key=lambda item: item[0]):
            self._engine.notification(kind, table, rows, self._notifications, offset, status)
        for number, lsn, topic, part, low, high, count in facts["snapshot"]:
            table, place = self._tables[number], (topic, part)
            keep = partial(self._rows.keep_of_snapshot, (table, lsn), place, low, high, count)
            if not self._engine.snapshot_rows(table, lsn, place, high, keep, count):
                self._repeats += count
        for marker, topic, part, offset in facts["marks"]:
            self._commits.snapshot_marked(marker, Position(topic, part, offset))

    def _absorb_end(self, offset: int, tx: int, lsn: int, counts: list[list[int]], ts_ms: int | None) -> None:
        counted = {self._tables[table]: count for table, count in counts}
        self._engine.end(tx, lsn, counted, ts_ms, self._transactions, offset)

    def _absorb_rows(
        self, table: str, tx: int, seq: int | None, place: Place, low: int, high: int, renumbered: bool, had: bool,
        orders: list[int], places: list[int], ops: str,
    ) -> None:
        keep = partial(self._rows.keep, table, tx, seq, place, (low, high), orders, places, ops)
        if not self._engine.rows(table, tx, seq, place, max(orders), keep, renumbered=renumbered, had=had):
            self._repeats += len(orders)

    def positions(self) -> dict[Place, int]:
        """From where each partition must be read again: everything before is released.

        What stops the capture must be seen again by the next one, so where a stop has been reached, nothing counts
        as read that was read together with it.
        """
        stopping = self._errors or self._commits.stopped() is not None
        return self._engine.positions(self._counted_before if stopping else self.counted)

    def error(self) -> DecodeError | None:
        """The first record that is none of the connector's, as an error; None if there was none."""
        if not self._errors:
            return None
        position, reason = min(self._errors)
        return self._asked.malformed(reason, position)
