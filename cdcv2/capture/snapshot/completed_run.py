"""A completed run of a connector's snapshot: what its notifications state of each table. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple


class SnapshotRun(NamedTuple):
    """A completed run: the rows of each table that it scanned (None: see ``wrong``).

    ``behind`` is the offset behind its last notification. ``skipped``: there was no snapshot, so no table has rows.
    ``wrong`` has, of a table without a number that can be believed, what is wrong with its scan.
    """

    scanned: Mapping[str, int | None]
    behind: int
    skipped: bool = False
    wrong: Mapping[str, str] = MappingProxyType({})

    def names(self, table: str) -> bool:
        """Whether the run covered the table."""
        return self.skipped or table in self.scanned

    def rows(self, table: str) -> int | None:
        """How many rows of the table there are; None: unknown.

        >>> run = SnapshotRun({"a": 2, "b": None}, 4)
        >>> run.rows("a"), run.rows("b"), run.rows("c"), SnapshotRun({}, 1, skipped=True).rows("c")
        (2, None, None, 0)
        """
        return 0 if self.skipped else self.scanned.get(table)

    def counts(self, tables: Iterable[str]) -> dict[str, int]:
        """How many rows each of these tables has; one whose number is unknown counts as 0."""
        return {table: self.rows(table) or 0 for table in tables}
