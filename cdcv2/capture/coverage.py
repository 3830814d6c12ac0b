"""Tables of which the connector never spoke: nothing is stated of them until it does.

A table has a row type, and the connector may not capture it: it is not in ``table.include.list``, or not in the
publication. Nothing tells that from a table without rows but what the connector states: it names each table that its
snapshot covered. Without such a word nothing may be stated. If the connector covers the table later, its rows come, and
the first END that counts some is the first time of which something is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdcv2.capture.snapshot import Run


def unnamed(run: Run, rows: Mapping[str, int], tables: Iterable[str]) -> frozenset[str]:
    """The tables that a completed run does not name, and that have no rows in it.

    >>> sorted(unnamed(Run({"a": 0}, 4), {"c": 1}, ["a", "b", "c"]))
    ['b']

    Source: a connector names in its notifications each table that it scans, one without rows, too.
    """
    return frozenset(table for table in tables if not run.names(table) and not rows.get(table))


class Uncovered:
    """The tables that are not covered yet.

    >>> uncovered = Uncovered(["b", "c"])
    >>> uncovered.begin({"a": 1, "b": 2}), uncovered.begin({"b": 1})
    (['b'], [])
    >>> sorted(uncovered.tables)
    ['c']

    Cost: linear in the tables that are not covered.
    """

    def __init__(self, tables: Iterable[str] = ()) -> None:
        self._tables = set(tables)

    @property
    def tables(self) -> frozenset[str]:
        """Which they are."""
        return frozenset(self._tables)

    def add(self, tables: Iterable[str]) -> None:
        """These are not covered, either."""
        self._tables.update(tables)

    def begin(self, counts: Mapping[str, int]) -> list[str]:
        """An END counts these rows, by table, in the order of commits: the tables that are covered from it on."""
        begun = sorted(table for table in self._tables if counts.get(table))
        self._tables.difference_update(begun)
        return begun
