"""A database, and what it did: lists of rows and nothing else, so that what its tables held after each commit is plain.

Three tables are captured, all with REPLICA IDENTITY FULL: one with a key, one without, in which equal rows are common,
and one with a key that few transactions touch. A fourth is not captured, and no topic has its rows.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

KEYED, KEYLESS, RARE, OTHER = "public.a", "public.b", "public.c", "public.other"
TABLES = (KEYED, KEYLESS, RARE)
#: An empty table's snapshot has this LSN if no other table has a row.
SNAPSHOT_LSN = 1000
Row = tuple[int, str]
#: Of a table, so many of each row more, or less.
Difference = Counter[Row]


@dataclass(frozen=True)
class Change:
    """One event of the connector: ``op`` is c, u, d or t."""

    table: str
    op: str
    old: Row | None
    new: Row | None


@dataclass
class Transaction:
    """What was committed at the LSN ``commit``, and what each captured table had more or less then than before."""

    tx: int
    commit: int
    changes: list[Change] = field(default_factory=list)
    differences: dict[str, Difference] = field(default_factory=dict)

    @property
    def captured(self) -> list[Change]:
        """Those of the captured tables."""
        return [change for change in self.changes if change.table in TABLES]

    def hide(self, table: str) -> None:
        """The connector does not cover the table yet: of its changes nothing is known."""
        self.changes = [replace(one, table=OTHER) if one.table == table else one for one in self.changes]
        self.differences[table] = Counter()


class Database:
    """It lives by chance."""

    def __init__(self, chance: random.Random, *, truncates: float, captured: bool) -> None:
        self.chance, self.truncates = chance, truncates
        self.tables: dict[str, list[Row]] = {table: [] for table in TABLES}
        if captured:
            for _ in range(chance.choice((0, 1, 2, 4, 6))):
                self._insert(chance.choice((KEYED, KEYLESS, KEYLESS)))
        self.snapshot = {table: list(rows) for table, rows in self.tables.items()}
        self.lsn = SNAPSHOT_LSN
        #: How often a statement is of the table that few touch.
        self.rare = 1
        self.transactions: list[Transaction] = []
        # Ids of transactions are in no order.
        self._ids = iter(chance.sample(range(100, 400), 60))

    def live(self, transactions: int) -> None:
        """Commit so many."""
        for _ in range(transactions):
            self._commit()

    def _commit(self) -> None:
        before = {table: Counter(rows) for table, rows in self.tables.items()}
        one = Transaction(next(self._ids), 0)
        for _ in range(self.chance.choice((0, 1, 1, 2, 3, 5))):
            one.changes += self._statement()
        self.lsn += self.chance.randint(2, 40)
        one.commit = self.lsn
        for table, rows in self.tables.items():
            changed = Counter(rows)
            changed.subtract(before[table])
            one.differences[table] = Counter({row: number for row, number in changed.items() if number})
        self.transactions.append(one)

    def _statement(self) -> list[Change]:
        chance = self.chance
        table = chance.choice((KEYED, KEYED, KEYED, KEYLESS, KEYLESS, KEYLESS, *[RARE] * self.rare, OTHER))
        if table == OTHER:
            return [Change(OTHER, "c", None, (1, "x"))]
        rows, what = list(self.tables[table]), chance.random()
        if what < self.truncates:
            self.tables[table].clear()
            return [Change(table, "t", None, None)]
        if not rows or what < 0.4:
            return [self._insert(table)]
        if what < 0.5 and table == KEYLESS:
            # Several equal rows by one statement.
            row = (chance.randint(1, 2), chance.choice("xy"))
            self.tables[table] += [row] * 3
            return [Change(table, "c", None, row)] * 3
        old = chance.choice(rows)
        if what < 0.7:
            self.tables[table].remove(old)
            return [Change(table, "d", old, None)]
        new = (old[0] if chance.random() < 0.7 else self._number(table), chance.choice("xyz"))
        rows[rows.index(old)] = new
        self.tables[table] = rows
        if table != KEYLESS and new[0] != old[0]:
            return [Change(table, "d", old, None), Change(table, "c", None, new)]
        return [Change(table, "u", old, new)]

    def _insert(self, table: str) -> Change:
        row = (self._number(table), self.chance.choice("xyz"))
        self.tables[table].append(row)
        return Change(table, "c", None, row)

    def _number(self, table: str) -> int:
        """A key that is free; without a key, any."""
        taken = set() if table == KEYLESS else {number for number, _ in self.tables[table]}
        return self.chance.choice([number for number in range(1, 60) if number not in taken][:6])


def difference(changes: list[Change], before: Difference) -> Difference:
    """What these events of one table add and take away, in their order; it held ``before``."""
    found: Difference = Counter()
    for change in changes:
        if change.op == "t":
            found = Counter({row: -number for row, number in before.items()})
        for row, sign in ((change.old, -1), (change.new, 1)):
            if row is not None:
                found[row] += sign
    return Counter({row: number for row, number in found.items() if number})


def image(row: Row | None) -> dict[str, Any] | None:
    """The row in JSON."""
    return None if row is None else {"id": row[0], "v": row[1]}
