"""A connector that loses its slot and takes another snapshot, several times; and what the logs must then have.

The database changes while no slot decodes it; what it did then is in no topic. The judge knows nothing of how a capture
decides: it reads all topics to their ends and works out, by definition, at which times the logs must hold what.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cdcv2.capture.facts import Record
from tests.keyed_connector import PREFIX, TABLES, Place, Sent, delivered, lived
from tests.keyed_connector import _image, _put, _statement  # the same life, continued
from tests.timelines import NOTIFICATIONS, notified

#: The partition of the transaction topic.
ENDS = (f"{PREFIX}.transaction", 0)
Topics = dict[Place, list[Record]]
Held = dict[str, Counter[Any]]


class World:
    """A database, the topics that its connector left over several slots, and what the logs must have."""

    def __init__(self, chance: random.Random, slots: int = 2) -> None:
        self.chance = chance
        self.told: list[int] = []
        self.said: list[tuple[str, str | None, int | None]] = []
        #: the topics as they were when each slot was lost
        self.stages: list[Topics] = []
        self.database = first = lived(chance)
        self._txs = iter(chance.sample(range(300, 900), 100))
        self._announce(Counter(topic for topic, _, value in first.sent if value and value.get("op") == "r"))
        self.topics = delivered(first, chance, crashes=1)
        # (LSN, what the tables hold from then on, transaction or None for a snapshot)
        self.history: list[tuple[int, Held, int | None]] = [(*first.commits[0], None)]
        ends = [sent[2]["id"] for sent in first.sent if sent[0].endswith(".transaction")]
        self.history += [(*commit, int(end.split(":")[0])) for commit, end in zip(first.commits[1:], ends)]
        for _ in range(slots - 1):
            self._lose_the_end()
            said = [notified(at, *one) for at, one in enumerate(self.said)]
            self.stages.append({
                **{place: list(records) for place, records in self.topics.items()}, (NOTIFICATIONS, 0): said,
            })
            self._live(chance.randint(0, 4), heard=False)
            self._snapshot_anew()
            self._live(chance.randint(0, 5), heard=True)
        self.topics[NOTIFICATIONS, 0] = [notified(at, *one) for at, one in enumerate(self.said)]

    def _announce(self, scanned: Counter[str]) -> None:
        self.said.append(("STARTED", None, None))
        self.said += [("TABLE_SCAN_COMPLETED", table, scanned[f"{PREFIX}.{table}"]) for table in TABLES]
        self.said.append(("COMPLETED", None, None))
        self.said += [("SKIPPED", None, None)] * self.chance.randint(0, 2)

    def _lose_the_end(self) -> None:
        """What was sent last before the slot was lost did not all arrive, in any partition."""
        if self.chance.random() < 0.6:
            for place, records in self.topics.items():
                read_rows = [at for at, record in enumerate(records) if b'"op": "r"' in (record.value or b"")]
                # What was there when the slot before was lost was read perhaps.
                stays = max(max(read_rows, default=-1) + 1, *(len(stage.get(place, ())) for stage in self.stages), 0)
                if self.chance.random() < 0.5:
                    del records[max(stays, len(records) - self.chance.randint(0, 6)):]

    def _live(self, transactions: int, *, heard: bool) -> None:
        database, sent = self.database, len(self.database.sent)
        for tx in [next(self._txs) for _ in range(transactions)]:
            database.tx, database.orders = tx, Counter()
            for _ in range(self.chance.randint(1, 5)):
                database.lsn += self.chance.randint(0, 3)
                _statement(self.chance, database)
            database.lsn += self.chance.randint(1, 50)
            database.commit()
            self.history.append((*database.commits[-1], tx))
        stream = _with_first_null(database.sent[sent:])
        del database.sent[sent:]
        if not heard:
            return
        again = self.chance.randint(0, len(stream))
        for some in (stream[:again], stream[self.chance.randint(0, again):]):
            _put(some, self.chance, self.topics, lossy=False)

    def _snapshot_anew(self) -> None:
        database = self.database
        database.lsn += self.chance.randint(1, 40)
        if not any(database.tables.values()):
            database.tables[next(iter(TABLES))].append((1, "a", None, None, 0.0))
        rows = [(table, row) for table, of_table in database.tables.items() for row in of_table]
        sent: list[Sent] = []
        for number, (table, row) in enumerate(rows):
            marker = "last" if number == len(rows) - 1 else "first" if number == 0 else "true"
            source = {"name": PREFIX, "schema": "public", "table": table.removeprefix("public."), "txId": 7,
                      "lsn": database.lsn, "snapshot": marker, "sequence": json.dumps([None, str(database.lsn)])}
            key = None if table == "public.n" else {"id": row[0]}
            value = {"op": "r", "before": None, "after": _image(row), "source": source, "transaction": None}
            sent.append((f"{PREFIX}.{table}", key, value))
        _put(sent, self.chance, self.topics, lossy=False)
        self._announce(Counter(topic for topic, _, _ in sent))
        self.told.append(database.lsn)
        self.history.append((database.lsn, database._now(), None))

    def lose_an_end(self) -> bool:
        """Take an END, and all its copies, out of the topics; returns whether there is one with a resnapshot behind it.

        Before each END, and before that one, the topics have a BEGIN then. The END of the first transaction behind a
        resnapshot is not taken: nothing shows that it is lost, as it may have been lost with the slot.
        """
        sent, found = {_transaction(record) for record in self.topics.get(ENDS, ())}, list[int]()
        since: list[int] = []
        for lsn, _, tx in self.history:
            if lsn in self.told:
                found += since if lsn == self.told[0] else since[1:]
                since = []
            elif tx in sent:
                since.append(tx)
        if found:
            lost = self.chance.choice(found)
            for topics in (*self.stages, self.topics):
                topics[ENDS] = _begun(topics.get(ENDS, ()), lost)
        return bool(found)

    def wanted(self) -> tuple[dict[str, set[Any]], int]:
        """The updates of each log, and the frontier: what is whole in the topics, in order, in each slot's stretch."""
        there: dict[int, dict[str, set[int]]] = {}
        ended: dict[int, dict[str, int]] = {}
        for records in self.topics.values():
            for body in (json.loads(record.value) for record in records if record.value):
                if body.get("status") == "END":
                    counts = {one["data_collection"]: one["event_count"] for one in body["data_collections"]}
                    ended[int(body["id"].split(":")[0])] = counts
                elif body.get("transaction"):
                    tables = there.setdefault(body["source"]["txId"], {})
                    of_table = tables.setdefault(f"public.{body['source']['table']}", set())
                    of_table.add(body["transaction"]["data_collection_order"])
        given: list[tuple[int, Held]] = []
        broken = False
        for lsn, now, tx in self.history:
            broken = tx is not None and (broken or tx not in ended or any(
                len(there.get(tx, {}).get(table, ())) < number for table, number in ended[tx].items()
            ))
            if not broken:
                given.append((lsn, now))
        updates: dict[str, set[Any]] = {table: set() for table in TABLES}
        before: Held = {table: Counter() for table in TABLES}
        for lsn, now in given:
            for table in TABLES:
                for row in before[table].keys() | now[table].keys():
                    if now[table][row] != before[table][row]:
                        updates[table].add((row, lsn, now[table][row] - before[table][row]))
            before = now
        return updates, given[-1][0] + 1


def _transaction(record: Record) -> int:
    """That of a record of the transaction topic."""
    return int(json.loads(record.value or b"{}")["id"].split(":")[0])


def _begun(ends: Sequence[Record], lost: int) -> list[Record]:
    """The transaction topic with a BEGIN before each END, and without the END of one of them."""
    records: list[Record] = []
    for end in ends:
        body = {"status": "BEGIN", "id": json.loads(end.value or b"{}")["id"]}
        sent = [end._replace(value=json.dumps(body).encode()), *[end] * (_transaction(end) != lost)]
        records += [record._replace(offset=len(records) + at) for at, record in enumerate(sent)]
    return records


def _with_first_null(sent: Sequence[Sent]) -> list[Sent]:
    """A new slot knows no commit before its first."""
    first = next((value["source"]["txId"] for _, _, value in sent if value and "op" in value), None)
    for _, _, value in sent:
        if value and "op" in value and value["source"]["txId"] == first:
            value["source"]["sequence"] = json.dumps([None, str(value["source"]["lsn"])])
    return list(sent)
