"""One history: what a database did, what is in the topics of it, what went wrong, and how the topics are seen to grow.

Everything is drawn from one seed; ``features`` has the kinds of mishap that may be drawn. See :data:`MISHAPS`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from cdcv2.capture.facts import Record
from tests.every_way.connector import NEW, NOTIFICATIONS, OLD, TRANSACTIONS, Connector, Place, Sent
from tests.every_way.database import KEYED, KEYLESS, RARE, SNAPSHOT_LSN, Database, Difference, Row, Transaction

#: What may be wrong with a history, beside records that are sent again and partitions that lag.
MISHAPS = (
    "old connector", "torn END", "lost END", "late END", "two ENDs", "another row", "early END", "lost row",
    "one place", "TRUNCATE", "snapshot begun twice", "second snapshot", "late snapshot row", "one snapshot row more",
)
#: A row that is sent again may have another `source.sequence`.
ANOTHER_SEQUENCE = "another sequence"
#: The connector covers a table only after its snapshot, and the table had rows before.
LATE_TABLE = "late table"
#: Of a transaction only its BEGIN is in the topics.
LOST_TRANSACTION = "lost transaction"
#: A table had rows at the snapshot that the snapshot did not bring: it counts none, or the user states so.
DECLARED_EMPTY = "declared empty"
#: A row, or a copy of one, has another number in its table than the row at its place has; or another place than the
#: row of its number.
ANOTHER_NUMBER, ANOTHER_PLACE = "same place, another number", "same number, another place"
#: The first BEGIN of a transaction stands before the first END of the one that was committed before it.
EARLY_BEGIN = "early BEGIN"
#: A task of the connector that was replaced sends a part of the stream once more, between records of the new one.
REPLACED_TASK = "replaced task"
FEATURES = (ANOTHER_SEQUENCE, LATE_TABLE, LOST_TRANSACTION, DECLARED_EMPTY, ANOTHER_NUMBER, ANOTHER_PLACE, EARLY_BEGIN,
            REPLACED_TASK, *MISHAPS)  # fmt: skip
Cut = dict[Place, int]


@dataclass
class World:
    """What the judge and the captures are given; ``stages`` are how far the topics are, one after the other."""

    seed: int
    #: initial with notifications ("notified"), initial without ("marked"), or "none".
    snapshot: str
    #: Tables that are declared to the capture to have whole old rows.
    full: frozenset[str]
    mishaps: tuple[str, ...]
    database: Database
    connector: Connector
    stages: list[Cut]
    #: How many ENDs of what is released a capture without Spark knows; None: as many as always.
    known: int | None = None
    #: Whether the connector covers one table only after its snapshot.
    late: bool = False
    #: The table that was not empty at the snapshot, as is declared; None: there is none.
    declared_empty: str | None = None
    #: Whether no notification names that table, so that only the user states it.
    unnamed: bool = False
    #: Whether the transaction topic loses its beginning while captures by commit times without Spark are at work.
    forgets: bool = False

    @property
    def entries(self) -> dict[Place, list[Sent]]:
        """The topics."""
        return self.connector.topics.entries

    @property
    def transactions(self) -> list[Transaction]:
        """In the order of their commits."""
        return self.database.transactions

    def before(self, commit: int, table: str) -> Difference:
        """What the table held before it, as far as the connector sent that."""
        rows = Counter(self.database.snapshot[table])
        for one in self.transactions:
            rows.update(one.differences[table] if one.commit < commit else {})
        return rows

    def records(self) -> dict[Place, list[Record]]:
        """The topics as a capture finds them."""
        return self.connector.topics.records()

    @property
    def whole(self) -> Cut:
        """The ends of the topics."""
        return {place: len(found) for place, found in self.entries.items()}

    @property
    def shows_a_lost_end(self) -> bool:
        """Whether only the BEGIN of a transaction is there, a later END is, and each capture reads both."""
        sent = self.entries.get((TRANSACTIONS, 0), [])
        ended = {one.tx for one in sent if one.what == "end"}
        lost = [one.commit for one in self.transactions if one.tx not in ended]
        is_lost = LOST_TRANSACTION in self.mishaps and any(one.commit > min(lost) for one in sent if one.what == "end")
        return is_lost and self.known is None

    def described(self) -> str:
        """For people: what happened, and what is where."""
        lines = [f"seed {self.seed}: snapshot {self.snapshot} {self.database.snapshot}, {self.connector.version}, "
                 f"known {self.known}, forgets {self.forgets}, late {self.late}, declared empty {self.declared_empty}, "
                 f"mishaps {', '.join(self.mishaps) or 'none'}, full {sorted(self.full)}"]
        for one in self.transactions:
            events = [f"{change.op} {change.table[7:]} {change.old or ''}{change.new or ''}" for change in one.changes]
            lines.append(f"  transaction {one.tx} at {one.commit}: {'; '.join(events)}")
        for place, found in sorted(self.entries.items()):
            lines.append(f"  {place[0]}[{place[1]}]: " + ", ".join(_told(one) for one in found))
        return "\n".join([*lines, *(f"  stage: {stage}" for stage in self.stages)])


def _told(one: Sent) -> str:
    if one.what == "row":
        after = json.loads(one.value["source"]["sequence"])[0]
        return f"{one.tx}.{one.order}#{one.number}>{after}"
    if one.what == "read":
        return f"r{one.commit}{one.row}{one.kind[:1]}"
    if one.what == "note":
        return f"{one.kind}{dict(one.counts) or ''}"
    return f"{one.what.upper()} {one.tx}" + (f"@{one.commit}{dict(one.counts)}" if one.what == "end" else "")


def drawn(seed: int, features: Collection[str] = FEATURES) -> World:
    """The history of a seed."""
    chance = random.Random(seed)
    snapshot = chance.choice(("notified", "notified", "notified", "notified", "marked", "none"))
    number = chance.choice((0, 0, 0, 1, 1, 1, 1, 2))
    possible = [one for one in MISHAPS if one in features]
    mishaps = set(chance.sample(possible, min(number, len(possible))))
    database = Database(chance, truncates=0.15 if "TRUNCATE" in mishaps else 0, captured=snapshot != "none")
    version = OLD if "old connector" in mishaps else NEW
    connector = Connector(
        database, chance, version, notified=snapshot == "notified", steady=ANOTHER_SEQUENCE not in features
    )
    late = random.Random(f"{seed} late")
    # What a TRUNCATE takes away of rows that no record brought is not known to the judge.
    may_be_late = LATE_TABLE in features and snapshot == "notified" and "TRUNCATE" not in mishaps
    is_late = may_be_late and late.random() < 0.3
    if is_late:
        database.rare = 4
        database.tables[RARE] = [(number, "h") for number in late.sample(range(1, 60), late.choice((0, 1, 3)))]
    declared_empty = None
    lies = random.Random(f"{seed} declared empty")
    if DECLARED_EMPTY in features and not is_late and snapshot != "none" and "TRUNCATE" not in mishaps:
        declared_empty = _declared_empty(lies, database)
    drawing = _Drawing(chance, database, connector, snapshot)
    unnamed = declared_empty is not None and snapshot == "notified" and lies.random() < 0.5
    drawing.unnamed = declared_empty if unnamed else None
    if is_late:
        drawing.covers = late.choice((0, 0, 1, 3))
    drawing.live(mishaps)
    mishaps &= drawing.did | {"TRUNCATE", "old connector"}
    lost = random.Random(f"{seed} lost transaction")
    if LOST_TRANSACTION in features and not mishaps and lost.random() < 0.25 and drawing.lose(lost):
        mishaps |= {LOST_TRANSACTION}
    for feature in (ANOTHER_NUMBER, ANOTHER_PLACE):
        numbered = random.Random(f"{seed} {feature}")
        if feature in features and not mishaps and numbered.random() < 0.15 and drawing.renumber(numbered, feature):
            mishaps |= {feature}
    early = random.Random(f"{seed} {EARLY_BEGIN}")
    if EARLY_BEGIN in features and not mishaps and early.random() < 0.15 and drawing.begin_early(early):
        mishaps |= {EARLY_BEGIN}
    replaced = random.Random(f"{seed} {REPLACED_TASK}")
    if REPLACED_TASK in features and not mishaps and replaced.random() < 0.25 and drawing.send_old(replaced):
        mishaps |= {REPLACED_TASK}
    full = frozenset({KEYLESS} | ({KEYED, RARE} if chance.random() < 0.5 else set()))
    world = World(seed, snapshot, full, tuple(sorted(mishaps)), database, connector, [], late=is_late,
                  declared_empty=declared_empty, unnamed=unnamed)
    world.stages = _stages(chance, world, drawing.first)
    staged = random.Random(f"{seed} staged")
    if drawing.contradicts is not None and staged.random() < 0.5:
        # All that is whole is released then, and the next start finds what contradicts it.
        world.stages = [_before(world, *drawing.contradicts), world.whole]
    world.known = chance.choice((None, None, None, 2, 4))
    # A BEGIN without anything else is in the transaction topic alone, so what that forgets nothing shows any more.
    # Nor where the first copy of what a replaced task sends once more was.
    world.forgets = chance.random() < 0.2 and not {LOST_TRANSACTION, EARLY_BEGIN, REPLACED_TASK} & mishaps
    return world


def _declared_empty(chance: random.Random, database: Database) -> str | None:
    """At times a table that keeps its rows, or has some, and the snapshot has none of them."""
    if chance.random() > 0.3:
        return None
    table = chance.choice((KEYED, KEYLESS, RARE))
    if not database.tables[table]:
        database.tables[table] = [(number, "h") for number in chance.sample(range(1, 60), chance.choice((1, 1, 2, 3)))]
    if table == RARE:
        database.rare = 4
    database.snapshot[table] = []
    return table


class _Drawing:
    """Makes the topics; ``did`` has the mishaps that there was an occasion for."""

    def __init__(self, chance: random.Random, database: Database, connector: Connector, snapshot: str) -> None:
        self.chance, self.database, self.connector, self.snapshot = chance, database, connector, snapshot
        self.did: set[str] = set()
        #: Of each partition how much is of the first snapshot, where nothing else counts its rows.
        self.first: Cut = {}
        #: From which transaction on the connector covers the table that is covered late; None: there is none.
        self.covers: int | None = None
        #: The table that no snapshot scans.
        self.unnamed: str | None = None
        #: Where in the transaction topic an END stands that contradicts what is before it; the transaction whose rows
        #: have not come before it, if there is one.
        self.contradicts: tuple[int, int | None] | None = None

    @property
    def scanned(self) -> dict[str, list[Row]]:
        """What the first snapshot scans."""
        left = {self.unnamed, None if self.covers is None else RARE}
        return {table: rows for table, rows in self.database.snapshot.items() if table not in left}

    def live(self, mishaps: set[str]) -> None:
        chance, connector, database = self.chance, self.connector, self.database
        lsn = database.lsn
        if self.snapshot != "none":
            if "snapshot begun twice" in mishaps and connector.notified:
                self.did.add("snapshot begun twice")
                first = lsn - chance.choice((0, 0, 5))
                for _ in range(chance.choice((1, 1, 2))):
                    connector.snapshot(self.scanned, first, broken_off=True)
            connector.snapshot(self.scanned, lsn)
            self.first = {place: len(found) for place, found in self.entries.items()}
        database.live(chance.choice((0, 1, 2, 3, 4, 6, 8)))
        for one in database.transactions[:self.covers or 0]:
            one.hide(RARE)
        connector.stream(chance.choice((0, 0, 1, 2, 3)))
        for mishap in MISHAPS:
            if mishap in mishaps and hasattr(self, _method(mishap)):
                if getattr(self, _method(mishap))():
                    self.did.add(mishap)

    @property
    def entries(self) -> dict[Place, list[Sent]]:
        return self.connector.topics.entries

    def _one(self, *, captured: bool = True) -> Transaction | None:
        found = [one for one in self.database.transactions if one.captured or not captured]
        return self.chance.choice(found) if found else None

    def _ends(self) -> list[Sent]:
        return self.entries.get((TRANSACTIONS, 0), [])

    def _torn_end(self) -> bool:
        """END counts fewer rows of a table than were sent, in every copy."""
        one, ends = self._one(), self._ends()
        if one is None:
            return False
        table = self.chance.choice(one.captured).table
        fewer = self.chance.choice((1, 1, 2, 99))
        for at, sent in enumerate(ends):
            if sent.what == "end" and sent.tx == one.tx:
                counts = Counter(dict(sent.counts))
                counts[table] = max(0, counts[table] - fewer)
                ends[at] = self.connector.end(one, counts)
        return True

    def _lost_end(self) -> bool:
        """No copy of it is in the topic."""
        one, ends = self._one(), self._ends()
        if one is None:
            return False
        ends[:] = [sent for sent in ends if sent.what != "end" or sent.tx != one.tx]
        return True

    def lose(self, chance: random.Random) -> bool:
        """No copy of the END of a transaction is in the topics, and none of its rows; it may have no captured ones."""
        if self.contradicts is not None or not self.database.transactions:
            return False
        gone = chance.choice(self.database.transactions).tx
        for sent in self.entries.values():
            sent[:] = [one for one in sent if one.what not in ("end", "row", "tombstone") or one.tx != gone]
        return True

    def send_old(self, chance: random.Random) -> bool:
        """A part of the stream stands once more somewhere behind its first copies, in its order in each partition."""
        events, topics, salt = self.connector.events(), self.connector.topics, chance.random()
        if not events:
            return False
        first = chance.randrange(len(events))
        least = Counter[Place]()
        for one in self.connector.sent_again(events[first:first + chance.choice((1, 1, 2, 3, 5, 8))]):
            there = topics.entries.setdefault(topics.place(one, salt), [])
            copies = [at for at, other in enumerate(there) if (one.what, one.tx, one.order) == (
                other.what, other.tx, other.order)]
            low = max(least[topics.place(one, salt)], copies[0] + 1 if copies else len(there))
            at = chance.choice((low, len(there), chance.randint(low, len(there))))
            there.insert(at, one)
            least[topics.place(one, salt)] = at + 1
        return True

    def begin_early(self, chance: random.Random) -> bool:
        """A BEGIN and the END before it have changed places; none of its transaction stands before them."""
        sent = self._ends()
        first = {(one.what, one.tx): at for at, one in reversed([*enumerate(sent)])}
        found = [at for at, (one, other) in enumerate(pairwise(sent)) if (one.what, other.what) == ("end", "begin")
                 and first[one.what, one.tx] == at and first[other.what, other.tx] == at + 1]
        if self.contradicts is not None or not found:
            return False
        at = chance.choice(found)
        sent[at], sent[at + 1] = sent[at + 1], sent[at]
        return True

    def renumber(self, chance: random.Random, feature: str) -> bool:
        """A row is sent again with another number, or place; or all its copies have that of another row of it."""
        found = [(place, at) for place, sent in self.entries.items()
                 for at, one in enumerate(sent) if one.what == "row"]
        if self.contradicts is not None or self.connector.version == OLD or not found:
            return False
        place, at = chance.choice(found)
        one, sent = self.entries[place][at], self.entries[place]
        rows = {(row.order, row.number) for part in self.entries.values() for row in part
                if row.what == "row" and (row.tx, row.table) == (one.tx, one.table) and row.order != one.order}
        beside = (max([*rows, (one.order, one.number)])[0] + 1, one.number + 1)
        order, number = chosen = chance.choice([*sorted(rows), beside])
        if feature == ANOTHER_NUMBER:
            order = one.order
        else:
            number = one.number
        placed = {"total_order": order, "data_collection_order": number}
        value = {**one.value, "transaction": {**one.value["transaction"], **placed}}
        other = replace(one, value=value, order=order, number=number)
        if chance.random() < 0.3 and chosen != beside:
            # No copy of it has its own.
            for part in self.entries.values():
                part[:] = [other if row.what == "row" and (row.tx, row.order) == (one.tx, one.order) else row
                           for row in part]
        else:
            sent.insert(chance.randint(at + 1, len(sent)), other)
        return True

    def _late_end(self) -> bool:
        """It comes for the first time after that of a later transaction."""
        one, ends = self._one(captured=False), self._ends()
        mine = [at for at, sent in enumerate(ends) if one is not None and sent.what == "end" and sent.tx == one.tx]
        commit = ends[mine[0]].commit if mine else 0
        later = [at for at, sent in enumerate(ends) if mine and sent.what == "end" and sent.commit > commit]
        if not later:
            return False
        moved = ends[mine[0]]
        after = self.chance.choice(later)
        kept = [sent for at, sent in enumerate(ends) if at not in mine or at > after]
        kept.insert(kept.index(ends[after]) + 1, moved)
        self.contradicts = kept.index(moved), moved.tx
        ends[:] = kept
        return True

    def _two_ends(self) -> bool:
        """Another END of a transaction, or of another one at the same LSN, contradicts the first."""
        one, ends = self._one(), self._ends()
        found = [sent for sent in ends if one is not None and sent.what == "end" and sent.tx == one.tx]
        if one is None or not found:
            return False
        counts = Counter(dict(found[0].counts))
        counts[self.chance.choice(one.captured).table] += self.chance.choice((-1, 1))
        counts = Counter({table: number for table, number in counts.items() if number > 0})
        at = self.chance.randint(ends.index(found[0]) + 1, len(ends))
        self.contradicts = at, None
        ends.insert(at, self.connector.end(one, counts))
        return True

    def _early_end(self) -> bool:
        """END of a transaction that was committed before the snapshot."""
        if self.snapshot == "none" or not any(self.database.snapshot.values()):
            return False
        early = Transaction(99, SNAPSHOT_LSN - self.chance.choice((0, 3)))
        ends = self.entries.setdefault((TRANSACTIONS, 0), [])
        ends.insert(self.chance.choice((0, 0, self.chance.randint(0, len(ends)))), self.connector.end(early, Counter()))
        return True

    def _another_row(self) -> bool:
        """A row is sent again, and is another one."""
        found = [(place, at) for place, sent in self.entries.items() for at, one in enumerate(sent)
                 if one.what == "row" and one.change is not None and one.change.op == "c"]
        if not found:
            return False
        place, at = self.chance.choice(found)
        one = self.entries[place][at]
        assert one.change is not None and one.change.new is not None
        transaction = next(some for some in self.database.transactions if some.tx == one.tx)
        change = replace(one.change, new=(one.change.new[0], "other"))
        after = json.loads(one.value["source"]["sequence"])[0]
        (other,) = self.connector.row(transaction, change, one.order, one.number, None if after is None else int(after))
        self.entries[place].insert(self.chance.randint(at + 1, len(self.entries[place])), other)
        return True

    def _one_place(self) -> bool:
        """A row has the number that one of another table has among all rows of the transaction."""
        found = [(one.tx, order, other) for one in self.database.transactions
                 for order, change in enumerate(one.changes, 1) for other, second in enumerate(one.changes, 1)
                 if change.table != second.table and {change, second} <= {*one.captured}]
        if not found or self.connector.version == OLD:
            return False
        tx, order, other = self.chance.choice(found)
        for sent in self.entries.values():
            for at, one in enumerate(sent):
                if one.what == "row" and (one.tx, one.order) == (tx, order):
                    moved = {**one.value, "transaction": {**one.value["transaction"], "total_order": other}}
                    sent[at] = replace(one, value=moved, order=other)
        return True

    def _lost_row(self) -> bool:
        """No copy of it is in the topics."""
        rows = {(one.tx, one.order) for sent in self.entries.values() for one in sent if one.what == "row"}
        if not rows:
            return False
        gone = self.chance.choice(sorted(rows))
        for sent in self.entries.values():
            sent[:] = [one for one in sent if one.what not in ("row", "tombstone") or (one.tx, one.order) != gone]
        return True

    def _second_snapshot(self) -> bool:
        """After the stream: the slot was lost, and there is a new one."""
        if not self.connector.notified:
            return False
        database = self.database
        database.lsn += self.chance.randint(1, 40)
        self.connector.snapshot(database.tables, database.lsn)
        return True

    def _late_snapshot_row(self) -> bool:
        """One was sent twice into the topic, and another one comes when they are as many as were scanned."""
        return self._again(late=True)

    def _one_snapshot_row_more(self) -> bool:
        """One was sent twice into the topic."""
        return self._again(late=False)

    def _again(self, *, late: bool) -> bool:
        reads = [(place, at) for place, sent in self.entries.items() for at, one in enumerate(sent)
                 if one.what == "read"]
        if not reads or self.snapshot != "notified":
            return False
        place, at = self.chance.choice(reads)
        others = [one for one in reads if one[0] != place and one[0][0] == place[0]]
        if late and not others:
            return False
        sent = self.entries[place]
        sent.insert(self.chance.randint(at + 1, len(sent)), sent[at])
        if late:
            other, number = self.chance.choice(others)
            moved = self.entries[other].pop(number)
            self.entries[other].insert(self.chance.randint(number, len(self.entries[other])), moved)
        return True


def _method(mishap: str) -> str:
    return "_" + mishap.lower().replace(" ", "_")


def _before(world: World, at: int, late: int | None) -> Cut:
    """All up to a place in the transaction topic; of partitions that have rows of a late transaction what is before.

    So what is whole without it is given out.
    """
    cut = world.whole
    for place, sent in world.entries.items():
        rows = [row for row, one in enumerate(sent) if one.what == "row" and one.tx == late]
        cut[place] = min(rows, default=cut[place])
    return cut | {(TRANSACTIONS, 0): at}


def _stages(chance: random.Random, world: World, first: Cut) -> list[Cut]:
    """Some cuts, each beyond the one before; in the last is all, or at times not quite."""
    whole, cuts = world.whole, list[Cut]()
    # Without a number of a snapshot's rows, it is complete when the capture looks.
    cut = dict.fromkeys(whole, 0) | (first if world.snapshot == "marked" else {})
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        for place, end in whole.items():
            if chance.random() < 0.6:
                cut[place] = chance.randint(cut[place], end)
        cuts.append(dict(cut))
    return [*cuts, whole]


def recipe_words(world: World) -> dict[str, Any]:
    """The arguments of a capture of this history beside its tables."""
    more: dict[str, Any] = {"full_identity": world.full}
    if world.snapshot == "none":
        more["snapshot"] = "none"
    if world.snapshot == "notified":
        more["notification_topic"] = NOTIFICATIONS
    if world.unnamed and world.declared_empty is not None:
        more["empty"] = frozenset({world.declared_empty})
    if world.snapshot != "notified":
        # Only this shows that the connector covers them.
        more["empty"] = frozenset(table for table, rows in world.database.snapshot.items() if not rows)
    return more
