"""What a connector leaves in the topics of a database, as the real one writes it, with all that is known to go wrong.

Each record carries, beside its JSON, what it is of (:class:`Sent`): the judge reads that and never the JSON, a capture
the JSON only. A connector that is started again begins at some record that it has sent already. From 3.7.0 on it goes
on with the numbers; before that it numbers what is left of a transaction from 1 again, and END counts only that.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdcv2.capture.facts import Record
from tests.every_way.database import KEYLESS, OTHER, SNAPSHOT_LSN, TABLES, Change, Database, Row, Transaction, image

PREFIX, NOTIFICATIONS = "src", "src.notifications"
TRANSACTIONS = f"{PREFIX}.transaction"
NEW, OLD = "3.7.0.Final", "3.4.1.Final"
Place = tuple[str, int]


@dataclass(frozen=True)
class Sent:
    """A record before it is put anywhere, with what it is: begin, row, end, read (of a snapshot), note or tombstone.

    ``order`` is its number in the transaction, ``number`` that among the rows of its table; ``commit`` of a read is
    the LSN of its snapshot; ``counts`` of an end are the rows of captured tables, of a note those scanned.
    """

    what: str
    topic: str
    key: Any
    value: Any
    tx: int = 0
    commit: int = 0
    table: str = ""
    order: int = 0
    number: int = 0
    change: Change | None = None
    row: Row | None = None
    counts: tuple[tuple[str, int], ...] = ()
    kind: str = ""


@dataclass
class Topics:
    """Each partition's records; ``salt`` decides into which partition a row without a key goes."""

    entries: dict[Place, list[Sent]] = field(default_factory=dict)

    def put(self, one: Sent, salt: float) -> None:
        """One more."""
        self.entries.setdefault(self.place(one, salt), []).append(one)

    def place(self, one: Sent, salt: float) -> Place:
        """Where it goes."""
        if one.what in ("begin", "end", "note"):
            return one.topic, 0
        if one.key is None:
            return one.topic, random.Random(f"{salt} {one.tx} {one.order} {one.row}").randrange(3)
        return one.topic, one.key["id"] % 3

    def records(self) -> dict[Place, list[Record]]:
        """As a capture finds them."""
        return {
            place: [Record(*place, at, _bytes(one.key), _bytes(one.value)) for at, one in enumerate(found)]
            for place, found in self.entries.items()
        }


def _bytes(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


class Connector:
    """Sends what the database did.

    ``version`` is its own; ``notified``: it reports how its snapshot goes; ``steady``: a second copy of a row has the
    same ``source.sequence``.
    """

    def __init__(
        self, database: Database, chance: random.Random, version: str, *, notified: bool, steady: bool
    ) -> None:
        self.database, self.chance, self.version = database, chance, version
        self.notified, self.steady = notified, steady
        self.topics, self.salt, self._seed = Topics(), chance.random(), chance.random()
        # The transaction that is numbered from 1 again, and its first row that is.
        self._numbered_from: dict[int, int] = {}

    # -- snapshot

    def note(self, kind: str, table: str | None = None, rows: int | None = None) -> None:
        """A notification."""
        if not self.notified:
            return
        more: dict[str, Any] = {"connector_name": PREFIX}
        if table is not None:
            more |= {"scanned_collection": table, "total_rows_scanned": str(rows), "status": "SUCCEEDED"}
        value = {"type": kind, "aggregate_type": "Initial Snapshot", "additional_data": more}
        counts = () if table is None else ((table, rows or 0),)
        self.topics.put(Sent("note", NOTIFICATIONS, None, value, kind=kind, counts=counts), self.salt)

    def snapshot(self, tables: dict[str, list[Row]], lsn: int, *, broken_off: bool = False) -> None:
        """One run, of these tables, which may be broken off in the middle."""
        self.note("STARTED")
        rows = [(table, row) for table in tables for row in tables[table]]
        sent = rows[:self.chance.randint(0, len(rows))] if broken_off else rows
        for number, (table, row) in enumerate(sent):
            marker = "last" if number == len(rows) - 1 else "first" if number == 0 else "true"
            self.topics.put(self.read(table, row, lsn, marker), self.chance.random())
        if broken_off:
            return
        for table in tables:
            self.note("TABLE_SCAN_COMPLETED", table, len(tables[table]))
        self.note("COMPLETED")
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            self.note("SKIPPED")

    def read(self, table: str, row: Row, lsn: int, marker: str) -> Sent:
        """A row of a snapshot."""
        source = self._source(table, lsn, 7, None) | {"snapshot": marker}
        value = {"op": "r", "before": None, "after": image(row), "source": source, "transaction": None}
        return Sent("read", f"{PREFIX}.{table}", _key(table, row), value, commit=lsn, table=table, row=row, kind=marker)

    def _source(self, table: str, lsn: int, tx: int, after: int | None) -> dict[str, Any]:
        sequence = json.dumps([None if after is None else str(after), str(lsn)])
        return {
            "version": self.version, "connector": "postgresql", "name": PREFIX, "schema": "public", "db": "shop",
            "table": table.partition(".")[2], "lsn": lsn, "txId": tx, "sequence": sequence, "snapshot": "false",
        }

    # -- stream

    def stream(self, crashes: int) -> None:
        """All transactions; it is killed some times on the way, and each time begins somewhere before that."""
        everything = self.events()
        begin, lives = 0, list[Sequence[tuple[tuple[int, int], bool]]]()
        for _ in range(crashes):
            crash = self.chance.randint(begin, len(everything))
            again = self.chance.randint(begin, crash)
            lives.append([(one, begin + at >= again) for at, one in enumerate(everything[begin:crash])])
            begin = again
        lives.append([(one, False) for one in everything[begin:]])
        for life in lives:
            self._live(life)

    def events(self) -> list[tuple[int, int]]:
        """All that it sends, in order: by transaction, -1 for its BEGIN, its changes, and their number for its END."""
        return [
            (at, row) for at, one in enumerate(self.database.transactions)
            for row in (-1, *range(len(one.changes)), len(one.changes))
        ]

    def sent_again(self, events: Sequence[tuple[int, int]]) -> list[Sent]:
        """The records of some of them, as a task sends them that goes on with the numbers."""
        self._numbered_from = {}
        return [one for at, row in events for one in self._of(at, row)]

    def _live(self, life: Sequence[tuple[tuple[int, int], bool]]) -> None:
        self.salt, lost, self._numbered_from = self.chance.random(), set[Place](), {}
        if life and life[0][0][1] > 0 and self.version == OLD:
            # Numbered from 1 again from here on; now and then a row is left out.
            at, row = life[0][0]
            self._numbered_from = {at: row + (self.chance.random() < 0.2)}
            self.topics.put(self._begin(self.database.transactions[at]), self.salt)
        for (at, row), lossy in life:
            for one in self._of(at, row):
                place = self.topics.place(one, self.salt)
                if lossy and (place in lost or self.chance.random() < 0.1):
                    lost.add(place)
                else:
                    self.topics.put(one, self.salt)

    def _of(self, at: int, row: int) -> list[Sent]:
        """What it sends at one point of the stream."""
        one = self.database.transactions[at]
        first = self._numbered_from.get(at, 0)
        if row == -1:
            return [self._begin(one)]
        counted = one.changes[first:]
        if row == len(one.changes):
            return [self.end(one, Counter(change.table for change in counted))]
        return [] if row < first else self._row(at, row, first)

    def _begin(self, one: Transaction) -> Sent:
        name = f"{one.tx}:{one.commit - 1}"
        value = {"status": "BEGIN", "id": name, "event_count": None, "data_collections": None}
        return Sent("begin", TRANSACTIONS, {"id": name}, value, tx=one.tx)

    def end(self, one: Transaction, counts: Counter[str]) -> Sent:
        """The END that counts these rows."""
        name = f"{one.tx}:{one.commit}"
        said = [{"data_collection": table, "event_count": number} for table, number in counts.items()]
        value = {"status": "END", "id": name, "event_count": counts.total(), "data_collections": said}
        captured = tuple(sorted((table, number) for table, number in counts.items() if table in TABLES and number))
        return Sent("end", TRANSACTIONS, {"id": name}, value, tx=one.tx, commit=one.commit, counts=captured)

    def _row(self, at: int, row: int, first: int) -> list[Sent]:
        one = self.database.transactions[at]
        change = one.changes[row]
        if change.table == OTHER:
            return []
        number = sum(other.table == change.table for other in one.changes[first:row + 1])
        return self.row(one, change, row - first + 1, number, self._sequence(at, row))

    def row(self, one: Transaction, change: Change, order: int, number: int, after: int | None) -> list[Sent]:
        """The records of one event."""
        source = self._source(change.table, one.commit - 1, one.tx, after)
        place = {"id": f"{one.tx}:{one.commit - 1}", "total_order": order, "data_collection_order": number}
        value = {"op": change.op, "before": image(change.old), "after": image(change.new), "source": source,
                 "transaction": place}
        key = _key(change.table, change.new or change.old)
        sent = Sent("row", f"{PREFIX}.{change.table}", key, value, tx=one.tx, commit=one.commit, table=change.table,
                    order=order, number=number, change=change, row=change.new or change.old)
        gone = [replace(sent, what="tombstone", value=None)] if change.op == "d" and key is not None else []
        return [sent, *gone]

    def _sequence(self, at: int, row: int) -> int | None:
        """From the END of the transaction before, up to its own; none was known before the first, or is not yet."""
        transactions = self.database.transactions
        low = transactions[at - 1].commit if at else SNAPSHOT_LSN
        chance = random.Random(f"{self._seed} {at} {row}") if self.steady else self.chance
        if at == 0 and chance.random() < 0.7:
            return None
        return chance.choice((low, low, chance.randrange(low, transactions[at].commit)))


def _key(table: str, row: Row | None) -> Any:
    return None if table == KEYLESS or row is None else {"id": row[0]}
