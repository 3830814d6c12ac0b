"""A model of the connector: what it may leave in the topics of a database whose history we made up.

It sends a snapshot and then, for each transaction in commit order, the rows and the END. When it crashes, each
partition loses some of what was sent last and not acknowledged, and it starts again from an earlier point, in the
middle of a transaction perhaps; a row without a key may then go to another partition. Nothing here knows how a
capture decides; the truth is the history itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from cdcv2.capture.facts import End, Fact, Notification, RowFact, SnapshotRow
from cdcv2.protocol.log import Position

SNAPSHOT_LSN = 1000
PREFIX = "src"
Place = tuple[str, int]


@dataclass
class Transaction:
    """A committed transaction: its id, commit LSN, and the table of each of its rows, in order."""

    tx: int
    lsn: int
    rows: list[str]


@dataclass
class History:
    """Snapshot rows by table, and transactions in commit order."""

    snapshot: dict[str, int]
    transactions: list[Transaction]
    captured: tuple[str, ...] = ("public.a", "public.b")

    @property
    def ends(self) -> list[int]:
        """The commit LSNs, rising."""
        return [transaction.lsn for transaction in self.transactions]

    def endless(self, chance: random.Random) -> int | None:
        """The number of a transaction that cannot lose its END unseen: it has captured rows, and another follows it."""
        found = [n for n, one in enumerate(self.transactions[:-1]) if set(one.rows) & set(self.captured)]
        return chance.choice(found) if found else None

    def truth(self) -> dict[str, set[tuple[str, int, int]]]:
        """Every update that the logs must hold in the end."""
        updates: dict[str, set[tuple[str, int, int]]] = {table: set() for table in self.captured}
        for table, number in self.snapshot.items():
            updates[table] |= {(f"{table} snapshot {n}", SNAPSHOT_LSN, 1) for n in range(number)}
        for transaction in self.transactions:
            for order, table in enumerate(transaction.rows, 1):
                if table in self.captured:
                    updates[table].add((f"{table} {transaction.tx}.{order}", transaction.lsn, 1))
        return updates


@dataclass
class Topics:
    """What the partitions hold: facts in order, with their positions."""

    entries: dict[Place, list[Fact]] = field(default_factory=dict)

    def append(self, place: Place, fact: Fact) -> None:
        """One more record."""
        self.entries.setdefault(place, []).append(_placed(fact, Position(*place, len(self.entries.get(place, ())))))

    def without_end(self, tx: int) -> Topics:
        """The same topics, had the END of this transaction never been written."""
        topics = Topics()
        for place, facts in self.entries.items():
            for fact in facts:
                if not (isinstance(fact, End) and fact.tx == tx):
                    topics.append(place, fact)
        return topics

    def endings(self) -> list[tuple[End, Position]]:
        """What the transaction topic holds."""
        place = f"{PREFIX}.transaction", 0
        facts = enumerate(self.entries.get(place, ()))
        return [(fact, Position(*place, offset)) for offset, fact in facts if isinstance(fact, End)]

    def ends(self) -> dict[Place, int]:
        """The next offset of each partition."""
        return {place: len(facts) for place, facts in self.entries.items()}

    def read(self, chance: random.Random, start: dict[Place, int] | None = None) -> Iterator[tuple[Fact, Position]]:
        """Each partition in order, the partitions interleaved by chance; a lagging one now and then."""
        nexts = {place: (start or {}).get(place, 0) for place in self.entries}
        weights = {place: chance.choice((1, 1, 5, 40)) for place in self.entries}
        left = [place for place in self.entries if nexts[place] < len(self.entries[place])]
        while left:
            place = chance.choices(left, [weights[place] for place in left])[0]
            offset = nexts[place]
            yield self.entries[place][offset], Position(*place, offset)
            nexts[place] += 1
            if nexts[place] == len(self.entries[place]):
                left.remove(place)


def histories(chance: random.Random, *, snapshot: bool = True) -> History:
    """A history of a few transactions; their ids are not in commit order."""
    ids = chance.sample(range(100, 200), 12)
    lsn, transactions = SNAPSHOT_LSN, []
    for tx in ids[:chance.randint(0, 12)]:
        lsn += chance.randint(1, 50)
        rows = [chance.choice(("public.a", "public.b", "public.other")) for _ in range(chance.choice((0, 1, 2, 3, 7)))]
        transactions.append(Transaction(tx, lsn, rows))
    counts = {table: chance.randint(0, 4) for table in ("public.a", "public.b")} if snapshot else {}
    return History(counts, transactions)


def sent(history: History, chance: random.Random, *, crashes: int = 2, notified: bool = False) -> Topics:
    """The topics after the connector sent it all, with crashes on the way."""
    # The connector captures both tables, so they have topics, be there rows or not.
    topics = Topics({(f"{PREFIX}.{table}", 0): [] for table in history.captured})
    _send_snapshot(history, chance, topics, notified)
    messages = list(_stream(history, chance))
    begin = 0
    for _ in range(crashes):
        crash = chance.randint(begin, len(messages))
        again = chance.randint(0, crash)
        _send(messages[begin:again], chance, topics, lossy=False)
        _send(messages[max(begin, again):crash], chance, topics, lossy=True)
        begin = again
    _send(messages[begin:], chance, topics, lossy=False)
    return topics


def _stream(history: History, chance: random.Random) -> Iterator[tuple[str, Fact]]:
    nowhere = Position("", 0, 0)
    before: int | None = None
    for transaction in history.transactions:
        orders: dict[str, int] = {}
        for order, table in enumerate(transaction.rows, 1):
            orders[table] = orders.get(table, 0) + 1
            # Anything from the END before up to one's own, END excluded; null until there was one.
            seq = None if before is None else chance.choice((before, before, chance.randrange(before, transaction.lsn)))
            row = ((f"{table} {transaction.tx}.{order}", 1),)
            yield table, RowFact(table, transaction.tx, order, orders[table], seq, "c", row, nowhere)
        yield "end", End(transaction.tx, transaction.lsn, orders)
        before = transaction.lsn


def _send_snapshot(history: History, chance: random.Random, topics: Topics, notified: bool) -> None:
    rows = [(table, n) for table in sorted(history.snapshot) for n in range(history.snapshot[table])]
    if notified:
        topics.append(("notifications", 0), Notification("STARTED", None, None, 0))
    for index, (table, n) in enumerate(rows):
        marker = "last" if index == len(rows) - 1 else "first" if index == 0 else "true"
        fact = SnapshotRow(table, SNAPSHOT_LSN, marker, f"{table} snapshot {n}", Position("", 0, 0))
        topics.append((f"{PREFIX}.{table}", chance.randrange(3)), fact)
    if notified:
        for offset, table in enumerate(sorted(history.snapshot), 1):
            said = Notification("TABLE_SCAN_COMPLETED", table, history.snapshot[table], offset)
            topics.append(("notifications", 0), said)
        completed = Notification("COMPLETED", None, None, len(history.snapshot) + 1)
        topics.append(("notifications", 0), completed)


def _send(messages: list[tuple[str, Fact]], chance: random.Random, topics: Topics, *, lossy: bool) -> None:
    salt = chance.random()
    lost: set[Place] = set()
    for table, fact in messages:
        if table == "end":
            place = (f"{PREFIX}.transaction", 0)
        elif table == "public.other":
            continue
        elif table == "public.b":
            # No key: any partition, another one after a restart.
            place = (f"{PREFIX}.{table}", random.Random(f"{salt}{fact}").randrange(3))
        else:
            place = (f"{PREFIX}.{table}", random.Random(str(fact[1:3])).randrange(3))
        if lossy and (place in lost or chance.random() < 0.1):
            lost.add(place)
            continue
        topics.append(place, fact)


def _placed(fact: Fact, position: Position) -> Fact:
    return fact._replace(position=position) if isinstance(fact, (RowFact, SnapshotRow)) else fact
