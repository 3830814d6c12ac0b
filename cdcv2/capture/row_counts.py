"""How many rows the tables have, as far as all is released: no transaction changes a row that cannot be there.

A table that a snapshot covers has as many rows as the snapshot brought, and as every transaction since then left. This
number is the sum of the diffs in its log. So it is a function of the logs, and a restart knows it. It contradicts what
was declared of the snapshot (``--empty``, or a notification that counts too few rows) in two cases:

- the table has no row, and the first row of it in the next transaction is an update or a delete;
- the next transaction takes away more rows than the table has.

Both look at counts, never at rows: which row an update names is compared only where before-images are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TableEffect(NamedTuple):
    """What a transaction does to a table: ``more`` rows than before (fewer, if negative).

    ``had``: its first row shows that the table :func:`~cdcv2.capture.coverage.had_rows` before.
    """

    more: int
    had: bool


class RowCounts:
    """The number of rows of each table that a snapshot covered; ``logs`` has for each log that number at some time.

    A transaction before that time is counted in it already. A table of which nothing is known is not judged.

    >>> counts = RowCounts({"a": (0, 71), "b": (2, 90)})
    >>> counts.take(80, {"a": TableEffect(1, False), "b": TableEffect(-9, True)})
    >>> counts.take(95, {"a": TableEffect(0, True), "b": TableEffect(-3, True)}), counts.rows("b")
    ('b', 2)
    >>> counts.begin({"c": 0}); counts.take(71, {"c": TableEffect(0, True), "b": TableEffect(-3, True)})
    'c'

    Cost: linear in the tables of a transaction. Memory: two numbers for each table.
    """

    def __init__(self, logs: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._rows = dict(logs or {})

    def copy(self) -> RowCounts:
        """Another one that counts the same."""
        return RowCounts(self._rows)

    def rows(self, table: str) -> int:
        """How many rows the table has; 0 if that is unknown."""
        return self._rows.get(table, (0, 0))[0]

    def begin(self, snapshot: Mapping[str, int]) -> None:
        """The snapshot is released, with so many rows of each table that it covers; no other table is judged."""
        self._rows = {table: (rows, 0) for table, rows in snapshot.items()}

    def take(self, time: int, effects: Mapping[str, TableEffect]) -> str | None:
        """Count a transaction at ``time``, in the order of commits; or the table that lacks rows: then count nothing.

        Of several tables it is the first by name.
        """
        judged = {table: one for table, one in effects.items() if time >= self._rows.get(table, (0, time + 1))[1]}
        for table, (more, had) in sorted(judged.items()):
            rows = self.rows(table)
            if rows + more < 0 or (had and not rows):
                return table
        for table, (more, _) in judged.items():
            rows, since = self._rows[table]
            self._rows[table] = rows + more, since
        return None
