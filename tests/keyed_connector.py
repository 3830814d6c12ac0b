"""A model of a database whose tables have different replica identities, and of what its connector leaves in the topics.

The database is lists of rows and nothing else; what is in it after each commit is the truth. The records are JSON as
the connector writes it: key-only old rows with made-up defaults, placeholders for untouched large values, a changed
key as d and c. Nothing here knows how a capture decides.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cdcv2.capture.facts import Record
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.rows.row_type import RowType
from cdcv2.rows.values import NAN

PREFIX, SNAPSHOT_LSN = "src", 1000
#: With a key and identity DEFAULT; with a key and FULL; without a key, which needs FULL.
DEFAULT, FULL, KEYLESS = "public.d", "public.f", "public.n"
COLUMNS: list[tuple[str, Any]] = [
    ("id", "int"), ("name", "string"), ("big", ["null", "string"]), ("raw", ["null", "bytes"]), ("score", "double"),
]
ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": name, "type": kind} for name, kind in COLUMNS]})
TABLES = {table: ROWS for table in (DEFAULT, FULL, KEYLESS)}
PLACEHOLDER = "__debezium_unavailable_value"
_DEFAULTS = {"name": "its default", "big": None, "raw": None, "score": 0.0}
#: What a row's score may be; its number and its name decide.
SCORES = NAN, 1.5, 0.0
Row = tuple[int, str, str | None, bytes | None, float]
Place = tuple[str, int]
#: A record before it is put anywhere: topic, key, value.
Sent = tuple[str, Any, Any]


def recipe(**more: Any) -> Recipe:
    """The capture of the three tables, with old rows from the state."""
    return Recipe(PREFIX, TABLES, before="from-state", **more)


@dataclass
class Database:
    """What the tables hold, what they held at each commit, and what the connector sends about it."""

    tables: dict[str, list[Row]] = field(default_factory=lambda: {table: [] for table in TABLES})
    sent: list[Sent] = field(default_factory=list)
    commits: list[tuple[int, dict[str, Counter[Row]]]] = field(default_factory=list)
    lsn: int = SNAPSHOT_LSN
    # Of the transaction that is open.
    tx: int = 0
    orders: Counter[str] = field(default_factory=Counter)

    def snapshot(self) -> None:
        """The connector takes one; at least one row is needed for it to be seen."""
        rows = [(table, row) for table, rows in self.tables.items() for row in rows]
        for number, (table, row) in enumerate(rows):
            marker = "last" if number == len(rows) - 1 else "first" if number == 0 else "true"
            self._send(table, "r", None, _image(row), row, marker)
        self.commits.append((SNAPSHOT_LSN, self._now()))

    def commit(self) -> None:
        """End the transaction."""
        counts = [{"data_collection": table, "event_count": number} for table, number in self.orders.items()]
        end = {"status": "END", "id": f"{self.tx}:{self.lsn}", "event_count": self.orders.total(),
               "data_collections": counts}
        self.sent.append((f"{PREFIX}.transaction", {"id": end["id"]}, end))
        self.commits.append((self.lsn, self._now()))

    def insert(self, table: str, row: Row) -> None:
        """INSERT."""
        self.tables[table].append(row)
        self._send(table, "c", None, _image(row), row)

    def delete(self, table: str, row: Row) -> None:
        """DELETE of one row."""
        self.tables[table].remove(row)
        self._send(table, "d", self._before(table, row), None, row)

    def update(self, table: str, old: Row, new: Row) -> None:
        """UPDATE of one row; of its key, too."""
        rows = self.tables[table]
        rows[rows.index(old)] = new
        after = _image(new) if table != DEFAULT else _image(new, untouched=old)
        if table != KEYLESS and old[0] != new[0]:
            self._send(table, "d", self._before(table, old), None, old)
            self._send(table, "c", None, after, new)
        else:
            before = None if table == DEFAULT else _image(old)
            self._send(table, "u", before, after, new)

    def truncate(self, *tables: str) -> None:
        """TRUNCATE."""
        for table in tables:
            self.tables[table].clear()
            self._send(table, "t", None, None, None)

    def _before(self, table: str, row: Row) -> Any:
        return {**_DEFAULTS, "id": row[0]} if table == DEFAULT else _image(row)

    def _send(self, table: str, op: str, before: Any, after: Any, row: Row | None, marker: str = "false") -> None:
        source = {"name": PREFIX, "schema": "public", "table": table.removeprefix("public."), "txId": self.tx or 7,
                  "lsn": self.lsn, "snapshot": marker, "sequence": '[null,"1"]'}
        place = None
        if op != "r":
            self.orders[table] += 1
            before_this = self.commits[-1][0] if len(self.commits) > 1 else None
            source["sequence"] = json.dumps([before_this and str(before_this), str(self.lsn)])
            place = {"id": f"{self.tx}:{self.lsn}", "total_order": self.orders.total(),
                     "data_collection_order": self.orders[table]}
        key = None if table == KEYLESS or row is None else {"id": row[0]}
        value = {"op": op, "before": before, "after": after, "source": source, "transaction": place}
        self.sent.append((f"{PREFIX}.{table}", key, value))
        if op == "d" and key is not None:
            self.sent.append((f"{PREFIX}.{table}", key, None))

    def _now(self) -> dict[str, Counter[Row]]:
        return {table: Counter(rows) for table, rows in self.tables.items()}

    def truth(self) -> dict[str, set[tuple[Row, int, int]]]:
        """Every update that the logs must hold: what is different from one commit to the next."""
        updates: dict[str, set[tuple[Row, int, int]]] = {table: set() for table in TABLES}
        before: dict[str, Counter[Row]] = {table: Counter() for table in TABLES}
        for lsn, now in self.commits:
            for table in TABLES:
                for row in before[table].keys() | now[table].keys():
                    if now[table][row] != before[table][row]:
                        updates[table].add((row, lsn, now[table][row] - before[table][row]))
            before = now
        return updates


def _image(row: Row, untouched: Row | None = None) -> dict[str, Any]:
    """The row in JSON; large values (longer than 3) that are as in ``untouched`` are placeholders."""
    number, name, big, raw, value = row
    image = {"id": number, "name": name, "big": big, "raw": _base64(raw), "score": "NaN" if value != value else value}
    if untouched is not None:
        if big is not None and len(big) > 3 and big == untouched[2]:
            image["big"] = PLACEHOLDER
        if raw is not None and len(raw) > 3 and raw == untouched[3]:
            image["raw"] = _base64(PLACEHOLDER.encode())
    return image


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def lived(chance: random.Random, *, snapshot: bool = True) -> Database:
    """A database after a life of a few transactions of a few statements each."""
    database = Database()
    for table in chance.choices(list(TABLES), k=chance.randint(1, 6)) if snapshot else ():
        database.tables[table].append(_row(chance, _new_id(chance, database, table)))
    if snapshot:
        database.snapshot()
    else:
        database.commits.append((SNAPSHOT_LSN, database._now()))
    for tx in chance.sample(range(100, 200), chance.randint(0, 8)):
        database.tx, database.orders = tx, Counter()
        for _ in range(chance.randint(1, 7)):
            database.lsn += chance.randint(0, 3)
            _statement(chance, database)
        database.lsn += chance.randint(1, 50)
        database.commit()
    return database


def _statement(chance: random.Random, database: Database) -> None:
    table = chance.choice(list(TABLES))
    rows = list(database.tables[table])
    what = chance.random()
    if not rows or what < 0.35:
        number = chance.randint(1, 3) if table == KEYLESS else _new_id(chance, database, table)
        database.insert(table, _row(chance, number))
    elif what < 0.5:
        database.delete(table, chance.choice(rows))
    elif what < 0.55:
        database.truncate(*chance.sample(list(TABLES), chance.randint(1, 3)))
    elif what < 0.62:
        # The greatest first: PostgreSQL refuses a key that is taken at that moment.
        for row in sorted(rows, key=lambda row: -row[0]):
            database.update(table, row, (row[0] + 1000, *row[1:]))
    else:
        old = chance.choice(rows)
        number = old[0] if chance.random() < 0.7 else _new_id(chance, database, table)
        new = _row(chance, number)
        touched = [chance.random() < 0.5 for _ in range(3)]
        name, big, raw = (new[at] if touched[at - 1] else old[at] for at in (1, 2, 3))
        database.update(table, old, (number, name, big, raw, score(number, name)))


def _new_id(chance: random.Random, database: Database, table: str) -> int:
    taken = {row[0] for row in database.tables[table]}
    return chance.choice([number for number in range(20) if number not in taken])


def _row(chance: random.Random, number: int) -> Row:
    big = chance.choice((None, "s", "large one", "another large one"))
    raw = chance.choice((None, b"", b"s", b"\xff large", b"\x00 another"))
    name = chance.choice(("", "a", "its default"))
    return number, name, big, raw, score(number, name)


def score(number: int, name: str) -> float:
    """That of a row with this number and name."""
    return SCORES[(number + len(name)) % len(SCORES)]


# -- topics


def delivered(database: Database, chance: random.Random, crashes: int = 2) -> dict[Place, list[Record]]:
    """The topics, by partition, after the connector sent it all, with crashes on the way (not in the snapshot).

    At a crash each partition may lose the last of what was sent; it begins again further up.
    """
    stream = next((at for at, sent in enumerate(database.sent) if _is_streamed(sent)), len(database.sent))
    topics: dict[Place, list[Record]] = {}
    begin = stream
    _put(database.sent[:stream], chance, topics, lossy=False)
    for _ in range(crashes):
        crash = chance.randint(begin, len(database.sent))
        again = chance.randint(stream, crash)
        _put(database.sent[begin:again], chance, topics, lossy=False)
        _put(database.sent[max(begin, again):crash], chance, topics, lossy=True)
        begin = again
    _put(database.sent[begin:], chance, topics, lossy=False)
    return topics


def _is_streamed(sent: Sent) -> bool:
    return sent[2] is None or sent[2].get("op") != "r"


def _put(some: list[Sent], chance: random.Random, topics: dict[Place, list[Record]], *, lossy: bool) -> None:
    lost: set[Place] = set()
    for topic, key, value in some:
        # A key has its partition; without one it is any.
        number = 0 if topic.endswith("transaction") else chance.randrange(3) if key is None else key["id"] % 3
        place = topic, number
        if lossy and (place in lost or chance.random() < 0.1):
            lost.add(place)
            continue
        entries = topics.setdefault(place, [])
        raw = [None if part is None else json.dumps(part).encode() for part in (key, value)]
        entries.append(Record(*place, len(entries), *raw))


def read(topics: dict[Place, list[Record]], chance: random.Random, start: dict[Place, int]) -> Iterator[Record]:
    """Each partition in order, the partitions interleaved by chance; some lag."""
    left = {place: start.get(place, 0) for place in topics if start.get(place, 0) < len(topics[place])}
    weights = {place: chance.choice((1, 1, 5, 40)) for place in topics}
    while left:
        place = chance.choices(list(left), [weights[place] for place in left])[0]
        yield topics[place][left[place]]
        left[place] += 1
        if left[place] == len(topics[place]):
            del left[place]
